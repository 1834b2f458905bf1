//! The control protocol: one JSON object a line, one JSON answer a line. `README.md` has it as a table.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{device::Device, guest::Phase, objects::GuestId, report::Held, wire::LinkFaults};

/// The longest line that is read.
pub const MAX_LINE: usize = 64 << 10;

/// What a client wants. Nodes are numbered from 1.
#[derive(Debug, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
enum Request {
    /// The whole report.
    Report {},
    /// What a node, or each of them, holds.
    Held { node: Option<u64> },
    /// What happens to packets from one node to another; a node that is absent is any.
    Link {
        from: Option<u64>,
        to: Option<u64>,
        #[serde(default)]
        loss: f64,
        #[serde(default)]
        duplicate: f64,
        #[serde(default)]
        reorder: f64,
        #[serde(default)]
        delay_us: u64,
        #[serde(default)]
        jitter_us: u64,
        seed: Option<u64>,
    },
    /// Takes a node's port down or up.
    Port { node: u64, state: PortState },
    /// A node's adapter dies until its driver starts it anew.
    Fatal { node: u64 },
}

/// State of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum PortState {
    Down,
    Up,
}

/// An answer.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Ok(Value),
    Error(String),
}

/// What a node holds, with its number.
#[derive(Debug, Serialize)]
struct NodeHeld {
    node: usize,
    #[serde(flatten)]
    held: Held,
}

/// Serves one line (its end may be there or not); the answer is a whole line.
pub fn handle(device: &mut Device, line: &[u8]) -> Vec<u8> {
    let answer = match serve(device, line) {
        Ok(value) => Answer::Ok(value),
        Err(why) => Answer::Error(why),
    };
    to_line(&answer)
}

/// The answer to something that cannot be served.
pub fn refuse(why: String) -> Vec<u8> {
    to_line(&Answer::Error(why))
}

