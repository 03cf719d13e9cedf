//! The input of decoding: the bytes of a column chunk.

use parquet::basic::Compression;

use crate::error::{ParquetError, Place, Problem, Unsupported};

/// A column chunk: one column of one row group.
#[derive(Debug, Clone, Copy)]
pub struct ColumnChunk<'a> {
    /// Name of the file, for errors.
    pub file: &'a str,
    /// Name of the column, for errors.
    pub column: &'a str,
    /// Number of the row group in the file, for errors.
    pub row_group: usize,
    /// First byte of the column chunk in the file.
    pub start: u64,
    /// The column chunk: all of its pages, from the dictionary page on if it has one.
    pub bytes: &'a [u8],
    /// Rows of the row group.
    pub rows: usize,
    /// Codec of the pages.
    pub codec: Compression,
}

impl ColumnChunk<'_> {
    /// The error of a violation. `byte`: see [`Place::byte`].
    pub(crate) fn damaged(&self, page: Option<usize>, byte: u64, problem: Problem) -> ParquetError {
        ParquetError::Damaged {
            place: Place {
                file: self.file.to_owned(),
                column: self.column.to_owned(),
                row_group: self.row_group,
                page,
                byte,
            },
            problem,
        }
    }

    /// The error that the device does not decode the column.
    pub(crate) fn unsupported(&self, reason: Unsupported) -> ParquetError {
        ParquetError::Unsupported {
            file: self.file.to_owned(),
            column: self.column.to_owned(),
            reason,
        }
    }
}
