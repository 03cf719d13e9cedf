//! Arguments of `galatea bench`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use galatea_bench::allocator::Experiment;
use galatea_bench::conflicts;
use galatea_bench::measure::Mode;
use galatea_bench::residency;

use super::{
    FirstArguments, JoinsArguments, PapersArguments, RandomArguments, RowArguments, WorkloadArguments,
    WorkloadName,
};

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct BenchArguments {
    #[command(subcommand)]
    pub(crate) part: Option<PartBench>,
    /// Benchmark to run.
    #[arg(value_enum, required = true)]
    pub(crate) workload: Option<WorkloadName>,
    #[command(flatten)]
    pub(crate) common: WorkloadArguments,
    /// Modes, separated by commas: hot (columns in device memory), host (columns in host memory), parquet
    /// (first run from files), cpu (Galatea on the CPU, over the files), datafusion (DataFusion over the
    /// files), cpu-first and datafusion-first (their first runs), memory (DataFusion over tables in memory).
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "hot,datafusion",
        value_name = "MODES"
    )]
    pub(crate) mode: Vec<Mode>,
    /// Number of measured runs of each query.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) iterations: u32,
    /// Number of warm-up runs of each query before the measured runs. The second one optimises kernels.
    #[arg(long, default_value_t = 2)]
    pub(crate) warmups: u32,
}

/// Measurements of parts of the engine.
#[derive(Debug, Subcommand)]
pub(crate) enum PartBench {
    /// Measure first, second and last runs of a workload in a fresh session, compared with DataFusion's CPU
    /// operators and DuckDB.
    First(FirstArguments),
    /// Compare the device heap with a queue and counters: the experiments of Pham et al. 2022.
    Allocator(AllocatorArguments),
    /// Measure bank and value conflicts in shared memory: the experiments of Sitaridi and Ross 2012, and
    /// other methods to sum by group.
    Conflicts(ConflictsArguments),
    /// Measure k-means: an iteration over points on the device, compared with one read of them.
    Kmeans(KmeansArguments),
    /// Measure joins in device memory, by SQL, compared with the rates of random accesses; costs by number of
    /// rows, groups and build sides.
    Joins(JoinsArguments),
    /// Run random queries on the device, and compare each with DataFusion's CPU operators.
    Random(RandomArguments),
    /// Measure sorting: keys with row numbers compared with one read of the keys, ORDER BY compared with the
    /// CPU.
    Sort(SortArguments),
    /// Measure queries with a part of their data in device memory, compared with the bound by measured rates.
    Residency(ResidencyArguments),
    /// Measure streams: topologies of operators on CPU and device, compared with a kernel launch per batch.
    Flow(LinkArguments),
    /// Measure the methods of transfer between host and device.
    Transfer(LinkArguments),
    /// Reproduce figures of papers: each runs the experiment that is registered for it.
    Papers(PapersArguments),
    /// Measure many clients on one device: throughput and latency, pairs of queries, a small query beside a
    /// large one.
    Concurrency(ConcurrencyArguments),
}

