//! Selecting rows by address, to measure transfer methods by selectivity.

use galatea_device::{DeviceBuffer, DevicePointer, Geometry, Result, Stream, kernel_arguments};

use super::BLOCK;
use crate::kernel::resident_kernel;

kernel_arguments! {
    /// Arguments of `link_select`; the header describes each field.
    pub struct LinkSelectArguments in "galatea/args/link_select.h" {
        /// Three columns, one after another.
        pub columns: DevicePointer<u32>,
        /// The sum is added to it.
        pub sum: DevicePointer<u64>,
        /// Values of a column.
        pub rows: u64,
        /// A row is selected if its key is below it.
        pub threshold: u64,
        /// 1: all columns are loaded for every row.
        pub predicated: u32,
        /// Unused.
        pub unused: u32,
    }
}

resident_kernel! {
    /// Sums products of selected rows, like TPC-H query 6.
    LinkSelect, "link_select", LinkSelectArguments
}

/// The rows of a launch of [`LinkSelect`].
#[derive(Debug, Clone, Copy)]
pub struct Selection {
    /// Device address of three columns of 32-bit values: keys, then the two factors of the summed product;
    /// they must be valid for the duration of the launch.
    pub address: u64,
    /// Values of a column.
    pub rows: u64,
    /// A row is selected if its key is below it.
    pub threshold: u64,
    /// Whether values of all rows are loaded, rather than only those of selected rows.
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
