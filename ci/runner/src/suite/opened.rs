//! Targets opened by number, on the provider as it is: what a C program meets that closes one. The crate's own tests of
//! them are among its device tests.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::{Scene, Tally, Test, compiled};
use crate::lab::{Ending, Lab};
use crate::report::out;

/// As a shell has the end by SIGSEGV.
const CRASHED: i32 = 128 + 11;
/// How long the kernel may take to give back what a process left.
const CLEANING: Duration = Duration::from_secs(5);

pub fn tests() -> Vec<Test> {
    vec![Test::guest("opened/the provider's own close", 60, provider)]
}

/// Either is an answer: the provider crashes, which is why the crate goes past it, or it has been mended.
fn provider(lab: &mut Lab, scene: &Scene) -> Result<Tally> {
    let program = compiled::program(scene, "close-opened", &["-libverbs"])?;

    let before = held(lab)?;
    let argv = vec![program.into_os_string(), lab.device.verbs_name().into()];
    let job = lab.start(argv, Box::new(scene.log("out")?), Box::new(scene.log("err")?))?;
    job.end_input()?;
    let ending = lab.wait(&job, Some(scene.limit))?;
    let said = scene.text("out");
    let version = &lab.ground.rdma_core.version;
    match verdict(ending, &said) {
        Some(Verdict::Crashes) => {
            out!("         the provider of rdma-core {version} crashes when it closes an opened target");
        }
        Some(Verdict::Mended) => {
            out!("         a mended provider: that of rdma-core {version} closes an opened target");
        }
        None => anyhow::bail!("{ending:?}: {said}{}", scene.text("err")),
    }
    returns_to(lab, &before)?;
    Ok(Tally::ONE)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Crashes,
    Mended,
}

/// What the program's end says of the provider; nothing, if it did not come as far as closing or ended otherwise.
fn verdict(ending: Ending, said: &str) -> Option<Verdict> {
    let lines: Vec<&str> = said.lines().collect();
    match (ending, lines.as_slice()) {
        (Ending::Exited(CRASHED), [opened]) if opened.starts_with("opened") => Some(Verdict::Crashes),
        (Ending::Exited(0), [opened, "closed"]) if opened.starts_with("opened") => Some(Verdict::Mended),
        _ => None,
    }
}

/// The kinds that programs make and that go with them, as the device model names them. (Of memory keys the driver keeps
/// some for later.)
const KINDS: [&str; 5] = ["pd", "xrcd", "cq", "srq", "qp"];

/// What the device has lent to the guest of those kinds, each object by its number.
pub fn held(lab: &Lab) -> Result<Value> {
    let held = lab.ask(&json!({"do": "held", "node": 1}))?;
    let object = |kind: &str| (kind.to_owned(), held["objects"][kind].clone());
    // The driver's own are always there; an answer without them is another one than is asked for here.
    let all: serde_json::Map<String, Value> = KINDS.into_iter().map(object).collect();
    ensure!(all["qp"].is_array() && all["pd"].is_array(), "the device model does not say what is held");
    Ok(all.into())
}

/// Waits until the guest holds what it held before, and no more.
pub fn returns_to(lab: &mut Lab, before: &Value) -> Result<()> {
    let until = std::time::Instant::now() + CLEANING;
    loop {
        let now = held(lab)?;
        if now == *before {
            return Ok(());
        }
        ensure!(std::time::Instant::now() < until, "the guest held {before} before, and now {now}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_two_ends_say_something() {
        let of = |status, said| verdict(Ending::Exited(status), said);
        assert_eq!(of(139, "opened, 976 bytes\n"), Some(Verdict::Crashes));
        assert_eq!(of(0, "opened, 976 bytes\nclosed\n"), Some(Verdict::Mended));
        for (status, said) in
            [(139, ""), (139, "opened, 1 bytes\nclosed\n"), (0, "opened, 1 bytes\n"), (1, "")]
        {
            assert_eq!(of(status, said), None, "{status} {said:?}");
        }
        assert_eq!(verdict(Ending::TimedOut, "opened, 1 bytes\n"), None);
    }
}
