//! Whether COPY can create what it is told to.
//!
//! The object store of local files writes beside the file and renames, and creates directories that are
//! missing. It tries again when the system says that a directory is missing: where one exists but takes no
//! files, as in `/proc`, it would try for ever. So a file is created there first, and removed.

use std::fs::{self, OpenOptions};
use std::io::ErrorKind;
use std::path::Path;
use std::process;

use datafusion::common::exec_datafusion_err;
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::error::Result;
use datafusion::logical_expr::dml::CopyTo;

/// Refuses a COPY whose files the system does not let this process create. Other stores than local files
/// report that themselves.
pub(crate) fn check(copy: &CopyTo) -> Result<()> {
    let url = ListingTableUrl::parse(&copy.output_url)?;
    if url.scheme() != "file" || url.get_glob().is_some() {
        return Ok(());
    }
    let Ok(path) = url.get_url().to_file_path() else {
        return Ok(());
    };
    // Directories that do not exist are created, in the nearest that does.
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
        // Of another statement, or left behind by a process that was killed.
        Err(cause) if cause.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(cause) => Err(cause),
    }
}