/// The queries over a workload's tables, and the directory of the results.
#[derive(Debug, Args)]
pub(crate) struct TablesArguments {
    /// Directory of the workload's tables.
    #[arg(long, value_name = "DIR")]
    pub(crate) data: PathBuf,
    /// Workload to run.
    #[arg(long, value_enum)]
    pub(crate) workload: WorkloadName,
    /// Only these queries, separated by commas.
    #[arg(long, value_delimiter = ',')]
    pub(crate) queries: Vec<String>,
    /// Policy that selects the columns to evict from device memory: galatea.memory.replacement.
    #[arg(long, value_name = "POLICY")]
    pub(crate) replacement: Option<String>,
    /// Write rows and figures below this directory, as `<date>-<machine>/<name>.csv`, .jsonl and .svg with a
    /// README.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Commit to record, for use outside of a git checkout.
    #[arg(long)]
    pub(crate) commit: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ResidencyArguments {
    #[command(flatten)]
    pub(crate) tables: TablesArguments,
    /// Limits of device memory, separated by commas, in percent of the bytes that each query keeps there
    /// without a limit.
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "PERCENT",
        default_values_t = residency::Plan::SHARES,
        value_parser = clap::value_parser!(u32).range(1..=10_000)
    )]
    pub(crate) shares: Vec<u32>,
    /// Number of measured runs at each limit.
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
    /// Numbers of clients, separated by commas; 1, 4, 16, 32 and 64 by default. If another experiment is
    /// selected, clients are measured only if this option is given.
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) clients: Vec<u32>,
    /// Seconds that each configuration runs.
    #[arg(long, default_value_t = 5.0, value_parser = parse_seconds)]
    pub(crate) seconds: f64,
    /// Limit of the device memory of all clients together: galatea.memory.gpu_limit.
    #[arg(long, value_name = "SIZE")]
    pub(crate) limit: Option<String>,
    /// Policy that admits queries to the device: galatea.memory.admission.
    #[arg(long, value_name = "POLICY")]
    pub(crate) admission: Option<String>,
    /// Measure all pairs of queries that together read more than the limit: side by side, and in turns.
    #[arg(long)]
    pub(crate) pairs: bool,
    /// With --pairs: measure also without the memory manager. A query that finds the device full then fails.
    #[arg(long, requires = "pairs")]
    pub(crate) naive: bool,
    /// Parts of the memory manager to switch off: galatea.debug.memory_ablations.
    #[arg(long, value_name = "PARTS")]
    pub(crate) ablation: Option<String>,
    /// Measure the time from cancelling a query at a random point of its run to its last effect on the
    /// device.
    #[arg(long)]
    pub(crate) cancel: bool,
    /// Measure Poisson arrivals at twice the rate that sequential queries reach, under each policy of
    /// admission.
    #[arg(long)]
    pub(crate) poisson: bool,
    /// Measure the latency of the first query, alone and beside a client that repeats the last query.
    #[arg(long)]
    pub(crate) beside: bool,
    /// Measure each number of clients alone, and beside a client that repeats queries 9, 18 and 21 of TPC-H
    /// over the tables in this directory.
    #[arg(long, value_name = "DIR")]
    pub(crate) mixed: Option<PathBuf>,
    /// Seed of each client's order of queries.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Name of the written files.
    #[arg(long, default_value = "concurrency")]
    pub(crate) name: String,
}

#[derive(Debug, Args)]
pub(crate) struct AllocatorArguments {
    /// Only these experiments, separated by commas: contention, theory, free-share, scaling, sizes, mixed,
    /// utilization, hash-join.
    #[arg(value_delimiter = ',')]
    pub(crate) experiments: Vec<Experiment>,
    /// Run a small version on the emulated device. It shows that everything works; its times mean nothing.
    #[arg(long)]
    pub(crate) emulated: bool,
    /// Number of measured runs of each configuration.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) runs: Option<u32>,
    /// Bytes of the pool; 8 GiB by default.
    #[arg(long)]
    pub(crate) pool: Option<u64>,
    /// Write rows and figures below this directory, as `<date>-<machine>/<name>.csv`, .jsonl and .svg with a
    /// README.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Name of the written files.
    #[arg(long, default_value = "allocator")]
    pub(crate) name: String,
    /// Commit to record, for use outside of a git checkout.
    #[arg(long)]
    pub(crate) commit: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct KmeansArguments {
    /// Experiments, separated by commas: iteration (the methods of summing), variants (the executions and
    /// sums of the thesis), masses (histograms of labels), streaming (points in host memory), phases (of an
    /// iteration), chunks (transfers to the device), restarts (together and separately), launches (of
    /// iterations, one by one and together), thesis (figures 5.9 to 5.16 with their own sweeps, restarts and
    /// launches).
    #[arg(long, value_delimiter = ',', default_value = "iteration")]
    pub(crate) experiment: Vec<String>,
    /// Numbers of features, separated by commas.
    #[arg(long, value_delimiter = ',', default_values_t = [4, 16])]
    pub(crate) features: Vec<u32>,
    /// Numbers of clusters, separated by commas.
    #[arg(long, value_delimiter = ',', default_values_t = [4, 16, 64, 256])]
    pub(crate) clusters: Vec<u32>,
    /// Size of the points; 2 GiB by default. For thesis, 512 MiB, and a fourth of that on the CPU.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) bytes: Option<u64>,
    /// Number of measured runs of each shape. With 0, shapes are only checked against 64-bit floats.
    #[arg(long, default_value_t = 7)]
    pub(crate) runs: u32,
    /// Only these methods of finding the nearest centroids, separated by commas: lanes (32-bit floats),
    /// matrix (matrix units). If --shapes is more than one, the default is both.
    #[arg(long, value_delimiter = ',')]
    pub(crate) scores: Vec<String>,
    /// Only these methods of summing, separated by commas: registers, private, features, shared, global. If
    /// --shapes is more than one, the default is all.
    #[arg(long, value_delimiter = ',')]
    pub(crate) sums: Vec<String>,
    /// Number of shapes of a pass for each method of summing, in ascending order of the modelled cost. By
    /// default, the one shape that the engine would select.
    #[arg(long, default_value_t = 0)]
    pub(crate) shapes: u32,
    /// Number of points on which each shape is checked against 64-bit floats; 131089 by default, 16401 for
    /// thesis.
    #[arg(long, value_name = "POINTS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) verify: Option<u64>,
    /// Limit of the shared memory of a block. The thesis uses 48 KiB; by default, all of it.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) shared: Option<u64>,
    /// Run a small version on the emulated device. It shows that everything works; its times mean nothing.
    #[arg(long)]
    pub(crate) emulated: bool,
    /// Write rows below this directory, as `<date>-<machine>/<name>.csv`, .jsonl and .md with a README.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Name of the written files.
    #[arg(long, default_value = "kmeans")]
    pub(crate) name: String,
    /// Commit to record, for use outside of a git checkout.
    #[arg(long)]
    pub(crate) commit: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct SortArguments {
    /// Numbers of keys to sort, separated by commas; 2^24, 2^28 and 2^30 by default.
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..=4_294_967_295))]
    pub(crate) rows: Vec<u64>,
    /// Numbers of rows of the tables that ORDER BY sorts, separated by commas; 10 and 100 million by default.
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..=4_294_967_295))]
    pub(crate) table_rows: Vec<u64>,
    /// Number of measured runs of each configuration.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) runs: u32,
    /// Run a small version on the emulated device. It shows that everything works; its times mean nothing.
    #[arg(long)]
    pub(crate) emulated: bool,
    /// Write rows below this directory, as `<date>-<machine>/<name>.csv`, .jsonl and .md with a README.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Name of the written files.
    #[arg(long, default_value = "sort")]
    pub(crate) name: String,
    /// Commit to record, for use outside of a git checkout.
    #[arg(long)]
    pub(crate) commit: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct LinkArguments {
    /// Only these experiments, separated by commas. For flow: link, round-trip, in-flight, ways-both,
    /// frame-sizes, shapes, layers, steps, chains, tuning, partitions, encoding, set-query, sql. For
    /// transfer: rates, chunks, threads, pieces, both, probe, selectivity, cpu, latency, tlb.
    #[arg(long, value_delimiter = ',')]
    pub(crate) experiment: Vec<String>,
    /// Number of measured runs of each point.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) runs: u32,
    /// Size of the data that a run moves in each direction; by default 2 GiB for flow and 1 GiB for transfer.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) bytes: Option<u64>,
    /// For sql: events per second, 10 million by default.
    #[arg(long, value_name = "EVENTS", value_parser = clap::value_parser!(u64).range(1000..))]
    pub(crate) rate: Option<u64>,
    /// For sql: seconds of a run, 3 by default.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) seconds: Option<u64>,
    #[command(flatten)]
    pub(crate) rows: RowArguments,
}

