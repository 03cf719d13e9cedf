//! Reading device memory as fast as it goes: the ceiling every scan is compared with.

use galatea_device::{Device, DevicePointer, Geometry, In, Out, Result, Stream, kernel_arguments};

use super::{BLOCK, same_length, whole_pairs};
use crate::kernel::{KernelFunction, kernel};

kernel_arguments! {
    /// Arguments of `read_bandwidth`.
    pub struct ReadBandwidthArguments in "galatea/args/read_bandwidth.h" {
        /// What is read; 16-byte aligned.
        pub values: DevicePointer<u64>,
        /// Number of values, even.
        pub count: u64,
        /// One wrapping sum per block.
        pub sums: DevicePointer<u64>,
    }
}

kernel!(ReadBandwidth, "read_bandwidth", ReadBandwidthArguments);

/// Reads an array once and sums it, so that the reads have a use.
#[derive(Debug, Clone)]
pub struct ReadBandwidth {
    function: KernelFunction<Self>,
    blocks: u64,
}

impl ReadBandwidth {
    /// Loads the kernel.
    ///
    /// # Errors
    /// Those of [`Device::compile`].
    pub fn new(device: &Device) -> Result<Self> {
        let function = KernelFunction::load(device)?;
        let blocks = function.resident_blocks(BLOCK)?;
        Ok(Self { function, blocks })
    }

    /// Blocks of a launch, and with it the length of its sums.
    #[must_use]
    pub fn blocks(&self) -> usize {
        usize::try_from(self.blocks).unwrap_or(usize::MAX)
    }

    /// Reads `values`, an even number of them; the sum of `sums` is the wrapping sum of the values.
    ///
    /// # Errors
    /// [`galatea_device::DeviceError::Range`] for an odd number, or sums of another length than [`Self::blocks`]; the
    /// device's.
    pub fn launch(&self, stream: &Stream, values: In<'_, u64>, sums: Out<'_, u64>) -> Result<()> {
        whole_pairs("values read in pairs", values.len())?;
        same_length("sums of read_bandwidth", self.blocks(), sums.len())?;
        let arguments = ReadBandwidthArguments {
            values: values.pointer(),
            count: values.len() as u64,
            sums: sums.pointer(),
        };
        let geometry = Geometry::new(self.blocks, BLOCK);
        self.function.launch(
            stream,
            geometry,
            &arguments,
            &[values.reference(), sums.reference()],
        )
    }
}
