//! What device tests share: the device, a node with everything to send and receive, polling with a time
//! limit.
#![allow(dead_code)]

pub mod sharer;

use rdma_xrc::{
    Completion, CompletionKind, CompletionQueue, ConnectOptions, Context, Endpoint, Initiator, LocalPort,
    Pool, ProtectionDomain, SrqNumber, Target, XrcDomain, XrcSrq, devices,
};
use std::{
    env,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};
use tracing::{
    Event, Level, Metadata, Subscriber,
    span::{Attributes, Id, Record},
    subscriber::DefaultGuard,
};

/// Opens the device that RDMA_XRC_DEVICE names. Without one the test fails: it was asked for.
pub fn device() -> Context {
    let name = env::var("RDMA_XRC_DEVICE")
        .unwrap_or_else(|_| panic!("RDMA_XRC_DEVICE is not set: this test needs the name of an XRC device"));
    let devices = devices()
        .unwrap_or_else(|error| panic!("RDMA_XRC_DEVICE is {name:?}, and no devices can be listed: {error}"));
    let device = devices.find(&name).unwrap_or_else(|error| panic!("RDMA_XRC_DEVICE: {error}"));
    device.open().expect("the device can be opened")
}

/// How long anything may take; software emulation is slow.
pub const LIMIT: Duration = Duration::from_secs(30);

/// One side: queues, a pool and an SRQ, all on one device.
pub struct Node {
    // Declared in an order that is wrong for C: the library puts it right.
    pub context: Context,
    pub port: LocalPort,
    pub pd: ProtectionDomain,
    pub pool: Pool,
    pub domain: XrcDomain,
    pub send_cq: CompletionQueue,
    pub receive_cq: CompletionQueue,
    pub srq: XrcSrq,
}

pub const SLOT: usize = 4096;
pub const DEPTH: u32 = 16;

impl Node {
    pub fn new() -> Self {
        Self::in_domain(device(), |context| context.create_xrc_domain().expect("a private domain"))
    }

    pub fn in_domain(context: Context, domain: impl FnOnce(&Context) -> XrcDomain) -> Self {
        let domain = domain(&context);
        let port = LocalPort::query(&context, 1).expect("port 1");
        let pd = context.create_pd().expect("a protection domain");
        let pool = pd.pool(256, SLOT).expect("a pool");
        let send_cq = context.create_cq(512).expect("a completion queue");
        let receive_cq = context.create_cq(512).expect("a completion queue");
        let srq = domain.create_srq(&pd, &receive_cq).max_wr(64).pool(&pool).build().expect("an SRQ");
        Self { context, port, pd, pool, domain, send_cq, receive_cq, srq }
    }

    pub fn initiator(&self) -> Initiator {
        self.pd
            .create_initiator(&self.send_cq)
            .max_send_wr(DEPTH)
            .max_inline(64)
            .pool(&self.pool)
            .build()
            .expect("an initiator")
    }

    pub fn target(&self) -> Target {
        self.domain.create_target().expect("a target")
    }

    pub fn pair(&self) -> Pair {
        Pair { initiator: self.initiator(), target: self.target() }
    }

    pub fn endpoint(&self, pair: &Pair) -> Endpoint {
        self.port.endpoint(&pair.initiator, &pair.target, &self.srq).expect("an endpoint")
    }

    /// An initiator and a target of this node, connected to each other.
    pub fn loopback(&self, options: &ConnectOptions) -> Pair {
        let mut pair = self.pair();
        let endpoint = self.endpoint(&pair);
        pair.target.connect(&self.port, &endpoint, options).expect("the target connects");
        pair.initiator.connect(&self.port, &endpoint, options).expect("the initiator connects");
        pair
    }

    pub fn post_receives(&mut self, count: u64) {
        for tag in 0..count {
            let buf = self.pool.take().expect("a free buffer");
            self.srq.post(buf, tag).expect("a receive is posted");
        }
    }
}

pub struct Pair {
    pub initiator: Initiator,
    pub target: Target,
}

/// Polls until `count` completions have come; fails the test if they take too long.
pub fn wait(cq: &mut CompletionQueue, count: usize) -> Vec<Completion> {
    let start = Instant::now();
    let mut out = Vec::new();
    while out.len() < count {
        cq.poll(&mut out, 16).expect("the completion queue can be polled");
        assert!(start.elapsed() < LIMIT, "{} of {count} completions after {LIMIT:?}", out.len());
        std::hint::spin_loop();
    }
    assert_eq!(out.len(), count, "more completions than expected: {out:?}");
    out
}

/// One good completion of a send.
pub fn sent(cq: &mut CompletionQueue) -> Completion {
    let completion = wait(cq, 1).remove(0);
    assert_eq!(completion.kind, CompletionKind::Send);
    completion.status.expect("the send succeeded");
    completion
}

/// What a good receive brought.
pub struct Message {
    pub bytes: Vec<u8>,
    pub imm: Option<u32>,
    pub srq: SrqNumber,
    pub tag: u64,
    pub target: rdma_xrc::QpNumber,
}

pub fn received(cq: &mut CompletionQueue) -> Message {
    message(wait(cq, 1).remove(0))
}

pub fn message(completion: Completion) -> Message {
    completion.status.expect("the receive succeeded");
    let CompletionKind::Receive { srq, byte_len, imm, .. } = completion.kind else {
        panic!("{completion:?} is no receive")
    };
    let buf = completion.buf.expect("a receive brings its buffer");
    assert_eq!(buf.len(), byte_len as usize);
    Message { bytes: buf.to_vec(), imm, srq, tag: completion.tag, target: completion.qp_number }
}

/// Bytes that differ from message to message and from place to place.
pub fn pattern(seed: u64, len: usize) -> Vec<u8> {
    (0..len as u64).map(|at| (at.wrapping_mul(0x9e37_79b9).wrapping_add(seed * 131) >> 5) as u8).collect()
}

/// Watches this thread for the warnings with which the crate reports what it had to leak; dropping the
/// watch fails the test if there were any.
#[must_use = "it watches until it is dropped"]
pub fn no_leaks() -> Watch {
    let warnings = Arc::new(AtomicU32::new(0));
    let guard = tracing::subscriber::set_default(Warnings(Arc::clone(&warnings)));
    Watch { warnings, _guard: guard }
}

pub struct Watch {
    warnings: Arc<AtomicU32>,
    _guard: DefaultGuard,
}

impl Drop for Watch {
    fn drop(&mut self) {
        let warnings = self.warnings.load(Relaxed);
        assert!(std::thread::panicking() || warnings == 0, "{warnings} warnings: something was leaked");
    }
}

struct Warnings(Arc<AtomicU32>);

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {
        self.0.fetch_add(1, Relaxed);
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}
