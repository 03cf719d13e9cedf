//! The files of tables: Parquet as `galatea optimize` writes it, in folders of one database.

use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use datafusion::parquet::errors::ParquetError;

use super::catalog_file::{FileEntry, sync_folder};
use super::error::{DatabaseError, Result};
use crate::encodings::writer_properties;

/// The folder of the files in the folder of the database.
pub(super) const FOLDER: &str = "data";
/// The extension of the files.
pub(super) const EXTENSION: &str = ".parquet";
/// Rows that determine the encodings of a file.
const SAMPLE: usize = 64 << 10;
/// Bytes that are written at once.
const BUFFER: usize = 1 << 20;

/// The path of a file.
pub(super) fn path(folder: &Path, number: u64) -> PathBuf {
    folder.join(FOLDER).join(format!("{number:012}{EXTENSION}"))
}

/// Writes the rows of a table to a new file. It is part of the database once the catalog names it.
pub(super) struct TableWriter {
    table: String,
    path: PathBuf,
    number: u64,
    schema: SchemaRef,
    /// The first rows, until they determine the encodings.
    sample: Vec<RecordBatch>,
    sampled: usize,
    writer: Option<ArrowWriter<BufWriter<File>>>,
    rows: u64,
    kept: bool,
}

impl TableWriter {
    pub(super) fn new(folder: &Path, number: u64, table: &str, schema: &SchemaRef) -> Self {
        Self {
            table: table.to_owned(),
            path: path(folder, number),
            number,
            schema: SchemaRef::clone(schema),
            sample: Vec::new(),
            sampled: 0,
            writer: None,
            rows: 0,
            kept: false,
        }
    }

    fn failed(&self, cause: ParquetError) -> DatabaseError {
        DatabaseError::Encode {
            table: self.table.clone(),
            cause,
        }
    }

    /// Appends rows.
    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.rows += batch.num_rows() as u64;
        if self.writer.is_none() {
            self.sampled += batch.num_rows();
            self.sample.push(batch.clone());
            return match self.sampled >= SAMPLE {
                true => self.begin(),
                false => Ok(()),
            };
        }
        match &mut self.writer {
            Some(writer) => writer.write(batch).map_err(|cause| self.failed(cause)),
            None => Ok(()),
        }
    }

    /// Creates the file, and writes the sample.
    fn begin(&mut self) -> Result<()> {
        let sample = std::mem::take(&mut self.sample);
        let columns = (0..self.schema.fields().len()).map(|column| {
            let values = sample.iter().map(|batch| batch.column(column).clone());
            values.collect::<Vec<ArrayRef>>()
        });
        let columns: Vec<_> = columns.collect();
        let properties = writer_properties(&self.schema, &columns).map_err(|cause| self.failed(cause))?;
        let file = File::create(&self.path).map_err(DatabaseError::io("create", &self.path))?;
        let buffer = BufWriter::with_capacity(BUFFER, file);
        let writer = ArrowWriter::try_new(buffer, SchemaRef::clone(&self.schema), Some(properties));
        let mut writer = writer.map_err(|cause| self.failed(cause))?;
        for batch in &sample {
            writer.write(batch).map_err(|cause| self.failed(cause))?;
        }
        self.writer = Some(writer);
        Ok(())
    }

    /// Completes the file, and syncs it to disk.
    pub(super) fn finish(mut self) -> Result<FileEntry> {
        if self.writer.is_none() {
            self.begin()?;
        }
        let writer = self.writer.take();
        let file = match writer.map(ArrowWriter::into_inner) {
            Some(Ok(buffer)) => buffer.into_inner().map_err(std::io::IntoInnerError::into_error),
            Some(Err(cause)) => return Err(self.failed(cause)),
            None => Err(std::io::ErrorKind::NotFound.into()),
        };
        let synced = file.and_then(|file| {
            file.sync_all()?;
            file.metadata()
        });
        let metadata = synced.map_err(DatabaseError::io("write", &self.path))?;
        if let Some(folder) = self.path.parent() {
            sync_folder(folder)?;
        }
        self.kept = true;
        Ok(FileEntry {
            number: self.number,
            bytes: metadata.len(),
            rows: self.rows,
        })
    }
}

impl Drop for TableWriter {
    fn drop(&mut self) {
        if !self.kept {
            // The file may not exist yet. One that remains is removed when the database is opened again.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The file with its rows, read for another file.
pub(super) fn rows(table: &str, path: &Path) -> Result<impl Iterator<Item = Result<RecordBatch>>> {
    let damaged = {
        let (table, path) = (table.to_owned(), path.to_owned());
        move |problem: String| DatabaseError::File {
            table: table.clone(),
            path: path.clone(),
            problem,
        }
    };
    let file = File::open(path).map_err(DatabaseError::io("read", path))?;
    let reader =
        ParquetRecordBatchReaderBuilder::try_new(file).and_then(ParquetRecordBatchReaderBuilder::build);
    let reader = reader.map_err(|cause| damaged(cause.to_string()))?;
    Ok(reader.map(move |batch| batch.map_err(|cause| damaged(cause.to_string()))))
}

/// The schema of a table, from its first file.
pub(super) fn schema(table: &str, path: &Path) -> Result<SchemaRef> {
    let file = File::open(path).map_err(DatabaseError::io("read", path))?;
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).map_err(|cause| DatabaseError::File {
        table: table.to_owned(),
        path: path.to_owned(),
        problem: cause.to_string(),
    })?;
    Ok(SchemaRef::clone(reader.schema()))
}

/// Checks that a file exists with its size, and that it begins and ends like a Parquet file.
pub(super) fn check(table: &str, path: &Path, entry: &FileEntry) -> Result<()> {
    use std::io::{Read, Seek, SeekFrom};
    const MARK: &[u8; 4] = b"PAR1";
    let damaged = |problem: String| DatabaseError::File {
        table: table.to_owned(),
        path: path.to_owned(),
        problem,
    };
    let mut file = File::open(path).map_err(|cause| damaged(cause.to_string()))?;
    let bytes = file.metadata().map_err(|cause| damaged(cause.to_string()))?.len();
    if bytes != entry.bytes {
        return Err(damaged(format!(
            "it has {bytes} bytes, and the catalog expects {}",
            entry.bytes
        )));
    }
    let (mut begin, mut end) = ([0; 4], [0; 4]);
    let mut read = || {
        file.read_exact(&mut begin)?;
        file.seek(SeekFrom::End(-4))?;
        file.read_exact(&mut end)
    };
    read().map_err(|cause| damaged(cause.to_string()))?;
    match begin == *MARK && end == *MARK {
        true => Ok(()),
        false => Err(damaged("it is not a Parquet file".to_owned())),
    }
}

/// Removes the files that the catalog does not name: those of writes that did not end, and those of dropped
/// tables.
pub(super) fn remove_others(folder: &Path, named: &std::collections::BTreeSet<u64>) {
    let Ok(entries) = fs::read_dir(folder.join(FOLDER)) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_suffix(EXTENSION));
        let number: Option<u64> = number.and_then(|number| number.parse().ok());
        if number.is_some_and(|number| !named.contains(&number)) {
            // A file that remains only takes space.
            let _ = fs::remove_file(entry.path());
        }
    }
}
