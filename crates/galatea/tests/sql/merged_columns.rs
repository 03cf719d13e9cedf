//! Columns of joins with USING and NATURAL. The answers are DuckDB's, and the same on the CPU and on the
//! emulated device.

use crate::front::Both;

async fn tables() -> Both {
    let both = Both::new();
    for sql in [
        "CREATE TABLE t(id INT, k INT, x INT) AS VALUES (1, 1, 10), (2, 1, 20), (3, 2, NULL), (4, NULL, 40)",
        "CREATE TABLE u(id INT, k INT, z INT) AS VALUES (1, 1, 7), (2, 3, 8), (3, NULL, 9)",
        "CREATE TABLE w(k BIGINT, y INT) AS VALUES (1, 100), (3, 300), (5, 500)",
        "CREATE TABLE none(k INT, q INT)",
    ] {
        both.run(sql).await;
    }
    both
}

#[tokio::test]
async fn names_mean_the_column_of_the_outer_side() {
    let both = tables().await;
    for (sql, expected) in [
        (
            "SELECT k, x, z FROM t JOIN u USING (k) WHERE k = 1 ORDER BY x",
            "1 10 7; 1 20 7",
        ),
        (
            "SELECT k, x, z FROM t LEFT JOIN u USING (k) WHERE k > 0 ORDER BY k, x",
            "1 10 7; 1 20 7; 2 NULL NULL",
        ),
        (
            "SELECT k, x, z FROM t RIGHT JOIN u USING (k) WHERE k > 0 ORDER BY k, x",
            "1 10 7; 1 20 7; 3 NULL 8",
        ),
        (
            "SELECT k, x, z FROM t FULL JOIN u USING (k) ORDER BY k, x, z",
            "1 10 7; 1 20 7; 2 NULL NULL; 3 NULL 8; NULL 40 NULL; NULL NULL 9",
        ),
        (
            "SELECT * FROM t FULL JOIN u USING (k) ORDER BY k, x, z",
            "1 1 10 1 7; 2 1 20 1 7; 3 2 NULL NULL NULL; NULL 3 NULL 2 8; 4 NULL 40 NULL NULL; NULL NULL NULL 3 9",
        ),
        (
            "SELECT k, t.id, u.id FROM t FULL JOIN u USING (k) WHERE t.k IS NULL AND k > 0",
            "3 NULL 2",
        ),
        (
            "SELECT k, count(*) FROM t FULL JOIN u USING (k) GROUP BY k HAVING k > 1 ORDER BY k",
            "2 1; 3 1",
        ),
        (
            "SELECT k, count(*) FROM t FULL JOIN u USING (k) GROUP BY ROLLUP(k) HAVING count(*) > 2",
            "NULL 6",
        ),
        (
            "SELECT max(k), sum(k) FILTER (WHERE k > 1) FROM t FULL JOIN u USING (k)",
            "3 5",
        ),
        (
            "SELECT k, row_number() OVER (ORDER BY k, z) AS r FROM t RIGHT JOIN u USING (k) QUALIFY r > 1 AND k IS NOT NULL",
            "1 2; 3 3",
        ),
        (
            "SELECT z FROM t FULL JOIN u USING (k) WHERE k IS NOT NULL ORDER BY k DESC, z LIMIT 1",
            "8",
        ),
        (
            "SELECT k + 1 AS next FROM t RIGHT JOIN u USING (k) WHERE next > 2",
            "4",
        ),
        (
            "SELECT DISTINCT k FROM t FULL JOIN u USING (k) ORDER BY k",
            "1; 2; 3; NULL",
        ),
        (
            "SELECT DISTINCT ON (k) k, z FROM t FULL JOIN u USING (k) ORDER BY k, z",
            "1 7; 2 NULL; 3 8; NULL 9",
        ),
        (
            "SELECT (SELECT max(k) FROM t FULL JOIN u USING (k) WHERE k < 3)",
            "2",
        ),
        (
            "SELECT z FROM t FULL JOIN u USING (k) WHERE k IN (SELECT k FROM w) ORDER BY z",
            "7; 7; 8",
        ),
        (
            "WITH q AS (SELECT k, z FROM t FULL JOIN u USING (k)) SELECT * FROM q WHERE k > 2",
            "3 8",
        ),
        (
            "SELECT k FROM t RIGHT JOIN u USING (k) WHERE k > 1 UNION ALL SELECT k FROM w ORDER BY k",
            "1; 3; 3; 5",
        ),
        ("SELECT K FROM t FULL JOIN u USING (\"k\") WHERE \"k\" = 3", "3"),
        (
            "SELECT k, y FROM t FULL JOIN u USING (k) FULL JOIN w USING (k) ORDER BY k, y",
            "1 100; 1 100; 2 NULL; 3 300; 5 500; NULL NULL; NULL NULL",
        ),
        (
            "SELECT k, x, y FROM t LEFT JOIN u USING (k) RIGHT JOIN w USING (k) WHERE k > 1 ORDER BY k",
            "3 NULL 300; 5 NULL 500",
        ),
        (
            "SELECT x FROM t FULL JOIN u USING (k) SEMI JOIN w USING (k) WHERE k = 3",
            "NULL",
        ),
        ("SELECT k FROM t ANTI JOIN u USING (k) ORDER BY k", "2; NULL"),
        (
            "SELECT k, q FROM t FULL JOIN none USING (k) WHERE k = 2",
            "2 NULL",
        ),
        (
            "SELECT k FROM none FULL JOIN u USING (k) ORDER BY k",
            "1; 3; NULL",
        ),
        (
            "SELECT x FROM t, u JOIN w USING (k) WHERE t.k = w.k ORDER BY x",
            "10; 20",
        ),
    ] {
        both.answers(sql, expected).await;
        both.answers(sql, expected).await;
    }
    both.columns("SELECT k FROM t FULL JOIN u USING (k)", "k").await;
    both.columns("SELECT * FROM t FULL JOIN u USING (k)", "id k x id z")
        .await;
}

