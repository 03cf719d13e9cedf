//! Arguments of `galatea bench random`.

use std::path::PathBuf;

use clap::Args;
use galatea_bench::random::{Family, Storage};

#[derive(Debug, Args)]
pub(crate) struct RandomArguments {
    /// Number of queries.
    #[arg(long, default_value_t = 1000)]
    pub(crate) queries: u64,
    /// Begin no further queries after this number of seconds.
    #[arg(long)]
    pub(crate) seconds: Option<u64>,
    /// Number of the first query. A number always produces the same query.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Number of concurrent sessions over one device and the same tables.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) sessions: u16,
    /// Kinds of queries, separated by commas: one-table, joins, subqueries, sets, windows, ordered, repeated;
    /// all by default.
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub(crate) families: Vec<Family>,
    /// Storage of the tables: memory, files in parquet, csv or json, or mixed for each of them in turn.
    #[arg(long, default_value = "mixed", value_name = "STORAGE")]
    pub(crate) tables: Storage,
    /// Keep the files of the tables in this directory.
    #[arg(long, value_name = "DIR")]
    pub(crate) files: Option<PathBuf>,
    /// Run on the emulated device.
    #[arg(long)]
    pub(crate) emulated: bool,
}
