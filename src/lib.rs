//! Safe Rust over the XRC verbs of rdma-core: InfiniBand's eXtended Reliable Connected transport.
//!
//! With XRC one connection between two machines serves every process on them: the sender names, in each
//! message, the SRQ that is to receive it.
//!
//! ```no_run
//! use rdma_xrc::{ConnectOptions, LocalPort, devices};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let context = devices()?.find("mlx5_0")?.open()?;
//! let pd = context.create_pd()?;
//! let pool = pd.pool(64, 4096)?;
//! let (mut send_cq, mut receive_cq) = (context.create_cq(64)?, context.create_cq(64)?);
//!
//! let domain = context.create_xrc_domain()?;
//! let mut srq = domain.create_srq(&pd, &receive_cq).max_wr(32).pool(&pool).build()?;
//! let mut target = domain.create_target()?;
//! let mut initiator = pd.create_initiator(&send_cq).max_send_wr(32).pool(&pool).build()?;
//!
//! // What the peer must know. Send it any way you like: `to_bytes`, or as one word of text.
//! let port = LocalPort::query(&context, 1)?;
//! let mine = port.endpoint(&initiator, &target, &srq)?;
//! let peer = mine; // Here the peer is ourselves.
//! target.connect(&port, &peer, &ConnectOptions::new())?;
//! initiator.connect(&port, &peer, &ConnectOptions::new())?;
//!
//! srq.post(pool.take().ok_or("no free buffer")?, 1)?;
//! let mut buf = pool.take().ok_or("no free buffer")?;
//! buf.set_len(5);
//! buf.copy_from_slice(b"hello");
//! initiator.send(peer.srq, buf, 2)?;
//!
//! let mut done = Vec::new();
//! while receive_cq.poll(&mut done, 1)? == 0 {}
//! let message = done.remove(0);
//! message.status?;
//! assert_eq!(message.buf.as_deref(), Some(&b"hello"[..]));
//! while send_cq.poll(&mut done, 1)? == 0 {}
//! # Ok(())
//! # }
//! ```
//!
//! # Objects
//! ```text
//! Device ─▶ Context ─┬─▶ ProtectionDomain ─┬─▶ Pool ─▶ Buf
//!                    │                     ├─▶ Initiator ◀── CompletionQueue
//!                    ├─▶ CompletionQueue   │
//!                    └─▶ XrcDomain ─┬──────┴─▶ XrcSrq ◀── CompletionQueue
//!                                   ├─▶ Target
//!                                   └─▶ OpenedTarget
//! ```
//! The two ends of a connection are types: an [`Initiator`] sends and has nothing of a receiver, a
//! [`Target`] has no queue at all, and what a peer sends arrives at an [`XrcSrq`]. An SRQ's number and a
//! queue pair's are types too, so neither is taken for the other.
//!
//! # Features
//! * `bindgen` (default): the bindings are generated from the installed headers, which needs libclang.
//!   Without it the checked-in ones serve.
//! * `serde`: [`Endpoint`] can be serialised, as its text or its bytes.
//!
//! # What to install
//! rdma-core 44 or later with its headers: `libibverbs-dev` and `ibverbs-providers` on Debian and Ubuntu,
//! `rdma-core-devel` and `libibverbs` on Fedora and RHEL. Processes need to lock memory: `ulimit -l`.
//!
//! # Threads
//! Everything can go to another thread. Posting and polling take `&mut`, so what several threads use at
//! once is behind a lock of theirs; one completion queue a thread needs none. Pools, contexts, domains
//! and the like are shared by reference.
//!
//! # Cleaning up
//! Drop things in any order: what is made from an object keeps it. Where a program wants to know, `close`
//! gives the object back with the reason if it is refused. `Drop` never panics; if the kernel refuses it,
//! the object is leaked with all it needs and a [`tracing`] event says so. Destroying a queue drops what
//! it had in flight: buffers go back to their pools, and completions that were not polled are counted by
//! [`CompletionQueue::stale_completions`].
//!
//! # Forking
//! What was opened before a fork stays the parent's: in the child, drops do nothing, and creating,
//! connecting, posting, polling and closing are refused with [`ErrorKind::Forked`]. A child opens a device
//! of its own. The crate calls neither `ibv_fork_init` nor `madvise`. Since Linux 5.12 a fork copies pages
//! that a device writes for the child; before that, the parent could be left with the copy and its device
//! with the page, so there a program that forks calls `ibv_fork_init` itself, or sets `IBV_FORK_SAFE=1`,
//! before it opens a device.
//!
//! # Safety
//! No safe call causes undefined behaviour, whatever is dropped, forgotten or reordered, and whatever a
//! peer sends. A [`Buf`] is its owner's alone until it is posted, and the queue's alone until it
//! completes; peers cannot reach its memory by address. `unsafe` is denied outside one private module,
//! and the argument is written there and in the bookkeeping beside it. It takes the kernel, the provider
//! and the device at their word: that a device writes only where it was told, that a completion means
//! what it says, that a destroyed queue is done. Where a provider is known not to keep to that, the crate
//! sees to it. Setting `MLX5_SINGLE_THREADED=1` takes away the locks that all this assumes.
//!
//! Some providers look at the queue pair of each completion that they poll: hns without a lock, qedr by an
//! address in the completion. So a queue pair is stopped first (ERR, then RESET), then the completion queues
//! that may name it are emptied, for the next poll, and then it is destroyed, while nobody polls them. (A
//! target that others may hold is not stopped, and neither is one whose last handle is an [`OpenedTarget`]; see
//! [`Target::close`] and [`OpenedTarget::close`].) This is written from the providers'
//! sources and tested over fakes of them; on a device it has run with mlx5 only. Two things the crate cannot
//! see to. An SRQ cannot be stopped: close it when no peer sends to it any more, for a provider may look at
//! the SRQ of a message that arrives in the very moment of its end. And hns finds the target of a receive
//! among those of the same opening of the device only: what comes through another process's target, in a
//! domain shared by a file, is an error of [`CompletionQueue::poll`] there, and its buffer comes back with
//! the end of the SRQ, unless this opening holds an [`OpenedTarget`] of it.
//!
//! # What is not wrapped
//! RDMA writes, reads and atomics; completion channels; asynchronous events; extended completion queues and
//! work requests. None of it can be named here.
#![deny(unsafe_code)]
#![warn(missing_docs)]

