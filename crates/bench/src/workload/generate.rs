//! Generated tables, written as Parquet or CSV on all cores.
//!
//! A table is a number of *chunks*. They are generated independently, and each is written as one row group.
//! Workers take chunks in order, generate and encode them, and pass the compressed row groups to a single
//! thread, which appends them to the file in order. The file does not depend on the number of workers, and
//! only a few row groups per worker are in memory.
//!
//! ```text
//! workers  ── chunk 0 ── chunk 3 ──►┐
//!          ── chunk 1 ── chunk 4 ──►├─ in order ─► .lineitem.parquet.<pid> ─ rename ─► lineitem.parquet ─► manifest.json
//!          ── chunk 2 ── chunk 5 ──►┘
//! ```
//!
//! A file gets its name only when it is complete, and is listed in the [manifest](super::manifest) after
//! that. If a run stops for any reason, the next one continues with the first missing table.

use std::fs;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

pub use super::format::{Compression, Format};
use super::manifest::{DataFile, Manifest};
use super::{Workload, write};
use crate::{BenchError, Result};

/// Approximate number of rows of a chunk, which is one row group.
pub const ROWS_PER_CHUNK: u64 = 1 << 20;

/// Tables with fewer rows are always one file.
const ROWS_WORTH_PARTS: u64 = 10_000;

/// A table that can be generated.
pub trait TableGenerator: Send + Sync {
    /// The table's name.
    fn name(&self) -> &'static str;

    /// The columns.
    fn schema(&self) -> SchemaRef;

    /// The number of rows; an estimate, for progress only, if the exact number is known only after
    /// generating.
    fn expected_rows(&self) -> u64;

    /// The natural number of chunks of the table.
    fn natural_chunks(&self) -> usize;

    /// Chunk `index` of `chunks`. The concatenated rows of all chunks do not depend on their number.
    fn chunk(&self, index: usize, chunks: usize) -> Box<dyn Iterator<Item = RecordBatch> + Send>;
}

/// The rows of chunk `index` of `chunks` of a table, in ranges of at most `batch` rows.
pub(super) fn row_ranges(
    rows: u64,
    (index, chunks): (usize, usize),
    batch: u64,
) -> impl Iterator<Item = Range<u64>> + Send {
    let at = |chunk: usize| (u128::from(rows) * chunk as u128 / chunks as u128) as u64;
    let (start, end) = (at(index), at(index + 1));
    (start..end)
        .step_by(batch as usize)
        .map(move |row| row..end.min(row + batch))
}

/// The data to generate, and the output directory.
#[derive(Debug, Clone)]
pub struct GenerateOptions {
    /// The workload.
    pub workload: Workload,
    /// Its scale factor.
    pub scale: f64,
    /// The directory, created if it does not exist.
    pub out: PathBuf,
    /// The tables; all if empty.
    pub tables: Vec<String>,
    /// Number of files per table: 1 writes `lineitem.parquet`, more write `lineitem/0000.parquet` and so on.
    pub parts: usize,
    /// The format of the files.
    pub format: Format,
    /// Number of threads; 0 is one per core.
    pub threads: usize,
    /// Replaces data of other parameters instead of refusing.
    pub force: bool,
}

impl GenerateOptions {
    /// All tables of `workload` at `scale` into `out`, with defaults for the rest.
    pub fn new(workload: Workload, scale: f64, out: impl Into<PathBuf>) -> Self {
        Self {
            workload,
            scale,
            out: out.into(),
            tables: Vec::new(),
            parts: 1,
            format: Format::default(),
            threads: 0,
            force: false,
        }
    }
}

/// Progress of a generator. Called from several threads.
pub trait Progress: Sync {
    /// A table begins. `rows` is an estimate.
    fn started(&self, table: &str, rows: u64);
    /// `rows` more rows are generated.
    fn advanced(&self, table: &str, rows: u64);
    /// A table is complete, or already was (`skipped`).
    fn finished(&self, table: &str, rows: u64, bytes: u64, skipped: bool);
}

/// Ignores progress.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoProgress;

