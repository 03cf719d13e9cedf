//! The no-partitioning join with perfect hashing on the CPU (the thesis' NOPA), and the entries of tables that
//! both processors use.
//!
//! An entry is laid out as kernels store it: a key and a payload. Each slot is written by one row, so the
//! build needs no atomic operation beyond stores of whole words.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use galatea_device::timed_together;
use rayon::prelude::*;

use super::gpu::{Phases, Run};
use super::workload::{Answer, Word, Workload};

/// Rows of a thread whose loads are in flight at once.
const TOGETHER: usize = 16;

/// Number of threads that the machine runs at once.
pub(super) fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Runs work on all threads, which begin together. Returns the seconds from the first beginning to the last
/// end, and the results.
pub(super) fn on_all_threads<T: Send>(threads: usize, work: impl Fn(usize) -> T + Sync) -> (f64, Vec<T>) {
    let (begin, work) = (&Barrier::new(threads), &work);
    let timed = move |thread| {
        begin.wait();
        let begun = Instant::now();
        let found = work(thread);
        (begun, Instant::now(), found)
    };
    timed_together((0..threads).map(|thread| move || timed(thread)))
}

/// The part of `rows` rows that a thread processes.
pub(super) fn part(rows: usize, thread: usize, threads: usize) -> std::ops::Range<usize> {
    let at = |thread: usize| (rows as u128 * thread as u128 / threads as u128) as usize;
    at(thread)..at(thread + 1)
}

/// The entries of a hash table with perfect hashing.
pub(super) trait Entries: Sync {
    /// A word of the table; all ones beyond its end.
    fn word(&self, index: usize) -> u64;
}

impl Entries for &[AtomicU64] {
    #[inline]
    fn word(&self, index: usize) -> u64 {
        self.get(index)
            .map_or(u64::MAX, |word| word.load(Ordering::Relaxed))
    }
}

impl Entries for &[u64] {
    #[inline]
    fn word(&self, index: usize) -> u64 {
        self.get(index).copied().unwrap_or(u64::MAX)
    }
}

/// Stores rows in their slots.
pub(super) fn build<W: Word>(table: &[AtomicU64], keys: &[W], payloads: &[W]) {
    let store = |index: usize, word: u64| {
        if let Some(place) = table.get(index) {
            place.store(word, Ordering::Relaxed);
        }
    };
    for (key, payload) in keys.iter().zip(payloads) {
        let (key, payload) = (key.wide(), payload.wide());
        if size_of::<W>() == 8 {
            store(2 * key as usize, key);
            store(2 * key as usize + 1, payload);
        } else {
            store(key as usize, payload << 32 | key);
        }
    }
}

/// Looks up rows, and sums the payloads of the matches.
pub(super) fn probe<W: Word>(table: impl Entries, keys: &[W], payloads: &[W]) -> Answer {
    let mut answer = Answer::default();
    for (keys, payloads) in keys.chunks(TOGETHER).zip(payloads.chunks(TOGETHER)) {
        let mut entries = [(u64::MAX, 0_u64); TOGETHER];
        for (entry, key) in entries.iter_mut().zip(keys) {
            let slot = key.wide() as usize;
            *entry = if size_of::<W>() == 8 {
                (table.word(2 * slot), table.word(2 * slot + 1))
            } else {
                let word = table.word(slot);
                (word & u64::from(u32::MAX), word >> 32)
            };
        }
        for ((entry, key), payload) in entries.iter().zip(keys).zip(payloads) {
            if entry.0 == key.wide() {
                answer.sum = answer.sum.wrapping_add(entry.1.wrapping_add(payload.wide()));
                answer.matches += 1;
            }
        }
    }
    answer
}

/// Removes all entries.
pub(super) fn clear(table: &[AtomicU64]) {
    table.par_chunks(1 << 16).for_each(|words| {
        for word in words {
            word.store(u64::MAX, Ordering::Relaxed);
        }
    });
}

/// Joins a workload on all threads; rows are divided evenly. The table has a slot for each key of the domain;
/// it is cleared before the time starts.
#[must_use]
pub fn no_partitioning(workload: &Workload, table: &[AtomicU64]) -> Run {
    match workload.shape().word_bytes {
        8 => join::<u64>(workload, table),
        _ => join::<u32>(workload, table),
    }
}

fn join<W: Word>(workload: &Workload, table: &[AtomicU64]) -> Run {
    clear(table);
    let threads = threads();
    let (keys, payloads) = workload.build_words::<W>();
    let (built, _) = on_all_threads(threads, |thread| {
        let rows = part(keys.len(), thread, threads);
        build(table, &keys[rows.clone()], &payloads[rows]);
    });
    let (keys, payloads) = workload.probe_words::<W>();
    let (probed, answers) = on_all_threads(threads, |thread| {
        let rows = part(keys.len(), thread, threads);
        probe(table, &keys[rows.clone()], &payloads[rows])
    });
    Run {
        phases: Phases {
            build: built,
            copy: 0.0,
            probe: probed,
        },
        answer: answers.into_iter().fold(Answer::default(), Answer::and),
        device_share: 0.0,
    }
}
