//! The same join on DataFusion's CPU operators over tables in memory, and on DuckDB over its own tables.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::datasource::MemTable;
use rayon::prelude::*;

use super::measure::{Case, timed};
use super::report::{Row, Times};
use super::{Experiment, Plan};
use crate::duckdb::{self, Job};
use crate::harness::WARMUPS;
use crate::result::Summary;
use crate::workload::generate::{Compression, Format, TableGenerator};
use crate::workload::write;
use crate::{BenchError, Result};

/// A row of DataFusion, and one of DuckDB if it is installed.
pub(super) async fn measure(experiment: Experiment, case: &Case, plan: &Plan) -> Result<Vec<Row>> {
    let mut rows = vec![datafusion(experiment, case, plan).await?];
    if duckdb::version().is_some() {
        rows.push(duckdb_row(experiment, case, plan)?);
    }
    Ok(rows)
}

async fn datafusion(experiment: Experiment, case: &Case, plan: &Plan) -> Result<Row> {
    let ctx = galatea::session().with_setting("galatea.device", "cpu").build()?;
    for table in case.tables() {
        ctx.register_table(table.name(), Arc::new(in_memory(&*table)?))?;
    }
    let mut row = case.row(experiment, plan);
    row.engine = "datafusion".to_string();
    let times = timed(&ctx, case.sql(), &case.expected(), plan.runs, &mut row).await?;
    row.set(&times, None);
    Ok(row)
}

/// The table in one partition per core.
fn in_memory(table: &dyn TableGenerator) -> Result<MemTable> {
    let parts = rayon::current_num_threads();
    let part = |number: usize| table.chunk(number, parts).collect::<Vec<RecordBatch>>();
    let parts = (0..parts).into_par_iter().map(part).collect();
    Ok(MemTable::try_new(table.schema(), parts)?)
}

fn duckdb_row(experiment: Experiment, case: &Case, plan: &Plan) -> Result<Row> {
    let folder = std::env::temp_dir().join(format!("galatea-joins-{}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(BenchError::io("create", &folder))?;
    let timed = duckdb_times(case, plan, &folder);
    // Best effort: files that remain after a failure are temporary.
    let _ = std::fs::remove_dir_all(&folder);
    let mut row = case.row(experiment, plan);
    row.engine = "duckdb".to_string();
    row.device = "CPU".to_string();
    row.set(&timed?, None);
    Ok(row)
}

fn duckdb_times(case: &Case, plan: &Plan, folder: &std::path::Path) -> Result<Times> {
    let mut files = BTreeMap::new();
    for table in case.tables() {
        let path = folder.join(format!("{}.parquet", table.name()));
        let groups = table.natural_chunks();
        let job = write::Job {
            path: path.clone(),
            schema: table.schema(),
            format: Format::Parquet(Compression::None),
            groups,
            threads: rayon::current_num_threads(),
        };
        job.write(|group| table.chunk(group, groups).map(Ok))?;
        files.insert(table.name(), path.to_string_lossy().into_owned());
    }
    let answer = duckdb::run(&Job {
        tables: files,
        in_memory: true,
        queries: vec![("join", case.sql())],
        iterations: plan.runs as u32,
        warmups: WARMUPS as u32,
    })?;
    let seconds = answer
        .runs
        .iter()
        .filter(|run| !run.warmup)
        .map(|run| run.seconds);
    Ok(Times {
        total: Summary::of(seconds),
        kernel: None,
    })
}
