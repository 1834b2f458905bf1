//! The lab's promises that take guests of their own: `ci/lab run` as a person types it, and how it ends when something
//! goes wrong. Two guests at a time, for a boot costs more than all else in these tests.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use super::{Scene, Tally, Test};
use crate::proc::Process;
use crate::suite::tree;

/// How long a run may take to end when it must.
const STOP: Duration = Duration::from_secs(15);

pub fn tests() -> Vec<Test> {
    vec![
        Test::boots("complaint and dead model", 240, complaint_and_dead_model),
        Test::boots("clone under tmp and Ctrl-C", 300, clone_and_interrupt),
        Test::boots("two nodes: marked output, statuses, one killed", 480, two_nodes),
        Test::boots("two nodes: one dies, time limit", 480, two_nodes_end),
        Test::boots("two nodes: Ctrl-C, the lab killed", 480, two_nodes_stopped),
    ]
}

/// `ci/lab run` on its own, with its outputs in the scene's files.
struct Run<'a> {
    process: Process,
    scene: &'a Scene<'a>,
    name: &'static str,
}

impl<'a> Run<'a> {
    fn start(
        scene: &'a Scene,
        name: &'static str,
        project: &Path,
        cwd: &Path,
        argv: &[&str],
    ) -> Result<Run<'a>> {
        Run::start_with(scene, name, project, cwd, (&[], b""), argv)
    }

    /// The same with options of `run` and an input.
    fn start_with(
        scene: &'a Scene,
        name: &'static str,
        project: &Path,
        cwd: &Path,
        (options, input): (&[&str], &[u8]),
        argv: &[&str],
    ) -> Result<Run<'a>> {
        let typed = scene.dir.join(format!("{name}.in"));
        fs::write(&typed, input)?;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("--project").arg(project).args(["--no-build", "run"]).args(options);
        // What this run found out about KVM holds for a clone as well.
        let accel = crate::host::kvm::recorded_in(scene.paths)
            .map_or("tcg", |works| if works { "kvm" } else { "tcg" });
        command.args(["--accel", accel, "--"]).args(argv);
        command.current_dir(cwd).stdin(File::open(typed)?);
        command.stdout(scene.log(&format!("{name}.out"))?).stderr(scene.log(&format!("{name}.err"))?);
        Ok(Run { process: Process::spawn(&mut command)?, scene, name })
    }

    fn out(&self) -> String {
        self.scene.text(&format!("{}.out", self.name))
    }

    fn err(&self) -> String {
        self.scene.text(&format!("{}.err", self.name))
    }

    /// Waits until the command in the guest has written this line.
    fn await_line(&mut self, line: &str) -> Result<()> {
        let until = Instant::now() + self.scene.limit;
        while !self.out().lines().any(|one| one == line) {
            if self.process.wait(Duration::from_millis(50))?.is_some() || Instant::now() > until {
                bail!("the command in the guest did not get as far as {line:?}: {}", self.err());
            }
        }
        Ok(())
    }

    fn status(&mut self, limit: Duration) -> Result<ExitStatus> {
        let status = self.process.wait(limit)?;
        status.with_context(|| {
            format!("`{}` did not end within {} s: {}", self.name, limit.as_secs(), self.err())
        })
    }

    /// Processes that the run has started, by their names.
    fn children(&self) -> Result<Vec<(Pid, String)>> {
        let id = self.process.id();
        let list = fs::read_to_string(format!("/proc/{id}/task/{id}/children"))?;
        let ids = list.split_whitespace().filter_map(|word| Pid::from_raw(word.parse().ok()?));
        let name =
            |pid: Pid| fs::read_to_string(format!("/proc/{}/comm", pid.as_raw_nonzero())).unwrap_or_default();
        Ok(ids.map(|pid| (pid, name(pid).trim().to_owned())).collect())
    }
}

fn ended(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    // A zombie has ended; whoever adopts it will see to it.
    stat.rsplit(')').next().is_none_or(|rest| rest.trim_start().starts_with('Z') || rest.is_empty())
}

