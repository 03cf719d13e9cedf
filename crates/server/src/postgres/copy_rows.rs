//! The rows of `COPY table FROM STDIN`, converted to the types of the columns.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BinaryBuilder, RecordBatch, StringArray, StringBuilder};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, SchemaRef};
use arrow_pg::datatypes::into_pg_type;
use datafusion::execution::memory_pool::MemoryReservation;
use pgwire::error::{PgWireError, PgWireResult};

use super::copy::CopyIn;
use super::copy_lines::{LineReader, Record, malformed};
use super::errors::{error, error_state};
use crate::session::{Prepared, Session};

/// Rows that are converted at once.
const BATCH: usize = 8192;

/// A checked copy from the client.
#[derive(Debug, Clone)]
pub(super) struct CopyTarget {
    pub(super) copy: CopyIn,
    /// The INSERT, with a parameter for each column.
    pub(super) insert: Arc<Prepared>,
    pub(super) columns: SchemaRef,
}

/// A copy that runs.
#[derive(Debug)]
pub(super) struct Copying {
    target: CopyTarget,
    reader: LineReader,
    rows: Rows,
    memory: MemoryReservation,
}

impl Copying {
    pub(super) fn new(target: &CopyTarget, memory: MemoryReservation) -> Self {
        Self {
            reader: LineReader::new(target.copy.lines.clone()),
            rows: Rows::new(&target.copy.table, &target.columns),
            target: target.clone(),
            memory,
        }
    }

    /// Reads a piece of the data.
    pub(super) fn read(&mut self, data: &[u8]) -> PgWireResult<()> {
        let Self { reader, rows, .. } = self;
        reader.read(data, &mut |record| rows.push(record))?;
        self.account()
    }

    /// Ends the data.
    pub(super) fn finish(&mut self) -> PgWireResult<()> {
        let Self { reader, rows, .. } = self;
        reader.finish(&mut |record| rows.push(record))?;
        rows.flush()?;
        self.account()
    }

    /// Reserves memory for the rows so far.
    fn account(&mut self) -> PgWireResult<()> {
        let bytes = self.rows.bytes() + self.reader.pending();
        self.memory.try_resize(bytes).map_err(|cause| error(cause.into()))
    }

    /// Inserts all rows. Returns their number.
    pub(super) async fn insert(self, session: &Arc<Session>) -> PgWireResult<usize> {
        let Self {
            target, rows, memory, ..
        } = self;
        let count = rows.batches.iter().map(RecordBatch::num_rows).sum();
        if count == 0 {
            return Ok(0);
        }
        let insert = target.insert.with_rows(&target.columns, rows.batches);
        let insert = insert.map_err(|cause| error(cause.into()))?;
        let done = session.run(&insert).await.map_err(error)?;
        done.count().await.map_err(error)?;
        drop(memory);
        Ok(count)
    }
}

/// Rows that are converted in batches.
#[derive(Debug)]
struct Rows {
    table: String,
    schema: SchemaRef,
    strings: Vec<StringBuilder>,
    /// The line of each row that is not converted.
    lines: Vec<u64>,
    batches: Vec<RecordBatch>,
    converted: usize,
}

impl Rows {
    fn new(table: &str, schema: &SchemaRef) -> Self {
        Self {
            table: table.to_string(),
            schema: Arc::clone(schema),
            strings: schema.fields().iter().map(|_| StringBuilder::new()).collect(),
            lines: Vec::new(),
            batches: Vec::new(),
            converted: 0,
        }
    }

    fn bytes(&self) -> usize {
        let strings = self.strings.iter().map(|strings| strings.values_slice().len());
        self.converted
            + strings.sum::<usize>()
            + self.lines.len() * (size_of::<u64>() + self.strings.len() * 5)
    }

    fn at(&self, line: u64, column: &str) -> String {
        format!("COPY {}, line {line}, column {column}", self.table)
    }

