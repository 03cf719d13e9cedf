//! Each method by which chunks cross the link.

use crate::compare::{Pair, answer};
use crate::data::{Shape, batch};
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::prelude::ParquetReadOptions;

/// The setting, and the method that EXPLAIN ANALYZE shows without and with packed codes.
const METHODS: [(&str, &str, &str); 6] = [
    ("pinned", "pinned copy", "pinned copy"),
    ("pieces", "pinned copy in pieces", "pinned copy in pieces"),
    ("staged", "staged copy", "staged copy"),
    ("pageable", "pageable copy", "pageable copy"),
    ("dynamic-pinning", "dynamic pinning", "dynamic pinning"),
    ("zero-copy", "zero-copy", "pinned copy"),
];

const QUERIES: [&str; 5] = [
    "SELECT k, count(*), sum(v), min(low), max(high) FROM t GROUP BY k",
    "SELECT i32, low, high, v FROM t WHERE v > 5 AND flag",
    "SELECT v, low FROM t ORDER BY v DESC, low, i64 LIMIT 20",
    "SELECT count(*), sum(a.v) FROM t a JOIN t b ON a.i32 = b.i32 WHERE b.k = 3",
    "SELECT count(*) FROM t WHERE high LIKE '%ab%' OR day IS NULL",
];

fn settings<'s>(method: &'s str, compression: &'s str) -> [(&'s str, &'s str); 5] {
    [
        ("galatea.tuning.transfer", method),
        ("galatea.tuning.transfer_compression", compression),
        ("galatea.cache.device", "false"),
        ("galatea.tuning.chunk_rows", "700"),
        ("galatea.fallback", "error"),
    ]
}

async fn method_shown(pair: &Pair, sql: &str) -> String {
    let plan = answer(&pair.gpu, &format!("EXPLAIN ANALYZE {sql}")).await;
    let plan = pretty_format_batches(&plan).expect("a table").to_string();
    let name = "transfer method=";
    let start = plan.find(name).unwrap_or_else(|| panic!("no method in {plan}"));
    let method = plan[start + name.len()..].split(", ").next();
    method.expect("a name").to_owned()
}

#[tokio::test]
async fn each_method_returns_the_rows_of_the_cpu() {
    for (method, plain, packed) in METHODS {
        for (compression, shown) in [("off", plain), ("on", packed)] {
            let pair = Pair::new(&settings(method, compression));
            for (name, rows, shape) in [
                ("one", 1, Shape::Ordinary),
                ("few", 33, Shape::AllNull),
                ("many", 3000, Shape::Ordinary),
            ] {
                pair.table(name, &[batch(rows, 5, shape)]);
                for sql in QUERIES {
                    let sql = sql.replace("FROM t ", &format!("FROM {name} "));
                    let sql = sql.replace("JOIN t ", &format!("JOIN {name} "));
                    pair.check(
                        &sql,
                        false,
                        &format!("{method}, compression {compression}, {rows} rows"),
                    )
                    .await;
                }
            }
            let sql = "SELECT sum(v), count(*) FROM many WHERE i32 > 0";
            assert_eq!(method_shown(&pair, sql).await, shown, "{method}, {compression}");
        }
    }
}

/// Columns of files are in host memory of their own.
#[tokio::test]
async fn each_method_reads_columns_of_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let rows = batch(3000, 5, Shape::Ordinary);
    let path = folder.path().join("t.parquet");
    let file = std::fs::File::create(&path).expect("a file");
    let mut writer = ArrowWriter::try_new(file, rows.schema(), None).expect("a writer");
    writer.write(&rows).expect("written");
    writer.close().expect("a footer");
    let path = path.display().to_string();
    for (method, ..) in METHODS {
        let pair = Pair::new(&settings(method, "off"));
        for ctx in [&pair.cpu, &pair.gpu] {
            let options = ParquetReadOptions::default();
            ctx.register_parquet("t", &path, options).await.expect("a table");
        }
        for sql in QUERIES {
            pair.check(sql, false, method).await;
            pair.check(sql, false, method).await;
        }
    }
}

/// Some chunks are in device memory, and the others are read in place.
#[tokio::test]
async fn kept_chunks_and_mapped_chunks_make_one_table() {
    let pair = Pair::new(&[
        ("galatea.tuning.transfer_compression", "off"),
        ("galatea.tuning.chunk_rows", "700"),
        ("galatea.fallback", "error"),
    ]);
    pair.table("t", &[batch(3000, 5, Shape::Ordinary)]);
    // Loads v.
    pair.check("SELECT sum(v) FROM t", true, "pinned").await;
    let set = "SET galatea.tuning.transfer = 'zero-copy'";
    galatea::sql(&pair.gpu, set).await.expect("a setting");
    for sql in QUERIES {
        pair.check(sql, false, "zero-copy beside resident columns").await;
    }
    assert_eq!(
        method_shown(&pair, "SELECT sum(v), max(u64) FROM t").await,
        "zero-copy"
    );
    galatea::sql(&pair.gpu, "RESET galatea.tuning.transfer")
        .await
        .expect("a setting");
    for sql in QUERIES {
        pair.check(sql, false, "pinned again").await;
    }
}
