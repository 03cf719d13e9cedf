//! Values and clauses of rewritten functions.

use arrow::array::AsArray;
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::prelude::SessionContext;

use crate::sql::{json, lambdas};

fn session() -> SessionContext {
    let session = crate::session().with_setting("galatea.device", "cpu");
    session.build().expect("a session")
}

/// The only value of a query as text, with the name of its column.
async fn value(ctx: &SessionContext, sql: &str) -> (String, Option<String>) {
    let frame = crate::sql(ctx, sql)
        .await
        .unwrap_or_else(|error| panic!("{sql}: {error}"));
    let rows = frame
        .collect()
        .await
        .unwrap_or_else(|error| panic!("{sql}: {error}"));
    let rows = rows.iter().find(|rows| rows.num_rows() > 0).expect("a row");
    let text = cast(rows.column(0), &DataType::Utf8).expect("text");
    let text = text.as_string::<i32>().iter().next().flatten().map(str::to_owned);
    (rows.schema().field(0).name().clone(), text)
}

/// The values are DuckDB's.
#[tokio::test]
async fn functions_return_the_values_of_duckdb() {
    let ctx = session();
    for (call, expected) in [
        ("year(DATE '2024-02-29')", "2024"),
        ("month(DATE '2024-02-29')", "2"),
        ("day(DATE '2024-02-29')", "29"),
        ("dayofmonth(DATE '2024-02-29')", "29"),
        ("quarter(DATE '2024-05-01')", "2"),
        ("century(DATE '2000-12-31')", "20"),
        ("century(TIMESTAMP '2001-01-01 10:00:00')", "21"),
        ("decade(DATE '1999-12-31')", "199"),
        ("millennium(DATE '2000-12-31')", "2"),
        ("extract(century FROM TIMESTAMP '2024-01-31 10:00:00')", "21"),
        ("date_part('decade', DATE '1999-05-01')", "199"),
        ("datepart('millennium', DATE '2001-05-01')", "3"),
        ("'10%' LIKE '1_!%' ESCAPE '!'", "true"),
        ("'100' LIKE '1_!%' ESCAPE '!'", "false"),
        (r"'a\b' ILIKE 'A\_' ESCAPE '!'", "true"),
        ("'x_y' LIKE concat('x', '/_', 'y') ESCAPE '/'", "true"),
        ("'xzy' LIKE concat('x', '/_', 'y') ESCAPE '/'", "false"),
        ("'a/b' LIKE lower('A//%') ESCAPE '/'", "true"),
        ("'ab' LIKE lower('A//%') ESCAPE '/'", "false"),
        (r"'a\b' NOT LIKE concat('a', '\', '_') ESCAPE '^'", "false"),
        ("'50%' LIKE concat('50', '^%') ESCAPE '^'", "true"),
        (
            "epoch_ms(TIMESTAMP '2024-01-01 00:00:00.123999')",
            "1704067200124",
        ),
        ("epoch_ms(TIMESTAMP '1969-12-31 23:59:59.999')", "-1"),
        ("epoch_ms(DATE '1970-01-02')", "86400000"),
        ("mod(-7, 3)", "-1"),
        ("mod(7.5, 2)", "1.5"),
        ("mod(1 + 6, 1 + 2)", "1"),
        ("regexp_full_match('abc', 'b')", "false"),
        ("regexp_full_match('abc', 'a.c')", "true"),
        ("regexp_full_match('abc', 'a|abc')", "true"),
        ("regexp_full_match('a' || chr(10) || 'b', 'a.b')", "false"),
        ("struct_extract({'a': 1, 'b': 'x'}, 'b')", "x"),
        ("week(DATE '2021-01-03')", "53"),
        ("weekofyear(DATE '2021-01-04')", "1"),
        ("dayofyear(DATE '2024-12-31')", "366"),
        ("dayofweek(DATE '2024-02-25')", "0"),
        ("weekday(DATE '2024-02-29')", "4"),
        ("isodow(DATE '2024-02-25')", "7"),
        ("isodow(DATE '2024-02-26')", "1"),
        ("hour(TIMESTAMP '2024-02-29 13:14:15')", "13"),
        ("minute(TIMESTAMP '2024-02-29 13:14:15')", "14"),
        ("second(TIMESTAMP '2024-02-29 13:14:15')", "15"),
        ("epoch(TIMESTAMP '1970-01-02 00:00:01')", "86401.0"),
        ("dayname(DATE '2024-02-29')", "Thursday"),
        ("monthname(DATE '2024-02-29')", "February"),
        ("last_day(DATE '2024-02-11')", "2024-02-29"),
        ("strftime(DATE '2024-02-29', '%d.%m.%Y')", "29.02.2024"),
        ("date_diff('day', DATE '2024-02-28', DATE '2024-03-01')", "2"),
        (
            "datediff('day', TIMESTAMP '2024-02-28 23:59:59', TIMESTAMP '2024-02-29 00:00:00')",
            "1",
        ),
        (
            "date_diff('hour', TIMESTAMP '2024-01-01 00:59:00', TIMESTAMP '2024-01-01 02:01:00')",
            "2",
        ),
        (
            "date_diff('minute', TIMESTAMP '2024-01-01 00:00:59', TIMESTAMP '2024-01-01 00:01:00')",
            "1",
        ),
        (
            "date_diff('second', TIMESTAMP '1969-12-31 23:59:59', TIMESTAMP '1970-01-01 00:00:01')",
            "2",
        ),
        ("date_diff('week', DATE '2024-01-07', DATE '2024-01-13')", "0"),
        ("date_diff('week', DATE '2024-01-14', DATE '2024-01-07')", "-1"),
        ("date_diff('month', DATE '2023-12-31', DATE '2024-01-01')", "1"),
        ("date_diff('quarter', DATE '2023-12-31', DATE '2024-04-01')", "2"),
        ("date_diff('years', DATE '2024-12-31', DATE '2021-01-01')", "-3"),
        (
            "CAST(date_add(DATE '2024-02-28', INTERVAL '2 days') AS DATE)",
            "2024-03-01",
        ),
        ("if(1 > 2, 'a', 'b')", "b"),
        ("if(NULL, 1, 2)", "2"),
        ("regexp_extract('abc-123', '[0-9]+')", "123"),
        ("regexp_extract('abc-123', '([a-z]+)-([0-9]+)')", "abc-123"),
        ("regexp_extract('abc-123', '([a-z]+)-([0-9]+)', 2)", "123"),
        ("regexp_extract('abc', '[0-9]+')", ""),
        ("regexp_matches('abc', 'b.')", "true"),
        ("string_split('a,b,c', ',')[2]", "b"),
        ("prefix('abc', 'ab')", "true"),
        ("suffix('abc', 'bc')", "true"),
        ("ucase('abc') || lcase('DEF')", "ABCdef"),
        ("len('abc')", "3"),
        ("ord('a')", "97"),
        ("sign(-3.5)", "-1.0"),
        ("list_value(1, 2, 3)[3]", "3"),
        ("year(DATE '2024-02-29') + month(DATE '2024-02-29') * 2", "2028"),
        ("YEAR(CAST(if(true, '2024-02-29', '') AS DATE))", "2024"),
    ] {
        let (name, found) = value(&ctx, &format!("SELECT {call}")).await;
        assert_eq!(found.as_deref(), Some(expected), "{call}");
        assert!(name.eq_ignore_ascii_case(call), "{call}: {name}");
    }
    for call in [
        "regexp_extract(NULL, 'a')",
        "year(CAST(NULL AS DATE))",
        "date_diff('day', NULL, DATE '2024-01-01')",
    ] {
        assert_eq!(value(&ctx, &format!("SELECT {call}")).await.1, None, "{call}");
    }
}

