//! Clauses of DuckDB: ORDER BY ALL, names of the SELECT list, USING SAMPLE, PIVOT and UNPIVOT. The
//! answers are DuckDB's, and the same on the CPU and on the emulated device.

use crate::front::Both;

#[tokio::test]
async fn order_by_all_orders_by_all_output_columns() {
    let both = Both::with_table().await;
    for (sql, expected) in [
        ("SELECT b, a FROM t ORDER BY ALL", "x 1; x 3; y 2; y 4"),
        ("SELECT b, a FROM t ORDER BY ALL DESC", "y 4; y 2; x 3; x 1"),
        ("SELECT b, count(*) FROM t GROUP BY b ORDER BY ALL", "x 2; y 2"),
        (
            "SELECT b, sum(a) AS s FROM t GROUP BY ALL ORDER BY ALL DESC",
            "y 6; x 4",
        ),
        ("SELECT a % 2, -a FROM t ORDER BY ALL", "0 -4; 0 -2; 1 -3; 1 -1"),
        ("SELECT * FROM t ORDER BY ALL DESC LIMIT 2", "4 y; 3 x"),
        ("FROM t ORDER BY ALL LIMIT 1", "1 x"),
        ("SELECT * EXCLUDE (a) FROM t ORDER BY ALL", "x; x; y; y"),
        (
            "SELECT u.*, t.a FROM t JOIN t AS u ON t.a = u.a + 1 ORDER BY ALL DESC",
            "3 x 4; 2 y 3; 1 x 2",
        ),
        (
            "SELECT t.a, u.a FROM t, t AS u WHERE u.a < 3 AND t.a > 3 ORDER BY ALL",
            "4 1; 4 2",
        ),
        ("SELECT DISTINCT b FROM t ORDER BY ALL DESC", "y; x"),
        (
            "SELECT a FROM t WHERE a < 2 UNION ALL SELECT a + 1 FROM t ORDER BY ALL DESC",
            "5; 4; 3; 2; 1",
        ),
        (
            "SELECT * FROM t UNION SELECT * FROM t ORDER BY ALL LIMIT 2",
            "1 x; 2 y",
        ),
        (
            "VALUES (2, 'b'), (1, 'c'), (1, 'a') ORDER BY ALL",
            "1 a; 1 c; 2 b",
        ),
        (
            "SELECT v FROM (VALUES (1), (NULL), (2)) AS x(v) ORDER BY ALL NULLS FIRST",
            "NULL; 1; 2",
        ),
        (
            "SELECT v FROM (VALUES (1), (NULL), (2)) AS x(v) ORDER BY ALL DESC NULLS LAST",
            "2; 1; NULL",
        ),
        (
            "WITH c AS (SELECT b, a FROM t) SELECT * FROM c ORDER BY ALL LIMIT 1",
            "x 1",
        ),
        (
            "WITH c AS (SELECT a FROM t), d AS (SELECT * FROM c ORDER BY ALL DESC LIMIT 2) SELECT * FROM d ORDER BY ALL",
            "3; 4",
        ),
        (
            "SELECT (SELECT * FROM (VALUES (3), (1)) AS x(v) ORDER BY ALL LIMIT 1)",
            "1",
        ),
        (
            "SELECT \"all\" FROM (VALUES (2), (1)) AS x(\"all\") ORDER BY \"all\"",
            "1; 2",
        ),
        ("SELECT a FROM t WHERE a > 9 ORDER BY ALL", ""),
    ] {
        both.answers(sql, expected).await;
    }
    both.refuses("SELECT * FROM nothing ORDER BY ALL", "nothing")
        .await;
}

