//! Catalogs, schemas, tables and properties of the server, as Flight SQL describes them.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow_flight::sql::metadata::XdbcTypeInfo;
use arrow_flight::sql::metadata::{
    SqlInfoData, SqlInfoDataBuilder, XdbcTypeInfoData, XdbcTypeInfoDataBuilder,
};
use arrow_flight::sql::{
    CommandGetCatalogs, CommandGetDbSchemas, CommandGetSqlInfo, CommandGetTableTypes, CommandGetTables,
    CommandGetXdbcTypeInfo, Nullable, Searchable, SqlInfo, SqlNullOrdering, SqlSupportedCaseSensitivity,
    SqlSupportedTransaction, XdbcDataType,
};
use datafusion::datasource::TableType;
use datafusion::prelude::SessionContext;

use super::columns::plain_schema;
use crate::failure::Failure;
use crate::planning::{self, Context};

fn type_name(table_type: TableType) -> &'static str {
    match table_type {
        TableType::Base => "TABLE",
        TableType::View => "VIEW",
        TableType::Temporary => "LOCAL TEMPORARY",
    }
}

pub(super) fn catalogs(query: CommandGetCatalogs, ctx: &SessionContext) -> Result<RecordBatch, Failure> {
    let mut builder = query.into_builder();
    for name in ctx.catalog_names() {
        builder.append(name);
    }
    builder.build().map_err(from_flight)
}

pub(super) fn schemas(query: CommandGetDbSchemas, ctx: &SessionContext) -> Result<RecordBatch, Failure> {
    let mut builder = query.into_builder();
    for name in ctx.catalog_names() {
        let Some(catalog) = ctx.catalog(&name) else {
            continue;
        };
        for schema in catalog.schema_names() {
            builder.append(&name, schema);
        }
        builder.append(&name, "information_schema");
    }
    builder.build().map_err(from_flight)
}

pub(super) async fn tables(query: CommandGetTables, ctx: &Context) -> Result<RecordBatch, Failure> {
    let mut builder = query.into_builder();
    let mut names = ctx.catalog_names();
    names.sort();
    for name in names {
        let Some(catalog) = ctx.catalog(&name) else {
            continue;
        };
        for schema in catalog.schema_names() {
            for (table_name, table) in planning::tables(ctx, &name, &schema).await? {
                let columns = plain_schema(&table.schema());
                let kind = type_name(table.table_type());
                builder
                    .append(&name, &schema, &table_name, kind, &columns)
                    .map_err(from_flight)?;
            }
        }
    }
    builder.build().map_err(from_flight)
}

pub(super) fn table_types(query: CommandGetTableTypes) -> Result<RecordBatch, Failure> {
    let mut builder = query.into_builder();
    builder.append("TABLE");
    builder.append("VIEW");
    builder.build().map_err(from_flight)
}

fn from_flight(error: arrow_flight::error::FlightError) -> Failure {
    Failure::from(ArrowError::from_external_error(Box::new(error)))
}

/// The properties of the server.
static INFO: LazyLock<Result<SqlInfoData, String>> = LazyLock::new(|| {
    let mut info = SqlInfoDataBuilder::new();
    info.append(SqlInfo::FlightSqlServerName, "Galatea");
    info.append(SqlInfo::FlightSqlServerVersion, env!("CARGO_PKG_VERSION"));
    info.append(SqlInfo::FlightSqlServerArrowVersion, "59.3.2");
    info.append(SqlInfo::FlightSqlServerReadOnly, false);
    info.append(SqlInfo::FlightSqlServerSql, true);
    info.append(SqlInfo::FlightSqlServerSubstrait, false);
    info.append(
        SqlInfo::FlightSqlServerTransaction,
        SqlSupportedTransaction::None as i32,
    );
    info.append(SqlInfo::FlightSqlServerCancel, true);
    info.append(SqlInfo::FlightSqlServerStatementTimeout, 0i32);
    info.append(SqlInfo::FlightSqlServerTransactionTimeout, 0i32);
    info.append(SqlInfo::SqlDdlCatalog, false);
    info.append(SqlInfo::SqlDdlSchema, false);
    info.append(SqlInfo::SqlDdlTable, true);
    info.append(
        SqlInfo::SqlIdentifierCase,
        SqlSupportedCaseSensitivity::SqlCaseSensitivityLowercase as i32,
    );
    info.append(
        SqlInfo::SqlQuotedIdentifierCase,
        SqlSupportedCaseSensitivity::SqlCaseSensitivityCaseInsensitive as i32,
    );
    info.append(SqlInfo::SqlIdentifierQuoteChar, "\"");
    info.append(SqlInfo::SqlAllTablesAreSelectable, true);
    info.append(
        SqlInfo::SqlNullOrdering,
        SqlNullOrdering::SqlNullsSortedHigh as i32,
    );
    info.append(SqlInfo::SqlCatalogTerm, "catalog");
    info.append(SqlInfo::SqlSchemaTerm, "schema");
    info.append(SqlInfo::SqlTransactionsSupported, false);
    info.append(SqlInfo::SqlBatchUpdatesSupported, true);
    info.append(SqlInfo::SqlSavepointsSupported, false);
    info.append(SqlInfo::SqlNamedParametersSupported, false);
    info.append(SqlInfo::SqlSelectForUpdateSupported, false);
    info.append(SqlInfo::SqlStoredProceduresSupported, false);
    info.append(SqlInfo::SqlSupportsConvert, HashMap::<i32, Vec<i32>>::new());
    info.build().map_err(|error| error.to_string())
});

