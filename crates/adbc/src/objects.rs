//! Catalogs, schemas, tables and columns, as ADBC describes them.

use std::sync::Arc;

use adbc_core::error::{Error, Result};
use adbc_core::options::ObjectDepth;
use adbc_core::schemas::{
    COLUMN_SCHEMA, CONSTRAINT_SCHEMA, GET_OBJECTS_SCHEMA, OBJECTS_DB_SCHEMA_SCHEMA, TABLE_SCHEMA,
};
use arrow::array::{
    ArrayRef, Int16Array, Int32Array, ListArray, RecordBatch, Scalar, StringArray, StructArray,
    new_empty_array, new_null_array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::like;
use arrow::datatypes::{DataType, Field, Fields, SchemaRef};
use datafusion::catalog::SchemaProvider;
use datafusion::datasource::TableType;
use datafusion::prelude::SessionContext;
use futures::future::BoxFuture;
use galatea::sql_name;

/// The types of tables, as the server names them.
pub(crate) const TABLE_TYPES: [&str; 3] = [TABLE, VIEW, TEMPORARY];
const TABLE: &str = "TABLE";
const VIEW: &str = "VIEW";
const TEMPORARY: &str = "LOCAL TEMPORARY";

/// The objects to list. Names are patterns of LIKE.
#[derive(Debug)]
pub(crate) struct Filter {
    pub(crate) depth: ObjectDepth,
    pub(crate) catalog: Option<String>,
    pub(crate) schema: Option<String>,
    pub(crate) table: Option<String>,
    pub(crate) types: Option<Vec<String>>,
    pub(crate) column: Option<String>,
}

impl Filter {
    fn has_schemas(&self) -> bool {
        self.depth != ObjectDepth::Catalogs
    }

    fn has_tables(&self) -> bool {
        self.has_schemas() && self.depth != ObjectDepth::Schemas
    }

    fn has_columns(&self) -> bool {
        self.has_tables() && self.depth != ObjectDepth::Tables
    }
}

/// Whether a name matches a pattern of LIKE; each name does without one.
fn matches(name: &str, pattern: Option<&String>) -> Result<bool> {
    let Some(pattern) = pattern else {
        return Ok(true);
    };
    let names = StringArray::from(vec![name]);
    let pattern = Scalar::new(StringArray::from(vec![pattern.as_str()]));
    Ok(like(&names, &pattern)?.value(0))
}

/// Sorted names that match a pattern.
fn matching(names: Vec<String>, pattern: Option<&String>) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for name in names {
        if matches(&name, pattern)? {
            found.push(name);
        }
    }
    found.sort();
    Ok(found)
}

struct Catalog {
    name: String,
    schemas: Vec<Schema>,
}

struct Schema {
    name: String,
    tables: Vec<Table>,
}

struct Table {
    name: String,
    kind: &'static str,
    columns: Vec<NamedColumn>,
}

struct NamedColumn {
    name: String,
    position: i32,
    type_name: String,
    nullable: bool,
}

/// Lists the objects of a session.
pub(crate) fn objects(ctx: SessionContext, filter: Filter) -> BoxFuture<'static, Result<RecordBatch>> {
    Box::pin(async move {
        let mut catalogs = Vec::new();
        for name in matching(ctx.catalog_names(), filter.catalog.as_ref())? {
            let mut schemas = Vec::new();
            if let Some(catalog) = ctx.catalog(&name).filter(|_| filter.has_schemas()) {
                for name in matching(catalog.schema_names(), filter.schema.as_ref())? {
                    let tables = match catalog.schema(&name).filter(|_| filter.has_tables()) {
                        Some(schema) => tables(schema.as_ref(), &filter).await?,
                        None => Vec::new(),
                    };
                    schemas.push(Schema { name, tables });
                }
            }
            catalogs.push(Catalog { name, schemas });
        }
        batch(&catalogs, &filter)
    })
}

async fn tables(schema: &dyn SchemaProvider, filter: &Filter) -> Result<Vec<Table>> {
    let mut tables = Vec::new();
    for name in matching(schema.table_names(), filter.table.as_ref())? {
        let (kind, columns) = match schema.table(&name).await {
            Ok(Some(table)) => {
                let kind = match table.table_type() {
                    TableType::Base => TABLE,
                    TableType::View => VIEW,
                    TableType::Temporary => TEMPORARY,
                };
                (kind, columns(&table.schema(), filter)?)
            }
            // Another connection has dropped it.
            Ok(None) => continue,
            // A view over a table that was dropped cannot be planned. It is listed without columns.
            Err(_) => (VIEW, Vec::new()),
        };
        let types = filter.types.as_ref();
        if types.is_none_or(|types| types.iter().any(|wanted| wanted == kind)) {
            tables.push(Table { name, kind, columns });
        }
    }
    Ok(tables)
}

