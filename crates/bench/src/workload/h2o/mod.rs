//! The database benchmark of H2O.ai: groups and joins of one large table.
//!
//! The generator is our own. It has the published table's columns, cardinalities and lengths of strings;
//! single values differ. A query whose answer has many rows is reduced to one row, so that groups and joins
//! are measured, not output.
//!
//! | table | rows | columns |
//! | --- | --- | --- |
//! | `groups` | n | `id1`, `id2`: 100 strings; `id3`: n / 100 strings; `id4`, `id5`: 100 integers; `id6`: n / 100 integers; `v1`: 1 to 5; `v2`: 1 to 15; `v3`: 0 to 100, six decimals |
//! | `x` | n | `id1`, `id2`, `id3`: keys of `small`, `medium` and `big`, nine of ten have a match; `id4`, `id5`, `id6`: the same as strings; `v1` |
//! | `small`, `medium`, `big` | n / 10^6, n / 10^3, n | distinct keys, as integer and as string, nine of ten in `x`; `v2` |
//!
//! Scale 1 is 10 million rows, the smallest published size. Rows are a function of ([`SEED`], table, row).

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int32Array, RecordBatch, StringArray};
use arrow::datatypes::SchemaRef;

use super::Query;
use super::generate::{ROWS_PER_CHUNK, TableGenerator, row_ranges};
use super::random::RowRandom;

/// This generator. The version changes with the rows.
pub const GENERATOR: &str = "galatea h2o 1";

/// The seed of all random values.
pub const SEED: u64 = 108;

/// The tables.
pub const TABLES: [&str; 5] = ["groups", "x", "small", "medium", "big"];

/// Rows of the large tables at scale 1.
pub const ROWS: f64 = 10_000_000.0;

/// Distinct values of the columns with few.
const FEW: i64 = 100;

/// Rows of a batch while generating.
const BATCH: u64 = 32 * 1024;

/// The generators of all tables at `scale`.
pub fn tables(scale: f64) -> Vec<Box<dyn TableGenerator>> {
    let rows = ((ROWS * scale).round() as u64).max(1);
    let table = |table| -> Box<dyn TableGenerator> { Box::new(Generator { table, rows }) };
    (0..TABLES.len()).map(table).collect()
}

/// The ten questions about groups (`g1` to `g10`) and the five about joins (`j1` to `j5`).
pub fn queries() -> Vec<Query> {
    Query::all_from(include_str!("queries.sql"))
}

struct Generator {
    /// Index in [`TABLES`].
    table: usize,
    /// Rows of the large tables.
    rows: u64,
}

impl Generator {
    /// Rows of the tables that `x` is joined with.
    fn keys(&self, table: usize) -> u64 {
        let fraction = match table {
            2 => 1_000_000,
            3 => 1_000,
            _ => 1,
        };
        (self.rows / fraction).max(10)
    }

    fn batch(&self, range: Range<u64>) -> RecordBatch {
        let columns = match self.table {
            0 => self.groups(range),
            1 => self.x(range),
            _ => self.joined(range),
        };
        RecordBatch::try_from_iter_with_nullable(
            columns.into_iter().map(|(name, values)| (name, values, false)),
        )
        .expect("columns of one length")
    }

    fn groups(&self, range: Range<u64>) -> Vec<(&'static str, ArrayRef)> {
        let many = (self.rows as i64 / FEW).max(1);
        let random = |row| RowRandom::new(SEED, 0, row);
        let key = |column, distinct| move |row| random(row).range(column, 1, distinct) as i32;
        vec![
            ("id1", strings(&range, 3, key(0, FEW))),
            ("id2", strings(&range, 3, key(1, FEW))),
            ("id3", strings(&range, 10, key(2, many))),
            ("id4", integers(&range, key(3, FEW))),
            ("id5", integers(&range, key(4, FEW))),
            ("id6", integers(&range, key(5, many))),
            ("v1", integers(&range, key(6, 5))),
            ("v2", integers(&range, key(7, 15))),
            ("v3", values(&range, 0)),
        ]
    }

    /// Keys are drawn from ten ninths of the joined table's keys, so that nine of ten have a match.
    fn x(&self, range: Range<u64>) -> Vec<(&'static str, ArrayRef)> {
        let key = |column: u64| {
            let distinct = self.keys(column as usize + 2) as i64;
            let drawn = distinct + distinct / 9;
            move |row| key_of(RowRandom::new(SEED, 1, row).range(column, 0, drawn - 1) as u64)
        };
        vec![
            ("id1", integers(&range, key(0))),
            ("id2", integers(&range, key(1))),
            ("id3", integers(&range, key(2))),
            ("id4", strings(&range, 0, key(0))),
            ("id5", strings(&range, 0, key(1))),
            ("id6", strings(&range, 0, key(2))),
            ("v1", values(&range, 1)),
        ]
    }

