//! The points of the thesis (§5.5.1).

use galatea_kmeans::{Points, PointsBuilder};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rayon::prelude::*;

use crate::Result;

/// Number of centres.
const CENTRES: usize = 10;
/// Their maximum coordinate.
const EXTENT: f32 = 100.0;
/// The deviation of points from their centre.
const DEVIATION: f32 = 10.0;
/// Number of points generated at a time.
const BATCH: u64 = 1 << 22;
/// Number of values that one task generates.
const TASK: usize = 1 << 16;

/// Generates random points. They depend only on the seed, not on the number of threads.
pub(super) struct Generator {
    features: usize,
    seed: u64,
    /// The coordinates, row by row.
    centres: Vec<f32>,
}

impl Generator {
    pub(super) fn new(features: usize, seed: u64) -> Self {
        let mut random = SmallRng::seed_from_u64(seed);
        Self {
            features,
            seed,
            centres: (0..CENTRES * features)
                .map(|_| random.random_range(-EXTENT..EXTENT))
                .collect(),
        }
    }

    /// Generates `count` points.
    pub(super) fn points(&self, count: u64) -> Result<Points> {
        let names = (0..self.features).map(|feature| format!("f{feature}")).collect();
        let mut builder = PointsBuilder::new(names)?;
        for first in (0..count).step_by(BATCH as usize) {
            let len = BATCH.min(count - first) as usize;
            let columns: Vec<Vec<f32>> = (0..self.features)
                .into_par_iter()
                .map(|feature| self.column(feature, first, len))
                .collect();
            builder.append(&columns)?;
        }
        Ok(builder.finish()?)
    }

    fn column(&self, feature: usize, first: u64, len: usize) -> Vec<f32> {
        let mut column = vec![0f32; len];
        column
            .par_chunks_mut(TASK)
            .enumerate()
            .for_each(|(task, values)| {
                let start = first + (task * TASK) as u64;
                let mut random = SmallRng::seed_from_u64(self.seed ^ start.rotate_left(20) ^ feature as u64);
                for (pair, values) in values.chunks_mut(2).enumerate() {
                    // Box-Muller: two values at a time.
                    let radius = (-2.0 * (1.0 - random.random::<f32>()).ln()).sqrt() * DEVIATION;
                    let (sine, cosine) = (std::f32::consts::TAU * random.random::<f32>()).sin_cos();
                    for (at, (value, part)) in values.iter_mut().zip([sine, cosine]).enumerate() {
                        let centre = centre_of(start + (2 * pair + at) as u64);
                        *value = self.centres[centre * self.features + feature] + radius * part;
                    }
                }
            });
        column
    }
}

/// The centre of a point. Those of neighbouring points are independent.
fn centre_of(point: u64) -> usize {
    let mixed = point.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (((mixed >> 32) * CENTRES as u64) >> 32) as usize
}
