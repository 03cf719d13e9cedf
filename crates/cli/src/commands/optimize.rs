//! `galatea optimize`: Parquet files rewritten for fast loads.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use galatea::{OptimizeOptions, Optimized, optimize};
use galatea_bench::workload::generate::Compression;
use indicatif::{HumanBytes, HumanCount};

use crate::arguments::{OptimizeArguments, SessionArguments};
use crate::errors::CliError;
use crate::session;
use crate::signals;

pub(crate) async fn run(session: &SessionArguments, arguments: &OptimizeArguments) -> Result<(), CliError> {
    let runtime = session::build(session, None, None).await?.ctx.runtime_env();
    let options = OptimizeOptions {
        sort_by: arguments.sort_by.clone(),
        compression: Compression::from(arguments.compression).codec(),
        replace: arguments.force || arguments.in_place,
    };
    for source in &arguments.files {
        let target = target(source, arguments)?;
        let work = optimize(source, &target, &options, &runtime);
        let done = tokio::select! {
            done = work => done?,
            // The work ends with its future, and removes what it has written.
            () = signals::pressed() => return Err(CliError::Cancelled),
        };
        if !session.quiet {
            let _ = io::stdout().write_all(report(source, &target, &done).as_bytes());
        }
    }
    Ok(())
}

/// The path of a file's target: a file of the same name if `--out` is a folder.
fn target(source: &Path, arguments: &OptimizeArguments) -> Result<PathBuf, CliError> {
    let Some(out) = &arguments.out else {
        return Ok(source.to_owned());
    };
    if !out.is_dir() {
        return match arguments.files.len() {
            1 => Ok(out.clone()),
            files => Err(CliError::Other(format!(
                "--out '{}' is no folder, and {files} files are given",
                out.display()
            ))),
        };
    }
    let name = source
        .file_name()
        .ok_or_else(|| CliError::Other(format!("'{}' is no file", source.display())))?;
    Ok(out.join(name))
}

/// A line for each column, and one for the file.
fn report(source: &Path, target: &Path, done: &Optimized) -> String {
    let names = done.columns.iter().map(|column| column.name.chars().count());
    let width = names.max().unwrap_or(0);
    let (mut before, mut after) = (0, 0);
    let mut text = String::new();
    for column in &done.columns {
        before += column.bytes_before;
        after += column.bytes_after;
        let encoding = column.encoding.map(|encoding| encoding.to_string());
        text += &format!(
            "{:width$}  {:13}  {:>10} -> {:>10}\n",
            column.name,
            encoding.as_deref().unwrap_or("default"),
            HumanBytes(column.bytes_before).to_string(),
            HumanBytes(column.bytes_after).to_string(),
        );
    }
    text + &format!(
        "'{}' -> '{}': {} rows, {} -> {}\n",
        source.display(),
        target.display(),
        HumanCount(done.rows),
        HumanBytes(before),
        HumanBytes(after)
    )
}
