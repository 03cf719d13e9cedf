//! The command line. Doc comments here are the help.

mod bench;
mod first;
mod joins;
mod papers;
mod random;
mod rows;
mod serve;
mod work;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use galatea_bench::workload::Workload;
use galatea_bench::workload::generate::{Compression, Format as FileFormat};

pub(crate) use bench::{
    AllocatorArguments, BenchArguments, ConcurrencyArguments, ConflictsArguments, KmeansArguments,
    LinkArguments, PartBench, ResidencyArguments, SortArguments, TablesArguments,
};
pub(crate) use first::{DuckDb, FirstArguments, WorkloadArguments};
pub(crate) use joins::JoinsArguments;
pub(crate) use papers::PapersArguments;
pub(crate) use random::RandomArguments;
pub(crate) use rows::RowArguments;
pub(crate) use serve::{ConnectArguments, LoginArguments, PartServe, ServeArguments, TopArguments};
pub(crate) use work::{AllWork, Work};

use crate::output::{Format, RowLimit};

/// SQL over Parquet, CSV, JSON and Arrow files, on the GPU if one is available.
///
/// Files are tables: galatea "SELECT count(*) FROM 'data/*.parquet'". If an argument is the name of a file,
/// its rows are shown; a .sql file is run. Without arguments, galatea opens a prompt.
#[derive(Debug, Parser)]
#[command(
    name = "galatea",
    disable_version_flag = true,
    args_conflicts_with_subcommands = false,
    subcommand_negates_reqs = true,
    subcommand_precedence_over_arg = true
)]
#[command(
    after_help = "Settings: SHOW ALL in the prompt, and docs/src/reference/settings.md. Benchmarks and experiments: galatea bench --help. Environment: GALATEA_CACHE_DIR, GALATEA_PAGER, RUST_LOG."
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) session: SessionArguments,
    #[command(flatten)]
    pub(crate) query: QueryArguments,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    /// Print the version and exit: the commit, and the versions of DataFusion and NVRTC.
    #[arg(short = 'V', long)]
    pub(crate) version: bool,
}

/// Arguments of every command.
#[derive(Debug, Clone, Args)]
pub(crate) struct SessionArguments {
    /// Change a setting before anything runs: --set galatea.device=cpu. Repeatable.
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = parse_setting, global = true)]
    pub(crate) settings: Vec<(String, String)>,
    /// Directory that relative paths start from.
    #[arg(short = 'p', long, value_name = "DIR", global = true)]
    pub(crate) data_path: Option<PathBuf>,
    /// Print results only, without progress and footer.
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
}

/// Queries and the format of their results.
#[derive(Debug, Clone, Args)]
pub(crate) struct QueryArguments {
    #[command(flatten)]
    pub(crate) work: AllWork,
    /// Format of results; automatic is table.
    #[arg(long, value_enum, ignore_case = true, default_value_t = Format::Automatic)]
    pub(crate) format: Format,
    /// Maximum number of table rows to show, or inf for all.
    #[arg(long, default_value = "40")]
    pub(crate) maxrows: RowLimit,
    /// Open a database, a folder with tables, views, macros and settings that last. It is created if it does
    /// not exist. The first argument without a flag may be its name, if the name ends with .db.
    #[arg(short = 'd', long, value_name = "DIR")]
    pub(crate) database: Option<PathBuf>,
    /// Set a variable of SQL, which getvariable('NAME') returns: -v day=2026-11-29. A number, TRUE, FALSE and
    /// NULL have their types, all else is a string. Repeatable.
    #[arg(short = 'v', long = "variable", value_name = "NAME=VALUE", value_parser = parse_variable)]
    pub(crate) variables: Vec<(String, String)>,
    /// Start-up file of the prompt, instead of the user's.
    #[arg(long, value_name = "FILE", conflicts_with = "no_startup")]
    pub(crate) startup: Option<PathBuf>,
    /// Run no start-up file.
    #[arg(long)]
    pub(crate) no_startup: bool,
    /// Colour SQL in the prompt.
    #[arg(long, value_enum, default_value_t = Color::Auto)]
    pub(crate) color: Color,
}

