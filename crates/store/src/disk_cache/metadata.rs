//! The metadata of a column's file, and the places of its sections.
//!
//! ```text
//!  0      magic, length of the metadata, digest of the metadata
//!  64     metadata: digest of the stamps, encoding, chunks, lengths and checksums of the sections
//!  4096 n sections: offsets and bytes of the dictionary, then the slabs, each from a multiple of 4096 bytes
//! ```
//!
//! A section has a checksum for each piece of [`PIECE`] bytes, which the thread that reads the piece compares
//! while it is in the core's cache.

use super::fields::{Reader, Writer};
use crate::column::{Scalar, VIEW_ALIGNMENT, Width, Zone};
use crate::digest::Digest;

/// First bytes of every file.
const MAGIC: &[u8; 16] = b"galatea column 1";

/// Bytes before the metadata.
pub(super) const HEADER: usize = 64;

/// Unit of places of sections.
const ALIGNMENT: u64 = 4096;

/// Bytes that are read and checked at a time.
pub(super) const PIECE: usize = 1 << 20;

/// Maximum length of metadata: that of millions of chunks.
const MOST_METADATA: u64 = 1 << 30;

/// The contents of a file except for its sections.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Metadata {
    /// Digest of the stamps of the source files.
    pub(super) contents: Digest,
    pub(super) encoding: StoredEncoding,
    pub(super) chunks: Vec<StoredChunk>,
    /// Bytes of each section.
    pub(super) sections: Vec<u64>,
    /// Checksums of the pieces of all sections.
    pub(super) checksums: Vec<u32>,
}

/// An [`crate::Encoding`] without the values of its dictionary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StoredEncoding {
    Integer { width: Width, factor: u64 },
    Boolean,
    Float32,
    Float64,
    Decimal128,
    Dictionary { width: Width, values: StoredValues },
    Text { offset_width: Width },
}

/// The array of a dictionary's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StoredValues {
    /// Whether the values are strings, not binaries.
    pub(super) utf8: bool,
    /// Whether offsets have 64 bits.
    pub(super) large: bool,
    pub(super) count: u64,
}

/// A [`crate::Chunk`] without its bytes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct StoredChunk {
    pub(super) rows: u32,
    pub(super) base: i64,
    pub(super) packed: bool,
    pub(super) data: StoredView,
    pub(super) offsets: Option<StoredView>,
    pub(super) validity: Option<StoredView>,
    pub(super) zone: Zone,
}

/// A range of a slab.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StoredView {
    pub(super) slab: u32,
    pub(super) start: u64,
    pub(super) length: u64,
}

impl StoredEncoding {
    /// Number of sections before the slabs.
    pub(super) fn dictionary_sections(&self) -> usize {
        match self {
            Self::Dictionary { .. } => 2,
            _ => 0,
        }
    }

    /// Bytes of a row in plain form; `None` for strings.
    fn bytes_per_row(&self) -> Option<u64> {
        Some(match self {
            Self::Integer { width, .. } | Self::Dictionary { width, .. } => width.bytes() as u64,
            Self::Boolean => 1,
            Self::Float32 => 4,
            Self::Float64 => 8,
            Self::Decimal128 => 16,
            Self::Text { .. } => return None,
        })
    }

    /// Width of codes that may be packed.
    pub(super) fn code_width(&self) -> Option<Width> {
        match self {
            Self::Integer { width, .. } | Self::Dictionary { width, .. } => Some(*width),
            _ => None,
        }
    }
}

impl Metadata {
    /// Number of pieces of all sections.
    pub(super) fn pieces(&self) -> u64 {
        let pieces = |bytes: &u64| bytes.div_ceil(PIECE as u64);
        self.sections.iter().map(pieces).sum()
    }

