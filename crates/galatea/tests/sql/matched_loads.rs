//! If a join drops rows without a match, a query loads and scans only rows with keys between the least and
//! the greatest key of the build side.

use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::array::{
    ArrayRef, Date32Array, Int64Array, RecordBatch, StringArray, UInt8Array, UInt32Array,
};
use datafusion::arrow::compute::take_record_batch;

use crate::column_cache::SETTLED;
use crate::compare::{answer, same};
use crate::partial_loads::{Bed, groups, ordered, write};

const SETTINGS: &[(&str, &str)] = &[("galatea.tuning.build_rows", "1000000")];

/// Every tenth key from `first` on, fifty for each of ten years.
pub(crate) fn years(first: i64) -> RecordBatch {
    let k: ArrayRef = Arc::new(Int64Array::from_iter(
        (0..500).map(|row| (row % 97 != 0).then_some(first + 10 * row)),
    ));
    let year: ArrayRef = Arc::new(Int64Array::from_iter_values((0..500).map(|row| row / 50)));
    let label: ArrayRef = Arc::new(StringArray::from_iter_values(
        (0..500).map(|row| format!("l{}", row % 3)),
    ));
    RecordBatch::try_from_iter([("k", k), ("year", year), ("label", label)]).expect("columns of one length")
}

/// A bed with `t`, in ten row groups in the order of `n`, and `d`.
pub(crate) async fn bed(settings: &[(&str, &str)]) -> Bed {
    let bed = Bed::ordered(settings, 5000, 500).await;
    register(&bed, "d", &years(0)).await;
    bed
}

/// Joins of `t` with `d` that drop rows without a match, or keep them, or that have no bounds.
pub(crate) const JOINS: [&str; 12] = [
    "SELECT n, label FROM t LEFT JOIN d ON n = k AND year = 3",
    "SELECT n, label FROM t FULL JOIN (SELECT * FROM d WHERE year = 3) ON n = k",
    "SELECT n FROM t WHERE n NOT IN (SELECT k FROM d WHERE year = 3 AND k IS NOT NULL)",
    "SELECT n FROM t WHERE NOT EXISTS (SELECT 1 FROM d WHERE k = n AND year = 3)",
    "SELECT n FROM t WHERE n > 4800 OR n IN (SELECT k FROM d WHERE year = 3)",
    "SELECT n, n IN (SELECT k FROM d WHERE year = 3) FROM t",
    "SELECT n, label FROM t JOIN d ON n + 2500 = k WHERE year = 7",
    "SELECT n, label FROM t JOIN d ON CAST(n AS INT) = k AND year = 7",
    "SELECT n, label FROM t JOIN d ON n = k WHERE year = 70",
    "SELECT n, a.label FROM t JOIN d a ON n = a.k JOIN d b ON m = b.k WHERE a.year = 2 AND b.k < 25",
    "SELECT n, label FROM t JOIN d ON n = k AND m < year WHERE year = 9",
    "SELECT s, label FROM t JOIN d ON n = k WHERE year = 4 ORDER BY s, label LIMIT 7",
];

/// Registers a file with these rows in both sessions.
pub(crate) async fn register(bed: &Bed, name: &str, rows: &RecordBatch) {
    let path = bed.others.path().join(format!("{name}.parquet"));
    write(&path, rows, groups(5000));
    let path = path.display().to_string();
    for session in [&bed.pair.cpu, &bed.pair.gpu] {
        session.deregister_table(name).expect("no error");
        let create = format!("CREATE EXTERNAL TABLE {name} STORED AS PARQUET LOCATION '{path}'");
        answer(session, &create).await;
    }
}

const ONE_YEAR: &str = "SELECT label, sum(m), count(*) FROM t JOIN d ON n = k WHERE year = 3 GROUP BY label";

/// A join loads the row group with matches, and nothing when it runs again. Returns EXPLAIN ANALYZE of its
/// first run.
pub(crate) async fn loads_one_row_group(bed: &Bed) -> String {
    let first = bed.explained(ONE_YEAR).await;
    assert!(
        first.contains("row groups=1 of 10, 9 skipped by statistics"),
        "{first}"
    );
    bed.pair.check(ONE_YEAR, true, "the same rows again").await;
    let plan = bed.explained(ONE_YEAR).await;
    assert!(!plan.contains("row groups"), "nothing is loaded\n{plan}");
    first
}

