//! Passes on the CPU: in place, by all threads of the rayon pool.
//!
//! A thread takes 256 points at a time and goes through them centroid by centroid, so that the compiler's
//! vectors run along the points, which are consecutive in a column; distances stay in its first-level cache
//! (KM-14, KM-16). Partial sums are those of pieces of 2^15 points, added in the order of pieces: the result
//! does not depend on the number of threads.

use galatea_kernels::kmeans::Centroids;
use rayon::prelude::*;

use crate::labels::Labels;
use crate::points::Chunk;
use crate::processor::{Finish, Iterations, Monitor, Processor, Rule};
use crate::{KMeansError, Points, Result};

/// Points that a thread assigns at a time.
const BLOCK: usize = 256;
/// Points of a piece of work.
const PIECE: usize = 1 << 15;

/// The sums of a pass.
#[derive(Debug, Clone)]
pub(crate) struct Partial {
    /// Feature sums by cluster, relative to the origin of the centroids.
    pub(crate) sums: Vec<f64>,
    /// Points by cluster.
    pub(crate) masses: Vec<u64>,
    /// Sum of squared distances.
    pub(crate) inertia: f64,
}

impl Partial {
    pub(crate) fn new(clusters: usize, features: usize) -> Self {
        Self {
            sums: vec![0.0; clusters * features],
            masses: vec![0; clusters],
            inertia: 0.0,
        }
    }

    /// As a slot of the device's partial sums.
    pub(crate) fn words(&self) -> Vec<f64> {
        let masses = self.masses.iter().map(|mass| *mass as f64);
        let words = self.sums.iter().copied().chain(masses);
        words.chain([self.inertia]).collect()
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.inertia += other.inertia;
        for (sum, other) in self.sums.iter_mut().zip(&other.sums) {
            *sum += other;
        }
        for (mass, other) in self.masses.iter_mut().zip(&other.masses) {
            *mass += other;
        }
    }
}

/// The CPU as a processor of passes.
#[derive(Debug)]
pub(crate) struct Cpu<'p> {
    pub(crate) points: &'p Points,
}

/// Centroids split into the parts of their layout.
struct View<'c> {
    origin: &'c [f32],
    rows: &'c [f32],
    norms: &'c [f32],
}

impl<'c> View<'c> {
    fn new(words: &'c [f32], clusters: usize, features: usize) -> Self {
        let (origin, rest) = words.split_at(features.next_multiple_of(4));
        let (rows, norms) = rest.split_at(clusters.next_multiple_of(4) * features);
        Self {
            origin: &origin[..features],
            rows: &rows[..clusters * features],
            norms: &norms[..clusters],
        }
    }
}

/// One pass over a range of a chunk's points; labels go to `labels` where it is not empty.
fn piece(
    chunk: &Chunk,
    start: usize,
    end: usize,
    view: &View<'_>,
    inertia: bool,
    labels: &mut [u32],
) -> Partial {
    let (d, k) = (view.origin.len(), view.norms.len());
    let mut partial = Partial::new(k, d);
    let mut x = vec![0f32; d * BLOCK];
    let (mut score, mut best, mut label) = ([0f32; BLOCK], [0f32; BLOCK], [0u32; BLOCK]);
    for first in (start..end).step_by(BLOCK) {
        let len = BLOCK.min(end - first);
        for (f, (x, origin)) in x.chunks_exact_mut(BLOCK).zip(view.origin).enumerate() {
            let values = &chunk.feature(f)[first..first + len];
            for (x, value) in x.iter_mut().zip(values) {
                *x = value - origin;
            }
        }
        best.fill(f32::NEG_INFINITY);
        label.fill(0);
        for (cluster, (row, norm)) in view.rows.chunks_exact(d).zip(view.norms).enumerate() {
            score.fill(*norm);
            for (x, centroid) in x.chunks_exact(BLOCK).zip(row) {
                for (score, x) in score.iter_mut().zip(x) {
                    *score += x * centroid;
                }
            }
            for ((best, label), score) in best.iter_mut().zip(&mut label).zip(&score) {
                let better = score > best;
                *best = if better { *score } else { *best };
                *label = if better { cluster as u32 } else { *label };
            }
        }
        for label in &label[..len] {
            partial.masses[*label as usize] += 1;
        }
        for (f, x) in x.chunks_exact(BLOCK).enumerate() {
            for (label, x) in label[..len].iter().zip(x) {
                partial.sums[*label as usize * d + f] += f64::from(*x);
            }
        }
        if inertia {
            for (i, label) in label[..len].iter().enumerate() {
                let row = &view.rows[*label as usize * d..][..d];
                let square = x.chunks_exact(BLOCK).zip(row).fold(0f32, |sum, (x, centroid)| {
                    let difference = x[i] - centroid;
                    sum + difference * difference
                });
                partial.inertia += f64::from(square);
            }
        }
        if !labels.is_empty() {
            labels[first - start..][..len].copy_from_slice(&label[..len]);
        }
    }
    partial
}

