//! Strings that are returned in an order other than their storage order are gathered on the device: one after
//! the other in the order of the result, so that they are transferred over the link as one array.
//!
//! ```text
//! numbers of rows ── lengths of their strings ── start of each (prefix sums) ── bytes
//! ```
//!
//! On the host, each string would incur two or more cache misses. If the strings are not on the device and
//! few of them are returned, transferring them takes longer than that, and the host gathers
//! ([`StringRows::gather`]).

use super::Piece;
use crate::device::{DeviceRuntime, RunError};
use crate::string::late_materialised::StringRows;
use crate::transfer::chunk_link::{ChunkLink, ChunkTransfer, LinkStreams};
use arrow::array::{ArrayRef, LargeBinaryArray, LargeStringArray, StringArray};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use galatea_base::policy::policy;
use galatea_device::{DeviceBuffer, DeviceSlice, In, InOut, Out, Stream};
use galatea_kernels::{GatherStrings, PrefixSum, StringChunk, WantedStrings};
use galatea_memory::regions::{PagePin, Scan, Source};
use galatea_memory::transfer::Method;
use galatea_store::Encoding;
use std::sync::Arc;

policy! {
    /// When strings are gathered on the device.
    pub(crate) struct GatherPolicy {
        /// Minimum number of strings: the host gathers this number in the time of the launches.
        texts: usize = 1 << 10,
        /// Nanoseconds that the host takes for a string, with all threads that decode results.
        host_string: f64 = 20.0,
        /// Bytes per nanosecond over the link, if not measured.
        link: f64 = 25.0,
    }
}

const POLICY: GatherPolicy = GatherPolicy::DEFAULT;

/// Name of the memory in errors.
const WHAT: &str = "strings in the order of the result";

/// Strings of an output, in the order of its rows.
#[derive(Debug)]
pub(crate) struct GatheredStrings {
    /// By row, the start of its bytes, and the end of the last row's.
    pub starts: DeviceBuffer<u64>,
    /// By row, whether it has a string, if some rows of the column are NULL.
    pub valid: Option<DeviceBuffer<u8>>,
    bytes: DeviceBuffer<u8>,
    /// Total bytes of all strings.
    pub total: u64,
}

/// Chunks of a column, and the pins that keep them in device memory.
#[derive(Debug, Default)]
struct PinnedChunks {
    chunks: Vec<StringChunk>,
    pages: Vec<PagePin>,
}

impl StringRows {
    /// The strings of rows (words of `position << 32 | row`) in device memory. `None` if the host gathers
    /// them faster, or memory is insufficient.
    pub(crate) fn on_device(
        &self,
        runtime: &DeviceRuntime,
        stream: &Stream,
        rows: DeviceSlice<'_, u8>,
    ) -> Result<Option<GatheredStrings>, RunError> {
        let Encoding::Text { offset_width } = &self.column.encoding else {
            return Ok(None);
        };
        let count = rows.len() / size_of::<u64>();
        if count < POLICY.texts || !self.pays(runtime, count) {
            return Ok(None);
        }
        let mut scan = runtime.memory().scan([&*self.column].into_iter());
        // Lengths, flags and, as an estimate, strings of average length.
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
        // The pages may be evicted when the launches are done.
        scan.used(&Arc::new(stream.record()?));
        drop(brought);
        match gathered {
            Err(RunError::Memory { .. }) => Ok(None),
            gathered => gathered,
        }
    }

    /// The chunks in device memory, available to work queued later on `stream`; `None` if they do not fit.
    fn brought(
        &self,
        runtime: &DeviceRuntime,
        scan: &Scan<'_>,
        stream: &Stream,
    ) -> Result<Option<PinnedChunks>, RunError> {
        let mut link = ChunkLink::new(runtime, Method::Pinned);
        let mut brought = PinnedChunks::default();
        for chunk in self.chunks.iter() {
            let Some(page) = scan.page(0, *chunk, true)? else {
                return Ok(None);
            };
            let coming = ChunkTransfer {
                column: &self.column,
                chunk: *chunk,
                start: 0,
            };
            let streams = LinkStreams {
                copy: stream,
                unpack: stream,
            };
            let (copied, _) = page.fetch(stream, |_, target| link.bring(streams, &[coming], target, &[]))?;
            if let Some(copied) = copied {
                stream.wait(&copied)?;
            }
            let [bytes, validity, offsets] = self.column.chunk_layout(*chunk, 0).0;
            let address = |place: Option<u64>| place.map_or(0, |place| page.address() + place);
            brought.chunks.push(StringChunk {
                rows: self.column.chunks[*chunk].rows.into(),
                bytes: address(bytes),
                validity: address(validity),
                offsets: address(offsets),
            });
            brought.pages.push(page);
        }
        Ok(Some(brought))
    }

    /// Bytes of the column that must be on the device.
    fn stored(&self) -> u64 {
        let pages = &*self.column;
        self.chunks.iter().map(|chunk| pages.page_bytes(*chunk)).sum()
    }

    /// Whether the device gathers `count` strings faster than the host, including the transfer of the column.
    fn pays(&self, runtime: &DeviceRuntime, count: usize) -> bool {
        let here = runtime.memory().bytes_of(&*self.column);
        let missing = self.stored().saturating_sub(here);
        let link = runtime
            .calibration()
            .map_or(POLICY.link, |known| known.h2d * 1e-9);
        missing as f64 / link <= count as f64 * POLICY.host_string
    }
}

impl GatheredStrings {
    /// The strings of a piece, from the start positions and the validity of its rows.
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

/// Launches the kernels that gather the strings; `None` if memory for their bytes is insufficient.
fn gathered(
    runtime: &DeviceRuntime,
    stream: &Stream,
    chunks: &[StringChunk],
    rows: DeviceSlice<'_, u8>,
    offset_width: u32,
) -> Result<Option<GatheredStrings>, RunError> {
    let count = rows.len() / size_of::<u64>();
    let told = runtime.upload(stream, chunks, WHAT)?;
    let wanted = WantedStrings {
        chunks: In(&told),
        rows: In(rows),
        offset_width,
    };
    let kernel = GatherStrings::new(runtime.device())?;
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
    Ok(Some(GatheredStrings {
        starts,
        valid,
        bytes,
        total,
    }))
}
