//! The probe of a no-partitioning hash join by address.

use galatea_device::{DevicePointer, Geometry, InOut, Result, Stream, kernel_arguments};

use super::{BLOCK, JoinRows, JoinTable};
use crate::kernel::resident_kernel;

kernel_arguments! {
    /// Arguments of `join_probe`; the header describes each field.
    pub struct JoinProbeArguments in "galatea/args/join_probe.h" {
        /// Keys.
        pub keys: DevicePointer<u8>,
        /// Payloads.
        pub payloads: DevicePointer<u8>,
        /// Keys and payloads of the table.
        pub entries: DevicePointer<u8>,
        /// The sum and the number of matches are added to it.
        pub sum: DevicePointer<u64>,
        /// Rows.
        pub rows: u64,
        /// Slots of the table.
        pub slots: u64,
        /// Bits of a hash; 0: perfect hashing.
        pub slot_bits: u32,
        /// Bytes of a key or a payload.
        pub word_bytes: u32,
    }
}

resident_kernel! {
    /// Looks up rows of two columns in a hash table, and sums the payloads of the matches.
    JoinProbe, "join_probe", JoinProbeArguments
}

impl JoinProbe {
    /// Queues the lookup of rows. `sum` has two values: the wrapping sum of the payloads of both sides of
    /// each match is added to the first, and the number of matches to the second.
    ///
    /// # Errors
    /// [`galatea_device::DeviceError::Range`] for a table as in [`super::JoinBuild::launch`], or for another
    /// number of sums; the device's.
    pub fn launch(
        &self,
        stream: &Stream,
        rows: JoinRows,
        table: &JoinTable,
        sum: InOut<'_, u64>,
    ) -> Result<()> {
        super::same_length("a sum and the matches", 2, sum.len())?;
        let arguments = JoinProbeArguments {
            keys: DevicePointer::new(rows.keys),
            payloads: DevicePointer::new(rows.payloads),
            entries: DevicePointer::new(table.address),
            sum: sum.pointer(),
            rows: rows.rows,
            slots: table.slots,
            slot_bits: table.slot_bits()?,
            word_bytes: table.word_bytes,
        };
        let geometry = Geometry::grid_stride(rows.rows, u64::from(BLOCK), BLOCK, self.blocks);
        self.function
            .launch(stream, geometry, &arguments, &[sum.reference()])
    }
}