/// The column of a single table beside the merged one has a name of its own.
#[tokio::test]
async fn merged_columns_beside_those_of_a_table() {
    let both = tables().await;
    let names = [
        ("SELECT k, t.k FROM t FULL JOIN u USING (k)", "k k_1"),
        ("SELECT t.k, u.k, k FROM t FULL JOIN u USING (k)", "k_1 k_2 k"),
        ("SELECT k, t.* FROM t FULL JOIN u USING (k)", "k id k_1 x"),
        ("SELECT *, t.k FROM t FULL JOIN u USING (k)", "id k x id z k_1"),
        (
            "SELECT k, t.k, x AS k_1 FROM t FULL JOIN u USING (k)",
            "k k_2 k_1",
        ),
        ("SELECT k, t.k FROM t JOIN u USING (k)", "k k_1"),
        ("SELECT k, u.k FROM t JOIN u USING (k)", "k k"),
        ("SELECT k, u.k FROM t RIGHT JOIN u USING (k)", "k k_1"),
        ("SELECT k, t.K FROM t NATURAL FULL JOIN w", "k k_1"),
        ("SELECT t.* FROM t FULL JOIN u USING (k)", "id k x"),
        ("SELECT k, T.* FROM t AS T FULL JOIN none USING (k)", "k id k_1 x"),
    ];
    for (sql, expected) in names {
        both.columns(sql, expected).await;
    }
    for (sql, expected) in [
        (
            "SELECT k, t.k FROM t FULL JOIN u USING (k) ORDER BY k, t.k",
            "1 1; 1 1; 2 2; 3 NULL; NULL NULL; NULL NULL",
        ),
        (
            "SELECT t.k, u.k, k FROM t FULL JOIN u USING (k) WHERE k > 1 ORDER BY k",
            "2 NULL 2; NULL 3 3",
        ),
        (
            "SELECT k, t.* FROM t FULL JOIN u USING (k) WHERE k > 1 ORDER BY k",
            "2 3 2 NULL; 3 NULL NULL NULL",
        ),
        (
            "SELECT k, t.k, count(*) FROM t FULL JOIN u USING (k) GROUP BY k, t.k ORDER BY k, t.k",
            "1 1 2; 2 2 1; 3 NULL 1; NULL NULL 2",
        ),
        (
            "SELECT k_1 FROM (SELECT k, t.k FROM t FULL JOIN u USING (k)) q WHERE k = 2",
            "2",
        ),
        ("SELECT k, t.k FROM t JOIN u USING (k)", "1 1; 1 1"),
        ("SELECT k, t.k FROM none t FULL JOIN none u USING (k)", ""),
    ] {
        both.answers(sql, expected).await;
    }
}