#[tokio::test]
async fn lateral_unnest_keeps_rows_of_a_left_join() {
    let ctx = session();
    let rows = "(VALUES (1, [1, 2]), (2, []), (3, NULL)) z(i, l)";
    let sql =
        format!("SELECT count(*) * 10 + count(u) FROM {rows} LEFT JOIN LATERAL UNNEST(z.l) AS x(u) ON true");
    assert_eq!(value(&ctx, &sql).await.1.as_deref(), Some("42"));
}

/// The parser reads `KEY name` and `INDEX name` as the definition of an index.
#[tokio::test]
async fn columns_may_be_named_index_and_key() {
    let ctx = session();
    for (number, columns) in [
        "index BIGINT, key VARCHAR(10), a INT",
        "\n  Key INT NOT NULL DEFAULT 3\n, INDEX DECIMAL(10, 2)",
        "\"key\" INT, \"index\" INT",
    ]
    .into_iter()
    .enumerate()
    {
        for sql in [
            format!("CREATE TABLE keyed{number} ({columns})"),
            format!("INSERT INTO keyed{number} (key, index) VALUES (1, 2)"),
        ] {
            let frame = crate::sql(&ctx, &sql)
                .await
                .unwrap_or_else(|error| panic!("{sql}: {error}"));
            frame
                .collect()
                .await
                .unwrap_or_else(|error| panic!("{sql}: {error}"));
        }
        let sum = format!("SELECT CAST(key AS INT) + index FROM keyed{number} WHERE index = 2");
        let found = value(&ctx, &sum).await.1;
        assert!(found.is_some_and(|sum| sum.starts_with('3')), "{columns}");
    }
}

