//! The part that runs inside the guest: the first process ([`init()`]) and the agent that runs commands.

mod agent;
mod init;
mod job;

pub use agent::{AGENT_WORD, agent};
pub use init::{BootConfig, CONFIG, PROBE_MARK, init};

/// This program, as a command in the guest can run it: that of the first process.
pub const PROGRAM: &str = "/proc/1/exe";
