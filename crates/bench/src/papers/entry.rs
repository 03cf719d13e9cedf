//! A figure of a paper, and the experiment that reproduces it.

use galatea_experiments::papers::{Experiment, Module};

/// A paper with figures that experiments reproduce.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Paper {
    /// Pham et al., ICS 2022: the device heap.
    Allocator,
    /// Sitaridi and Ross, DaMoN 2012: conflicts in shared memory.
    Conflicts,
    /// Li et al., IEEE TC 2020: streams.
    Xeflow,
    /// Lutz, 2022: fast interconnects.
    Thesis,
    /// Wang et al., PVLDB 2014: concurrent queries.
    Multiqx,
}

impl Paper {
    /// All papers.
    pub const ALL: [Self; 5] = [
        Self::Allocator,
        Self::Conflicts,
        Self::Xeflow,
        Self::Thesis,
        Self::Multiqx,
    ];

    /// Name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Allocator => "allocator",
            Self::Conflicts => "conflicts",
            Self::Xeflow => "xeflow",
            Self::Thesis => "thesis",
            Self::Multiqx => "multiqx",
        }
    }

    /// Authors, title and year.
    pub fn title(self) -> &'static str {
        match self {
            Self::Allocator => {
                "M. Pham et al., Dynamic Memory Management in Massively Parallel Systems: A Case on GPUs (ICS 2022)"
            }
            Self::Conflicts => {
                "E. Sitaridi and K. Ross, Ameliorating Memory Contention of OLAP Operators on GPU Processors (DaMoN 2012)"
            }
            Self::Xeflow => {
                "Z. Li et al., XeFlow: Streamlining Inter-Processor Pipeline Execution (IEEE TC 2020)"
            }
            Self::Thesis => "C. Lutz, Scalable Data Management using GPUs with Fast Interconnects (2022)",
            Self::Multiqx => {
                "K. Wang et al., Concurrent Analytical Query Processing with GPUs (MultiQx-GPU, PVLDB 2014)"
            }
        }
    }

    /// The paper's mechanism in a query of today, its measured effect on a whole workload with and without
    /// it, and the file with the figures. The effect is "not measured" if no committed result has it.
    pub fn contribution(self) -> (&'static str, &'static [&'static str]) {
        match self {
            Self::Allocator => (
                "The device heap holds the rows that a filter returns and the groups that find no place in a hash table. On and \
                 off over a whole workload: not measured.",
                &["2026-11-21-nvidia-h200/row-output.txt"],
            ),
            Self::Conflicts => (
                "Group-by sums in shared memory use the copies that a model of conflicts selects. On and off over a whole \
                 workload: not measured. Of single queries, one copy with plain atomics takes 1.5 times the time in the median, \
                 and 3.5 times at worst (200 million rows, up to 4096 groups).",
                &["2026-11-21-nvidia-h200/groups/README.md"],
            ),
            Self::Xeflow => (
                "Continuous queries run as persistent operators on shared topics. On and off over a whole workload: not \
                 measured. Queries over tables do not use them. Of single queries, a windowed group-by of 10 million events a \
                 second answers in 2.0 ms (p99), DataFusion's streaming operators in 153 ms.",
                &["2026-11-23-nvidia-h200/streams/README.md"],
            ),
            Self::Thesis => (
                "Queries stream columns from host memory and partition the state that exceeds device memory. All 22 queries of \
                 TPC-H 100 take 2.31 s with 16 GiB of device memory and 3.19 s with 1 GiB. With the partitioned join of chapter \
                 4 off, the workload was not measured; the join of lineitem and partsupp alone takes 2.23 s without and 0.50 s \
                 with it at 1 GiB.",
                &["2026-12-01-nvidia-h200/README.md"],
            ),
            Self::Multiqx => (
                "One manager owns device memory, evicts columns and admits queries. SSB 20 with 16 clients and 2 GiB: 131 queries \
                 a second with the default admission, 114 with one query at a time. Without the manager, 411 of 588 runs of pairs \
                 that exceed the memory fail; with it none does.",
                &[
                    "2026-11-22-nvidia-h200/memory/README.md",
                    "2026-12-01-nvidia-h200/README.md",
                ],
            ),
        }
    }
}

