//! Distribution of the rows of a relation to processors of different rates (section 3.5.1).
//!
//! The thesis hands out morsels of one size per processor. Its relations have hundreds of them. With fewer,
//! the last morsel of the slower processor determines the time: a thread of the CPU needs 0.1 s to look up
//! 32 MiB of tuples in a large table, and the device reads 5 GB in this time.
//!
//! Here the size of a morsel follows the measured rate of its worker. If each worker took a share of the
//! remaining rows in proportion to its rate, all would finish at the same time. A worker takes a quarter of
//! this share. Its first morsel is small, because its rate is unknown, and the next is at most twice as large
//! as the one before. The thesis' sizes are the maximum.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Part of a worker's share of the remaining rows that it takes at once.
const PART: f64 = 0.25;

/// A first morsel has at most one part of this number of all rows.
const FEW: u64 = 64;

/// Hands out the rows of a relation once.
pub(super) struct Dispatcher {
    next: AtomicU64,
    rows: u64,
    /// Rows per second of each worker, as the bits of a 64-bit float; 0 before the first morsel.
    rates: Vec<AtomicU64>,
}

impl Dispatcher {
    pub(super) fn new(rows: u64, workers: usize) -> Self {
        Self {
            next: AtomicU64::new(0),
            rows,
            rates: (0..workers).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// A worker that takes `least` to `most` rows at once. It takes fewer at the end, and at first if there
    /// are few rows in all.
    pub(super) fn worker(&self, number: usize, (least, most): (u64, u64)) -> Worker<'_> {
        let least = least.min(self.rows / FEW);
        Worker {
            dispatcher: self,
            number,
            least: least.clamp(1, most.max(1)),
            most: most.max(1),
            last: 0,
            rows: 0,
            seconds: 0.0,
        }
    }

    fn rate(&self, number: usize) -> f64 {
        let rate = self.rates.get(number);
        rate.map_or(0.0, |rate| f64::from_bits(rate.load(Ordering::Relaxed)))
    }
}

/// A processor, or a thread of one, that takes morsels.
pub(super) struct Worker<'a> {
    dispatcher: &'a Dispatcher,
    number: usize,
    least: u64,
    most: u64,
    /// Rows of the last morsel.
    last: u64,
    /// Rows and seconds of all finished morsels.
    rows: u64,
    seconds: f64,
}

