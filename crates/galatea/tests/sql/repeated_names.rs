//! Statements that name several columns, aggregates, subqueries or queries of WITH alike. The answers and the
//! names of the columns are DuckDB's, and the same on the CPU and on the emulated device.

use crate::front::Both;

/// Tables t of (a, d, s) and u of (a, x), and an empty one.
async fn tables() -> Both {
    let both = Both::new();
    for sql in [
        "CREATE TABLE t(a INT, d DECIMAL(10, 2), s VARCHAR) AS VALUES (1, 1.50, 'a'), (2, 2.50, 'b'), (3, NULL, NULL)",
        "CREATE TABLE u(a INT, x INT) AS VALUES (1, 10), (1, 11), (4, 40)",
        "CREATE TABLE nothing(a INT, d DECIMAL(10, 2))",
    ] {
        both.run(sql).await;
    }
    both
}

#[tokio::test]
async fn columns_of_one_name_get_numbers() {
    let both = tables().await;
    for (sql, columns, expected) in [
        ("SELECT 1, 1, 1", "1 1_1 1_2", "1 1 1"),
        ("SELECT a, a FROM t WHERE a = 1", "a a_1", "1 1"),
        ("SELECT a, t.a FROM t WHERE a = 2", "a a_1", "2 2"),
        (
            "SELECT a, a + 1 AS a FROM t ORDER BY a DESC LIMIT 1",
            "a a_1",
            "3 4",
        ),
        ("SELECT x AS a, a FROM u ORDER BY a DESC LIMIT 1", "a a_1", "40 4"),
        ("SELECT 1 AS n, 2 AS n, 3 AS n", "n n_1 n_2", "1 2 3"),
        ("SELECT 1 AS a_1, 2 AS a, 3 AS a", "a_1 a a_2", "1 2 3"),
        (
            "SELECT u.a AS x, t.a AS x FROM t, u WHERE t.a = 3 AND u.a = 4",
            "x x_1",
            "4 3",
        ),
        ("SELECT *, a FROM u WHERE a = 4", "a x a_1", "4 40 4"),
        ("SELECT *, x + 1 AS x FROM u WHERE a = 4", "a x x_1", "4 40 41"),
        ("SELECT a, * FROM u WHERE a = 4", "a a_1 x", "4 4 40"),
        ("SELECT *, * FROM u WHERE a = 4", "a x a_1 x_1", "4 40 4 40"),
        ("SELECT u.*, u.x FROM u WHERE a = 4", "a x x_1", "4 40 40"),
        ("SELECT * EXCLUDE (a), x FROM u WHERE a = 4", "x x_1", "40 40"),
        ("SELECT a_1 FROM (SELECT a, a FROM t WHERE a = 1)", "a_1", "1"),
        ("SELECT a FROM (SELECT 1 AS a, 2 AS a)", "a", "1"),
        ("SELECT \"A\", \"A\" FROM (SELECT 7 AS \"A\")", "A A_1", "7 7"),
        ("SELECT a, \"A\" FROM (SELECT 7 AS \"A\", 8 AS a)", "a A", "8 7"),
        (
            "SELECT count(*), count(*) FROM nothing",
            "count(*) count(*)_1",
            "0 0",
        ),
        ("SELECT sum(a), sum(t.a) FROM t", "sum(a) sum(t.a)", "6 6"),
        (
            "SELECT a, sum(x), (SELECT sum(x) FROM u) FROM u GROUP BY a ORDER BY a LIMIT 1",
            "a sum(x) (SELECT sum(x) FROM u)",
            "1 21 61",
        ),
        (
            "SELECT count(*), (SELECT count(*) FROM u WHERE a = 1) FROM t",
            "count(*) (SELECT count(*) FROM u WHERE a = 1)",
            "3 2",
        ),
        (
            "SELECT a, (SELECT a FROM t WHERE a = 2) FROM t ORDER BY a LIMIT 1",
            "a (SELECT a FROM t WHERE a = 2)",
            "1 2",
        ),
        ("SELECT avg(a), mean(a) FROM t", "avg(a) mean(a)", "2.0 2.0"),
        (
            "SELECT a, CAST(a AS DOUBLE) FROM t WHERE a = 1",
            "a CAST(a AS DOUBLE)",
            "1 1.0",
        ),
        (
            "SELECT (SELECT min(a) FROM t), (SELECT max(a) FROM t)",
            "(SELECT min(a) FROM t) (SELECT max(a) FROM t)",
            "1 3",
        ),
        (
            "SELECT CAST((SELECT min(a) FROM t) AS DOUBLE), CAST((SELECT max(a) FROM t) AS DOUBLE)",
            "CAST((SELECT min(a) FROM t) AS DOUBLE) CAST((SELECT max(a) FROM t) AS DOUBLE)",
            "1.0 3.0",
        ),
        (
            "SELECT EXISTS (SELECT 1), EXISTS (SELECT a FROM nothing)",
            "EXISTS (SELECT 1) EXISTS (SELECT a FROM nothing)",
            "true false",
        ),
        (
            "SELECT 1 IN (SELECT 1), 2 IN (SELECT 1), 1 NOT IN (SELECT 1), 2 NOT IN (SELECT 1)",
            "1 IN (SELECT 1) 2 IN (SELECT 1) 1 NOT IN (SELECT 1) 2 NOT IN (SELECT 1)",
            "true false false true",
        ),
        (
            "SELECT 1 = ANY (SELECT 1), 1 = ANY (SELECT 2), 1 > ALL (SELECT 0), 1 > ALL (SELECT 2)",
            "1 = ANY(SELECT 1) 1 = ANY(SELECT 2) 1 > ALL(SELECT 0) 1 > ALL(SELECT 2)",
            "true false true false",
        ),
        ("SELECT 1.0, 1.00, 1e0", "1.0 1.00 1e0", "1.0 1.0 1.0"),
        ("SELECT 'a', $$a$$, e'a'", "'a' $$a$$ E'a'", "a a a"),
        (
            "SELECT substr(s, 2), substring(s FROM 2), strpos(s, 'a'), position('a' IN s) FROM t WHERE a = 1",
            "SUBSTR(s, 2) SUBSTRING(s FROM 2) strpos(s, 'a') POSITION('a' IN s)",
            "  1 1",
        ),
        (
            "SELECT * FROM (SELECT 1 AS a), (SELECT 2 AS a), (SELECT 3 AS b)",
            "a a b",
            "1 2 3",
        ),
        (
            "SELECT x FROM u WHERE EXISTS (SELECT 1 FROM (SELECT x FROM u WHERE x > 11) WHERE x = u.x)",
            "x",
            "40",
        ),
        (
            "SELECT x, (SELECT count(*) FROM (SELECT x FROM u) WHERE x = u.x) FROM u ORDER BY x",
            "x (SELECT count(*) FROM (SELECT x FROM u) WHERE x = u.x)",
            "10 1; 11 1; 40 1",
        ),
        (
            "SELECT x FROM u WHERE EXISTS (SELECT 1 FROM ((SELECT x FROM u WHERE x > 11) CROSS JOIN t) WHERE x = u.x)",
            "x",
            "40",
        ),
        (
            "SELECT u.a FROM u, (SELECT 11 AS x) AS q, (SELECT 40 AS x) WHERE u.x = unnamed_subquery.x",
            "a",
            "4",
        ),
        (
            "SELECT CAST(99999999999999999999 AS DECIMAL(38, 0)) = 99999999999999999999, 99999999999999999999 - 99999999999999999990 AS d",
            "CAST(99999999999999999999 AS DECIMAL(38,0)) = 99999999999999999999 d",
            "true 9",
        ),
        (
            "SELECT unnamed_subquery.a, unnamed_subquery2.a FROM (SELECT 1 AS a) JOIN (SELECT 2 AS a) ON true",
            "a a",
            "1 2",
        ),
    ] {
        both.answers(sql, expected).await;
        both.columns(sql, columns).await;
    }
    both.run("CREATE TABLE copy AS SELECT *, a, a + 1 AS a FROM u")
        .await;
    both.answers("SELECT a, x, a_1, a_2 FROM copy ORDER BY x LIMIT 1", "1 10 1 2")
        .await;
    both.run("CREATE VIEW v AS SELECT 1, 1").await;
    both.answers("SELECT \"1\" + \"1_1\" FROM v", "2").await;
    both.run("INSERT INTO copy SELECT 7, 7, 7, 7").await;
    both.answers("SELECT count(*) FROM copy WHERE a = 7 AND a_2 = 7", "1")
        .await;
}

