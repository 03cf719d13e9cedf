//! A connection: one session of a database.

use std::collections::HashSet;
use std::sync::Arc;

use adbc_core::constants::ADBC_OPTION_ISOLATION_LEVEL_DEFAULT;
use adbc_core::error::Result;
use adbc_core::options::{InfoCode, ObjectDepth, OptionConnection, OptionValue};
use adbc_core::schemas::GET_TABLE_TYPES_SCHEMA;
use adbc_core::{CancelHandle, Connection, Optionable};
use arrow::array::{RecordBatch, RecordBatchIterator, RecordBatchReader, StringArray};
use arrow::datatypes::Schema;
use datafusion::common::TableReference;
use datafusion::prelude::SessionContext;
use galatea::{EngineSettings, schema_without_views};

use crate::failure::{not_found, of_engine, unsupported, wrong_state};
use crate::info::info;
use crate::objects::{self, Filter, TABLE_TYPES};
use crate::option::{self, Preferences, is_setting};
use crate::running::Running;
use crate::shared::Shared;
use crate::statement::GalateaStatement;

type Batches = Box<dyn RecordBatchReader + Send + 'static>;

/// A connection: a session with its own settings, variables and current schema. Tables, views and macros are
/// those of its database.
pub struct GalateaConnection {
    ctx: SessionContext,
    running: Running,
    preferences: Preferences,
    // Its threads end after the session.
    shared: Arc<Shared>,
}

impl std::fmt::Debug for GalateaConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GalateaConnection")
            .field("preferences", &self.preferences)
            .finish_non_exhaustive()
    }
}

fn reader(batch: RecordBatch) -> Batches {
    let schema = batch.schema();
    Box::new(RecordBatchIterator::new([Ok(batch)], schema))
}

impl GalateaConnection {
    pub(crate) fn new(shared: Arc<Shared>, ctx: SessionContext, preferences: Preferences) -> Self {
        Self {
            ctx,
            running: Running::default(),
            preferences,
            shared,
        }
    }

    fn catalog(&self) -> String {
        self.ctx.copied_config().options().catalog.default_catalog.clone()
    }

    fn schema(&self) -> String {
        self.ctx.copied_config().options().catalog.default_schema.clone()
    }

    /// Changes the configuration of the session. Unlike SET, that does not last in a database.
    fn configure(&self, change: impl FnOnce(&mut datafusion::config::ConfigOptions)) {
        let state = self.ctx.state_ref();
        change(state.write().config_mut().options_mut());
    }

    fn set_catalog(&self, name: String) -> Result<()> {
        let known = self.ctx.catalog_names();
        if !known.contains(&name) {
            return Err(not_found(format!(
                "the catalog {name} does not exist\nhint: catalogs are {}",
                known.join(", ")
            )));
        }
        self.configure(|options| options.catalog.default_catalog = name);
        Ok(())
    }

    fn set_schema(&self, name: String) -> Result<()> {
        let catalog = self.catalog();
        let known = self.ctx.catalog(&catalog).map(|catalog| catalog.schema_names());
        let known = known.unwrap_or_default();
        if !known.contains(&name) {
            return Err(not_found(format!(
                "the catalog {catalog} has no schema {name}\nhint: its schemas are {}",
                known.join(", ")
            )));
        }
        self.configure(|options| options.catalog.default_schema = name);
        Ok(())
    }

    fn set_setting(&self, name: &str, value: &str) -> Result<()> {
        if EngineSettings::contains(name) || name.starts_with("datafusion.runtime.") {
            return Err(wrong_state(format!(
                "{name} belongs to the engine, which the connections of a database share\nhint: set it as an \
                 option of the database"
            )));
        }
        let mut done = Ok(());
        self.configure(|options| done = options.set(name, value));
        done.map_err(|error| of_engine(&error))
    }

    /// The value of a setting, as SHOW returns it.
    fn setting(&self, name: &str) -> Option<String> {
        let config = self.ctx.copied_config();
        let entries = config.options().entries();
        let entry = entries.into_iter().find(|entry| entry.key == name)?;
        Some(entry.value.unwrap_or_default())
    }
}

impl Connection for GalateaConnection {
    type StatementType = GalateaStatement;

    fn new_statement(&mut self) -> Result<GalateaStatement> {
        Ok(GalateaStatement::new(
            Arc::clone(&self.shared),
            self.ctx.clone(),
            self.running.of_statement(),
            self.preferences,
        ))
    }

    fn get_cancel_handle(&self) -> Box<dyn CancelHandle> {
        Box::new(self.running.clone())
    }

    fn get_info(&self, codes: Option<HashSet<InfoCode>>) -> Result<Batches> {
        Ok(reader(info(codes)?))
    }

    fn get_objects(
        &self,
        depth: ObjectDepth,
        catalog: Option<&str>,
        db_schema: Option<&str>,
        table_name: Option<&str>,
        table_type: Option<Vec<&str>>,
        column_name: Option<&str>,
    ) -> Result<Batches> {
        let filter = Filter {
            depth,
            catalog: catalog.map(str::to_owned),
            schema: db_schema.map(str::to_owned),
            table: table_name.map(str::to_owned),
            types: table_type.map(|types| types.into_iter().map(str::to_owned).collect()),
            column: column_name.map(str::to_owned),
        };
        let work = objects::objects(self.ctx.clone(), filter);
        let operation = self.running.begin(&self.shared.threads, self.preferences.timeout);
        Ok(reader(operation.run(work)?))
    }

