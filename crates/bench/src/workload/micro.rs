//! One table for microqueries: keys of known cardinality, values of every kind, no correlation between
//! columns.
//!
//! | column | type | values |
//! | --- | --- | --- |
//! | `k4` .. `k16m` | int64 | uniform, n distinct: 4, 256, 65,536, 1,048,576, 16,777,216 |
//! | `skewed` | int64 | 1,048,576 distinct by a Zipf-like law: half of the rows in the 1024 most frequent |
//! | `name` | utf8 | 1000 distinct, 8 characters |
//! | `flag` | boolean | true for half |
//! | `day` | date32 | uniform in ten years |
//! | `amount` | decimal(15, 2) | uniform, 0 to 9999.99 |
//! | `quantity` | int32 | uniform, 0 to 9999 |
//! | `wide` | int64 | 64 random bits |
//! | `measure` | float64 | uniform, 0 to 1 |
//! | `sparse` | int64 | NULL for nine rows of ten, else 0 to 99 |
//!
//! Scale 1 is 10 million rows. Rows are a function of ([`SEED`], row).

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int32Array, Int64Array, RecordBatch,
    StringArray,
};
use arrow::datatypes::SchemaRef;

use super::Query;
use super::generate::{ROWS_PER_CHUNK, TableGenerator, row_ranges};
use super::random::RowRandom;

/// This generator. The version changes with the rows.
pub const GENERATOR: &str = "galatea micro 1";

/// The seed of all random values.
pub const SEED: u64 = 4_711;

/// The one table.
pub const TABLES: [&str; 1] = ["micro"];

/// Rows at scale 1.
pub const ROWS: f64 = 10_000_000.0;

/// Rows of a batch while generating.
const BATCH: u64 = 32 * 1024;

/// The generator of the table at `scale`.
pub fn tables(scale: f64) -> Vec<Box<dyn TableGenerator>> {
    vec![Box::new(Micro {
        rows: (ROWS * scale).round() as u64,
    })]
}

struct Micro {
    rows: u64,
}

impl TableGenerator for Micro {
    fn name(&self) -> &'static str {
        TABLES[0]
    }

    fn schema(&self) -> SchemaRef {
        rows(0..0).schema()
    }

    fn expected_rows(&self) -> u64 {
        self.rows
    }

    fn natural_chunks(&self) -> usize {
        self.rows.div_ceil(ROWS_PER_CHUNK) as usize
    }

    fn chunk(&self, index: usize, chunks: usize) -> Box<dyn Iterator<Item = RecordBatch> + Send> {
        Box::new(row_ranges(self.rows, (index, chunks), BATCH).map(rows))
    }
}

/// Skewed keys in 0..2^20: a uniform exponent, then uniform within its power of two.
fn skewed(random: RowRandom) -> i64 {
    let exponent = random.range(20, 0, 19);
    (1 << exponent) | random.range(21, 0, (1 << exponent) - 1)
}

fn rows(range: Range<u64>) -> RecordBatch {
    let random = |row| RowRandom::new(SEED, 0, row);
    let longs = |value: &dyn Fn(RowRandom) -> i64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(
            range.clone().map(|row| value(random(row))),
        ))
    };
    let key = |column, bits: u32| longs(&move |random| random.range(column, 0, (1 << bits) - 1));
    let rows = || range.clone().map(random);
    let amounts = Decimal128Array::from_iter_values(rows().map(|r| i128::from(r.range(8, 0, 999_999))));
    // From 2015-01-01 on.
    let days = rows().map(|r| 16_436 + r.range(7, 0, 3_652) as i32);
    let columns: Vec<(&str, ArrayRef, bool)> = vec![
        ("k4", key(0, 2), false),
        ("k256", key(1, 8), false),
        ("k64k", key(2, 16), false),
        ("k1m", key(3, 20), false),
        ("k16m", key(4, 24), false),
        ("skewed", longs(&skewed), false),
        (
            "name",
            Arc::new(StringArray::from_iter_values(
                rows().map(|r| format!("name-{:03}", r.range(5, 0, 999))),
            )),
            false,
        ),
        (
            "flag",
            Arc::new(BooleanArray::from_iter(
                rows().map(|r| Some(r.range(6, 0, 1) == 1)),
            )),
            false,
        ),
        ("day", Arc::new(Date32Array::from_iter_values(days)), false),
        (
            "amount",
            Arc::new(
                amounts
                    .with_precision_and_scale(15, 2)
                    .expect("15 digits hold 999999"),
            ),
            false,
        ),
        (
            "quantity",
            Arc::new(Int32Array::from_iter_values(
                rows().map(|r| r.range(9, 0, 9_999) as i32),
            )),
            false,
        ),
        ("wide", longs(&|r| r.bits(10) as i64), false),
        (
            "measure",
            Arc::new(Float64Array::from_iter_values(rows().map(|r| r.unit(11)))),
            false,
        ),
        (
            "sparse",
            Arc::new(Int64Array::from_iter(
                rows().map(|r| (r.range(12, 0, 9) == 0).then(|| r.range(13, 0, 99))),
            )),
            true,
        ),
    ];
    RecordBatch::try_from_iter_with_nullable(columns).expect("columns of one length")
}

