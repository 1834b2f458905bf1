//! The TCP connection between the two sides: settings and endpoints before the
//! test, barriers around each part of it, bad news at any time.
//!
//! Only a server's wait for its client is without end, as in ib_send_lat: a
//! person is on the other side of it. Every other wait has a limit. Anybody may
//! call while a server waits, so whoever calls and does not soon begin as the
//! other side would is sent away ([`Peer::answer`]), and the next one is heard.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::thread;
use std::time::{Duration, Instant};

use rdma_xrc::Mtu;

use crate::wire::{HEADER_LEN, Header, Message, Settings, WireError};

/// For how long a client goes on trying while nobody listens or answers.
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);
/// Between two such tries.
const CONNECT_PAUSE: Duration = Duration::from_millis(100);
/// The longest wait for one message of the other side.
const MESSAGE_PATIENCE: Duration = Duration::from_secs(30);
/// The longest wait for the first message of a caller, who sends it as soon as
/// it has called.
const CALLER_PATIENCE: Duration = Duration::from_secs(5);

/// What can go wrong between the two sides.
#[derive(Debug, thiserror::Error)]
pub enum ExchangeError {
    #[error("cannot listen on TCP port {port}: {source}")]
    Listen { port: u16, source: io::Error },
    #[error("cannot accept a client: {0}")]
    Accept(#[source] io::Error),
    #[error("cannot find the host {host}: {source}")]
    Resolve { host: String, source: io::Error },
    #[error(
        "cannot connect to {host} port {port}: {source} (is the server running there, with the same -p?)"
    )]
    Connect { host: String, port: u16, source: io::Error },
    #[error("the connection to {peer} broke while {doing}: {source}")]
    Broken { peer: SocketAddr, doing: &'static str, source: io::Error },
    #[error("{peer} closed its connection while {doing}: it ended or was killed")]
    Closed { peer: SocketAddr, doing: &'static str },
    #[error("{peer} said nothing for {} s while {doing}", .after.as_secs())]
    Silent { peer: SocketAddr, doing: &'static str, after: Duration },
    #[error("{peer} is refused: {source}")]
    Refused { peer: SocketAddr, source: WireError },
    #[error("{peer} sent {got} instead of {wanted}: the two sides are out of step")]
    OutOfStep { peer: SocketAddr, wanted: String, got: String },
    #[error("{peer} cannot run this test: {difference}; give both the same")]
    Disagree { peer: SocketAddr, difference: String },
    #[error("{peer} gave up: {reason}")]
    GaveUp { peer: SocketAddr, reason: String },
}

impl ExchangeError {
    /// Whether a caller of whom this is heard first may be anybody: it did not
    /// begin as the other side does.
    fn is_of_a_stranger(&self) -> bool {
        match self {
            ExchangeError::Accept(source) => {
                // It had gone before it was answered.
                matches!(source.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset)
            }
            ExchangeError::Broken { .. }
            | ExchangeError::Closed { .. }
            | ExchangeError::Silent { .. }
            | ExchangeError::Refused { .. }
            | ExchangeError::OutOfStep { .. }
            | ExchangeError::GaveUp { .. } => true,
            _ => false,
        }
    }
}

/// The other side.
#[derive(Debug)]
pub struct Peer {
    stream: TcpStream,
    address: SocketAddr,
    /// The longest wait for one message of it, 30 s unless somebody says otherwise.
    pub patience: Duration,
}

/// Open the port on which a client will call.
pub fn listen(port: u16) -> Result<TcpListener, ExchangeError> {
    // One IPv6 socket takes IPv4 callers too; a machine without IPv6 has none.
    TcpListener::bind((Ipv6Addr::UNSPECIFIED, port))
        .or_else(|first| match first.kind() {
            io::ErrorKind::AddrInUse | io::ErrorKind::PermissionDenied => Err(first),
            _ => TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)),
        })
        .map_err(|source| ExchangeError::Listen { port, source })
}

