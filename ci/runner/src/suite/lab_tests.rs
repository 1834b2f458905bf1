//! The lab's own promises, as far as the shared guest can show them.

use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::{Scene, Tally, Test};
use crate::lab::{Ending, Lab};
use crate::protocol::Size;

/// The size that a command's output must survive unchanged.
const BULK: u64 = 10 << 20;

pub fn tests() -> Vec<Test> {
    vec![
        Test::guest("lab/exit statuses", 60, statuses),
        Test::guest("lab/10 MiB of output", 90, bulk_output),
        Test::guest("lab/10 MiB through standard input", 90, bulk_input),
        Test::guest("lab/directory and environment", 60, surroundings),
        Test::guest("lab/only tmpfs and the run's folder are written", 60, writes),
        Test::guest("lab/time limit", 60, time_limit),
        Test::guest("lab/two commands at once", 60, two_at_once),
        Test::guest("lab/terminal", 60, terminal),
        Test::guest("lab/control from the host and in the guest", 90, control),
        Test::guest("lab/a reader that stops, a daemon that writes", 60, readers),
    ]
}

/// Runs a line of shell; its outputs are the scene's files `out` and `err`.
fn shell(lab: &mut Lab, scene: &Scene, line: &str) -> Result<Ending> {
    let job = lab.start(words(line), Box::new(scene.log("out")?), Box::new(scene.log("err")?))?;
    job.end_input()?;
    lab.wait(&job, Some(scene.limit))
}

fn words(line: &str) -> Vec<OsString> {
    ["/bin/sh", "-c", line].map(Into::into).into()
}

fn statuses(lab: &mut Lab, scene: &Scene) -> Result<Tally> {
    let expected =
        [("exit 0", 0), ("exit 1", 1), ("exit 77", 77), ("kill -TERM $$", 143), ("kill -KILL $$", 137)];
    for (line, status) in expected {
        let ending = shell(lab, scene, line)?;
        ensure!(ending == Ending::Exited(status), "`{line}` ended so: {ending:?}");
    }
    for (program, status) in [("no-such-program", 127), ("/etc/passwd", 126)] {
        let job =
            lab.start(vec![program.into()], Box::new(scene.log("out")?), Box::new(scene.log("err")?))?;
        let ending = lab.wait(&job, Some(scene.limit))?;
        ensure!(ending == Ending::Exited(status), "{program} ended so: {ending:?}");
        ensure!(scene.text("err").contains(program), "nothing was said about {program}");
    }
    Ok(Tally::ONE)
}

fn random_file(scene: &Scene) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open("/dev/urandom")?.take(BULK).read_to_end(&mut bytes)?;
    fs::write(scene.dir.join("random"), &bytes)?;
    Ok(bytes)
}

fn bulk_output(lab: &mut Lab, scene: &Scene) -> Result<Tally> {
    let bytes = random_file(scene)?;
    let argv = vec!["cat".into(), scene.dir.join("random").into_os_string()];
    let job = lab.start(argv, Box::new(scene.log("out")?), Box::new(scene.log("err")?))?;
    job.end_input()?;
    let ending = lab.wait(&job, Some(scene.limit))?;
    ensure!(ending == Ending::Exited(0), "{ending:?}");
    ensure!(fs::read(scene.dir.join("out"))? == bytes, "the output differs from the file");
    ensure!(fs::read(scene.dir.join("err"))?.is_empty(), "something came on standard error");
    fs::remove_file(scene.dir.join("out"))?;
    Ok(fs::remove_file(scene.dir.join("random")).map(|()| Tally::ONE)?)
}

fn bulk_input(lab: &mut Lab, scene: &Scene) -> Result<Tally> {
    let bytes = random_file(scene)?;
    // A reader that is slow to begin: the rest must wait on the host and not in the guest's memory.
    let argv = words("sleep 1; cat; echo end >&2; exit 3");
    let job = lab.start(argv, Box::new(scene.log("out")?), Box::new(scene.log("err")?))?;
    job.feed(fs::File::open(scene.dir.join("random"))?);
    let ending = lab.wait(&job, Some(scene.limit))?;
    ensure!(ending == Ending::Exited(3), "{ending:?}");
    ensure!(fs::read(scene.dir.join("out"))? == bytes, "what came back differs from what was sent");
    ensure!(scene.text("err") == "end\n", "standard error: {:?}", scene.text("err"));
    fs::remove_file(scene.dir.join("out"))?;
    Ok(fs::remove_file(scene.dir.join("random")).map(|()| Tally::ONE)?)
}

