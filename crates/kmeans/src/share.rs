//! Sharing of chunks of points between device and CPU (thesis §5.4).
//!
//! Chunks that are not in device memory pass through the link. The CPU can process them in place instead: it
//! takes them from the end, while the device takes them from the beginning, until no chunk is left between
//! them. Each side thus processes chunks at its own rate, which need not be known in advance. Near the end
//! the rates measured so far decide: the CPU leaves a chunk that the device would complete sooner. The CPU's
//! first chunk is reserved before the device begins. On a busy machine its thread might otherwise start after
//! the device has taken all the others, and the time of that iteration would not measure the benefit of the
//! CPU's help. The sums of the CPU's chunks are one more slot of partial sums on the device.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use galatea_kernels::kmeans::Centroids;

use crate::Points;
use crate::cpu::{self, CpuSums, Partial};

/// Whether the CPU takes chunks of points that are not on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Share {
    /// If iterations with the CPU's help are faster than without. One of each is measured, after a first
    /// iteration that transfers points to the device.
    #[default]
    Auto,
    /// Never.
    Device,
    /// From the first iteration on.
    Both,
}

/// Decides which iterations are shared.
#[derive(Debug)]
pub(crate) struct Trial {
    share: Share,
    /// Times of the iterations so far.
    times: Vec<Duration>,
}

impl Trial {
    pub(crate) fn new(share: Share) -> Self {
        Self {
            share,
            times: Vec::new(),
        }
    }

    pub(crate) fn shares(&self) -> bool {
        match (self.share, self.times.as_slice()) {
            (Share::Device, _) | (Share::Auto, [] | [_]) => false,
            (Share::Both, _) | (Share::Auto, [_, _]) => true,
            (Share::Auto, [_, alone, together, ..]) => together < alone,
        }
    }

    /// Records the time of an iteration.
    pub(crate) fn took(&mut self, time: Duration) {
        if self.times.len() < 3 {
            self.times.push(time);
        }
    }
}

/// The range of positions that are not taken yet.
#[derive(Debug)]
pub(crate) struct Split {
    /// The first position; in the upper half, the one after the last.
    free: AtomicU64,
    begun: Instant,
    /// Number of chunks that the device has completed.
    done: AtomicU64,
    stopped: AtomicBool,
}

fn unpack(free: u64) -> (u64, u64) {
    (free & u64::from(u32::MAX), free >> 32)
}

impl Split {
    pub(crate) fn new(positions: Range<usize>) -> Self {
        Self {
            free: AtomicU64::new(positions.start as u64 | (positions.end as u64) << 32),
            begun: Instant::now(),
            done: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
        }
    }

    /// Takes the first position for the device. Returns false if none is left.
    pub(crate) fn take_first(&self) -> bool {
        let take = |free| {
            let (first, end) = unpack(free);
            (first < end).then_some(free + 1)
        };
        self.free
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
            .is_ok()
    }

    /// Takes the last position for the CPU, which needs the time `needed` for a chunk. None if the device
    /// would complete all remaining chunks sooner.
    pub(crate) fn take_last(&self, needed: Duration) -> Option<usize> {
        if self.stopped.load(Ordering::Relaxed) {
            return None;
        }
        let done = self.done.load(Ordering::Relaxed);
        let of_device = (done > 0).then(|| self.begun.elapsed().as_secs_f64() / done as f64);
        let take = |free| {
            let (first, end) = unpack(free);
            let left = end.saturating_sub(first);
            let sooner = of_device.is_some_and(|each| left as f64 * each < needed.as_secs_f64());
            (left > 0 && !sooner).then(|| free - (1 << 32))
        };
        let taken = self
            .free
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
            .ok()?;
        Some(unpack(taken).1 as usize - 1)
    }

    pub(crate) fn device_did_one(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    /// Leaves the remaining positions if something failed.
    pub(crate) fn stop_if(&self, failed: bool) {
        self.stopped.fetch_or(failed, Ordering::Relaxed);
    }
}

/// Sums, by the centroids of each start, over the chunk at position `first` and those that the CPU takes
/// after it. Also returns the number of these chunks.
pub(crate) fn share_of_cpu(
    points: &Points,
    order: &[usize],
    split: &Split,
    first: Option<usize>,
    starts: &[&Centroids],
) -> (Vec<Partial>, u64) {
    let (k, d) = (starts[0].clusters(), points.features());
    let mut totals = vec![Partial::new(k, d); starts.len()];
    let (mut taken, mut next) = (0, first);
    while let Some(position) = next {
        let begun = Instant::now();
        let chunk = &points.chunks()[order[position]];
        let how = (CpuSums::Auto, false);
        let of_chunk = cpu::pass(std::iter::once(chunk), starts, (k, d), how, None);
        totals
            .iter_mut()
            .zip(&of_chunk)
            .for_each(|(total, some)| total.add(some));
        taken += 1;
        next = split.take_last(begun.elapsed());
    }
    (totals, taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_position_is_taken_once() {
        let split = Split::new(3..8);
        assert!(split.take_first());
        assert_eq!(split.take_last(Duration::ZERO), Some(7));
        assert!(split.take_first() && split.take_first());
        assert_eq!(split.take_last(Duration::ZERO), Some(6));
        assert_eq!(split.take_last(Duration::ZERO), None);
        assert!(!split.take_first());
    }

    #[test]
    fn cpu_skips_chunks_if_the_device_is_faster() {
        let split = Split::new(0..2);
        split.device_did_one();
        assert_eq!(split.take_last(Duration::from_secs(1 << 20)), None);
        assert_eq!(split.take_last(Duration::ZERO), Some(1));
    }

    #[test]
    fn sharing_is_kept_only_if_faster() {
        let ms = Duration::from_millis;
        for (together, shares) in [(8, true), (12, false)] {
            let mut trial = Trial::new(Share::Auto);
            for (time, shared) in [(50, false), (10, false), (together, true), (99, shares)] {
                assert_eq!(trial.shares(), shared);
                trial.took(ms(time));
            }
            assert_eq!(trial.shares(), shares);
        }
    }
}
