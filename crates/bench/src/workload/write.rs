//! Writes one file, Parquet or CSV: threads encode its row groups in parallel, and they are appended in
//! order.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;

use arrow::array::RecordBatch;
use arrow::csv::WriterBuilder;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::{ArrowColumnChunk, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::file::properties::WriterProperties;

use super::format::{Compression, Format};
use crate::{BenchError, Result};

/// A file to write.
pub(crate) struct Job {
    pub(crate) path: PathBuf,
    pub(crate) schema: SchemaRef,
    pub(crate) format: Format,
    /// Number of row groups; in a CSV file, of the chunks of rows that threads encode.
    pub(crate) groups: usize,
    pub(crate) threads: usize,
}

/// A row group that is encoded and not yet written.
struct Encoded {
    rows: u64,
    columns: Vec<ArrowColumnChunk>,
}

impl Job {
    /// Writes the row groups of `batches`. Returns the numbers of rows and bytes.
    pub(crate) fn write<I>(&self, batches: impl Fn(usize) -> I + Sync) -> Result<(u64, u64)>
    where
        I: Iterator<Item = Result<RecordBatch>>,
    {
        let pending = PendingFile::create(&self.path)?;
        let file = BufWriter::with_capacity(1 << 20, pending.open()?);
        let rows = match self.format {
            Format::Parquet(codec) => self.write_parquet(file, codec, batches)?,
            Format::Csv => self.write_csv(file, batches)?,
        };
        Ok((rows, pending.keep()?))
    }

    fn write_parquet<I>(
        &self,
        file: BufWriter<File>,
        codec: Compression,
        batches: impl Fn(usize) -> I + Sync,
    ) -> Result<u64>
    where
        I: Iterator<Item = Result<RecordBatch>>,
    {
        let failed = BenchError::parquet(&self.path);
        let properties = WriterProperties::builder().set_compression(codec.codec()).build();
        let writer = ArrowWriter::try_new(file, self.schema.clone(), Some(properties)).map_err(&failed)?;
        let (mut writer, factory) = writer.into_serialized_writer().map_err(&failed)?;
        let mut rows = 0;
        self.in_order(
            |group| self.encode(&factory, group, batches(group)),
            |encoded| {
                let mut row_group = writer.next_row_group().map_err(&failed)?;
                for column in encoded.columns {
                    column.append_to_row_group(&mut row_group).map_err(&failed)?;
                }
                row_group.close().map_err(&failed)?;
                rows += encoded.rows;
                Ok(())
            },
        )?;
        writer.close().map_err(&failed)?;
        Ok(rows)
    }

    /// Writes lines of values after a line of column names. NULL is an empty value.
    fn write_csv<I>(&self, mut file: BufWriter<File>, batches: impl Fn(usize) -> I + Sync) -> Result<u64>
    where
        I: Iterator<Item = Result<RecordBatch>>,
    {
        let failed = |cause| BenchError::io("write", &self.path)(cause);
        let arrow_failed = |cause: ArrowError| failed(std::io::Error::other(cause));
        let encode = |group: usize| {
            let mut text = Vec::new();
            let mut writer = WriterBuilder::new().with_header(group == 0).build(&mut text);
            let mut rows = 0;
            if group == 0 {
                // Writes the column names of a table without rows, too.
                writer
                    .write(&RecordBatch::new_empty(self.schema.clone()))
                    .map_err(arrow_failed)?;
            }
            for batch in batches(group) {
                let batch = batch?;
                rows += batch.num_rows() as u64;
                writer.write(&batch).map_err(arrow_failed)?;
            }
            drop(writer);
            Ok((rows, text))
        };
        let mut rows = 0;
        self.in_order(encode, |(added, text)| {
            file.write_all(&text).map_err(failed)?;
            rows += added;
            Ok(())
        })?;
        file.flush().map_err(failed)?;
        Ok(rows)
    }

    /// Encodes all groups on the job's threads, and appends each after the preceding ones.
    fn in_order<E: Send>(
        &self,
        encode: impl Fn(usize) -> Result<E> + Sync,
        mut append: impl FnMut(E) -> Result<()>,
    ) -> Result<()> {
        let next = AtomicUsize::new(0);
        let stop = AtomicBool::new(false);
        let workers = self.threads.clamp(1, self.groups.max(1));
        std::thread::scope(|scope| {
            // A worker that is ahead waits here, so that encoded row groups do not accumulate.
            let (send, receive) = mpsc::sync_channel(workers);
            for _ in 0..workers {
                let send = send.clone();
                scope.spawn(|| {
                    let send = send;
                    loop {
                        let group = next.fetch_add(1, Ordering::Relaxed);
                        if group >= self.groups || stop.load(Ordering::Relaxed) {
                            return;
                        }
                        if send.send((group, encode(group))).is_err() {
                            return;
                        }
                    }
                });
            }
            drop(send);
            let result: Result<()> = (|| {
                let mut early = BTreeMap::new();
                let mut wanted = 0;
                for (group, encoded) in &receive {
                    early.insert(group, encoded?);
                    while let Some(encoded) = early.remove(&wanted) {
                        append(encoded)?;
                        wanted += 1;
                    }
                }
                Ok(())
            })();
            stop.store(true, Ordering::Relaxed);
            drop(receive);
            result
        })
    }

    fn encode(
        &self,
        factory: &ArrowRowGroupWriterFactory,
        group: usize,
        batches: impl Iterator<Item = Result<RecordBatch>>,
    ) -> Result<Encoded> {
        let failed = BenchError::parquet(&self.path);
        let mut writers = factory.create_column_writers(group).map_err(&failed)?;
        let mut rows = 0;
        for batch in batches {
            let batch = batch?;
            rows += batch.num_rows() as u64;
            let mut leaves = writers.iter_mut();
            for (field, column) in self.schema.fields().iter().zip(batch.columns()) {
                for leaf in compute_leaves(field, column).map_err(&failed)? {
                    let writer = leaves.next().expect("one writer per leaf of the schema");
                    writer.write(&leaf).map_err(&failed)?;
                }
            }
        }
        let columns = writers
            .into_iter()
            .map(|writer| writer.close().map_err(&failed))
            .collect::<Result<_>>()?;
        Ok(Encoded { rows, columns })
    }
}

/// A file under a temporary name until it is complete. It is removed if it is never completed.
struct PendingFile {
    path: PathBuf,
    temporary: PathBuf,
    kept: bool,
}

impl PendingFile {
    fn create(path: &Path) -> Result<Self> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let temporary = path.with_file_name(format!(".{name}.{}", std::process::id()));
        Ok(Self {
            path: path.to_path_buf(),
            temporary,
            kept: false,
        })
    }

    fn open(&self) -> Result<File> {
        File::create(&self.temporary).map_err(BenchError::io("create", &self.temporary))
    }

    /// Renames the file to its final name. Returns its size.
    fn keep(mut self) -> Result<u64> {
        fs::rename(&self.temporary, &self.path).map_err(BenchError::io("write", &self.path))?;
        self.kept = true;
        let metadata = fs::metadata(&self.path).map_err(BenchError::io("read", &self.path))?;
        Ok(metadata.len())
    }
}

impl Drop for PendingFile {
    fn drop(&mut self) {
        if !self.kept {
            // Best effort: the error that ended the run is the one to report.
            let _ = fs::remove_file(&self.temporary);
        }
    }
}
