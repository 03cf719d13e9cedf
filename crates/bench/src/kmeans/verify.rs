//! An iteration on the device against 64-bit floats.

use galatea_kmeans::{DeviceKMeans, Init, KMeans, PassShape, Points};
use rayon::prelude::*;

use crate::Result;

/// Squared distances that differ by less than this share of their greatest terms are a tie to 32-bit floats.
const TIE: f64 = 4e-6;

/// How a shape did.
pub(super) struct Verified {
    /// Share of points whose label is another one than the reference's, ties or not.
    pub(super) label_mismatch: f64,
    /// The same without ties.
    wrong: u64,
    /// Greatest difference of a coordinate of the centroids, in shares of 100.
    pub(super) centroid_error: f64,
}

impl Verified {
    pub(super) fn is_right(&self) -> bool {
        // A point of a tie that changes its cluster moves both.
        self.wrong == 0 && self.centroid_error < 1e-4 + 10.0 * self.label_mismatch
    }
}

/// One iteration, and the labels before it.
pub(super) fn verify(on: &DeviceKMeans<'_>, points: &Points, shape: PassShape) -> Result<Verified> {
    let (k, d) = (shape.clusters as usize, shape.features as usize);
    let first = points.rows(0..k as u64);
    let mut run = on.start_with(points, shape)?;
    run.place_centroids(&first)?;
    run.queue_iteration()?;
    let found = run.read_centroids()?;
    let labels = KMeans {
        max_iter: 0,
        init: Init::Given(first.clone()),
        ..KMeans::new(k)
    }
    .fit_with(points, Some(on), true, &mut |_| true)?
    .labels
    .expect("labels were asked for");
    let labels: Vec<u32> = labels.iter().collect();

    let pieces: Vec<_> = (0..points.len())
        .step_by(4096)
        .collect::<Vec<_>>()
        .into_par_iter()
        .map(|start| {
            let end = points.len().min(start + 4096);
            let rows = points.rows(start..end);
            let (mut sums, mut masses) = (vec![0.0; k * d], vec![0u64; k]);
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
                if *label as usize != nearest {
                    other += 1;
                    let scale = 150.0 * 150.0 * d as f64;
                    let margin = squares
                        .get(*label as usize)
                        .map_or(f64::INFINITY, |of| of - squares[nearest]);
                    wrong += u64::from(margin > TIE * scale);
                }
                masses[nearest] += 1;
                for (sum, x) in sums[nearest * d..][..d].iter_mut().zip(row) {
                    *sum += x;
                }
            }
            (sums, masses, other, wrong)
        })
        .collect();
    let (mut sums, mut masses, mut other, mut wrong) = (vec![0.0; k * d], vec![0u64; k], 0, 0);
    for piece in &pieces {
        sums.iter_mut().zip(&piece.0).for_each(|(all, some)| *all += some);
        masses
            .iter_mut()
            .zip(&piece.1)
            .for_each(|(all, some)| *all += some);
        other += piece.2;
        wrong += piece.3;
    }
    let mut error = 0.0f64;
    for (at, value) in found.iter().enumerate() {
        let mass = masses[at / d];
        let expected = if mass > 0 {
            sums[at] / mass as f64
        } else {
            first[at]
        };
        error = error.max((value - expected).abs() / 100.0);
    }
    Ok(Verified {
        label_mismatch: other as f64 / points.len() as f64,
        wrong,
        centroid_error: error,
    })
}