    /// Header and metadata.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut out = Writer::default();
        out.bytes(&self.contents);
        self.write_encoding(&mut out);
        out.u64(self.chunks.len() as u64);
        for chunk in &self.chunks {
            out.u32(chunk.rows);
            out.bytes(&chunk.base.to_le_bytes());
            out.u8(u8::from(chunk.packed));
            for view in [Some(&chunk.data), chunk.offsets.as_ref(), chunk.validity.as_ref()] {
                out.u8(u8::from(view.is_some()));
                if let Some(view) = view {
                    out.u32(view.slab);
                    out.u64(view.start);
                    out.u64(view.length);
                }
            }
            out.zone(&chunk.zone);
        }
        out.u64(self.sections.len() as u64);
        self.sections.iter().for_each(|bytes| out.u64(*bytes));
        out.u64(self.checksums.len() as u64);
        self.checksums.iter().for_each(|checksum| out.u32(*checksum));
        let mut all = Writer::default();
        all.bytes(MAGIC);
        all.u64(out.0.len() as u64);
        all.bytes(blake3::hash(&out.0).as_bytes());
        all.0.resize(HEADER, 0);
        all.bytes(&out.0);
        all.0
    }

    fn write_encoding(&self, out: &mut Writer) {
        match &self.encoding {
            StoredEncoding::Integer { width, factor } => {
                out.u8(0);
                out.width(*width);
                out.u64(*factor);
            }
            StoredEncoding::Boolean => out.u8(1),
            StoredEncoding::Float32 => out.u8(2),
            StoredEncoding::Float64 => out.u8(3),
            StoredEncoding::Decimal128 => out.u8(4),
            StoredEncoding::Dictionary { width, values } => {
                out.u8(5);
                out.width(*width);
                out.u8(u8::from(values.utf8));
                out.u8(u8::from(values.large));
                out.u64(values.count);
            }
            StoredEncoding::Text { offset_width } => {
                out.u8(6);
                out.width(*offset_width);
            }
        }
    }

    /// The length of the metadata and its digest, from the first [`HEADER`] bytes of a file.
    pub(super) fn of_header(header: &[u8]) -> Option<(u64, Digest)> {
        let mut header = Reader(header);
        if header.array()? != *MAGIC {
            return None;
        }
        let length = header.u64()?;
        let digest = header.array()?;
        let zeros = header.0.iter().all(|byte| *byte == 0);
        (zeros && length <= MOST_METADATA).then_some((length, digest))
    }

    /// The metadata in these bytes. `None` if they do not have the digest, or if their contents contradict
    /// each other.
    pub(super) fn parse(bytes: &[u8], digest: &Digest) -> Option<Self> {
        if blake3::hash(bytes).as_bytes() != digest {
            return None;
        }
        let mut fields = Reader(bytes);
        let contents = fields.array()?;
        let encoding = encoding(&mut fields)?;
        let chunks = fields.list(chunk)?;
        let sections = fields.list(Reader::u64)?;
        let checksums = fields.list(Reader::u32)?;
        let metadata = Self {
            contents,
            encoding,
            chunks,
            sections,
            checksums,
        };
        (fields.0.is_empty() && metadata.is_consistent()?).then_some(metadata)
    }

    /// The places of the sections in the file, and the length of the file. `metadata` is the length of header
    /// and metadata.
    pub(super) fn places(&self, metadata: u64) -> Option<(Vec<u64>, u64)> {
        let mut end = metadata;
        let places = self.sections.iter().map(|bytes| {
            let start = end.checked_next_multiple_of(ALIGNMENT)?;
            end = start.checked_add(*bytes)?;
            Some(start)
        });
        let places = places.collect::<Option<Vec<_>>>()?;
        Some((places, end))
    }

    /// Bytes of the slabs.
    pub(super) fn slabs(&self) -> &[u64] {
        &self.sections[self.encoding.dictionary_sections()..]
    }

    /// Whether lengths and places agree. `None` if a number overflows.
    fn is_consistent(&self) -> Option<bool> {
        let mut pieces = self.sections.iter().map(|bytes| bytes.div_ceil(PIECE as u64));
        let pieces = pieces.try_fold(0_u64, u64::checked_add)?;
        if pieces != self.checksums.len() as u64
            || self.sections.len() < self.encoding.dictionary_sections()
            || self.sections.iter().any(|bytes| isize::try_from(*bytes).is_err())
        {
            return Some(false);
        }
        if let StoredEncoding::Dictionary { values, .. } = &self.encoding {
            let offset = if values.large { 8 } else { 4 };
            if values.count.checked_add(1)?.checked_mul(offset)? != self.sections[0] {
                return Some(false);
            }
        }
        self.chunks
            .iter()
            .try_fold(true, |all, chunk| Some(all && self.is_consistent_chunk(chunk)?))
    }

    fn is_consistent_chunk(&self, chunk: &StoredChunk) -> Option<bool> {
        let rows = u64::from(chunk.rows);
        let offsets = match &self.encoding {
            StoredEncoding::Text { offset_width } => Some((rows + 1) * offset_width.bytes() as u64),
            _ => None,
        };
        let data = chunk.data.length;
        let data = match (self.encoding.bytes_per_row(), chunk.packed) {
            (Some(bytes), false) => data == rows * bytes,
            (Some(_), true) => self.encoding.code_width().is_some() && data.is_multiple_of(16),
            (None, packed) => !packed,
        };
        let codes = match &self.encoding {
            StoredEncoding::Dictionary { values, .. } => match (&chunk.zone.min, &chunk.zone.max) {
                (None, None) => true,
                (Some(Scalar::Integer(min)), Some(Scalar::Integer(max))) => {
                    *min >= 0 && *max < i128::from(values.count)
                }
                _ => false,
            },
            _ => true,
        };
        let has_length =
            |view: Option<StoredView>, length| view.is_none_or(|view| Some(view.length) == length);
        let slabs = self.slabs();
        let views = [Some(chunk.data), chunk.offsets, chunk.validity];
        let inside = views.iter().flatten().try_fold(true, |all, view| {
            let end = view.start.checked_add(view.length)?;
            let slab = slabs.get(usize::try_from(view.slab).ok()?)?;
            Some(all && end <= *slab && view.start % VIEW_ALIGNMENT as u64 == 0)
        })?;
        Some(
            inside
                && data
                && codes
                && rows > 0
                && chunk.offsets.is_some() == offsets.is_some()
                && has_length(chunk.offsets, offsets)
                && has_length(chunk.validity, Some(rows.div_ceil(8)))
                && (chunk.validity.is_some() || chunk.zone.null_count == 0),
        )
    }
}

