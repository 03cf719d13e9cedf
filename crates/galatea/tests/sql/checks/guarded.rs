//! AND, OR, CASE, COALESCE and FILTER guard: an operand raises errors for the rows alone that need it.

use super::{Error, Rows, check, check_with};

const NUMBERS: (&str, &str) = (
    "n",
    "SELECT value AS a, value % 3 AS b FROM generate_series(0, 9)",
);

#[tokio::test]
async fn conditions_of_filters_guard_those_behind() {
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
            ("SELECT count(*) FROM n WHERE 10 / a > 2", Error("Divide by zero")),
            (
                "SELECT count(*) FROM n WHERE a < 5 AND 10 / a > 2",
                Error("Divide by zero"),
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
async fn conditions_of_joins_guard_those_behind() {
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
async fn values_are_computed_for_the_rows_that_need_them() {
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
async fn branches_that_no_row_takes_raise_nothing() {
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
async fn guards_hold_in_scans_of_files() {
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
