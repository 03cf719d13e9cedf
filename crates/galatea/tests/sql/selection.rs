//! Conditions are evaluated with branches, which load the columns of later conditions only for rows that pass
//! the earlier ones, and as predicates over all rows (`galatea.tuning.selection`).

use crate::compare::Pair;
use crate::joins::STRICT;
use crate::parts::table;

#[tokio::test]
async fn branching_and_predicated_selection_match_the_cpu() {
    for selection in ["branch", "predicate", "auto"] {
        for rows in [0, 1, 31, 32, 33, 9_000] {
            let pair = Pair::new(&[STRICT, ("galatea.tuning.selection", selection)]);
            pair.table("t", &[table(rows, rows > 1, |row| row * 31 % 1_000)]);
            for sql in [
                "SELECT count(*), sum(v), min(paid) FROM t WHERE k BETWEEN 100 AND 110 AND small < 3 AND weight > 50 AND open",
                "SELECT k, v, name, weight FROM t WHERE k < 40 AND (small = 1 OR v % 2 = 0) AND paid IS NOT NULL",
                // Rows that fail the first condition must not divide.
                "SELECT count(*), sum(100 / k) FROM t WHERE k <> 0 AND 1000 / k > 3 AND name LIKE '%7%'",
                "SELECT small, count(*), max(v) FROM t WHERE k > 990 AND v > 10 GROUP BY small",
            ] {
                pair.check(sql, true, selection).await;
            }
        }
    }
}
