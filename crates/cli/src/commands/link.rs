//! `galatea bench flow` and `galatea bench transfer`: streams, and the transfer methods.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;
use std::time::Duration;

use galatea_bench::result::origin;
use galatea_bench::streams::{self as continuous, Plan};
use galatea_device::Device;
use galatea_experiments::{flow as streams, transfer as ways};
use galatea_memory::transfer::{Capabilities, Method};

use super::bench::{machine, open_device};
use crate::arguments::{LinkArguments, RowArguments};
use crate::errors::CliError;
use crate::interrupt::interruptible;

/// Bytes of a run by default.
const BYTES: u64 = 2 << 30;

/// The requested experiments, in their order; all by default.
fn chosen(asked: &[String], known: &[&'static str]) -> Result<Vec<&'static str>, CliError> {
    if let Some(unknown) = asked.iter().find(|name| !known.contains(&name.as_str())) {
        let known = known.join(", ");
        return Err(CliError::Other(format!(
            "no experiment {unknown}: there are {known}"
        )));
    }
    let all = known.iter().copied();
    Ok(all
        .filter(|name| asked.is_empty() || asked.iter().any(|asked| asked == name))
        .collect())
}

/// The output files of experiments.
pub(super) struct Files<'a> {
    /// The directory of the kept rows.
    out: Option<&'a Path>,
    /// Names and values of the last columns of each row.
    origin: (String, String),
}

impl<'a> Files<'a> {
    /// The files of these arguments.
    pub(super) fn of(arguments: &'a RowArguments, seed: u64) -> Self {
        let machine = machine(arguments.emulated, arguments.commit.clone());
        Self {
            out: arguments.out.as_deref(),
            origin: origin(&machine, seed),
        }
    }

    /// Prints each row of an experiment after its measurement, and writes all rows to a file.
    pub(super) fn keep(
        &self,
        name: &str,
        header: &str,
        run: impl FnOnce(&mut dyn FnMut(String)) -> Result<(), String>,
    ) -> Result<(), CliError> {
        let (names, values) = &self.origin;
        let mut text = format!("{header},{names}\n");
        let _ = writeln!(io::stdout(), "{header}");
        let outcome = run(&mut |row| {
            let _ = writeln!(io::stdout(), "{row}");
            text += &format!("{row},{values}\n");
        });
        self.write(name, &text)?;
        outcome.map_err(CliError::Other)
    }

    /// Writes rows with their header to a file.
    pub(super) fn write(&self, name: &str, text: &str) -> Result<(), CliError> {
        let Some(out) = self.out else { return Ok(()) };
        let path = out.join(format!("{name}.csv"));
        fs::create_dir_all(out)
            .and_then(|()| fs::write(&path, text))
            .map_err(|error| CliError::Other(format!("{}: {error}", path.display())))
    }
}

/// Seed of the data of streams.
const SEED: u64 = 1;

/// The experiment on continuous queries, which needs the whole engine.
const SQL: &str = "sql";

/// The scale of experiments on streams.
fn scale_of(arguments: &LinkArguments) -> streams::Scale {
    let mut scale = if arguments.rows.emulated {
        streams::Scale::small()
    } else {
        streams::Scale {
            bytes: BYTES,
            ..streams::Scale::default()
        }
    };
    scale.runs = arguments.runs as usize;
    scale.bytes = arguments.bytes.unwrap_or(scale.bytes);
    scale
}

/// Runs an experiment on streams and returns its findings. Its rows are in the file `file`.
fn stream(
    device: &Device,
    name: &str,
    scale: &streams::Scale,
    files: &Files<'_>,
    file: &str,
) -> Result<Vec<String>, CliError> {
    let mut rows = Vec::new();
    let outcome = files.keep(file, streams::Row::HEADER, |out| {
        let mut done = |row: streams::Row| {
            out(row.csv());
            rows.push(row);
        };
        streams::run(device, name, scale, SEED, &mut done).map_err(|error| error.to_string())
    });
    outcome?;
    Ok(streams::findings(&rows))
}

/// Runs the experiments on streams of the arguments, except continuous queries, with their rows in one file.
/// Returns the findings.
pub(super) fn streams_of(
    arguments: &LinkArguments,
    files: &Files<'_>,
    file: &str,
) -> Result<Vec<String>, CliError> {
    let names = chosen(&arguments.experiment, &streams::EXPERIMENTS)?;
    let (device, scale) = (open_device(arguments.rows.emulated)?, scale_of(arguments));
    let ran = names
        .into_iter()
        .map(|name| stream(&device, name, &scale, files, file));
    Ok(ran.collect::<Result<Vec<_>, _>>()?.concat())
}

pub(crate) async fn flow(arguments: &LinkArguments) -> Result<(), CliError> {
    let known = [&streams::EXPERIMENTS[..], &[SQL]].concat();
    let names = chosen(&arguments.experiment, &known)?;
    let scale = scale_of(arguments);
    let files = Files::of(&arguments.rows, SEED);
    if names.iter().any(|name| *name != SQL) {
        let device = open_device(arguments.rows.emulated)?;
        for name in names.iter().filter(|name| **name != SQL) {
            for finding in stream(&device, name, &scale, &files, name)? {
                let _ = writeln!(io::stdout(), "{finding}");
            }
        }
    }
    if !names.contains(&SQL) {
        return Ok(());
    }
    let (rate, seconds) = if arguments.rows.emulated {
        (20_000, 1)
    } else {
        (10_000_000, 3)
    };
    let plan = Plan {
        rate: arguments.rate.unwrap_or(rate),
        duration: Duration::from_secs(arguments.seconds.unwrap_or(seconds)),
        runs: arguments.runs as usize,
        seed: SEED,
        emulated: arguments.rows.emulated,
    };
    let rows = interruptible(move || async move {
        let mut rows = Vec::new();
        continuous::run(&plan, &mut |row| rows.push(row))
            .await
            .map(|()| rows)
    });
    let rows = rows.await??;
    files.keep(SQL, streams::Row::HEADER, |out| {
        rows.iter().for_each(|row| out(row.csv()));
        Ok(())
    })
}

pub(crate) fn transfer(arguments: &LinkArguments) -> Result<(), CliError> {
    let names = chosen(&arguments.experiment, &ways::EXPERIMENTS)?;
    let device = open_device(arguments.rows.emulated)?;
    let mut scale = if arguments.rows.emulated {
        ways::Scale::small()
    } else {
        ways::Scale::default()
    };
    scale.runs = arguments.runs as usize;
    if let Some(bytes) = arguments.bytes {
        scale.bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    }
    let files = Files::of(&arguments.rows, ways::SEED);
    let capabilities = Capabilities::probe(&device);
    for absent in Method::ALL
        .into_iter()
        .filter_map(|method| capabilities.has(method).err())
    {
        let _ = writeln!(io::stdout(), "{absent}");
    }
    for name in names {
        let mut rows = Vec::new();
        let outcome = files.keep(name, ways::Measured::HEADER, |out| {
            let mut done = |row: ways::Measured| {
                out(row.csv());
                rows.push(row);
            };
            ways::run(&device, name, &scale, &mut done).map_err(|error| error.to_string())
        });
        for finding in ways::findings(&rows) {
            let _ = writeln!(io::stdout(), "{finding}");
        }
        outcome?;
    }
    Ok(())
}
