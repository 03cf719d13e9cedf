//! The kernels that write values by row.

use std::ops::Range;

use bytemuck::{Pod, Zeroable};
use galatea_device::{
    DeviceBuffer, DevicePointer, DeviceSlice, Geometry, In, InOut, Out, Reference, Result, Stream,
    kernel_arguments,
};

use super::decode::ParquetSlots;
use super::page::{ParquetPage, ParquetPageState};
use crate::kernel::{BLOCK, resident_kernel};
use crate::kernels::same_length;

/// Order of the values of a column, for their bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum ParquetOrder {
    /// Values without bounds.
    Unordered = 0,
    /// `i64`.
    Signed = 1,
    /// `u64`.
    Unsigned = 2,
    /// `i128`.
    Signed128 = 3,
    /// `f32` in total order, without NaN.
    Float32 = 4,
    /// `f64` in total order, without NaN.
    Float64 = 5,
    /// `u8`.
    Byte = 6,
}

/// Kind of the rows that [`ParquetRows`] writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParquetRowKind {
    /// Values of the given number of bytes: 1, 4, 8 or 16.
    Values(u32),
    /// Indices of the dictionaries of all column chunks, one after the other.
    Indices,
    /// Addresses and lengths of strings.
    Strings,
}

/// Bounds of the values that a block has written. A key is the value as `i128` with its sign bit inverted;
/// floats are first mapped to integers of the same order.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
pub struct ParquetBounds {
    /// The least key, low word first; greater than the greatest if there is none.
    pub least: [u64; 2],
    /// The greatest key, low word first.
    pub greatest: [u64; 2],
    /// Number of NaN.
    pub nans: u64,
    /// Number of values that are not NULL.
    pub values: u64,
}

kernel_arguments! {
    /// Arguments of `parquet_rows`; the header describes each field.
    pub struct ParquetRowsArguments in "galatea/args/parquet_rows.h" {
        /// Data pages in the order of rows.
        pub pages: DevicePointer<ParquetPage>,
        /// Findings by page.
        pub states: DevicePointer<ParquetPageState>,
        /// Bits of rows, by page.
        pub validity: DevicePointer<u32>,
        /// Values before each word of `validity`.
        pub before: DevicePointer<u32>,
        /// Values by slot.
        pub values: DevicePointer<u8>,
        /// Dictionary indices by slot.
        pub indices: DevicePointer<u32>,
        /// Addresses of strings by slot.
        pub starts: DevicePointer<u64>,
        /// Lengths of strings by slot.
        pub lengths: DevicePointer<u32>,
        /// Values or indices by row.
        pub row_values: DevicePointer<u8>,
        /// Addresses of strings by row.
        pub row_starts: DevicePointer<u64>,
        /// Lengths of strings by row.
        pub row_lengths: DevicePointer<u32>,
        /// One bit per row.
        pub row_validity: DevicePointer<u32>,
        /// Bounds by block.
        pub bounds: DevicePointer<ParquetBounds>,
        /// First row among those of all pages.
        pub first_row: u64,
        /// Slot of the dictionary value with index 0.
        pub dictionary: u64,
        /// Number of rows.
        pub rows: u64,
        /// Number of data pages.
        pub page_count: u32,
        /// `ParquetRowKind`.
        pub kind: u32,
        /// Bytes of a value.
        pub width: u32,
        /// `ParquetOrder`.
        pub order: u32,
    }
}

kernel_arguments! {
    /// Arguments of `parquet_copy_strings`.
    pub struct ParquetCopyStringsArguments in "galatea/args/parquet_copy_strings.h" {
        /// Addresses of strings.
        pub starts: DevicePointer<u64>,
        /// First byte of each copy; one more than strings.
        pub offsets: DevicePointer<u64>,
        /// The copies.
        pub bytes: DevicePointer<u8>,
        /// The offsets in 32 bits; or null.
        pub narrow: DevicePointer<u32>,
        /// Lowered to the number of each string that is not UTF-8; null: not checked.
        pub invalid: DevicePointer<u64>,
        /// Number of strings.
        pub count: u64,
    }
}

