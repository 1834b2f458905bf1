//! Python's unittest, read from its verbose output.

use anyhow::{Context, Result, bail, ensure};

use super::Tally;

/// Reads the output: a line for each test, ending in its result. None may skip.
pub fn read(output: &str) -> Result<Tally> {
    let ran: u32 = output
        .lines()
        .find_map(|line| line.strip_prefix("Ran ")?.split(' ').next()?.parse().ok())
        .context("the tests did not run to their end")?;
    let mut tally = Tally::default();
    for line in output.lines() {
        if line.ends_with("... ok") {
            tally.passed += 1;
        } else if line.ends_with("... FAIL") || line.ends_with("... ERROR") {
            tally.failed += 1;
        } else if let Some((test, reason)) = line.split_once("... skipped ") {
            bail!("a test was skipped that must run: {}: {reason}", test.trim());
        }
    }
    let counted = tally.passed + tally.failed;
    ensure!(counted == ran, "{ran} tests ran, the results of {counted} were found");
    ensure!(counted > 0, "no test ran");
    Ok(tally)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str =
        "test_a (x.T.test_a) ... ok\ntest_b (x.T.test_b) ... ok\n----\nRan 2 tests in 1.5s\n\nOK\n";

    #[test]
    fn results_are_counted() {
        let tally = read(GOOD).unwrap();
        assert_eq!((tally.passed, tally.failed), (2, 0));
        let tally = read(&GOOD.replacen("... ok", "... FAIL", 1)).unwrap();
        assert_eq!((tally.passed, tally.failed), (1, 1));
    }

    #[test]
    fn what_is_not_a_result_is_an_error() {
        assert!(read(&GOOD.replacen("... ok", "... skipped 'no'", 1)).is_err());
        assert!(read(&GOOD.replacen("... ok", "... odd", 1)).is_err());
        assert!(read("Traceback").is_err());
        assert!(read("Ran 0 tests in 0.0s\n").is_err());
    }
}
