//! Compares the field table with the kernel's own description of the interface, `mlx5_ifc.h`.

use std::collections::BTreeMap;

use mlx5_model::fields::TABLES;

/// Entries of queues, which have headers of their own.
const NOT_THERE: &[&str] = &[
    "command_entry",
    "mailbox",
    "eqe",
    "cqe",
    "wqe_control",
    "wqe_xrc",
    "wqe_remote",
    "wqe_atomic",
    "wqe_address",
    "wqe_data",
    "wqe_umr",
    "klm",
    "weave",
    "strand",
    "srq_next",
];

/// What many commands have in common has the name of one of them there.
const ALIASES: &[(&str, &str, &str, &str)] = &[
    ("command_in", "OPCODE", "destroy_qp_in", "opcode"),
    ("command_in", "OP_MOD", "destroy_qp_in", "op_mod"),
    ("command_in", "OBJECT", "destroy_qp_in", "qpn"),
    ("command_in", "INDEX", "query_hca_vport_gid_in", "gid_index"),
    (
        "modify_cq_in",
        "SELECT",
        "modify_cq_in",
        "modify_field_select_resize_field_select__resize_field_select__resize_field_select",
    ),
    ("command_out", "STATUS", "create_qp_out", "status"),
    ("command_out", "SYNDROME", "create_qp_out", "syndrome"),
    ("command_out", "OBJECT", "create_qp_out", "qpn"),
    ("command_out", "COUNT", "manage_pages_out", "output_num_entries"),
    ("command_out", "NUM_PAGES", "query_pages_out", "num_pages"),
];

/// Place and width of a member; width of one element if it is an array.
type Place = (usize, usize);

/// A structure's size and members, nested ones by path.
#[derive(Clone, Debug, Default)]
struct Layout {
    bits: usize,
    members: BTreeMap<String, Place>,
}

struct Header {
    tokens: Vec<String>,
    starts: BTreeMap<String, usize>,
}

impl Header {
    fn new(text: &str) -> Self {
        let mut clean = String::new();
        let mut rest = text;
        while let Some(at) = rest.find("/*") {
            clean.push_str(&rest[..at]);
            rest = rest[at..].split_once("*/").map_or("", |(_, after)| after);
        }
        clean.push_str(rest);
        let mut tokens: Vec<String> = Vec::new();
        for line in clean.lines().filter(|l| !l.trim_start().starts_with('#')) {
            let mut word = String::new();
            for c in line.chars().chain([' ']) {
                if c.is_alphanumeric() || c == '_' {
                    word.push(c);
                    continue;
                }
                if !word.is_empty() {
                    tokens.push(std::mem::take(&mut word));
                }
                if !c.is_whitespace() {
                    tokens.push(c.into());
                }
            }
        }
        let starts = (0..tokens.len().saturating_sub(2))
            .filter(|&i| matches!(tokens[i].as_str(), "struct" | "union") && tokens[i + 2] == "{")
            .filter_map(|i| Some((name(&tokens[i + 1])?, i)))
            .collect();
        Self { tokens, starts }
    }

    fn layout(&self, structure: &str) -> Option<Layout> {
        let start = *self.starts.get(structure)?;
        Some(self.body(start + 3, self.tokens[start] == "union").0)
    }

