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

use super::catalog_sql::PG_CATALOG;
use super::cells::wire_type;
use super::commands::Parameters;
use super::cursors::Cursors;
use crate::tables::{CATALOG, SCHEMA};

/// The kind of a column.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Text,
    Int,
    Bool,
    /// Lists of strings.
    Texts,
    /// Lists of small numbers, such as those of the columns of an index.
    Numbers,
}

use Kind::{Bool, Int, Numbers, Text, Texts};

/// The name and the columns of a table.
type Columns = &'static [(&'static str, Kind)];

/// Tables of `pg_catalog` with rows.
const TABLES: [(&str, Columns); 5] = [
    (
        "pg_settings",
        &[
            ("name", Text),
            ("setting", Text),
            ("unit", Text),
            ("category", Text),
            ("short_desc", Text),
            ("extra_desc", Text),
            ("context", Text),
            ("vartype", Text),
            ("source", Text),
            ("min_val", Text),
            ("max_val", Text),
            ("enumvals", Text),
            ("boot_val", Text),
            ("reset_val", Text),
            ("sourcefile", Text),
            ("sourceline", Int),
            ("pending_restart", Bool),
        ],
    ),
    (
        "pg_tables",
        &[
            ("schemaname", Text),
            ("tablename", Text),
            ("tableowner", Text),
            ("tablespace", Text),
            ("hasindexes", Bool),
            ("hasrules", Bool),
            ("hastriggers", Bool),
            ("rowsecurity", Bool),
        ],
    ),
    (
        "pg_views",
        &[
            ("schemaname", Text),
            ("viewname", Text),
            ("viewowner", Text),
            ("definition", Text),
        ],
    ),
    (
        "pg_roles",
        &[
            ("rolname", Text),
            ("rolsuper", Bool),
            ("rolinherit", Bool),
            ("rolcreaterole", Bool),
            ("rolcreatedb", Bool),
            ("rolcanlogin", Bool),
            ("rolreplication", Bool),
            ("rolconnlimit", Int),
            ("rolpassword", Text),
            ("rolvaliduntil", Text),
            ("rolbypassrls", Bool),
            ("rolconfig", Texts),
            ("oid", Int),
        ],
    ),
    (
        "pg_user",
        &[
            ("usename", Text),
            ("usesysid", Int),
            ("usecreatedb", Bool),
            ("usesuper", Bool),
            ("userepl", Bool),
            ("usebypassrls", Bool),
            ("passwd", Text),
            ("valuntil", Text),
            ("useconfig", Texts),
        ],
    ),
];

