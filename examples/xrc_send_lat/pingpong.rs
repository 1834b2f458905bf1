//! The measurement itself: one message there, one back, again and again.
//!
//! The order of things is ib_send_lat's. The client posts a message, waits for
//! its completion, then for the answer; the server waits for a message, answers
//! and waits for the answer's completion. The moment before each post is noted.
//! Received buffers go back to the SRQ while the next message is on its way, so
//! that no sample pays for it; only a depth of one leaves no time for that.
//!
//! Nothing here allocates once the test runs: buffers move into the queues and
//! come back with their completions; the completions and the times have their
//! room beforehand.

use std::thread;
use std::time::{Duration, Instant};

use rdma_xrc::{
    Buf, Completion, CompletionKind, CompletionQueue, Initiator, Pool, PostError, QpState, SrqNumber, Target,
    XrcSrq,
};

use crate::exchange::Peer;
use crate::failure::{Failure, Work};

/// No completion for this long: the test is stuck and ends.
const STALL_PATIENCE: Duration = Duration::from_secs(30);
/// Empty polls before the clock is looked at and the processor offered to
/// others: far longer than a message takes, and short where both sides, or a
/// software device, share a processor.
const POLLS_PER_LOOK: u32 = 1 << 10;
/// While nothing arrives, how often to see whether the other side still lives.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// What each side mixes into its messages, so that none is taken for another.
const CLIENT_SEED: u8 = 0x35;
const SERVER_SEED: u8 = 0xca;
/// The first bytes of a message carry its number, as many as there are.
const NUMBER_LEN: usize = 8;

/// The queues and buffers of one side, ready to run.
#[derive(Debug)]
pub struct PingPong {
    pub initiator: Initiator,
    pub srq: XrcSrq,
    pub send_cq: CompletionQueue,
    pub receive_cq: CompletionQueue,
    /// A buffer for each receive and one to send from.
    pub pool: Pool,
    /// Where the other side's messages arrive; nothing is ever posted to it.
    pub target: Target,
    /// The other side's SRQ.
    pub to: SrqNumber,
    /// How many receives to keep posted.
    pub depth: u32,
    pub is_server: bool,
    /// Messages up to this many bytes go inline.
    pub max_inline: u32,
}

/// The state of one size's run.
struct Run<'a> {
    ends: &'a mut PingPong,
    peer: &'a mut Peer,
    size: u32,
    inline: bool,
    own_seed: u8,
    peer_seed: u8,
    /// Received and not yet posted again.
    spent: Vec<Buf>,
    polled: Vec<Completion>,
}

impl PingPong {
    /// Post the receives, before the other side may send.
    pub fn post_receives(&mut self) -> Result<(), Failure> {
        let size = self.pool.slot_size() as u32;
        for number in 0..self.depth.into() {
            let buf = self.pool.take().ok_or(Failure::NoBuffer { number, size })?;
            post_receive(&mut self.srq, buf, size)?;
        }
        Ok(())
    }

    /// The states of both queue pairs, for an error.
    fn states(&self) -> String {
        let words = |state: rdma_xrc::Result<QpState>| match state {
            Ok(state) => state.to_string(),
            Err(error) => error.to_string(),
        };
        format!(
            "the initiator in {}, the target in {}",
            words(self.initiator.state()),
            words(self.target.state())
        )
    }

    /// Exchange messages of `size` bytes, one each way for every place of
    /// `posted`; when this side's were posted goes there, in nanoseconds.
    pub fn run(&mut self, peer: &mut Peer, size: u32, posted: &mut [u64]) -> Result<(), Failure> {
        let is_server = self.is_server;
        let (own_seed, peer_seed) =
            if is_server { (SERVER_SEED, CLIENT_SEED) } else { (CLIENT_SEED, SERVER_SEED) };
        let mut message = self.pool.take().ok_or(Failure::NoBuffer { number: 0, size })?;
        message.set_len(size as usize);
        for (at, byte) in message.iter_mut().enumerate() {
            *byte = filler(own_seed, at);
        }
        let mut run = Run {
            inline: size <= self.max_inline,
            spent: Vec::with_capacity(self.depth as usize),
            polled: Vec::with_capacity(1),
            ends: self,
            peer,
            size,
            own_seed,
            peer_seed,
        };

        let last = (posted.len() as u64).saturating_sub(1);
        let start = Instant::now();
        for (number, posted) in (0..).zip(posted) {
            if is_server {
                run.receive(number)?;
            }
            if !is_server || number < last {
                run.make_room()?;
            }
            run.number(&mut message, number);
            *posted = start.elapsed().as_nanos() as u64;
            message = run.send(number, message)?;
            if !is_server {
                run.receive(number)?;
            }
        }
        run.finish()
    }
}

