//! The command line: ib_send_lat's flags with its meanings and defaults.

use std::path::PathBuf;

use clap::Parser;
use rdma_xrc::Mtu;

use crate::wire::Settings;

/// TCP port on which the two sides find each other.
pub const DEFAULT_PORT: u16 = 18515;
/// Receives that are kept posted unless `-r` says otherwise.
pub const DEFAULT_RX_DEPTH: u32 = 512;
/// Inline size asked for unless `-I` says otherwise; devices may grant less.
pub const DEFAULT_INLINE: u32 = 236;
/// `-a` runs every power of two from 2 to this.
pub const LARGEST_SIZE: u32 = 1 << 23;

const AFTER_HELP: &str = "\
Both sides take the same -s, -n and -a; a difference ends the run before it starts, and says what differs. \
With -m on both sides the two must agree; otherwise the smaller MTU counts.

Values are half a round trip in microseconds, as in ib_send_lat: a sample is the time between two successive \
sends, t_typical is the median, and the two slowest samples count as interruptions (they leave t_avg, t_stdev \
and t_typical alone, and t_max is the second slowest; -U shows all). The percentiles come from a histogram of \
four significant digits.

Exit status: 0 when the test ran, 1 when it failed, 2 when the command line is wrong.";

/// Latency of XRC sends.
///
/// Without a host: wait for a client. With one: connect to the server there.
#[derive(Debug, Clone, PartialEq, Parser)]
#[command(name = "xrc_send_lat", version, after_help = AFTER_HELP, max_term_width = 100)]
pub struct Options {
    /// Server to connect to; without one, be the server
    pub host: Option<String>,

    /// Run sizes from 2 till 2^23
    #[arg(short, long)]
    pub all: bool,

    /// Connection type; XRC is the only one here
    #[arg(
        short,
        long,
        value_name = "XRC",
        default_value = "XRC",
        hide_default_value = true,
        value_parser = connection
    )]
    pub connection: String,

    /// Use IB device <dev> (default first device found)
    #[arg(short = 'd', long = "ib-dev", value_name = "dev")]
    pub device: Option<String>,

    /// Accepted for ib_send_lat's sake: times are taken from the system's monotonic clock, which
    /// the CPU's frequency does not disturb
    #[arg(short = 'F', long = "CPU-freq")]
    pub cpu_freq: bool,

    /// Print out all results, sorted (default print summary only)
    #[arg(short = 'H', long = "report-histogram")]
    pub histogram: bool,

    /// Use port <port> of IB device
    #[arg(short = 'i', long = "ib-port", value_name = "port", default_value_t = 1, value_parser = ib_port)]
    pub ib_port: u8,

    /// Max size of message to be sent in inline (default 236, or what the device has if less)
    #[arg(short = 'I', long = "inline_size", value_name = "size", value_parser = inline_size)]
    pub inline_size: Option<u32>,

    /// MTU size : 256 - 4096 (default port mtu)
    #[arg(short, long, value_name = "mtu", value_parser = mtu)]
    pub mtu: Option<Mtu>,

    /// Number of exchanges (at least 5)
    #[arg(short = 'n', long, value_name = "iters", default_value_t = 1000, value_parser = iterations)]
    pub iters: u32,

    /// Listen on/connect to port <port>
    #[arg(short, long, value_name = "port", default_value_t = DEFAULT_PORT, value_parser = tcp_port)]
    pub port: u16,

    /// Rx queue size: receives kept posted on the SRQ (default 512, fewer for large messages);
    /// never more than there are exchanges
    #[arg(short, long = "rx-depth", value_name = "dep", value_parser = rx_depth)]
    pub rx_depth: Option<u32>,

    /// Size of message to exchange
    #[arg(short, long, value_name = "size", default_value_t = 2, value_parser = message_size)]
    pub size: u32,

    /// Print out unsorted results (default sorted)
    #[arg(short = 'U', long = "report-unsorted")]
    pub unsorted: bool,

    /// Test uses GID with GID index (default: IB - no gid, ETH - 0)
    #[arg(short = 'x', long = "gid-index", value_name = "index", value_parser = gid_index)]
    pub gid_index: Option<u8>,

    /// Save the report in a json file
    #[arg(long = "out_json")]
    pub out_json: bool,

    /// Name of the report json file (default perftest_out.json in the working directory);
    /// implies --out_json
    #[arg(long = "out_json_file", value_name = "file")]
    pub out_json_file: Option<PathBuf>,
}

impl Options {
    /// What has to be the same on both sides.
    pub fn settings(&self) -> Settings {
        Settings { size: self.size, iters: self.iters, all: self.all, mtu: self.mtu }
    }

    /// The message sizes to run, in order.
    pub fn sizes(&self) -> Vec<u32> {
        if self.all {
            (1..).map(|power| 1 << power).take_while(|&size| size <= LARGEST_SIZE).collect()
        } else {
            vec![self.size]
        }
    }

    /// The largest of them.
    pub fn largest_size(&self) -> u32 {
        if self.all { LARGEST_SIZE } else { self.size }
    }

    /// Whether this side waits for the other.
    pub fn is_server(&self) -> bool {
        self.host.is_none()
    }

