//! Workloads: their data and their queries. All but [`micro`] and [`events`] are published.
//!
//! | workload | data | queries |
//! | --- | --- | --- |
//! | [`tpch`] | TPC-H by the crate tpchgen, equal to dbgen's | the 22, with the parameters of validation |
//! | [`tpcds`] | TPC-DS by the crate tpcdsgen, equal to dsdgen's | the 99, with the parameters of validation |
//! | [`ssb`] | the Star Schema Benchmark, by our own generator | the 13 |
//! | [`micro`] | one table of keys of known cardinality and values of every type | count, sums, groupings |
//! | [`hits`] | the one table of ClickBench, by our own generator | the 43 |
//! | [`h2o`] | the tables of H2O.ai's database benchmark, by our own generator | the 15 |
//! | [`events`] | events of an online shop, by our own generator | ten analyses, from funnels to deduplication |
//!
//! [`generate`] writes the tables of any workload as Parquet; [`tables`] finds and registers them.

pub mod events;
mod format;
pub mod generate;
pub mod h2o;
pub mod hits;
pub mod manifest;
pub mod micro;
pub(crate) mod random;
pub mod ssb;
pub mod tables;
pub mod tpcds;
pub mod tpch;
pub(crate) mod write;

use std::fmt;

use arrow::array::RecordBatch;

use crate::compare::{Difference, RowOrder, compare};
use crate::{BenchError, Result};
use generate::TableGenerator;

/// A query of a workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// Its published name: `1` to `22` for TPC-H, `1` to `99` for TPC-DS, `1.1` to `4.3` for the Star Schema
    /// Benchmark, `0` to `42` for ClickBench.
    pub name: String,
    /// A short description; empty if the workload has none.
    pub title: String,
    /// Its SQL string, without a semicolon.
    pub sql: String,
    /// Indices of the result columns that the query determines; `None` if it determines all. If rows tie for
    /// the last places of a LIMIT, these are the columns of the ORDER BY.
    pub decided: Option<&'static [usize]>,
}

impl Query {
    /// A query from a file that begins with its title as a comment.
    fn from_file(name: impl Into<String>, text: &str) -> Self {
        let (title, sql) = match text.strip_prefix("-- ").and_then(|text| text.split_once('\n')) {
            Some((title, sql)) => (title.trim_end_matches('.'), sql),
            None => ("", text),
        };
        Self {
            name: name.into(),
            title: title.to_string(),
            sql: sql.trim().trim_end_matches(';').to_string(),
            decided: None,
        }
    }

    /// The queries of a file. Each begins with a comment, its name and title, and ends with a semicolon.
    fn all_from(text: &str) -> Vec<Self> {
        let statements = text.split(';').map(str::trim).filter(|text| !text.is_empty());
        let query = |text: &str| {
            let (name, text) = text
                .strip_prefix("-- ")
                .and_then(|text| text.split_once(": "))
                .expect("a comment with name and title");
            Self::from_file(name, &format!("-- {text}"))
        };
        statements.map(query).collect()
    }

    /// Compares two results in the columns that the query determines.
    pub fn compare(&self, expected: &[RecordBatch], actual: &[RecordBatch]) -> Result<(), Difference> {
        let decided = |batches: &[RecordBatch]| match self.decided {
            None => batches.to_vec(),
            Some(columns) => batches
                .iter()
                .map(|batch| {
                    batch
                        .project(columns)
                        .expect("a result has the columns of its query")
                })
                .collect(),
        };
        compare(&decided(expected), &decided(actual), RowOrder::Any)
    }
}

/// A workload whose data can be generated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workload {
    /// TPC-H.
    Tpch,
    /// TPC-DS.
    Tpcds,
    /// The Star Schema Benchmark.
    Ssb,
    /// One table for microqueries.
    Micro,
    /// ClickBench.
    Hits,
    /// H2O.ai's database benchmark.
    H2o,
    /// Events of an online shop.
    Events,
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tpch => "tpch",
            Self::Tpcds => "tpcds",
            Self::Ssb => "ssb",
            Self::Micro => "micro",
            Self::Hits => "hits",
            Self::H2o => "h2o",
            Self::Events => "events",
        })
    }
}