#[tokio::test]
async fn names_of_the_select_list_are_used_in_other_clauses() {
    let both = Both::with_table().await;
    for (sql, expected) in [
        (
            "SELECT a + 1 AS c, c * 2 AS d, d + c FROM t WHERE d > 6 ORDER BY 1",
            "4 8 12; 5 10 15",
        ),
        ("SELECT a + 1 AS C FROM t WHERE c > 4", "5"),
        (
            "SELECT a + 1 AS \"C d\", \"C d\" * 2 FROM t WHERE \"C d\" = 3",
            "3 6",
        ),
        // A column of the table wins.
        (
            "SELECT a + 1 AS b, b || '!' AS c FROM t ORDER BY 1",
            "2 x!; 3 y!; 4 x!; 5 y!",
        ),
        (
            "SELECT a * 10 AS a, a + 1 FROM t WHERE a > 2 ORDER BY 1",
            "30 4; 40 5",
        ),
        ("SELECT sum(a) AS a FROM t WHERE a > 1", "9"),
        ("SELECT sum(a) AS s, s + 1 FROM t", "10 11"),
        (
            "SELECT b, sum(a) AS s, s * 2 AS d FROM t GROUP BY b HAVING d > 8 ORDER BY ALL",
            "y 6 12",
        ),
        (
            "SELECT a % 2 AS c, c + 1 AS d, count(*) FROM t GROUP BY ALL ORDER BY ALL",
            "0 1 2; 1 2 2",
        ),
        (
            "SELECT a % 2 AS c, c + 1 AS d, count(*) FROM t GROUP BY c, d ORDER BY ALL",
            "0 1 2; 1 2 2",
        ),
        (
            "SELECT a, row_number() OVER (ORDER BY a DESC) AS r, r * 10 FROM t ORDER BY a LIMIT 2",
            "1 4 40; 2 3 30",
        ),
        (
            "SELECT a AS c, count(*) OVER (PARTITION BY c % 2) FROM t ORDER BY 1",
            "1 2; 2 2; 3 2; 4 2",
        ),
        ("SELECT 2 AS two, two * 3 AS six, six + two", "2 6 8"),
        // The last of two names.
        ("SELECT a AS x, a + 1 AS x2, x2 AS y FROM t WHERE a = 1", "1 2 2"),
        // The name wins over a column of an enclosing query.
        (
            "SELECT a FROM t AS o WHERE EXISTS (SELECT 1 AS z, 5 AS w FROM (VALUES (3)) AS v(q) WHERE q = o.a) ORDER BY a",
            "3",
        ),
        (
            "WITH c AS (SELECT a * 2 AS e, e + 1 AS f FROM t) SELECT max(f) AS g, g - 1 FROM c",
            "9 8",
        ),
        ("SELECT x.e FROM (SELECT a + 1 AS e FROM t WHERE e > 4) AS x", "5"),
        (
            "SELECT upper(b) AS u, u || '!' FROM t WHERE u = 'Y' AND a = 2",
            "Y Y!",
        ),
        ("SELECT year(DATE '2024-02-29') AS y, y + 1", "2024 2025"),
        ("SELECT a + 1 AS c FROM t WHERE c > 100", ""),
    ] {
        both.answers(sql, expected).await;
    }
    for (sql, message) in [
        (
            "SELECT sum(a) AS s FROM t WHERE s > 1",
            "the name s of the SELECT list cannot be used here: it is an aggregate",
        ),
        (
            "SELECT a, row_number() OVER (ORDER BY a) AS r FROM t WHERE r = 1",
            "it is a window function",
        ),
        (
            "SELECT random() AS r, r FROM t",
            "another value at each evaluation",
        ),
        (
            "SELECT random() AS r FROM t WHERE r > 0.5",
            "another value at each evaluation",
        ),
        ("SELECT c + 1, a AS c FROM t", "c"),
        ("SELECT a AS c, t.c FROM t", "c"),
    ] {
        both.refuses(sql, message).await;
    }
}

