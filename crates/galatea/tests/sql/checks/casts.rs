//! Casts of strings read the notations that PostgreSQL and DuckDB share.

use super::{Error, Rows, check};

#[tokio::test]
async fn constants() {
    check(
        &[],
        &[
            ("SELECT CAST(CAST('2011-05-06 12:34' AS TIMESTAMP) AS VARCHAR)", Rows(&["2011-05-06T12:34:00"])),
            ("SELECT CAST(TRY_CAST('2011-05-06 12:34' AS TIMESTAMP) AS VARCHAR)", Rows(&["2011-05-06T12:34:00"])),
            ("SELECT TIMESTAMP '2011-5-6T9:05' = TIMESTAMP '2011-05-06 09:05:00'", Rows(&["true"])),
            ("SELECT CAST(CAST('2011/05/06 12:34:56.5+02:00' AS TIMESTAMP) AS VARCHAR)", Rows(&["2011-05-06T10:34:56.500"])),
            ("SELECT CAST(CAST('2011-05-06 12:34Z' AS TIMESTAMP) AS VARCHAR)", Rows(&["2011-05-06T12:34:00"])),
            ("SELECT CAST('2011-5-6' AS DATE), CAST(' 2011-05-06 ' AS DATE)", Rows(&["2011-05-06|2011-05-06"])),
            ("SELECT CAST(' 42 ' AS INT), CAST('+5' AS INT), CAST('1_000' AS BIGINT)", Rows(&["42|5|1000"])),
            ("SELECT CAST(' 1.5 ' AS DOUBLE), CAST(' 42 ' AS DECIMAL(5,1)), CAST('1e3' AS DOUBLE)", Rows(&["1.5|42.0|1000.0"])),
            ("SELECT CAST('t' AS BOOLEAN), CAST('yes' AS BOOLEAN), CAST('on' AS BOOLEAN), CAST(' off ' AS BOOLEAN)", Rows(&["true|true|true|false"])),
            ("SELECT CAST('1e3' AS INT)", Error("Cannot cast string '1e3'")),
            ("SELECT CAST('4.5' AS INT)", Error("Cannot cast string '4.5'")),
            ("SELECT CAST('1__0' AS INT)", Error("Cannot cast string '1__0'")),
            ("SELECT CAST('2011-13-06 12:34' AS TIMESTAMP)", Error("2011-13-06 12:34")),
            ("SELECT TRY_CAST('2011-02-30' AS DATE), TRY_CAST('x' AS INT), TRY_CAST('' AS INT)", Rows(&["||"])),
        ],
    )
    .await;
}

#[tokio::test]
async fn columns() {
    let rows = "SELECT * FROM (VALUES (1, '2011-05-06 12:34', ' 42 '), (2, '2011-5-6', '1_000'), (3, '2011-05-06T12:34:56Z', '+5'),
        (4, NULL, NULL), (5, 'x', 'y')) AS v(k, t, n)";
    check(
        &[("c", rows)],
        &[
            ("SELECT sum(CAST(n AS INT)) FROM c WHERE k < 5", Rows(&["1047"])),
            (
                "SELECT sum(TRY_CAST(n AS BIGINT)), count(TRY_CAST(t AS TIMESTAMP)) FROM c",
                Rows(&["1047|3"]),
            ),
            ("SELECT CAST(n AS INT) FROM c", Error("Cannot cast string 'y'")),
            (
                "SELECT k FROM c WHERE k < 5 AND CAST(t AS TIMESTAMP) > TIMESTAMP '2011-05-06 12:34'",
                Rows(&["3"]),
            ),
            (
                "SELECT max(CAST(t AS TIMESTAMP)) FROM c WHERE k < 4",
                Rows(&["2011-05-06T12:34:56"]),
            ),
            (
                "SELECT k FROM c WHERE TRY_CAST(t AS DATE) = DATE '2011-05-06' AND k > 1",
                Rows(&["2", "3"]),
            ),
        ],
    )
    .await;
}
