//! Texts that are returned in another order than they are stored in, gathered on the device: one after the
//! other in the order of the result, so that they come over the link as one array.
//!
//! ```text
//! numbers of rows ── lengths of their texts ── where each begins (prefix sums) ── bytes
//! ```
//!
//! The host would wait for memory twice or more a text. Where the texts are not on the device and few of them
//! are returned, bringing them there takes longer than that: the host gathers ([`TextRows::gather`]).

use super::Piece;
use crate::device::columns::{ColumnPages, chunk_layout};
use crate::device::{DeviceRuntime, RunError};
use crate::string::by_row::TextRows;
use crate::transfer::chunk_link::{ChunkLink, Coming, LinkStreams};
use arrow::array::{ArrayRef, LargeBinaryArray, LargeStringArray, StringArray};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use galatea_base::policy::policy;
use galatea_device::{DeviceBuffer, DeviceSlice, In, InOut, Out, Stream};
use galatea_kernels::{GatherTexts, PrefixSum, TextChunk, WantedTexts};
use galatea_memory::regions::{PagePin, Scan, Source};
use galatea_memory::transfer::Method;
use galatea_store::Encoding;
use std::sync::Arc;

policy! {
    /// When texts are gathered on the device.
    pub(crate) struct GatherPolicy {
        /// Texts at least: the host has gathered so many when the launches are done.
        texts: usize = 1 << 10,
        /// Nanoseconds that the host takes for a text, with all threads that decode results.
        host_text: f64 = 20.0,
        /// Bytes that come over the link in a nanosecond, where that was not measured.
        link: f64 = 25.0,
    }
}

const POLICY: GatherPolicy = GatherPolicy::DEFAULT;

/// What the memory is for.
const WHAT: &str = "texts in the order of the result";

/// Texts of an output, in the order of its rows.
#[derive(Debug)]
pub(crate) struct GatheredTexts {
    /// By row where its bytes begin, and where the last ones end.
    pub starts: DeviceBuffer<u64>,
    /// By row whether there is a text, where some rows of the column are NULL.
    pub valid: Option<DeviceBuffer<u8>>,
    bytes: DeviceBuffer<u8>,
    /// Bytes of all.
    pub total: u64,
}

/// Chunks of a column, and what keeps them in device memory.
#[derive(Debug, Default)]
struct Brought {
    chunks: Vec<TextChunk>,
    pages: Vec<PagePin>,
}

impl TextRows {
    /// The texts of rows (words of `position << 32 | row`) in device memory; none where the host has them
    /// sooner, or there is no memory for them.
    pub(crate) fn on_device(
        &self,
        runtime: &DeviceRuntime,
        stream: &Stream,
        rows: DeviceSlice<'_, u8>,
    ) -> Result<Option<GatheredTexts>, RunError> {
        let Encoding::Text { offset_width } = &self.column.encoding else {
            return Ok(None);
        };
        let count = rows.len() / size_of::<u64>();
        if count < POLICY.texts || !self.pays(runtime, count) {
            return Ok(None);
        }
        let pages = [ColumnPages(&self.column)];
        let mut scan = runtime.memory().scan(pages.iter());
        // Lengths, flags and, at a guess, bytes as long as the average text.
        let stored_rows = self
            .chunks
            .iter()
            .map(|chunk| u64::from(self.column.chunks[*chunk].rows));
        let average = self.stored() / stored_rows.sum::<u64>().max(1);
        scan.leave((9 + average) * count as u64);
        let Some(brought) = self.brought(runtime, &scan, stream)? else {
            return Ok(None);
        };
        let gathered = gathered(
            runtime,
            stream,
            &brought.chunks,
            rows,
            offset_width.bytes() as u32,
        );
        // The pages may go when the launches are done.
        scan.used(&Arc::new(stream.record()?));
        drop(brought);
        match gathered {
            Err(RunError::Memory { .. }) => Ok(None),
            gathered => gathered,
        }
    }

    /// The chunks in device memory, from when `stream` gets there; none where there is no room for them.
    fn brought(
        &self,
        runtime: &DeviceRuntime,
        scan: &Scan<'_>,
        stream: &Stream,
    ) -> Result<Option<Brought>, RunError> {
        let mut link = ChunkLink::new(runtime, Method::Pinned);
        let mut brought = Brought::default();
        for chunk in self.chunks.iter() {
            let Some(page) = scan.page(0, *chunk, true)? else {
                return Ok(None);
            };
            let coming = Coming {
                column: &self.column,
                chunk: *chunk,
                start: 0,
            };
            let streams = LinkStreams {
                copy: stream,
                unpack: stream,
            };
            let (copied, _) = page.fetch(stream, |_, target| link.bring(streams, &[coming], target, None))?;
            if let Some(copied) = copied {
                stream.wait(&copied)?;
            }
            let [bytes, validity, offsets] = chunk_layout(&self.column, *chunk, 0).0;
            let address = |place: Option<u64>| place.map_or(0, |place| page.address() + place);
            brought.chunks.push(TextChunk {
                rows: self.column.chunks[*chunk].rows.into(),
                bytes: address(bytes),
                validity: address(validity),
                offsets: address(offsets),
            });
            brought.pages.push(page);
        }
        Ok(Some(brought))
    }

