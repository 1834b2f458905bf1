//! The TCP connections between all nodes: who is who, each other's endpoints, barriers.
//!
//! Each node calls those before it and is called by those after it. The caller says first who it is; one that says
//! something else, or nothing, is no node and is sent away.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use rdma_xrc::Endpoint;

use crate::Failure;
use crate::exchange::{ExchangeError, Peer, listen};

/// What a node says of itself to another: that it is `node` of `nodes`, sends messages of `size` bytes, and the end
/// of the connection between the two.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Card {
    node: u32,
    nodes: u32,
    size: u32,
    endpoint: Endpoint,
}

impl Card {
    const NUMBERS: usize = 3;

    fn to_bytes(&self) -> Vec<u8> {
        let numbers = [self.node, self.nodes, self.size].map(u32::to_be_bytes);
        [numbers.as_flattened(), &self.endpoint.to_bytes()].concat()
    }

    /// Anybody may call, so nothing is believed.
    fn from_bytes(bytes: &[u8]) -> Result<Card, String> {
        let (numbers, endpoint) = bytes
            .split_at_checked(4 * Self::NUMBERS)
            .ok_or_else(|| format!("a node said {} bytes of itself, which are too few", bytes.len()))?;
        let mut number = numbers
            .chunks_exact(4)
            .map(|bytes| bytes.iter().fold(0u32, |number, &byte| number << 8 | u32::from(byte)));
        let mut next = || number.next().unwrap_or_default();
        let (node, nodes, size) = (next(), next(), next());
        let endpoint = Endpoint::from_bytes(endpoint).map_err(|error| error.to_string())?;
        Ok(Card { node, nodes, size, endpoint })
    }

    /// Whether it is a node of the run that this one is of.
    fn agrees(&self, (our_nodes, our_size): (u32, u32)) -> Result<(), String> {
        let &Card { node, nodes, size, .. } = self;
        if (nodes, size) != (our_nodes, our_size) {
            return Err(format!(
                "node {node} is of {nodes} nodes and sends {size} bytes, this one is of {our_nodes} and sends \
                 {our_size}: start all with the same --nodes and -s"
            ));
        }
        Ok(())
    }

    /// A peer's.
    fn receive(peer: &mut Peer) -> Result<Card, ExchangeError> {
        let bytes = peer.receive_endpoint()?;
        Card::from_bytes(&bytes).map_err(|why| peer.refuse("words of itself", why))
    }
}

/// The other nodes, in order.
#[derive(Debug)]
pub struct Mesh {
    peers: Vec<(u32, Peer)>,
    step: u32,
}

impl Mesh {
    /// Meets all others. `endpoints`: this node's end of the connection to each node, node 1's first, its own
    /// included. Gives the other ends, in the same order; its own is the one it gave.
    pub fn meet(
        (node, size): (u32, u32),
        places: &[(String, u16)],
        endpoints: &[Endpoint],
        patience: Duration,
    ) -> Result<(Mesh, Vec<Endpoint>), Failure> {
        let nodes = places.len() as u32;
        let card = |other: u32| {
            let endpoint = endpoints[other as usize - 1];
            Card { node, nodes, size, endpoint }.to_bytes()
        };
        let port = places[node as usize - 1].1;
        // First of all: the later nodes may be calling already.
        let listener = (node < nodes).then(|| listen(port)).transpose()?;
        let until = Instant::now() + patience;
        let mut theirs: Vec<Option<Endpoint>> = vec![None; places.len()];
        theirs[node as usize - 1] = Some(endpoints[node as usize - 1]);
        let mut mesh = Mesh { peers: Vec::new(), step: 0 };
        for other in 1..node {
            let (host, port) = &places[other as usize - 1];
            let left = until.saturating_duration_since(Instant::now());
            let mut peer = Peer::connect_within(host, *port, left)?;
            peer.patience = patience;
            peer.send_endpoint(&card(other))?;
            let there = Card::receive(&mut peer)?;
            there.agrees((nodes, size))?;
            if there.node != other {
                return Err(format!("{host} port {port} is node {}, not {other}", there.node).into());
            }
            theirs[other as usize - 1] = Some(there.endpoint);
            mesh.peers.push((other, peer));
        }
        if let Some(listener) = listener {
            mesh.be_called(&listener, (node, nodes, size), &mut theirs, card, patience)?;
        }
        mesh.peers.sort_by_key(|(node, _)| *node);
        let theirs: Option<Vec<Endpoint>> = theirs.into_iter().collect();
        Ok((mesh, theirs.ok_or("a node is missing")?))
    }

    fn be_called(
        &mut self,
        listener: &TcpListener,
        (node, nodes, size): (u32, u32, u32),
        theirs: &mut [Option<Endpoint>],
        card: impl Fn(u32) -> Vec<u8>,
        patience: Duration,
    ) -> Result<(), Failure> {
        for _ in node..nodes {
            let (mut peer, there) = Peer::answer(listener, Card::receive)?;
            peer.patience = patience;
            let wanted = there.agrees((nodes, size)).and_then(|()| {
                let expected = node < there.node && there.node <= nodes;
                if !expected || theirs[there.node as usize - 1].is_some() {
                    let caller = there.node;
                    return Err(format!("node {caller} calls, and is no node that has yet to call"));
                }
                Ok(())
            });
            // Who calls hears why it is refused.
            wanted.inspect_err(|reason| peer.give_up(reason))?;
            theirs[there.node as usize - 1] = Some(there.endpoint);
            peer.send_endpoint(&card(there.node))?;
            self.peers.push((there.node, peer));
        }
        Ok(())
    }

