//! Rows selected as by TPC-H's query 6, over each way.

use std::ops::Range;
use std::time::Instant;

use galatea_device::Device;
use galatea_kernels::{LinkSelect, Selection};
use rayon::prelude::*;

use super::measure::{Access, Rate, fill};
use super::{Method, Result, Source, TransferOptions, open};

/// Bytes of a row: a value of each of three columns.
const ROW_BYTES: usize = 12;

/// The rate at which rows are selected as by TPC-H's query 6: `bytes` of three columns of 32-bit values, of
/// which a part of the rows, from 0 to 1, is selected by the first. Bytes of all three columns count.
///
/// The host writes other values before each run: so no run finds what a former one brought, and pages of
/// managed memory begin on the host.
///
/// # Errors
/// As [`super::rate`].
///
/// # Panics
/// Where the sum over the selected rows is wrong.
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
        fill(memory, 11 + run as u64);
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

/// Keys below it are a part of all 32-bit values, from 0 to 1.
fn threshold(selectivity: f64) -> u64 {
    (selectivity * (1_u64 << 32) as f64) as u64
}

/// The chunks of some bytes; each has three columns of its own.
fn chunks(bytes: usize, chunk: usize) -> Vec<Range<usize>> {
    let firsts = (0..bytes).step_by(chunk);
    firsts.map(|first| first..(first + chunk).min(bytes)).collect()
}

/// The three columns of a chunk.
fn columns<'a>(memory: &'a [u8], range: &Range<usize>) -> (&'a [u32], &'a [u32], &'a [u32]) {
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
