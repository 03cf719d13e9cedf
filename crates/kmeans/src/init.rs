//! First centroids.
//!
//! k-means++ (Arthur and Vassilvitskii 2007) draws each centroid among the points with a probability in proportion to its squared
//! distance to those drawn before. It is done on the host, over all points where they are at most [`SAMPLE`], and over as many drawn
//! without bias where there are more: a pass a centroid over data larger than the device would take longer than the fit.

use rand::Rng;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::Points;

/// Points that k-means++ draws from at most.
pub(crate) const SAMPLE: u64 = 1 << 16;

/// The first k points.
pub(crate) fn first(points: &Points, clusters: usize) -> Vec<f64> {
    gather(points, (0..clusters as u64).collect())
}

/// k different points.
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
    let sample = points.len().min(SAMPLE.max(16 * clusters as u64));
    let rows = gather(points, draw(points.len(), sample, &mut random));
    let d = points.features();
    let row = |index: usize| &rows[index * d..][..d];
    let mut nearest = vec![f64::INFINITY; sample as usize];
    let mut centroids = Vec::with_capacity(clusters * d);
    let mut next = random.random_range(0..sample) as usize;
    loop {
        centroids.extend_from_slice(row(next));
        if centroids.len() == clusters * d {
            return centroids;
        }
        let mut total = 0.0;
        for (index, nearest) in nearest.iter_mut().enumerate() {
            let square: f64 = row(index)
                .iter()
                .zip(row(next))
                .map(|(a, b)| (a - b) * (a - b))
                .sum();
            *nearest = nearest.min(square);
            total += *nearest;
        }
        let mut left = random.random_range(0.0..1.0) * total;
        // With all points drawn already, equal ones are left: any will do.
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
