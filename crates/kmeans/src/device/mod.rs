//! Passes on the device.
//!
//! Points are a region of the memory manager, with one page per chunk. A pass launches once over all chunks
//! with resident pages, and once for each of the others when it has arrived: in a page as long as memory
//! suffices, and in a ring of slots otherwise (thesis §5.4). Sums stay in device memory over all launches of
//! a pass. The update moves the centroids there, and only its state is transferred back. While
//! everything is resident, several iterations are queued at once: once one has converged, the later ones do
//! nothing. For few points they are one launch, in which blocks wait for each other between pass and update;
//! starts are rows of its grid.
//!
//! Chunks that are not on the device may be shared with the CPU (`share`), which processes them in place.

mod fit;
mod phases;
mod places;
mod queue;
mod starts;
#[cfg(test)]
mod tests;

use bytemuck::Pod;
use galatea_device::{Device, DeviceBuffer, DeviceError, Stream};
use galatea_kernels::kmeans::{Centroids, LabelWidth, PassShape, Scores};
use galatea_kernels::{KmeansFit, KmeansPass, KmeansUpdate};
use galatea_layout::model::Machine;
use galatea_memory::regions::MemoryManager;

use crate::choose::{Wanted, choose, fastest};
use crate::cpu::{self, CpuSums, Partial};
use crate::labels::Labels;
use crate::spread;
use crate::{Execution, KMeans, KMeansError, Launches, Points, Result, Share, Sums};

/// Maximum bytes of partial sums. To stay below it, blocks share slots.
const PARTIAL_BYTES: u64 = 32 << 20;
/// Maximum seconds of a pass by the model, for all starts, for which iterations share a launch: launches of a
/// pass and an update take some microseconds each.
const PERSISTENT_SECONDS: f64 = 200e-6;

pub use phases::{Phase, cpu_phases};
use places::{Slot, Table};
use queue::ChunkLabels;
use starts::Start;

/// k-means on a device.
#[derive(Debug)]
pub struct DeviceKMeans<'m> {
    manager: &'m MemoryManager,
    machine: Machine,
    update: KmeansUpdate,
    compute: Stream,
    transfer: [Stream; 2],
    keep: bool,
}

impl<'m> DeviceKMeans<'m> {
    /// Creates it for a manager's device. The model takes the device's figures from `machine`.
    ///
    /// # Errors
    /// The errors of [`Device::compile`].
    pub fn new(manager: &'m MemoryManager, machine: Machine) -> Result<Self> {
        let device = manager.device();
        Ok(Self {
            manager,
            machine,
            update: KmeansUpdate::new(device)?,
            compute: device.stream()?,
            transfer: [device.stream()?, device.stream()?],
            keep: true,
        })
    }

    /// Allocates no pages of points: chunks that are not resident pass through slots, in every pass.
    #[must_use]
    pub fn without_pages(mut self) -> Self {
        self.keep = false;
        self
    }

    /// The stream of the kernels.
    #[must_use]
    pub fn stream(&self) -> &Stream {
        &self.compute
    }

    fn device(&self) -> &Device {
        self.manager.device()
    }

    /// Allocates memory of a run. Pages are evicted for it.
    fn allocate<T: Pod>(&self, what: &'static str, len: usize) -> Result<DeviceBuffer<T>> {
        let attempt = || self.device().zeroed::<T>(&self.compute, len);
        let made = self.manager.making_room(attempt, DeviceError::is_out_of_memory)?;
        made.ok_or_else(|| KMeansError::Memory {
            what,
            bytes: (len * size_of::<T>()) as u64,
            limit: self.device().budget().limit(),
        })
    }

    /// Compiles the kernels that `settings` need for `points`, and allocates.
    ///
    /// # Errors
    /// [`KMeansError::NoShape`], [`KMeansError::Features`], [`KMeansError::Memory`], or an error of the
    /// device.
    pub fn start<'p>(&'p self, points: &'p Points, settings: &KMeans) -> Result<DeviceRun<'p>> {
        let (d, k) = (points.features() as u32, settings.clusters as u32);
        let wanted = Wanted {
            // Passes that write or read labels are by lanes.
            scores: match settings.execution {
                Execution::Auto | Execution::Single => {
                    let few = points.len() / u64::from(k.max(1)) < spread::FEW_POINTS;
                    settings.scores.or(few.then_some(Scores::Lanes))
                }
                Execution::Multi | Execution::Cross => Some(Scores::Lanes),
            },
            sums: settings.sums,
            shared_limit: settings.shared_limit,
        };
        let starts = settings.starts_together();
        let work = (points.len(), starts as u32);
        let cost = fastest(&self.machine, (d, k), wanted, work)?;
        let mut run = self.start_all(points, cost.shape, starts)?;
        run.share = settings.share;
        run.execute_as(settings.execution)?;
        let single = matches!(settings.execution, Execution::Auto | Execution::Single);
        let is_short = || cost.seconds(&self.machine, work.0, work.1) <= PERSISTENT_SECONDS;
        let persists = match settings.launches {
            Launches::Auto => is_short(),
            Launches::Each => false,
            Launches::Persistent => true,
        };
        if single && persists {
            run.persist()?;
        }
        Ok(run)
    }

