//! Copying the rows of page chains into dense columns.

use galatea_device::{Device, DevicePointer, Geometry, Out, Result, Stream, kernel_arguments};

use super::{BLOCK, same_length};
use crate::heap::{HeapBuild, PageChainsView};
use crate::kernel::{KernelFunction, kernel};

kernel_arguments! {
    /// Arguments of `heap_gather`.
    pub struct HeapGatherArguments in "galatea/args/heap_gather.h" {
        /// The chains.
        pub chains: PageChainsView,
        /// The columns, one after another.
        pub columns: DevicePointer<u64>,
        /// Receives the number of rows.
        pub rows: DevicePointer<u64>,
        /// Capacity of a column in rows.
        pub room: u64,
        /// 1: pages are freed.
        pub release: u32,
        /// Unused.
        pub padding: u32,
    }
}

kernel!(HeapGather, "heap_gather", HeapGatherArguments);

/// Copies rows out of chains.
#[derive(Debug, Clone)]
pub struct HeapGather {
    function: KernelFunction<Self>,
    blocks: u64,
}

impl HeapGather {
    /// Loads the kernel with a page search, with which pages are freed.
    ///
    /// # Errors
    /// Those of [`Device::compile`].
    pub fn new(device: &Device, build: HeapBuild) -> Result<Self> {
        let function = KernelFunction::load_with(device, build.options())?;
        let blocks = function.resident_blocks(BLOCK)?;
        Ok(Self { function, blocks })
    }

    /// Writes word `c` of row `r` to `columns[c * room + r]`; `columns` holds `room` rows; chains are copied
    /// in order. `rows` (one word) receives the number of rows, even if `columns` is too small for all. With
    /// `release`, the pages are released to the heap, and the chains in device memory are no longer valid.
    ///
    /// # Errors
    /// [`galatea_device::DeviceError::Range`] when `rows` is not one word; the device's.
    pub fn launch(
        &self,
        stream: &Stream,
        chains: PageChainsView,
        columns: Out<'_, u64>,
        rows: Out<'_, u64>,
        release: bool,
    ) -> Result<()> {
        same_length("counters of gathered rows", 1, rows.len())?;
        let arguments = HeapGatherArguments {
            chains,
            columns: columns.pointer(),
            rows: rows.pointer(),
            room: columns.len() as u64 / u64::from(chains.words.max(1)),
            release: release.into(),
            padding: 0,
        };
        let geometry = Geometry::grid_stride(chains.count.into(), 1, BLOCK, self.blocks);
        self.function.launch(
            stream,
            geometry,
            &arguments,
            &[columns.reference(), rows.reference()],
        )
    }
}