kernel_arguments! {
    /// Arguments of `parquet_pack`.
    pub struct ParquetPackArguments in "galatea/args/parquet_pack.h" {
        /// Integers by row; or null.
        pub values: DevicePointer<u64>,
        /// Dictionary indices by row, if `values` is null.
        pub indices: DevicePointer<u32>,
        /// One bit per row; null: all are valid.
        pub validity: DevicePointer<u32>,
        /// Code of each dictionary index.
        pub map: DevicePointer<u32>,
        /// The codes.
        pub codes: DevicePointer<u8>,
        /// Integer of code 0.
        pub base: u64,
        /// Difference of integers with consecutive codes.
        pub factor: u64,
        /// Number of rows.
        pub rows: u64,
        /// Bytes of a code.
        pub width: u32,
        /// Words of an integer.
        pub words: u32,
    }
}

kernel_arguments! {
    /// Arguments of `parquet_divisor`.
    pub struct ParquetDivisorArguments in "galatea/args/parquet_divisor.h" {
        /// Integers by row.
        pub values: DevicePointer<u64>,
        /// One bit per row; null: all are valid.
        pub validity: DevicePointer<u32>,
        /// Greatest common divisor by block.
        pub divisors: DevicePointer<u64>,
        /// The least integer.
        pub base: u64,
        /// Number of rows.
        pub rows: u64,
        /// Words of an integer.
        pub words: u64,
    }
}

resident_kernel! {
    /// Finds the greatest common divisor of differences.
    ParquetDivisor, "parquet_divisor", ParquetDivisorArguments
}
resident_kernel! {
    /// Distributes values from slots to rows.
    ParquetRows, "parquet_rows", ParquetRowsArguments
}
resident_kernel! {
    /// Copies located strings one after the other.
    ParquetCopyStrings, "parquet_copy_strings", ParquetCopyStringsArguments
}
resident_kernel! {
    /// Converts integers and dictionary indices to codes.
    ParquetPack, "parquet_pack", ParquetPackArguments
}

/// The data pages that [`ParquetRows`] distributes, and their rows.
#[derive(Debug, Clone)]
pub struct ParquetPages {
    /// Consecutive data pages.
    pub pages: Range<usize>,
    /// First row of these pages among the rows of all pages.
    pub first_row: usize,
    /// Number of rows of these pages.
    pub rows: usize,
    /// Slot of the dictionary value with index 0.
    pub dictionary: usize,
}

/// The arrays that [`ParquetRows`] writes.
#[derive(Debug)]
pub struct ParquetRowsOutput<'a> {
    /// Values, or indices of 4 bytes, by row; empty for strings.
    pub values: &'a mut DeviceBuffer<u8>,
    /// Addresses of strings by row; empty for others.
    pub starts: &'a mut DeviceBuffer<u64>,
    /// Lengths of strings by row; empty for others.
    pub lengths: &'a mut DeviceBuffer<u32>,
    /// One bit per row, in whole words; none if no row is NULL.
    pub validity: Option<&'a mut DeviceBuffer<u32>>,
    /// Bounds by block: [`ParquetRows::bounds`] of them.
    pub bounds: &'a mut DeviceBuffer<ParquetBounds>,
}

impl ParquetRows {
    /// Number of bounds that a launch over a number of rows writes.
    #[must_use]
    pub fn bounds(&self, rows: usize) -> usize {
        self.geometry(rows).grid.x as usize
    }

    fn geometry(&self, rows: usize) -> Geometry {
        Geometry::grid_stride(rows as u64, BLOCK.into(), BLOCK, self.blocks)
    }

