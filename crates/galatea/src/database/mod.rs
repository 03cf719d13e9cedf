//! Databases: folders with tables, views, macros and settings that last.
//!
//! ```text
//! my.db/catalog       names all else; replaced by one rename                       catalog_file
//! my.db/lock          one process at a time                                        lock
//! my.db/data/N.parquet   rows of tables; a file never changes                       files
//! ```
//!
//! A statement writes and syncs new files first, and then publishes a catalog that names them. Until then the
//! former catalog is valid, so a process that is killed at any time leaves the state before the statement or
//! after it. Files that no catalog names are removed when the database is opened and closed.
//!
//! A session's default catalog is a [`DatabaseCatalog`](provider::DatabaseCatalog). DataFusion registers and
//! removes tables there; each change is published, or several with the end of their statement
//! ([`statement`]). A table is read as a table of files. [`insert`] adds files to it, and [`change`] replaces
//! them.

mod catalog_file;
mod change;
mod definition;
mod error;
mod files;
mod insert;
mod lock;
mod prepared;
mod provider;
mod statement;

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use datafusion::datasource::listing::{ListingOptions, ListingTable, ListingTableConfig};
use datafusion::error::Result as PlanResult;
use datafusion::execution::session_state::SessionState;
use datafusion::prelude::SessionContext;
use parking_lot::{Mutex, RwLock};

pub use self::catalog_file::is_database;
use self::catalog_file::{Catalog, SchemaEntry, StoredEntry, TableEntry};
pub use self::error::DatabaseError;
use self::error::Result;
use self::lock::Lock;
use crate::file_paths::location;
use crate::formats::ParquetTables;
use crate::views::{Name, PlannedViews, Planner};

pub(crate) use self::statement::{execute, is_stored, kept_macro, kept_setting, renamed, with_targets};

/// Number of files of a table at which an INSERT merges the small ones.
const MANY_FILES: usize = 32;

/// An open database.
pub(crate) struct Database {
    folder: PathBuf,
    state: Mutex<State>,
    /// Held by one statement that changes the database at a time.
    writer: tokio::sync::Mutex<()>,
    /// The views over the tables of the catalog.
    views: PlannedViews,
    /// The session of the database, and the planner of its views.
    session: Mutex<Option<(Weak<RwLock<SessionState>>, Planner)>>,
    _lock: Lock,
}

/// The catalog in memory.
struct State {
    catalog: Catalog,
    /// Tables that have been resolved.
    tables: HashMap<Name, Arc<dyn TableProvider>>,
    /// The columns that views had when they were planned last.
    view_columns: HashMap<Name, SchemaRef>,
    /// The catalog before the running statement. The end of the statement publishes its changes.
    before: Option<Catalog>,
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Database")
            .field("folder", &self.folder)
            .finish_non_exhaustive()
    }
}

impl Database {
    /// Opens the database of a folder, or creates it in a new or an empty folder, with an empty schema.
    pub(crate) fn open(folder: &Path, schema: &str) -> Result<Arc<Self>> {
        let foreign = |problem: &str| DatabaseError::Foreign {
            path: folder.to_owned(),
            problem: problem.to_owned(),
        };
        if folder.exists() && !folder.is_dir() {
            return Err(foreign("it is a file"));
        }
        let is_new = !folder.join(catalog_file::NAME).exists();
        if is_new && folder.exists() && holds_other_files(folder)? {
            return Err(foreign("the folder has other files and no catalog"));
        }
        fs::create_dir_all(folder).map_err(DatabaseError::io("create", folder))?;
        // Relative paths depend on the current folder, which may change.
        let folder = folder.canonicalize().map_err(DatabaseError::io("open", folder))?;
        let lock = Lock::acquire(&folder)?;
        let data = folder.join(files::FOLDER);
        fs::create_dir_all(&data).map_err(DatabaseError::io("create", &data))?;
        let catalog = match Catalog::read(&folder)? {
            Some(catalog) => catalog,
            None => {
                let catalog = Catalog::new(schema);
                catalog.publish(&folder)?;
                catalog
            }
        };
        for (schema, entry) in &catalog.schemas {
            for (table, entry) in &entry.tables {
                let TableEntry::Table(stored) = entry else {
                    continue;
                };
                for file in &stored.files {
                    files::check(
                        &format!("{schema}.{table}"),
                        &files::path(&folder, file.number),
                        file,
                    )?;
                }
            }
        }
        let database = Self {
            folder,
            state: Mutex::new(State {
                catalog,
                tables: HashMap::new(),
                view_columns: HashMap::new(),
                before: None,
            }),
            writer: tokio::sync::Mutex::new(()),
            views: PlannedViews::default(),
            session: Mutex::default(),
            _lock: lock,
        };
        database.remove_unnamed();
        Ok(Arc::new(database))
    }