    /// Bytes of the column that are to be on the device.
    fn stored(&self) -> u64 {
        let pages = ColumnPages(&self.column);
        self.chunks.iter().map(|chunk| pages.page_bytes(*chunk)).sum()
    }

    /// Whether the device has so many texts sooner than the host, the time to bring the column included.
    fn pays(&self, runtime: &DeviceRuntime, count: usize) -> bool {
        let here = runtime.memory().bytes_of(&ColumnPages(&self.column));
        let missing = self.stored().saturating_sub(here);
        let link = runtime
            .calibration()
            .map_or(POLICY.link, |known| known.h2d * 1e-9);
        missing as f64 / link <= count as f64 * POLICY.host_text
    }
}

impl GatheredTexts {
    /// The texts of a piece: where those of its rows begin, and which of them are none.
    pub(crate) fn array(
        &self,
        piece: &Piece<'_>,
        starts: &[u64],
        nulls: Option<NullBuffer>,
        data_type: &DataType,
    ) -> Result<ArrayRef, RunError> {
        let first = starts.first().copied().unwrap_or(0);
        let behind = piece.first + starts.len();
        let end = match behind + 1 == self.starts.len() {
            true => self.total,
            false => {
                let word = piece.read(&self.starts, behind..behind + 1)?;
                bytemuck::pod_read_unaligned(&word)
            }
        };
        let bytes = Buffer::from(piece.read(&self.bytes, first as usize..end as usize)?);
        let ends = starts.iter().skip(1).chain([&end]);
        let offsets = || [0].into_iter().chain(ends.clone().map(|at| (at - first) as i64));
        if *data_type == DataType::Utf8 && i32::try_from(bytes.len()).is_ok() {
            let offsets: ScalarBuffer<i32> = offsets().map(|at| at as i32).collect();
            return Ok(Arc::new(StringArray::try_new(
                OffsetBuffer::new(offsets),
                bytes,
                nulls,
            )?));
        }
        let offsets = OffsetBuffer::new(offsets().collect::<ScalarBuffer<i64>>());
        let texts: ArrayRef = match data_type {
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
                Arc::new(LargeStringArray::try_new(offsets, bytes, nulls)?)
            }
            _ => Arc::new(LargeBinaryArray::try_new(offsets, bytes, nulls)?),
        };
        Ok(cast(&texts, data_type)?)
    }
}

/// Launches what gathers the texts; none where there is no memory for their bytes.
fn gathered(
    runtime: &DeviceRuntime,
    stream: &Stream,
    chunks: &[TextChunk],
    rows: DeviceSlice<'_, u8>,
    offset_width: u32,
) -> Result<Option<GatheredTexts>, RunError> {
    let count = rows.len() / size_of::<u64>();
    let told = runtime.upload(stream, chunks, WHAT)?;
    let wanted = WantedTexts {
        chunks: In(&told),
        rows: In(rows),
        offset_width,
    };
    let kernel = GatherTexts::new(runtime.device())?;
    let mut starts = runtime.zeroed::<u64>(stream, count + 1, WHAT)?;
    let mut valid = (chunks.iter().any(|chunk| chunk.validity != 0))
        .then(|| runtime.zeroed::<u8>(stream, count, WHAT))
        .transpose()?;
    let flags = valid.as_mut().map(Out);
    kernel.lengths(stream, &wanted, Out(starts.slice_mut(..count)?), flags)?;
    let sums = PrefixSum::new(runtime.device())?;
    let mut totals = runtime.zeroed::<u64>(stream, sums.totals(), WHAT)?;
    sums.replace_wide(stream, InOut(&mut starts), 1, Out(&mut totals))?;
    let total = stream.read(&starts, count..=count)?[0];
    let Some(mut bytes) = runtime.allocate(stream, total)? else {
        return Ok(None);
    };
    kernel.copy(stream, &wanted, In(starts.slice(..count)?), Out(&mut bytes))?;
    Ok(Some(GatheredTexts {
        starts,
        valid,
        bytes,
        total,
    }))
}
