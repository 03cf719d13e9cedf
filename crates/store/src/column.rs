//! Encoded columns, the input of kernels.
//!
//! A table is a sequence of chunks; all columns share the chunk boundaries and the row order of the source. A
//! column has one [`Encoding`] for all its chunks, so that one kernel reads them all. Each [`Chunk`] has its
//! own base, bytes, validity bitmap (if it has nulls) and zone.
//!
//! ```text
//! Column  Integer{width: One, factor: 100}          Dictionary{width: One, values: [A, N, R]}     Text{offset_width: Four}
//!         ├ chunk 0  base 100   data u8[rows]       ├ chunk 0  data u8[rows]                      ├ chunk 0  offsets u32[rows+1]
//!         │          zone 100..=5000                │          zone 0..=2 (codes)                 │          data (bytes)
//!         └ chunk 1  base 300   data u8[rows]       └ chunk 1  ...                                └ chunk 1  ...
//! ```
//!
//! An integer is decoded by `value = base + factor * code`. The exact result is in the range of the column's
//! type, so 64-bit wrapping arithmetic computes the right bits for every type. This also holds for `UInt64`
//! values beyond `i64::MAX`: the base is then `i64::MAX` at most, and the code, an unsigned 64-bit number,
//! covers the rest.
//!
//! Kernels read codes of whole bytes. In host memory they may be packed in fewer bits ([`ChunkData`]).
//!
//! Null rows hold code 0 (an empty string in string columns). That is a placeholder: readers must check the
//! validity bitmap first.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::DataType;

use galatea_device::HostView;

use crate::layout::{CodeMeaning, SlotLayout};
use galatea_memory::Identity;
use galatea_memory::regions::Source;

/// Alignment in bytes of every view in a chunk, relative to a page-aligned slab.
pub const VIEW_ALIGNMENT: usize = 256;

use crate::packed::PackedCodes;
pub use crate::width::Width;

/// The encoding of the values of a column. The module documentation has the arithmetic.
#[derive(Debug, Clone)]
pub enum Encoding {
    /// Frame of reference: integers, dates, times, timestamps, durations, and decimals that fit an `i64`.
    Integer {
        /// Bytes per code.
        width: Width,
        /// Greatest common divisor, over all chunks, of the differences between values of the same chunk; at
        /// least 1.
        factor: u64,
    },
    /// One byte per row, 0 or 1.
    Boolean,
    /// IEEE single precision; `Float16` columns are widened to it.
    Float32,
    /// IEEE double precision.
    Float64,
    /// 16-byte little-endian two's complement: decimals with a value beyond `i64`.
    Decimal128,
    /// The code is the rank in the sorted dictionary, so codes compare as the strings do.
    Dictionary {
        /// Bytes per code.
        width: Width,
        /// Distinct, non-null values in byte order: a `StringArray` or `BinaryArray`, or their large variant
        /// beyond 2 GiB of bytes.
        values: ArrayRef,
    },
    /// Integers or a dictionary, with a conflict layout: rows contain slots, and a table maps each slot to a
    /// code. Several slots may have the same code, see [`SlotLayout`].
    Slots {
        /// Bytes per slot.
        width: Width,
        /// The mapping from slots to codes.
        layout: Arc<SlotLayout>,
    },
    /// Strings: per chunk `rows + 1` offsets into the chunk's bytes.
    Text {
        /// [`Width::Four`], or [`Width::Eight`] if a chunk holds 4 GiB of bytes or more.
        offset_width: Width,
    },
}

impl Encoding {
    /// Bytes of the data view per row; `None` for strings.
    pub fn bytes_per_row(&self) -> Option<usize> {
        match self {
            Self::Integer { width, .. } | Self::Dictionary { width, .. } | Self::Slots { width, .. } => {
                Some(width.bytes())
            }
            Self::Boolean => Some(1),
            Self::Float32 => Some(4),
            Self::Float64 => Some(8),
            Self::Decimal128 => Some(16),
            Self::Text { .. } => None,
        }
    }
}

