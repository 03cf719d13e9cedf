//! Arguments of the benchmarks that run all queries of a workload.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::WorkloadName;

/// The data, the queries and the files of a benchmark of a workload.
#[derive(Debug, Args)]
pub(crate) struct WorkloadArguments {
    /// Directory of its tables. By default, tables are generated at --scale into the cache.
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Scale of the generated data if --data is not given.
    #[arg(long, default_value_t = 1.0)]
    pub(crate) scale: f64,
    /// Only these queries, separated by commas.
    #[arg(long, value_delimiter = ',')]
    pub(crate) queries: Vec<String>,
    /// Run DuckDB, too: auto does so if python3 has the module duckdb.
    #[arg(long, value_enum, default_value_t = DuckDb::Auto)]
    pub(crate) duckdb: DuckDb,
    /// Write rows below this directory, as `<date>-<machine>/<name>.csv` and .jsonl with a README.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Name of the written files.
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Commit to record, for use outside of a git checkout.
    #[arg(long)]
    pub(crate) commit: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct FirstArguments {
    /// Benchmark to run.
    #[arg(value_enum)]
    pub(crate) workload: WorkloadName,
    #[command(flatten)]
    pub(crate) common: WorkloadArguments,
    /// Run each query in a fresh process. By default, all queries share a fresh session.
    #[arg(long)]
    pub(crate) processes: bool,
    /// Runs of each query.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) runs: u32,
    /// Without DataFusion's CPU operators. Answers are then compared with DuckDB's numbers of rows only.
    #[arg(long)]
    pub(crate) without_cpu: bool,
    /// Print all runs as JSON in place of the CSV rows.
    #[arg(long, hide = true)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DuckDb {
    /// Over the same files, if it is installed.
    Auto,
    /// Over the same files, and over tables in DuckDB's memory.
    Both,
    /// Without DuckDB.
    Never,
}
