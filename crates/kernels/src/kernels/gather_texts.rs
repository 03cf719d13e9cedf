//! Texts of rows in any order.

use bytemuck::{Pod, Zeroable};
use galatea_device::{DevicePointer, Geometry, In, Out, Reference, Result, Stream, kernel_arguments};

use super::{BLOCK, same_length};
use crate::kernel::resident_kernel;

/// A chunk of a text column in device memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct TextChunk {
    /// Rows.
    pub rows: u64,
    /// Address of the bytes of all texts.
    pub bytes: u64,
    /// Address of a bit a row; 0: all are valid.
    pub validity: u64,
    /// Address of the offsets of texts, one more than rows.
    pub offsets: u64,
}

kernel_arguments! {
    /// Arguments of `gather_texts`.
    pub struct GatherTextsArguments in "galatea/args/gather_texts.h" {
        /// Chunks of the column.
        pub chunks: DevicePointer<TextChunk>,
        /// Wanted rows, words of `position of the chunk << 32 | row`.
        pub rows: DevicePointer<u8>,
        /// Phase 0: receives lengths; phase 1: where the bytes of each text begin.
        pub starts: DevicePointer<u64>,
        /// Phase 0: receives whether there is a text; or null.
        pub valid: DevicePointer<u8>,
        /// Phase 1: receives the bytes.
        pub bytes: DevicePointer<u8>,
        /// Wanted rows.
        pub count: u64,
        /// Chunks.
        pub chunk_count: u32,
        /// Bytes of an offset: 4 or 8.
        pub offset_width: u32,
        /// 0: lengths, 1: bytes.
        pub phase: u32,
        /// 0.
        pub reserved: u32,
    }
}

resident_kernel! {
    /// Copies the texts of rows one after the other, in the order of the rows.
    GatherTexts, "gather_texts", GatherTextsArguments
}

/// Wanted texts of a column.
#[derive(Debug)]
pub struct WantedTexts<'a> {
    /// Chunks of the column.
    pub chunks: In<'a, TextChunk>,
    /// Words of `position of the chunk << 32 | row`; a number of no row has no text.
    pub rows: In<'a, u8>,
    /// Bytes of an offset: 4 or 8.
    pub offset_width: u32,
}

impl WantedTexts<'_> {
    fn count(&self) -> usize {
        self.rows.len() / size_of::<u64>()
    }
}

impl GatherTexts {
    /// Threads that copy a text.
    const COPIERS: u64 = 8;

    /// Writes the bytes of each text, and whether it is one where that is asked for.
    ///
    /// # Errors
    /// [`galatea_device::DeviceError::Range`] when there are not as many lengths and flags as rows; the
    /// device's.
    pub fn lengths(
        &self,
        stream: &Stream,
        wanted: &WantedTexts<'_>,
        lengths: Out<'_, u64>,
        valid: Option<Out<'_, u8>>,
    ) -> Result<()> {
        let count = wanted.count();
        same_length("lengths of texts", count, lengths.len())?;
        same_length("flags of texts", count, valid.as_ref().map_or(count, Out::len))?;
        let arguments = GatherTextsArguments {
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

    /// Writes the bytes of each text to where it begins.
    ///
    /// # Errors
    /// [`galatea_device::DeviceError::Range`] when there are not as many beginnings as rows; the device's.
    pub fn copy(
        &self,
        stream: &Stream,
        wanted: &WantedTexts<'_>,
        starts: In<'_, u64>,
        bytes: Out<'_, u8>,
    ) -> Result<()> {
        same_length("beginnings of texts", wanted.count(), starts.len())?;
        let arguments = GatherTextsArguments {
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
        arguments: &GatherTextsArguments,
        threads: u64,
        references: &[Reference<'_>],
    ) -> Result<()> {
        let geometry = Geometry::grid_stride(threads, BLOCK.into(), BLOCK, self.blocks);
        self.function.launch(stream, geometry, arguments, references)
    }
}

/// The arguments of the first phase, without results.
fn arguments(wanted: &WantedTexts<'_>) -> GatherTextsArguments {
    GatherTextsArguments {
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