    fn push(&mut self, record: Record) -> PgWireResult<()> {
        let Record { line, values } = record;
        let columns = self.schema.fields().len();
        if values.len() < columns {
            let column = self.schema.field(values.len()).name();
            return Err(malformed(format!(
                "missing data for column \"{column}\" (COPY {}, line {line}: {} of {columns} columns)",
                self.table,
                values.len()
            )));
        }
        if values.len() > columns {
            return Err(malformed(format!(
                "extra data after last expected column (COPY {}, line {line}: {} values for {columns} columns)",
                self.table,
                values.len()
            )));
        }
        for (column, value) in values.into_iter().enumerate() {
            let Some(value) = value else {
                self.strings[column].append_null();
                continue;
            };
            let Ok(value) = std::str::from_utf8(&value) else {
                let at = self.at(line, self.schema.field(column).name());
                return Err(error_state(
                    "22021",
                    format!("invalid byte sequence for encoding \"UTF8\" ({at})"),
                ));
            };
            self.strings[column].append_value(value);
        }
        self.lines.push(line);
        match self.lines.len() {
            BATCH => self.flush(),
            _ => Ok(()),
        }
    }

    /// Converts the rows so far.
    fn flush(&mut self) -> PgWireResult<()> {
        if self.lines.is_empty() {
            return Ok(());
        }
        let strings: Vec<StringArray> = self.strings.iter_mut().map(StringBuilder::finish).collect();
        let fields = self.schema.fields().iter().zip(&strings);
        let columns = fields.map(|(field, strings)| self.converted(field, strings));
        let columns = columns.collect::<PgWireResult<Vec<_>>>()?;
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns);
        let batch = batch.map_err(|cause| error(cause.into()))?;
        self.converted += batch.get_array_memory_size();
        self.batches.push(batch);
        self.lines.clear();
        Ok(())
    }

    /// The values of a column in its type.
    fn converted(&self, field: &Field, strings: &StringArray) -> PgWireResult<ArrayRef> {
        let data_type = field.data_type();
        let values: ArrayRef = match data_type {
            DataType::Utf8 => return Ok(Arc::new(strings.clone())),
            DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::FixedSizeBinary(_) => self.binary(field, strings)?,
            data_type if data_type.is_string() || matches!(data_type, DataType::Dictionary(..)) => {
                Arc::new(strings.clone())
            }
            _ => Arc::new(
                strings
                    .iter()
                    .map(|value| value.map(str::trim))
                    .collect::<StringArray>(),
            ),
        };
        // With `safe`, a value that cannot be converted is NULL, which shows its row.
        let options = CastOptions {
            safe: true,
            ..CastOptions::default()
        };
        let converted =
            cast_with_options(&values, data_type, &options).map_err(|cause| error(cause.into()))?;
        let failed = (0..strings.len()).find(|row| strings.is_valid(*row) && converted.is_null(*row));
        match failed {
            Some(row) => Err(self.refused(field, row, strings.value(row))),
            None => Ok(converted),
        }
    }

    fn refused(&self, field: &Field, row: usize, value: &str) -> PgWireError {
        let wire = into_pg_type(field.data_type());
        let name = wire.map_or_else(|_| field.data_type().to_string(), |wire| wire.name().to_string());
        let at = self.at(self.lines[row], field.name());
        error_state(
            "22P02",
            format!("invalid input syntax for type {name}: \"{value}\" ({at})"),
        )
    }

    /// Bytes of values such as `\x0aff`, or of the characters themselves.
    fn binary(&self, field: &Field, strings: &StringArray) -> PgWireResult<ArrayRef> {
        let mut bytes = BinaryBuilder::new();
        for (row, value) in strings.iter().enumerate() {
            let Some(value) = value else {
                bytes.append_null();
                continue;
            };
            match value.strip_prefix("\\x") {
                None => bytes.append_value(value),
                Some(digits) => match decoded(digits) {
                    Some(value) => bytes.append_value(value),
                    None => return Err(self.refused(field, row, value)),
                },
            }
        }
        Ok(Arc::new(bytes.finish()))
    }
}

/// The bytes of pairs of hexadecimal digits.
fn decoded(digits: &str) -> Option<Vec<u8>> {
    let digits = digits.as_bytes();
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let pairs = digits.chunks(2).map(|pair| match pair {
        [high, low] => u8::try_from(digit(*high)? * 16 + digit(*low)?).ok(),
        _ => None,
    });
    pairs.collect()
}