    /// Registers the database as the default catalog of a session. `planner` plans the statements of its
    /// views.
    pub(crate) fn attach(self: &Arc<Self>, ctx: &SessionContext, planner: Planner) {
        *self.session.lock() = Some((ctx.state_weak_ref(), planner));
        let name = ctx.copied_config().options().catalog.default_catalog.clone();
        ctx.register_catalog(name, Arc::new(provider::DatabaseCatalog(Arc::clone(self))));
    }

    /// The statements that create the macros of the database.
    pub(crate) fn macros(&self) -> Vec<String> {
        self.state.lock().catalog.macros.values().cloned().collect()
    }

    /// The settings of the database.
    pub(crate) fn settings(&self) -> Vec<(String, String)> {
        let state = self.state.lock();
        let settings = state.catalog.settings.iter();
        settings
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    }

    /// Changes the catalog, and publishes it unless a statement runs, which publishes it at its end.
    fn change<T>(&self, change: impl FnOnce(&mut Catalog) -> Result<T>) -> Result<T> {
        let mut state = self.state.lock();
        let mut next = state.catalog.clone();
        let done = change(&mut next)?;
        if state.before.is_none() && next != state.catalog {
            next.publish(&self.folder)?;
        }
        // The table of a changed entry is created again when it is next used.
        let same = |(schema, table): &Name| {
            let entry = |catalog: &Catalog| catalog.schemas.get(schema)?.tables.get(table).cloned();
            entry(&state.catalog) == entry(&next)
        };
        let changed: Vec<Name> = state.tables.keys().filter(|name| !same(name)).cloned().collect();
        for name in changed {
            state.tables.remove(&name);
        }
        if state.catalog != next {
            self.views.forget();
        }
        state.catalog = next;
        Ok(done)
    }

    /// Begins a statement. [`end`](Self::end) publishes its changes.
    fn begin(&self) {
        let mut state = self.state.lock();
        state.before = Some(state.catalog.clone());
    }

    /// Ends a statement: publishes its changes, or takes them back if it has failed.
    fn end(&self, succeeded: bool) -> Result<()> {
        let mut state = self.state.lock();
        let Some(before) = state.before.take() else {
            return Ok(());
        };
        let published = match succeeded && state.catalog != before {
            true => state.catalog.publish(&self.folder),
            false => Ok(()),
        };
        if !succeeded || published.is_err() {
            // Numbers of files are not used again: their files may exist.
            let next_file = state.catalog.next_file;
            state.catalog = Catalog { next_file, ..before };
            state.tables.clear();
            self.views.forget();
        }
        published
    }

    /// The number of a new file.
    fn next_file(&self) -> u64 {
        let mut state = self.state.lock();
        let number = state.catalog.next_file;
        state.catalog.next_file += 1;
        number
    }

    /// Removes files that the catalog does not name.
    fn remove_unnamed(&self) {
        let named: BTreeSet<u64> = self.state.lock().catalog.files().collect();
        files::remove_others(&self.folder, &named);
    }

