//! How often each value of a column occurs, and columns drawn from it.

use rand::distr::Distribution;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::weighted::WeightedAliasIndex;
use rayon::prelude::*;

use crate::error::{LayoutError, Result};

/// Rows that one stream of random numbers draws.
const PIECE: usize = 1 << 16;

/// Relative frequencies of values 0, 1, 2 and so on.
#[derive(Debug, Clone, PartialEq)]
pub struct Frequencies {
    weights: Vec<f64>,
}

impl Frequencies {
    /// Any weights: finite, not negative, not all zero; at most 2^32 - 1 of them.
    ///
    /// # Errors
    /// [`LayoutError::Frequencies`] for others.
    pub fn new(weights: Vec<f64>) -> Result<Self> {
        let frequencies = Self { weights };
        frequencies.sampler()?;
        Ok(frequencies)
    }

    /// All of `values` values equally often.
    ///
    /// # Errors
    /// [`LayoutError::Frequencies`] for no values.
    pub fn uniform(values: usize) -> Result<Self> {
        Self::new(vec![1.0; values])
    }

    /// The Zipf distribution of the experiments (§2, §4): value *i* has weight 1 / (*i* + 1)^`theta`, so
    /// codes are ranks of popularity. That is what reproduces Table 1; see [`Frequencies::shuffled`].
    ///
    /// # Errors
    /// [`LayoutError::Frequencies`] for no values, or a `theta` that is not finite.
    pub fn zipf(values: usize, theta: f64) -> Result<Self> {
        Self::new((1..=values).map(|rank| (rank as f64).powf(-theta)).collect())
    }

    /// Those of a sample of a column of `values` values. Values that the sample does not hold count as a
    /// tenth of an occurrence, so that a rare group costs a little rather than nothing.
    ///
    /// # Errors
    /// [`LayoutError::Value`] for a sample that holds others, [`LayoutError::Frequencies`] for no values.
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

    /// The same frequencies under codes in random order.
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

    /// A column of independent draws. The alias method makes a draw cost the same for any number of values;
    /// pieces of the column have random streams of their own, so it depends on the seed and not on the
    /// threads that draw it.
    #[must_use]
    pub fn column(&self, rows: usize, seed: u64) -> Vec<u32> {
        let Ok(sampler) = self.sampler() else {
            return Vec::new(); // `new` has made one already
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
