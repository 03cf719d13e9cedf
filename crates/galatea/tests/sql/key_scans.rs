//! The keys of small build sides that pipelines build on the device are scanned first, so that loads leave
//! out the row groups without them.

use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::column_cache::SETTLED;
use crate::compare::same;
use crate::matched_loads::{JOINS, bed, every_load_is_right, loads_one_row_group, register, years};
use crate::partial_loads::{Bed, groups, write};

/// All build sides are built on the device.
const SETTINGS: &[(&str, &str)] = &[("galatea.tuning.build_rows", "0")];

#[tokio::test]
async fn loads_leave_out_row_groups_without_keys_of_the_device() {
    let bed = bed(SETTINGS).await;
    tokio::time::sleep(SETTLED).await;
    let plan = loads_one_row_group(&bed).await;
    assert!(plan.contains("arrays by key"), "built on the device\n{plan}");
    every_load_is_right(&bed).await;
}

/// Values of parameters are constants of plans of their own, with key scans of their own.
#[tokio::test]
async fn parameters_have_other_keys() {
    let bed = bed(SETTINGS).await;
    for ctx in [&bed.pair.cpu, &bed.pair.gpu] {
        let prepare =
            "PREPARE years AS SELECT sum(m), count(*), min(n) FROM t JOIN d ON n = k WHERE year = $1";
        galatea::sql(ctx, prepare).await.expect("prepared");
    }
    tokio::time::sleep(SETTLED).await;
    for year in [3, 8, 3, 70, 0, 8] {
        let sql = format!("EXECUTE years({year})");
        let mut answers = Vec::new();
        for ctx in [&bed.pair.cpu, &bed.pair.gpu] {
            let frame = galatea::sql(ctx, &sql).await.expect("a plan");
            answers.push(frame.collect().await.expect("rows"));
        }
        same(&answers[0], &answers[1]).unwrap_or_else(|difference| panic!("{sql}\n{difference}"));
    }
}

/// `m` is in no order, so that every row group may have each of its values.
#[tokio::test]
async fn keys_without_an_order_in_the_files_are_not_scanned() {
    let bed = bed(SETTINGS).await;
    tokio::time::sleep(SETTLED).await;
    let sql = "SELECT label, sum(n), count(*) FROM t JOIN d ON m = k WHERE year = 0 GROUP BY label";
    bed.pair.check(sql, true, "first").await;
    let plan = bed.explained(sql).await;
    assert!(!plan.contains("skipped by"), "{plan}");
}

#[tokio::test]
async fn rows_without_a_match_are_kept_where_the_join_keeps_them() {
    let others = [
        "SELECT n, label FROM t JOIN d ON n = k - 7 WHERE year = 2",
        "SELECT n, y FROM t JOIN (SELECT k, max(year) AS y FROM d GROUP BY k) ON n = k WHERE y = 4",
    ];
    let statements: Vec<&str> = JOINS.into_iter().chain(others).collect();
    let mut beds = Vec::new();
    for _ in &statements {
        beds.push(bed(SETTINGS).await);
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
    let bed = bed(SETTINGS).await;
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
