//! The data path: what the inlines of `verbs.h` do, calls through the operation table of the context.
//!
//! # Safety
//! As in C. The one addition: an operation that a provider has left empty is answered with
//! `EOPNOTSUPP` instead of a call through NULL.

use crate::bindings::*;
use libc::EOPNOTSUPP;
use std::ffi::c_int;

/// `ibv_post_send(3)`: posts a list of work requests to a QP's send queue. Returns an errno value.
///
/// # Safety
/// `qp` is live; `wr` heads a valid list whose scatter entries are valid until the call returns (and
/// the memory that they name until completion); `bad_wr` may be written.
#[inline]
pub unsafe fn ibv_post_send(qp: *mut ibv_qp, wr: *mut ibv_send_wr, bad_wr: *mut *mut ibv_send_wr) -> c_int {
    // SAFETY: the caller's QP is live, and a live QP points to its context.
    let context = unsafe { (*qp).context };
    // SAFETY: the context of a live QP is live.
    match unsafe { (*context).ops.post_send } {
        // SAFETY: the provider's own operation, with the arguments that the caller vouches for.
        Some(post) => unsafe { post(qp, wr, bad_wr) },
        None => EOPNOTSUPP,
    }
}

/// `ibv_post_srq_recv(3)`: posts a list of receives to an SRQ. Returns an errno value.
///
/// # Safety
/// `srq` is live; `wr` heads a valid list whose memory is valid until completion; `bad_wr` may be
/// written.
#[inline]
pub unsafe fn ibv_post_srq_recv(
    srq: *mut ibv_srq,
    wr: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: the caller's SRQ is live, and a live SRQ points to its context.
    let context = unsafe { (*srq).context };
    // SAFETY: the context of a live SRQ is live.
    match unsafe { (*context).ops.post_srq_recv } {
        // SAFETY: the provider's own operation, with the arguments that the caller vouches for.
        Some(post) => unsafe { post(srq, wr, bad_wr) },
        None => EOPNOTSUPP,
    }
}

/// `ibv_poll_cq(3)`: takes up to `entries` completions. A count, or a negative number on failure.
///
/// # Safety
/// `cq` is live and `wc` has room for `entries` completions.
#[inline]
pub unsafe fn ibv_poll_cq(cq: *mut ibv_cq, entries: c_int, wc: *mut ibv_wc) -> c_int {
    // SAFETY: the caller's CQ is live, and a live CQ points to its context.
    let context = unsafe { (*cq).context };
    // SAFETY: the context of a live CQ is live.
    match unsafe { (*context).ops.poll_cq } {
        // SAFETY: the provider's own operation, with the arguments that the caller vouches for.
        Some(poll) => unsafe { poll(cq, entries, wc) },
        None => -EOPNOTSUPP,
    }
}
