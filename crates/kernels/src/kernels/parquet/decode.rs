//! The kernels that decode pages to slots.

use galatea_device::{
    DeviceBuffer, DevicePointer, DeviceSlice, Geometry, In, InOut, Reference, Result, Stream,
    kernel_arguments,
};

use super::page::{ParquetPage, ParquetPageState};
use crate::kernel::{BLOCK, Kernel, KernelFunction, resident_kernel};

kernel_arguments! {
    /// Arguments of the kernels that decode pages; the header describes each field.
    pub struct ParquetDecodeArguments in "galatea/args/parquet_decode.h" {
        /// Page table.
        pub pages: DevicePointer<ParquetPage>,
        /// Findings by page.
        pub states: DevicePointer<ParquetPageState>,
        /// `page << 32 | first value`.
        pub tasks: DevicePointer<u64>,
        /// Bits of rows, by page.
        pub validity: DevicePointer<u32>,
        /// Values before each word of `validity`.
        pub before: DevicePointer<u32>,
        /// Values by slot.
        pub values: DevicePointer<u8>,
        /// Dictionary indices or prefix lengths by slot.
        pub indices: DevicePointer<u32>,
        /// Addresses of strings by slot.
        pub starts: DevicePointer<u64>,
        /// Lengths of strings by slot.
        pub lengths: DevicePointer<u32>,
        /// Bytes of joined strings.
        pub heap: DevicePointer<u8>,
        /// Nanoseconds of a unit.
        pub unit: u64,
        /// Number of tasks.
        pub count: u32,
        /// `ParquetForm`.
        pub form: u32,
        /// Bytes of a value; 0: each has its own length.
        pub value_bytes: u32,
        /// Phase of the kernel.
        pub phase: u32,
    }
}

/// Memory of pages and of their values by slot. Arrays that no page needs are empty.
#[derive(Debug)]
pub struct ParquetSlots {
    /// Stored bytes of all pages, padded by [`super::PARQUET_PADDING`].
    pub stored: DeviceBuffer<u8>,
    /// Bodies of compressed pages, padded likewise.
    pub bodies: DeviceBuffer<u8>,
    /// Page table: data pages in the order of rows, then dictionary pages.
    pub pages: DeviceBuffer<ParquetPage>,
    /// Findings by page.
    pub states: DeviceBuffer<ParquetPageState>,
    /// One bit per row, from each page's first word on.
    pub validity: DeviceBuffer<u32>,
    /// Number of the page's values before each word of `validity`.
    pub before: DeviceBuffer<u32>,
    /// Values by slot, as wide as the form.
    pub values: DeviceBuffer<u8>,
    /// Dictionary indices by slot; lengths of prefixes.
    pub indices: DeviceBuffer<u32>,
    /// Addresses of strings by slot.
    pub starts: DeviceBuffer<u64>,
    /// Lengths of strings by slot.
    pub lengths: DeviceBuffer<u32>,
    /// Bytes of strings that are joined from prefixes and suffixes, padded likewise.
    pub heap: DeviceBuffer<u8>,
}

/// The parameters of a launch beside its pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParquetStep {
    /// Conversion of values.
    pub form: super::ParquetForm,
    /// Bytes of a value in a page; 0: each value has its own length.
    pub value_bytes: u32,
    /// Nanoseconds of a unit, for INT96; at least 1.
    pub unit: u64,
    /// [`ParquetStrings`]: 0 locates strings, 1 joins prefixes and suffixes. [`ParquetFixed`]: 1 converts
    /// located strings.
    pub phase: u32,
}

impl ParquetSlots {
    fn arguments(&self, tasks: DeviceSlice<'_, u64>, step: &ParquetStep) -> ParquetDecodeArguments {
        ParquetDecodeArguments {
            pages: DevicePointer::new(self.pages.address()),
            states: DevicePointer::new(self.states.address()),
            tasks: DevicePointer::new(tasks.address()),
            validity: DevicePointer::new(self.validity.address()),
            before: DevicePointer::new(self.before.address()),
            values: DevicePointer::new(self.values.address()),
            indices: DevicePointer::new(self.indices.address()),
            starts: DevicePointer::new(self.starts.address()),
            lengths: DevicePointer::new(self.lengths.address()),
            heap: DevicePointer::new(self.heap.address()),
            unit: step.unit.max(1),
            count: tasks.len() as u32,
            form: step.form as u32,
            value_bytes: step.value_bytes,
            phase: step.phase,
        }
    }

