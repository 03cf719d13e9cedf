//! The bytes of a column chunk, as a reader for the parquet crate.

use ::parquet::errors::ParquetError;
use ::parquet::file::reader::{ChunkReader, Length};
use bytes::{Buf, Bytes};

/// The bytes of one column chunk, as a file without other contents.
pub(super) struct ColumnBytes {
    /// Their start in the file.
    pub(super) start: u64,
    pub(super) bytes: Bytes,
    pub(super) file_size: u64,
}

impl ColumnBytes {
    fn range(&self, start: u64, length: Option<usize>) -> Result<Bytes, ParquetError> {
        let outside = || ParquetError::EOF(format!("bytes from {start} on are not in the column chunk"));
        let from = start
            .checked_sub(self.start)
            .and_then(|from| usize::try_from(from).ok())
            .ok_or_else(outside)?;
        let to = match length {
            Some(length) => from.checked_add(length).ok_or_else(outside)?,
            None => self.bytes.len(),
        };
        if from > to || to > self.bytes.len() {
            return Err(outside());
        }
        Ok(self.bytes.slice(from..to))
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
