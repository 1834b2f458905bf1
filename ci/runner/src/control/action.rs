//! What can be asked for, as words on a command line and as a request.

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};

use crate::device::MOST_NODES;

/// The longest time that anything may be delayed or frozen for.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// What `ci/lab control` can do.
#[derive(Clone, Debug, PartialEq, Subcommand)]
pub enum Action {
    /// The device model's whole report
    Report,
    /// What a node's drivers and programs hold of the device, by kind and number (all nodes if none is named)
    Held {
        /// The node's number, from 1
        #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = node())]
        node: Option<u8>,
    },
    /// What the wire does to packets from a node to a node (any if not named); without faults it is perfect again
    Link {
        /// The node that sends
        #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = node())]
        from: Option<u8>,
        /// The node that is sent to
        #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = node())]
        to: Option<u8>,
        #[command(flatten)]
        faults: Faults,
    },
    /// Take a node's port down or up
    Port {
        state: PortState,
        /// The node's number, from 1
        #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = node())]
        node: u8,
    },
    /// A fatal error of a node's device
    Fatal {
        /// The node's number, from 1
        #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = node())]
        node: u8,
    },
    /// Stop a guest as it stands; its device goes on. Beyond some 50 s its kernel may complain afterwards
    Freeze {
        /// The node's number, from 1
        #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = node())]
        node: u8,
        /// Until thawed if not given; seconds, or with a unit (500ms)
        #[arg(long = "for", value_name = "S", allow_negative_numbers = true, value_parser = seconds)]
        period: Option<Duration>,
    },
    /// Let a frozen guest go on
    Thaw {
        /// The node's number, from 1
        #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = node())]
        node: u8,
    },
    /// End a guest at once, as if its power failed; that is no failure of the run
    Kill {
        /// The node's number, from 1
        #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = node())]
        node: u8,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PortState {
    Up,
    Down,
}

/// What the wire does to packets.
#[derive(Clone, Debug, Default, PartialEq, Args)]
pub struct Faults {
    /// Probability that a packet is lost: 0.01, or 1%
    #[arg(long, value_name = "P", allow_negative_numbers = true, value_parser = probability)]
    pub loss: Option<f64>,
    /// Probability that a packet comes twice
    #[arg(long, value_name = "P", allow_negative_numbers = true, value_parser = probability)]
    pub duplicate: Option<f64>,
    /// Probability that a packet comes after one that was sent later
    #[arg(long, value_name = "P", allow_negative_numbers = true, value_parser = probability)]
    pub reorder: Option<f64>,
    /// How long each packet is on its way, in µs, or with a unit (2ms)
    #[arg(long, value_name = "US", allow_negative_numbers = true, value_parser = microseconds)]
    pub delay: Option<Duration>,
    /// By how much that time varies at most, in µs, or with a unit
    #[arg(long, value_name = "US", allow_negative_numbers = true, value_parser = microseconds)]
    pub jitter: Option<Duration>,
    /// Start of the random numbers: the same start, the same faults
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
}

impl Faults {
    /// The request that has the wire do it, unless nothing is asked for.
    pub fn request(&self) -> Option<Value> {
        (*self != Faults::default()).then(|| self.on_way(None, None))
    }

    fn on_way(&self, from: Option<u8>, to: Option<u8>) -> Value {
        let micros = |time: Option<Duration>| time.map(|time| json!(time.as_micros() as u64));
        request(
            "link",
            [
                ("from", from.map(Value::from)),
                ("to", to.map(Value::from)),
                ("loss", self.loss.map(Value::from)),
                ("duplicate", self.duplicate.map(Value::from)),
                ("reorder", self.reorder.map(Value::from)),
                ("delay_us", micros(self.delay)),
                ("jitter_us", micros(self.jitter)),
                ("seed", self.seed.map(Value::from)),
            ],
        )
    }
}

impl Action {
    /// The same as a request.
    pub fn request(&self) -> Value {
        let node = |word: &str, node: u8| json!({"do": word, "node": node});
        match self {
            Action::Report => json!({"do": "report"}),
            Action::Held { node } => request("held", [("node", node.map(Value::from))]),
            Action::Link { from, to, faults } => faults.on_way(*from, *to),
            Action::Port { state, node } => {
                let state = if *state == PortState::Up { "up" } else { "down" };
                json!({"do": "port", "node": node, "state": state})
            }
            Action::Fatal { node: number } => node("fatal", *number),
            Action::Freeze { node, period } => request(
                "freeze",
                [("node", Some(json!(node))), ("ms", period.map(|period| json!(period.as_millis() as u64)))],
            ),
            Action::Thaw { node: number } => node("thaw", *number),
            Action::Kill { node: number } => node("kill", *number),
        }
    }
}

fn request<const N: usize>(word: &str, fields: [(&str, Option<Value>); N]) -> Value {
    let given = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(std::iter::once(("do".to_owned(), word.into())).chain(given).collect())
}

fn node() -> clap::builder::RangedI64ValueParser<u8> {
    clap::value_parser!(u8).range(1..=i64::from(MOST_NODES))
}

fn probability(text: &str) -> Result<f64, String> {
    let (number, of) = text.strip_suffix('%').map_or((text, 1.0), |number| (number, 100.0));
    let value = number.parse::<f64>().ok().map(|value| value / of);
    let wrong = || format!("{text} is no probability from 0 to 1 (or 0% to 100%)");
    value.filter(|value| (0.0..=1.0).contains(value)).ok_or_else(wrong)
}

fn microseconds(text: &str) -> Result<Duration, String> {
    time(text, 1e-6, "µs")
}

pub fn seconds(text: &str) -> Result<Duration, String> {
    time(text, 1.0, "s")
}

/// A number of a unit, or a number with a unit of its own.
fn time(text: &str, unit: f64, name: &str) -> Result<Duration, String> {
    let time = match text.parse::<f64>() {
        Ok(number) => Duration::try_from_secs_f64(number * unit).ok(),
        Err(_) => humantime::parse_duration(text).ok(),
    };
    let most = LONGEST.as_secs() / 3600;
    let wrong =
        || format!("{text} is no time from 0 to {most} hours, in {name} or with a unit: us, ms, s, m, h");
    time.filter(|time| *time <= LONGEST).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_and_times() {
        for (text, value) in [("0", 0.0), ("1", 1.0), ("0.25", 0.25), ("1%", 0.01), ("100%", 1.0)] {
            assert_eq!(probability(text), Ok(value));
        }
        for text in ["", "%", "-0.1", "1.01", "101%", "NaN", "inf", "x"] {
            assert!(probability(text).is_err(), "{text}");
        }
        let micros = Duration::from_micros;
        for (text, value) in [("0", 0), ("500", 500), ("500us", 500), ("2ms", 2000), ("1s", 1_000_000)] {
            assert_eq!(microseconds(text), Ok(micros(value)));
        }
        for text in ["", "-1", "NaN", "1e30", "1x", "2 days"] {
            assert!(seconds(text).is_err(), "{text}");
        }
        assert_eq!(seconds("1.5"), Ok(micros(1_500_000)));
    }

    #[test]
    fn only_what_was_given_is_asked_for() {
        assert_eq!(Faults::default().request(), None);
        let faults = Faults { loss: Some(0.5), delay: Some(Duration::from_millis(2)), ..Faults::default() };
        assert_eq!(faults.request(), Some(json!({"do": "link", "loss": 0.5, "delay_us": 2000})));
        let perfect = Action::Link { from: None, to: None, faults: Faults::default() };
        assert_eq!(perfect.request(), json!({"do": "link"}));
        assert_eq!(Action::Held { node: None }.request(), json!({"do": "held"}));
        let freeze = Action::Freeze { node: 2, period: Some(Duration::from_secs(3)) };
        assert_eq!(freeze.request(), json!({"do": "freeze", "node": 2, "ms": 3000}));
    }
}