/// Whether to colour SQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// If standard output is a terminal.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Generate TPC-H, run some queries, and show the device and time of each.
    Demo(DemoArguments),
    /// Show the capabilities of this machine: GPU, driver, compiler, bandwidths, caches, settings.
    Doctor(DoctorArguments),
    /// Print the fixed constants of every mechanism with their meaning. The settings galatea.tuning.* are
    /// separate.
    #[command(hide = true)]
    Policies,
    /// Measure the bandwidths of the GPU and the constants of the cost model. The GPU should be idle. Takes a
    /// few seconds; all later sessions on this machine use the result.
    Calibrate(CalibrateArguments),
    /// Analyse how a GPU processes a column.
    Analyze {
        /// Analysis to run.
        #[command(subcommand)]
        what: Analysis,
    },
    /// Write the tables of a benchmark as Parquet or CSV.
    Generate(GenerateArguments),
    /// Rewrite Parquet files so that they load fast: encodings chosen by measured size, many pages, a codec
    /// that a GPU decompresses.
    Optimize(OptimizeArguments),
    /// Serve tables to many clients: Flight SQL and the Postgres protocol.
    Serve(Box<ServeArguments>),
    /// Run SQL on a server, with the output formats and the prompt of galatea.
    Connect(Box<ConnectArguments>),
    /// Show the state of a server: device memory, bandwidths, statements. Ctrl-C ends it.
    Top(TopArguments),
    /// Measure queries of Galatea, of DataFusion on the CPU and of DuckDB, or single parts of the engine.
    #[command(hide = true)]
    Bench(Box<BenchArguments>),
    /// Print the completions for a shell: source <(galatea completions bash).
    Completions {
        /// Shell to complete for.
        shell: Shell,
    },
    /// Print the manual page: galatea man | man -l -
    Man {
        /// Write the pages of all commands into this directory instead.
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Analysis {
    /// Bank and value conflicts of grouping by a column in shared memory, also with replicated accumulators
    /// and with a conflict layout.
    ///
    /// The table may be one that -c or -f of the same command creates.
    Conflicts(AnalyzeArguments),
}

#[derive(Debug, Args)]
pub(crate) struct AnalyzeArguments {
    /// Table or path of a file, a dot, and a column: data/lineitem.parquet.l_returnflag.
    #[arg(value_name = "TABLE.COLUMN")]
    pub(crate) column: String,
    /// Sample the first N rows.
    #[arg(long, default_value_t = 1 << 24)]
    pub(crate) rows: usize,
    /// Format of the lines; automatic is table.
    #[arg(long, value_enum, ignore_case = true, default_value_t = Format::Automatic)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct DemoArguments {
    /// TPC-H scale factor; 1 is 6 million line items, 0.3 GB.
    #[arg(long, default_value_t = 1.0)]
    pub(crate) scale: f64,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArguments {
    /// Measure first, like galatea calibrate, instead of showing the last measurement.
    #[arg(long)]
    pub(crate) measure: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CalibrateArguments {
    /// Remove the stored measurements of the GPU instead; without a GPU, those of all GPUs.
    #[arg(long)]
    pub(crate) forget: bool,
}

#[derive(Debug, Args)]
pub(crate) struct GenerateArguments {
    /// Benchmark to generate.
    #[arg(value_enum)]
    pub(crate) workload: WorkloadName,
    /// Scale factor.
    #[arg(long, default_value_t = 1.0)]
    pub(crate) scale: f64,
    /// Choose the scale so that the largest table has about N rows; exactly N for micro and hits.
    #[arg(long, conflicts_with = "scale", value_name = "N")]
    pub(crate) rows: Option<u64>,
    /// Directory of the tables, created if it does not exist. Complete tables in it are not generated again.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// Only these tables, separated by commas.
    #[arg(long, value_delimiter = ',', value_name = "TABLES")]
    pub(crate) tables: Vec<String>,
    /// Number of files per table, in a directory of the table's name; 1 writes a single file.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) parts: u32,
    /// Format of the files.
    #[arg(long, value_enum, default_value_t = FileFormatName::Parquet)]
    pub(crate) format: FileFormatName,
    /// Compression of the pages of Parquet files.
    #[arg(long, value_enum, default_value_t = CompressionName::Snappy)]
    pub(crate) compression: CompressionName,
    /// Number of threads; one per core by default.
    #[arg(long)]
    pub(crate) threads: Option<usize>,
    /// Replace tables that were generated with other parameters.
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct OptimizeArguments {
    /// Parquet files.
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// The new file, or a folder for files of the same names.
    #[arg(long, value_name = "PATH", required_unless_present = "in_place")]
    pub(crate) out: Option<PathBuf>,
    /// Replace the files themselves.
    #[arg(long, conflicts_with = "out")]
    pub(crate) in_place: bool,
    /// Sort the rows by these columns, separated by commas, so that filters over them skip row groups and
    /// pages.
    #[arg(long, value_delimiter = ',', value_name = "COLUMNS")]
    pub(crate) sort_by: Vec<String>,
    /// Compression of the pages.
    #[arg(long, value_enum, default_value_t = CompressionName::Snappy)]
    pub(crate) compression: CompressionName,
    /// Replace files of --out that exist.
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum WorkloadName {
    /// TPC-H, eight tables.
    Tpch,
    /// TPC-DS, 24 tables.
    Tpcds,
    /// The Star Schema Benchmark, five tables.
    Ssb,
    /// One table of keys and values for microqueries.
    Micro,
    /// ClickBench, one table of 105 columns.
    Hits,
    /// The database benchmark of H2O.ai, five tables.
    H2o,
    /// Events of an online shop, two tables.
    Events,
}

impl From<WorkloadName> for Workload {
    fn from(name: WorkloadName) -> Self {
        match name {
            WorkloadName::Tpch => Self::Tpch,
            WorkloadName::Tpcds => Self::Tpcds,
            WorkloadName::Ssb => Self::Ssb,
            WorkloadName::Micro => Self::Micro,
            WorkloadName::Hits => Self::Hits,
            WorkloadName::H2o => Self::H2o,
            WorkloadName::Events => Self::Events,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FileFormatName {
    /// Parquet.
    Parquet,
    /// Comma-separated values, with the names of the columns in the first line.
    Csv,
}

impl FileFormatName {
    pub(crate) fn with(self, compression: CompressionName) -> FileFormat {
        match self {
            Self::Parquet => FileFormat::Parquet(compression.into()),
            Self::Csv => FileFormat::Csv,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum CompressionName {
    /// Fast, and supported by every reader.
    Snappy,
    /// Zstandard at level 1: smaller files.
    Zstd,
    /// LZ4 blocks: the fastest to read.
    Lz4Raw,
    /// No compression.
    None,
}

impl From<CompressionName> for Compression {
    fn from(name: CompressionName) -> Self {
        match name {
            CompressionName::Snappy => Self::Snappy,
            CompressionName::Zstd => Self::Zstd,
            CompressionName::Lz4Raw => Self::Lz4Raw,
            CompressionName::None => Self::None,
        }
    }
}

fn parse_setting(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_string(), value.trim().to_string()))
        }
        _ => Err("expected NAME=VALUE, for example galatea.device=cpu".to_string()),
    }
}

/// The name and the constant of SQL of a variable.
fn parse_variable(text: &str) -> Result<(String, String), String> {
    let expected = || "expected NAME=VALUE, for example day=2026-11-29".to_string();
    let (name, value) = text.split_once('=').ok_or_else(expected)?;
    let name = name.trim();
    let is_name = name.chars().enumerate().all(|(at, letter)| match at {
        0 => letter.is_alphabetic() || letter == '_',
        _ => letter.is_alphanumeric() || letter == '_',
    });
    if name.is_empty() || !is_name {
        return Err(expected());
    }
    let is_word = ["true", "false", "null"].contains(&value.to_ascii_lowercase().as_str());
    // Names such as inf are no numbers of SQL.
    let is_number = value.parse::<f64>().is_ok() && value.ends_with(|last: char| last.is_ascii_digit());
    Ok((
        name.to_string(),
        match is_word || is_number {
            true => value.to_string(),
            false => format!("'{}'", value.replace('\'', "''")),
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_constants() {
        for (text, value) in [
            ("x=1", "1"),
            ("x=-2.5", "-2.5"),
            ("x=1e3", "1e3"),
            ("x=TRUE", "TRUE"),
            ("x=null", "null"),
            ("x=2026-11-29", "'2026-11-29'"),
            ("x=it's=b", "'it''s=b'"),
            ("x=", "''"),
            ("x=inf", "'inf'"),
            ("x=nan", "'nan'"),
            ("x=1); DROP TABLE t", "'1); DROP TABLE t'"),
        ] {
            assert_eq!(
                parse_variable(text),
                Ok(("x".to_string(), value.to_string())),
                "{text}"
            );
        }
        for text in ["x", "=1", "a b=1", "1a=1", "a'=1"] {
            assert!(parse_variable(text).is_err(), "{text}");
        }
    }

    #[test]
    fn arguments_are_consistent() {
        use clap::CommandFactory;
        Arguments::command().debug_assert();
    }

    #[test]
    fn settings_are_split_at_the_first_equals_sign() {
        assert_eq!(
            parse_setting("a.b = c=d"),
            Ok(("a.b".to_string(), "c=d".to_string()))
        );
        assert!(parse_setting("a.b").is_err() && parse_setting("=c").is_err());
    }

    #[test]
    fn global_arguments_are_accepted_anywhere() {
        let parsed = Arguments::parse_from([
            "galatea",
            "demo",
            "--scale",
            "0.5",
            "--set",
            "galatea.device=cpu",
            "-q",
        ]);
        assert!(parsed.session.quiet);
        assert_eq!(
            parsed.session.settings,
            [("galatea.device".to_string(), "cpu".to_string())]
        );
        let parsed =
            Arguments::parse_from(["galatea", "-c", "SELECT 1", "-c", "SELECT 2", "--format", "CSV"]);
        assert_eq!((parsed.query.work.0.len(), parsed.query.format), (2, Format::Csv));
    }

    #[test]
    fn statements_and_files_keep_their_order() {
        let parsed = Arguments::parse_from([
            "galatea",
            "a.parquet",
            "-c",
            "SELECT 1",
            "-f",
            "b.sql",
            "c.sql",
            "-q",
            "SELECT 2",
            "-c",
            "SELECT 3",
        ]);
        let expected = [
            Work::Input("a.parquet".to_string()),
            Work::Statements("SELECT 1".to_string()),
            Work::File("b.sql".into()),
            Work::File("c.sql".into()),
            Work::Input("SELECT 2".to_string()),
            Work::Statements("SELECT 3".to_string()),
        ];
        assert_eq!(parsed.query.work.0, expected);
    }
}