mod attributes;
mod bookkeeping;
mod buf;
pub mod build_info;
mod completion;
mod connect;
mod context;
mod cq;
mod device;
mod domain;
mod endpoint;
mod error;
mod gid;
mod initiator;
mod numbers;
mod opened;
mod pd;
mod pool;
mod port;
mod post;
mod srq;
mod target;
#[cfg(test)]
mod tests;
#[allow(unsafe_code)]
mod verbs;

pub use attributes::QpState;
pub use buf::Buf;
pub use completion::{Completion, CompletionKind, WcError, WcStatus};
pub use connect::ConnectOptions;
pub use context::{Context, DeviceAttributes, XrcSupport};
pub use cq::CompletionQueue;
pub use device::{Device, DeviceList, Transport, devices};
pub use domain::{XrcDomain, XrcDomainOptions};
pub use endpoint::{Endpoint, EndpointError};
pub use error::{Error, ErrorKind, Result};
pub use gid::{Gid, GidEntry, GidType, Guid};
pub use initiator::{Initiator, InitiatorBuilder, SendOptions};
pub use numbers::{Lid, Mtu, NumberError, Psn, QpNumber, SrqNumber};
pub use opened::OpenedTarget;
pub use pd::ProtectionDomain;
pub use pool::Pool;
pub use port::{LinkLayer, LocalPort, PortAttributes, PortState};
pub use post::{PostError, PostErrorReason};
pub use srq::{XrcSrq, XrcSrqBuilder};
pub use target::Target;

/// The README's example compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
