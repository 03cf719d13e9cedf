//! Macros, variables, and the options of COPY in parentheses, as in DuckDB.

use crate::front::Both;

#[tokio::test]
async fn calls_of_macros_are_their_definitions() {
    let both = Both::with_table().await;
    for sql in [
        "CREATE MACRO plus(a, b := 2) AS a + b",
        "CREATE TEMP MACRO twice(x) AS x",
        "CREATE OR REPLACE TEMP MACRO twice(x) AS plus(x) * 2",
        "CREATE MACRO above(x) AS TABLE SELECT * FROM t WHERE a > x",
        "CREATE MACRO pairs(x) AS TABLE FROM above(x) WHERE b = 'y'",
        "CREATE MACRO share(x) AS (SELECT max(a) + x FROM t)",
        "CREATE MACRO named(x) AS (WITH q AS (SELECT x AS v) SELECT v + 1 FROM q WHERE v > 1)",
        "CREATE MACRO one() AS 1",
        "CREATE MACRO next(x) AS (SELECT max(b) FROM t WHERE t.a = x)",
        "CREATE MACRO nearest(x) AS (SELECT b FROM t ORDER BY abs(t.a - x) LIMIT 1)",
        "CREATE MACRO list_total(l) AS (SELECT sum(u) FROM (SELECT unnest(l) AS u))",
        "CREATE MACRO total(x) AS sum(x) - count(*)",
    ] {
        both.run(sql).await;
    }
    for (sql, expected) in [
        (
            "SELECT plus(1), plus(1, b := 5), plus(1, 7), plus(a := 3)",
            "3 6 8 5",
        ),
        ("SELECT twice(a) FROM t ORDER BY a", "6; 8; 10; 12"),
        ("SELECT plus(plus(1)) * 2", "10"),
        ("SELECT a FROM t WHERE plus(a) > 5", "4"),
        ("SELECT b, total(a) FROM t GROUP BY b ORDER BY ALL", "x 2; y 4"),
        ("SELECT named(3), named(0)", "4 NULL"),
        ("SELECT named(a) FROM t ORDER BY a", "NULL; 3; 4; 5"),
        ("SELECT a FROM t WHERE named(a) = 4", "3"),
        ("SELECT a FROM t WHERE EXISTS (SELECT 1 WHERE t.a > 3)", "4"),
        ("SELECT a FROM t WHERE a IN (SELECT t.a WHERE t.a < 2)", "1"),
        ("SELECT one() + one()", "2"),
        ("SELECT share(1)", "5"),
        ("SELECT next(q.a) FROM (SELECT 2 AS a) q", "y"),
        ("SELECT next((SELECT 2 AS a))", "y"),
        ("SELECT nearest(2), list_total([1, 2])", "y 3"),
        ("FROM above(2) ORDER BY ALL", "3 x; 4 y"),
        ("SELECT count(*) FROM pairs(0)", "2"),
        (
            "SELECT u.a, v.a FROM above(3) AS u, above(2) AS v ORDER BY ALL",
            "4 3; 4 4",
        ),
        ("SELECT above.a FROM above(3)", "4"),
        ("WITH c AS (FROM above(3)) SELECT plus(a) FROM c", "6"),
        ("SELECT PLUS(1)", "3"),
    ] {
        both.answers(sql, expected).await;
    }
    both.columns("SELECT plus(1), plus(1, b := 5) AS x", "plus(1) x")
        .await;
    // The next definition is used at once, also by statements that were planned before.
    both.answers("SELECT plus(1)", "3").await;
    both.run("CREATE OR REPLACE MACRO plus(a) AS a * 10").await;
    both.answers("SELECT plus(1)", "10").await;
    both.answers("SELECT twice(1)", "20").await;
    both.run("DROP MACRO twice").await;
    both.run("DROP MACRO IF EXISTS twice").await;
    both.run("DROP MACRO TABLE above").await;
    both.run("CREATE MACRO loops(x) AS back(x)").await;
    both.run("CREATE MACRO back(x) AS loops(x) + 1").await;
    both.run("CREATE MACRO doubled(x) AS x || x").await;
    let nested = format!("SELECT {}'0123456789'{}", "doubled(".repeat(40), ")".repeat(40));
    for (sql, message) in [
        ("SELECT twice(1)", "twice"),
        ("DROP MACRO twice", "the macro twice does not exist"),
        ("SELECT plus(1, 2)", "the macro plus has 1 parameters"),
        ("SELECT plus()", "needs a value of its parameter a"),
        ("SELECT plus(z := 1)", "has no parameter z"),
        ("SELECT plus(1, a := 2)", "has two values of its parameter a"),
        ("SELECT plus(1) OVER ()", "accepts no OVER"),
        (
            "SELECT next(a) FROM (SELECT 2 AS a)",
            "uses its parameter x in a query, whose tables may have the column a",
        ),
        (
            "SELECT nearest(a) FROM (SELECT 2 AS a)",
            "uses its parameter x in a query, whose tables may have the column a",
        ),
        ("SELECT next(t.a) FROM t", "whose tables may have the column t.a"),
        (
            "SELECT loops(1)",
            "the macro loops calls itself: loops -> back -> loops",
        ),
        ("CREATE MACRO one() AS 2", "the macro one exists"),
        ("CREATE MACRO upper(x) AS x", "cannot have the name of a function"),
        ("CREATE MACRO year(x) AS x", "cannot have the name of a function"),
        ("CREATE MACRO f(x, x) AS x", "two parameters of the name x"),
        ("SELECT * FROM one()", "is an expression, and not a table"),
        (nested.as_str(), "longer than the limit"),
    ] {
        both.refuses(sql, message).await;
    }
}

