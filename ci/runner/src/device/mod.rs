//! The devices that a guest can have, and what each takes: processes on the host, options of QEMU's, a script in the
//! guest, variables.

mod mlx5;

pub use mlx5::{LEAKS, LOG as MODEL_LOG};

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use anyhow::Result;
use clap::ValueEnum;

use crate::paths::{Paths, RunDir};
use crate::proc::Process;

/// A kind of XRC device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Device {
    /// A software ConnectX under the stock mlx5 drivers, on an InfiniBand link
    Mlx5,
}

/// A guest's place among its peers, numbered from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    pub number: u8,
    pub peer: u8,
}

impl Node {
    /// One guest is its own peer.
    pub const ALONE: Node = Node { number: 1, peer: 1 };

    /// For plain sockets.
    fn address(number: u8) -> String {
        format!("10.0.9.{number}")
    }

    /// For the connection manager.
    fn rdma_address(number: u8) -> String {
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

    /// Starts what must run on the host beside the guest.
    pub fn start(self, paths: &Paths, run: &RunDir) -> Result<Option<Process>> {
        match self {
            Device::Mlx5 => mlx5::start(paths, run).map(Some),
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
                (mlx5::BRING_UP, std::iter::once(root).chain(addresses.map(Into::into)).collect())
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
            ("RDMA_XRC_RUN_DIR", run.files().into_os_string()),
            ("NODE", node.number.to_string().into()),
            ("SELF_ADDR", Node::address(node.number).into()),
            ("PEER_ADDR", Node::address(node.peer).into()),
            ("SELF_RDMA_ADDR", Node::rdma_address(node.number).into()),
            ("PEER_RDMA_ADDR", Node::rdma_address(node.peer).into()),
        ];
        pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}
