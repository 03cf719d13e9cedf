//! The manifest of a directory of generated data: one JSON file, written after every table.
//!
//! A second run with the same parameters finds the tables complete. A run with other parameters detects that
//! it would mix data.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::{BenchError, Result};

/// The file's name inside the directory.
pub const FILE_NAME: &str = "manifest.json";

/// The version of this file's format.
const FORMAT: u32 = 1;

/// Contents of a directory of generated data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of this format.
    pub format: u32,
    /// `tpch`, `tpcds`, `ssb`, `micro` or `hits`.
    pub workload: String,
    /// The scale factor.
    pub scale: f64,
    /// Name and version of the generator.
    pub generator: String,
    /// The codec of the pages of Parquet files, or `csv`.
    pub compression: String,
    /// Files per large table.
    pub parts: usize,
    /// The complete files.
    pub tables: BTreeMap<String, Vec<DataFile>>,
}

/// One complete file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataFile {
    /// Its path inside the directory.
    pub name: String,
    /// Its rows.
    pub rows: u64,
    /// Its size.
    pub bytes: u64,
}

impl Manifest {
    /// A manifest without tables.
    pub fn new(workload: &str, scale: f64, generator: &str, compression: &str, parts: usize) -> Self {
        Self {
            format: FORMAT,
            workload: workload.to_string(),
            scale,
            generator: generator.to_string(),
            compression: compression.to_string(),
            parts,
            tables: BTreeMap::new(),
        }
    }

    /// The directory's manifest; `None` if it does not exist.
    pub fn read(directory: &Path) -> Result<Option<Self>> {
        let path = directory.join(FILE_NAME);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(cause) => return Err(BenchError::io("read", &path)(cause)),
        };
        let manifest: Self =
            serde_json::from_str(&text).map_err(|cause| BenchError::io("read", &path)(cause.into()))?;
        Ok(Some(manifest))
    }

    /// Replaces the directory's manifest atomically.
    pub fn write(&self, directory: &Path) -> Result<()> {
        let path = directory.join(FILE_NAME);
        let temporary = directory.join(format!(".{FILE_NAME}.{}", std::process::id()));
        let text = serde_json::to_string_pretty(self).expect("a manifest is plain data") + "\n";
        fs::write(&temporary, text).map_err(BenchError::io("write", &temporary))?;
        fs::rename(&temporary, &path).map_err(BenchError::io("write", &path))
    }

    /// A short description of the data.
    pub fn describe(&self) -> String {
        format!(
            "{} at scale {} by {}, {}, {} part(s)",
            self.workload, self.scale, self.generator, self.compression, self.parts
        )
    }

    /// Whether `table` is recorded and its files exist in the recorded sizes.
    pub fn is_complete(&self, directory: &Path, table: &str) -> bool {
        self.tables.get(table).is_some_and(|files| {
            files.iter().all(|file| {
                fs::metadata(directory.join(&file.name)).is_ok_and(|metadata| metadata.len() == file.bytes)
            })
        })
    }

    /// Number of rows of a table, if it is recorded.
    pub fn rows(&self, table: &str) -> Option<u64> {
        Some(self.tables.get(table)?.iter().map(|file| file.rows).sum())
    }

    /// Absolute paths of a table's files.
    pub fn files(&self, directory: &Path, table: &str) -> Vec<PathBuf> {
        self.tables
            .get(table)
            .into_iter()
            .flatten()
            .map(|file| directory.join(&file.name))
            .collect()
    }
}
