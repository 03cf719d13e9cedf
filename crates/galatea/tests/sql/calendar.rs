//! Calendar units and bins of timestamps in seconds, milliseconds and microseconds, also beyond the years
//! that nanoseconds of 64 bits hold.

use crate::compare::Pair;
use datafusion::arrow::array::{
    ArrayRef, Int64Array, RecordBatch, TimestampMicrosecondArray, TimestampMillisecondArray,
    TimestampSecondArray,
};
use std::sync::Arc;

/// Seconds of the years -200000 to 200000, most of them between 1000 and 10000.
fn seconds(row: i64) -> Option<i64> {
    let spread = row.wrapping_mul(6_364_136_223_846_793_005).rotate_left(23);
    match row % 8 {
        0 => None,
        1 => Some(spread % 6_300_000_000_000),
        2 => Some(spread % 2_678_400),
        _ => Some(112_000_000_000 + spread % 140_000_000_000),
    }
}

fn table() -> RecordBatch {
    let rows = 0..3000_i64;
    let id: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.clone()));
    let in_seconds: TimestampSecondArray = rows.clone().map(seconds).collect();
    let of_unit = |per_second: i64| {
        let rows = rows.clone();
        rows.map(move |row| Some(seconds(row)? * per_second + row * 7919 % per_second))
    };
    let in_millis: TimestampMillisecondArray = of_unit(1_000).collect();
    let in_micros: TimestampMicrosecondArray = of_unit(1_000_000).collect();
    let columns: [(&str, ArrayRef); 4] = [
        ("id", id),
        ("s", Arc::new(in_seconds)),
        ("m", Arc::new(in_millis)),
        ("u", Arc::new(in_micros)),
    ];
    RecordBatch::try_from_iter(columns).expect("columns of one length")
}

#[tokio::test]
async fn calendar_units_beyond_nanoseconds_are_computed_on_the_device() {
    let pair = Pair::new(&[]);
    pair.table("t", &[table()]);
    for column in ["s", "m", "u"] {
        for unit in ["week", "month", "quarter", "year", "day", "hour"] {
            let sql = format!("SELECT id, date_trunc('{unit}', {column}) FROM t WHERE id >= 0");
            pair.check(&sql, true, unit).await;
        }
        for bins in [
            "INTERVAL '1 day', x",
            "INTERVAL '7 hours', x, TIMESTAMP '2001-01-01 00:00:05'",
            "INTERVAL '5 months', x",
            "INTERVAL '1 month', x, TIMESTAMP '2001-01-31 12:00:00'",
            "INTERVAL '300000 years', x",
        ] {
            let bins = bins.replace('x', column);
            let sql = format!("SELECT id, date_bin({bins}) FROM t WHERE id >= 0");
            pair.check(&sql, true, &bins).await;
        }
    }
}

#[tokio::test]
async fn timestamps_outside_the_calendar_have_no_bin() {
    let pair = Pair::new(&[]);
    let ends = [
        i64::MIN,
        i64::MIN + 1,
        -8_400_000_000_000_000,
        0,
        8_300_000_000_000_000,
        i64::MAX,
    ];
    let columns: [(&str, ArrayRef); 3] = [
        ("id", Arc::new(Int64Array::from_iter_values(0..6))),
        ("m", Arc::new(TimestampMillisecondArray::from_iter_values(ends))),
        ("u", Arc::new(TimestampMicrosecondArray::from_iter_values(ends))),
    ];
    pair.table(
        "t",
        &[RecordBatch::try_from_iter(columns).expect("columns of one length")],
    );
    for sql in [
        "SELECT date_bin(INTERVAL '1 month', m), date_bin(INTERVAL '1 month', u) FROM t WHERE id >= 0",
        "SELECT date_bin(INTERVAL '1 day', m), date_bin(INTERVAL '1 day', u) FROM t WHERE id >= 0",
    ] {
        pair.check(sql, true, "ends of 64 bits").await;
    }
}
