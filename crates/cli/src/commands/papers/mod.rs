//! `galatea bench papers`: the experiments that reproduce figures of papers.

mod findings;
mod part;

use std::collections::HashMap;
use std::io::{self, Write as _};

use galatea_bench::papers::{Entry, Paper, Run, chosen, entries};
use galatea_device::Device;
use galatea_experiments::papers::{Experiment, Scales};

use self::findings::Findings;
use self::part::{Lines, Part};
use super::bench::{open_device, second_device};
use super::link::Files;
use crate::arguments::{PapersArguments, SessionArguments};
use crate::errors::CliError;

/// Seed of the relations of joins.
const SEED: u64 = 1;
/// Number of runs of the experiments of the thesis' chapters 3 and 4.
const RUNS: u32 = 3;

pub(crate) async fn run(session: &SessionArguments, arguments: &PapersArguments) -> Result<(), CliError> {
    let papers = match arguments.paper {
        Some(paper) => vec![paper.into()],
        None => Paper::ALL.to_vec(),
    };
    let chosen = chosen(&papers, &arguments.figure).map_err(|unknown| not_found(&papers, unknown))?;
    if arguments.list {
        list(&chosen);
        return Ok(());
    }
    let files = Files::of(&arguments.rows, SEED);
    let mut findings = Findings::open(arguments)?;
    let mut modules = None;
    // Figures of one command share its lines.
    let mut lines: HashMap<String, Lines> = HashMap::new();
    for entry in chosen {
        let heading = entry.heading();
        if findings.contains(entry) {
            let _ = writeln!(io::stdout(), "{heading}: measured before");
            continue;
        }
        let found = match entry.run {
            Run::Nothing(reason) => {
                let _ = writeln!(
                    io::stdout(),
                    "{}: {}: not run: {reason}",
                    entry.title(),
                    entry.subject
                );
                continue;
            }
            Run::Experiment(experiment) => {
                let _ = writeln!(io::stdout(), "{heading}");
                let modules = match &mut modules {
                    Some(modules) => modules,
                    missing => missing.insert(Modules::open(arguments)?),
                };
                modules.measure(experiment, &entry.file(), &files)?
            }
            Run::Bench(bench) => {
                let _ = writeln!(io::stdout(), "{heading}");
                // Its memory is needed by the command, which opens a device of its own.
                modules = None;
                let file = entry.file();
                if !lines.contains_key(&file) {
                    let part = Part::new(session, arguments, bench)?;
                    lines.insert(file.clone(), part.measure(&file, &files).await?);
                }
                let found = lines.get(&file).map(|lines| lines.of(entry));
                found.unwrap_or_default()
            }
        };
        for finding in &found {
            let _ = writeln!(io::stdout(), "{finding}");
        }
        findings.add(entry, &found)?;
    }
    Ok(())
}

fn not_found(papers: &[Paper], unknown: &str) -> CliError {
    let known = match papers {
        [paper] => {
            let mut known: Vec<&str> = entries(*paper).map(|entry| entry.figure).collect();
            known.dedup();
            format!("there are {}", known.join(", "))
        }
        _ => "galatea bench papers --list prints all".to_string(),
    };
    CliError::Other(format!("no figure {unknown}: {known}"))
}

/// Prints the figures, one per line.
fn list(chosen: &[&Entry]) {
    for entry in chosen {
        let run = match entry.run {
            Run::Nothing(reason) => reason.to_string(),
            _ => entry.experiment(),
        };
        let _ = writeln!(
            io::stdout(),
            "{:<10} {:<12} {:<42} {run}",
            entry.paper.name(),
            entry.title(),
            entry.subject
        );
    }
}

/// The device and the scales of the modules of `galatea_experiments`.
struct Modules {
    device: Device,
    scales: Scales,
    emulated: bool,
    /// Whether a second device was looked for.
    looked: bool,
}

impl Modules {
    fn open(arguments: &PapersArguments) -> Result<Self, CliError> {
        let emulated = arguments.rows.emulated;
        let scales = if emulated {
            Scales::small()
        } else {
            Scales::default()
        };
        let mut scales = scales.with_runs(arguments.runs.unwrap_or(RUNS) as usize);
        scales.joins.seed = SEED;
        if let Some(shrink) = arguments.shrink {
            scales.joins.shrink = shrink;
        }
        if let Some(seconds) = arguments.seconds {
            scales.joins.seconds = seconds as f64;
        }
        Ok(Self {
            device: open_device(emulated)?,
            scales,
            emulated,
            looked: false,
        })
    }

    /// Runs an experiment. Returns its findings.
    fn measure(
        &mut self,
        experiment: Experiment,
        file: &str,
        files: &Files<'_>,
    ) -> Result<Vec<String>, CliError> {
        if experiment.uses_peer() && !self.looked {
            self.scales = self.scales.clone().with_peer(second_device(self.emulated)?);
            self.looked = true;
        }
        let mut findings = Vec::new();
        files.keep(file, experiment.header(), |out| {
            let ran = experiment.run(&self.device, &self.scales, out);
            findings = ran.map_err(|error| error.to_string())?;
            Ok(())
        })?;
        Ok(findings)
    }
}