/// A bound of a zone. Bounds of one column are ordered as its values are.
#[derive(Debug, Clone, PartialEq, PartialOrd)]
pub enum Scalar {
    /// The logical integer: unscaled for decimals, 0 or 1 for booleans. For dictionaries, with or without a
    /// conflict layout, the code.
    Integer(i128),
    /// A float; never NaN.
    Float(f64),
    /// The bytes of a string, see [`Zone::exact`].
    Bytes(Arc<[u8]>),
}

/// Bounds over a whole column, in the same representation as its zones.
#[derive(Debug, Clone, PartialEq)]
pub struct ScalarRange {
    /// Smallest value.
    pub min: Scalar,
    /// Largest value.
    pub max: Scalar,
    /// As [`Zone::exact`].
    pub exact: bool,
}

/// Bounds and null count of a chunk's values, available without reading them.
#[derive(Debug, Clone, PartialEq)]
pub struct Zone {
    /// A lower bound of the valid values that are not NaN; none if no such value exists.
    pub min: Option<Scalar>,
    /// An upper bound of the valid values that are not NaN; none if no such value exists, or if a long string
    /// has no short upper bound.
    pub max: Option<Scalar>,
    /// Rows that are null.
    pub null_count: u32,
    /// Whether a float NaN, of either sign, is among the values.
    pub has_nan: bool,
    /// Whether the bounds are values of the chunk. String bounds may be shortened: the lower one to a prefix,
    /// the upper one to a prefix that is rounded up.
    pub exact: bool,
}

/// The codes, values or string bytes of a chunk, in host memory.
#[derive(Debug, Clone)]
pub enum ChunkData {
    /// Bytes in the form that kernels read.
    Plain(HostView),
    /// Codes in fewer bits, which the device unpacks.
    Packed(PackedCodes),
}

impl ChunkData {
    /// The bytes in host memory. For values and strings, kernels read the same bytes.
    pub fn stored(&self) -> &HostView {
        match self {
            Self::Plain(view) => view,
            Self::Packed(codes) => codes.stored(),
        }
    }

    /// Number of bytes in the form that kernels read.
    pub fn plain_bytes(&self) -> usize {
        match self {
            Self::Plain(view) => view.len(),
            Self::Packed(codes) => codes.plain_bytes(),
        }
    }

    /// Calls `visit` with each row in the range and its code, for codes of `width`.
    #[inline(always)]
    pub fn for_each_code(&self, width: Width, rows: Range<usize>, visit: impl FnMut(usize, u64)) {
        match self {
            Self::Plain(view) => width.for_each_code(view.as_slice(), rows, visit),
            Self::Packed(codes) => codes.for_each(rows, visit),
        }
    }

    /// The bits of a row's entry, a code or a value of `width` bytes, which is at most 8.
    pub fn bits(&self, width: usize, row: usize) -> Option<u64> {
        match self {
            Self::Plain(view) => {
                let mut word = [0; 8];
                let bytes = view.as_slice().get(row * width..(row + 1) * width)?;
                word.get_mut(..width)?.copy_from_slice(bytes);
                Some(u64::from_le_bytes(word))
            }
            Self::Packed(codes) => {
                let mut bits = None;
                if row < codes.rows() as usize {
                    codes.for_each(row..row + 1, |_, code| bits = Some(code));
                }
                bits
            }
        }
    }
}

/// One chunk of a column.
#[derive(Debug, Clone)]
pub struct Chunk {
    /// Identifies these rows of this column. If chunks are appended to the column, the new column's copy of
    /// this chunk has the same identity.
    pub identity: Arc<Identity>,
    /// Rows in the chunk, at least 1.
    pub rows: u32,
    /// The integer of code 0; 0 if codes are not integers.
    pub base: i64,
    /// The codes, values or string bytes.
    pub data: ChunkData,
    /// The `rows + 1` offsets of string columns.
    pub offsets: Option<HostView>,
    /// Arrow bit order, 1 = valid; present only if the chunk has nulls.
    pub validity: Option<HostView>,
    /// Bounds of the values.
    pub zone: Zone,
}

