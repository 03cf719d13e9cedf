//! The file formats of a workload.

use parquet::basic::{Compression as Codec, ZstdLevel};

/// The compression of pages. All are fast, because decompression must not bound reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
    /// The default: every reader supports it.
    #[default]
    Snappy,
    /// Smaller, a little slower to read.
    Zstd,
    /// The fastest to read.
    Lz4Raw,
    /// No compression.
    None,
}

impl Compression {
    /// All, by name.
    pub const NAMES: [(&'static str, Self); 4] = [
        ("snappy", Self::Snappy),
        ("zstd", Self::Zstd),
        ("lz4_raw", Self::Lz4Raw),
        ("none", Self::None),
    ];

    /// Its name on the command line and in the manifest.
    pub fn name(self) -> &'static str {
        Self::NAMES
            .iter()
            .find(|(_, codec)| *codec == self)
            .map_or("none", |(name, _)| *name)
    }

    /// The codec of the Parquet writer.
    #[must_use]
    pub fn codec(self) -> Codec {
        match self {
            Self::Snappy => Codec::SNAPPY,
            Self::Zstd => Codec::ZSTD(ZstdLevel::try_new(1).expect("level 1 exists")),
            Self::Lz4Raw => Codec::LZ4_RAW,
            Self::None => Codec::UNCOMPRESSED,
        }
    }
}

/// The format of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Parquet with compressed pages.
    Parquet(Compression),
    /// Comma-separated values, with the names of the columns in the first line.
    Csv,
}

impl Default for Format {
    fn default() -> Self {
        Self::Parquet(Compression::default())
    }
}

impl Format {
    /// The name of the codec, or of the format if it has none, for the manifest.
    pub fn name(self) -> &'static str {
        match self {
            Self::Parquet(compression) => compression.name(),
            Self::Csv => "csv",
        }
    }

    pub(super) fn extension(self) -> &'static str {
        match self {
            Self::Parquet(_) => "parquet",
            Self::Csv => "csv",
        }
    }
}
