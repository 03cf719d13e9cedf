//! Random joins of Parquet files: a join loads the rows of one table that may have a match in the other. The
//! answers are those of the CPU over the same rows in memory.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, Date32Array, Decimal128Array, Int32Array, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray, UInt8Array, UInt64Array,
};
use datafusion::datasource::MemTable;
use datafusion::prelude::ParquetReadOptions;
use futures::future::join_all;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::compare::{answer, collect, same};
use crate::partial_loads::{Bed, random_properties, with_views, write};

const ROUNDS: usize = 3;
const QUERIES: usize = 4;

/// Columns that both tables have, with one type each.
const KEYS: &[&str] = &["n", "i", "u", "b", "day", "ts", "dec", "s"];

/// Rows with these values as keys of all types, and columns that are added up.
fn rows_of(random: &mut SmallRng, values: &[i64]) -> RecordBatch {
    let share = [0.0, 0.05, 0.3][random.random_range(0..3)];
    let mut keys = || -> Vec<Option<i64>> {
        let valid = |value: &i64| (!random.random_bool(share)).then_some(*value);
        values.iter().map(valid).collect()
    };
    let n: ArrayRef = Arc::new(Int64Array::from_iter(keys()));
    let i: ArrayRef = Arc::new(Int32Array::from_iter(
        keys().into_iter().map(|key| Some(key? as i32 * 3 - 500)),
    ));
    // Half of the values exceed those of i64.
    let u: ArrayRef = Arc::new(UInt64Array::from_iter(
        keys()
            .into_iter()
            .map(|key| Some((i64::MAX as u64 - 700).wrapping_add(key? as u64))),
    ));
    let b: ArrayRef = Arc::new(UInt8Array::from_iter(
        keys().into_iter().map(|key| Some((key? / 8).clamp(0, 255) as u8)),
    ));
    let day: ArrayRef = Arc::new(Date32Array::from_iter(
        keys().into_iter().map(|key| Some(key? as i32 - 400)),
    ));
    let ts = TimestampMicrosecondArray::from_iter(keys().into_iter().map(|key| Some(key? * 5 - 1000)));
    let ts: ArrayRef = Arc::new(ts.with_timezone("+02:00"));
    let dec = Decimal128Array::from_iter(keys().into_iter().map(|key| Some(i128::from(key?) * 10 - 3000)));
    let dec: ArrayRef = Arc::new(dec.with_precision_and_scale(15, 2).expect("in range"));
    let fine = Decimal128Array::from_iter(
        keys()
            .into_iter()
            .map(|key| Some(i128::from(key?) * 100 - 30_000)),
    );
    let fine: ArrayRef = Arc::new(fine.with_precision_and_scale(16, 3).expect("in range"));
    let s: ArrayRef = Arc::new(StringArray::from_iter(
        keys().into_iter().map(|key| Some(format!("k{:05}", key?))),
    ));
    let factor = [1, 7, 100, 1000][random.random_range(0..4)];
    let outliers = random.random_bool(0.3);
    let v: ArrayRef = Arc::new(Int64Array::from_iter(values.iter().enumerate().map(
        |(row, value)| {
            let outlier = outliers && row % 400 == 399;
            let value = if outlier { 1 << 40 } else { value % 250 - 60 };
            (row % 13 != 0).then_some(value * factor)
        },
    )));
    let year: ArrayRef = Arc::new(Int64Array::from_iter_values(
        values.iter().map(|value| value / 200),
    ));
    let label: ArrayRef = Arc::new(StringArray::from_iter_values(
        values.iter().map(|value| format!("l{}", value % 3)),
    ));
    let columns = [
        ("n", n),
        ("i", i),
        ("u", u),
        ("b", b),
        ("day", day),
        ("ts", ts),
        ("dec", dec),
        ("fine", fine),
        ("s", s),
        ("v", v),
        ("year", year),
        ("label", label),
    ];
    let columns = columns.into_iter().map(|(name, values)| (name, values, true));
    RecordBatch::try_from_iter_with_nullable(columns).expect("columns of one length")
}

