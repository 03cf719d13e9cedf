//! The keys of small build sides that pipelines build on the device are scanned first, so that loads leave
//! out the row groups without them.

use std::time::Duration;

use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::matched_loads::{register, years};
use crate::partial_loads::{Bed, groups, write};

/// All build sides are built on the device.
const SETTINGS: &[(&str, &str)] = &[("galatea.tuning.build_rows", "0")];

/// The keys of files that were changed less than two seconds ago are not scanned.
const SETTLED: Duration = Duration::from_millis(2100);

/// A bed with `t`, in ten row groups in the order of `n`, and `d`.
async fn bed() -> Bed {
    let bed = Bed::ordered(SETTINGS, 5000, 500).await;
    register(&bed, "d", &years(0)).await;
    bed
}

#[tokio::test]
async fn loads_leave_out_row_groups_without_keys_of_the_device() {
    let bed = bed().await;
    let sql = "SELECT label, sum(m), count(*) FROM t JOIN d ON n = k WHERE year = 3 GROUP BY label";
    tokio::time::sleep(SETTLED).await;
    let plan = bed.explained(sql).await;
    assert!(plan.contains("arrays by key"), "built on the device\n{plan}");
    assert!(
        plan.contains("row groups=1 of 10, 9 skipped by statistics"),
        "{plan}"
    );
    bed.pair.check(sql, true, "the same rows again").await;
    let plan = bed.explained(sql).await;
    assert!(!plan.contains("row groups=1 of 10"), "loaded again\n{plan}");
    let other = "SELECT label, sum(m), count(*) FROM t JOIN d ON n = k WHERE year IN (5, 6) GROUP BY label";
    bed.pair.check(other, true, "other rows").await;
    bed.pair.check(sql, true, "the first rows again").await;
    bed.pair
        .check("SELECT count(*), sum(n), sum(m) FROM t", true, "all rows")
        .await;
    bed.pair.check(sql, true, "from whole columns").await;
}

/// `m` is in no order, so that every row group may have each of its values.
#[tokio::test]
async fn keys_without_an_order_in_the_files_are_not_scanned() {
    let bed = bed().await;
    tokio::time::sleep(SETTLED).await;
    let sql = "SELECT label, sum(n), count(*) FROM t JOIN d ON m = k WHERE year = 0 GROUP BY label";
    bed.pair.check(sql, true, "first").await;
    let plan = bed.explained(sql).await;
    assert!(!plan.contains("skipped by"), "{plan}");
}

#[tokio::test]
async fn rows_without_a_match_are_kept_where_the_join_keeps_them() {
    let statements = [
        "SELECT n, label FROM t LEFT JOIN d ON n = k AND year = 3",
        "SELECT n, label FROM t FULL JOIN (SELECT * FROM d WHERE year = 3) ON n = k",
        "SELECT n FROM t WHERE n NOT IN (SELECT k FROM d WHERE year = 3 AND k IS NOT NULL)",
        "SELECT n FROM t WHERE NOT EXISTS (SELECT 1 FROM d WHERE k = n AND year = 3)",
        "SELECT n FROM t WHERE n > 4800 OR n IN (SELECT k FROM d WHERE year = 3)",
        "SELECT n, n IN (SELECT k FROM d WHERE year = 3) FROM t",
        "SELECT n, label FROM t JOIN d ON n + 2500 = k WHERE year = 7",
        "SELECT n, label FROM t JOIN d ON CAST(n AS INT) = k AND year = 7",
        "SELECT n, label FROM t JOIN d ON n = k WHERE year = 70",
        "SELECT n, label FROM t JOIN d ON n = k - 7 WHERE year = 2",
        "SELECT n, a.label FROM t JOIN d a ON n = a.k JOIN d b ON m = b.k WHERE a.year = 2 AND b.k < 25",
        "SELECT n, label FROM t JOIN d ON n = k AND m < year WHERE year = 9",
        "SELECT n, y FROM t JOIN (SELECT k, max(year) AS y FROM d GROUP BY k) ON n = k WHERE y = 4",
        "SELECT s, label FROM t JOIN d ON n = k WHERE year = 4 ORDER BY s, label LIMIT 7",
    ];
    let mut beds = Vec::new();
    for _ in statements {
        beds.push(bed().await);
    }
    tokio::time::sleep(SETTLED).await;
    for (sql, bed) in statements.into_iter().zip(beds) {
        for run in ["first", "second", "third"] {
            bed.pair.check(sql, false, run).await;
        }
    }
}

/// The file of a build side changes while its plan is kept, and is read before and after its times prove that
/// it is unchanged.
#[tokio::test]
async fn changed_build_sides_have_other_keys() {
    let bed = bed().await;
    let sql = "SELECT label, sum(m), count(*), min(n) FROM t JOIN d ON n = k WHERE year = 3 GROUP BY label";
    tokio::time::sleep(SETTLED).await;
    bed.pair.check(sql, true, "before").await;
    let path = bed.others.path().join("d.parquet");
    for first in [2000, -1250, 50000, 0] {
        write(&path, &years(first), groups(5000));
        let what = format!("keys from {first}");
        bed.pair.check(sql, false, &what).await;
        tokio::time::sleep(SETTLED).await;
        bed.pair.check(sql, false, &format!("{what}, settled")).await;
        bed.pair.check(sql, false, &format!("{what}, again")).await;
    }
}

/// Random filters of the build side and of the table, in random order, with 1, 2 and 16 partitions.
#[tokio::test]
async fn random_filters_of_build_sides() {
    let seed: u64 = rand::rng().random();
    println!("seed {seed}");
    let mut random = SmallRng::seed_from_u64(seed);
    for partitions in ["1", "2", "16"] {
        let settings = [
            SETTINGS[0],
            ("datafusion.execution.target_partitions", partitions),
        ];
        let bed = Bed::ordered(&settings, 5000, 500).await;
        register(&bed, "d", &years(random.random_range(-3000..3000))).await;
        tokio::time::sleep(SETTLED).await;
        for _ in 0..12 {
            let year = random.random_range(0..10);
            let of_side = [
                format!("year = {year}"),
                format!("year BETWEEN {year} AND {}", year + 1),
                format!("year < {year} AND label <> 'l1'"),
                format!("k % 700 = {year}"),
                "k IS NULL".to_owned(),
                "true".to_owned(),
            ];
            let of_table = ["true", "m < 11", "n > 1700", "s <> 's077'"];
            let join = ["JOIN", "LEFT JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"];
            let sql = format!(
                "SELECT count(*), sum(n), max(s) FROM t {} (SELECT * FROM d WHERE {}) ON n = k WHERE {}",
                join.choose(&mut random).expect("joins"),
                of_side.choose(&mut random).expect("filters"),
                of_table.choose(&mut random).expect("filters"),
            );
            for run in ["first", "second"] {
                let what = format!("seed {seed}, {partitions} partitions, {run}: {sql}");
                bed.pair.check(&sql, true, &what).await;
            }
        }
    }
}
