//! Columns in device memory that one pipeline writes and others read.

use crate::device::{DeviceRuntime, RunError};
use crate::rows::memory;
use bytemuck::Pod;
use galatea_device::{Access, DeviceError, DeviceSlice, Stream};
use galatea_expression::BuiltColumn;
use galatea_kernels::{MAX_OUTPUTS, PipelineArguments};
use galatea_memory::regions::{Use, WorkingRegion};
use std::ops::Range;

/// Rows of a word of a NULL bitmap.
pub(crate) const WORD_ROWS: u64 = u32::BITS as u64;

/// A region, with values of any type.
pub(crate) trait Region {
    /// Declares the access of a launch to the region.
    fn used(&mut self, access: Access) -> Use<'_>;
    /// Lets other queries move the region.
    fn park(&mut self);
    /// Makes `stream` wait for a pending restore of the region.
    fn used_by(&self, stream: &Stream) -> Result<(), DeviceError>;
}

impl<T: Pod + Send + Sync> Region for WorkingRegion<T> {
    fn used(&mut self, access: Access) -> Use<'_> {
        Self::used(self, access)
    }

    fn park(&mut self) {
        Self::park(self);
    }

    fn used_by(&self, stream: &Stream) -> Result<(), DeviceError> {
        (**self).used_by(stream)
    }
}

/// Allocates regions of a query.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Allocator<'a> {
    pub(crate) runtime: &'a DeviceRuntime,
    pub(crate) stream: &'a Stream,
    /// Number of the query.
    pub(crate) owner: u64,
    /// Purpose of the regions, for errors and lists.
    pub(crate) what: &'static str,
}

impl Allocator<'_> {
    /// Zeroed values, at least one.
    pub(crate) fn zeroed<T: Pod>(&self, len: u64) -> Result<WorkingRegion<T>, RunError> {
        let len = usize::try_from(len.max(1)).unwrap_or(usize::MAX);
        let zeroed = self.runtime.zeroed::<T>(self.stream, len, self.what)?;
        Ok(self.runtime.memory().working(self.owner, self.what, zeroed))
    }

    /// Uninitialised bytes.
    pub(crate) fn bytes(&self, bytes: u64) -> Result<WorkingRegion<u8>, RunError> {
        match self.runtime.allocate(self.stream, bytes)? {
            Some(buffer) => Ok(self.runtime.memory().working(self.owner, self.what, buffer)),
            None => Err(memory(self.runtime, self.what, bytes)),
        }
    }

    /// A bitmap of `bits` bits, all 0.
    pub(crate) fn bitmap(&self, bits: u64) -> Result<WorkingRegion<u32>, RunError> {
        self.zeroed(bits.div_ceil(WORD_ROWS))
    }

    /// A column of `rows` rows. All bytes of its entries are `byte` until a row writes them.
    pub(crate) fn column(&self, column: &BuiltColumn, rows: u64, byte: u8) -> Result<DeviceColumn, RunError> {
        let mut values = self.bytes(rows.max(1).saturating_mul(column.width as u64))?;
        self.stream.fill(&mut *values, byte)?;
        Ok(DeviceColumn {
            values,
            nulls: column.nullable.then(|| self.bitmap(rows)).transpose()?,
        })
    }

    /// A column of `rows` rows, each of which will be written.
    pub(crate) fn unwritten_column(&self, column: &BuiltColumn, rows: u64) -> Result<DeviceColumn, RunError> {
        Ok(DeviceColumn {
            values: self.bytes(rows.max(1).saturating_mul(column.width as u64))?,
            nulls: column.nullable.then(|| self.bitmap(rows)).transpose()?,
        })
    }

    /// Columns of `rows` rows each. Unwritten entries may be read, but are not used: 0 is a valid code of
    /// every dictionary.
    pub(crate) fn columns(&self, columns: &[BuiltColumn], rows: u64) -> Result<Vec<DeviceColumn>, RunError> {
        let columns = columns.iter().map(|column| self.column(column, rows, 0));
        columns.collect()
    }
}

/// The entries of a column, and a bitmap of its NULLs.
#[derive(Debug)]
pub(crate) struct DeviceColumn {
    values: WorkingRegion<u8>,
    nulls: Option<WorkingRegion<u32>>,
}

impl DeviceColumn {
    /// Address of the entries.
    pub(crate) fn values(&self) -> u64 {
        self.values.address()
    }

    /// Address of the NULL bitmap; 0 if the column is not nullable.
    pub(crate) fn nulls(&self) -> u64 {
        self.nulls.as_ref().map_or(0, |nulls| nulls.address())
    }

    /// The first bytes of the entries.
    pub(crate) fn entries(&self, bytes: usize) -> Result<DeviceSlice<'_, u8>, DeviceError> {
        self.values.slice(..bytes)
    }

    /// The first `words` words of the NULL bitmap; `None` if the column is not nullable.
    pub(crate) fn null_words(&self, words: usize) -> Result<Option<DeviceSlice<'_, u32>>, DeviceError> {
        self.nulls.as_ref().map(|nulls| nulls.slice(..words)).transpose()
    }

    /// Copies rows of another column, of `width` bytes each, to the rows from `at` on, wherever the other
    /// column is. Both positions are multiples of [`WORD_ROWS`]. Returns the bytes that were read from the
    /// host.
    pub(crate) fn read_from(
        &mut self,
        stream: &Stream,
        from: &Self,
        width: u64,
        rows: Range<u64>,
        at: u64,
    ) -> Result<u64, RunError> {
        let bytes = (rows.start * width) as usize..(rows.end * width) as usize;
        let mut read = from
            .values
            .read_into(stream, bytes, &mut self.values, (at * width) as usize)?;
        if let (Some(into), Some(from)) = (&mut self.nulls, &from.nulls) {
            let words = (rows.start / WORD_ROWS) as usize..rows.end.div_ceil(WORD_ROWS) as usize;
            read += from.read_into(stream, words, into, (at / WORD_ROWS) as usize)?;
        }
        Ok(read)
    }

    /// Releases the memory of the rows before a position, of `width` bytes each.
    pub(crate) fn discard_before(&self, width: u64, row: u64) {
        self.values.discard_before((row * width) as usize);
        if let Some(nulls) = &self.nulls {
            nulls.discard_before((row / WORD_ROWS) as usize);
        }
    }

    /// Its regions.
    pub(crate) fn regions(&self) -> impl Iterator<Item = &dyn Region> {
        let values: &dyn Region = &self.values;
        let nulls = self.nulls.as_ref().map(|nulls| nulls as &dyn Region);
        [values].into_iter().chain(nulls)
    }

    /// The regions, for parking.
    pub(crate) fn regions_mut(&mut self) -> impl Iterator<Item = &mut dyn Region> {
        let values: &mut dyn Region = &mut self.values;
        let nulls = self.nulls.as_mut().map(|nulls| nulls as &mut dyn Region);
        [values].into_iter().chain(nulls)
    }

    /// Points the outputs of the kernel that fills the columns to them.
    pub(crate) fn bind(columns: &[Self], args: &mut PipelineArguments) {
        for (k, column) in columns.iter().enumerate() {
            args.outputs[k] = column.values();
            args.outputs[MAX_OUTPUTS / 2 + k] = column.nulls();
        }
    }
}