fn columns(schema: &SchemaRef, filter: &Filter) -> Result<Vec<NamedColumn>> {
    let mut columns = Vec::new();
    for (field, position) in schema.fields().iter().zip(1..) {
        if filter.has_columns() && matches(field.name(), filter.column.as_ref())? {
            columns.push(NamedColumn {
                name: field.name().clone(),
                position,
                type_name: sql_name(field.data_type()),
                nullable: field.is_nullable(),
            });
        }
    }
    Ok(columns)
}

fn fields(data_type: &DataType) -> Fields {
    match data_type {
        DataType::Struct(fields) => fields.clone(),
        _ => Fields::empty(),
    }
}

/// Lists of items, of these lengths; all NULL if the depth of the request excludes them.
fn lists(item: &DataType, lengths: &[usize], items: ArrayRef, included: bool) -> Result<ArrayRef> {
    let field = Arc::new(Field::new_list_field(item.clone(), true));
    let offsets = OffsetBuffer::from_lengths(lengths.iter().copied());
    let nulls = (!included).then(|| NullBuffer::new_null(lengths.len()));
    Ok(Arc::new(ListArray::try_new(field, offsets, items, nulls)?))
}

fn strings<'a>(values: impl Iterator<Item = &'a str>) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(values))
}

fn batch(catalogs: &[Catalog], filter: &Filter) -> Result<RecordBatch> {
    let schemas: Vec<&Schema> = catalogs.iter().flat_map(|catalog| &catalog.schemas).collect();
    let tables: Vec<&Table> = schemas.iter().flat_map(|schema| &schema.tables).collect();
    let columns: Vec<&NamedColumn> = tables.iter().flat_map(|table| &table.columns).collect();

    let lengths: Vec<usize> = tables.iter().map(|table| table.columns.len()).collect();
    let column_lists = lists(
        &COLUMN_SCHEMA,
        &lengths,
        column_structs(&columns)?,
        filter.has_columns(),
    )?;
    let none = vec![0; tables.len()];
    let constraints = lists(
        &CONSTRAINT_SCHEMA,
        &none,
        new_empty_array(&CONSTRAINT_SCHEMA),
        filter.has_columns(),
    )?;
    let table_structs = StructArray::try_new_with_length(
        fields(&TABLE_SCHEMA),
        vec![
            strings(tables.iter().map(|table| table.name.as_str())),
            strings(tables.iter().map(|table| table.kind)),
            column_lists,
            constraints,
        ],
        None,
        tables.len(),
    )?;

    let lengths: Vec<usize> = schemas.iter().map(|schema| schema.tables.len()).collect();
    let table_lists = lists(
        &TABLE_SCHEMA,
        &lengths,
        Arc::new(table_structs),
        filter.has_tables(),
    )?;
    let schema_structs = StructArray::try_new_with_length(
        fields(&OBJECTS_DB_SCHEMA_SCHEMA),
        vec![
            strings(schemas.iter().map(|schema| schema.name.as_str())),
            table_lists,
        ],
        None,
        schemas.len(),
    )?;

    let lengths: Vec<usize> = catalogs.iter().map(|catalog| catalog.schemas.len()).collect();
    let schema_lists = lists(
        &OBJECTS_DB_SCHEMA_SCHEMA,
        &lengths,
        Arc::new(schema_structs),
        filter.has_schemas(),
    )?;
    let names = strings(catalogs.iter().map(|catalog| catalog.name.as_str()));
    RecordBatch::try_new(GET_OBJECTS_SCHEMA.clone(), vec![names, schema_lists]).map_err(Error::from)
}

/// The descriptions of columns. Properties of JDBC that have no meaning here are NULL.
fn column_structs(columns: &[&NamedColumn]) -> Result<ArrayRef> {
    let fields = fields(&COLUMN_SCHEMA);
    let arrays = fields.iter().map(|field| match field.name().as_str() {
        "column_name" => strings(columns.iter().map(|column| column.name.as_str())),
        "ordinal_position" => Arc::new(Int32Array::from_iter_values(
            columns.iter().map(|column| column.position),
        )) as ArrayRef,
        "xdbc_type_name" => strings(columns.iter().map(|column| column.type_name.as_str())),
        "xdbc_nullable" => Arc::new(Int16Array::from_iter_values(
            columns.iter().map(|column| i16::from(column.nullable)),
        )),
        "xdbc_is_nullable" => strings(columns.iter().map(|column| match column.nullable {
            true => "YES",
            false => "NO",
        })),
        _ => new_null_array(field.data_type(), columns.len()),
    });
    let arrays: Vec<ArrayRef> = arrays.collect();
    Ok(Arc::new(StructArray::try_new_with_length(
        fields,
        arrays,
        None,
        columns.len(),
    )?))
}
