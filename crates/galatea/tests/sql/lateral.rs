//! LATERAL subqueries without tables.

use crate::front::Both;

#[tokio::test]
async fn lateral_subqueries_evaluate_expressions() {
    let both = Both::with_table().await;
    for (sql, expected) in [
        (
            "SELECT * FROM (VALUES (1), (2)) t(a), LATERAL (SELECT a * 2 AS b) q ORDER BY a",
            "1 2; 2 4",
        ),
        (
            "SELECT t.a, q.c + 1 FROM t, LATERAL (SELECT a * 10, a + 1) AS q(c, d) ORDER BY a",
            "1 11; 2 21; 3 31; 4 41",
        ),
        (
            "SELECT a, q.s FROM t CROSS JOIN LATERAL (SELECT a + x AS s FROM (SELECT a * 2 AS x)) q ORDER BY a",
            "1 3; 2 6; 3 9; 4 12",
        ),
        (
            "SELECT sum(q.s) FROM t JOIN LATERAL (SELECT a * 2 AS s WHERE a > 1) q ON q.s < 8",
            "10",
        ),
        (
            "SELECT a FROM t, LATERAL (SELECT 1 AS one WHERE b = 'y') q ORDER BY a",
            "2; 4",
        ),
    ] {
        both.answers(sql, expected).await;
    }
    both.answers(
        "SELECT a, coalesce(s, 0) FROM t LEFT JOIN LATERAL (SELECT a * 2 AS s WHERE a > 1) q ON true ORDER BY a",
        "1 0; 2 4; 3 6; 4 8",
    )
    .await;
}