impl Chunk {
    /// The views of the chunk: data, offsets and validity.
    pub fn views(&self) -> impl Iterator<Item = &HostView> {
        let others = [self.offsets.as_ref(), self.validity.as_ref()];
        std::iter::once(self.data.stored()).chain(others.into_iter().flatten())
    }

    /// Bytes in host memory.
    pub fn stored_bytes(&self) -> u64 {
        self.views().map(|view| view.len() as u64).sum()
    }

    /// Bytes that kernels read: data, offsets and validity.
    pub fn plain_bytes(&self) -> u64 {
        self.stored_bytes() - self.data.stored().len() as u64 + self.data.plain_bytes() as u64
    }
}

/// A column: one encoding over all chunks of a table.
#[derive(Debug, Clone)]
pub struct Column {
    /// Name in the table's schema.
    pub name: String,
    /// The logical Arrow type that decoding returns.
    pub data_type: DataType,
    /// How the values are stored.
    pub encoding: Encoding,
    /// The chunks, in row order.
    pub chunks: Vec<Chunk>,
    /// Bounds over the chunks that have a value other than NULL and NaN. `None` if no chunk has one, or if
    /// one of these chunks has no upper bound (a long string).
    pub range: Option<ScalarRange>,
    /// Rows that are null.
    pub null_count: u64,
    /// Whether a NaN is among the values.
    pub has_nan: bool,
    pub(crate) slab_bytes: u64,
    /// Bytes of each chunk that kernels read, computed once because every query needs them.
    plain_bytes: Vec<u64>,
    /// Identifies these contents. When it is dropped, owners of copies drop their copies, see
    /// [`Identity::tell`]. It is dropped after the chunks.
    pub identity: Arc<Identity>,
    /// Identifies the encoding. If rows are appended and the old chunks keep their encoding, the new column
    /// has the same lineage: the same width, factor, dictionary and slots. Rows, bounds and the null count
    /// may differ.
    pub lineage: Arc<Identity>,
}

impl Column {
    /// Host memory of the column in bytes: its slabs, its dictionary, and the table that maps slots to codes.
    pub fn bytes(&self) -> u64 {
        self.slab_bytes + self.dictionary_bytes() + self.layout().map_or(0, |layout| layout.bytes())
    }

    /// Heap memory of the dictionary in bytes.
    pub fn dictionary_bytes(&self) -> u64 {
        self.dictionary()
            .map_or(0, |values| values.get_buffer_memory_size() as u64)
    }

    /// Bytes that a scan of the whole column reads: data, offsets and validity, in the form that kernels
    /// read.
    pub fn scan_bytes(&self) -> u64 {
        self.plain_bytes.iter().sum()
    }

    /// Like [`Self::scan_bytes`], for the chunks with these numbers.
    pub fn scan_bytes_of(&self, chunks: &[usize]) -> u64 {
        chunks.iter().map(|chunk| self.plain_bytes[*chunk]).sum()
    }

    /// Bytes of the views of all chunks. This is the size of a transfer to a device that has none of the
    /// chunks.
    pub fn stored_bytes(&self) -> u64 {
        self.chunks.iter().map(Chunk::stored_bytes).sum()
    }

    /// Rows in all chunks.
    pub fn rows(&self) -> u64 {
        self.chunks.iter().map(|chunk| u64::from(chunk.rows)).sum()
    }

    /// The dictionary of the codes, for [`Encoding::Dictionary`] and laid-out dictionaries.
    pub fn dictionary(&self) -> Option<&ArrayRef> {
        match &self.encoding {
            Encoding::Dictionary { values, .. } => Some(values),
            Encoding::Slots { layout, .. } => match &layout.meaning {
                CodeMeaning::Dictionary { values } => Some(values),
                CodeMeaning::Integer { .. } => None,
            },
            _ => None,
        }
    }

    /// The mapping from slots to codes, for [`Encoding::Slots`].
    pub fn layout(&self) -> Option<&Arc<SlotLayout>> {
        match &self.encoding {
            Encoding::Slots { layout, .. } => Some(layout),
            _ => None,
        }
    }

