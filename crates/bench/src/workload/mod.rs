//! Published workloads: their data and their queries.
//!
//! | workload | data | queries |
//! | --- | --- | --- |
//! | [`tpch`] | TPC-H by the crate tpchgen, equal to dbgen's | the 22, with the parameters of validation |
//! | [`ssb`] | the Star Schema Benchmark, by our own generator | the 13 |
//! | [`micro`] | one table of keys of known cardinality and values of every type | count, sums, groupings |
//! | [`clickbench`] | `hits`, not generated | the 43 |
//!
//! [`generate`] writes a workload's tables as Parquet, whichever it is; [`tables`] finds and registers them.

pub mod clickbench;
pub mod generate;
pub mod manifest;
pub mod micro;
mod random;
pub mod ssb;
pub mod tables;
pub mod tpch;
mod write;

use std::fmt;

use crate::{BenchError, Result};
use generate::TableGenerator;

/// A query of a workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// Its published name: `1` to `22` for TPC-H, `1.1` to `4.3` for the Star Schema Benchmark.
    pub name: String,
    /// A short description; empty where the workload has none.
    pub title: String,
    /// Its text, without a semicolon.
    pub sql: String,
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
        }
    }
}

/// A workload whose data can be generated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workload {
    /// TPC-H.
    Tpch,
    /// The Star Schema Benchmark.
    Ssb,
    /// One table for microqueries.
    Micro,
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tpch => "tpch",
            Self::Ssb => "ssb",
            Self::Micro => "micro",
        })
    }
}

/// The smallest and largest scale that is accepted.
pub const SCALES: (f64, f64) = (0.001, 30_000.0);

impl Workload {
    /// Name and version of the generator. It changes whenever the rows do, so that data of another generator
    /// is not taken for this one's.
    pub fn generator(self) -> &'static str {
        match self {
            Self::Tpch => tpch::GENERATOR,
            Self::Ssb => ssb::GENERATOR,
            Self::Micro => micro::GENERATOR,
        }
    }

    /// The names of the tables.
    pub fn table_names(self) -> &'static [&'static str] {
        match self {
            Self::Tpch => &tpch::TABLES,
            Self::Ssb => &ssb::TABLES,
            Self::Micro => &micro::TABLES,
        }
    }

    /// The generators of the tables at `scale`.
    pub fn tables(self, scale: f64) -> Result<Vec<Box<dyn TableGenerator>>> {
        let (min, max) = SCALES;
        if !(min..=max).contains(&scale) {
            return Err(BenchError::Scale { scale, min, max });
        }
        Ok(match self {
            Self::Tpch => tpch::tables(scale),
            Self::Ssb => ssb::tables(scale),
            Self::Micro => micro::tables(scale),
        })
    }

    /// The queries, for data at `scale` (a parameter of some depends on it).
    pub fn queries(self, scale: f64) -> Vec<Query> {
        match self {
            Self::Tpch => tpch::queries(scale),
            Self::Ssb => ssb::queries(),
            Self::Micro => micro::queries(),
        }
    }

    /// The queries of these names, in the order asked for; all when none is named.
    pub fn select(self, scale: f64, names: &[String]) -> Result<Vec<Query>> {
        let all = self.queries(scale);
        if names.is_empty() {
            return Ok(all);
        }
        let find = |name: &String| {
            let wanted = name.trim_start_matches(['q', 'Q', '0']);
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
