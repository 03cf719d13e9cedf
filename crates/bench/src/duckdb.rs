//! Runs the same queries on DuckDB, over the same files, in the same run.
//!
//! DuckDB runs in a Python process with its module `duckdb`, if it is installed (`pip install duckdb`). Users
//! run the same wheel, built by its authors. The process measures the time of execution and of fetching the
//! result.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use crate::measure::Plan;
use crate::result::{Engine, ResultRow};
use crate::{BenchError, Result};

const SCRIPT: &str = include_str!("duckdb.py");

/// A request to the Python process.
#[derive(Serialize)]
pub(crate) struct Job<'a> {
    /// Parquet files by table; a pattern for several files.
    pub(crate) tables: BTreeMap<&'a str, String>,
    /// Whether the files are first read into DuckDB's own tables.
    pub(crate) in_memory: bool,
    /// Names and SQL strings.
    pub(crate) queries: Vec<(&'a str, &'a str)>,
    /// Number of measured runs of each query.
    pub(crate) iterations: u32,
    /// Number of warm-up runs before them.
    pub(crate) warmups: u32,
}

/// The response of the Python process.
#[derive(Deserialize)]
pub(crate) struct Answer {
    version: String,
    threads: u32,
    /// All runs.
    pub(crate) runs: Vec<Run>,
}

/// A run of a query.
#[derive(Deserialize)]
pub(crate) struct Run {
    query: String,
    iteration: u32,
    /// Whether it is a warm-up run, which is not measured.
    pub(crate) warmup: bool,
    /// Seconds from the SQL string to the last row.
    pub(crate) seconds: f64,
    rows: u64,
}

/// The version of the Python module `duckdb`; `None` without Python or the module.
pub fn version() -> Option<String> {
    let output = Command::new("python3")
        .args(["-c", "import duckdb; print(duckdb.__version__)"])
        .stdin(Stdio::null())
        .output()
        .ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).trim().to_string())
}

/// Runs the plan's queries, over the files or, if `in_memory`, over tables loaded from them first.
///
/// # Errors
/// Python or a query failed; the message is Python's last line.
pub fn measure(plan: &Plan, in_memory: bool) -> Result<Vec<ResultRow>> {
    let pattern = |location: &str| {
        if location.ends_with('/') {
            format!("{location}*.parquet")
        } else {
            location.to_string()
        }
    };
    let job = Job {
        tables: plan
            .tables
            .locations
            .iter()
            .map(|(name, place)| (name.as_str(), pattern(place)))
            .collect(),
        in_memory,
        queries: plan
            .queries
            .iter()
            .map(|query| (query.name.as_str(), query.sql.as_str()))
            .collect(),
        iterations: plan.iterations.max(1),
        // Unlike ours, its plans do not depend on earlier runs.
        warmups: plan.warmups.min(1),
    };
    let answer = run(&job)?;
    Ok(answer
        .runs
        .iter()
        .map(|run| row(plan, in_memory, &answer, run))
        .collect())
}

/// Runs a job in a Python process.
///
/// # Errors
/// Those of [`measure`].
pub(crate) fn run(job: &Job<'_>) -> Result<Answer> {
    let failed = |cause: &dyn std::fmt::Display| BenchError::DuckDb(cause.to_string());
    let mut python = Command::new("python3")
        .args(["-c", SCRIPT])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|cause| failed(&cause))?;
    let job = serde_json::to_vec(job).expect("a job is plain data");
    if let Some(mut input) = python.stdin.take() {
        input.write_all(&job).map_err(|cause| failed(&cause))?;
    }
    let output = python.wait_with_output().map_err(|cause| failed(&cause))?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        return Err(failed(
            &errors.lines().last().unwrap_or("python failed without a word"),
        ));
    }
    serde_json::from_slice(&output.stdout).map_err(|cause| failed(&cause))
}

fn row(plan: &Plan, in_memory: bool, answer: &Answer, run: &Run) -> ResultRow {
    ResultRow {
        benchmark: plan.tables.workload.to_string(),
        query: run.query.clone(),
        engine: Engine::DuckDb,
        mode: if in_memory { "memory" } else { "parquet" }.to_string(),
        device: "CPU".to_string(),
        reasons: String::new(),
        iteration: run.iteration,
        warmup: run.warmup,
        scale: plan.tables.scale,
        seed: 0,
        parameters: BTreeMap::from([
            ("duckdb".to_string(), answer.version.clone()),
            ("threads".to_string(), answer.threads.to_string()),
        ]),
        rows: run.rows,
        planning_s: 0.0,
        compile_s: 0.0,
        load_s: 0.0,
        transfer_s: 0.0,
        kernel_s: 0.0,
        total_s: run.seconds,
        device_bytes: 0,
        link_bytes: 0,
        ceiling: None,
        fraction: None,
        machine: plan.machine.clone(),
    }
}
