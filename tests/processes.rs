//! Two processes that share an XRC domain by its file. This binary is both: with a role in its
//! environment it is the other process, else the test harness.

mod common;

use common::{Node, Pair, device, received, sent};
use libtest_mimic::{Arguments, Failed, Trial};
use rdma_xrc::{ConnectOptions, Endpoint, ErrorKind, SrqNumber};
use std::{
    env,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio},
};

const ROLE: &str = "RDMA_XRC_TEST_DOMAIN";
const WHY: &str = "needs an XRC device: set RDMA_XRC_DEVICE, or run ci/lab test";

fn main() -> ExitCode {
    if let Some(domain) = env::var_os(ROLE) {
        sharer(Path::new(&domain));
        return ExitCode::SUCCESS;
    }
    let trials = vec![
        Trial::test("one_target_reaches_the_srqs_of_two_processes", one_target_two_processes)
            .with_kind(WHY)
            .with_ignored_flag(true),
        Trial::test("case_18_a_domain_lives_with_its_last_process", last_process)
            .with_kind(WHY)
            .with_ignored_flag(true),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn shared_node(path: &Path) -> Node {
    Node::in_domain(device(), |context| {
        context.open_xrc_domain(path).create(true).open().expect("the shared domain")
    })
}

/// The other process: joins the domain with an SRQ of its own and no target at all, tells its number and
/// what it receives.
fn sharer(path: &Path) {
    let mut node = shared_node(path);
    node.post_receives(8);
    println!("srq {}", node.srq.number().get());
    for line in std::io::stdin().lines() {
        match line.expect("the test is there").as_str() {
            "receive" => {
                let message = received(&mut node.receive_cq);
                assert_eq!(message.srq, node.srq.number());
                println!("{} {:?}", message.target.get(), String::from_utf8_lossy(&message.bytes));
            }
            "leave" => return,
            other => panic!("{other:?}"),
        }
    }
}

struct Sharer {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    srq: SrqNumber,
}

impl Sharer {
    fn start(domain: &Path) -> Self {
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

    fn ask(&mut self, what: &str) -> String {
        writeln!(self.input, "{what}").expect("the other process lives");
        self.line()
    }

    fn leave(mut self) {
        writeln!(self.input, "leave").expect("the other process lives");
        assert!(self.child.wait().expect("it ends").success());
    }
}

/// Whatever a failed test leaves behind ends with it.
impl Drop for Sharer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn one_target_two_processes() -> Result<(), Failed> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("domain");
    let mut node = shared_node(&path);
    let mut sharers = [Sharer::start(&path), Sharer::start(&path)];
    // The one target of all three processes is this one's.
    let Pair { mut initiator, target } = node.loopback(&ConnectOptions::new());
    node.post_receives(4);
    for round in 0..4 {
        for (at, sharer) in sharers.iter_mut().enumerate() {
            let text = format!("message {round} for process {at}");
            initiator.send_inline(sharer.srq, text.as_bytes(), 0)?;
            let told = sharer.ask("receive");
            assert_eq!(told, format!("{} {text:?}", target.qp_number().get()));
            sent(&mut node.send_cq);
        }
        initiator.send_inline(node.srq.number(), b"mine", 0)?;
        assert_eq!(received(&mut node.receive_cq).bytes, b"mine");
        sent(&mut node.send_cq);
    }
    let [first, second] = sharers;
    let gone = first.srq;
    first.leave();
    initiator.send_inline(second.srq, b"x", 0)?;
    sent(&mut node.send_cq);
    // A private domain's initiator cannot be told from ours by the device; its SRQs can.
    let stranger = Node::new();
    let elsewhere = Endpoint { srq: stranger.srq.number(), ..node.endpoint(&node.pair()) };
    for number in [elsewhere.srq, gone] {
        let mut pair = node.loopback(&ConnectOptions::new().timeout(8).retry_count(1));
        pair.initiator.send_inline(number, b"nobody", 0)?;
        let failed = common::wait(&mut node.send_cq, 1).remove(0);
        assert!(failed.status.is_err(), "SRQ {number} is not of this domain any more, or never was");
    }
    second.leave();
    Ok(())
}

fn last_process() -> Result<(), Failed> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("domain");
    let context = device();
    let sharer = Sharer::start(&path);
    let joined = context.open_xrc_domain(&path).open()?;
    let exclusive = context.open_xrc_domain(&path).exclusive(true).open();
    assert_eq!(exclusive.unwrap_err().kind(), ErrorKind::AlreadyExists);
    joined.close().map_err(|(_, error)| error)?;
    let again = context.open_xrc_domain(&path).open()?;
    sharer.leave();
    drop(context.open_xrc_domain(&path).open()?);
    drop(again);
    assert_eq!(context.open_xrc_domain(&path).open().unwrap_err().kind(), ErrorKind::NotFound);
    Ok(())
}