impl Worker<'_> {
    /// The next rows; `None` if there are none left.
    pub(super) fn take(&mut self) -> Option<Range<u64>> {
        let dispatcher = self.dispatcher;
        let left = dispatcher
            .rows
            .saturating_sub(dispatcher.next.load(Ordering::Relaxed));
        let all: f64 = (0..dispatcher.rates.len())
            .map(|worker| dispatcher.rate(worker))
            .sum();
        let own = dispatcher.rate(self.number);
        let share = if own > 0.0 {
            PART * left as f64 * own / all
        } else {
            0.0
        };
        let grown = self.last.saturating_mul(2).min(self.most);
        self.last = (share as u64).min(grown).max(self.least);
        let start = dispatcher.next.fetch_add(self.last, Ordering::Relaxed);
        (start < dispatcher.rows).then(|| start..(start + self.last).min(dispatcher.rows))
    }

    /// Counts a finished morsel, and the seconds since the worker began or finished the one before.
    pub(super) fn finished(&mut self, rows: u64, seconds: f64) {
        self.rows += rows;
        self.seconds += seconds;
        let rate = self.rows as f64 / self.seconds.max(1e-9);
        if let Some(place) = self.dispatcher.rates.get(self.number) {
            place.store(rate.to_bits(), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Workers in virtual time: each has a rate, the time at which it begins, and the sizes of its morsels.
    /// Returns the end of the last morsel, and the rows of each worker.
    fn simulate(rows: u64, workers: &[(f64, f64, (u64, u64))]) -> (f64, Vec<u64>) {
        let dispatcher = Dispatcher::new(rows, workers.len());
        let begin = |(number, worker): (usize, &(f64, f64, (u64, u64)))| {
            (dispatcher.worker(number, worker.2), worker.1, worker.0)
        };
        let mut all: Vec<_> = workers.iter().enumerate().map(begin).collect();
        let mut taken = vec![0; workers.len()];
        let (mut end, mut next) = (0.0_f64, 0);
        loop {
            let earliest = all
                .iter()
                .enumerate()
                .min_by(|a, b| a.1.1.total_cmp(&b.1.1))
                .map(|(number, _)| number)
                .expect("a worker");
            let (worker, now, rate) = &mut all[earliest];
            let Some(range) = worker.take() else {
                return (end, taken);
            };
            assert_eq!(range.start, next, "rows are handed out in order, and once");
            next = range.end;
            let count = range.end - range.start;
            let seconds = count as f64 / *rate;
            worker.finished(count, seconds);
            *now += seconds;
            taken[earliest] += count;
            end = end.max(*now);
        }
    }

    /// The rates of figure 3.20: a device, and 15 threads of a CPU. The time is that of the sum of all rates,
    /// where morsels of a fixed size leave the device idle for half of it.
    #[test]
    fn workers_of_different_rates_finish_together() {
        let cpu = (4 << 10, 4 << 20);
        let device = (1 << 18, 16 << 20);
        for (rows, of_device, of_thread, most) in [
            (1 << 28, 6.0e9, 0.035e9, 1.05),
            (1 << 29, 2.9e9, 0.037e9, 1.05),
            (1 << 29, 2.9e9, 0.0875e9, 1.05),
            // Random accesses over the link.
            (1 << 28, 0.06e9, 0.037e9, 1.05),
            (1 << 16, 2.9e9, 0.0875e9, 16.0),
        ] {
            let mut workers = vec![(of_device, 0.0, device)];
            workers.extend([(of_thread, 0.0, cpu); 15]);
            let (end, taken) = simulate(rows, &workers);
            assert_eq!(taken.iter().sum::<u64>(), rows);
            let ideal = rows as f64 / (of_device + 15.0 * of_thread);
            assert!(end <= most * ideal, "{end} s, and {ideal} at best");
        }
    }

    /// Workers that begin late, after the copy of a table, take their share of the other rows.
    #[test]
    fn late_workers_take_their_share() {
        let mut workers = vec![(3e9, 0.0, (1 << 20, 16 << 20))];
        workers.extend([(0.1e9, 0.02, (4 << 10, 4 << 20)); 15]);
        let rows = 1_u64 << 29;
        let (end, taken) = simulate(rows, &workers);
        let ideal = 0.02 + (rows as f64 - 0.02 * 3e9) / 4.5e9;
        assert!(end <= 1.05 * ideal, "{end} s, and {ideal} at best");
        assert!(taken[1] > 0);
    }

    #[test]
    fn rows_are_taken_once_by_threads() {
        for (rows, sizes) in [
            (1, (1, 1)),
            (1000, (1, 7)),
            (1 << 20, (3, 1 << 30)),
            (99_999, (64, 64)),
        ] {
            let dispatcher = &Dispatcher::new(rows, 4);
            let taken: u64 = std::thread::scope(|scope| {
                let work = |number| {
                    let mut worker = dispatcher.worker(number, sizes);
                    let mut taken = 0;
                    while let Some(range) = worker.take() {
                        assert!(range.end <= rows && range.end - range.start <= sizes.1);
                        taken += range.end - range.start;
                        worker.finished(range.end - range.start, 1e-6);
                    }
                    taken
                };
                let threads: Vec<_> = (0..4).map(|number| scope.spawn(move || work(number))).collect();
                let taken = threads.into_iter().map(|thread| thread.join().expect("no panic"));
                taken.sum()
            });
            assert_eq!(taken, rows);
        }
    }
}
