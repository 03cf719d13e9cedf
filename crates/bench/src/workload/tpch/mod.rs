//! TPC-H: eight tables by the crate tpchgen, byte for byte dbgen's values, and the 22 queries.
//!
//! A table is generated in parts of about [`ROWS_PER_CHUNK`] rows. Each is independent and is one row group,
//! so parts run on all cores, and the file does not depend on their number. Queries have the parameters of
//! the specification's validation runs. Only query 11's fraction depends on the scale.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator, PartSuppGenerator,
    RegionGenerator, SupplierGenerator,
};
use tpchgen_arrow::{
    CustomerArrow, LineItemArrow, NationArrow, OrderArrow, PartArrow, PartSuppArrow, RegionArrow,
    SupplierArrow,
};

use super::Query;
use super::generate::{ROWS_PER_CHUNK, TableGenerator};

/// The crate that generates the rows, with the version in Cargo.lock.
pub const GENERATOR: &str = "tpchgen 4.0.0";

/// The tables, small to large.
pub const TABLES: [&str; 8] = [
    "region", "nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem",
];

/// Number of rows of a generated batch, so large that the writer's cost per batch is negligible.
const BATCH: usize = 32 * 1024;

/// Defines the generator of one table from tpchgen's two types for it.
macro_rules! table {
    ($name:literal, $arrow:ident, $generator:ident, $rows:expr) => {
        |scale: f64| -> Box<dyn TableGenerator> {
            let rows: fn(f64) -> u64 = $rows;
            Box::new(Table {
                name: $name,
                rows: rows(scale),
                schema: $arrow::schema_ref(),
                generate: Box::new(move |part, parts| {
                    let rows = $arrow::new($generator::new(scale, part, parts)).with_batch_size(BATCH);
                    Box::new(rows.map(|batch| batch.expect("tpchgen's arrays have its schema's types")))
                }),
            })
        }
    };
}

/// The generators of the eight tables at `scale`, in the order of [`TABLES`].
pub fn tables(scale: f64) -> Vec<Box<dyn TableGenerator>> {
    let all: [fn(f64) -> Box<dyn TableGenerator>; 8] = [
        table!("region", RegionArrow, RegionGenerator, |_| 5),
        table!("nation", NationArrow, NationGenerator, |_| 25),
        table!("supplier", SupplierArrow, SupplierGenerator, |scale| count(
            SupplierGenerator::calculate_row_count(scale, 1, 1)
        )),
        table!("customer", CustomerArrow, CustomerGenerator, |scale| count(
            CustomerGenerator::calculate_row_count(scale, 1, 1)
        )),
        table!("part", PartArrow, PartGenerator, |scale| count(
            PartGenerator::calculate_row_count(scale, 1, 1)
        )),
        table!("partsupp", PartSuppArrow, PartSuppGenerator, |scale| count(
            PartSuppGenerator::calculate_row_count(scale, 1, 1)
        )),
        table!("orders", OrderArrow, OrderGenerator, |scale| count(
            OrderGenerator::calculate_row_count(scale, 1, 1)
        )),
        // An order has one to seven lines: four on average. The exact number is known only after generating
        // them.
        table!("lineitem", LineItemArrow, LineItemGenerator, |scale| 4 * count(
            OrderGenerator::calculate_row_count(scale, 1, 1)
        )),
    ];
    all.iter().map(|table| table(scale)).collect()
}

fn count(rows: i64) -> u64 {
    rows.unsigned_abs()
}

/// The batches of part `part` (from 1) of `parts`.
type Generate = Box<dyn Fn(i32, i32) -> Box<dyn Iterator<Item = RecordBatch> + Send> + Send + Sync>;

struct Table {
    name: &'static str,
    rows: u64,
    schema: SchemaRef,
    generate: Generate,
}

impl TableGenerator for Table {
    fn name(&self) -> &'static str {
        self.name
    }

    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn expected_rows(&self) -> u64 {
        self.rows
    }

    fn natural_chunks(&self) -> usize {
        self.rows.div_ceil(ROWS_PER_CHUNK).max(1) as usize
    }

    fn chunk(&self, index: usize, chunks: usize) -> Box<dyn Iterator<Item = RecordBatch> + Send> {
        (self.generate)(index as i32 + 1, chunks as i32)
    }
}

/// The 22 queries for data at `scale`.
pub fn queries(scale: f64) -> Vec<Query> {
    let texts = [
        include_str!("q01.sql"),
        include_str!("q02.sql"),
        include_str!("q03.sql"),
        include_str!("q04.sql"),
        include_str!("q05.sql"),
        include_str!("q06.sql"),
        include_str!("q07.sql"),
        include_str!("q08.sql"),
        include_str!("q09.sql"),
        include_str!("q10.sql"),
        include_str!("q11.sql"),
        include_str!("q12.sql"),
        include_str!("q13.sql"),
        include_str!("q14.sql"),
        include_str!("q15.sql"),
        include_str!("q16.sql"),
        include_str!("q17.sql"),
        include_str!("q18.sql"),
        include_str!("q19.sql"),
        include_str!("q20.sql"),
        include_str!("q21.sql"),
        include_str!("q22.sql"),
    ];
    let mut queries: Vec<Query> = texts
        .iter()
        .enumerate()
        .map(|(i, text)| Query::from_file((i + 1).to_string(), text))
        .collect();
    queries[10].sql = queries[10]
        .sql
        .replace("0.0001", &format!("{:.10}", 0.0001 / scale));
    queries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generator_version_matches_cargo_lock() {
        let (name, version) = GENERATOR.split_once(' ').expect("name and version");
        let lock = include_str!("../../../../../Cargo.lock");
        assert!(
            lock.contains(&format!("name = \"{name}\"\nversion = \"{version}\"")),
            "{GENERATOR}"
        );
    }

    #[test]
    fn queries_have_names_titles_and_no_semicolon() {
        let queries = queries(10.0);
        assert_eq!(queries.len(), 22);
        for (i, query) in queries.iter().enumerate() {
            assert_eq!(query.name, (i + 1).to_string());
            assert!(
                !query.title.is_empty() && !query.sql.contains(';') && !query.sql.starts_with("--"),
                "{query:?}"
            );
        }
        assert!(queries[10].sql.contains("* 0.0000100000"), "{}", queries[10].sql);
    }

    #[test]
    fn chunked_generation_matches_the_whole_table() {
        let rows = |chunks: usize| {
            let tables = tables(0.001);
            let orders = &tables[6];
            let keys = (0..chunks)
                .flat_map(|chunk| orders.chunk(chunk, chunks))
                .flat_map(|batch| {
                    let keys = batch.column(0).clone();
                    let keys =
                        arrow::array::AsArray::as_primitive::<arrow::datatypes::Int64Type>(&keys).clone();
                    keys.values().to_vec()
                });
            keys.collect::<Vec<_>>()
        };
        let whole = rows(1);
        assert_eq!(whole.len(), 1500);
        assert_eq!(whole, rows(7));
    }
}
