//! What waits to be sent to a guest. The agent may read slowly, or not at all: only input waits for it then, and what
//! is queued has an end.

use std::collections::VecDeque;
use std::os::unix::net::UnixStream;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use anyhow::{Result, bail};

use crate::protocol::{self, INPUT_WINDOW, JobId, ToGuest};

/// The queue to one guest.
#[derive(Default)]
pub struct Orders {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    orders: VecDeque<(JobId, ToGuest)>,
    /// Bytes of input among them.
    input: usize,
    closed: bool,
}

impl Orders {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues an order. Input waits while there is a window's worth; nothing else does, because of the rest each job
    /// has a few at most: acknowledgements add up, a size replaces the one before, a signal that waits is not sent
    /// twice.
    pub fn push(&self, id: JobId, order: ToGuest) -> Result<()> {
        let mut queue = self.queue();
        if let ToGuest::Input(bytes) = &order {
            while queue.input >= INPUT_WINDOW && !queue.closed {
                queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
            queue.input += bytes.len();
        }
        if queue.closed {
            bail!("the guest's agent is gone");
        }
        if !queue.orders.iter_mut().any(|(of, waiting)| *of == id && merges(waiting, &order)) {
            queue.orders.push_back((id, order));
        }
        drop(queue);
        self.changed.notify_all();
        Ok(())
    }

    /// Nothing is sent any more.
    pub fn close(&self) {
        let mut queue = self.queue();
        queue.closed = true;
        queue.orders.clear();
        drop(queue);
        self.changed.notify_all();
    }

    /// Sends what is queued until the guest is gone.
    pub fn carry(&self, mut to_guest: UnixStream) {
        while let Some((id, order)) = self.next() {
            if protocol::send(&mut to_guest, id, &order).is_err() {
                self.close();
            }
        }
    }

    fn next(&self) -> Option<(JobId, ToGuest)> {
        let mut queue = self.queue();
        while queue.orders.is_empty() && !queue.closed {
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        let (id, order) = queue.orders.pop_front()?;
        if let ToGuest::Input(bytes) = &order {
            queue.input -= bytes.len();
            drop(queue);
            self.changed.notify_all();
        }
        Some((id, order))
    }
}

/// Puts an order into one of the same job that waits, if it can be told there as well.
fn merges(waiting: &mut ToGuest, order: &ToGuest) -> bool {
    match (waiting, order) {
        (ToGuest::Written(of, sum), ToGuest::Written(stream, bytes)) if of == stream => {
            let Some(both) = sum.checked_add(*bytes) else { return false };
            *sum = both;
            true
        }
        (ToGuest::Resize(old), ToGuest::Resize(new)) => {
            *old = *new;
            true
        }
        (ToGuest::Signal(old), ToGuest::Signal(new)) => old == new,
        (ToGuest::Deaf(old), ToGuest::Deaf(new)) => old == new,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Size, Stream};

    #[test]
    fn what_does_not_wait_has_an_end_and_input_waits() {
        let orders = Orders::default();
        for n in 1..=1000 {
            orders.push(7, ToGuest::Signal(2)).unwrap();
            orders.push(7, ToGuest::Written(Stream::Out, 1)).unwrap();
            orders.push(7, ToGuest::Written(Stream::Err, 2)).unwrap();
            orders.push(7, ToGuest::Resize(Size { rows: n, cols: 2 })).unwrap();
            orders.push(8, ToGuest::Written(Stream::Out, 3)).unwrap();
        }
        let wanted = [
            (7, ToGuest::Signal(2)),
            (7, ToGuest::Written(Stream::Out, 1000)),
            (7, ToGuest::Written(Stream::Err, 2000)),
            (7, ToGuest::Resize(Size { rows: 1000, cols: 2 })),
            (8, ToGuest::Written(Stream::Out, 3000)),
        ];
        assert_eq!(orders.queue().orders, wanted);
        orders.push(7, ToGuest::Input(vec![0; INPUT_WINDOW])).unwrap();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| orders.push(8, ToGuest::Input(vec![1])));
            std::thread::sleep(std::time::Duration::from_millis(100));
            assert!(!waits.is_finished());
            for order in wanted {
                assert_eq!(orders.next(), Some(order));
            }
            assert!(!waits.is_finished());
            assert!(matches!(orders.next(), Some((7, ToGuest::Input(_)))));
            waits.join().unwrap().unwrap();
        });
        orders.close();
        assert!(orders.push(7, ToGuest::InputEnd).is_err());
        assert_eq!(orders.next(), None);
    }
}
