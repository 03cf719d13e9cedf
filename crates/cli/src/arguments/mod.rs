//! What was typed. Doc comments here are the help.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use datafusion_cli::print_format::PrintFormat;
use datafusion_cli::print_options::MaxRows;
use galatea_bench::allocator::Experiment;
use galatea_bench::conflicts;
use galatea_bench::measure::Mode;
use galatea_bench::residency;
use galatea_bench::workload::Workload;
use galatea_bench::workload::generate::Compression;

/// SQL over Parquet, CSV, JSON and Arrow files, on the GPU where there is one.
///
/// Without -c or -f, a prompt. Files are tables: SELECT count(*) FROM 'data/*.parquet'.
#[derive(Debug, Parser)]
#[command(
    version,
    args_conflicts_with_subcommands = false,
    subcommand_negates_reqs = true
)]
#[command(
    after_help = "Settings: SHOW ALL in the prompt, and README.md. Environment: GALATEA_CACHE_DIR, RUST_LOG."
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) session: SessionArguments,
    #[command(flatten)]
    pub(crate) query: QueryArguments,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// What every command understands.
#[derive(Debug, Clone, Args)]
pub(crate) struct SessionArguments {
    /// Set a setting before anything runs: --set galatea.device=cpu. Repeatable.
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = parse_setting, global = true)]
    pub(crate) settings: Vec<(String, String)>,
    /// The directory that relative paths start from.
    #[arg(short = 'p', long, value_name = "DIR", global = true)]
    pub(crate) data_path: Option<PathBuf>,
    /// Print results only: no progress, no footer.
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
}

/// Queries and how to print them.
#[derive(Debug, Clone, Args)]
pub(crate) struct QueryArguments {
    /// Run these statements and leave. Repeatable; runs after the files.
    #[arg(short = 'c', long = "command", value_name = "SQL")]
    pub(crate) commands: Vec<String>,
    /// Run the statements of these files and leave.
    #[arg(short, long = "file", value_name = "FILE", num_args = 1..)]
    pub(crate) files: Vec<PathBuf>,
    /// How results are printed; automatic is table.
    #[arg(long, value_enum, ignore_case = true, default_value_t = Format::Automatic)]
    pub(crate) format: Format,
    /// Rows of a table that are shown: a number, or inf for all.
    #[arg(long, default_value = "40")]
    pub(crate) maxrows: MaxRows,
    /// Colour SQL in the prompt.
    #[arg(long, value_enum, default_value_t = Color::Auto)]
    pub(crate) color: Color,
}

/// How results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Comma-separated values with a header.
    Csv,
    /// Tab-separated values with a header.
    Tsv,
    /// A table for people.
    Table,
    /// One JSON array of objects.
    Json,
    /// One JSON object a line.
    #[value(name = "ndjson", alias = "nd-json")]
    NdJson,
    /// A table.
    Automatic,
}

impl From<Format> for PrintFormat {
    fn from(format: Format) -> Self {
        match format {
            Format::Csv => Self::Csv,
            Format::Tsv => Self::Tsv,
            Format::Table => Self::Table,
            Format::Json => Self::Json,
            Format::NdJson => Self::NdJson,
            Format::Automatic => Self::Automatic,
        }
    }
}

/// When to colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Generate TPC-H, run some queries, show where each ran and how fast.
    Demo(DemoArguments),
    /// Say what this machine offers: GPU, driver, compiler, bandwidths, caches, settings.
    Doctor(DoctorArguments),
    /// Measure the GPU, which should be idle: the constants of the cost model, and bandwidths. Takes a few seconds; every later
    /// session on this machine uses what was found.
    Calibrate(CalibrateArguments),
    /// Say what a column's values do to a GPU.
    Analyze {
        /// What to look at.
        #[command(subcommand)]
        what: Analysis,
    },
    /// Write a benchmark's tables as Parquet.
    Generate(GenerateArguments),
    /// Measure queries, against DataFusion on the CPU and DuckDB; or parts of the engine alone.
    Bench(Box<BenchArguments>),
}

