//! The codecs of pages: those of the device, and those of the host.

use std::io::Read;

use galatea_kernels::ParquetCodec;
use parquet::basic::Compression;

/// Bytes of memory that are reserved for each compressed byte before decompression, up to the expected size.
const LIKELY_RATIO: usize = 16;

/// The side that decompresses the pages of a column chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Route {
    /// Kernels decompress the pages, or they are not compressed.
    Device(ParquetCodec),
    /// The cores decompress them before they travel.
    Host(HostCodec),
}

/// A codec of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HostCodec {
    Gzip,
    Brotli,
    Zstd,
}

/// Whether the device decompresses the pages of a codec, or they are not compressed.
#[must_use]
pub fn decompresses_on_device(compression: Compression) -> bool {
    matches!(Route::of(compression), Some(Route::Device(_)))
}

impl Route {
    /// The route of a codec. LZO and LZ4 in Hadoop's frames are deprecated, and have none.
    pub(crate) fn of(compression: Compression) -> Option<Self> {
        match compression {
            Compression::UNCOMPRESSED => Some(Self::Device(ParquetCodec::Uncompressed)),
            Compression::SNAPPY => Some(Self::Device(ParquetCodec::Snappy)),
            Compression::LZ4_RAW => Some(Self::Device(ParquetCodec::Lz4)),
            Compression::GZIP(_) => Some(Self::Host(HostCodec::Gzip)),
            Compression::BROTLI(_) => Some(Self::Host(HostCodec::Brotli)),
            Compression::ZSTD(_) => Some(Self::Host(HostCodec::Zstd)),
            Compression::LZO | Compression::LZ4 => None,
        }
    }

    /// Maximum decompressed size of `stored` bytes. The codecs of the host have no useful limit.
    pub(crate) fn most_bytes(self, stored: u64) -> Option<u64> {
        match self {
            Self::Device(ParquetCodec::Uncompressed) => Some(stored),
            // A copy of 64 bytes takes 3 bytes at least.
            Self::Device(ParquetCodec::Snappy) => Some(stored * 22),
            // Each byte extends a copy by 255 bytes at most.
            Self::Device(ParquetCodec::Lz4) => Some(stored * 255),
            Self::Host(_) => None,
        }
    }
}

impl HostCodec {
    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Brotli => "Brotli",
            Self::Zstd => "Zstandard",
        }
    }

    /// Appends decompressed bytes to `plain`, up to one byte more than `expected`. Memory grows
    /// with the number of compressed bytes and the actual output, so a false `expected` reserves little.
    ///
    /// # Errors
    /// The codec's message.
    pub(crate) fn decompress(self, stored: &[u8], expected: u32, plain: &mut Vec<u8>) -> Result<(), String> {
        let limit = u64::from(expected) + 1;
        plain.reserve((limit as usize).min(stored.len().saturating_mul(LIKELY_RATIO)));
        let read = match self {
            Self::Gzip => flate2::read::MultiGzDecoder::new(stored)
                .take(limit)
                .read_to_end(plain),
            Self::Brotli => brotli::Decompressor::new(stored, 4096)
                .take(limit)
                .read_to_end(plain),
            Self::Zstd => zstd::stream::read::Decoder::new(stored)
                .and_then(|decoder| decoder.take(limit).read_to_end(plain)),
        };
        read.map(|_| ()).map_err(|error| error.to_string())
    }
}
