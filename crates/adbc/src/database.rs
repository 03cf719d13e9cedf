//! A database: its options, and its connections.

use std::sync::Arc;

use adbc_core::constants::ADBC_OPTION_URI;
use adbc_core::error::Result;
use adbc_core::options::{OptionConnection, OptionDatabase, OptionValue};
use adbc_core::{CancelHandle, Database, Optionable};

use crate::connection::GalateaConnection;
use crate::failure::wrong_state;
use crate::option::{self, Preferences};
use crate::running::Running;
use crate::shared::{Settings, Shared};

/// A database: a folder, or tables in memory. Its connections share tables, views, macros and the engine.
#[derive(Debug)]
pub struct GalateaDatabase {
    shared: Arc<Shared>,
    /// The settings of new connections.
    settings: Settings,
    preferences: Preferences,
    uri: String,
}

impl GalateaDatabase {
    pub(crate) fn new(
        shared: Arc<Shared>,
        settings: Settings,
        preferences: Preferences,
        uri: String,
    ) -> Self {
        Self {
            shared,
            settings,
            preferences,
            uri,
        }
    }
}

impl Database for GalateaDatabase {
    type ConnectionType = GalateaConnection;

    fn new_connection(&self) -> Result<GalateaConnection> {
        self.new_connection_with_opts([])
    }

    fn new_connection_with_opts(
        &self,
        options: impl IntoIterator<Item = (OptionConnection, OptionValue)>,
    ) -> Result<GalateaConnection> {
        let (shared, settings) = (Arc::clone(&self.shared), self.settings.clone());
        let operation = Running::default().begin(&self.shared.threads, None);
        let ctx = operation.run(async move { shared.session(&settings) })?;
        let mut connection = GalateaConnection::new(Arc::clone(&self.shared), ctx, self.preferences);
        let mut options: Vec<_> = options.into_iter().collect();
        // The catalog precedes the schema in it.
        options.sort_by_key(|(key, _)| (*key != OptionConnection::CurrentCatalog, key.as_ref().to_owned()));
        for (key, value) in options {
            connection.set_option(key, value)?;
        }
        Ok(connection)
    }

    fn get_cancel_handle(&self) -> Box<dyn CancelHandle> {
        // A database runs nothing between its calls.
        Box::new(Running::default())
    }
}

impl Optionable for GalateaDatabase {
    type Option = OptionDatabase;

    fn set_option(&mut self, key: OptionDatabase, value: OptionValue) -> Result<()> {
        let key = key.as_ref();
        if self.preferences.set(key, &value)? {
            return Ok(());
        }
        Err(wrong_state(format!(
            "the option {key} cannot change after the database was opened\nhint: set it before, or set \
             settings of a session on its connection"
        )))
    }

    fn get_option_string(&self, key: OptionDatabase) -> Result<String> {
        let key = key.as_ref();
        if key == ADBC_OPTION_URI {
            return Ok(self.uri.clone());
        }
        let known = self.preferences.get(key);
        let known = known.or_else(|| {
            let setting = self.settings.iter().find(|(name, _)| name == key);
            setting.map(|(_, value)| value.clone())
        });
        known.ok_or_else(|| option::no_value("database", key))
    }

    fn get_option_bytes(&self, key: OptionDatabase) -> Result<Vec<u8>> {
        self.get_option_string(key).map(String::into_bytes)
    }

    fn get_option_int(&self, key: OptionDatabase) -> Result<i64> {
        let name = key.as_ref().to_owned();
        option::number(&name, &self.get_option_string(key)?)
    }

    fn get_option_double(&self, key: OptionDatabase) -> Result<f64> {
        let name = key.as_ref().to_owned();
        option::number(&name, &self.get_option_string(key)?)
    }
}