    /// Writes the rows of intact pages. NULL rows receive 0.
    ///
    /// # Errors
    /// [`galatea_device::DeviceError::Range`] if the length of an array is not the number of rows, or a page
    /// does not exist; the device's.
    pub fn launch(
        &self,
        stream: &Stream,
        slots: &ParquetSlots,
        from: ParquetPages,
        (kind, order): (ParquetRowKind, ParquetOrder),
        output: ParquetRowsOutput<'_>,
    ) -> Result<()> {
        let (rows, page_count) = (from.rows, from.pages.len());
        let pages = slots.pages.slice(from.pages)?;
        let (width, strings) = match kind {
            ParquetRowKind::Values(width) => (width as usize, 0),
            ParquetRowKind::Indices => (size_of::<u32>(), 0),
            ParquetRowKind::Strings => (0, rows),
        };
        same_length("values of rows", width * rows, output.values.len())?;
        same_length("addresses of strings", strings, output.starts.len())?;
        same_length("lengths of strings", strings, output.lengths.len())?;
        same_length("bounds of blocks", self.bounds(rows), output.bounds.len())?;
        if let Some(validity) = &output.validity {
            same_length("validity of rows", rows.div_ceil(32), validity.len())?;
        }
        same_length("data pages", page_count.max(1), page_count)?;
        let row_validity = output.validity.as_ref().map_or(0, |validity| validity.address());
        let arguments = ParquetRowsArguments {
            pages: DevicePointer::new(pages.address()),
            states: DevicePointer::new(slots.states.address()),
            validity: DevicePointer::new(slots.validity.address()),
            before: DevicePointer::new(slots.before.address()),
            values: DevicePointer::new(slots.values.address()),
            indices: DevicePointer::new(slots.indices.address()),
            starts: DevicePointer::new(slots.starts.address()),
            lengths: DevicePointer::new(slots.lengths.address()),
            row_values: DevicePointer::new(output.values.address()),
            row_starts: DevicePointer::new(output.starts.address()),
            row_lengths: DevicePointer::new(output.lengths.address()),
            row_validity: DevicePointer::new(row_validity),
            bounds: DevicePointer::new(output.bounds.address()),
            first_row: from.first_row as u64,
            dictionary: from.dictionary as u64,
            rows: rows as u64,
            page_count: page_count as u32,
            kind: match kind {
                ParquetRowKind::Values(_) => 0,
                ParquetRowKind::Indices => 1,
                ParquetRowKind::Strings => 2,
            },
            width: width as u32,
            order: order as u32,
        };
        let mut references: Vec<Reference<'_>> = vec![
            In(&slots.pages).reference(),
            In(&slots.states).reference(),
            In(&slots.validity).reference(),
            In(&slots.before).reference(),
            In(&slots.values).reference(),
            In(&slots.indices).reference(),
            In(&slots.starts).reference(),
            In(&slots.lengths).reference(),
            Out(output.values).reference(),
            Out(output.starts).reference(),
            Out(output.lengths).reference(),
            Out(output.bounds).reference(),
        ];
        references.extend(output.validity.map(|validity| Out(validity).reference()));
        self.function
            .launch(stream, self.geometry(rows), &arguments, &references)
    }
}

impl ParquetCopyStrings {
    const COPIERS: u64 = 8;

    /// Copies the string at each address to its offset in `bytes`, up to the next offset. `sources` are the
    /// buffers that hold the strings. `narrow` receives the offsets in 32 bits, or is empty. `invalid` is
    /// lowered to the number of each string that is not UTF-8.
    ///
    /// # Errors
    /// [`galatea_device::DeviceError::Range`] when there is not one offset more than addresses; the
    /// device's.
    pub fn launch(
        &self,
        stream: &Stream,
        (starts, sources): (In<'_, u64>, &[DeviceSlice<'_, u8>]),
        offsets: In<'_, u64>,
        bytes: InOut<'_, u8>,
        narrow: Out<'_, u32>,
        invalid: Option<InOut<'_, u64>>,
    ) -> Result<()> {
        if let Some(invalid) = &invalid {
            same_length("number of an invalid string", 1, invalid.len())?;
        }
        same_length("offsets of strings", starts.len() + 1, offsets.len())?;
        if !narrow.is_empty() {
            same_length("narrow offsets", offsets.len(), narrow.len())?;
        }
        let arguments = ParquetCopyStringsArguments {
            starts: starts.pointer(),
            offsets: offsets.pointer(),
            bytes: bytes.pointer(),
            narrow: narrow.pointer(),
            invalid: invalid.as_ref().map_or(DevicePointer::NULL, InOut::pointer),
            count: starts.len() as u64,
        };
        let mut references = vec![
            starts.reference(),
            offsets.reference(),
            bytes.reference(),
            narrow.reference(),
        ];
        references.extend(invalid.as_ref().map(InOut::reference));
        references.extend(sources.iter().map(|source| In(*source).reference()));
        let threads = (arguments.count + 1) * Self::COPIERS;
        let geometry = Geometry::grid_stride(threads, BLOCK.into(), BLOCK, self.blocks);
        self.function.launch(stream, geometry, &arguments, &references)
    }
}