    /// Where the JSON report goes, if one is wanted.
    pub fn json_path(&self) -> Option<PathBuf> {
        match &self.out_json_file {
            Some(path) => Some(path.clone()),
            None => self.out_json.then(|| PathBuf::from("perftest_out.json")),
        }
    }
}

/// A plain number between two bounds; `what` opens the sentence when it isn't.
fn number(text: &str, what: &str, least: u32, most: u32) -> Result<u32, String> {
    text.parse()
        .ok()
        .filter(|number| (least..=most).contains(number))
        .ok_or_else(|| format!("{what} should be a number between {least} and {most}"))
}

fn iterations(text: &str) -> Result<u32, String> {
    number(text, "Iteration num", 5, 100_000_000)
}

fn message_size(text: &str) -> Result<u32, String> {
    number(text, "Message size", 1, i32::MAX as u32)
}

fn rx_depth(text: &str) -> Result<u32, String> {
    number(text, "Rx depth", 1, 16384)
}

fn inline_size(text: &str) -> Result<u32, String> {
    number(text, "Max inline", 0, 912)
}

fn gid_index(text: &str) -> Result<u8, String> {
    number(text, "Gid index", 0, 255).map(|index| index as u8)
}

fn mtu(text: &str) -> Result<Mtu, String> {
    text.parse()
        .ok()
        .and_then(Mtu::from_bytes)
        .ok_or_else(|| "MTU should be 256, 512, 1024, 2048 or 4096".to_owned())
}

fn ib_port(text: &str) -> Result<u8, String> {
    number(text, "IB port", 1, 255).map(|port| port as u8)
}

fn tcp_port(text: &str) -> Result<u16, String> {
    number(text, "Port", 1, 65535).map(|port| port as u16)
}

fn connection(text: &str) -> Result<String, String> {
    match text {
        "XRC" => Ok(text.to_owned()),
        "RC" | "UC" | "UD" | "DC" | "SRD" | "RawEth" => {
            Err(format!("this program measures XRC only; ib_send_lat -c {text} measures the other"))
        }
        _ => Err("the connection type here is XRC".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parse(line: &str) -> Options {
        Options::try_parse_from(line.split_whitespace()).expect("a valid command line")
    }

    fn refusal(line: &str) -> (i32, String) {
        let error = Options::try_parse_from(line.split_whitespace()).expect_err(line);
        (error.exit_code(), error.to_string())
    }

    #[test]
    fn the_declaration_is_consistent() {
        Options::command().debug_assert();
    }

    #[test]
    fn defaults_are_those_of_ib_send_lat() {
        let options = parse("xrc_send_lat");
        assert!(options.is_server());
        assert_eq!((options.size, options.iters, options.port), (2, 1000, 18515));
        assert_eq!((options.ib_port, options.rx_depth, options.inline_size), (1, None, None));
        assert_eq!((options.mtu, options.gid_index), (None, None));
        assert_eq!(options.sizes(), [2]);
        assert_eq!(options.json_path(), None);
    }

    #[test]
    fn short_and_long_names_mean_the_same() {
        let short = parse("x -a -c XRC -d m0 -F -H -i 2 -I 0 -m 1024 -n 7 -p 9 -r 3 -s 8 -U -x 1 h");
        let long = parse(
            "x --all --connection=XRC --ib-dev=m0 --CPU-freq --report-histogram --ib-port=2 \
             --inline_size=0 --mtu=1024 --iters=7 --port=9 --rx-depth=3 --size=8 \
             --report-unsorted --gid-index=1 h",
        );
        assert_eq!(short, long);
        assert_eq!(short.host.as_deref(), Some("h"));
        assert_eq!(short.mtu, Some(Mtu::Mtu1024));
    }

    #[test]
    fn all_runs_the_powers_of_two() {
        let sizes = parse("x -a -s 100").sizes();
        assert_eq!(sizes.len(), 23);
        assert_eq!((sizes[0], sizes[22]), (2, 8_388_608));
        assert_eq!(parse("x -a").largest_size(), 8_388_608);
    }

    #[test]
    fn out_of_range_says_the_range_and_is_a_usage_error() {
        for (line, words) in [
            ("x -n 4", "Iteration num should be a number between 5 and 100000000"),
            ("x -s 0", "Message size should be a number between 1 and 2147483647"),
            ("x -s 64k", "Message size should be a number"),
            ("x -s 99999999999", "Message size should be a number"),
            ("x -r 0", "Rx depth should be a number between 1 and 16384"),
            ("x -I 913", "Max inline should be a number between 0 and 912"),
            ("x -i 0", "IB port should be a number between 1 and 255"),
            ("x -p 65536", "Port should be a number between 1 and 65535"),
            ("x -m 1000", "MTU should be 256, 512, 1024, 2048 or 4096"),
            ("x -c RC", "measures XRC only"),
            ("x -R", "unexpected argument '-R'"),
        ] {
            let (status, text) = refusal(line);
            assert_eq!(status, 2, "{line}");
            assert!(text.contains(words), "{line}: {text}");
        }
    }

    #[test]
    fn a_json_file_implies_json() {
        let path = |line| parse(line).json_path();
        assert_eq!(path("x --out_json"), Some(PathBuf::from("perftest_out.json")));
        assert_eq!(path("x --out_json_file=/a/b"), Some(PathBuf::from("/a/b")));
    }
}
