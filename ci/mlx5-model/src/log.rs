//! The log: on standard error, and with an end, since a guest can make nearly every message appear as often as it
//! likes.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use tracing::{Event, Level, Subscriber, callsite::Identifier, level_filters::LevelFilter};
use tracing_subscriber::{
    Layer, Registry,
    fmt::MakeWriter,
    layer::{Context, SubscriberExt as _},
};

/// So many messages of a kind are shown; after them only the one whose number is a power of two.
pub const MAX_OF_A_KIND: u64 = 256;

/// Counts messages by the place in the code that they come from, and lets only the first ones of each pass.
/// What was asked for with `-v` passes.
#[derive(Clone, Debug, Default)]
pub struct Limit {
    seen: Arc<Mutex<HashMap<Identifier, u64>>>,
    left_out: Arc<AtomicU64>,
}

impl Limit {
    /// Messages that were not shown.
    pub fn left_out(&self) -> u64 {
        self.left_out.load(Ordering::Relaxed)
    }
}

impl<S: Subscriber> Layer<S> for Limit {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        let message = event.metadata();
        if *message.level() > Level::INFO {
            return true;
        }
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let count = seen.entry(message.callsite()).or_default();
        *count += 1;
        let shown = *count <= MAX_OF_A_KIND || count.is_power_of_two();
        if !shown {
            self.left_out.fetch_add(1, Ordering::Relaxed);
        }
        shown
    }
}

/// What the program logs with: messages up to the level, limited, to the writer.
pub fn subscriber<W>(level: LevelFilter, limit: Limit, writer: W) -> impl Subscriber + Send + Sync
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    // A log that cannot be written is no reason to end, nor to panic while saying so.
    let lines =
        tracing_subscriber::fmt::layer().with_writer(writer).with_ansi(false).log_internal_errors(false);
    Registry::default().with(lines).with(limit).with(level)
}