/// Tables distinguish the columns of a join in the outermost query only.
#[tokio::test]
async fn columns_of_joins_get_numbers_in_tables() {
    let both = tables().await;
    for (sql, columns, expected) in [
        ("SELECT * FROM t JOIN u ON t.a = u.x", "a d s a x", ""),
        (
            "SELECT * FROM (SELECT * FROM t JOIN u ON t.a = u.a) AS q ORDER BY x LIMIT 1",
            "a d s a_1 x",
            "1 1.50 a 1 10",
        ),
        (
            "SELECT q.a_1, a FROM (SELECT t.a, u.a FROM t, u WHERE x = 40) AS q ORDER BY a LIMIT 1",
            "a_1 a",
            "4 1",
        ),
        (
            "WITH c AS (SELECT * FROM u AS v JOIN u AS w ON v.x = w.x) SELECT c.* FROM c WHERE x_1 = 40",
            "a x a_1 x_1",
            "4 40 4 40",
        ),
        (
            "SELECT a FROM t WHERE EXISTS (SELECT * FROM u AS v, u AS w WHERE v.x = w.x AND v.a = t.a)",
            "a",
            "1",
        ),
        (
            "SELECT * FROM (SELECT * FROM t JOIN u USING (a)) WHERE x = 11",
            "a d s x",
            "1 1.50 a 11",
        ),
    ] {
        both.columns(sql, columns).await;
        both.answers(sql, expected).await;
    }
    both.run("CREATE VIEW j AS SELECT * FROM t JOIN u ON t.a = u.a")
        .await;
    both.columns("FROM j", "a d s a_1 x").await;
    both.answers("SELECT sum(a), sum(a_1) FROM j", "2 2").await;
    both.run("CREATE TABLE k AS SELECT t.a, u.a FROM t, u").await;
    both.answers("SELECT sum(a), sum(a_1), count(*) FROM k", "18 18 9")
        .await;
    both.run("INSERT INTO k SELECT * FROM (SELECT t.a FROM t) AS p, (SELECT a FROM u) AS q")
        .await;
    both.answers("SELECT count(*) FROM k", "18").await;
}

