//! Probing a hash table with tuples by address, to measure transfer methods with a join.

use galatea_device::{DeviceError, DevicePointer, Geometry, In, InOut, Result, Stream, kernel_arguments};

use super::BLOCK;
use crate::flow::mix64;
use crate::kernel::resident_kernel;

kernel_arguments! {
    /// Arguments of `link_probe`; the header describes each field.
    pub struct LinkProbeArguments in "galatea/args/link_probe.h" {
        /// Keys and payloads of the tuples.
        pub tuples: DevicePointer<u64>,
        /// Keys and payloads of the table.
        pub entries: DevicePointer<u64>,
        /// The sum is added to it.
        pub sum: DevicePointer<u64>,
        /// Tuples.
        pub count: u64,
        /// Slots of the table.
        pub slots: u64,
    }
}

resident_kernel! {
    /// Looks up tuples of 16 bytes in a hash table with linear probing, and sums the payloads of the matches.
    LinkProbe, "link_probe", LinkProbeArguments
}

/// The tuples of a launch of [`LinkProbe`].
#[derive(Debug, Clone, Copy)]
pub struct Tuples {
    /// Device address of the first, 16-byte aligned; all tuples must be valid for the duration of the launch.
    /// A tuple is a 64-bit key and a 64-bit payload.
    pub address: u64,
    /// Number of tuples.
    pub count: u64,
}

impl LinkProbe {
    /// The key of an empty slot, which no tuple may have.
    pub const EMPTY: u64 = 0;

    /// The first slot probed for a key, of a power of two.
    #[must_use]
    pub fn slot(key: u64, slots: u64) -> u64 {
        mix64(key) & (slots - 1)
    }

    /// Queues the lookup of tuples in a table with a key and a payload per slot; the payloads of both sides
    /// of each match are added to `sum`, of one value. At least one slot is empty, and each key is in the
    /// table at most once.
    ///
    /// # Errors
    /// [`DeviceError::Range`] if the number of slots is not a power of two, or for another number of sums;
    /// the device's.
    pub fn launch(
        &self,
        stream: &Stream,
        tuples: Tuples,
        table: In<'_, u64>,
        sum: InOut<'_, u64>,
    ) -> Result<()> {
        super::same_length("a sum", 1, sum.len())?;
        let words = table.len() as u64;
        if words < 2 || !words.is_power_of_two() {
            return Err(DeviceError::Range {
                what: "slots of a hash table",
                start: 0,
                end: words.next_power_of_two().max(2),
                len: words,
            });
        }
        let arguments = LinkProbeArguments {
            tuples: DevicePointer::new(tuples.address),
            entries: table.pointer(),
            sum: sum.pointer(),
            count: tuples.count,
            slots: words / 2,
        };
        let geometry = Geometry::grid_stride(tuples.count, u64::from(BLOCK), BLOCK, self.blocks);
        let references = [table.reference(), sum.reference()];
        self.function.launch(stream, geometry, &arguments, &references)
    }
}
