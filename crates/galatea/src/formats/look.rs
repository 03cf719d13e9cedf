//! Schema inference reads the first rows of a file once, as long as the file stays the same.

use std::num::NonZeroUsize;
use std::sync::LazyLock;

use arrow::datatypes::SchemaRef;
use datafusion::error::Result;
use lru::LruCache;
use object_store::ObjectMeta;
use parking_lot::Mutex;

/// Number of rows of a table's files from which column types are inferred, unless an option sets another.
const ROWS: usize = 20_480;
/// The minimum per file.
const ROWS_OF_FILE: usize = 1_000;
/// Number of bytes of a file to read.
const BYTES: usize = 4 << 20;
/// Number of files read concurrently.
pub(super) const AT_ONCE: usize = 16;
/// Number of files in the cache of schemas.
const FILES: NonZeroUsize = NonZeroUsize::new(4096).expect("above zero");
/// A file that was changed within this number of milliseconds may change again without a new modification
/// time.
const SETTLED: i64 = 2_000;

/// The number of rows to read in each of `files` files.
pub(super) fn rows_of_each(files: usize, option: Option<usize>) -> usize {
    option.unwrap_or_else(|| (ROWS / files.max(1)).max(ROWS_OF_FILE))
}

/// The number of bytes to read; larger if an option sets a larger number of rows.
pub(super) fn bytes_of_each(option: Option<usize>) -> usize {
    option.map_or(BYTES, |rows| rows.saturating_mul(1 << 10).max(BYTES))
}

/// The file's name in messages.
pub(super) fn name_of(object: &ObjectMeta, store: &str) -> String {
    match store.contains("LocalFileSystem") {
        true => format!("/{}", object.location),
        false => object.location.to_string(),
    }
}

/// The result of inference on a file: its schema, and whether its first row is a header, if the file decides
/// that.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub(super) schema: SchemaRef,
    pub(super) header: Option<bool>,
}

/// The version of a file, and the options of inference.
type Looked = (String, u64, i64, Option<String>, String);

static KNOWN: LazyLock<Mutex<LruCache<Looked, Found>>> = LazyLock::new(|| Mutex::new(LruCache::new(FILES)));

/// The result of `look`, or the cached result for the same version of the file with the same options.
pub(super) async fn known(
    object: &ObjectMeta,
    how: String,
    look: impl Future<Output = Result<Found>>,
) -> Result<Found> {
    let changed = object.last_modified.timestamp_millis();
    let settled = chrono::Utc::now().timestamp_millis() - changed > SETTLED;
    let key = (
        object.location.to_string(),
        object.size,
        object.last_modified.timestamp_nanos_opt().unwrap_or(changed),
        object.e_tag.clone(),
        how,
    );
    if settled && let Some(found) = KNOWN.lock().get(&key) {
        return Ok(found.clone());
    }
    let found = look.await?;
    if settled {
        KNOWN.lock().put(key, found.clone());
    }
    Ok(found)
}
