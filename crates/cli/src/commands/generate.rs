//! `galatea generate`: the tables of a benchmark as Parquet or CSV.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use galatea_bench::BenchError;
use galatea_bench::workload::Workload;
use galatea_bench::workload::generate::{GenerateOptions, generate};
use galatea_bench::workload::manifest::Manifest;
use galatea_device::CacheFolder;
use indicatif::{HumanBytes, HumanCount};

use crate::arguments::{GenerateArguments, SessionArguments};
use crate::errors::CliError;
use crate::progress::Bars;
use crate::signals;

pub(crate) async fn run(session: &SessionArguments, arguments: &GenerateArguments) -> Result<(), CliError> {
    let workload = Workload::from(arguments.workload);
    let scale = match arguments.rows {
        Some(rows) => rows as f64 / workload.rows_at_scale_1(),
        None => arguments.scale,
    };
    let mut options = GenerateOptions::new(workload, scale, &arguments.out);
    options.tables.clone_from(&arguments.tables);
    options.parts = arguments.parts as usize;
    options.format = arguments.format.with(arguments.compression);
    options.threads = arguments.threads.unwrap_or(0);
    options.force = arguments.force;
    let start = Instant::now();
    let manifest = with_progress(options, session.quiet).await?;
    if !session.quiet {
        let tables = manifest
            .tables
            .iter()
            .filter(|(name, _)| arguments.tables.is_empty() || arguments.tables.contains(name));
        let tables: Vec<_> = tables.collect();
        let width = tables
            .iter()
            .map(|(name, _)| name.len())
            .max()
            .unwrap_or(0)
            .max(12);
        let mut text = String::new();
        for (name, files) in tables {
            let (rows, bytes) = files
                .iter()
                .fold((0, 0), |(r, b), file| (r + file.rows, b + file.bytes));
            text += &format!(
                "{name:>width$} {:>15} rows {:>12}\n",
                HumanCount(rows).to_string(),
                HumanBytes(bytes).to_string()
            );
        }
        let seconds = start.elapsed().as_secs_f64();
        let _ = writeln!(
            io::stdout(),
            "{text}{} in '{}', {seconds:.1} s",
            manifest.describe(),
            arguments.out.display()
        );
    }
    Ok(())
}

/// The directory of the cache for generated data named `name`.
pub(crate) fn data_directory(name: &str) -> Result<PathBuf, CliError> {
    let cache = CacheFolder::open(None).map_err(CliError::NoCache)?;
    Ok(cache.path().join("data").join(name))
}

/// Generates missing tables, with bars on a terminal. Ctrl-C stops it and leaves no half-written file.
pub(crate) async fn with_progress(options: GenerateOptions, quiet: bool) -> Result<Manifest, CliError> {
    let cancel = Arc::new(AtomicBool::new(false));
    let flag = cancel.clone();
    let mut work = tokio::task::spawn_blocking(move || generate(&options, &Bars::new(quiet), &flag));
    let done = tokio::select! {
        done = &mut work => done,
        () = signals::pressed() => {
            cancel.store(true, Ordering::Relaxed);
            work.await
        }
    };
    match done {
        Ok(result) => Ok(result?),
        Err(cause) if cause.is_panic() => std::panic::resume_unwind(cause.into_panic()),
        Err(_) => Err(BenchError::Cancelled.into()),
    }
}
