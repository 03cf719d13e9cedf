//! The source files of the workspace, for tests that read them.

use std::fs;
use std::path::{Path, PathBuf};

/// Adds the files below a directory that have one of the extensions.
pub(crate) fn source_files(directory: &Path, extensions: &[&str], found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        let extension = path.extension().and_then(|extension| extension.to_str());
        if path.is_dir() {
            source_files(&path, extensions, found);
        } else if extension.is_some_and(|extension| extensions.contains(&extension)) {
            found.push(path);
        }
    }
}