fn complaint_and_dead_model(scene: &Scene) -> Result<Tally> {
    let (project, here) = (scene.paths.project.as_path(), std::env::current_dir()?);
    // The kernel's own words, as WARN() would print them.
    // First the guest tries to keep them from being seen, and to leave what would harm the host.
    let line = "dmesg -n 1
                for log in \"$RDMA_XRC_RUN_DIR\"/../*.log; do true > \"$log\"; rm -f \"$log\"; done 2>/dev/null
                cd \"$RDMA_XRC_RUN_DIR\" && ln -s /etc/passwd leaks.json.new && mkfifo pipe || exit 9
                cp /bin/true program && chmod 4755 program || exit 9
                echo '<4>WARNING: CPU: 0 PID: 1 at a test' > /dev/kmsg; echo output; exit 0";
    let mut warned = Run::start(scene, "warned", project, &here, &["/bin/sh", "-c", line])?;
    let mut orphan = Run::start(scene, "orphan", project, &here, &["/bin/sh", "-c", "echo up; sleep 600"])?;

    orphan.await_line("up")?;
    let children = orphan.children()?;
    let model = children.iter().find(|(_, name)| name.starts_with("mlx5-model")).context("no model runs")?;
    kill_process(model.0, Signal::KILL)?;
    let status = orphan.status(Duration::from_secs(30))?;
    ensure!(status.code() == Some(125), "with its model dead the run ended so: {status}");
    ensure!(
        orphan.err().contains("device model ended"),
        "it was not said that the model died: {}",
        orphan.err()
    );
    ensure!(children.iter().all(|(pid, _)| ended(*pid)), "processes are left: {children:?}");

    let status = warned.status(scene.limit)?;
    ensure!(status.code() == Some(125), "with a kernel's WARN the run ended so: {status}");
    ensure!(warned.out() == "output\n", "output: {:?}", warned.out());
    let said = warned.err();
    let first = said.find("WARNING: CPU: 0 PID: 1 at a test").context("the complaint is not shown")?;
    ensure!(
        said.find("status was 0").is_some_and(|verdict| first < verdict),
        "the complaint is not first: {said}"
    );
    let logs = said.lines().last().and_then(|line| line.strip_prefix("logs in "));
    let files = Path::new(logs.context("the run does not say where its logs are")?).join("files");
    let mode = fs::metadata(files.join("program"))?.permissions().mode();
    ensure!(mode & 0o7777 == 0o755, "a program that the guest left has mode {mode:o}");
    ensure!(fs::symlink_metadata(files.join("pipe")).is_err(), "a pipe of the guest's is left");
    Ok(Tally { passed: 2, ..Tally::default() })
}

/// Copies the sources, as a clone would have them.
fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    for file in tree::files(from)? {
        let target = to.join(&file);
        fs::create_dir_all(target.parent().context("no parent")?)?;
        fs::copy(from.join(&file), target)?;
    }
    Ok(())
}

fn clone_and_interrupt(scene: &Scene) -> Result<Tally> {
    let here = std::env::current_dir()?;
    let project = scene.paths.project.as_path();
    let mut sleeper = Run::start(scene, "sleeper", project, &here, &["/bin/sh", "-c", "echo up; sleep 600"])?;

    // Where the guest mounts afresh, with a name that needs quoting.
    let folder = tempfile::Builder::new().prefix("lab, a test ").tempdir_in("/tmp")?;
    let clone = folder.path().join("the clone");
    copy_tree(project, &clone)?;
    let cwd = folder.path().join(OsStr::from_bytes(b"else\xffwhere"));
    fs::create_dir(&cwd)?;
    fs::write(cwd.join("file"), [0, 159, 146, 150, 10])?;
    let line = "cat file; ibv_devinfo -l >&2; ls \"$0/Cargo.toml\" >&2; echo back > \"$RDMA_XRC_RUN_DIR/back\"; exit 77";
    let argv = ["/bin/sh", "-c", line, &clone.to_string_lossy()];
    let mut other = Run::start(scene, "other", &clone, &cwd, &argv)?;

    sleeper.await_line("up")?;
    let children = sleeper.children()?;
    ensure!(children.len() >= 2, "QEMU and the model should run: {children:?}");
    kill_process(sleeper.process.pid(), Signal::INT)?;
    let status = sleeper.status(Duration::from_secs(30))?;
    ensure!(status.code() == Some(130), "after Ctrl-C the run ended so: {status} {:?}", status.signal());
    ensure!(children.iter().all(|(pid, _)| ended(*pid)), "processes are left: {children:?}");

    let status = other.status(scene.limit)?;
    ensure!(status.code() == Some(77), "in the clone under /tmp: {status}: {}", other.err());
    let out = fs::read(scene.dir.join("other.out"))?;
    ensure!(out == [0, 159, 146, 150, 10], "output: {out:?}");
    ensure!(other.err().contains(scene.common.device.verbs_name()), "no device there: {}", other.err());
    ensure!(other.err().contains("Cargo.toml"), "the clone is not seen in the guest: {}", other.err());
    let back = clone.join("target/lab/runs/latest/files/back");
    ensure!(fs::read_to_string(&back)? == "back\n", "what the guest wrote did not come back");
    Ok(Tally { passed: 2, ..Tally::default() })
}