/// A comparison with a subquery is a value of a SELECT list, of an aggregate and of a window.
#[tokio::test]
async fn any_and_all_are_values() {
    let both = tables().await;
    for (sql, expected) in [
        (
            "SELECT a = ANY (SELECT a FROM u) FROM t ORDER BY a",
            "true; false; false",
        ),
        ("SELECT 3 > ALL (SELECT a FROM u)", "false"),
        (
            "SELECT a > ALL (SELECT x FROM u WHERE x < 11), d IS NULL FROM t ORDER BY a",
            "false false; false false; false true",
        ),
        (
            "SELECT count(*) FILTER (WHERE b), max(CAST(b AS INT)) FROM (SELECT a <> ALL (SELECT a FROM u) AS b FROM t)",
            "2 1",
        ),
        (
            "SELECT max(CAST(a = ANY (SELECT a FROM u) AS INT)), count(*) FROM t",
            "1 3",
        ),
        (
            "SELECT a = ANY (SELECT a FROM u), count(*) FROM t GROUP BY a = ANY (SELECT a FROM u) ORDER BY 1",
            "false 2; true 1",
        ),
        (
            "SELECT sum(CAST(a = ANY (SELECT a FROM u) AS INT)) OVER (ORDER BY a) FROM t ORDER BY 1",
            "1; 1; 1",
        ),
    ] {
        both.answers(sql, expected).await;
    }
}

