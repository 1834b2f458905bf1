//! The verdict on a run: what the guests' kernels and the device model complained about.

use std::path::Path;

use crate::console;
use crate::device::{MODEL_LOG, Node};
use crate::machine;

/// The complaints of so many guests' kernels and of the model, and who complained. After a run whose guests were `up`
/// all logs must be there: without them nobody knows.
pub fn complaints(run: &Path, count: u8, up: bool) -> Vec<(String, String)> {
    let mut all = Vec::new();
    let mut judge = |name: &str, who: String, find: fn(&str) -> Vec<String>| {
        match console::read_whole(&run.join(name)) {
            Ok(log) => all.extend(find(&log).into_iter().map(|text| (who.clone(), text))),
            Err(error) if up => all.push(("the lab".to_owned(), format!("{name} can't be read: {error}"))),
            // A boot that failed early has an error of its own.
            Err(_) => {}
        }
    };
    for node in Node::all(count) {
        let who = if node.has_peers() { format!("node {}", node.number) } else { "the guest".to_owned() };
        judge(&machine::console_log(node), format!("{who}'s kernel"), console::kernel_complaints);
    }
    judge(MODEL_LOG, "the device model".to_owned(), console::panics);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_that_are_missing_are_complaints() {
        let dir = tempfile::tempdir().unwrap();
        let judged = |count, up| complaints(dir.path(), count, up);
        assert_eq!((judged(1, true).len(), judged(2, true).len(), judged(2, false).len()), (2, 3, 0));
        let logs = || Node::all(2).map(machine::console_log).chain([MODEL_LOG.to_owned()]);
        for name in logs() {
            std::fs::write(dir.path().join(name), "Kernel panic\nthread panicked at a.rs:1\n").unwrap();
        }
        let who = |count| judged(count, true).into_iter().map(|(who, _)| who).collect::<Vec<_>>();
        assert_eq!(who(1), ["the guest's kernel", "the device model"]);
        assert_eq!(who(2), ["node 1's kernel", "node 2's kernel", "the device model"]);
        for name in logs() {
            std::fs::write(dir.path().join(name), "fine\n").unwrap();
        }
        assert!(judged(2, true).is_empty());
    }
}
