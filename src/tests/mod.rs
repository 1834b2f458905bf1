//! Tests over the fake provider: what the crate sends, what it gives back, in which order it destroys.

mod connecting;
mod domains;
mod drops;
mod endpoints;
mod logging;
mod opened;
mod queries;
mod receiving;
mod sending;
mod threads;

use crate::{
    Buf, Completion, CompletionQueue, ConnectOptions, Context, Endpoint, Initiator, LocalPort, Pool,
    ProtectionDomain, Target, XrcDomain, XrcSrq, devices, verbs::fake::World,
};

pub(crate) fn open(name: &str) -> Context {
    devices().unwrap().find(name).unwrap().open().unwrap()
}

/// One device with everything made from it, not connected.
pub(crate) struct Rig {
    pub world: World,
    pub context: Context,
    pub port: LocalPort,
    pub pd: ProtectionDomain,
    pub pool: Pool,
    pub domain: XrcDomain,
    pub cq: CompletionQueue,
    pub srq: XrcSrq,
    pub initiator: Initiator,
    pub target: Target,
}

pub(crate) const DEPTH: u32 = 8;
pub(crate) const SLOT: usize = 128;

impl Rig {
    pub fn new() -> Self {
        Self::on("fake0")
    }

    pub fn on(device: &str) -> Self {
        let context = open(device);
        let world = World::of(context.verbs());
        let port = LocalPort::query(&context, 1).unwrap();
        let pd = context.create_pd().unwrap();
        let pool = pd.pool(16, SLOT).unwrap();
        let domain = context.create_xrc_domain().unwrap();
        let cq = context.create_cq(64).unwrap();
        let srq = domain.create_srq(&pd, &cq).max_wr(DEPTH).pool(&pool).build().unwrap();
        let initiator =
            pd.create_initiator(&cq).max_send_wr(DEPTH).max_inline(8).pool(&pool).build().unwrap();
        let target = domain.create_target().unwrap();
        Self { world, context, port, pd, pool, domain, cq, srq, initiator, target }
    }

    pub fn connected() -> Self {
        let mut rig = Self::new();
        let endpoint = rig.endpoint();
        rig.target.connect(&rig.port, &endpoint, &ConnectOptions::new()).unwrap();
        rig.initiator.connect(&rig.port, &endpoint, &ConnectOptions::new()).unwrap();
        rig
    }

    pub fn endpoint(&self) -> Endpoint {
        self.port.endpoint(&self.initiator, &self.target, &self.srq).unwrap()
    }

    /// A buffer with these bytes.
    pub fn buf(&self, bytes: &[u8]) -> Buf {
        let mut buf = self.pool.take().unwrap();
        buf.set_len(bytes.len());
        buf.copy_from_slice(bytes);
        buf
    }

    pub fn qp(&self) -> u32 {
        self.initiator.qp_number().get()
    }

    pub fn srq_number(&self) -> u32 {
        self.srq.number().get()
    }

    pub fn poll(&mut self) -> Vec<Completion> {
        let mut out = Vec::new();
        let count = self.cq.poll(&mut out, 100).unwrap();
        assert_eq!(count, out.len());
        out
    }
}

pub(crate) fn tags(completions: &[Completion]) -> Vec<u64> {
    completions.iter().map(|completion| completion.tag).collect()
}