/// Two runs of two nodes each, from a line of shell with its options and input.
fn two_runs<'a>(scene: &'a Scene, runs: [(&'static str, &[&str], &[u8], &str); 2]) -> Result<[Run<'a>; 2]> {
    let (project, here) = (scene.paths.project.as_path(), std::env::current_dir()?);
    let start = |(name, options, input, line): (&'static str, &[&str], &[u8], &str)| {
        let options = [&["--guests", "2"], options].concat();
        Run::start_with(scene, name, project, &here, (&options, input), &["/bin/sh", "-c", line])
    };
    let [one, other] = runs;
    Ok([start(one)?, start(other)?])
}

/// The lines of an output, in an order that does not depend on which node was faster.
fn sorted(bytes: &[u8]) -> Vec<&[u8]> {
    let mut lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
    lines.sort();
    lines
}

fn two_nodes(scene: &Scene) -> Result<Tally> {
    let line = "read line; printf 'read:%s\\n\\377\\0\\n%s of %s' \"$line\" $NODE $NODES
                printf 'no end' >&2
                exit $((NODE * 3 - 3))";
    let killed = "[ $NODE = 1 ] || sleep 600; sleep 3; echo lives";
    let [mut marked, mut killed] = two_runs(
        scene,
        [
            ("marked", &[], b"typed\n", line),
            ("killed", &["--at", "1 kill --node 2", "--at", "900 report"], b"", killed),
        ],
    )?;
    let status = marked.status(scene.limit)?;
    ensure!(status.code() == Some(3), "0 and 3 made {status}: {}", marked.err());
    let out = fs::read(scene.dir.join("marked.out"))?;
    let expected: [&[u8]; 6] = [
        b"node 1: 1 of 2\n",
        b"node 1: read:typed\n",
        b"node 1: \xff\0\n",
        b"node 2: 2 of 2\n",
        b"node 2: read:\n",
        b"node 2: \xff\0\n",
    ];
    ensure!(sorted(&out) == expected, "output: {}", String::from_utf8_lossy(&out));
    for said in ["node 1: no end\n", "node 2: no end\n", "ci/lab: node 1: 0, node 2: 3\n"] {
        ensure!(marked.err().contains(said), "standard error lacks {said:?}: {}", marked.err());
    }

    let status = killed.status(scene.limit)?;
    ensure!(status.code() == Some(0), "with a node killed on command: {status}: {}", killed.err());
    ensure!(killed.out() == "node 1: lives\n", "output: {:?}", killed.out());
    for said in ["node 1: 0, node 2: killed\n", "not done, since the command had ended: report\n"] {
        ensure!(killed.err().contains(said), "standard error lacks {said:?}: {}", killed.err());
    }
    Ok(Tally { passed: 2, ..Tally::default() })
}

fn two_nodes_end(scene: &Scene) -> Result<Tally> {
    // A reset, after which QEMU ends.
    let dies = "[ $NODE = 1 ] || echo b > /proc/sysrq-trigger; sleep 5; echo lives";
    let late = "[ $NODE = 2 ] || sleep 600; echo done; exit 5";
    let [mut lost, mut late] =
        two_runs(scene, [("lost", &[], b"", dies), ("late", &["--timeout", "5"], b"", late)])?;
    let status = lost.status(scene.limit)?;
    ensure!(status.code() == Some(125), "with a node that died: {status}: {}", lost.err());
    ensure!(lost.out() == "node 1: lives\n", "output: {:?}", lost.out());
    for said in ["node 2 ended", "node 1: 0, node 2: lost\n"] {
        ensure!(lost.err().contains(said), "standard error lacks {said:?}: {}", lost.err());
    }
    let status = late.status(scene.limit)?;
    ensure!(status.code() == Some(124), "at the time limit: {status}: {}", late.err());
    ensure!(late.out() == "node 2: done\n", "output: {:?}", late.out());
    ensure!(late.err().contains("node 1: time limit, node 2: 5\n"), "standard error: {}", late.err());
    Ok(Tally { passed: 2, ..Tally::default() })
}

/// Nothing outlives the lab: told to stop it ends all, and killed it takes all along.
fn two_nodes_stopped(scene: &Scene) -> Result<Tally> {
    let sleeps = "echo up; sleep 600";
    let mut runs = two_runs(scene, [("interrupted", &[], b"", sleeps), ("killed", &[], b"", sleeps)])?;
    for run in &mut runs {
        run.await_line("node 1: up")?;
        run.await_line("node 2: up")?;
    }
    let [mut interrupted, mut killed] = runs;
    let (told, orphans) = (interrupted.children()?, killed.children()?);
    for children in [&told, &orphans] {
        // QEMU may be started by way of its own dynamic linker, and be called like that.
        let models = children.iter().filter(|(_, name)| name.starts_with("mlx5-model")).count();
        ensure!((children.len(), models) == (3, 1), "two QEMUs and the model should run: {children:?}");
    }

    let began = Instant::now();
    kill_process(interrupted.process.pid(), Signal::INT)?;
    let status = interrupted.status(STOP)?;
    ensure!(status.code() == Some(130), "after Ctrl-C the run ended so: {status} {:?}", status.signal());
    ensure!(told.iter().all(|(pid, _)| ended(*pid)), "after Ctrl-C processes are left: {told:?}");
    crate::report::out!("         after Ctrl-C all ended within {:.1} s", began.elapsed().as_secs_f64());

    kill_process(killed.process.pid(), Signal::KILL)?;
    let status = killed.status(STOP)?;
    ensure!(status.signal() == Some(9), "the lab that was killed ended so: {status}");
    let until = Instant::now() + STOP;
    while !orphans.iter().all(|(pid, _)| ended(*pid)) {
        ensure!(Instant::now() < until, "the lab was killed, and processes are left: {orphans:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(Tally { passed: 2, ..Tally::default() })
}
