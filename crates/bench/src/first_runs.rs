//! First and later runs of a workload in a fresh session, beside DataFusion's CPU and DuckDB.
//!
//! The modes of [`crate::measure`] run each query until it is hot, or only once per session. Here, the
//! queries of a workload run in order in one session, each several times: the first run loads and compiles
//! everything that no earlier query has, and the second finds it. Nothing waits for the background between
//! the runs. Galatea runs before the others, so only its runs may find files that are not in the page cache.

use std::collections::BTreeSet;
use std::fmt::Write;

use arrow::array::RecordBatch;
use serde::{Deserialize, Serialize};

use crate::measure::{Mode, Plan, run};
use crate::result::{Engine, ResultRow};
use crate::workload::Query;
use crate::{Result, duckdb};

/// The runs to measure.
#[derive(Debug, Clone, Copy)]
pub struct Runs {
    /// Runs of each query, at least 1.
    pub count: u32,
    /// Whether DataFusion's CPU operators run, too.
    pub cpu: bool,
}

/// The runs of a workload's queries.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct FirstRuns {
    /// One row per run.
    pub rows: Vec<ResultRow>,
    /// Queries and engines with an answer that differs from Galatea's first one; DuckDB's are compared by
    /// their numbers of rows.
    pub different: BTreeSet<(String, Engine)>,
}

impl FirstRuns {
    /// Adds the runs of other queries.
    pub fn extend(&mut self, others: Self) {
        self.rows.extend(others.rows);
        self.different.extend(others.different);
    }

    /// Seconds of the first, the second and the last run of a query; NaN if there is none.
    fn seconds(&self, query: &str, engine: Engine) -> [f64; 3] {
        let mut rows: Vec<_> = (self.rows.iter())
            .filter(|row| row.query == query && row.engine == engine)
            .collect();
        rows.sort_by_key(|row| row.iteration);
        let of = |row: Option<&&ResultRow>| row.map_or(f64::NAN, |row| row.total_s);
        [of(rows.first()), of(rows.get(1)), of(rows.last())]
    }

    /// A CSV file with a row for each query and engine, and the sums of each engine.
    #[must_use]
    pub fn csv(&self) -> String {
        let mut text = "query,engine,first_s,second_s,last_s,equal\n".to_owned();
        let mut row = |query: &str, engine: Engine, [first, second, last]: [f64; 3], equal: bool| {
            writeln!(text, "{query},{engine},{first:.6},{second:.6},{last:.6},{equal}")
                .expect("writing to a string");
        };
        let engines: BTreeSet<Engine> = self.rows.iter().map(|row| row.engine).collect();
        let mut queries: Vec<&str> = self.rows.iter().map(|row| row.query.as_str()).collect();
        let mut seen = BTreeSet::new();
        queries.retain(|query| seen.insert(*query));
        let is_equal = |query: &str, engine| !self.different.contains(&(query.to_owned(), engine));
        for query in &queries {
            for engine in &engines {
                row(
                    query,
                    *engine,
                    self.seconds(query, *engine),
                    is_equal(query, *engine),
                );
            }
        }
        for engine in engines {
            let all = queries.iter().map(|query| self.seconds(query, engine));
            let sums = all.fold([0.0; 3], |sums, seconds| {
                [0, 1, 2].map(|run| sums[run] + seconds[run])
            });
            row(
                "sum",
                engine,
                sums,
                queries.iter().all(|query| is_equal(query, engine)),
            );
        }
        text
    }
}

impl Plan {
    /// Runs the queries on Galatea and optionally on DataFusion's CPU, each in one fresh session. `done` is
    /// called after each query on each of them.
    ///
    /// # Errors
    /// A query fails.
    pub async fn first_runs(&self, runs: Runs, mut done: impl FnMut(&Query)) -> Result<FirstRuns> {
        let mut found = FirstRuns::default();
        let mut expected: Vec<Vec<RecordBatch>> = Vec::new();
        let modes = [Mode::Parquet, Mode::DataFusionFirst];
        for mode in &modes[..1 + usize::from(runs.cpu)] {
            let mode = *mode;
            let ctx = self.session(mode).await?;
            for (number, query) in self.queries.iter().enumerate() {
                for iteration in 0..runs.count {
                    let run = run(&ctx, &query.sql).await?;
                    let row = self.row(mode, query, iteration, 0, &run);
                    tracing::debug!(
                        query = query.name,
                        iteration,
                        seconds = row.total_s,
                        "a first run ended"
                    );
                    let engine = row.engine;
                    found.rows.push(row);
                    match expected.get(number) {
                        None => expected.push(run.batches),
                        Some(expected) if query.compare(expected, &run.batches).is_ok() => {}
                        Some(_) => _ = found.different.insert((query.name.clone(), engine)),
                    }
                }
                done(query);
            }
            _ = galatea::cancel_background(&ctx);
        }
        Ok(found)
    }

    /// Runs the queries on DuckDB in one fresh process, and adds its runs.
    ///
    /// # Errors
    /// Those of [`duckdb::measure`].
    pub fn add_duckdb(&self, runs: Runs, found: &mut FirstRuns) -> Result<()> {
        let plan = Self {
            iterations: runs.count,
            warmups: 0,
            ..self.clone()
        };
        for row in duckdb::measure(&plan, false)? {
            let mut others = found.rows.iter();
            let ours = others.find(|other| other.query == row.query && other.engine == Engine::Galatea);
            if ours.is_some_and(|other| other.rows != row.rows) {
                found.different.insert((row.query.clone(), row.engine));
            }
            found.rows.push(row);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(query: &str, engine: Engine, iteration: u32, total_s: f64) -> ResultRow {
        ResultRow {
            engine,
            iteration,
            ..ResultRow::example(query, total_s)
        }
    }

    #[test]
    fn csv_has_runs_and_sums_of_each_engine() {
        let mut found = FirstRuns::default();
        for (query, first) in [("1", 2.0), ("10", 3.0)] {
            for engine in [Engine::Galatea, Engine::DuckDb] {
                let seconds = |run: u32| first / f64::from(run + 1);
                found
                    .rows
                    .extend((0..5).map(|run| row(query, engine, run, seconds(run))));
            }
        }
        found.different.insert(("10".to_owned(), Engine::DuckDb));
        let expected = "query,engine,first_s,second_s,last_s,equal\n\
            1,galatea,2.000000,1.000000,0.400000,true\n\
            1,duckdb,2.000000,1.000000,0.400000,true\n\
            10,galatea,3.000000,1.500000,0.600000,true\n\
            10,duckdb,3.000000,1.500000,0.600000,false\n\
            sum,galatea,5.000000,2.500000,1.000000,true\n\
            sum,duckdb,5.000000,2.500000,1.000000,false\n";
        assert_eq!(found.csv(), expected);
    }
}
