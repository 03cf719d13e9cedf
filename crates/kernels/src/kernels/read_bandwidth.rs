//! Reading device memory at full speed: the ceiling for every scan.

use galatea_device::{DeviceError, DevicePointer, Geometry, In, Out, Result, Stream, kernel_arguments};

use super::{BLOCK, whole_pairs};
use crate::kernel::resident_kernel;

kernel_arguments! {
    /// Arguments of `read_bandwidth`.
    pub struct ReadBandwidthArguments in "galatea/args/read_bandwidth.h" {
        /// Source; 16-byte aligned.
        pub values: DevicePointer<u64>,
        /// Number of values, even.
        pub count: u64,
        /// One wrapping sum per block.
        pub sums: DevicePointer<u64>,
    }
}

resident_kernel! {
    /// Reads an array once and sums it, so that the reads have a use.
    ReadBandwidth, "read_bandwidth", ReadBandwidthArguments
}

impl ReadBandwidth {
    /// Threads of a block.
    pub const BLOCK: u32 = BLOCK;
    /// Bytes that a thread has in flight.
    pub const BYTES_AT_ONCE: u64 = 64;

    /// Maximum number of resident blocks, and of blocks of a launch.
    #[must_use]
    pub fn blocks(&self) -> usize {
        usize::try_from(self.blocks).unwrap_or(usize::MAX)
    }

    /// Reads `values`, an even number of them, with one block per sum; the total of `sums` is the wrapping
    /// sum of the values.
    ///
    /// # Errors
    /// [`galatea_device::DeviceError::Range`] for an odd number, or more sums than [`Self::blocks`]; the
    /// device's.
    pub fn launch(&self, stream: &Stream, values: In<'_, u64>, sums: Out<'_, u64>) -> Result<()> {
        whole_pairs("values read in pairs", values.len())?;
        if sums.len() as u64 > self.blocks {
            return Err(DeviceError::Range {
                what: "sums of read_bandwidth",
                start: 0,
                end: sums.len() as u64,
                len: self.blocks,
            });
        }
        let arguments = ReadBandwidthArguments {
            values: values.pointer(),
            count: values.len() as u64,
            sums: sums.pointer(),
        };
        let geometry = Geometry::new(sums.len() as u64, BLOCK);
        self.function.launch(
            stream,
            geometry,
            &arguments,
            &[values.reference(), sums.reference()],
        )
    }
}