#[tokio::test]
async fn variables_keep_values_for_the_session() {
    let both = Both::with_table().await;
    both.answers("SELECT getvariable('x')", "NULL").await;
    both.run("SET VARIABLE x = 1 + 2").await;
    both.answers("SELECT getvariable('x'), getvariable('X') + 1", "3 4")
        .await;
    both.answers("SELECT a FROM t WHERE a >= getvariable('x') ORDER BY a", "3; 4")
        .await;
    both.run("SET VARIABLE x = (SELECT max(a) FROM t)").await;
    both.answers("SELECT a FROM t WHERE a >= getvariable('x') ORDER BY a", "4")
        .await;
    both.run("SET VARIABLE name TO 'x'").await;
    both.answers("SELECT count(*) FROM t WHERE b = getvariable('name')", "2")
        .await;
    both.run("SET VARIABLE l = [1, 2]").await;
    both.answers("SELECT getvariable('l')[2]", "2").await;
    both.run("SET VARIABLE d = DATE '2024-02-29'").await;
    both.answers("SELECT year(getvariable('d'))", "2024").await;
    both.run("CREATE MACRO limited() AS TABLE SELECT a FROM t WHERE a < getvariable('x')")
        .await;
    both.answers("SELECT count(*) FROM limited()", "3").await;
    both.run("RESET VARIABLE x").await;
    both.answers("SELECT getvariable('x')", "NULL").await;
    for (sql, message) in [
        ("SET VARIABLE x", "VARIABLE has no value"),
        ("SET VARIABLE x = ", "VARIABLE has no value"),
        ("SET VARIABLE 1x = 1", "needs a name of letters"),
        ("SET VARIABLE x = (SELECT a FROM t)", ""),
        ("SET VARIABLE x = 1) AS a, (2", "needs one value"),
        ("SET VARIABLE x = nothing", "nothing"),
        (
            "SELECT getvariable(b) FROM t",
            "getvariable needs the name of a variable",
        ),
    ] {
        both.refuses(sql, message).await;
    }
}

#[tokio::test]
async fn copy_accepts_options_in_parentheses() {
    let folder = tempfile::tempdir().expect("a folder");
    let both = Both::with_table().await;
    let path = |name: &str| folder.path().join(name).display().to_string();
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).expect("a file");
    for (options, expected) in [
        ("(HEADER, DELIMITER '|')", "a|b\n1|x\n"),
        ("(HEADER false, SEP ';')", "1;x\n"),
        ("WITH (FORMAT csv, HEADER true)", "a,b\n1,x\n"),
        ("(FORMAT json)", "{\"a\":1,\"b\":\"x\"}\n"),
    ] {
        let name = "t.csv";
        both.run(&format!(
            "COPY (SELECT * FROM t WHERE a = 1) TO '{}' {options}",
            path(name)
        ))
        .await;
        assert_eq!(read(name), expected, "{options}");
    }
    both.run(&format!(
        "COPY (SELECT a, NULL AS n FROM t WHERE a = 1) TO '{}' (NULL 'none', HEADER)",
        path("n.csv")
    ))
    .await;
    assert_eq!(read("n.csv"), "a,n\n1,none\n");
    both.run(&format!(
        "COPY t TO '{}' (FORMAT parquet, COMPRESSION zstd)",
        path("t.parquet")
    ))
    .await;
    both.answers(&format!("SELECT count(*) FROM '{}'", path("t.parquet")), "4")
        .await;
    both.run(&format!(
        "COPY t TO '{}' (FORMAT parquet, PARTITION_BY (b), APPEND true)",
        path("parts")
    ))
    .await;
    both.refuses(
        &format!("COPY t TO '{}' (FORMAT parquet, PARTITION_BY (b))", path("parts")),
        "which is not empty",
    )
    .await;
    // Both sessions have written their files.
    let written = format!(
        "SELECT DISTINCT a FROM '{}/b=x/*.parquet' ORDER BY a",
        path("parts")
    );
    both.answers(&written, "1; 3").await;
    for (options, message) in [
        ("(COLOUR 'red')", "COPY has an unknown option: colour"),
        ("(DELIMITER)", "needs one value of its option delimiter"),
        ("('header' true)", "an option without a name"),
        ("(PARTITION_BY)", "needs columns"),
    ] {
        both.refuses(&format!("COPY t TO '{}' {options}", path("u.csv")), message)
            .await;
    }
}
