//! Late materialisation of payload columns.

use galatea_device::{Device, DevicePointer, Geometry, Result, Stream};

use super::arguments::RadixMaterialiseArguments;
use crate::kernel::{BLOCK, KernelFunction, kernel};

kernel!(RadixMaterialise, "radix_materialise", RadixMaterialiseArguments);

/// Sums values of columns by record number.
#[derive(Debug, Clone)]
pub struct RadixMaterialise {
    function: KernelFunction<Self>,
}

impl RadixMaterialise {
    /// Blocks of a multiprocessor.
    const RESIDENT: u64 = 8;

    /// Loads the kernel.
    ///
    /// # Errors
    /// Those of [`Device::compile`].
    pub fn new(device: &Device) -> Result<Self> {
        let function = KernelFunction::load(device)?;
        Ok(Self { function })
    }

    /// Adds the values of `width` columns, for the record numbers in an index of `count` elements, and the
    /// number of records, to the two values at device address `sums`. Elements with all bits set are no
    /// records. `columns` is the device address of the addresses of the columns, which may be in any memory.
    ///
    /// # Errors
    /// The device's.
    pub fn launch(
        &self,
        stream: &Stream,
        (index, count): (u64, u64),
        (columns, width): (u64, u32),
        sums: u64,
        multiprocessors: u32,
    ) -> Result<()> {
        let arguments = RadixMaterialiseArguments {
            index: DevicePointer::new(index),
            columns: DevicePointer::new(columns),
            sums: DevicePointer::new(sums),
            count,
            width,
            unused: 0,
        };
        let most = Self::RESIDENT * u64::from(multiprocessors.max(1));
        let geometry = Geometry::grid_stride(count, BLOCK.into(), BLOCK, most);
        self.function.launch(stream, geometry, &arguments, &[])
    }
}