    fn get_table_schema(
        &self,
        catalog: Option<&str>,
        db_schema: Option<&str>,
        table_name: &str,
    ) -> Result<Schema> {
        let or_current = |given: Option<&str>, current: String| match given {
            Some(name) if !name.is_empty() => name.to_owned(),
            _ => current,
        };
        let name = TableReference::full(
            or_current(catalog, self.catalog()),
            or_current(db_schema, self.schema()),
            table_name,
        );
        let (ctx, wanted) = (self.ctx.clone(), name.clone());
        let operation = self.running.begin(&self.shared.threads, self.preferences.timeout);
        let table = operation.run(async move {
            // A name that is no table may be that of a file.
            match ctx.table_exist(wanted.clone()) {
                Ok(true) => {}
                Ok(false) => return Err(not_found(format!("the table {wanted} does not exist"))),
                // The schema or the catalog does not exist.
                Err(error) => return Err(not_found(of_engine(&error).message)),
            }
            let table = ctx.table_provider(wanted).await;
            table.map_err(|error| of_engine(&error))
        })?;
        let schema = table.schema();
        Ok(match self.preferences.string_views {
            true => Schema::clone(&schema),
            false => Schema::clone(&schema_without_views(&schema)),
        })
    }

    fn get_table_types(&self) -> Result<Batches> {
        let types = StringArray::from(TABLE_TYPES.to_vec());
        let batch = RecordBatch::try_new(GET_TABLE_TYPES_SCHEMA.clone(), vec![Arc::new(types)])?;
        Ok(reader(batch))
    }

    fn get_statistic_names(&self) -> Result<Batches> {
        Err(unsupported("statistics of tables are not supported"))
    }

    fn get_statistics(
        &self,
        _catalog: Option<&str>,
        _db_schema: Option<&str>,
        _table_name: Option<&str>,
        _approximate: bool,
    ) -> Result<Batches> {
        Err(unsupported("statistics of tables are not supported"))
    }

    fn commit(&mut self) -> Result<()> {
        Err(wrong_state(
            "each statement is its own transaction, so there is nothing to commit",
        ))
    }

    fn rollback(&mut self) -> Result<()> {
        Err(wrong_state(
            "each statement is its own transaction, so it cannot be rolled back",
        ))
    }

    fn read_partition(&self, _partition: impl AsRef<[u8]>) -> Result<Batches> {
        Err(unsupported(
            "results have no partitions: the engine runs in this process",
        ))
    }
}

impl Optionable for GalateaConnection {
    type Option = OptionConnection;

    fn set_option(&mut self, key: OptionConnection, value: OptionValue) -> Result<()> {
        let name = key.as_ref();
        if self.preferences.set(name, &value)? {
            return Ok(());
        }
        match key {
            OptionConnection::AutoCommit => match option::truth(name, &value)? {
                true => Ok(()),
                false => Err(unsupported(format!(
                    "transactions of several statements are not supported, so {name} cannot be false"
                ))),
            },
            OptionConnection::ReadOnly => match option::truth(name, &value)? {
                false => Ok(()),
                true => Err(unsupported(format!(
                    "connections that only read are not supported, so {name} cannot be true"
                ))),
            },
            OptionConnection::IsolationLevel => match option::text(name, &value)?.as_str() {
                ADBC_OPTION_ISOLATION_LEVEL_DEFAULT => Ok(()),
                other => Err(unsupported(format!(
                    "each statement is its own transaction, so {name} cannot be {other}"
                ))),
            },
            OptionConnection::CurrentCatalog => self.set_catalog(option::text(name, &value)?),
            OptionConnection::CurrentSchema => self.set_schema(option::text(name, &value)?),
            OptionConnection::Other(name) if is_setting(&name) => {
                self.set_setting(&name, &option::text(&name, &value)?)
            }
            key => Err(option::unknown("connection", key.as_ref())),
        }
    }

    fn get_option_string(&self, key: OptionConnection) -> Result<String> {
        let name = key.as_ref();
        let value = match &key {
            OptionConnection::AutoCommit => Some("true".to_owned()),
            OptionConnection::ReadOnly => Some("false".to_owned()),
            OptionConnection::IsolationLevel => Some(ADBC_OPTION_ISOLATION_LEVEL_DEFAULT.to_owned()),
            OptionConnection::CurrentCatalog => Some(self.catalog()),
            OptionConnection::CurrentSchema => Some(self.schema()),
            _ if is_setting(name) => self.setting(name),
            _ => self.preferences.get(name),
        };
        value.ok_or_else(|| option::no_value("connection", name))
    }

    fn get_option_bytes(&self, key: OptionConnection) -> Result<Vec<u8>> {
        self.get_option_string(key).map(String::into_bytes)
    }

    fn get_option_int(&self, key: OptionConnection) -> Result<i64> {
        let name = key.as_ref().to_owned();
        option::number(&name, &self.get_option_string(key)?)
    }

    fn get_option_double(&self, key: OptionConnection) -> Result<f64> {
        let name = key.as_ref().to_owned();
        option::number(&name, &self.get_option_string(key)?)
    }
}