/// Tables of `pg_catalog` without rows: tables have no keys and no indexes.
const EMPTY: [(&str, Columns); 14] = [
    (
        "pg_index",
        &[
            ("indexrelid", Int),
            ("indrelid", Int),
            ("indnatts", Int),
            ("indnkeyatts", Int),
            ("indisunique", Bool),
            ("indnullsnotdistinct", Bool),
            ("indisprimary", Bool),
            ("indisexclusion", Bool),
            ("indimmediate", Bool),
            ("indisclustered", Bool),
            ("indisvalid", Bool),
            ("indcheckxmin", Bool),
            ("indisready", Bool),
            ("indislive", Bool),
            ("indisreplident", Bool),
            ("indkey", Numbers),
            ("indcollation", Numbers),
            ("indclass", Numbers),
            ("indoption", Numbers),
            ("indexprs", Text),
            ("indpred", Text),
        ],
    ),
    (
        "pg_constraint",
        &[
            ("oid", Int),
            ("conname", Text),
            ("connamespace", Int),
            ("contype", Text),
            ("condeferrable", Bool),
            ("condeferred", Bool),
            ("convalidated", Bool),
            ("conrelid", Int),
            ("contypid", Int),
            ("conindid", Int),
            ("conparentid", Int),
            ("confrelid", Int),
            ("confupdtype", Text),
            ("confdeltype", Text),
            ("confmatchtype", Text),
            ("conislocal", Bool),
            ("coninhcount", Int),
            ("connoinherit", Bool),
            ("conkey", Numbers),
            ("confkey", Numbers),
            ("conpfeqop", Numbers),
            ("conppeqop", Numbers),
            ("conffeqop", Numbers),
            ("confdelsetcols", Numbers),
            ("conexclop", Numbers),
            ("conbin", Text),
        ],
    ),
    (
        "pg_indexes",
        &[
            ("schemaname", Text),
            ("tablename", Text),
            ("indexname", Text),
            ("tablespace", Text),
            ("indexdef", Text),
        ],
    ),
    (
        "pg_sequences",
        &[
            ("schemaname", Text),
            ("sequencename", Text),
            ("sequenceowner", Text),
            ("data_type", Text),
            ("start_value", Int),
            ("min_value", Int),
            ("max_value", Int),
            ("increment_by", Int),
            ("cycle", Bool),
            ("cache_size", Int),
            ("last_value", Int),
        ],
    ),
    (
        "pg_rules",
        &[
            ("schemaname", Text),
            ("tablename", Text),
            ("rulename", Text),
            ("definition", Text),
        ],
    ),
    (
        "pg_policies",
        &[
            ("schemaname", Text),
            ("tablename", Text),
            ("policyname", Text),
            ("permissive", Text),
            ("roles", Text),
            ("cmd", Text),
            ("qual", Text),
            ("with_check", Text),
        ],
    ),
    (
        "pg_locks",
        &[
            ("locktype", Text),
            ("database", Int),
            ("relation", Int),
            ("page", Int),
            ("tuple", Int),
            ("virtualxid", Text),
            ("transactionid", Int),
            ("classid", Int),
            ("objid", Int),
            ("objsubid", Int),
            ("virtualtransaction", Text),
            ("pid", Int),
            ("mode", Text),
            ("granted", Bool),
            ("fastpath", Bool),
            ("waitstart", Text),
        ],
    ),
    (
        "pg_stat_activity",
        &[
            ("datid", Int),
            ("datname", Text),
            ("pid", Int),
            ("leader_pid", Int),
            ("usesysid", Int),
            ("usename", Text),
            ("application_name", Text),
            ("client_addr", Text),
            ("client_hostname", Text),
            ("client_port", Int),
            ("backend_start", Text),
            ("xact_start", Text),
            ("query_start", Text),
            ("state_change", Text),
            ("wait_event_type", Text),
            ("wait_event", Text),
            ("state", Text),
            ("backend_xid", Int),
            ("backend_xmin", Int),
            ("query_id", Int),
            ("query", Text),
            ("backend_type", Text),
        ],
    ),
    (
        "pg_prepared_statements",
        &[
            ("name", Text),
            ("statement", Text),
            ("prepare_time", Text),
            ("from_sql", Bool),
        ],
    ),
    (
        "pg_prepared_xacts",
        &[
            ("transaction", Int),
            ("gid", Text),
            ("prepared", Text),
            ("owner", Text),
            ("database", Text),
        ],
    ),
    (
        "pg_timezone_names",
        &[
            ("name", Text),
            ("abbrev", Text),
            ("utc_offset", Text),
            ("is_dst", Bool),
        ],
    ),
    (
        "pg_available_extensions",
        &[
            ("name", Text),
            ("default_version", Text),
            ("installed_version", Text),
            ("comment", Text),
        ],
    ),
    (
        "pg_group",
        &[("groname", Text), ("grosysid", Int), ("grolist", Text)],
    ),
    (
        "pg_stats",
        &[
            ("schemaname", Text),
            ("tablename", Text),
            ("attname", Text),
            ("inherited", Bool),
            ("null_frac", Text),
            ("avg_width", Int),
            ("n_distinct", Text),
        ],
    ),
];

/// Columns that tables of datafusion-pg-catalog lack. Their values are NULL; transactions have no numbers.
const MORE: [(&str, &[(&str, Kind)]); 4] = [
    (
        "pg_class",
        &[("reloptions", Texts), ("relacl", Texts), ("xmin", Int)],
    ),
    ("pg_type", &[("xmin", Int)]),
    ("pg_namespace", &[("xmin", Int)]),
    ("pg_database", &[("xmin", Int)]),
];

/// The ends of the names of columns that are lists of strings, which datafusion-pg-catalog has as strings.
/// None of the server's objects has such a list.
const LISTS: [&str; 4] = ["acl", "options", "setconfig", "extconfig"];

/// The columns of `information_schema.columns`.
const COLUMNS: Columns = &[
    ("table_catalog", Text),
    ("table_schema", Text),
    ("table_name", Text),
    ("column_name", Text),
    ("ordinal_position", Int),
    ("column_default", Text),
    ("is_nullable", Text),
    ("data_type", Text),
    ("character_maximum_length", Int),
    ("character_octet_length", Int),
    ("numeric_precision", Int),
    ("numeric_precision_radix", Int),
    ("numeric_scale", Int),
    ("datetime_precision", Int),
    ("interval_type", Text),
    ("interval_precision", Int),
    ("character_set_catalog", Text),
    ("character_set_schema", Text),
    ("character_set_name", Text),
    ("collation_catalog", Text),
    ("collation_schema", Text),
    ("collation_name", Text),
    ("domain_catalog", Text),
    ("domain_schema", Text),
    ("domain_name", Text),
    ("udt_catalog", Text),
    ("udt_schema", Text),
    ("udt_name", Text),
    ("is_self_referencing", Text),
    ("is_identity", Text),
    ("identity_generation", Text),
    ("is_generated", Text),
    ("generation_expression", Text),
    ("is_updatable", Text),
];

/// The columns of `information_schema.views`. DataFusion reads `definition`.
const VIEWS: Columns = &[
    ("table_catalog", Text),
    ("table_schema", Text),
    ("table_name", Text),
    ("view_definition", Text),
    ("check_option", Text),
    ("is_updatable", Text),
    ("is_insertable_into", Text),
    ("definition", Text),
];

