//! The columns of a CSV file, their order, and whether its first row names them.
//!
//! If a table's columns were found in its files, the columns of each file are matched by the names in that
//! file's header, or `column_1`, `column_2`, ... without a header. If they were declared, they are matched by
//! position, because the declaration may rename them. They are matched by name if the header has all declared
//! names, since a header with the same names in another order implies that order.

use std::collections::HashSet;
use std::io::Read;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use datafusion::common::config::CsvOptions;

use crate::decode::STRICT;
use crate::error::StoreError;

/// Whether the first rows of a table's CSV files are headers, and the origin of its columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CsvHeader {
    /// The columns were found in the files. The value is whether the first rows are headers.
    Found(bool),
    /// The columns were declared, and so was whether first rows are headers.
    Declared(bool),
    /// The columns have other names than in the files, and are in their order. The value is whether the first
    /// rows are headers.
    Renamed(bool),
    /// The columns were declared. A first row is a header unless its values fit the columns better than a
    /// header would.
    Open,
}

/// The fields of the first row; none if the bytes may not contain all of it, or the file is empty.
pub(super) fn first_record(bytes: &[u8], whole: bool, options: &CsvOptions) -> Option<Vec<String>> {
    let mut reader = csv_reader(bytes, options);
    let mut record = csv::ByteRecord::new();
    let found = reader.read_byte_record(&mut record).unwrap_or(false);
    let ended = usize::try_from(reader.position().byte()).is_ok_and(|at| at < bytes.len());
    let text = |field: &[u8]| String::from_utf8_lossy(field).into_owned();
    (found && (ended || whole)).then(|| record.iter().map(text).collect())
}

/// A reader of records with any number of fields. A header is read as a record.
pub fn csv_reader<R: Read>(bytes: R, options: &CsvOptions) -> csv::Reader<R> {
    let mut builder = csv::ReaderBuilder::new();
    builder
        .has_headers(false)
        .flexible(true)
        .delimiter(options.delimiter)
        .quote(options.quote)
        .escape(options.escape)
        .comment(options.comment);
    if let Some(terminator) = options.terminator {
        builder.terminator(csv::Terminator::Any(terminator));
    }
    builder.from_reader(bytes)
}

/// Column names from a header: a second `a` becomes `a_1`, and an empty name in second place `column_2`.
pub fn header_names(header: &[String]) -> Vec<String> {
    let mut taken: HashSet<String> = header.iter().filter(|name| !name.is_empty()).cloned().collect();
    let mut seen = HashSet::new();
    let mut names = Vec::with_capacity(header.len());
    for (index, name) in header.iter().enumerate() {
        let base = if name.is_empty() {
            numbered(index)
        } else {
            name.clone()
        };
        let first = if name.is_empty() {
            !taken.contains(&base)
        } else {
            !seen.contains(&base)
        };
        let unique = match first {
            true => base,
            false => (1..)
                .map(|count| format!("{base}_{count}"))
                .find(|candidate| !taken.contains(candidate))
                .unwrap_or(base),
        };
        taken.insert(unique.clone());
        seen.insert(unique.clone());
        names.push(unique);
    }
    names
}

/// Column names without a header.
pub fn numbered_names(columns: usize) -> Vec<String> {
    (0..columns).map(numbered).collect()
}

fn numbered(index: usize) -> String {
    format!("column_{}", index + 1)
}

/// The way a file's columns are read for a scan.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) has_header: bool,
    /// The columns of the file, with the types of the table's columns.
    pub(super) in_file: SchemaRef,
    /// Indices of the columns of the file to read.
    pub(super) read: Vec<usize>,
    /// For each column of the scan, its position among the columns that are read.
    places: Vec<Option<usize>>,
    wanted: SchemaRef,
}

