//! The fence: the only modules that name the sys crate and the only ones with `unsafe`.
//!
//! # Safety
//! What every file here relies on, and what they keep for each other:
//!
//! * **A handle is live while its owner lives.** Each C object has one Rust owner, a private struct with
//!   the pointer and `Arc`s of the objects that it was made from. Fields are dropped after `Drop::drop`,
//!   so parents outlive children whatever the order in which a program drops its values. Nothing else
//!   destroys a C object.
//! * **A refused destroy leaks.** If the kernel keeps the object, owner and parents stay in memory for
//!   good, so nothing that a device or the provider may still reach is freed.
//! * **A forked child does nothing with its parent's objects.** The pid is compared at the head of all that
//!   creates, changes or destroys ([`context::Context::ours`]), before any lock, which a thread may hold
//!   that the child does not have; posting and polling compare a count of forks instead.
//! * **No code of the program's runs half way.** A `tracing` subscriber is the program's: it may panic, or
//!   drop objects of this crate. So events are sent when pointers are cleared, buffers are home and no lock
//!   is held.
//! * **Threads.** libibverbs may be called on one object from several threads; providers lock their
//!   queues. (mlx5's `MLX5_SINGLE_THREADED=1`, as its manual says, takes the locks away; a process that
//!   sets it vouches for using each context from one thread.)
//! * **Memory.** What a device may write lies in slabs that [`pool`] maps and registers; who may touch a
//!   slot is one atomic word beside it. See there, and `bookkeeping` for who changes the words when.
//!
//! In unit tests the sys crate is replaced by [`fake`], which proves what these files send and in which
//! order they destroy; it proves nothing about a device.

#[cfg(not(test))]
use rdma_core_sys as sys;

#[cfg(test)]
use self::fake as sys;

pub(crate) mod context;
pub(crate) mod convert;
pub(crate) mod cq;
pub(crate) mod device;
pub(crate) mod domain;
#[cfg(test)]
pub(crate) mod fake;
#[cfg(test)]
mod forked;
pub(crate) mod initiator;
pub(crate) mod modify;
pub(crate) mod opened;
pub(crate) mod pd;
pub(crate) mod pool;
pub(crate) mod port;
pub(crate) mod qp;
pub(crate) mod srq;
pub(crate) mod target;

use crate::Error;

/// A destroy was refused in `Drop`: the object stays, and so does `parents`, which it still needs.
fn leak<P>(error: &Error, parents: P) {
    // First of all: the subscriber below is the program's, and may panic.
    std::mem::forget(parents);
    tracing::warn!(%error, "an object was not destroyed and is leaked with all it needs");
}
