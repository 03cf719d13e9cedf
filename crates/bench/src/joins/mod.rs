//! Joins in device memory, by SQL: the workloads of C. Lutz' thesis (table 3.2) compared with this device's
//! rates of random reads and writes, and costs by rows, groups and build sides.
//!
//! ```sql
//! SELECT count(*), sum(r.payload), sum(s.payload) FROM r JOIN s ON r.key = s.key
//! ```
//!
//! | workload | rows of `r` | rows of `s` | type of keys and payloads |
//! | --- | ---: | ---: | --- |
//! | A | 2^27 | 2^31 | 8 bytes |
//! | B | 2^18 | 2^31 | 8 bytes |
//! | C | 1024 million | 1024 million | 4 bytes |
//!
//! Every key of `r` occurs once, in random order. Keys of `s` are uniform among them, so each row of `s` has
//! one match. `r` is first in the query: of two tables of one size the first is built. Tables are generated
//! in this process, on all cores, and encoded like every stored table; a row contains the stored bytes. The
//! result is compared with sums that the generator computes.
//!
//! Throughput is `(|r| + |s|) / time`, of kernels and from the SQL text to the result. A join that stores
//! every row of `r` at the position of its key, and looks one up for every row of `s`, is bound by random
//! accesses. One that first partitions its rows reads and writes them once more, but its random accesses then
//! hit the cache:
//!
//! ```text
//! direct       |r| / writes per second in a table of that size + |s| / reads per second there
//! partitioned  3 * stored bytes / bytes copied per second + |r| / writes per second in the cache + |s| / reads there
//! ```
//!
//! A row has both bounds, by the rates measured in the same run, and the fraction of the shorter one that the
//! kernels reached. The fraction may exceed 1.

mod measure;
mod rates;
mod report;
mod rivals;
mod tables;

pub use report::{JoinsReport, Row};

use crate::Result;
use crate::harness::session::DeviceSession;
use crate::harness::{by_name, name_of};
use crate::machine::Machine;

use measure::Case;
use rates::Rates;
use tables::{GroupedTable, JoinTables, KeyType};

/// The measured join or grouping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Experiment {
    /// 2^27 rows joined with 2^31, of 8 bytes.
    A,
    /// 2^18 rows joined with 2^31, of 8 bytes.
    B,
    /// 1024 million rows joined with the same number, of 4 bytes.
    C,
    /// Build sides of 2^10 to 2^27 rows, probed by 2^28.
    BuildSizes,
    /// 2^20 to 2^30 rows that probe 2^20.
    Rows,
    /// 2^28 rows in 1 to 2^24 groups.
    Groups,
}

impl Experiment {
    /// All, by name.
    pub const NAMES: [(&'static str, Self); 6] = [
        ("a", Self::A),
        ("b", Self::B),
        ("c", Self::C),
        ("build-sizes", Self::BuildSizes),
        ("rows", Self::Rows),
        ("groups", Self::Groups),
    ];

    /// The workloads of the thesis.
    pub const WORKLOADS: [Self; 3] = [Self::A, Self::B, Self::C];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        name_of(&Self::NAMES, &self)
    }

    /// The cases of the experiment, with this factor of the numbers of rows.
    fn cases(self, scale: f64) -> Vec<Case> {
        let rows = |full: u64| ((full as f64 * scale).round() as u64).max(1);
        let join = |build: u64, probe: u64, key| {
            Case::Join(JoinTables {
                build_rows: rows(build),
                probe_rows: rows(probe),
                key,
            })
        };
        match self {
            Self::A => vec![join(1 << 27, 1 << 31, KeyType::Long)],
            Self::B => vec![join(1 << 18, 1 << 31, KeyType::Long)],
            Self::C => vec![join(1_024_000_000, 1_024_000_000, KeyType::Int)],
            Self::BuildSizes => (10..28)
                .map(|bits| join(1 << bits, 1 << 28, KeyType::Long))
                .collect(),
            Self::Rows => (20..31)
                .step_by(2)
                .map(|bits| join(1 << 20, 1 << bits, KeyType::Long))
                .collect(),
            Self::Groups => (0..25)
                .step_by(2)
                .map(|bits| {
                    Case::Groups(GroupedTable {
                        rows: rows(1 << 28),
                        groups: 1 << bits,
                    })
                })
                .collect(),
        }
    }
}

impl std::str::FromStr for Experiment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        by_name(&Self::NAMES, text)
    }
}

/// The measurements to run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The experiments.
    pub experiments: Vec<Experiment>,
    /// Factor of the numbers of rows: 1 for the numbers above.
    pub scale: f64,
    /// Number of measured runs.
    pub runs: usize,
    /// Factor of the numbers of rows for DataFusion's CPU operators and DuckDB; `None`: they are not
    /// measured.
    pub rivals: Option<f64>,
    /// Settings of the session that uses the device, by full name.
    pub settings: Vec<(String, String)>,
    /// The machine to record.
    pub machine: Machine,
}

impl Plan {
    /// The number of calls of `done` in [`Self::measure`].
    #[must_use]
    pub fn steps(&self) -> usize {
        let cases = |experiment: &Experiment| {
            let rivals = usize::from(self.rivals.is_some() && Experiment::WORKLOADS.contains(experiment));
            experiment.cases(self.scale).len() + rivals
        };
        self.experiments.iter().map(cases).sum()
    }

    /// Runs the plan. `done` is called after each join and each of its rivals.
    ///
    /// # Errors
    /// [`BenchError::WrongResult`](crate::BenchError::WrongResult) for a sum that differs from the
    /// generator's; the device's, in particular out of memory; DataFusion's.
    pub async fn measure(&self, mut done: impl FnMut(&str)) -> Result<JoinsReport> {
        let session = DeviceSession::new(&self.settings)?;
        let mut report = JoinsReport::new(self.machine.clone());
        for experiment in &self.experiments {
            for case in experiment.cases(self.scale) {
                // Measured before columns occupy the memory.
                let rates = match case.table_bytes() {
                    Some(bytes) => Some(Rates::measure(session.device()?.device(), bytes, self.runs)?),
                    None => None,
                };
                let row = case.measure(*experiment, &session, self, rates).await?;
                done(&row.what);
                report.rows.push(row);
            }
            if let Some(scale) = self.rivals
                && Experiment::WORKLOADS.contains(experiment)
            {
                for case in experiment.cases(scale) {
                    report
                        .rows
                        .extend(rivals::measure(*experiment, &case, self).await?);
                }
                done(experiment.name());
            }
        }
        Ok(report)
    }
}

#[cfg(test)]
mod tests;
