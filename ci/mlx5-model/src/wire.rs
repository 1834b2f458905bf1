//! The wire between ports: which packets are lost, doubled, overtaken or late, and the packets under way.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use crate::{datapath::packet::Packet, device::Device, objects::GuestId, qp::Life};

/// The longest delay and the widest jitter.
pub const MAX_DELAY: Duration = Duration::from_secs(10);
/// The most packets under way in one direction between two ports, and the most bytes in them. What is beyond is lost,
/// as in a switch that is full. Each direction has its own, so that nobody fills it for others.
pub const MAX_PACKETS: usize = 1 << 13;
/// See [`MAX_PACKETS`].
pub const MAX_BYTES: usize = 8 << 20;
/// How long a packet waits to be overtaken if no other one comes.
const HOLD: Duration = Duration::from_millis(1);

/// What may happen to a packet in one direction between two ports. The default is a perfect wire.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LinkFaults {
    /// How likely a packet is lost, 0 to 1.
    pub loss: f64,
    /// How likely it comes twice, 0 to 1.
    pub duplicate: f64,
    /// How likely it is overtaken by the next one, 0 to 1.
    pub reorder: f64,
    /// How long it takes, at most [`MAX_DELAY`].
    pub delay: Duration,
    /// How much longer it may take, evenly distributed, at most [`MAX_DELAY`]. Packets overtake one another by it.
    pub jitter: Duration,
}

/// Why faults are refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum BadFaults {
    /// It is no probability.
    #[error("{what} {value} is no probability: give a number from 0 to 1")]
    Probability {
        /// Which.
        what: &'static str,
        /// What it is.
        value: f64,
    },
    /// It is too long.
    #[error("{what} of {value:?} is too long: at most {MAX_DELAY:?}")]
    Time {
        /// Which.
        what: &'static str,
        /// What it is.
        value: Duration,
    },
    /// There is no such guest.
    #[error("there is no node {0}: nodes are 1 to {1}")]
    NoSuchGuest(usize, usize),
}

impl LinkFaults {
    /// Whether nothing happens to a packet.
    pub fn is_perfect(&self) -> bool {
        *self == Self::default()
    }

    /// Whether all of it is within its range.
    pub fn check(&self) -> Result<(), BadFaults> {
        for (what, value) in [("loss", self.loss), ("duplicate", self.duplicate), ("reorder", self.reorder)] {
            if !(0.0..=1.0).contains(&value) {
                return Err(BadFaults::Probability { what, value });
            }
        }
        for (what, value) in [("delay", self.delay), ("jitter", self.jitter)] {
            if value > MAX_DELAY {
                return Err(BadFaults::Time { what, value });
            }
        }
        Ok(())
    }
}

/// A packet under way.
#[derive(Clone, Debug)]
pub struct Parcel {
    /// The port that it left.
    pub from: GuestId,
    /// The port that it goes to.
    pub to: GuestId,
    /// Of the QP that it is for, as it was when the packet left.
    pub life: Life,
    /// The packet.
    pub packet: Packet,
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fate {
    /// Lost.
    pub lost: bool,
    /// Comes twice.
    pub duplicated: bool,
    /// Is overtaken.
    pub reordered: bool,
    /// Comes late.
    pub delayed: bool,
}

/// When a packet arrives; of those that arrive together the first sent comes first.
type Arrival = (Instant, u64);

/// The faults of all links, the dice, and the packets under way.
#[derive(Debug, Default)]
pub struct Wire {
    rules: BTreeMap<(GuestId, GuestId), LinkFaults>,
    dice: Dice,
    parcels: BTreeMap<Arrival, Parcel>,
    /// Packets under way of each link, and bytes in them.
    loads: BTreeMap<(GuestId, GuestId), (usize, usize)>,
    sent: u64,
    /// Of each link the packet that waits to be overtaken.
    held: BTreeMap<(GuestId, GuestId), Arrival>,
}

/// The generator that decides. Its seed is fixed unless one is given, so that what happened can happen again.
#[derive(Debug)]
struct Dice(fastrand::Rng);

impl Default for Dice {
    fn default() -> Self {
        Self(fastrand::Rng::with_seed(0))
    }
}

impl Dice {
    fn happens(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.0.f64() < probability
    }
}

impl Wire {
    /// The faults of packets in that direction.
    pub fn faults(&self, from: GuestId, to: GuestId) -> LinkFaults {
        self.rules.get(&(from, to)).copied().unwrap_or_default()
    }

    /// Whether nothing happens to packets between the two, either way.
    pub fn is_perfect(&self, a: GuestId, b: GuestId) -> bool {
        self.rules.is_empty() || !self.rules.contains_key(&(a, b)) && !self.rules.contains_key(&(b, a))
    }

    /// Takes a packet.
    pub fn send(&mut self, now: Instant, parcel: Parcel) -> Fate {
        let link = (parcel.from, parcel.to);
        let faults = self.faults(parcel.from, parcel.to);
        let mut fate = Fate { lost: self.dice.happens(faults.loss), ..Fate::default() };
        if fate.lost {
            return fate;
        }
        fate.duplicated = self.dice.happens(faults.duplicate);
        // One that follows a held packet overtakes it, and is not held itself.
        let overtakes = self.held.remove(&link);
        fate.reordered = self.dice.happens(faults.reorder) && overtakes.is_none();
        if fate.duplicated {
            let at = now + self.delay(&faults);
            self.insert(at, parcel.clone());
        }
        let delay = self.delay(&faults);
        fate.delayed = !delay.is_zero();
        let at = now + delay;
        match self.insert(if fate.reordered { at + HOLD } else { at }, parcel) {
            None => fate.lost = true,
            Some(arrival) if fate.reordered => {
                self.held.insert(link, arrival);
            }
            Some(_) => {}
        }
        if let Some(held) = overtakes.and_then(|arrival| self.take(arrival)) {
            self.insert(at, held);
        }
        fate
    }

