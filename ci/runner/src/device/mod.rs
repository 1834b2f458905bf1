//! The devices that a guest can have, and what each takes: processes on the host, options of QEMU's, a script in the
//! guest, variables.

mod mlx5;

pub use mlx5::{CONTROL as MODEL_CONTROL, LEAKS, LOG as MODEL_LOG};

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use anyhow::Result;
use clap::ValueEnum;

use crate::control;
use crate::guest;
use crate::paths::{Paths, RunDir};
use crate::proc::Process;

/// A kind of XRC device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Device {
    /// A software ConnectX under the stock mlx5 drivers, on an InfiniBand link
    Mlx5,
}

/// Guests that one run can have: the device model serves no more.
pub const MOST_NODES: u8 = 8;

/// A guest's place among its peers, numbered from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    pub number: u8,
    /// How many there are.
    pub count: u8,
}

impl Node {
    /// The places in a run of so many guests.
    pub fn all(count: u8) -> impl Iterator<Item = Node> {
        (1..=count).map(move |number| Node { number, count })
    }

    /// Whom it talks to first: 1 and 2, 3 and 4 and so on are pairs. One guest is its own peer, the odd one out has
    /// the first.
    pub fn peer(self) -> u8 {
        let other = if self.number % 2 == 1 { self.number + 1 } else { self.number - 1 };
        if other > self.count { 1 } else { other }
    }

    /// Whether there are others.
    pub fn has_peers(self) -> bool {
        self.count > 1
    }

    /// For plain sockets.
    pub fn address(number: u8) -> String {
        format!("10.0.9.{number}")
    }

    /// For the connection manager.
    pub fn rdma_address(number: u8) -> String {
        format!("10.1.0.{number}")
    }
}

impl Device {
    /// The name for people and for `--device`.
    pub fn name(self) -> &'static str {
        match self {
            Device::Mlx5 => "mlx5",
        }
    }

    /// The name that verbs programs know it by.
    pub fn verbs_name(self) -> &'static str {
        match self {
            Device::Mlx5 => mlx5::VERBS_NAME,
        }
    }

    /// Builds what the device consists of.
    pub fn build(self, paths: &Paths) -> Result<()> {
        match self {
            Device::Mlx5 => mlx5::build(paths),
        }
    }

    /// Starts what must run on the host beside so many guests.
    pub fn start(self, paths: &Paths, run: &RunDir, count: u8) -> Result<Option<Process>> {
        match self {
            Device::Mlx5 => mlx5::start(paths, run, count).map(Some),
        }
    }

    /// The socket in the run's folder through which QEMU reaches it.
    pub fn socket(self, node: Node) -> String {
        match self {
            Device::Mlx5 => mlx5::socket(node),
        }
    }

    /// Adds the device to a guest's description.
    pub fn attach(self, qemu: &mut Command, node: Node) {
        match self {
            Device::Mlx5 => mlx5::attach(qemu, node),
        }
    }

    /// A shell script that makes the device usable in the guest, and its arguments.
    pub fn bring_up(self, kernel_root: &Path, node: Node) -> (&'static str, Vec<OsString>) {
        match self {
            Device::Mlx5 => {
                let addresses = [Node::address(node.number), Node::rdma_address(node.number)];
                let root = kernel_root.as_os_str().to_owned();
                // Alone it needs no Ethernet to reach itself.
                let carrier = if node.has_peers() { "ethernet" } else { "lo" };
                let arguments = addresses.into_iter().chain([carrier.to_owned()]).map(Into::into);
                (mlx5::BRING_UP, std::iter::once(root).chain(arguments).collect())
            }
        }
    }

    /// A shell script that takes the device's drivers away again.
    pub fn take_down(self) -> &'static str {
        match self {
            Device::Mlx5 => mlx5::TAKE_DOWN,
        }
    }

    /// What a command in the guest finds in its environment.
    pub fn variables(self, node: Node, run: &RunDir) -> Vec<(String, OsString)> {
        let pairs = [
            ("RDMA_XRC_DEVICE", self.verbs_name().into()),
            ("RDMA_XRC_RUN_DIR", run.files(node).into_os_string()),
            ("RDMA_XRC_CONTROL", control::GUEST_PATH.into()),
            ("RDMA_XRC_LAB", guest::PROGRAM.into()),
            ("NODE", node.number.to_string().into()),
            ("NODES", node.count.to_string().into()),
            ("SELF_ADDR", Node::address(node.number).into()),
            ("PEER_ADDR", Node::address(node.peer()).into()),
            ("SELF_RDMA_ADDR", Node::rdma_address(node.number).into()),
            ("PEER_RDMA_ADDR", Node::rdma_address(node.peer()).into()),
        ];
        pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_pairs() {
        let peers = |count| Node::all(count).map(Node::peer).collect::<Vec<_>>();
        assert_eq!(peers(1), [1]);
        assert_eq!(peers(2), [2, 1]);
        assert_eq!(peers(3), [2, 1, 1]);
        assert_eq!(peers(8), [2, 1, 4, 3, 6, 5, 8, 7]);
    }
}