    /// The current entry of a table.
    fn entry(&self, (schema, table): &Name) -> Option<TableEntry> {
        let state = self.state.lock();
        state.catalog.schemas.get(schema)?.tables.get(table).cloned()
    }

    /// The session's state, and the planner.
    fn session(&self) -> PlanResult<(SessionState, Planner)> {
        let session = self.session.lock().clone();
        let session = session.and_then(|(state, planner)| Some((state.upgrade()?, planner)));
        match session {
            Some((state, planner)) => {
                let state = state.read().clone();
                Ok((state, planner))
            }
            None => Err(DatabaseError::Schema("the session of the database has ended".to_owned()).into()),
        }
    }

    /// The table of files. It stays one object until its files change, so plans over it are reused.
    fn stored(
        &self,
        name: &Name,
        entry: &StoredEntry,
        state: &SessionState,
    ) -> PlanResult<Arc<dyn TableProvider>> {
        if let Some(known) = self.state.lock().tables.get(name) {
            return Ok(Arc::clone(known));
        }
        let table = Arc::new(self.listing(&name.1, entry, state)?);
        let mut locked = self.state.lock();
        let tables = locked.catalog.schemas.get(&name.0).map(|schema| &schema.tables);
        // The table may have changed in between.
        if tables.and_then(|tables| tables.get(&name.1)) == Some(&TableEntry::Table(entry.clone())) {
            locked
                .tables
                .insert(name.clone(), Arc::clone(&table) as Arc<dyn TableProvider>);
        }
        Ok(table)
    }

    fn listing(&self, table: &str, entry: &StoredEntry, state: &SessionState) -> PlanResult<ListingTable> {
        let schema = self.schema(table, entry)?;
        let paths = entry
            .files
            .iter()
            .map(|file| files::path(&self.folder, file.number));
        let urls = paths
            .map(|path| location(&path))
            .collect::<PlanResult<Vec<_>>>()?;
        let format = ParquetTables::new(state.default_table_options().parquet);
        let options = ListingOptions::new(Arc::new(format)).with_file_extension(files::EXTENSION);
        let config = ListingTableConfig::new_with_multi_paths(urls)
            .with_listing_options(options)
            .with_schema(schema);
        let listing = ListingTable::try_new(config)?
            .with_column_defaults(definition::defaults(&entry.defaults, state)?);
        Ok(listing)
    }

    /// The schema of a table.
    fn schema(&self, table: &str, entry: &StoredEntry) -> Result<SchemaRef> {
        match entry.files.first() {
            Some(file) => files::schema(table, &files::path(&self.folder, file.number)),
            None => Err(DatabaseError::Schema(format!("the table {table} has no file"))),
        }
    }

    /// Names a new table or view in the catalog.
    fn add(&self, (schema, table): &Name, entry: TableEntry) -> Result<()> {
        self.change(|catalog| {
            let unknown = || DatabaseError::Schema(format!("no such schema: {schema}"));
            let known = catalog.schemas.get_mut(schema).ok_or_else(unknown)?;
            if known.tables.contains_key(table) {
                return Err(DatabaseError::Schema(format!("the table {table} already exists")));
            }
            known.tables.insert(table.clone(), entry);
            Ok(())
        })
    }

    /// Gives a table or view another name. Returns whether it existed.
    fn rename(&self, (schema, table): &Name, (new_schema, new): &Name) -> Result<bool> {
        self.change(|catalog| {
            let unknown = || DatabaseError::Schema(format!("no such schema: {new_schema}"));
            if !catalog.schemas.contains_key(new_schema) {
                return Err(unknown());
            }
            let known = catalog.schemas.get_mut(schema);
            let Some(entry) = known.and_then(|known| known.tables.remove(table)) else {
                return Ok(false);
            };
            let target = catalog.schemas.get_mut(new_schema).ok_or_else(unknown)?;
            target.tables.insert(new.clone(), entry);
            Ok(true)
        })
    }

