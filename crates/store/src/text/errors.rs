//! Errors of rows, with the file, the line and the column.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

use arrow::datatypes::{DataType, Schema};
use arrow::error::ArrowError;
use datafusion::common::config::CsvOptions;
use datafusion::error::DataFusionError;

use super::layout::csv_reader;
use crate::error::StoreError;

/// A part of a file, as named in errors.
#[derive(Debug, Clone)]
pub(super) struct Part {
    /// The name of the file in the object store.
    pub(super) name: String,
    /// The path of the file, if it is a file of this machine.
    pub(super) path: Option<PathBuf>,
    /// Bytes of the file before the part.
    pub(super) start: u64,
}

/// The hint for values that do not fit the type of their column.
const TYPES_HINT: &str = "columns without declared types have those of the first rows; declare them by CREATE \
     EXTERNAL TABLE t(name VARCHAR, ...) STORED AS";

impl Part {
    /// An error of arrow's CSV reader.
    pub(super) fn csv_error(
        &self,
        error: ArrowError,
        columns: &Schema,
        options: &CsvOptions,
    ) -> DataFusionError {
        let text = match &error {
            ArrowError::ParseError(text) | ArrowError::CsvError(text) => text,
            ArrowError::ExternalError(_) | ArrowError::IoError(..) => return own_error(error),
            other => &other.to_string(),
        };
        if let Some(bad) = BadValue::parse(text) {
            let field = columns.fields().get(bad.column);
            let name = field.map_or_else(|| (bad.column + 1).to_string(), |field| field.name().clone());
            let reason = match (bad.value, field) {
                (Some(value), Some(field)) => {
                    format!("'{value}' is not a value of type {}", sql_type(field.data_type()))
                }
                (Some(value), None) => format!("'{value}' is no value of the column"),
                (None, _) => bad.reason.to_owned(),
            };
            let hint = format!("{TYPES_HINT} CSV");
            return self.bad(reason, self.line(bad.row + 1, options), Some(name), Some(hint));
        }
        let wrong_width = text
            .strip_prefix("incorrect number of fields for line ")
            .and_then(|rest| rest.split_once(", expected "))
            .and_then(|(row, counts)| Some((row.parse().ok()?, counts.split_once(" got ")?)));
        let Some((row, (expected, got))) = wrong_width else {
            return self.bad(text.clone(), String::new(), None, None);
        };
        let reason = format!("the row has {got} values, not {expected}");
        let hint =
            "the option 'format.truncated_rows' of CREATE EXTERNAL TABLE accepts rows that are too short";
        self.bad(reason, self.line(row, options), None, Some(hint.to_owned()))
    }

    /// An error of arrow's JSON reader, in the objects with these numbers.
    pub(super) fn json_error(&self, error: ArrowError, first: u64, last: u64) -> DataFusionError {
        let text = match &error {
            ArrowError::JsonError(text)
            | ArrowError::ParseError(text)
            | ArrowError::InvalidArgumentError(text) => text,
            ArrowError::ExternalError(_) | ArrowError::IoError(..) => return own_error(error),
            other => &other.to_string(),
        };
        let column = text
            .split_once("whilst decoding field '")
            .and_then(|(_, rest)| rest.split_once("': "));
        let (column, reason) = match column {
            Some((name, reason)) => (Some(name.to_owned()), reason),
            None => (None, text.as_str()),
        };
        let mut place = match last > first {
            true => format!("objects {first} to {last}"),
            false => format!("object {first}"),
        };
        if self.start > 0 {
            place += &format!(" after byte {}", self.start);
        }
        let hint = column.is_some().then(|| format!("{TYPES_HINT} JSON"));
        self.bad(reason.to_owned(), place, column, hint)
    }

    fn bad(
        &self,
        reason: String,
        place: String,
        column: Option<String>,
        hint: Option<String>,
    ) -> DataFusionError {
        StoreError::BadRow {
            file: self.name.clone(),
            place,
            column,
            reason,
            hint,
        }
        .into()
    }

    /// The line of the file at which a row of the part begins, or the row if lines cannot be counted.
    fn line(&self, row: u64, options: &CsvOptions) -> String {
        let line = match self.start {
            0 => self.line_of_row(row, options),
            // A file with line feeds in values is not split.
            _ => self.lines_before().map(|before| before + row),
        };
        match line {
            Some(line) => format!("line {line}"),
            None if self.start > 0 => format!("row {row} after byte {}", self.start),
            None => format!("row {row}"),
        }
    }

    fn line_of_row(&self, row: u64, options: &CsvOptions) -> Option<u64> {
        let mut reader = csv_reader(File::open(self.path.as_ref()?).ok()?, options);
        let mut record = csv::ByteRecord::new();
        for _ in 0..row {
            if !reader.read_byte_record(&mut record).ok()? {
                return None;
            }
        }
        record.position().map(csv::Position::line)
    }

    /// Number of lines before the first row of the part. The part begins after the line that the split falls
    /// into.
    fn lines_before(&self) -> Option<u64> {
        let mut before = File::open(self.path.as_ref()?).ok()?.take(self.start);
        let mut piece = vec![0; 1 << 20];
        let (mut lines, mut last) = (0, b'\n');
        loop {
            match before.read(&mut piece).ok()? {
                0 => return Some(lines + u64::from(last != b'\n')),
                read => {
                    lines += memchr::memchr_iter(b'\n', &piece[..read]).count() as u64;
                    last = piece[read - 1];
                }
            }
        }
    }
}

/// An error of Galatea that arrow has wrapped, unwrapped.
pub(super) fn own_error(error: ArrowError) -> DataFusionError {
    match error {
        ArrowError::ExternalError(inner) => match inner.downcast::<DataFusionError>() {
            Ok(own) => *own,
            Err(other) => DataFusionError::External(other),
        },
        other => other.into(),
    }
}

/// A value that arrow could not parse.
#[derive(Debug)]
struct BadValue<'a> {
    value: Option<&'a str>,
    reason: &'a str,
    column: usize,
    /// Number of rows before it, a header included.
    row: u64,
}

impl<'a> BadValue<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let place = |place: &str| {
            let (column, row) = place.split_once(" at line ")?;
            Some((column.parse().ok()?, row.parse().ok()?))
        };
        if let Some(rest) = text.strip_prefix("Error parsing column ") {
            let (at, reason) = rest.split_once(": ")?;
            let (column, row) = place(at)?;
            return Some(Self {
                value: None,
                reason,
                column,
                row,
            });
        }
        let rest = text.strip_prefix("Error while parsing value '")?;
        let (value, rest) = rest.split_once("' as type '")?;
        let (_, rest) = rest.split_once("' for column ")?;
        let (at, _) = rest.split_once(". Row data: ")?;
        let (column, row) = place(at)?;
        Some(Self {
            value: Some(value),
            reason: text,
            column,
            row,
        })
    }
}

/// The SQL name of a type.
fn sql_type(data_type: &DataType) -> String {
    match data_type {
        DataType::Int8 => "TINYINT",
        DataType::Int16 => "SMALLINT",
        DataType::Int32 => "INT",
        DataType::Int64 => "BIGINT",
        DataType::Float32 => "REAL",
        DataType::Float64 => "DOUBLE",
        DataType::Boolean => "BOOLEAN",
        DataType::Date32 | DataType::Date64 => "DATE",
        DataType::Timestamp(..) => "TIMESTAMP",
        other => return other.to_string(),
    }
    .to_owned()
}