    /// Layout of a chunk's buffers in device memory from `start`: the offsets of its data, validity bitmap
    /// and string offsets, and the end.
    pub fn chunk_layout(&self, index: usize, start: u64) -> ([Option<u64>; 3], u64) {
        let chunk = &self.chunks[index];
        let mut at = start;
        let mut place = |bytes: Option<usize>| {
            bytes.map(|bytes| {
                let here = at;
                at += (bytes.max(1)).next_multiple_of(VIEW_ALIGNMENT) as u64;
                here
            })
        };
        let layout = [
            place(Some(chunk.data.plain_bytes())),
            place(chunk.validity.as_ref().map(HostView::len)),
            place(chunk.offsets.as_ref().map(HostView::len)),
        ];
        (layout, at)
    }

    /// A column of these chunks. Its slabs and bounds are derived from them.
    pub(crate) fn of_chunks(
        name: String,
        data_type: DataType,
        encoding: Encoding,
        lineage: Arc<Identity>,
        chunks: Vec<Chunk>,
    ) -> Self {
        let slab = |view: &HostView| (Arc::as_ptr(view.memory()) as usize, view.memory().len() as u64);
        let slabs: BTreeMap<usize, u64> = chunks.iter().flat_map(Chunk::views).map(slab).collect();
        Self {
            identity: Arc::default(),
            lineage,
            name,
            data_type,
            encoding,
            range: range(&chunks),
            null_count: chunks.iter().map(|chunk| u64::from(chunk.zone.null_count)).sum(),
            has_nan: chunks.iter().any(|chunk| chunk.zone.has_nan),
            plain_bytes: chunks.iter().map(Chunk::plain_bytes).collect(),
            chunks,
            slab_bytes: slabs.values().sum(),
        }
    }

    /// The first `kept` chunks of this column, followed by those of a column with the same encoding.
    pub(crate) fn extended(&self, kept: usize, added: Self) -> Self {
        let chunks = self.chunks[..kept].iter().cloned().chain(added.chunks).collect();
        let (encoding, lineage) = (self.encoding.clone(), Arc::clone(&self.lineage));
        Self::of_chunks(added.name, added.data_type, encoding, lineage, chunks)
    }
}

/// A region of device memory: a page is a chunk, with its buffers one after the other, each aligned to
/// [`VIEW_ALIGNMENT`].
///
/// A page never owns its original: the region has a weak reference to its [`Identity`], and is dropped with
/// it. Versions of a column (the table before and after an `INSERT`) share the pages of their common chunks.
impl Source for Column {
    fn identity(&self) -> &Arc<Identity> {
        &self.identity
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn pages(&self) -> usize {
        self.chunks.len()
    }

    fn page(&self, index: usize) -> &Arc<Identity> {
        &self.chunks[index].identity
    }

    fn page_bytes(&self, index: usize) -> u64 {
        self.chunk_layout(index, 0).1
    }
}

/// Bounds over the chunks that have a value other than NULL and NaN. `None` if no chunk has one, or if one of
/// these chunks has no upper bound.
fn range(chunks: &[Chunk]) -> Option<ScalarRange> {
    let mut bounds: Option<ScalarRange> = None;
    for chunk in chunks {
        let Zone { min, max, exact, .. } = &chunk.zone;
        let (Some(min), Some(max)) = (min, max) else {
            if min.is_none() && max.is_none() {
                continue;
            }
            return None;
        };
        bounds = Some(match bounds {
            None => ScalarRange {
                min: min.clone(),
                max: max.clone(),
                exact: *exact,
            },
            Some(held) => ScalarRange {
                min: if less(min, &held.min) {
                    min.clone()
                } else {
                    held.min
                },
                max: if less(&held.max, max) {
                    max.clone()
                } else {
                    held.max
                },
                exact: held.exact && *exact,
            },
        });
    }
    bounds
}

/// The order of two bounds of one column.
fn less(left: &Scalar, right: &Scalar) -> bool {
    match (left, right) {
        (Scalar::Integer(left), Scalar::Integer(right)) => left < right,
        (Scalar::Float(left), Scalar::Float(right)) => left.total_cmp(right).is_lt(),
        (Scalar::Bytes(left), Scalar::Bytes(right)) => left < right,
        _ => false,
    }
}