    /// Like [`Self::start`], with a given shape.
    ///
    /// # Errors
    /// The errors of [`Self::start`].
    pub fn start_with<'p>(&'p self, points: &'p Points, shape: PassShape) -> Result<DeviceRun<'p>> {
        self.start_all(points, shape, 1)
    }

    fn start_all<'p>(&'p self, points: &'p Points, shape: PassShape, starts: usize) -> Result<DeviceRun<'p>> {
        let (d, k) = (shape.features as usize, shape.clusters as usize);
        let pass = KmeansPass::new(self.device(), shape)?;
        let exact = match shape.scores {
            Scores::Lanes => shape,
            Scores::Matrix => {
                let wanted = Wanted {
                    scores: Some(Scores::Lanes),
                    ..Wanted::default()
                };
                choose(&self.machine, (shape.features, shape.clusters), wanted)?
            }
        };
        let words = k * (d + 1) + 1;
        let slots = PARTIAL_BYTES / 8 / (words * starts) as u64;
        let slots = slots.clamp(1, pass.blocks()) as usize;
        let start = |_| Start::new(self, (k, d), slots);
        Ok(DeviceRun {
            on: self,
            points,
            starts: (0..starts).map(start).collect::<Result<_>>()?,
            begun: 0,
            share: Share::Device,
            cpu_chunks: 0,
            passes: vec![pass.clone()],
            pass,
            exact,
            cross: false,
            fit: None,
            labelled: None,
            table: Table::default(),
            ring: Vec::new(),
        })
    }
}

/// Memory and kernels of a clustering on a device.
#[derive(Debug)]
pub struct DeviceRun<'p> {
    on: &'p DeviceKMeans<'p>,
    points: &'p Points,
    pass: KmeansPass,
    /// Kernels of an iteration, in order.
    passes: Vec<KmeansPass>,
    /// Kernel of several iterations, if they share launches.
    fit: Option<KmeansFit>,
    /// Shape of passes in 32-bit floats.
    exact: PassShape,
    /// Whether the CPU moves the centroids (cross-processing).
    cross: bool,
    /// Labels of the chunks of a few launches.
    labelled: Option<DeviceBuffer<u8>>,
    /// Starts that share the passes over the points.
    starts: Vec<Start>,
    /// The number of them in the last fit.
    begun: usize,
    share: Share,
    /// Chunks that the CPU has processed.
    cpu_chunks: u64,
    table: Table,
    ring: Vec<Slot>,
}

