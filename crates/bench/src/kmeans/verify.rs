//! Checks iterations on the device against 64-bit floats.

use galatea_kernels::kmeans::matrix_error;
use galatea_kmeans::{DeviceKMeans, Execution, Init, KMeans, Launches, PassShape, Points, Scores};
use rayon::prelude::*;

use crate::Result;

/// The maximum difference of two squared distances that scores in 32-bit floats may order wrongly. With x and
/// c relative to the origin, the error of a score x·c - |c|²/2 is below ε ((d + 3) |x| |c| + |c|²), ε =
/// 2^-24. The error of the difference of two scores is twice that, and squared distances differ by twice as
/// much as scores. The mean of the centroids approximates the origin, so a fourth is added.
fn tie(features: usize, point: f64, centroid: f64) -> f64 {
    let score = 2f64.powi(-24) * ((features as f64 + 3.0) * point * centroid + centroid * centroid);
    1.25 * 4.0 * score
}

/// The sum of the squared maxima by feature exceeds the squared distance of the farthest point by this
/// factor, an estimate for points around centres in a box.
const RADIUS: f64 = 3.0;

/// Errors of a shape.
pub(super) struct Verified {
    /// Share of points with a label that differs from the reference's, including ties.
    pub(super) label_mismatch: f64,
    /// Number of points assigned to a centroid that is farther than the nearest by more than rounding
    /// explains.
    wrong: u64,
    /// Largest difference of a coordinate of the centroids from the mean of the points that the device
    /// assigned to them, as a fraction of 100.
    pub(super) centroid_error: f64,
    /// For matrix units, the part of that difference which points at nearly equal distances (within
    /// [`matrix_error`]) do not explain.
    unexplained: f64,
}

impl Verified {
    pub(super) fn is_right(&self) -> bool {
        self.wrong == 0 && self.unexplained < 1e-5
    }
}

/// An iteration from the first k points, in 64-bit floats, against which shapes are checked.
pub(super) struct Reference<'p> {
    points: &'p Points,
    first: Vec<f64>,
    /// The means of points by their labels from the device, which every shape shares, if a cluster has
    /// points.
    means: Vec<f64>,
    masses: Vec<u64>,
    /// For each cluster, the number of points that are equally far from another, within [`matrix_error`].
    ties: Vec<u64>,
    farthest_point: f64,
    other: u64,
    wrong: u64,
}

/// The results of a slice of the points.
struct Piece {
    sums: Vec<f64>,
    masses: Vec<u64>,
    ties: Vec<u64>,
    other: u64,
    wrong: u64,
}

impl Piece {
    fn new(clusters: usize, features: usize) -> Self {
        Self {
            sums: vec![0.0; clusters * features],
            masses: vec![0; clusters],
            ties: vec![0; clusters],
            other: 0,
            wrong: 0,
        }
    }

    fn add(mut self, other: &Self) -> Self {
        let sums = self.sums.iter_mut().zip(&other.sums);
        sums.for_each(|(all, some)| *all += some);
        for (all, some) in [(&mut self.masses, &other.masses), (&mut self.ties, &other.ties)] {
            all.iter_mut().zip(some).for_each(|(all, some)| *all += some);
        }
        self.other += other.other;
        self.wrong += other.wrong;
        self
    }
}

impl<'p> Reference<'p> {
    /// Computes the reference over points, with labels from the device.
    pub(super) fn new(on: &DeviceKMeans<'_>, points: &'p Points, clusters: u32) -> Result<Self> {
        let (k, d) = (clusters as usize, points.features());
        let first = points.rows(0..k as u64);
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
            let squares = row.iter().zip(&origin).map(|(x, zero)| (x - zero).powi(2));
            squares.sum::<f64>().sqrt()
        };
        let farthest = first.chunks_exact(d).map(length).fold(0.0, f64::max);
        let starts: Vec<u64> = (0..points.len()).step_by(4096).collect();
        let rows_from = |start: u64| points.rows(start..points.len().min(start + 4096));
        let farthest_point = starts
            .par_iter()
            .map(|start| rows_from(*start).chunks_exact(d).map(length).fold(0.0, f64::max))
            .reduce(|| 0.0, f64::max);
        let close = matrix_error(d as u32, farthest_point.powi(2) * RADIUS);
        let piece = |start: u64| {
            let mut of = Piece::new(k, d);
            for (row, label) in rows_from(start).chunks_exact(d).zip(&labels[start as usize..]) {
                let squares: Vec<f64> = first
                    .chunks_exact(d)
                    .map(|centroid| row.iter().zip(centroid).map(|(x, c)| (x - c) * (x - c)).sum())
                    .collect();
                let mut nearest = 0;
                for (cluster, square) in squares.iter().enumerate() {
                    if *square < squares[nearest] {
                        nearest = cluster;
                    }
                }
                for (cluster, square) in squares.iter().enumerate() {
                    if cluster != nearest && square - squares[nearest] < close {
                        of.ties[cluster] += 1;
                        of.ties[nearest] += 1;
                    }
                }
                let label = *label as usize;
                if label != nearest {
                    of.other += 1;
                    let margin = squares
                        .get(label)
                        .map_or(f64::INFINITY, |square| square - squares[nearest]);
                    of.wrong += u64::from(margin > tie(d, length(row), farthest));
                }
                if label < k {
                    of.masses[label] += 1;
                    let sums = of.sums[label * d..][..d].iter_mut();
                    sums.zip(row).for_each(|(sum, x)| *sum += x);
                }
            }
            of
        };
        let pieces: Vec<Piece> = starts.into_par_iter().map(piece).collect();
        let all = pieces.iter().fold(Piece::new(k, d), Piece::add);
        let means = (0..k * d).map(|at| match all.masses[at / d] {
            0 => first[at],
            mass => all.sums[at] / mass as f64,
        });
        Ok(Self {
            points,
            means: means.collect(),
            masses: all.masses,
            ties: all.ties,
            farthest_point,
            other: all.other,
            wrong: all.wrong,
            first,
        })
    }

    pub(super) fn points(&self) -> &'p Points {
        self.points
    }

    /// Checks one iteration of a shape against the reference.
    pub(super) fn hold(
        &self,
        on: &DeviceKMeans<'_>,
        shape: PassShape,
        execution: Execution,
    ) -> Result<Verified> {
        let d = self.points.features();
        let mut run = on.start_with(self.points, shape)?;
        run.execute_as(execution)?;
        run.place_centroids(&self.first)?;
        run.queue_iteration()?;
        let (mut error, mut unexplained) = (0.0f64, 0.0f64);
        for (at, (found, expected)) in run.read_centroids()?.iter().zip(&self.means).enumerate() {
            let of = (found - expected).abs() / 100.0;
            error = error.max(of);
            let ties = match shape.scores {
                Scores::Matrix => self.ties[at / d] as f64 / self.masses[at / d].max(1) as f64,
                Scores::Lanes => 0.0,
            };
            unexplained = unexplained.max(of - 2.0 * self.farthest_point * ties / 100.0);
        }
        Ok(Verified {
            label_mismatch: self.other as f64 / self.points.len() as f64,
            wrong: self.wrong,
            centroid_error: error,
            unexplained,
        })
    }
}