/// Answers of joins that load other rows, and whole columns.
pub(crate) async fn every_load_is_right(bed: &Bed) {
    let other = "SELECT label, sum(m), count(*) FROM t JOIN d ON n = k WHERE year IN (5, 6) GROUP BY label";
    bed.pair.check(other, true, "other rows").await;
    bed.pair.check(ONE_YEAR, true, "the first rows again").await;
    bed.pair
        .check("SELECT count(*), sum(n), sum(m) FROM t", true, "all rows")
        .await;
    bed.pair.check(ONE_YEAR, true, "from whole columns").await;
}

#[tokio::test]
async fn joins_load_the_row_groups_with_matches() {
    let bed = bed(SETTINGS).await;
    loads_one_row_group(&bed).await;
    let plan = bed
        .explained("SELECT count(*) FROM t WHERE n IN (SELECT k FROM d WHERE year = 8)")
        .await;
    assert!(plan.contains("row groups=1 of 10"), "a semi join\n{plan}");
    every_load_is_right(&bed).await;
}

/// Zone maps of a table in memory skip the chunks without keys of the build side.
#[tokio::test]
async fn joins_scan_the_chunks_with_matches() {
    let bed = bed(SETTINGS).await;
    bed.pair.table("m", &[ordered(5000)]);
    for (sql, skipped) in [
        (
            "SELECT count(*), sum(m.m) FROM m JOIN d ON m.n = k WHERE year = 3",
            "chunks=2, chunks_skipped=18",
        ),
        (
            "SELECT count(*), sum(m.m) FROM m JOIN d ON m.n = k",
            "chunks=20, chunks_skipped=0",
        ),
        (
            "SELECT count(k), sum(m.m) FROM m LEFT JOIN d ON m.n = k AND year = 3",
            "chunks=20, chunks_skipped=0",
        ),
    ] {
        for _ in 0..2 {
            let plan = bed.explained(sql).await;
            assert!(plan.contains(skipped), "{sql}\n{plan}");
        }
        bed.pair.check(sql, true, "in memory").await;
    }
}

#[tokio::test]
async fn rows_without_a_match_are_kept_where_the_join_keeps_them() {
    for sql in JOINS {
        let bed = bed(SETTINGS).await;
        bed.pair.check(sql, false, "first").await;
        bed.pair.check(sql, false, "again").await;
    }
}

/// The file of a build side changes while its plan is kept. The next run finds the new rows.
#[tokio::test]
async fn changed_build_sides_have_other_keys() {
    let bed = bed(SETTINGS).await;
    let sql = "SELECT label, sum(m), count(*), min(n) FROM t JOIN d ON n = k WHERE year = 3 GROUP BY label";
    bed.pair.check(sql, true, "before").await;
    let path = bed.others.path().join("d.parquet");
    for first in [2000, -1250, 50000, 0] {
        write(&path, &years(first), groups(5000));
        bed.pair.check(sql, false, &format!("keys from {first}")).await;
        bed.pair
            .check(sql, false, &format!("keys from {first}, again"))
            .await;
    }
}

