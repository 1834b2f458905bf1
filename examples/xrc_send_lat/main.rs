//! Latency of XRC sends, with the habits of perftest's ib_send_lat.
//!
//! ```text
//! xrc_send_lat -d mlx5_0                  # on one machine: the server
//! xrc_send_lat -d mlx5_0 server.name      # on the other: the client
//! ```
//!
//! The two find each other over TCP, tell each other their endpoints, connect
//! an initiator on each side to a target on the other, and send messages to the
//! SRQ behind it, one there and one back. `--help` lists the flags; what each
//! column means stands in `stats.rs`.
//!
//! | file | what it does |
//! |---|---|
//! | `options.rs` | the command line |
//! | `fabric.rs` | device, queues, connecting them |
//! | `exchange.rs`, `wire.rs` | what the two sides say over TCP, and its bytes |
//! | `pingpong.rs` | the measurement |
//! | `stats.rs`, `report.rs` | columns, table, JSON |
//! | `failure.rs` | everything that can go wrong, in words |

#![forbid(unsafe_code)]

mod exchange;
mod fabric;
mod failure;
mod options;
mod pingpong;
mod report;
mod stats;
mod wire;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use clap::Parser;
use rdma_xrc::{Endpoint, Mtu};

use exchange::{Peer, listen};
use fabric::{Fabric, TX_DEPTH, path_mtu};
use failure::Failure;
use options::Options;
use report::{Address, Depth, Report, TestInfo, write_json};
use stats::{Samples, Summary};

fn main() -> ExitCode {
    let options = Options::parse();
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("xrc_send_lat: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), Failure> {
    let fabric = Fabric::open(options)?;
    let mut report = Report::new(BufWriter::new(io::stdout()), options.unsorted, options.histogram);
    let (mut peer, mtu) = match &options.host {
        Some(host) => {
            let mut peer = Peer::connect(host, options.port)?;
            let mtu = peer.agree(options.settings());
            (peer, mtu)
        }
        None => {
            let listener = listen(options.port)?;
            report.waiting()?;
            let (peer, mtu) = Peer::answer(&listener, |peer| peer.agree(options.settings()))?;
            (peer, Ok(mtu))
        }
    };
    let result =
        mtu.map_err(Failure::from).and_then(|mtu| test(options, &fabric, &mut peer, mtu, &mut report));
    if let Err(failure) = &result {
        peer.give_up(&failure.to_string());
    }
    let (info, rows) = result?;
    match options.json_path() {
        Some(path) => {
            let written = File::create(&path).and_then(|file| {
                let mut file = BufWriter::new(file);
                write_json(&mut file, &info, &rows, options.all)?;
                writeln!(file)?;
                file.flush()
            });
            written.map_err(|source| Failure::Json { path, source })
        }
        None => Ok(()),
    }
}

/// All sizes, from making queues to the last row. `mtu` is what the two sides agreed on.
fn test<W: Write>(
    options: &Options,
    fabric: &Fabric,
    peer: &mut Peer,
    mtu: Option<Mtu>,
    report: &mut Report<W>,
) -> Result<(TestInfo, Vec<Summary>), Failure> {
    let queues = fabric.create_queues(options, mtu)?;
    let local = queues.endpoint;
    let remote = Endpoint::from_bytes(&peer.swap_endpoints(&local.to_bytes())?)?;

    let depth = match options.is_server() {
        true => Depth::Rx(queues.depth()),
        false => Depth::Tx(TX_DEPTH),
    };
    let mtu: Mtu = path_mtu(&local, &remote);
    let info =
        TestInfo::new(fabric.device_name(), &fabric.link_type(), depth, mtu.bytes(), queues.max_inline())
            .with_gid_index(fabric.gid_index());
    report.info(&info)?;
    for (whose, endpoint) in [("local", &local), ("remote", &remote)] {
        for address in addresses(endpoint) {
            report.address(whose, &address)?;
        }
    }
    report.columns()?;

    let mut ends = fabric.connect(queues, &remote, options.is_server())?;
    // Written now, so that no page is touched for the first time while the
    // clock runs.
    let mut posted = vec![u64::MAX; options.iters as usize];
    let mut rows = Vec::new();
    let mut step = 0;
    let mut barrier = |peer: &mut Peer, doing| {
        step += 1;
        peer.barrier(step, doing)
    };
    for size in options.sizes() {
        barrier(peer, "getting ready")?;
        ends.run(peer, size, &mut posted)?;
        // Before anything slow: the other side waits for this.
        barrier(peer, "measuring")?;
        let samples = Samples::from_posting_times(size as usize, &posted);
        let samples = samples.ok_or(Failure::TooFew { iters: options.iters })?;
        rows.push(report.row(&samples)?);
    }
    report.end()?;
    // Nothing of `ends` may go before the other side has seen its last
    // completion; the last barrier has seen to that.
    drop(ends);
    Ok((info, rows))
}

/// The initiator and the target, as ib_send_lat lists its two queue pairs.
fn addresses(endpoint: &Endpoint) -> [Address; 2] {
    [(endpoint.initiator, endpoint.initiator_psn), (endpoint.target, endpoint.target_psn)].map(
        |(qpn, psn)| Address {
            lid: endpoint.lid.get(),
            qpn: qpn.get(),
            psn: psn.get(),
            srqn: endpoint.srq.get(),
            gid: endpoint.gid.map(|gid| gid.to_string()),
        },
    )
}
