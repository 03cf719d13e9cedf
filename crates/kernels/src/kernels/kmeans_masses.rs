//! Counting the points of each cluster from labels.

use galatea_device::{
    Device, DeviceBuffer, DevicePointer, Geometry, In, InOut, Result, Stream, kernel_arguments,
};

use super::{BLOCK, same_length};
use crate::kernel::{KernelFunction, kernel};
use crate::kmeans::LabelWidth;

kernel_arguments! {
    /// Arguments of `kmeans_masses`; the header describes each field.
    pub struct KmeansMassesArguments in "galatea/args/kmeans_masses.h" {
        /// Labels.
        pub labels: DevicePointer<u8>,
        /// Masses.
        pub masses: DevicePointer<u64>,
        /// Histograms of blocks, or null.
        pub partials: DevicePointer<u32>,
        /// Number of labels.
        pub count: u64,
        /// Clusters.
        pub clusters: u64,
    }
}

kernel!(KmeansMasses, "kmeans_masses", KmeansMassesArguments);

/// How histograms of labels are replicated: the thesis' Mass Sums (§5.2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MassSum {
    /// One in device memory.
    GlobalAtomic,
    /// One per block, in device memory.
    PartitionedGlobal,
    /// One per block, in shared memory.
    PartitionedLocal,
    /// One per thread, in shared memory.
    PartitionedPrivate,
}

impl MassSum {
    /// All methods.
    pub const ALL: [Self; 4] = [
        Self::GlobalAtomic,
        Self::PartitionedGlobal,
        Self::PartitionedLocal,
        Self::PartitionedPrivate,
    ];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::GlobalAtomic => "global atomic",
            Self::PartitionedGlobal => "partitioned global",
            Self::PartitionedLocal => "partitioned local",
            Self::PartitionedPrivate => "partitioned private",
        }
    }

    /// Bytes of shared memory of a block of `threads` threads.
    #[must_use]
    pub fn shared_bytes(self, clusters: u32, threads: u32) -> u64 {
        let histogram = 4 * u64::from(clusters);
        match self {
            Self::GlobalAtomic | Self::PartitionedGlobal => 0,
            Self::PartitionedLocal => histogram,
            Self::PartitionedPrivate => histogram * u64::from(threads),
        }
    }
}

/// A histogram of labels, compiled for one method of replication.
#[derive(Debug)]
pub struct KmeansMasses {
    function: KernelFunction<Self>,
    way: MassSum,
    clusters: u32,
    width: LabelWidth,
    threads: u32,
    blocks: u64,
    /// Histograms of blocks.
    partials: Option<DeviceBuffer<u32>>,
}

impl KmeansMasses {
    /// Loads the kernel, and allocates the memory that blocks need. For private histograms, a block has the
    /// number of threads, at least 32, that fit `limit` bytes of shared memory; `None` if they do not fit.
    ///
    /// # Errors
    /// The device's.
    pub fn new(
        device: &Device,
        stream: &Stream,
        way: MassSum,
        clusters: u32,
        limit: u64,
    ) -> Result<Option<Self>> {
        let fits = |threads: &u32| way.shared_bytes(clusters, *threads) <= limit;
        let Some(threads) = [BLOCK, 128, 64, 32].into_iter().find(fits) else {
            return Ok(None);
        };
        let width = LabelWidth::of(clusters);
        let number = MassSum::ALL
            .iter()
            .position(|each| *each == way)
            .unwrap_or_default();
        let options = [
            format!("-DKMEANS_MASSES={number}"),
            format!("-DKMEANS_LABELS={}", width.bytes()),
        ];
        let function = KernelFunction::<Self>::load_with(device, options)?;
        let shared = way.shared_bytes(clusters, threads) as u32;
        let blocks = function.resident_blocks_with(threads, shared)?;
        let partials = match way {
            MassSum::PartitionedGlobal => {
                Some(device.zeroed::<u32>(stream, blocks as usize * clusters as usize)?)
            }
            _ => None,
        };
        Ok(Some(Self {
            function,
            way,
            clusters,
            width,
            threads,
            blocks,
            partials,
        }))
    }

    /// Threads of a block.
    #[must_use]
    pub fn threads(&self) -> u32 {
        self.threads
    }

    /// Maximum number of resident blocks.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Adds the number of labels of each cluster to `masses`, one word per cluster. Labels have the width for
    /// the number of clusters, and are less than it.
    ///
    /// # Errors
    /// [`galatea_device::DeviceError::Range`] for inconsistent lengths; the device's.
    pub fn launch(&mut self, stream: &Stream, labels: In<'_, u8>, masses: InOut<'_, u64>) -> Result<()> {
        same_length("masses of kmeans_masses", self.clusters as usize, masses.len())?;
        let width = self.width.bytes();
        let count = labels.len() / width;
        same_length("bytes of labels of kmeans_masses", count * width, labels.len())?;
        let mut references = vec![labels.reference(), masses.reference()];
        let partials = self.partials.as_mut().map(InOut);
        references.extend(partials.as_ref().map(InOut::reference));
        let arguments = KmeansMassesArguments {
            labels: labels.pointer(),
            masses: masses.pointer(),
            partials: partials.as_ref().map_or(DevicePointer::NULL, InOut::pointer),
            count: count as u64,
            clusters: self.clusters.into(),
        };
        let geometry = Geometry::grid_stride(
            (labels.len() as u64).div_ceil(16),
            self.threads.into(),
            self.threads,
            self.blocks,
        )
        .with_shared(self.way.shared_bytes(self.clusters, self.threads));
        self.function.launch(stream, geometry, &arguments, &references)
    }
}
