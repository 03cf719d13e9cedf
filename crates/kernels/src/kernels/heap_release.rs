//! Freeing blocks of a heap, one per thread.

use galatea_device::{Device, DevicePointer, Geometry, In, Result, Stream, kernel_arguments};

use super::BLOCK;
use crate::heap::{HeapBuild, HeapView};
use crate::kernel::{KernelFunction, kernel};

kernel_arguments! {
    /// Arguments of `heap_release`.
    pub struct HeapReleaseArguments in "galatea/args/heap_release.h" {
        /// The heap.
        pub heap: HeapView,
        /// Addresses of blocks to free; 0 is skipped.
        pub addresses: DevicePointer<u64>,
        /// Number of addresses.
        pub count: u64,
    }
}

kernel!(HeapRelease, "heap_release", HeapReleaseArguments);

/// Frees blocks, one thread per block.
#[derive(Debug, Clone)]
pub struct HeapRelease {
    function: KernelFunction<Self>,
}

impl HeapRelease {
    /// Loads the kernel with a page search.
    ///
    /// # Errors
    /// Those of [`Device::compile`].
    pub fn new(device: &Device, build: HeapBuild) -> Result<Self> {
        let function = KernelFunction::load_with(device, build.options())?;
        Ok(Self { function })
    }

    /// Frees the blocks at `addresses`; zeros are skipped.
    ///
    /// # Errors
    /// The device's.
    pub fn launch(&self, stream: &Stream, heap: HeapView, addresses: In<'_, u64>) -> Result<()> {
        let count = addresses.len() as u64;
        let arguments = HeapReleaseArguments {
            heap,
            addresses: addresses.pointer(),
            count,
        };
        let geometry = Geometry::covering(count, BLOCK.into(), BLOCK);
        self.function
            .launch(stream, geometry, &arguments, &[addresses.reference()])
    }
}