/// A connection to somebody else: while nobody listens on a port of this very
/// machine, TCP may pick that port for the caller and connect it to itself.
fn connect_to_other(address: &SocketAddr, patience: Duration) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(address, patience)?;
    if stream.local_addr()? == stream.peer_addr()? {
        return Err(io::ErrorKind::ConnectionRefused.into());
    }
    Ok(stream)
}

impl Peer {
    /// Wait for a client, for as long as it takes.
    pub fn accept(listener: &TcpListener) -> Result<Peer, ExchangeError> {
        let (stream, address) = listener.accept().map_err(ExchangeError::Accept)?;
        Peer::over(stream, address).map_err(ExchangeError::Accept)
    }

    /// Wait for a caller whose first message `hear`s well. Strangers are told
    /// why they are not heard, as is the user, and sent away.
    pub fn answer<T>(
        listener: &TcpListener,
        mut hear: impl FnMut(&mut Peer) -> Result<T, ExchangeError>,
    ) -> Result<(Peer, T), ExchangeError> {
        loop {
            let heard = Peer::accept(listener).and_then(|mut peer| {
                let patience = std::mem::replace(&mut peer.patience, CALLER_PATIENCE);
                match hear(&mut peer) {
                    Ok(heard) => {
                        peer.patience = patience;
                        Ok((peer, heard))
                    }
                    Err(error) => {
                        peer.give_up(&error.to_string());
                        Err(error)
                    }
                }
            });
            match heard {
                Err(stranger) if stranger.is_of_a_stranger() => {
                    // Where nobody can be told, it goes on all the same.
                    let _ = writeln!(io::stderr(), "a caller is sent away: {stranger}");
                }
                heard => return heard,
            }
        }
    }

    /// Call a server, which may not be up yet.
    pub fn connect(host: &str, port: u16) -> Result<Peer, ExchangeError> {
        Peer::connect_within(host, port, CONNECT_PATIENCE)
    }

    /// The same, for as long as the caller says.
    pub fn connect_within(host: &str, port: u16, patience: Duration) -> Result<Peer, ExchangeError> {
        let failed = |source| ExchangeError::Connect { host: host.to_owned(), port, source };
        let deadline = Instant::now() + patience;
        let addresses: Vec<SocketAddr> = (host, port)
            .to_socket_addrs()
            .map_err(|source| ExchangeError::Resolve { host: host.to_owned(), source })?
            .collect();
        loop {
            let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
            for address in &addresses {
                let left = deadline.saturating_duration_since(Instant::now());
                match connect_to_other(address, left.max(CONNECT_PAUSE)) {
                    Ok(stream) => return Peer::over(stream, *address).map_err(failed),
                    Err(error) => last = error,
                }
            }
            // What a machine says on which the server is not up yet, and what is
            // met where the machine itself is not; anything else won't mend itself.
            let may_come_up = matches!(
                last.kind(),
                io::ErrorKind::ConnectionRefused | io::ErrorKind::HostUnreachable | io::ErrorKind::TimedOut
            );
            if !may_come_up || Instant::now() + CONNECT_PAUSE >= deadline {
                return Err(failed(last));
            }
            thread::sleep(CONNECT_PAUSE);
        }
    }