/// One pass over chunks by the centroids of each start, piece by piece, so that a piece comes from memory
/// once. Labels, of one start, are appended in order.
pub(crate) fn pass<'c>(
    chunks: impl Iterator<Item = &'c Chunk>,
    starts: &[&Centroids],
    (clusters, features): (usize, usize),
    inertia: bool,
    mut labels: Option<&mut Labels>,
) -> Vec<Partial> {
    let views: Vec<View<'_>> = starts
        .iter()
        .map(|centroids| View::new(centroids.words(), clusters, features))
        .collect();
    let mut totals = vec![Partial::new(clusters, features); views.len()];
    let wanted = labels.is_some();
    debug_assert!(!wanted || starts.len() == 1, "labels are of one start");
    for chunk in chunks {
        let firsts: Vec<usize> = (0..chunk.len).step_by(PIECE).collect();
        let pieces: Vec<(Vec<Partial>, Vec<u32>)> = firsts
            .into_par_iter()
            .map(|first| {
                let end = chunk.len.min(first + PIECE);
                let mut labels = vec![0; if wanted { end - first } else { 0 }];
                let partials = views
                    .iter()
                    .map(|view| piece(chunk, first, end, view, inertia, &mut labels))
                    .collect();
                (partials, labels)
            })
            .collect();
        for (partials, some) in pieces {
            totals
                .iter_mut()
                .zip(&partials)
                .for_each(|(total, partial)| total.add(partial));
            if let Some(labels) = &mut labels {
                some.into_iter().for_each(|label| labels.push(label));
            }
        }
    }
    totals
}

/// Sums of a chunk whose labels are known.
pub(crate) fn sums_of(
    chunk: &Chunk,
    labels: &Labels,
    centroids: &Centroids,
    (clusters, features): (usize, usize),
) -> Partial {
    let view = View::new(centroids.words(), clusters, features);
    let starts: Vec<usize> = (0..chunk.len).step_by(PIECE).collect();
    let piece = |start: usize| {
        let mut partial = Partial::new(clusters, features);
        let end = chunk.len.min(start + PIECE);
        let labels: Vec<usize> = (start..end).map(|point| labels.get(point) as usize).collect();
        labels.iter().for_each(|label| partial.masses[*label] += 1);
        for (f, origin) in view.origin.iter().enumerate() {
            for (label, x) in labels.iter().zip(&chunk.feature(f)[start..end]) {
                partial.sums[label * features + f] += f64::from(x - origin);
            }
        }
        partial
    };
    let pieces: Vec<Partial> = starts.into_par_iter().map(piece).collect();
    let mut total = Partial::new(clusters, features);
    pieces.iter().for_each(|piece| total.add(piece));
    total
}

/// Moves centroids to the means of a pass; the sum of the squares of how far.
pub(crate) fn update(centroids: &mut Centroids, partial: &Partial, features: usize) -> f64 {
    let before = centroids.relative().to_vec();
    let mut after: Vec<f32> = before.clone();
    for (cluster, mass) in partial.masses.iter().enumerate().filter(|(_, mass)| **mass > 0) {
        for f in 0..features {
            let at = cluster * features + f;
            after[at] = (partial.sums[at] / *mass as f64) as f32;
        }
    }
    centroids.set_relative(&after);
    let moved = before.iter().zip(&after);
    moved
        .map(|(before, after)| f64::from(after - before).powi(2))
        .sum()
}

impl Processor for Cpu<'_> {
    fn iterate(
        &mut self,
        starts: &mut [Centroids],
        rule: Rule,
        monitor: &mut Monitor<'_>,
    ) -> Result<Vec<Iterations>> {
        let d = self.points.features();
        let mut each = vec![Iterations::default(); starts.len()];
        loop {
            let goes_on = |done: &Iterations| done.iterations < rule.max_iter && !done.converged;
            let active: Vec<usize> = (0..starts.len()).filter(|start| goes_on(&each[*start])).collect();
            if active.is_empty() {
                return Ok(each);
            }
            let of_active: Vec<&Centroids> = active.iter().map(|start| &starts[*start]).collect();
            let shape = (of_active[0].clusters(), d);
            let partials = pass(self.points.chunks().iter(), &of_active, shape, false, None);
            for (start, partial) in active.into_iter().zip(partials) {
                let shift = update(&mut starts[start], &partial, d);
                each[start].after(shift, rule);
                if !monitor.tell(start, each[start].iterations, shift) {
                    return Err(KMeansError::Cancelled {
                        iterations: each[start].iterations,
                    });
                }
            }
        }
    }

    fn finish(&mut self, starts: &[Centroids], labels: bool) -> Result<Vec<Finish>> {
        let (k, d) = (starts[0].clusters(), self.points.features());
        let mut wanted = labels.then(|| Labels::new(k as u32));
        let centroids: Vec<&Centroids> = starts.iter().collect();
        let chunks = self.points.chunks().iter();
        let partials = pass(chunks, &centroids, (k, d), true, wanted.as_mut());
        let finish = |partial: Partial| Finish {
            masses: partial.masses,
            inertia: partial.inertia,
            labels: wanted.take(),
            cpu_chunks: 0,
        };
        Ok(partials.into_iter().map(finish).collect())
    }
}
