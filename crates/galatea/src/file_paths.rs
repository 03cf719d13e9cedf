//! Paths of files in queries: patterns, names of tables, the files that match, and their errors.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::{plan_datafusion_err, plan_err};
use datafusion::datasource::listing::{ListingTableConfig, ListingTableUrl};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::session_state::SessionState;
use futures::stream::{self, StreamExt, TryStreamExt};
use galatea_store::StoreError;
use object_store::ObjectStoreExt;

use crate::standard_input;

/// Number of files with concurrent requests for their sizes.
const FILES_AT_ONCE: usize = 32;

/// The last component of a path that is not a pattern, up to its first dot; `None` if the name does not look
/// like a path.
pub(crate) fn table_name(path: &str) -> Option<String> {
    if standard_input::is_named(path) {
        return Some("stdin".to_owned());
    }
    if !(reads_like_a_file(path) || has_pattern(path)) {
        return None;
    }
    let mut parts = path.trim_end_matches('/').rsplit(['/', '\\']);
    let part = parts.find(|part| !has_pattern(part) && !part.is_empty())?;
    let stem = part.split('.').find(|stem| !stem.is_empty())?;
    Some(stem.to_string())
}

pub(crate) fn expand_home(name: &str) -> PathBuf {
    match name.strip_prefix("~/") {
        Some(rest) => std::env::home_dir().map_or_else(|| PathBuf::from(name), |home| home.join(rest)),
        None => PathBuf::from(name),
    }
}

/// The error of a file that does not exist.
pub(crate) fn missing(name: &str) -> DataFusionError {
    plan_datafusion_err!(
        "no such file: '{name}'\nhint: paths are relative to {}",
        current_directory()
    )
}

fn current_directory() -> String {
    std::env::current_dir().map_or_else(
        |_| "the current directory".to_string(),
        |path| path.display().to_string(),
    )
}

pub(crate) fn has_pattern(name: &str) -> bool {
    name.contains(['*', '?', '['])
}

/// Whether a name of neither a table nor a file looks like a path.
pub(crate) fn reads_like_a_file(name: &str) -> bool {
    let (extension, _) =
        ListingTableConfig::infer_file_extension_and_compression_type(name).unwrap_or_default();
    name.contains(['/', '\\'])
        || (extension != name && EXTENSIONS.contains(&extension.to_ascii_lowercase().as_str()))
}

pub(crate) const EXTENSIONS: [&str; 8] = [
    "parquet", "csv", "tsv", "json", "ndjson", "jsonl", "arrow", "avro",
];

/// The URL of the file, for any characters in its name.
pub(crate) fn location(file: &Path) -> Result<ListingTableUrl> {
    let absolute = std::path::absolute(file)
        .map_err(|cause| plan_datafusion_err!("cannot resolve '{}': {cause}", file.display()))?;
    let path = object_store::path::Path::from_absolute_path(&absolute);
    let path = path.map_err(|cause| plan_datafusion_err!("cannot address '{}': {cause}", file.display()))?;
    ListingTableUrl::parse(format!("file:///{}", url_encoded(path.as_ref())))
}

/// The path with each character that has a meaning in URLs or patterns as `%` and its hexadecimal bytes.
fn url_encoded(path: &str) -> String {
    let mut text = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'-' | b'_' | b'.' | b'~' | b'/' => {
                text.push(char::from(byte));
            }
            byte => text += &format!("%{byte:02X}"),
        }
    }
    text
}

