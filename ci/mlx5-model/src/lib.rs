//! A software ConnectX: a PCI function in a process of its own, attached to QEMU by vfio-user, on which the stock
//! mlx5 drivers run. A test device, not a product. `README.md` says how to use it and what in it is guessed.
//!
//! # Map
//! - [`server`]: QEMU's requests; [`pci`], [`registers`], [`interrupt`]: the PCI function
//! - [`memory`], [`buffer`]: a guest's memory, copied and checked
//! - [`command`]: the command interface; each command is a method of [`device::Device`] beside its object:
//!   [`hca`], [`caps`], [`port`], [`mad`], [`domains`], [`eq`], [`cq`], [`mkey`], [`srq`], [`qp_commands`]
//! - [`objects`]: the tables of all guests' objects; [`guest`]: what only one guest has
//! - [`datapath`]: work requests, messages, datagrams; [`fabric`], [`sa`], [`wire`]: what lies between the guests
//! - [`fields`], [`hw`], [`bits`]: the device's numbers as data
//! - [`report`]: what was seen, and the oracle for leaks; [`log`]: what is said meanwhile
//! - [`control`]: what can be asked and commanded from outside; [`control_socket`]: by whom
//!
//! # Invariants
//! - Nothing that a guest writes can make the model panic, loop without end, or allocate or log without bound.
//! - A guest's memory is only ever copied, never lent.
//! - Objects of one guest are out of reach of another's commands and doorbells; only the wire
//!   ([`datapath::responder`], [`datapath::transmission`], [`datapath::datagram`]) leads from one to the other.

pub mod bits;
pub mod buffer;
pub mod caps;
pub mod command;
pub mod control;
pub mod control_socket;
pub mod cq;
pub mod datapath;
pub mod device;
pub mod domains;
pub mod eq;
pub mod fabric;
pub mod fields;
pub mod guest;
pub mod hca;
pub mod hw;
pub mod interrupt;
pub mod log;
pub mod mad;
pub mod memory;
pub mod mkey;
pub mod objects;
pub mod pci;
pub mod port;
pub mod qp;
pub mod qp_commands;
pub mod registers;
pub mod report;
pub mod sa;
pub mod server;
pub mod srq;
pub mod wire;
