//! Rows in pages of the device heap, with each page search.

use crate::compare::{Pair, answer};
use crate::data::{Shape, batch};
use datafusion::arrow::util::pretty::pretty_format_batches;

/// The searches. If theory predicts the length of their random walk: the number of pages that a step checks.
const SEARCHES: [(&str, Option<u32>); 10] = [
    ("auto", None),
    ("window", None),
    ("random-walk", Some(1)),
    ("random-walk-bitmap-32", Some(32)),
    ("random-walk-bitmap-64", Some(64)),
    ("collaborative-32", None),
    ("collaborative-64", None),
    ("runs", Some(64)),
    ("queue", None),
    ("bump", None),
];

async fn explained(pair: &Pair, sql: &str) -> String {
    let plan = answer(&pair.gpu, &format!("EXPLAIN ANALYZE {sql}")).await;
    pretty_format_batches(&plan).expect("a table").to_string()
}

/// The number after `before`.
fn number(plan: &str, before: &str) -> f64 {
    let start = plan
        .find(before)
        .unwrap_or_else(|| panic!("no {before:?} in {plan}"));
    let digits = plan[start + before.len()..].chars();
    let digits: String = digits
        .take_while(|digit| digit.is_ascii_digit() || *digit == '.')
        .collect();
    digits.parse().unwrap_or_else(|_| panic!("{digits:?} in {plan}"))
}

#[tokio::test]
async fn each_page_search_returns_all_rows() {
    for (search, _) in SEARCHES {
        let pair = Pair::new(&[
            ("galatea.tuning.row_output", "heap"),
            ("galatea.tuning.page_search", search),
            ("galatea.tuning.block_threads", "64"),
        ]);
        for (name, rows, shape) in [
            ("none", 0, Shape::Ordinary),
            ("few", 33, Shape::AllNull),
            ("many", 20_000, Shape::Ordinary),
        ] {
            pair.table(name, &[batch(rows, 21, shape)]);
            for sql in [
                "SELECT i32, i64, d38, f64, flag, low, v FROM t WHERE v >= 0 OR v IS NULL",
                "SELECT v FROM t WHERE v < -1000000",
            ] {
                let sql = sql.replace("FROM t ", &format!("FROM {name} "));
                pair.check(&sql, rows > 33, search).await;
                // The second run uses the heap of the first.
                pair.check(&sql, rows > 33, search).await;
            }
        }
    }
}

#[tokio::test]
async fn each_page_search_survives_exhausted_heaps() {
    for (search, _) in SEARCHES {
        let limit = ("galatea.memory.gpu_limit", "4 MiB");
        let pair = Pair::new(&[
            ("galatea.tuning.row_output", "heap"),
            ("galatea.tuning.page_search", search),
            ("galatea.tuning.block_threads", "32"),
            ("galatea.tuning.chunk_rows", "4096"),
            limit,
        ]);
        pair.table("t", &[batch(60_000, 21, Shape::Ordinary)]);
        let sql = "SELECT i32, i64, d38, f64, flag, low, v FROM t WHERE v >= 0 OR v IS NULL";
        pair.check(sql, true, search).await;
        pair.check(sql, true, search).await;
    }
}

#[tokio::test]
async fn each_page_search_keeps_groups_that_overflow() {
    for (search, _) in SEARCHES {
        let pair = Pair::new(&[
            ("galatea.aggregate.strategy", "hash"),
            ("galatea.tuning.hash_slots", "2"),
            ("galatea.tuning.page_search", search),
            ("galatea.tuning.block_threads", "32"),
            ("galatea.tuning.rows_per_thread", "1"),
        ]);
        pair.table("t", &[batch(20_000, 9, Shape::Ordinary)]);
        let sql = "SELECT i64, u64, count(*), sum(v), min(low) FROM t GROUP BY i64, u64";
        pair.check(sql, true, search).await;
        pair.check(sql, true, search).await;
    }
}

/// Pools are sized so that walks are short: the counted steps are near equation 2 or 4, and below the bound
/// of equation 3 or 5.
#[tokio::test]
async fn walks_are_as_short_as_predicted() {
    for (search, width) in SEARCHES {
        let pair = Pair::new(&[
            ("galatea.tuning.row_output", "heap"),
            ("galatea.tuning.page_search", search),
            ("galatea.tuning.page_statistics", "true"),
            ("galatea.tuning.block_threads", "64"),
            ("galatea.fallback", "error"),
        ]);
        pair.table("t", &[batch(100_000, 21, Shape::Ordinary)]);
        let plan = explained(
            &pair,
            "SELECT i32, i64, d38, f64, flag, low, v FROM t WHERE v IS NULL OR v > -5",
        )
        .await;
        let (allocations, pages) = (number(&plan, "page allocations="), number(&plan, " from "));
        assert!(allocations >= 100.0 && allocations <= pages, "{search}: {plan}");
        let steps = number(&plan, " pages, ");
        let Some(width) = width else {
            assert!(!plan.contains("(predicted "), "{search}: {plan}");
            continue;
        };
        let (mean, bound) = (number(&plan, "(predicted "), number(&plan, ", at most "));
        // A claim that another warp won is a step, which the theory leaves out.
        let collisions = plan
            .split(" collisions")
            .next()
            .filter(|before| before.len() < plan.len());
        let collisions = collisions
            .and_then(|before| before.rsplit(' ').next()?.parse().ok())
            .unwrap_or(0.0);
        assert!(steps >= 1.0, "{search}: {plan}");
        let steps = steps - collisions / allocations;
        // The figures are rounded.
        assert!(
            steps <= bound + 0.01,
            "{search}: {steps} steps, bound {bound}: {plan}"
        );
        // The pool has twice the pages of the expected rows if a step checks one page.
        assert!(
            mean < 2.0 && steps < 1.5 * mean,
            "{search}: {steps} steps, predicted {mean}"
        );
        if width == 1 {
            assert!(steps > 1.05, "a walk over single pages misses some: {plan}");
        }
    }
}

#[tokio::test]
async fn page_allocations_are_not_counted_by_default() {
    let pair = Pair::new(&[("galatea.tuning.row_output", "heap")]);
    pair.table("t", &[batch(5000, 21, Shape::Ordinary)]);
    let plan = explained(&pair, "SELECT i32, v FROM t WHERE v > 0").await;
    assert!(plan.contains("heap pages="), "{plan}");
    assert!(!plan.contains("page allocations"), "{plan}");
}
