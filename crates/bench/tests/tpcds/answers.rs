//! The committed answers: one text file per query, which scripts/tpcds-answers writes.

use std::path::{Path, PathBuf};

use arrow::array::{Array, RecordBatch};
use arrow::util::display::array_value_to_string;
use galatea_bench::workload::Query;

/// The relative tolerance of a quotient or an average of decimals, if its type has fewer digits than the
/// answer: DataFusion's have six places. All other decimals and integers must be equal.
const DECIMAL_TOLERANCE: f64 = 1e-6;

/// The relative tolerance of floats.
const FLOAT_TOLERANCE: f64 = 1e-9;

/// The tolerance of such a decimal in units of the last place: DataFusion truncates quotients before it adds
/// them up.
const LAST_PLACES: f64 = 2.0;

/// The rows that a query returns.
pub(crate) struct Answer {
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Answer {
    /// The committed answer of `query`.
    pub(crate) fn read(query: &Query) -> Self {
        let digits = query.name.trim_end_matches(['a', 'b']).len();
        let zero = if digits == 1 { "0" } else { "" };
        let path = directory().join(format!("answers/q{zero}{}.txt", query.name));
        let text =
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut lines = text.lines().filter(|line| !line.starts_with("# "));
        let values = |line: &str| line.split('\t').map(str::to_string).collect::<Vec<_>>();
        let columns = values(lines.next().expect("names of columns"));
        let mut rows: Vec<Vec<String>> = Vec::new();
        for line in lines {
            match line.strip_prefix("= ") {
                Some(times) => {
                    let last = rows.last().expect("a row to repeat").clone();
                    rows.extend(std::iter::repeat_n(
                        last,
                        times.parse().expect("a number of rows"),
                    ));
                }
                None => rows.push(values(line)),
            }
        }
        Self { columns, rows }
    }

    /// The number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.rows.len()
    }

    /// The first difference between a result and the answer, in the order of the rows; `None` if they are
    /// equal.
    pub(crate) fn difference(&self, batches: &[RecordBatch]) -> Option<String> {
        let names = |batch: &RecordBatch| {
            let schema = batch.schema();
            schema
                .fields()
                .iter()
                .map(|field| field.name().clone())
                .collect::<Vec<_>>()
        };
        if let Some(names) = batches.first().map(names).filter(|names| *names != self.columns) {
            return Some(format!("columns {names:?}, not {:?}", self.columns));
        }
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        if rows != self.rows() {
            return Some(format!("{rows} rows, not {}", self.rows()));
        }
        let places = batches
            .iter()
            .flat_map(|batch| (0..batch.num_rows()).map(move |row| (batch, row)));
        for (number, ((batch, row), expected)) in places.zip(&self.rows).enumerate() {
            for ((column, expected), name) in batch.columns().iter().zip(expected).zip(&self.columns) {
                let actual = text(column, row);
                let numeric = column.data_type().is_numeric();
                if !(actual == *expected
                    || numeric && same_number(&actual, expected, column.data_type().is_floating()))
                {
                    return Some(format!("row {number}, {name}: {actual}, not {expected}"));
                }
            }
        }
        None
    }
}

/// The directory of the answers and of the replacements.
pub(crate) fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tpcds")
}

fn text(column: &dyn Array, row: usize) -> String {
    if column.is_null(row) {
        return r"\N".to_string();
    }
    array_value_to_string(column, row).expect("a value has a text")
}

/// Whether two numbers are equal: digit by digit if the type of the actual one has all places of the expected
/// one.
fn same_number(actual: &str, expected: &str, float: bool) -> bool {
    let places = |text: &str| text.split_once('.').map_or(0, |(_, places)| places.len());
    if !float && places(expected) <= places(actual) {
        let trimmed = match actual.contains('.') {
            true => actual.trim_end_matches('0').trim_end_matches('.'),
            false => actual,
        };
        return trimmed == expected;
    }
    let (Ok(a), Ok(e)) = (actual.parse::<f64>(), expected.parse::<f64>()) else {
        return false;
    };
    // Quotients and averages of decimals have six places or more.
    let difference = (a - e).abs();
    if float {
        return difference <= FLOAT_TOLERANCE * e.abs();
    }
    // Quotients and averages of decimals have six places or more.
    let last = LAST_PLACES * 10f64.powi(-(places(actual) as i32));
    places(actual) >= 6 && difference <= last.max(DECIMAL_TOLERANCE * e.abs())
}

#[test]
fn numbers_are_compared_at_type_precision() {
    for (actual, expected, float) in [
        ("12.500000", "12.5", false),
        ("-3.00", "-3", false),
        ("100", "100", false),
        ("0.333333", "0.33333333333333333333", false),
        ("0.3333333333333333", "0.33333333333333333333", true),
    ] {
        assert!(same_number(actual, expected, float), "{actual} {expected}");
    }
    for (actual, expected, float) in [
        ("12.51", "12.5", false),
        ("12.500001", "12.5", false),
        ("101", "100", false),
        ("10", "100", false),
        ("0", "0.5", false),
        ("0.33", "0.33333333333333333333", false),
        ("0.333336", "0.33333333333333333333", false),
        ("0.33333", "0.33333333333333333333", true),
        ("3", r"\N", false),
        (r"\N", "3", true),
    ] {
        assert!(!same_number(actual, expected, float), "{actual} {expected}");
    }
}
