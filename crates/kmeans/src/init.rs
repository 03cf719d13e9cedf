//! Initial centroids.
//!
//! k-means++ (Arthur and Vassilvitskii 2007) draws each centroid from the points with a probability
//! proportional to its squared distance to those drawn before. It runs on the host. It draws from all points
//! if they have at most [`EXACT_VALUES`] values and the work is at most [`EXACT_WORK`], and otherwise from an
//! unbiased sample. A pass per centroid over data larger than the device would take longer than the fit. A
//! sample of m points cannot detect clusters of less than about 1 / m of the points: a cluster of n / 10000
//! points has 6.5 in the smallest sample, and is missed by it once in 700 times. The iterations that follow
//! read all points.

use rand::Rng;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use crate::Points;

/// Minimum number of points of the sample from which k-means++ draws; 16 points per cluster if that is more.
const SAMPLE: u64 = 1 << 16;
/// Maximum number of values of the points for which it draws from all.
const EXACT_VALUES: u64 = 1 << 23;
/// Maximum number of squared differences of values for which it draws from all.
const EXACT_WORK: u64 = 1 << 30;
/// Number of points in a task that adds up distances.
const TASK: usize = 1 << 13;

/// The first k points.
pub(crate) fn first(points: &Points, clusters: usize) -> Vec<f64> {
    gather(points, (0..clusters as u64).collect())
}

/// k different random points.
pub(crate) fn random(points: &Points, clusters: usize, seed: u64) -> Vec<f64> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    gather(points, draw(points.len(), clusters as u64, &mut random))
}

fn gather(points: &Points, numbers: Vec<u64>) -> Vec<f64> {
    let mut rows = Vec::with_capacity(numbers.len() * points.features());
    for point in numbers {
        points.gather(point, &mut rows);
    }
    rows
}

/// Different numbers below `of`, in ascending order: Floyd's sampling.
fn draw(of: u64, count: u64, random: &mut impl Rng) -> Vec<u64> {
    let mut drawn = std::collections::BTreeSet::new();
    for least in of - count.min(of)..of {
        let number = random.random_range(0..=least);
        if !drawn.insert(number) {
            drawn.insert(least);
        }
    }
    drawn.into_iter().collect()
}

/// k points by D² sampling.
pub(crate) fn plus_plus(points: &Points, clusters: usize, seed: u64) -> Vec<f64> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let d = points.features();
    let values = points.len().saturating_mul(d as u64);
    let all = values <= EXACT_VALUES && values.saturating_mul(clusters as u64) <= EXACT_WORK;
    let (sample, rows) = if all {
        (points.len(), gather(points, (0..points.len()).collect()))
    } else {
        let sample = points.len().min(SAMPLE.max(16 * clusters as u64));
        (sample, gather(points, draw(points.len(), sample, &mut random)))
    };
    let row = |index: usize| &rows[index * d..][..d];
    let mut nearest = vec![f64::INFINITY; sample as usize];
    let mut centroids = Vec::with_capacity(clusters * d);
    let mut next = random.random_range(0..sample) as usize;
    loop {
        centroids.extend_from_slice(row(next));
        if centroids.len() == clusters * d {
            return centroids;
        }
        let drawn = row(next);
        let tasks = nearest.par_chunks_mut(TASK).zip(rows.par_chunks(TASK * d));
        let sums: Vec<f64> = tasks
            .map(|(nearest, rows)| {
                let pairs = nearest.iter_mut().zip(rows.chunks_exact(d));
                pairs.fold(0.0, |sum, (nearest, row)| {
                    let squares = row.iter().zip(drawn).map(|(a, b)| (a - b) * (a - b));
                    *nearest = nearest.min(squares.sum());
                    sum + *nearest
                })
            })
            .collect();
        // Sums are added in the order of tasks, so that a seed draws the same points for any number of
        // threads.
        let total: f64 = sums.iter().sum();
        let mut left = random.random_range(0.0..1.0) * total;
        // If all distinct points have been drawn, every point has distance 0, so any point will do.
        next = random.random_range(0..sample) as usize;
        for (index, nearest) in nearest.iter().enumerate() {
            if *nearest > 0.0 {
                next = index;
                left -= nearest;
                if left < 0.0 {
                    break;
                }
            }
        }
    }
}
