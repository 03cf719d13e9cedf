//! A stream of rows, printed.

use std::io::{BufWriter, Write};

use arrow::array::RecordBatch;
use arrow::csv::WriterBuilder;
use arrow::datatypes::SchemaRef;
use arrow::json::{ArrayWriter, LineDelimitedWriter, WriterBuilder as JsonBuilder};
use datafusion::config::FormatOptions;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_plan::spill::get_record_batch_memory_size;
use futures::StreamExt;

use super::table::{self, Shown};
use super::{Format, Output, RowLimit, Target};
use crate::progress::Watch;

/// The amount of a result that was printed.
#[derive(Debug, Default)]
pub(crate) struct Printed {
    /// Rows of the result.
    pub(crate) rows: usize,
    /// Rows and columns that are shown of it, where that is less.
    pub(crate) shown: Option<(usize, usize)>,
    /// Columns of the result.
    pub(crate) columns: usize,
}

/// Prints the rows of `stream`: in tables as many as the limit has, in formats for programs all, as they
/// come.
pub(crate) async fn write_rows(
    output: &Output,
    mut stream: SendableRecordBatchStream,
    limit: RowLimit,
    options: &FormatOptions,
    memory: &MemoryReservation,
    watch: &Watch,
) -> Result<Printed> {
    let schema = stream.schema();
    let columns = schema.fields().len();
    let mut rows = 0;
    if columns == 0 {
        // A statement without a result.
        while let Some(batch) = stream.next().await {
            rows += batch?.num_rows();
        }
        return Ok(Printed {
            rows,
            ..Printed::default()
        });
    }
    let format = output.form();
    if matches!(format, Format::Table | Format::Expanded | Format::Markdown) {
        let limit = match format {
            // A document is not cut off.
            Format::Markdown => usize::MAX,
            _ => limit.0.unwrap_or(usize::MAX),
        };
        let mut kept = Vec::new();
        while let Some(batch) = stream.next().await {
            let batch = batch?;
            let wanted = limit.saturating_sub(rows).min(batch.num_rows());
            rows += batch.num_rows();
            if wanted > 0 {
                memory.try_grow(get_record_batch_memory_size(&batch))?;
                kept.push(batch.slice(0, wanted));
            }
        }
        watch.end();
        let options = options.try_into()?;
        let more = rows > limit;
        let Shown {
            text,
            rows: lines,
            columns: wide,
        } = table::shown(format, &schema, &kept, more, output.columns(), &options)?;
        output.text(&text).map_err(DataFusionError::IoError)?;
        let shown = (more || wide < columns).then_some((lines, wide));
        return Ok(Printed { rows, shown, columns });
    }
    let mut writer = RowWriter::new(format, &schema, BufWriter::new(output.target.clone()))?;
    while let Some(batch) = stream.next().await {
        let batch = batch?;
        watch.end();
        rows += batch.num_rows();
        writer.write(&batch)?;
    }
    writer.finish()?;
    Ok(Printed {
        rows,
        columns,
        ..Printed::default()
    })
}

/// Rows as text for programs, as they come.
enum RowWriter {
    Separated(Box<arrow::csv::Writer<BufWriter<Target>>>),
    Array(ArrayWriter<BufWriter<Target>>),
    Lines(LineDelimitedWriter<BufWriter<Target>>),
}

impl RowWriter {
    fn new(format: Format, schema: &SchemaRef, target: BufWriter<Target>) -> Result<Self> {
        // Every object has every column.
        let json = JsonBuilder::new().with_explicit_nulls(true);
        Ok(match format {
            Format::Json => Self::Array(json.build(target)),
            Format::NdJson => Self::Lines(json.build(target)),
            separated => {
                let delimiter = if separated == Format::Tsv { b'\t' } else { b',' };
                let builder = WriterBuilder::new().with_header(true).with_delimiter(delimiter);
                let mut writer = builder.build(target);
                // A result without rows has its header, too.
                writer.write(&RecordBatch::new_empty(SchemaRef::clone(schema)))?;
                Self::Separated(Box::new(writer))
            }
        })
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        match self {
            Self::Separated(writer) => writer.write(batch)?,
            Self::Array(writer) => writer.write(batch)?,
            Self::Lines(writer) => writer.write(batch)?,
        }
        Ok(())
    }

    fn finish(self) -> Result<()> {
        let mut target = match self {
            Self::Separated(writer) => writer.into_inner(),
            Self::Array(mut writer) => {
                writer.finish()?;
                let mut target = writer.into_inner();
                target.write_all(b"\n")?;
                target
            }
            Self::Lines(mut writer) => {
                writer.finish()?;
                writer.into_inner()
            }
        };
        target.flush()?;
        Ok(())
    }
}
