//! Six kernel shapes. They replace the paper's shapes from Parboil, which it does not name: three compute
//! much per byte read, and three read much for their computation.
//!
//! | shape | corresponds to | an item | its work |
//! | --- | --- | --- | --- |
//! | [`CoulombPotential`] | cutcp | a point | the potential of all atoms within a cutoff |
//! | [`FourierSamples`] | mri-q | a voxel | the phases of all samples, as sine and cosine |
//! | [`MatrixProduct`] | sgemm | a row of 16 | its product with a matrix |
//! | [`Histogram`] | histo | a value | one count |
//! | [`SparseProduct`] | spmv | a row of 8 pairs | its product with a vector |
//! | [`Stencil`] | stencil | a cell | five neighbours |
//!
//! Each is an operator of the device and a function of the CPU with the same results, bit by bit: sums are
//! fused multiply-adds in one order, and sines are polynomials defined here.

mod computing;
mod reading;

pub use computing::{CoulombPotential, FourierSamples, MatrixProduct};
pub use reading::{Histogram, SparseProduct, Stencil};

use crate::flow::random::Random;

/// Floats as the parameters of an operator, two floats per word.
fn words_of(floats: &[f32]) -> Vec<u64> {
    let pair = |pair: &[f32]| {
        let bits = |at: usize| u64::from(pair.get(at).copied().unwrap_or(0.0).to_bits());
        bits(0) | bits(1) << 32
    };
    floats.chunks(2).map(pair).collect()
}

/// Random floats from -1 to 1.
fn random_floats(seed: u64, count: usize) -> Vec<f32> {
    let mut random = Random::new(seed);
    let mut next = || (random.next() >> 40) as f32 / (1_u32 << 23) as f32 - 1.0;
    (0..count).map(|_| next()).collect()
}