#[tokio::test]
async fn natural_joins_and_lists_of_columns() {
    let both = tables().await;
    for (sql, expected) in [
        ("SELECT k, id, x, z FROM t NATURAL JOIN u WHERE k = 1", "1 1 10 7"),
        (
            "SELECT * FROM t NATURAL FULL JOIN u WHERE k > 1 ORDER BY k",
            "3 2 NULL NULL; 2 3 NULL 8",
        ),
        (
            "SELECT count(*) FROM t NATURAL LEFT JOIN (SELECT 1 AS other WHERE false) v",
            "4",
        ),
        (
            "SELECT * EXCLUDE (x) FROM t RIGHT JOIN u USING (k) WHERE k = 3",
            "NULL 3 2 8",
        ),
        (
            "SELECT * EXCLUDE k FROM t RIGHT JOIN u USING (k) WHERE k = 3",
            "NULL NULL 2 8",
        ),
        (
            "SELECT * EXCEPT (id) FROM t RIGHT JOIN u USING (k) WHERE k = 3",
            "3 NULL 8",
        ),
        (
            "SELECT * REPLACE (k * 10 AS k) FROM w RIGHT JOIN none USING (k) RIGHT JOIN u USING (k) WHERE k = 3",
            "30 NULL NULL 2 8",
        ),
        (
            "SELECT * FROM (t FULL JOIN u USING (k)) WHERE k = 3",
            "NULL 3 NULL 2 8",
        ),
        ("SELECT k FROM (w FULL JOIN none USING (k)) AS q WHERE k = 3", "3"),
        (
            "SELECT b.k FROM (SELECT k FROM t FULL JOIN u USING (k)) a JOIN w b USING (k) WHERE k = 3",
            "3",
        ),
        (
            "SELECT * FROM t RIGHT JOIN u USING (k) ORDER BY ALL DESC NULLS LAST LIMIT 1",
            "2 1 20 1 7",
        ),
        (
            "SELECT t.*, u.* FROM t FULL JOIN u USING (k) WHERE k = 3",
            "NULL NULL NULL 2 3 8",
        ),
    ] {
        both.answers(sql, expected).await;
    }
    both.run("CREATE VIEW v AS SELECT k, x, z FROM t FULL JOIN u USING (k)")
        .await;
    both.answers("SELECT * FROM v WHERE k = 3", "3 NULL 8").await;
    both.run("INSERT INTO u VALUES (4, 9, 10)").await;
    both.answers("SELECT * FROM v WHERE k = 9", "9 NULL 10").await;
    for (sql, message) in [
        ("SELECT k FROM t JOIN u USING (none)", "none"),
        ("SELECT k FROM t JOIN u USING (k) JOIN w ON true", "mbiguous"),
        ("SELECT id FROM t JOIN u USING (k)", "mbiguous"),
    ] {
        both.refuses(sql, message).await;
    }
}

