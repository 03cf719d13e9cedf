//! Inference reads the first rows of a file once, as long as the file stays the same.

use std::num::NonZeroUsize;
use std::sync::LazyLock;

use arrow::datatypes::SchemaRef;
use datafusion::error::Result;
use lru::LruCache;
use object_store::ObjectMeta;
use parking_lot::Mutex;

/// Rows of a table's files whose values decide the types of its columns, unless an option says another
/// number.
const ROWS: usize = 20_480;
/// The least of each file.
const ROWS_OF_FILE: usize = 1_000;
/// Bytes of a file that are looked at.
const BYTES: usize = 4 << 20;
/// Files looked into at a time.
pub(super) const AT_ONCE: usize = 16;
/// Files whose schemas are remembered.
const FILES: NonZeroUsize = NonZeroUsize::new(4096).expect("above zero");
/// A file that was changed within these milliseconds may change again without its times showing it.
const SETTLED: i64 = 2_000;

/// Rows to look at in each of this number of files.
pub(super) fn rows_of_each(files: usize, option: Option<usize>) -> usize {
    option.unwrap_or_else(|| (ROWS / files.max(1)).max(ROWS_OF_FILE))
}

/// Bytes to look at: more than usual if an option asks for more rows.
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

/// The result of inference on a file: its schema, and whether its first row is a header, where that is
/// certain.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub(super) schema: SchemaRef,
    pub(super) header: Option<bool>,
}

/// A file as it was, and how it was looked at.
type Looked = (String, u64, i64, Option<String>, String);

static KNOWN: LazyLock<Mutex<LruCache<Looked, Found>>> = LazyLock::new(|| Mutex::new(LruCache::new(FILES)));

/// The result of `look`, or of an earlier look at the same file with the same options.
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
