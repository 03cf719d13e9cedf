//! Values of a column in the order of a window.

use galatea_device::{DevicePointer, Geometry, In, Out, Reference, Result, Stream, kernel_arguments};

use super::{BLOCK, same_length};
use crate::kernel::resident_kernel;

kernel_arguments! {
    /// Arguments of `window_values`.
    pub struct WindowValuesArguments in "galatea/args/window_values.h" {
        /// Entries, by row.
        pub entries: DevicePointer<u8>,
        /// A bit per row, or null.
        pub nulls: DevicePointer<u32>,
        /// By position: the row, or null.
        pub ids: DevicePointer<u32>,
        /// Receives the values by position.
        pub values: DevicePointer<u8>,
        /// Number of positions.
        pub rows: u64,
        /// An [`Entry`].
        pub entry: u32,
        /// A [`WindowValue`].
        pub value: u32,
    }
}

resident_kernel! {
    /// Writes the values of a column in the order of a window.
    WindowValues, "window_values", WindowValuesArguments
}

/// Type of an entry of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Entry {
    /// An unsigned integer of 8 bits.
    U8,
    /// An integer of 16 bits.
    I16,
    /// An integer of 32 bits.
    I32,
    /// An integer of 64 bits.
    I64,
    /// An integer of 128 bits.
    I128,
    /// A single.
    F32,
    /// A double.
    F64,
}

impl Entry {
    /// Bytes of an entry.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::U8 => 1,
            Self::I16 => 2,
            Self::I32 | Self::F32 => 4,
            Self::I64 | Self::F64 => 8,
            Self::I128 => 16,
        }
    }
}

/// The value computed from an entry; NULL becomes 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum WindowValue {
    /// 1, or 0 for NULL, in 32 bits.
    Valid,
    /// The integer modulo 2^64.
    Integer,
    /// The integer modulo 2^128.
    WideInteger,
    /// A double.
    Float,
    /// The rank among integers of 64 bits, or doubles.
    Rank,
    /// The complement of the rank.
    ComplementedRank,
    /// The rank among integers of 128 bits.
    WideRank,
    /// The complement of the wide rank.
    ComplementedWideRank,
}

impl WindowValue {
    /// Bytes of a value.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::Valid => 4,
            Self::Integer | Self::Float | Self::Rank | Self::ComplementedRank => 8,
            Self::WideInteger | Self::WideRank | Self::ComplementedWideRank => 16,
        }
    }
}

/// A column by row.
#[derive(Debug)]
pub struct WindowColumn<'a> {
    /// Type of its entries.
    pub entry: Entry,
    /// The entries.
    pub entries: In<'a, u8>,
    /// A bit per row: whether it is NULL.
    pub nulls: Option<In<'a, u32>>,
}

impl WindowValues {
    /// Writes to `values`, by position, the value that `value` selects for each entry of the column; `ids`
    /// are the rows in order, or `None` if they are in order already. Every id must be the number of an
    /// entry; doubles and singles do not count as integers.
    ///
    /// # Errors
    /// [`galatea_device::DeviceError::Range`] when values, ids and entries differ in number; the device's.
    pub fn launch(
        &self,
        stream: &Stream,
        column: &WindowColumn<'_>,
        ids: Option<In<'_, u32>>,
        value: WindowValue,
        values: Out<'_, u8>,
    ) -> Result<()> {
        let rows = values.len() / value.bytes();
        same_length("values in order", rows * value.bytes(), values.len())?;
        same_length(
            "entries of a column",
            rows * column.entry.bytes(),
            column.entries.len(),
        )?;
        if let Some(ids) = &ids {
            same_length("rows in order", rows, ids.len())?;
        }
        if let Some(nulls) = &column.nulls {
            same_length("bits of NULLs", rows.div_ceil(32), nulls.len())?;
        }
        let mut references: Vec<Reference<'_>> = vec![column.entries.reference(), values.reference()];
        references.extend(column.nulls.as_ref().map(In::reference));
        references.extend(ids.as_ref().map(In::reference));
        let arguments = WindowValuesArguments {
            entries: column.entries.pointer(),
            nulls: column.nulls.as_ref().map_or(DevicePointer::NULL, In::pointer),
            ids: ids.as_ref().map_or(DevicePointer::NULL, In::pointer),
            values: values.pointer(),
            rows: rows as u64,
            entry: column.entry as u32,
            value: value as u32,
        };
        let geometry = Geometry::grid_stride(rows as u64, BLOCK.into(), BLOCK, self.blocks);
        self.function.launch(stream, geometry, &arguments, &references)
    }
}