#[derive(Debug, Args)]
pub(crate) struct ConflictsArguments {
    /// Only these experiments, separated by commas: table-1, figure-3 to figure-10, alternatives, machine.
    /// Table 1 and figures 3, 4 and 9 need no GPU.
    #[arg(value_delimiter = ',')]
    pub(crate) experiments: Vec<conflicts::Experiment>,
    /// Run a small version on the emulated device. It shows that everything works; its times mean nothing.
    #[arg(long)]
    pub(crate) emulated: bool,
    /// Number of measured runs of each configuration. A run repeats short kernels many times. With 1, for
    /// profilers, a run launches each kernel only once.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) runs: Option<u32>,
    /// Number of rows of the largest table; 200 million by default.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1024..))]
    pub(crate) rows: Option<u32>,
    /// Numbers of groups of the alternatives, separated by commas; powers of two up to 4096 by default.
    #[arg(long, value_delimiter = ',', value_name = "NUMBERS")]
    pub(crate) groups: Vec<u32>,
    /// Skews of the columns, separated by commas; 0 to 2 by default.
    #[arg(long, value_delimiter = ',', value_name = "NUMBERS")]
    pub(crate) thetas: Vec<f64>,
    /// Seed of the columns; by default another one in each run. Rows record it.
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Write rows and figures below this directory, as `<date>-<machine>/<name>.csv`, .jsonl and .svg with a
    /// README.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Name of the written files.
    #[arg(long, default_value = "conflicts")]
    pub(crate) name: String,
    /// Commit to record, for use outside of a git checkout.
    #[arg(long)]
    pub(crate) commit: Option<String>,
}

/// The bytes of a size in binary units, spelled as in settings.
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
    fn component_benchmarks_need_no_workload() {
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
    fn residency_benchmarks_take_a_workload() {
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