#[tokio::test]
async fn using_sample_samples_the_tables_before_where() {
    let both = Both::new();
    both.run("CREATE TABLE n AS SELECT value AS v, value % 4 AS k FROM generate_series(1, 10000)")
        .await;
    for (sql, expected) in [
        ("SELECT count(*) FROM n USING SAMPLE 10 ROWS", "10"),
        ("SELECT count(*) FROM n USING SAMPLE 10", "10"),
        (
            "SELECT count(*) FROM n USING SAMPLE reservoir(10 ROWS) REPEATABLE (3)",
            "10",
        ),
        ("SELECT count(*) FROM n USING SAMPLE 10 (reservoir, 42)", "10"),
        ("SELECT count(*) FROM n USING SAMPLE 100%", "10000"),
        ("SELECT count(*) FROM n USING SAMPLE 0 PERCENT", "0"),
        ("SELECT count(*) FROM n WHERE v < 0 USING SAMPLE 10 ROWS", "0"),
        (
            "SELECT sum(c) FROM (SELECT k, count(*) AS c FROM n GROUP BY k USING SAMPLE 7 ROWS)",
            "7",
        ),
        (
            "SELECT count(*) FROM n, (VALUES (1), (2)) AS u(w) USING SAMPLE 7 ROWS",
            "7",
        ),
        (
            "SELECT count(*) FROM n JOIN n AS m USING (v) WHERE n.k >= 0 USING SAMPLE 7 ROWS",
            "7",
        ),
        (
            "SELECT count(*) FROM (SELECT v FROM n) AS q USING SAMPLE 7 ROWS",
            "7",
        ),
        ("SELECT count(*) FROM (FROM n USING SAMPLE 5 ROWS)", "5"),
        ("FROM n SELECT count(*) USING SAMPLE 5 ROWS", "5"),
    ] {
        both.answers(sql, expected).await;
    }
    // The same rows each time, as those of TABLESAMPLE.
    let seeded = both
        .rows("SELECT v FROM n USING SAMPLE 1% (bernoulli, 42) ORDER BY v")
        .await;
    let clause = both
        .rows("SELECT v FROM n TABLESAMPLE BERNOULLI (1) REPEATABLE (42) ORDER BY v")
        .await;
    assert_eq!(seeded, clause);
    assert!((50..200).contains(&seeded.len()), "{}", seeded.len());
    let filtered = both
        .rows("SELECT v FROM n WHERE v % 2 = 0 USING SAMPLE 1% (bernoulli, 42) ORDER BY v")
        .await;
    let expected: Vec<_> = seeded
        .iter()
        .filter(|v| v.parse::<i64>().is_ok_and(|v| v % 2 == 0))
        .cloned()
        .collect();
    assert_eq!(filtered, expected);
    for (sql, message) in [
        ("SELECT 1 USING SAMPLE 10", "USING SAMPLE needs a FROM"),
        ("FROM n USING SAMPLE many", "USING SAMPLE"),
        ("FROM n USING SAMPLE 10 (unknown)", "unknown method: UNKNOWN"),
        (
            "FROM n USING SAMPLE 10 ROWS (system)",
            "SYSTEM cannot draw a number of rows",
        ),
        (
            "FROM n USING SAMPLE 10% (reservoir)",
            "RESERVOIR cannot draw a percentage",
        ),
        ("FROM n USING SAMPLE 101%", "percentage from 0 to 100"),
        ("FROM n USING SAMPLE 10 (bernoulli, many)", "a number as its seed"),
    ] {
        both.refuses(sql, message).await;
    }
}

async fn with_sales() -> Both {
    let both = Both::new();
    both.run(
        "CREATE TABLE t AS SELECT * FROM (VALUES ('a', 2, 'p', 1), ('a', 10, 'p', 2), ('b', 2, 'q', 3), \
         ('b', NULL, 'q', 4), ('a', 2, 'p', 7)) AS v(k, y, n, x)",
    )
    .await;
    both
}

