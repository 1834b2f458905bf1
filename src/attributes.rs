//! Which attributes a transition takes, by role: the kernel's table for XRC, as data.
//!
//! XRC is not RC here. An initiator has no responder, so it takes none of the responder's attributes; a
//! target has no requester. What uverbs would strip without a word is a mistake of the caller's too.

use std::{
    fmt,
    ops::{BitOr, BitOrAssign},
};

/// A set of QP attributes, with the bits of `enum ibv_qp_attr_mask`.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Attributes(u32);

macro_rules! attributes {
    ($($name:ident = $bit:literal;)*) => {
        impl Attributes {
            $(pub(crate) const $name: Self = Self(1 << $bit);)*

            const NAMES: &[(Self, &str)] = &[$((Self::$name, stringify!($name)),)*];
        }
    };
}

attributes! {
    STATE = 0;
    CUR_STATE = 1;
    EN_SQD_ASYNC_NOTIFY = 2;
    ACCESS_FLAGS = 3;
    PKEY_INDEX = 4;
    PORT = 5;
    QKEY = 6;
    AV = 7;
    PATH_MTU = 8;
    TIMEOUT = 9;
    RETRY_CNT = 10;
    RNR_RETRY = 11;
    RQ_PSN = 12;
    MAX_QP_RD_ATOMIC = 13;
    ALT_PATH = 14;
    MIN_RNR_TIMER = 15;
    SQ_PSN = 16;
    MAX_DEST_RD_ATOMIC = 17;
    PATH_MIG_STATE = 18;
    CAP = 19;
    DEST_QPN = 20;
    RATE_LIMIT = 25;
}

impl Attributes {
    pub(crate) const NONE: Self = Self(0);

    pub(crate) const fn bits(self) -> u32 {
        self.0
    }

    const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    const fn within(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl BitOr for Attributes {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        self.and(other)
    }
}

impl BitOrAssign for Attributes {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl fmt::Display for Attributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names = Self::NAMES.iter().filter(|(bit, _)| !bit.within(*self).is_empty());
        match names.next() {
            None => write!(f, "none")?,
            Some((_, name)) => write!(f, "{name}")?,
        }
        names.try_for_each(|(_, name)| write!(f, ", {name}"))
    }
}

impl fmt::Debug for Attributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Attributes({self})")
    }
}

/// A queue pair's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum QpState {
    /// As created.
    Reset,
    /// Initialised.
    Init,
    /// Ready to receive.
    ReadyToReceive,
    /// Ready to send: connected.
    ReadyToSend,
    /// Send queue drained.
    SendQueueDrained,
    /// Send queue error.
    SendQueueError,
    /// Error: all work is flushed.
    Error,
    /// A number that this crate does not know.
    Unknown(u32),
}

impl QpState {
    pub(crate) const fn from_code(code: u32) -> Self {
        match code {
            0 => Self::Reset,
            1 => Self::Init,
            2 => Self::ReadyToReceive,
            3 => Self::ReadyToSend,
            4 => Self::SendQueueDrained,
            5 => Self::SendQueueError,
            6 => Self::Error,
            other => Self::Unknown(other),
        }
    }

    pub(crate) const fn code(self) -> u32 {
        match self {
            Self::Reset => 0,
            Self::Init => 1,
            Self::ReadyToReceive => 2,
            Self::ReadyToSend => 3,
            Self::SendQueueDrained => 4,
            Self::SendQueueError => 5,
            Self::Error => 6,
            Self::Unknown(code) => code,
        }
    }
}

impl fmt::Display for QpState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reset => "RESET",
            Self::Init => "INIT",
            Self::ReadyToReceive => "RTR",
            Self::ReadyToSend => "RTS",
            Self::SendQueueDrained => "SQD",
            Self::SendQueueError => "SQE",
            Self::Error => "ERR",
            Self::Unknown(code) => return write!(f, "state {code}"),
        })
    }
}

/// A change of state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Transition {
    pub from: QpState,
    pub to: QpState,
}

impl fmt::Display for Transition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.from, self.to)
    }
}

/// Which end of a connection a queue pair is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Initiator,
    Target,
}

