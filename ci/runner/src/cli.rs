//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::control::{Action, At, Faults};
use crate::device::{Device, MOST_NODES};
use crate::environment;
use crate::host::kvm::{Accel, Wish};
use crate::host::{Versions, kernel, rdma_core};

/// Seconds that a guest may take to be up, on a busy machine and under emulation.
const BOOT: u64 = 180;
/// The same for each guest more, since they share the machine.
const BOOT_MORE: u64 = 60;

/// Runs commands on a machine that has an XRC device: a guest of the lab's own.
#[derive(Debug, Parser)]
#[command(name = "ci/lab", bin_name = "ci/lab", version, arg_required_else_help = true)]
pub struct Cli {
    #[command(flatten)]
    pub common: Common,

    /// The clone; ci/lab gives it
    #[arg(long, hide = true, default_value = ".")]
    pub project: PathBuf,

    #[command(subcommand)]
    pub verb: Verb,
}

/// Options of every verb.
#[derive(Clone, Debug, Args)]
pub struct Common {
    /// The device that the guest has
    #[arg(long, global = true, value_enum, default_value = "mlx5")]
    pub device: Device,

    /// The guest's Linux: 6.1 (Debian 12's), 6.12 (Debian 13's), or the path of a folder that holds
    /// boot/vmlinuz-RELEASE and lib/modules/RELEASE
    #[arg(long, global = true, value_name = "VERSION", default_value = "6.1")]
    pub kernel: kernel::Wish,

    /// The guest's rdma-core: own (the machine's own; 44 where it must be that), or a later one that is laid over
    /// the machine's files: 56 (Debian 13's), sid
    #[arg(long, global = true, value_name = "VERSION", default_value = "own")]
    pub rdma_core: rdma_core::Wish,

    /// Seconds that a command in the guest may take (run, demo: 600; shell: no limit; test: each test has
    /// its own). 0: no limit
    #[arg(long, global = true, value_name = "S")]
    pub timeout: Option<u64>,

    /// Guests on one device model: their ports are on one InfiniBand fabric, and they share an Ethernet (run, shell,
    /// demo)
    #[arg(long, global = true, value_name = "N", default_value = "1",
          value_parser = clap::value_parser!(u8).range(1..=i64::from(MOST_NODES)))]
    pub guests: u8,

    /// Seconds that the guests may take to be up (180, and 60 for each after the first)
    #[arg(long, global = true, value_name = "S")]
    pub boot_timeout: Option<u64>,

    /// What the guest runs on
    #[arg(long, global = true, value_enum, default_value = "auto")]
    pub accel: Wish,

    /// Take the device model as it was built last, without looking whether its source has changed
    #[arg(long, global = true)]
    pub no_build: bool,
}

impl Common {
    /// What the guest runs.
    pub fn versions(&self) -> Versions {
        Versions { kernel: self.kernel.clone(), rdma_core: self.rdma_core.clone() }
    }

    /// The time that so many guests have to be up.
    pub fn boot_limit(&self, guests: u8) -> Duration {
        seconds(self.boot_timeout.unwrap_or(BOOT + BOOT_MORE * u64::from(guests.saturating_sub(1))))
    }

    /// The time that a command may take, `default` if the user did not say.
    pub fn limit(&self, default: Option<Duration>) -> Option<Duration> {
        match self.timeout {
            None => default,
            Some(0) => None,
            Some(number) => Some(seconds(number)),
        }
    }
}

/// A time that the clock can be asked to add: nobody waits for longer than a century.
fn seconds(number: u64) -> Duration {
    Duration::from_secs(number.min(100 * 365 * 24 * 60 * 60))
}

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Real XRC traffic between two programs in a guest: a latency table
    Demo,
    /// All tests: those that need no device on the host, the others in a guest
    Test {
        /// Only the tests whose names hold one of these words
        filter: Vec<String>,
        /// Only say which tests there are
        #[arg(long)]
        list: bool,
        /// Also the long runs that CI leaves out: a million inputs of hostile guests for the device model
        #[arg(long)]
        soak: bool,
    },
    /// Run a command in a guest, or in all of several at once: its output and its exit status come back
    Run {
        #[command(flatten)]
        faults: Faults,
        /// After S seconds of the command do what `ci/lab control …` would, such as '5 port down --node 1'; may be
        /// given several times. The answers of report and held are kept in the run's folder
        #[arg(long = "at", value_name = "'S ACTION'", allow_hyphen_values = true)]
        at: Vec<At>,
        /// The command and its arguments, after --
        #[arg(last = true, required = true, value_name = "CMD")]
        command: Vec<OsString>,
    },
    /// An interactive shell in a guest
    Shell {
        /// Of several guests, the one that it runs in
        #[arg(long, value_name = "N", default_value = "1")]
        node: u8,
    },
    /// Ask a run for a fault or a report while it runs: from the host the latest one, in a guest the guest's own
    Control {
        /// The folder of the run, under target/lab/runs
        #[arg(long, global = true, value_name = "DIR")]
        run: Option<PathBuf>,
        #[command(subcommand)]
        action: Action,
    },
    /// Fetch and build all that the other verbs need
    Setup,
    /// Remove what the lab built and wrote under target/lab
    Clean {
        /// Also what it downloaded, which other clones of this user share
        #[arg(long)]
        all: bool,
    },
    /// Say what is needed, what is there, what is missing and how to mend it
    Doctor,
}

