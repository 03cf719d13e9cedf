//! The file formats of a session: DataFusion's for Parquet, CSV and JSON, with their own inference of
//! schemas, and their own names of the folders of partitions ([`folders`]).
//!
//! `CREATE EXTERNAL TABLE`, quoted paths and folders all get the schema of their files, and the source that
//! reads them, from a format. These formats examine every file, so a table has the columns of all of them
//! ([`merge`]). [`values`] and [`json_types`] infer the column types of text files. DataFusion writes the
//! files.

mod arrow;
mod csv;
mod folders;
mod json;
mod json_types;
mod look;
mod merge;
mod parquet;
mod values;

use std::sync::Arc;

use datafusion::datasource::file_format::arrow::ArrowFormatFactory;
use datafusion::datasource::file_format::avro::AvroFormat;
use datafusion::datasource::file_format::csv::CsvFormatFactory;
use datafusion::datasource::file_format::json::JsonFormatFactory;
use datafusion::datasource::file_format::parquet::ParquetFormatFactory;
use datafusion::datasource::file_format::{FileFormat, FileFormatFactory};
use datafusion::error::Result;
use datafusion::execution::session_state::SessionState;

pub(crate) use self::arrow::ArrowTables;
pub(crate) use self::csv::CsvTables;
pub(crate) use self::json::JsonTables;
pub(crate) use self::parquet::ParquetTables;

/// Replaces DataFusion's formats by these, if the session has DataFusion's defaults.
pub(crate) fn install(state: &mut SessionState) -> Result<()> {
    let is_plain = |name: &str, check: fn(&dyn FileFormatFactory) -> bool| {
        let factory = state.get_file_format_factory(name);
        factory.is_some_and(|factory| check(factory.as_ref()))
    };
    let csv = is_plain("csv", |factory| {
        let plain = factory.downcast_ref::<CsvFormatFactory>();
        plain.is_some_and(|plain| plain.options.is_none())
    });
    let json = is_plain("json", |factory| {
        let plain = factory.downcast_ref::<JsonFormatFactory>();
        plain.is_some_and(|plain| plain.options.is_none())
    });
    let parquet = is_plain("parquet", |factory| {
        let plain = factory.downcast_ref::<ParquetFormatFactory>();
        plain.is_some_and(|plain| plain.options.is_none())
    });
    if is_plain("arrow", <dyn FileFormatFactory>::is::<ArrowFormatFactory>) {
        state.register_file_format(Arc::new(arrow::ArrowTablesFactory), true)?;
    }
    if csv {
        state.register_file_format(Arc::new(csv::CsvTablesFactory), true)?;
    }
    if json {
        state.register_file_format(Arc::new(json::JsonTablesFactory), true)?;
    }
    if parquet {
        state.register_file_format(Arc::new(parquet::ParquetTablesFactory), true)?;
    }
    Ok(())
}

/// Whether two formats are of the same kind and have the same options.
pub(crate) fn same(one: &dyn FileFormat, other: &dyn FileFormat) -> bool {
    if let (Some(one), Some(other)) = (
        one.downcast_ref::<ParquetTables>(),
        other.downcast_ref::<ParquetTables>(),
    ) {
        return one.options() == other.options();
    }
    if let (Some(one), Some(other)) = (one.downcast_ref::<CsvTables>(), other.downcast_ref::<CsvTables>()) {
        return one.is_like(other);
    }
    if let (Some(one), Some(other)) = (
        one.downcast_ref::<JsonTables>(),
        other.downcast_ref::<JsonTables>(),
    ) {
        return one.options() == other.options();
    }
    one.is::<ArrowTables>() && other.is::<ArrowTables>() || one.is::<AvroFormat>() && other.is::<AvroFormat>()
}
