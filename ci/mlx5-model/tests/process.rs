//! The program: how it starts, ends and says so.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::Shutdown,
    os::unix::{net::UnixStream, process::ExitStatusExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

const SIGTERM: &str = "-TERM";
const SIGABRT: i32 = 6;
/// Commands of vfio-user.
const VERSION: u32 = 1;
const DEVICE_RESET: u32 = 13;

fn place(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

fn start(dir: &Path, options: &[&str]) -> Child {
    // A relative path: socket addresses are short, and a clone may lie deep.
    Command::new(env!("CARGO_BIN_EXE_mlx5-model"))
        .args(options)
        .current_dir(dir)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !done() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Connects to the socket `s`.
fn connect(dir: &Path) -> UnixStream {
    connect_to(dir, "s")
}

/// Connects by a short way to the directory.
fn connect_to(dir: &Path, socket: &str) -> UnixStream {
    let short = std::env::temp_dir().join(format!("m{}", dir.file_name().unwrap().to_string_lossy()));
    let _ = std::fs::remove_file(&short);
    std::os::unix::fs::symlink(dir, &short).unwrap();
    let socket = short.join(socket);
    wait_for("the socket appears", || socket.exists());
    let stream = UnixStream::connect(&socket).unwrap();
    std::fs::remove_file(short).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

/// A vfio-user message: its number, its command, what follows the header.
fn message(command: u32, body: &[u8]) -> Vec<u8> {
    let mut message = Vec::new();
    for (field, bytes) in [(1, 2), (command, 2), (16 + body.len() as u32, 4), (0, 4), (0, 4)] {
        message.extend_from_slice(&field.to_le_bytes()[..bytes]);
    }
    message.extend_from_slice(body);
    message
}

/// Resets the function, and sees that it is answered.
fn reset(client: &mut UnixStream) {
    client.write_all(&message(DEVICE_RESET, &[])).unwrap();
    let mut answer = [0; 16];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(answer[2..4], (DEVICE_RESET as u16).to_le_bytes());
    assert_eq!(answer[8] & 0x20, 0, "no error");
}

/// Sends a line to the control socket, reads the answer.
fn ask(control: &mut BufReader<UnixStream>, line: &str) -> serde_json::Value {
    control.get_mut().write_all(line.as_bytes()).unwrap();
    answer(control)
}

fn answer(control: &mut BufReader<UnixStream>) -> serde_json::Value {
    let mut line = String::new();
    control.read_line(&mut line).unwrap();
    assert!(line.ends_with('\n'), "{line:?}");
    serde_json::from_str(&line).unwrap()
}

fn control(dir: &Path) -> BufReader<UnixStream> {
    BufReader::new(connect_to(dir, "c"))
}

fn terminate(child: &Child) {
    let killed = Command::new("kill").args([SIGTERM, &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
}

fn end(mut child: Child) -> (std::process::ExitStatus, String) {
    wait_for("the model ends", || child.try_wait().unwrap().is_some());
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    (child.wait().unwrap(), said)
}

fn report(dir: &Path) -> serde_json::Value {
    serde_json::from_slice(&std::fs::read(dir.join("report.json")).unwrap()).unwrap()
}

#[test]
fn ends_with_its_client() {
    let dir = place("client");
    let child = start(&dir, &["--leak-report", "report.json", "s"]);
    let client = connect(&dir);
    assert_eq!(report(&dir)["state"], "running");
    drop(client);
    let (status, said) = end(child);
    assert!(status.success(), "{said}");
    assert_eq!(report(&dir)["state"], "disconnected");
    assert!(!dir.join("s").exists(), "the socket is gone");
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn ends_on_sigterm_and_replaces_a_stale_socket() {
    let dir = place("term");
    for _ in 0..2 {
        let child = start(&dir, &["--leak-report", "report.json", "--socket", "s"]);
        let _client = connect(&dir);
        terminate(&child);
        let (status, said) = end(child);
        assert!(status.success(), "{said}");
        assert_eq!(report(&dir)["state"], "ended by a signal");
    }
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_panic_is_seen_and_ends_it() {
    let dir = place("panic");
    // This test's own program, as the process that panics.
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", "panics"])
        .current_dir(&dir)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (status, said) = end(child);
    assert_eq!(status.signal(), Some(SIGABRT), "{said}");
    assert!(said.contains("mlx5-model: PANIC") && said.contains("half a device"), "{said}");
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
#[ignore = "ends its process: run by a_panic_is_seen_and_ends_it"]
fn panics() {
    mlx5_model::server::abort_on_panic();
    panic!("half a device");
}

#[test]
fn a_guest_that_dies_or_talks_nonsense_leaves_the_others_alone() {
    let dir = place("several");
    let child = start(&dir, &["--leak-report", "report.json", "--control", "c", "s", "t", "u", "v"]);
    let mut control = control(&dir);
    let mut first = connect_to(&dir, "s");
    reset(&mut first);
    // Half a message, then death.
    let mut second = connect_to(&dir, "t");
    reset(&mut second);
    second.write_all(&message(DEVICE_RESET, &[])[..9]).unwrap();
    drop(second);
    // Version messages that the protocol's crate panics about: one without a zero at its end, one that is shorter
    // than it says.
    let mut third = connect_to(&dir, "u");
    third.write_all(&message(VERSION, b"\0\0\0\0x")).unwrap();
    let mut fourth = connect_to(&dir, "v");
    let mut short = message(VERSION, b"\0\0\0\0");
    short[4] = 3;
    fourth.write_all(&short).unwrap();

    let mut now = serde_json::Value::Null;
    wait_for("all but the first are gone", || {
        now = ask(&mut control, "{\"do\":\"report\"}\n");
        [1, 2, 3].iter().all(|n| now["ok"]["guests"][n]["drop_count"] == 1)
    });
    let state: Vec<_> = (0..4).map(|n| now["ok"]["guests"][n]["connection"].as_str().unwrap()).collect();
    assert_eq!(state, ["connected", "disconnected", "protocol error", "protocol error"]);
    assert_eq!(now["ok"]["guests"][1]["drops"][0]["cause"], "gone");
    assert_eq!(now["ok"]["state"], "running");
    assert_eq!(report(&dir)["guests"], now["ok"]["guests"], "the file has the same");
    // The first is served as before.
    reset(&mut first);
    drop(first);
    let (status, said) = end(child);
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("guest 3: vfio-user: a message that makes no sense"), "{said}");
    assert!(!said.contains("PANIC") && !said.contains("panicked"), "{said}");
    assert_eq!(report(&dir)["state"], "protocol error");
    for socket in ["s", "t", "u", "v", "c"] {
        assert!(!dir.join(socket).exists(), "{socket} is left");
    }
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn ends_when_every_guest_came_and_went() {
    let dir = place("all");
    let mut child = start(&dir, &["--leak-report", "report.json", "--socket", "s", "--socket", "t"]);
    drop(connect_to(&dir, "t"));
    wait_for("the second is gone", || report(&dir)["guests"][1]["connection"] == "disconnected");
    std::thread::sleep(Duration::from_millis(200));
    assert!(child.try_wait().unwrap().is_none(), "the first has not come yet");
    drop(connect_to(&dir, "s"));
    let (status, said) = end(child);
    assert!(status.success(), "{said}");
    assert_eq!(report(&dir)["state"], "disconnected");
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn hostile_control_clients_get_errors_and_keep_nobody_out() {
    let dir = place("hostile");
    let mut child = start(&dir, &["--leak-report", "report.json", "--control", "c", "s"]);
    let mut good = control(&dir);
    // Long lines, binary, several lines at once: an error each, and the conversation goes on.
    let mut bad = control(&dir);
    let long = "x".repeat(3 << 20);
    let said = ask(&mut bad, &format!("{long}\n"));
    assert!(said["error"].as_str().unwrap().contains("65536 bytes"), "{said}");
    bad.get_mut().write_all(b"\xff\0\x80\n[]\n{\"do\":\"held\",\"node\":9}\n").unwrap();
    let said: Vec<_> = (0..3).map(|_| answer(&mut bad)["error"].as_str().unwrap().to_owned()).collect();
    assert!(said[0].contains("UTF-8") && said[2].contains("no node 9; nodes are 1 to 1"), "{said:?}");
    assert!(ask(&mut bad, "{\"do\":\"held\",\"node\":1}\n")["ok"].is_object());
    // A last line without an end is a line; half a line is an error.
    bad.get_mut().write_all(b"{\"do\":\"held\"}").unwrap();
    bad.get_mut().shutdown(Shutdown::Write).unwrap();
    assert!(answer(&mut bad)["ok"].is_array());
    drop(bad);
    let mut half = control(&dir);
    half.get_mut().write_all(b"{\"do\":").unwrap();
    half.get_mut().shutdown(Shutdown::Write).unwrap();
    assert!(answer(&mut half)["error"].is_string());
    drop(half);
    // One that never reads, then thousands that come and go, or stay as long as they are let.
    let mut deaf = control(&dir);
    deaf.get_mut().set_nonblocking(true).unwrap();
    while deaf.get_mut().write(b"{\"do\":\"report\"}\n").is_ok() {}
    let mut kept = Vec::new();
    for n in 0..3000 {
        let client = connect_to(&dir, "c");
        if n % 3 == 0 {
            kept.push(client);
            if kept.len() > 100 {
                kept.remove(0);
            }
        }
    }
    let threads = std::fs::read_dir(format!("/proc/{}/task", child.id())).unwrap().count();
    assert!(threads < 50, "{threads} threads");
    assert_eq!(ask(&mut good, "{\"do\":\"report\"}\n")["ok"]["state"], "running");
    drop((kept, deaf));
    // There is room again.
    wait_for("the places are given back", || {
        let mut again = control(&dir);
        let asked = again.get_mut().write_all(b"{\"do\":\"held\"}\n");
        let mut line = String::new();
        asked.is_ok() && again.read_line(&mut line).is_ok() && line.contains("\"ok\"")
    });
    assert!(child.try_wait().unwrap().is_none());
    terminate(&child);
    let (status, said) = end(child);
    assert!(status.success(), "{said}");
    assert!(!dir.join("c").exists() && !dir.join("s").exists(), "the sockets are gone");
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_log_that_cannot_be_written_is_no_failure() {
    let dir = place("full");
    let mut child = Command::new(env!("CARGO_BIN_EXE_mlx5-model"))
        .args(["--leak-report", "report.json", "s"])
        .current_dir(&dir)
        .stderr(std::fs::File::options().write(true).open("/dev/full").unwrap())
        .spawn()
        .unwrap();
    drop(connect(&dir));
    wait_for("the model ends", || child.try_wait().unwrap().is_some());
    let status = child.wait().unwrap();
    assert!(status.success(), "{status}");
    assert_eq!(report(&dir)["state"], "disconnected");
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn says_why_it_cannot_listen() {
    let dir = place("listen");
    std::fs::write(dir.join("s"), "not a socket").unwrap();
    let (status, said) = end(start(&dir, &["s"]));
    assert_eq!(status.code(), Some(1));
    assert!(said.contains("cannot listen at s"), "{said}");
    assert!(dir.join("s").exists(), "what is not a socket is left alone");
    let (status, said) = end(start(&dir, &[]));
    assert_eq!(status.code(), Some(2), "{said}");
    for (options, why) in [
        (&["a", "b", "c", "d", "e", "f", "g", "h", "i"][..], "9 sockets are too many"),
        (&["a", "--control", "a"], "the socket a is named twice"),
        (&["a", "--control", "s"], "cannot listen at s"),
    ] {
        let (status, said) = end(start(&dir, options));
        assert_eq!(status.code(), Some(1), "{said}");
        assert!(said.contains(why), "{said}");
        assert!(!dir.join("a").exists(), "what was opened is gone");
    }
    std::fs::remove_dir_all(dir).unwrap();
}

/// Messages of seven QEMUs that make no sense, whole, cut off or with lengths that lie.
#[test]
fn noise_of_some_leaves_the_others_alone() {
    const NOISY: [&str; 7] = ["n1", "n2", "n3", "n4", "n5", "n6", "n7"];
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    let mut below = move |count: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % count
    };
    for round in 0..12 {
        let dir = place(&format!("noise{round}"));
        let child = start(&dir, &[&["s"], &NOISY[..]].concat());
        let mut served = connect_to(&dir, "s");
        reset(&mut served);
        for socket in NOISY {
            let mut noisy = connect_to(&dir, socket);
            noisy.set_write_timeout(Some(Duration::from_secs(60))).unwrap();
            for _ in 0..20 {
                let body: Vec<u8> =
                    (0..below(64)).map(|_| if below(2) == 0 { below(256) as u8 } else { 0 }).collect();
                let mut noise = message(below(17) as u32, &body);
                for _ in 0..below(3) {
                    let at = below(noise.len());
                    noise[at] = below(256) as u8;
                }
                // No longer than a socket holds: the model may have stopped reading.
                noise[7] = 0;
                // It may have left already, as it may.
                if noisy.write_all(&noise).is_err() {
                    break;
                }
            }
            noisy.shutdown(Shutdown::Write).ok();
            reset(&mut served);
        }
        drop(served);
        let (status, said) = end(child);
        assert!(matches!(status.code(), Some(0 | 1)), "round {round}: {status}: {said}");
        assert!(!said.contains("PANIC"), "round {round}: {said}");
        std::fs::remove_dir_all(dir).unwrap();
    }
}
