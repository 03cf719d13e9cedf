//! Decimals are rounded exactly, and fail if the result has too many digits.

use super::{Error, Rows, check};

#[tokio::test]
async fn decimals_are_rounded_exactly() {
    let rows = "SELECT k, CAST(d AS DECIMAL(38,0)) AS d, CAST(e AS DECIMAL(38,10)) AS e FROM (VALUES
        (1, '99999999999999999999999999999999999999', '9999999999999999999999999999.9999999999'),
        (2, '12345678901234567890123456789012345678', '1234567890123456789012345678.1234567895'),
        (3, '-12345678901234567890123456789012345500', '-1234567890123456789012345678.5'),
        (4, NULL, NULL)) AS v(k, d, e)";
    check(
        &[("r", rows)],
        &[
            ("SELECT round(d, -3) FROM r WHERE k = 1", Error("verflow")),
            ("SELECT DISTINCT round(d, -3) FROM r", Error("verflow")),
            ("SELECT round(d, -3) FROM r WHERE k > 1", Rows(&[
                "", "-12345678901234567890123456789012346000", "12345678901234567890123456789012346000",
            ])),
            ("SELECT DISTINCT round(d, -1) FROM r WHERE k = 2", Rows(&["12345678901234567890123456789012345680"])),
            ("SELECT trunc(d, -3) FROM r WHERE k < 3", Rows(&[
                "12345678901234567890123456789012345000", "99999999999999999999999999999999999000",
            ])),
            ("SELECT round(e, 9) FROM r WHERE k = 2", Rows(&["1234567890123456789012345678.123456790"])),
            ("SELECT round(e), ceil(e), floor(e), trunc(e) FROM r WHERE k = 3", Rows(&[
                "-1234567890123456789012345679|-1234567890123456789012345678.0000000000|-1234567890123456789012345679.0000000000|-1234567890123456789012345678.0000000000",
            ])),
            ("SELECT floor(e) FROM r WHERE k = 1", Rows(&["9999999999999999999999999999.0000000000"])),
            ("SELECT round(e, -27) FROM r WHERE k = 2", Rows(&["1000000000000000000000000000"])),
        ],
    )
    .await;
}

/// DataFusion parses them as doubles with 16 significant digits.
#[tokio::test]
async fn long_integer_literals_are_decimals() {
    check(
        &[],
        &[
            (
                "SELECT 99999999999999999999999999999999999999",
                Rows(&["99999999999999999999999999999999999999"]),
            ),
            ("SELECT -18446744073709551616", Rows(&["-18446744073709551616"])),
            (
                "SELECT round(99999999999999999999999999999999999999, -3)",
                Error("verflow"),
            ),
            (
                "SELECT round(12345678901234567890123456789, -3)",
                Rows(&["12345678901234567890123457000"]),
            ),
            (
                "SELECT 18446744073709551615, 9223372036854775808 - 1",
                Rows(&["18446744073709551615|9223372036854775807"]),
            ),
        ],
    )
    .await;
}
