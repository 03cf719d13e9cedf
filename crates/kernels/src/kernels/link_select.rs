//! Selecting rows by address: for measuring ways across the link by selectivity.

use galatea_device::{DeviceBuffer, DevicePointer, Geometry, Result, Stream, kernel_arguments};

use super::BLOCK;
use crate::kernel::resident_kernel;

kernel_arguments! {
    /// Arguments of `link_select`; see the header for the meaning of each field.
    pub struct LinkSelectArguments in "galatea/args/link_select.h" {
        /// Three columns, one after another.
        pub columns: DevicePointer<u32>,
        /// Receives the sum.
        pub sum: DevicePointer<u64>,
        /// Values of a column.
        pub rows: u64,
        /// Rows are selected whose key is below it.
        pub threshold: u64,
        /// 1: all columns are loaded for every row.
        pub predicated: u32,
        /// Nothing.
        pub unused: u32,
    }
}

resident_kernel! {
    /// Sums products of selected rows, as TPC-H's query 6.
    LinkSelect, "link_select", LinkSelectArguments
}

/// The rows of a launch of [`LinkSelect`].
#[derive(Debug, Clone, Copy)]
pub struct Selection {
    /// Address of three columns of 32-bit values for the device: keys, then two whose product is summed; it
    /// must be theirs for as long as the launch runs.
    pub address: u64,
    /// Values of a column.
    pub rows: u64,
    /// Rows are selected whose key is below it.
    pub threshold: u64,
    /// Whether values are loaded of all rows, not of those alone that are selected.
    pub predicated: bool,
}

impl LinkSelect {
    /// Queues the selection; the sum of products is added to `sum`, of one value.
    ///
    /// # Errors
    /// The device's.
    pub fn launch(&self, stream: &Stream, selection: Selection, sum: &mut DeviceBuffer<u64>) -> Result<()> {
        let arguments = LinkSelectArguments {
            columns: DevicePointer::new(selection.address),
            sum: DevicePointer::new(sum.address()),
            rows: selection.rows,
            threshold: selection.threshold,
            predicated: u32::from(selection.predicated),
            unused: 0,
        };
        sum.used_by(stream)?;
        let geometry = Geometry::grid_stride(selection.rows, u64::from(BLOCK), BLOCK, self.blocks);
        self.function.launch(stream, geometry, &arguments, &[])
    }
}