/// Sorted, clustered or scattered values.
fn random_values(random: &mut SmallRng, count: usize) -> Vec<i64> {
    let spread = random.random_range(0..4);
    let value = |row: usize| match spread {
        0 => row as i64,
        1 => (count - row) as i64,
        2 => (row / 40 * 40) as i64 + random.random_range(0..60),
        _ => random.random_range(0..count as i64),
    };
    (0..count).map(value).collect()
}

/// Some values in random order: distinct or repeated, near each other or not.
fn random_keys(random: &mut SmallRng, count: i64) -> Vec<i64> {
    let step = [1, 1, 3, 10][random.random_range(0..4)];
    let first = random.random_range(-100..count);
    let number = [0, 1, 20, 150, 400][random.random_range(0..5)];
    let mut values: Vec<i64> = (0..number).map(|row| first + row * step).collect();
    if random.random_bool(0.25) {
        values.extend(values.clone().choose_multiple(random, 5));
    }
    for place in (1..values.len()).rev() {
        values.swap(place, random.random_range(0..=place));
    }
    values
}

/// Writes a new file of a table of keys, and registers its rows in the session of the CPU.
async fn write_keys(bed: &Bed, random: &mut SmallRng, name: &str) {
    let values = random_keys(random, 1800);
    let rows = rows_of(random, &values);
    let path = bed.others.path().join(format!("{name}.parquet"));
    write(&path, &rows, random_properties(random));
    let (cpu, gpu) = (&bed.pair.cpu, &bed.pair.gpu);
    let rows = with_views(&rows);
    let table = MemTable::try_new(rows.schema(), vec![vec![rows]]).expect("batches of one schema");
    cpu.deregister_table(name).expect("no error");
    cpu.register_table(name, Arc::new(table)).expect("a new table");
    // The session of the device notices that a file has changed.
    if !gpu.table_exist(name).expect("no error") {
        let path = path.display().to_string();
        let registered = gpu.register_parquet(name, &path, ParquetReadOptions::default());
        registered.await.expect("a file");
    }
}

/// A condition over a table of keys.
fn condition(random: &mut SmallRng, of: &str) -> String {
    let year = random.random_range(0..9);
    match random.random_range(0..7) {
        0 => format!("{of}.year = {year}"),
        1 => format!("{of}.year IN ({year}, {})", year + 1),
        2 => format!("{of}.label = 'l1'"),
        3 => format!("{of}.n BETWEEN {} AND {}", year * 200, year * 200 + 90),
        4 => format!("{of}.i IS NOT NULL"),
        5 => format!("{of}.day > DATE '1969-06-01'"),
        _ => "true".to_owned(),
    }
}

/// The condition of a join of `left` and `right`, mostly of columns of one type.
fn matches(random: &mut SmallRng, left: &str, right: &str) -> String {
    let key = KEYS.choose(random).expect("keys");
    let other = KEYS.choose(random).expect("keys");
    match random.random_range(0..14) {
        0 => format!("{left}.n + 7 = {right}.n"),
        1 => format!("CAST({left}.n AS INT) = {right}.i"),
        2 => format!("{left}.i = {right}.n"),
        3 => format!("{left}.dec = {right}.fine"),
        4 => format!("{left}.fine = {right}.dec"),
        5 => format!("{left}.b = {right}.n"),
        6 => format!("{left}.{key} = {right}.{key} AND {left}.{other} = {right}.{other}"),
        7 => format!("{left}.{key} = {right}.{key} AND {left}.v > {right}.v"),
        8 => format!("({left}.{key} IS NOT DISTINCT FROM {right}.{key})"),
        _ => format!("{left}.{key} = {right}.{key}"),
    }
}

