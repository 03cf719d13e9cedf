//! `ORDER BY` over a table of N rows: on the device and on DataFusion's CPU operators. Every order has a
//! unique right answer, so results are compared row by row.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow::error::ArrowError;
use datafusion::datasource::MemTable;
use datafusion::prelude::SessionContext;
use galatea_device::Device;
use galatea_kernels::pattern;
use rayon::prelude::*;

use super::{Plan, Row};
use crate::compare::{RowOrder, compare};
use crate::harness::WARMUPS;
use crate::measure;
use crate::result::Summary;
use crate::{BenchError, Result};

/// Rows of a batch.
const BATCH: u64 = 1 << 16;

/// Queries by name: keys of one word with few bits, of one with more bits, and of two words; distinct strings
/// with a common prefix; window functions, reduced to one row so that output is not measured.
const QUERIES: [(&str, &str); 8] = [
    ("one key", "SELECT u, v FROM t ORDER BY u"),
    ("two keys, one word", "SELECT k32, v FROM t ORDER BY k32, v"),
    ("two keys, two words", "SELECT k64, v FROM t ORDER BY k64 DESC, v"),
    ("texts, all different", "SELECT v FROM t ORDER BY address"),
    ("texts, returned", "SELECT address FROM t ORDER BY address"),
    ("texts by a number", "SELECT address, v FROM t ORDER BY u"),
    (
        "window, numbers",
        "SELECT sum(r), max(s), sum(p) FROM (SELECT rank() OVER (PARTITION BY k32 % 100000 ORDER BY k64) AS r, \
         sum(v) OVER (PARTITION BY k32 % 100000 ORDER BY k64) AS s, lag(v) OVER (PARTITION BY k32 % 100000 ORDER BY k64) AS p FROM t) AS w",
    ),
    (
        "window, texts",
        "SELECT sum(r), max(s) FROM (SELECT rank() OVER (PARTITION BY k32 % 1000 ORDER BY address) AS r, \
         sum(v) OVER (PARTITION BY k32 % 1000 ORDER BY address) AS s FROM t) AS w",
    ),
];

/// The first rows of a large table.
const FIRST: &str = "SELECT k64 FROM t ORDER BY k64 LIMIT 100";

