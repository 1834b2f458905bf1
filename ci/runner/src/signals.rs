//! Ctrl-C and its like: remembered, looked at wherever the lab waits.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use anyhow::Result;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

static SEEN: OnceLock<Arc<AtomicUsize>> = OnceLock::new();

/// The lab was told to stop by this signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupted(pub i32);

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "interrupted by signal {}", self.0)
    }
}

impl std::error::Error for Interrupted {}

/// From here on these signals are only remembered.
pub fn catch() -> Result<()> {
    let seen = SEEN.get_or_init(Arc::default);
    for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM] {
        signal_hook::flag::register_usize(signal, seen.clone(), signal as usize)?;
    }
    Ok(())
}

/// The signal that told the lab to stop, if one did.
pub fn pending() -> Option<Interrupted> {
    match SEEN.get()?.load(Ordering::Relaxed) {
        0 => None,
        signal => Some(Interrupted(signal as i32)),
    }
}

/// An error once the lab was told to stop.
pub fn check() -> Result<(), Interrupted> {
    pending().map_or(Ok(()), Err)
}