    /// Reads members up to the closing brace; answers with the layout and the index behind it.
    fn body(&self, mut at: usize, union: bool) -> (Layout, usize) {
        let mut out = Layout::default();
        while self.tokens[at] != "}" {
            let (inner, next) = match self.tokens[at].as_str() {
                "u8" => (Layout { bits: 1, ..Default::default() }, at + 1),
                kind if self.tokens[at + 1] == "{" => self.body(at + 2, kind == "union"),
                _ => {
                    let inner = name(&self.tokens[at + 1]).and_then(|n| self.layout(&n));
                    (inner.unwrap_or_else(|| panic!("{} is not described", self.tokens[at + 1])), at + 2)
                }
            };
            at = next;
            let mut member = String::new();
            if self.tokens[at] != ";" {
                member.clone_from(&self.tokens[at]);
                at += 1;
            }
            let mut sizes = Vec::new();
            while self.tokens[at] == "[" {
                let end = at + self.tokens[at..].iter().position(|t| t == "]").unwrap();
                sizes.push(number(&self.tokens[at + 1..end].concat()));
                at = end + 1;
            }
            assert_eq!(self.tokens[at], ";", "member {member}");
            at += 1;
            let offset = if union { 0 } else { out.bits };
            let element = if inner.members.is_empty() {
                sizes.last().copied().unwrap_or(inner.bits)
            } else {
                inner.bits
            };
            if !member.is_empty() {
                out.members.insert(member.clone(), (offset, element));
            }
            for (n, (o, w)) in &inner.members {
                let path = if member.is_empty() { n.clone() } else { format!("{member}__{n}") };
                out.members.insert(path, (offset + o, *w));
            }
            let bits = inner.bits * sizes.iter().product::<usize>();
            out.bits = if union { out.bits.max(bits) } else { out.bits + bits };
        }
        (out, at + 1)
    }
}

fn name(token: &str) -> Option<String> {
    Some(token.strip_prefix("mlx5_ifc_")?.strip_suffix("_bits")?.to_owned())
}

/// A constant; an open array and the header's few sums count as empty: nothing lies behind them.
fn number(text: &str) -> usize {
    match text.strip_prefix("0x") {
        Some(hex) => usize::from_str_radix(hex, 16).unwrap_or(0),
        None => text.parse().unwrap_or(0),
    }
}

#[test]
fn the_parser_knows_nesting_unions_and_arrays() {
    let h = Header::new(
        "struct mlx5_ifc_in_bits { u8 a[0x4]; u8 b[4]; };
         union mlx5_ifc_u_bits { struct mlx5_ifc_in_bits x; u8 y[2][0x20]; };
         struct mlx5_ifc_s_bits { /* u8 no[1]; */ u8 r[0x10]; union { u8 p[0x8]; struct { u8 q[0x3]; }; };
           union mlx5_ifc_u_bits v; u8 end[]; };",
    );
    let l = h.layout("s").unwrap();
    assert_eq!(l.bits, 0x10 + 8 + 64);
    assert_eq!(l.members["q"], (16, 3));
    assert_eq!(l.members["v__x__b"], (24 + 4, 4));
    assert_eq!(l.members["v__y"], (24, 32));
    assert!(h.layout("t").is_none());
}

#[test]
#[ignore = "needs a kernel's include/linux/mlx5/mlx5_ifc.h: its path in MLX5_IFC_H"]
fn every_field_is_where_the_kernel_says() {
    let path = std::env::var("MLX5_IFC_H").expect("MLX5_IFC_H names mlx5_ifc.h");
    let header = Header::new(&std::fs::read_to_string(path).unwrap());
    let mut compared = 0;
    for entry in TABLES.iter().copied().flatten().filter(|e| !NOT_THERE.contains(&e.structure)) {
        let lower = entry.field.to_lowercase();
        let (structure, field) = ALIASES
            .iter()
            .find(|a| (a.0, a.1) == (entry.structure, entry.field))
            .map_or((entry.structure, lower.as_str()), |a| (a.2, a.3));
        let layout = header.layout(structure).unwrap_or_else(|| panic!("no structure {structure}"));
        let there = layout
            .members
            .iter()
            .find(|(n, _)| n.to_lowercase() == field)
            .unwrap_or_else(|| panic!("no field {structure}.{field}"))
            .1;
        assert_eq!((entry.at.bit(), entry.at.width()), *there, "{structure}.{field}");
        compared += 1;
    }
    assert!(compared > 150, "only {compared} fields compared");
}
