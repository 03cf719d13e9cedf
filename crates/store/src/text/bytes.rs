//! The bytes of a file, or of a range of it that begins and ends at a line boundary.

use std::io::Read;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::common::exec_datafusion_err;
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::error::{DataFusionError, Result};
use datafusion_datasource::PartitionedFile;
use datafusion_datasource::boundary_stream::AlignedBoundaryStream;
use futures::stream::{BoxStream, StreamExt, TryStreamExt};
use object_store::{GetOptions, GetResultPayload, ObjectMeta, ObjectStore};

/// Bytes read at once from a local file.
const PIECE: usize = 128 << 10;

/// Bytes of a file, decompressed, in the order of the file.
pub(super) type Pieces = BoxStream<'static, Result<Bytes>>;

/// The bytes of a file, or of its range: from the first line that begins in it to the end of the last such
/// line.
pub(super) async fn pieces(
    store: &Arc<dyn ObjectStore>,
    file: &PartitionedFile,
    compression: FileCompressionType,
    terminator: u8,
) -> Result<Pieces> {
    let location = &file.object_meta.location;
    if let Some(range) = &file.range {
        let offset = |at: i64| {
            u64::try_from(at).map_err(|_| exec_datafusion_err!("a range of {location} begins at {at}"))
        };
        let aligned = AlignedBoundaryStream::new(
            Arc::clone(store),
            location.clone(),
            offset(range.start)?,
            offset(range.end)?,
            file.object_meta.size,
            terminator,
        );
        return Ok(aligned.await?.map_err(DataFusionError::from).boxed());
    }
    let found = store.get_opts(location, GetOptions::default()).await?;
    match found.payload {
        GetResultPayload::File(file, _) => Ok(read(compression.convert_read(file)?)),
        GetResultPayload::Stream(bytes) => {
            compression.convert_stream(bytes.map_err(DataFusionError::from).boxed())
        }
    }
}

/// The bytes of a reader.
fn read(mut reader: impl Read + Send + 'static) -> Pieces {
    let mut done = false;
    let next = move || {
        if done {
            return None;
        }
        let mut piece = Vec::with_capacity(PIECE);
        match reader.by_ref().take(PIECE as u64).read_to_end(&mut piece) {
            Ok(0) => None,
            Ok(_) => Some(Ok(Bytes::from(piece))),
            Err(error) => {
                done = true;
                Some(Err(DataFusionError::from(error)))
            }
        }
    };
    futures::stream::iter(std::iter::from_fn(next)).boxed()
}

/// The first bytes of a file, decompressed: all of them (`true`), or about this number.
///
/// # Errors
/// The file cannot be read.
pub async fn file_head(
    store: &Arc<dyn ObjectStore>,
    object: &ObjectMeta,
    compression: FileCompressionType,
    most: usize,
) -> Result<(Vec<u8>, bool)> {
    let file = PartitionedFile::from(object.clone());
    let mut pieces = pieces(store, &file, compression, b'\n').await?;
    let mut head = Vec::new();
    while let Some(piece) = pieces.next().await.transpose()? {
        head.extend_from_slice(&piece);
        if head.len() >= most {
            return Ok((head, false));
        }
    }
    Ok((head, true))
}

/// Reads until `enough` returns a result for the bytes so far, or for all of them (`true`). Returns the
/// result, and a stream of all bytes from the first on.
pub(super) async fn peek<T>(
    mut pieces: Pieces,
    enough: impl Fn(&[u8], bool) -> Option<T>,
) -> Result<(Option<T>, Pieces)> {
    let mut seen: Vec<u8> = Vec::new();
    loop {
        let piece = pieces.next().await.transpose()?;
        let whole = piece.is_none();
        seen.extend_from_slice(&piece.unwrap_or_default());
        let found = enough(&seen, whole);
        if whole || found.is_some() {
            let again = futures::stream::iter([Ok(Bytes::from(seen))]);
            return Ok((found, again.chain(pieces).boxed()));
        }
    }
}
