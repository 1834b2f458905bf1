//! The program: how it starts, ends and says so.

use std::{
    io::{Read as _, Write as _},
    os::unix::{net::UnixStream, process::ExitStatusExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

const SIGTERM: &str = "-TERM";
const SIGABRT: i32 = 6;

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

/// Connects by a short way to the directory.
fn connect(dir: &Path) -> UnixStream {
    let short = std::env::temp_dir().join(format!("m{}", dir.file_name().unwrap().to_string_lossy()));
    let _ = std::fs::remove_file(&short);
    std::os::unix::fs::symlink(dir, &short).unwrap();
    let socket = short.join("s");
    wait_for("the socket appears", || socket.exists());
    let stream = UnixStream::connect(&socket).unwrap();
    std::fs::remove_file(short).unwrap();
    stream
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
        let killed = Command::new("kill").args([SIGTERM, &child.id().to_string()]).status().unwrap();
        assert!(killed.success());
        let (status, said) = end(child);
        assert!(status.success(), "{said}");
        assert_eq!(report(&dir)["state"], "ended by a signal");
    }
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_panic_is_seen_and_ends_it() {
    let dir = place("panic");
    let child = start(&dir, &["s"]);
    let mut client = connect(&dir);
    // A version message whose data do not end in a zero: the protocol's crate gives up on it.
    let mut message = Vec::new();
    for (field, bytes) in [(1u32, 2), (1, 2), (16 + 4 + 1, 4), (0, 4), (0, 4), (0, 2), (0, 2)] {
        message.extend_from_slice(&field.to_le_bytes()[..bytes]);
    }
    message.push(b'x');
    client.write_all(&message).unwrap();
    let (status, said) = end(child);
    assert_eq!(status.signal(), Some(SIGABRT), "{said}");
    assert!(said.contains("mlx5-model: PANIC"), "{said}");
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
    std::fs::remove_dir_all(dir).unwrap();
}
