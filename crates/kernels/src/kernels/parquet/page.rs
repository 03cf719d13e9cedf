//! Pages as kernels read them; twins of `galatea/parquet/page.cuh` and `form.cuh`.

use bytemuck::{Pod, Zeroable};

/// Bytes behind the last page of a buffer that kernels may read. They never affect values.
pub const PARQUET_PADDING: usize = 16;

/// A data or dictionary page.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
pub struct ParquetPage {
    /// Address of its bytes in the file.
    pub stored: u64,
    /// Address of its decompressed bytes; [`Self::stored`] if the page is not compressed.
    pub body: u64,
    /// First slot of its values; of a data page: its first row.
    pub slot: u64,
    /// First slot of the values of its dictionary.
    pub dictionary: u64,
    /// First byte of its strings in the heap.
    pub heap: u64,
    /// Bytes in the file.
    pub stored_bytes: u32,
    /// Decompressed bytes.
    pub body_bytes: u32,
    /// Rows, NULL or not; values of a dictionary page.
    pub rows: u32,
    /// [`ParquetLevelsKind`].
    pub levels: u32,
    /// Bytes of [`ParquetLevelsKind::Counted`] levels, which are never compressed.
    pub level_bytes: u32,
    /// First word of its validity.
    pub words: u32,
    /// Number of values of its dictionary.
    pub dictionary_values: u32,
    /// [`ParquetEncoding`] of its values.
    pub encoding: u32,
    /// [`ParquetCodec`].
    pub codec: u32,
    /// Unused.
    pub reserved: u32,
}

/// Findings of kernels about a page; all 0 before the first.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
pub struct ParquetPageState {
    /// The violating number.
    pub number: u64,
    /// Its limit.
    pub limit: u64,
    /// Bytes of strings that are not in the body, see [`ParquetEncoding::DeltaByteArray`].
    pub heap_bytes: u64,
    /// Number of values that are not NULL.
    pub values: u32,
    /// First byte of the values in the body.
    pub values_at: u32,
    /// [`ParquetFailure`], 0 if the page is intact.
    pub failure: u32,
    /// Byte of the body at which it was found.
    pub at: u32,
}

