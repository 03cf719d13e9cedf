//! Tables of `pg_catalog` and `information_schema` that datafusion-pg-catalog and DataFusion do not have, or
//! not as PostgreSQL has them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, LazyLock};

use arrow::array::{ArrayRef, AsArray, BooleanArray, Int32Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Int32Type, Schema, SchemaRef};
use datafusion::catalog::streaming::StreamingTable;
use datafusion::catalog::{CatalogProviderList, MemTable, SchemaProvider, TableProvider};
use datafusion::datasource::{TableType, ViewTable, provider_as_source};
use datafusion::error::Result;
use datafusion::execution::session_state::SessionState;
use datafusion::execution::{SendableRecordBatchStream, SessionStateBuilder, TaskContext};
use datafusion::logical_expr::{LogicalPlanBuilder, col, lit};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use datafusion::scalar::ScalarValue;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};
use parking_lot::Mutex;
use pgwire::api::Type;

use super::catalog_columns::Kind::{Bool, Int, Numbers, Text, Texts};
use super::catalog_columns::{
    COLUMNS, CURSORS, Columns, EMPTY, Kind, LISTS, MORE, NO_CONSTRAINTS, TABLES, VIEWS,
};
use super::catalog_names::PG_CATALOG;
use super::cells::wire_type;
use super::commands::Parameters;
use super::cursors::Cursors;
use super::value_errors::shown;
use crate::tables::{CATALOG, SCHEMA};

/// The value of a field.
#[derive(Debug, Clone)]
enum Value {
    Text(String),
    Int(i32),
    Bool(bool),
    Null,
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_string())
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl From<i32> for Value {
    fn from(number: i32) -> Self {
        Self::Int(number)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

fn data_type(kind: Kind) -> DataType {
    match kind {
        Text => DataType::Utf8,
        Int => DataType::Int32,
        Bool => DataType::Boolean,
        Texts => DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, true))),
        Numbers => DataType::List(Arc::new(Field::new_list_field(DataType::Int16, true))),
    }
}

fn schema(columns: Columns) -> SchemaRef {
    let fields = columns
        .iter()
        .map(|(name, kind)| Field::new(*name, data_type(*kind), true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// The batch of rows. A row may have less fields than columns; the others are NULL.
fn batch(columns: Columns, rows: &[Vec<Value>]) -> Result<RecordBatch> {
    let arrays = columns.iter().enumerate().map(|(index, (_, kind))| {
        let values = rows.iter().map(|row| row.get(index));
        let array: ArrayRef = match kind {
            Text | Texts | Numbers => Arc::new(StringArray::from_iter(values.map(|value| match value {
                Some(Value::Text(text)) => Some(text.as_str()),
                _ => None,
            }))),
            Int => Arc::new(Int32Array::from_iter(values.map(|value| match value {
                Some(Value::Int(number)) => Some(*number),
                _ => None,
            }))),
            Bool => Arc::new(BooleanArray::from_iter(values.map(|value| match value {
                Some(Value::Bool(value)) => Some(*value),
                _ => None,
            }))),
        };
        match kind {
            Texts | Numbers => arrow::array::new_null_array(&data_type(*kind), rows.len()),
            _ => array,
        }
    });
    Ok(RecordBatch::try_new(schema(columns), arrays.collect())?)
}

type Rows = dyn Fn() -> BoxFuture<'static, Result<Vec<Vec<Value>>>> + Send + Sync;

/// A table whose rows are those of the time when a query runs.
struct Computed {
    columns: Columns,
    schema: SchemaRef,
    rows: Arc<Rows>,
}

impl fmt::Debug for Computed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Computed")
            .field("columns", &self.columns)
            .finish_non_exhaustive()
    }
}

impl PartitionStream for Computed {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let (columns, rows) = (self.columns, Arc::clone(&self.rows));
        let batch = stream::once(async move { batch(columns, &rows().await?) });
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), batch))
    }
}

fn computed(
    columns: Columns,
    rows: impl Fn() -> BoxFuture<'static, Result<Vec<Vec<Value>>>> + Send + Sync + 'static,
) -> Result<Arc<dyn TableProvider>> {
    let schema = schema(columns);
    let rows = Computed {
        columns,
        schema: Arc::clone(&schema),
        rows: Arc::new(rows),
    };
    Ok(Arc::new(StreamingTable::try_new(schema, vec![Arc::new(rows)])?))
}

fn without_rows(columns: Columns) -> Result<Arc<dyn TableProvider>> {
    Ok(Arc::new(MemTable::try_new(schema(columns), vec![vec![]])?))
}

