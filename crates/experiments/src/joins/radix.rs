//! The CPU's partitioned hash join: one radix pass, then a join of each partition in the caches.
//!
//! Each thread partitions its part of both relations into memory of its own, after a histogram of it, so
//! threads share nothing (chunked partitioning). Tuples are collected in a line per partition, which is
//! written by non-temporal stores when it is full (software write-combining). Partitions are then joined one
//! by one from the chunks of all threads: R's payloads go to an array by the remaining bits of the key, which
//! for dense keys is perfect hashing; S's rows look them up.
//!
//! The partition is selected by the key's low bits. Dense keys make partitions equal, as in the thesis' code.

use std::sync::atomic::{AtomicUsize, Ordering};

use galatea_device::{HostMemory, LINE_WORDS, Result, write_lines};

use super::cpu::part;
use super::gpu::{Phases, Run};
use super::workload::{Answer, Shape, Word, Workload};
use crate::threads::{cpu_threads, on_threads};

/// Bytes of the array of a partition, at most, unless there are too many partitions: a part of a core's
/// cache.
const ARRAY_BYTES: u64 = 256 << 10;
/// Binary logarithm of the number of partitions, at least and at most. 2^13 lines fit the level-2 cache.
const BITS: (u32, u32) = (4, 13);

/// Binary logarithm of the number of partitions for a number of keys.
#[must_use]
pub fn radix_bits(domain: u64) -> u32 {
    let partitions = (8 * domain).div_ceil(ARRAY_BYTES).next_power_of_two();
    partitions.ilog2().clamp(BITS.0, BITS.1)
}

/// Memory for the partitions of both relations, with a part for each thread.
#[derive(Debug)]
pub struct RadixJoin {
    build: HostMemory,
    probe: HostMemory,
    bits: u32,
    threads: usize,
}

/// The partitions of a thread's rows: the first word of each, and its end.
struct Chunk<'a> {
    words: &'a [u64],
    bounds: Vec<(usize, usize)>,
}

impl RadixJoin {
    /// Allocates memory for workloads of at most this shape: about as much as the relations.
    ///
    /// # Errors
    /// [`galatea_device::DeviceError::HostMemory`] if the host has too little.
    pub fn new(shape: &Shape) -> Result<Self> {
        Self::with_bits(shape, radix_bits(shape.domain))
    }

    /// The same as [`Self::new`], with `2^bits` partitions.
    ///
    /// # Errors
    /// Those of [`Self::new`].
    pub fn with_bits(shape: &Shape, bits: u32) -> Result<Self> {
        let threads = cpu_threads();
        let memory = |rows: u64| {
            let words = (rows * shape.tuple_bytes()).div_ceil(8) + (threads as u64) * Self::slack(bits);
            HostMemory::new(usize::try_from(8 * words).unwrap_or(usize::MAX))
        };
        Ok(Self {
            build: memory(shape.domain)?,
            probe: memory(shape.probe_rows)?,
            bits,
            threads,
        })
    }

    /// Words that a thread's partitions may lose by alignment to lines.
    fn slack(bits: u32) -> u64 {
        ((1 << bits) + 2) * LINE_WORDS as u64
    }

    /// Joins a workload on all threads.
    ///
    /// # Panics
    /// If the workload is larger than the memory.
    #[must_use]
    pub fn run(&mut self, workload: &Workload) -> Run {
        match workload.shape().word_bytes {
            8 => self.join::<u64, 2>(workload),
            _ => self.join::<u32, 1>(workload),
        }
    }

    /// `WORDS`: 64-bit words of a tuple.
    fn join<W: Word, const WORDS: usize>(&mut self, workload: &Workload) -> Run {
        let (bits, threads) = (self.bits, self.threads);
        let (build_seconds, build) =
            partitioned::<W, WORDS>(&mut self.build, workload.build_words::<W>(), bits, threads);
        let (probe_seconds, probe) =
            partitioned::<W, WORDS>(&mut self.probe, workload.probe_words::<W>(), bits, threads);
        let next = AtomicUsize::new(0);
        let slots = (workload.shape().domain >> bits) as usize + 1;
        let (seconds, answers) = on_threads(threads, |_| {
            let mut payloads = vec![ABSENT; slots];
            let mut answer = Answer::default();
            loop {
                let partition = next.fetch_add(1, Ordering::Relaxed);
                if partition >> bits != 0 {
                    return answer;
                }
                payloads.fill(ABSENT);
                for chunk in &build {
                    store::<W, WORDS>(chunk.of(partition), bits, &mut payloads);
                }
                for chunk in &probe {
                    answer = answer.and(look_up::<W, WORDS>(chunk.of(partition), bits, &payloads));
                }
            }
        });
        Run {
            phases: Phases {
                build: build_seconds + probe_seconds,
                copy: 0.0,
                probe: seconds,
            },
            answer: answers.into_iter().fold(Answer::default(), Answer::and),
            device_share: 0.0,
        }
    }
}

