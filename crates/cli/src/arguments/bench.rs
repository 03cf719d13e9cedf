//! Arguments of `galatea bench`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use galatea_bench::allocator::Experiment;
use galatea_bench::conflicts;
use galatea_bench::measure::Mode;
use galatea_bench::residency;

use super::{JoinsArguments, RandomArguments, WorkloadName};

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
    /// Modes, separated by commas: hot (in device memory), host (in host memory), parquet (first run from
    /// files), cpu (Galatea on the CPU over the files), datafusion (DataFusion over the files), cpu-first and
    /// datafusion-first (their first runs), memory (DataFusion over tables in memory).
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "hot,datafusion",
        value_name = "MODES"
    )]
    pub(crate) mode: Vec<Mode>,
    /// Measured runs of each query.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) iterations: u32,
    /// Warm-up runs before them.
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
    /// The commit to record, outside of a git checkout.
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

/// Measurements of parts of the engine.
#[derive(Debug, Subcommand)]
pub(crate) enum PartBench {
    /// The device heap against queues and counters: the experiments of Pham et al. 2022.
    Allocator(AllocatorArguments),
    /// Bank and value conflicts in shared memory: the experiments of Sitaridi and Ross 2012, and other ways
    /// of summing by group.
    Conflicts(ConflictsArguments),
    /// k-means: an iteration over points on the device, beside reading them once.
    Kmeans(KmeansArguments),
    /// Joins in device memory, as SQL, beside the rates of random accesses; costs over rows, groups and build
    /// sides.
    Joins(JoinsArguments),
    /// Random queries on the device, each compared with DataFusion's CPU operators.
    Random(RandomArguments),
    /// Sorting: keys with row numbers beside reading the keys once, ORDER BY beside the CPU.
    Sort(SortArguments),
    /// Queries with a part of their data in device memory, beside the bound by measured rates.
    Residency(ResidencyArguments),
    /// Streams: topologies of operators on CPU and device, beside a kernel launched for each batch.
    Flow(LinkArguments),
    /// The ways across the link between host and device.
    Transfer(LinkArguments),
    /// Many clients on one device: throughput and latency, pairs of queries, a small query beside a large
    /// one.
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
    /// Write rows and figures below this directory, as `<date>-<machine>/<name>.csv`, .jsonl and .svg with a
    /// README.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// The commit to record, outside of a git checkout.
    #[arg(long)]
    pub(crate) commit: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ResidencyArguments {
    #[command(flatten)]
    pub(crate) tables: TablesArguments,
    /// Limits on device memory, separated by commas, in percent of the bytes that each query keeps there
    /// without a limit.
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
    /// Numbers of clients, separated by commas; 1, 4, 16, 32 and 64 by default. With another experiment only
    /// when given.
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) clients: Vec<u32>,
    /// How long each configuration runs.
    #[arg(long, default_value_t = 5.0, value_parser = parse_seconds)]
    pub(crate) seconds: f64,
    /// Device memory of all clients together: galatea.gpu_memory_limit.
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
    /// Seed of the clients' orders of queries.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Name of the written files.
    #[arg(long, default_value = "concurrency")]
    pub(crate) name: String,
}