/// Counts, sums, filters and groupings by every cardinality.
pub fn queries() -> Vec<Query> {
    let query = |name: &str, title: &str, sql: &str| Query {
        name: name.to_string(),
        title: title.to_string(),
        sql: sql.to_string(),
        decided: None,
    };
    let mut queries = vec![
        query("count", "count of rows", "SELECT count(*) FROM micro"),
        query("sum", "sum of a 4-byte column", "SELECT sum(quantity) FROM micro"),
        query(
            "sum-decimal",
            "sum of a decimal column",
            "SELECT sum(amount) FROM micro",
        ),
        query(
            "sum-wide",
            "sum over 8-byte values",
            "SELECT sum(wide % 1000) FROM micro",
        ),
        query(
            "sum-null",
            "aggregates of a column with NULLs",
            "SELECT count(sparse), sum(sparse) FROM micro",
        ),
        query(
            "filter-1",
            "sum of 1 % of rows",
            "SELECT sum(amount) FROM micro WHERE quantity < 100",
        ),
        query(
            "filter-50",
            "sum of 50 % of rows",
            "SELECT sum(amount) FROM micro WHERE quantity < 5000",
        ),
        query(
            "min-max",
            "extremes",
            "SELECT min(day), max(day), min(amount), max(amount) FROM micro",
        ),
    ];
    for key in ["k4", "k256", "k64k", "k1m", "k16m", "skewed", "name"] {
        queries.push(query(
            &format!("group-{key}"),
            &format!("count and sum by {key}, reduced to one row"),
            // The outer aggregate keeps the result small, so that grouping is measured, not output.
            &format!(
                "SELECT count(*), sum(c), max(s) FROM (SELECT {key}, count(*) AS c, sum(quantity) AS s FROM micro GROUP BY {key}) AS groups"
            ),
        ));
    }
    queries
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::AsArray;
    use arrow::datatypes::Int64Type;
    use std::collections::HashSet;

    #[test]
    fn chunked_generation_matches_the_whole_table() {
        let table = &tables(0.005)[0];
        let whole: Vec<_> = table.chunk(0, 1).collect();
        let parts: Vec<_> = (0..3).flat_map(|chunk| table.chunk(chunk, 3)).collect();
        let schema = table.schema();
        let join =
            |batches: &[RecordBatch]| arrow::compute::concat_batches(&schema, batches).expect("one schema");
        assert_eq!(join(&whole), join(&parts));
        assert_eq!(join(&whole).num_rows(), 50_000);
    }

    #[test]
    fn cardinalities_match_column_names() {
        let batch = rows(0..50_000);
        let distinct = |name: &str| {
            let column = batch
                .column_by_name(name)
                .expect(name)
                .as_primitive::<Int64Type>();
            column.values().iter().collect::<HashSet<_>>().len()
        };
        assert_eq!((distinct("k4"), distinct("k256")), (4, 256));
        assert!(distinct("k16m") > 49_000);
        let skewed = batch
            .column_by_name("skewed")
            .expect("skewed")
            .as_primitive::<Int64Type>();
        let frequent = skewed.values().iter().filter(|key| **key < 1024).count();
        assert!((24_000..26_000).contains(&frequent), "{frequent}");
        assert_eq!(
            batch.column_by_name("sparse").expect("sparse").null_count() / 1000,
            45
        );
    }
}
