//! One pass of k-means over points: nearest centroids, labels, sums.

use galatea_device::{
    Device, DeviceError, DevicePointer, Geometry, In, InOut, Resources, Result, Stream, kernel_arguments,
};

use super::{KmeansState, same_length};
use crate::kernel::{Kernel, KernelFunction, kernel};
use crate::kmeans::{CHUNK_WORDS, PassShape};

kernel_arguments! {
    /// Arguments of `kmeans_pass`; the header describes each field.
    pub struct KmeansPassArguments in "galatea/args/kmeans_pass.h" {
        /// Chunk table.
        pub chunks: DevicePointer<u64>,
        /// Centroids.
        pub centroids: DevicePointer<f32>,
        /// Sums of each slot.
        pub partials: DevicePointer<f64>,
        /// State of the fit, or null.
        pub state: DevicePointer<KmeansState>,
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
        /// Factor of points and centroids for matrix units.
        pub scale: f32,
        /// Factor of keys for matrix units.
        pub key_factor: u32,
    }
}

kernel!(KmeansPass, "kmeans_pass", KmeansPassArguments);

/// A pass compiled for one [`PassShape`].
#[derive(Debug, Clone)]
pub struct KmeansPass {
    function: KernelFunction<Self>,
    shape: PassShape,
    blocks: u64,
}

/// Memory that a launch of a pass reads and adds to.
#[derive(Debug)]
pub struct PassMemory<'a> {
    /// [`CHUNK_WORDS`] words per chunk: address of the points, address of the labels or 0, points, stride.
    /// The caller keeps the chunks alive and in place until the launch is done.
    pub chunks: In<'a, u64>,
    /// Centroids in the layout of [`Centroids`](crate::kmeans::Centroids).
    pub centroids: In<'a, f32>,
    /// Sums of each slot, to which the pass adds.
    pub partials: InOut<'a, f64>,
    /// State of the fit: once it is done, the pass does nothing.
    pub state: Option<In<'a, KmeansState>>,
    /// [`matrix_scale`](crate::kmeans::matrix_scale) of the points, for
    /// [`Scores::Matrix`](crate::kmeans::Scores::Matrix).
    pub scale: f32,
}

/// A kernel compiled for a pass of that shape, and the maximum number of its resident blocks.
pub(super) fn load<K: Kernel>(device: &Device, shape: &PassShape) -> Result<(KernelFunction<K>, u64)> {
    let function = KernelFunction::<K>::load_with(device, shape.options())?;
    let shared = shape.shared_bytes();
    let limit = u64::from(device.info().shared_memory_per_block).saturating_sub(1024);
    if shared > limit {
        return Err(DeviceError::Geometry {
            kernel: K::NAME.to_owned(),
            what: "bytes of dynamic shared memory",
            asked: shared,
            limit,
        });
    }
    let blocks = function.resident_blocks_with(shape.threads, shared as u32)?;
    Ok((function, blocks))
}

impl KmeansPass {
    /// Loads the kernel for a shape.
    ///
    /// # Errors
    /// Those of [`Device::compile`]; [`DeviceError::Geometry`] if the device cannot run blocks of that shape,
    /// with the number of bytes of shared memory and the limit.
    pub fn new(device: &Device, shape: PassShape) -> Result<Self> {
        let (function, blocks) = load(device, &shape)?;
        Ok(Self {
            function,
            shape,
            blocks,
        })
    }

    /// The shape that it was compiled for.
    #[must_use]
    pub fn shape(&self) -> &PassShape {
        &self.shape
    }

    /// Maximum number of resident blocks, and of blocks of a launch.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Registers and local memory.
    #[must_use]
    pub fn resources(&self) -> Resources {
        self.function.resources()
    }

    /// Runs a pass over chunks of at most `most` points.
    ///
    /// # Errors
    /// [`DeviceError::Range`] for inconsistent lengths; the device's.
    pub fn launch(&self, stream: &Stream, most: u32, memory: PassMemory<'_>) -> Result<()> {
        let PassMemory {
            chunks,
            centroids,
            partials,
            state,
            scale,
        } = memory;
        let shape = &self.shape;
        let (k, d) = (shape.clusters as usize, shape.features as usize);
        let count = chunks.len() / CHUNK_WORDS;
        same_length("words of the chunk table", count * CHUNK_WORDS, chunks.len())?;
        same_length(
            "centroids of kmeans_pass",
            crate::kmeans::Centroids::floats(k, d),
            centroids.len(),
        )?;
        let words = k * (d + 1) + 1;
        let slots = partials.len() / words;
        same_length("partials of kmeans_pass", slots.max(1) * words, partials.len())?;
        let tiles = u64::from(most).div_ceil(shape.tile_points()).max(1);
        let arguments = KmeansPassArguments {
            chunks: chunks.pointer(),
            centroids: centroids.pointer(),
            partials: partials.pointer(),
            state: state.as_ref().map_or(DevicePointer::NULL, In::pointer),
            chunk_count: count as u32,
            tiles_per_chunk: tiles as u32,
            clusters: shape.clusters,
            slots: slots as u32,
            flush_tiles: shape.flush_tiles(),
            copies: shape.copies,
            scale,
            key_factor: 64,
        };
        let mut references = vec![chunks.reference(), centroids.reference(), partials.reference()];
        references.extend(state.as_ref().map(In::reference));
        let geometry = Geometry::grid_stride(tiles * count as u64, 1, shape.threads, self.blocks)
            .with_shared(shape.shared_bytes());
        self.function.launch(stream, geometry, &arguments, &references)
    }
}
