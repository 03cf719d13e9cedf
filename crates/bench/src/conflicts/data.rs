//! Columns, and the expected results of queries.

use galatea_layout::Frequencies;
use rayon::prelude::*;

use super::Extent;
use crate::Result;

/// Number of rows that one task adds up.
const PIECE: usize = 1 << 18;

/// A column of codes; for each value, the number of its rows and the sum of their measures.
pub(super) struct Column<'a> {
    pub(super) values: usize,
    pub(super) codes: &'a [u32],
    pub(super) counts: Vec<u64>,
    pub(super) sums: Vec<u64>,
    seed: u64,
}

impl<'a> Column<'a> {
    /// Counts and adds up on the CPU. Codes beyond the values are a bug here, and panic.
    pub(super) fn new(extent: &Extent, values: usize, codes: &'a [u32]) -> Self {
        let seed = extent.seed;
        let nothing = || (vec![0_u64; values], vec![0_u64; values]);
        let (counts, sums) = codes
            .par_chunks(PIECE)
            .enumerate()
            .fold(nothing, |(mut counts, mut sums), (piece, codes)| {
                for (row, &code) in codes.iter().enumerate() {
                    counts[code as usize] += 1;
                    sums[code as usize] += measure(seed, piece * PIECE + row);
                }
                (counts, sums)
            })
            .reduce(nothing, |(counts, sums), (more_counts, more_sums)| {
                let add =
                    |one: Vec<u64>, other: Vec<u64>| one.iter().zip(other).map(|(a, b)| a + b).collect();
                (add(counts, more_counts), add(sums, more_sums))
            });
        Self {
            values,
            codes,
            counts,
            sums,
            seed,
        }
    }

    /// Payloads of the build side, one per value.
    pub(super) fn payloads(&self) -> Vec<u32> {
        (0..self.values)
            .map(|value| (mix(self.seed ^ value as u64) >> 44) as u32 | 1)
            .collect()
    }

    /// The sum of the payloads of all rows.
    pub(super) fn joined(&self) -> u64 {
        let payloads = self.payloads();
        let parts = self.counts.iter().zip(payloads);
        parts.map(|(count, payload)| count * u64::from(payload)).sum()
    }
}

/// Codes distributed by Zipf's law.
pub(super) fn zipf(extent: &Extent, values: usize, theta: f64, rows: usize) -> Result<Vec<u32>> {
    Ok(Frequencies::zipf(values, theta)?.column(rows, extent.seed))
}

/// Measures of the first rows.
pub(super) fn measures(extent: &Extent, rows: usize) -> Vec<u64> {
    let seed = extent.seed;
    (0..rows).into_par_iter().map(|row| measure(seed, row)).collect()
}

/// From 1 to a million, like amounts in cents, so the high half of a sum changes only by carries.
fn measure(seed: u64, row: usize) -> u64 {
    mix(seed.wrapping_add(row as u64)) % 1_000_000 + 1
}

/// Stafford's variant 13 of the murmur3 finaliser.
fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
