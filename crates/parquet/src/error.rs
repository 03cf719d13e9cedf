//! Errors of decoding.

use std::fmt;

use galatea_device::DeviceError;
use galatea_kernels::ParquetFailure;

/// Result of decoding.
pub type Result<T, E = ParquetError> = std::result::Result<T, E>;

/// An error of decoding a column on the device.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ParquetError {
    /// A column chunk violates the format.
    #[error("cannot read {place}: {problem}\nhint: the file is cut off, damaged, or not Parquet")]
    Damaged {
        /// The violating bytes.
        place: Place,
        /// The violation.
        problem: Problem,
    },
    /// The column is not decoded on the device; another reader may read it.
    #[error("column {column} of {file} is not decoded on the device: {reason}")]
    Unsupported {
        /// Name of the file.
        file: String,
        /// Name of the column.
        column: String,
        /// The reason.
        reason: Unsupported,
    },
    /// The device failed, or has too little memory.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// A place in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Name of the file.
    pub file: String,
    /// Name of the column.
    pub column: String,
    /// The row group, from 0.
    pub row_group: usize,
    /// The page of the column chunk, from 0; none if the violation is in the chunk as a whole.
    pub page: Option<usize>,
    /// A byte: in the file, or in the decompressed page if [`Problem::Value`] was found there.
    pub byte: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            file,
            column,
            row_group,
            page,
            byte,
        } = self;
        write!(f, "column {column} of {file}, row group {row_group}")?;
        if let Some(page) = page {
            write!(f, ", page {page}")?;
        }
        write!(f, ", byte {byte}")
    }
}

/// A violation of the format.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// A page header ends early.
    HeaderEnds,
    /// A page header has a type of field that the format excludes, or a field of another type.
    FieldType {
        /// The type.
        number: u8,
    },
    /// Fields of a page header are nested too deeply.
    Depth {
        /// The maximum depth.
        limit: usize,
    },
    /// A page header lacks a field.
    Missing {
        /// The field.
        field: &'static str,
    },
    /// A number is out of its limits.
    OutOfRange {
        /// The number's meaning, plural or singular.
        name: &'static str,
        /// The number in the file.
        number: i64,
        /// Its minimum.
        least: i64,
        /// Its maximum.
        greatest: i64,
    },
    /// Two numbers differ that should be equal.
    Differs {
        /// Their meaning.
        name: &'static str,
        /// The number.
        number: i64,
        /// The other number.
        expected: i64,
    },
    /// A page uses a dictionary, and the column chunk has none before it.
    NoDictionary,
    /// A dictionary page is not the first page.
    LateDictionary,
    /// A page does not decompress.
    Compressed {
        /// Name of the codec.
        codec: &'static str,
        /// The message of the codec.
        reason: String,
    },
    /// The device found a violation in the decompressed bytes of a page.
    Value {
        /// The violation.
        failure: ParquetFailure,
        /// The violating number.
        number: u64,
        /// Its limit.
        limit: u64,
    },
    /// A string is not UTF-8.
    NotUtf8 {
        /// Its row in the decoded rows; its number in the dictionary if the column has one.
        string: u64,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HeaderEnds => f.write_str("page header ends early"),
            Self::FieldType { number } => write!(f, "page header has an invalid type of field: {number}"),
            Self::Depth { limit } => write!(f, "fields of a page header are nested more than {limit} deep"),
            Self::Missing { field } => write!(f, "page header has no {field}"),
            Self::OutOfRange {
                name,
                number,
                least,
                greatest,
            } => write!(f, "{name}: {number}, allowed are {least} to {greatest}"),
            Self::Differs {
                name,
                number,
                expected,
            } => write!(f, "{name}: {number}, expected {expected}"),
            Self::NoDictionary => f.write_str("page needs a dictionary, but there is none before it"),
            Self::LateDictionary => f.write_str("dictionary page is not the first page"),
            Self::Compressed { codec, reason } => write!(f, "page does not decompress by {codec}: {reason}"),
            Self::Value {
                failure,
                number,
                limit,
            } => write!(f, "{failure}: {number}, limit {limit}"),
            Self::NotUtf8 { string } => write!(f, "string {string} is not valid UTF-8"),
        }
    }
}

/// The reason why a column is not decoded on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unsupported {
    /// The column is nested or repeated.
    Nested,
    /// The type has no plain device form.
    Type,
    /// Neither the device nor this crate has the codec.
    Codec,
    /// An encoding that the format does not allow for the type, or that is deprecated.
    Encoding(i32),
    /// The column chunk is encrypted.
    Encrypted,
    /// More rows and dictionary values together than 32-bit numbers count.
    Rows,
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nested => f.write_str("it is nested"),
            Self::Type => f.write_str("its type has no device form"),
            Self::Codec => f.write_str("its codec is not supported"),
            Self::Encoding(number) => write!(f, "encoding {number} is not supported for its type"),
            Self::Encrypted => f.write_str("it is encrypted"),
            Self::Rows => f.write_str("it has too many rows"),
        }
    }
}
