//! Rows of small build sides that executions of one cached plan share.

use galatea_expression::LookupSide;
use galatea_store::FileStamp;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

/// Maximum bytes of a build table that executions share.
const SHARED_BYTES: usize = 1 << 20;

/// The rows of a build side, for executions of one cached plan. The first execution leaves them, and others
/// reuse them while their files are unchanged; for tables of the store, a change invalidates the plan.
#[derive(Debug, Clone, Default)]
pub struct SharedRows(Option<Arc<Shared>>);

#[derive(Debug)]
struct Shared {
    /// The files of the rows.
    files: Vec<PathBuf>,
    rows: OnceLock<(Vec<FileStamp>, Arc<LookupSide>)>,
}

impl SharedRows {
    /// Sharing for the rows of these files.
    pub(crate) fn of(files: Vec<PathBuf>) -> Self {
        Self(Some(Arc::new(Shared {
            files,
            rows: OnceLock::new(),
        })))
    }

    /// The current stamps of the files; `None` if rows are not shared, or a file is missing.
    pub(crate) fn stamps(&self) -> Option<Vec<FileStamp>> {
        let files = &self.0.as_ref()?.files;
        files.iter().map(|file| FileStamp::of(file)).collect()
    }

    /// The rows that an execution has left, if their files had these stamps.
    pub(crate) fn get(&self, now: &[FileStamp]) -> Option<Arc<LookupSide>> {
        let (stamps, rows) = self.0.as_ref()?.rows.get()?;
        (stamps == now).then(|| Arc::clone(rows))
    }

    /// Leaves the rows for others, if they are few; `stamps` are those before they were read.
    pub(crate) fn leave(&self, stamps: Vec<FileStamp>, rows: &Arc<LookupSide>) {
        if let (Some(shared), true) = (&self.0, rows.bytes() <= SHARED_BYTES) {
            // Another execution may have been first.
            let _ = shared.rows.set((stamps, Arc::clone(rows)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, Int64Array};
    use std::path::Path;

    #[test]
    fn rows_are_shared_while_files_are_unchanged() {
        let keys: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
        let rows = Arc::new(LookupSide::new("k", &keys, &[], true).expect("a build side"));
        // Files with modification times old enough to detect a change.
        let file = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
        let shared = SharedRows::of(vec![file("Cargo.toml")]);
        let before = shared.stamps().expect("an old file");
        assert!(shared.get(&before).is_none(), "nothing was left");
        shared.leave(before.clone(), &rows);
        let found = shared.get(&before);
        assert!(found.is_some_and(|found| Arc::ptr_eq(&found, &rows)));
        let other = FileStamp::of(&file("src/lib.rs")).expect("an old file");
        assert!(shared.get(&[other]).is_none(), "the file is another one");
        assert!(SharedRows::of(vec![file("no such file")]).stamps().is_none());
        let apart = SharedRows::default();
        apart.leave(Vec::new(), &rows);
        assert!(apart.get(&[]).is_none() && apart.stamps().is_none());
    }
}