fn surroundings(lab: &mut Lab, scene: &Scene) -> Result<Tally> {
    let ending = shell(lab, scene, "pwd; env; test -e \"$RDMA_XRC_RUN_DIR\"; id -u")?;
    ensure!(ending == Ending::Exited(0), "{ending:?}");
    let out = scene.text("out");
    let lines: Vec<&str> = out.lines().collect();
    let here = std::env::current_dir()?;
    ensure!(
        lines.first().is_some_and(|line| *line == here.to_string_lossy()),
        "it runs in {:?}",
        lines.first()
    );
    ensure!(lines.last() == Some(&"0"), "it does not run as root");
    for name in [
        "RDMA_XRC_DEVICE",
        "RDMA_XRC_CONTROL",
        "RDMA_XRC_LAB",
        "NODE",
        "NODES",
        "SELF_ADDR",
        "PEER_ADDR",
        "SELF_RDMA_ADDR",
        "PEER_RDMA_ADDR",
    ] {
        let expected = format!("{name}={}", lab.variable(name)?);
        ensure!(lines.contains(&expected.as_str()), "the environment lacks {expected}");
    }
    if let Some(home) = std::env::var_os("HOME") {
        let expected = format!("HOME={}", home.to_string_lossy());
        ensure!(lines.contains(&expected.as_str()), "the environment lacks the caller's {expected}");
    }
    Ok(Tally::ONE)
}

fn writes(lab: &mut Lab, scene: &Scene) -> Result<Tally> {
    let line = "echo a > /tmp/a && echo b > /run/b && echo c > \"$RDMA_XRC_RUN_DIR/from-guest\" || exit 9
                for dir in / /etc /usr /var/tmp . \"$RDMA_XRC_RUN_DIR/..\"; do
                    if touch \"$dir/written-by-guest\" 2>/dev/null; then echo \"$dir\"; exit 8; fi
                done";
    let ending = shell(lab, scene, line)?;
    ensure!(ending == Ending::Exited(0), "{ending:?}: {}{}", scene.text("out"), scene.text("err"));
    let file = lab.run.path.join(crate::paths::FILES).join("from-guest");
    ensure!(
        fs::read_to_string(&file)? == "c\n",
        "what the guest wrote to the run's folder did not come back"
    );
    ensure!(
        !std::path::Path::new("/tmp/a").exists() || fs::read_to_string("/tmp/a")? != "a\n",
        "the host's /tmp changed"
    );
    fs::remove_file(file)?;
    Ok(Tally::ONE)
}

fn time_limit(lab: &mut Lab, scene: &Scene) -> Result<Tally> {
    // It ignores the polite signal, and so does its child.
    let argv = words("trap '' TERM; sleep 1234 & sleep 1234");
    let job = lab.start(argv, Box::new(scene.log("out")?), Box::new(scene.log("err")?))?;
    let ending = lab.wait(&job, Some(Duration::from_secs(1)))?;
    ensure!(ending == Ending::TimedOut, "{ending:?}");
    let ending = shell(lab, scene, "grep -l -z '[1]234' /proc/[0-9]*/cmdline")?;
    ensure!(ending == Ending::Exited(1), "something is left of it: {}", scene.text("out"));
    Ok(Tally::ONE)
}

