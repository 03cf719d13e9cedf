//! Frequencies of the values of a column, and columns drawn from them.

use rand::distr::Distribution;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::weighted::WeightedAliasIndex;
use rayon::prelude::*;

use crate::error::{LayoutError, Result};

/// Number of rows drawn from one stream of random numbers.
const PIECE: usize = 1 << 16;

/// Relative frequencies of values 0, 1, 2 and so on.
#[derive(Debug, Clone, PartialEq)]
pub struct Frequencies {
    weights: Vec<f64>,
}

impl Frequencies {
    /// From weights that are finite, not negative and not all zero; at most 2^32 - 1 of them.
    ///
    /// # Errors
    /// [`LayoutError::Frequencies`] for other weights.
    pub fn new(weights: Vec<f64>) -> Result<Self> {
        let frequencies = Self { weights };
        frequencies.sampler()?;
        Ok(frequencies)
    }

    /// Equal frequencies of all `values` values.
    ///
    /// # Errors
    /// [`LayoutError::Frequencies`] for no values.
    pub fn uniform(values: usize) -> Result<Self> {
        Self::new(vec![1.0; values])
    }

    /// The Zipf distribution of the experiments (§2, §4): value *i* has weight 1 / (*i* + 1)^`theta`, so
    /// codes are ranks of popularity. Only such codes reproduce Table 1; see [`Frequencies::shuffled`].
    ///
    /// # Errors
    /// [`LayoutError::Frequencies`] for no values, or a `theta` that is not finite.
    pub fn zipf(values: usize, theta: f64) -> Result<Self> {
        Self::new((1..=values).map(|rank| (rank as f64).powf(-theta)).collect())
    }

    /// The frequencies of a sample of a column of `values` values. A value that is not in the sample counts
    /// as a tenth of an occurrence, so that a rare group costs a little rather than nothing.
    ///
    /// # Errors
    /// [`LayoutError::Value`] for a sample that contains others, [`LayoutError::Frequencies`] for no values.
    pub fn of_sample(sample: &[u32], values: usize) -> Result<Self> {
        let mut weights = vec![0.0; values];
        for (row, &value) in sample.iter().enumerate() {
            *weights
                .get_mut(value as usize)
                .ok_or(LayoutError::Value { row, value, values })? += 1.0;
        }
        for weight in &mut weights {
            *weight = f64::max(*weight, 0.1);
        }
        Self::new(weights)
    }

    /// Assigns the same frequencies to codes in random order.
    #[must_use]
    pub fn shuffled(mut self, seed: u64) -> Self {
        self.weights.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
        self
    }

    /// Number of values.
    #[must_use]
    pub fn values(&self) -> usize {
        self.weights.len()
    }

    /// Draws a column of independent values. The alias method draws at the same cost for any number of
    /// values. Pieces of the column have separate random streams, so the column depends on the seed only and
    /// not on the threads that draw it.
    #[must_use]
    pub fn column(&self, rows: usize, seed: u64) -> Vec<u32> {
        let Ok(sampler) = self.sampler() else {
            return Vec::new(); // `new` has already built one
        };
        let mut column = vec![0; rows];
        column
            .par_chunks_mut(PIECE)
            .enumerate()
            .for_each(|(piece, rows)| {
                let mut random = ChaCha8Rng::seed_from_u64(seed);
                random.set_stream(piece as u64);
                rows.fill_with(|| sampler.sample(&mut random));
            });
        column
    }

    fn sampler(&self) -> Result<Sampler> {
        Sampler::new(&self.weights)
    }
}

/// Draws values.
struct Sampler(WeightedAliasIndex<f64>);

impl Sampler {
    fn new(weights: &[f64]) -> Result<Self> {
        WeightedAliasIndex::new(weights.to_vec())
            .map(Self)
            .map_err(|error| LayoutError::Frequencies {
                values: weights.len(),
                problem: error.to_string(),
            })
    }

    fn sample(&self, random: &mut impl Rng) -> u32 {
        self.0.sample(random) as u32
    }
}