/// Measurements of parts of the engine.
#[derive(Debug, Subcommand)]
pub(crate) enum PartBench {
    /// The device heap against queues and counters: the experiments of Pham et al. 2022.
    Allocator(AllocatorArguments),
    /// Bank and value conflicts in shared memory: the experiments of Sitaridi and Ross 2012, and other ways of summing by group.
    Conflicts(ConflictsArguments),
    /// k-means: an iteration over points on the device, beside reading them once.
    Kmeans(KmeansArguments),
    /// Queries whose data device memory has room for a part of, beside what the measured rates allow.
    Residency(ResidencyArguments),
    /// Many clients on one device: throughput and latency, pairs of queries, a small query beside a large one.
    Concurrency(ConcurrencyArguments),
}

/// Queries over a workload's tables, and where their rows go.
#[derive(Debug, Args)]
pub(crate) struct TablesArguments {
    /// Directory of the workload's tables.
    #[arg(long, value_name = "DIR")]
    pub(crate) data: PathBuf,
    /// The workload.
    #[arg(long, value_enum)]
    pub(crate) workload: WorkloadName,
    /// Only these queries, separated by commas.
    #[arg(long, value_delimiter = ',')]
    pub(crate) queries: Vec<String>,
    /// Which columns give up device memory: galatea.replacement.
    #[arg(long, value_name = "POLICY")]
    pub(crate) replacement: Option<String>,
    /// Write rows and figures below this directory, as `<date>-<machine>/<name>.csv`, .jsonl and .svg with a README.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// The commit to record, where there is no git to ask.
    #[arg(long)]
    pub(crate) commit: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ResidencyArguments {
    #[command(flatten)]
    pub(crate) tables: TablesArguments,
    /// Limits on device memory, separated by commas, in hundredths of what each query keeps there without one.
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "PERCENT",
        default_values_t = residency::Plan::SHARES,
        value_parser = clap::value_parser!(u32).range(1..=10_000)
    )]
    pub(crate) shares: Vec<u32>,
    /// Measured runs at each share.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) iterations: u32,
    /// Name of the written files.
    #[arg(long, default_value = "residency")]
    pub(crate) name: String,
}

#[derive(Debug, Args)]
pub(crate) struct ConcurrencyArguments {
    #[command(flatten)]
    pub(crate) tables: TablesArguments,
    /// Numbers of clients, separated by commas; 1, 4, 16, 32 and 64 by default. With another experiment only when given.
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) clients: Vec<u32>,
    /// How long each configuration runs.
    #[arg(long, default_value_t = 5.0, value_parser = parse_seconds)]
    pub(crate) seconds: f64,
    /// Device memory there is for all: galatea.gpu_memory_limit.
    #[arg(long, value_name = "SIZE")]
    pub(crate) limit: Option<String>,
    /// Which queries may use the device at once: galatea.admission.
    #[arg(long, value_name = "POLICY")]
    pub(crate) admission: Option<String>,
    /// All pairs of queries that read more than the limit together: side by side, and in turns.
    #[arg(long)]
    pub(crate) pairs: bool,
    /// With --pairs: also without the memory manager, where a query that finds the device full fails.
    #[arg(long, requires = "pairs")]
    pub(crate) naive: bool,
    /// Parts of the memory manager that are left out: galatea.memory_ablations.
    #[arg(long, value_name = "PARTS")]
    pub(crate) ablation: Option<String>,
    /// Time from dropping a query at a random point of its run to its last effect on the device.
    #[arg(long)]
    pub(crate) cancel: bool,
    /// Poisson arrivals at twice the rate that one query at a time reaches, under each policy of admission.
    #[arg(long)]
    pub(crate) poisson: bool,
    /// Latency of the first of the queries, alone and beside a client that repeats the last.
    #[arg(long)]
    pub(crate) beside: bool,
    /// What the clients' orders of queries are drawn from.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Name of the written files.
    #[arg(long, default_value = "concurrency")]
    pub(crate) name: String,
}

