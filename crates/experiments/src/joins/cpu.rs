//! The no-partitioning join with perfect hashing on the CPU (the thesis' NOPA), and the entries of tables
//! that both processors use.
//!
//! An entry is laid out as kernels store it: a key and a payload. Each slot is written by one row, so the
//! build needs no atomic operation beyond stores of whole words.

use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;

use crate::threads::{cpu_threads, on_threads};

use super::gpu::{Phases, Run};
use super::workload::{Answer, Word, Workload};

/// The part of `rows` rows that a thread processes.
pub(super) fn part(rows: usize, thread: usize, threads: usize) -> std::ops::Range<usize> {
    let at = |thread: usize| (rows as u128 * thread as u128 / threads as u128) as usize;
    at(thread)..at(thread + 1)
}

/// The entries of a hash table with perfect hashing.
pub(super) trait Entries: Copy + Sync {
    /// The words of the entry with this number, of `N` words; all ones beyond the end.
    fn entry<const N: usize>(self, slot: usize) -> [u64; N];
}

impl Entries for &[AtomicU64] {
    #[inline]
    fn entry<const N: usize>(self, slot: usize) -> [u64; N] {
        match self.as_chunks::<N>().0.get(slot) {
            Some(words) => std::array::from_fn(|word| words[word].load(Ordering::Relaxed)),
            None => [u64::MAX; N],
        }
    }
}

impl Entries for &[u64] {
    #[inline]
    fn entry<const N: usize>(self, slot: usize) -> [u64; N] {
        self.as_chunks::<N>()
            .0
            .get(slot)
            .copied()
            .unwrap_or([u64::MAX; N])
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

/// Looks up rows, and sums the payloads of the matches. Rows do not depend on each other, so the processor
/// has the loads of several in flight.
pub(super) fn probe<W: Word>(table: impl Entries, keys: &[W], payloads: &[W]) -> Answer {
    let (mut sum, mut matches) = (0_u64, 0_u64);
    for (key, payload) in keys.iter().zip(payloads) {
        let (found, stored) = entry::<W>(table, key.wide());
        if found == key.wide() {
            sum = sum.wrapping_add(stored.wrapping_add(payload.wide()));
            matches += 1;
        }
    }
    Answer { sum, matches }
}

/// Key and payload in the slot of a key.
#[inline]
fn entry<W: Word>(table: impl Entries, key: u64) -> (u64, u64) {
    if size_of::<W>() == 8 {
        let [found, payload] = table.entry::<2>(key as usize);
        (found, payload)
    } else {
        let [word] = table.entry::<1>(key as usize);
        (word & u64::from(u32::MAX), word >> 32)
    }
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
    let threads = cpu_threads();
    let (keys, payloads) = workload.build_words::<W>();
    let (built, _) = on_threads(threads, |thread| {
        let rows = part(keys.len(), thread, threads);
        build(table, &keys[rows.clone()], &payloads[rows]);
    });
    let (keys, payloads) = workload.probe_words::<W>();
    let (probed, answers) = on_threads(threads, |thread| {
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
