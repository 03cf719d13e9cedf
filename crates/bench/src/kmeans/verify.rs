//! An iteration on the device against 64-bit floats.

use galatea_kernels::kmeans::matrix_error;
use galatea_kmeans::{DeviceKMeans, Execution, Init, KMeans, Launches, PassShape, Points, Scores};
use rayon::prelude::*;

use crate::Result;

/// How much two squared distances can differ that scores in 32-bit floats tell the wrong way round. With x
/// and c relative to the origin, the error of a score x·c - |c|²/2 is below ε ((d + 3) |x| |c| + |c|²), ε =
/// 2^-24; of the difference of two, twice that; squared distances differ by twice as much as scores. The
/// origin is taken to be the mean of the centroids, which is a fourth more or less.
fn tie(features: usize, point: f64, centroid: f64) -> f64 {
    let score = 2f64.powi(-24) * ((features as f64 + 3.0) * point * centroid + centroid * centroid);
    1.25 * 4.0 * score
}

/// The sum of the squares of the greatest values by feature is more than the square of the farthest point's
/// distance: so many times, taken for points around centres in a box.
const RADIUS: f64 = 3.0;

/// Errors of a shape.
pub(super) struct Verified {
    /// Share of points whose label is another one than the reference's, ties or not.
    pub(super) label_mismatch: f64,
    /// Those whose centroid is farther than the nearest by more than rounding explains.
    wrong: u64,
    /// Greatest difference of a coordinate of the centroids to the mean of the points that the device gave
    /// them, in shares of 100.
    pub(super) centroid_error: f64,
    /// By matrix units the same beyond what points explain that are as far from another centroid but for
    /// [`matrix_error`].
    unexplained: f64,
}

impl Verified {
    pub(super) fn is_right(&self) -> bool {
        self.wrong == 0 && self.unexplained < 1e-5
    }
}

/// One iteration, and the labels before it.
pub(super) fn verify(
    on: &DeviceKMeans<'_>,
    points: &Points,
    shape: PassShape,
    execution: Execution,
) -> Result<Verified> {
    let (k, d) = (shape.clusters as usize, shape.features as usize);
    let first = points.rows(0..k as u64);
    let mut run = on.start_with(points, shape)?;
    run.execute_as(execution)?;
    run.place_centroids(&first)?;
    run.queue_iteration()?;
    let found = run.read_centroids()?;
    let labels = KMeans {
        max_iter: 0,
        init: Init::Given(first.clone()),
        launches: Launches::Each,
        ..KMeans::new(k)
    }
    .fit_with(points, Some(on), true, &mut |_| true)?
    .labels
    .expect("labels were asked for");
    let labels: Vec<u32> = labels.iter().collect();

    let mean = |f: usize| first.iter().skip(f).step_by(d).sum::<f64>() / k as f64;
    let origin: Vec<f64> = (0..d).map(mean).collect();
    let length = |row: &[f64]| {
        let squares = row
            .iter()
            .zip(&origin)
            .map(|(value, origin)| (value - origin).powi(2));
        squares.sum::<f64>().sqrt()
    };
    let farthest = first.chunks_exact(d).map(length).fold(0.0, f64::max);
    let farthest_point = (0..points.len())
        .into_par_iter()
        .map(|point| length(&points.rows(point..point + 1)))
        .reduce(|| 0.0, f64::max);
    let close = match shape.scores {
        Scores::Matrix => matrix_error(shape.features, farthest_point.powi(2) * RADIUS),
        Scores::Lanes => 0.0,
    };
    let pieces: Vec<_> = (0..points.len())
        .step_by(4096)
        .collect::<Vec<_>>()
        .into_par_iter()
        .map(|start| {
            let end = points.len().min(start + 4096);
            let rows = points.rows(start..end);
            let (mut sums, mut masses) = (vec![0.0; k * d], vec![0u64; k]);
            let mut ties = vec![0u64; k];
            let (mut other, mut wrong) = (0u64, 0u64);
            for (row, label) in rows.chunks_exact(d).zip(&labels[start as usize..]) {
                let squares = first.chunks_exact(d).map(|centroid| {
                    let differences = row.iter().zip(centroid).map(|(x, c)| (x - c) * (x - c));
                    differences.sum::<f64>()
                });
                let squares: Vec<f64> = squares.collect();
                let mut nearest = 0;
                for (cluster, square) in squares.iter().enumerate() {
                    if *square < squares[nearest] {
                        nearest = cluster;
                    }
                }
                for (cluster, square) in squares.iter().enumerate() {
                    if cluster != nearest && square - squares[nearest] < close {
                        ties[cluster] += 1;
                        ties[nearest] += 1;
                    }
                }
                let label = *label as usize;
                if label != nearest {
                    other += 1;
                    let margin = squares
                        .get(label)
                        .map_or(f64::INFINITY, |of| of - squares[nearest]);
                    wrong += u64::from(margin > tie(d, length(row), farthest));
                }
                if label < k {
                    masses[label] += 1;
                    for (sum, x) in sums[label * d..][..d].iter_mut().zip(row) {
                        *sum += x;
                    }
                }
            }
            (sums, masses, other, wrong, ties)
        })
        .collect();
    let (mut sums, mut masses, mut other, mut wrong) = (vec![0.0; k * d], vec![0u64; k], 0, 0);
    let mut ties = vec![0u64; k];
    for piece in &pieces {
        ties.iter_mut().zip(&piece.4).for_each(|(all, some)| *all += some);
        sums.iter_mut().zip(&piece.0).for_each(|(all, some)| *all += some);
        masses
            .iter_mut()
            .zip(&piece.1)
            .for_each(|(all, some)| *all += some);
        other += piece.2;
        wrong += piece.3;
    }
    let (mut error, mut unexplained) = (0.0f64, 0.0f64);
    for (at, value) in found.iter().enumerate() {
        let mass = masses[at / d];
        let expected = if mass > 0 {
            sums[at] / mass as f64
        } else {
            first[at]
        };
        let of = (value - expected).abs() / 100.0;
        error = error.max(of);
        let explained = 2.0 * farthest_point * ties[at / d] as f64 / mass.max(1) as f64 / 100.0;
        unexplained = unexplained.max(of - explained);
    }
    Ok(Verified {
        label_mismatch: other as f64 / points.len() as f64,
        wrong,
        centroid_error: error,
        unexplained,
    })
}