/// Engines by name.
type Engines = [(&'static str, SessionContext); 2];

/// Sessions with the table.
fn engines(plan: &Plan, table: &Arc<MemTable>) -> Result<Engines> {
    let mut device = galatea::session().with_setting("galatea.device", "gpu");
    for (name, value) in &plan.settings {
        device = device.with_trusted_setting(name, value);
    }
    let engines = [
        (
            "datafusion",
            galatea::session().with_setting("galatea.device", "cpu").build()?,
        ),
        ("galatea", device.build()?),
    ];
    for (_, ctx) in &engines {
        let table: Arc<MemTable> = Arc::clone(table);
        ctx.register_table("t", table)?;
    }
    Ok(engines)
}

/// The first 100 rows of `rows` random 64-bit keys, compared with one read of the keys at `ceiling` bytes per
/// second. On the device, also the time of its kernels alone, without planning and the transfer of the
/// result.
pub(super) async fn first(
    plan: &Plan,
    rows: u64,
    ceiling: Option<f64>,
    done: &mut impl FnMut(&str),
) -> Result<Vec<Row>> {
    let batch = |number: u64| {
        let numbers = number * BATCH..((number + 1) * BATCH).min(rows);
        let keys = Int64Array::from_iter_values(numbers.map(|row| pattern(64, row) as i64));
        RecordBatch::try_from_iter([("k64", Arc::new(keys) as ArrayRef)])
    };
    let engines = engines(plan, &in_partitions(rows, batch)?)?;
    let mut measured = Vec::new();
    let mut expected: Option<Vec<RecordBatch>> = None;
    for (engine, ctx) in &engines {
        let mut row = Row::new(format!("first rows: {FIRST}"), rows, plan);
        row.engine = (*engine).to_string();
        let (result, kernels) = timed(ctx, FIRST, plan.runs, &mut row).await?;
        if let Some(expected) = &expected {
            same(expected, &result, FIRST, rows)?;
        }
        expected.get_or_insert(result);
        done(&row.what);
        let kernels = Summary::of(kernels).map(|kernels| {
            let mut own = row.clone();
            own.engine = format!("{engine}, kernels");
            own.bytes = 8 * rows;
            own.set(Some(kernels), ceiling);
            own
        });
        measured.push(row);
        measured.extend(kernels);
    }
    Ok(measured)
}

/// Compares the device's answer with DataFusion's, row by row.
fn same(expected: &[RecordBatch], result: &[RecordBatch], sql: &str, rows: u64) -> Result<()> {
    compare(expected, result, RowOrder::Fixed).map_err(|difference| BenchError::Differs {
        query: sql.to_string(),
        what: format!("{rows} rows on the device"),
        difference: Box::new(difference),
    })
}

/// The rows of all queries over a table of `rows` rows.
pub(super) async fn measure(plan: &Plan, rows: u64, done: &mut impl FnMut(&str)) -> Result<Vec<Row>> {
    let engines = engines(plan, &table(rows)?)?;
    let mut measured = Vec::new();
    for (name, sql) in QUERIES {
        let mut expected = None;
        for (engine, ctx) in &engines {
            let mut row = Row::new(format!("{name}: {sql}"), rows, plan);
            row.engine = (*engine).to_string();
            let (result, _) = timed(ctx, sql, plan.runs, &mut row).await?;
            match &expected {
                None => expected = Some(result),
                Some(expected) => same(expected, &result, sql, rows)?,
            }
            done(&row.what);
            measured.push(row);
        }
    }
    Ok(measured)
}

/// Runs a query, and records its times. Returns the result of the first run, and the seconds of kernels, if
/// any ran.
async fn timed(
    ctx: &SessionContext,
    sql: &str,
    runs: usize,
    row: &mut Row,
) -> Result<(Vec<RecordBatch>, Vec<f64>)> {
    let (mut seconds, mut kernels) = (Vec::new(), Vec::new());
    let mut first = None;
    for number in 0..WARMUPS + runs {
        if number == WARMUPS {
            Device::finish_compiling();
        }
        let run = measure::run(ctx, sql).await?;
        if number >= WARMUPS {
            seconds.push(run.total.as_secs_f64());
        }
        if let Some(report) = &run.report {
            row.device = report.device.to_string();
            row.reasons = report.reasons.join("; ");
            row.bytes = report.device_bytes;
            if number >= WARMUPS && report.placed > 0 {
                kernels.push(report.phases.kernel.as_secs_f64());
            }
        }
        first.get_or_insert(run.batches);
    }
    row.set(Summary::of(seconds), None);
    Ok((first.unwrap_or_default(), kernels))
}

/// Columns: u, distinct; k32 and k64, random; v, the number of the row; address, distinct strings with long
/// common parts.
fn table(rows: u64) -> Result<Arc<MemTable>> {
    let batch = |number: u64| {
        let numbers = number * BATCH..((number + 1) * BATCH).min(rows);
        let column = |value: fn(u64) -> i64| -> ArrayRef {
            Arc::new(Int64Array::from_iter_values(numbers.clone().map(value)))
        };
        let k32 = numbers.clone().map(|row| pattern(32, row) as i32);
        let addresses = (numbers.clone()).map(|row| {
            format!(
                "https://example.org/{:03}/{:016x}",
                row % 1000,
                row.wrapping_mul(0x9e37_79b9_7f4a_7c15)
            )
        });
        let columns: [(&str, ArrayRef); 5] = [
            // Multiplication by an odd factor is a permutation of 32 bits.
            (
                "u",
                column(|row| i64::from((row as u32).wrapping_mul(0x9e37_79b1))),
            ),
            ("k32", Arc::new(Int32Array::from_iter_values(k32))),
            ("k64", column(|row| pattern(64, row) as i64)),
            ("v", column(|row| row as i64)),
            ("address", Arc::new(StringArray::from_iter_values(addresses))),
        ];
        RecordBatch::try_from_iter(columns)
    };
    in_partitions(rows, batch)
}

/// A table of numbered batches, with one partition per core.
fn in_partitions(
    rows: u64,
    batch: impl Fn(u64) -> std::result::Result<RecordBatch, ArrowError> + Send + Sync,
) -> Result<Arc<MemTable>> {
    let batches = (0..rows.div_ceil(BATCH).max(1)).into_par_iter().map(batch);
    let batches: Vec<RecordBatch> = batches
        .collect::<Result<_, _>>()
        .map_err(datafusion::error::DataFusionError::from)?;
    let schema = batches[0].schema();
    let each = batches.len().div_ceil(rayon::current_num_threads()).max(1);
    let partitions = batches.chunks(each).map(<[RecordBatch]>::to_vec).collect();
    Ok(Arc::new(MemTable::try_new(schema, partitions)?))
}