/// What a transition takes.
struct Takes {
    required: Attributes,
    optional: Attributes,
}

impl Role {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Initiator => "initiator",
            Self::Target => "target",
        }
    }

    /// What uverbs drops before the kernel looks at the table, so that it has no effect.
    const fn stripped(self) -> Attributes {
        match self {
            Self::Initiator => Attributes::MAX_DEST_RD_ATOMIC.and(Attributes::MIN_RNR_TIMER),
            Self::Target => {
                Attributes::MAX_QP_RD_ATOMIC.and(Attributes::RETRY_CNT).and(Attributes::RNR_RETRY)
            }
        }
    }

    /// The kernel's table. None: no such transition.
    fn takes(self, Transition { from, to }: Transition) -> Option<Takes> {
        use Attributes as A;
        use QpState::{Error, Init, ReadyToReceive, ReadyToSend, Reset, SendQueueDrained, SendQueueError};
        let target = self == Self::Target;
        let only_target = |attribute: A| if target { attribute } else { A::NONE };
        let only_initiator = |attribute: A| if target { A::NONE } else { attribute };
        let path = A::ALT_PATH | A::ACCESS_FLAGS;
        let live = A::CUR_STATE | path | A::PATH_MIG_STATE | only_target(A::MIN_RNR_TIMER);
        let basics = A::PKEY_INDEX | A::PORT | A::ACCESS_FLAGS;
        let (required, optional) = match (from, to) {
            (Reset, Init) => (basics, A::NONE),
            (Init, Init) => (A::NONE, basics),
            (Init, ReadyToReceive) => (
                A::AV
                    | A::PATH_MTU
                    | A::DEST_QPN
                    | A::RQ_PSN
                    | only_target(A::MAX_DEST_RD_ATOMIC | A::MIN_RNR_TIMER),
                path | A::PKEY_INDEX,
            ),
            (ReadyToReceive, ReadyToSend) => (
                A::TIMEOUT | A::SQ_PSN | only_initiator(A::RETRY_CNT | A::RNR_RETRY | A::MAX_QP_RD_ATOMIC),
                live,
            ),
            (ReadyToSend, ReadyToSend) | (SendQueueDrained, ReadyToSend) => (A::NONE, live),
            (ReadyToSend, SendQueueDrained) => (A::NONE, A::EN_SQD_ASYNC_NOTIFY),
            (SendQueueDrained, SendQueueDrained) => (
                A::NONE,
                A::PORT
                    | A::AV
                    | A::TIMEOUT
                    | path
                    | A::PKEY_INDEX
                    | A::PATH_MIG_STATE
                    | only_initiator(A::RETRY_CNT | A::RNR_RETRY | A::MAX_QP_RD_ATOMIC)
                    | only_target(A::MAX_DEST_RD_ATOMIC | A::MIN_RNR_TIMER),
            ),
            (SendQueueError, ReadyToSend) => (A::NONE, A::NONE),
            (Reset, Error) | (QpState::Unknown(_), _) => return None,
            (_, Reset | Error) => (A::NONE, A::NONE),
            _ => return None,
        };
        Some(Takes { required, optional })
    }

    /// Says in words what is wrong with a transition that the kernel refused with `EINVAL`.
    pub(crate) fn explain(self, transition: Transition, given: Attributes) -> String {
        let name = self.name();
        let Some(takes) = self.takes(transition) else {
            return format!("an {name} does not go from {transition}").replace("an target", "a target");
        };
        let given = given.without(Attributes::STATE);
        let mut faults = Vec::new();
        let missing = takes.required.without(given);
        if !missing.is_empty() {
            faults.push(format!("missing: {missing}"));
        }
        let stripped = given.within(self.stripped());
        if !stripped.is_empty() {
            faults.push(format!("without effect on an {name}: {stripped}").replace("an target", "a target"));
        }
        let extra = given.without(takes.required | takes.optional | self.stripped());
        if !extra.is_empty() {
            faults.push(format!("not allowed: {extra}"));
        }
        if faults.is_empty() {
            return format!(
                "{name} from {transition}: the attributes are the right ones ({given}), so one of their values was refused"
            );
        }
        format!("{name} from {transition}: {}", faults.join("; "))
    }
}