/// The state of a session without tables, to read tables of the catalog.
static STATE: LazyLock<SessionState> = LazyLock::new(|| SessionStateBuilder::new().build());

/// The sources of the tables.
#[derive(Debug, Clone)]
pub(super) struct Sources {
    pub(super) user: String,
    pub(super) catalogs: Arc<dyn CatalogProviderList>,
    /// The schema of datafusion-pg-catalog.
    pub(super) tables: Arc<dyn SchemaProvider>,
    pub(super) parameters: Arc<Mutex<Parameters>>,
    pub(super) cursors: Arc<Cursors>,
}

/// A table or a view.
struct Relation {
    schema: &'static str,
    name: String,
    is_view: bool,
    table: Arc<dyn TableProvider>,
}

/// A table of `pg_class`.
#[derive(Debug, Clone)]
pub(super) struct Object {
    pub(super) oid: i32,
    pub(super) schema: String,
    pub(super) name: String,
}

/// The object identifier of the user.
const USER: i32 = 10;

impl Sources {
    /// The tables and views of the client and of the catalog.
    async fn relations(&self) -> Result<Vec<Relation>> {
        let mut relations = Vec::new();
        let Some(catalog) = self.catalogs.catalog(CATALOG) else {
            return Ok(relations);
        };
        for schema in [SCHEMA, PG_CATALOG] {
            let Some(tables) = catalog.schema(schema) else {
                continue;
            };
            let mut names = tables.table_names();
            names.sort();
            names.dedup();
            for name in names {
                // Another client may have dropped it.
                if let Some(table) = tables.table(&name).await? {
                    relations.push(Relation {
                        schema,
                        name,
                        is_view: schema == SCHEMA && table.table_type() == TableType::View,
                        table,
                    });
                }
            }
        }
        Ok(relations)
    }

    /// The tables of `pg_class` and their object identifiers.
    pub(super) fn objects(&self) -> Vec<Object> {
        // The tables are in memory, so this future does not wait.
        let objects = self.read_objects().now_or_never();
        objects.and_then(Result::ok).unwrap_or_default()
    }

    async fn read_objects(&self) -> Result<Vec<Object>> {
        let mut objects = Vec::new();
        let mut oids = BTreeMap::new();
        let context = Arc::new(TaskContext::default());
        for name in ["pg_namespace", "pg_class"] {
            let Some(table) = self.tables.table(name).await? else {
                return Ok(objects);
            };
            let rows = table.scan(&*STATE, None, &[], None).await?;
            let mut batches = rows.execute(0, Arc::clone(&context))?;
            while let Some(batch) = batches.next().await {
                let batch = batch?;
                let column = |name: &str| batch.column_by_name(name);
                let (Some(numbers), Some(names)) = (
                    column("oid"),
                    column(if name == "pg_class" { "relname" } else { "nspname" }),
                ) else {
                    continue;
                };
                let numbers = numbers.as_primitive::<Int32Type>();
                let names = names.as_string::<i32>();
                let schemas = column("relnamespace").map(AsArray::as_primitive::<Int32Type>);
                for row in 0..batch.num_rows() {
                    let (oid, name) = (numbers.value(row), names.value(row).to_string());
                    match &schemas {
                        None => drop(oids.insert(oid, name)),
                        Some(schemas) => objects.push(Object {
                            oid,
                            schema: oids.get(&schemas.value(row)).cloned().unwrap_or_default(),
                            name,
                        }),
                    }
                }
            }
        }
        Ok(objects)
    }

    /// The definition of a view.
    pub(super) fn definition(&self, schema: &str, view: &str) -> Option<String> {
        let schema = self.catalogs.catalog(CATALOG)?.schema(schema)?;
        let table = schema.table(view).now_or_never()?.ok()??;
        table.get_table_definition().map(str::to_string)
    }

    async fn views(self) -> Result<Vec<Relation>> {
        let mut views = self.relations().await?;
        views.retain(|relation| relation.is_view);
        Ok(views)
    }

