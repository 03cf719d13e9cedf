//! Filters and projections without an aggregate.

use crate::compare::Pair;
use crate::data::{Shape, batch};

#[tokio::test]
async fn selected_rows_match_the_cpu() {
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

/// Functions with result types of their own, returned and below aggregates.
#[tokio::test]
async fn computed_numbers_and_times_match_the_cpu() {
    let pair = Pair::new(&[("galatea.fallback", "error")]);
    for (rows, shape) in [
        (1, Shape::Ordinary),
        (33, Shape::AllNull),
        (2500, Shape::Ordinary),
    ] {
        let name = format!("t{rows}");
        pair.table(&name, &[batch(rows, 5, shape)]);
        for sql in [
            "SELECT v, ts - TIMESTAMP '2001-02-03 04:05:06' AS d, to_local_time(ts) AS l FROM t WHERE v % 3 > 0",
            "SELECT k, max(ts - TIMESTAMP '2001-02-03 04:05:06') AS d, count(DISTINCT round(CAST(i16 AS BIGINT), -2)) AS n FROM t GROUP BY k",
            "SELECT v, make_date(2000 + k, k + 1, abs(i16 % 100) % 28 + 1) AS d, make_time(k, abs(i16 % 100) % 60, 7) AS m FROM t WHERE k BETWEEN 0 AND 11",
            "SELECT ceil(d9) AS c, floor(d9) AS f, round(d18, 1) AS r, trunc(d38, 3) AS t, count(*) FROM t GROUP BY 1, 2, 3, 4",
            "SELECT gcd(i64, i32) AS g, factorial(abs(i16 % 100) % 20) AS f, count(*), sum(round(d9)) FROM t WHERE i64 > 0 GROUP BY 1, 2",
        ] {
            let sql = sql.replace("FROM t ", &format!("FROM {name} "));
            pair.check(&sql, true, &format!("{rows} rows, {shape:?}")).await;
        }
    }
}
