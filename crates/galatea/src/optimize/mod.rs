//! Rewrites Parquet files for fast loads.
//!
//! ```text
//! sample       the first rows, each column in each encoding of its type: the smallest is taken     encodings
//! row groups   2^20 rows, as many as a chunk of the store, in 128 pages
//! pages        compressed by a codec that a GPU decompresses; with page statistics and an offset index
//! rows         in the order of the file, or sorted, so that statistics prune row groups and pages  sorted
//! ```
//!
//! The target has the source's schema, rows and footer entries. It is written under a temporary name, and
//! takes its own when it is complete.

mod error;
mod sorted;
mod source;
mod write;

use std::path::Path;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::parquet::arrow::arrow_writer::ArrowColumnChunk;
use datafusion::parquet::basic::Compression;
use datafusion::parquet::file::metadata::ParquetMetaData;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, Stream, StreamExt, TryStreamExt, stream};

pub use self::error::OptimizeError;
use self::source::Source;
use self::write::{Encoder, Target, encode_error};
pub use crate::encodings::ColumnEncoding;
use crate::encodings::{self, COMPRESSION, GROUP_ROWS};

/// The most threads that encode at once. Each holds a row group.
const MAX_THREADS: usize = 16;

/// Options of [`optimize`].
#[derive(Debug, Clone)]
pub struct OptimizeOptions {
    /// Columns to sort by, ascending with NULLs last. Without any, the rows keep their order.
    pub sort_by: Vec<String>,
    /// Compression of pages. A GPU decompresses Snappy and LZ4.
    pub compression: Compression,
    /// Replaces a target that exists; the source itself, too.
    pub replace: bool,
}

impl Default for OptimizeOptions {
    fn default() -> Self {
        Self {
            sort_by: Vec::new(),
            compression: COMPRESSION,
            replace: false,
        }
    }
}

/// A file that was rewritten.
#[derive(Debug, Clone)]
pub struct Optimized {
    /// Rows of both files.
    pub rows: u64,
    /// The columns of the schema, in order.
    pub columns: Vec<OptimizedColumn>,
}

/// A column that was rewritten.
#[derive(Debug, Clone)]
pub struct OptimizedColumn {
    /// Its name.
    pub name: String,
    /// Its encoding; `None` for booleans and other types without a choice, and for nested types.
    pub encoding: Option<ColumnEncoding>,
    /// Compressed bytes of its pages in the source.
    pub bytes_before: u64,
    /// Compressed bytes of its pages in the target.
    pub bytes_after: u64,
}

/// Rewrites a Parquet file for fast loads. Every reader of Parquet reads the target. A sort uses the memory
/// and the temporary files of `runtime`.
///
/// # Errors
/// [`OptimizeError`]. The source is then unchanged, and the target does not exist, or is unchanged.
pub async fn optimize(
    source: &Path,
    target: &Path,
    options: &OptimizeOptions,
    runtime: &Arc<RuntimeEnv>,
) -> Result<Optimized, OptimizeError> {
    if !options.replace && target.exists() {
        return Err(OptimizeError::Exists {
            path: target.to_owned(),
        });
    }
    let source = blocking({
        let source = source.to_owned();
        move || Source::open(&source)
    })
    .await?;
    check_columns(&source, &options.sort_by)?;
    let threads = std::thread::available_parallelism()
        .map_or(1, usize::from)
        .min(MAX_THREADS);
    let encodings = choose_encodings(&source, options.compression, threads, target).await?;
    let builder = encodings::builder(options.compression).set_key_value_metadata(source.entries());
    let properties = encodings::apply(&encodings, source.schema(), builder).build();
    let mut target = Target::create(target, source.schema(), properties)?;
    let groups = match options.sort_by.as_slice() {
        [] => groups_of(&source, target.encoder()),
        columns => sorted_groups_of(&source, columns, threads, runtime, target.encoder()).await?,
    };
    let mut encoded = groups.buffered(threads);
    while let Some(group) = encoded.try_next().await? {
        target.append(group)?;
    }
    drop(encoded);
    let path = source.path();
    let rows = source.rows() as u64;
    let footer = blocking(move || target.keep(&path, rows)).await?;
    Ok(outcome(&source, &footer, encodings))
}

/// A row group that is being encoded.
type EncodedGroup = BoxFuture<'static, Result<Vec<ArrowColumnChunk>, OptimizeError>>;

fn check_columns(source: &Source, columns: &[String]) -> Result<(), OptimizeError> {
    let schema = source.schema();
    match columns.iter().find(|name| schema.index_of(name).is_err()) {
        None => Ok(()),
        Some(name) => Err(OptimizeError::Column {
            path: source.path(),
            column: name.clone(),
            columns: schema.fields().iter().map(|field| field.name().clone()).collect(),
        }),
    }
}

