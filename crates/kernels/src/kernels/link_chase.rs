//! Following a chain by address: for measuring the latency of ways across the link.

use galatea_device::{DeviceBuffer, DevicePointer, Geometry, Result, Stream, kernel_arguments};

use crate::kernel::resident_kernel;

kernel_arguments! {
    /// Arguments of `link_chase`; see the header for the meaning of each field.
    pub struct LinkChaseArguments in "galatea/args/link_chase.h" {
        /// Of each place, the place that follows it.
        pub next: DevicePointer<u32>,
        /// Receives the last place.
        pub last: DevicePointer<u64>,
        /// Words from one place to the next.
        pub stride: u64,
        /// Steps.
        pub steps: u64,
    }
}

resident_kernel! {
    /// Follows a chain through memory, by one thread.
    LinkChase, "link_chase", LinkChaseArguments
}

impl LinkChase {
    /// Queues so many steps along a chain at an address, whose places are `stride` words apart; the place
    /// reached goes to `last`, of one value. The address must be the chain's for as long as the launch runs.
    ///
    /// # Errors
    /// The device's.
    pub fn launch(
        &self,
        stream: &Stream,
        address: u64,
        stride: u64,
        steps: u64,
        last: &mut DeviceBuffer<u64>,
    ) -> Result<()> {
        let arguments = LinkChaseArguments {
            next: DevicePointer::new(address),
            last: DevicePointer::new(last.address()),
            stride,
            steps,
        };
        last.used_by(stream)?;
        let geometry = Geometry::new(self.blocks.min(1), 32_u64);
        self.function.launch(stream, geometry, &arguments, &[])
    }
}