#[tokio::test]
async fn pivot_makes_a_column_of_each_value() {
    let both = with_sales().await;
    for (sql, expected) in [
        (
            "PIVOT t ON y USING sum(x) GROUP BY k ORDER BY k",
            "a 2 8; b NULL 3",
        ),
        ("PIVOT t ON y USING sum(x) ORDER BY k", "a p 2 8; b q NULL 3"),
        (
            "PIVOT t ON y ORDER BY x",
            "a p 1 0 1; a p 2 1 0; b q 3 0 1; b q 4 0 0; a p 7 0 1",
        ),
        (
            "PIVOT t ON y USING sum(x), count(*) GROUP BY k ORDER BY k",
            "a 2 1 8 2; b NULL 0 3 1",
        ),
        (
            "PIVOT t ON y, n USING count(*) GROUP BY k ORDER BY k",
            "a 1 0 2 0; b 0 0 0 1",
        ),
        (
            "PIVOT t ON y IN (2, NULL, 99) USING sum(x) GROUP BY k ORDER BY k",
            "a 8 NULL NULL; b 3 4 NULL",
        ),
        (
            "PIVOT t ON y IN (2 AS two, 10) USING sum(x) GROUP BY k ORDER BY k",
            "a 8 2; b 3 NULL",
        ),
        (
            "PIVOT t ON y IN (SELECT 2) USING sum(x) GROUP BY k ORDER BY k",
            "a 8; b 3",
        ),
        (
            "FROM t PIVOT (sum(x) FOR y IN (2 AS two, 10) GROUP BY k) ORDER BY k",
            "a 8 2; b 3 NULL",
        ),
        (
            "FROM t PIVOT (sum(x) AS s, max(x) FOR y IN (2, 10) n IN ('p') GROUP BY k) AS pv ORDER BY k",
            "a 8 7 2 2; b NULL NULL NULL NULL",
        ),
        (
            "SELECT pv.two, pv.k FROM t PIVOT (sum(x) FOR y IN (2 AS two) GROUP BY k) AS pv ORDER BY k",
            "8 a; 3 b",
        ),
        (
            "PIVOT t ON k || '_' || n USING sum(x) GROUP BY y ORDER BY y",
            "2 8 3; 10 2 NULL; NULL NULL 4",
        ),
        (
            "PIVOT t ON y USING sum(x) + 1 GROUP BY k ORDER BY k",
            "a 3 9; b NULL 4",
        ),
        (
            "PIVOT t ON y USING sum(x) FILTER (WHERE x > 1) GROUP BY k ORDER BY k",
            "a 2 7; b NULL 3",
        ),
        (
            "PIVOT t ON x > 2 USING count(*) GROUP BY k ORDER BY k",
            "a 2 1; b 0 2",
        ),
        (
            "PIVOT t ON n USING arg_max(k, x) GROUP BY y ORDER BY y",
            "2 a b; 10 a NULL; NULL NULL b",
        ),
        (
            "PIVOT t ON n USING sum(x) GROUP BY y, k ORDER BY ALL LIMIT 2",
            "2 a 8 NULL; 2 b NULL 3",
        ),
        (
            "SELECT p FROM (PIVOT t ON n USING sum(x) GROUP BY k) ORDER BY k",
            "10; NULL",
        ),
        (
            "WITH p AS (PIVOT t ON n USING sum(x) GROUP BY k) SELECT q FROM p ORDER BY k",
            "NULL; 7",
        ),
        (
            "WITH c AS (SELECT k, x * 2 AS x FROM t) SELECT * FROM (PIVOT c ON k USING sum(x))",
            "20 14",
        ),
        ("PIVOT (SELECT y, x FROM t) ON y IN (2) USING sum(x)", "11"),
        (
            "PIVOT (SELECT * FROM t WHERE false) ON y USING sum(x) GROUP BY k",
            "",
        ),
        (
            "PIVOT (SELECT * FROM t WHERE false) ON y IN (2) USING sum(x) GROUP BY k",
            "",
        ),
        (
            "PIVOT (SELECT y, x FROM t WHERE false) ON y IN (2) USING sum(x)",
            "NULL",
        ),
        (
            "PIVOT (FROM t WHERE k = 'a') AS s ON y USING sum(s.x) GROUP BY k",
            "a 2 8",
        ),
        (
            "PIVOT t USING sum(x), count(*) AS n GROUP BY k ORDER BY k",
            "a 10 3; b 7 2",
        ),
        ("PIVOT t USING sum(x)", "17"),
        (
            "SELECT s FROM (PIVOT t USING sum(x) AS s GROUP BY n) ORDER BY s LIMIT 1",
            "7",
        ),
        (
            "FROM t JOIN (VALUES ('p', 1), ('q', 2)) AS u(m, z) ON t.n = u.m PIVOT (sum(x) FOR z IN (1, 2) GROUP BY k) ORDER BY k",
            "a 10 NULL; b NULL 7",
        ),
        (
            "SELECT pv.k, pv.one FROM t LEFT JOIN (VALUES (2, 1)) AS u(y, z) USING (y) PIVOT (sum(t.x) FOR u.z IN (1 AS one) GROUP BY k) AS pv WHERE one > 3 ORDER BY k",
            "a 8",
        ),
        (
            "SELECT name, sum(value) FROM t JOIN (VALUES ('p', 1)) AS u(m, z) ON t.n = u.m UNPIVOT (value FOR name IN (x, z)) GROUP BY name ORDER BY name",
            "x 10; z 3",
        ),
        (
            "PIVOT (t JOIN t AS u USING (x)) ON u.k USING count(*) GROUP BY t.n ORDER BY ALL",
            "p 3 0; q 0 2",
        ),
        (
            "PIVOT (SELECT DATE '2024-01-02' AS d, 1 AS a) ON d USING sum(a)",
            "1",
        ),
        (
            "PIVOT (SELECT * FROM (VALUES (1.5, 1), (2.25, 2), (1.5, 4)) AS v(d, a)) ON d USING sum(a)",
            "5 2",
        ),
        (
            "PIVOT (SELECT * FROM (VALUES ('k''1', 1), ('-', 2)) AS v(d, a)) ON d USING sum(a)",
            "2 1",
        ),
        (
            "PIVOT (SELECT * FROM (VALUES (-1, 1), (10, 2), (9, 4)) AS v(d, a)) ON d USING sum(a)",
            "1 2 4",
        ),
        (
            "SELECT * FROM (PIVOT t ON n USING sum(x) GROUP BY k) UNION ALL SELECT 'z', 1, 2 ORDER BY ALL",
            "a 10 NULL; b NULL 7; z 1 2",
        ),
    ] {
        both.answers(sql, expected).await;
    }
    // The names of columns.
    for (sql, names) in [
        ("PIVOT t ON y USING sum(x) GROUP BY k", "k 10 2"),
        ("PIVOT t ON y USING sum(x) AS s GROUP BY k", "k 10_s 2_s"),
        (
            "PIVOT t ON y USING sum(x), count(*) AS c GROUP BY k",
            "k 10_sum(x) 10_c 2_sum(x) 2_c",
        ),
        ("PIVOT t ON y, n USING sum(x) GROUP BY k", "k 10_p 10_q 2_p 2_q"),
        ("PIVOT t ON k IN ('a', NULL) USING sum(x) GROUP BY n", "n a NULL"),
        ("PIVOT t ON x > 2 USING count(*) GROUP BY k", "k false true"),
        (
            "FROM t PIVOT (sum(x) AS s, max(x) FOR y IN (2) n IN ('p') GROUP BY k)",
            "k 2_p_s 2_p_max(x)",
        ),
    ] {
        both.columns(sql, names).await;
    }
}

