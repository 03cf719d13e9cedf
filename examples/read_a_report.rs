//! Prints the device of a query, the reasons if it is not the GPU, and the times of its phases.
//!
//! `cargo run --release -p galatea --example read_a_report`

use datafusion::arrow::array::RecordBatch;
use datafusion::error::Result;
use datafusion::physical_plan::collect;

#[tokio::main]
async fn main() -> Result<()> {
    let ctx = galatea::session().build()?;
    let sql = "SELECT value % 10 AS k, count(*) FROM generate_series(1, 1000000) GROUP BY k ORDER BY k";
    let plan = ctx.sql(sql).await?.create_physical_plan().await?;
    println!("{}\n", galatea::outline(&plan, false));

    let rows: usize = collect(plan.clone(), ctx.task_ctx())
        .await?
        .iter()
        .map(RecordBatch::num_rows)
        .sum();
    println!("{}\n\n{rows} rows", galatea::outline(&plan, true));

    // Every plan has its own report, so concurrent queries do not mix.
    if let Some(report) = galatea::query_report(&plan) {
        println!("ran on the {}", report.device);
        report
            .reasons
            .iter()
            .for_each(|reason| println!("on the CPU: {reason}"));
        println!(
            "kernels {:?}, transfer {:?}",
            report.phases.kernel, report.phases.transfer
        );
    }
    Ok(())
}
