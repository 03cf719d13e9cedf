//! The driver: opens databases.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use adbc_core::Driver;
use adbc_core::constants::ADBC_OPTION_URI;
use adbc_core::error::Result;
use adbc_core::options::{OptionDatabase, OptionValue};
use parking_lot::Mutex;

use crate::database::GalateaDatabase;
use crate::failure::{invalid, wrong_state};
use crate::option::{self, Preferences, is_setting};
use crate::shared::{Settings, Shared, engine_settings};

/// The option that names the folder of a database, beside `uri`.
const PATH: &str = "path";

/// The driver.
#[derive(Debug, Default)]
pub struct GalateaDriver;

/// The open databases on disk of this process by their folders. One process may open a folder several times,
/// and its databases then share tables and the engine.
static OPEN: Mutex<Option<HashMap<PathBuf, Weak<Shared>>>> = Mutex::new(None);

impl Driver for GalateaDriver {
    type DatabaseType = GalateaDatabase;

    fn new_database(&mut self) -> Result<GalateaDatabase> {
        self.new_database_with_opts([])
    }

    fn new_database_with_opts(
        &mut self,
        options: impl IntoIterator<Item = (OptionDatabase, OptionValue)>,
    ) -> Result<GalateaDatabase> {
        let options = Options::read(options)?;
        let folder = options.folder()?;
        let Options {
            settings,
            preferences,
            uri,
            ..
        } = options;
        let shared = match folder {
            Some(folder) => open(&folder, &settings)?,
            None => Shared::open(None, &settings)?,
        };
        Ok(GalateaDatabase::new(
            shared,
            settings,
            preferences,
            uri.unwrap_or_default(),
        ))
    }
}

/// The options of a new database.
#[derive(Debug, Default)]
struct Options {
    uri: Option<String>,
    path: Option<String>,
    settings: Settings,
    preferences: Preferences,
}

impl Options {
    fn read(options: impl IntoIterator<Item = (OptionDatabase, OptionValue)>) -> Result<Self> {
        let mut read = Self::default();
        for (key, value) in options {
            let key = key.as_ref();
            if read.preferences.set(key, &value)? {
                continue;
            }
            let text = option::text(key, &value)?;
            match key {
                ADBC_OPTION_URI => read.uri = Some(text),
                PATH => read.path = Some(text),
                _ if is_setting(key) => read.settings.push((key.to_owned(), text)),
                _ => return Err(option::unknown("database", key)),
            }
        }
        // A driver manager passes options in any order.
        read.settings.sort();
        Ok(read)
    }

    /// The folder of the database; `None` for one in memory.
    fn folder(&self) -> Result<Option<PathBuf>> {
        let from_uri = self.uri.as_deref().and_then(folder_of);
        let from_path = self.path.as_deref().and_then(folder_of);
        match (from_uri, from_path) {
            (Some(uri), Some(path)) if uri != path => Err(invalid(format!(
                "the options uri and path name two databases, '{}' and '{}'\nhint: set one of them",
                uri.display(),
                path.display()
            ))),
            (uri, path) => Ok(uri.or(path)),
        }
    }
}

/// The folder that an address names: a path, `galatea:PATH`, `galatea:///PATH` or `file:///PATH`; `None` for
/// a database in memory: an empty address or `:memory:`.
fn folder_of(address: &str) -> Option<PathBuf> {
    let rest = ["galatea:", "file:"]
        .iter()
        .find_map(|scheme| address.strip_prefix(scheme));
    let path = match rest {
        Some(rest) => rest.strip_prefix("//").unwrap_or(rest),
        None => address,
    };
    match path {
        "" | ":memory:" => None,
        path => Some(PathBuf::from(path)),
    }
}

/// Opens the database of a folder, or returns the open one.
fn open(folder: &Path, settings: &Settings) -> Result<Arc<Shared>> {
    let mut open = OPEN.lock();
    let open = open.get_or_insert_default();
    open.retain(|_, shared| shared.strong_count() > 0);
    // A new database has no folder yet.
    let known = folder.canonicalize().ok();
    if let Some(shared) = known.and_then(|known| open.get(&known)?.upgrade()) {
        let own = engine_settings(settings);
        return match own.is_empty() || own == shared.engine_settings {
            true => Ok(shared),
            false => Err(wrong_state(format!(
                "the database '{}' is open in this process with other settings of the engine: {} instead of {}\n\
                 hint: open it with the same settings, or close it first",
                folder.display(),
                written(&shared.engine_settings),
                written(&own)
            ))),
        };
    }
    let shared = Shared::open(Some(folder), settings)?;
    if let Ok(folder) = folder.canonicalize() {
        open.insert(folder, Arc::downgrade(&shared));
    }
    Ok(shared)
}

fn written(settings: &Settings) -> String {
    let all: Vec<_> = settings
        .iter()
        .map(|(name, value)| format!("{name} = {value}"))
        .collect();
    match all.is_empty() {
        true => "the defaults".to_owned(),
        false => all.join(", "),
    }
}
