//! The work of one thread on one piece of points: nearest centroids and sums, in vectors of points.
//!
//! A block of 256 points at a time is stored relative to the origin in the first-level cache. 32 of them are
//! compared with two centroids at once, so scores stay in registers and each loaded value is used twice.

use galatea_device::{VectorWork, in_vectors};

use super::{CpuSums, Partial};
use crate::points::Chunk;

/// Points that are assigned at a time.
pub(super) const BLOCK: usize = 256;
/// Points that are compared at once: four vectors of 32 bytes.
const LANES: usize = 32;
/// Maximum number of clusters for which sums by lanes are the fastest, because they take a step per cluster.
const FEW_CLUSTERS: usize = 8;
/// The label of padding, which is no cluster.
const NONE: u32 = u32::MAX;

/// Centroids split into the parts of their layout. Rows and norms are padded to a multiple of four; no score
/// is below that of a padded norm.
#[derive(Clone, Copy)]
pub(super) struct View<'c> {
    pub(super) origin: &'c [f32],
    rows: &'c [f32],
    norms: &'c [f32],
    pub(super) clusters: usize,
}

impl<'c> View<'c> {
    pub(super) fn new(words: &'c [f32], clusters: usize, features: usize) -> Self {
        let (origin, rest) = words.split_at(features.next_multiple_of(4));
        let padded = clusters.next_multiple_of(4);
        let (rows, norms) = rest.split_at(padded * features);
        Self {
            origin: &origin[..features],
            rows,
            norms: &norms[..padded],
            clusters,
        }
    }
}

/// A pass over a range of a chunk's points.
pub(super) struct Piece<'a> {
    pub(super) chunk: &'a Chunk,
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) view: View<'a>,
    /// The method of summing; none if sums are not needed.
    pub(super) sums: Option<CpuSums>,
    pub(super) inertia: bool,
    /// Labels of the range, read or written.
    pub(super) labels: Labelling<'a>,
}

/// Labels of a range of points.
pub(super) enum Labelling<'a> {
    /// Labels are not stored.
    Dropped,
    Written(&'a mut [u32]),
    /// Computed by another pass.
    Given(&'a [u32]),
}

impl Piece<'_> {
    pub(super) fn pass(self) -> Partial {
        in_vectors(self)
    }
}

impl VectorWork for Piece<'_> {
    type Output = Partial;

    #[inline(always)]
    fn run<const FUSED: bool>(mut self) -> Partial {
        let (d, k) = (self.view.origin.len(), self.view.clusters);
        let mut partial = Partial::new(k, d);
        let mut x = vec![0f32; d * BLOCK];
        let mut label = [0u32; BLOCK];
        for first in (self.start..self.end).step_by(BLOCK) {
            let len = BLOCK.min(self.end - first);
            for (f, (x, origin)) in x.chunks_exact_mut(BLOCK).zip(self.view.origin).enumerate() {
                let values = &self.chunk.feature(f)[first..first + len];
                for (x, value) in x.iter_mut().zip(values) {
                    *x = value - origin;
                }
            }
            let at = first - self.start;
            match &mut self.labels {
                Labelling::Given(labels) => label[..len].copy_from_slice(&labels[at..at + len]),
                Labelling::Dropped => nearest::<FUSED>(&x, &self.view, &mut label),
                Labelling::Written(labels) => {
                    nearest::<FUSED>(&x, &self.view, &mut label);
                    labels[at..at + len].copy_from_slice(&label[..len]);
                }
            }
            label[len..].fill(NONE);
            match self.sums {
                None => {}
                Some(CpuSums::Auto) if k <= FEW_CLUSTERS => by_lanes(&x, &label, &mut partial),
                Some(CpuSums::Lanes) => by_lanes(&x, &label, &mut partial),
                Some(CpuSums::Merge) => by_points(&x, &label[..len], &mut partial),
                Some(CpuSums::Features | CpuSums::Auto) => by_features(&x, &label[..len], &mut partial),
            }
            if self.inertia {
                for (i, label) in label[..len].iter().enumerate() {
                    let row = &self.view.rows[*label as usize * d..][..d];
                    let square = x.chunks_exact(BLOCK).zip(row).fold(0f32, |sum, (x, centroid)| {
                        let difference = x[i] - centroid;
                        sum + difference * difference
                    });
                    partial.inertia += f64::from(square);
                }
            }
        }
        partial
    }
}

