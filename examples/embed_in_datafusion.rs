//! Converts an existing DataFusion context into a Galatea session, and runs a query in it.
//!
//! `cargo run --release -p galatea --example embed_in_datafusion`

use datafusion::error::Result;
use datafusion::prelude::SessionContext;

#[tokio::main]
async fn main() -> Result<()> {
    let ctx = SessionContext::new();
    ctx.sql(
        "CREATE TABLE sales AS SELECT value % 3 AS shop, value AS amount FROM generate_series(1, 1000000)",
    )
    .await?
    .collect()
    .await?;

    // One call. Tables, functions and settings are unchanged. Without a GPU, nothing changes.
    galatea::install(&ctx)?;

    ctx.sql("SELECT shop, sum(amount) AS total FROM sales GROUP BY shop ORDER BY shop")
        .await?
        .show()
        .await
}
