//! A fit on the device: iterations in batches, and the pass at the end.

use std::time::{Duration, Instant};

use galatea_kernels::kmeans::{Centroids, LabelWidth};
use galatea_kernels::{KmeansPass, UpdateRule};

use super::{ChunkLabels, DeviceRun};
use crate::estimator::{Finish, Iterations, Monitor, Processor, Rule, iterations};
use crate::labels::Labels;
use crate::share::Trial;
use crate::{KMeansError, Result};

/// After a wait of that long, iterations are queued one by one.
const LONG: Duration = Duration::from_millis(50);
/// Iterations that are queued at once at most.
const BATCH: u32 = 16;

impl Processor for DeviceRun<'_> {
    fn iterate(
        &mut self,
        centroids: &mut Centroids,
        rule: Rule,
        monitor: &mut Monitor<'_>,
    ) -> Result<Iterations> {
        self.begin(centroids)?;
        let mut done = Iterations::default();
        if self.cross {
            return iterations(rule, monitor, || self.cross(centroids));
        }
        let mut batch = 1;
        let mut trial = Trial::new(self.share);
        while done.iterations < rule.max_iter {
            let shared = trial.shares();
            if shared {
                centroids.set_words(self.on.compute.read(&self.centroids, ..)?);
            }
            let cpu = shared.then_some(&*centroids);
            let begun = Instant::now();
            let most = batch.min(rule.max_iter - done.iterations);
            let resident = self.queue_iterations(most, rule.tolerance, cpu)?;
            let state = self.read_state()?;
            trial.took(begun.elapsed());
            // A cancelled fit waits for what is queued.
            if !resident || begun.elapsed() > LONG {
                batch = 1;
            } else {
                batch = (2 * batch).min(BATCH);
            }
            done = Iterations {
                iterations: state.iterations as u32,
                shift: state.shift,
                converged: state.done != 0,
            };
            if !monitor.tell(done.iterations, done.shift) {
                return Err(KMeansError::Cancelled {
                    iterations: done.iterations,
                });
            }
            if done.converged {
                break;
            }
        }
        centroids.set_words(self.on.compute.read(&self.centroids, ..)?);
        Ok(done)
    }

    fn finish(&mut self, centroids: &Centroids, labels: bool) -> Result<Finish> {
        self.begin(centroids)?;
        let mut shape = *self.pass.shape();
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
        let state = self.read_state()?;
        let labels = wanted.map(|wanted| {
            let mut labels = Labels::new(shape.clusters);
            for chunk in wanted.chunks {
                labels.bytes_mut().extend(chunk);
            }
            labels
        });
        Ok(Finish {
            masses: self.on.compute.read(&self.masses, ..)?,
            inertia: state.inertia,
            labels,
            cpu_chunks: std::mem::take(&mut self.cpu_chunks),
        })
    }
}