#[inline(always)]
fn multiply_add<const FUSED: bool>(a: f32, b: f32, sum: f32) -> f32 {
    if FUSED { a.mul_add(b, sum) } else { sum + a * b }
}

/// For each point, the label with the greatest score; of equal scores, the least label.
#[inline(always)]
fn nearest<const FUSED: bool>(x: &[f32], view: &View<'_>, label: &mut [u32; BLOCK]) {
    let d = view.origin.len();
    for first in (0..BLOCK).step_by(LANES) {
        let mut best = [f32::NEG_INFINITY; LANES];
        let mut of = [0u32; LANES];
        for (pair, norms) in view.norms.chunks_exact(2).enumerate() {
            let (one, two) = view.rows[2 * pair * d..][..2 * d].split_at(d);
            let mut scores = [[norms[0]; LANES], [norms[1]; LANES]];
            for ((x, one), two) in x.chunks_exact(BLOCK).zip(one).zip(two) {
                let x: &[f32; LANES] = x[first..first + LANES]
                    .try_into()
                    .expect("whole lanes of a block");
                for i in 0..LANES {
                    scores[0][i] = multiply_add::<FUSED>(x[i], *one, scores[0][i]);
                    scores[1][i] = multiply_add::<FUSED>(x[i], *two, scores[1][i]);
                }
            }
            for (each, score) in scores.iter().enumerate() {
                let cluster = (2 * pair + each) as u32;
                for i in 0..LANES {
                    let better = score[i] > best[i];
                    best[i] = if better { score[i] } else { best[i] };
                    of[i] = if better { cluster } else { of[i] };
                }
            }
        }
        label[first..first + LANES].copy_from_slice(&of);
    }
}

/// See [`CpuSums::Lanes`].
#[inline(always)]
fn by_lanes(x: &[f32], label: &[u32; BLOCK], partial: &mut Partial) {
    let d = x.len() / BLOCK;
    for (cluster, mass) in partial.masses.iter_mut().enumerate() {
        let cluster_label = cluster as u32;
        let mut counts = [0u32; LANES];
        for labels in label.chunks_exact(LANES) {
            for i in 0..LANES {
                counts[i] += u32::from(labels[i] == cluster_label);
            }
        }
        *mass += counts.iter().map(|count| u64::from(*count)).sum::<u64>();
        for (sum, x) in partial.sums[cluster * d..][..d]
            .iter_mut()
            .zip(x.chunks_exact(BLOCK))
        {
            let mut sums = [0f32; LANES];
            for (labels, x) in label.chunks_exact(LANES).zip(x.chunks_exact(LANES)) {
                for i in 0..LANES {
                    sums[i] += if labels[i] == cluster_label { x[i] } else { 0.0 };
                }
            }
            *sum += sums.iter().map(|sum| f64::from(*sum)).sum::<f64>();
        }
    }
}

/// See [`CpuSums::Merge`].
#[inline(always)]
fn by_points(x: &[f32], label: &[u32], partial: &mut Partial) {
    let d = x.len() / BLOCK;
    for (i, label) in label.iter().enumerate() {
        partial.masses[*label as usize] += 1;
        let row = &mut partial.sums[*label as usize * d..][..d];
        for (sum, x) in row.iter_mut().zip(x.chunks_exact(BLOCK)) {
            *sum += f64::from(x[i]);
        }
    }
}

/// See [`CpuSums::Features`].
#[inline(always)]
fn by_features(x: &[f32], label: &[u32], partial: &mut Partial) {
    let d = x.len() / BLOCK;
    for label in label {
        partial.masses[*label as usize] += 1;
    }
    for (f, x) in x.chunks_exact(BLOCK).enumerate() {
        for (label, x) in label.iter().zip(x) {
            partial.sums[*label as usize * d + f] += f64::from(*x);
        }
    }
}
