//! The Star Schema Benchmark (O'Neil, O'Neil, Chen, Revilak: *Star Schema Benchmark*, revision 3, 2009):
//! TPC-H's data denormalised into one fact table, LINEORDER, and four dimensions, and 13 queries in four
//! flights.
//!
//! The generator is our own. Rows follow the specification's cardinalities and distributions, not ssb-dbgen's
//! random sequence, so single values differ from that program's; the queries' selectivities agree.
//!
//! | table | rows at scale s | distributions |
//! | --- | --- | --- |
//! | date | 2557: every day of 1992 to 1998 | the calendar |
//! | supplier | 2,000 s | nation uniform of 25, city uniform of its nation's 10 |
//! | customer | 30,000 s | as supplier; market segment uniform of 5 |
//! | part | 200,000 (1 + log2 s), below scale 1: 200,000 s | category uniform of 25, brand uniform of its 40, colour of 92, type of 150, container of 40, size 1-50 |
//! | lineorder | about 6,000,000 s | 1,500,000 s orders of 1 to 7 lines, uniform |
//!
//! A LINEORDER line draws its customer, part and supplier uniformly, quantity from 1-50, discount from 0-10
//! and tax from 0-8 percent; the order draws its date uniformly from 1992-01-01 to 1998-08-02 (as TPC-H's
//! orders) and its priority from 5. `extendedprice = quantity * price(part)` with TPC-H's price formula,
//! `revenue = extendedprice * (100 - discount) / 100`, `supplycost = 0.6 * price(part)`, `ordtotalprice` sums
//! over the order `extendedprice * (100 - discount) * (100 + tax)`. Money is in cents, as integers. Commit
//! dates are 30 to 90 days after the order.
//!
//! Rows are a function of ([`SEED`], table, row): see `random`. Orders are generated whole, so a chunk is a
//! range of orders.

mod dimensions;
mod lineorder;

use super::Query;
use super::generate::TableGenerator;

/// This generator. The version changes with the rows.
pub const GENERATOR: &str = "galatea ssb 1";

/// The seed of all random values.
pub const SEED: u64 = 20_090_605;

/// The tables, small to large.
pub const TABLES: [&str; 5] = ["date", "supplier", "customer", "part", "lineorder"];

/// The generators of the five tables at `scale`, in the order of [`TABLES`].
pub fn tables(scale: f64) -> Vec<Box<dyn TableGenerator>> {
    let rows = Rows::at(scale);
    vec![
        Box::new(dimensions::Date),
        Box::new(dimensions::Dimension::supplier(rows.suppliers)),
        Box::new(dimensions::Dimension::customer(rows.customers)),
        Box::new(dimensions::Dimension::part(rows.parts)),
        Box::new(lineorder::LineOrder { rows }),
    ]
}

/// The number of rows of each table except the dates. The lines of LINEORDER follow from its orders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Rows {
    suppliers: u64,
    customers: u64,
    parts: u64,
    orders: u64,
}

impl Rows {
    fn at(scale: f64) -> Self {
        let rows = |base: f64| ((base * scale).round() as u64).max(1);
        let parts = if scale < 1.0 {
            rows(200_000.0)
        } else {
            (200_000.0 * (1.0 + scale.log2().floor())) as u64
        };
        Self {
            suppliers: rows(2_000.0),
            customers: rows(30_000.0),
            parts,
            orders: rows(1_500_000.0),
        }
    }
}

/// The numbers of tables in random values.
#[derive(Debug, Clone, Copy)]
enum Stream {
    Supplier = 1,
    Customer,
    Part,
    Order,
    Line,
}

/// TPC-H's retail price of a part, in cents.
fn part_price(part: i64) -> i64 {
    90_000 + (part / 10) % 20_001 + 100 * (part % 1_000)
}

/// A city: its nation's name, cut or padded to nine characters, and a digit.
fn city(nation: &str, digit: i64) -> String {
    format!("{nation:<9.9}{digit}")
}

/// The 25 nations of TPC-H with their regions.
const NATIONS: [(&str, &str); 25] = [
    ("ALGERIA", "AFRICA"),
    ("ARGENTINA", "AMERICA"),
    ("BRAZIL", "AMERICA"),
    ("CANADA", "AMERICA"),
    ("EGYPT", "MIDDLE EAST"),
    ("ETHIOPIA", "AFRICA"),
    ("FRANCE", "EUROPE"),
    ("GERMANY", "EUROPE"),
    ("INDIA", "ASIA"),
    ("INDONESIA", "ASIA"),
    ("IRAN", "MIDDLE EAST"),
    ("IRAQ", "MIDDLE EAST"),
    ("JAPAN", "ASIA"),
    ("JORDAN", "MIDDLE EAST"),
    ("KENYA", "AFRICA"),
    ("MOROCCO", "AFRICA"),
    ("MOZAMBIQUE", "AFRICA"),
    ("PERU", "AMERICA"),
    ("CHINA", "ASIA"),
    ("ROMANIA", "EUROPE"),
    ("SAUDI ARABIA", "MIDDLE EAST"),
    ("VIETNAM", "ASIA"),
    ("RUSSIA", "EUROPE"),
    ("UNITED KINGDOM", "EUROPE"),
    ("UNITED STATES", "AMERICA"),
];

/// The 13 queries.
pub fn queries() -> Vec<Query> {
    [
        ("1.1", include_str!("q1_1.sql")),
        ("1.2", include_str!("q1_2.sql")),
        ("1.3", include_str!("q1_3.sql")),
        ("2.1", include_str!("q2_1.sql")),
        ("2.2", include_str!("q2_2.sql")),
        ("2.3", include_str!("q2_3.sql")),
        ("3.1", include_str!("q3_1.sql")),
        ("3.2", include_str!("q3_2.sql")),
        ("3.3", include_str!("q3_3.sql")),
        ("3.4", include_str!("q3_4.sql")),
        ("4.1", include_str!("q4_1.sql")),
        ("4.2", include_str!("q4_2.sql")),
        ("4.3", include_str!("q4_3.sql")),
    ]
    .into_iter()
    .map(|(name, text)| Query::from_file(name, text))
    .collect()
}

#[cfg(test)]
mod tests;
