//! Times of the phases of an iteration, executed one after another (thesis, figure 5.12).

use std::time::{Duration, Instant};

use super::DeviceRun;
use super::queue::ChunkLabels;
use crate::cpu::{self, CpuSums, Partial};
use crate::{Points, Result};
use galatea_kernels::UpdateRule;
use galatea_kernels::kmeans::Centroids;

/// A phase and its time.
pub type Phase = (&'static str, Duration);

impl DeviceRun<'_> {
    /// The phases of an iteration that continues after the previous one. Each phase is waited for.
    ///
    /// # Errors
    /// An error of the device.
    pub fn phases(&mut self) -> Result<Vec<Phase>> {
        let mut places = self.place()?;
        let passes = self.passes.clone();
        let wait = |run: &Self| run.on.compute.synchronize();
        // Points are transferred first, which is not a phase.
        for position in places.ready..places.order.len() {
            if places.pages[position].is_some() {
                self.fetch(&places, position)?;
            }
        }
        wait(self)?;
        let mut phases = Vec::new();
        if !self.cross {
            // The buffer of labels holds some chunks, so passes alternate. The time of both passes beyond
            // that of the first is the time of the sums.
            let begun = Instant::now();
            if passes.len() > 1 {
                self.queue(&mut places, &passes[..1], None, None)?;
                wait(self)?;
                phases.push(("assignment", begun.elapsed()));
            }
            let begun = Instant::now();
            self.queue(&mut places, &passes, None, None)?;
            wait(self)?;
            match phases.first() {
                Some((_, assignment)) => {
                    let sums = begun.elapsed().saturating_sub(*assignment);
                    phases.push(("sums", sums));
                }
                None => phases.push(("assignment and sums", begun.elapsed())),
            }
            let begun = Instant::now();
            self.queue_update(UpdateRule::Means { tolerance: -1.0 })?;
            wait(self)?;
            phases.push(("centroids", begun.elapsed()));
            return Ok(phases);
        }
        let begun = Instant::now();
        self.queue(&mut places, &passes, None, None)?;
        wait(self)?;
        let assignment = begun.elapsed();
        let mut labels = ChunkLabels {
            chunks: vec![Vec::new(); self.points.chunks().len()],
        };
        let begun = Instant::now();
        self.queue(&mut places, &passes, Some(&mut labels), None)?;
        wait(self)?;
        let transfer = begun.elapsed().saturating_sub(assignment);
        let mut centroids = self.centroids_there()?;
        let begun = Instant::now();
        let total = self.sums_by(labels, &centroids);
        let sums = begun.elapsed();
        let begun = Instant::now();
        cpu::update(&mut centroids, &total, self.points.features());
        self.starts[0].put(&self.on.compute, &centroids)?;
        wait(self)?;
        Ok(vec![
            ("assignment", assignment),
            ("label transfer", transfer),
            ("sums", sums),
            ("centroids", begun.elapsed()),
        ])
    }
}

/// The phases of a multi-pass iteration on the CPU, from the given centroids, row after row.
#[must_use]
pub fn cpu_phases(points: &Points, rows: &[f64]) -> Vec<Phase> {
    let (kept, d) = (points.without_offsets(rows), points.features());
    let mut centroids = Centroids::new(&kept, d);
    let shape = (centroids.clusters(), d);
    let mut total = Partial::new(shape.0, d);
    let (mut assignment, mut sums) = (Duration::ZERO, Duration::ZERO);
    let mut labels = Vec::new();
    for chunk in points.chunks() {
        let begun = Instant::now();
        cpu::assign(chunk, &centroids, shape, &mut labels);
        assignment += begun.elapsed();
        let begun = Instant::now();
        total.add(&cpu::sums_of(chunk, &labels, &centroids, shape, CpuSums::Auto));
        sums += begun.elapsed();
    }
    let begun = Instant::now();
    cpu::update(&mut centroids, &total, d);
    vec![
        ("assignment", assignment),
        ("sums", sums),
        ("centroids", begun.elapsed()),
    ]
}
