//! Steps through lists of keys: each finds the next piece of a range. Keys of keys may break a message into pieces of a
//! byte, four deep; counting keeps that from taking more of the device than other work does.

use std::cell::Cell;

use super::KeyViolation;

/// The most steps for one work request, or for each MiB of a longer one, or for a packet: to check its keys and to
/// find its memory, at both ends.
pub const MAX_STEPS: u64 = 1 << 14;
/// So many steps count as a work request.
pub const STEPS_PER_REQUEST: u64 = 64;

/// The steps of all work requests.
#[derive(Debug, Default)]
pub struct KeySteps {
    taken: Cell<u64>,
    /// Those before the work request in hand.
    before: Cell<u64>,
    /// Those that were charged for.
    charged: Cell<u64>,
}

impl KeySteps {
    /// Another work request.
    pub fn begin(&self) {
        self.before.set(self.taken.get());
    }

    /// One more step, if the work request may take it.
    pub fn step(&self) -> Result<(), KeyViolation> {
        if self.taken.get() - self.before.get() >= MAX_STEPS {
            return Err(KeyViolation);
        }
        self.taken.set(self.taken.get() + 1);
        Ok(())
    }

    /// As how many work requests those since the last time count.
    pub fn charge(&self) -> usize {
        let count = (self.taken.get() - self.charged.get()) / STEPS_PER_REQUEST;
        self.charged.set(self.charged.get() + count * STEPS_PER_REQUEST);
        count as usize
    }

    /// All that were ever taken.
    pub fn taken(&self) -> u64 {
        self.taken.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_work_request_has_so_many_and_all_are_charged() {
        let steps = KeySteps::default();
        for _ in 0..2 {
            steps.begin();
            assert!((0..MAX_STEPS).all(|_| steps.step().is_ok()));
            assert_eq!(steps.step(), Err(KeyViolation));
        }
        assert_eq!(steps.charge() as u64, 2 * MAX_STEPS / STEPS_PER_REQUEST);
        steps.begin();
        let charges: Vec<usize> =
            (0..STEPS_PER_REQUEST).map(|_| steps.step().map(|()| steps.charge()).unwrap()).collect();
        assert_eq!((charges.iter().sum::<usize>(), steps.charge()), (1, 0), "small change is not lost");
        assert_eq!(steps.taken(), 2 * MAX_STEPS + STEPS_PER_REQUEST);
    }
}
