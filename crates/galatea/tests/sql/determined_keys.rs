//! Group keys that other keys determine: the groups look them up, and queries return the CPU's answers.

use crate::builds::BUILT;
use crate::compare::Pair;
use crate::joins::{STRICT, text};
use arrow::array::{
    ArrayRef, Decimal128Array, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray,
};
use std::sync::Arc;

const CUSTOMERS: i64 = 300;

/// Sales of customers. Some have no customer, and some a customer that does not exist.
fn sales(rows: i64) -> RecordBatch {
    let customer = |row: i64| (row % 11 != 0).then_some(row * 7919 % (CUSTOMERS + 20));
    let columns: [(&str, ArrayRef); 4] = [
        (
            "s_customer",
            Arc::new((0..rows).map(customer).collect::<Int64Array>()),
        ),
        (
            "s_far",
            Arc::new((0..rows).map(|row| row % 50 * (1 << 57)).collect::<Int64Array>()),
        ),
        (
            "s_count",
            Arc::new((0..rows).map(|row| (row % 13) as i32).collect::<Int32Array>()),
        ),
        (
            "s_weight",
            Arc::new(
                (0..rows)
                    .map(|row| [0.0, -0.0, 1.5][row as usize % 3])
                    .collect::<Float64Array>(),
            ),
        ),
    ];
    RecordBatch::try_from_iter(columns).expect("columns of one length")
}

/// Customers, each `times` times. Names have no dictionary, and two customers have the same name.
fn customers(times: i64) -> RecordBatch {
    let rows = || (0..CUSTOMERS * times).map(|row| row % CUSTOMERS);
    let name = |row: i64| (row % 17 != 0).then(|| format!("customer {:>20} of {}", row / 2 * 7919, row / 2));
    let paid = rows()
        .map(|row| i128::from(row) * (1 << 50))
        .collect::<Decimal128Array>();
    let columns: [(&str, ArrayRef); 4] = [
        ("c_id", Arc::new(rows().collect::<Int64Array>())),
        ("c_name", Arc::new(rows().map(name).collect::<StringArray>())),
        (
            "c_paid",
            Arc::new(paid.with_precision_and_scale(20, 2).expect("20 digits suffice")),
        ),
        (
            "c_nation",
            Arc::new(rows().map(|row| row as i32 % 25).collect::<Int32Array>()),
        ),
    ];
    RecordBatch::try_from_iter(columns).expect("columns of one length")
}

fn nations() -> RecordBatch {
    let columns: [(&str, ArrayRef); 2] = [
        ("n_id", Arc::new((0..25).collect::<Int32Array>())),
        (
            "n_name",
            Arc::new(
                (0..25)
                    .map(|row| Some(format!("nation {row}")))
                    .collect::<StringArray>(),
            ),
        ),
    ];
    RecordBatch::try_from_iter(columns).expect("columns of one length")
}

fn register(pair: &Pair, rows: i64, times: i64) {
    pair.table("sales", &[sales(rows)]);
    pair.table("customers", &[customers(times)]);
    pair.table("nations", &[nations()]);
}

