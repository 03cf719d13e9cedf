//! Arguments of `galatea bench random`.

use std::path::PathBuf;

use clap::Args;
use galatea_bench::random::{Family, Storage};

#[derive(Debug, Args)]
pub(crate) struct RandomArguments {
    /// Queries.
    #[arg(long, default_value_t = 1000)]
    pub(crate) queries: u64,
    /// Begin no further queries after so many seconds.
    #[arg(long)]
    pub(crate) seconds: Option<u64>,
    /// Number of the first query. A number repeats what it drew.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Sessions that run at once, over one device and the same tables.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) sessions: u16,
    /// What queries are made of, separated by commas: one-table, joins, subqueries, sets, windows, ordered,
    /// repeated; all by default.
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub(crate) families: Vec<Family>,
    /// Where tables are: memory, files by parquet, csv or json, or each of them in turn by mixed.
    #[arg(long, default_value = "mixed", value_name = "STORAGE")]
    pub(crate) tables: Storage,
    /// Keep the files of tables in this folder.
    #[arg(long, value_name = "DIR")]
    pub(crate) files: Option<PathBuf>,
    /// On the emulated device.
    #[arg(long)]
    pub(crate) emulated: bool,
}
