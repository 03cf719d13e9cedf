//! The lock of a database: one process at a time.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::Path;

use super::error::{DatabaseError, Result};

/// The name of the file in the folder of the database.
const NAME: &str = "lock";

/// A locked folder. The system releases the lock when the process ends, in any way.
#[derive(Debug)]
pub(super) struct Lock(#[expect(dead_code, reason = "the lock lives as long as the open file")] File);

impl Lock {
    /// Locks a folder, and writes this process into the lock file.
    pub(super) fn acquire(folder: &Path) -> Result<Self> {
        let path = folder.join(NAME);
        let failed = |cause| DatabaseError::io("lock", &path)(cause);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path);
        let mut file = file.map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut process = String::new();
                // The name is part of a message only.
                let _ = file.read_to_string(&mut process);
                return Err(DatabaseError::Locked {
                    path: folder.to_owned(),
                    process: match process.trim() {
                        "" => "unknown".to_owned(),
                        process => process.to_owned(),
                    },
                });
            }
            Err(TryLockError::Error(cause)) => return Err(failed(cause)),
        }
        let program = std::env::current_exe().ok();
        let program = program.as_deref().and_then(Path::file_name).unwrap_or_default();
        let process = format!("process {} ({})\n", std::process::id(), program.to_string_lossy());
        let mut write = || {
            file.set_len(0)?;
            file.rewind()?;
            file.write_all(process.as_bytes())?;
            file.flush()
        };
        write().map_err(failed)?;
        Ok(Self(file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_lock_names_the_first_process() {
        let folder = tempfile::tempdir().expect("a folder");
        let first = Lock::acquire(folder.path()).expect("locked");
        let error = Lock::acquire(folder.path()).expect_err("locked already");
        let expected = format!("is open in another process: process {}", std::process::id());
        assert!(error.to_string().contains(&expected), "{error}");
        drop(first);
        Lock::acquire(folder.path()).expect("free again");
    }
}