    fn references<'a>(&'a mut self, tasks: DeviceSlice<'a, u64>) -> [Reference<'a>; 12] {
        [
            In(&self.stored).reference(),
            InOut(&mut self.bodies).reference(),
            In(&self.pages).reference(),
            InOut(&mut self.states).reference(),
            In(tasks).reference(),
            InOut(&mut self.validity).reference(),
            InOut(&mut self.before).reference(),
            InOut(&mut self.values).reference(),
            InOut(&mut self.indices).reference(),
            InOut(&mut self.starts).reference(),
            InOut(&mut self.lengths).reference(),
            InOut(&mut self.heap).reference(),
        ]
    }
}

/// A kernel that decodes pages.
pub trait ParquetDecode {
    /// Decodes the pages of tasks: page number in the high 32 bits, and first value in the low ones, which
    /// only [`ParquetFixed`] reads.
    ///
    /// # Errors
    /// The device's. Violations of the format are recorded in [`ParquetSlots::states`].
    fn launch(
        &self,
        stream: &Stream,
        slots: &mut ParquetSlots,
        tasks: DeviceSlice<'_, u64>,
        step: &ParquetStep,
    ) -> Result<()>;
}

fn launch<K: Kernel<Arguments = ParquetDecodeArguments>>(
    function: &KernelFunction<K>,
    stream: &Stream,
    (slots, tasks, step): (&mut ParquetSlots, DeviceSlice<'_, u64>, &ParquetStep),
    (of_block, resident): (u32, u64),
) -> Result<()> {
    if tasks.is_empty() {
        return Ok(());
    }
    let arguments = slots.arguments(tasks, step);
    let geometry = Geometry::grid_stride(tasks.len() as u64, of_block.into(), BLOCK, resident);
    function.launch(stream, geometry, &arguments, &slots.references(tasks))
}

/// Implements [`ParquetDecode`] for kernels with a number of tasks that a block has at a time.
macro_rules! decodes {
    ($($type:ident: $of_block:expr;)+) => {$(
        impl ParquetDecode for $type {
            fn launch(
                &self,
                stream: &Stream,
                slots: &mut ParquetSlots,
                tasks: DeviceSlice<'_, u64>,
                step: &ParquetStep,
            ) -> Result<()> {
                launch(&self.function, stream, (slots, tasks, step), ($of_block, self.blocks))
            }
        }
    )+};
}

resident_kernel! {
    /// Decompresses pages.
    ParquetDecompress, "parquet_decompress", ParquetDecodeArguments
}
resident_kernel! {
    /// Decodes definition levels, and finds the start of the values of pages.
    ParquetLevels, "parquet_levels", ParquetDecodeArguments
}
resident_kernel! {
    /// Decodes dictionary indices, and booleans in runs.
    ParquetHybrid, "parquet_hybrid", ParquetDecodeArguments
}
resident_kernel! {
    /// Decodes values of a fixed size.
    ParquetFixed, "parquet_fixed", ParquetDecodeArguments
}
resident_kernel! {
    /// Decodes integers of encoding DELTA_BINARY_PACKED.
    ParquetDelta, "parquet_delta", ParquetDecodeArguments
}
resident_kernel! {
    /// Locates strings.
    ParquetStrings, "parquet_strings", ParquetDecodeArguments
}

decodes! {
    ParquetDecompress: 1;
    ParquetLevels: 1;
    ParquetHybrid: 1;
    ParquetFixed: 1;
    ParquetDelta: BLOCK / 32;
    ParquetStrings: BLOCK / 32;
}

impl ParquetFixed {
    /// Number of values of a task.
    pub const TASK_VALUES: u32 = 2048;
}