    /// Removes a table or view from the catalog. Returns whether it existed.
    fn remove(&self, (schema, table): &Name) -> Result<bool> {
        self.change(|catalog| {
            let schema = catalog.schemas.get_mut(schema);
            Ok(schema.and_then(|schema| schema.tables.remove(table)).is_some())
        })
    }

    /// Replaces the files of a table by `files`, if they are still those of `expected`.
    fn replace_files(
        &self,
        name: &Name,
        expected: &StoredEntry,
        files: Vec<catalog_file::FileEntry>,
    ) -> Result<()> {
        self.change(|catalog| {
            let schema = catalog.schemas.get_mut(&name.0);
            match schema.and_then(|schema| schema.tables.get_mut(&name.1)) {
                Some(TableEntry::Table(stored)) if stored == expected => {
                    stored.files = files;
                    Ok(())
                }
                _ => Err(DatabaseError::Schema(format!(
                    "the table {} was changed or dropped by another statement while this one wrote its rows",
                    name.1
                ))),
            }
        })
    }

    fn schema_names(&self) -> Vec<String> {
        self.state.lock().catalog.schemas.keys().cloned().collect()
    }

    fn table_names(&self, schema: &str) -> Vec<String> {
        let state = self.state.lock();
        let tables = state
            .catalog
            .schemas
            .get(schema)
            .map(|schema| schema.tables.keys().cloned());
        tables.map(Iterator::collect).unwrap_or_default()
    }

    fn add_schema(&self, name: &str) -> Result<()> {
        self.change(|catalog| {
            catalog
                .schemas
                .entry(name.to_owned())
                .or_insert_with(SchemaEntry::default);
            Ok(())
        })
    }

    /// Removes a schema. A schema with tables is removed only with `cascade`. Returns whether it existed.
    fn remove_schema(&self, name: &str, cascade: bool) -> Result<bool> {
        self.state.lock().tables.retain(|(schema, _), _| schema != name);
        self.change(|catalog| match catalog.schemas.get(name) {
            Some(schema) if !schema.tables.is_empty() && !cascade => {
                let tables: Vec<&str> = schema.tables.keys().map(String::as_str).collect();
                Err(DatabaseError::Schema(format!(
                    "the schema {name} has tables: {}\nhint: DROP SCHEMA {name} CASCADE drops them, too",
                    tables.join(", ")
                )))
            }
            found => {
                let found = found.is_some();
                catalog.schemas.remove(name);
                Ok(found)
            }
        })
    }

    /// Keeps a macro with its statement, or forgets it.
    fn keep_macro(&self, name: &str, text: Option<&str>) -> Result<()> {
        self.change(|catalog| {
            match text {
                Some(text) => catalog.macros.insert(name.to_owned(), text.to_owned()),
                None => catalog.macros.remove(name),
            };
            Ok(())
        })
    }

    /// Keeps a setting with its value, or forgets it.
    fn keep_setting(&self, name: &str, value: Option<&str>) -> Result<()> {
        self.change(|catalog| {
            match value {
                Some(value) => catalog.settings.insert(name.to_owned(), value.to_owned()),
                None => catalog.settings.remove(name),
            };
            Ok(())
        })
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        self.remove_unnamed();
    }
}

/// Whether a folder has files that do not belong to a database which was being created.
fn holds_other_files(folder: &Path) -> Result<bool> {
    let entries = fs::read_dir(folder).map_err(DatabaseError::io("read", folder))?;
    for entry in entries {
        let entry = entry.map_err(DatabaseError::io("read", folder))?;
        let name = entry.file_name();
        let is_ours = ["lock", "catalog.next", files::FOLDER]
            .iter()
            .any(|own| name == *own);
        if !is_ours {
            return Ok(true);
        }
    }
    Ok(false)
}