impl Run<'_> {
    /// Put its number into a message.
    fn number(&self, message: &mut [u8], number: u64) {
        let bytes = number_bytes(self.own_seed, number);
        let len = message.len().min(NUMBER_LEN);
        message[..len].copy_from_slice(&bytes[..len]);
    }

    /// Post a message and see its completion; meanwhile, post spent buffers.
    fn send(&mut self, number: u64, message: Buf) -> Result<Buf, Failure> {
        let (size, to) = (self.size, self.ends.to);
        let refused =
            |error: PostError| Failure::Post { work: Work::Send, number, size, reason: error.reason };
        let initiator = &mut self.ends.initiator;
        let kept = if self.inline {
            initiator.send_inline(to, &message, number).map_err(refused)?;
            Some(message)
        } else {
            initiator.send(to, message, number).map_err(refused)?;
            None
        };
        // The newest stays: it may be the last of the run, see `finish`.
        self.repost(self.spent.len().saturating_sub(1))?;
        let completion = self.wait(Work::Send, number)?;
        kept.or(completion.buf).ok_or(Failure::NoBuffer { number, size })
    }

    /// Wait for the other side's message `number`.
    fn receive(&mut self, number: u64) -> Result<(), Failure> {
        let size = self.size;
        let completion = self.wait(Work::Receive, number)?;
        let (CompletionKind::Receive { byte_len, .. }, Some(message)) = (completion.kind, completion.buf)
        else {
            return Err(Failure::NoBuffer { number, size });
        };
        if byte_len != size {
            return Err(Failure::Length { number, size, got: byte_len });
        }
        let len = message.len().min(NUMBER_LEN);
        let wanted = number_bytes(self.peer_seed, number);
        if message[..len] != wanted[..len] {
            return Err(Failure::Number { number, size });
        }
        self.spent.push(message);
        Ok(())
    }

    /// Leave the other side at least one receive for its next message.
    fn make_room(&mut self) -> Result<(), Failure> {
        if self.spent.len() == self.ends.depth as usize { self.repost(self.spent.len()) } else { Ok(()) }
    }

    /// Give the `count` oldest spent buffers back to the SRQ.
    fn repost(&mut self, count: usize) -> Result<(), Failure> {
        let size = self.size;
        self.spent.drain(..count).try_for_each(|buf| post_receive(&mut self.ends.srq, buf, size))
    }

    /// After the clock has stopped: compare the last message as a whole, and
    /// post all receives for the next size.
    fn finish(&mut self) -> Result<(), Failure> {
        if let Some(message) = self.spent.last() {
            let wrong = (NUMBER_LEN..message.len()).find(|&at| message[at] != filler(self.peer_seed, at));
            if let Some(at) = wrong {
                return Err(Failure::Contents { size: self.size, at });
            }
        }
        self.repost(self.spent.len())
    }

    /// Poll until the completion is there, the other side has gone or the time
    /// is up.
    fn wait(&mut self, work: Work, number: u64) -> Result<Completion, Failure> {
        let size = self.size;
        let mut since = None;
        let mut checked = Duration::ZERO;
        loop {
            let cq = match work {
                Work::Send => &mut self.ends.send_cq,
                Work::Receive => &mut self.ends.receive_cq,
            };
            for _ in 0..POLLS_PER_LOOK {
                if cq.poll(&mut self.polled, 1)? > 0 {
                    break;
                }
            }
            if let Some(completion) = self.polled.pop() {
                return match completion.status {
                    Ok(()) => Ok(completion),
                    Err(error) => {
                        let peer = self.peer.check("measuring").err();
                        Err(Failure::Completion { work, number, size, error, peer })
                    }
                };
            }
            let waited = since.get_or_insert_with(Instant::now).elapsed();
            if waited >= STALL_PATIENCE {
                let seconds = waited.as_secs();
                let states = self.ends.states();
                return Err(Failure::Stalled { work, number, size, seconds, states });
            }
            if waited >= checked + CHECK_INTERVAL {
                checked = waited;
                self.peer.check("measuring")?;
            }
            thread::yield_now();
        }
    }
}

fn post_receive(srq: &mut XrcSrq, buf: Buf, size: u32) -> Result<(), Failure> {
    let number = srq.posted().into();
    srq.post(buf, 0).map_err(|error| Failure::Post {
        work: Work::Receive,
        number,
        size,
        reason: error.reason,
    })
}

/// A message's first bytes.
fn number_bytes(seed: u8, number: u64) -> [u8; NUMBER_LEN] {
    (number ^ u64::from_le_bytes([seed; NUMBER_LEN])).to_le_bytes()
}

/// The byte at `at` of a message, after its number.
fn filler(seed: u8, at: usize) -> u8 {
    // 251 is prime: the pattern shifts against every power of two.
    (at % 251) as u8 ^ seed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_the_two_sides_and_of_two_turns_differ() {
        assert_ne!(number_bytes(CLIENT_SEED, 5), number_bytes(SERVER_SEED, 5));
        // One byte is all that the smallest message has.
        assert_ne!(number_bytes(CLIENT_SEED, 5)[0], number_bytes(CLIENT_SEED, 6)[0]);
        assert_ne!(number_bytes(CLIENT_SEED, 5)[0], number_bytes(SERVER_SEED, 5)[0]);
    }

    #[test]
    fn the_filler_shows_a_shift_by_any_usual_block() {
        for shift in [1, 64, 256, 4096, 65536] {
            let same = (0..251).filter(|&at| filler(CLIENT_SEED, at) == filler(CLIENT_SEED, at + shift));
            assert_eq!(same.count(), 0, "shift by {shift}");
        }
    }
}
