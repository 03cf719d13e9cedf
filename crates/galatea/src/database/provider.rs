//! The database as a catalog of DataFusion: schemas, tables and views.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, SchemaProvider, TableProvider};
use datafusion::common::TableReference;
use datafusion::datasource::listing::ListingTable;
use datafusion::datasource::{MemTable, TableType, ViewTable};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::DdlStatement;

use super::catalog_file::{StoredEntry, TableEntry};
use super::error::DatabaseError;
use super::files::TableWriter;
use super::{Database, Name, definition};
use crate::views;

/// The catalog of a database.
#[derive(Debug)]
pub(super) struct DatabaseCatalog(pub(super) Arc<Database>);

impl CatalogProvider for DatabaseCatalog {
    fn schema_names(&self) -> Vec<String> {
        self.0.schema_names()
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        let exists = self.0.schema_names().iter().any(|known| known == name);
        exists.then(|| {
            Arc::new(DatabaseSchema {
                database: Arc::clone(&self.0),
                name: name.to_owned(),
            }) as _
        })
    }

    fn register_schema(
        &self,
        name: &str,
        schema: Arc<dyn SchemaProvider>,
    ) -> Result<Option<Arc<dyn SchemaProvider>>> {
        if !schema.table_names().is_empty() {
            return Err(DatabaseError::Kind {
                name: format!("the schema {name}"),
                problem: "it has tables already".to_owned(),
                hint: "CREATE SCHEMA, and then its tables",
            }
            .into());
        }
        self.0.add_schema(name)?;
        Ok(None)
    }

    fn deregister_schema(&self, name: &str, cascade: bool) -> Result<Option<Arc<dyn SchemaProvider>>> {
        let schema = self.schema(name);
        match self.0.remove_schema(name, cascade)? {
            true => Ok(schema),
            false => Ok(None),
        }
    }
}

/// A schema of a database.
#[derive(Debug)]
struct DatabaseSchema {
    database: Arc<Database>,
    name: String,
}

impl DatabaseSchema {
    fn name_of(&self, table: &str) -> Name {
        (self.name.clone(), table.to_owned())
    }

    /// Writes the rows of a table in memory to a file.
    fn stored(&self, name: &str, table: &MemTable) -> Result<StoredEntry> {
        let schema = table.schema();
        let number = self.database.next_file();
        let mut writer = TableWriter::new(&self.database.folder, number, name, &schema);
        for partition in &table.batches {
            let Ok(partition) = partition.try_read() else {
                return Err(DatabaseError::Schema(format!("the table {name} is being written")).into());
            };
            for batch in partition.iter() {
                writer.write(batch)?;
            }
        }
        let columns = schema.fields().iter();
        let defaults = columns.filter_map(|field| {
            let default = table.get_column_default(field.name())?;
            Some(definition::sql_of(default).map(|sql| (field.name().clone(), sql)))
        });
        Ok(StoredEntry {
            defaults: defaults.collect::<Result<_>>()?,
            keys: table.constraints().map(definition::keys).unwrap_or_default(),
            files: vec![writer.finish()?],
        })
    }

    /// The catalog's entry for a table that DataFusion registers.
    fn entry(&self, name: &str, table: &Arc<dyn TableProvider>) -> Result<TableEntry> {
        let without_statement = |kind: &str| DatabaseError::Kind {
            name: format!("the {kind} {name}"),
            problem: "it was registered by the program, without a statement of SQL".to_owned(),
            hint: "CREATE TABLE AS, CREATE VIEW or CREATE EXTERNAL TABLE",
        };
        if let Some(memory) = table.downcast_ref::<MemTable>() {
            return Ok(TableEntry::Table(self.stored(name, memory)?));
        }
        if let Some(view) = table.downcast_ref::<ViewTable>() {
            let sql = view
                .definition()
                .cloned()
                .ok_or_else(|| without_statement("view"))?;
            return Ok(TableEntry::View { sql });
        }
        let definition = table.get_table_definition().map(str::to_owned);
        match definition {
            Some(sql) if table.is::<ListingTable>() => Ok(TableEntry::External { sql }),
            _ => Err(without_statement("table").into()),
        }
    }
}