#[tokio::test]
async fn pivot_reads_current_values_from_tables_and_files() {
    let both = with_sales().await;
    both.answers(
        "PIVOT t ON k USING sum(x) GROUP BY n ORDER BY n",
        "p 10 NULL; q NULL 7",
    )
    .await;
    both.run("INSERT INTO t VALUES ('c', 1, 'p', 5)").await;
    both.answers(
        "PIVOT t ON k USING sum(x) GROUP BY n ORDER BY n",
        "p 10 NULL 5; q NULL 7 NULL",
    )
    .await;
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["sales.csv", "sales.parquet"] {
        let file = folder.path().join(name);
        both.run(&format!("COPY t TO '{}'", file.display())).await;
        let sql = format!(
            "PIVOT '{}' ON k USING sum(x) GROUP BY n ORDER BY n",
            file.display()
        );
        both.answers(&sql, "p 10 NULL 5; q NULL 7 NULL").await;
        let sql = format!("SELECT * FROM '{}' ORDER BY ALL LIMIT 1", file.display());
        both.answers(&sql, "a 2 p 1").await;
    }
    both.run("CREATE TABLE stored AS PIVOT t ON k USING sum(x) GROUP BY n")
        .await;
    both.answers("SELECT c FROM stored ORDER BY n", "5; NULL").await;
}

#[tokio::test]
async fn pivot_refuses_what_it_does_not_evaluate() {
    let both = with_sales().await;
    both.run("CREATE TABLE many AS SELECT value AS v FROM generate_series(1, 1500)")
        .await;
    for (sql, message) in [
        (
            "PIVOT many ON v USING count(*)",
            "PIVOT would have 1001 columns, and the limit is 1000",
        ),
        ("PIVOT t", "PIVOT has no ON"),
        ("PIVOT t ON y USING x", "needs an aggregate function"),
        ("PIVOT t ON y USING sum(nothing) GROUP BY k", "nothing"),
        ("PIVOT t ON y IN (2) USING sum(x) GROUP BY ROLLUP (k)", "ROLLUP"),
        (
            "SELECT * FROM t PIVOT (sum(x) FOR (y, n) IN ((2, 'p')))",
            "FOR (a, b) is not supported",
        ),
        (
            "SELECT * FROM t PIVOT (sum(x) FOR y IN (2) DEFAULT ON NULL (0))",
            "DEFAULT ON NULL of PIVOT is not supported",
        ),
        (
            "PIVOT (SELECT y FROM t WHERE false) ON y USING count(*)",
            "neither values nor groups",
        ),
        (
            "PIVOT t ON y USING sum(x) OVER () GROUP BY k",
            "needs an aggregate function",
        ),
        ("PIVOT nothing ON y USING sum(x)", "nothing"),
    ] {
        both.refuses(sql, message).await;
    }
}