impl Progress for NoProgress {
    fn started(&self, _: &str, _: u64) {}
    fn advanced(&self, _: &str, _: u64) {}
    fn finished(&self, _: &str, _: u64, _: u64, _: bool) {}
}

/// Writes the missing tables and returns the manifest of all.
///
/// `cancel` is checked after every batch. A cancelled run leaves no half-written file.
///
/// # Errors
/// An unknown table, a scale out of bounds, data of other parameters in the directory, a full or unwritable
/// disk.
pub fn generate(options: &GenerateOptions, progress: &dyn Progress, cancel: &AtomicBool) -> Result<Manifest> {
    let GenerateOptions {
        workload, scale, out, ..
    } = options;
    let tables = selected(options)?;
    fs::create_dir_all(out).map_err(BenchError::io("create", out))?;
    let asked = Manifest::new(
        &workload.to_string(),
        *scale,
        workload.generator(),
        options.format.name(),
        options.parts.max(1),
    );
    let mut manifest = match Manifest::read(out)? {
        Some(found) if found.describe() == asked.describe() => found,
        Some(found) if !options.force => {
            return Err(BenchError::OtherData {
                path: out.clone(),
                found: found.describe(),
                asked: asked.describe(),
            });
        }
        _ => asked,
    };
    let threads = match options.threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    };
    for table in &tables {
        let name = table.name();
        if manifest.is_complete(out, name) {
            let files = &manifest.tables[name];
            let (rows, bytes) = files
                .iter()
                .fold((0, 0), |(r, b), file| (r + file.rows, b + file.bytes));
            progress.finished(name, rows, bytes, true);
            continue;
        }
        progress.started(name, table.expected_rows());
        let files = write_table(options, table.as_ref(), threads, progress, cancel)?;
        let (rows, bytes) = files
            .iter()
            .fold((0, 0), |(r, b), file| (r + file.rows, b + file.bytes));
        manifest.tables.insert(name.to_string(), files);
        manifest.write(out)?;
        progress.finished(name, rows, bytes, false);
    }
    Ok(manifest)
}

fn selected(options: &GenerateOptions) -> Result<Vec<Box<dyn TableGenerator>>> {
    let known = options.workload.table_names();
    if let Some(unknown) = options.tables.iter().find(|name| !known.contains(&name.as_str())) {
        return Err(BenchError::Unknown {
            kind: "table",
            name: unknown.clone(),
            workload: options.workload.to_string(),
            known: known.join(", "),
        });
    }
    let mut tables = options.workload.tables(options.scale)?;
    if !options.tables.is_empty() {
        tables.retain(|table| options.tables.iter().any(|name| name == table.name()));
    }
    Ok(tables)
}

fn write_table(
    options: &GenerateOptions,
    table: &dyn TableGenerator,
    threads: usize,
    progress: &dyn Progress,
    cancel: &AtomicBool,
) -> Result<Vec<DataFile>> {
    let parts = if table.expected_rows() < ROWS_WORTH_PARTS {
        1
    } else {
        options.parts.max(1)
    };
    // Every part has whole chunks.
    let chunks = table.natural_chunks().div_ceil(parts) * parts;
    let per_part = chunks / parts;
    let name = table.name();
    if parts > 1 {
        let directory = options.out.join(name);
        fs::create_dir_all(&directory).map_err(BenchError::io("create", &directory))?;
    }
    let extension = options.format.extension();
    let mut files = Vec::with_capacity(parts);
    for part in 0..parts {
        let file = if parts > 1 {
            format!("{name}/{part:04}.{extension}")
        } else {
            format!("{name}.{extension}")
        };
        let job = write::Job {
            path: options.out.join(&file),
            schema: table.schema(),
            format: options.format,
            groups: per_part,
            threads,
        };
        let batches = |group: usize| {
            table.chunk(part * per_part + group, chunks).map(|batch| {
                if cancel.load(Ordering::Relaxed) {
                    return Err(BenchError::Cancelled);
                }
                progress.advanced(name, batch.num_rows() as u64);
                Ok(batch)
            })
        };
        let (rows, bytes) = job.write(batches)?;
        files.push(DataFile {
            name: file,
            rows,
            bytes,
        });
    }
    Ok(files)
}
