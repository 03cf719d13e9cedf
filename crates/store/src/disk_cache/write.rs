//! Writing of a column to a file.
//!
//! The column may be evicted from memory meanwhile: the writer holds weak references, and copies one piece at
//! a time while it holds the lock `copying`. If the column is gone, the file is dropped.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Weak};

use arrow::array::{Array, AsArray};
use arrow::datatypes::{
    ArrowNativeType, BinaryType, ByteArrayType, DataType, LargeBinaryType, LargeUtf8Type, Utf8Type,
};
use bytemuck::Pod;
use galatea_device::{HostMemory, HostView};
use parking_lot::Mutex;

use super::key::ColumnKey;
use super::metadata::{Metadata, PIECE, StoredChunk, StoredEncoding, StoredValues, StoredView};
use crate::column::{ChunkData, Column, Encoding};

/// A column to be written.
pub(super) struct Draft {
    metadata: Metadata,
    /// The bytes of each section.
    sources: Vec<SectionSource>,
    /// Places of the sections, and the length of the file.
    places: Vec<u64>,
    length: u64,
}

/// The bytes of a section in memory.
enum SectionSource {
    Slab(Weak<HostMemory>),
    DictionaryOffsets(Weak<dyn Array>),
    DictionaryBytes(Weak<dyn Array>),
}

impl SectionSource {
    /// Copies at most [`PIECE`] bytes from `start` on. Returns false if the memory is gone.
    fn copy(&self, start: u64, target: &mut Vec<u8>) -> bool {
        target.clear();
        let mut copy = |bytes: &[u8]| {
            let rest = bytes.get(start as usize..).unwrap_or_default();
            target.extend_from_slice(&rest[..rest.len().min(PIECE)]);
        };
        match self {
            Self::Slab(slab) => slab.upgrade().map(|slab| copy(slab.as_slice())),
            Self::DictionaryOffsets(values) => {
                let values = values.upgrade();
                values.and_then(|values| dictionary_parts(&values).map(|(offsets, _)| copy(offsets)))
            }
            Self::DictionaryBytes(values) => {
                let values = values.upgrade();
                values.and_then(|values| dictionary_parts(&values).map(|(_, bytes)| copy(bytes)))
            }
        }
        .is_some()
    }
}

/// The offsets and the bytes of a dictionary; `None` for arrays that are parts of others or have nulls.
fn dictionary_parts(values: &dyn Array) -> Option<(&[u8], &[u8])> {
    fn parts<T: ByteArrayType>(values: &dyn Array) -> Option<(&[u8], &[u8])>
    where
        T::Offset: Pod,
    {
        let array = values.as_bytes_opt::<T>()?;
        let (offsets, bytes) = (array.value_offsets(), array.value_data());
        let is_whole = offsets.first()?.as_usize() == 0 && offsets.last()?.as_usize() == bytes.len();
        is_whole.then_some((bytemuck::cast_slice(offsets), bytes))
    }
    let parts = match values.data_type() {
        DataType::Utf8 => parts::<Utf8Type>(values),
        DataType::LargeUtf8 => parts::<LargeUtf8Type>(values),
        DataType::Binary => parts::<BinaryType>(values),
        DataType::LargeBinary => parts::<LargeBinaryType>(values),
        _ => None,
    };
    parts.filter(|_| values.null_count() == 0)
}

impl Draft {
    /// The draft of a column; `None` for columns that are not cached on disk: those with a conflict layout.
    pub(super) fn of(column: &Column, key: &ColumnKey) -> Option<Self> {
        let encoding = stored_encoding(&column.encoding)?;
        let mut sections = Vec::new();
        let mut sources = Vec::new();
        if let Some(values) = column.dictionary() {
            let (offsets, bytes) = dictionary_parts(values)?;
            sections.extend([offsets.len() as u64, bytes.len() as u64]);
            sources.push(SectionSource::DictionaryOffsets(Arc::downgrade(values)));
            sources.push(SectionSource::DictionaryBytes(Arc::downgrade(values)));
        }
        let mut slabs: Vec<Arc<HostMemory>> = Vec::new();
        let mut view = |view: &HostView| {
            // The chunks use the slabs in order.
            let known = slabs.iter().rposition(|slab| Arc::ptr_eq(slab, view.memory()));
            let slab = known.unwrap_or_else(|| {
                slabs.push(Arc::clone(view.memory()));
                slabs.len() - 1
            });
            StoredView {
                slab: slab as u32,
                start: view.offset() as u64,
                length: view.len() as u64,
            }
        };
        let chunks = column.chunks.iter().map(|chunk| StoredChunk {
            rows: chunk.rows,
            base: chunk.base,
            packed: matches!(chunk.data, ChunkData::Packed(_)),
            data: view(chunk.data.stored()),
            offsets: chunk.offsets.as_ref().map(&mut view),
            validity: chunk.validity.as_ref().map(&mut view),
            zone: chunk.zone.clone(),
        });
        let chunks = chunks.collect();
        sections.extend(slabs.iter().map(|slab| slab.len() as u64));
        sources.extend(slabs.iter().map(|slab| SectionSource::Slab(Arc::downgrade(slab))));
        let mut metadata = Metadata {
            contents: key.contents,
            encoding,
            chunks,
            sections,
            checksums: Vec::new(),
        };
        metadata.checksums = vec![0; usize::try_from(metadata.pieces()).ok()?];
        let (places, length) = metadata.places(metadata.to_bytes().len() as u64)?;
        Some(Self {
            metadata,
            sources,
            places,
            length,
        })
    }

    /// Length of the file.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Writes the column to an empty file. Returns false if the column is not in memory any more.
    pub(super) fn write(mut self, file: &File, copying: &Mutex<()>) -> io::Result<bool> {
        let mut piece = Vec::with_capacity(PIECE);
        let mut checksums = Vec::with_capacity(self.metadata.checksums.len());
        for ((source, place), bytes) in self.sources.iter().zip(&self.places).zip(&self.metadata.sections) {
            for start in (0..*bytes).step_by(PIECE) {
                let copied = {
                    let _alone = copying.lock();
                    source.copy(start, &mut piece)
                };
                if !copied {
                    return Ok(false);
                }
                checksums.push(crc32fast::hash(&piece));
                file.write_all_at(&piece, place + start)?;
            }
        }
        self.metadata.checksums = checksums;
        file.set_len(self.length)?;
        file.write_all_at(&self.metadata.to_bytes(), 0)?;
        Ok(true)
    }
}

fn stored_encoding(encoding: &Encoding) -> Option<StoredEncoding> {
    Some(match encoding {
        Encoding::Integer { width, factor } => StoredEncoding::Integer {
            width: *width,
            factor: *factor,
        },
        Encoding::Boolean => StoredEncoding::Boolean,
        Encoding::Float32 => StoredEncoding::Float32,
        Encoding::Float64 => StoredEncoding::Float64,
        Encoding::Decimal128 => StoredEncoding::Decimal128,
        Encoding::Dictionary { width, values } => StoredEncoding::Dictionary {
            width: *width,
            values: StoredValues {
                utf8: matches!(values.data_type(), DataType::Utf8 | DataType::LargeUtf8),
                large: matches!(values.data_type(), DataType::LargeUtf8 | DataType::LargeBinary),
                count: values.len() as u64,
            },
        },
        Encoding::Text { offset_width } => StoredEncoding::Text {
            offset_width: *offset_width,
        },
        Encoding::Slots { .. } => return None,
    })
}
