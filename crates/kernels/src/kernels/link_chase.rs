//! Following a chain by address, to measure the latency of transfer methods.

use galatea_device::{DeviceBuffer, DeviceError, DevicePointer, Geometry, Result, Stream, kernel_arguments};

use crate::kernel::resident_kernel;

kernel_arguments! {
    /// Arguments of `link_chase`; the header describes each field.
    pub struct LinkChaseArguments in "galatea/args/link_chase.h" {
        /// For each place, the place that follows it.
        pub next: DevicePointer<u32>,
        /// Receives the last place and the time.
        pub out: DevicePointer<u64>,
        /// Words between neighbouring places.
        pub stride: u64,
        /// Steps that are not timed.
        pub warm_steps: u64,
        /// Steps that are timed.
        pub steps: u64,
    }
}

resident_kernel! {
    /// Follows a chain through memory, by one thread, and measures the time of its loads.
    LinkChase, "link_chase", LinkChaseArguments
}

/// The chain of a launch of [`LinkChase`], which begins at place 0.
#[derive(Debug, Clone, Copy)]
pub struct Chain {
    /// Device address of the first place; the memory of all places must be valid for the duration of the
    /// launch.
    pub address: u64,
    /// Words between neighbouring places in memory.
    pub stride: u64,
    /// Steps before timing starts.
    pub warm_steps: u64,
    /// Timed steps.
    pub steps: u64,
}

impl LinkChase {
    /// Queues the steps along a chain; `out`, of two values, receives the last place and the nanoseconds of
    /// the timed steps.
    ///
    /// # Errors
    /// [`DeviceError::Range`] for another number of values; the device's.
    pub fn launch(&self, stream: &Stream, chain: Chain, out: &mut DeviceBuffer<u64>) -> Result<()> {
        if out.len() != 2 {
            return Err(DeviceError::Range {
                what: "place and time of a chain",
                start: 0,
                end: 2,
                len: out.len() as u64,
            });
        }
        let arguments = LinkChaseArguments {
            next: DevicePointer::new(chain.address),
            out: DevicePointer::new(out.address()),
            stride: chain.stride,
            warm_steps: chain.warm_steps,
            steps: chain.steps,
        };
        out.used_by(stream)?;
        let geometry = Geometry::new(self.blocks.min(1), 32_u64);
        self.function.launch(stream, geometry, &arguments, &[])
    }
}
