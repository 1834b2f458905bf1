//! MSI-X: an eventfd for each vector, which QEMU turns into an interrupt.

use std::{fs::File, io::Write as _};

/// How many vectors there are.
pub const VECTORS: usize = 8;

#[derive(Debug, Default)]
struct Vector {
    trigger: Option<File>,
    pending: bool,
}

/// The vectors of a guest.
#[derive(Debug)]
pub struct Interrupts {
    vectors: [Vector; VECTORS],
}

impl Default for Interrupts {
    fn default() -> Self {
        Self { vectors: std::array::from_fn(|_| Vector::default()) }
    }
}

impl Interrupts {
    /// Raises a vector, now or as soon as it has an eventfd.
    pub fn raise(&mut self, vector: usize) {
        let Some(v) = self.vectors.get_mut(vector) else { return };
        match &mut v.trigger {
            Some(file) => {
                if let Err(e) = file.write_all(&1u64.to_ne_bytes()) {
                    tracing::warn!("vector {vector}: {e}");
                }
            }
            None => v.pending = true,
        }
    }

    /// Gives the vectors from `start` on their eventfds.
    pub fn connect(&mut self, start: usize, files: Vec<File>) {
        for (vector, file) in (start..VECTORS).zip(files) {
            let v = &mut self.vectors[vector];
            v.trigger = Some(file);
            if std::mem::take(&mut v.pending) {
                self.raise(vector);
            }
        }
    }

    /// Takes the eventfds of `count` vectors away.
    pub fn disconnect(&mut self, start: usize, count: usize) {
        for v in self.vectors.iter_mut().skip(start).take(count) {
            *v = Vector::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupt_without_an_eventfd_is_kept() {
        let path = std::env::temp_dir().join(format!("mlx5-model-vector-{}", std::process::id()));
        let mut i = Interrupts::default();
        i.raise(3);
        i.raise(VECTORS);
        i.connect(3, vec![File::create(&path).unwrap()]);
        assert_eq!(std::fs::read(&path).unwrap(), 1u64.to_ne_bytes());
        i.disconnect(0, usize::MAX);
        i.raise(3);
        assert_eq!(std::fs::read(&path).unwrap().len(), 8);
        i.connect(usize::MAX, vec![]);
        std::fs::remove_file(&path).unwrap();
    }
}