#[async_trait]
impl SchemaProvider for DatabaseSchema {
    fn table_names(&self) -> Vec<String> {
        self.database.table_names(&self.name)
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>, DataFusionError> {
        let full = self.name_of(name);
        let within_itself = views::is_being_defined(&full);
        match self.database.entry(&full) {
            None => Ok(None),
            Some(TableEntry::Table(stored)) => {
                let (state, _) = self.database.session()?;
                self.database.stored(&full, &stored, &state).map(Some)
            }
            // The planner looks up the name of the new table, too.
            Some(TableEntry::External { .. }) if within_itself => Ok(None),
            Some(TableEntry::View { sql }) => {
                let known = self.database.state.lock().view_columns.get(&full).cloned();
                let view = self
                    .database
                    .views
                    .get(&full, &sql, known, self.database.session()?)
                    .await?;
                let columns = view.schema();
                self.database.state.lock().view_columns.insert(full, columns);
                Ok(Some(view))
            }
            Some(TableEntry::External { sql }) => {
                if let Some(known) = self.database.state.lock().tables.get(&full) {
                    return Ok(Some(Arc::clone(known)));
                }
                let DdlStatement::CreateExternalTable(command) =
                    views::definition(&full, &sql, self.database.session()?).await?
                else {
                    return Ok(None);
                };
                let (state, _) = self.database.session()?;
                let kind = command.file_type.to_uppercase();
                let Some(factory) = state.table_factories().get(&kind) else {
                    return Err(DatabaseError::Schema(format!(
                        "the external table {name} has the format {kind}, which this program does not read"
                    ))
                    .into());
                };
                let table = factory.create(&state, &command).await?;
                self.database.state.lock().tables.insert(full, Arc::clone(&table));
                Ok(Some(table))
            }
        }
    }

    async fn table_type(&self, name: &str) -> Result<Option<TableType>> {
        Ok(self.database.entry(&self.name_of(name)).map(|entry| match entry {
            TableEntry::View { .. } => TableType::View,
            TableEntry::Table(_) | TableEntry::External { .. } => TableType::Base,
        }))
    }

    fn register_table(
        &self,
        name: String,
        table: Arc<dyn TableProvider>,
    ) -> Result<Option<Arc<dyn TableProvider>>> {
        if self.table_exist(&name) {
            return Err(DatabaseError::Schema(format!("the table {name} already exists")).into());
        }
        let entry = self.entry(&name, &table)?;
        self.database.add(&self.name_of(&name), entry)?;
        Ok(None)
    }

    fn deregister_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let full = self.name_of(name);
        let removed = match self.database.entry(&full) {
            None => return Ok(None),
            Some(TableEntry::Table(stored)) => {
                let (state, _) = self.database.session()?;
                self.database.stored(&full, &stored, &state)?
            }
            // DataFusion reads the type of the table only.
            Some(TableEntry::View { .. }) => {
                let nothing = datafusion::logical_expr::LogicalPlanBuilder::empty(false).build()?;
                Arc::new(ViewTable::new(nothing, None))
            }
            Some(TableEntry::External { .. }) => {
                let schema = Arc::new(arrow::datatypes::Schema::empty());
                Arc::new(MemTable::try_new(schema, vec![vec![]])?)
            }
        };
        self.database.remove(&full)?;
        Ok(Some(removed))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.database.entry(&self.name_of(name)).is_some()
    }
}

/// The schema and the table of a reference, in the database that is the default catalog.
pub(super) fn resolved(reference: &TableReference, catalog: &str, schema: &str) -> Option<Name> {
    let resolved = reference.clone().resolve(catalog, schema);
    (*resolved.catalog == *catalog).then(|| (resolved.schema.to_string(), resolved.table.to_string()))
}
