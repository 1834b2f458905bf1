//! All nodes send to all: one XRC message from each node to each, itself included.
//!
//! ```text
//! ci/lab --guests 8 run -- target/release/examples/xrc_all_to_all -d mlx5_0
//! xrc_all_to_all -d mlx5_0 --node 1 --nodes 3 host1 host2 host3          # on a cluster, on host1
//! ```
//!
//! Each node has one domain, one SRQ in it, and for each node an initiator and a target. They find each other
//! over TCP, tell each other their endpoints, connect, and when all are ready each sends its messages. Every
//! message is checked: its sender, the target that it came through, its immediate, every byte. Whatever is
//! wrong, missing or late is an error of all nodes.
//!
//! | file | what it does |
//! |---|---|
//! | `options.rs` | the command line |
//! | `mesh.rs` | the TCP connections between the nodes, over `xrc_send_lat`'s `exchange.rs` and `wire.rs` |
//! | `node.rs` | device, queues, messages |

#![forbid(unsafe_code)]

// Two of its sides are what each two nodes are here. What only a measurement says is not used.
#[allow(dead_code)]
#[path = "../xrc_send_lat/exchange.rs"]
mod exchange;
mod mesh;
mod node;
mod options;
#[allow(dead_code)]
#[path = "../xrc_send_lat/wire.rs"]
mod wire;

use std::io::Write;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use clap::{CommandFactory, Parser};

use mesh::Mesh;
use node::Node;
use options::Options;

/// Why it ends early, in words.
type Failure = Box<dyn std::error::Error + Send + Sync>;

/// What this node is doing, for when the time is up.
static DOING: Mutex<&str> = Mutex::new("starting");

fn doing(what: &'static str) -> &'static str {
    *DOING.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = what;
    what
}

fn main() -> ExitCode {
    let options = Options::parse();
    let places = options.places().unwrap_or_else(|reason| {
        Options::command().error(clap::error::ErrorKind::ValueValidation, reason).exit()
    });
    end_at(options.limit());
    match run(&options, &places) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            last_words(format!("xrc_all_to_all: node {}: {failure}", options.node));
            ExitCode::FAILURE
        }
    }
}

/// Whatever it waits for, it does not wait longer than this.
fn end_at(limit: Duration) {
    std::thread::spawn(move || {
        std::thread::sleep(limit);
        let doing = *DOING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let limit = limit.as_secs();
        last_words(format!("xrc_all_to_all: not done after {limit} s (--time-limit), while {doing}"));
        std::process::exit(1);
    });
}

/// How long it may take to say why it ends.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Says why it ends, if that can be said: a full disk is no reason not to end, nor is a pipe that nobody reads.
fn last_words(text: String) {
    let (said, done) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let _ = writeln!(std::io::stderr(), "{text}");
        let _ = said.send(());
    });
    let _ = done.recv_timeout(LAST_WORDS);
}

fn run(options: &Options, places: &[(String, u16)]) -> Result<(), Failure> {
    doing("opening the device and making queues");
    let mut node = Node::create(options)?;
    let own = node.endpoints()?;
    doing("meeting the other nodes");
    let (mut mesh, theirs) = Mesh::meet((options.node, options.size), places, &own, options.limit())?;
    let result = exchange(options, &mut node, &mut mesh, &theirs);
    if let Err(failure) = &result {
        mesh.give_up(&failure.to_string());
    }
    result
}

fn exchange(
    options: &Options,
    node: &mut Node,
    mesh: &mut Mesh,
    theirs: &[rdma_xrc::Endpoint],
) -> Result<(), Failure> {
    doing("connecting");
    node.connect(theirs)?;
    mesh.barrier(doing("waiting until all are connected"))?;
    doing("exchanging messages");
    let start = Instant::now();
    node.send(theirs)?;
    let (number, nodes) = (options.node, options.nodes);
    let mut lines = Vec::new();
    node.collect(mesh, |arrival| {
        let node::Arrival { from, len, imm, target } = arrival;
        lines.push(format!("from node {from}: {len} bytes, immediate {imm:#010x}, through target {target}"));
    })?;
    let took = start.elapsed();
    // Nothing of this node's may go before the others have seen their last acknowledgement.
    mesh.barrier(doing("waiting until all are done"))?;
    let mut out = std::io::stdout().lock();
    for line in lines {
        writeln!(out, "{line}")?;
    }
    let ms = took.as_secs_f64() * 1e3;
    writeln!(
        out,
        "node {number} of {nodes}: {nodes} sent, {nodes} received, all as they should be, in {ms:.1} ms"
    )?;
    Ok(())
}
