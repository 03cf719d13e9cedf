//! Rows of small build sides that executions of one kept plan have in common.

use galatea_expression::Dimension;
use galatea_store::FileStamp;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

/// Bytes of arranged rows that executions share, at most.
const SHARED_BYTES: usize = 1 << 20;

/// The rows of a build side, for executions of one kept plan. The first execution leaves them, and others
/// take them as long as the files that they are of have not changed; tables of the store have another plan
/// when they do.
#[derive(Debug, Clone, Default)]
pub struct SharedRows(Option<Arc<Shared>>);

#[derive(Debug)]
struct Shared {
    /// The files that the rows are of.
    files: Vec<PathBuf>,
    rows: OnceLock<(Vec<FileStamp>, Arc<Dimension>)>,
}

impl SharedRows {
    /// Rows of these files that an execution may leave.
    pub(crate) fn of(files: Vec<PathBuf>) -> Self {
        Self(Some(Arc::new(Shared {
            files,
            rows: OnceLock::new(),
        })))
    }

    /// What identifies the content of the files now; none where rows are not shared, or a file is missing.
    pub(crate) fn stamps(&self) -> Option<Vec<FileStamp>> {
        let files = &self.0.as_ref()?.files;
        files.iter().map(|file| FileStamp::of(file)).collect()
    }

    /// The rows that an execution has left, of files with these stamps.
    pub(crate) fn get(&self, now: &[FileStamp]) -> Option<Arc<Dimension>> {
        let (stamps, rows) = self.0.as_ref()?.rows.get()?;
        (stamps == now).then(|| Arc::clone(rows))
    }

    /// Leaves the rows for others, if they are few; `stamps` are of before they were read.
    pub(crate) fn leave(&self, stamps: Vec<FileStamp>, rows: &Arc<Dimension>) {
        if let (Some(shared), true) = (&self.0, rows.bytes() <= SHARED_BYTES) {
            // Another execution may have been faster.
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
    fn rows_are_shared_while_their_files_are_the_same() {
        let keys: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
        let rows = Arc::new(Dimension::new("k", &keys, &[], true).expect("a dimension"));
        // Files that were written long enough ago for their times to tell a change.
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