/// Reads the command line; ends the process for --help and for mistakes.
pub fn parse() -> Cli {
    let line: Vec<OsString> = std::env::args_os().collect();
    let parsed = command(&line).try_get_matches_from(&line).and_then(|matches| {
        fitting(&matches)?;
        Cli::from_arg_matches(&matches)
    });
    parsed.unwrap_or_else(|error| {
        let _ = error.print();
        std::process::exit(status(&error))
    })
}

/// The command line with these words. `control` starts no guest: what every other verb takes is not for it.
fn command(line: &[OsString]) -> clap::Command {
    let command = Cli::command().after_long_help(after_help()).after_help("See --help for all of it.");
    let verb = line.iter().skip(1).filter_map(|word| command.find_subcommand(word)).next();
    if verb.is_none_or(|verb| verb.get_name() != "control") {
        return command;
    }
    let common = common();
    command.mut_args(|arg| if common.contains(&arg.get_id().to_string()) { arg.global(false) } else { arg })
}

/// The names of the options of every verb.
fn common() -> Vec<String> {
    let options = Common::augment_args(clap::Command::new("common"));
    options.get_arguments().map(|arg| arg.get_id().to_string()).collect()
}

/// An error if an option is given to a verb that has no use for it.
fn fitting(matches: &clap::ArgMatches) -> Result<(), clap::Error> {
    let given = |id: &str| matches.value_source(id) == Some(ValueSource::CommandLine);
    let wrong = |text: String| Err(Cli::command().error(ErrorKind::ArgumentConflict, text));
    match matches.subcommand_name() {
        Some("control") => match common().iter().find(|id| given(id)) {
            Some(id) => wrong(format!(
                "--{} is about starting guests: 'control' asks those that run",
                id.replace('_', "-")
            )),
            None => Ok(()),
        },
        Some("test") if given("guests") => {
            wrong("--guests is not for 'test': each test has as many guests as it needs".to_owned())
        }
        _ => Ok(()),
    }
}

/// A mistake on the command line is a failure of the lab's: clap's own status might be that of a command in the guest.
fn status(error: &clap::Error) -> i32 {
    if error.use_stderr() { crate::LAB_FAILED } else { 0 }
}

fn after_help() -> String {
    format!(
        "\
The guest sees the host's file system, read-only, and runs the command as root in the caller's directory. It writes \
to fresh /tmp and /run, which are gone afterwards, and to a folder of the run's own (RDMA_XRC_RUN_DIR), which comes \
back: target/lab/runs/latest/files, less device nodes, pipes, sockets and set-user-ID bits. The logs lie beside it. \
What lies in the host's /tmp or /run is shown in the guest where an argument, the caller's directory, HOME, PATH or \
the like names it. Files that processes open together, such as those of XRC domains, belong in /tmp.

With --guests 2 to 8 `run` starts the command in all of them at once. Each line of output, also the last if it has no \
end, begins with `node N: ` and is written whole (one above 64 KiB in pieces). Only node 1 has the caller's standard \
input, the others find its end. Each has a folder of its own, files/node-N. The statuses of all are said at the end.

Variables that a command in the guest finds:
  RDMA_XRC_DEVICE                  the device, for `-d`
  RDMA_XRC_RUN_DIR                 where the command may write
  NODE, NODES                      this guest's number, and how many there are
  SELF_ADDR, PEER_ADDR             addresses for plain sockets
  SELF_RDMA_ADDR, PEER_RDMA_ADDR   addresses for the connection manager
  RDMA_XRC_CONTROL                 the port for faults and reports, a line of JSON each
  RDMA_XRC_LAB                     this program, for `\"$RDMA_XRC_LAB\" control …`
  and the caller's own, less what belongs to the host; USER and LOGNAME are root, PATH ends with root's folders.
  Removed: {}

Exit status: the command's own, 128 + n if signal n ended it; 124 if it was ended at its time limit; 125 if the lab \
itself failed, was called wrongly, or a guest's kernel or the device model complained (which is said first), or a \
guest ended that nobody killed; 126 or 127 if the command cannot be run or is not there; 128 + n if the lab was ended \
by signal n, 130 for Ctrl-C. Of several nodes: 0 if all are 0, else the first by node that is not; one that was killed \
by `control` or --at does not count, unless all were (137). `control`: 1 if what was asked for was refused.

Downloads stay in the user's cache directory (XDG_CACHE_HOME or ~/.cache) under rdma-xrc.",
        environment::removed()
    )
}

