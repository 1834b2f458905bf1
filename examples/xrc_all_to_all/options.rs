//! The command line, with perftest's habits, and the lab's variables where nothing is said.

use std::net::Ipv4Addr;
use std::time::Duration;

use clap::Parser;

/// The most nodes: each has a connection to each.
pub const MOST_NODES: u32 = 64;

const AFTER_HELP: &str = "\
Start it on every node, with the same -p, -s and --nodes. Node n listens on TCP port <port> + n - 1, so several nodes can be \
on one machine. In the lab's guests nothing needs to be said: NODE, NODES and SELF_ADDR are set there.

Exit status: 0 when every message arrived as it should, 1 when one did not or the time was up, 2 when the command \
line is wrong.";

/// One XRC message from each of several nodes to each, itself included.
#[derive(Debug, Clone, PartialEq, Parser)]
#[command(name = "xrc_all_to_all", version, after_help = AFTER_HELP, max_term_width = 100)]
pub struct Options {
    /// The nodes' addresses, node 1's first (default: those of SELF_ADDR's network, ending in 1, 2, 3 ...)
    pub hosts: Vec<String>,

    /// Use IB device <dev> (default first device found)
    #[arg(short = 'd', long = "ib-dev", value_name = "dev")]
    pub device: Option<String>,

    /// Use port <port> of IB device
    #[arg(short = 'i', long = "ib-port", value_name = "port", default_value_t = 1,
          value_parser = clap::value_parser!(u8).range(1..))]
    pub ib_port: u8,

    /// Node 1 listens on TCP port <port>, node 2 on the next, and so on
    #[arg(short, long, value_name = "port", default_value_t = 18515, value_parser = clap::value_parser!(u16).range(1..))]
    pub port: u16,

    /// Size of each message in bytes, 64 to 1048576
    #[arg(short, long, value_name = "size", default_value_t = 256,
          value_parser = clap::value_parser!(u32).range(64..=1 << 20))]
    pub size: u32,

    /// Use GID with GID index (default: IB - no gid, ETH - 0)
    #[arg(short = 'x', long = "gid-index", value_name = "index")]
    pub gid_index: Option<u8>,

    /// This node's number
    #[arg(long, value_name = "n", env = "NODE", default_value_t = 1)]
    pub node: u32,

    /// How many nodes there are, 1 to 64; the same on all of them
    #[arg(long, value_name = "count", env = "NODES", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_NODES)))]
    pub nodes: u32,

    /// This node's address, from which the others' are made if none are given
    #[arg(long, value_name = "address", env = "SELF_ADDR")]
    pub self_addr: Option<Ipv4Addr>,

    /// Give up after so many seconds
    #[arg(long, value_name = "seconds", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=86400))]
    pub time_limit: u64,
}

impl Options {
    /// Where each node listens, node 1's place first; or what is wrong with the command line.
    pub fn places(&self) -> Result<Vec<(String, u16)>, String> {
        let (node, nodes) = (self.node, self.nodes);
        if !(1..=nodes).contains(&node) {
            return Err(format!("node {node} is none of the nodes 1 to {nodes} (--node, --nodes)"));
        }
        let hosts = match (self.hosts.len(), self.self_addr) {
            // There is nobody else to be found.
            (0, _) if nodes == 1 => vec![Ipv4Addr::LOCALHOST.to_string()],
            (0, Some(own)) => lab_addresses(own, node, nodes)?,
            (0, None) => return Err(format!("give the addresses of {nodes} nodes")),
            (given, _) if given != nodes as usize => {
                return Err(format!("{given} addresses are given, and there are {nodes} nodes (--nodes)"));
            }
            _ => self.hosts.clone(),
        };
        let port = |at: usize| u16::try_from(usize::from(self.port) + at);
        let places = hosts.into_iter().enumerate().map(|(at, host)| Ok((host, port(at)?)));
        places.collect::<Result<_, std::num::TryFromIntError>>().map_err(|_| {
            format!("node {nodes} would listen on a port above 65535; give a smaller -p than {}", self.port)
        })
    }

    pub fn limit(&self) -> Duration {
        Duration::from_secs(self.time_limit)
    }
}

/// In the lab the last part of a node's address is its number.
fn lab_addresses(own: Ipv4Addr, node: u32, nodes: u32) -> Result<Vec<String>, String> {
    let [a, b, c, last] = own.octets();
    if u32::from(last) != node {
        return Err(format!(
            "this node's address {own} does not end in its number {node}, so the others' cannot be made from it; \
             give all {nodes} addresses"
        ));
    }
    Ok((1..=nodes).map(|node| format!("{a}.{b}.{c}.{node}")).collect())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn options(line: &str) -> Options {
        Options::try_parse_from(line.split_whitespace()).expect("a valid command line")
    }

    #[test]
    fn the_declaration_is_consistent() {
        Options::command().debug_assert();
    }

    #[test]
    fn the_labs_addresses_are_made_and_others_are_taken() {
        let lab = options("x --node 2 --nodes 3 --self-addr 10.0.9.2").places().expect("places");
        let expected = [("10.0.9.1", 18515), ("10.0.9.2", 18516), ("10.0.9.3", 18517)];
        assert_eq!(lab, expected.map(|(host, port)| (host.to_owned(), port)));
        let given = options("x --node 1 --nodes 2 --self-addr 10.0.9.1 -p 9 a b").places().expect("places");
        assert_eq!(given, [("a".to_owned(), 9), ("b".to_owned(), 10)]);
        assert_eq!(options("x --node 1 --nodes 1").places().expect("alone").len(), 1);
    }

    #[test]
    fn what_cannot_be_is_said() {
        for (line, words) in [
            ("x --node 3 --nodes 2 a b", "node 3 is none of the nodes 1 to 2"),
            ("x --node 0 --nodes 2 a b", "node 0 is none"),
            ("x --node 1 --nodes 3 a b", "2 addresses are given, and there are 3 nodes"),
            ("x --node 1 --nodes 3 --self-addr 10.0.9.7", "does not end in its number 1"),
            ("x --node 1 --nodes 2 -p 65535 a b", "above 65535"),
        ] {
            let said = options(line).places().expect_err(line);
            assert!(said.contains(words), "{line}: {said}");
        }
        for line in ["x --nodes 0", "x --nodes 65", "x -s 63", "x -p 0", "x -i 0", "x --time-limit 0"] {
            assert!(Options::try_parse_from(line.split_whitespace()).is_err(), "{line}");
        }
    }
}