fn to_line(answer: &Answer) -> Vec<u8> {
    // Values and strings always have a JSON form; should one not, there is an answer all the same.
    let mut line =
        serde_json::to_vec(answer).unwrap_or_else(|_| br#"{"error":"the answer has no JSON form"}"#.to_vec());
    line.push(b'\n');
    line
}

fn serve(device: &mut Device, line: &[u8]) -> Result<Value, String> {
    if line.len() > MAX_LINE {
        return Err(too_long());
    }
    let line = std::str::from_utf8(line)
        .map_err(|e| format!("the line is not UTF-8 from byte {} on", e.valid_up_to()))?;
    let request: Request = serde_json::from_str(line)
        .map_err(|e| format!("{e}; a line is an object such as {{\"do\":\"held\",\"node\":1}}"))?;
    let made = match request {
        Request::Report {} => serde_json::to_value(device.report()),
        Request::Held { node: Some(node) } => serde_json::to_value(device.held(guest(device, node)?)),
        Request::Held { node: None } => {
            let all = (0..device.guests.len()).map(|g| NodeHeld { node: g + 1, held: device.held(g) });
            serde_json::to_value(all.collect::<Vec<_>>())
        }
        Request::Link { from, to, loss, duplicate, reorder, delay_us, jitter_us, seed } => {
            let end = |node: Option<u64>| node.map(|node| guest(device, node)).transpose();
            let (from, to) = (end(from)?, end(to)?);
            let [delay, jitter] = [delay_us, jitter_us].map(Duration::from_micros);
            let faults = LinkFaults { loss, duplicate, reorder, delay, jitter };
            device.set_link_faults(from, to, faults, seed).map_err(|e| e.to_string())?;
            Ok(json!({}))
        }
        Request::Port { node, state } => {
            let guest = guest(device, node)?;
            device.set_port(guest, state == PortState::Up);
            Ok(json!({}))
        }
        Request::Fatal { node } => {
            let guest = guest(device, node)?;
            if device.guests[guest].phase != Phase::Running {
                return Err(format!("no driver runs on node {node} that could notice; load it first"));
            }
            device.fatal(guest);
            Ok(json!({}))
        }
    };
    made.map_err(|e| format!("the answer has no JSON form: {e}"))
}

/// Why a line of more than [`MAX_LINE`] is not served.
pub fn too_long() -> String {
    format!("the line has more than {MAX_LINE} bytes; send one object a line")
}

fn guest(device: &Device, node: u64) -> Result<GuestId, String> {
    let nodes = device.guests.len();
    usize::try_from(node)
        .ok()
        .and_then(|n| n.checked_sub(1))
        .filter(|g| *g < nodes)
        .ok_or_else(|| format!("there is no node {node}; nodes are 1 to {nodes}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::Kind;

    fn ask(device: &mut Device, line: impl AsRef<[u8]>) -> Value {
        let answer = handle(device, line.as_ref());
        assert_eq!(answer.iter().filter(|b| **b == b'\n').count(), 1, "one line");
        assert_eq!(answer.last(), Some(&b'\n'));
        serde_json::from_slice(&answer).unwrap()
    }

    #[test]
    fn reports_and_says_who_holds_what() {
        let mut d = Device::new(2);
        let pd = d.objects.insert_domain(Kind::Pd, 1).unwrap();
        let report = ask(&mut d, r#"{"do":"report"}"#);
        assert_eq!(report["ok"]["guests"][1]["held"]["objects"]["pd"], json!([pd]));
        let held = ask(&mut d, "{\"do\":\"held\",\"node\":2}\n");
        assert_eq!(held["ok"], json!({"objects": {"pd": [pd]}, "counts": {"pd": 1}, "pages": 0}));
        let all = ask(&mut d, r#" {"do" : "held"} "#);
        assert_eq!(all["ok"][0], json!({"node": 1, "objects": {}, "counts": {}, "pages": 0}));
        assert_eq!(all["ok"][1]["counts"]["pd"], 1);
    }

    #[test]
    fn says_what_is_wrong_with_a_line() {
        let mut d = Device::new(2);
        let long = format!("{{\"do\":\"report\"{}}}", " ".repeat(MAX_LINE));
        for (line, said) in [
            (&b""[..], "EOF"),
            (b"\n", "EOF"),
            (b"{\"do\":\"rep", "EOF"),
            (b"\xff\xfe", "not UTF-8 from byte 0"),
            (b"{\"do\":\"report\xff\"}", "not UTF-8 from byte 13"),
            (b"[]", "{\"do\""),
            (b"7", "{\"do\""),
            (b"{}", "do"),
            (b"{\"do\":\"dance\"}", "dance"),
            (b"{\"do\":\"report\",\"node\":1}", "unknown field `node`"),
            (b"{\"do\":\"held\",\"nod\":1}", "unknown field `nod`"),
            (b"{\"do\":\"held\",\"node\":0}", "there is no node 0; nodes are 1 to 2"),
            (b"{\"do\":\"held\",\"node\":3}", "there is no node 3; nodes are 1 to 2"),
            (b"{\"do\":\"held\",\"node\":18446744073709551615}", "no node 18446744073709551615"),
            (b"{\"do\":\"held\",\"node\":-1}", "-1"),
            (b"{\"do\":\"held\",\"node\":\"1\"}", "string"),
            (b"{\"do\":\"report\"}{\"do\":\"report\"}", "trailing"),
            (long.as_bytes(), "more than 65536 bytes"),
        ] {
            let answer = ask(&mut d, line);
            let error = answer["error"].as_str().unwrap_or_default();
            assert!(error.contains(said), "{}: {answer}", String::from_utf8_lossy(line));
            assert_eq!(answer.as_object().map(|o| o.len()), Some(1));
        }
    }

    #[test]
    fn the_wire_obeys() {
        let mut d = Device::new(2);
        let line = r#"{"do":"link","from":1,"to":2,"loss":0.25,"delay_us":500,"jitter_us":3,"seed":7}"#;
        assert_eq!(ask(&mut d, line), json!({"ok": {}}));
        let set = d.engine.wire.faults(0, 1);
        assert_eq!((set.loss, set.delay.as_micros(), set.jitter.as_micros()), (0.25, 500, 3));
        assert!(d.engine.wire.faults(1, 0).is_perfect());
        ask(&mut d, r#"{"do":"link","reorder":1,"duplicate":0.5}"#);
        assert_eq!((d.engine.wire.faults(1, 1).reorder, d.engine.wire.faults(0, 1).duplicate), (1.0, 0.5));
        assert_eq!(ask(&mut d, r#"{"do":"link"}"#), json!({"ok": {}}));
        assert!(d.engine.wire.faults(0, 1).is_perfect() && d.engine.wire.faults(1, 1).is_perfect());
        for (line, said) in [
            (r#"{"do":"link","loss":1.5}"#, "loss 1.5 is no probability"),
            (r#"{"do":"link","reorder":-0.1}"#, "reorder -0.1"),
            (r#"{"do":"link","loss":1e999}"#, "number out of range"),
            (r#"{"do":"link","delay_us":18446744073709551615}"#, "too long"),
            (r#"{"do":"link","delay_us":-1}"#, "-1"),
            (r#"{"do":"link","from":3}"#, "there is no node 3"),
            (r#"{"do":"link","to":0}"#, "there is no node 0"),
            (r#"{"do":"link","delay":3}"#, "unknown field `delay`"),
        ] {
            let answer = ask(&mut d, line);
            assert!(answer["error"].as_str().unwrap().contains(said), "{line}: {answer}");
        }
        assert!(d.engine.wire.faults(0, 1).is_perfect(), "what is refused changes nothing");
    }

    #[test]
    fn ports_and_adapters_obey() {
        let mut d = Device::new(2);
        assert_eq!(ask(&mut d, r#"{"do":"port","node":2,"state":"down"}"#), json!({"ok": {}}));
        assert_eq!((d.guests[0].port_up, d.guests[1].port_up), (true, false));
        ask(&mut d, r#"{"do":"port","node":2,"state":"up"}"#);
        assert!(d.guests[1].port_up);
        d.guests[0].phase = Phase::Running;
        assert_eq!(ask(&mut d, r#"{"do":"fatal","node":1}"#), json!({"ok": {}}));
        assert!(d.guests[0].failed);
        for (line, said) in [
            (r#"{"do":"port","node":3,"state":"down"}"#, "there is no node 3"),
            (r#"{"do":"port","node":1,"state":"sideways"}"#, "sideways"),
            (r#"{"do":"port","state":"down"}"#, "missing field `node`"),
            (r#"{"do":"fatal"}"#, "missing field `node`"),
            (r#"{"do":"fatal","node":2}"#, "no driver runs on node 2"),
        ] {
            let answer = ask(&mut d, line);
            assert!(answer["error"].as_str().unwrap().contains(said), "{line}: {answer}");
        }
    }

    #[test]
    fn a_deep_line_is_an_error_like_any_other() {
        let mut d = Device::new(1);
        let deep = format!("{{\"do\":{}", "[".repeat(MAX_LINE - 100));
        assert!(ask(&mut d, deep)["error"].is_string());
    }
}
