//! Two guests, each with a QP, which are connected: what tests of the transport begin with.
#![allow(dead_code, missing_docs, missing_debug_implementations)]

use std::time::Duration;

use mlx5_model::{
    bits::Field,
    command::opcode::Opcode,
    fields::{cqc, cqe, qpc},
    hw::{CompletionOpcode, QpState, ReceiveQueueType, Service, WqeOpcode, WqeSyndrome},
    wire::LinkFaults,
};

use crate::driver::{Queue, Region, Rig, Role, data, xrc};

/// 4.096 µs × 2^14, and up to four times that.
pub const ACK_TIMEOUT: u64 = 14;
pub const ANSWER_TIME: Duration = Duration::from_nanos((4096 << ACK_TIMEOUT) * 4);
pub const RETRIES: u64 = 3;
/// Long enough for everything.
pub const AGES: Duration = Duration::from_secs(600);
/// MTU code 1.
pub const MTU: u32 = 256;
pub const Q_KEY: u64 = 0x1234;

pub const PERFECT: LinkFaults =
    LinkFaults { loss: 0.0, duplicate: 0.0, reorder: 0.0, delay: Duration::ZERO, jitter: Duration::ZERO };

pub fn slow(delay: Duration) -> LinkFaults {
    LinkFaults { delay, ..PERFECT }
}

pub fn lossy(loss: f64) -> LinkFaults {
    LinkFaults { loss, ..PERFECT }
}

/// Two guests with a page each, and a QP each that are connected.
pub struct Pair {
    pub rig: Rig,
    pub pd: [u32; 2],
    pub cq: [Queue; 2],
    pub memory: [Region; 2],
    pub qp: [Queue; 2],
    pub srqs: Vec<Queue>,
    pub next: u16,
}

impl Pair {
    /// XRC: the initiator is guest 0's; guest 1 has two SRQs.
    pub fn xrc(name: &str) -> Self {
        Self::new(name, |rig, pd, cq| {
            let xrcd = rig.made(1, Opcode::ALLOC_XRCD, &[]);
            let srqs = (0..2).map(|_| rig.xrc_srq(1, pd[1], xrcd, cq[1].number)).collect();
            let initiator = rig.qp(0, pd[0], cq[0].number, Role::Initiator);
            ([initiator, rig.qp(1, pd[1], 0, Role::Target(xrcd))], srqs)
        })
    }

    /// Of that service, with eight receives of a segment of their own.
    pub fn of(service: Service, name: &str) -> Self {
        Self::new(name, |rig, pd, cq| {
            let qp = [0, 1].map(|g| {
                let (buffer, doorbell) = (rig.alloc(g, 0x1000), rig.alloc(g, 8));
                let mut c = vec![0; 272 - 16];
                let fields = [
                    (qpc::ST, service as u64),
                    (qpc::RQ_TYPE, ReceiveQueueType::Own as u64),
                    (qpc::LOG_RQ_SIZE, 3),
                    (qpc::LOG_SQ_SIZE, 5),
                    (qpc::PD, pd[g].into()),
                    (qpc::CQN_SND, cq[g].number.into()),
                    (qpc::CQN_RCV, cq[g].number.into()),
                    (qpc::UAR_PAGE, rig.uar[g].into()),
                    (qpc::DBR_ADDR, doorbell),
                ];
                fields.iter().for_each(|(f, v): &(Field, u64)| f.within(8).set(&mut c, *v));
                c.extend_from_slice(&buffer.to_be_bytes());
                let number = rig.made(g, Opcode::CREATE_QP, &c);
                // Sends lie behind the receives.
                Queue { number, buffer: buffer + 8 * 16, doorbell }
            });
            (qp, Vec::new())
        })
    }