fn two_at_once(lab: &mut Lab, scene: &Scene) -> Result<Tally> {
    let fifo = "/tmp/lab-two-at-once";
    ensure!(
        shell(lab, scene, &format!("mkfifo {fifo}"))? == Ending::Exited(0),
        "no fifo: {}",
        scene.text("err")
    );
    // Each waits for the other; run one after the other they would never end.
    let one = lab.start(
        words(&format!("cat {fifo}; exit 5")),
        Box::new(scene.log("one")?),
        Box::new(scene.log("one-err")?),
    )?;
    let two = lab.start(
        words(&format!("echo hello > {fifo}; exit 6")),
        Box::new(scene.log("two")?),
        Box::new(scene.log("two-err")?),
    )?;
    let endings = [lab.wait(&one, Some(scene.limit))?, lab.wait(&two, Some(scene.limit))?];
    ensure!(endings == [Ending::Exited(5), Ending::Exited(6)], "{endings:?}");
    ensure!(scene.text("one") == "hello\n" && scene.text("two").is_empty(), "the outputs were mixed up");
    Ok(Tally::ONE)
}

fn terminal(lab: &mut Lab, scene: &Scene) -> Result<Tally> {
    let argv = words("tty && stty size && exec 3</dev/tty && read line && echo \"read $line\"; exit 4");
    let job = lab.start_on_terminal(1, argv, Size { rows: 33, cols: 44 }, Box::new(scene.log("out")?))?;
    job.feed(&b"typed\n"[..]);
    let ending = lab.wait(&job, Some(scene.limit))?;
    let out = scene.text("out");
    ensure!(ending == Ending::Exited(4), "{ending:?}: {out}");
    for sign in ["/dev/pts/", "33 44", "read typed"] {
        ensure!(out.contains(sign), "the terminal does not show {sign}: {out}");
    }
    Ok(Tally::ONE)
}

/// The same answer from everywhere; a refusal has a status of its own and does no harm.
fn control(lab: &mut Lab, scene: &Scene) -> Result<Tally> {
    let held = lab.ask(&json!({"do": "held", "node": 1}))?;
    let on_host = |arguments: &[&str]| {
        let mut command = std::process::Command::new(std::env::current_exe()?);
        command.args(["control", "--run"]).arg(&lab.run.path).args(arguments);
        Ok::<_, anyhow::Error>(command.env_remove("RDMA_XRC_CONTROL").output()?)
    };
    let answer = on_host(&["held", "--node", "1"])?;
    ensure!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));
    ensure!(serde_json::from_slice::<Value>(&answer.stdout)? == held, "the host is told something else");
    let refused = on_host(&["port", "down", "--node", "2"])?;
    let said = String::from_utf8_lossy(&refused.stderr);
    ensure!(refused.status.code() == Some(1) && said.contains("no node 2"), "{}: {said}", refused.status);

    // Two at a time, of which one must wait for the port; an answer that nobody waited for; one's own guest frozen.
    let line = "\"$RDMA_XRC_LAB\" control report > /dev/null & \"$RDMA_XRC_LAB\" control held --node 1 && wait || exit 3
                exec 3<>\"$RDMA_XRC_CONTROL\" && printf '{\"do\":\"held\"}\\nrubbish\\n' >&3 && exec 3<&- || exit 4
                \"$RDMA_XRC_LAB\" control freeze --node 1 --for 1 || exit 5
                \"$RDMA_XRC_LAB\" control kill --node 2; exit $(($? + 10))";
    let ending = shell(lab, scene, line)?;
    ensure!(ending == Ending::Exited(11), "{ending:?}: {}", scene.text("err"));
    ensure!(serde_json::from_str::<Value>(&scene.text("out"))? == held, "the guest is told something else");
    ensure!(scene.text("err").contains("no node 2"), "{}", scene.text("err"));
    Ok(Tally::ONE)
}

fn readers(lab: &mut Lab, scene: &Scene) -> Result<Tally> {
    // Held, but never read from.
    let (_reader, writer) = rustix::pipe::pipe()?;
    let stuck = lab.start(words("yes"), Box::new(fs::File::from(writer)), Box::new(scene.log("err")?))?;
    let ending = shell(lab, scene, "setsid yes & sleep 1; exit 7")?;
    ensure!(ending == Ending::Exited(7), "beside a daemon that writes: {ending:?}");
    fs::remove_file(scene.dir.join("out"))?;
    let ending = lab.wait(&stuck, Some(Duration::from_millis(1)))?;
    ensure!(ending == Ending::TimedOut, "with a reader that stopped: {ending:?}");
    Ok(Tally::ONE)
}
