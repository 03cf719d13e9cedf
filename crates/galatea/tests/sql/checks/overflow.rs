//! Results that exceed their types are errors, and others are exact, for any order of rows.

use super::{Error, Rows, check, check_with, run, session};
use galatea_engine::report::QueryDevice;

const OVERFLOW: super::Answer = Error("verflow");

/// Integers at the extremes of their types.
const ENDS: (&str, &str) = (
    "e",
    "SELECT * FROM (VALUES (1, 9223372036854775807, CAST(2147483647 AS INT)), (2, -9223372036854775808, CAST(-2147483648 AS INT)),
     (3, 5, CAST(7 AS INT)), (4, NULL, NULL)) AS v(k, a, i)",
);

#[tokio::test]
async fn constants() {
    check(
        &[],
        &[
            ("SELECT 9223372036854775807 + 1", OVERFLOW),
            ("SELECT -9223372036854775807 - 2", OVERFLOW),
            ("SELECT 9223372036854775807 * 2", OVERFLOW),
            ("SELECT -(-9223372036854775807 - 1)", OVERFLOW),
            ("SELECT abs(-9223372036854775807 - 1)", OVERFLOW),
            ("SELECT CAST(2147483647 AS INT) + CAST(1 AS INT)", OVERFLOW),
            ("SELECT x + 1 FROM (SELECT 9223372036854775807 AS x)", OVERFLOW),
            ("SELECT coalesce(9223372036854775807, 0) + 1", OVERFLOW),
            ("SELECT * FROM (VALUES (9223372036854775807 + 1))", OVERFLOW),
            (
                "SELECT 9223372036854775807 + 0, 9223372036854775806 + 1, 3 - 5, 4 * -2",
                Rows(&["9223372036854775807|9223372036854775807|-2|-8"]),
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn integer_expressions() {
    check(
        &[ENDS],
        &[
            ("SELECT a + 1 FROM e", OVERFLOW),
            ("SELECT a - 1 FROM e", OVERFLOW),
            ("SELECT a * 2 FROM e", OVERFLOW),
            ("SELECT -a FROM e", OVERFLOW),
            ("SELECT abs(a) FROM e", OVERFLOW),
            ("SELECT i + i FROM e", OVERFLOW),
            ("SELECT k FROM e WHERE a + k > 0", OVERFLOW),
            ("SELECT count(*) FROM e GROUP BY a + 1", OVERFLOW),
            ("SELECT k FROM e ORDER BY a * 2", OVERFLOW),
            ("SELECT max(a + 1) FROM e", OVERFLOW),
            ("SELECT sum(a + 1) OVER (ORDER BY k) FROM e", OVERFLOW),
            ("SELECT x.k FROM e x JOIN e y ON x.a + 1 = y.a", OVERFLOW),
            (
                "SELECT a + 1 FROM e WHERE k >= 2",
                Rows(&["", "-9223372036854775807", "6"]),
            ),
            (
                "SELECT a - 1 FROM e WHERE k <> 2",
                Rows(&["", "4", "9223372036854775806"]),
            ),
            (
                "SELECT -a FROM e WHERE k <> 2",
                Rows(&["", "-5", "-9223372036854775807"]),
            ),
            ("SELECT k FROM e WHERE k = 3 AND a * 1000 > 0", Rows(&["3"])),
            (
                "SELECT k FROM e WHERE k > 1 AND k < 4 AND -(a + 1) < 0",
                Rows(&["3"]),
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn sums_of_integers() {
    let rows = "SELECT * FROM (VALUES (1, 9223372036854775807, 0), (1, 9223372036854775807, 1), (1, -9223372036854775807, 2),
        (2, 9223372036854775807, 3), (2, -5, 4), (2, NULL, 5), (3, NULL, 6)) AS v(k, a, o)";
    check(
        &[("s", rows)],
        &[
            // Partial sums exceed the type in any order; these totals do not.
            ("SELECT sum(a) FROM s WHERE k = 1", Rows(&["9223372036854775807"])),
            ("SELECT sum(a) FROM s WHERE k = 2", Rows(&["9223372036854775802"])),
            ("SELECT sum(a) FROM s WHERE k = 3", Rows(&[""])),
            ("SELECT sum(a) FROM s", OVERFLOW),
            ("SELECT k, sum(a) FROM s GROUP BY k", Rows(&["1|9223372036854775807", "2|9223372036854775802", "3|"])),
            ("SELECT k, sum(a) FROM s WHERE a > 0 GROUP BY k", OVERFLOW),
            ("SELECT sum(a) FILTER (WHERE a > 0) FROM s", OVERFLOW),
            ("SELECT sum(a) FILTER (WHERE a > 0 AND k = 2) FROM s", Rows(&["9223372036854775807"])),
            ("SELECT sum(DISTINCT a) FROM s", Rows(&["-5"])),
            ("SELECT sum(DISTINCT a + k) FROM s WHERE a < 0", OVERFLOW),
            ("SELECT sum(DISTINCT a + k) FROM s WHERE a < 0 AND k = 2", Rows(&["-3"])),
            ("SELECT count(*) FROM (SELECT k FROM s GROUP BY k HAVING sum(a) > 0)", Rows(&["2"])),
            ("SELECT sum(a) OVER (PARTITION BY k ORDER BY o ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM s WHERE k = 2", Rows(&[
                "-5", "9223372036854775802", "9223372036854775807",
            ])),
            ("SELECT sum(a) OVER (PARTITION BY k ORDER BY o) FROM s", OVERFLOW),
            ("SELECT sum(a) OVER (PARTITION BY k) FROM s WHERE k = 1", Rows(&[
                "9223372036854775807", "9223372036854775807", "9223372036854775807",
            ])),
            ("SELECT sum(a) OVER (ORDER BY o ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM s WHERE k = 1", OVERFLOW),
        ],
    )
    .await;
}

#[tokio::test]
async fn sums_of_many_integers() {
    let rows = "SELECT CASE WHEN value % 2 = 0 THEN 9223372036854775800 ELSE -9223372036854775800 END AS a, value % 7 AS k
        FROM generate_series(0, 20000)";
    check(
        &[("m", rows)],
        &[
            ("SELECT sum(a) FROM m", Rows(&["9223372036854775800"])),
            ("SELECT sum(a) FROM m WHERE a > 0", OVERFLOW),
            (
                "SELECT count(*) FROM (SELECT k, sum(a) FROM m GROUP BY k)",
                Rows(&["7"]),
            ),
            ("SELECT sum(a / 1000) FROM m WHERE a > 0 AND k = 100", Rows(&[""])),
            (
                "SELECT sum(a / 100000) FROM m WHERE a > 0",
                Rows(&["922429437405838547"]),
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn unsigned_and_narrow_integers() {
    let rows = "SELECT arrow_cast(a, 'UInt64') AS u, arrow_cast(b, 'Int8') AS t
        FROM (VALUES (18446744073709551615, 127), (1, -128)) AS v(a, b)";
    check(
        &[("u", rows)],
        &[
            ("SELECT sum(u) FROM u", OVERFLOW),
            ("SELECT sum(u) FROM u WHERE t < 0", Rows(&["1"])),
            ("SELECT u - arrow_cast(2, 'UInt64') FROM u", OVERFLOW),
            ("SELECT t + t FROM u", OVERFLOW),
            ("SELECT sum(t) FROM u", Rows(&["-1"])),
        ],
    )
    .await;
}

#[tokio::test]
async fn decimals() {
    let rows = "SELECT k, CAST(d AS DECIMAL(38,0)) AS d FROM (VALUES (1, '99999999999999999999999999999999999999'),
        (1, '99999999999999999999999999999999999999'), (2, '-99999999999999999999999999999999999999'), (3, '7'))
        AS v(k, d)";
    check(
        &[("d", rows)],
        &[
            ("SELECT sum(d) FROM d WHERE k = 1", OVERFLOW),
            ("SELECT sum(d) FROM d", OVERFLOW),
            (
                "SELECT sum(d) FROM d WHERE k > 1",
                Rows(&["-99999999999999999999999999999999999992"]),
            ),
            ("SELECT k, sum(d) FROM d GROUP BY k", OVERFLOW),
            (
                "SELECT k, sum(d) FROM d WHERE k > 1 GROUP BY k",
                Rows(&["2|-99999999999999999999999999999999999999", "3|7"]),
            ),
            ("SELECT sum(DISTINCT d) FROM d", Rows(&["7"])),
            ("SELECT d + d FROM d WHERE k = 1", OVERFLOW),
            ("SELECT d + 1 FROM d WHERE k = 1", OVERFLOW),
            ("SELECT d - 1 FROM d WHERE k = 2", OVERFLOW),
            ("SELECT d * 10 FROM d WHERE k = 1", OVERFLOW),
            (
                "SELECT d + 1, d - 10, d * 11 FROM d WHERE k = 3",
                Rows(&["8|-3|77"]),
            ),
            ("SELECT avg(d) FROM d WHERE k = 3", Rows(&["7.0000"])),
            (
                "SELECT sum(d) OVER (ORDER BY k) FROM d WHERE k > 1",
                Rows(&[
                    "-99999999999999999999999999999999999992",
                    "-99999999999999999999999999999999999999",
                ]),
            ),
            ("SELECT sum(d) OVER () FROM d WHERE k = 1", OVERFLOW),
        ],
    )
    .await;
}

#[tokio::test]
async fn wrap_setting_disables_overflow_errors() {
    check_with(
        &[("galatea.overflow", "wrap")],
        &[ENDS],
        &[
            ("SELECT 9223372036854775807 + 1", Rows(&["-9223372036854775808"])),
            ("SELECT a + 1 FROM e WHERE k = 1", Rows(&["-9223372036854775808"])),
            ("SELECT -a FROM e WHERE k = 2", Rows(&["-9223372036854775808"])),
            (
                "SELECT sum(a) FROM e WHERE k <> 2",
                Rows(&["-9223372036854775804"]),
            ),
            (
                "SELECT k, sum(a + 1) FROM e WHERE k < 3 GROUP BY k",
                Rows(&["1|-9223372036854775808", "2|-9223372036854775807"]),
            ),
            (
                "SELECT sum(a) OVER (ORDER BY k) FROM e WHERE k = 1 OR k = 3",
                Rows(&["-9223372036854775804", "9223372036854775807"]),
            ),
            (
                "SELECT k, lead(a + 1) OVER (ORDER BY k DESC) AS r FROM e WHERE k < 3",
                Rows(&["1|", "2|-9223372036854775808"]),
            ),
            (
                "SELECT k, lag(a + 1) OVER (ORDER BY k) AS r FROM e WHERE k < 3",
                Rows(&["1|", "2|-9223372036854775808"]),
            ),
            (
                "SELECT k, max(a + 1) OVER (PARTITION BY k) AS r FROM e WHERE k = 1",
                Rows(&["1|-9223372036854775808"]),
            ),
        ],
    )
    .await;
}

/// Of decimals, only sums wrap; `+`, `-` and `*` use the bits beyond the digits of the type. Errors name the
/// remedy, which holds in both modes.
#[tokio::test]
async fn decimals_do_not_wrap_like_integers() {
    let numbers: (&str, &str) = (
        "n",
        "SELECT CAST('60000000000000000000000000000000000000' AS DECIMAL(38, 0)) AS d, \
         CAST('99999999999999999999999999999999999999' AS DECIMAL(38, 0)) AS e FROM generate_series(1, 4)",
    );
    let remedy = "hint: cast to more digits: DECIMAL(76, s)";
    check_with(
        &[("galatea.overflow", "error")],
        &[numbers],
        &[
            ("SELECT d + d FROM n", Error(remedy)),
            ("SELECT max(e * 10) FROM n", Error(remedy)),
            ("SELECT sum(e) FROM n", Error(remedy)),
        ],
    )
    .await;
    check_with(
        &[("galatea.overflow", "wrap")],
        &[numbers],
        &[
            (
                "SELECT max(d + d) - max(d) FROM n",
                Rows(&["60000000000000000000000000000000000000"]),
            ),
            ("SELECT max(e * 10) FROM n", Error(remedy)),
            // 24 * 10^37 exceeds 2^127.
            ("SELECT sum(d) < 0 FROM n", Rows(&["true"])),
            (
                "SELECT sum(CAST(e AS DECIMAL(76, 0))) FROM n",
                Rows(&["399999999999999999999999999999999999996"]),
            ),
        ],
    )
    .await;
}

/// An update wraps or fails like a query. A failed update changes nothing.
#[tokio::test]
async fn updates_respect_the_overflow_setting() {
    for device in ["cpu", "emulated"] {
        let ctx = session(device, 2, &[]);
        let made = "CREATE TABLE t AS SELECT * FROM (VALUES (1, 9223372036854775807), (2, 5)) t(k, a)";
        run(&ctx, made).await.expect("a table");
        let update = "UPDATE t SET a = a + 1 WHERE k < 3";
        let error = run(&ctx, update).await.expect_err("an overflow");
        assert!(error.to_lowercase().contains("overflow"), "{device}: {error}");
        let before = Ok(vec!["1|9223372036854775807".to_owned(), "2|5".to_owned()]);
        assert_eq!(run(&ctx, "SELECT k, a FROM t").await, before, "{device}");
        run(&ctx, "SET galatea.overflow = 'wrap'")
            .await
            .expect("a setting");
        run(&ctx, update).await.expect("an update");
        let after = Ok(vec!["1|-9223372036854775808".to_owned(), "2|6".to_owned()]);
        assert_eq!(run(&ctx, "SELECT k, a FROM t").await, after, "{device}");
    }
}

/// A plan that was cached under one mode is not used under the other.
#[tokio::test]
async fn cached_plans_respect_the_overflow_setting() {
    for device in ["cpu", "emulated"] {
        let ctx = session(device, 2, &[]);
        run(&ctx, "CREATE TABLE t AS SELECT 9223372036854775807 AS a")
            .await
            .expect("a table");
        for _ in 0..2 {
            for (mode, fails) in [("error", true), ("wrap", false)] {
                run(&ctx, &format!("SET galatea.overflow = '{mode}'"))
                    .await
                    .expect("a setting");
                for _ in 0..2 {
                    let answer = run(&ctx, "SELECT sum(a), max(a + 1) FROM t").await;
                    assert_eq!(answer.is_err(), fails, "{device} {mode}: {answer:?}");
                }
            }
        }
    }
}

/// Sums of decimals that may exceed 128 bits run on the device. Partial sums exceed them and return, totals
/// stay within 128 bits but exceed the type, or exceed 128 bits. Groups also stay there for another pipeline.
#[tokio::test]
async fn decimals_beyond_128_bits_on_the_device() {
    let rows = "SELECT k % 7 AS g, CASE WHEN k % 7 = 6 THEN k ELSE CAST(CASE WHEN k % 2 = 0 THEN '-' ELSE '' END ||
        '99999999999999999999999999999999999999' AS DECIMAL(38,0)) END AS d FROM generate_series(1, 700) AS t(k)";
    let settings = [("galatea.fallback", "error")];
    let ctx = session("emulated", 1, &settings);
    run(&ctx, &format!("CREATE TABLE d AS {rows}"))
        .await
        .expect("a table");
    let sums = "SELECT g, sum(d) AS s, count(*) AS n FROM d GROUP BY g";
    for (sql, rows) in [
        (
            sums.to_owned(),
            &[
                "0|0|100",
                "1|0|100",
                "2|0|100",
                "3|0|100",
                "4|0|100",
                "5|0|100",
                "6|35250|100",
            ][..],
        ),
        ("SELECT sum(d) FROM d".to_owned(), &["35250"]),
        (
            format!("SELECT s + 1 AS s FROM ({sums}) WHERE s > 1 AND n > 0"),
            &["35251"],
        ),
        (
            format!(
                "SELECT d.g, max(s) AS m FROM d JOIN ({sums}) AS s ON d.g = s.g WHERE d.g > 4 GROUP BY d.g"
            ),
            &["5|0", "6|35250"],
        ),
    ] {
        let found = run(&ctx, &sql)
            .await
            .unwrap_or_else(|error| panic!("{sql}\n{error}"));
        assert_eq!(found, rows, "{sql}");
        let report = galatea::last_query_report(&ctx).expect("a report");
        let ran = (report.device, report.fell_back);
        assert_eq!(ran, (QueryDevice::Emulated, 0), "{sql}\n{:?}", report.reasons);
    }
    for sql in [
        "SELECT sum(d) FROM d WHERE d > 0".to_owned(),
        "SELECT sum(d) FROM d WHERE d < 0".to_owned(),
        "SELECT g, sum(d) FROM d WHERE d > 0 OR g > 3 GROUP BY g".to_owned(),
        "SELECT s + 1 AS s FROM (SELECT g, sum(d) AS s FROM d WHERE d < 0 GROUP BY g) WHERE s < 7".to_owned(),
    ] {
        let error = run(&ctx, &sql).await.expect_err(&sql);
        assert!(error.contains("verflow"), "{sql}\n{error}");
    }
}

/// Pre-aggregated sums of matches may exceed the type although the total does not.
#[tokio::test]
async fn preaggregated_sums_before_a_join_do_not_overflow() {
    let tables = [
        (
            "c",
            "SELECT value AS k, 1 AS n FROM generate_series(1, 3) AS t(value)",
        ),
        (
            "o",
            "SELECT value % 2 + 1 AS k, CAST(CASE WHEN value % 2 = 0 THEN '-' ELSE '' END ||
             '60000000000000000000000000000000000000' AS DECIMAL(38,0)) AS a FROM generate_series(1, 4) AS t(value)",
        ),
    ];
    check(
        &tables,
        &[
            (
                "SELECT n, sum(a) FROM c LEFT JOIN o ON c.k = o.k GROUP BY n",
                Rows(&["1|0"]),
            ),
            (
                "SELECT c.k, sum(a) FROM c LEFT JOIN o ON c.k = o.k GROUP BY c.k",
                OVERFLOW,
            ),
        ],
    )
    .await;
}