impl Accel {
    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Accel::Kvm => "KVM",
            Accel::Tcg => "software emulation (TCG)",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Cli {
        Cli::try_parse_from(line.split(' ')).unwrap()
    }

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn options_stand_before_or_after_the_verb() {
        for line in ["lab --device mlx5 --timeout 7 run -- a", "lab run --timeout 7 --device mlx5 -- a"] {
            let cli = parsed(line);
            assert_eq!(cli.common.timeout, Some(7));
            assert!(matches!(cli.verb, Verb::Run { command, .. } if command == ["a"]));
        }
    }

    #[test]
    fn each_option_where_it_means_something() {
        let judged = |line: &str| {
            let line: Vec<OsString> = line.split(' ').map(Into::into).collect();
            let matches = command(&line).try_get_matches_from(&line)?;
            fitting(&matches).map(|()| matches)
        };
        for line in ["lab control --run x report", "lab control report --run x", "lab --guests 2 run -- a"] {
            assert!(judged(line).is_ok(), "{line}");
        }
        let help = |line: &str| judged(line).unwrap_err().to_string();
        assert!(help("lab --guests 2 control report").contains("about starting guests"));
        assert!(help("lab control report --boot-timeout 3").contains("--boot-timeout"));
        assert!(help("lab test --guests 2").contains("as many guests as it needs"));
        assert!(judged("lab test control --kernel 6.12").is_ok());
        for line in ["lab control --help", "lab control port --help"] {
            let help = help(line);
            assert!(!help.contains("--kernel") && help.contains("--run"), "{help}");
        }
        assert!(help("lab run --help").contains("--kernel"));
        assert!(help("lab run --loss -1 -- a").contains("-1 is no probability"));
        assert!(help("lab control port down --node -1").contains("-1 is not in 1..=8"));
    }

    #[test]
    fn any_number_of_seconds_is_a_time() {
        let most = u64::MAX;
        let common = parsed(&format!("lab --timeout {most} --boot-timeout {most} run -- a")).common;
        for limit in [common.limit(None).unwrap(), common.boot_limit(8)] {
            assert!(std::time::Instant::now().checked_add(2 * limit).is_some());
        }
        assert_eq!(parsed("lab --timeout 0 run -- a").common.limit(None), None);
    }

    #[test]
    fn what_follows_the_dashes_is_the_commands() {
        let cli = parsed("lab run -- a --timeout 7 -- b");
        assert_eq!(cli.common.timeout, None);
        assert!(
            matches!(cli.verb, Verb::Run { command, .. } if command == ["a", "--timeout", "7", "--", "b"])
        );
        assert_eq!(status(&Cli::try_parse_from(["lab", "run", "a"]).unwrap_err()), 125);
        assert_eq!(status(&Cli::try_parse_from(["lab", "--help"]).unwrap_err()), 0);
    }

    #[test]
    fn versions_that_are_not_known_are_told_from_those_that_are() {
        let error = |line: &str| Cli::try_parse_from(line.split(' ')).unwrap_err().to_string();
        assert!(error("lab --kernel 5.10 setup").contains("6.1 and 6.12"));
        assert!(error("lab setup --rdma-core 43").contains("56 and sid"));
    }

    #[test]
    fn devices_that_are_not_there_cannot_be_named() {
        assert!(Cli::try_parse_from(["lab", "--device", "nosuch", "setup"]).is_err());
    }
}
