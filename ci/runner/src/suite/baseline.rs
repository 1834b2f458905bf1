//! What the guests' drivers hold of the device, before and after a test: nothing may be left of what a test made.

use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::json;

use super::Tally;
use crate::lab::Lab;

/// How long the drivers may take to give back what an ended program held.
const SETTLE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(100);

/// Keys that nobody can use: the driver keeps them for the next registrations. It gives them back when it leaves.
const SPARE: &str = "free_mkey";

/// A node's part of the model's answer to `held`.
#[derive(Clone, Debug, Deserialize)]
struct Held {
    node: u8,
    /// The first numbers of each kind.
    objects: BTreeMap<String, Vec<u32>>,
    /// All of each kind.
    counts: BTreeMap<String, u64>,
}

/// Does the work and requires that no object is left that was not there before.
pub fn kept(lab: &mut Lab, work: impl FnOnce(&mut Lab) -> Result<Tally>) -> Result<Tally> {
    let before = held(lab)?;
    let tally = work(lab)?;
    let until = Instant::now() + SETTLE;
    loop {
        let left = left(&before, &held(lab)?);
        if left.is_empty() {
            return Ok(tally);
        }
        ensure!(Instant::now() < until, "left behind: {}", left.join("; "));
        sleep(POLL);
    }
}

fn held(lab: &Lab) -> Result<Vec<Held>> {
    serde_json::from_value(lab.ask(&json!({"do": "held"}))?).context("what the model says of what is held")
}

/// What is there now and was not before, in words.
fn left(before: &[Held], now: &[Held]) -> Vec<String> {
    let mut left = Vec::new();
    for node in now {
        let was = before.iter().find(|was| was.node == node.node);
        for (kind, count) in node.counts.iter().filter(|(kind, _)| *kind != SPARE) {
            let of = |held: &Held| held.objects.get(kind).cloned().unwrap_or_default();
            let old = was.map(of).unwrap_or_default();
            let new: Vec<String> =
                of(node).iter().filter(|n| !old.contains(n)).map(|n| format!("{n:#x}")).collect();
            let old_count = was.and_then(|was| was.counts.get(kind)).copied().unwrap_or(0);
            // Not all numbers may be listed; that there are more than before shows all the same. Fewer, some of them
            // new, is the drivers' own doing.
            if *count > old_count {
                left.push(format!(
                    "node {}: {} {kind} more: {}",
                    node.node,
                    count - old_count,
                    new.join(", ")
                ));
            }
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(of: &[(&str, &[u32], u64)]) -> Vec<Held> {
        let objects = of.iter().map(|(kind, numbers, _)| ((*kind).to_owned(), numbers.to_vec())).collect();
        let counts = of.iter().map(|(kind, _, count)| ((*kind).to_owned(), *count)).collect();
        vec![Held { node: 1, objects, counts }]
    }

    #[test]
    fn what_is_new_is_named() {
        let before = held(&[("qp", &[1, 2], 2), ("pd", &[7], 1)]);
        assert!(left(&before, &before).is_empty());
        assert!(left(&before, &held(&[("qp", &[2], 1)])).is_empty(), "less is no leak");
        assert!(left(&[], &held(&[(SPARE, &[2], 1)])).is_empty(), "spare keys are the driver's own affair");
        let now = held(&[("qp", &[1, 2, 0x1f], 3), ("pd", &[7], 1), ("cq", &[3], 1)]);
        assert_eq!(left(&before, &now), ["node 1: 1 cq more: 0x3", "node 1: 1 qp more: 0x1f"]);
        assert_eq!(left(&before, &held(&[("qp", &[1, 2], 101)])).len(), 1, "not all are listed");
        assert_eq!(left(&[], &now).len(), 3);
    }
}