#[tokio::test]
async fn unpivot_makes_a_row_of_each_column() {
    let both = Both::new();
    both.run("CREATE TABLE m AS SELECT * FROM (VALUES (1, 10, 20, 'x'), (2, NULL, 5, NULL)) AS v(id, jan, feb, mar)")
        .await;
    for (sql, expected) in [
        (
            "UNPIVOT m ON jan, feb INTO NAME month VALUE v ORDER BY id, v",
            "1 x jan 10; 1 x feb 20; 2 NULL feb 5",
        ),
        (
            "UNPIVOT m ON jan, feb ORDER BY value",
            "2 NULL feb 5; 1 x jan 10; 1 x feb 20",
        ),
        (
            "UNPIVOT m ON jan AS january, feb INTO NAME month VALUE v ORDER BY v",
            "2 NULL feb 5; 1 x january 10; 1 x feb 20",
        ),
        (
            "UNPIVOT m ON COLUMNS(* EXCLUDE (id, mar)) INTO NAME month VALUE v ORDER BY v",
            "2 NULL feb 5; 1 x jan 10; 1 x feb 20",
        ),
        (
            "UNPIVOT m ON * EXCLUDE (id, mar) INTO NAME month VALUE v ORDER BY v",
            "2 NULL feb 5; 1 x jan 10; 1 x feb 20",
        ),
        (
            "UNPIVOT m ON COLUMNS('jan|eb') INTO NAME month VALUE v ORDER BY v",
            "2 NULL feb 5; 1 x jan 10; 1 x feb 20",
        ),
        (
            "UNPIVOT (SELECT jan, feb FROM m) ON * INTO NAME month VALUE v ORDER BY v",
            "feb 5; jan 10; feb 20",
        ),
        (
            "FROM m UNPIVOT (v FOR n IN (jan, feb)) ORDER BY v",
            "2 NULL feb 5; 1 x jan 10; 1 x feb 20",
        ),
        (
            "FROM m UNPIVOT INCLUDE NULLS (v FOR n IN (jan AS j, feb)) AS u ORDER BY u.id, n",
            "1 x feb 20; 1 x j 10; 2 NULL feb 5; 2 NULL j NULL",
        ),
        (
            "FROM m UNPIVOT ((v, w) FOR n IN ((jan, feb) AS q, (feb, jan))) ORDER BY v",
            "1 x q 10 20; 1 x feb_jan 20 10",
        ),
        (
            "UNPIVOT m ON (jan, feb) AS q, (feb, jan) AS r INTO NAME n VALUE a, b ORDER BY a",
            "1 x q 10 20; 1 x r 20 10",
        ),
        (
            "UNPIVOT m ON jan + 1 AS next, feb INTO NAME month VALUE v ORDER BY v",
            "2 NULL feb 5; 1 x next 11; 1 x feb 20",
        ),
        (
            "SELECT sum(v), count(*) FROM (UNPIVOT m ON jan, feb INTO NAME month VALUE v)",
            "35 3",
        ),
        (
            "WITH u AS (UNPIVOT m ON jan, feb INTO NAME month VALUE v) SELECT max(v) FROM u",
            "20",
        ),
        (
            "SELECT v FROM m UNPIVOT (v FOR n IN (jan, feb)) WHERE v > 9 ORDER BY v",
            "10; 20",
        ),
        (
            "UNPIVOT (SELECT * FROM m WHERE false) ON jan, feb INTO NAME month VALUE v",
            "",
        ),
        (
            "UNPIVOT m ON CAST(jan AS VARCHAR) AS jan, mar INTO NAME month VALUE v ORDER BY v",
            "1 20 jan 10; 1 20 mar x",
        ),
    ] {
        both.answers(sql, expected).await;
    }
    for (sql, message) in [
        (
            "UNPIVOT m ON jan, mar INTO NAME month VALUE v",
            "columns of different types",
        ),
        ("UNPIVOT m INTO NAME month VALUE v", "UNPIVOT has no ON"),
        ("UNPIVOT m ON jan INTO NAME month", "incomplete INTO"),
        ("UNPIVOT m ON nothing INTO NAME month VALUE v", "nothing"),
        (
            "UNPIVOT m ON (jan, feb) AS q INTO NAME n VALUE a",
            "1 names of values, and 2 columns",
        ),
        (
            "UNPIVOT m ON COLUMNS('(') INTO NAME n VALUE a",
            "pattern that is not valid",
        ),
        (
            "UNPIVOT m ON COLUMNS('z') INTO NAME n VALUE a",
            "UNPIVOT has no columns",
        ),
    ] {
        both.refuses(sql, message).await;
    }
}
