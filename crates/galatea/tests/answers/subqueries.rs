//! Correlated subqueries over aggregates, with LIMIT and OFFSET, and as values.

use crate::check_all;

const TABLES: &[&str] = &[
    "CREATE TABLE o(k INT, x BIGINT) AS VALUES (1,1),(9,2),(NULL,3),(2,NULL)",
    "CREATE TABLE i(k INT, y BIGINT) AS VALUES (1,1),(1,NULL),(2,5),(NULL,7)",
];

#[tokio::test(flavor = "multi_thread")]
async fn correlated_aggregates_return_a_row_for_empty_input() {
    let all: &[&str] = &["1", "2", "9", "NULL"];
    check_all(
        TABLES,
        &[
            ("SELECT k FROM o WHERE EXISTS (SELECT count(*) FROM i WHERE i.k = o.k)", all),
            ("SELECT k FROM o WHERE NOT EXISTS (SELECT count(*) FROM i WHERE i.k = o.k)", &[]),
            ("SELECT k FROM o WHERE EXISTS (SELECT sum(y) FROM i WHERE i.k = o.k)", all),
            ("SELECT k FROM o WHERE EXISTS (SELECT count(*) FROM i WHERE i.k = o.k HAVING count(*) = 0)", &["9", "NULL"]),
            ("SELECT k FROM o WHERE NOT EXISTS (SELECT 1 FROM i WHERE i.k = o.k HAVING count(*) > 1)", &["9", "NULL", "2"]),
            ("SELECT k FROM o WHERE EXISTS (SELECT count(*) FROM i WHERE i.k = o.k LIMIT 0)", &[]),
            ("SELECT k FROM o WHERE EXISTS (SELECT count(*) FROM i WHERE i.k = o.k OFFSET 1)", &[]),
            ("SELECT k FROM o WHERE x IN (SELECT count(*) FROM i WHERE i.k = o.k)", &[]),
            ("SELECT k FROM o WHERE x NOT IN (SELECT count(*) FROM i WHERE i.k = o.k)", &["1", "9", "NULL"]),
            ("SELECT k FROM o WHERE 0 IN (SELECT count(*) FROM i WHERE i.k = o.k)", &["9", "NULL"]),
            ("SELECT k FROM o WHERE 0 NOT IN (SELECT count(*) FROM i WHERE i.k = o.k)", &["1", "2"]),
            ("SELECT k FROM o WHERE x IN (SELECT sum(y) FROM i WHERE i.k = o.k)", &["1"]),
            ("SELECT k FROM o WHERE x NOT IN (SELECT sum(y) FROM i WHERE i.k = o.k)", &[]),
            ("SELECT k FROM o WHERE x IN (SELECT count(*) + 1 FROM i WHERE i.k = o.k HAVING count(*) < 1) OR k = 1", &["1"]),
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn empty_grouping_sets_return_a_row_for_empty_input() {
    let all: &[&str] = &["1", "2", "9", "NULL"];
    check_all(
        TABLES,
        &[
            ("SELECT k FROM o WHERE EXISTS (SELECT 1 FROM i WHERE i.k = o.k GROUP BY CUBE(i.y))", all),
            ("SELECT k FROM o WHERE EXISTS (SELECT 1 FROM i WHERE i.k = o.k GROUP BY GROUPING SETS ((i.y),()))", all),
            ("SELECT k FROM o WHERE EXISTS (SELECT 1 FROM i WHERE i.k = o.k GROUP BY GROUPING SETS ((i.y),(i.k)))", &["1", "2"]),
            ("SELECT k FROM o WHERE EXISTS (SELECT 1 FROM i WHERE i.k = o.k GROUP BY ROLLUP(i.y) HAVING count(*) = 0)", &["9", "NULL"]),
            ("SELECT k FROM o WHERE EXISTS (SELECT 1 FROM i WHERE i.k = o.k GROUP BY ROLLUP(i.y) HAVING count(*) = 1)", &["1", "2"]),
            ("SELECT k FROM o WHERE x IN (SELECT count(*) FROM i WHERE i.k = o.k GROUP BY ROLLUP(i.y))", &["1"]),
            ("SELECT k FROM o WHERE x NOT IN (SELECT count(*) FROM i WHERE i.k = o.k GROUP BY ROLLUP(i.y))", &["9", "NULL"]),
            ("SELECT k FROM o WHERE 0 IN (SELECT count(*) FROM i WHERE i.k = o.k GROUP BY ROLLUP(i.y))", &["9", "NULL"]),
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_of_correlated_subqueries_apply() {
    check_all(
        TABLES,
        &[
            (
                "SELECT k FROM o WHERE EXISTS (SELECT 1 FROM i WHERE i.k = o.k LIMIT 0)",
                &[],
            ),
            (
                "SELECT k FROM o WHERE EXISTS (SELECT 1 FROM i WHERE i.k = o.k LIMIT 1)",
                &["1", "2"],
            ),
            (
                "SELECT k FROM o WHERE EXISTS (SELECT 1 FROM i WHERE i.k = o.k OFFSET 1)",
                &["1"],
            ),
            (
                "SELECT k FROM o WHERE NOT EXISTS (SELECT 1 FROM i WHERE i.k = o.k LIMIT 5 OFFSET 1)",
                &["2", "9", "NULL"],
            ),
            (
                "SELECT k FROM o WHERE EXISTS (SELECT 1 FROM i OFFSET 3)",
                &["1", "2", "9", "NULL"],
            ),
            ("SELECT k FROM o WHERE EXISTS (SELECT 1 FROM i OFFSET 4)", &[]),
            (
                "SELECT k, (SELECT count(*) FROM i WHERE i.k = o.k LIMIT 0) AS c FROM o",
                &["1, NULL", "2, NULL", "9, NULL", "NULL, NULL"],
            ),
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn correlated_counts_of_empty_input_are_zero() {
    check_all(
        TABLES,
        &[
            (
                "SELECT k, (SELECT count(*) FROM i WHERE i.k = o.k) AS c, (SELECT count(y) + 1 FROM i WHERE i.k = o.k) AS d FROM o",
                &["1, 2, 2", "2, 1, 2", "9, 0, 1", "NULL, 0, 1"],
            ),
            (
                "SELECT k, (SELECT count(*) FROM i WHERE i.k = o.k HAVING count(*) < 2) AS c FROM o",
                &["1, NULL", "2, 1", "9, 0", "NULL, 0"],
            ),
            (
                "SELECT k, (SELECT sum(y) FROM i WHERE i.k = o.k HAVING sum(y) IS NULL OR count(*) > 1) AS c FROM o",
                &["1, 1", "2, NULL", "9, NULL", "NULL, NULL"],
            ),
            ("SELECT k FROM o WHERE (SELECT count(*) FROM i WHERE i.k = o.k HAVING count(*) <> 1) < 2", &["9", "NULL"]),
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn exists_and_in_are_boolean_expressions() {
    check_all(
        TABLES,
        &[
            (
                "SELECT k, EXISTS (SELECT y FROM i WHERE i.k = o.k) AS c, NOT EXISTS (SELECT 1 FROM i WHERE y > 6) AS d FROM o",
                &["1, true, false", "2, true, false", "9, false, false", "NULL, false, false"],
            ),
            (
                "SELECT k, x IN (SELECT y FROM i) AS c, x NOT IN (SELECT y FROM i WHERE y > 2) AS d FROM o",
                &["1, true, true", "2, NULL, NULL", "9, NULL, true", "NULL, NULL, true"],
            ),
            (
                "SELECT k, sum(CASE WHEN x IN (SELECT y FROM i) THEN 1 ELSE 0 END) AS c FROM o GROUP BY k",
                &["1, 1", "2, 0", "9, 0", "NULL, 0"],
            ),
            (
                "SELECT EXISTS (SELECT 1 FROM i WHERE i.k = o.k) AS e, count(*) AS c FROM o GROUP BY EXISTS (SELECT 1 FROM i WHERE i.k = o.k)",
                &["false, 2", "true, 2"],
            ),
            (
                "SELECT k, count(*) OVER (PARTITION BY x IN (SELECT y FROM i)) AS c FROM o",
                &["1, 1", "2, 3", "9, 3", "NULL, 3"],
            ),
            ("SELECT k FROM o WHERE (x NOT IN (SELECT y FROM i)) IS NULL", &["2", "9", "NULL"]),
            ("SELECT k FROM o WHERE x > ALL (SELECT y FROM i WHERE i.k = o.k)", &["9", "NULL"]),
            ("SELECT k FROM o WHERE x = ANY (SELECT y FROM i WHERE i.k = o.k)", &["1"]),
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn conditions_above_a_correlated_limit_see_its_rows() {
    check_all(
        TABLES,
        &[
            (
                "SELECT k FROM o WHERE EXISTS (SELECT 1 FROM (SELECT y FROM i WHERE i.k = o.k ORDER BY y NULLS FIRST LIMIT 1) q WHERE y IS NULL)",
                &["1"],
            ),
            (
                "SELECT k FROM o WHERE EXISTS (SELECT 1 FROM (SELECT y FROM i WHERE i.k = o.k ORDER BY y NULLS LAST LIMIT 1) q WHERE y IS NULL)",
                &[],
            ),
            (
                "SELECT k FROM o WHERE x NOT IN (SELECT y FROM i WHERE i.k = o.k ORDER BY y NULLS LAST LIMIT 1)",
                &["9", "NULL"],
            ),
        ],
    )
    .await;
}

/// A scalar subquery without rows is NULL, although its column is not nullable.
#[tokio::test(flavor = "multi_thread")]
async fn scalar_subqueries_without_rows_are_null() {
    let tables = [
        "CREATE TABLE t(k INT NOT NULL, x INT) AS VALUES (1, 10), (2, NULL)",
        "CREATE TABLE none(k INT NOT NULL)",
    ];
    let queries: &[(&str, &[&str])] = &[
        ("SELECT (SELECT 1 WHERE false) AS a", &["NULL"]),
        (
            "SELECT (SELECT 1 FROM t WHERE k > 100) AS a, k FROM t",
            &["NULL, 1", "NULL, 2"],
        ),
        ("SELECT (SELECT k FROM none) + 1 AS a", &["NULL"]),
        ("SELECT coalesce((SELECT 1 FROM t WHERE k > 100), 7) AS a", &["7"]),
        (
            "SELECT k FROM t WHERE (SELECT 1 FROM t WHERE k > 100) IS NULL",
            &["1", "2"],
        ),
        ("SELECT k FROM t WHERE (SELECT k FROM none) IS NOT NULL", &[]),
        (
            "SELECT k FROM t WHERE (SELECT k FROM none) IS DISTINCT FROM k",
            &["1", "2"],
        ),
        ("SELECT k FROM t WHERE k = (SELECT 1 FROM t WHERE k = 2)", &["1"]),
        ("SELECT k FROM t WHERE k <> (SELECT k FROM none)", &[]),
        (
            "SELECT (SELECT count(*) FROM t HAVING count(*) > 100) AS a",
            &["NULL"],
        ),
        (
            "SELECT k FROM t WHERE (SELECT count(*) FROM t u WHERE u.k = t.k AND u.x > 5 OR u.k = t.k AND u.x < 3) > 0",
            &["1"],
        ),
        ("SELECT (SELECT count(*) FROM none) AS a", &["0"]),
        (
            "SELECT sum(a) FROM (SELECT (SELECT 1 FROM none) AS a FROM t) q",
            &["NULL"],
        ),
        (
            "SELECT max(a) IS NULL, count(a) FROM (SELECT (SELECT k FROM none) AS a FROM t) q",
            &["true, 0"],
        ),
        (
            "SELECT a FROM (SELECT (SELECT k FROM none) AS a) q UNION ALL SELECT k FROM t",
            &["1", "2", "NULL"],
        ),
        ("SELECT k FROM t ORDER BY (SELECT k FROM none), k", &["1", "2"]),
    ];
    check_all(&tables, queries).await;
}
