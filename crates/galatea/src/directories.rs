//! Checks whether the files below a directory form one table.
//!
//! DataFusion takes the format of any one file, and skips files with other extensions. So a directory with
//! data in several formats is refused, like a pattern that matches such files. Files that contain no data (by
//! their extension, or because the name begins with `.` or `_`) are skipped.

use std::fs;
use std::path::{Path, PathBuf};

use datafusion::common::{Result, plan_datafusion_err, plan_err};
use datafusion::datasource::listing::ListingTableConfig;

/// A data file below a directory, with one of the given extensions. All data files there have its format.
///
/// # Errors
/// A directory with data in several formats, or without data.
pub(crate) fn a_data_file(directory: &Path, extensions: &[&str]) -> Result<PathBuf> {
    let root = directory;
    let mut first: Option<(String, PathBuf)> = None;
    let mut directories = vec![directory.to_path_buf()];
    while let Some(directory) = directories.pop() {
        let unreadable =
            |cause| plan_datafusion_err!("cannot read the directory '{}': {cause}", directory.display());
        let entries = fs::read_dir(&directory).map_err(unreadable)?;
        let mut paths = Vec::new();
        for entry in entries {
            paths.push(entry.map_err(unreadable)?.path());
        }
        paths.sort();
        for path in paths {
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            if name.starts_with(['.', '_']) {
                continue;
            }
            if path.is_dir() {
                directories.push(path);
                continue;
            }
            let Some(ending) = ending(&name, extensions) else {
                continue;
            };
            match &first {
                None => first = Some((ending, path)),
                Some((known, file)) if *known != ending => {
                    return plan_err!(
                        "files of different formats: '{}' and '{}'\nhint: name those of one format by a pattern, for \
                         example '*.{known}'",
                        file.display(),
                        path.display()
                    );
                }
                Some(_) => {}
            }
        }
    }
    let found = first.map(|(_, file)| file);
    found.ok_or_else(|| {
        plan_datafusion_err!(
            "no files of data in the directory '{}'\nhint: formats are {}; for other endings use CREATE EXTERNAL TABLE \
             ... STORED AS",
            root.display(),
            extensions.join(", ")
        )
    })
}

/// The extension of a data file, including its compression: `csv.gz`.
fn ending(name: &str, extensions: &[&str]) -> Option<String> {
    let (extension, compression) =
        ListingTableConfig::infer_file_extension_and_compression_type(name).ok()?;
    let is_data = extension != name && extensions.contains(&extension.to_ascii_lowercase().as_str());
    is_data.then(|| match compression {
        Some(compression) => format!("{extension}.{compression}"),
        None => extension,
    })
}
