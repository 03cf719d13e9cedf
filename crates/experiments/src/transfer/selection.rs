//! Rows selected as by TPC-H's query 6, over each transfer method.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use galatea_device::{Device, HostMemory, VectorWork, in_vectors};
use galatea_kernels::{LinkSelect, Selection};
use galatea_memory::transfer::{Access, Method, Result, TransferOptions, fill, open};
use rayon::prelude::*;

use super::measure::{Rate, Source, seed_of};
use crate::threads::on_all_threads;

/// Bytes of a row, which has one value in each of three columns.
const ROW_BYTES: usize = 12;

/// The rate at which rows are selected as by TPC-H's query 6, from `bytes` bytes of three columns of 32-bit
/// values. A fraction of the rows, from 0 to 1, is selected by the first column. Bytes of all three columns
/// count.
///
/// The host writes other values before each run, so that no run finds data that an earlier one has
/// transferred, and pages of managed memory begin on the host.
///
/// # Errors
/// The errors of [`super::rates`].
///
/// # Panics
/// If the sum over the selected rows is wrong.
pub fn by_selectivity(
    device: &Device,
    method: Method,
    bytes: usize,
    options: &TransferOptions,
    (selectivity, predicated): (f64, bool),
    runs: usize,
) -> Result<Rate> {
    let stream = device.stream()?;
    let kernel = LinkSelect::new(device)?;
    let mut sum = device.zeroed::<u64>(&stream, 1)?;
    let mut transfer = open(device, method, bytes, options)?;
    let threshold = threshold(selectivity);
    let ranges = chunks(bytes, options.chunk_bytes);
    let mut values = Vec::new();
    for run in 0..=runs {
        let memory = transfer.host()?;
        fill(memory, seed_of(run));
        let expected = expected(memory, &ranges, threshold);
        stream.fill(&mut sum, 0)?;
        stream.synchronize()?;
        let start = Instant::now();
        for range in &ranges {
            let selection = Selection {
                address: transfer.bring(&stream, range.clone())?,
                rows: (range.len() / ROW_BYTES) as u64,
                threshold,
                predicated,
            };
            kernel.launch(&stream, selection, &mut sum)?;
        }
        stream.synchronize()?;
        let seconds = start.elapsed().as_secs_f64();
        assert_eq!(
            stream.read(&sum, ..)?,
            [expected],
            "{method}, {selectivity} selected"
        );
        if run > 0 {
            values.push(bytes as f64 / seconds);
        }
    }
    Ok(Rate {
        source: Source::Way(method),
        access: Access::Read,
        piece: options.chunk_bytes as u64,
        random: false,
        values,
    })
}

/// Like [`by_selectivity`], by all threads of the CPU in their own memory, with the same columns.
///
/// # Errors
/// An error of the system, if memory is insufficient.
///
/// # Panics
/// If the sum over the selected rows is wrong.
pub fn by_selectivity_on_cpu(
    bytes: usize,
    options: &TransferOptions,
    (selectivity, predicated): (f64, bool),
    runs: usize,
) -> Result<Rate> {
    let mut memory = HostMemory::new(bytes)?;
    let threshold = threshold(selectivity);
    let ranges = chunks(bytes, options.chunk_bytes);
    let mut values = Vec::new();
    for run in 0..=runs {
        fill(memory.as_mut_slice(), seed_of(run));
        let memory = memory.as_slice();
        let expected = expected(memory, &ranges, threshold);
        let next = AtomicUsize::new(0);
        let work = |_| {
            let mut sum = 0_u64;
            while let Some(range) = ranges.get(next.fetch_add(1, Ordering::Relaxed)) {
                let columns = columns(memory, range);
                sum = sum.wrapping_add(if predicated {
                    in_vectors(Predicated(columns, threshold))
                } else {
                    branching(columns, threshold)
                });
            }
            sum
        };
        let (seconds, sums) = on_all_threads(work);
        let found = sums.into_iter().fold(0, u64::wrapping_add);
        assert_eq!(
            found, expected,
            "CPU, {selectivity} selected, predicated {predicated}"
        );
        if run > 0 {
            values.push(bytes as f64 / seconds);
        }
    }
    Ok(Rate {
        source: Source::Cpu,
        access: Access::Read,
        piece: options.chunk_bytes as u64,
        random: false,
        values,
    })
}

/// Keys, and two columns of values.
type Columns<'a> = (&'a [u32], &'a [u32], &'a [u32]);

/// The sum over selected rows. Only their values are loaded.
fn branching((keys, left, right): Columns<'_>, threshold: u64) -> u64 {
    let mut sum = 0_u64;
    for (row, key) in keys.iter().enumerate() {
        if u64::from(*key) < threshold {
            sum = sum.wrapping_add(u64::from(left[row]) * u64::from(right[row]));
        }
    }
    sum
}

/// The sum over selected rows. The values of all rows are loaded, in the widest vectors.
struct Predicated<'a>(Columns<'a>, u64);

impl VectorWork for Predicated<'_> {
    type Output = u64;

    #[inline(always)]
    fn run<const FUSED: bool>(self) -> u64 {
        let Self((keys, left, right), threshold) = self;
        // A 32-bit threshold, and a flag for selecting all keys, so that comparisons have the width of the
        // keys.
        let (all, below) = (threshold > u64::from(u32::MAX), threshold as u32);
        let rows = keys.iter().zip(left.iter().zip(right));
        rows.fold(0_u64, |sum, (key, (left, right))| {
            let selected = u64::from((*key < below) | all).wrapping_neg();
            sum.wrapping_add((u64::from(*left) * u64::from(*right)) & selected)
        })
    }
}

/// The threshold below which the given fraction, from 0 to 1, of all 32-bit keys lies.
fn threshold(selectivity: f64) -> u64 {
    (selectivity * (1_u64 << 32) as f64) as u64
}

/// The chunks of `bytes` bytes. Each has its own three columns.
fn chunks(bytes: usize, chunk: usize) -> Vec<Range<usize>> {
    let firsts = (0..bytes).step_by(chunk);
    firsts.map(|first| first..(first + chunk).min(bytes)).collect()
}

/// The three columns of a chunk.
fn columns<'a>(memory: &'a [u8], range: &Range<usize>) -> Columns<'a> {
    let rows = range.len() / ROW_BYTES;
    let words: &[u32] = bytemuck::cast_slice(&memory[range.start..range.start + ROW_BYTES * rows]);
    let (keys, values) = words.split_at(rows);
    let (left, right) = values.split_at(rows);
    (keys, left, right)
}

/// The sum over the selected rows of all chunks.
fn expected(memory: &[u8], ranges: &[Range<usize>], threshold: u64) -> u64 {
    let of_chunk = |range: &Range<usize>| {
        let (keys, left, right) = columns(memory, range);
        let selected = keys.iter().zip(left.iter().zip(right));
        let selected = selected.filter(|(key, _)| u64::from(**key) < threshold);
        selected.fold(0_u64, |sum, (_, (left, right))| {
            sum.wrapping_add(u64::from(*left).wrapping_mul(u64::from(*right)))
        })
    };
    ranges.par_iter().map(of_chunk).reduce(|| 0, u64::wrapping_add)
}