/// The encodings that are smallest for the first rows, by column.
async fn choose_encodings(
    source: &Source,
    compression: Compression,
    threads: usize,
    target: &Path,
) -> Result<Vec<Option<ColumnEncoding>>, OptimizeError> {
    let sample = blocking({
        let source = source.clone();
        move || {
            source
                .read(0..GROUP_ROWS.min(source.rows()))?
                .collect::<Result<Vec<_>, _>>()
        }
    })
    .await?;
    let columns = source.schema().fields().iter().enumerate().map(|(index, field)| {
        let values: Vec<_> = sample
            .iter()
            .map(|batch: &RecordBatch| Arc::clone(batch.column(index)))
            .collect();
        let (field, target) = (Arc::clone(field), target.to_owned());
        let choose = move || encodings::choose(&values, &field, compression);
        blocking(move || choose().map_err(|cause| encode_error(&target, cause)))
    });
    stream::iter(columns).buffered(threads).try_collect().await
}

/// Row groups with the rows of a source in their order. Threads read their rows themselves.
fn groups_of(source: &Source, encoder: Encoder) -> BoxStream<'static, EncodedGroup> {
    let (source, rows) = (source.clone(), source.rows());
    let encode = move |begin: usize| {
        let (source, encoder) = (source.clone(), encoder.clone());
        let work = move || encoder.encode(source.read(begin..rows.min(begin + GROUP_ROWS))?);
        blocking(work).boxed()
    };
    stream::iter((0..rows).step_by(GROUP_ROWS).map(encode)).boxed()
}

/// Row groups with the rows of a source sorted by columns.
async fn sorted_groups_of(
    source: &Source,
    columns: &[String],
    threads: usize,
    runtime: &Arc<RuntimeEnv>,
    encoder: Encoder,
) -> Result<BoxStream<'static, EncodedGroup>, OptimizeError> {
    let path = source.path();
    let failed = move |cause| OptimizeError::Sort {
        path: path.clone(),
        cause,
    };
    let rows = sorted::sorted(source, columns, threads, runtime)
        .await
        .map_err(&failed)?;
    let encode = move |group: Result<Vec<RecordBatch>, OptimizeError>| {
        let encoder = encoder.clone();
        blocking(move || encoder.encode(group?.into_iter().map(Ok))).boxed()
    };
    Ok(in_groups(rows)
        .map(move |group| encode(group.map_err(&failed)))
        .boxed())
}

/// Divides rows into groups of [`GROUP_ROWS`].
fn in_groups(
    rows: SendableRecordBatchStream,
) -> impl Stream<Item = datafusion::error::Result<Vec<RecordBatch>>> {
    stream::try_unfold(
        (rows, None),
        |(mut rows, mut rest): (_, Option<RecordBatch>)| async move {
            let (mut group, mut missing) = (Vec::new(), GROUP_ROWS);
            while missing > 0 {
                let batch = match rest.take() {
                    Some(rest) => rest,
                    None => match rows.try_next().await? {
                        Some(batch) => batch,
                        None => break,
                    },
                };
                let taken = batch.num_rows().min(missing);
                if taken < batch.num_rows() {
                    rest = Some(batch.slice(taken, batch.num_rows() - taken));
                }
                missing -= taken;
                group.push(batch.slice(0, taken));
            }
            Ok((!group.is_empty()).then_some((group, (rows, rest))))
        },
    )
}

fn outcome(source: &Source, footer: &ParquetMetaData, encodings: Vec<Option<ColumnEncoding>>) -> Optimized {
    let (before, after) = (bytes_by_column(source.metadata()), bytes_by_column(footer));
    let sizes = before.into_iter().zip(after);
    let columns = source.schema().fields().iter().zip(encodings).zip(sizes);
    let columns: Vec<_> = columns
        .map(
            |((field, encoding), (bytes_before, bytes_after))| OptimizedColumn {
                name: field.name().clone(),
                encoding,
                bytes_before,
                bytes_after,
            },
        )
        .collect();
    Optimized {
        rows: source.rows() as u64,
        columns,
    }
}

/// Compressed bytes of the leaves of each column of the schema.
fn bytes_by_column(footer: &ParquetMetaData) -> Vec<u64> {
    let schema = footer.file_metadata().schema_descr();
    let mut bytes = vec![0; schema.root_schema().get_fields().len()];
    for group in footer.row_groups() {
        for (leaf, column) in group.columns().iter().enumerate() {
            bytes[schema.get_column_root_idx(leaf)] += column.compressed_size().unsigned_abs();
        }
    }
    bytes
}

/// Runs work that blocks its thread.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, OptimizeError> + Send + 'static,
) -> Result<T, OptimizeError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