macro_rules! numbered {
    ($(#[$meta:meta])* $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $number:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u32)]
        pub enum $name {
            $($(#[$variant_meta])* $variant = $number,)+
        }

        impl $name {
            /// The variant with a number, if there is one.
            #[must_use]
            pub fn of(number: u32) -> Option<Self> {
                match number {
                    $($number => Some(Self::$variant),)+
                    _ => None,
                }
            }
        }
    };
}

numbered! {
    /// Encodings of values, as numbered in Parquet files.
    ParquetEncoding {
        /// Values one after the other; byte arrays after their length in 4 bytes.
        Plain = 0,
        /// Runs of booleans.
        Rle = 3,
        /// Differences of integers, in blocks.
        DeltaBinaryPacked = 5,
        /// Lengths of byte arrays, then their bytes.
        DeltaLengthByteArray = 6,
        /// Lengths of prefixes that byte arrays share with the one before, then the suffixes.
        DeltaByteArray = 7,
        /// Runs of dictionary indices.
        Dictionary = 8,
        /// First bytes of all values, then second bytes, and so on.
        ByteStreamSplit = 9,
    }
}

numbered! {
    /// Location of a page's definition levels.
    ParquetLevelsKind {
        /// The column has none.
        Absent = 0,
        /// Version 1: after their length in 4 bytes.
        Prefixed = 1,
        /// Version 2: the page header has their length.
        Counted = 2,
    }
}

numbered! {
    /// Codecs of pages for the device.
    ParquetCodec {
        /// Not compressed, or decompressed by the host.
        Uncompressed = 0,
        /// Snappy without frames.
        Snappy = 1,
        /// LZ4 blocks without frames.
        Lz4 = 2,
    }
}

numbered! {
    /// Source and target of a conversion of values.
    ParquetForm {
        /// INT32 to `i64`.
        Signed32 = 0,
        /// INT32 to `u64`.
        Unsigned32 = 1,
        /// INT64 to `i64` or `u64`.
        Integer64 = 2,
        /// FLOAT to `f32`.
        Float = 3,
        /// DOUBLE to `f64`.
        Double = 4,
        /// FIXED_LEN_BYTE_ARRAY(2) to `f32`.
        Half = 5,
        /// At most 8 bytes, big-endian, to `i64`.
        BigEndian64 = 6,
        /// At most 16 bytes, big-endian, to `i128`.
        BigEndian128 = 7,
        /// INT96 to `i64` since 1970, in a unit.
        Int96 = 8,
        /// A bit to a byte.
        Boolean = 9,
    }
}

impl ParquetForm {
    /// Bytes of a converted value.
    #[must_use]
    pub const fn width(self) -> usize {
        match self {
            Self::Boolean => 1,
            Self::Float | Self::Half => 4,
            Self::Signed32
            | Self::Unsigned32
            | Self::Integer64
            | Self::Double
            | Self::BigEndian64
            | Self::Int96 => 8,
            Self::BigEndian128 => 16,
        }
    }
}

numbered! {
    /// Violations of the format in a page.
    ParquetFailure {
        /// Bytes of levels that the page does not have.
        LevelBytes = 1,
        /// Levels end after `number` of `limit` rows.
        LevelsEnd = 2,
        /// A level beyond 1.
        Level = 3,
        /// Values need `number` bytes of `limit`.
        ValuesEnd = 4,
        /// A dictionary index that is not below the number of dictionary values.
        Index = 5,
        /// More than 32 bits of an index.
        IndexWidth = 6,
        /// Runs end after `number` of `limit` values.
        RunsEnd = 7,
        /// Blocks of `number` deltas in `limit` parts, which the format excludes.
        DeltaHeader = 8,
        /// The encoding declares `number` values, the page has `limit`.
        DeltaCount = 9,
        /// Deltas end after `number` of `limit` values.
        DeltaEnd = 10,
        /// More than 64 bits of a delta.
        DeltaWidth = 11,
        /// A string needs `number` bytes of `limit`.
        StringLength = 12,
        /// A shared prefix is longer than the string before.
        PrefixLength = 13,
        /// `number` decompressed bytes, `limit` by the page header.
        Size = 14,
        /// Compressed bytes end after `number` of `limit` decompressed bytes.
        CompressedEnd = 15,
        /// Compressed bytes refer to `number` bytes before, of `limit`.
        CopyDistance = 16,
        /// A value of `number` bytes for a type of `limit` bytes.
        ValueLength = 17,
        /// A run of a boolean beyond 1.
        BooleanRun = 18,
    }
}

impl std::fmt::Display for ParquetFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::LevelBytes => "bytes of definition levels exceed the page",
            Self::LevelsEnd => "definition levels end early",
            Self::Level => "definition level exceeds the maximum",
            Self::ValuesEnd => "bytes of values exceed the page",
            Self::Index => "dictionary index is not below the number of dictionary values",
            Self::IndexWidth => "bits of a dictionary index exceed the maximum",
            Self::RunsEnd => "encoded runs end early",
            Self::DeltaHeader => "invalid block size of deltas",
            Self::DeltaCount => "number of delta-encoded values differs from the page's",
            Self::DeltaEnd => "deltas end early",
            Self::DeltaWidth => "bits of a delta exceed the maximum",
            Self::StringLength => "string is longer than the rest of the page",
            Self::PrefixLength => "prefix is longer than the preceding string",
            Self::Size => "decompressed size differs from the page header's",
            Self::CompressedEnd => "compressed bytes end early",
            Self::CopyDistance => "compressed bytes refer to bytes before the page",
            Self::ValueLength => "length of a value does not fit the type",
            Self::BooleanRun => "boolean of a run exceeds the maximum",
        })
    }
}
