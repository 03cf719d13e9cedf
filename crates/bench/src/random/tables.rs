//! The tables of a round, in memory or as files, and their replacement by other rows.

use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::datasource::MemTable;
use datafusion::prelude::SessionContext;

use super::files::{Format, Location, TableFiles, WAYS, Way};
use crate::Result;
use crate::harness::{by_name, name_of};

/// The storage of random tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Storage {
    /// Arrow batches in memory.
    Memory,
    /// Parquet files.
    Parquet,
    /// CSV files.
    Csv,
    /// Files of one JSON object per line.
    Json,
    /// Each of them in turn.
    Mixed,
}

impl Storage {
    /// All, by name.
    pub const NAMES: [(&'static str, Self); 5] = [
        ("memory", Self::Memory),
        ("parquet", Self::Parquet),
        ("csv", Self::Csv),
        ("json", Self::Json),
        ("mixed", Self::Mixed),
    ];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        name_of(&Self::NAMES, &self)
    }

    /// The registration of the tables in a round with this number; `None`: in memory.
    pub(super) fn way(self, number: u64) -> Option<Way> {
        let of = |format: Format| -> Vec<Option<Way>> {
            WAYS.into_iter().filter(|(f, _)| *f == format).map(Some).collect()
        };
        let ways = match self {
            Self::Memory => vec![None],
            Self::Parquet => of(Format::Parquet),
            Self::Csv => of(Format::Csv),
            Self::Json => of(Format::Json),
            Self::Mixed => WAYS.into_iter().map(Some).chain([None]).collect(),
        };
        ways[(number % ways.len() as u64) as usize]
    }
}

impl std::str::FromStr for Storage {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        by_name(&Self::NAMES, text)
    }
}

/// Replaces the rows of the table in the device's session and in the CPU's. The CPU reads them from memory: a
/// scan of files by the CPU may share a fault with the device's.
pub(super) async fn replace(
    (name, rows): (&str, &RecordBatch),
    files: Option<(&Path, Way)>,
    registered: bool,
    device: &SessionContext,
    cpu: &SessionContext,
) -> Result<()> {
    let in_memory = |ctx: &SessionContext, rows: Vec<RecordBatch>| -> Result<()> {
        ctx.deregister_table(name)?;
        let table = MemTable::try_new(rows[0].schema(), vec![rows])?;
        ctx.register_table(name, Arc::new(table))?;
        Ok(())
    };
    let file = files.and_then(|(folder, way)| TableFiles::new(folder, name, way, rows.schema()));
    let Some(file) = file else {
        in_memory(device, vec![rows.clone()])?;
        return in_memory(cpu, vec![rows.clone()]);
    };
    file.write(rows)?;
    if !registered {
        device.deregister_table(name)?;
        file.register(device).await?;
    }
    // In CSV, empty strings are NULL.
    in_memory(cpu, file.read().await?)
}

/// The registration as shown in failures.
pub(super) fn describe(way: Option<Way>) -> String {
    let Some((format, location)) = way else {
        return "in memory".to_string();
    };
    let location = match location {
        Location::File => "external table of one file",
        Location::Folder => "external table of a folder",
        Location::Quoted => "quoted path",
        Location::Glob => "quoted glob",
    };
    format!("{format:?}, {location}")
}