/// The input of a packing.
#[derive(Debug)]
pub enum ParquetPacking<'a> {
    /// Integers by row: `code = (integer - base) / factor`, less than 2^64 for every integer.
    Integers {
        /// The integers, as bytes.
        values: In<'a, u8>,
        /// Bytes of an integer: 8 or 16.
        bytes: usize,
        /// Integer of code 0.
        base: i64,
        /// Difference of integers with consecutive codes, at least 1.
        factor: u64,
    },
    /// Dictionary indices by row: `code = map[index]`.
    Indices {
        /// The indices, 4 bytes each, below the number of codes in `map`.
        indices: In<'a, u8>,
        /// Code of each index.
        map: In<'a, u32>,
    },
}

impl ParquetPack {
    /// Writes a code of `width` bytes (1, 2, 4 or 8) for each of `rows` rows; 0 for NULL rows.
    ///
    /// # Errors
    /// [`galatea_device::DeviceError::Range`] for arrays that have not the length of the rows; the device's.
    pub fn launch(
        &self,
        stream: &Stream,
        (packing, rows): (ParquetPacking<'_>, usize),
        validity: Option<In<'_, u32>>,
        width: u32,
        codes: Out<'_, u8>,
    ) -> Result<()> {
        same_length("codes of rows", rows * width as usize, codes.len())?;
        if let Some(validity) = &validity {
            same_length("validity of rows", rows.div_ceil(32), validity.len())?;
        }
        let mut arguments = ParquetPackArguments {
            values: DevicePointer::NULL,
            indices: DevicePointer::NULL,
            validity: validity.as_ref().map_or(DevicePointer::NULL, In::pointer),
            map: DevicePointer::NULL,
            codes: codes.pointer(),
            base: 0,
            factor: 1,
            rows: rows as u64,
            width,
            words: 1,
        };
        let mut references = vec![codes.reference()];
        references.extend(validity.as_ref().map(In::reference));
        match packing {
            ParquetPacking::Integers {
                values,
                bytes,
                base,
                factor,
            } => {
                same_length("integers of rows", rows * bytes, values.len())?;
                arguments.words = (bytes / size_of::<u64>()) as u32;
                arguments.values = DevicePointer::new(values.pointer().address());
                arguments.base = base as u64;
                arguments.factor = factor.max(1);
                references.push(values.reference());
            }
            ParquetPacking::Indices { indices, map } => {
                same_length("indices of rows", rows * size_of::<u32>(), indices.len())?;
                arguments.indices = DevicePointer::new(indices.pointer().address());
                arguments.map = map.pointer();
                references.extend([indices.reference(), map.reference()]);
            }
        }
        let geometry = Geometry::grid_stride(rows as u64, BLOCK.into(), BLOCK, self.blocks);
        self.function.launch(stream, geometry, &arguments, &references)
    }
}

impl ParquetDivisor {
    /// Number of divisors that a launch over a number of rows writes.
    #[must_use]
    pub fn divisors(&self, rows: usize) -> usize {
        self.geometry(rows).grid.x as usize
    }

    fn geometry(&self, rows: usize) -> Geometry {
        Geometry::grid_stride(rows as u64, BLOCK.into(), BLOCK, self.blocks)
    }

    /// Writes the greatest common divisor of the differences between the integers of a block and `base`, the
    /// least integer, for each block; 0 if all are equal to it. `values` are integers of `bytes` bytes each:
    /// 8, or 16 with differences below 2^64.
    ///
    /// # Errors
    /// [`galatea_device::DeviceError::Range`] for arrays that have not the length of the rows; the device's.
    pub fn launch(
        &self,
        stream: &Stream,
        (values, bytes): (In<'_, u8>, usize),
        validity: Option<In<'_, u32>>,
        (base, rows): (u64, usize),
        divisors: Out<'_, u64>,
    ) -> Result<()> {
        same_length("integers of rows", rows * bytes, values.len())?;
        same_length("divisors of blocks", self.divisors(rows), divisors.len())?;
        if let Some(validity) = &validity {
            same_length("validity of rows", rows.div_ceil(32), validity.len())?;
        }
        let arguments = ParquetDivisorArguments {
            values: DevicePointer::new(values.pointer().address()),
            validity: validity.as_ref().map_or(DevicePointer::NULL, In::pointer),
            divisors: divisors.pointer(),
            base,
            rows: rows as u64,
            words: (bytes / size_of::<u64>()) as u64,
        };
        let mut references = vec![values.reference(), divisors.reference()];
        references.extend(validity.as_ref().map(In::reference));
        self.function
            .launch(stream, self.geometry(rows), &arguments, &references)
    }
}
