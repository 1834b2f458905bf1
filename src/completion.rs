//! What a completion queue yields.

use crate::{Buf, QpNumber, SrqNumber};
use std::fmt;
use thiserror::Error;

/// One finished work request. A request that failed is a completion too: look at `status`.
#[derive(Debug)]
#[non_exhaustive]
pub struct Completion {
    /// What was finished. It comes from the crate's own record of the request, so it holds for a failed
    /// one too.
    pub kind: CompletionKind,
    /// The number that was given when the request was posted.
    pub tag: u64,
    /// The buffer that was posted. None for a send that gave its buffer back at once (inline).
    pub buf: Option<Buf>,
    /// Whether it succeeded.
    pub status: Result<(), WcError>,
    /// The local queue pair: for a send the initiator, for a receive the target it came through.
    pub qp_number: QpNumber,
}

/// What a completion finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CompletionKind {
    /// A send.
    Send,
    /// A receive.
    #[non_exhaustive]
    Receive {
        /// The SRQ that the buffer was posted to.
        srq: SrqNumber,
        /// The message's length as the device reports it, 0 if the receive failed. The buffer's length
        /// is this, cut to its capacity.
        byte_len: u32,
        /// The immediate value, where the message has one.
        imm: Option<u32>,
    },
}

/// Why a work request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{status} (vendor code {vendor_err:#x})")]
pub struct WcError {
    /// The reason.
    pub status: WcStatus,
    /// The device's own code.
    pub vendor_err: u32,
}

macro_rules! statuses {
    ($($name:ident = $code:literal, $text:literal;)*) => {
        /// The reason of a failed work request, named after the constants of verbs.h.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum WcStatus {
            $(#[doc = $text] $name,)*
            /// A number that this crate does not know.
            Unknown(u32),
        }

        impl WcStatus {
            /// From the number in a completion, which is not 0.
            pub(crate) fn from_code(code: u32) -> Self {
                match code {
                    $($code => Self::$name,)*
                    other => Self::Unknown(other),
                }
            }

            /// The number that verbs use.
            pub fn code(self) -> u32 {
                match self {
                    $(Self::$name => $code,)*
                    Self::Unknown(code) => code,
                }
            }
        }

        impl fmt::Display for WcStatus {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$name => f.write_str($text),)*
                    Self::Unknown(code) => write!(f, "status {code}"),
                }
            }
        }
    };
}

statuses! {
    LocalLength = 1, "local length error";
    LocalQpOperation = 2, "local QP operation error";
    LocalEecOperation = 3, "local EE context operation error";
    LocalProtection = 4, "local protection error";
    WorkRequestFlushed = 5, "work request flushed";
    MemoryWindowBind = 6, "memory window bind error";
    BadResponse = 7, "bad response";
    LocalAccess = 8, "local access error";
    RemoteInvalidRequest = 9, "remote invalid request";
    RemoteAccess = 10, "remote access error";
    RemoteOperation = 11, "remote operation error";
    RetryExceeded = 12, "transport retry counter exceeded";
    RnrRetryExceeded = 13, "RNR retry counter exceeded";
    LocalRddViolation = 14, "local RDD violation";
    RemoteInvalidRdRequest = 15, "remote invalid RD request";
    RemoteAborted = 16, "remote aborted";
    InvalidEecNumber = 17, "invalid EE context number";
    InvalidEecState = 18, "invalid EE context state";
    Fatal = 19, "fatal error";
    ResponseTimeout = 20, "response timeout";
    General = 21, "general error";
    TagMatching = 22, "tag matching error";
    TagMatchingRendezvous = 23, "tag matching rendezvous incomplete";
}

/// A completion as the device reports it, with nothing in it that an error leaves undefined.
pub(crate) struct Arrival {
    pub wr_id: u64,
    pub status: Result<(), WcError>,
    pub qp_number: QpNumber,
    pub byte_len: u32,
    pub imm: Option<u32>,
    /// Whether `byte_len` counts bytes in the posted buffer. A peer's RDMA write with immediate consumes
    /// a receive too, and its length is that of the write.
    pub in_buffer: bool,
}

impl Arrival {
    /// How many bytes lie in the posted buffer, before they are cut to its size.
    pub(crate) fn received(&self) -> usize {
        if self.status.is_ok() && self.in_buffer { self.byte_len as usize } else { 0 }
    }

    pub(crate) fn receive(&self, srq: SrqNumber) -> CompletionKind {
        match self.status {
            Ok(()) => CompletionKind::Receive { srq, byte_len: self.byte_len, imm: self.imm },
            Err(_) => CompletionKind::Receive { srq, byte_len: 0, imm: None },
        }
    }
}