/// Integers, unsigned integers and dates have bounds, up to the ends of their types.
#[tokio::test]
async fn key_types_have_bounds() {
    let bed = Bed::new(SETTINGS);
    let (days, bytes) = (
        Date32Array::from_iter_values((0..200).map(|row| row * 3 - 50)),
        UInt8Array::from_iter_values((0..200u8).map(|row| row + 56)),
    );
    let wide = Int64Array::from_iter_values((0..200).map(|row| match row {
        0 => i64::MIN,
        199 => i64::MAX,
        row => row - 100,
    }));
    let columns: [(&str, ArrayRef); 3] = [
        ("day", Arc::new(days)),
        ("byte", Arc::new(bytes)),
        ("wide", Arc::new(wide)),
    ];
    let rows = RecordBatch::try_from_iter(columns).expect("columns of one length");
    write(&bed.folder.path().join("a.parquet"), &rows, groups(20));
    bed.register(std::slice::from_ref(&rows)).await;
    let some = UInt32Array::from_iter_values((0..29).map(|row| row * 7).chain([199]));
    register(&bed, "d", &take_record_batch(&rows, &some).expect("rows")).await;
    // The host arranges no keys that are as far apart as those of `wide`. The keys on the device are scanned
    // only in files that were not changed a moment ago.
    tokio::time::sleep(SETTLED).await;
    for (sql, is_loaded) in [
        (
            "SELECT count(*), max(t.byte) FROM t JOIN d ON t.day = d.day WHERE d.byte < 70",
            true,
        ),
        (
            "SELECT count(*), max(t.day) FROM t JOIN d ON t.byte = d.byte WHERE d.byte > 250",
            true,
        ),
        (
            "SELECT count(*), max(t.day) FROM t JOIN d ON t.wide = d.wide WHERE d.day BETWEEN 100 AND 130",
            true,
        ),
        // The query before has loaded the column.
        (
            "SELECT count(*), min(t.wide) FROM t JOIN d ON t.wide = d.wide WHERE d.byte = 255",
            false,
        ),
    ] {
        let plan = bed.explained(sql).await;
        assert_eq!(plan.contains("row groups=1 of 10"), is_loaded, "{sql}\n{plan}");
        bed.pair.check(sql, true, "again").await;
    }
}

/// Rows of a file that are joined in slices have the same numbers in each of them, although another query
/// loads the whole columns in the meantime.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_of_slices_keep_their_numbers() {
    for (delay, matched) in [
        (200, "JOIN d ON t.n = d.k WHERE d.year IN (2, 3, 4)"),
        (100, "WHERE t.n BETWEEN 1000 AND 2500"),
        (200, "WHERE t.n BETWEEN 1000 AND 2500"),
        (300, "WHERE t.n BETWEEN 1000 AND 2500"),
        (400, "WHERE t.n BETWEEN 1000 AND 2500"),
    ] {
        let bed = Bed::new(&[
            ("galatea.tuning.build_rows", "1000"),
            ("galatea.memory.gpu_limit", "160 KiB"),
            ("galatea.cache.device", "false"),
            ("galatea.join.algorithm", "multipass"),
            ("galatea.join.order", "written"),
        ]);
        let n: ArrayRef = Arc::new(Int64Array::from_iter_values(0..5000));
        let key: ArrayRef = Arc::new(Int64Array::from_iter_values(
            (0..5000).map(|row| if row % 150 == 0 { 7 } else { 10_000 + row }),
        ));
        let rows = RecordBatch::try_from_iter([("n", n), ("key", key)]).expect("columns of one length");
        write(&bed.folder.path().join("a.parquet"), &rows, groups(250));
        bed.register(&[rows]).await;
        register(&bed, "d", &years(0)).await;
        let key: ArrayRef = Arc::new(Int64Array::from_iter_values(
            (0..9000).map(|row| if row < 8000 { 7 } else { row }),
        ));
        let v: ArrayRef = Arc::new(Int64Array::from_iter_values((0..9000).map(|row| row * 3)));
        let rows = RecordBatch::try_from_iter([("key", key), ("v", v)]).expect("columns of one length");
        bed.pair.table("r", &[rows]);
        let sql = format!(
            "SELECT count(*), count(r.v), sum(a.n), sum(r.v) FROM (SELECT t.* FROM t {matched}) a \
             LEFT JOIN r ON a.key = r.key AND r.v - 12 * a.n = 0"
        );
        let whole = async {
            tokio::time::sleep(Duration::from_millis(delay)).await;
            answer(&bed.pair.gpu, "SELECT sum(n), sum(key) FROM t").await
        };
        let (found, _) = futures::join!(answer(&bed.pair.gpu, &sql), whole);
        let expected = answer(&bed.pair.cpu, &sql).await;
        same(&expected, &found).unwrap_or_else(|difference| panic!("after {delay} ms\n{sql}\n{difference}"));
        let plan = bed.explained(&sql).await;
        assert!(plan.contains("slices of rows with equal keys"), "{sql}\n{plan}");
    }
}