impl Workload {
    /// The smallest and largest supported scale. Workloads of one table may be smaller.
    pub fn scales(self) -> (f64, f64) {
        let least = match self {
            Self::Tpch | Self::Tpcds | Self::Ssb => 0.001,
            Self::Micro | Self::Hits | Self::H2o | Self::Events => 0.000_01,
        };
        (least, 30_000.0)
    }

    /// Approximate number of rows of the largest table at scale 1.
    pub fn rows_at_scale_1(self) -> f64 {
        match self {
            Self::Tpch | Self::Ssb => 6_000_000.0,
            Self::Tpcds => tpcds::ROWS,
            Self::Micro => micro::ROWS,
            Self::Hits => hits::ROWS,
            Self::H2o => h2o::ROWS,
            Self::Events => events::ROWS,
        }
    }

    /// Name and version of the generator. The version changes whenever the rows do, so that data of other
    /// versions are not mistaken for this one's.
    pub fn generator(self) -> &'static str {
        match self {
            Self::Tpch => tpch::GENERATOR,
            Self::Tpcds => tpcds::GENERATOR,
            Self::Ssb => ssb::GENERATOR,
            Self::Micro => micro::GENERATOR,
            Self::Hits => hits::GENERATOR,
            Self::H2o => h2o::GENERATOR,
            Self::Events => events::GENERATOR,
        }
    }

    /// The names of the tables.
    pub fn table_names(self) -> &'static [&'static str] {
        match self {
            Self::Tpch => &tpch::TABLES,
            Self::Tpcds => &tpcds::TABLES,
            Self::Ssb => &ssb::TABLES,
            Self::Micro => &micro::TABLES,
            Self::Hits => &hits::TABLES,
            Self::H2o => &h2o::TABLES,
            Self::Events => &events::TABLES,
        }
    }

    /// The generators of the tables at `scale`.
    pub fn tables(self, scale: f64) -> Result<Vec<Box<dyn TableGenerator>>> {
        let (min, max) = self.scales();
        if !(min..=max).contains(&scale) {
            return Err(BenchError::Scale { scale, min, max });
        }
        Ok(match self {
            Self::Tpch => tpch::tables(scale),
            Self::Tpcds => tpcds::tables(scale),
            Self::Ssb => ssb::tables(scale),
            Self::Micro => micro::tables(scale),
            Self::Hits => hits::tables(scale),
            Self::H2o => h2o::tables(scale),
            Self::Events => events::tables(scale),
        })
    }

    /// The queries for data at `scale`, on which a parameter of some depends.
    pub fn queries(self, scale: f64) -> Vec<Query> {
        match self {
            Self::Tpch => tpch::queries(scale),
            Self::Tpcds => tpcds::queries(),
            Self::Ssb => ssb::queries(),
            Self::Micro => micro::queries(),
            Self::Hits => hits::queries(),
            Self::H2o => h2o::queries(),
            Self::Events => events::queries(),
        }
    }

    /// The queries of these names, in the given order; all if no name is given.
    pub fn select(self, scale: f64, names: &[String]) -> Result<Vec<Query>> {
        let all = self.queries(scale);
        if names.is_empty() {
            return Ok(all);
        }
        let find = |name: &String| {
            let number = name.trim_start_matches(['q', 'Q']);
            // `01` is `1`, and `0` is itself.
            let wanted = match number.trim_start_matches('0') {
                "" => number,
                wanted => wanted,
            };
            all.iter()
                .find(|query| query.name == wanted)
                .cloned()
                .ok_or_else(|| BenchError::Unknown {
                    kind: "query",
                    name: name.clone(),
                    workload: self.to_string(),
                    known: all
                        .iter()
                        .map(|query| query.name.as_str())
                        .collect::<Vec<_>>()
                        .join(", "),
                })
        };
        names.iter().map(find).collect()
    }
}