pub(super) fn sql_info(query: CommandGetSqlInfo) -> Result<RecordBatch, Failure> {
    let info = INFO.as_ref().map_err(|error| Failure::invalid(error.as_str()))?;
    query.into_builder(info).build().map_err(from_flight)
}

/// The types of columns, as drivers list them.
static TYPES: LazyLock<Result<XdbcTypeInfoData, String>> = LazyLock::new(|| {
    let mut types = XdbcTypeInfoDataBuilder::new();
    for (name, data_type, size) in [
        ("BOOLEAN", XdbcDataType::XdbcBit, 1),
        ("SMALLINT", XdbcDataType::XdbcSmallint, 16),
        ("INTEGER", XdbcDataType::XdbcInteger, 32),
        ("BIGINT", XdbcDataType::XdbcBigint, 64),
        ("REAL", XdbcDataType::XdbcReal, 24),
        ("DOUBLE", XdbcDataType::XdbcDouble, 53),
        ("DECIMAL", XdbcDataType::XdbcDecimal, 38),
        ("VARCHAR", XdbcDataType::XdbcVarchar, i32::MAX),
        ("BYTEA", XdbcDataType::XdbcVarbinary, i32::MAX),
        ("DATE", XdbcDataType::XdbcDate, 10),
        ("TIME", XdbcDataType::XdbcTime, 18),
        ("TIMESTAMP", XdbcDataType::XdbcTimestamp, 29),
    ] {
        types.append(XdbcTypeInfo {
            type_name: name.to_string(),
            data_type,
            column_size: Some(size),
            literal_prefix: None,
            literal_suffix: None,
            create_params: None,
            nullable: Nullable::NullabilityNullable,
            case_sensitive: name == "VARCHAR",
            searchable: Searchable::Full,
            unsigned_attribute: None,
            fixed_prec_scale: false,
            auto_increment: None,
            local_type_name: Some(name.to_string()),
            minimum_scale: None,
            maximum_scale: None,
            sql_data_type: data_type,
            datetime_subcode: None,
            num_prec_radix: None,
            interval_precision: None,
        });
    }
    types.build().map_err(|error| error.to_string())
});

pub(super) fn xdbc_types(query: CommandGetXdbcTypeInfo) -> Result<RecordBatch, Failure> {
    let types = TYPES.as_ref().map_err(|error| Failure::invalid(error.as_str()))?;
    query.into_builder(types).build().map_err(from_flight)
}

/// The schema of primary keys: tables have none.
pub(super) fn primary_keys() -> SchemaRef {
    let text = |name: &str, nullable| Field::new(name, DataType::Utf8, nullable);
    Arc::new(Schema::new(vec![
        text("catalog_name", true),
        text("db_schema_name", true),
        text("table_name", false),
        text("column_name", false),
        text("key_name", true),
        Field::new("key_sequence", DataType::Int32, false),
    ]))
}

/// The schema of exported keys, imported keys and cross references: tables have none.
pub(super) fn foreign_keys() -> SchemaRef {
    let text = |name: &str, nullable| Field::new(name, DataType::Utf8, nullable);
    let rule = |name: &str| Field::new(name, DataType::UInt8, false);
    Arc::new(Schema::new(vec![
        text("pk_catalog_name", true),
        text("pk_db_schema_name", true),
        text("pk_table_name", false),
        text("pk_column_name", false),
        text("fk_catalog_name", true),
        text("fk_db_schema_name", true),
        text("fk_table_name", false),
        text("fk_column_name", false),
        Field::new("key_sequence", DataType::Int32, false),
        text("fk_key_name", true),
        text("pk_key_name", true),
        rule("update_rule"),
        rule("delete_rule"),
    ]))
}
