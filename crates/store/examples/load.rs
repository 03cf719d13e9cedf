//! Measures how fast the columns of a Parquet file are loaded: for each column, the least time of several
//! loads on the host, in nanoseconds per row, by step.
//!
//! `cargo run --release -p galatea-store --example load -- FILE [repetitions, default 5]`

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::{ParquetReadOptions, SessionContext};
use galatea_store::{ColumnSource, FileTable, LoadHints, LoadStep, Store, StoreOptions};

/// Steps that take time for every row.
const STEPS: [LoadStep; 4] = [
    LoadStep::Read,
    LoadStep::Decode,
    LoadStep::Encode,
    LoadStep::Write,
];

fn scan_of(plan: &Arc<dyn ExecutionPlan>) -> Option<&FileScanConfig> {
    match plan.downcast_ref::<DataSourceExec>() {
        Some(source) => source.data_source().downcast_ref(),
        None => plan.children().first().and_then(|child| scan_of(child)),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("a Parquet file is needed")?;
    let repetitions = arguments.next().map_or(Ok(5), |number| number.parse())?;
    let context = SessionContext::new();
    context
        .register_parquet("t", &path, ParquetReadOptions::default())
        .await?;
    let plan = context
        .sql("select * from t")
        .await?
        .create_physical_plan()
        .await?;
    let store = Store::new(StoreOptions::default());
    let scan = scan_of(&plan).ok_or("no file scan in the plan")?;
    let table: Arc<FileTable> = store.file_table(scan, &context.runtime_env())?;
    print!("{:26} {:>9}", "ns per row", "NULL");
    STEPS.iter().for_each(|step| print!(" {:>8}", step.to_string()));
    println!(" {:>8}", "all");
    let mut sums = [0.0; STEPS.len()];
    let schema = ColumnSource::schema(&*table);
    for (column, field) in schema.fields().iter().enumerate() {
        let mut least = [Duration::MAX; STEPS.len()];
        let (mut rows, mut nulls) = (0, 0);
        for _ in 0..repetitions {
            store.clear_cache();
            let view = table.load(&[column], &LoadHints::default(), None).await?;
            rows = view.rows;
            nulls = view.columns[0]
                .chunks
                .iter()
                .map(|chunk| u64::from(chunk.zone.null_count))
                .sum();
            let report = view.loaded.as_deref().ok_or("the column was not loaded")?;
            for (least, step) in least.iter_mut().zip(STEPS) {
                *least = report.steps.time(step).min(*least);
            }
        }
        let per_row = least.map(|time| time.as_secs_f64() * 1e9 / rows as f64);
        print!("{:26} {:>8.1}%", field.name(), 100.0 * nulls as f64 / rows as f64);
        per_row.iter().for_each(|time| print!(" {time:8.2}"));
        println!(" {:8.2}", per_row.iter().sum::<f64>());
        sums.iter_mut().zip(per_row).for_each(|(sum, time)| *sum += time);
    }
    print!("{:26} {:>9}", "all columns", "");
    sums.iter().for_each(|sum| print!(" {sum:8.2}"));
    println!(" {:8.2}", sums.iter().sum::<f64>());
    Ok(())
}
