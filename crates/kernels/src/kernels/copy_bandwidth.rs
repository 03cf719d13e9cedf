//! Copying within device memory at full speed.

use galatea_device::{DevicePointer, Geometry, In, Out, Result, Stream, kernel_arguments};

use super::{BLOCK, same_length, whole_pairs};
use crate::kernel::resident_kernel;

kernel_arguments! {
    /// Arguments of `copy_bandwidth`.
    pub struct CopyBandwidthArguments in "galatea/args/copy_bandwidth.h" {
        /// Source; 16-byte aligned.
        pub source: DevicePointer<u64>,
        /// Target; 16-byte aligned.
        pub target: DevicePointer<u64>,
        /// Number of values, even.
        pub count: u64,
    }
}

resident_kernel! {
    /// Copies an array.
    CopyBandwidth, "copy_bandwidth", CopyBandwidthArguments
}

impl CopyBandwidth {
    /// Copies `source` to `target`, the same even number of values.
    ///
    /// # Errors
    /// [`galatea_device::DeviceError::Range`] for an odd number or different lengths; the device's.
    pub fn launch(&self, stream: &Stream, source: In<'_, u64>, target: Out<'_, u64>) -> Result<()> {
        whole_pairs("values copied in pairs", source.len())?;
        same_length("target of copy_bandwidth", source.len(), target.len())?;
        let arguments = CopyBandwidthArguments {
            source: source.pointer(),
            target: target.pointer(),
            count: source.len() as u64,
        };
        let geometry = Geometry::new(self.blocks, BLOCK);
        self.function.launch(
            stream,
            geometry,
            &arguments,
            &[source.reference(), target.reference()],
        )
    }
}