#[tokio::test]
async fn distinct_from_binds_tighter_than_and() {
    let both = tables().await;
    for (sql, expected) in [
        (
            "SELECT true IS DISTINCT FROM true AND false, true IS NOT DISTINCT FROM false OR true",
            "false true",
        ),
        (
            "SELECT x FROM t WHERE x IS DISTINCT FROM 10 AND k IS NOT DISTINCT FROM 1 OR id = 4 ORDER BY x",
            "20; 40",
        ),
        ("SELECT id FROM t WHERE NOT k IS DISTINCT FROM 1 AND id > 1", "2"),
        (
            "SELECT id FROM t WHERE id > 3 AND k IS DISTINCT FROM 1 OR id = 1 ORDER BY id",
            "1; 4",
        ),
        (
            "SELECT id FROM t WHERE k IS DISTINCT FROM (1 + 0) AND NOT x IS DISTINCT FROM NULL",
            "3",
        ),
        (
            "SELECT count(*) FILTER (WHERE x IS DISTINCT FROM 10 AND k = 1) FROM t",
            "1",
        ),
        (
            "SELECT a.id, b.id FROM t a JOIN t b ON a.k IS NOT DISTINCT FROM b.k AND a.id < b.id",
            "1 2",
        ),
        (
            "SELECT sum(CASE WHEN k IS DISTINCT FROM 1 AND id > 3 THEN 1 ELSE 0 END) FROM t",
            "1",
        ),
    ] {
        both.answers(sql, expected).await;
    }
}

#[tokio::test]
async fn pivot_has_merged_columns() {
    let both = tables().await;
    for (sql, expected) in [
        (
            "PIVOT (t FULL JOIN w USING (k)) ON x IN (10) USING sum(y) GROUP BY k ORDER BY k NULLS FIRST",
            "NULL NULL; 1 100; 2 NULL; 3 NULL; 5 NULL",
        ),
        (
            "FROM t FULL JOIN w USING (k) PIVOT (sum(w.y) FOR x IN (10) GROUP BY k) WHERE k > 2 ORDER BY k",
            "3 NULL; 5 NULL",
        ),
        (
            "SELECT k, sum(v) FROM t RIGHT JOIN w USING (k) UNPIVOT (v FOR n IN (id, y)) GROUP BY k ORDER BY k",
            "1 203; 3 300; 5 500",
        ),
    ] {
        both.answers(sql, expected).await;
    }
    both.columns(
        "PIVOT (w JOIN none USING (k)) ON q IN (1) USING count(*)",
        "k y 1",
    )
    .await;
}

#[tokio::test]
async fn subqueries_use_merged_columns_of_the_query_around_them() {
    let both = tables().await;
    for (sql, expected) in [
        (
            "SELECT k, x FROM t JOIN u USING (k) WHERE EXISTS (SELECT 1 FROM w AS v(j, y) WHERE v.j = k) ORDER BY x",
            "1 10; 1 20",
        ),
        (
            "SELECT k, z FROM t RIGHT JOIN u USING (k) WHERE EXISTS (SELECT 1 FROM w AS v(j, y) WHERE v.j = k AND y > 100)",
            "3 8",
        ),
        (
            "SELECT k, (SELECT max(y) FROM w AS v(j, y) WHERE j = k) AS y FROM t LEFT JOIN u USING (k) ORDER BY k, x",
            "1 100; 1 100; 2 NULL; NULL NULL",
        ),
        // The table of the subquery has a column of the name.
        (
            "SELECT count(*) FROM t JOIN u USING (k) WHERE EXISTS (SELECT 1 FROM w WHERE w.y = 500 AND k = 5)",
            "2",
        ),
        (
            "SELECT (SELECT max(k) FROM w) FROM t JOIN u USING (k) WHERE x = 10",
            "5",
        ),
        (
            "SELECT k FROM t NATURAL JOIN u WHERE k IN (SELECT j FROM w AS v(j, y) WHERE y < k * 101)",
            "1",
        ),
    ] {
        both.answers(sql, expected).await;
    }
}
