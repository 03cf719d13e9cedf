//! Columns that conflict (Sitaridi & Ross §A.3). [`Frequencies`](crate::Frequencies) draws columns of a given
//! skew.

use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use crate::banks::Banks;
use crate::error::{LayoutError, Result};

/// Generates a column of `values` values. Each access costs exactly `degree` rounds, reads as well as writes.
/// A warp has one lane per bank. The values of an access are all different, and each bank that it touches
/// contains `degree` of them (the last bank the remainder). For patterns that access consecutive rows.
///
/// # Errors
/// [`LayoutError::Degree`] if some bank contains fewer than `degree` values, or `degree` exceeds the number
/// of lanes.
pub fn worst_case(rows: usize, degree: usize, values: usize, banks: Banks, seed: u64) -> Result<Vec<u32>> {
    let lanes = banks.count() as usize;
    let per_bank = values / lanes;
    let limit = per_bank.min(lanes);
    if !(1..=limit).contains(&degree) {
        return Err(LayoutError::Degree {
            degree,
            banks: banks.count(),
            values,
            limit,
        });
    }
    let mut column = vec![0; rows];
    column
        .par_chunks_mut(lanes)
        .enumerate()
        .for_each(|(access, rows)| {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            random.set_stream(access as u64);
            let mut banks: Vec<usize> = (0..lanes).collect();
            banks.shuffle(&mut random);
            let mut words: Vec<u32> = Vec::with_capacity(lanes + degree);
            for bank in banks.into_iter().take(lanes.div_ceil(degree)) {
                // `degree` different words of a bank: consecutive ones from a random start, cyclically.
                let first = random.random_range(0..per_bank);
                words.extend((first..first + degree).map(|at| (at % per_bank * lanes + bank) as u32));
            }
            words.truncate(rows.len());
            words.shuffle(&mut random);
            rows.copy_from_slice(&words);
        });
    Ok(column)
}

/// The foreign keys of §A.3's grid: a build side of `width` × `height` cells is clustered by (x, y), the fact
/// table, with one row per cell, by y. The keys of one y are `height` apart, and touch 32 / gcd(`height`, 32)
/// banks.
#[must_use]
pub fn grid(width: u32, height: u32) -> Vec<u32> {
    (0..height)
        .flat_map(|y| (0..width).map(move |x| x * height + y))
        .collect()
}