/// A command of `galatea bench` as an experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Bench {
    /// Name of the experiment.
    pub name: &'static str,
    /// Name of the file of its rows. Experiments of one command share a file.
    pub file: &'static str,
    /// Arguments after `galatea bench`.
    pub arguments: &'static str,
    /// Further arguments for a GPU.
    pub sizes: &'static str,
    /// Further arguments for the emulated device, instead of those for a GPU.
    pub small: &'static str,
}

impl Bench {
    /// The subcommand of `galatea bench`.
    pub fn part(&self) -> &'static str {
        self.arguments.split(' ').next().unwrap_or_default()
    }

    /// Whether the command reads the tables of a workload.
    pub fn reads_tables(&self) -> bool {
        matches!(self.part(), "concurrency" | "residency")
    }
}

/// How a figure is reproduced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Run {
    /// An experiment of `galatea_experiments`.
    Experiment(Experiment),
    /// A command of `galatea bench`.
    Bench(Bench),
    /// Nothing runs, for this reason.
    Nothing(&'static str),
}

/// A figure or a table of a paper, or a part of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Entry {
    /// The paper.
    pub paper: Paper,
    /// Number of the figure, like `3.16`, or `table 2`, or `section 2.3`.
    pub figure: &'static str,
    /// Its subject.
    pub subject: &'static str,
    /// The paper's result, with its opponent.
    pub outcome: &'static str,
    /// The experiment.
    pub run: Run,
    /// The reason why no result is committed, if none is.
    pub pending: Option<&'static str>,
}

impl Entry {
    /// Name of the experiment, unique among the entries of a figure; empty if none exists.
    pub fn experiment(&self) -> String {
        match self.run {
            Run::Experiment(Experiment { module, name }) => format!("{} {name}", module.name()),
            Run::Bench(bench) => format!("{} {}", bench.part(), bench.name),
            Run::Nothing(_) => String::new(),
        }
    }

    /// The figure with its kind: `figure 3.16`, `table 2`, `section 2.3`.
    pub fn title(&self) -> String {
        match self.figure.starts_with(|first: char| first.is_ascii_digit()) {
            true => format!("figure {}", self.figure),
            false => self.figure.to_string(),
        }
    }

    /// The heading of its findings: figure, subject and experiment.
    pub fn heading(&self) -> String {
        format!("{}: {} ({})", self.title(), self.subject, self.experiment())
    }

    /// Name of the file of its rows, without extension.
    pub fn file(&self) -> String {
        match self.run {
            Run::Experiment(experiment) => format!("figure-{}-{}", self.figure, experiment.name),
            Run::Bench(bench) => format!("{}-{}", self.paper.name(), bench.file),
            Run::Nothing(_) => String::new(),
        }
    }

    /// The command that reproduces the figure.
    pub fn command(&self) -> String {
        let figure = match self.figure.contains(' ') {
            true => format!("'{}'", self.figure),
            false => self.figure.to_string(),
        };
        format!(
            "galatea bench papers --paper {} --figure {figure}",
            self.paper.name()
        )
    }

    /// Folders and files below the repository's root with the code that the experiment measures. A result is
    /// older than the code if they changed after its commit.
    pub fn paths(&self) -> &'static [&'static str] {
        match self.run {
            Run::Nothing(_) => &[],
            Run::Experiment(experiment) => match experiment.module {
                Module::Transfer => &["crates/experiments/src/transfer", "crates/memory/src/transfer"],
                Module::Joins => &["crates/experiments/src/joins", "crates/memory/src/transfer"],
                Module::Partitioned => &[
                    "crates/experiments/src/partitioned",
                    "crates/kernels/cuda/galatea/partition.cuh",
                    "crates/memory/src/transfer",
                ],
            },
            Run::Bench(bench) => match bench.part() {
                "allocator" => &[
                    "crates/bench/src/allocator",
                    "crates/kernels/cuda/galatea/heap",
                    "crates/memory/src/heap",
                ],
                "conflicts" => &["crates/bench/src/conflicts", "crates/layout/src"],
                "kmeans" => &["crates/bench/src/kmeans", "crates/kmeans/src"],
                "flow" => &[
                    "crates/experiments/src/flow",
                    "crates/flow/src",
                    "crates/kernels/cuda/galatea/flow",
                ],
                _ => &[
                    "crates/bench/src/concurrency",
                    "crates/memory/src/regions",
                    "crates/engine/src/execution/admission.rs",
                ],
            },
        }
    }
}
