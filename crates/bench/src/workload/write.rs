//! One Parquet file, its row groups encoded in parallel and appended in order.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::{ArrowColumnChunk, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;

use crate::{BenchError, Result};

/// A file to write.
pub(crate) struct Job {
    pub(crate) path: PathBuf,
    pub(crate) schema: SchemaRef,
    pub(crate) codec: Compression,
    /// Row groups.
    pub(crate) groups: usize,
    pub(crate) threads: usize,
}

/// A row group that is encoded and not yet written.
struct Encoded {
    rows: u64,
    columns: Vec<ArrowColumnChunk>,
}

impl Job {
    /// Writes the row groups that `batches` makes; returns rows and bytes.
    pub(crate) fn write<I>(&self, batches: impl Fn(usize) -> I + Sync) -> Result<(u64, u64)>
    where
        I: Iterator<Item = Result<RecordBatch>>,
    {
        let pending = PendingFile::create(&self.path)?;
        let failed = BenchError::parquet(&self.path);
        let properties = WriterProperties::builder().set_compression(self.codec).build();
        let file = BufWriter::with_capacity(1 << 20, pending.open()?);
        let writer = ArrowWriter::try_new(file, self.schema.clone(), Some(properties)).map_err(&failed)?;
        let (mut writer, factory) = writer.into_serialized_writer().map_err(&failed)?;

        let next = AtomicUsize::new(0);
        let stop = AtomicBool::new(false);
        let workers = self.threads.clamp(1, self.groups.max(1));
        let mut rows = 0;
        std::thread::scope(|scope| {
            // A worker that is ahead waits here, so encoded row groups do not pile up.
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
                        let encoded = self.encode(&factory, group, batches(group));
                        if send.send((group, encoded)).is_err() {
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
                    while let Some(Encoded { rows: added, columns }) = early.remove(&wanted) {
                        let mut row_group = writer.next_row_group().map_err(&failed)?;
                        for column in columns {
                            column.append_to_row_group(&mut row_group).map_err(&failed)?;
                        }
                        row_group.close().map_err(&failed)?;
                        rows += added;
                        wanted += 1;
                    }
                }
                Ok(())
            })();
            stop.store(true, Ordering::Relaxed);
            drop(receive);
            result
        })?;
        writer.close().map_err(&failed)?;
        let bytes = pending.keep()?;
        Ok((rows, bytes))
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

/// A file under another name until it is complete; removed when it never is.
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

    /// Gives the file its name; returns its size.
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
