//! The catalog: one file, which names everything that a database contains.
//!
//! Its first line has the format and a checksum of the rest, which is JSON. It is replaced as a whole: the
//! new version is written beside it and synced, and one rename publishes it. So a reader finds either
//! version, and a torn write is an unpublished file.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::error::{DatabaseError, Result};

/// The name of the file in the folder of the database.
pub(super) const NAME: &str = "catalog";
/// The name of the next version.
const NEXT: &str = "catalog.next";
/// The first word of the file.
const MARK: &str = "galatea-database";
/// The format that this version reads and writes.
const FORMAT: u32 = 1;

/// The content of a database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Catalog {
    /// The number of the next file.
    pub(super) next_file: u64,
    pub(super) schemas: BTreeMap<String, SchemaEntry>,
    /// Macros: the statements that create them, by name.
    #[serde(default)]
    pub(super) macros: BTreeMap<String, String>,
    /// Settings of the session, by name.
    #[serde(default)]
    pub(super) settings: BTreeMap<String, String>,
}

/// The tables and views of a schema, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SchemaEntry {
    pub(super) tables: BTreeMap<String, TableEntry>,
}

/// A table or a view.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum TableEntry {
    /// Rows in Parquet files.
    Table(StoredEntry),
    /// `CREATE VIEW`, executed for each use.
    View {
        /// The statement.
        sql: String,
    },
    /// `CREATE EXTERNAL TABLE`, executed at the first use.
    External {
        /// The statement.
        sql: String,
    },
}

/// A table with its files. It has at least one, which has its schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StoredEntry {
    pub(super) files: Vec<FileEntry>,
    /// Defaults of columns as SQL, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) defaults: BTreeMap<String, String>,
    /// Keys, as the numbers of their columns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) keys: Vec<KeyEntry>,
}

/// A key of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum KeyEntry {
    Primary(Vec<usize>),
    Unique(Vec<usize>),
}

/// A file of a table. It never changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileEntry {
    /// The number, which is its name.
    pub(super) number: u64,
    pub(super) bytes: u64,
    pub(super) rows: u64,
}

/// Whether a folder is a database of Galatea. False if it does not exist or cannot be read.
pub fn is_database(folder: &Path) -> bool {
    use std::io::Read as _;
    let mut begin = [0; MARK.len()];
    let read = File::open(folder.join(NAME)).and_then(|mut file| file.read_exact(&mut begin));
    read.is_ok() && begin == *MARK.as_bytes()
}

impl Catalog {
    /// A catalog with one empty schema.
    pub(super) fn new(schema: &str) -> Self {
        Self {
            next_file: 1,
            schemas: BTreeMap::from([(schema.to_owned(), SchemaEntry::default())]),
            macros: BTreeMap::new(),
            settings: BTreeMap::new(),
        }
    }

    /// The numbers of all files.
    pub(super) fn files(&self) -> impl Iterator<Item = u64> {
        let tables = self.schemas.values().flat_map(|schema| schema.tables.values());
        let stored = tables.filter_map(|table| match table {
            TableEntry::Table(stored) => Some(stored),
            _ => None,
        });
        stored.flat_map(|stored| stored.files.iter().map(|file| file.number))
    }

