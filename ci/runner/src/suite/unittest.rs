//! Python's unittest, read from its verbose output.

use anyhow::{Context, Result, bail, ensure};

use super::Tally;

/// Reads the output: a line for each test, ending in its result. `of` is said before a skipped test's name; only
/// those may skip whose reason is found to be all right.
pub fn read(output: &str, of: &str, may_skip: impl Fn(&str) -> bool) -> Result<Tally> {
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
            if !may_skip(reason) {
                bail!("a test was skipped that must run: {}: {reason}", test.trim());
            }
            tally.skipped.push(format!("{of} {}: {reason}", test.split(' ').next().unwrap_or(test)));
        }
    }
    let counted = tally.passed + tally.failed + tally.skipped.len() as u32;
    ensure!(counted == ran, "{ran} tests ran, the results of {counted} were found");
    ensure!(tally.passed > 0 || tally.failed > 0, "no test ran");
    Ok(tally)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "test_a (tests.test_x.T) ... ok\ntest_odp (tests.test_odp.T) ... skipped 'ODP is not supported'\n\
                        ----\nRan 2 tests in 1.5s\n\nOK (skipped=1)\n";

    fn read(output: &str) -> Result<Tally> {
        super::read(output, "x", |reason| reason.contains("ODP"))
    }

    #[test]
    fn results_are_counted() {
        let tally = read(GOOD).unwrap();
        assert_eq!((tally.passed, tally.failed, tally.skipped.len()), (1, 0, 1));
        let tally = read(&GOOD.replace("... ok", "... FAIL")).unwrap();
        assert_eq!((tally.passed, tally.failed), (0, 1));
    }

    #[test]
    fn what_must_run_may_not_skip() {
        assert!(read(&GOOD.replace("ODP is", "XRC is")).is_err());
        assert!(read(&GOOD.replace("... ok", "... odd")).is_err());
        assert!(read("Traceback").is_err());
    }
}
