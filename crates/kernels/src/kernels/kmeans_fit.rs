//! Several iterations of k-means in one launch, for several starts.

use galatea_device::{
    Device, DevicePointer, Geometry, In, InOut, Out, Resources, Result, Stream, kernel_arguments,
};

use super::kmeans_pass::load;
use super::{KmeansState, same_length};
use crate::kernel::{KernelFunction, kernel};
use crate::kmeans::{CHUNK_WORDS, Centroids, FIT_STARTS, PassShape, START_WORDS};

kernel_arguments! {
    /// Arguments of `kmeans_fit`; the header describes each field.
    pub struct KmeansFitArguments in "galatea/args/kmeans_fit.h" {
        /// Chunk table.
        pub chunks: DevicePointer<u64>,
        /// Memory of each start.
        pub starts: [u64; FIT_STARTS * START_WORDS],
        /// Tolerance of the shift.
        pub tolerance: f64,
        /// Chunks.
        pub chunk_count: u32,
        /// Maximum number of tiles of a chunk.
        pub tiles_per_chunk: u32,
        /// Clusters.
        pub clusters: u32,
        /// Slots of the partials.
        pub slots: u32,
        /// Tiles between flushes.
        pub flush_tiles: u32,
        /// Copies that the threads of a block share.
        pub copies: u32,
        /// Factor of keys for matrix units.
        pub key_factor: u32,
        /// Features.
        pub features: u32,
        /// Maximum number of iterations.
        pub iterations: u32,
        /// Padding.
        pub unused: u32,
    }
}

kernel!(KmeansFit, "kmeans_fit", KmeansFitArguments);

/// Iterations compiled for one [`PassShape`], which neither writes nor reads labels.
#[derive(Debug, Clone)]
pub struct KmeansFit {
    function: KernelFunction<Self>,
    shape: PassShape,
    blocks: u64,
}

/// Memory of a start: as in [`KmeansPass`](crate::KmeansPass) and [`KmeansUpdate`](crate::KmeansUpdate).
#[derive(Debug)]
pub struct FitMemory<'a> {
    /// Centroids.
    pub centroids: InOut<'a, f32>,
    /// Sums of each slot, which are zero before and after.
    pub partials: InOut<'a, f64>,
    /// Squared distance that each centroid moved.
    pub shifts: Out<'a, f64>,
    /// Points of each cluster.
    pub masses: Out<'a, u64>,
    /// State of the fit.
    pub state: InOut<'a, KmeansState>,
    /// Scale for matrix units.
    pub scale: f32,
}

impl KmeansFit {
    /// Loads the kernel for a shape.
    ///
    /// # Errors
    /// See [`KmeansPass::new`](crate::KmeansPass::new).
    pub fn new(device: &Device, shape: PassShape) -> Result<Self> {
        let (function, blocks) = load(device, &shape)?;
        Ok(Self {
            function,
            shape,
            blocks,
        })
    }

    /// Registers and local memory.
    #[must_use]
    pub fn resources(&self) -> Resources {
        self.function.resources()
    }

    /// Maximum number of starts of one launch.
    #[must_use]
    pub fn most_starts(&self) -> usize {
        FIT_STARTS.min(self.blocks as usize)
    }

    /// Runs up to `iterations` iterations of each start over chunks of at most `most` points. A start ends
    /// when its centroids move no further than the tolerance. Until its state is reset, all launches of a
    /// start must process the same chunks with the same number of other starts.
    ///
    /// # Errors
    /// [`galatea_device::DeviceError::Range`] for inconsistent lengths or more starts than
    /// [`Self::most_starts`]; the device's.
    pub fn launch(
        &self,
        stream: &Stream,
        (most, iterations): (u32, u32),
        tolerance: f64,
        chunks: In<'_, u64>,
        starts: Vec<FitMemory<'_>>,
    ) -> Result<()> {
        let shape = &self.shape;
        let (k, d) = (shape.clusters as usize, shape.features as usize);
        let count = chunks.len() / CHUNK_WORDS;
        same_length("words of the chunk table", count * CHUNK_WORDS, chunks.len())?;
        let together = starts.len().clamp(1, self.most_starts());
        same_length("starts of kmeans_fit", together, starts.len())?;
        let tiles = u64::from(most).div_ceil(shape.tile_points()).max(1);
        let blocks = (tiles * count as u64).clamp(1, self.blocks / together as u64);
        let words = k * (d + 1) + 1;
        let (mut slots, mut addresses) = (usize::MAX, [0; FIT_STARTS * START_WORDS]);
        let mut references = vec![chunks.reference()];
        for (start, to) in starts.iter().zip(addresses.chunks_exact_mut(START_WORDS)) {
            let of_start = start.partials.len() / words;
            same_length(
                "partials of kmeans_fit",
                of_start.max(1) * words,
                start.partials.len(),
            )?;
            slots = slots.min(of_start);
            same_length(
                "centroids of kmeans_fit",
                Centroids::floats(k, d),
                start.centroids.len(),
            )?;
            same_length("shifts of kmeans_fit", k, start.shifts.len())?;
            same_length("masses of kmeans_fit", k, start.masses.len())?;
            same_length("state of kmeans_fit", 1, start.state.len())?;
            to.copy_from_slice(&[
                start.centroids.pointer().address(),
                start.partials.pointer().address(),
                start.shifts.pointer().address(),
                start.masses.pointer().address(),
                start.state.pointer().address(),
                start.scale.to_bits().into(),
            ]);
            references.extend([
                start.centroids.reference(),
                start.partials.reference(),
                start.shifts.reference(),
                start.masses.reference(),
                start.state.reference(),
            ]);
        }
        let arguments = KmeansFitArguments {
            chunks: chunks.pointer(),
            starts: addresses,
            tolerance,
            chunk_count: count as u32,
            tiles_per_chunk: tiles as u32,
            clusters: shape.clusters,
            // The other slots remain zero.
            slots: slots.min(blocks as usize) as u32,
            flush_tiles: shape.flush_tiles(),
            copies: shape.copies,
            key_factor: 64,
            features: shape.features,
            iterations,
            unused: 0,
        };
        let geometry =
            Geometry::new((blocks, together as u64), shape.threads).with_shared(shape.shared_bytes());
        self.function
            .launch_cooperative(stream, geometry, &arguments, &references)
    }
}