    async fn rows(self, table: &str) -> Result<Vec<Vec<Value>>> {
        let user = self.user.clone();
        let owner = Value::from(user.as_str());
        Ok(match table {
            "pg_settings" => {
                let parameters = self.parameters.lock();
                let settings = parameters.all().into_iter().map(|(name, value)| {
                    let mut row = vec![Value::Null; 17];
                    row[0] = name.as_str().into();
                    row[1] = value.as_str().into();
                    row[6] = "user".into();
                    row[7] = "string".into();
                    row[8] = "default".into();
                    row[12] = value.as_str().into();
                    row[13] = value.as_str().into();
                    row[16] = false.into();
                    row
                });
                settings.collect()
            }
            "pg_tables" => {
                let tables = self.relations().await?;
                let tables = tables.into_iter().filter(|relation| !relation.is_view);
                let no = Value::Bool(false);
                let tables = tables.map(|table| {
                    let names = [table.schema.into(), table.name.as_str().into(), owner.clone()];
                    let rest = [Value::Null, no.clone(), no.clone(), no.clone(), no.clone()];
                    names.into_iter().chain(rest).collect()
                });
                tables.collect()
            }
            "pg_views" => {
                let views = self.views().await?.into_iter().map(|view| {
                    let definition = view.table.get_table_definition();
                    vec![
                        view.schema.into(),
                        view.name.as_str().into(),
                        owner.clone(),
                        definition.into(),
                    ]
                });
                views.collect()
            }
            "pg_roles" => {
                let (yes, no) = (Value::Bool(true), Value::Bool(false));
                let rights = [no.clone(), yes.clone(), no.clone(), no.clone(), yes, no.clone()];
                let rest = [
                    Value::Int(-1),
                    Value::Null,
                    Value::Null,
                    no,
                    Value::Null,
                    Value::Int(USER),
                ];
                vec![[owner].into_iter().chain(rights).chain(rest).collect()]
            }
            "pg_user" => {
                let no = Value::Bool(false);
                vec![vec![
                    owner,
                    Value::Int(USER),
                    no.clone(),
                    no.clone(),
                    no.clone(),
                    no,
                ]]
            }
            "columns" => self.columns().await?,
            "views" => {
                let no = || Value::from("NO");
                let views = self.views().await?.into_iter().map(|view| {
                    let definition = Value::from(view.table.get_table_definition());
                    let name = view.name.as_str();
                    vec![
                        CATALOG.into(),
                        view.schema.into(),
                        name.into(),
                        definition.clone(),
                        "NONE".into(),
                        no(),
                        no(),
                        definition,
                    ]
                });
                views.collect()
            }
            _ => Vec::new(),
        })
    }