#[tokio::test]
async fn constants_have_the_notations_of_duckdb() {
    let ctx = session();
    for (call, expected) in [
        (
            "DATE '2024-01-01' + INTERVAL '2 days 03:04:05.5'",
            "2024-01-03T03:04:05.500",
        ),
        ("DATE '2024-01-02' + INTERVAL '-01:30'", "2024-01-01T22:30:00"),
        (
            "DATE '2024-01-01' + '1 day 2:00'::INTERVAL",
            "2024-01-02T02:00:00",
        ),
        ("encode('a\\x00\\xFFb'::BLOB, 'hex')", "6100ff62"),
        ("encode(CAST('é\\x01' AS BYTEA), 'hex')", "c3a901"),
        ("DATE '2024-01-01' + INTERVAL (1 + 1) DAYS", "2024-01-03"),
        ("DATE '2024-01-31' + 2 * INTERVAL '1 month'", "2024-03-31"),
        (
            "TIMESTAMP '2024-01-01' + INTERVAL '1 day' * 1.5",
            "2024-01-02T12:00:00",
        ),
        (
            "TIMESTAMP '2024-01-01' + INTERVAL '3 hours' / 2",
            "2024-01-01T01:30:00",
        ),
        ("TIMESTAMP '2024-01-01' + to_hours(30)", "2024-01-02T06:00:00"),
        ("(TIMESTAMP '2024-01-01' + to_days(NULL)) IS NULL", "true"),
        ("TIMESTAMP '2024-01-01' + INTERVAL 36 HOUR", "2024-01-02T12:00:00"),
        ("true = 'true'", "true"),
        ("'f' = (1 > 2)", "true"),
    ] {
        let found = value(&ctx, &format!("SELECT {call}")).await.1;
        assert_eq!(found.as_deref(), Some(expected), "{call}");
    }
    let error = crate::sql(&ctx, "SELECT true = 'perhaps'").await;
    assert!(error.is_err(), "no name of a Boolean");
}

