//! Faults on command: what can be asked of a run while it runs, and who answers.
//!
//! A request is one JSON object on a line, an answer is one too: `{"ok":…}` or `{"error":"…"}`. The lab listens at
//! [`SOCKET`] in the run's folder, and at a virtio-serial port of each guest, which programs there find as
//! RDMA_XRC_CONTROL. It freezes and kills guests itself and passes everything else on to the device model. A request
//! may carry a `tag` of any kind, which comes back in its answer: so whoever opens the port of a guest can tell his
//! answer from one that somebody before him did not wait for.

mod action;
mod broker;
mod client;
mod power;
mod schedule;

pub use action::{Action, Faults};
pub use broker::Broker;
pub use client::control;
pub use power::Power;
pub use schedule::{At, Schedule};

/// The lab's own socket in a run's folder.
pub const SOCKET: &str = "control.sock";

/// The port in the guest.
pub const GUEST_PATH: &str = "/dev/virtio-ports/org.rdma-xrc.control";

/// The longest request, in bytes. A longer one is refused and skipped.
const LONGEST_REQUEST: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    #[test]
    fn the_port_has_its_name() {
        assert!(super::GUEST_PATH.ends_with(&format!("/{}", crate::protocol::CONTROL_PORT)));
    }
}
