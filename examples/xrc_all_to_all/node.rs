//! One node: its domain, its one SRQ, a target and an initiator for each node, and the messages.

use std::time::{Duration, Instant};

use rdma_xrc::{
    Completion, CompletionKind, CompletionQueue, ConnectOptions, Context, Endpoint, Initiator, LinkLayer,
    LocalPort, Pool, PortState, Target, XrcDomain, XrcSrq, XrcSupport, devices,
};

use crate::Failure;
use crate::mesh::Mesh;
use crate::options::Options;

/// How often a node that waits looks whether the others are still there.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

pub struct Node {
    number: u32,
    nodes: u32,
    size: u32,
    port: LocalPort,
    pool: Pool,
    send_cq: CompletionQueue,
    receive_cq: CompletionQueue,
    srq: XrcSrq,
    /// To and from each node, node 1 first; one of them is this one.
    pairs: Vec<(Initiator, Target)>,
    _domain: XrcDomain,
}

/// What arrived, and is as it should be.
pub struct Arrival {
    pub from: u32,
    pub len: u32,
    pub imm: u32,
    pub target: rdma_xrc::QpNumber,
}

fn open(options: &Options) -> Result<Context, Failure> {
    let devices = devices()?;
    let device = match &options.device {
        Some(name) => devices.find(name)?,
        None => devices.iter().next().cloned().ok_or("no IB devices found (`rdma link` shows them)")?,
    };
    let context = device.open()?;
    if let XrcSupport::No { reason } = context.xrc_support() {
        return Err(format!("{} has no XRC: {reason}", context.device_name()).into());
    }
    Ok(context)
}

fn local_port(context: &Context, options: &Options) -> Result<LocalPort, Failure> {
    let port = LocalPort::query(context, options.ib_port)?;
    let attributes = port.attributes();
    if attributes.state != PortState::Active {
        let (device, number) = (context.device_name(), options.ib_port);
        return Err(format!("port {number} of {device} is {:?}, not Active", attributes.state).into());
    }
    // Packets on Ethernet are addressed by GID; there is no other way.
    let ethernet = attributes.link_layer == LinkLayer::Ethernet;
    match options.gid_index.or(ethernet.then_some(0)) {
        Some(index) => Ok(port.gid_index(index)?),
        None => Ok(port),
    }
}

impl Node {
    pub fn create(options: &Options) -> Result<Node, Failure> {
        let (number, nodes, size) = (options.node, options.nodes, options.size);
        let context = open(options)?;
        let port = local_port(&context, options)?;
        let pd = context.create_pd()?;
        // A buffer for each message that comes and each that goes.
        let pool = pd.pool(2 * nodes, size as usize)?;
        let (send_cq, receive_cq) = (context.create_cq(nodes)?, context.create_cq(nodes)?);
        let domain = context.create_xrc_domain()?;
        let mut srq = domain.create_srq(&pd, &receive_cq).max_wr(nodes).pool(&pool).build()?;
        for tag in 0..nodes {
            srq.post(pool.take().ok_or("no free buffer")?, tag.into()).map_err(|error| error.reason)?;
        }
        let pair = |_| -> Result<_, Failure> {
            let initiator = pd.create_initiator(&send_cq).max_send_wr(1).pool(&pool).build()?;
            Ok((initiator, domain.create_target()?))
        };
        let pairs = (0..nodes).map(pair).collect::<Result<_, _>>()?;
        Ok(Node { number, nodes, size, port, pool, send_cq, receive_cq, srq, pairs, _domain: domain })
    }

    /// This node's ends of the connections to all nodes.
    pub fn endpoints(&self) -> Result<Vec<Endpoint>, Failure> {
        let end = |(initiator, target)| Ok(self.port.endpoint(initiator, target, &self.srq)?);
        self.pairs.iter().map(|(initiator, target)| end((initiator, target))).collect()
    }

    pub fn connect(&mut self, theirs: &[Endpoint]) -> Result<(), Failure> {
        for ((initiator, target), there) in self.pairs.iter_mut().zip(theirs) {
            target.connect(&self.port, there, &ConnectOptions::new())?;
            initiator.connect(&self.port, there, &ConnectOptions::new())?;
        }
        Ok(())
    }

