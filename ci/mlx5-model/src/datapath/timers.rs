//! When which QP or CQ is to be looked at: one moment for each. No two have the same number.

use std::{
    collections::{BTreeSet, HashMap},
    time::Instant,
};

/// The moments.
#[derive(Debug, Default)]
pub struct Timers {
    in_order: BTreeSet<(Instant, u32)>,
    by_number: HashMap<u32, Instant>,
}

impl Timers {
    /// Sets the object's moment, in place of the one that it had.
    pub fn set(&mut self, number: u32, at: Instant) {
        self.cancel(number);
        self.by_number.insert(number, at);
        self.in_order.insert((at, number));
    }

    /// The object need not be looked at any more.
    pub fn cancel(&mut self, number: u32) {
        if let Some(at) = self.by_number.remove(&number) {
            self.in_order.remove(&(at, number));
        }
    }

    /// The same for all but those to keep.
    pub fn keep(&mut self, keep: impl Fn(u32) -> bool) {
        self.by_number.retain(|number, _| keep(*number));
        self.in_order.retain(|(_, number)| keep(*number));
    }

    /// The first moment.
    pub fn next(&self) -> Option<Instant> {
        self.in_order.first().map(|(at, _)| *at)
    }

    /// An object whose moment has come, which is over by this, and when it was.
    pub fn due(&mut self, now: Instant) -> Option<(Instant, u32)> {
        let &(at, number) = self.in_order.first()?;
        if at > now {
            return None;
        }
        self.cancel(number);
        Some((at, number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn an_object_has_one_moment_and_the_earliest_comes_first() {
        let (mut t, now) = (Timers::default(), Instant::now());
        let at = |ms| now + Duration::from_millis(ms);
        t.set(1, at(30));
        t.set(2, at(20));
        t.set(1, at(10));
        t.set(3, at(5));
        t.cancel(3);
        assert_eq!((t.next(), t.due(at(9))), (Some(at(10)), None));
        let due = [at(10), at(40), at(40)].map(|now| t.due(now));
        assert_eq!(due, [Some((at(10), 1)), Some((at(20), 2)), None]);
        t.set(4, now);
        t.keep(|number| number != 4);
        assert!(t.next().is_none() && t.due(at(1)).is_none());
    }
}