/// Tables of `information_schema` without rows.
const NO_CONSTRAINTS: [(&str, Columns); 9] = [
    (
        "table_constraints",
        &[
            ("constraint_catalog", Text),
            ("constraint_schema", Text),
            ("constraint_name", Text),
            ("table_catalog", Text),
            ("table_schema", Text),
            ("table_name", Text),
            ("constraint_type", Text),
            ("is_deferrable", Text),
            ("initially_deferred", Text),
            ("enforced", Text),
        ],
    ),
    (
        "key_column_usage",
        &[
            ("constraint_catalog", Text),
            ("constraint_schema", Text),
            ("constraint_name", Text),
            ("table_catalog", Text),
            ("table_schema", Text),
            ("table_name", Text),
            ("column_name", Text),
            ("ordinal_position", Int),
            ("position_in_unique_constraint", Int),
        ],
    ),
    (
        "referential_constraints",
        &[
            ("constraint_catalog", Text),
            ("constraint_schema", Text),
            ("constraint_name", Text),
            ("unique_constraint_catalog", Text),
            ("unique_constraint_schema", Text),
            ("unique_constraint_name", Text),
            ("match_option", Text),
            ("update_rule", Text),
            ("delete_rule", Text),
        ],
    ),
    (
        "constraint_column_usage",
        &[
            ("table_catalog", Text),
            ("table_schema", Text),
            ("table_name", Text),
            ("column_name", Text),
            ("constraint_catalog", Text),
            ("constraint_schema", Text),
            ("constraint_name", Text),
        ],
    ),
    (
        "check_constraints",
        &[
            ("constraint_catalog", Text),
            ("constraint_schema", Text),
            ("constraint_name", Text),
            ("check_clause", Text),
        ],
    ),
    (
        "table_privileges",
        &[
            ("grantor", Text),
            ("grantee", Text),
            ("table_catalog", Text),
            ("table_schema", Text),
            ("table_name", Text),
            ("privilege_type", Text),
            ("is_grantable", Text),
            ("with_hierarchy", Text),
        ],
    ),
    (
        "sequences",
        &[
            ("sequence_catalog", Text),
            ("sequence_schema", Text),
            ("sequence_name", Text),
            ("data_type", Text),
            ("start_value", Text),
            ("minimum_value", Text),
            ("maximum_value", Text),
            ("increment", Text),
            ("cycle_option", Text),
        ],
    ),
    (
        "triggers",
        &[
            ("trigger_catalog", Text),
            ("trigger_schema", Text),
            ("trigger_name", Text),
            ("event_manipulation", Text),
            ("event_object_catalog", Text),
            ("event_object_schema", Text),
            ("event_object_table", Text),
            ("action_statement", Text),
            ("action_orientation", Text),
            ("action_timing", Text),
        ],
    ),
    (
        "character_sets",
        &[
            ("character_set_catalog", Text),
            ("character_set_schema", Text),
            ("character_set_name", Text),
            ("character_repertoire", Text),
            ("form_of_use", Text),
            ("default_collate_catalog", Text),
            ("default_collate_schema", Text),
            ("default_collate_name", Text),
        ],
    ),
];

const CURSORS: &str = "pg_cursors";

/// The names of the tables of `pg_catalog` that are not in datafusion-pg-catalog.
pub(super) fn pg_names() -> impl Iterator<Item = &'static str> {
    let names = TABLES.iter().chain(&EMPTY).map(|(name, _)| *name);
    names.chain([CURSORS])
}

/// Whether a table of the catalog never has a row.
pub(super) fn is_empty(name: &str) -> bool {
    let own = EMPTY.iter().chain(&NO_CONSTRAINTS).map(|(name, _)| *name);
    let others = [
        "pg_trigger",
        "pg_policy",
        "pg_inherits",
        "pg_sequence",
        "pg_statistic_ext",
        "pg_foreign_table",
        "pg_partitioned_table",
        "pg_event_trigger",
        "pg_publication",
        "pg_publication_rel",
        "pg_subscription",
        "pg_enum",
    ];
    own.chain(others).any(|empty| name.eq_ignore_ascii_case(empty))
}

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
                let schemas = column("relnamespace").map(|schemas| schemas.as_primitive::<Int32Type>());
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
        Type::BOOL => "boolean",
        Type::INT2 => "smallint",
        Type::INT4 => "integer",
        Type::INT8 => "bigint",
        Type::FLOAT4 => "real",
        Type::FLOAT8 => "double precision",
        Type::VARCHAR => "character varying",
        Type::BPCHAR => "character",
        Type::CHAR => "\"char\"",
        Type::TIME => "time without time zone",
        Type::TIMESTAMP => "timestamp without time zone",
        Type::TIMESTAMPTZ => "timestamp with time zone",
        _ if matches!(wire.kind(), postgres_types::Kind::Array(_)) => "ARRAY",
        _ => wire.name(),
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
