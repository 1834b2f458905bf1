//! Moving a message: from pieces of one guest's memory to pieces of another's, through a small buffer, so that no
//! message, however long, is ever held as a whole.

use crate::{
    guest::Guest,
    memory::DmaFault,
    mkey::{Access, Accessor, KeyViolation, MemoryKey, steps::KeySteps},
    objects::Table,
};

use super::wqe::Piece;

/// Why a transfer stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferFault {
    /// A key does not allow it.
    Key,
    /// The key allows it, but the memory is not there.
    Dma,
    /// There is no room.
    Length,
}

impl From<KeyViolation> for TransferFault {
    fn from(_: KeyViolation) -> Self {
        Self::Key
    }
}

impl From<DmaFault> for TransferFault {
    fn from(_: DmaFault) -> Self {
        Self::Dma
    }
}

/// Keys and memories: where messages come from and go to.
#[derive(Clone, Copy, Debug)]
pub struct Store<'a> {
    /// All memory keys.
    pub keys: &'a Table<MemoryKey>,
    /// All guests.
    pub guests: &'a [Guest],
    /// Counts how far keys must be followed.
    pub steps: &'a KeySteps,
}

/// One end of a transfer: pieces, and how far they are used up.
#[derive(Clone, Debug)]
pub struct End<'a> {
    pieces: &'a [Piece],
    inline: &'a [u8],
    who: Accessor,
    access: Access,
    used: u64,
}

impl<'a> End<'a> {
    /// Pieces, the bytes in which inline pieces lie, and who touches them how.
    pub fn new(pieces: &'a [Piece], inline: &'a [u8], who: Accessor, access: Access) -> Self {
        Self { pieces, inline, who, access, used: 0 }
    }

    /// Whether the keys allow the next `length` bytes, and whether there are so many.
    pub fn check(&self, store: Store, length: u64) -> Result<(), TransferFault> {
        let (mut left, mut used) = (length, self.used);
        for piece in self.pieces {
            let n = piece.size().saturating_sub(used).min(left);
            if let Piece::Memory { address, key, .. } = *piece {
                if n > 0 {
                    let at = address.checked_add(used).ok_or(TransferFault::Key)?;
                    store.keys.check(&self.who, key, self.access, at, n, store.steps)?;
                }
            }
            left -= n;
            used = 0;
        }
        if left == 0 { Ok(()) } else { Err(TransferFault::Length) }
    }

    /// Leaves the next bytes out.
    pub fn skip(&mut self, bytes: u64) {
        self.used += bytes;
        while let Some(piece) = self.pieces.first() {
            if self.used < piece.size() {
                return;
            }
            self.used -= piece.size();
            self.pieces = &self.pieces[1..];
        }
    }

    /// Copies the next bytes of it.
    pub fn read(&mut self, store: Store, to: &mut [u8]) -> Result<(), TransferFault> {
        let mut done = 0;
        while done < to.len() {
            let part = &mut to[done..];
            done += match self.run(store, part.len())? {
                Run::Memory(address, n) => {
                    self.memory(store)?.read(address, &mut part[..n])?;
                    n
                }
                Run::Inline(at, n) => {
                    let from = self.inline.get(at..at + n).ok_or(TransferFault::Length)?;
                    part[..n].copy_from_slice(from);
                    n
                }
            };
        }
        Ok(())
    }

    /// Copies to the next bytes of it.
    pub fn write(&mut self, store: Store, from: &[u8]) -> Result<(), TransferFault> {
        let mut done = 0;
        while done < from.len() {
            let part = &from[done..];
            match self.run(store, part.len())? {
                Run::Memory(address, n) => {
                    self.memory(store)?.write(address, &part[..n])?;
                    done += n;
                }
                Run::Inline(..) => return Err(TransferFault::Key),
            }
        }
        Ok(())
    }

    fn memory<'s>(&self, store: Store<'s>) -> Result<&'s crate::memory::GuestMemory, TransferFault> {
        store.guests.get(self.who.guest).map(|g| &g.memory).ok_or(TransferFault::Dma)
    }

    /// The next run of at most `length` bytes, which is used up by this.
    fn run(&mut self, store: Store, length: usize) -> Result<Run, TransferFault> {
        while let Some(piece) = self.pieces.first() {
            let left = piece.size() - self.used;
            if left == 0 {
                self.pieces = &self.pieces[1..];
                self.used = 0;
                continue;
            }
            let n = left.min(length as u64) as usize;
            let run = match *piece {
                Piece::Inline { at, .. } => Run::Inline(at + self.used as usize, n),
                Piece::Memory { address, key, .. } => {
                    let at = address.checked_add(self.used).ok_or(TransferFault::Key)?;
                    let extent = store.keys.translate(&self.who, key, self.access, at, n, store.steps)?;
                    Run::Memory(extent.address, extent.length)
                }
            };
            self.used += run.len() as u64;
            return Ok(run);
        }
        Err(TransferFault::Length)
    }
}

enum Run {
    Memory(u64, usize),
    Inline(usize, usize),
}

impl Run {
    fn len(&self) -> usize {
        match *self {
            Self::Memory(_, n) | Self::Inline(_, n) => n,
        }
    }
}

