//! What the guest's kernel and the device model complain about in their logs.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::Result;
use rustix::fs::OFlags;

use crate::proc;

/// Lines of the kernel's that a sound run never has.
const KERNEL: [&str; 12] = [
    "WARNING: CPU",
    "WARNING: possible ",
    "WARNING: suspicious ",
    "BUG: ",
    "kernel BUG at",
    "Oops: ",
    "general protection fault",
    "Kernel panic",
    "Unable to handle kernel",
    "UBSAN: ",
    "detected stalls",
    "refcount_t: ",
];

/// A log of this length was not written by a sound run.
const LONGEST: u64 = 256 << 20;

/// How many lines of context a complaint brings along.
const CONTEXT: usize = 25;

/// A line on a program that crashed, which is the program's affair; its status tells. What the processor calls a
/// general protection fault is one by these words alone; the kernel's own is not announced so.
fn is_of_a_program(line: &str) -> bool {
    line.contains("traps: ") && line.contains(" ip:") && line.contains(" sp:")
}

fn is_complaint(line: &str) -> bool {
    KERNEL.iter().any(|sign| line.contains(sign)) && !is_of_a_program(line)
        || line.contains("INFO: task ") && line.contains(" blocked for more")
}

/// The kernel's complaints in a console log, with what followed them; empty if there are none.
pub fn kernel_complaints(log: &str) -> Vec<String> {
    let lines: Vec<&str> = log.lines().map(|line| line.trim_end_matches('\r')).collect();
    let mut found = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        if !is_complaint(lines[at]) {
            at += 1;
            continue;
        }
        let rest = &lines[at..lines.len().min(at + CONTEXT)];
        let end =
            rest.iter().position(|line| line.contains("---[ end trace")).map_or(rest.len(), |end| end + 1);
        found.push(rest[..end].join("\n"));
        at += end;
    }
    found
}

/// The panics in a Rust program's log.
pub fn panics(log: &str) -> Vec<String> {
    let lines: Vec<&str> = log.lines().collect();
    let starts = (0..lines.len()).filter(|at| lines[*at].contains("panicked at "));
    starts.map(|at| lines[at..lines.len().min(at + 6)].join("\n")).collect()
}

/// A log's text, whatever bytes it holds; empty if there is none yet.
pub fn read(path: &Path) -> String {
    read_whole(path).unwrap_or_default()
}

/// A log's text, whatever bytes it holds. One that is not there, or can't have been written as a log, is an error.
pub fn read_whole(path: &Path) -> io::Result<String> {
    let file = open(path)?;
    let length = file.metadata()?.len();
    if length > LONGEST {
        return Err(io::Error::other(format!("it is too long to be judged: {length} bytes")));
    }
    let mut bytes = Vec::new();
    // It may grow meanwhile.
    file.take(LONGEST).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Opens a log. Anything but a file is refused: a pipe, say, would hold the reader up for ever.
fn open(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is no regular file")) }
}

/// The last lines of a log.
pub fn tail(path: &Path, lines: usize) -> Result<String> {
    proc::tail(&mut open(path)?, lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaints_come_with_their_trace() {
        let log = "[1] fine\r\n[2] WARNING: CPU: 0 PID: 1 at a.c:7\r\n[2] Call Trace:\r\n[2] ---[ end trace 0 ]---\r\n\
                   [3] fine\n[4] INFO: task x:1 blocked for more than 60 seconds.\n";
        let found = kernel_complaints(log);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("[2] WARNING: CPU") && found[0].ends_with("end trace 0 ]---"));
        assert!(found[1].contains("blocked for more"));
    }

    #[test]
    fn ordinary_lines_are_no_complaints() {
        let log = "[1] clocksource: tsc-early: mask\n[2] x[7]: segfault at 0 ip 0\nmlx5_core 0000:00:03.0: firmware version\n\
                   [3] traps: x[7] general protection fault ip:7f1a1826352e sp:7ffce7be7760 error:0 in libx.so[7f1a+5f]\n";
        assert!(kernel_complaints(log).is_empty());
        let own = "[3] general protection fault, probably for non-canonical address 0xdead: 0000 [#1] SMP\n";
        assert_eq!(kernel_complaints(own).len(), 1);
        assert!(panics(log).is_empty());
    }

    #[test]
    fn only_files_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let (pipe, link, log) = (dir.path().join("pipe"), dir.path().join("link"), dir.path().join("log"));
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0)
            .unwrap();
        std::fs::write(&log, b"a\xffb\n").unwrap();
        std::os::unix::fs::symlink("log", &link).unwrap();
        for wrong in [&pipe, &link, &dir.path().join("missing")] {
            assert!(read_whole(wrong).is_err() && tail(wrong, 1).is_err(), "{}", wrong.display());
        }
        assert_eq!(read_whole(&log).unwrap(), "a\u{fffd}b\n");
        File::options().write(true).open(&log).unwrap().set_len(LONGEST + 1).unwrap();
        assert!(read_whole(&log).is_err());
    }

    #[test]
    fn panics_are_seen() {
        assert_eq!(panics("a\nthread 'main' (1) panicked at src/x.rs:1:2:\nboom\n").len(), 1);
    }
}