impl Layout {
    /// The layout of a file with this first row, for the columns `wanted` of the table.
    pub(super) fn new(
        file: &str,
        first: Option<&[String]>,
        header: CsvHeader,
        table: &Schema,
        wanted: &[usize],
    ) -> Result<Self, StoreError> {
        let declared = |name: &String| table.index_of(name).is_ok();
        let names_all = |names: &[String]| {
            let names: HashSet<&String> = names.iter().collect();
            table.fields().iter().all(|field| names.contains(field.name()))
        };
        let has_header = match (header, first) {
            (CsvHeader::Found(has) | CsvHeader::Declared(has) | CsvHeader::Renamed(has), _) => has,
            (CsvHeader::Open, Some(first)) => names_all(first) || !reads_as_values(first, table),
            (CsvHeader::Open, None) => true,
        };
        let names = first.map(|first| match has_header {
            true => header_names(first),
            false => numbered_names(first.len()),
        });
        let names = match (header, names) {
            (CsvHeader::Found(true), Some(names)) if !names.iter().any(declared) => {
                return Err(StoreError::BadRow {
                    file: file.to_owned(),
                    place: "line 1".to_owned(),
                    column: None,
                    reason: format!("the header has none of the table's columns: {}", names.join(", ")),
                    hint: Some(
                        "the first rows of the table's files are headers, whose names are its columns"
                            .to_owned(),
                    ),
                });
            }
            (CsvHeader::Found(_), names) => names,
            (CsvHeader::Renamed(_), _) => None,
            (_, names) => names.filter(|names| has_header && names_all(names)),
        };
        let fields: Vec<Field> = match names {
            Some(names) => names
                .iter()
                .map(|name| {
                    let known = table.field_with_name(name).ok();
                    known.map_or_else(|| Field::new(name, DataType::Utf8, true), Field::clone)
                })
                .collect(),
            None => table
                .fields()
                .iter()
                .map(|field| field.as_ref().clone())
                .collect(),
        };
        let in_file = Schema::new(fields);
        let mut read = Vec::new();
        let mut places = Vec::new();
        for index in wanted {
            let found = in_file.index_of(table.field(*index).name()).ok();
            places.push(found.map(|found| {
                read.push(found);
                read.len() - 1
            }));
        }
        Ok(Self {
            has_header,
            in_file: Arc::new(in_file),
            read,
            places,
            wanted: Arc::new(table.project(wanted)?),
        })
    }

    /// The columns of the scan, from rows read from the file.
    pub(super) fn arrange(&self, rows: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        let columns = self
            .places
            .iter()
            .zip(self.wanted.fields())
            .map(|(place, field)| {
                let column: ArrayRef = match place {
                    Some(place) => Arc::clone(rows.column(*place)),
                    None => new_null_array(field.data_type(), rows.num_rows()),
                };
                match column.data_type() == field.data_type() {
                    true => Ok(column),
                    false => cast(&column, field.data_type()),
                }
            });
        let columns = columns.collect::<Result<Vec<_>, ArrowError>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(&self.wanted), columns, &options)
    }
}

/// Whether a first row fits the declared columns that are not strings: each non-empty value can be cast to
/// its column's type, and at least one is.
fn reads_as_values(first: &[String], table: &Schema) -> bool {
    let mut fits = first.iter().zip(table.fields()).filter_map(|(value, field)| {
        let text = matches!(
            field.data_type(),
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null
        );
        let value: ArrayRef = Arc::new(arrow::array::StringArray::from(vec![value.as_str()]));
        let parse = || arrow::compute::cast_with_options(&value, field.data_type(), &STRICT).is_ok();
        (!text && !value.as_ref().is_empty()).then(parse)
    });
    let mut fits = fits.by_ref().peekable();
    fits.peek().is_some() && fits.all(|fits| fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn duplicate_header_names_become_unique() {
        let named = |names: &[&str]| header_names(&strings(names));
        assert_eq!(named(&["a", "a", "b"]), ["a", "a_1", "b"]);
        assert_eq!(named(&["a", "a", "a_1", "a"]), ["a", "a_2", "a_1", "a_3"]);
        assert_eq!(named(&["", "b", ""]), ["column_1", "b", "column_3"]);
        assert_eq!(named(&["column_2", ""]), ["column_2", "column_2_1"]);
    }

    #[test]
    fn first_record_needs_the_complete_row() {
        let options = CsvOptions::default();
        let record = |text: &str, whole| first_record(text.as_bytes(), whole, &options);
        assert_eq!(record("a,b", false), None);
        assert_eq!(record("a,\"b\nc", false), None);
        assert_eq!(record("a,b", true), Some(strings(&["a", "b"])));
        assert_eq!(record("a,\"b\nc\"\n1,", false), Some(strings(&["a", "b\nc"])));
        assert_eq!(record("\u{feff}a,b\n1", false), Some(strings(&["a", "b"])));
        assert_eq!(record("", true), None);
    }

    #[test]
    fn headers_are_detected_by_declared_columns() {
        let table = Schema::new(vec![
            Field::new("a", DataType::Int64, true),
            Field::new("b", DataType::Utf8, true),
        ]);
        let layout =
            |first: &[&str], header| Layout::new("x.csv", Some(&strings(first)), header, &table, &[0, 1]);
        let open = |first: &[&str]| layout(first, CsvHeader::Open).expect("a layout");
        assert!(!open(&["1", "x"]).has_header);
        assert!(open(&["one", "x"]).has_header);
        assert_eq!(open(&["b", "a"]).read, [1, 0]);
        assert_eq!(open(&["id", "name"]).read, [0, 1]);
        let declared = layout(&["1", "x"], CsvHeader::Declared(true)).expect("a layout");
        assert!(declared.has_header);
        assert!(layout(&["x", "y"], CsvHeader::Found(true)).is_err());
        let renamed = layout(&["name", "id"], CsvHeader::Renamed(true)).expect("a layout");
        assert!(renamed.has_header);
        assert_eq!(renamed.read, [0, 1]);
    }
}
