//! TPC-DS: 24 tables by the crate tpcdsgen, byte for byte dsdgen's values, and the 99 queries.
//!
//! tpcdsgen numbers the source rows of a table. A source row is one row of most tables, but an order with all
//! of its lines in the three tables of sales and the three of returns. A chunk is a range of source rows, so
//! chunks are generated independently, and the rows of all chunks do not depend on their number. Scales below
//! 1 shrink the tables that grow with the scale; dates, times and demographics have the same size at every
//! scale.
//!
//! The queries have the parameters of the specification's validation runs. Four of the 99 have two
//! statements: the queries `14a` and `14b`, 23, 24 and 39. The text is the specification's, with three
//! changes so that every engine returns the same answer: ORDER BY determines every row within the LIMIT,
//! integers are divided as decimals, and computed columns have names.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use tpcdsgen::config::{Session, SessionBuilder, Table as Source};
use tpcdsgen_arrow::{
    CallCenterArrow, CatalogPageArrow, CatalogReturnsArrow, CatalogSalesArrow, CustomerAddressArrow,
    CustomerArrow, CustomerDemographicsArrow, DateDimArrow, HouseholdDemographicsArrow, IncomeBandArrow,
    InventoryArrow, ItemArrow, PromotionArrow, ReasonArrow, ShipModeArrow, StoreArrow, StoreReturnsArrow,
    StoreSalesArrow, TimeDimArrow, WarehouseArrow, WebPageArrow, WebReturnsArrow, WebSalesArrow,
    WebSiteArrow,
};

use super::Query;
use super::generate::{ROWS_PER_CHUNK, TableGenerator};

/// The crate that generates the rows, with the version in Cargo.lock.
pub const GENERATOR: &str = "tpcdsgen 4.0.0";

/// The tables, dimensions first.
pub const TABLES: [&str; 24] = [
    "call_center",
    "catalog_page",
    "customer",
    "customer_address",
    "customer_demographics",
    "date_dim",
    "household_demographics",
    "income_band",
    "item",
    "promotion",
    "reason",
    "ship_mode",
    "store",
    "time_dim",
    "warehouse",
    "web_page",
    "web_site",
    "inventory",
    "store_returns",
    "catalog_returns",
    "web_returns",
    "store_sales",
    "catalog_sales",
    "web_sales",
];

/// Number of rows of the largest table, the inventory, at scale 1.
pub(crate) const ROWS: f64 = 11_745_000.0;

/// Number of rows of a generated batch, so large that the writer's cost per batch is negligible.
const BATCH: usize = 32 * 1024;

/// Defines the generator of one table from tpcdsgen's types for it. The last number is the mean number of
/// rows of a source row.
macro_rules! table {
    ($name:literal, $source:ident, $arrow:ident, $rows:literal) => {
        |session: &Session| -> Box<dyn TableGenerator> {
            let source_rows = session.get_scaling().get_row_count(Source::$source);
            let session = session.clone();
            Box::new(Table {
                name: $name,
                source_rows,
                rows_per_source_row: $rows,
                schema: $arrow::schema_ref(),
                generate: Box::new(move |first, last| {
                    let rows = $arrow::new(session.clone())
                        .with_source_row_range(first, last)
                        .with_batch_size(BATCH);
                    Box::new(rows.map(|batch| batch.expect("tpcdsgen's arrays have its schema's types")))
                }),
            })
        }
    };
}

/// The generators of the tables at `scale`, in the order of [`TABLES`].
pub fn tables(scale: f64) -> Vec<Box<dyn TableGenerator>> {
    let session = SessionBuilder::new()
        .with_scale_factor(scale)
        .build()
        .expect("the scale is within the workload's bounds");
    type Make = fn(&Session) -> Box<dyn TableGenerator>;
    let all: [Make; 24] = [
        table!("call_center", CallCenter, CallCenterArrow, 1.0),
        table!("catalog_page", CatalogPage, CatalogPageArrow, 1.0),
        table!("customer", Customer, CustomerArrow, 1.0),
        table!("customer_address", CustomerAddress, CustomerAddressArrow, 1.0),
        table!(
            "customer_demographics",
            CustomerDemographics,
            CustomerDemographicsArrow,
            1.0
        ),
        table!("date_dim", DateDim, DateDimArrow, 1.0),
        table!(
            "household_demographics",
            HouseholdDemographics,
            HouseholdDemographicsArrow,
            1.0
        ),
        table!("income_band", IncomeBand, IncomeBandArrow, 1.0),
        table!("item", Item, ItemArrow, 1.0),
        table!("promotion", Promotion, PromotionArrow, 1.0),
        table!("reason", Reason, ReasonArrow, 1.0),
        table!("ship_mode", ShipMode, ShipModeArrow, 1.0),
        table!("store", Store, StoreArrow, 1.0),
        table!("time_dim", TimeDim, TimeDimArrow, 1.0),
        table!("warehouse", Warehouse, WarehouseArrow, 1.0),
        table!("web_page", WebPage, WebPageArrow, 1.0),
        table!("web_site", WebSite, WebSiteArrow, 1.0),
        table!("inventory", Inventory, InventoryArrow, 1.0),
        // Orders have 12 lines in stores and on the web and 9 in the catalog; a tenth is returned.
        table!("store_returns", StoreReturns, StoreReturnsArrow, 1.2),
        table!("catalog_returns", CatalogReturns, CatalogReturnsArrow, 0.9),
        table!("web_returns", WebReturns, WebReturnsArrow, 1.2),
        table!("store_sales", StoreSales, StoreSalesArrow, 12.0),
        table!("catalog_sales", CatalogSales, CatalogSalesArrow, 9.0),
        table!("web_sales", WebSales, WebSalesArrow, 12.0),
    ];
    all.iter().map(|table| table(&session)).collect()
}