/// Marks keys of the domain that R does not have. Payloads of 4 bytes are smaller, and one of 8 bytes has
/// this value with probability 2^-64.
const ABSENT: u64 = u64::MAX;

impl Chunk<'_> {
    fn of(&self, partition: usize) -> &[u64] {
        let (start, end) = self.bounds[partition];
        &self.words[start..end]
    }
}

/// The key and payload of a tuple of `WORDS` words.
#[inline]
fn unpack<W: Word, const WORDS: usize>(tuple: &[u64; WORDS]) -> (u64, u64) {
    match size_of::<W>() {
        8 => (tuple[0], tuple[WORDS - 1]),
        _ => (tuple[0] & u64::from(u32::MAX), tuple[0] >> 32),
    }
}

#[inline]
fn pack<W: Word, const WORDS: usize>(key: u64, payload: u64) -> [u64; WORDS] {
    let mut tuple = [key; WORDS];
    if size_of::<W>() == 8 {
        tuple[WORDS - 1] = payload;
    } else {
        tuple[0] |= payload << 32;
    }
    tuple
}

fn store<W: Word, const WORDS: usize>(tuples: &[u64], bits: u32, payloads: &mut [u64]) {
    for tuple in tuples.as_chunks::<WORDS>().0 {
        let (key, payload) = unpack::<W, WORDS>(tuple);
        if let Some(place) = payloads.get_mut((key >> bits) as usize) {
            *place = payload;
        }
    }
}

fn look_up<W: Word, const WORDS: usize>(tuples: &[u64], bits: u32, payloads: &[u64]) -> Answer {
    let mut answer = Answer::default();
    for tuple in tuples.as_chunks::<WORDS>().0 {
        let (key, payload) = unpack::<W, WORDS>(tuple);
        let found = payloads.get((key >> bits) as usize).copied().unwrap_or(ABSENT);
        let matches = u64::from(found != ABSENT);
        let sum = found.wrapping_add(payload) & 0_u64.wrapping_sub(matches);
        answer = answer.and(Answer { sum, matches });
    }
    answer
}

/// Partitions columns, each thread its part of them. Returns the seconds, and each thread's partitions.
fn partitioned<'a, W: Word, const WORDS: usize>(
    memory: &'a mut HostMemory,
    (keys, payloads): (&[W], &[W]),
    bits: u32,
    threads: usize,
) -> (f64, Vec<Chunk<'a>>) {
    let words: &mut [u64] = bytemuck::cast_slice_mut(memory.as_mut_slice());
    let mut rest = words;
    let mut parts = Vec::new();
    for thread in 0..threads {
        let rows = part(keys.len(), thread, threads);
        let len = (rows.len() * WORDS).next_multiple_of(LINE_WORDS) + (LINE_WORDS << bits);
        let (own, others) = std::mem::take(&mut rest).split_at_mut(len);
        parts.push(parking_lot::Mutex::new(Some((rows, own))));
        rest = others;
    }
    on_threads(threads, |thread| {
        let Some((rows, own)) = parts[thread].lock().take() else {
            unreachable!("each thread takes its own part once");
        };
        partition::<W, WORDS>(&keys[rows.clone()], &payloads[rows], bits, own)
    })
}

/// A buffered line of a partition.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Line([u64; LINE_WORDS]);

/// Partitions the rows of a thread.
fn partition<'a, W: Word, const WORDS: usize>(
    keys: &[W],
    payloads: &[W],
    bits: u32,
    target: &'a mut [u64],
) -> Chunk<'a> {
    let per_line = LINE_WORDS / WORDS;
    let mask = (1_u64 << bits) - 1;
    let mut counts = vec![0_usize; 1 << bits];
    for key in keys {
        counts[(key.wide() & mask) as usize] += 1;
    }
    // Each partition begins with a line.
    let mut line = 0;
    let mut bounds = Vec::with_capacity(counts.len());
    // The number of the next tuple of each partition, in tuples from the start.
    let mut next = Vec::with_capacity(counts.len());
    for count in counts {
        bounds.push((line * LINE_WORDS, line * LINE_WORDS + count * WORDS));
        next.push(line * per_line);
        line += count.div_ceil(per_line);
    }
    let mut lines = vec![Line([0; LINE_WORDS]); 1 << bits];
    write_lines(target, |writer| {
        for (key, payload) in keys.iter().zip(payloads) {
            let key = key.wide();
            let partition = (key & mask) as usize;
            let position = next[partition];
            let Line(line) = &mut lines[partition];
            let within = position % per_line;
            line[within * WORDS..][..WORDS].copy_from_slice(&pack::<W, WORDS>(key, payload.wide()));
            next[partition] = position + 1;
            if within + 1 == per_line {
                writer.line(position / per_line, line);
            }
        }
        for (position, Line(line)) in next.iter().zip(&lines) {
            writer.part(position / per_line, line, position % per_line * WORDS);
        }
    });
    Chunk {
        words: target,
        bounds,
    }
}
