//! Who answers: the lab itself for what concerns a whole guest, the device model for everything else.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{LONGEST_REQUEST, Power, SOCKET};
use crate::device::MODEL_CONTROL;
use crate::report::say;
use crate::socket::{self, Stop};

/// How long the model may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// The longest answer of the model's; its reports are bounded.
const LONGEST_ANSWER: u64 = 16 << 20;
/// Clients at the run's socket at one time.
const CLIENTS: usize = 32;

/// Faults of others that a run tells of: a guest may ask for any number.
const MOST_TOLD: usize = 100;
/// Letters of each.
const MOST_WORDS: usize = 200;

/// What the lab does itself.
#[derive(Debug, Deserialize)]
#[serde(tag = "do", rename_all = "lowercase", deny_unknown_fields)]
enum Own {
    Freeze { node: u8, ms: Option<u64> },
    Thaw { node: u8 },
    Kill { node: u8 },
}

const OWN: [&str; 3] = ["freeze", "thaw", "kill"];

/// Takes requests and answers them. Any number of threads may ask.
#[derive(Debug)]
pub struct Broker {
    run: PathBuf,
    power: Arc<Power>,
    /// How many were told of.
    told: AtomicUsize,
}

impl Broker {
    /// For the run in this folder.
    pub fn new(run: &Path, power: Arc<Power>) -> Arc<Broker> {
        Arc::new(Broker { run: run.to_owned(), power, told: AtomicUsize::new(0) })
    }

    /// Listens in the run's folder until `stop` is dropped.
    pub fn listen(self: &Arc<Broker>, stop: &Stop) -> Result<()> {
        let (broker, clients) = (self.clone(), Arc::new(AtomicUsize::new(0)));
        socket::listen(&self.run, SOCKET, stop, move |mut stream| {
            if clients.fetch_add(1, Ordering::Relaxed) >= CLIENTS {
                clients.fetch_sub(1, Ordering::Relaxed);
                let error = anyhow!("{CLIENTS} others are connected already; try again later");
                // Whoever does not wait for it misses nothing.
                let _ = writeln!(stream, "{}", refusal(&error));
                return true;
            }
            let (broker, clients) = (broker.clone(), clients.clone());
            thread::spawn(move || {
                broker.serve(stream, "ci/lab control");
                clients.fetch_sub(1, Ordering::Relaxed);
            });
            true
        })
        .with_context(|| format!("listening at {SOCKET}"))
    }

    /// Serves the port of a guest, on a thread of its own: a guest that sends and does not read holds up nobody else.
    /// `who` is its name for people.
    pub fn serve_guest(self: &Arc<Broker>, port: UnixStream, who: String) {
        let broker = self.clone();
        thread::spawn(move || broker.serve(port, &who));
    }

    /// Answers one who asks, until he leaves.
    fn serve(&self, stream: UnixStream, who: &str) {
        let Ok(mut to) = stream.try_clone() else { return };
        let mut from = BufReader::new(stream);
        while let Ok(Some(line)) = next_line(&mut from) {
            let answer = match line {
                Line::Whole(bytes) if bytes.trim_ascii().is_empty() => continue,
                Line::Whole(bytes) => self.answer(&bytes, who),
                Line::TooLong => refusal(&anyhow!("a request may have {LONGEST_REQUEST} bytes at most")),
            };
            if to.write_all(format!("{answer}\n").as_bytes()).is_err() {
                return;
            }
        }
    }

    /// Answers one request, whatever bytes it has, and says on standard error what was done.
    fn answer(&self, line: &[u8], who: &str) -> Value {
        let request = serde_json::from_slice(line).context("a request is a JSON object on one line");
        let (tag, answer) = match request {
            Ok(Value::Object(mut request)) => {
                let tag = request.remove("tag");
                let request = Value::Object(request);
                let answer = self.ask(&request);
                if answer.is_ok() && !is_question(&request) {
                    self.tell(&request, who);
                }
                (tag, answer)
            }
            Ok(_) => (None, Err(anyhow!("a request is a JSON object, such as {{\"do\":\"report\"}}"))),
            Err(error) => (None, Err(error)),
        };
        let mut answer = answer.map_or_else(|error| refusal(&error), |ok| json!({ "ok": ok }));
        if let Some(tag) = tag {
            answer["tag"] = tag;
        }
        answer
    }

