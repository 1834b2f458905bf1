//! XRC for Rust.
