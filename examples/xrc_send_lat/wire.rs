//! What two sides say to each other over TCP, as bytes; `xrc_all_to_all` says it too, between each two of its
//! nodes.
//!
//! Every message is a header of 12 bytes and a payload: the magic "XRCL", the
//! version of this protocol, the kind of message, the payload's length, all
//! numbers big-endian. Whoever connects to the port may send anything, so
//! nothing is believed before it has been checked and no length is allocated
//! before it has been compared with [`PAYLOAD_MAX`].

use rdma_xrc::Mtu;

/// Opens every message.
const MAGIC: [u8; 4] = *b"XRCL";
/// Changes whenever a message's layout or meaning does.
pub const VERSION: u16 = 1;
/// Magic, version, kind, payload length.
pub const HEADER_LEN: usize = 12;
/// Longer payloads are refused.
pub const PAYLOAD_MAX: usize = 1024;

const KIND_SETTINGS: u16 = 1;
const KIND_ENDPOINT: u16 = 2;
const KIND_BARRIER: u16 = 3;
const KIND_FAILED: u16 = 4;

/// Why bytes from the other side were refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    #[error("it does not speak these programs' protocol (it began with \"{}\")", .0.escape_ascii())]
    Magic([u8; 4]),
    #[error(
        "it speaks version {0} of the protocol, this side version {VERSION}: use one release on both sides"
    )]
    Version(u16),
    #[error("it sent a message of the unknown kind {0}")]
    Kind(u16),
    #[error("it announced a message of {0} bytes, more than the {PAYLOAD_MAX} there can be")]
    TooLong(u32),
    #[error("it sent {what} that make no sense: {why}")]
    Payload { what: &'static str, why: String },
}

/// What has to be the same on both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    pub size: u32,
    pub iters: u32,
    pub all: bool,
    /// What the user asked for; `None` leaves it to the ports.
    pub mtu: Option<Mtu>,
}

/// One message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    Settings(Settings),
    /// An `Endpoint` of the crate in its own wire form.
    Endpoint(Vec<u8>),
    /// The sender has reached this step.
    Barrier(u32),
    /// The sender gives up, for this reason.
    Failed(String),
}

/// A checked header: what follows, and how much of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    kind: u16,
    pub payload_len: usize,
}

impl Header {
    pub fn decode(bytes: &[u8; HEADER_LEN]) -> Result<Header, WireError> {
        let [m0, m1, m2, m3, v0, v1, k0, k1, l0, l1, l2, l3] = *bytes;
        if [m0, m1, m2, m3] != MAGIC {
            return Err(WireError::Magic([m0, m1, m2, m3]));
        }
        let version = u16::from_be_bytes([v0, v1]);
        if version != VERSION {
            return Err(WireError::Version(version));
        }
        let kind = u16::from_be_bytes([k0, k1]);
        if !(KIND_SETTINGS..=KIND_FAILED).contains(&kind) {
            return Err(WireError::Kind(kind));
        }
        let len = u32::from_be_bytes([l0, l1, l2, l3]);
        match usize::try_from(len) {
            Ok(payload_len) if payload_len <= PAYLOAD_MAX => Ok(Header { kind, payload_len }),
            _ => Err(WireError::TooLong(len)),
        }
    }

    /// Whether the message that follows is [`Message::Failed`].
    pub fn is_failure(&self) -> bool {
        self.kind == KIND_FAILED
    }
}

impl Message {
    pub fn encode(&self) -> Vec<u8> {
        let (kind, payload) = match self {
            Message::Settings(settings) => (KIND_SETTINGS, settings.encode().to_vec()),
            Message::Endpoint(bytes) => (KIND_ENDPOINT, bytes.clone()),
            Message::Barrier(step) => (KIND_BARRIER, step.to_be_bytes().to_vec()),
            Message::Failed(reason) => (KIND_FAILED, cut(reason, PAYLOAD_MAX).as_bytes().to_vec()),
        };
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_be_bytes());
        bytes.extend(kind.to_be_bytes());
        bytes.extend((payload.len() as u32).to_be_bytes());
        bytes.extend(payload);
        bytes
    }

    pub fn decode(header: Header, payload: &[u8]) -> Result<Message, WireError> {
        let wrong = |what, why: &str| WireError::Payload { what, why: why.to_owned() };
        match header.kind {
            KIND_SETTINGS => Settings::decode(payload).map(Message::Settings),
            KIND_ENDPOINT => Ok(Message::Endpoint(payload.to_vec())),
            KIND_BARRIER => payload
                .try_into()
                .map(|step| Message::Barrier(u32::from_be_bytes(step)))
                .map_err(|_| wrong("barrier steps", "4 bytes were expected")),
            KIND_FAILED => Ok(Message::Failed(printable(payload))),
            kind => Err(WireError::Kind(kind)),
        }
    }

    /// For errors: what kind of message this is.
    pub fn name(&self) -> &'static str {
        match self {
            Message::Settings(_) => "its settings",
            Message::Endpoint(_) => "its endpoint",
            Message::Barrier(_) => "a barrier step",
            Message::Failed(_) => "a failure",
        }
    }
}