    fn joined(&self, range: Range<u64>) -> Vec<(&'static str, ArrayRef)> {
        let names = [("id1", "id4"), ("id2", "id5"), ("id3", "id6")];
        let (number, text) = names[self.table - 2];
        vec![
            (number, integers(&range, key_of)),
            (text, strings(&range, 0, key_of)),
            ("v2", values(&range, self.table as u64)),
        ]
    }
}

/// The key of a row of a joined table. Neighbouring rows have distant keys.
fn key_of(row: u64) -> i32 {
    // An odd factor permutes the numbers below 2^31.
    (row.wrapping_mul(387_276_957) & ((1 << 31) - 1)) as i32
}

fn integers(range: &Range<u64>, value: impl Fn(u64) -> i32) -> ArrayRef {
    Arc::new(Int32Array::from_iter_values(range.clone().map(value)))
}

/// Strings `id` and a number of at least `digits` digits.
fn strings(range: &Range<u64>, digits: usize, value: impl Fn(u64) -> i32) -> ArrayRef {
    let text = |row| format!("id{:0digits$}", value(row));
    Arc::new(StringArray::from_iter_values(range.clone().map(text)))
}

/// Uniform numbers below 100 with six decimals.
fn values(range: &Range<u64>, table: u64) -> ArrayRef {
    let value = |row| RowRandom::new(SEED, table, row).range(8, 0, 99_999_999) as f64 / 1e6;
    Arc::new(Float64Array::from_iter_values(range.clone().map(value)))
}

impl TableGenerator for Generator {
    fn name(&self) -> &'static str {
        TABLES[self.table]
    }

    fn schema(&self) -> SchemaRef {
        self.batch(0..0).schema()
    }

    fn expected_rows(&self) -> u64 {
        match self.table {
            0 | 1 => self.rows,
            table => self.keys(table),
        }
    }

    fn natural_chunks(&self) -> usize {
        self.expected_rows().div_ceil(ROWS_PER_CHUNK) as usize
    }

    fn chunk(&self, index: usize, chunks: usize) -> Box<dyn Iterator<Item = RecordBatch> + Send> {
        let generator = Self { ..*self };
        let ranges = row_ranges(self.expected_rows(), (index, chunks), BATCH);
        Box::new(ranges.map(move |rows| generator.batch(rows)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::AsArray;
    use arrow::compute::concat_batches;
    use arrow::datatypes::Int32Type;
    use std::collections::HashSet;

    fn whole(table: usize, chunks: usize) -> RecordBatch {
        let table = tables(0.01).swap_remove(table);
        let batches: Vec<_> = (0..chunks).flat_map(|chunk| table.chunk(chunk, chunks)).collect();
        concat_batches(&table.schema(), &batches).expect("one schema")
    }

    fn distinct(batch: &RecordBatch, name: &str) -> HashSet<i32> {
        let column = batch.column_by_name(name).expect(name);
        column
            .as_primitive::<Int32Type>()
            .values()
            .iter()
            .copied()
            .collect()
    }

    #[test]
    fn chunked_generation_matches_the_whole_table() {
        for (table, name) in TABLES.iter().enumerate() {
            assert_eq!(whole(table, 1), whole(table, 3), "{name}");
        }
    }

    #[test]
    fn groups_have_the_published_cardinalities() {
        let groups = whole(0, 1);
        assert_eq!(groups.num_rows(), 100_000);
        assert_eq!(distinct(&groups, "id4").len(), 100);
        assert_eq!(distinct(&groups, "id6").len(), 1_000);
        let id3 = groups.column_by_name("id3").expect("id3").as_string::<i32>();
        assert_eq!(id3.value(0).len(), 12);
    }

    #[test]
    fn nine_of_ten_keys_have_a_match() {
        let x = whole(1, 1);
        for (table, name) in [(3, "id2"), (4, "id3")] {
            let joined = whole(table, 1);
            let keys = distinct(&joined, name);
            assert_eq!(keys.len(), joined.num_rows(), "{name} is a key");
            let column = x.column_by_name(name).expect(name).as_primitive::<Int32Type>();
            let matched = column.values().iter().filter(|key| keys.contains(key)).count();
            assert!((88_000..92_000).contains(&matched), "{name}: {matched}");
        }
    }

    #[test]
    fn queries_have_names_and_titles() {
        let queries = queries();
        assert_eq!(queries.len(), 15);
        assert_eq!((&*queries[9].name, &*queries[14].name), ("g10", "j5"));
        assert!(
            queries
                .iter()
                .all(|query| !query.title.is_empty() && !query.sql.contains(';'))
        );
    }
}