#[tokio::test]
async fn clauses_use_columns_with_numbers() {
    let both = tables().await;
    for (sql, expected) in [
        ("SELECT a, a FROM t ORDER BY a DESC", "3 3; 2 2; 1 1"),
        ("SELECT a, a FROM t ORDER BY 2 DESC LIMIT 1", "3 3"),
        (
            "SELECT a, a, count(*), count(*) FROM u GROUP BY a ORDER BY count(*), a",
            "4 4 1 1; 1 1 2 2",
        ),
        ("SELECT a, a FROM u GROUP BY ALL HAVING count(*) > 1", "1 1"),
        ("SELECT DISTINCT a, a FROM u ORDER BY a", "1 1; 4 4"),
        (
            "SELECT a, a FROM t UNION ALL SELECT x, a FROM u ORDER BY a DESC LIMIT 1",
            "40 4",
        ),
        ("SELECT 1, 1 UNION SELECT 1, 1", "1 1"),
        ("SELECT sum(y) FROM (SELECT a, a FROM t) AS q(x, y)", "6"),
        (
            "WITH c AS (SELECT a, a FROM t) SELECT a_1 FROM c WHERE a_1 > 2",
            "3",
        ),
        ("WITH c(x, y) AS (SELECT 1, 1) SELECT x + y FROM c", "2"),
        (
            "WITH RECURSIVE r(x, y) AS (SELECT 1, 1 UNION ALL SELECT x + 1, x + 1 FROM r WHERE x < 3) FROM r ORDER BY x",
            "1 1; 2 2; 3 3",
        ),
        (
            "WITH RECURSIVE r AS (SELECT 1 AS n, 1 AS m UNION ALL SELECT 2, 2 FROM r WHERE n < 2) SELECT * FROM r ORDER BY n",
            "1 1; 2 2",
        ),
        (
            "SELECT row_number() OVER (ORDER BY a), row_number() OVER (ORDER BY a) FROM t ORDER BY 1 LIMIT 1",
            "1 1",
        ),
        ("SELECT (SELECT a FROM (SELECT a, a FROM t) WHERE a_1 = 2)", "2"),
    ] {
        both.answers(sql, expected).await;
    }
}

#[tokio::test]
async fn aggregates_that_differ_in_casts_are_different() {
    let both = tables().await;
    for (sql, expected) in [
        (
            "SELECT sum(d), sum(CAST(d AS DECIMAL(38, 2))) FROM t",
            "4.00 4.00",
        ),
        (
            "SELECT sum(d) AS x, sum(d::DOUBLE) AS y, sum(CAST(d AS INT)) AS z FROM t",
            "4.00 4.0 3",
        ),
        ("SELECT sum(CAST(d AS DOUBLE)) / sum(d) FROM t", "1.0"),
        ("SELECT sum(d) FROM t HAVING sum(CAST(d AS DOUBLE)) > 3", "4.00"),
        ("SELECT sum(d), sum(CAST(d AS DOUBLE)) FROM nothing", "NULL NULL"),
        (
            "SELECT a, sum(d) FROM t GROUP BY a HAVING sum(d) > 1 ORDER BY sum(CAST(d AS DOUBLE)) DESC",
            "2 2.50; 1 1.50",
        ),
        (
            "SELECT CAST(d AS INT) AS i, CAST(d AS VARCHAR) AS s, count(*) FROM t GROUP BY CAST(d AS INT), CAST(d AS VARCHAR) ORDER BY i",
            "1 1.50 1; 2 2.50 1; NULL NULL 1",
        ),
        (
            "SELECT CAST(d AS INT) AS i, d AS e, count(*) FROM t GROUP BY i, e ORDER BY i LIMIT 1",
            "1 1.50 1",
        ),
        (
            "SELECT CAST(d AS INT) AS i, d, count(*) FROM t GROUP BY 1, 2 ORDER BY i LIMIT 1",
            "1 1.50 1",
        ),
        (
            "SELECT CAST(d AS INT) AS i, d, count(*) FROM t GROUP BY ALL ORDER BY i LIMIT 1",
            "1 1.50 1",
        ),
        (
            "SELECT sum(a) OVER (ORDER BY a) AS x, sum(CAST(a AS DOUBLE)) OVER (ORDER BY a) AS y FROM t ORDER BY a",
            "1 1.0; 3 3.0; 6 6.0",
        ),
        ("SELECT max((SELECT 1)) AS x, max((SELECT 2)) AS y FROM t", "1 2"),
        (
            "SELECT sum(CAST(CAST(d AS INT) AS DOUBLE)) AS x, sum(CAST(d AS DOUBLE)) AS y, sum(CAST(d AS INT)) AS z FROM t",
            "3.0 4.0 3",
        ),
        (
            "SELECT min(a), min(CAST(a AS VARCHAR)), min(CAST(a AS DOUBLE)) FROM t",
            "1 1 1.0",
        ),
    ] {
        both.answers(sql, expected).await;
    }
    both.columns(
        "SELECT sum(d), sum(CAST(d AS DOUBLE)) FROM t",
        "sum(d) sum(CAST(d AS DOUBLE))",
    )
    .await;
}