/// A peer's words as they may go to a terminal: control characters, which could
/// be escape sequences, become spaces.
fn printable(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// The longest beginning of `text` that fits into `most` bytes and cuts no
/// character in two.
fn cut(text: &str, most: usize) -> &str {
    let at = (0..=most.min(text.len())).rev().find(|&at| text.is_char_boundary(at));
    &text[..at.unwrap_or(0)]
}

impl Settings {
    const LEN: usize = 13;

    fn encode(&self) -> [u8; Settings::LEN] {
        let mut bytes = [0; Settings::LEN];
        bytes[0..4].copy_from_slice(&self.size.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.iters.to_be_bytes());
        bytes[8] = self.all.into();
        bytes[9..13].copy_from_slice(&self.mtu.map_or(0, Mtu::bytes).to_be_bytes());
        bytes
    }

    fn decode(payload: &[u8]) -> Result<Settings, WireError> {
        let wrong = |why: String| WireError::Payload { what: "settings", why };
        let &[s0, s1, s2, s3, n0, n1, n2, n3, all, m0, m1, m2, m3] = payload else {
            return Err(wrong(format!("{} bytes instead of {}", payload.len(), Settings::LEN)));
        };
        let all = match all {
            0 => false,
            1 => true,
            other => return Err(wrong(format!("{other} for yes or no"))),
        };
        let mtu = match u32::from_be_bytes([m0, m1, m2, m3]) {
            0 => None,
            bytes => Some(Mtu::from_bytes(bytes).ok_or_else(|| wrong(format!("an MTU of {bytes}")))?),
        };
        Ok(Settings {
            size: u32::from_be_bytes([s0, s1, s2, s3]),
            iters: u32::from_be_bytes([n0, n1, n2, n3]),
            all,
            mtu,
        })
    }

    /// The MTU to use when both sides can run together (`None`: the ports'
    /// own), or else what differs, in the user's terms.
    pub fn agree(&self, peer: &Settings) -> Result<Option<Mtu>, String> {
        let differs = |what: &str, here: String, there: String| {
            Err(format!("{what} is {here} on this side and {there} on the other"))
        };
        let all = |settings: &Settings| if settings.all { "given" } else { "not given" };
        if self.all != peer.all {
            return differs("-a", all(self).into(), all(peer).into());
        }
        if !self.all && self.size != peer.size {
            return differs("the size (-s)", self.size.to_string(), peer.size.to_string());
        }
        if self.iters != peer.iters {
            let what = "the number of iterations (-n)";
            return differs(what, self.iters.to_string(), peer.iters.to_string());
        }
        match (self.mtu, peer.mtu) {
            (Some(here), Some(there)) if here != there => {
                differs("the MTU (-m)", here.bytes().to_string(), there.bytes().to_string())
            }
            (here, there) => Ok(here.or(there)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: Settings = Settings { size: 64, iters: 1000, all: false, mtu: None };

    fn decode(bytes: &[u8]) -> Result<Message, WireError> {
        let header = Header::decode(bytes[..HEADER_LEN].try_into().expect("a header"))?;
        assert_eq!(header.payload_len, bytes.len() - HEADER_LEN);
        Message::decode(header, &bytes[HEADER_LEN..])
    }

    #[test]
    fn messages_go_there_and_back() {
        for message in [
            Message::Settings(SETTINGS),
            Message::Settings(Settings { all: true, mtu: Some(Mtu::Mtu2048), ..SETTINGS }),
            Message::Endpoint(vec![]),
            Message::Endpoint((0..200).collect()),
            Message::Barrier(0x0102_0304),
            Message::Failed("no memory: ü".into()),
        ] {
            assert_eq!(decode(&message.encode()), Ok(message));
        }
    }

    #[test]
    fn the_layout_is_fixed() {
        let bytes = Message::Settings(Settings { mtu: Some(Mtu::Mtu1024), ..SETTINGS }).encode();
        assert_eq!(
            bytes,
            [
                b'X', b'R', b'C', b'L', 0, 1, 0, 1, 0, 0, 0, 13, // header
                0, 0, 0, 64, 0, 0, 3, 232, 0, 0, 0, 4, 0, // size, iters, all, mtu
            ]
        );
    }

    #[test]
    fn hostile_headers_are_refused() {
        let good = Message::Barrier(1).encode();
        let with = |at: usize, bytes: &[u8]| {
            let mut header: [u8; HEADER_LEN] = good[..HEADER_LEN].try_into().expect("a header");
            header[at..at + bytes.len()].copy_from_slice(bytes);
            Header::decode(&header)
        };
        assert_eq!(with(0, b"GET "), Err(WireError::Magic(*b"GET ")));
        assert_eq!(with(4, &[0, 2]), Err(WireError::Version(2)));
        assert_eq!(with(6, &[0, 0]), Err(WireError::Kind(0)));
        assert_eq!(with(6, &[0, 5]), Err(WireError::Kind(5)));
        assert_eq!(with(8, &[0xff; 4]), Err(WireError::TooLong(u32::MAX)));
        assert_eq!(with(8, &[0, 0, 4, 1]), Err(WireError::TooLong(1025)));
        assert!(with(8, &[0, 0, 4, 0]).is_ok());
    }

    #[test]
    fn hostile_payloads_are_refused() {
        let settings = |payload: &[u8]| {
            let header = Header { kind: KIND_SETTINGS, payload_len: payload.len() };
            Message::decode(header, payload).expect_err("senseless settings").to_string()
        };
        let good = SETTINGS.encode();
        assert!(settings(&good[..12]).contains("12 bytes instead of 13"));
        let mut bad = good;
        bad[8] = 2;
        assert!(settings(&bad).contains("2 for yes or no"));
        let mut bad = good;
        bad[12] = 7;
        assert!(settings(&bad).contains("an MTU of 7"));
        let barrier = Header { kind: KIND_BARRIER, payload_len: 3 };
        assert!(Message::decode(barrier, &[1, 2, 3]).is_err());
    }

    #[test]
    fn words_of_the_peer_cannot_drive_the_terminal_and_are_cut_whole() {
        let sent = Message::Failed(format!("\u{1b}[2J{}", "ü".repeat(600)));
        let Ok(Message::Failed(got)) = decode(&sent.encode()) else { panic!("not a failure") };
        assert!(got.starts_with(" [2Jü") && got.ends_with('ü'), "{got}");
    }

    #[test]
    fn sides_that_differ_name_both_values() {
        let here = SETTINGS;
        let refusal = |peer: Settings| here.agree(&peer).expect_err("they differ");
        assert_eq!(
            refusal(Settings { size: 128, ..here }),
            "the size (-s) is 64 on this side and 128 on the other"
        );
        assert!(refusal(Settings { iters: 5, ..here }).contains("1000 on this side and 5 on"));
        assert!(refusal(Settings { all: true, ..here }).contains("not given on this side"));
    }

    #[test]
    fn the_size_does_not_matter_when_all_are_run() {
        let here = Settings { all: true, ..SETTINGS };
        assert_eq!(here.agree(&Settings { size: 9, ..here }), Ok(None));
    }

    #[test]
    fn one_mtu_counts_for_both_and_two_must_be_the_same() {
        let mtu = |mtu| Settings { mtu, ..SETTINGS };
        let small = Some(Mtu::Mtu512);
        assert_eq!(mtu(None).agree(&mtu(None)), Ok(None));
        assert_eq!(mtu(small).agree(&mtu(None)), Ok(small));
        assert_eq!(mtu(None).agree(&mtu(small)), Ok(small));
        assert_eq!(mtu(small).agree(&mtu(small)), Ok(small));
        let refused = mtu(small).agree(&mtu(Some(Mtu::Mtu4096))).expect_err("they differ");
        assert_eq!(refused, "the MTU (-m) is 512 on this side and 4096 on the other");
    }
}
