//! The bytes of a column chunk, as a reader for the parquet crate.

use std::ops::Range;

use ::parquet::errors::ParquetError;
use ::parquet::file::reader::{ChunkReader, Length};
use bytes::{Buf, Bytes};

use crate::error::Result as StoreResult;
use crate::version::OpenFile;

/// Consecutive bytes of a file.
#[derive(Debug, Clone)]
pub(super) struct Piece {
    /// Their start in the file.
    pub(super) start: u64,
    pub(super) bytes: Bytes,
}

/// The bytes of a column chunk that a load reads, as a file without other contents.
pub(super) struct ColumnBytes {
    /// The pieces, in the order of the file.
    pub(super) pieces: Vec<Piece>,
    pub(super) file_size: u64,
}

impl ColumnBytes {
    fn range(&self, start: u64, length: Option<usize>) -> Result<Bytes, ParquetError> {
        let outside = || ParquetError::EOF(format!("bytes from {start} on are not in the column chunk"));
        let number = self.pieces.partition_point(|piece| piece.start <= start);
        let piece = number.checked_sub(1).and_then(|number| self.pieces.get(number));
        let piece = piece.ok_or_else(outside)?;
        let from = usize::try_from(start - piece.start).map_err(|_| outside())?;
        let to = match length {
            Some(length) => from.checked_add(length).ok_or_else(outside)?,
            None => piece.bytes.len(),
        };
        if from > to || to > piece.bytes.len() {
            return Err(outside());
        }
        Ok(piece.bytes.slice(from..to))
    }
}

/// Reads ranges of a local file.
pub(super) fn read_pieces(file: &OpenFile, ranges: Vec<Range<u64>>) -> StoreResult<Vec<Piece>> {
    let pieces = ranges.into_iter().map(|range| {
        Ok(Piece {
            start: range.start,
            bytes: file.read((range.start, range.end - range.start))?,
        })
    });
    pieces.collect()
}

/// The bytes of all pieces, in one buffer. A single piece is not copied.
pub(super) fn joined(pieces: &[Piece]) -> Bytes {
    match pieces {
        [piece] => piece.bytes.clone(),
        pieces => pieces
            .iter()
            .flat_map(|piece| piece.bytes.iter().copied())
            .collect(),
    }
}

impl Length for ColumnBytes {
    fn len(&self) -> u64 {
        self.file_size
    }
}

impl ChunkReader for ColumnBytes {
    type T = bytes::buf::Reader<Bytes>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        Ok(self.range(start, None)?.reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        self.range(start, Some(length))
    }
}
