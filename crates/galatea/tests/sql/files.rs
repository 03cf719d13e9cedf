//! Queries over files, which the store encodes on first use.

use crate::compare::Pair;
use crate::data::{Shape, batch};
use datafusion::dataframe::DataFrameWriteOptions;

#[tokio::test]
async fn parquet_and_csv_files_agree() {
    let folder = tempfile::tempdir().expect("a folder");
    let pair = Pair::new(&[]);
    pair.table("t", &[batch(2500, 21, Shape::Ordinary)]);
    let parquet = folder.path().join("t.parquet");
    let csv = folder.path().join("t.csv");
    let frame = pair
        .cpu
        .sql("SELECT v, k, i32, d9, d18, f64, day, ts, flag, low, high FROM t")
        .await
        .expect("plans");
    frame
        .clone()
        .write_parquet(
            parquet.to_str().expect("a path"),
            DataFrameWriteOptions::new().with_single_file_output(true),
            None,
        )
        .await
        .expect("writes");
    pair.cpu
        .sql("SELECT v, k, i32, f64, low FROM t")
        .await
        .expect("plans")
        .write_csv(
            csv.to_str().expect("a path"),
            DataFrameWriteOptions::new().with_single_file_output(true),
            None,
        )
        .await
        .expect("writes");
    for (path, sql) in [
        (
            &parquet,
            "SELECT low, count(*), sum(d9), max(day) FROM {} WHERE i32 > 0 GROUP BY low",
        ),
        (&parquet, "SELECT sum(d18), avg(f64), min(high) FROM {}"),
        (&parquet, "SELECT v, high FROM {} WHERE high LIKE 'a%' AND flag"),
        (&csv, "SELECT low, sum(f64), count(i32) FROM {} GROUP BY low"),
    ] {
        let sql = sql.replace("{}", &format!("'{}'", path.display()));
        pair.check(&sql, true, "first run").await;
        pair.check(&sql, true, "second run").await;
    }
    // A changed file is read again.
    let frame = pair
        .cpu
        .sql("SELECT v, k, i32, d9, d18, f64, day, ts, flag, low, high FROM t WHERE v < 100")
        .await
        .expect("plans");
    std::fs::remove_file(&parquet).expect("removes");
    frame
        .write_parquet(
            parquet.to_str().expect("a path"),
            DataFrameWriteOptions::new().with_single_file_output(true),
            None,
        )
        .await
        .expect("writes");
    let sql = format!(
        "SELECT count(*), sum(v) FROM '{}' WHERE v > -100",
        parquet.display()
    );
    pair.check(&sql, true, "changed file").await;
}

#[tokio::test]
async fn create_table_as_stores_encoded_columns() {
    let pair = Pair::new(&[]);
    pair.table("t", &[batch(2500, 21, Shape::Ordinary)]);
    for ctx in [&pair.cpu, &pair.gpu] {
        ctx.sql("CREATE TABLE u AS SELECT k, low, v * 2 AS w FROM t WHERE v > 5")
            .await
            .expect("plans")
            .collect()
            .await
            .expect("runs");
    }
    pair.check("SELECT low, sum(w) FROM u GROUP BY low", true, "stored")
        .await;
    for ctx in [&pair.cpu, &pair.gpu] {
        ctx.sql("INSERT INTO u SELECT k, low, v AS w FROM t WHERE v < 50")
            .await
            .expect("plans")
            .collect()
            .await
            .expect("runs");
    }
    pair.check(
        "SELECT low, sum(w), count(*) FROM u GROUP BY low",
        true,
        "after an insert",
    )
    .await;
}
