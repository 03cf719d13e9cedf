//! Tables as files, in each format and location that a session reads. The tests of the crate `galatea`
//! include this file as a module of their own.
//!
//! An operator that reads a table in memory can run twice; a scan of files returns its files only once. So
//! queries are compared over files, too, at different locations: one file of several row groups, a folder of
//! two, a quoted path and a glob behind a view.

use std::fs::File;
use std::path::{Path, PathBuf};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::csv;
use datafusion::arrow::datatypes::{DataType, Schema, SchemaRef, TimeUnit};
use datafusion::arrow::json::LineDelimitedWriter;
use datafusion::error::{DataFusionError, Result};
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::file::properties::WriterProperties;
use datafusion::prelude::SessionContext;

/// A format of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Format {
    Parquet,
    Csv,
    Json,
}

/// The location with which a table is registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Location {
    /// An external table over one file.
    File,
    /// An external table over a folder of two files.
    Folder,
    /// A view over the quoted path of one file, with an inferred schema.
    Quoted,
    /// A view over a quoted glob that matches two files.
    Glob,
}

/// A registration of files as a table.
pub(crate) type Way = (Format, Location);

/// All registrations. Schemas of CSV and JSON files are declared, because inferred types differ from the
/// table's.
pub(crate) const WAYS: [Way; 8] = [
    (Format::Parquet, Location::File),
    (Format::Csv, Location::Folder),
    (Format::Parquet, Location::Glob),
    (Format::Json, Location::File),
    (Format::Parquet, Location::Folder),
    (Format::Csv, Location::File),
    (Format::Parquet, Location::Quoted),
    (Format::Json, Location::Folder),
];

/// Numbers of partitions of queries over files.
pub(crate) const PARTITIONS: [usize; 3] = [1, 2, 16];

/// A table of files.
#[derive(Debug, Clone)]
pub(crate) struct TableFiles {
    name: String,
    folder: PathBuf,
    format: Format,
    location: Location,
    schema: SchemaRef,
}

impl TableFiles {
    /// A table with its files in the folder `root/name`; `None` if the format cannot declare its columns.
    pub(crate) fn new(root: &Path, name: &str, (format, location): Way, schema: SchemaRef) -> Option<Self> {
        if format != Format::Parquet {
            declarations(&schema)?;
        }
        Some(Self {
            name: name.to_string(),
            folder: root.join(name),
            format,
            location,
            schema,
        })
    }

    /// Replaces the files. A folder or a glob has two.
    pub(crate) fn write(&self, rows: &RecordBatch) -> Result<()> {
        std::fs::create_dir_all(&self.folder)?;
        let half = rows.num_rows() / 2;
        match self.location {
            Location::File | Location::Quoted => self.write_file("a", rows),
            Location::Folder | Location::Glob => {
                self.write_file("a", &rows.slice(0, half))?;
                self.write_file("b", &rows.slice(half, rows.num_rows() - half))
            }
        }
    }

    fn write_file(&self, stem: &str, rows: &RecordBatch) -> Result<()> {
        let file = File::create(self.folder.join(stem).with_extension(self.extension()))?;
        match self.format {
            Format::Parquet => {
                let group = (rows.num_rows() / 3).max(1);
                let properties = WriterProperties::builder().set_max_row_group_row_count(Some(group));
                let mut writer = ArrowWriter::try_new(file, rows.schema(), Some(properties.build()))?;
                writer.write(rows)?;
                writer.close()?;
            }
            Format::Csv => csv::Writer::new(file).write(rows)?,
            Format::Json => {
                let mut writer = LineDelimitedWriter::new(file);
                writer.write(rows)?;
                writer.finish()?;
            }
        }
        Ok(())
    }

    /// Registers the files as the table, which must not exist in the session.
    pub(crate) async fn register(&self, ctx: &SessionContext) -> Result<()> {
        let name = &self.name;
        let path = match self.location {
            Location::File | Location::Quoted => self.folder.join("a").with_extension(self.extension()),
            Location::Folder => self.folder.join(""),
            Location::Glob => self.folder.join("*").with_extension(self.extension()),
        };
        let path = path.display();
        let create = match (self.location, self.format) {
            (Location::Quoted | Location::Glob, _) => format!("CREATE VIEW {name} AS SELECT * FROM '{path}'"),
            (_, Format::Parquet) => {
                format!("CREATE EXTERNAL TABLE {name} STORED AS PARQUET LOCATION '{path}'")
            }
            (_, format) => {
                let columns = declarations(&self.schema).ok_or_else(|| {
                    DataFusionError::Internal(format!("{name} has columns that {format:?} cannot declare"))
                })?;
                let (kind, options) = match format {
                    Format::Csv => ("CSV", " OPTIONS ('format.has_header' 'true')"),
                    _ => ("JSON", ""),
                };
                format!(
                    "CREATE EXTERNAL TABLE {name} ({columns}) STORED AS {kind} LOCATION '{path}'{options}"
                )
            }
        };
        ctx.sql(&create).await?.collect().await?;
        Ok(())
    }

    /// The rows of the files, as plain DataFusion reads them.
    pub(crate) async fn read(&self) -> Result<Vec<RecordBatch>> {
        let plain = SessionContext::new();
        let location = match self.location {
            Location::File | Location::Quoted => Location::File,
            Location::Folder | Location::Glob => Location::Folder,
        };
        let table = Self {
            location,
            ..self.clone()
        };
        table.register(&plain).await?;
        let frame = plain.table(self.name.as_str()).await?;
        let schema = SchemaRef::new(frame.schema().as_arrow().clone());
        let batches = frame.collect().await?;
        Ok(if batches.is_empty() {
            vec![RecordBatch::new_empty(schema)]
        } else {
            batches
        })
    }

    fn extension(&self) -> &'static str {
        match self.format {
            Format::Parquet => "parquet",
            Format::Csv => "csv",
            Format::Json => "json",
        }
    }
}

/// The columns as CREATE EXTERNAL TABLE declares them; `None` if a type has no name in SQL.
fn declarations(schema: &Schema) -> Option<String> {
    let columns: Option<Vec<String>> = (schema.fields().iter())
        .map(|field| {
            let null = if field.is_nullable() { "" } else { " NOT NULL" };
            Some(format!(
                "\"{}\" {}{null}",
                field.name(),
                type_name(field.data_type())?
            ))
        })
        .collect();
    Some(columns?.join(", "))
}

fn type_name(of: &DataType) -> Option<String> {
    let name = match of {
        DataType::Boolean => "BOOLEAN",
        DataType::Int8 => "TINYINT",
        DataType::Int16 => "SMALLINT",
        DataType::Int32 => "INT",
        DataType::Int64 => "BIGINT",
        DataType::UInt8 => "TINYINT UNSIGNED",
        DataType::UInt16 => "SMALLINT UNSIGNED",
        DataType::UInt32 => "INT UNSIGNED",
        DataType::UInt64 => "BIGINT UNSIGNED",
        DataType::Float32 => "REAL",
        DataType::Float64 => "DOUBLE",
        DataType::Date32 => "DATE",
        DataType::Timestamp(TimeUnit::Microsecond, None) => "TIMESTAMP(6)",
        DataType::Timestamp(TimeUnit::Nanosecond, None) => "TIMESTAMP",
        DataType::Utf8 | DataType::Utf8View => "VARCHAR",
        DataType::Decimal128(precision, scale) if *scale >= 0 => {
            return Some(format!("DECIMAL({precision}, {scale})"));
        }
        _ => return None,
    };
    Some(name.to_string())
}
