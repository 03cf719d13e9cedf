//! Filters and projections without an aggregate.

use crate::compare::Pair;
use crate::data::{Shape, batch};

#[tokio::test]
async fn selected_rows_agree() {
    for (rows, shape) in [
        (0, Shape::Ordinary),
        (1, Shape::Ordinary),
        (33, Shape::AllNull),
        (3000, Shape::Ordinary),
    ] {
        let pair = Pair::new(&[]);
        pair.table("t", &[batch(rows, 3, shape)]);
        for sql in [
            "SELECT v, i32, low FROM t WHERE i32 > 50000",
            "SELECT * FROM t WHERE k = 3 AND flag",
            "SELECT high, view, d38 FROM t WHERE high LIKE '%ab%'",
            "SELECT v + 1 AS w, d9 * 2 AS d, f64 / 2 AS h, i8 FROM t WHERE v % 3 = 0",
            "SELECT day, ts, flag FROM t WHERE day < '1998-01-01' OR ts IS NULL",
            "SELECT v FROM t WHERE v > 10 ORDER BY v LIMIT 7",
            "SELECT upper(low) AS u, CASE WHEN flag THEN i32 END AS c FROM t WHERE v > 2",
            "SELECT v FROM t WHERE false",
        ] {
            pair.check(sql, false, &format!("{rows} rows, {shape:?}")).await;
        }
    }
}
