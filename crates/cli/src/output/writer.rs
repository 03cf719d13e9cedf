//! Prints a stream of rows.

use std::io::{BufWriter, Write};
use std::time::Instant;

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
use super::writable::Writable;
use super::{Format, Output, RowLimit, Target};
use crate::progress::Watch;

/// The maximum number of rows that a pager gets, because they are formatted as one string.
const PAGED_ROWS: usize = 50_000;

/// The printed part of a result.
#[derive(Debug, Default)]
pub(crate) struct Printed {
    /// Rows of the result.
    pub(crate) rows: usize,
    /// The numbers of rows and columns shown, if the result has more.
    pub(crate) shown: Option<(usize, usize)>,
    /// Columns of the result.
    pub(crate) columns: usize,
    /// Whether the statement wrote its rows to standard output for a program.
    pub(crate) for_programs: bool,
    /// The time at which the result was complete, if the user may have read it since.
    pub(crate) complete: Option<Instant>,
}

/// Prints the rows of `stream`: in tables up to the limit, in formats for programs all of them as they
/// arrive.
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
            // A document is not truncated.
            Format::Markdown => usize::MAX,
            _ => limit.0.unwrap_or(usize::MAX),
        };
        // A pager gets more rows than the screen, if the result is long enough to use it.
        let mut most = if output.may_page() {
            limit.max(PAGED_ROWS)
        } else {
            limit
        };
        let (mut kept, mut count) = (Vec::new(), 0);
        while let Some(batch) = stream.next().await {
            let batch = batch?;
            rows += batch.num_rows();
            let wanted = |most: usize| most.saturating_sub(count).min(batch.num_rows());
            if wanted(most) > 0 {
                let kept_memory = memory.try_grow(get_record_batch_memory_size(&batch));
                if kept_memory.is_err() && wanted(limit) == 0 {
                    // Rows beyond the limit are released first, because they are not required.
                    most = limit;
                    continue;
                }
                kept_memory?;
                let slice = batch.slice(0, wanted(most));
                count += slice.num_rows();
                kept.push(slice);
            }
        }
        watch.end();
        let complete = Some(Instant::now());
        let options = options.try_into()?;
        let table = |kept: &[RecordBatch], most: usize| {
            table::shown(format, &schema, kept, rows > most, output.columns(), &options)
        };
        let printed = |shown: &Shown| Printed {
            rows,
            shown: (shown.rows < rows || shown.columns < columns).then_some((shown.rows, shown.columns)),
            columns,
            for_programs: false,
            complete,
        };
        if count > limit {
            let mut whole = table(&kept, count)?;
            whole.text += &left_out(whole.rows, rows);
            if output.page(&whole.text) {
                return Ok(printed(&whole));
            }
        }
        let shown = table(&first_rows(&kept, limit), limit)?;
        if count > limit {
            output.write(&shown.text)
        } else {
            output.text(&shown.text)
        }
        .map_err(DataFusionError::IoError)?;
        return Ok(printed(&shown));
    }
    let writable = Writable {
        format,
        schema,
        options: options.try_into()?,
    };
    let mut writer = RowWriter::new(&writable, BufWriter::new(output.target.clone()))?;
    while let Some(batch) = stream.next().await {
        let batch = batch?;
        watch.end();
        rows += batch.num_rows();
        writer.write(&writable.of(&batch)?)?;
    }
    writer.finish()?;
    Ok(Printed {
        rows,
        columns,
        ..Printed::default()
    })
}

/// The last line of a table in the pager, if it has only the first rows of a result; empty if it has all.
fn left_out(shown: usize, rows: usize) -> String {
    if shown >= rows {
        return String::new();
    }
    format!("The first {shown} of {rows} rows. \\pset maxrows inf shows all of them.\n")
}

/// The first `limit` rows of `batches`.
fn first_rows(batches: &[RecordBatch], limit: usize) -> Vec<RecordBatch> {
    let mut left = limit;
    let mut taken = Vec::new();
    for batch in batches {
        let wanted = left.min(batch.num_rows());
        left -= wanted;
        if wanted > 0 {
            taken.push(batch.slice(0, wanted));
        }
    }
    taken
}

/// Writes rows for programs as they arrive.
enum RowWriter {
    Separated(Box<arrow::csv::Writer<BufWriter<Target>>>),
    Array(ArrayWriter<BufWriter<Target>>),
    Lines(LineDelimitedWriter<BufWriter<Target>>),
}

impl RowWriter {
    fn new(writable: &Writable<'_>, target: BufWriter<Target>) -> Result<Self> {
        // Every object contains every column.
        let json = JsonBuilder::new().with_explicit_nulls(true);
        Ok(match writable.format {
            Format::Json => Self::Array(json.build(target)),
            Format::NdJson => Self::Lines(json.build(target)),
            separated => {
                let delimiter = if separated == Format::Tsv { b'\t' } else { b',' };
                let builder = WriterBuilder::new().with_header(true).with_delimiter(delimiter);
                let mut writer = builder.build(target);
                // A result without rows also has its header.
                writer.write(&writable.of(&RecordBatch::new_empty(SchemaRef::clone(&writable.schema)))?)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pager_footer_shows_row_limit() {
        assert_eq!(left_out(7, 7), "");
        assert_eq!(
            left_out(50_000, 123_456),
            "The first 50000 of 123456 rows. \\pset maxrows inf shows all of them.\n"
        );
    }
}
