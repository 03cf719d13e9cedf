//! Arguments of `galatea bench papers`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use galatea_bench::papers;

use super::RowArguments;

/// A paper with figures that experiments reproduce.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Paper {
    /// Pham et al., Dynamic Memory Management in Massively Parallel Systems (ICS 2022).
    Allocator,
    /// Sitaridi and Ross, Ameliorating Memory Contention of OLAP Operators on GPU Processors (DaMoN 2012).
    Conflicts,
    /// Li et al., XeFlow: Streamlining Inter-Processor Pipeline Execution (IEEE TC 2020).
    Xeflow,
    /// Lutz, Scalable Data Management using GPUs with Fast Interconnects (2022).
    Thesis,
    /// Wang et al., Concurrent Analytical Query Processing with GPUs (PVLDB 2014).
    Multiqx,
}

impl From<Paper> for papers::Paper {
    fn from(paper: Paper) -> Self {
        match paper {
            Paper::Allocator => Self::Allocator,
            Paper::Conflicts => Self::Conflicts,
            Paper::Xeflow => Self::Xeflow,
            Paper::Thesis => Self::Thesis,
            Paper::Multiqx => Self::Multiqx,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct PapersArguments {
    /// The paper; by default all.
    #[arg(long, value_enum)]
    pub(crate) paper: Option<Paper>,
    /// Only these figures, separated by commas, such as 3.16,3.20,'table 2'; by default all.
    #[arg(long, value_delimiter = ',', value_name = "FIGURES")]
    pub(crate) figure: Vec<String>,
    /// Print the figures with their experiments, and run nothing. Figures without an experiment have the
    /// reason.
    #[arg(long)]
    pub(crate) list: bool,
    /// Leave out figures that findings.txt in --out already has for this commit, and add the others to it.
    #[arg(long = "continue", requires = "out")]
    pub(crate) resume: bool,
    /// Number of measured runs of each point. By default 3, or that of the experiment's own command.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) runs: Option<u32>,
    /// For joins: divisor of the paper's numbers of rows, a power of two; 4 by default, for a machine with
    /// 128 GiB.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) shrink: Option<u64>,
    /// For joins: seconds after which an experiment measures no further points; 25 by default.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) seconds: Option<u64>,
    /// For multiqx: directory of the tables of the Star Schema Benchmark. By default, they are generated.
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) rows: RowArguments,
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::arguments::{Arguments, Command, PartBench};

    fn papers(arguments: &[&str]) -> Result<PapersArguments, clap::Error> {
        let parsed = Arguments::try_parse_from([&["galatea", "bench", "papers"], arguments].concat())?;
        match parsed.command {
            Some(Command::Bench(bench)) => match bench.part {
                Some(PartBench::Papers(papers)) => Ok(papers),
                _ => panic!("a part"),
            },
            _ => panic!("a command"),
        }
    }

    #[test]
    fn papers_take_figures() {
        let parsed = papers(&["--figure", "3.16,table 2"]).expect("parsed");
        assert_eq!((parsed.paper, parsed.runs), (None, None));
        assert_eq!(parsed.figure, ["3.16", "table 2"]);
        let parsed = papers(&["--paper", "multiqx", "--out", "d", "--continue"]).expect("parsed");
        assert!(parsed.paper == Some(Paper::Multiqx) && parsed.resume && !parsed.list);
        assert!(papers(&["--continue"]).is_err(), "nothing to continue");
        assert!(papers(&["--paper", "other"]).is_err());
    }

    #[test]
    fn names_are_those_of_the_registry() {
        for paper in Paper::value_variants() {
            let name = paper.to_possible_value().expect("a name");
            assert_eq!(papers::Paper::from(*paper).name(), name.get_name());
        }
        assert_eq!(Paper::value_variants().len(), papers::Paper::ALL.len());
    }

    #[test]
    fn commands_of_the_registry_are_parsed() {
        for entry in papers::Paper::ALL.into_iter().flat_map(papers::entries) {
            let papers::Run::Bench(bench) = entry.run else {
                continue;
            };
            let tables = match bench.reads_tables() {
                true => " --workload ssb --data d",
                false => "",
            };
            for sizes in [bench.sizes, bench.small] {
                let command = format!("galatea bench {} {sizes}{tables}", bench.arguments);
                let words: Vec<&str> = command.split_whitespace().collect();
                let parsed = Arguments::try_parse_from(&words);
                assert!(parsed.is_ok(), "{command}: {:?}", parsed.err());
            }
        }
    }
}
