//! Another process of a test, which shares an XRC domain with it by a file. A test binary with a main of its own
//! is both: with a domain in its environment it is the other process.

use super::{Node, device, received};
use rdma_xrc::{ConnectOptions, Endpoint, OpenedTarget, QpNumber, SrqNumber, XrcDomain};
use std::{
    env,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

const ROLE: &str = "RDMA_XRC_TEST_DOMAIN";

/// If this process was started as the other one: is that, until it is told to leave.
pub fn was_asked_for() -> bool {
    let Some(domain) = env::var_os(ROLE) else { return false };
    sharer(Path::new(&domain));
    true
}

pub fn shared_node(path: &Path) -> Node {
    Node::in_domain(device(), |context| {
        context.open_xrc_domain(path).create(true).open().expect("the shared domain")
    })
}

/// Opens a target and lets go of it, many times.
pub fn open_and_close(domain: &XrcDomain, number: QpNumber, times: u32) {
    for _ in 0..times {
        let opened = domain.open_target(number).expect("a target is opened");
        opened.close().map_err(|(_, error)| error).expect("and closed");
    }
}

/// Joins the domain with an SRQ of its own, tells its number and does what it is asked, a line each way.
fn sharer(path: &Path) {
    let mut node = shared_node(path);
    node.post_receives(8);
    println!("srq {}", node.srq.number().get());
    let mut opened: Option<OpenedTarget> = None;
    let mut pairs = Vec::new();
    let number = |word: &str| QpNumber::try_from(word.parse::<u32>().expect("a number")).expect("24 bits");
    for line in std::io::stdin().lines() {
        let line = line.expect("the test is there");
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["receive"] => {
                let message = received(&mut node.receive_cq);
                assert_eq!(message.srq, node.srq.number());
                println!("{} {:?}", message.target.get(), String::from_utf8_lossy(&message.bytes));
            }
            ["open", target] => match node.domain.open_target(number(target)) {
                Ok(target) => {
                    println!("{:?}", target.state().expect("its state"));
                    opened = Some(target);
                }
                Err(error) => println!("{:?} {:?}", error.kind(), error.errno()),
            },
            ["close"] => {
                opened.take().expect("opened before").close().map_err(|(_, error)| error).expect("closes");
                println!("closed");
            }
            ["open-and-close", target, times] => {
                open_and_close(&node.domain, number(target), times.parse().expect("a count"));
                println!("done");
            }
            ["connect", endpoint] => {
                // A target of this process, to the test's initiator.
                let peer: Endpoint = endpoint.parse().expect("an endpoint");
                let mut pair = node.pair();
                pair.target.connect(&node.port, &peer, &ConnectOptions::new()).expect("connects");
                println!("{}", node.endpoint(&pair));
                pairs.push(pair);
            }
            ["leave"] => return,
            _ => panic!("{line:?}"),
        }
    }
}

pub struct Sharer {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    pub srq: SrqNumber,
}

impl Sharer {
    pub fn start(domain: &Path) -> Self {
        let mut child = Command::new(env::current_exe().expect("this binary"))
            .env(ROLE, domain)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the other process starts");
        let input = child.stdin.take().expect("piped");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let mut sharer = Self { child, input, output, srq: SrqNumber::MAX };
        let line = sharer.line();
        let number = line.strip_prefix("srq ").and_then(|number| number.parse::<u32>().ok());
        sharer.srq = SrqNumber::try_from(number.expect("its SRQ's number")).expect("24 bits");
        sharer
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("the other process lives");
        line.trim_end().to_owned()
    }

    pub fn ask(&mut self, what: &str) -> String {
        writeln!(self.input, "{what}").expect("the other process lives");
        self.line()
    }

    pub fn leave(mut self) {
        writeln!(self.input, "leave").expect("the other process lives");
        assert!(self.child.wait().expect("it ends").success());
    }

    /// As `kill -9` does; its objects are gone when this returns.
    pub fn kill(mut self) {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it ends");
    }
}

/// Whatever a failed test leaves behind ends with it.
impl Drop for Sharer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