/// The files that match `pattern`, sorted. `*` and `?` match within a directory, `**` across directories.
/// Names that begin with a dot match only patterns that do.
pub(crate) fn matching(pattern: &Path) -> Result<Vec<PathBuf>> {
    let text = pattern.to_string_lossy();
    let mut parts = text.split('/').filter(|part| has_pattern(part));
    let names_hidden = parts.any(|part| part.starts_with('.'));
    let options = glob::MatchOptions {
        require_literal_separator: true,
        require_literal_leading_dot: !names_hidden,
        ..glob::MatchOptions::default()
    };
    let found = glob::glob_with(&text, options)
        .map_err(|cause| plan_datafusion_err!("invalid pattern: '{text}': {cause}"))?;
    // A directory that cannot be listed has no matches. The rest of the pattern is still matched.
    let mut files: Vec<PathBuf> = found.flatten().filter(|path| !path.is_dir()).collect();
    files.sort();
    Ok(files)
}

/// The schema of the files at all locations; DataFusion infers that of the first only. Empty files have no
/// schema.
pub(crate) async fn schema_of_all(config: &ListingTableConfig, state: &SessionState) -> Result<SchemaRef> {
    let (Some(first), Some(options)) = (config.table_paths.first(), &config.options) else {
        return plan_err!("a table of files needs a file");
    };
    let store = state.runtime_env().object_store(first)?;
    let locations: Vec<_> = config
        .table_paths
        .iter()
        .map(|url| url.prefix().clone())
        .collect();
    let heads = locations.into_iter().map(|location| {
        let store = Arc::clone(&store);
        async move { store.head(&location).await }
    });
    let found: Vec<_> = stream::iter(heads).buffered(FILES_AT_ONCE).try_collect().await?;
    let found: Vec<_> = found.into_iter().filter(|file| file.size > 0).collect();
    match found.is_empty() {
        true => Ok(Arc::new(Schema::empty())),
        false => options.format.infer_schema(state, &store, &found).await,
    }
}

/// Refuses empty files of formats in which even a table without rows has bytes. DataFusion would skip such
/// files, and lose their rows, without an error.
pub(crate) fn refuse_empty(files: &[PathBuf], ending: &str) -> Result<()> {
    if ![".parquet", ".arrow", ".avro"].contains(&ending.to_ascii_lowercase().as_str()) {
        return Ok(());
    }
    // If the metadata of a file cannot be read, the reader reports it.
    let is_empty = |file: &&PathBuf| fs::metadata(file).is_ok_and(|found| found.len() == 0);
    match files.iter().find(is_empty) {
        Some(empty) => plan_err!(
            "cannot read '{}': the file is empty\nhint: the file is cut off, damaged, or not {}",
            empty.display(),
            ending.trim_start_matches('.')
        ),
        None => Ok(()),
    }
}

/// The error of unreadable files, with their name. If the error names the file, and the query names only that
/// file, the name of the query replaces it.
pub(crate) fn unreadable(name: &str, files: &[PathBuf], cause: DataFusionError) -> DataFusionError {
    let quoted = || format!("'{name}'");
    match cause {
        DataFusionError::External(inner) => match inner.downcast::<StoreError>() {
            Ok(own) => match (*own, files.len()) {
                (
                    StoreError::CorruptFile {
                        column,
                        row_group,
                        source,
                        ..
                    },
                    1,
                ) => StoreError::CorruptFile {
                    file: quoted(),
                    column,
                    row_group,
                    source,
                },
                (StoreError::Encrypted { .. }, 1) => StoreError::Encrypted { file: quoted() },
                (
                    StoreError::BadRow {
                        place,
                        column,
                        reason,
                        hint,
                        ..
                    },
                    1,
                ) => StoreError::BadRow {
                    file: quoted(),
                    place,
                    column,
                    reason,
                    hint,
                },
                (own, _) => own,
            }
            .into(),
            Err(inner) => DataFusionError::External(inner).context(format!("cannot read '{name}'")),
        },
        cause @ DataFusionError::Plan(_) => cause,
        // DataFusion reports this as an internal error of its own.
        cause if cause.to_string().contains("Failed to parse Arrow file") => plan_datafusion_err!(
            "cannot read '{name}': it is not an Arrow file\nhint: the file is cut off, damaged, or not Arrow"
        ),
        cause => cause.context(format!("cannot read '{name}'")),
    }
}
