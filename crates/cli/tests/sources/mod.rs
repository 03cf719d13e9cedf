//! The source files of the workspace, for tests that read them.

use std::path::{Path, PathBuf};

use walkdir::WalkDir;

/// Adds the files below a directory that have one of the extensions.
pub(crate) fn source_files(directory: &Path, extensions: &[&str], found: &mut Vec<PathBuf>) {
    let paths = WalkDir::new(directory)
        .into_iter()
        .flatten()
        .map(walkdir::DirEntry::into_path);
    found.extend(paths.filter(|path| {
        let extension = path.extension().and_then(|extension| extension.to_str());
        extension.is_some_and(|extension| extensions.contains(&extension))
    }));
}
