//! A fit on the device: iterations in batches, and the final pass.

use std::time::{Duration, Instant};

use galatea_kernels::kmeans::{Centroids, LabelWidth};
use galatea_kernels::{KmeansPass, UpdateRule};

use super::DeviceRun;
use super::queue::ChunkLabels;
use crate::Result;
use crate::labels::Labels;
use crate::processor::{Finish, Iterations, Monitor, Processor, Rule, iterations};
use crate::share::Trial;

/// After a wait longer than this, iterations are queued one by one.
const LONG: Duration = Duration::from_millis(50);
/// After a wait shorter than this, the batch is doubled.
const SHORT: Duration = Duration::from_millis(10);

impl DeviceRun<'_> {
    /// The device's centroids of the starts that have not ended.
    fn read_active(&self, centroids: &mut [Centroids]) -> Result<()> {
        for (start, centroids) in self.starts.iter().zip(centroids) {
            if start.active {
                centroids.set_words(start.centroids(&self.on.compute)?);
            }
        }
        Ok(())
    }
}

impl Processor for DeviceRun<'_> {
    fn iterate(
        &mut self,
        starts: &mut [Centroids],
        rule: Rule,
        monitor: &mut Monitor<'_>,
    ) -> Result<Vec<Iterations>> {
        if self.cross {
            let mut each = Vec::new();
            for (number, centroids) in starts.iter_mut().enumerate() {
                self.begin(std::slice::from_ref(centroids))?;
                each.push(match monitor.is_stopped() {
                    true => Iterations::default(),
                    false => iterations(
                        rule,
                        |done, shift| monitor.tell(number, done, shift),
                        || self.cross(centroids),
                    )?,
                });
            }
            return Ok(each);
        }
        self.begin(starts)?;
        let mut each = vec![Iterations::default(); starts.len()];
        let (mut batch, mut done) = (1, 0);
        let mut trial = Trial::new(self.share);
        while done < rule.max_iter && !monitor.is_stopped() && self.starts.iter().any(|start| start.active) {
            let shared = trial.shares();
            if shared {
                self.read_active(starts)?;
            }
            let cpu = shared.then_some(&*starts);
            let begun = Instant::now();
            let most = batch.min(rule.max_iter - done);
            let resident = self.queue_iterations(most, rule.tolerance, cpu)?;
            done += if resident { most } else { 1 };
            let mut states = Vec::new();
            for start in &self.starts {
                states.push(match start.active {
                    true => Some(start.state(&self.on.compute)?),
                    false => None,
                });
            }
            trial.took(begun.elapsed());
            // A cancelled fit waits for the queued iterations, so batches are limited.
            if !resident || begun.elapsed() > LONG {
                batch = 1;
            } else if begun.elapsed() < SHORT {
                batch *= 2;
            }
            for (number, state) in states.into_iter().enumerate() {
                let Some(state) = state else { continue };
                each[number] = Iterations {
                    iterations: state.iterations as u32,
                    shift: state.shift,
                    converged: state.done != 0,
                };
                monitor.tell(number, each[number].iterations, state.shift)?;
                if state.done != 0 {
                    starts[number].set_words(self.starts[number].centroids(&self.on.compute)?);
                    self.starts[number].active = false;
                }
            }
        }
        self.read_active(starts)?;
        Ok(each)
    }

    fn finish(&mut self, starts: &[Centroids], labels: bool) -> Result<Vec<Finish>> {
        self.begin(starts)?;
        let mut shape = self.exact;
        shape.inertia = true;
        let width = LabelWidth::of(shape.clusters);
        shape.labels = labels.then_some(width);
        let pass = KmeansPass::new(self.on.device(), shape)?;
        let mut wanted = labels.then(|| ChunkLabels {
            chunks: vec![Vec::new(); self.points.chunks().len()],
        });
        let mut places = self.place()?;
        self.queue(&mut places, &[pass], wanted.as_mut(), None)?;
        self.queue_update(UpdateRule::Fixed)?;
        let mut labels = wanted.map(|wanted| {
            let mut labels = Labels::new(shape.clusters);
            for chunk in wanted.chunks {
                labels.bytes_mut().extend(chunk);
            }
            labels
        });
        let cpu_chunks = std::mem::take(&mut self.cpu_chunks);
        let mut each = Vec::new();
        for start in self.starts.iter().filter(|start| start.active) {
            each.push(Finish {
                masses: start.masses(&self.on.compute)?,
                inertia: start.state(&self.on.compute)?.inertia,
                labels: labels.take(),
                cpu_chunks,
            });
        }
        Ok(each)
    }
}
