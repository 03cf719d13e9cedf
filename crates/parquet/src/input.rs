//! The input of a decoder: column chunks, with the work of the host that precedes the work of a lane.

use crate::batch::Batch;
use crate::chunk::ColumnChunk;
use crate::decompress::Route;
use crate::error::{Result, Unsupported};
use crate::shape::ColumnShape;

/// The column chunks of one column, in the order of their rows, ready for a lane.
pub struct Input<'c> {
    pub(crate) shape: &'c ColumnShape,
    pub(crate) chunks: &'c [ColumnChunk<'c>],
    pub(crate) routes: Vec<Route>,
    /// The page headers, and the pages that the host has decompressed. If there are none of these, the
    /// headers are read later, while the bytes are copied.
    pub(crate) read: Option<(Batch<'c>, Vec<Option<Vec<u8>>>)>,
}

impl<'c> Input<'c> {
    /// Decompresses the pages of the host's codecs, on all cores.
    ///
    /// # Errors
    /// [`crate::ParquetError::Damaged`] and [`crate::ParquetError::Unsupported`].
    pub fn new(shape: &'c ColumnShape, chunks: &'c [ColumnChunk<'c>]) -> Result<Self> {
        let route = |chunk: &ColumnChunk<'_>| {
            Route::of(chunk.codec).ok_or_else(|| chunk.unsupported(Unsupported::Codec))
        };
        let routes = chunks.iter().map(route).collect::<Result<Vec<_>>>()?;
        let read = match routes.iter().any(|route| matches!(route, Route::Host(_))) {
            false => None,
            true => {
                let batch = Batch::new(chunks, shape)?;
                let bodies = batch.decompressed()?;
                Some((batch, bodies))
            }
        };
        Ok(Self {
            shape,
            chunks,
            routes,
            read,
        })
    }
}
