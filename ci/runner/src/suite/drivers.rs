//! What ends the shared guest's life: the kernel's log, then the drivers' way out, after which the device must have
//! got back all that it lent and given back all that it borrowed.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{Scene, Tally, Test};
use crate::console;
use crate::device;
use crate::lab::{Ending, Lab};

/// How long the model may take to write its report.
const REPORT_LIMIT: Duration = Duration::from_secs(10);

pub fn tests() -> Vec<Test> {
    vec![
        Test::guest("drivers/kernel log", 60, kernel_log),
        Test::guest("drivers/unload and leak nothing", 120, unload),
        Test::guest("drivers/kernel log after unload", 60, kernel_log),
    ]
}

/// The log in the guest's memory; the console may have missed what came too fast.
fn kernel_log(lab: &mut Lab, scene: &Scene) -> Result<Tally> {
    let argv = vec!["dmesg".into()];
    let job = lab.start(argv, Box::new(scene.log("dmesg")?), Box::new(scene.log("err")?))?;
    job.end_input()?;
    let ending = lab.wait(&job, Some(scene.limit))?;
    ensure!(ending == Ending::Exited(0), "{ending:?}: {}", scene.text("err"));
    let log = scene.text("dmesg");
    ensure!(log.contains("Linux version"), "the log does not begin with the boot: messages were lost");
    let complaints = console::kernel_complaints(&log);
    ensure!(complaints.is_empty(), "{}", complaints.join("\n"));
    Ok(Tally::ONE)
}

fn unload(lab: &mut Lab, scene: &Scene) -> Result<Tally> {
    let argv = ["/bin/sh", "-c", lab.device.take_down()].map(Into::into).into();
    let job = lab.start(argv, Box::new(scene.log("out")?), Box::new(scene.log("err")?))?;
    job.end_input()?;
    let ending = lab.wait(&job, Some(scene.limit))?;
    ensure!(ending == Ending::Exited(0), "{ending:?}: {}", scene.text("err"));

    let path = lab.run.file(device::LEAKS);
    let until = Instant::now() + REPORT_LIMIT;
    let removals = loop {
        match removals(&fs::read(&path).unwrap_or_default()) {
            Ok(removals) if !removals.is_empty() => break removals,
            _ if Instant::now() < until => std::thread::sleep(Duration::from_millis(100)),
            other => break other.context("the model's report")?,
        }
    };
    ensure!(!removals.is_empty(), "the model did not see the driver go");
    fs::copy(&path, scene.dir.join("report.json"))?;
    for removal in removals {
        ensure!(removal["clean"] == true, "left behind: {removal:#}");
    }
    Ok(Tally::ONE)
}

/// The drivers' removals of all guests, from the model's report.
fn removals(report: &[u8]) -> Result<Vec<Value>> {
    let report: Value = serde_json::from_slice(report)?;
    let guests = report["guests"].as_array().context("no guests")?;
    let of_guest = |guest: &Value| guest["driver_removals"].as_array().cloned();
    guests.iter().map(|guest| of_guest(guest).context("no driver_removals")).try_fold(
        Vec::new(),
        |mut all, one| {
            all.extend(one?);
            Ok(all)
        },
    )
}

#[cfg(test)]
mod tests {
    use super::removals;

    #[test]
    fn reports_are_read() {
        let text =
            br#"{"guests":[{"driver_removals":[{"clean":true}]},{"driver_removals":[{"clean":false}]}]}"#;
        let found = removals(text).unwrap();
        assert_eq!((found[0]["clean"].as_bool(), found[1]["clean"].as_bool()), (Some(true), Some(false)));
        assert!(removals(b"{}").is_err());
        assert!(removals(b"").is_err());
    }
}
