//! Commands of `galatea bench` as experiments of figures.

use std::io::{self, Write as _};
use std::path::PathBuf;

use clap::Parser as _;
use galatea_bench::papers::{Bench, Entry, Run};
use galatea_bench::workload::Workload;
use galatea_bench::workload::generate::GenerateOptions;
use galatea_bench::{Finding, Report};

use super::super::generate::{data_directory, with_progress};
use super::super::link::Files;
use super::super::{allocator, concurrency, conflicts, kmeans, link};
use crate::arguments::{Arguments, Command, PapersArguments, PartBench, SessionArguments};
use crate::errors::CliError;

/// Scales of the Star Schema Benchmark, on a GPU and on the emulated device.
const SCALES: (f64, f64) = (20.0, 0.01);
/// Files of each table on the emulated device. Row groups are cached as a whole, and with one per file some
/// can be evicted.
const PARTS: usize = 16;

/// The lines of a command that measures several figures.
pub(super) enum Lines {
    /// Findings that name their experiment or figure.
    Findings(Vec<Finding>),
    /// Lines for each of its figures.
    Text(Vec<String>),
}

impl Lines {
    /// The lines of one figure.
    pub(super) fn of(&self, entry: &Entry) -> Vec<String> {
        let Run::Bench(bench) = entry.run else {
            return Vec::new();
        };
        match self {
            Self::Text(lines) => lines.clone(),
            Self::Findings(findings) => {
                let named = findings.iter().any(|finding| finding.experiment == bench.name);
                let of = findings.iter().filter(|finding| match named {
                    true => finding.experiment == bench.name,
                    false => finding.figure == entry.figure,
                });
                of.map(|finding| finding.line(&entry.title())).collect()
            }
        }
    }
}

/// A command with its arguments.
pub(super) struct Part {
    session: SessionArguments,
    words: Vec<String>,
    /// The directory of the tables, and the options to generate them; `None` for tables that exist.
    tables: Option<(PathBuf, Option<GenerateOptions>)>,
}

impl Part {
    pub(super) fn new(
        session: &SessionArguments,
        arguments: &PapersArguments,
        bench: Bench,
    ) -> Result<Self, CliError> {
        let emulated = arguments.rows.emulated;
        let sizes = if emulated { bench.small } else { bench.sizes };
        let words = format!("galatea bench {} {sizes}", bench.arguments);
        let mut words: Vec<String> = words.split_whitespace().map(str::to_string).collect();
        let mut add = |name: &str, value: String| words.extend([name.to_string(), value]);
        if let Some(commit) = &arguments.rows.commit {
            add("--commit", commit.clone());
        }
        if let Some(runs) = arguments.runs.filter(|_| !bench.reads_tables()) {
            add("--runs", runs.to_string());
        }
        let tables = match (bench.reads_tables(), &arguments.data) {
            (false, _) => None,
            (true, Some(data)) => Some((data.clone(), None)),
            (true, None) => {
                let scale = if emulated { SCALES.1 } else { SCALES.0 };
                let mut options = GenerateOptions::new(Workload::Ssb, scale, "");
                options.parts = if emulated { PARTS } else { options.parts };
                let directory = data_directory(&format!("ssb-{scale}-papers"))?;
                options.out.clone_from(&directory);
                Some((directory, Some(options)))
            }
        };
        if let Some((directory, _)) = &tables {
            add("--workload", "ssb".to_string());
            add("--data", directory.to_string_lossy().into_owned());
        }
        Ok(Self {
            session: session.clone(),
            words,
            tables,
        })
    }

    /// Runs the command, and writes its rows. Returns the lines of its figures.
    pub(super) async fn measure(self, file: &str, files: &Files<'_>) -> Result<Lines, CliError> {
        let _ = writeln!(io::stdout(), "{}", self.words.join(" "));
        if let Some((_, Some(options))) = self.tables {
            with_progress(options, self.session.quiet).await?;
        }
        let parsed = Arguments::try_parse_from(&self.words);
        let parsed = parsed.map_err(|error| CliError::Other(error.to_string()))?;
        let mut session = self.session;
        session.settings.extend(parsed.session.settings);
        let Some(Command::Bench(bench)) = parsed.command else {
            return Ok(Lines::Text(Vec::new()));
        };
        match bench.part {
            Some(PartBench::Allocator(part)) => {
                let report = allocator::measure(&session, &part)?;
                keep(&report, file, files)
            }
            Some(PartBench::Conflicts(part)) => {
                let report = conflicts::measure(&session, &part)?;
                let lines = keep(&report, file, files)?;
                conflicts::check(&report)?;
                Ok(lines)
            }
            Some(PartBench::Kmeans(part)) => {
                let report = kmeans::measure(&session, &part)?;
                keep(&report, file, files)
            }
            Some(PartBench::Concurrency(part)) => {
                let report = concurrency::measure(&session, &part).await?;
                let _ = keep(&report, file, files)?;
                concurrency::check(&report)?;
                // Tables are in the file of the rows.
                let summary = report.summary();
                let lines = summary
                    .lines()
                    .filter(|line| !line.is_empty() && !line.starts_with('|'));
                Ok(Lines::Text(lines.map(str::to_string).collect()))
            }
            Some(PartBench::Flow(part)) => Ok(Lines::Text(link::streams_of(&part, files, file)?)),
            _ => Ok(Lines::Text(Vec::new())),
        }
    }
}

/// Prints the summary of a report, and writes its rows.
fn keep(report: &impl Report, file: &str, files: &Files<'_>) -> Result<Lines, CliError> {
    let _ = writeln!(io::stdout(), "{}", report.summary());
    files.write(file, &report.csv())?;
    Ok(Lines::Findings(report.findings()))
}
