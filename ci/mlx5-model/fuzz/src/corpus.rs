//! The inputs that are kept: for each target a text file, one input a line, in hexadecimal, so that a change of them
//! is a change of lines.

use std::{fmt::Write as _, fs, io, path::Path};

/// What got a target far, small and sorted; made by `examples/corpus.rs`.
pub const SEEDS: &str = "seeds";
/// What once made the model fail. A line that begins with `#` says what it was.
pub const FOUND: &str = "found";

/// The inputs of a target that are kept in a folder of this package; none if there is no such file.
pub fn kept(folder: &str, target: &str) -> io::Result<Vec<Vec<u8>>> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder).join(format!("{target}.txt"));
    match fs::read_to_string(&file) {
        Ok(text) => {
            parse(&text).ok_or_else(|| io::Error::other(format!("{}: not hexadecimal", file.display())))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn parse(text: &str) -> Option<Vec<Vec<u8>>> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let digits: Option<Vec<u8>> = line.chars().map(|c| Some(c.to_digit(16)? as u8)).collect();
            let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
            Some(digits.chunks(2).map(|two| two[0] << 4 | two[1]).collect())
        })
        .collect()
}

/// The lines of a file, shortest input first.
pub fn format(mut inputs: Vec<Vec<u8>>) -> String {
    inputs.sort_by(|a, b| (a.len(), a).cmp(&(b.len(), b)));
    let mut text = String::new();
    for input in inputs {
        for byte in input {
            // Nothing is wrong with writing to a string.
            let _ = write!(text, "{byte:02x}");
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_read_back() {
        let text = format(vec![vec![0xff, 0], vec![1], vec![]]);
        assert_eq!(text, "\n01\nff00\n");
        assert_eq!(parse(&format!("# why\n{text}")), Some(vec![vec![], vec![1], vec![0xff, 0]]));
        assert_eq!((parse("0"), parse("0g"), parse("é0")), (None, None, None));
    }
}
