//! Whether the files below a directory are one table.
//!
//! DataFusion takes the format of any of the files, and leaves out those with other endings. So a directory
//! with data in several formats is refused, as a pattern that matches them is. Files that are no data (by
//! their ending, or with a name that begins with `.` or `_`) are passed over.

use std::fs;
use std::path::{Path, PathBuf};

use datafusion::common::{Result, plan_datafusion_err, plan_err};
use datafusion::datasource::listing::ListingTableConfig;

/// A file of data below a directory, of those with the given extensions. All of them have its format.
///
/// # Errors
/// A directory with data in several formats, or none.
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

/// The extension of a file of data, with its compression: `csv.gz`.
fn ending(name: &str, extensions: &[&str]) -> Option<String> {
    let (extension, compression) =
        ListingTableConfig::infer_file_extension_and_compression_type(name).ok()?;
    let is_data = extension != name && extensions.contains(&extension.to_ascii_lowercase().as_str());
    is_data.then(|| match compression {
        Some(compression) => format!("{extension}.{compression}"),
        None => extension,
    })
}
