//! The device memory of a start of a clustering. Several starts share the passes over the points.

use galatea_device::{DeviceBuffer, In, InOut, Out, Stream};
use galatea_kernels::kmeans::{CHUNK_WORDS, Centroids};
use galatea_kernels::{FitMemory, KmeansPass, KmeansState, KmeansUpdate, PassMemory, UpdateRule};

use super::DeviceKMeans;
use crate::Result;

/// Memory of a start.
#[derive(Debug)]
pub(super) struct Start {
    centroids: DeviceBuffer<f32>,
    /// Slots of partial sums; the last one is the CPU's.
    partials: DeviceBuffer<f64>,
    shifts: DeviceBuffer<f64>,
    masses: DeviceBuffer<u64>,
    state: DeviceBuffer<KmeansState>,
    shape: (u32, u32, u32),
    /// Factor of points and centroids, for matrix units.
    pub(super) scale: f32,
    /// Whether passes include it: it has begun, and not ended.
    pub(super) active: bool,
}

impl Start {
    /// Allocates the memory for k clusters of d features. Blocks share `slots` slots of partial sums.
    pub(super) fn new(on: &DeviceKMeans<'_>, (k, d): (usize, usize), slots: usize) -> Result<Self> {
        let words = k * (d + 1) + 1;
        Ok(Self {
            centroids: on.allocate("the centroids", Centroids::floats(k, d))?,
            partials: on.allocate("the partial sums", (slots + 1) * words)?,
            shifts: on.allocate("the shifts of centroids", k)?,
            masses: on.allocate("the masses of clusters", k)?,
            state: on.allocate("the state of the fit", 1)?,
            shape: (k as u32, d as u32, slots as u32 + 1),
            scale: 0.0,
            active: false,
        })
    }

    /// Words of the partial sums of all slots except the CPU's, and of one slot.
    fn words(&self) -> (usize, usize) {
        let (k, d, slots) = self.shape;
        let slot = (k * (d + 1) + 1) as usize;
        ((slots as usize - 1) * slot, slot)
    }

    pub(super) fn begin(&mut self, stream: &Stream, centroids: &Centroids) -> Result<()> {
        self.active = true;
        self.put(stream, centroids)?;
        stream.copy_from_slice(&mut self.state, &[KmeansState::default()])?;
        // Clears sums that a failed run may have left.
        Ok(stream.fill(&mut self.partials, 0)?)
    }

    pub(super) fn put(&mut self, stream: &Stream, centroids: &Centroids) -> Result<()> {
        Ok(stream.copy_from_slice(&mut self.centroids, centroids.words())?)
    }

    /// Queues a launch over the chunks in a range of a table. No chunk has more than `most` points.
    pub(super) fn launch(
        &mut self,
        stream: &Stream,
        pass: &KmeansPass,
        table: &DeviceBuffer<u64>,
        positions: std::ops::Range<usize>,
        most: u32,
    ) -> Result<()> {
        let (of_device, _) = self.words();
        let memory = PassMemory {
            chunks: In(table.slice(positions.start * CHUNK_WORDS..positions.end * CHUNK_WORDS)?),
            centroids: In(&self.centroids),
            partials: InOut(self.partials.slice_mut(..of_device)?),
            state: Some(In(&self.state)),
            scale: self.scale,
        };
        Ok(pass.launch(stream, most, memory)?)
    }

    /// The memory of iterations in one launch.
    pub(super) fn memory(&mut self) -> FitMemory<'_> {
        FitMemory {
            centroids: InOut(&mut self.centroids),
            partials: InOut(&mut self.partials),
            shifts: Out(&mut self.shifts),
            masses: Out(&mut self.masses),
            state: InOut(&mut self.state),
            scale: self.scale,
        }
    }

    /// Copies the CPU's partial sums to their slot.
    pub(super) fn add(&mut self, stream: &Stream, words: &[f64]) -> Result<()> {
        let (start, slot) = self.words();
        let target = self.partials.slice_mut(start..start + slot)?;
        Ok(stream.copy_from_slice(target, words)?)
    }

    pub(super) fn update(&mut self, stream: &Stream, update: &KmeansUpdate, rule: UpdateRule) -> Result<()> {
        update.launch(
            stream,
            self.shape,
            rule,
            InOut(&mut self.partials),
            InOut(&mut self.centroids),
            Out(&mut self.shifts),
            Out(&mut self.masses),
            InOut(&mut self.state),
        )?;
        Ok(())
    }

    pub(super) fn state(&self, stream: &Stream) -> Result<KmeansState> {
        Ok(stream.read(&self.state, ..)?[0])
    }

    pub(super) fn masses(&self, stream: &Stream) -> Result<Vec<u64>> {
        Ok(stream.read(&self.masses, ..)?)
    }

    /// The words of the centroids.
    pub(super) fn centroids(&self, stream: &Stream) -> Result<Vec<f32>> {
        Ok(stream.read(&self.centroids, ..)?)
    }
}
