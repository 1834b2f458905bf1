//! Output of several nodes on one stream: each line whole, and marked with the node that wrote it.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use rustix::fs::fstat;

use crate::link::{Sink, own};

/// A longer line is shown in pieces, each marked as a line of its own: it is kept in memory until it ends.
pub const LONGEST_LINE: usize = 64 * 1024;

/// Where the lines of all nodes go, one at a time.
type Shared = Arc<Mutex<Sink>>;

/// One node's output, on its way to a stream that others share.
pub struct Marked {
    mark: String,
    line: Vec<u8>,
    to: Shared,
}

/// This process's standard output and error for several nodes.
pub struct Streams {
    out: Shared,
    err: Shared,
}

impl Streams {
    /// Where both are one file, their lines do not mix either.
    pub fn own() -> Result<Streams> {
        let (stdout, stderr) = (io::stdout(), io::stderr());
        let out: Shared = Arc::new(Mutex::new(own(&stdout)?));
        let is_same = same_file(&stdout, &stderr);
        let err = if is_same { out.clone() } else { Arc::new(Mutex::new(own(&stderr)?)) };
        Ok(Streams { out, err })
    }

    /// A node's two outputs.
    pub fn of(&self, node: u8) -> (Sink, Sink) {
        (Box::new(Marked::new(node, self.out.clone())), Box::new(Marked::new(node, self.err.clone())))
    }
}

fn same_file(one: impl AsFd, other: impl AsFd) -> bool {
    let (Ok(one), Ok(other)) = (fstat(one), fstat(other)) else { return false };
    (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
}

impl Marked {
    fn new(node: u8, to: Shared) -> Marked {
        let mark = format!("node {node}: ");
        Marked { line: mark.clone().into_bytes(), mark, to }
    }

    /// Writes what there is of the line, as one.
    fn end_line(&mut self) -> io::Result<()> {
        self.line.push(b'\n');
        let mut to = self.to.lock().unwrap_or_else(PoisonError::into_inner);
        let written = to.write_all(&self.line).and_then(|()| to.flush());
        self.line.truncate(self.mark.len());
        written
    }
}

impl Write for Marked {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (mut content, ends) = piece.strip_suffix(b"\n").map_or((piece, false), |rest| (rest, true));
            while !content.is_empty() {
                let room = LONGEST_LINE + self.mark.len() - self.line.len();
                if room == 0 {
                    self.end_line()?;
                    continue;
                }
                let (now, later) = content.split_at(room.min(content.len()));
                self.line.extend_from_slice(now);
                content = later;
            }
            if ends {
                self.end_line()?;
            }
        }
        Ok(bytes.len())
    }

    /// Nothing: a line is written when it is whole.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Marked {
    /// What came after the last line is a line as well.
    fn drop(&mut self) {
        if self.line.len() > self.mark.len() {
            // A reader that has left misses nothing.
            let _ = self.end_line();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<Vec<u8>>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().push(bytes.to_vec());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn marked(pieces: &[(u8, &[u8])]) -> Vec<Vec<u8>> {
        let written = Written::default();
        let shared: Shared = Arc::new(Mutex::new(Box::new(written.clone())));
        let mut nodes: Vec<Marked> = (0..3).map(|node| Marked::new(node, shared.clone())).collect();
        for (node, bytes) in pieces {
            let node = &mut nodes[usize::from(*node)];
            assert_eq!(node.write(bytes).unwrap(), bytes.len());
            node.flush().unwrap();
        }
        drop(nodes);
        let written = written.0.lock().unwrap();
        written.clone()
    }

    fn text(pieces: &[(u8, &[u8])]) -> String {
        String::from_utf8(marked(pieces).concat()).unwrap()
    }

    #[test]
    fn lines_are_whole() {
        assert_eq!(
            text(&[(1, b"a"), (2, b"x\ny"), (1, b"b\n"), (2, b"z\n")]),
            "node 2: x\nnode 1: ab\nnode 2: yz\n"
        );
        // Each in one write, so that nothing comes between where others write to the same file.
        assert_eq!(marked(&[(1, b"one\ntwo\n\n")]).len(), 3);
    }

    #[test]
    fn the_last_line_needs_no_end() {
        assert_eq!(text(&[(1, b"a\nend"), (2, b"")]), "node 1: a\nnode 1: end\n");
    }

    #[test]
    fn any_bytes_pass() {
        assert_eq!(
            marked(&[(1, &[0, 0xff, b'\r', b'\n', 0x80])]).concat(),
            b"node 1: \x00\xff\r\nnode 1: \x80\n"
        );
    }

    #[test]
    fn long_lines_come_in_pieces() {
        let long = vec![b'x'; 2 * LONGEST_LINE];
        let written = marked(&[(1, &long), (1, b"\n"), (1, &long[..LONGEST_LINE]), (1, b"y\n")]);
        let length = |line: &Vec<u8>| line.len() - "node 1: \n".len();
        assert_eq!(
            written.iter().map(length).collect::<Vec<_>>(),
            [LONGEST_LINE, LONGEST_LINE, LONGEST_LINE, 1]
        );
    }

    #[test]
    fn a_reader_that_left_is_an_error() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        drop(reader);
        let to: Shared = Arc::new(Mutex::new(Box::new(std::fs::File::from(writer))));
        let mut node = Marked::new(1, to);
        assert!(node.write(b"part").is_ok() && node.write(b" and end\n").is_err());
    }

    #[test]
    fn files_are_told_apart() {
        let (one, other) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        assert!(same_file(&one, one.try_clone().unwrap()) && !same_file(&one, &other));
    }
}
