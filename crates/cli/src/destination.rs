//! Checks whether COPY can create its files.
//!
//! The object store of local files writes to a file beside the destination, renames it, and creates missing
//! directories. It retries if the system reports a missing directory. In a directory that exists but accepts
//! no files, such as `/proc`, it would retry for ever. So this module first creates a file there and removes
//! it.

use std::fs::{self, OpenOptions};
use std::io::ErrorKind;
use std::path::Path;
use std::process;

use datafusion::common::exec_datafusion_err;
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::error::Result;
use datafusion::logical_expr::dml::CopyTo;

/// Refuses a COPY if the system does not permit this process to create its files. Stores other than local
/// files report that themselves.
pub(crate) fn check(copy: &CopyTo) -> Result<()> {
    let url = ListingTableUrl::parse(&copy.output_url)?;
    if url.scheme() != "file" || url.get_glob().is_some() {
        return Ok(());
    }
    let Ok(path) = url.get_url().to_file_path() else {
        return Ok(());
    };
    // Missing directories are created in the nearest existing one.
    let nearest = match path.is_dir() {
        true => Some(path.as_path()),
        false => path.ancestors().skip(1).find(|path| path.exists()),
    };
    nearest.map_or(Ok(()), try_create).map_err(|cause| {
        exec_datafusion_err!(
            "cannot create '{}': {cause}\nhint: COPY needs a directory in which this user may create files",
            copy.output_url
        )
    })
}

/// Creates a file in `directory` and removes it.
fn try_create(directory: &Path) -> std::io::Result<()> {
    let path = directory.join(format!(".galatea-{}", process::id()));
    match OpenOptions::new().write(true).create_new(true).open(&path) {
        Ok(_) => fs::remove_file(&path),
        // The file belongs to another statement, or a killed process left it.
        Err(cause) if cause.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(cause) => Err(cause),
    }
}