/// A random query of `t`, `d` and `e`.
fn random_query(random: &mut SmallRng) -> String {
    let key = KEYS.choose(random).expect("keys");
    let (of_d, of_e) = (condition(random, "d"), condition(random, "e"));
    let (to_d, to_e) = (matches(random, "t", "d"), matches(random, "t", "e"));
    let join = ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]
        .choose(random)
        .expect("joins");
    let sums = "count(*), sum(t.v), sum(t.n), min(t.s), max(t.day), min(t.u)";
    let own = condition(random, "t");
    match random.random_range(0..22) {
        0 | 1 => format!("SELECT {sums}, count(d.n) FROM t JOIN d ON {to_d} WHERE {of_d}"),
        2 => format!("SELECT {sums}, count(d.n) FROM t {join} d ON {to_d} WHERE {of_d}"),
        3 => format!("SELECT {sums}, count(d.n) FROM t {join} d ON {to_d} AND {of_d}"),
        4 => {
            format!("SELECT d.label, {sums} FROM t JOIN d ON {to_d} WHERE {of_d} AND {own} GROUP BY d.label")
        }
        5 => format!("SELECT {sums} FROM t WHERE t.{key} IN (SELECT {key} FROM d WHERE {of_d})"),
        6 => format!("SELECT {sums} FROM t WHERE t.{key} IN (SELECT {key} FROM d WHERE {of_d}) OR {own}"),
        7 => format!("SELECT {sums} FROM t WHERE t.{key} IN (SELECT {key} FROM d WHERE {of_d}) AND {own}"),
        8 => format!("SELECT {sums} FROM t WHERE t.{key} NOT IN (SELECT {key} FROM d WHERE {of_d})"),
        9 => format!("SELECT {sums} FROM t WHERE NOT EXISTS (SELECT 1 FROM d WHERE {to_d} AND {of_d})"),
        10 => format!("SELECT {sums} FROM t WHERE EXISTS (SELECT 1 FROM d WHERE {to_d} AND d.v < t.v)"),
        11 => format!("SELECT t.n, t.{key} IN (SELECT {key} FROM d WHERE {of_d}) FROM t WHERE {own}"),
        12 => format!(
            "SELECT {sums}, count(e.n) FROM t JOIN d ON {to_d} JOIN e ON {to_e} WHERE {of_d} AND {of_e}"
        ),
        13 => format!(
            "SELECT {sums}, count(d.n), count(e.n) FROM t JOIN d ON {to_d} {join} e ON {to_e} AND {of_e} WHERE {of_d}"
        ),
        14 => format!(
            "SELECT {sums} FROM t JOIN d ON t.{key} = d.{key} JOIN e ON t.{key} = e.{key} WHERE {of_d} OR {of_e}"
        ),
        15 => format!(
            "WITH c AS (SELECT t.n, t.v, t.s, d.label FROM t JOIN d ON {to_d} WHERE {of_d}) \
             SELECT count(*), sum(a.v), min(b.s) FROM c a {join} c b ON a.n = b.n AND a.label < b.label"
        ),
        16 => format!(
            "WITH c AS (SELECT * FROM t WHERE {own}) SELECT label, v FROM c t WHERE EXISTS (SELECT 1 FROM d WHERE {to_d} AND {of_d}) \
             UNION ALL SELECT s, n FROM c t WHERE EXISTS (SELECT 1 FROM e WHERE {to_e} AND {of_e})"
        ),
        17 => format!(
            "SELECT t.v, t.n, t.s, d.label FROM t JOIN d ON {to_d} WHERE {of_d} ORDER BY t.v DESC, t.n, t.s, d.label LIMIT 9"
        ),
        18 => format!(
            "SELECT t.n, t.v, sum(t.v) OVER (PARTITION BY d.label ORDER BY t.n, t.v) FROM t JOIN d ON {to_d} WHERE {of_d}"
        ),
        19 => format!("SELECT DISTINCT t.year, d.label FROM t JOIN d ON {to_d} WHERE {of_d}"),
        20 => format!(
            "SELECT count(*), sum(a.v), sum(b.v), count(a.n), count(b.n) FROM (SELECT t.* FROM t JOIN d ON {to_d} WHERE {of_d}) a \
             {join} (SELECT t.* FROM t JOIN e ON {to_e} WHERE {of_e}) b ON a.n = b.n"
        ),
        _ => format!(
            "SELECT t.label, {sums} FROM t JOIN (SELECT {key}, count(*) c FROM d WHERE {of_d} GROUP BY {key}) g ON t.{key} = g.{key} \
             WHERE t.v < (SELECT max(v) FROM e) GROUP BY t.label"
        ),
    }
}

