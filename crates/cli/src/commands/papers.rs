//! `galatea bench papers`: the experiments that reproduce figures of a paper.

use std::io::{self, Write as _};

use galatea_experiments::papers::{Figure, Scales, THESIS, chosen};

use super::bench::{open_device, second_device};
use super::link::Files;
use crate::arguments::{Paper, PapersArguments};
use crate::errors::CliError;

/// Seed of the relations of joins.
const SEED: u64 = 1;

pub(crate) fn run(arguments: &PapersArguments) -> Result<(), CliError> {
    let figures: &'static [Figure] = match arguments.paper {
        Paper::Thesis => THESIS,
    };
    let figures = chosen(figures, &arguments.figure).map_err(|unknown| {
        let mut known: Vec<&str> = figures.iter().map(|figure| figure.number).collect();
        known.dedup();
        CliError::Other(format!("no figure {unknown}: there are {}", known.join(", ")))
    })?;
    let device = open_device(arguments.rows.emulated)?;
    let scales = if arguments.rows.emulated {
        Scales::small()
    } else {
        Scales::default()
    };
    let peer = match figures.iter().any(Figure::uses_peer) {
        true => second_device(arguments.rows.emulated)?,
        false => None,
    };
    let mut scales = scales.with_runs(arguments.runs as usize).with_peer(peer);
    scales.joins.seed = SEED;
    if let Some(shrink) = arguments.shrink {
        scales.joins.shrink = shrink;
    }
    if let Some(seconds) = arguments.seconds {
        scales.joins.seconds = seconds as f64;
    }
    let files = Files::of(&arguments.rows, SEED);
    for figure in figures {
        let Figure {
            number,
            subject,
            module,
            experiment,
        } = figure;
        let _ = writeln!(
            io::stdout(),
            "figure {number}: {subject} ({} {experiment})",
            module.name()
        );
        let mut findings = Vec::new();
        let name = format!("figure-{number}-{experiment}");
        let outcome = files.keep(&name, figure.header(), |out| {
            let ran = figure.run(&device, &scales, out);
            findings = ran.map_err(|error| error.to_string())?;
            Ok(())
        });
        for finding in findings {
            let _ = writeln!(io::stdout(), "{finding}");
        }
        outcome?;
    }
    Ok(())
}
