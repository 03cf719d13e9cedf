//! Roles: the tables, files and statements that are granted to a client, and its limits.

use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use crate::failure::Failure;

/// Limits of a client; `None` is unlimited.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Limits {
    /// Bytes of host memory for all queries of a user together.
    pub(crate) memory: Option<usize>,
    /// Time of one query, from its arrival to its last row.
    pub(crate) time: Option<Duration>,
    /// Rows of one result.
    pub(crate) rows: Option<u64>,
    /// Concurrent queries of a user.
    pub(crate) queries: Option<usize>,
}

/// The grants of a client. Everything else is refused.
#[derive(Debug, Clone)]
pub(crate) struct Role {
    /// The name in the configuration.
    pub(crate) name: String,
    /// Patterns of the names of visible tables. `*` matches any characters.
    pub(crate) tables: Vec<String>,
    /// Folders of the files that queries may name. Absolute, without symbolic links.
    pub(crate) folders: Vec<PathBuf>,
    /// CREATE TABLE, CREATE VIEW, INSERT, UPDATE, DELETE, ALTER and DROP of visible tables.
    pub(crate) write: bool,
    /// Folders of the files that COPY may write. Absolute, without symbolic links.
    pub(crate) copy_to: Vec<PathBuf>,
    /// CREATE EXTERNAL TABLE over files below `folders`.
    pub(crate) external_tables: bool,
    /// ALTER SYSTEM.
    pub(crate) alter_system: bool,
    /// `galatea.device = 'emulated'`.
    pub(crate) emulated_device: bool,
    /// On the page: the statements of all users, and their cancellation.
    pub(crate) admin: bool,
    pub(crate) limits: Limits,
}

/// Whether `name` matches a pattern. `*` matches any characters.
fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else {
        return false;
    };
    let mut parts = parts.peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.is_empty()
}

impl Role {
    /// The role of all clients of a server without users: all tables, with writes; no files.
    pub(crate) fn local(limits: Limits, emulated_device: bool) -> Self {
        Self {
            name: "local".to_string(),
            tables: vec!["*".to_string()],
            folders: Vec::new(),
            write: true,
            copy_to: Vec::new(),
            external_tables: false,
            alter_system: false,
            emulated_device,
            admin: true,
            limits,
        }
    }

    /// Whether all tables are visible.
    pub(crate) fn sees_all(&self) -> bool {
        self.tables.iter().any(|pattern| pattern == "*")
    }

    /// Whether a table of this name is visible.
    pub(crate) fn sees(&self, table: &str) -> bool {
        self.tables.iter().any(|pattern| matches(pattern, table))
    }

    /// Checks that a query may read the file, the folder, or the files of a pattern.
    pub(crate) fn check_readable(&self, path: &str) -> Result<(), Failure> {
        let refused = || {
            Failure::denied(format!(
                "the role {} has no access to the file '{path}'\nhint: the administrator grants folders by roles.{}.folders",
                self.name, self.name
            ))
        };
        // The part before a pattern is a folder.
        let fixed = path.find(['*', '?', '[', '{']).map_or(path, |at| {
            let before = &path[..at];
            &before[..before.rfind('/').map_or(0, |slash| slash + 1)]
        });
        match Self::resolved(path, fixed) {
            Some(real) if self.folders.iter().any(|folder| real.starts_with(folder)) => Ok(()),
            _ => Err(refused()),
        }
    }

    /// Checks that COPY may write the file or the folder.
    pub(crate) fn check_writable(&self, path: &str) -> Result<(), Failure> {
        match Self::resolved(path, path) {
            Some(real) if self.copy_to.iter().any(|folder| real.starts_with(folder)) => Ok(()),
            _ => Err(Failure::denied(format!(
                "the role {} may not write the file '{path}'\nhint: the administrator grants folders by roles.{}.copy_to",
                self.name, self.name
            ))),
        }
    }

    /// The absolute path of `fixed` without symbolic links; `None` if it cannot be determined. Components
    /// that do not exist are kept. The rest of `path` may not leave the folder.
    fn resolved(path: &str, fixed: &str) -> Option<PathBuf> {
        let climbs = Path::new(path)
            .components()
            .any(|part| part == Component::ParentDir);
        // Other programs expand these characters.
        if climbs || path.contains("://") || path.starts_with('~') || path.contains(['\\', '\0']) {
            return None;
        }
        let absolute = std::path::absolute(if fixed.is_empty() { "." } else { fixed }).ok()?;
        let mut missing = Vec::new();
        let mut existing = absolute.as_path();
        loop {
            // A dangling link has no canonical path, but it exists.
            if existing.symlink_metadata().is_ok() {
                let mut real = existing.canonicalize().ok()?;
                real.extend(missing.iter().rev());
                return Some(real);
            }
            missing.push(existing.file_name()?.to_owned());
            existing = existing.parent()?;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn patterns_match() {
        for (pattern, name, expected) in [
            ("*", "a", true),
            ("a", "a", true),
            ("a", "ab", false),
            ("a*", "ab", true),
            ("*b", "ab", true),
            ("a*c*e", "abcde", true),
            ("a*c*e", "abde", false),
            ("a*a", "a", false),
            ("", "a", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn paths_outside_of_granted_folders_are_refused() {
        let root = tempfile::tempdir().unwrap();
        let real = root.path().canonicalize().unwrap();
        let (open, closed) = (real.join("open"), real.join("closed"));
        fs::create_dir_all(open.join("year=1")).unwrap();
        fs::create_dir_all(&closed).unwrap();
        fs::create_dir_all(real.join("open-too")).unwrap();
        fs::write(open.join("a.csv"), "a\n1\n").unwrap();
        fs::write(closed.join("a.csv"), "a\n1\n").unwrap();
        std::os::unix::fs::symlink(&closed, open.join("link")).unwrap();
        std::os::unix::fs::symlink(closed.join("new.csv"), open.join("new.csv")).unwrap();
        let role = Role {
            folders: vec![open.clone()],
            copy_to: vec![open.clone()],
            ..Role::local(Limits::default(), false)
        };
        let at = |path: &str| real.join(path).to_string_lossy().into_owned();
        for path in [
            "open/a.csv",
            "open",
            "open/",
            "open/*.csv",
            "open/year=*/*.csv",
            "open/**/*.csv",
            "open/absent.csv",
        ] {
            assert!(role.check_readable(&at(path)).is_ok(), "{path}");
        }
        for path in [
            "closed/a.csv",
            "open-too/a.csv",
            "open/../closed/a.csv",
            "open/*/../../closed/*.csv",
            "open/link/a.csv",
            "open/new.csv",
            "*/a.csv",
            "op*/a.csv",
            "",
        ] {
            assert!(role.check_readable(&at(path)).is_err(), "{path}");
        }
        for path in [
            "/etc/passwd",
            "a.csv",
            "~/a.csv",
            "file:///etc/passwd",
            "s3://bucket/a.csv",
            "**/*.csv",
        ] {
            assert!(role.check_readable(path).is_err(), "{path}");
        }
        assert!(role.check_writable(&at("open/out/b.csv")).is_ok());
        for path in ["open/link/b.csv", "open/new.csv", "closed/b.csv", "open/../b.csv"] {
            assert!(role.check_writable(&at(path)).is_err(), "{path}");
        }
        let none = Role::local(Limits::default(), false);
        assert!(
            none.check_readable(&at("open/a.csv")).is_err()
                && none.check_writable(&at("open/b.csv")).is_err()
        );
    }
}