/// Queries, and the group keys that remain.
const REDUCED: &[(&str, &str)] = &[
    (
        "SELECT s_customer, c_name, c_paid, sum(s_count), count(*) FROM sales JOIN customers ON s_customer = c_id GROUP BY s_customer, c_name, c_paid",
        "s_customer",
    ),
    // The key of the build side equals the key of the rows; build sides look up others.
    (
        "SELECT c_id, c_name, c_paid, n_name, sum(s_count) AS n FROM sales, customers, nations WHERE s_customer = c_id AND c_nation = n_id
         GROUP BY c_id, c_name, c_paid, n_name ORDER BY n DESC, c_id LIMIT 20",
        "s_customer",
    ),
    // Rows without a match, and a NULL key.
    (
        "SELECT s_customer, c_name, c_paid, count(*) FROM sales LEFT JOIN customers ON s_customer = c_id GROUP BY s_customer, c_name, c_paid",
        "s_customer",
    ),
    // Other keys remain; groups are filtered, joined and grouped again.
    (
        "SELECT s_customer, s_count, c_name, c_paid, sum(s_count) FROM sales JOIN customers ON s_customer = c_id
         GROUP BY c_name, s_count, s_customer, c_paid HAVING sum(s_count) > 5 AND c_name LIKE '%1%'",
        "s_count, s_customer",
    ),
    (
        "SELECT c_name, count(*), sum(n) FROM (SELECT s_customer, c_name, c_paid, count(*) AS n FROM sales JOIN customers ON s_customer = c_id
         GROUP BY s_customer, c_name, c_paid) GROUP BY c_name",
        "s_customer",
    ),
    (
        "SELECT n_name, sum(n) FROM (SELECT s_customer, c_name, c_paid, c_nation, count(*) AS n FROM sales JOIN customers ON s_customer = c_id
         GROUP BY s_customer, c_name, c_paid, c_nation) JOIN nations ON c_nation = n_id GROUP BY n_name",
        "s_customer",
    ),
    // Keys that are computed from other keys.
    (
        "SELECT s_customer, c_paid * 2 AS twice, c_name, c_paid, count(*) FROM sales JOIN customers ON s_customer = c_id GROUP BY 1, 2, 3, 4",
        "s_customer",
    ),
];

/// Queries with keys that all remain.
const WHOLE: &[&str] = &[
    // The keys fit 64 bits.
    "SELECT s_customer, c_nation, count(*) FROM sales JOIN customers ON s_customer = c_id GROUP BY s_customer, c_nation",
    // No key determines another one.
    "SELECT c_name, c_paid, count(*) FROM sales JOIN customers ON s_customer = c_id GROUP BY c_name, c_paid",
];

#[tokio::test]
async fn determined_keys_are_looked_up_by_the_groups() {
    for rows in [0, 1, 33, 5000] {
        for settings in [
            &[STRICT][..],
            &[STRICT, BUILT, ("galatea.tuning.chunk_rows", "1000")],
        ] {
            let pair = Pair::new(settings);
            register(&pair, rows, 1);
            let queries = REDUCED.iter().map(|(sql, _)| sql).chain(WHOLE);
            for sql in queries {
                pair.check(sql, false, &format!("{rows} rows")).await;
            }
        }
    }
}

#[tokio::test]
async fn explain_shows_keys_that_remain() {
    let pair = Pair::new(&[STRICT]);
    register(&pair, 5000, 1);
    for (sql, remain) in REDUCED {
        let plan = text(&pair, &format!("EXPLAIN {sql}")).await;
        assert!(plan.contains(&format!("keys=[{remain}]")), "{sql}\n{plan}");
    }
    for sql in WHOLE {
        let plan = text(&pair, &format!("EXPLAIN {sql}")).await;
        assert!(!plan.contains("source=groups"), "{sql}\n{plan}");
    }
}

/// Customers with a repeated key have several matches, so their names are no function of the key.
#[tokio::test]
async fn keys_of_repeated_build_rows_remain() {
    let pair = Pair::new(&[]);
    register(&pair, 5000, 2);
    for (sql, _) in REDUCED {
        pair.check(sql, false, "customers twice").await;
    }
}

/// The groups and the build sides exceed device memory.
#[tokio::test]
async fn determined_keys_match_the_cpu_in_little_memory() {
    for limit in ["300 KiB", "1 MiB"] {
        let pair = Pair::new(&[
            BUILT,
            ("galatea.memory.gpu_limit", limit),
            ("galatea.tuning.chunk_rows", "500"),
            ("galatea.tuning.block_threads", "32"),
        ]);
        register(&pair, 5000, 1);
        for (sql, _) in REDUCED {
            pair.check(sql, false, limit).await;
        }
    }
}
