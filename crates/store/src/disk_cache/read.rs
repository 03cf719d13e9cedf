//! Reading of a column from its file: threads read pieces in parallel into the memory where they stay.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use arrow::array::{ArrayRef, GenericBinaryArray, GenericStringArray, OffsetSizeTrait};
use arrow::buffer::{Buffer, MutableBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::DataType;
use galatea_device::{HostMemory, HostView};
use rayon::prelude::*;

use super::key::ColumnKey;
use super::metadata::{HEADER, Metadata, PIECE, StoredEncoding, StoredValues, StoredView};
use crate::column::{Chunk, ChunkData, Column, Encoding, Width};
use crate::error::StoreError;
use crate::packed::PackedCodes;
use crate::pool::Cancellation;

/// The reason why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unusable {
    /// It does not exist.
    #[error("it does not exist")]
    Missing,
    /// It has the column of other contents of the source files.
    #[error("its source files have changed")]
    Stale,
    /// It is truncated, corrupt, or not a file of this cache.
    #[error("it is damaged: {0}")]
    Damaged(&'static str),
    /// It cannot be read.
    #[error(transparent)]
    Io(io::Error),
    /// The load was cancelled, or has too little memory.
    #[error(transparent)]
    Load(#[from] StoreError),
}

impl From<io::Error> for Unusable {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::Missing,
            io::ErrorKind::UnexpectedEof => Self::Damaged("it is truncated"),
            _ => Self::Io(error),
        }
    }
}

/// An open file with the column of a key. Its sections have not been read.
#[derive(Debug)]
pub(crate) struct StoredColumn {
    file: File,
    pub(super) path: PathBuf,
    metadata: Metadata,
    /// Places of the sections.
    places: Vec<u64>,
    length: u64,
}

/// Memory of a column to be read.
pub(crate) struct ColumnMemory {
    /// Slabs of [`StoredColumn::slabs`] bytes.
    pub(crate) slabs: Vec<HostMemory>,
}

