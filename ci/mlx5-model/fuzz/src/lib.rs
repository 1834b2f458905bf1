//! Hostile guests for the software mlx5: a fuzz target for each of its parsers.
//!
//! - [`targets`]: the targets; each takes any bytes, plays them, and checks what must hold whatever they were
//! - [`corpus`]: the inputs that are kept
//! - `program`: how bytes are read as what a guest does
//! - `steps`: the things that a hostile guest can do
//! - `world`: three guests, and the checks: what belongs to others is untouched, nothing is left behind
//!
//! The programs in `fuzz_targets/` put libFuzzer in front of the targets; `tests/replay.rs` runs the corpus through
//! them with any compiler. The model's `README.md` says how to run one and how to reproduce what it found.

pub mod corpus;
mod program;
mod steps;
pub mod targets;
mod world;

/// The miniature driver that the model's own tests use.
#[path = "../../tests/driver/mod.rs"]
mod driver;