#[tokio::test]
async fn with_hides_the_queries_of_an_enclosing_with() {
    let both = tables().await;
    for (sql, expected) in [
        (
            "WITH x AS (SELECT 1 AS a) SELECT * FROM (WITH x AS (SELECT 2 AS a) SELECT * FROM x)",
            "2",
        ),
        (
            "WITH x AS (SELECT 1 AS a) SELECT y.a, x.a FROM (WITH x AS (SELECT a + 1 AS a FROM x) SELECT x.a FROM x) AS y, x",
            "2 1",
        ),
        (
            "WITH x AS (SELECT 1 AS a), y AS (WITH x AS (SELECT 5 AS b) SELECT * FROM x) SELECT * FROM x, y",
            "1 5",
        ),
        (
            "WITH x AS (SELECT 1 AS a) SELECT a, (WITH x AS (SELECT 10 AS a) SELECT max(x.a) FROM x) AS b FROM x",
            "1 10",
        ),
        (
            "WITH x AS (SELECT 1 AS a) SELECT * FROM (WITH x AS (SELECT a + 1 AS a FROM x) SELECT * FROM (WITH x AS (SELECT a + 1 AS a FROM x) FROM x))",
            "3",
        ),
        (
            "WITH RECURSIVE x AS (SELECT 1 AS a UNION ALL SELECT a + 1 FROM x WHERE a < 2) SELECT q.a, x.a FROM (WITH RECURSIVE x AS (SELECT 10 AS a UNION ALL SELECT a + 1 FROM x WHERE a < 11) SELECT * FROM x) q, x ORDER BY 1, 2",
            "10 1; 10 2; 11 1; 11 2",
        ),
        (
            "WITH t AS (SELECT 1 AS a) SELECT * FROM (WITH t AS (SELECT a + 6 AS a FROM t) SELECT z.a FROM t AS z WHERE z.a > 0)",
            "7",
        ),
        (
            "WITH \"x 2\" AS (SELECT 0 AS a), x AS (SELECT 1 AS a) SELECT * FROM (WITH x AS (SELECT 2 AS a) SELECT x.a, \"x 2\".a FROM x, \"x 2\")",
            "2 0",
        ),
        (
            "WITH x AS (SELECT 1 AS a) SELECT (SELECT count(*) FROM (WITH x AS (FROM t) FROM x) q), (SELECT count(*) FROM x)",
            "3 1",
        ),
    ] {
        both.answers(sql, expected).await;
    }
    both.refuses(
        "WITH x AS (SELECT 1), x AS (SELECT 2) SELECT * FROM x",
        "specified more than once",
    )
    .await;
}