/// At which end a transfer failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failed {
    /// Where the bytes come from.
    Source(TransferFault),
    /// Where they go to.
    Sink(TransferFault),
}

/// Copies `length` bytes through `bounce`.
pub fn copy(
    store: Store,
    bounce: &mut [u8],
    source: &mut End,
    sink: &mut End,
    length: u64,
) -> Result<(), Failed> {
    let mut left = length;
    while left > 0 {
        let n = left.min(bounce.len() as u64) as usize;
        let part = &mut bounce[..n];
        source.read(store, part).map_err(Failed::Source)?;
        sink.write(store, part).map_err(Failed::Sink)?;
        left -= n as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{memory::GuestMemory, mkey::tests::key, objects::Objects};

    const WHO: Accessor = Accessor { guest: 0, pd: 7, qpn: 1 };

    fn setup() -> (Objects, Vec<Guest>, u32) {
        let mut o = Objects::default();
        let n = o.insert(key(7, 0x5000, 0x2000, &[0x2000, 0x1000]).unwrap()).unwrap() << 8 | 0xab;
        let mut g = Guest::new(0);
        g.memory = GuestMemory::fake(&[(0x1000, 0x1000), (0x2000, 0x1000)]);
        (o, vec![g], n)
    }

    #[test]
    fn copies_across_pages_pieces_and_inline() {
        let (o, guests, key) = setup();
        let store = Store { keys: &o.mkeys, guests: &guests, steps: &KeySteps::default() };
        let from = [Piece::Inline { at: 1, length: 3 }, Piece::Memory { address: 0x5000, length: 4, key }];
        let to = [
            Piece::Memory { address: 0x5ffe, length: 5, key },
            Piece::Memory { address: 0, length: 0, key: 0 },
            Piece::Memory { address: 0x5100, length: 9, key },
        ];
        guests[0].memory.write(0x2000, &[4, 5, 6, 7]).unwrap();
        let mut source = End::new(&from, &[0, 1, 2, 3], WHO, Access::LocalRead);
        let mut sink = End::new(&to, &[], WHO, Access::LocalWrite);
        source.check(store, 7).unwrap();
        assert_eq!(source.check(store, 8), Err(TransferFault::Length));
        copy(store, &mut [0; 2], &mut source, &mut sink, 7).unwrap();
        let mut b = [0; 3];
        guests[0].memory.read(0x2ffe, &mut b[..2]).unwrap();
        assert_eq!(b[..2], [1, 2]);
        guests[0].memory.read(0x1000, &mut b).unwrap();
        assert_eq!(b, [3, 4, 5]);
        guests[0].memory.read(0x2100, &mut b[..2]).unwrap();
        assert_eq!(b[..2], [6, 7]);
    }

    #[test]
    fn an_end_can_begin_anywhere() {
        let (o, guests, key) = setup();
        let store = Store { keys: &o.mkeys, guests: &guests, steps: &KeySteps::default() };
        guests[0].memory.write(0x2000, &[1, 2, 3, 4]).unwrap();
        let pieces = [
            Piece::Inline { at: 0, length: 2 },
            Piece::Memory { address: 0x5000, length: 3, key },
            Piece::Memory { address: 0x6fff, length: 2, key },
        ];
        let from = |offset| {
            let mut end = End::new(&pieces, &[8, 9], WHO, Access::LocalRead);
            end.skip(offset);
            end
        };
        let mut b = [0; 2];
        for (offset, bytes) in [(0, [8, 9]), (1, [9, 1]), (2, [1, 2]), (3, [2, 3])] {
            from(offset).read(store, &mut b).unwrap();
            assert_eq!(b, bytes, "{offset}");
        }
        assert_eq!(from(1).check(store, 5), Ok(()));
        assert_eq!(from(6).check(store, 1), Err(TransferFault::Key), "beyond the key");
        assert_eq!(from(7).check(store, 1), Err(TransferFault::Length));
        assert_eq!(from(7).check(store, 0), Ok(()));
    }

    #[test]
    fn faults_name_their_end() {
        let (o, mut guests, key) = setup();
        let good = [Piece::Memory { address: 0x5000, length: 8, key }];
        let bad = [Piece::Memory { address: 0x6ffc, length: 8, key }];
        let go = |guests: &[Guest], a: &[Piece], b: &[Piece], n| {
            let store = Store { keys: &o.mkeys, guests, steps: &KeySteps::default() };
            let mut source = End::new(a, &[], WHO, Access::LocalRead);
            let mut sink = End::new(b, &[], WHO, Access::LocalWrite);
            copy(store, &mut [0; 64], &mut source, &mut sink, n)
        };
        assert_eq!(go(&guests, &bad, &good, 8), Err(Failed::Source(TransferFault::Key)));
        assert_eq!(go(&guests, &good, &bad, 8), Err(Failed::Sink(TransferFault::Key)));
        assert_eq!(go(&guests, &good, &good, 9), Err(Failed::Source(TransferFault::Length)));
        guests[0].memory.clear();
        assert_eq!(go(&guests, &good, &good, 8), Err(Failed::Source(TransferFault::Dma)));
    }
}
