//! Names of computed columns: the expression as the query spells it, on the CPU and on the emulated device.

use crate::front::Both;

#[tokio::test]
async fn computed_columns_have_the_names_of_their_expressions() {
    let both = Both::with_table().await;
    for (sql, columns) in [
        ("SELECT 1", "1"),
        ("SELECT 'a'", "'a'"),
        ("SELECT NULL", "NULL"),
        ("SELECT 1.50", "1.50"),
        ("SELECT DATE '2020-01-31'", "DATE '2020-01-31'"),
        ("SELECT a + 1 FROM t", "a + 1"),
        ("SELECT A+1 FROM t", "a + 1"),
        ("SELECT t.a + 1 FROM t", "t.a + 1"),
        ("SELECT -a FROM t", "-a"),
        ("SELECT ((a + 1)) FROM t", "a + 1"),
        ("SELECT MAX(a) FROM t", "max(a)"),
        ("SELECT COUNT(*) FROM t", "count(*)"),
        ("SELECT count(DISTINCT b) FROM t", "count(DISTINCT b)"),
        (
            "SELECT sum(a) FILTER (WHERE b = 'x') FROM t",
            "sum(a) FILTER (WHERE b = 'x')",
        ),
        (
            "SELECT row_number() OVER (ORDER BY a) FROM t",
            "row_number() OVER (ORDER BY a)",
        ),
        (
            "SELECT CASE WHEN a > 1 THEN 'x' END FROM t",
            "CASE WHEN a > 1 THEN 'x' END",
        ),
        (
            "SELECT \"B\" || 'z' FROM (SELECT b AS \"B\" FROM t)",
            "\"B\" || 'z'",
        ),
        ("SELECT (SELECT max(a) FROM t)", "(SELECT max(a) FROM t)"),
        ("SELECT year(DATE '2020-01-31')", "year(DATE '2020-01-31')"),
        ("SELECT a // 2, a ^ 2 FROM t", "a // 2 a ^ 2"),
        // Fields of structs, and columns with the names of their tables.
        (
            "SELECT q.s.f, s.f AS g, q.s, t.a FROM (SELECT named_struct('f', a) AS s FROM t) AS q, public.t",
            "f g s a",
        ),
        (
            "SELECT f + 1 AS n, f FROM (SELECT s.f FROM (SELECT named_struct('f', a) AS s FROM t) AS q) AS r",
            "n f",
        ),
        ("SELECT public.t.a FROM public.t", "a"),
        // Columns keep their names, also in parentheses.
        ("SELECT a, t.b, (a), a::DOUBLE FROM t", "a b a_1 a::DOUBLE"),
        ("SELECT a::DOUBLE FROM t", "a::DOUBLE"),
        ("SELECT CAST(b AS VARCHAR) FROM t", "CAST(b AS VARCHAR)"),
        // Sets of rows have the names of their first SELECT.
        ("SELECT a + 1 FROM t UNION ALL SELECT a + 2 FROM t", "a + 1"),
        (
            "SELECT a + 1 FROM t UNION ALL BY NAME SELECT a + 2 FROM t",
            "a + 1 a + 2",
        ),
        ("SELECT max(COLUMNS('a')) FROM t", "a"),
    ] {
        both.columns(sql, columns).await;
    }
}

#[tokio::test]
async fn spelled_names_are_columns_of_tables() {
    let both = Both::with_table().await;
    for (sql, expected) in [
        ("SELECT \"max(a)\" + 1 FROM (SELECT MAX(a) FROM t)", "5"),
        (
            "WITH m AS (SELECT b, max(a) FROM t GROUP BY b) SELECT \"max(a)\" FROM m ORDER BY 1",
            "3; 4",
        ),
        (
            "SELECT \"a + 1\" FROM t, LATERAL (SELECT a + 1) ORDER BY 1",
            "2; 3; 4; 5",
        ),
        // The order of rows, groups and distinct rows by expressions.
        ("SELECT a % 2 FROM t ORDER BY a % 2, a LIMIT 1", "0"),
        (
            "SELECT a % 2, count(*) FROM t GROUP BY a % 2 ORDER BY a % 2",
            "0 2; 1 2",
        ),
        (
            "SELECT a % 2, sum(a) FROM t GROUP BY ALL ORDER BY sum(a) DESC",
            "0 6; 1 4",
        ),
        ("SELECT a % 2, sum(a) FROM t GROUP BY 1 HAVING sum(a) > 4", "0 6"),
        ("SELECT DISTINCT a % 2 FROM t ORDER BY a % 2 DESC", "1; 0"),
        (
            "SELECT b, rank() OVER (ORDER BY sum(a)) FROM t GROUP BY b ORDER BY sum(a)",
            "x 1; y 2",
        ),
        (
            "SELECT a FROM t WHERE a IN (SELECT max(a) FROM t) OR EXISTS (SELECT a + 1 FROM t WHERE false)",
            "4",
        ),
        ("SELECT a FROM t WHERE a = (SELECT max(a) - 1 FROM t)", "3"),
    ] {
        both.answers(sql, expected).await;
    }
    both.run("CREATE TABLE kept AS SELECT b, SUM(a) FROM t GROUP BY b")
        .await;
    both.columns("SELECT * FROM kept", "b sum(a)").await;
    both.run("CREATE VIEW v AS SELECT a * 2 FROM t").await;
    both.answers("SELECT \"a * 2\" FROM v ORDER BY 1 LIMIT 1", "2")
        .await;
}
