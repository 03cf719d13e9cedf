//! Launches over resident chunks, between those over chunks in transfer.
//!
//! A run over a table that is partly in device memory copies the other chunks. Its launches over resident
//! chunks are distributed evenly among those over copied chunks, so that the link and the multiprocessors
//! work at the same time.
//!
//! ```text
//! link       copy 6   copy 7   copy 8
//! kernels    0 1      6  2 3   7  4 5   8      chunks 0 to 5 are resident
//! ```

use std::ops::Range;

/// The morsels of resident chunks that are not launched.
#[derive(Debug)]
pub(super) struct ResidentMorsels {
    begin: u64,
    next: u64,
    end: u64,
    /// Morsels of the next launch, which doubles up to `most`.
    step: u64,
    most: u64,
    /// Morsels that keep the device busy.
    least: u64,
}

impl ResidentMorsels {
    /// The morsels of a range, in launches of `step` morsels at first and of at most `most` later. Launches
    /// of less than `least` morsels are avoided.
    pub(super) fn new(morsels: Range<u64>, (step, most): (u64, u64), least: u64) -> Self {
        Self {
            begin: morsels.start,
            next: morsels.start,
            end: morsels.end.max(morsels.start),
            step,
            most,
            least,
        }
    }

    /// The first morsel that is not launched.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// The end of all morsels.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// The end of the morsels whose launches precede the launch after which `copied` of `all` copied chunks
    /// are launched.
    pub(super) fn share(&self, copied: usize, all: usize) -> u64 {
        if copied >= all {
            return self.end;
        }
        let share = (self.end - self.begin) as u128 * copied as u128 / all as u128;
        let end = self.begin + share as u64;
        match end < self.next + self.least {
            true => self.next,
            false => end,
        }
    }

    /// The morsels of the next launch, if there are any before `until`.
    pub(super) fn take(&mut self, until: u64) -> Option<Range<u32>> {
        if self.next >= until {
            return None;
        }
        let begin = self.next;
        self.next = begin.saturating_add(self.step).min(until);
        self.step = self.most.min(self.step.saturating_mul(2));
        Some(begin as u32..self.next as u32)
    }
}

/// The number of leading chunks with all of their morsels before `next`, by the first morsels of the resident
/// chunks and the end of the last one.
pub(super) fn resident_chunks(first_morsels: &[u32], next: u64) -> usize {
    let ends = first_morsels.iter().skip(1);
    ends.take_while(|end| u64::from(**end) <= next).count()
}

/// The chunks of a run that gives way, with those that are done first, and the number of their morsels that
/// are done. `order`: the chunks by position, of which the first `ready` are resident. `first_morsels`: the
/// first morsel of each position. The morsels before `next` of resident chunks, and the copied chunks before
/// `position`, are done.
pub(super) fn done_first(
    order: &[usize],
    first_morsels: &[u32],
    (ready, next): (usize, u64),
    position: usize,
) -> (Vec<usize>, u64) {
    let first = |position: usize| u64::from(first_morsels[position]);
    let done = resident_chunks(&first_morsels[..=ready], next);
    let parts = [
        &order[..done],
        &order[ready..position],
        &order[done..ready],
        &order[position..],
    ];
    // The next resident chunk may be done in part.
    let resident = next.min(first(ready));
    (parts.concat(), resident + first(position) - first(ready))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_morsels_are_distributed_among_copied_chunks() {
        let mut resident = ResidentMorsels::new(0..100, (8, 8), 4);
        let mut launched = Vec::new();
        for copied in 1..=5 {
            let until = resident.share(copied, 5);
            while let Some(morsels) = resident.take(until) {
                launched.push(morsels);
            }
            assert_eq!(resident.next(), 20 * copied as u64);
        }
        assert!(launched.iter().all(|morsels| morsels.len() <= 8));
        assert_eq!(launched.iter().map(ExactSizeIterator::len).sum::<usize>(), 100);
        assert_eq!(launched[..3], [0..8, 8..16, 16..20]);

        let mut few = ResidentMorsels::new(0..10, (4, 8), 4);
        assert_eq!(few.share(1, 5), 0, "too few for a launch");
        assert_eq!(few.share(2, 5), 4);
        assert_eq!(few.take(10), Some(0..4));
        assert_eq!(few.take(10), Some(4..10), "launches grow");
        assert_eq!(few.take(10), None);
        let none = ResidentMorsels::new(7..3, (4, 4), 4);
        assert_eq!((none.share(1, 1), none.end()), (7, 7));
    }

    #[test]
    fn chunks_that_are_done_come_first() {
        let order = [3, 5, 0, 9, 8, 7];
        let first = [0, 10, 20, 30, 40, 50, 60];
        // Chunk 3 and half of chunk 5 are done, as is the copied chunk 9.
        assert_eq!(
            done_first(&order, &first, (3, 15), 4),
            (vec![3, 9, 5, 0, 8, 7], 25)
        );
        assert_eq!(done_first(&order, &first, (3, 30), 3), (order.to_vec(), 30));
        assert_eq!(done_first(&order, &first, (3, 15), 3), (order.to_vec(), 15));
        assert_eq!(done_first(&order, &first, (0, 0), 2), (order.to_vec(), 20));
        assert_eq!(done_first(&order, &first, (3, 30), 6), (order.to_vec(), 60));
    }
}
