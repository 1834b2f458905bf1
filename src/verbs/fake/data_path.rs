//! The data path of the fake: the operations in the table of its contexts.
//!
//! # Safety
//! As in the sys crate: pointers are of live objects that this fake made.

use super::{Data, INLINE, Received, Sent, State, context, lock};
use rdma_core_sys::*;
use std::ffi::c_int;

pub(super) unsafe extern "C" fn post_send(
    qp: *mut ibv_qp,
    wr: *mut ibv_send_wr,
    _: *mut *mut ibv_send_wr,
) -> c_int {
    // SAFETY: a live QP of ours.
    let fields = unsafe { &*qp };
    // SAFETY: the caller's request is valid.
    let wr = unsafe { &*wr };
    // SAFETY: the context of a live QP is live.
    let mut state = lock(&unsafe { context(fields.context) }.state);
    let scripted = state.scripted("ibv_post_send");
    if scripted != 0 {
        return scripted;
    }
    assert!(wr.next.is_null() && (0..=1).contains(&wr.num_sge));
    let data = if wr.num_sge == 0 {
        Data::Copied(Vec::new())
    } else {
        // SAFETY: the request has one scatter entry.
        let sge = unsafe { *wr.sg_list };
        if wr.send_flags & IBV_SEND_INLINE != 0 {
            assert!(sge.length <= INLINE);
            // SAFETY: inline bytes are valid during the call.
            Data::Copied(
                unsafe { std::slice::from_raw_parts(sge.addr as *const u8, sge.length as usize) }.to_vec(),
            )
        } else {
            state.check_range(&sge);
            Data::Memory(sge.addr, sge.length as usize)
        }
    };
    let imm = (wr.opcode == IBV_WR_SEND_WITH_IMM).then_some({
        // SAFETY: every pattern is valid for the union's forms.
        u32::from_be(unsafe { wr.__bindgen_anon_1.imm_data })
    });
    // SAFETY: an XRC request carries the SRQ's number here.
    let srq = unsafe { wr.qp_type.xrc.remote_srqn };
    let sent = Sent { wr_id: wr.wr_id, flags: wr.send_flags, srq, imm, data };
    state.by_number(fields.qp_num).sends.push_back(sent);
    0
}

pub(super) unsafe extern "C" fn post_srq_recv(
    srq: *mut ibv_srq,
    wr: *mut ibv_recv_wr,
    _: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: a live SRQ of ours.
    let ctx = unsafe { (*srq).context };
    // SAFETY: the caller's request is valid.
    let wr = unsafe { &*wr };
    // SAFETY: the context of a live SRQ is live.
    let mut state = lock(&unsafe { context(ctx) }.state);
    let scripted = state.scripted("ibv_post_srq_recv");
    if scripted != 0 {
        return scripted;
    }
    assert!(wr.next.is_null() && wr.num_sge == 1);
    // SAFETY: the request has one scatter entry.
    let sge = unsafe { *wr.sg_list };
    state.check_range(&sge);
    let object = state.objects.get_mut(&(srq as usize)).expect("the SRQ lives");
    object.receives.push_back(Received { wr_id: wr.wr_id, address: sge.addr, len: sge.length as usize });
    0
}

pub(super) unsafe extern "C" fn poll_cq(cq: *mut ibv_cq, entries: c_int, wc: *mut ibv_wc) -> c_int {
    // SAFETY: a live CQ of ours.
    let ctx = unsafe { (*cq).context };
    // SAFETY: the context of a live CQ is live.
    let mut state = lock(&unsafe { context(ctx) }.state);
    let scripted = state.scripted("ibv_poll_cq");
    if scripted != 0 {
        return -scripted;
    }
    if state.looks_at_qps {
        // Long enough for somebody to free what this poll looks at.
        state.polls += 1;
        drop(state);
        std::thread::yield_now();
        // SAFETY: the context of a live CQ is live.
        state = lock(&unsafe { context(ctx) }.state);
        state.polls -= 1;
    }
    let mut count = 0;
    while count < entries {
        let completions = &mut state.objects.get_mut(&(cq as usize)).expect("the CQ lives").completions;
        let Some(written) = completions.pop_front() else { break };
        let Some(completion) = state.place(&written) else { return -2 };
        // SAFETY: there is room for `entries`.
        let place = unsafe { wc.add(count as usize) };
        // SAFETY: as above.
        unsafe { place.write(completion) };
        count += 1;
    }
    count
}

impl State {
    /// A scatter entry lies in a live registration with its key.
    fn check_range(&self, sge: &ibv_sge) {
        let end = sge.addr + u64::from(sge.length);
        let inside = |&(start, length, key): &(u64, u64, u32)| {
            key == sge.lkey && start <= sge.addr && end <= start + length
        };
        assert!(self.objects.values().any(|object| inside(&object.range)), "{sge:?} is registered nowhere");
    }
}
