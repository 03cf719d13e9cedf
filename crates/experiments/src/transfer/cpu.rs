//! The CPU for comparison: reads of its own memory by all threads.

use galatea_device::{HostMemory, VectorWork, in_vectors};
use galatea_kernels::LinkAccess;
use galatea_kernels::flow::mix64;
use galatea_memory::transfer::{Access, Result, fill};
use rayon::prelude::*;

use crate::threads::{cpu_threads, on_all_threads};

use super::measure::{Rate, Source, seed_of};

/// Maximum number of values that a run reads at random places. Kernels read the same number.
const RANDOM_READS: usize = 32 << 20;

/// A sum of words, in the widest vectors.
struct Words<'a>(&'a [u32]);

impl VectorWork for Words<'_> {
    type Output = u64;

    #[inline(always)]
    fn run<const FUSED: bool>(self) -> u64 {
        self.0
            .iter()
            .fold(0, |sum: u64, word| sum.wrapping_add(u64::from(*word)))
    }
}

/// The rate at which all threads of the CPU read `bytes` bytes of their own memory, with 4-byte reads like
/// kernels: in order, or at random places, with eight reads per thread in flight. The host writes other
/// values before each run.
///
/// # Errors
/// An error of the system, if memory is insufficient.
///
/// # Panics
/// If the sum of the read values is wrong.
pub fn cpu_reads(bytes: usize, random: bool, runs: usize) -> Result<Rate> {
    let mut memory = HostMemory::new(bytes)?;
    let mut values = Vec::new();
    for run in 0..=runs {
        let seed = seed_of(run);
        let sum = fill(memory.as_mut_slice(), seed);
        let words: &[u32] = bytemuck::cast_slice(memory.as_slice());
        let threads = cpu_threads();
        let (seconds, found, expected, reads) = if random {
            let each = (words.len().min(RANDOM_READS) / threads)
                .max(1)
                .next_multiple_of(TOGETHER);
            let read = |thread| at_random(words, seed, (thread * each) as u64, each);
            let (seconds, found) = on_all_threads(read);
            let expected = (0..(threads * each) as u64).into_par_iter();
            let expected = expected
                .map(|read| u64::from(LinkAccess::written(!seed, place(seed, read, words.len()) as u64)));
            let expected = expected.reduce(|| 0, u64::wrapping_add);
            (seconds, found, expected, threads * each)
        } else {
            let each = words.len().div_ceil(threads);
            let part = |thread: usize| {
                let first = (thread * each).min(words.len());
                &words[first..(first + each).min(words.len())]
            };
            let (seconds, found) = on_all_threads(|thread| in_vectors(Words(part(thread))));
            (seconds, found, sum, words.len())
        };
        let found = found.into_iter().fold(0, u64::wrapping_add);
        assert_eq!(found, expected, "the CPU's sum, random {random}");
        if run > 0 {
            values.push((4 * reads) as f64 / seconds);
        }
    }
    Ok(Rate {
        source: Source::Cpu,
        access: Access::Read,
        piece: 4,
        random,
        values,
    })
}

/// Random reads of a thread that are in flight at once. They do not depend on each other.
const TOGETHER: usize = 8;

/// The index of the word of a random read.
fn place(seed: u64, read: u64, words: usize) -> usize {
    ((u128::from(mix64((seed << 40) ^ read)) * words as u128) >> 64) as usize
}

/// The sum of `count` random reads from number `first` on, eight at a time.
fn at_random(words: &[u32], seed: u64, first: u64, count: usize) -> u64 {
    let mut sums = [0_u64; TOGETHER];
    for round in 0..(count / TOGETHER) as u64 {
        let places: [usize; TOGETHER] =
            std::array::from_fn(|t| place(seed, first + round * TOGETHER as u64 + t as u64, words.len()));
        for (sum, place) in sums.iter_mut().zip(places) {
            *sum = sum.wrapping_add(u64::from(words[place]));
        }
    }
    sums.into_iter().fold(0, u64::wrapping_add)
}
