//! The estimator, with scikit-learn's terms: runs several starts, on the CPU or on a device, and returns the
//! best.

use galatea_kernels::kmeans::Centroids;

#[cfg(doc)]
use crate::OnStop;
use crate::cpu::Cpu;
use crate::device::DeviceKMeans;
use crate::labels::Labels;
use crate::processor::{Finish, Iterations, Monitor, Processor, Progress, Rule};
use crate::settings::{Execution, Init, KMeans, STARTS_TOGETHER};
use crate::spread::variance;
use crate::{KMeansError, Points, Result, init};

/// A clustering.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// Centroids, row after row.
    pub centroids: Vec<f64>,
    /// Features of a centroid.
    pub features: usize,
    /// Points of each cluster.
    pub sizes: Vec<u64>,
    /// Sum of the squared distances of points to their centroids.
    pub inertia: f64,
    /// Iterations of the best start.
    pub n_iter: u32,
    /// Whether it ended before its last iteration.
    pub converged: bool,
    /// Whether the caller stopped it, and asked to keep the result so far ([`OnStop::Keep`]).
    pub stopped: bool,
    /// Labels of the points, if requested.
    pub labels: Option<Labels>,
    /// Number of chunks that the CPU processed instead of the device, in all iterations of the best start and
    /// of the starts that shared its passes.
    pub cpu_chunks: u64,
}

impl KMeans {
    /// Computes centroids on the CPU.
    ///
    /// # Errors
    /// The errors of [`Self::fit_with`].
    pub fn fit(&self, points: &Points) -> Result<Model> {
        self.run(points, &mut self.cpu(points), false, &mut |_| true)
    }

    /// Computes centroids and labels on the CPU.
    ///
    /// # Errors
    /// The errors of [`Self::fit_with`].
    pub fn fit_predict(&self, points: &Points) -> Result<Model> {
        self.run(points, &mut self.cpu(points), true, &mut |_| true)
    }

    /// Computes centroids, and labels if requested, on a device, or on the CPU without one. `progress` is
    /// called after every iteration, on a device after every few, and returns whether to continue.
    /// [`KMeans::on_stop`] sets the result if it returns false.
    ///
    /// # Errors
    /// [`KMeansError::Clusters`], [`KMeansError::NoPoints`], [`KMeansError::TooFewPoints`],
    /// [`KMeansError::Setting`], [`KMeansError::Shape`] for given centroids; [`KMeansError::NoShape`],
    /// [`KMeansError::Memory`] on a device; [`KMeansError::Cancelled`]; an error of the device.
    pub fn fit_with(
        &self,
        points: &Points,
        device: Option<&DeviceKMeans<'_>>,
        labels: bool,
        progress: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<Model> {
        match device {
            Some(device) => {
                let mut run = device.start(points, self)?;
                self.run(points, &mut run, labels, progress)
            }
            None => self.run(points, &mut self.cpu(points), labels, progress),
        }
    }

    /// The CPU with these settings. Cross-processing needs two processors; on the CPU alone it is multi-pass.
    fn cpu<'p>(&self, points: &'p Points) -> Cpu<'p> {
        Cpu {
            points,
            sums: self.cpu_sums,
            multi_pass: matches!(self.execution, Execution::Multi | Execution::Cross),
        }
    }

    fn run(
        &self,
        points: &Points,
        processor: &mut dyn Processor,
        labels: bool,
        progress: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<Model> {
        self.check(points)?;
        let tolerance = if self.tol > 0.0 {
            self.tol * variance(points)
        } else {
            0.0
        };
        let rule = Rule {
            max_iter: self.max_iter,
            tolerance,
        };
        let starts: Vec<u32> = (0..self.starts()).collect();
        let mut best: Option<(Centroids, Iterations, Finish)> = None;
        let mut stopped = false;
        for together in starts.chunks(STARTS_TOGETHER) {
            let mut centroids = Vec::new();
            for start in together {
                let rows = self.first_rows(points, *start)?;
                centroids.push(Centroids::new(&rows, points.features()));
            }
            let mut monitor = Monitor::new(together[0], self.on_stop, &mut *progress);
            let done = processor.iterate(&mut centroids, rule, &mut monitor)?;
            stopped = monitor.is_stopped();
            let finish = processor.finish(&centroids, labels && starts.len() == 1)?;
            for each in centroids.into_iter().zip(done).zip(finish) {
                let ((centroids, done), finish) = each;
                if best
                    .as_ref()
                    .is_none_or(|(_, _, best)| finish.inertia < best.inertia)
                {
                    best = Some((centroids, done, finish));
                }
            }
            if stopped {
                break;
            }
        }
        let (centroids, done, mut finish) = best.expect("at least one start");
        if labels && finish.labels.is_none() {
            let of_best = processor.finish(std::slice::from_ref(&centroids), true)?;
            finish.labels = of_best.into_iter().next().and_then(|finish| finish.labels);
        }
        let mut rows = centroids.rows();
        points.add_offsets(&mut rows);
        Ok(Model {
            centroids: rows,
            features: points.features(),
            sizes: finish.masses,
            inertia: finish.inertia,
            n_iter: done.iterations,
            converged: done.converged,
            stopped,
            labels: finish.labels,
            cpu_chunks: finish.cpu_chunks,
        })
    }

    fn first_rows(&self, points: &Points, start: u32) -> Result<Vec<f64>> {
        let seed = self
            .seed
            .wrapping_add(u64::from(start).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        Ok(match &self.init {
            Init::PlusPlus => init::plus_plus(points, self.clusters, seed),
            Init::Random => init::random(points, self.clusters, seed),
            Init::First => init::first(points, self.clusters),
            Init::Given(rows) => {
                let expected = self.clusters * points.features();
                if rows.len() != expected {
                    return Err(KMeansError::Shape {
                        what: "init".to_owned(),
                        found: rows.len(),
                        expected,
                    });
                }
                points.without_offsets(rows)
            }
        })
    }
}

impl Model {
    /// Computes labels of other points by these centroids, on a device or on the CPU.
    ///
    /// # Errors
    /// [`KMeansError::OtherFeatures`], or an error of the device.
    pub fn predict(&self, points: &Points, device: Option<&DeviceKMeans<'_>>) -> Result<Labels> {
        if points.features() != self.features {
            return Err(KMeansError::OtherFeatures {
                points: points.features(),
                centroids: self.features,
            });
        }
        let centroids = Centroids::new(&points.without_offsets(&self.centroids), self.features);
        let settings = KMeans::new(centroids.clusters());
        let finish = match device {
            Some(device) => device.start(points, &settings)?.finish(&[centroids], true)?,
            None => settings.cpu(points).finish(&[centroids], true)?,
        };
        let labels = finish.into_iter().next().and_then(|finish| finish.labels);
        Ok(labels.expect("labels were asked for"))
    }
}