/// The batches of source rows, from the first to the last, both numbered from 1.
type Generate = Box<dyn Fn(u64, u64) -> Box<dyn Iterator<Item = RecordBatch> + Send> + Send + Sync>;

struct Table {
    name: &'static str,
    source_rows: u64,
    rows_per_source_row: f64,
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
        (self.source_rows as f64 * self.rows_per_source_row) as u64
    }

    fn natural_chunks(&self) -> usize {
        self.expected_rows().div_ceil(ROWS_PER_CHUNK).max(1) as usize
    }

    fn chunk(&self, index: usize, chunks: usize) -> Box<dyn Iterator<Item = RecordBatch> + Send> {
        let before = |chunk: usize| (u128::from(self.source_rows) * chunk as u128 / chunks as u128) as u64;
        let (first, last) = (before(index) + 1, before(index + 1));
        if first > last {
            return Box::new(std::iter::empty());
        }
        (self.generate)(first, last)
    }
}

/// Writes the list of all queries from their names, which are those of their files.
macro_rules! files {
    ($($name:literal)*) => {
        [$(($name, include_str!(concat!("q", $name, ".sql")))),*]
    };
}

/// The 99 queries, which are 103 statements.
pub fn queries() -> Vec<Query> {
    let files = files!(
        "01" "02" "03" "04" "05" "06" "07" "08" "09" "10" "11" "12" "13" "14a" "14b" "15" "16" "17" "18" "19" "20"
        "21" "22" "23a" "23b" "24a" "24b" "25" "26" "27" "28" "29" "30" "31" "32" "33" "34" "35" "36" "37" "38"
        "39a" "39b" "40" "41" "42" "43" "44" "45" "46" "47" "48" "49" "50" "51" "52" "53" "54" "55" "56" "57" "58"
        "59" "60" "61" "62" "63" "64" "65" "66" "67" "68" "69" "70" "71" "72" "73" "74" "75" "76" "77" "78" "79"
        "80" "81" "82" "83" "84" "85" "86" "87" "88" "89" "90" "91" "92" "93" "94" "95" "96" "97" "98" "99"
    );
    files
        .iter()
        .map(|(name, text)| Query::from_file(name.trim_start_matches('0'), text))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    use arrow::compute::concat_batches;

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
        let queries = queries();
        let numbers: std::collections::BTreeSet<u32> = queries
            .iter()
            .map(|query| query.name.trim_end_matches(['a', 'b']).parse().expect("a number"))
            .collect();
        assert_eq!((queries.len(), numbers), (103, (1..=99).collect()));
        for query in &queries {
            assert!(
                !query.title.is_empty() && !query.sql.contains(';') && !query.sql.starts_with("--"),
                "{query:?}"
            );
        }
    }

    #[test]
    fn generated_rows_do_not_depend_on_chunk_count() {
        let tables = tables(0.01);
        assert_eq!(
            tables.iter().map(|table| table.name()).collect::<Vec<_>>(),
            TABLES
        );
        for table in &tables {
            let rows = |chunks: usize| {
                let batches: Vec<_> = (0..chunks).flat_map(|chunk| table.chunk(chunk, chunks)).collect();
                concat_batches(&table.schema(), &batches).expect("batches of the table's schema")
            };
            let whole = rows(1);
            assert!(rows(7) == whole, "{}", table.name());
            let (expected, actual) = (table.expected_rows() as f64, whole.num_rows() as f64);
            assert!(
                (0.9..=1.1).contains(&(expected / actual)),
                "{}: {expected}, {actual}",
                table.name()
            );
        }
    }
}