    fn delay(&mut self, faults: &LinkFaults) -> Duration {
        if faults.jitter.is_zero() {
            return faults.delay;
        }
        faults.delay + faults.jitter.mul_f64(self.dice.0.f64())
    }

    fn insert(&mut self, at: Instant, parcel: Parcel) -> Option<Arrival> {
        let load = self.loads.entry((parcel.from, parcel.to)).or_default();
        let (packets, bytes) = (load.0 + 1, load.1 + parcel.packet.payload());
        if packets > MAX_PACKETS || bytes > MAX_BYTES {
            return None;
        }
        *load = (packets, bytes);
        self.sent += 1;
        let arrival = (at, self.sent);
        self.parcels.insert(arrival, parcel);
        Some(arrival)
    }

    fn take(&mut self, arrival: Arrival) -> Option<Parcel> {
        let parcel = self.parcels.remove(&arrival)?;
        if let Some((packets, bytes)) = self.loads.get_mut(&(parcel.from, parcel.to)) {
            *packets -= 1;
            *bytes -= parcel.packet.payload();
        }
        Some(parcel)
    }

    /// When the next packet arrives, if one is under way.
    pub fn next_arrival(&self) -> Option<Instant> {
        self.parcels.first_key_value().map(|((at, _), _)| *at)
    }

    /// A packet that has arrived.
    pub fn arrived(&mut self, now: Instant) -> Option<Parcel> {
        let (&arrival, parcel) = self.parcels.first_key_value()?;
        if arrival.0 > now {
            return None;
        }
        let link = (parcel.from, parcel.to);
        if self.held.get(&link) == Some(&arrival) {
            self.held.remove(&link);
        }
        self.take(arrival)
    }
}

impl Device {
    /// From now on this happens to packets from and to the guests; `None` is any guest. Later calls replace what
    /// earlier ones said of the same direction. With a seed the dice start anew.
    ///
    /// # Errors
    /// A guest that does not exist, or a value out of its range; then nothing is changed.
    pub fn set_link_faults(
        &mut self,
        from: Option<GuestId>,
        to: Option<GuestId>,
        faults: LinkFaults,
        seed: Option<u64>,
    ) -> Result<(), BadFaults> {
        faults.check()?;
        let count = self.guests.len();
        let ends = |end: Option<GuestId>| match end {
            None => Ok(0..count),
            Some(guest) if guest < count => Ok(guest..guest + 1),
            Some(guest) => Err(BadFaults::NoSuchGuest(guest + 1, count)),
        };
        let (from, to) = (ends(from)?, ends(to)?);
        let wire = &mut self.engine.wire;
        for link in from.flat_map(|f| to.clone().map(move |t| (f, t))) {
            if faults.is_perfect() {
                wire.rules.remove(&link);
            } else {
                wire.rules.insert(link, faults);
            }
        }
        if let Some(seed) = seed {
            wire.dice = Dice(fastrand::Rng::with_seed(seed));
        }
        Ok(())
    }

    /// A perfect wire again. What is under way arrives as it would have.
    pub fn clear_link_faults(&mut self) {
        self.engine.wire.rules.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_for_a_direction_and_the_last_one_counts() {
        let mut d = Device::new(3);
        let loss = |loss| LinkFaults { loss, ..LinkFaults::default() };
        d.set_link_faults(None, None, loss(0.5), Some(1)).unwrap();
        d.set_link_faults(Some(0), Some(1), loss(0.25), None).unwrap();
        d.set_link_faults(Some(2), None, loss(0.0), None).unwrap();
        let seen = |d: &Device, f, t| d.engine.wire.faults(f, t).loss;
        assert_eq!((seen(&d, 0, 1), seen(&d, 1, 0), seen(&d, 1, 1)), (0.25, 0.5, 0.5));
        assert!((0..3).all(|to| d.engine.wire.faults(2, to).is_perfect()));
        d.clear_link_faults();
        assert!(d.engine.wire.faults(0, 1).is_perfect());
    }

    #[test]
    fn what_is_out_of_range_is_refused_and_changes_nothing() {
        let mut d = Device::new(2);
        let fine = LinkFaults::default();
        for bad in [
            LinkFaults { loss: 1.5, ..fine },
            LinkFaults { duplicate: -0.1, ..fine },
            LinkFaults { reorder: f64::NAN, ..fine },
            LinkFaults { delay: MAX_DELAY * 2, ..fine },
            LinkFaults { jitter: Duration::MAX, ..fine },
        ] {
            assert!(d.set_link_faults(None, None, bad, None).is_err(), "{bad:?}");
        }
        let lossy = LinkFaults { loss: 1.0, delay: MAX_DELAY, ..fine };
        let e = d.set_link_faults(Some(0), Some(2), lossy, None).unwrap_err();
        assert_eq!(e.to_string(), "there is no node 3: nodes are 1 to 2");
        assert!(d.engine.wire.faults(0, 1).is_perfect());
        d.set_link_faults(Some(0), Some(1), lossy, None).unwrap();
    }
}
