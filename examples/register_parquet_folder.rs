//! Registers a folder of Parquet files as a table. Its columns are encoded when a query first reads them.
//!
//! `cargo run --release -p galatea --example register_parquet_folder -- FOLDER`

use datafusion::error::Result;
use datafusion::prelude::ParquetReadOptions;

#[tokio::main]
async fn main() -> Result<()> {
    let folder = std::env::args().nth(1).unwrap_or_else(|| "data".to_string());
    let ctx = galatea::session()
        .with_setting("galatea.memory.gpu_limit", "50%")
        .with_file_queries(true)
        .build()?;
    ctx.register_parquet("readings", &folder, ParquetReadOptions::default())
        .await?;
    ctx.sql("SELECT count(*) AS rows FROM readings")
        .await?
        .show()
        .await?;
    // A session with file queries needs no table for that.
    ctx.sql(&format!("SELECT count(*) AS rows FROM '{folder}/*.parquet'"))
        .await?
        .show()
        .await
}
