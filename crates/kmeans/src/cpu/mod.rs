//! Passes on the CPU: in place, with all threads of the rayon pool.
//!
//! A thread processes a piece of 2^15 points in blocks (`piece`), in the widest vectors of the CPU; distances
//! stay in registers. Each piece has its own partial sums, which are added in the order of pieces: the result
//! does not depend on the number of threads.
//!
//! Executions are those of the device: assignment and update fused in one pass, or in two over each chunk,
//! with labels in between. `masses` only has histograms of labels.

mod masses;
mod piece;

use galatea_kernels::kmeans::Centroids;
use rayon::prelude::*;

pub use masses::count_labels;
use piece::{Labelling, Piece, View};

use crate::labels::Labels;
use crate::points::Chunk;
use crate::processor::{Finish, Iterations, Monitor, Processor, Rule};
use crate::{Points, Result};

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

    /// The words of a slot of the device's partial sums.
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

/// The method by which a thread of the CPU adds points to their clusters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CpuSums {
    /// By lanes for up to 8 clusters, by features for more.
    #[default]
    Auto,
    /// Point by point into a matrix of the thread: Cluster Merge (thesis §5.2.1).
    Merge,
    /// Feature by feature into a vector of clusters: Partitioned Features (thesis §5.2.1). Features are
    /// processed in order, since a thread's points are in its cache.
    Features,
    /// Cluster by cluster, with a copy of a sum for each lane of a vector. Points of other clusters add zero.
    Lanes,
}

impl CpuSums {
    /// All methods except [`Self::Auto`].
    pub const ALL: [Self; 3] = [Self::Merge, Self::Features, Self::Lanes];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Merge => "cpu merge",
            Self::Features => "cpu features",
            Self::Lanes => "cpu lanes",
        }
    }
}

/// The CPU as a processor of passes.
#[derive(Debug)]
pub(crate) struct Cpu<'p> {
    pub(crate) points: &'p Points,
    pub(crate) sums: CpuSums,
    /// Whether iterations are two passes: assignment, then sums.
    pub(crate) multi_pass: bool,
}

/// One pass over chunks by the centroids of each start, piece by piece, so that a piece is read from memory
/// once. Labels are appended in order, for a single start.
pub(crate) fn pass<'c>(
    chunks: impl Iterator<Item = &'c Chunk>,
    starts: &[&Centroids],
    (clusters, features): (usize, usize),
    (sums, inertia): (CpuSums, bool),
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
            .map(|start| {
                let end = chunk.len.min(start + PIECE);
                let mut labels = vec![0; if wanted { end - start } else { 0 }];
                let of_start = |view: &View<'_>| {
                    let piece = Piece {
                        chunk,
                        start,
                        end,
                        view: *view,
                        sums: Some(sums),
                        inertia,
                        labels: match wanted {
                            true => Labelling::Written(&mut labels),
                            false => Labelling::Dropped,
                        },
                    };
                    piece.pass()
                };
                (views.iter().map(of_start).collect(), labels)
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

/// Multi-pass: first the labels of all points of a chunk, then its sums by the labels.
fn two_passes(points: &Points, centroids: &Centroids, sums: CpuSums) -> Partial {
    let shape = (centroids.clusters(), points.features());
    let mut total = Partial::new(shape.0, shape.1);
    let mut labels = Vec::new();
    for chunk in points.chunks() {
        assign(chunk, centroids, shape, &mut labels);
        total.add(&sums_of(chunk, &labels, centroids, shape, sums));
    }
    total
}

/// Labels of the points of a chunk.
pub(crate) fn assign(
    chunk: &Chunk,
    centroids: &Centroids,
    (clusters, features): (usize, usize),
    labels: &mut Vec<u32>,
) {
    let view = View::new(centroids.words(), clusters, features);
    labels.resize(chunk.len, 0);
    let pieces = labels.par_chunks_mut(PIECE).enumerate();
    pieces.for_each(|(number, labels)| {
        let piece = Piece {
            chunk,
            start: number * PIECE,
            end: number * PIECE + labels.len(),
            view,
            sums: None,
            inertia: false,
            labels: Labelling::Written(labels),
        };
        piece.pass();
    });
}

/// Sums of a chunk by given labels.
pub(crate) fn sums_of(
    chunk: &Chunk,
    labels: &[u32],
    centroids: &Centroids,
    (clusters, features): (usize, usize),
    sums: CpuSums,
) -> Partial {
    let view = View::new(centroids.words(), clusters, features);
    let pieces: Vec<Partial> = labels
        .par_chunks(PIECE)
        .enumerate()
        .map(|(number, labels)| {
            let piece = Piece {
                chunk,
                start: number * PIECE,
                end: number * PIECE + labels.len(),
                view,
                sums: Some(sums),
                inertia: false,
                labels: Labelling::Given(labels),
            };
            piece.pass()
        })
        .collect();
    let mut total = Partial::new(clusters, features);
    pieces.iter().for_each(|piece| total.add(piece));
    total
}

/// Moves centroids to the means of a pass. Returns the sum of their squared shifts.
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
            let partials = if self.multi_pass {
                let of = |centroids: &&Centroids| two_passes(self.points, centroids, self.sums);
                of_active.iter().map(of).collect()
            } else {
                let chunks = self.points.chunks().iter();
                pass(chunks, &of_active, shape, (self.sums, false), None)
            };
            for (start, partial) in active.into_iter().zip(partials) {
                let shift = update(&mut starts[start], &partial, d);
                each[start].after(shift, rule);
                monitor.tell(start, each[start].iterations, shift)?;
            }
            if monitor.is_stopped() {
                return Ok(each);
            }
        }
    }

    fn finish(&mut self, starts: &[Centroids], labels: bool) -> Result<Vec<Finish>> {
        let (k, d) = (starts[0].clusters(), self.points.features());
        let mut wanted = labels.then(|| Labels::new(k as u32));
        let centroids: Vec<&Centroids> = starts.iter().collect();
        let chunks = self.points.chunks().iter();
        let partials = pass(chunks, &centroids, (k, d), (self.sums, true), wanted.as_mut());
        let finish = |partial: Partial| Finish {
            masses: partial.masses,
            inertia: partial.inertia,
            labels: wanted.take(),
            cpu_chunks: 0,
        };
        Ok(partials.into_iter().map(finish).collect())
    }
}