    /// Says on the run's standard error what somebody had done, as far as there is an end to it.
    fn tell(&self, request: &Value, who: &str) {
        match self.told.fetch_add(1, Ordering::Relaxed) {
            0..MOST_TOLD => say(&format!("by {who}: {}", words(request))),
            MOST_TOLD => say(&format!("by {who} and others: more, which is not shown")),
            _ => {
                // It must not come round to 0.
                self.told.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// Keeps an answer in the run's folder under this name, and returns where.
    pub fn keep(&self, name: &str, answer: &Value) -> Result<PathBuf> {
        let path = self.run.join(name);
        std::fs::write(&path, format!("{answer:#}\n")).with_context(|| path.display().to_string())?;
        Ok(path)
    }

    /// Does what a request says and returns what is told of it.
    pub fn ask(&self, request: &Value) -> Result<Value> {
        let killed = request["node"].as_u64().and_then(|node| u8::try_from(node).ok());
        if let Some(node) = killed.filter(|node| self.power.is_killed(*node)) {
            bail!("node {node} was killed");
        }
        if !request["do"].as_str().is_some_and(|word| OWN.contains(&word)) {
            return self.ask_model(request);
        }
        match Own::deserialize(request)? {
            Own::Freeze { node, ms } => self.power.freeze(node, ms.map(Duration::from_millis))?,
            Own::Thaw { node } => self.power.thaw(node)?,
            Own::Kill { node } => self.power.kill(node)?,
        }
        Ok(json!({}))
    }

    fn ask_model(&self, request: &Value) -> Result<Value> {
        let answer = self.exchange(request).context("the device model does not answer")?;
        match (answer.get("ok"), answer["error"].as_str()) {
            (Some(ok), None) => Ok(ok.clone()),
            (None, Some(error)) => bail!("{error}"),
            _ => bail!("the device model's answer is neither ok nor an error: {answer:.200}"),
        }
    }

    fn exchange(&self, request: &Value) -> Result<Value> {
        let mut model = socket::connect(&self.run, MODEL_CONTROL).context(MODEL_CONTROL)?;
        model.set_read_timeout(Some(PATIENCE))?;
        model.set_write_timeout(Some(PATIENCE))?;
        model.write_all(format!("{request}\n").as_bytes())?;
        let mut answer = Vec::new();
        BufReader::new(model.take(LONGEST_ANSWER)).read_until(b'\n', &mut answer)?;
        Ok(serde_json::from_slice(&answer)?)
    }
}

/// Whether it changes nothing.
fn is_question(request: &Value) -> bool {
    request["do"].as_str().is_some_and(|word| ["report", "held"].contains(&word))
}

/// A request that was granted, for people: `port node=1 state=down`.
fn words(request: &Value) -> String {
    let fields = request.as_object().into_iter().flatten().filter(|(name, _)| *name != "do");
    let fields = fields.map(|(name, value)| match value.as_str() {
        Some(text) => format!(" {name}={text}"),
        None => format!(" {name}={value}"),
    });
    let word = request["do"].as_str().unwrap_or_default();
    format!("{word}{}", fields.collect::<String>()).chars().take(MOST_WORDS).collect()
}

fn refusal(error: &anyhow::Error) -> Value {
    json!({ "error": format!("{error:#}") })
}

#[derive(Debug, PartialEq, Eq)]
enum Line {
    Whole(Vec<u8>),
    /// It was read to its end and forgotten.
    TooLong,
}

/// The next line, in memory that is bounded whatever comes; `None` at the end.
fn next_line(from: &mut impl BufRead) -> io::Result<Option<Line>> {
    let mut line = Vec::new();
    let mut too_long = false;
    loop {
        let bytes = match from.fill_buf() {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            other => other?,
        };
        if bytes.is_empty() && line.is_empty() && !too_long {
            return Ok(None);
        }
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let (part, taken) = end.map_or((bytes, bytes.len()), |end| (&bytes[..end], end + 1));
        let over = end.is_some() || bytes.is_empty();
        too_long |= line.len() + part.len() > LONGEST_REQUEST;
        if too_long {
            line.clear();
        } else {
            line.extend_from_slice(part);
        }
        from.consume(taken);
        if over {
            return Ok(Some(if too_long { Line::TooLong } else { Line::Whole(line) }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc::Process;
    use std::process::Command;

    struct Scene {
        dir: tempfile::TempDir,
        broker: Arc<Broker>,
        stop: Stop,
        _process: Process,
    }

    /// A broker of one node, and a model that answers each request with it, or refuses.
    fn scene() -> Scene {
        let dir = tempfile::tempdir().unwrap();
        let process = Process::spawn(Command::new("sleep").arg("60")).unwrap();
        let power = Arc::new(Power::new(&[process.pid()]).unwrap());
        let (broker, stop) = (Broker::new(dir.path(), power), Stop::default());
        socket::listen(dir.path(), MODEL_CONTROL, &stop, |stream| {
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).unwrap();
            let answer = match line.trim() {
                r#"{"do":"odd"}"# => "7".to_owned(),
                r#"{"do":"no"}"# => r#"{"error":"no such thing"}"#.to_owned(),
                request => format!(r#"{{"ok":{request}}}"#),
            };
            writeln!(&stream, "{answer}").unwrap();
            true
        })
        .unwrap();
        Scene { dir, broker, stop, _process: process }
    }

    #[test]
    fn requests_are_answered() {
        let scene = scene();
        let answer = |line: &str| scene.broker.answer(line.as_bytes(), "a test");
        assert_eq!(answer(r#"{"do":"held","node":1}"#), json!({"ok": {"do": "held", "node": 1}}));
        assert_eq!(answer(r#"{"tag":[1],"do":"x"}"#), json!({"ok": {"do": "x"}, "tag": [1]}));
        assert_eq!(answer(r#"{"do":"no"}"#), json!({"error": "no such thing"}));
        assert_eq!(answer(r#"{"do":"freeze","node":1,"ms":1}"#), json!({"ok": {}}));
        for (wrong, said) in [
            ("", "JSON object"),
            ("\u{7f}", "JSON object"),
            ("7", "JSON object"),
            (r#"{"do":"odd"}"#, "neither"),
            (r#"{"do":"freeze"}"#, "node"),
            (r#"{"do":"freeze","node":1,"s":3}"#, "unknown field"),
            (r#"{"do":"freeze","node":-1}"#, "-1"),
            (r#"{"do":"kill","node":9}"#, "no node 9"),
        ] {
            let answer = answer(wrong);
            assert!(answer["error"].as_str().unwrap().contains(said), "{wrong}: {answer}");
        }
        assert!(scene.broker.answer(&[b'"', 0xff, b'"'], "a test")["error"].is_string());
    }

    #[test]
    fn a_model_that_is_gone_is_said() {
        let scene = scene();
        drop(scene.stop);
        std::fs::remove_file(scene.dir.path().join(MODEL_CONTROL)).unwrap();
        let error = format!("{:#}", scene.broker.ask(&json!({"do": "report"})).unwrap_err());
        assert!(error.contains("the device model does not answer"), "{error}");
    }

    #[test]
    fn a_bad_line_does_not_end_the_talk() {
        let scene = scene();
        scene.broker.listen(&scene.stop).unwrap();
        // And a guest that writes and never reads is not in the way.
        let (port, mut flood) = UnixStream::pair().unwrap();
        scene.broker.serve_guest(port, "the guest".to_owned());
        flood.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
        while flood.write_all(b"{}\n[]\nx\n").is_ok() {}

        let stream = socket::connect(scene.dir.path(), SOCKET).unwrap();
        let mut answers = BufReader::new(stream.try_clone().unwrap());
        let mut ask = |line: &[u8]| -> Value {
            (&stream).write_all(line).unwrap();
            let mut answer = String::new();
            answers.read_line(&mut answer).unwrap();
            serde_json::from_str(&answer).unwrap()
        };
        assert!(ask(b"\n\xff\xff\n")["error"].is_string());
        let long = [vec![b' '; LONGEST_REQUEST + 1], b"\n".to_vec()].concat();
        assert!(ask(&long)["error"].as_str().unwrap().contains("bytes at most"));
        assert_eq!(ask(b"{\"do\":\"thaw\",\"node\":1}\n"), json!({"ok": {}}));
    }

    #[test]
    fn of_a_killed_node_there_is_nothing_to_ask() {
        let scene = scene();
        let answer = |line: &str| scene.broker.answer(line.as_bytes(), "a test");
        assert_eq!(answer(r#"{"do":"kill","node":1}"#), json!({"ok": {}}));
        for word in ["held", "port", "fatal", "freeze", "thaw", "kill"] {
            let answer = answer(&format!(r#"{{"do":"{word}","node":1}}"#));
            assert_eq!(answer, json!({"error": "node 1 was killed"}), "{word}");
        }
        assert!(answer(r#"{"do":"held"}"#)["ok"].is_object(), "the others can be asked about");
    }

    #[test]
    fn words_for_people() {
        assert_eq!(words(&json!({"do": "port", "node": 1, "state": "down"})), "port node=1 state=down");
        assert_eq!(words(&json!({"do": "link"})), "link");
        assert_eq!(words(&json!({"do": "x".repeat(1000)})).len(), MOST_WORDS);
        assert!(is_question(&json!({"do": "held", "node": 1})) && !is_question(&json!({"do": "kill"})));
    }

    #[test]
    fn lines() {
        let all = |bytes: &[u8]| {
            let mut from = BufReader::with_capacity(3, bytes);
            std::iter::from_fn(|| next_line(&mut from).unwrap()).collect::<Vec<_>>()
        };
        let whole = |text: &str| Line::Whole(text.into());
        assert_eq!(all(b""), []);
        assert_eq!(all(b"a\n\nlonger\nend"), [whole("a"), whole(""), whole("longer"), whole("end")]);
        let long = vec![b'x'; LONGEST_REQUEST + 1];
        assert_eq!(all(&long), [Line::TooLong]);
        assert_eq!(all(&[&long[1..], b"\n", &long, b"\nb"].concat())[1..], [Line::TooLong, whole("b")]);
    }
}