    /// Sends to each node.
    pub fn send(&mut self, theirs: &[Endpoint]) -> Result<(), Failure> {
        for (((initiator, _), there), to) in self.pairs.iter_mut().zip(theirs).zip(1..) {
            let mut buf = self.pool.take().ok_or("no free buffer")?;
            let bytes = contents(self.number, to, self.size);
            buf.set_len(bytes.len());
            buf.copy_from_slice(&bytes);
            let imm = immediate(self.number, to);
            initiator
                .send_with_imm(there.srq, buf, imm, to.into())
                .map_err(|error| format!("the message to node {to} cannot be posted: {}", error.reason))?;
        }
        Ok(())
    }

    /// Waits until every message has come and every one of this node's is acknowledged. `seen` is told of each that
    /// has come.
    pub fn collect(&mut self, mesh: &mut Mesh, mut seen: impl FnMut(&Arrival)) -> Result<(), Failure> {
        let mut missing: Vec<bool> = vec![true; self.nodes as usize];
        let (mut sent, mut checked) = (0, Instant::now());
        let mut done = Vec::new();
        while sent < self.nodes || missing.contains(&true) {
            self.send_cq.poll(&mut done, self.nodes as usize)?;
            for completion in done.drain(..) {
                let to = completion.tag;
                completion.status.map_err(|error| format!("the message to node {to} failed: {error}"))?;
                sent += 1;
            }
            self.receive_cq.poll(&mut done, self.nodes as usize)?;
            for completion in done.drain(..) {
                let arrival = self.judge(&completion)?;
                if !std::mem::take(&mut missing[arrival.from as usize - 1]) {
                    return Err(format!("a second message came from node {}", arrival.from).into());
                }
                seen(&arrival);
            }
            if checked.elapsed() >= CHECK_INTERVAL {
                mesh.check("exchanging messages")?;
                checked = Instant::now();
            }
            std::thread::yield_now();
        }
        Ok(())
    }

    /// Whose message it is, by the target that it came through, and whether all else agrees.
    fn judge(&self, completion: &Completion) -> Result<Arrival, Failure> {
        if let Err(error) = &completion.status {
            return Err(format!("a receive failed: {error}").into());
        }
        let CompletionKind::Receive { srq, byte_len, imm, .. } = completion.kind else {
            return Err(format!("what came is no message: {completion:?}").into());
        };
        let target = completion.qp_number;
        let through = |(_, own): &(Initiator, Target)| own.qp_number() == target;
        let at = self.pairs.iter().position(through);
        let from = at.ok_or_else(|| format!("a message came through target {target}, which is not ours"))?
            as u32
            + 1;
        let wrong = |what: String| Failure::from(format!("the message from node {from}: {what}"));
        if srq != self.srq.number() {
            return Err(wrong(format!("it is SRQ {srq}'s, not {}'s", self.srq.number())));
        }
        let expected = immediate(from, self.number);
        if imm != Some(expected) {
            return Err(wrong(format!("its immediate is {imm:x?}, not {expected:#010x}")));
        }
        let bytes = completion.buf.as_deref().unwrap_or_default();
        let good = contents(from, self.number, self.size);
        if byte_len != self.size || bytes.len() != good.len() {
            return Err(wrong(format!("it has {byte_len} bytes, not {}", self.size)));
        }
        if let Some(at) = (0..good.len()).find(|&at| bytes[at] != good[at]) {
            return Err(wrong(format!("byte {at} is {:#04x}, not {:#04x}", bytes[at], good[at])));
        }
        Ok(Arrival { from, len: byte_len, imm: expected, target })
    }
}

/// What a message says: who sends it to whom, then bytes that differ from message to message.
fn contents(from: u32, to: u32, size: u32) -> Vec<u8> {
    let mut bytes = format!("from node {from} to node {to}; ").into_bytes();
    let start = bytes.len();
    // 251 is prime: the pattern shifts against every power of two.
    bytes.extend((start..size as usize).map(|at| ((at + 7 * from as usize + 83 * to as usize) % 251) as u8));
    bytes
}

/// The same in a word: the sender above, the receiver below.
fn immediate(from: u32, to: u32) -> u32 {
    from << 16 | to
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::MOST_NODES;
    use std::collections::HashSet;

    #[test]
    fn no_two_messages_are_alike() {
        let pairs = || (1..=MOST_NODES).flat_map(|from| (1..=MOST_NODES).map(move |to| (from, to)));
        let (mut texts, mut words) = (HashSet::new(), HashSet::new());
        for (from, to) in pairs() {
            // The shortest that can be asked for.
            let bytes = contents(from, to, 64);
            assert_eq!(bytes.len(), 64);
            assert!(texts.insert(bytes) && words.insert(immediate(from, to)), "{from} to {to}");
        }
    }
}
