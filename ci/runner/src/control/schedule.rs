//! Actions at given times of a command: `--at '5 port down --node 1'`.

use std::str::FromStr;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::Parser;
use clap::error::ErrorKind;

use super::action::seconds;
use super::{Action, Broker};
use crate::report::say;

/// An action, so long after the command's start.
#[derive(Clone, Debug, PartialEq)]
pub struct At {
    after: Duration,
    action: Action,
    words: String,
}

#[derive(Parser)]
#[command(name = "--at", no_binary_name = true, disable_help_subcommand = true)]
struct Words {
    #[command(subcommand)]
    action: Action,
}

impl At {
    /// An error if it is about a node that is not among so many.
    pub fn check(&self, nodes: u8) -> Result<()> {
        let request = self.action.request();
        let named = ["node", "from", "to"].iter().filter_map(|field| request[field].as_u64());
        if let Some(wrong) = named.into_iter().find(|node| *node > u64::from(nodes)) {
            let words = &self.words;
            bail!(
                "--at '… {words}': there is no node {wrong} among {nodes}; --guests says how many there are"
            );
        }
        Ok(())
    }

    /// Does it. What it asks for is kept in the run's folder.
    fn act(&self, broker: &Broker) -> Result<()> {
        let answer = broker.ask(&self.action.request())?;
        if let Some(name) = self.keeps() {
            let path = broker.keep(&name, &answer)?;
            say(&format!("{}: {}", self.words, path.display()));
        }
        Ok(())
    }

    /// The file that its answer goes to, if it has one.
    fn keeps(&self) -> Option<String> {
        let after = self.after.as_secs_f64();
        match self.action {
            Action::Report => Some(format!("report-{after}s.json")),
            Action::Held { node: None } => Some(format!("held-{after}s.json")),
            Action::Held { node: Some(node) } => Some(format!("held-node-{node}-{after}s.json")),
            _ => None,
        }
    }
}

/// What is wrong with an action's words, on one line and without the usage that follows, which is not this option's.
fn wrong(error: &clap::Error) -> String {
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return "it names no action; 'ci/lab control --help' lists them".to_owned();
    }
    let text = error.to_string();
    let said = text.lines().take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"));
    let said: Vec<&str> = said.map(str::trim).filter(|line| !line.is_empty()).collect();
    said.join(" ").trim_start_matches("error: ").to_owned()
}

impl FromStr for At {
    type Err = String;

    fn from_str(text: &str) -> Result<At, String> {
        let mut words = text.split_whitespace();
        let after = words.next().ok_or("it is empty; it should be like '5 port down --node 1'")?;
        let after = seconds(after)?;
        let words: Vec<&str> = words.collect();
        let parsed = Words::try_parse_from(&words).map_err(|error| wrong(&error))?;
        Ok(At { after, action: parsed.action, words: words.join(" ") })
    }
}

/// Actions under way.
#[derive(Debug)]
pub struct Schedule {
    stop: Sender<()>,
    worker: JoinHandle<Outcome>,
}

/// What became of them.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// What was refused, and why.
    pub refused: Vec<String>,
    /// What had its time after the end.
    pub left: Vec<String>,
}

impl Schedule {
    /// The clock starts now.
    pub fn start(mut actions: Vec<At>, broker: Arc<Broker>) -> Schedule {
        let began = Instant::now();
        // Stable: of two at one time the one that was named first comes first.
        actions.sort_by_key(|at| at.after);
        let (stop, stopped) = channel();
        let worker = thread::spawn(move || {
            let mut outcome = Outcome::default();
            for at in actions {
                let wait = at.after.saturating_sub(began.elapsed());
                if outcome.left.is_empty() && stopped.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                    say(&format!("after {:.1} s: {}", began.elapsed().as_secs_f64(), at.words));
                    if let Err(error) = at.act(&broker) {
                        outcome.refused.push(format!("{}: {error:#}", at.words));
                    }
                } else {
                    outcome.left.push(at.words);
                }
            }
            outcome
        });
        Schedule { stop, worker }
    }

    /// The command has ended: nothing more is done.
    pub fn end(self) -> Outcome {
        drop(self.stop);
        self.worker.join().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Power;
    use super::*;

    #[test]
    fn words() {
        let at: At = "1.5 freeze --node 2 --for 3".parse().unwrap();
        assert_eq!(at.after, Duration::from_millis(1500));
        assert_eq!(at.action, Action::Freeze { node: 2, period: Some(Duration::from_secs(3)) });
        assert!(at.check(2).is_ok() && at.check(1).unwrap_err().to_string().contains("no node 2"));
        let at: At = "0 link --loss 1% --from 1 --to 8".parse().unwrap();
        assert!(at.check(8).is_ok() && at.check(7).is_err());
        for (wrong, said) in [
            ("", "empty"),
            ("port down --node 1", "port is no time"),
            ("-1 report", "-1 is no time"),
            ("5", "no action"),
            ("5 burn --node 1", "burn"),
            ("5 port down", "required arguments were not provided: --node <N>"),
            ("5 kill --node 9", "9"),
        ] {
            let error = wrong.parse::<At>().unwrap_err();
            assert!(error.contains(said) && !error.contains('\n'), "{wrong}: {error}");
        }
    }

    #[test]
    fn answers_are_kept() {
        for (text, name) in [
            ("5 report", Some("report-5s.json")),
            ("0.5 held --node 2", Some("held-node-2-0.5s.json")),
            ("1 held", Some("held-1s.json")),
            ("1 kill --node 1", None),
        ] {
            assert_eq!(text.parse::<At>().unwrap().keeps().as_deref(), name);
        }
        let dir = tempfile::tempdir().unwrap();
        let broker = Broker::new(dir.path(), Arc::new(Power::new(&[]).unwrap()));
        let path = broker.keep("held-1s.json", &serde_json::json!([7])).unwrap();
        assert_eq!(std::fs::read_to_string(path).unwrap(), "[\n  7\n]\n");
    }

    #[test]
    fn in_the_order_of_time_and_none_too_late() {
        let dir = tempfile::tempdir().unwrap();
        let broker = Broker::new(dir.path(), Arc::new(Power::new(&[]).unwrap()));
        let actions = ["3600 kill --node 3", "0.2 thaw --node 2", "0 thaw --node 1", "3601 report"];
        let actions = actions.iter().map(|text| text.parse().unwrap()).collect();
        let schedule = Schedule::start(actions, broker);
        thread::sleep(Duration::from_millis(1500));
        let outcome = schedule.end();
        assert_eq!(outcome.left, ["kill --node 3", "report"]);
        let refused: Vec<&str> = outcome.refused.iter().filter_map(|text| text.split(':').next()).collect();
        assert_eq!(refused, ["thaw --node 1", "thaw --node 2"]);
    }
}