/// A random choice of settings that place and partition joins.
fn random_settings(random: &mut SmallRng) -> Vec<(&'static str, &'static str)> {
    let mut choose = |name, values: &[&'static str]| (name, *values.choose(random).expect("values"));
    let mut settings = vec![
        choose("galatea.tuning.parquet_decoding", &["device", "host"]),
        choose(
            "galatea.tuning.transfer_compression",
            &["off", "auto", "on", "on"],
        ),
        choose("galatea.tuning.build_rows", &["0", "300", "1000000", "1000000"]),
        choose("galatea.tuning.chunk_rows", &["100", "511", "512", "1024"]),
        choose("galatea.cache.files", &["true", "true", "false"]),
        choose("galatea.cache.shared_results", &["true", "false"]),
        choose("galatea.join.algorithm", &["auto", "auto", "triton", "radix"]),
        choose("datafusion.execution.target_partitions", &["1", "2", "16"]),
    ];
    let limit = choose("galatea.memory.gpu_limit", &["", "", "512 KiB", "128 KiB"]);
    if !limit.1.is_empty() {
        settings.extend([limit, ("galatea.cache.device", "false")]);
    }
    settings
}

/// Random joins over random files: tables of keys change between queries, and queries run at the same time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_joins_over_random_files() {
    let seed = galatea_device::environment::seed();
    println!("seed {seed}");
    let mut random = SmallRng::seed_from_u64(seed);
    for round in 0..ROUNDS {
        let settings = random_settings(&mut random);
        let bed = Bed::new(&settings);
        let mut all = Vec::new();
        for file in 0..random.random_range(1..3) {
            let count = random.random_range(200..1800);
            let values = random_values(&mut random, count);
            let rows = rows_of(&mut random, &values);
            let path = bed.folder.path().join(format!("{file}.parquet"));
            write(&path, &rows, random_properties(&mut random));
            all.push(rows);
        }
        bed.register(&all).await;
        for name in ["d", "e"] {
            write_keys(&bed, &mut random, name).await;
        }
        for number in 0..QUERIES {
            let sql = random_query(&mut random);
            let context = format!("seed {seed}, round {round}, query {number}, {settings:?}");
            answer(&bed.pair.cpu, &sql).await;
            bed.pair.check(&sql, false, &context).await;
            bed.pair.check(&sql, false, &format!("{context}, again")).await;
            match random.random_range(0..5) {
                0 => write_keys(&bed, &mut random, "d").await,
                1 => {
                    let sql = "SELECT count(*), sum(n), sum(v), min(s), count(dec) FROM t";
                    bed.pair.check(sql, false, &context).await;
                }
                2 => run_together(&bed, &mut random, &context).await,
                _ => {}
            }
        }
    }
}

/// Several queries at the same time, and one that is dropped.
async fn run_together(bed: &Bed, random: &mut SmallRng, context: &str) {
    let mut queries: Vec<String> = (0..3).map(|_| random_query(random)).collect();
    queries.push("SELECT count(*), sum(n), sum(v), sum(i), min(s), count(ts) FROM t".to_owned());
    let dropped = collect(&bed.pair.gpu, &queries[0]);
    drop(
        tokio::time::timeout(
            std::time::Duration::from_millis(random.random_range(1..60)),
            dropped,
        )
        .await,
    );
    let answers = join_all(queries.iter().map(|sql| answer(&bed.pair.gpu, sql))).await;
    for (sql, found) in queries.iter().zip(answers) {
        let expected = answer(&bed.pair.cpu, sql).await;
        same(&expected, &found)
            .unwrap_or_else(|difference| panic!("{context}, together\n{sql}\n{difference}"));
    }
}
