//! The cache folder: compiled kernels, calibrations, encoded columns, the demo's data.
//!
//! Its contents are executed: kernels on the GPU, objects of the emulated device in this process. So no other
//! user may write there. The folder is created only for this user, and a folder that others can write is not
//! used: then nothing is cached, so each process compiles again, and a warning is logged once. The system's
//! temporary folder is no fallback, because any user can create a folder there first.

use std::ffi::CString;
use std::fs::DirBuilder;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::environment;

/// A folder that only this user can write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheFolder(PathBuf);

/// The reason why no cache folder is used. Queries run anyway.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum CacheRefusal {
    /// The user has no home directory.
    #[error("the user has no home folder\nhint: name a folder of this user's with GALATEA_CACHE_DIR")]
    NoHome,
    /// The path depends on the current folder.
    #[error("{} is not an absolute path\nhint: GALATEA_CACHE_DIR takes an absolute one", path.display())]
    Relative {
        /// The path given.
        path: PathBuf,
    },
    /// The folder belongs to another user.
    #[error(
        "{} belongs to user {owner}, and this process runs as user {user}\nhint: name a folder of this user's with GALATEA_CACHE_DIR",
        path.display()
    )]
    Owner {
        /// The folder.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// The user of this process.
        user: u32,
    },
    /// Other users may write the folder.
    #[error(
        "others may write {} (mode {mode:03o})\nhint: empty it, and chmod go-w {}",
        path.display(), path.display()
    )]
    Writable {
        /// The folder.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// The folder cannot be created or inspected.
    #[error("{}: {source}\nhint: name a folder of this user's with GALATEA_CACHE_DIR", path.display())]
    Io {
        /// The folder.
        path: PathBuf,
        /// The system's error.
        source: Arc<io::Error>,
    },
}

impl CacheRefusal {
    /// Logs once per process that nothing is cached.
    pub(crate) fn warn_once(&self) {
        static WARNED: AtomicBool = AtomicBool::new(false);
        if !WARNED.swap(true, Ordering::Relaxed) {
            tracing::warn!("compiled kernels are not kept: {self}");
        }
    }
}

impl CacheFolder {
    /// Opens the given folder, or that of [`environment::cache_directory`], and creates it if necessary.
    ///
    /// # Errors
    /// [`CacheRefusal`].
    pub fn open(given: Option<&Path>) -> Result<Self, CacheRefusal> {
        let path = given.map(Path::to_owned).or_else(environment::cache_directory);
        private(path.ok_or(CacheRefusal::NoHome)?).map(Self)
    }

    /// The path of the folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Returns a subfolder, and creates it if necessary.
    ///
    /// # Errors
    /// [`CacheRefusal`].
    pub fn subfolder(&self, name: impl AsRef<Path>) -> Result<PathBuf, CacheRefusal> {
        private(self.0.join(name))
    }
}

/// Free bytes of the file system of a folder, for this user; `None` if they are unknown.
#[must_use]
#[cfg_attr(
    target_os = "linux",
    expect(clippy::useless_conversion, reason = "the types differ between systems")
)]
pub fn free_disk_space(folder: &Path) -> Option<u64> {
    let path = CString::new(folder.as_os_str().as_bytes()).ok()?;
    let mut found = MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: the path ends with a zero, and the struct is written by the call.
    let done = unsafe { libc::statvfs(path.as_ptr(), found.as_mut_ptr()) };
    if done != 0 {
        return None;
    }
    // SAFETY: the call succeeded, so it has written the struct.
    let found = unsafe { found.assume_init() };
    u64::from(found.f_bavail).checked_mul(u64::from(found.f_frsize))
}

/// Checks that the folder exists and that only this user can write it.
fn private(path: PathBuf) -> Result<PathBuf, CacheRefusal> {
    if path.is_relative() {
        return Err(CacheRefusal::Relative { path });
    }
    let made = DirBuilder::new().recursive(true).mode(0o700).create(&path);
    let found = match made.and_then(|()| std::fs::metadata(&path)) {
        Ok(found) => found,
        Err(source) => {
            let source = Arc::new(source);
            return Err(CacheRefusal::Io { path, source });
        }
    };
    // SAFETY: geteuid has no preconditions.
    let user = unsafe { libc::geteuid() };
    if found.uid() != user {
        let owner = found.uid();
        return Err(CacheRefusal::Owner { path, owner, user });
    }
    if found.mode() & 0o022 != 0 {
        let mode = found.mode() & 0o777;
        return Err(CacheRefusal::Writable { path, mode });
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn cache_folders_are_private_to_the_user() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a/galatea");
        let cache = CacheFolder::open(Some(&path)).unwrap();
        let cubins = cache.subfolder("cubin/v1").unwrap();
        for folder in [cache.path(), &cubins, &root.path().join("a"), &path.join("cubin")] {
            assert_eq!(mode(folder), 0o700, "{}", folder.display());
        }
        assert_eq!(CacheFolder::open(Some(&path)).unwrap(), cache);
    }

    #[test]
    fn world_writable_folders_are_refused() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("galatea");
        let cache = CacheFolder::open(Some(&path)).unwrap();
        for (bits, refused) in [(0o755, false), (0o775, true), (0o707, true), (0o1777, true)] {
            std::fs::set_permissions(&path, PermissionsExt::from_mode(bits)).unwrap();
            let opened = CacheFolder::open(Some(&path));
            match opened {
                Err(CacheRefusal::Writable { mode, .. }) => assert!(refused && mode == bits & 0o777),
                opened => assert!(!refused, "{bits:o}: {opened:?}"),
            }
        }
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o700)).unwrap();
        let below = cache.subfolder("cubin").unwrap();
        std::fs::set_permissions(&below, PermissionsExt::from_mode(0o777)).unwrap();
        let refused = cache.subfolder("cubin").unwrap_err();
        assert!(refused.to_string().contains("chmod go-w"), "{refused}");
    }

    #[test]
    fn folders_of_other_users_are_refused() {
        // SAFETY: no preconditions.
        let user = unsafe { libc::geteuid() };
        // Tests that run as root give a folder away; those of other users find one of root's.
        let root = tempfile::tempdir().unwrap();
        let (path, owner) = match user {
            0 => (root.path().to_owned(), 4711),
            _ => (PathBuf::from("/usr"), 0),
        };
        if user == 0 {
            std::os::unix::fs::chown(&path, Some(owner), None).unwrap();
        }
        let refused = CacheFolder::open(Some(&path));
        assert!(
            matches!(refused, Err(CacheRefusal::Owner { owner: found, user: us, .. }) if found == owner && us == user),
            "{refused:?}"
        );
    }

    #[test]
    fn free_disk_space_is_known() {
        let root = tempfile::tempdir().unwrap();
        assert!(free_disk_space(root.path()).is_some_and(|free| free > 0));
        assert_eq!(free_disk_space(&root.path().join("missing")), None);
    }

    #[test]
    fn cache_path_must_be_an_absolute_folder() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert!(matches!(
            CacheFolder::open(Some(&file)),
            Err(CacheRefusal::Io { .. })
        ));
        let relative = CacheFolder::open(Some(Path::new("galatea-cache")));
        assert!(
            matches!(relative, Err(CacheRefusal::Relative { .. })),
            "{relative:?}"
        );
        assert!(!Path::new("galatea-cache").exists());
    }
}