/// Template patterns of PostgreSQL.
#[tokio::test]
async fn template_patterns_are_formats() {
    let ctx = session();
    let time = "TIMESTAMP '2024-03-05 14:07:09.012345'";
    for (call, expected) in [
        (
            format!("to_char({time}, 'YYYY-MM-DD HH24:MI:SS')"),
            "2024-03-05 14:07:09",
        ),
        (format!("to_char({time}, 'yyyymmdd')"), "20240305"),
        (
            format!("to_char({time}, 'FMMM/FMDD/YY HH12:MI AM')"),
            "3/5/24 02:07 PM",
        ),
        (format!("to_char({time}, 'HH:MI:SS.MS pm')"), "02:07:09.012 pm"),
        (format!("to_char({time}, 'SS.US')"), "09.012345"),
        (format!("to_char({time}, 'Dy, DD Mon YYYY')"), "Tue, 05 Mar 2024"),
        (
            format!("to_char({time}, 'FMDay FMMonth \"of Q\"Q IYYY-\"W\"IW-ID DDD')"),
            "Tuesday March of Q1 2024-W10-2 065",
        ),
        (
            format!("to_char({time}, 'YYYY-MM-DDTHH24:MI')"),
            "2024-03-05T14:07",
        ),
        (format!("to_char({time}, '%Y/%m')"), "2024/03"),
        ("to_date('05/03/2024', 'DD/MM/YYYY')".to_owned(), "2024-03-05"),
        (
            "to_timestamp('2024-03-05 10:11:12.5', 'YYYY-MM-DD HH24:MI:SS.US')".to_owned(),
            "2024-03-05T10:11:12.500",
        ),
        ("to_date('5-MAR-2024', 'DD-MON-YYYY')".to_owned(), "2024-03-05"),
    ] {
        let found = value(&ctx, &format!("SELECT {call}")).await.1;
        assert_eq!(found.as_deref(), Some(expected), "{call}");
    }
    for pattern in ["Month", "MON", "Day", "DY", "WW", "FMmonth", "YYYY AD", "SSSS"] {
        let error = crate::sql(&ctx, &format!("SELECT to_char({time}, '{pattern}')")).await;
        let error = error.expect_err(pattern).to_string();
        assert!(error.contains("the pattern"), "{pattern}: {error}");
    }
}

/// A column of the subquery has the name of a column before it.
#[tokio::test]
async fn lateral_unnest_names_hide_no_column() {
    let ctx = session();
    let rows = "(VALUES (1, [10, 20]), (2, [30])) z(x, l)";
    for (from, expected) in [
        (format!("{rows}, UNNEST(z.l) AS u(x)"), "1-10,1-20,2-30"),
        (
            format!("{rows} LEFT JOIN LATERAL UNNEST(z.l) AS u(x) ON true"),
            "1-10,1-20,2-30",
        ),
        (
            format!("{rows} JOIN LATERAL (SELECT unnest(z.l) + z.x AS x) AS u ON u.x > 11"),
            "1-21,2-32",
        ),
    ] {
        let sql = format!("SELECT string_agg(z.x || '-' || u.x, ',' ORDER BY z.x, u.x) FROM {from}");
        assert_eq!(value(&ctx, &sql).await.1.as_deref(), Some(expected), "{from}");
    }
}

#[tokio::test]
async fn type_names_of_duckdb_are_types() {
    let ctx = session();
    for (call, expected) in [
        ("CAST(200 AS UTINYINT)", "200"),
        ("CAST('65535' AS USMALLINT)", "65535"),
        ("4294967295::UINTEGER", "4294967295"),
        ("18446744073709551615::UBIGINT", "18446744073709551615"),
        ("arrow_typeof(5::UBIGINT)", "UInt64"),
        (
            "170141183460469231731687303715884105::HUGEINT",
            "170141183460469231731687303715884105",
        ),
        ("CAST(-128 AS INT1)", "-128"),
        ("arrow_typeof(CAST(1 AS SHORT))", "Int16"),
        ("arrow_typeof(CAST(1 AS LONG))", "Int64"),
        ("CAST('true' AS LOGICAL)", "true"),
        ("CAST(CAST('abc' AS BLOB) AS VARCHAR)", "abc"),
        ("arrow_typeof(CAST('abc' AS VARBINARY(2)))", "Binary"),
        (
            "arrow_typeof(CAST('2024-01-01 10:00:00' AS DATETIME))",
            "Timestamp(ns)",
        ),
        ("arrow_typeof('2024-01-01 10:00:00'::TIMESTAMP_S)", "Timestamp(s)"),
        (
            "CAST('2024-01-01 10:00:00.123' AS TIMESTAMP_MS)",
            "2024-01-01T10:00:00.123",
        ),
        ("CAST([1, 2] AS UINTEGER[])[2]", "2"),
    ] {
        assert_eq!(
            value(&ctx, &format!("SELECT {call}")).await.1.as_deref(),
            Some(expected),
            "{call}"
        );
    }
    let table = "CREATE TABLE typed (a UBIGINT, b BLOB, c TIMESTAMP_S, d UINTEGER DEFAULT 7)";
    crate::sql(&ctx, table)
        .await
        .expect("a table")
        .collect()
        .await
        .expect("created");
    crate::sql(&ctx, "INSERT INTO typed (a) VALUES (18446744073709551615)")
        .await
        .expect("a statement")
        .collect()
        .await
        .expect("inserted");
    let (_, found) = value(&ctx, "SELECT a || '-' || d FROM typed").await;
    assert_eq!(found.as_deref(), Some("18446744073709551615-7"));
}