    /// Returns when every node has got here.
    pub fn barrier(&mut self, doing: &'static str) -> Result<(), Failure> {
        self.step += 1;
        for (_, peer) in &mut self.peers {
            peer.barrier(self.step, doing)?;
        }
        Ok(())
    }

    /// An error if a node has gone or has given up.
    pub fn check(&mut self, doing: &'static str) -> Result<(), Failure> {
        self.peers.iter_mut().try_for_each(|(_, peer)| Ok(peer.check(doing)?))
    }

    /// Tells all others why this node ends.
    pub fn give_up(&mut self, reason: &str) {
        self.peers.iter_mut().for_each(|(_, peer)| peer.give_up(reason));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::TcpStream;

    use rdma_xrc::{Lid, Mtu, Psn, QpNumber, SrqNumber};

    fn endpoint(number: u32) -> Endpoint {
        let qp = |number| QpNumber::try_from(number).expect("24 bits");
        Endpoint {
            lid: Lid::new(3),
            gid: None,
            mtu: Mtu::Mtu4096,
            initiator: qp(number),
            initiator_psn: Psn::random(),
            target: qp(number + 1),
            target_psn: Psn::random(),
            srq: SrqNumber::try_from(number).expect("24 bits"),
        }
    }

    #[test]
    fn cards_go_there_and_back_and_strange_ones_are_refused() {
        let card = Card { node: 2, nodes: 8, size: 256, endpoint: endpoint(0x41) };
        let bytes = card.to_bytes();
        assert_eq!(Card::from_bytes(&bytes).expect("a card"), card);
        card.agrees((8, 256)).expect("of the same run");
        assert!(card.agrees((7, 256)).expect_err("another run").contains("is of 8 nodes"));
        assert!(card.agrees((8, 64)).expect_err("another size").contains("sends 256 bytes"));
        let refused = |bytes: &[u8]| Card::from_bytes(bytes).expect_err("no card");
        assert!(refused(&bytes[..11]).contains("too few"));
        assert!(refused(&bytes[..bytes.len() - 1]).contains("an endpoint has"));
    }

    /// A port that nobody has, on this machine.
    fn place() -> (String, u16) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        ("127.0.0.1".to_owned(), listener.local_addr().expect("its address").port())
    }

    /// Calls as soon as somebody listens.
    fn call(port: u16) -> TcpStream {
        loop {
            match TcpStream::connect(("127.0.0.1", port)) {
                Ok(stream) if stream.local_addr().ok() != stream.peer_addr().ok() => return stream,
                _ => std::thread::sleep(Duration::from_millis(10)),
            }
        }
    }

    /// Whatever calls a node's port before the node that it waits for, the two meet.
    #[test]
    fn strangers_do_not_end_the_mesh() {
        let places = [place(), place()];
        let port = places[0].1;
        std::thread::scope(|scope| {
            let first = scope.spawn(|| {
                Mesh::meet((1, 256), &places, &[endpoint(0x41), endpoint(0x51)], Duration::from_secs(60))
            });
            call(port).write_all(b"GET / HTTP/1.1\r\n\r\n").expect("garbage is sent");
            let _silent = call(port);
            drop(call(port));
            // This program's own words, and too few of them.
            let mut short = Peer::connect("127.0.0.1", port).expect("connects");
            short.send_endpoint(&[0; 11]).expect("sent");
            let second =
                Mesh::meet((2, 256), &places, &[endpoint(0x61), endpoint(0x71)], Duration::from_secs(60));
            let (_second, theirs) = second.expect("it meets the first");
            assert_eq!(theirs[0].initiator, endpoint(0x51).initiator);
            first.join().expect("no panic").expect("it meets the second");
        });
    }

    /// A node of another run is no stranger: all hear of it.
    #[test]
    fn a_node_that_disagrees_ends_the_mesh() {
        let (places, ends) = ([place(), place()], [endpoint(0x41), endpoint(0x51)]);
        std::thread::scope(|scope| {
            let first = scope.spawn(|| Mesh::meet((1, 256), &places, &ends, Duration::from_secs(60)));
            let second = Mesh::meet((2, 64), &places, &ends, Duration::from_secs(60));
            for met in [first.join().expect("no panic"), second] {
                let said = met.expect_err("they disagree").to_string();
                assert!(said.contains("start all with the same --nodes and -s"), "{said}");
            }
        });
    }

    /// Four nodes meet over this machine's loopback and each learns of each other's end for it.
    #[test]
    fn four_nodes_meet() {
        const NODES: u32 = 4;
        let places: Vec<(String, u16)> = (0..NODES).map(|_| place()).collect();
        // Node a's end for node b has the number 100 a + 10 b.
        let ends = |node: u32| -> Vec<Endpoint> {
            (1..=NODES).map(|other| endpoint(100 * node + 10 * other)).collect()
        };
        std::thread::scope(|scope| {
            for node in 1..=NODES {
                let places = &places;
                scope.spawn(move || {
                    let (mut mesh, theirs) =
                        Mesh::meet((node, 256), places, &ends(node), Duration::from_secs(60))
                            .expect("they meet");
                    let found: Vec<u32> = theirs.iter().map(|end| end.initiator.get()).collect();
                    let expected: Vec<u32> = (1..=NODES).map(|other| 100 * other + 10 * node).collect();
                    assert_eq!(found, expected);
                    mesh.barrier("testing").expect("all are here");
                    mesh.check("testing").expect("all are well");
                    mesh.barrier("testing").expect("all are here again");
                });
            }
        });
    }
}