fn encoding(fields: &mut Reader<'_>) -> Option<StoredEncoding> {
    Some(match fields.u8()? {
        0 => StoredEncoding::Integer {
            width: fields.width()?,
            factor: fields.u64().filter(|factor| *factor > 0)?,
        },
        1 => StoredEncoding::Boolean,
        2 => StoredEncoding::Float32,
        3 => StoredEncoding::Float64,
        4 => StoredEncoding::Decimal128,
        5 => StoredEncoding::Dictionary {
            width: fields.width()?,
            values: StoredValues {
                utf8: fields.bool()?,
                large: fields.bool()?,
                count: fields.u64()?,
            },
        },
        6 => StoredEncoding::Text {
            offset_width: fields.width().filter(|width| *width >= Width::Four)?,
        },
        _ => return None,
    })
}

fn chunk(fields: &mut Reader<'_>) -> Option<StoredChunk> {
    let view = |fields: &mut Reader<'_>| -> Option<Option<StoredView>> {
        if !fields.bool()? {
            return Some(None);
        }
        Some(Some(StoredView {
            slab: fields.u32()?,
            start: fields.u64()?,
            length: fields.u64()?,
        }))
    };
    Some(StoredChunk {
        rows: fields.u32()?,
        base: fields.i64()?,
        packed: fields.bool()?,
        data: view(fields)??,
        offsets: view(fields)?,
        validity: view(fields)?,
        zone: fields.zone()?,
    })
}