#[derive(Debug, Args)]
pub(crate) struct AllocatorArguments {
    /// Only these, separated by commas: contention, theory, free-share, scaling, sizes, mixed, utilization, hash-join.
    #[arg(value_delimiter = ',')]
    pub(crate) experiments: Vec<Experiment>,
    /// Small, on the emulated device: shows that everything works, its times mean nothing.
    #[arg(long)]
    pub(crate) emulated: bool,
    /// Measured runs of each configuration.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) runs: Option<u32>,
    /// Bytes of the pool, 8 GiB by default.
    #[arg(long)]
    pub(crate) pool: Option<u64>,
    /// Write rows and figures below this directory, as `<date>-<machine>/<name>.csv`, .jsonl and .svg with a README.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Name of the written files.
    #[arg(long, default_value = "allocator")]
    pub(crate) name: String,
    /// The commit to record, where there is no git to ask.
    #[arg(long)]
    pub(crate) commit: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct KmeansArguments {
    /// What to compare, separated by commas: iteration, the ways of summing; variants, the thesis' executions and sums; masses,
    /// histograms of labels; streaming, points in host memory.
    #[arg(long, value_delimiter = ',', default_value = "iteration")]
    pub(crate) experiment: Vec<String>,
    /// Numbers of features, separated by commas.
    #[arg(long, value_delimiter = ',', default_values_t = [4, 16])]
    pub(crate) features: Vec<u32>,
    /// Numbers of clusters, separated by commas.
    #[arg(long, value_delimiter = ',', default_values_t = [4, 16, 64, 256])]
    pub(crate) clusters: Vec<u32>,
    /// Bytes of points, 2 GiB by default.
    #[arg(long)]
    pub(crate) bytes: Option<u64>,
    /// Measured runs of each shape.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) runs: u32,
    /// Only these ways of summing, separated by commas: registers, private, features, shared, global. All by default where
    /// --shapes is more than one.
    #[arg(long, value_delimiter = ',')]
    pub(crate) sums: Vec<String>,
    /// So many shapes of a pass by each way of summing, the cheapest by the model first; by default the one that is chosen.
    #[arg(long, default_value_t = 0)]
    pub(crate) shapes: u32,
    /// Bytes of shared memory that a block may take, 49152 as in the thesis; all there is by default.
    #[arg(long, value_name = "BYTES")]
    pub(crate) shared: Option<u64>,
    /// Small, on the emulated device: shows that everything works, its times mean nothing.
    #[arg(long)]
    pub(crate) emulated: bool,
    /// Write rows below this directory, as `<date>-<machine>/<name>.csv`, .jsonl and .md with a README.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Name of the written files.
    #[arg(long, default_value = "kmeans")]
    pub(crate) name: String,
    /// The commit to record, where there is no git to ask.
    #[arg(long)]
    pub(crate) commit: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Analysis {
    /// How lanes that group by a column conflict in shared memory, and what copies or a placement would make of it.
    ///
    /// Tables that -c and -f of the same command create can be named.
    Conflicts(AnalyzeArguments),
}

#[derive(Debug, Args)]
pub(crate) struct AnalyzeArguments {
    /// A table or the path of a file, a point, and a column: data/lineitem.parquet.l_returnflag.
    #[arg(value_name = "TABLE.COLUMN")]
    pub(crate) column: String,
    /// Look at so many rows, from the first on.
    #[arg(long, default_value_t = 1 << 24)]
    pub(crate) rows: usize,
    /// How the lines are printed; automatic is table.
    #[arg(long, value_enum, ignore_case = true, default_value_t = Format::Automatic)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct ConflictsArguments {
    /// Only these, separated by commas: table-1, figure-3 to figure-10, alternatives, machine. Those of table 1 and figures 3, 4
    /// and 9 need no GPU.
    #[arg(value_delimiter = ',')]
    pub(crate) experiments: Vec<conflicts::Experiment>,
    /// Small, on the emulated device: shows that everything works, its times mean nothing.
    #[arg(long)]
    pub(crate) emulated: bool,
    /// Measured runs of each configuration, short kernels many times in a row; with 1, for profilers, only once.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) runs: Option<u32>,
    /// Rows of the largest table, 200 million by default.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1024..))]
    pub(crate) rows: Option<u32>,
    /// Groups of the alternatives, separated by commas; powers of two up to 4096 by default.
    #[arg(long, value_delimiter = ',', value_name = "NUMBERS")]
    pub(crate) groups: Vec<u32>,
    /// Skews of the columns, separated by commas; 0 to 2 by default.
    #[arg(long, value_delimiter = ',', value_name = "NUMBERS")]
    pub(crate) thetas: Vec<f64>,
    /// What columns are drawn from; another one each time by default. Rows record it.
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Write rows and figures below this directory, as `<date>-<machine>/<name>.csv`, .jsonl and .svg with a README.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Name of the written files.
    #[arg(long, default_value = "conflicts")]
    pub(crate) name: String,
    /// The commit to record, where there is no git to ask.
    #[arg(long)]
    pub(crate) commit: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct DemoArguments {
    /// TPC-H scale factor; 1 is 6 million line items, 0.3 GB.
    #[arg(long, default_value_t = 1.0)]
    pub(crate) scale: f64,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArguments {
    /// Measure first, as galatea calibrate does, instead of showing the last measurement.
    #[arg(long)]
    pub(crate) measure: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CalibrateArguments {
    /// Remove what was measured.
    #[arg(long)]
    pub(crate) forget: bool,
}

#[derive(Debug, Args)]
pub(crate) struct GenerateArguments {
    /// The benchmark.
    #[arg(value_enum)]
    pub(crate) workload: WorkloadName,
    /// Scale factor.
    #[arg(long, default_value_t = 1.0)]
    pub(crate) scale: f64,
    /// The directory, created if need be. Tables that are complete there are not generated again.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// Only these tables, separated by commas.
    #[arg(long, value_delimiter = ',', value_name = "TABLES")]
    pub(crate) tables: Vec<String>,
    /// Files per table, in a directory of the table's name; 1 writes a single file.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) parts: u32,
    /// How pages are compressed.
    #[arg(long, value_enum, default_value_t = CompressionName::Snappy)]
    pub(crate) compression: CompressionName,
    /// Threads; one per core by default.
    #[arg(long)]
    pub(crate) threads: Option<usize>,
    /// Replace data of other parameters.
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum WorkloadName {
    /// TPC-H, eight tables.
    Tpch,
    /// The Star Schema Benchmark, five tables.
    Ssb,
    /// One table of keys and values for microqueries.
    Micro,
}

impl From<WorkloadName> for Workload {
    fn from(name: WorkloadName) -> Self {
        match name {
            WorkloadName::Tpch => Self::Tpch,
            WorkloadName::Ssb => Self::Ssb,
            WorkloadName::Micro => Self::Micro,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum CompressionName {
    /// Fast, and every reader has it.
    Snappy,
    /// Zstandard at level 1: smaller.
    Zstd,
    /// LZ4 blocks: the fastest to read.
    Lz4Raw,
    /// None.
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

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct BenchArguments {
    #[command(subcommand)]
    pub(crate) part: Option<PartBench>,
    /// The benchmark.
    #[arg(value_enum, required = true)]
    pub(crate) workload: Option<WorkloadName>,
    /// Directory of its tables; generated at --scale into the cache when not given.
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Scale of the data to generate when there is no --data.
    #[arg(long, default_value_t = 1.0)]
    pub(crate) scale: f64,
    /// Only these queries, separated by commas.
    #[arg(long, value_delimiter = ',')]
    pub(crate) queries: Vec<String>,
    /// What to measure, separated by commas: hot (in device memory), host (in host memory), parquet (first run from files),
    /// cpu (DataFusion over the files), memory (DataFusion over tables in memory).
    #[arg(long, value_delimiter = ',', default_value = "hot,cpu", value_name = "MODES")]
    pub(crate) mode: Vec<Mode>,
    /// Measured runs of each query.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) iterations: u32,
    /// Runs before them that do not count.
    #[arg(long, default_value_t = 1)]
    pub(crate) warmups: u32,
    /// DuckDB in the same run: auto takes it when python3 has the module duckdb.
    #[arg(long, value_enum, default_value_t = DuckDb::Auto)]
    pub(crate) duckdb: DuckDb,
    /// Write rows below this directory, as `<date>-<machine>/<name>.csv` and .jsonl with a README.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Name of the written files.
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// The commit to record, where there is no git to ask.
    #[arg(long)]
    pub(crate) commit: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DuckDb {
    /// Over the same files, when it is installed.
    Auto,
    /// Over the same files, and over tables in its memory.
    Both,
    /// Not at all.
    Never,
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.001..=86_400.0).contains(&seconds) => Ok(seconds),
        _ => Err("expected seconds, from 0.001 to 86400".to_string()),
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

#[cfg(test)]
mod tests {
    use super::*;

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
    fn parts_of_the_engine_are_measured_without_a_workload() {
        let parsed = Arguments::parse_from(["galatea", "bench", "allocator", "theory,mixed", "--emulated"]);
        let Some(Command::Bench(bench)) = parsed.command else {
            panic!("a command")
        };
        let Some(PartBench::Allocator(allocator)) = bench.part else {
            panic!("a part")
        };
        assert_eq!(allocator.experiments, [Experiment::Theory, Experiment::Mixed]);
        assert!(allocator.emulated && bench.workload.is_none());
        let parsed = Arguments::parse_from([
            "galatea",
            "bench",
            "conflicts",
            "table-1,machine",
            "--rows",
            "9000",
        ]);
        let Some(Command::Bench(bench)) = parsed.command else {
            panic!("a command")
        };
        let Some(PartBench::Conflicts(arguments)) = bench.part else {
            panic!("a part")
        };
        use conflicts::Experiment::{Machine, Table1};
        assert_eq!(
            (arguments.experiments, arguments.rows),
            (vec![Table1, Machine], Some(9000))
        );
        let parsed = Arguments::parse_from(["galatea", "bench", "tpch"]);
        assert!(matches!(parsed.command, Some(Command::Bench(bench)) if bench.workload.is_some()));
        assert!(Arguments::try_parse_from(["galatea", "bench"]).is_err());
    }

    #[test]
    fn device_memory_is_measured_with_a_workload() {
        let part = |arguments: &[&str]| {
            let parsed = Arguments::try_parse_from([&["galatea", "bench"], arguments].concat())?;
            match parsed.command {
                Some(Command::Bench(bench)) => Ok::<_, clap::Error>((bench.part, parsed.session.settings)),
                _ => panic!("a command"),
            }
        };
        let data = ["--data", "d", "--workload", "tpch", "--queries", "6,1"];
        let typed = [&["residency"][..], &data, &["--shares", "10,110"]].concat();
        let Ok((Some(PartBench::Residency(residency)), _)) = part(&typed) else {
            panic!("a part")
        };
        assert_eq!(
            (residency.shares, residency.iterations, residency.tables.queries),
            (vec![10, 110], 5, vec!["6".to_string(), "1".to_string()])
        );
        let typed = [&["residency"][..], &data].concat();
        let Ok((Some(PartBench::Residency(residency)), _)) = part(&typed) else {
            panic!("a part")
        };
        assert_eq!(residency.shares, residency::Plan::SHARES);
        let more = [
            "--pairs",
            "--seconds",
            "0.5",
            "--limit",
            "1 GiB",
            "--set",
            "galatea.device=emulated",
        ];
        let typed = [&["concurrency"][..], &data, &more].concat();
        let Ok((Some(PartBench::Concurrency(concurrency)), settings)) = part(&typed) else {
            panic!("a part")
        };
        assert!(concurrency.pairs && !concurrency.beside && concurrency.clients.is_empty());
        assert_eq!(
            (concurrency.seconds, concurrency.limit.as_deref(), settings.len()),
            (0.5, Some("1 GiB"), 1)
        );
        assert!(part(&["residency", "--workload", "tpch"]).is_err());
        assert!(part(&[&["residency"][..], &data, &["--shares", "0"]].concat()).is_err());
        assert!(part(&[&["concurrency"][..], &data, &["--clients", "0"]].concat()).is_err());
        assert!(part(&[&["concurrency"][..], &data, &["--seconds", "0"]].concat()).is_err());
    }

    #[test]
    fn global_arguments_go_anywhere() {
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
        assert_eq!(
            (parsed.query.commands.len(), parsed.query.format),
            (2, Format::Csv)
        );
    }
}
