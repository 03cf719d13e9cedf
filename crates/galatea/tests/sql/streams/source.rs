//! Events, and sessions that read them as a table and as a stream.

use crate::compare::{Comparison, Pair, same};
use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Decimal128Array, Float64Array, Int32Array, RecordBatch, StringArray,
    TimestampMillisecondArray,
};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use datafusion::datasource::MemTable;
use datafusion::prelude::SessionContext;
use galatea::stream::{Channel, ChannelSender};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::sync::Arc;

/// Sessions for streams with these settings, and with small tables on the device.
pub(super) fn sessions(settings: &[(&str, &str)]) -> Pair {
    let small = [("galatea.stream.blocks", "2"), ("galatea.stream.groups", "1500")];
    Pair::new(&[&small, settings].concat())
}

/// The columns of events: time in milliseconds, nullable numbers, a string, a flag.
pub(super) fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("ts", DataType::Timestamp(TimeUnit::Millisecond, None), true),
        Field::new("k", DataType::Int32, true),
        Field::new("v", DataType::Int32, false),
        Field::new("f", DataType::Float64, true),
        Field::new("d", DataType::Decimal128(12, 2), true),
        Field::new("t", DataType::Utf8, true),
        Field::new("b", DataType::Boolean, true),
    ]))
}

/// `rows` events from the time `start` on, with a step of up to `step` milliseconds between them. `nulls`:
/// some values are NULL, but no times.
pub(super) fn events(rows: usize, start: i64, step: i64, nulls: bool, seed: u64) -> RecordBatch {
    let mut random = StdRng::seed_from_u64(seed);
    let mut time = start;
    let times: Vec<i64> = (0..rows)
        .map(|_| {
            time += random.random_range(0..=step);
            time
        })
        .collect();
    of_times(times.into_iter().map(Some).collect(), nulls, seed)
}

/// Events at these times.
pub(super) fn of_times(times: Vec<Option<i64>>, nulls: bool, seed: u64) -> RecordBatch {
    let mut random = StdRng::seed_from_u64(seed ^ 0x5eed);
    let rows = times.len();
    let mut some =
        |share: f64| -> Vec<bool> { (0..rows).map(|_| !nulls || random.random_bool(share)).collect() };
    let (k, f, d, t, b) = (some(0.8), some(0.8), some(0.7), some(0.9), some(0.8));
    let number = |row: usize| (row as u64 ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
    let each = 0..rows;
    let columns: Vec<ArrayRef> = vec![
        Arc::new(TimestampMillisecondArray::from(times)),
        Arc::new(Int32Array::from_iter(
            each.clone()
                .map(|row| k[row].then(|| (number(row) % 7) as i32 - 3)),
        )),
        Arc::new(Int32Array::from_iter_values(
            each.clone().map(|row| (number(row) % 1000) as i32 - 200),
        )),
        Arc::new(Float64Array::from_iter(
            each.clone().map(|row| f[row].then(|| number(row) as f64 / 64.0)),
        )),
        Arc::new(
            Decimal128Array::from_iter(
                each.clone()
                    .map(|row| d[row].then(|| i128::from(number(row) % 1_000_000) - 500_000)),
            )
            .with_precision_and_scale(12, 2)
            .expect("it fits"),
        ),
        Arc::new(StringArray::from_iter(
            each.clone()
                .map(|row| t[row].then(|| format!("text {}", number(row) % 11))),
        )),
        Arc::new(BooleanArray::from_iter(
            each.map(|row| b[row].then(|| number(row) % 3 == 0)),
        )),
    ];
    RecordBatch::try_new(schema(), columns).expect("columns of the schema")
}

/// Slices of a batch with these numbers of rows, repeated in turn.
pub(super) fn parts(batch: &RecordBatch, sizes: &[usize]) -> Vec<RecordBatch> {
    let (mut parts, mut at) = (Vec::new(), 0);
    for size in sizes.iter().cycle() {
        if at >= batch.num_rows() {
            break;
        }
        let rows = (*size).min(batch.num_rows() - at);
        parts.push(batch.slice(at, rows));
        at += rows;
    }
    parts
}

/// Registers a channel as table `s` of a session.
pub(super) fn channel(ctx: &SessionContext) -> ChannelSender {
    let (sender, table) = Channel::new(schema())
        .ordered_by(["ts"])
        .open()
        .expect("a channel");
    let _ = ctx.deregister_table("s").expect("a session's table");
    ctx.register_table("s", table).expect("a new table");
    sender
}

/// Compares a query over the batches as a table with the same query over them as a stream, in order.
pub(super) async fn check(pair: &Pair, batches: &[RecordBatch], sql: &str, case: &str) {
    check_by(pair, batches, sql, same, case).await;
}

/// Like [`check`], compared by `comparison`.
pub(super) async fn check_by(
    pair: &Pair,
    batches: &[RecordBatch],
    sql: &str,
    comparison: Comparison,
    case: &str,
) {
    let table = MemTable::try_new(schema(), vec![batches.to_vec()]).expect("batches of one schema");
    let _ = pair.cpu.deregister_table("s").expect("a session's table");
    pair.cpu
        .register_table("s", Arc::new(table))
        .expect("a new table");
    let sender = channel(&pair.gpu);
    let all = batches.to_vec();
    let sending = tokio::spawn(async move {
        for batch in all {
            // The receiver of a failed query is dropped.
            if sender.send(batch).await.is_err() {
                return;
            }
        }
    });
    let compared = pair.compare(sql, comparison).await;
    sending.abort();
    if let Err(difference) = compared {
        panic!("{case}\n{sql}\n{difference}");
    }
    let report = galatea::last_query_report(&pair.gpu).expect("a report");
    assert!(report.placed > 0, "{case}\n{sql}\nran elsewhere: {report:?}");
}
