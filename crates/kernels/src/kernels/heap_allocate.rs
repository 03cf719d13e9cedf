//! One request to a heap per thread.

use galatea_device::{Device, DevicePointer, Geometry, In, Out, Resources, Result, Stream, kernel_arguments};

use super::{BLOCK, same_length};
use crate::heap::{HeapBuild, HeapView};
use crate::kernel::{KernelFunction, kernel};

kernel_arguments! {
    /// Arguments of `heap_allocate`.
    pub struct HeapAllocateArguments in "galatea/args/heap_allocate.h" {
        /// The heap.
        pub heap: HeapView,
        /// Bytes per request; null: the same for all.
        pub sizes: DevicePointer<u64>,
        /// Receives the addresses.
        pub addresses: DevicePointer<u64>,
        /// Requests.
        pub count: u64,
        /// Bytes of each request if `sizes` is null.
        pub bytes: u64,
    }
}

kernel!(HeapAllocate, "heap_allocate", HeapAllocateArguments);

/// Requests blocks, one thread per block.
#[derive(Debug, Clone)]
pub struct HeapAllocate {
    function: KernelFunction<Self>,
}

impl HeapAllocate {
    /// Loads the kernel with a page search.
    ///
    /// # Errors
    /// Those of [`Device::compile`].
    pub fn new(device: &Device, build: HeapBuild) -> Result<Self> {
        let function = KernelFunction::load_with(device, build.options())?;
        Ok(Self { function })
    }

    /// The resources of a multiprocessor that it needs.
    #[must_use]
    pub fn resources(&self) -> Resources {
        self.function.resources()
    }

    /// Allocates one block of `bytes` bytes for each of `addresses`, which receive 0 on failure.
    ///
    /// # Errors
    /// The device's.
    pub fn launch(&self, stream: &Stream, heap: HeapView, bytes: u64, addresses: Out<'_, u64>) -> Result<()> {
        let count = addresses.len() as u64;
        let arguments = HeapAllocateArguments {
            heap,
            sizes: DevicePointer::NULL,
            addresses: addresses.pointer(),
            count,
            bytes,
        };
        let geometry = Geometry::covering(count, BLOCK.into(), BLOCK);
        self.function
            .launch(stream, geometry, &arguments, &[addresses.reference()])
    }

    /// The same as [`HeapAllocate::launch`], with a size for each.
    ///
    /// # Errors
    /// [`galatea_device::DeviceError::Range`] when the number of sizes is not that of the addresses; the
    /// device's.
    pub fn launch_sizes(
        &self,
        stream: &Stream,
        heap: HeapView,
        sizes: In<'_, u64>,
        addresses: Out<'_, u64>,
    ) -> Result<()> {
        same_length("sizes of the requests", addresses.len(), sizes.len())?;
        let count = addresses.len() as u64;
        let arguments = HeapAllocateArguments {
            heap,
            sizes: sizes.pointer(),
            addresses: addresses.pointer(),
            count,
            bytes: 0,
        };
        let geometry = Geometry::covering(count, BLOCK.into(), BLOCK);
        let references = [sizes.reference(), addresses.reference()];
        self.function.launch(stream, geometry, &arguments, &references)
    }
}
