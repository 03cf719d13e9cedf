//! A directory of a workload's tables, found and registered.

use std::path::{Path, PathBuf};

use datafusion::prelude::{ParquetReadOptions, SessionContext};

use super::Workload;
use super::manifest::Manifest;
use crate::{BenchError, Result};

/// A workload's tables on disk.
#[derive(Debug, Clone)]
pub struct Tables {
    /// The workload.
    pub workload: Workload,
    /// The directory.
    pub directory: PathBuf,
    /// The scale that the manifest records; 1 without a manifest.
    pub scale: f64,
    /// Name and location of every table: a file, or a directory with a slash at its end.
    pub locations: Vec<(String, String)>,
}

impl Tables {
    /// Finds `<table>.parquet` or `<table>/` for the workload's tables. Files of other programs are accepted.
    /// A workload need not be complete: a query over a missing table fails separately.
    ///
    /// # Errors
    /// None of the tables exists.
    pub fn find(workload: Workload, directory: &Path) -> Result<Self> {
        let scale = Manifest::read(directory)?.map_or(1.0, |manifest| manifest.scale);
        let location = |table: &&str| {
            let file = directory.join(format!("{table}.parquet"));
            let folder = directory.join(table);
            if file.is_file() {
                Some(((*table).to_string(), file.to_string_lossy().into_owned()))
            } else if folder.is_dir() {
                Some(((*table).to_string(), format!("{}/", folder.to_string_lossy())))
            } else {
                None
            }
        };
        let locations: Vec<_> = workload.table_names().iter().filter_map(location).collect();
        if locations.is_empty() {
            return Err(BenchError::NoData {
                workload: workload.to_string(),
                path: directory.to_path_buf(),
                missing: format!("{}.parquet", workload.table_names().join(".parquet, ")),
            });
        }
        Ok(Self {
            workload,
            directory: directory.to_path_buf(),
            scale,
            locations,
        })
    }

    /// Registers the tables under their names, as files.
    pub async fn register(&self, ctx: &SessionContext) -> Result<()> {
        for (name, location) in &self.locations {
            // Quoted, because `date` is a table of the Star Schema Benchmark.
            ctx.deregister_table(format!("\"{name}\""))?;
            ctx.register_parquet(format!("\"{name}\""), location, ParquetReadOptions::default())
                .await?;
        }
        Ok(())
    }
}
