//! What the runner and the agent in the guest say to each other over one virtio-serial port.
//!
//! A message is a little-endian length and a postcard value. Any number of jobs (commands) share the port; each
//! message names its job. Both ends are the same program, so there is no version to negotiate.
//!
//! Nobody who is slow may stop the messages behind his own, so each direction has a window. Input: the host keeps at
//! most [`INPUT_WINDOW`] bytes on the way and the agent tells how many the command has taken. Output: the agent keeps
//! at most [`OUTPUT_WINDOW`] bytes of each stream on the way and the host tells how many were written.

use std::ffi::OsString;
use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// The port's name, as the guest finds it under /sys/class/virtio-ports.
pub const PORT: &str = "rdma-xrc.agent";

/// The name of the port on which the guest asks for faults and reports.
pub const CONTROL_PORT: &str = "org.rdma-xrc.control";

/// Bytes of one piece of input or output. The guest's driver sends at most 32 KiB at a time.
pub const PIECE: usize = 31 * 1024;

/// Bytes of input that may be on the way to a command.
pub const INPUT_WINDOW: usize = 256 * 1024;

/// Bytes of one of a command's outputs that may be on the way to whoever reads it.
pub const OUTPUT_WINDOW: usize = 512 * 1024;

/// A longer message means that the two ends lost step.
const LONGEST: usize = 8 * 1024 * 1024;

/// Names one command of one boot.
pub type JobId = u32;

/// One of the two outputs of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stream {
    Out,
    Err,
}

/// Size of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Size {
    pub rows: u16,
    pub cols: u16,
}

/// A command to start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    pub argv: Vec<OsString>,
    pub env: Vec<(OsString, OsString)>,
    /// Not a `PathBuf`, which would have to be text.
    pub cwd: OsString,
    /// With a terminal of this size, on which the command's output and errors are one stream.
    pub terminal: Option<Size>,
}

/// Host to guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToGuest {
    Start(Start),
    Input(#[serde(with = "serde_bytes")] Vec<u8>),
    InputEnd,
    /// To the command's whole process group.
    Signal(i32),
    Resize(Size),
    /// So many bytes of this output have been written.
    Written(Stream, u32),
    /// Nobody reads this output any more: the command is to see a closed pipe.
    Deaf(Stream),
    /// Write everything back to the host's files and say [`ToHost::Synced`]; the guest is about to be switched off.
    Sync,
}

/// Guest to host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToHost {
    /// The agent is there; the kernel's release.
    Hello(String),
    Output(Stream, #[serde(with = "serde_bytes")] Vec<u8>),
    /// The command has taken so many bytes of input, or will never take them.
    Taken(u32),
    /// All output has been sent before. 128 + n for signal n.
    Exit(i32),
    Synced,
}

/// Sends one message.
pub fn send<T: Serialize>(to: &mut impl Write, job: JobId, message: &T) -> io::Result<()> {
    let mut bytes = vec![0; 4];
    bytes = postcard::to_extend(&(job, message), bytes).map_err(io::Error::other)?;
    let length = u32::try_from(bytes.len() - 4).map_err(io::Error::other)?;
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    to.write_all(&bytes)?;
    to.flush()
}

/// Waits for one message; `None` at the end of the stream.
pub fn receive<T: DeserializeOwned>(from: &mut impl Read) -> io::Result<Option<(JobId, T)>> {
    let mut length = [0; 4];
    match from.read_exact(&mut length) {
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let length = u32::from_le_bytes(length) as usize;
    if length > LONGEST {
        return Err(io::Error::other(format!("a message of {length} bytes on the agent's port")));
    }
    let mut bytes = vec![0; length];
    from.read_exact(&mut bytes)?;
    postcard::from_bytes(&bytes).map(Some).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt;

    #[test]
    fn messages_survive_the_wire() {
        let start = Start {
            argv: vec!["cat".into(), OsString::from_vec(vec![0xff, b' ', 0xfe])],
            env: vec![("A".into(), "b c".into())],
            cwd: OsString::from_vec(vec![b'/', 0xff]),
            terminal: Some(Size { rows: 3, cols: 4 }),
        };
        let mut wire = Vec::new();
        send(&mut wire, 7, &ToGuest::Start(start.clone())).unwrap();
        send(&mut wire, 8, &ToGuest::Input((0..=255).collect())).unwrap();
        let mut wire = wire.as_slice();
        assert_eq!(receive(&mut wire).unwrap(), Some((7, ToGuest::Start(start))));
        assert_eq!(receive(&mut wire).unwrap(), Some((8, ToGuest::Input((0..=255).collect()))));
        assert_eq!(receive::<ToGuest>(&mut wire).unwrap(), None);
    }

    #[test]
    fn a_piece_fits_the_drivers_write() {
        let mut wire = Vec::new();
        send(&mut wire, u32::MAX, &ToHost::Output(Stream::Out, vec![0xa5; PIECE])).unwrap();
        assert!(wire.len() <= 32 * 1024, "{}", wire.len());
    }

    #[test]
    fn lost_step_is_an_error() {
        assert!(receive::<ToHost>(&mut [0xff; 64].as_slice()).is_err());
        assert!(receive::<ToHost>(&mut [9, 0, 0, 0, 1].as_slice()).is_err());
    }
}