impl StoredColumn {
    /// Opens the file of a key, and checks everything but its sections.
    pub(super) fn open(path: &Path, key: &ColumnKey) -> Result<Self, Unusable> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        let mut header = [0; HEADER];
        file.read_exact_at(&mut header, 0)?;
        let (bytes, digest) =
            Metadata::of_header(&header).ok_or(Unusable::Damaged("it has no valid header"))?;
        let end = HEADER as u64 + bytes;
        if end > length {
            return Err(Unusable::Damaged("it is truncated"));
        }
        let mut metadata = vec![0; bytes as usize];
        file.read_exact_at(&mut metadata, HEADER as u64)?;
        let metadata =
            Metadata::parse(&metadata, &digest).ok_or(Unusable::Damaged("its metadata are corrupt"))?;
        let places = metadata.places(end);
        let places = places.filter(|(_, expected)| *expected == length);
        let (places, _) = places.ok_or(Unusable::Damaged("it has another length than its sections"))?;
        if metadata.contents != key.contents {
            return Err(Unusable::Stale);
        }
        Ok(Self {
            file,
            path: path.to_owned(),
            metadata,
            places,
            length,
        })
    }

    /// Length of the file.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Bytes of each slab.
    pub(crate) fn slabs(&self) -> &[u64] {
        self.metadata.slabs()
    }

    /// Host memory of the column.
    pub(crate) fn bytes(&self) -> u64 {
        self.metadata.sections.iter().sum()
    }

    /// Sets the time of the last use.
    pub(super) fn touch(&self) {
        if let Err(error) = self.file.set_modified(SystemTime::now()) {
            tracing::debug!(path = %self.path.display(), "the use of a cached column is not recorded: {error}");
        }
    }

    /// Rows of each chunk.
    pub(crate) fn chunk_rows(&self) -> Vec<u32> {
        self.metadata.chunks.iter().map(|chunk| chunk.rows).collect()
    }

    /// Whether the column has strings without a dictionary.
    pub(crate) fn is_text(&self) -> bool {
        matches!(self.metadata.encoding, StoredEncoding::Text { .. })
    }

    /// Reads the column.
    pub(crate) fn read(
        &self,
        (name, data_type): (&str, &DataType),
        mut memory: ColumnMemory,
        cancellation: &Cancellation,
    ) -> Result<(Column, Vec<Arc<HostMemory>>), Unusable> {
        let before = self.metadata.encoding.dictionary_sections();
        let mut dictionary: Vec<MutableBuffer> = self.metadata.sections[..before]
            .iter()
            .map(|bytes| MutableBuffer::from_len_zeroed(*bytes as usize))
            .collect();
        let sections = dictionary.iter_mut().map(MutableBuffer::as_slice_mut);
        let sections = sections.chain(memory.slabs.iter_mut().map(HostMemory::as_mut_slice));
        let mut pieces: Vec<(u64, &mut [u8])> = Vec::with_capacity(self.metadata.checksums.len());
        for ((section, place), bytes) in sections.zip(&self.places).zip(&self.metadata.sections) {
            if section.len() as u64 != *bytes {
                return Err(StoreError::Internal("a slab of another length".to_owned()).into());
            }
            let section = section.chunks_mut(PIECE).enumerate();
            pieces.extend(section.map(|(index, piece)| (place + (index * PIECE) as u64, piece)));
        }
        let checksums = self.metadata.checksums.par_iter();
        let pieces = pieces.into_par_iter().zip(checksums);
        pieces.try_for_each(|((place, piece), checksum)| {
            cancellation.check()?;
            self.file.read_exact_at(piece, place)?;
            match crc32fast::hash(piece) == *checksum {
                true => Ok(()),
                false => Err(Unusable::Damaged("a checksum differs")),
            }
        })?;
        let slabs: Vec<Arc<HostMemory>> = memory.slabs.into_iter().map(Arc::new).collect();
        let encoding = self.encoding(dictionary)?;
        let chunks = self.chunks(&slabs)?;
        let column = Column::of_chunks(
            name.to_owned(),
            data_type.clone(),
            encoding,
            Arc::default(),
            chunks,
        );
        Ok((column, slabs))
    }

    fn encoding(&self, dictionary: Vec<MutableBuffer>) -> Result<Encoding, Unusable> {
        Ok(match self.metadata.encoding {
            StoredEncoding::Integer { width, factor } => Encoding::Integer { width, factor },
            StoredEncoding::Boolean => Encoding::Boolean,
            StoredEncoding::Float32 => Encoding::Float32,
            StoredEncoding::Float64 => Encoding::Float64,
            StoredEncoding::Decimal128 => Encoding::Decimal128,
            StoredEncoding::Text { offset_width } => Encoding::Text { offset_width },
            StoredEncoding::Dictionary { width, values } => {
                let mut parts = dictionary.into_iter().map(Buffer::from);
                let values = match (parts.next(), parts.next()) {
                    (Some(offsets), Some(bytes)) if values.large => {
                        dictionary_array::<i64>(offsets, bytes, values)
                    }
                    (Some(offsets), Some(bytes)) => dictionary_array::<i32>(offsets, bytes, values),
                    _ => None,
                };
                let values = values.ok_or(Unusable::Damaged("its dictionary is invalid"))?;
                Encoding::Dictionary { width, values }
            }
        })
    }

    fn chunks(&self, slabs: &[Arc<HostMemory>]) -> Result<Vec<Chunk>, Unusable> {
        let view = |view: &StoredView| {
            let slab = slabs.get(view.slab as usize);
            let view = slab.and_then(|slab| {
                HostView::new(Arc::clone(slab), view.start as usize, view.length as usize).ok()
            });
            view.ok_or(Unusable::Damaged("a chunk is outside of its slab"))
        };
        let width = self.metadata.encoding.code_width().unwrap_or(Width::Zero);
        let chunks = self.metadata.chunks.par_iter().map(|chunk| {
            let data = view(&chunk.data)?;
            let data = match chunk.packed {
                false => ChunkData::Plain(data),
                true => {
                    let codes = PackedCodes::checked(data, chunk.rows, width);
                    ChunkData::Packed(codes.ok_or(Unusable::Damaged("packed codes are invalid"))?)
                }
            };
            Ok(Chunk {
                identity: Arc::default(),
                rows: chunk.rows,
                base: chunk.base,
                data,
                offsets: chunk.offsets.as_ref().map(view).transpose()?,
                validity: chunk.validity.as_ref().map(view).transpose()?,
                zone: chunk.zone.clone(),
            })
        });
        chunks.collect()
    }
}

/// The values of a dictionary; `None` if offsets or strings are invalid.
fn dictionary_array<O: OffsetSizeTrait>(
    offsets: Buffer,
    bytes: Buffer,
    values: StoredValues,
) -> Option<ArrayRef> {
    let count = usize::try_from(values.count).ok()?;
    let offsets = ScalarBuffer::<O>::new(offsets, 0, count + 1);
    let is_valid = offsets.first()?.to_usize()? == 0
        && offsets.last()?.to_usize()? == bytes.len()
        && offsets.windows(2).all(|pair| pair[0] <= pair[1]);
    if !is_valid {
        return None;
    }
    let offsets = OffsetBuffer::new(offsets);
    Some(match values.utf8 {
        true => Arc::new(GenericStringArray::try_new(offsets, bytes, None).ok()?),
        false => Arc::new(GenericBinaryArray::try_new(offsets, bytes, None).ok()?),
    })
}