    /// Reads the catalog of a folder; `None` if it has none.
    pub(super) fn read(folder: &Path) -> Result<Option<Self>> {
        let path = folder.join(NAME);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(None),
            Err(cause) => return Err(DatabaseError::io("read", &path)(cause)),
        };
        let damaged = |problem: String| DatabaseError::Damaged {
            path: path.clone(),
            problem,
        };
        let end = text.iter().position(|byte| *byte == b'\n');
        let (head, body) = text.split_at(end.map_or(text.len(), |end| end + 1));
        let head = String::from_utf8_lossy(head);
        let words: Vec<&str> = head.split_whitespace().collect();
        let [MARK, format, checksum] = words.as_slice() else {
            return Err(DatabaseError::Foreign {
                path: folder.to_owned(),
                problem: format!("its file '{NAME}' does not begin with '{MARK}'"),
            });
        };
        match format.parse() {
            Ok(FORMAT) => {}
            Ok(found) => {
                return Err(DatabaseError::Version {
                    path: folder.to_owned(),
                    found,
                    known: FORMAT,
                });
            }
            Err(_) => return Err(damaged(format!("'{format}' is no number of a format"))),
        }
        if blake3::hash(body).to_hex().as_str() != *checksum {
            return Err(damaged(
                "its checksum does not match its content: the file is cut off or was changed".to_owned(),
            ));
        }
        let read = serde_json::from_slice(body).map_err(|cause| damaged(cause.to_string()))?;
        Ok(Some(read))
    }

    /// Publishes the catalog. All files that it names have been synced.
    pub(super) fn publish(&self, folder: &Path) -> Result<()> {
        let (path, next) = (folder.join(NAME), folder.join(NEXT));
        let mut body = serde_json::to_vec_pretty(self).map_err(|cause| DatabaseError::Damaged {
            path: path.clone(),
            problem: cause.to_string(),
        })?;
        body.push(b'\n');
        let head = format!("{MARK} {FORMAT} {}\n", blake3::hash(&body).to_hex());
        let write = || {
            let mut file = File::create(&next)?;
            file.write_all(head.as_bytes())?;
            file.write_all(&body)?;
            file.sync_all()
        };
        write().map_err(DatabaseError::io("write", &next))?;
        fs::rename(&next, &path).map_err(DatabaseError::io("replace", &path))?;
        sync_folder(folder)
    }
}

/// Syncs the renames and new files of a folder to disk.
pub(super) fn sync_folder(folder: &Path) -> Result<()> {
    let sync = || File::open(folder)?.sync_all();
    sync().map_err(DatabaseError::io("sync", folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Catalog {
        let mut catalog = Catalog::new("public");
        let stored = StoredEntry {
            files: vec![FileEntry {
                number: 1,
                bytes: 10,
                rows: 2,
            }],
            defaults: BTreeMap::from([("a".to_owned(), "1 + 2".to_owned())]),
            keys: vec![KeyEntry::Primary(vec![0])],
        };
        let schema = catalog.schemas.get_mut("public").expect("a schema");
        schema
            .tables
            .insert("t \"x\"".to_owned(), TableEntry::Table(stored));
        let sql = "CREATE VIEW v AS SELECT 'ä\n'".to_owned();
        schema.tables.insert("v".to_owned(), TableEntry::View { sql });
        catalog
    }

    #[test]
    fn catalog_is_read_as_published() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(Catalog::read(folder.path()).expect("no catalog"), None);
        let catalog = sample();
        catalog.publish(folder.path()).expect("published");
        assert_eq!(Catalog::read(folder.path()).expect("read"), Some(catalog.clone()));
        assert_eq!(catalog.files().collect::<Vec<_>>(), [1]);
        assert!(!folder.path().join(NEXT).exists());
    }

    /// A catalog that is cut off at any byte, or has a changed byte, is refused.
    #[test]
    fn torn_catalogs_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        sample().publish(folder.path()).expect("published");
        let path = folder.path().join(NAME);
        let whole = fs::read(&path).expect("a file");
        for length in 0..whole.len() {
            fs::write(&path, &whole[..length]).expect("cut");
            assert!(Catalog::read(folder.path()).is_err(), "{length} bytes");
        }
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            fs::write(&path, &changed).expect("changed");
            // A changed space of the first line has no meaning.
            let is_space = whole[at].is_ascii_whitespace() && at < 100;
            assert!(is_space || Catalog::read(folder.path()).is_err(), "byte {at}");
        }
        fs::write(&path, "galatea-database 7 abc\n{}").expect("written");
        let error = Catalog::read(folder.path()).expect_err("a later format");
        assert!(
            matches!(
                error,
                DatabaseError::Version {
                    found: 7,
                    known: 1,
                    ..
                }
            ),
            "{error}"
        );
        fs::write(&path, "SQLite format 3\0").expect("written");
        let error = Catalog::read(folder.path()).expect_err("another file");
        assert!(matches!(error, DatabaseError::Foreign { .. }), "{error}");
    }
}