impl DeviceRun<'_> {
    /// Copies centroids to the device, one set per start, at the beginning of a fit.
    fn begin(&mut self, centroids: &[Centroids]) -> Result<()> {
        if self.pass.shape().scores == Scores::Matrix {
            let scales = centroids.iter().map(|of| spread::scale(self.points, of));
            match scales.collect::<Option<Vec<f32>>>() {
                Some(scales) => {
                    for (start, scale) in self.starts.iter_mut().zip(scales) {
                        start.scale = scale;
                    }
                }
                None => {
                    self.pass = KmeansPass::new(self.on.device(), self.exact)?;
                    self.passes = vec![self.pass.clone()];
                    if self.fit.is_some() {
                        self.persist()?;
                    }
                }
            }
        }
        self.starts.iter_mut().for_each(|start| start.active = false);
        self.begun = centroids.len();
        for (start, of) in self.starts.iter_mut().zip(centroids) {
            start.begin(&self.on.compute, of)?;
        }
        Ok(())
    }

    /// Sets the execution of iterations, and compiles their passes.
    ///
    /// # Errors
    /// An error of the device.
    pub fn execute_as(&mut self, execution: Execution) -> Result<()> {
        let device = self.on.device();
        let width = Some(LabelWidth::of(self.pass.shape().clusters));
        let assignment = PassShape {
            sums: Sums::None,
            labels: width,
            ..self.exact
        };
        let update = PassShape {
            given: true,
            labels: width,
            ..self.exact
        };
        self.cross = execution == Execution::Cross;
        self.passes = match execution {
            Execution::Auto | Execution::Single => vec![self.pass.clone()],
            Execution::Multi => vec![
                KmeansPass::new(device, assignment)?,
                KmeansPass::new(device, update)?,
            ],
            Execution::Cross => vec![KmeansPass::new(device, assignment)?],
        };
        Ok(())
    }

    /// Lets iterations share launches while all points are in device memory, if the device supports
    /// cooperative launches.
    ///
    /// # Errors
    /// An error of the device.
    pub fn persist(&mut self) -> Result<()> {
        let device = self.on.device();
        if device.info().cooperative_launch {
            self.fit = Some(KmeansFit::new(device, *self.pass.shape())?);
        }
        Ok(())
    }

    /// Whether iterations share launches.
    #[must_use]
    pub fn is_persistent(&self) -> bool {
        self.fit.is_some()
    }

    /// An iteration of cross-processing: labels are transferred from the device, the CPU moves the centroids,
    /// and the centroids are transferred back.
    fn cross(&mut self, centroids: &mut Centroids) -> Result<f64> {
        let mut labels = ChunkLabels {
            chunks: vec![Vec::new(); self.points.chunks().len()],
        };
        let mut places = self.place()?;
        let passes = self.passes.clone();
        self.queue(&mut places, &passes, Some(&mut labels), None)?;
        let total = self.sums_by(labels, centroids);
        let shift = cpu::update(centroids, &total, self.points.features());
        self.starts[0].put(&self.on.compute, centroids)?;
        Ok(shift)
    }

    /// Sums of all chunks on the CPU, by labels from the device.
    fn sums_by(&self, labels: ChunkLabels, centroids: &Centroids) -> Partial {
        let shape = (centroids.clusters(), self.points.features());
        let width = LabelWidth::of(shape.0 as u32);
        let mut total = Partial::new(shape.0, shape.1);
        for (chunk, labels) in self.points.chunks().iter().zip(labels.chunks) {
            let labels = Labels::of_bytes(width, labels).widen();
            total.add(&cpu::sums_of(chunk, &labels, centroids, shape, CpuSums::Auto));
        }
        total
    }

    /// The shape of the passes.
    #[must_use]
    pub fn shape(&self) -> &PassShape {
        self.pass.shape()
    }

    /// Registers of a thread, and bytes of spilled registers.
    #[must_use]
    pub fn registers(&self) -> (u32, u32) {
        let resources = self.pass.resources();
        (resources.registers, resources.local)
    }

    /// Number of blocks of a pass that run at once.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.pass.blocks()
    }

    /// Copies the first centroids to the device, row after row, for [`Self::queue_iteration`].
    ///
    /// # Errors
    /// An error of the device.
    pub fn place_centroids(&mut self, rows: &[f64]) -> Result<()> {
        let rows = self.points.without_offsets(rows);
        self.begin(&[Centroids::new(&rows, self.points.features())])
    }

    /// Queues an iteration that continues after the previous one, whether that has converged or not. For
    /// measurements.
    ///
    /// # Errors
    /// [`KMeansError::Memory`], or an error of the device.
    pub fn queue_iteration(&mut self) -> Result<()> {
        if self.cross {
            let mut centroids = self.centroids_there()?;
            return self.cross(&mut centroids).map(drop);
        }
        self.queue_several(1)
    }

    /// Like [`Self::queue_iteration`], for several iterations: in one launch if iterations share launches.
    ///
    /// # Errors
    /// [`KMeansError::Memory`], or an error of the device.
    pub fn queue_several(&mut self, iterations: u32) -> Result<()> {
        let mut left = iterations;
        while left > 0 {
            let resident = self.queue_iterations(left, -1.0, None)?;
            left -= if resident { left } else { 1 };
        }
        Ok(())
    }

    fn centroids_there(&self) -> Result<Centroids> {
        let shape = self.pass.shape();
        let (k, d) = (shape.clusters as usize, shape.features as usize);
        let mut centroids = Centroids::new(&vec![0.0; k * d], d);
        centroids.set_words(self.starts[0].centroids(&self.on.compute)?);
        Ok(centroids)
    }

    /// The centroids after all queued iterations, row after row.
    ///
    /// # Errors
    /// An error of the device.
    pub fn read_centroids(&self) -> Result<Vec<f64>> {
        let centroids = self.centroids_there()?;
        let mut rows = centroids.rows();
        self.points.add_offsets(&mut rows);
        Ok(rows)
    }
}
