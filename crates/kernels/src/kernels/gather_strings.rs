//! Gathering strings of rows in any order.

use bytemuck::{Pod, Zeroable};
use galatea_device::{DevicePointer, Geometry, In, Out, Reference, Result, Stream, kernel_arguments};

use super::{BLOCK, same_length};
use crate::kernel::resident_kernel;

/// A chunk of a string column in device memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct StringChunk {
    /// Rows.
    pub rows: u64,
    /// Address of the bytes of all strings.
    pub bytes: u64,
    /// Address of one bit per row; 0: all are valid.
    pub validity: u64,
    /// Address of the offsets of strings, one more than rows.
    pub offsets: u64,
}

kernel_arguments! {
    /// Arguments of `gather_strings`.
    pub struct GatherStringsArguments in "galatea/args/gather_strings.h" {
        /// Chunks of the column.
        pub chunks: DevicePointer<StringChunk>,
        /// The wanted rows: `position of the chunk << 32 | row`.
        pub rows: DevicePointer<u8>,
        /// Phase 0: receives lengths; phase 1: start of the bytes of each string.
        pub starts: DevicePointer<u64>,
        /// Phase 0: receives whether the string is not NULL; or null.
        pub valid: DevicePointer<u8>,
        /// Phase 1: receives the bytes.
        pub bytes: DevicePointer<u8>,
        /// Number of wanted rows.
        pub count: u64,
        /// Chunks.
        pub chunk_count: u32,
        /// Bytes of an offset: 4 or 8.
        pub offset_width: u32,
        /// 0: lengths, 1: bytes.
        pub phase: u32,
        /// Reserved; 0.
        pub reserved: u32,
    }
}

resident_kernel! {
    /// Copies the strings of rows contiguously, in the order of the rows.
    GatherStrings, "gather_strings", GatherStringsArguments
}

/// Wanted strings of a column.
#[derive(Debug)]
pub struct WantedStrings<'a> {
    /// Chunks of the column.
    pub chunks: In<'a, StringChunk>,
    /// `position of the chunk << 32 | row`; an invalid number yields no string.
    pub rows: In<'a, u8>,
    /// Bytes of an offset: 4 or 8.
    pub offset_width: u32,
}

impl WantedStrings<'_> {
    fn count(&self) -> usize {
        self.rows.len() / size_of::<u64>()
    }
}

impl GatherStrings {
    /// Threads that copy a string.
    const COPIERS: u64 = 8;

    /// Writes the length of each string, and optionally whether it is not NULL.
    ///
    /// # Errors
    /// [`galatea_device::DeviceError::Range`] when the number of lengths or flags is not that of the rows;
    /// the device's.
    pub fn lengths(
        &self,
        stream: &Stream,
        wanted: &WantedStrings<'_>,
        lengths: Out<'_, u64>,
        valid: Option<Out<'_, u8>>,
    ) -> Result<()> {
        let count = wanted.count();
        same_length("lengths of strings", count, lengths.len())?;
        same_length(
            "validity of strings",
            count,
            valid.as_ref().map_or(count, Out::len),
        )?;
        let arguments = GatherStringsArguments {
            starts: lengths.pointer(),
            valid: valid.as_ref().map_or(DevicePointer::NULL, Out::pointer),
            ..arguments(wanted)
        };
        let mut references = vec![
            wanted.chunks.reference(),
            wanted.rows.reference(),
            lengths.reference(),
        ];
        references.extend(valid.as_ref().map(Out::reference));
        self.launch(stream, &arguments, arguments.count, &references)
    }

    /// Copies the bytes of each string to its start.
    ///
    /// # Errors
    /// [`galatea_device::DeviceError::Range`] when the number of starts is not that of the rows; the
    /// device's.
    pub fn copy(
        &self,
        stream: &Stream,
        wanted: &WantedStrings<'_>,
        starts: In<'_, u64>,
        bytes: Out<'_, u8>,
    ) -> Result<()> {
        same_length("beginnings of texts", wanted.count(), starts.len())?;
        let arguments = GatherStringsArguments {
            starts: starts.pointer(),
            bytes: bytes.pointer(),
            phase: 1,
            ..arguments(wanted)
        };
        let threads = arguments.count.saturating_mul(Self::COPIERS);
        let references = [
            wanted.chunks.reference(),
            wanted.rows.reference(),
            starts.reference(),
            bytes.reference(),
        ];
        self.launch(stream, &arguments, threads, &references)
    }

    fn launch(
        &self,
        stream: &Stream,
        arguments: &GatherStringsArguments,
        threads: u64,
        references: &[Reference<'_>],
    ) -> Result<()> {
        let geometry = Geometry::grid_stride(threads, BLOCK.into(), BLOCK, self.blocks);
        self.function.launch(stream, geometry, arguments, references)
    }
}

/// The arguments of the first phase, without results.
fn arguments(wanted: &WantedStrings<'_>) -> GatherStringsArguments {
    GatherStringsArguments {
        chunks: wanted.chunks.pointer(),
        rows: wanted.rows.pointer(),
        starts: DevicePointer::NULL,
        valid: DevicePointer::NULL,
        bytes: DevicePointer::NULL,
        count: wanted.count() as u64,
        chunk_count: wanted.chunks.len() as u32,
        offset_width: wanted.offset_width,
        phase: 0,
        reserved: 0,
    }
}