#[tokio::test]
async fn distinct_rows_are_ordered_by_expressions_of_the_list() {
    let both = tables().await;
    for (sql, expected) in [
        ("SELECT DISTINCT abs(a) FROM u ORDER BY abs(a)", "1; 4"),
        ("SELECT DISTINCT abs(a) FROM u ORDER BY abs(u.a) DESC", "4; 1"),
        ("SELECT DISTINCT abs(a) FROM u ORDER BY 10 - abs(a)", "4; 1"),
        ("SELECT DISTINCT a % 2 FROM t ORDER BY a % 2 DESC", "1; 0"),
        ("SELECT DISTINCT a AS b FROM u ORDER BY a DESC", "4; 1"),
        (
            "SELECT DISTINCT a AS x, x AS y FROM u ORDER BY x, y",
            "1 10; 1 11; 4 40",
        ),
        (
            "SELECT DISTINCT t.a AS x, u.a AS y FROM t, u WHERE t.a < 3 AND x < 40 ORDER BY u.a, t.a DESC",
            "2 1; 1 1",
        ),
        (
            "SELECT DISTINCT ucase(s) FROM t ORDER BY ucase(s) NULLS FIRST",
            "NULL; A; B",
        ),
        (
            "SELECT DISTINCT a, count(*) FROM u GROUP BY a ORDER BY count(*) DESC",
            "1 2; 4 1",
        ),
        (
            "SELECT DISTINCT CAST(d AS INT) FROM t ORDER BY CAST(d AS INT) NULLS FIRST",
            "NULL; 1; 2",
        ),
        (
            "SELECT DISTINCT *, abs(a) AS b FROM u ORDER BY abs(a) DESC, x",
            "4 40 4; 1 10 1; 1 11 1",
        ),
        ("SELECT DISTINCT a FROM u ORDER BY a + 0", "1; 4"),
    ] {
        both.answers(sql, expected).await;
    }
    both.refuses(
        "SELECT DISTINCT abs(a) FROM u ORDER BY x",
        "must appear in select list",
    )
    .await;
}

/// Positions of computed columns in the order of groups.
#[tokio::test]
async fn groups_are_ordered_by_positions_of_computed_columns() {
    let both = tables().await;
    for (sql, columns, expected) in [
        (
            "SELECT a, sum(x) / count(*) FROM u GROUP BY a ORDER BY 2 DESC LIMIT 1",
            "a sum(x) / count(*)",
            "4 40",
        ),
        (
            "SELECT a, -a FROM u GROUP BY a ORDER BY 2 LIMIT 1",
            "a -a",
            "4 -4",
        ),
        (
            "SELECT a + 1, count(*) FROM u GROUP BY a ORDER BY 1 DESC LIMIT 1",
            "a + 1 count(*)",
            "5 1",
        ),
        (
            "SELECT upper('x'), a FROM u GROUP BY a ORDER BY 1, 2 DESC LIMIT 1",
            "upper('x') a",
            "X 4",
        ),
        (
            "SELECT a, sum(x) FROM u GROUP BY a ORDER BY 2 LIMIT 1",
            "a sum(x)",
            "1 21",
        ),
        (
            "SELECT m FROM (SELECT a, max(x) - a FROM u GROUP BY ROLLUP(a) ORDER BY 2 NULLS FIRST, 1 LIMIT 2) q(a, m) WHERE a = 1",
            "m",
            "10",
        ),
    ] {
        both.answers(sql, expected).await;
        both.columns(sql, columns).await;
    }
}

/// VALUES whose values are subqueries.
#[tokio::test]
async fn values_may_be_subqueries() {
    let both = tables().await;
    for (sql, columns, expected) in [
        (
            "SELECT * FROM (VALUES ((SELECT max(a) FROM t), 1)) AS v",
            "column1 column2",
            "3 1",
        ),
        (
            "SELECT sum(n) FROM (VALUES ((SELECT max(a) FROM t)), (10), ((SELECT min(x) FROM u) + 1)) AS v(n)",
            "sum(n)",
            "24",
        ),
        (
            "VALUES (EXISTS (SELECT 1 FROM t WHERE a = 2), 'x')",
            "column1 column2",
            "true x",
        ),
    ] {
        both.answers(sql, expected).await;
        both.columns(sql, columns).await;
    }
    both.run("CREATE TABLE copy AS SELECT * FROM u").await;
    both.run("INSERT INTO copy VALUES ((SELECT max(a) FROM t), 5)")
        .await;
    both.answers("SELECT sum(a), sum(x) FROM copy", "9 66").await;
}