    /// The rows of `information_schema.columns`.
    async fn columns(&self) -> Result<Vec<Vec<Value>>> {
        let mut rows = Vec::new();
        for relation in self.relations().await? {
            let is_updatable = if relation.is_view { "NO" } else { "YES" };
            for (field, number) in relation.table.schema().fields().iter().zip(1..) {
                let wire = wire_type(field).unwrap_or(Type::TEXT);
                let (precision, radix, scale) = digits(field.data_type(), &wire);
                let mut row = vec![Value::Null; COLUMNS.len()];
                row[0] = CATALOG.into();
                row[1] = relation.schema.into();
                row[2] = relation.name.as_str().into();
                row[3] = field.name().as_str().into();
                row[4] = Value::Int(number);
                row[6] = if field.is_nullable() { "YES" } else { "NO" }.into();
                row[7] = type_name(&wire).into();
                row[10] = precision.into();
                row[11] = radix.into();
                row[12] = scale.into();
                row[13] = match wire {
                    Type::DATE => Value::Int(0),
                    Type::TIME | Type::TIMESTAMP | Type::TIMESTAMPTZ | Type::INTERVAL => Value::Int(6),
                    _ => Value::Null,
                };
                row[25] = CATALOG.into();
                row[26] = PG_CATALOG.into();
                row[27] = wire.name().into();
                row[28] = "NO".into();
                row[29] = "NO".into();
                row[31] = "NEVER".into();
                row[33] = is_updatable.into();
                rows.push(row);
            }
        }
        Ok(rows)
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

/// The precision of a number, its radix and its scale.
fn digits(data_type: &DataType, wire: &Type) -> (Option<i32>, Option<i32>, Option<i32>) {
    match data_type {
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => {
            return (Some(i32::from(*precision)), Some(10), Some(i32::from(*scale)));
        }
        _ => {}
    }
    match *wire {
        Type::INT2 => (Some(16), Some(2), Some(0)),
        Type::INT4 => (Some(32), Some(2), Some(0)),
        Type::INT8 => (Some(64), Some(2), Some(0)),
        Type::FLOAT4 => (Some(24), Some(2), None),
        Type::FLOAT8 => (Some(53), Some(2), None),
        _ => (None, None, None),
    }
}

/// The name of a type in `information_schema`.
pub(super) fn type_name(wire: &Type) -> &str {
    match *wire {
        Type::VARCHAR => "character varying",
        Type::BPCHAR => "character",
        Type::CHAR => "\"char\"",
        Type::TIME => "time without time zone",
        Type::TIMESTAMP => "timestamp without time zone",
        _ if matches!(wire.kind(), postgres_types::Kind::Array(_)) => "ARRAY",
        _ => shown(wire),
    }
}

/// A table of `pg_catalog`; `None` if datafusion-pg-catalog has it.
pub(super) fn pg_table(name: &str, sources: &Sources) -> Result<Option<Arc<dyn TableProvider>>> {
    let name = name.to_ascii_lowercase();
    if name == CURSORS {
        return cursors(&sources.cursors).map(Some);
    }
    if let Some((name, columns)) = TABLES.iter().find(|(table, _)| *table == name) {
        let sources = sources.clone();
        let rows = move || -> BoxFuture<'static, _> { Box::pin(sources.clone().rows(name)) };
        return computed(columns, rows).map(Some);
    }
    match EMPTY.iter().find(|(table, _)| *table == name) {
        Some((_, columns)) => without_rows(columns).map(Some),
        None => Ok(None),
    }
}

/// A table of datafusion-pg-catalog with the columns that it lacks.
pub(super) fn with_more_columns(name: &str, table: Arc<dyn TableProvider>) -> Result<Arc<dyn TableProvider>> {
    let name = name.to_ascii_lowercase();
    let more = MORE.iter().find(|(table, _)| *table == name);
    let more = more.map_or(&[] as Columns, |(_, more)| more);
    let schema = table.schema();
    let is_list = |field: &Field| {
        *field.data_type() == DataType::Utf8 && LISTS.iter().any(|end| field.name().ends_with(end))
    };
    if more.is_empty() && !schema.fields().iter().any(|field| is_list(field)) {
        return Ok(table);
    }
    let none = ScalarValue::try_from(data_type(Texts))?;
    let columns = schema.fields().iter().map(|field| match is_list(field) {
        true => lit(none.clone()).alias(field.name()),
        false => col(format!("\"{}\"", field.name())),
    });
    let mut columns: Vec<_> = columns.collect();
    for (column, kind) in more {
        if schema.field_with_name(column).is_err() {
            columns.push(lit(ScalarValue::try_from(data_type(*kind))?).alias(*column));
        }
    }
    let plan = LogicalPlanBuilder::scan(name, provider_as_source(table), None)?
        .project(columns)?
        .build()?;
    Ok(Arc::new(ViewTable::new(plan, None)))
}

/// The names of the tables of `information_schema` beside those of DataFusion.
pub(super) fn information_names() -> impl Iterator<Item = &'static str> {
    NO_CONSTRAINTS.iter().map(|(name, _)| *name)
}

/// A table of `information_schema`; `None` if it is the one of DataFusion.
pub(super) fn information_table(name: &str, sources: &Sources) -> Result<Option<Arc<dyn TableProvider>>> {
    let name = name.to_ascii_lowercase();
    let columns = match name.as_str() {
        "columns" => COLUMNS,
        "views" => VIEWS,
        _ => {
            let found = NO_CONSTRAINTS.iter().find(|(table, _)| *table == name);
            return found.map(|(_, columns)| without_rows(columns)).transpose();
        }
    };
    let sources = sources.clone();
    let rows = move || -> BoxFuture<'static, _> {
        let (sources, name) = (sources.clone(), name.clone());
        Box::pin(async move { sources.rows(&name).await })
    };
    computed(columns, rows).map(Some)
}

/// The open cursors of a connection. Drivers look for a cursor before they close it.
fn cursors(cursors: &Cursors) -> Result<Arc<dyn TableProvider>> {
    let open = cursors.names();
    let names: ArrayRef = Arc::new(StringArray::from_iter_values(open.iter().map(|(name, _)| name)));
    let holds: ArrayRef = Arc::new(BooleanArray::from_iter(
        open.iter().map(|(_, holds)| Some(*holds)),
    ));
    let no: ArrayRef = Arc::new(BooleanArray::from(vec![false; open.len()]));
    let rows = RecordBatch::try_from_iter([
        ("name", names),
        ("is_holdable", holds),
        ("is_binary", Arc::clone(&no)),
        ("is_scrollable", no),
    ])?;
    Ok(Arc::new(MemTable::try_new(rows.schema(), vec![vec![rows]])?))
}
