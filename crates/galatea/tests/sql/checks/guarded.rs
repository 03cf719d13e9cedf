//! AND, OR, CASE, COALESCE and FILTER are guards: an operand raises errors only for the rows that need it.

use super::{Error, Rows, check, check_with};

const NUMBERS: (&str, &str) = (
    "n",
    "SELECT value AS a, value % 3 AS b FROM generate_series(0, 9)",
);

#[tokio::test]
async fn filter_conditions_guard_later_conditions() {
    check(
        &[NUMBERS],
        &[
            ("SELECT count(*) FROM n WHERE a <> 0 AND 10 / a > 2", Rows(&["3"])),
            (
                "SELECT a FROM n WHERE a <> 0 AND a < 9 AND 10 / a > 2 AND 10 % a = 1",
                Rows(&["3"]),
            ),
            ("SELECT count(*) FROM n WHERE a = 0 OR 10 / a > 2", Rows(&["4"])),
            (
                "SELECT count(*) FROM n WHERE NOT (a = 0 OR 10 / a <= 2)",
                Rows(&["3"]),
            ),
            (
                "SELECT count(*) FROM n WHERE b <> 0 AND (a = 1 OR a / b > 3)",
                Rows(&["4"]),
            ),
            (
                "SELECT count(*) FROM n WHERE 10 / a > 2",
                Error("division by zero in"),
            ),
            (
                "SELECT count(*) FROM n WHERE a < 5 AND 10 / a > 2",
                Error("division by zero in"),
            ),
            (
                "SELECT count(*) FROM (SELECT a FROM n WHERE a <> 0) WHERE 10 / a > 2",
                Rows(&["3"]),
            ),
            (
                "SELECT count(*) FROM (SELECT a, 10 / a AS q FROM n WHERE a <> 0) WHERE q > 2",
                Rows(&["3"]),
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn join_conditions_guard_later_conditions() {
    check(
        &[NUMBERS],
        &[
            (
                "SELECT count(*) FROM n x JOIN n y ON x.a = y.a AND (x.a = 0 OR 10 / y.a > 2)",
                Rows(&["4"]),
            ),
            (
                "SELECT count(*) FROM n x JOIN n y ON x.a = y.a WHERE x.a <> 0 AND 10 / x.a > 2",
                Rows(&["3"]),
            ),
            (
                "SELECT count(*) FROM n x LEFT JOIN n y ON x.a = y.a AND (x.b = 0 OR y.a / x.b > 3)",
                Rows(&["10"]),
            ),
            (
                "SELECT count(y.a) FROM n x LEFT JOIN n y ON x.a = y.a AND x.b <> 0 AND y.a / x.b > 3",
                Rows(&["3"]),
            ),
            (
                "SELECT count(*) FROM n x JOIN n y ON x.a < y.a AND x.a <> 0 AND y.a / x.a > 8",
                Rows(&["1"]),
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn guarded_values_raise_no_errors_for_skipped_rows() {
    check(
        &[NUMBERS],
        &[
            (
                "SELECT a FROM n WHERE CASE WHEN a = 0 THEN false ELSE 10 / a > 4 END",
                Rows(&["1", "2"]),
            ),
            (
                "SELECT a <> 0 AND 10 / a > 4 AS r FROM n WHERE a < 4",
                Rows(&["false", "false", "true", "true"]),
            ),
            (
                "SELECT coalesce(nullif(b, 0), 1 / (b - 0) + 7, 3) FROM n WHERE b > 0 AND a < 3",
                Rows(&["1", "2"]),
            ),
            ("SELECT sum(10 / a) FILTER (WHERE a <> 0) FROM n", Rows(&["26"])),
            (
                "SELECT b, sum(10 / a) FILTER (WHERE a <> 0) FROM n GROUP BY b",
                Rows(&["0|5", "1|13", "2|8"]),
            ),
            (
                "SELECT count(*) FILTER (WHERE a <> 0 AND 10 / a > 2) FROM n",
                Rows(&["3"]),
            ),
            (
                "SELECT max(a), (a = 0 OR 10 / a > 2) FROM n GROUP BY (a = 0 OR 10 / a > 2)",
                Rows(&["3|true", "9|false"]),
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn untaken_branches_raise_no_errors() {
    check(
        &[NUMBERS],
        &[
            ("SELECT count(*) FROM n WHERE a >= 0 OR 1 / 0 > 2", Rows(&["10"])),
            ("SELECT count(*) FROM n WHERE a < 0 AND 1 / 0 > 2", Rows(&["0"])),
            (
                "SELECT count(*) FROM n WHERE CASE WHEN a < 100 THEN a = 1 ELSE 1 / 0 = 1 END",
                Rows(&["1"]),
            ),
            (
                "SELECT sum(CASE WHEN a < 0 THEN 1 / 0 ELSE a END) FROM n",
                Rows(&["45"]),
            ),
            ("SELECT CASE WHEN false THEN 1 / 0 ELSE 2 END", Rows(&["2"])),
            (
                "SELECT false AND 1 / 0 = 1, true OR 1 / 0 = 1",
                Rows(&["false|true"]),
            ),
            ("SELECT coalesce(1, 1 / 0)", Rows(&["1"])),
            (
                "SELECT coalesce(x, 1 / y) AS r FROM (VALUES (5, 0), (6, 0)) t(x, y)",
                Rows(&["5", "6"]),
            ),
            (
                "SELECT CASE WHEN false THEN 9223372036854775807 + 1 ELSE 2 END",
                Rows(&["2"]),
            ),
            (
                "SELECT sum(CASE WHEN a < 0 THEN 9223372036854775807 + 1 ELSE a END) FROM n",
                Rows(&["45"]),
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn guards_hold_in_file_scans() {
    for reorder in ["false", "true"] {
        check_with(
            &[
                ("datafusion.execution.parquet.pushdown_filters", "true"),
                ("datafusion.execution.parquet.reorder_filters", reorder),
            ],
            &[NUMBERS],
            &[
                ("SELECT count(*) FROM n WHERE a <> 0 AND 10 / a > 2", Rows(&["3"])),
                ("SELECT count(*) FROM n WHERE a = 0 OR 10 / a > 2", Rows(&["4"])),
            ],
        )
        .await;
    }
}

/// If a condition raises an error for rows that the first one drops, it is evaluated again separately, for
/// any number of subsequent conditions.
#[tokio::test]
async fn guard_chains_take_linear_time() {
    let conditions: Vec<String> = (0..40).map(|less| format!("100 / a > 10 - {less}")).collect();
    let left = format!(
        "SELECT count(*) FROM n WHERE a <> 0 AND {}",
        conditions.join(" AND ")
    );
    let right = conditions
        .iter()
        .rev()
        .fold("a >= 0".to_owned(), |all, condition| {
            format!("{condition} AND ({all})")
        });
    let right = format!("SELECT count(*) FROM n WHERE a <> 0 AND ({right})");
    let either = format!(
        "SELECT count(*) FROM n WHERE a = 0 OR NOT ({})",
        conditions.join(" AND ")
    );
    check(
        &[NUMBERS],
        &[
            (&left, Rows(&["9"])),
            (&right, Rows(&["9"])),
            (&either, Rows(&["1"])),
        ],
    )
    .await;
}

/// DataFusion does not sort by columns that a filter makes constant.
#[tokio::test]
async fn guarded_conditions_preserve_constant_columns() {
    let windows = |constant: &str, value: i64| {
        format!(
            "SELECT max(r), sum(r) FROM (SELECT row_number() OVER (PARTITION BY {constant} ORDER BY a) AS r \
             FROM n WHERE b = 1 AND 100 / a > 10 AND {constant} = {value})"
        )
    };
    let (plain, raising) = (windows("b", 1), windows("100 / a / 101", 0));
    let different: Vec<String> = (0..60).map(|less| format!("100 / a > 10 - {less}")).collect();
    let deep = plain.replace("100 / a > 10", &different.join(" AND "));
    for partitions in ["1", "16"] {
        check_with(
            &[
                ("datafusion.execution.target_partitions", partitions),
                ("datafusion.sql_parser.recursion_limit", "2000"),
            ],
            &[NUMBERS],
            &[
                (&plain, Rows(&["3|6"])),
                (&raising, Rows(&["3|6"])),
                (&deep, Rows(&["3|6"])),
            ],
        )
        .await;
    }
}

#[tokio::test]
async fn order_by_keys_are_guarded() {
    check(
        &[NUMBERS],
        &[
            (
                "SELECT a FROM n ORDER BY a <> 0 AND 10 / a > 2 DESC, a LIMIT 4",
                Rows(&["0", "1", "2", "3"]),
            ),
            (
                "SELECT a FROM n ORDER BY a <> 0 AND 10 / a > 2 DESC, a LIMIT 1 OFFSET 3",
                Rows(&["0"]),
            ),
            (
                "SELECT a FROM n ORDER BY a = 0 OR 10 / a > 2, a DESC LIMIT 1 OFFSET 6",
                Rows(&["3"]),
            ),
            (
                "SELECT a FROM n ORDER BY CASE WHEN a = 0 THEN 0 ELSE 10 / a END DESC, a LIMIT 2 OFFSET 8",
                Rows(&["0", "9"]),
            ),
            (
                "SELECT a FROM n ORDER BY coalesce(nullif(a, 5), 10 / (a - 4)) DESC, a LIMIT 2",
                Rows(&["5", "9"]),
            ),
            (
                "SELECT sum(s) FROM (SELECT a AS s FROM n ORDER BY b <> 0 AND a / b > 3 DESC, a LIMIT 5) q",
                Rows(&["20"]),
            ),
            (
                "SELECT first_value(a ORDER BY a = 0 OR 10 / a > 2, a) FROM n",
                Rows(&["4"]),
            ),
            (
                "SELECT a FROM n ORDER BY 10 / a LIMIT 1",
                Error("division by zero in"),
            ),
            (
                "SELECT a FROM n ORDER BY a < 5 AND 10 / a > 2, a LIMIT 1",
                Error("division by zero in"),
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn window_arguments_and_keys_are_guarded() {
    check(
        &[NUMBERS],
        &[
            (
                "SELECT a, lag(CASE WHEN a <> 0 THEN 10 / a END) OVER (ORDER BY a) AS r FROM n WHERE a < 3",
                Rows(&["0|", "1|", "2|10"]),
            ),
            (
                "SELECT a, lag(a <> 0 AND 10 / a > 4) OVER (ORDER BY a) AS r FROM n WHERE a < 3",
                Rows(&["0|", "1|false", "2|true"]),
            ),
            (
                "SELECT a, lead(coalesce(nullif(a, 2), 10 / (a - 1))) OVER (ORDER BY a) AS r FROM n WHERE a < 3",
                Rows(&["0|1", "1|10", "2|"]),
            ),
            (
                "SELECT a, sum(CASE WHEN a <> 0 THEN 10 / a ELSE 0 END) OVER (ORDER BY a) AS r FROM n WHERE a < 3",
                Rows(&["0|0", "1|10", "2|15"]),
            ),
            (
                "SELECT a, sum(10 / a) FILTER (WHERE a <> 0) OVER (ORDER BY a) AS r FROM n WHERE a < 3",
                Rows(&["0|", "1|10", "2|15"]),
            ),
            (
                "SELECT count(10 / a) FILTER (WHERE a > 0 AND 10 / a > 5) AS r, sum(10 / a) FILTER (WHERE a > 0 AND 10 / a < 3) AS s FROM n",
                Rows(&["1|8"]),
            ),
            (
                "SELECT a, count(10 / a) FILTER (WHERE a > 0 AND 10 / a > 5) OVER () AS r FROM n WHERE a < 3",
                Rows(&["0|1", "1|1", "2|1"]),
            ),
            (
                "SELECT a, count(*) FILTER (WHERE a = 0 OR 10 / a > 5) OVER (PARTITION BY b) AS r FROM n WHERE a < 4",
                Rows(&["0|1", "1|1", "2|0", "3|1"]),
            ),
            (
                "SELECT a, bool_or(10 / a > 2) FILTER (WHERE a <> 0) OVER (ORDER BY a) AS r FROM n WHERE a < 2",
                Rows(&["0|", "1|true"]),
            ),
            (
                "SELECT a, count(*) OVER (PARTITION BY a <> 0 AND 10 / a > 4) AS r FROM n WHERE a < 4",
                Rows(&["0|2", "1|2", "2|2", "3|2"]),
            ),
            (
                "SELECT a, row_number() OVER (ORDER BY a <> 0 AND 10 / a > 4, a) AS r FROM n WHERE a < 4",
                Rows(&["0|1", "1|3", "2|4", "3|2"]),
            ),
            (
                "SELECT b, sum(sum(10 / a) FILTER (WHERE a <> 0)) OVER () AS r FROM n GROUP BY b",
                Rows(&["0|26", "1|26", "2|26"]),
            ),
            (
                "SELECT b, sum(10 / sum(a)) FILTER (WHERE b <> 0) OVER () AS r FROM n WHERE a < 3 GROUP BY b",
                Rows(&["0|15", "1|15", "2|15"]),
            ),
            // A window function is computed for all rows, even if only some are read.
            (
                "SELECT CASE WHEN a > 5 THEN lag(10 / a) OVER (ORDER BY a) END FROM n",
                Error("division by zero in"),
            ),
            (
                "SELECT sum(10 / a) FILTER (WHERE a < 5) OVER () FROM n",
                Error("division by zero in"),
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn conditions_of_all_join_types_are_guarded() {
    check(
        &[NUMBERS],
        &[
            (
                "SELECT count(*), sum(x.a) FROM n x WHERE EXISTS (SELECT 1 FROM n y WHERE y.a = x.a AND y.a <> 0 AND 10 / y.a > 2)",
                Rows(&["3|6"]),
            ),
            (
                "SELECT count(*), sum(x.a) FROM n x WHERE NOT EXISTS (SELECT 1 FROM n y WHERE y.a = x.a AND (x.a = 0 OR 10 / y.a > 2))",
                Rows(&["6|39"]),
            ),
            (
                "SELECT count(*), count(x.a), count(y.a) FROM n x FULL JOIN n y ON x.a = y.a AND x.a <> 0 AND 10 / x.a > 2",
                Rows(&["17|10|10"]),
            ),
            (
                "SELECT count(*), count(x.a) FROM n x RIGHT JOIN n y ON x.a = y.a AND CASE WHEN x.a = 0 THEN true ELSE 10 / y.a > 2 END",
                Rows(&["10|4"]),
            ),
            (
                "SELECT count(*) FROM n x JOIN n y ON CASE WHEN x.a = 0 THEN 0 ELSE 10 / x.a END = y.a",
                Rows(&["9"]),
            ),
            (
                "SELECT count(*) FROM n x JOIN n y ON (x.a = 0 OR 10 / x.a > 2) = (y.a = 0 OR 10 / y.a > 2)",
                Rows(&["52"]),
            ),
            (
                "SELECT count(*) FROM n x JOIN n y ON coalesce(nullif(x.a, 5), 10 / (x.a - 4)) = y.a",
                Rows(&["9"]),
            ),
            (
                "SELECT count(*) FROM n x LEFT JOIN n y ON x.a < y.a AND (x.a = 0 OR y.a / x.a > 8)",
                Rows(&["18"]),
            ),
            (
                "SELECT count(*) FROM n x JOIN n y ON x.a = y.a AND 10 / x.a > 2",
                Error("division by zero in"),
            ),
        ],
    )
    .await;
}