    fn over(stream: TcpStream, address: SocketAddr) -> io::Result<Peer> {
        // An IPv4 caller of an IPv6 socket is shown as it shows itself.
        let address = SocketAddr::new(address.ip().to_canonical(), address.port());
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(MESSAGE_PATIENCE))?;
        Ok(Peer { stream, address, patience: MESSAGE_PATIENCE })
    }

    /// What the other side said makes no sense where only the caller knows what does.
    #[allow(dead_code)] // For xrc_all_to_all, whose nodes say more than endpoints.
    pub fn refuse(&self, what: &'static str, why: String) -> ExchangeError {
        let source = WireError::Payload { what, why };
        ExchangeError::Refused { peer: self.address, source }
    }

    /// Compare what both users asked for; gives the MTU that one of them wants.
    pub fn agree(&mut self, here: Settings) -> Result<Option<Mtu>, ExchangeError> {
        let doing = "comparing settings";
        self.send(&Message::Settings(here), doing)?;
        match self.receive(doing)? {
            Message::Settings(there) => here
                .agree(&there)
                .map_err(|difference| ExchangeError::Disagree { peer: self.address, difference }),
            other => Err(self.out_of_step("its settings", other.name())),
        }
    }

    /// Swap endpoints in their wire form.
    pub fn swap_endpoints(&mut self, here: &[u8]) -> Result<Vec<u8>, ExchangeError> {
        self.send_endpoint(here)?;
        self.receive_endpoint()
    }

    /// One half of the swap: tell the other side of this one's endpoint.
    pub fn send_endpoint(&mut self, here: &[u8]) -> Result<(), ExchangeError> {
        self.send(&Message::Endpoint(here.to_vec()), "swapping endpoints")
    }

    /// One half of the swap: hear of the other side's.
    pub fn receive_endpoint(&mut self) -> Result<Vec<u8>, ExchangeError> {
        match self.receive("swapping endpoints")? {
            Message::Endpoint(there) => Ok(there),
            other => Err(self.out_of_step("its endpoint", other.name())),
        }
    }

    /// Return when both sides have got to `step`.
    pub fn barrier(&mut self, step: u32, doing: &'static str) -> Result<(), ExchangeError> {
        self.send(&Message::Barrier(step), doing)?;
        match self.receive(doing)? {
            Message::Barrier(reached) if reached == step => Ok(()),
            Message::Barrier(reached) => {
                Err(self.out_of_step(&format!("step {step}"), &format!("step {reached}")))
            }
            other => Err(self.out_of_step("a barrier step", other.name())),
        }
    }

    /// Tell the other side why this one ends, if it still listens.
    pub fn give_up(&mut self, reason: &str) {
        // The error that led here is the one to report, not this one's.
        let _ = self.stream.write_all(&Message::Failed(reason.to_owned()).encode());
    }

    /// Whether the other side is still there and well, without waiting: an
    /// error when it has gone or has given up.
    pub fn check(&mut self, doing: &'static str) -> Result<(), ExchangeError> {
        let mut header = [0; HEADER_LEN];
        self.stream.set_nonblocking(true).map_err(|source| self.broken(doing, source))?;
        let peeked = self.stream.peek(&mut header);
        self.stream.set_nonblocking(false).map_err(|source| self.broken(doing, source))?;
        match peeked {
            Ok(0) => Err(ExchangeError::Closed { peer: self.address, doing }),
            // It may be at the next barrier already, which is as it should be.
            Ok(HEADER_LEN) if !self.decode(Header::decode(&header))?.is_failure() => Ok(()),
            Ok(HEADER_LEN) => self.receive(doing).map(drop),
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(source) => Err(self.broken(doing, source)),
        }
    }

    fn send(&mut self, message: &Message, doing: &'static str) -> Result<(), ExchangeError> {
        match self.stream.write_all(&message.encode()) {
            Ok(()) => Ok(()),
            Err(error) => {
                // It may have said why before it went.
                self.check(doing)?;
                Err(self.broken(doing, error))
            }
        }
    }

    /// One message; a [`Message::Failed`] comes as an error.
    fn receive(&mut self, doing: &'static str) -> Result<Message, ExchangeError> {
        let deadline = Instant::now() + self.patience;
        let mut header = [0; HEADER_LEN];
        self.read_by(deadline, &mut header, doing)?;
        let header = self.decode(Header::decode(&header))?;
        let mut payload = vec![0; header.payload_len];
        self.read_by(deadline, &mut payload, doing)?;
        match self.decode(Message::decode(header, &payload))? {
            Message::Failed(reason) => Err(ExchangeError::GaveUp { peer: self.address, reason }),
            message => Ok(message),
        }
    }

    /// Fill `bytes`; the deadline is for all of them, so that a peer that sends
    /// a byte now and then is no better off than a silent one.
    fn read_by(
        &mut self,
        deadline: Instant,
        bytes: &mut [u8],
        doing: &'static str,
    ) -> Result<(), ExchangeError> {
        let silent = ExchangeError::Silent { peer: self.address, doing, after: self.patience };
        let mut filled = 0;
        while filled < bytes.len() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(silent);
            }
            self.stream.set_read_timeout(Some(left)).map_err(|e| self.broken(doing, e))?;
            match self.stream.read(&mut bytes[filled..]) {
                Ok(0) => return Err(ExchangeError::Closed { peer: self.address, doing }),
                Ok(count) => filled += count,
                Err(error) => match error.kind() {
                    io::ErrorKind::Interrupted => {}
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => return Err(silent),
                    _ => return Err(self.broken(doing, error)),
                },
            }
        }
        Ok(())
    }

    fn decode<T>(&self, decoded: Result<T, WireError>) -> Result<T, ExchangeError> {
        decoded.map_err(|source| ExchangeError::Refused { peer: self.address, source })
    }

    fn broken(&self, doing: &'static str, source: io::Error) -> ExchangeError {
        match source.kind() {
            // How a process ends that had something left to read.
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
                ExchangeError::Closed { peer: self.address, doing }
            }
            _ => ExchangeError::Broken { peer: self.address, doing, source },
        }
    }

    fn out_of_step(&self, wanted: &str, got: &str) -> ExchangeError {
        ExchangeError::OutOfStep { peer: self.address, wanted: wanted.to_owned(), got: got.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: Settings = Settings { size: 2, iters: 1000, all: false, mtu: None };

    /// A listener on a free port of the loopback interface.
    fn listener() -> (TcpListener, u16) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = listener.local_addr().expect("its address").port();
        (listener, port)
    }

    /// Both ends of one connection.
    fn pair() -> (Peer, Peer) {
        let (listener, port) = listener();
        let client = Peer::connect("127.0.0.1", port).expect("connects");
        (Peer::accept(&listener).expect("accepts"), client)
    }

    /// This side of a connection whose other end is a plain socket.
    fn against_socket() -> (Peer, TcpStream) {
        let (listener, port) = listener();
        let socket = TcpStream::connect(("127.0.0.1", port)).expect("connects");
        (Peer::accept(&listener).expect("accepts"), socket)
    }

    #[test]
    fn a_whole_exchange() {
        let (mut server, mut client) = pair();
        let other = thread::spawn(move || {
            assert_eq!(client.agree(SETTINGS).expect("agrees"), Some(Mtu::Mtu512));
            assert_eq!(client.swap_endpoints(b"client").expect("swaps"), b"server");
            client.barrier(1, "testing").expect("both are there");
            client
        });
        let here = Settings { mtu: Some(Mtu::Mtu512), ..SETTINGS };
        assert_eq!(server.agree(here).expect("agrees"), Some(Mtu::Mtu512));
        assert_eq!(server.swap_endpoints(b"server").expect("swaps"), b"client");
        server.barrier(1, "testing").expect("both are there");
        drop(other.join().expect("the client passed"));
    }

    #[test]
    fn both_sides_hear_of_a_difference() {
        let (mut server, mut client) = pair();
        let there = Settings { size: 64, ..SETTINGS };
        let other = thread::spawn(move || client.agree(there).map(drop));
        let here = server.agree(SETTINGS).expect_err("sizes differ").to_string();
        let there = other.join().expect("no panic").expect_err("sizes differ").to_string();
        assert!(here.contains("2 on this side and 64 on the other"), "{here}");
        assert!(there.contains("64 on this side and 2 on the other"), "{there}");
    }

    #[test]
    fn a_client_waits_for_its_server_but_not_for_ever() {
        let (listener, port) = listener();
        drop(listener);
        let begun = Instant::now();
        let error = Peer::connect_within("127.0.0.1", port, Duration::from_millis(300));
        let text = error.expect_err("nobody listens").to_string();
        assert!(text.contains("is the server running there"), "{text}");
        assert!(begun.elapsed() >= Duration::from_millis(150), "it gave up at once");

        let late = thread::spawn(move || {
            thread::sleep(Duration::from_millis(300));
            let listener = TcpListener::bind(("127.0.0.1", port)).expect("the port is free");
            Peer::accept(&listener).expect("accepts")
        });
        Peer::connect("127.0.0.1", port).expect("the server came up");
        drop(late.join().expect("the server passed"));
    }

    #[test]
    fn strangers_are_refused() {
        let (mut server, mut stranger) = against_socket();
        stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("sends");
        let text = server.agree(SETTINGS).expect_err("not our protocol").to_string();
        assert!(text.contains("does not speak these programs' protocol (it began with \"GET \")"), "{text}");
    }

    /// One who sends other bytes, one who says nothing, one who calls and goes:
    /// none of them is the client, nor ends the wait for it.
    #[test]
    fn a_server_outlives_its_strangers() {
        let (listener, port) = listener();
        let call = || TcpStream::connect(("127.0.0.1", port)).expect("connects");
        let mut garbage = call();
        garbage.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("sends");
        let _silent = call();
        drop(call());
        let mut client = Peer::connect("127.0.0.1", port).expect("connects");
        let there = thread::spawn(move || client.agree(SETTINGS));
        let (server, mtu) = Peer::answer(&listener, |peer| peer.agree(SETTINGS)).expect("the client");
        assert_eq!((mtu, server.patience), (None, MESSAGE_PATIENCE));
        assert_eq!(there.join().expect("no panic").expect("agrees"), None);
    }

    /// A client that wants something else is no stranger: both users hear of it.
    #[test]
    fn a_client_that_disagrees_ends_the_wait() {
        let (listener, port) = listener();
        let mut client = Peer::connect("127.0.0.1", port).expect("connects");
        let there = thread::spawn(move || client.agree(Settings { size: 64, ..SETTINGS }).map(drop));
        let error = Peer::answer(&listener, |peer| peer.agree(SETTINGS)).map(drop);
        assert!(matches!(error, Err(ExchangeError::Disagree { .. })), "{error:?}");
        let there = there.join().expect("no panic");
        assert!(matches!(there, Err(ExchangeError::Disagree { .. })), "{there:?}");
    }

    #[test]
    fn silence_and_a_drip_of_bytes_both_end() {
        let (mut server, mut slow) = against_socket();
        server.patience = Duration::from_millis(250);
        let bytes = Message::Settings(SETTINGS).encode();
        let dripping = thread::spawn(move || {
            for byte in bytes {
                thread::sleep(Duration::from_millis(50));
                if slow.write_all(&[byte]).is_err() {
                    break;
                }
            }
            slow
        });
        let error = server.agree(SETTINGS).expect_err("too slow");
        assert!(matches!(error, ExchangeError::Silent { .. }), "{error}");
        drop(server);
        drop(dripping.join());
    }

    #[test]
    fn check_notices_who_has_gone_and_lets_the_rest_be() {
        let (mut server, mut client) = pair();
        server.check("testing").expect("it is there");
        client.send(&Message::Barrier(7), "testing").expect("sends");
        wait_for_bytes(&server);
        server.check("testing").expect("a barrier is no trouble");
        server.barrier(7, "testing").expect("and is still there to be read");
        drop(client);
        wait_for_bytes(&server);
        let error = server.check("testing").expect_err("it has gone");
        assert!(matches!(error, ExchangeError::Closed { .. }), "{error}");
    }

    #[test]
    fn a_reason_to_give_up_arrives() {
        let (mut server, mut client) = pair();
        client.give_up("no memory");
        wait_for_bytes(&server);
        let text = server.check("testing").expect_err("it gave up").to_string();
        assert!(text.ends_with("gave up: no memory"), "{text}");
    }

    /// Until something has arrived: bytes, the end or a reset.
    fn wait_for_bytes(peer: &Peer) {
        peer.stream.set_read_timeout(Some(MESSAGE_PATIENCE)).expect("a valid time");
        if let Err(error) = peer.stream.peek(&mut [0]) {
            assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        }
    }
}
