//! ClickBench: 43 queries over one wide table of web requests, `hits`.
//!
//! The published table is a month of requests to a web analytics service. The generator is our own: it has
//! that table's 105 columns and, for the columns that queries read, approximately its cardinalities, shares
//! and lengths, so that every query finds similar numbers of rows. Single values differ, except for the
//! constants in queries.
//!
//! | data | at scale 1, 100 million rows | distribution |
//! | --- | --- | --- |
//! | users | 17.6 million of 63 bits | one request of 64 by a few frequent users, others uniform; a user has one address, region, screen, browser and phone |
//! | pages | 18 million URLs of about 85 bytes, half as many titles of about 80 | one request of 4 to a few frequent pages |
//! | counters | 8191, the sites of the pages | by powers of two: the first has 1/13 of the pages, the next two 1/26 each, ... |
//! | search phrases | 6 million, of 1 to 5 words | empty for 87 % of rows |
//! | referers | pages, and pages of search engines | empty for 24 % of rows |
//! | time | 1 to 31 July 2013, by the second | more by day than by night |
//! | `google` | in the URL of one page of 2048, `Google` in the title of one of 512 | |
//!
//! Rows are unordered and, like all their strings, a function of ([`SEED`], row), see `random`. Scale 1 has
//! the number of rows of the published table, within 0.01 %. Strings consist of syllables, Cyrillic if those
//! of the original are.

mod columns;
mod hit;
mod text;

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};

use super::Query;
use super::generate::{TableGenerator, row_ranges};
use columns::COLUMNS;
use hit::{Hit, Sizes};

/// This generator. The version changes with the rows.
pub const GENERATOR: &str = "galatea hits 1";

/// The seed of all random values.
pub const SEED: u64 = 20_130_701;

/// The one table.
pub const TABLES: [&str; 1] = ["hits"];

/// Rows at scale 1.
pub const ROWS: f64 = 100_000_000.0;

/// Number of rows of a chunk, which is one row group: fewer than in other tables, because rows are wide.
const ROWS_PER_CHUNK: u64 = 1 << 19;

/// Rows of a batch while generating.
const BATCH: u64 = 8 * 1024;

/// The generator of the table at `scale`.
pub fn tables(scale: f64) -> Vec<Box<dyn TableGenerator>> {
    let rows = ((ROWS * scale).round() as u64).max(1);
    vec![Box::new(Hits {
        rows,
        sizes: Sizes::of(rows),
        schema: Arc::new(Schema::new(
            COLUMNS.iter().map(columns::Column::field).collect::<Vec<_>>(),
        )),
    })]
}

struct Hits {
    rows: u64,
    sizes: Sizes,
    schema: SchemaRef,
}

impl TableGenerator for Hits {
    fn name(&self) -> &'static str {
        TABLES[0]
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn expected_rows(&self) -> u64 {
        self.rows
    }

    fn natural_chunks(&self) -> usize {
        self.rows.div_ceil(ROWS_PER_CHUNK) as usize
    }

    fn chunk(&self, index: usize, chunks: usize) -> Box<dyn Iterator<Item = RecordBatch> + Send> {
        let (sizes, schema) = (self.sizes, self.schema());
        let ranges = row_ranges(self.rows, (index, chunks), BATCH);
        Box::new(ranges.map(move |rows| {
            let hits: Vec<Hit> = rows.map(|row| Hit::new(sizes, row)).collect();
            let columns = (0..)
                .zip(&COLUMNS)
                .map(|(index, column)| column.values(index, &hits));
            RecordBatch::try_new(Arc::clone(&schema), columns.collect())
                .expect("columns in the schema's order and of one length")
        }))
    }
}

/// The 43 queries, numbered from 0.
pub fn queries() -> Vec<Query> {
    let lines = include_str!("queries.sql")
        .lines()
        .filter(|line| !line.starts_with("--"));
    (0..)
        .zip(lines)
        .map(|(number, line)| Query {
            decided: decided(number),
            ..Query::from_file(number.to_string(), line)
        })
        .collect()
}

/// The columns in ORDER BY, for queries with ties at their LIMIT.
fn decided(number: u32) -> Option<&'static [usize]> {
    match number {
        17 | 24 => Some(&[]),
        8 | 10 | 12 | 13 | 15 | 33 | 36..=38 => Some(&[1]),
        9 | 11 | 14 | 16 | 21 | 30..=32 | 34 | 40 | 41 => Some(&[2]),
        18 | 22 => Some(&[3]),
        23 | 35 => Some(&[4]),
        39 => Some(&[5]),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