#[tokio::test]
async fn aggregates_keep_their_clauses() {
    let ctx = session();
    let rows =
        "(VALUES ('a', 1, 10), ('b', 3, 20), ('c', NULL, 30), (NULL, 9, 40), ('d', 2, 50)) AS t(name, v, w)";
    for (call, expected) in [
        ("arg_max(name, v)", "b"),
        ("arg_min(name, v)", "a"),
        ("max_by(name, w) FILTER (WHERE w < 25)", "b"),
        ("count_if(v > 1)", "3"),
        ("count_if(v > 1) FILTER (WHERE w > 10)", "3"),
        ("group_concat(name, '-' ORDER BY name)", "a-b-c-d"),
        ("len(string_agg(name, ''))", "4"),
        ("group_concat(name ORDER BY name)", "a,b,c,d"),
        (
            "listagg(DISTINCT name ORDER BY name) FILTER (WHERE w < 25)",
            "a,b",
        ),
        ("string_agg(name ORDER BY w DESC)", "d,c,b,a"),
        ("list_first(array_agg(w ORDER BY w DESC))", "50"),
        ("array_length(list(DISTINCT v))", "5"),
        ("quantile_cont(w, 0.5)", "30"),
    ] {
        let found = value(&ctx, &format!("SELECT {call} FROM {rows}")).await.1;
        let found = found.as_deref().map(|found| found.trim_end_matches(".0"));
        assert_eq!(found, Some(expected), "{call}");
    }
    let over = format!("SELECT max(n) FROM (SELECT count_if(v > 1) OVER (ORDER BY w) AS n FROM {rows})");
    assert_eq!(value(&ctx, &over).await.1.as_deref(), Some("3"));
    let by = format!(
        "SELECT count(*) FROM (SELECT year(day), count(*) FROM (SELECT DATE '2024-01-01' + CASE WHEN w > 20 THEN INTERVAL '1 day' ELSE INTERVAL '2 days' END AS day FROM {rows}) GROUP BY year(day))"
    );
    assert_eq!(value(&ctx, &by).await.1.as_deref(), Some("1"));
}

#[test]
fn guide_lists_all_functions() {
    let guide = include_str!("../../../../../docs/src/guide/duckdb.md");
    let names = super::RENAMED.iter().map(|(name, _)| *name);
    let names = names.chain(super::REWRITTEN.iter().map(|(name, _, _)| *name));
    for name in names.chain(json::names()).chain(lambdas::names()) {
        let listed = [format!("`{name}`"), format!("`{name}(")];
        assert!(listed.iter().any(|text| guide.contains(text)), "{name}");
    }
}

#[tokio::test]
async fn functions_of_the_session_are_called() {
    use datafusion::arrow::array::Int64Array;
    use datafusion::logical_expr::{ColumnarValue, Volatility, create_udf};
    use std::sync::Arc;
    let ctx = session();
    let own = |_: &[ColumnarValue]| Ok(ColumnarValue::Array(Arc::new(Int64Array::from(vec![42]))));
    ctx.register_udf(create_udf(
        "year",
        vec![DataType::Date32],
        DataType::Int64,
        Volatility::Volatile,
        Arc::new(own),
    ));
    let found = value(&ctx, "SELECT year(DATE '2024-02-29')").await.1;
    assert_eq!(found.as_deref(), Some("42"));
}