#[derive(Debug, Args)]
pub(crate) struct AllocatorArguments {
    /// Only these, separated by commas: contention, theory, free-share, scaling, sizes, mixed, utilization,
    /// hash-join.
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
    /// Write rows and figures below this directory, as `<date>-<machine>/<name>.csv`, .jsonl and .svg with a
    /// README.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Name of the written files.
    #[arg(long, default_value = "allocator")]
    pub(crate) name: String,
    /// The commit to record, outside of a git checkout.
    #[arg(long)]
    pub(crate) commit: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct KmeansArguments {
    /// Experiments, separated by commas: iteration, the ways of summing; variants, the thesis' executions
    /// and sums; masses, histograms of labels; streaming, points in host memory; phases of an iteration;
    /// chunks on their way to the device; restarts together and apart; launches of iterations one by one and
    /// together; thesis, its figures 5.9 to 5.16 with sweeps of their own, restarts and launches.
    #[arg(long, value_delimiter = ',', default_value = "iteration")]
    pub(crate) experiment: Vec<String>,
    /// Numbers of features, separated by commas.
    #[arg(long, value_delimiter = ',', default_values_t = [4, 16])]
    pub(crate) features: Vec<u32>,
    /// Numbers of clusters, separated by commas.
    #[arg(long, value_delimiter = ',', default_values_t = [4, 16, 64, 256])]
    pub(crate) clusters: Vec<u32>,
    /// Size of the points; 2 GiB by default, 512 MiB for thesis, of which the CPU takes a fourth.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) bytes: Option<u64>,
    /// Measured runs of each shape; 0: shapes are only held against 64-bit floats.
    #[arg(long, default_value_t = 7)]
    pub(crate) runs: u32,
    /// Only these ways of finding the nearest centroids, separated by commas: lanes, 32-bit floats; matrix,
    /// matrix units. Both by default where --shapes is more than one.
    #[arg(long, value_delimiter = ',')]
    pub(crate) scores: Vec<String>,
    /// Only these ways of summing, separated by commas: registers, private, features, shared, global. All by
    /// default where --shapes is more than one.
    #[arg(long, value_delimiter = ',')]
    pub(crate) sums: Vec<String>,
    /// Number of shapes of a pass for each way of summing, the cheapest by the model first; by default the
    /// one that is chosen.
    #[arg(long, default_value_t = 0)]
    pub(crate) shapes: u32,
    /// Points that each shape is held against 64-bit floats on; 131089 by default, 16401 for thesis.
    #[arg(long, value_name = "POINTS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) verify: Option<u64>,
    /// Shared memory that a block may take, 48 KiB as in the thesis; all of it by default.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
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
    /// The commit to record, outside of a git checkout.
    #[arg(long)]
    pub(crate) commit: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct SortArguments {
    /// Numbers of rows whose keys are sorted, separated by commas; 2^24, 2^28 and 2^30 by default.
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..=4_294_967_295))]
    pub(crate) rows: Vec<u64>,
    /// Numbers of rows of the tables that queries order, separated by commas; 10 and 100 million by default.
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..=4_294_967_295))]
    pub(crate) table_rows: Vec<u64>,
    /// Measured runs of each.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) runs: u32,
    /// Small, on the emulated device: shows that everything works, its times mean nothing.
    #[arg(long)]
    pub(crate) emulated: bool,
    /// Write rows below this directory, as `<date>-<machine>/<name>.csv`, .jsonl and .md with a README.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Name of the written files.
    #[arg(long, default_value = "sort")]
    pub(crate) name: String,
    /// The commit to record, outside of a git checkout.
    #[arg(long)]
    pub(crate) commit: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct LinkArguments {
    /// Only these experiments, separated by commas. Of flow: link, round-trip, in-flight, ways-both,
    /// frame-sizes, shapes, layers, steps, chains, tuning, partitions, encoding, set-query, sql; of
    /// transfer: rates, chunks, threads, pieces, both, probe, selectivity, cpu, latency, tlb.
    #[arg(long, value_delimiter = ',')]
    pub(crate) experiment: Vec<String>,
    /// Measured runs of each point.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) runs: u32,
    /// Size of the data that a run moves each way, 2 GiB by default, and 1 GiB of transfer.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) bytes: Option<u64>,
    /// Of sql: events a second, 10 million by default.
    #[arg(long, value_name = "EVENTS", value_parser = clap::value_parser!(u64).range(1000..))]
    pub(crate) rate: Option<u64>,
    /// Of sql: seconds of a run, 3 by default.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) seconds: Option<u64>,
    /// Small, on the emulated device: shows that everything works, its times mean nothing.
    #[arg(long)]
    pub(crate) emulated: bool,
    /// Write rows into this directory, one file an experiment.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// The commit to record, outside of a git checkout.
    #[arg(long)]
    pub(crate) commit: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ConflictsArguments {
    /// Only these, separated by commas: table-1, figure-3 to figure-10, alternatives, machine. Those of table
    /// 1 and figures 3, 4 and 9 need no GPU.
    #[arg(value_delimiter = ',')]
    pub(crate) experiments: Vec<conflicts::Experiment>,
    /// Small, on the emulated device: shows that everything works, its times mean nothing.
    #[arg(long)]
    pub(crate) emulated: bool,
    /// Measured runs of each configuration, short kernels many times in a row; with 1, for profilers, only
    /// once.
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
    /// Seed of the columns; by default another one each time. Rows record it.
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Write rows and figures below this directory, as `<date>-<machine>/<name>.csv`, .jsonl and .svg with a
    /// README.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Name of the written files.
    #[arg(long, default_value = "conflicts")]
    pub(crate) name: String,
    /// The commit to record, outside of a git checkout.
    #[arg(long)]
    pub(crate) commit: Option<String>,
}

/// Bytes of a size in binary units, spelled as in settings.
fn parse_size(text: &str) -> Result<u64, String> {
    let sizes = parse_size::Config::new().with_binary();
    sizes
        .parse_size(text)
        .map_err(|reason| format!("{reason}, expected bytes or a size such as '2 GiB'"))
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.001..=86_400.0).contains(&seconds) => Ok(seconds),
        _ => Err("expected seconds, from 0.001 to 86400".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::arguments::{Arguments, Command};

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
    fn sizes_have_binary_units() {
        let sizes = ["49152", "48 KiB", "48k", "0.75 MiB", "2gb"].map(parse_size);
        assert_eq!(sizes, [48 << 10, 48 << 10, 48 << 10, 768 << 10, 2 << 30].map(Ok));
        let refused = parse_size("2 elephants").expect_err("no unit");
        assert!(refused.contains("'2 GiB'"), "{refused}");
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
}