    fn new(
        name: &str,
        make: impl FnOnce(&mut Rig, [u32; 2], &[Queue; 2]) -> ([Queue; 2], Vec<Queue>),
    ) -> Self {
        let mut rig = Rig::up(name, 2);
        let pd = [0, 1].map(|g| rig.made(g, Opcode::ALLOC_PD, &[]));
        let cq = [0, 1].map(|g| rig.cq(g, 6));
        let memory = [0, 1].map(|g| rig.region(g, pd[g]));
        let (qp, srqs) = make(&mut rig, pd, &cq);
        let mut pair = Self { rig, pd, cq, memory, qp, srqs, next: 0 };
        pair.connect();
        pair.rig.hurry(AGES);
        pair
    }

    pub fn connect(&mut self) {
        let attributes = [
            (qpc::MTU, 1),
            (qpc::PRIMARY_ADDRESS_PATH__ACK_TIMEOUT, ACK_TIMEOUT),
            (qpc::RETRY_COUNT, RETRIES),
            (qpc::RNR_RETRY, 2),
            // 10 ms.
            (qpc::MIN_RNR_NAK, 20),
            (qpc::Q_KEY, Q_KEY),
        ];
        for g in [1, 0] {
            self.rig.connect_with(g, self.qp[g].number, (1 - g, self.qp[1 - g].number), &attributes);
        }
    }

    pub fn wire(&mut self, from: usize, faults: LinkFaults) {
        self.rig.device.set_link_faults(Some(from), Some(1 - from), faults, Some(1)).unwrap();
    }

    pub fn post(&mut self, opcode: WqeOpcode, segments: &[[u8; 16]]) {
        self.next = self.rig.post(0, &self.qp[0], self.next, opcode as u8, segments);
    }

    /// Posts the nth receive to the QP of guest 1.
    pub fn post_receive(&mut self, n: u32, length: u32) {
        let queue = &self.qp[1];
        let at = queue.buffer - 8 * 16 + u64::from(n % 8) * 16;
        self.rig.write(1, at, &data(self.memory[1], length));
        self.rig.write(1, queue.doorbell, &(n + 1).to_be_bytes());
    }

    pub fn send(&mut self, srq: usize, length: u32) {
        let segments = [xrc(self.srqs[srq].number), data(self.memory[0], length)];
        self.post(WqeOpcode::Send, &segments);
    }

    /// Opcode and syndrome of all completions of a guest.
    pub fn completions(&mut self, guest: usize) -> Vec<(CompletionOpcode, u64)> {
        let out = self.rig.command(guest, Opcode::QUERY_CQ, self.cq[guest].number, &[], 272);
        (0..cqc::PRODUCER_COUNTER.get(&out[16..]))
            .map(|n| self.rig.completion(guest, &self.cq[guest], n))
            .map(|c| {
                let opcode = CompletionOpcode::from_number(cqe::OPCODE.get(&c)).unwrap();
                (opcode, cqe::SYNDROME.get(&c) & if is_error(opcode) { 0xff } else { 0 })
            })
            .collect()
    }

    pub fn state(&self, guest: usize) -> QpState {
        self.rig.device.objects.qps.get(self.qp[guest].number).unwrap().state
    }

    pub fn activity(&self, guest: usize) -> &mlx5_model::report::Activity {
        &self.rig.device.guests[guest].activity
    }
}

pub fn is_error(opcode: CompletionOpcode) -> bool {
    matches!(opcode, CompletionOpcode::RequesterError | CompletionOpcode::ResponderError)
}

pub const DONE: (CompletionOpcode, u64) = (CompletionOpcode::Requester, 0);
pub const CAME: (CompletionOpcode, u64) = (CompletionOpcode::Send, 0);

pub fn failed(syndrome: WqeSyndrome) -> (CompletionOpcode, u64) {
    (CompletionOpcode::RequesterError, syndrome as u64)
}

pub fn receive_failed(syndrome: WqeSyndrome) -> (CompletionOpcode, u64) {
    (CompletionOpcode::ResponderError, syndrome as u64)
}
