//! Queries over Parquet files load the row groups and pages that their predicates need. Later queries need
//! other ones, and no answer lacks rows.

use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int32Array, Int64Array, RecordBatch,
    StringArray,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::datasource::MemTable;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::basic::{Compression, ZstdLevel};
use datafusion::parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use datafusion::prelude::ParquetReadOptions;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tempfile::TempDir;

use crate::compare::{Pair, answer, same};
use crate::joins::text;

/// Two sessions over the files of a folder as the table `t`. The session of the CPU has the
/// rows in memory, so that the expected answers do not depend on DataFusion's pruning.
pub(crate) struct Bed {
    pub(crate) folder: TempDir,
    /// A folder for files of other tables.
    pub(crate) others: TempDir,
    pub(crate) pair: Pair,
}

impl Bed {
    pub(crate) fn new(settings: &[(&str, &str)]) -> Self {
        let mut all = vec![
            ("galatea.tuning.chunk_rows", "250"),
            ("galatea.tuning.block_threads", "32"),
            ("galatea.tuning.min_rows", "0"),
            ("galatea.warmup", "off"),
        ];
        all.extend(settings);
        Self {
            folder: tempfile::tempdir().expect("a folder"),
            others: tempfile::tempdir().expect("a folder"),
            pair: Pair::emulated(galatea::EmulatorOptions::default(), &all),
        }
    }

    /// A bed with a file of [`ordered`] rows, with this number of rows in each row group.
    pub(crate) async fn ordered(settings: &[(&str, &str)], count: i64, in_group: usize) -> Self {
        let (bed, rows) = (Self::new(settings), ordered(count));
        write(&bed.folder.path().join("a.parquet"), &rows, groups(in_group));
        bed.register(&[rows]).await;
        bed
    }

    /// Registers the files of the folder, which have these rows.
    pub(crate) async fn register(&self, rows: &[RecordBatch]) {
        // Scans of Parquet files return views of strings.
        let rows: Vec<RecordBatch> = rows.iter().map(with_views).collect();
        let table = MemTable::try_new(rows[0].schema(), vec![rows]);
        let table = table.expect("batches of one schema");
        let (cpu, gpu) = (&self.pair.cpu, &self.pair.gpu);
        cpu.deregister_table("t").expect("no error");
        cpu.register_table("t", Arc::new(table)).expect("a new table");
        let path = self.folder.path().display().to_string();
        gpu.deregister_table("t").expect("no error");
        gpu.register_parquet("t", &path, ParquetReadOptions::default())
            .await
            .expect("files of one schema");
    }

    pub(crate) async fn explained(&self, sql: &str) -> String {
        text(&self.pair, &format!("EXPLAIN ANALYZE {sql}")).await
    }
}

pub(crate) fn with_views(rows: &RecordBatch) -> RecordBatch {
    let schema = rows.schema();
    let columns = schema.fields().iter().zip(rows.columns()).map(|(field, values)| {
        let values = match field.data_type() {
            DataType::Utf8 => cast(values, &DataType::Utf8View).expect("strings"),
            _ => Arc::clone(values),
        };
        (field.name(), values, true)
    });
    RecordBatch::try_from_iter_with_nullable(columns).expect("columns of one length")
}

pub(crate) fn write(path: &Path, rows: &RecordBatch, properties: WriterProperties) {
    let file = std::fs::File::create(path).expect("a new file");
    let mut writer = ArrowWriter::try_new(file, rows.schema(), Some(properties)).expect("a writer");
    writer.write(rows).expect("written");
    writer.close().expect("a footer");
}

/// Rows in the order of `n`.
pub(crate) fn ordered(count: i64) -> RecordBatch {
    let n: ArrayRef = Arc::new(Int64Array::from_iter_values(0..count));
    let m: ArrayRef = Arc::new(Int64Array::from_iter_values((0..count).map(|row| row * 7 % 31)));
    let s: ArrayRef = Arc::new(StringArray::from_iter_values(
        (0..count).map(|row| format!("s{:03}", row / 10)),
    ));
    RecordBatch::try_from_iter([("n", n), ("m", m), ("s", s)]).expect("columns of one length")
}

pub(crate) fn groups(rows: usize) -> WriterProperties {
    WriterProperties::builder()
        .set_max_row_group_row_count(Some(rows))
        .set_data_page_row_count_limit(rows)
        .build()
}

#[tokio::test]
async fn explain_analyze_shows_row_groups() {
    let bed = Bed::ordered(&[], 1000, 100).await;
    let sql = "SELECT s, sum(m) FROM t WHERE n BETWEEN 120 AND 130 GROUP BY s";
    let plan = bed.explained(sql).await;
    assert!(
        plan.contains("row groups=1 of 10, 9 skipped by statistics"),
        "{plan}"
    );
    bed.pair.check(sql, true, "the same rows again").await;
    let plan = bed.explained(sql).await;
    assert!(!plan.contains("row groups"), "nothing is loaded\n{plan}");
    let sql = "SELECT sum(n), sum(m) FROM t";
    let plan = bed.explained(sql).await;
    assert!(!plan.contains("row groups"), "no predicates\n{plan}");
    bed.pair.check(sql, true, "all rows").await;
    // All columns of this query are in memory.
    let plan = bed.explained("SELECT sum(m) FROM t WHERE n = 999").await;
    assert!(!plan.contains("row groups"), "{plan}");
}

/// Row numbers select the rows of a sample, so it needs all of them.
#[tokio::test]
async fn samples_are_drawn_from_all_rows() {
    let bed = Bed::ordered(&[], 1000, 100).await;
    let sample = "TABLESAMPLE BERNOULLI (30) REPEATABLE (5)";
    let expected = {
        let sql = format!("SELECT n, m FROM t {sample}");
        let frame = galatea::sql(&bed.pair.gpu, &sql).await.expect("a plan");
        let rows = frame.collect().await.expect("rows");
        let numbers = rows.iter().flat_map(|batch| {
            let n = batch
                .column(0)
                .as_any()
                .downcast_ref::<Int64Array>()
                .expect("numbers");
            n.values().to_vec()
        });
        numbers.filter(|n| *n >= 850).count() as i64
    };
    let fresh = Bed::new(&[]);
    write(
        &fresh.folder.path().join("a.parquet"),
        &ordered(1000),
        groups(100),
    );
    fresh.register(&[ordered(1000)]).await;
    let sql = format!("SELECT count(*) FROM t {sample} WHERE n >= 850");
    let frame = galatea::sql(&fresh.pair.gpu, &sql).await.expect("a plan");
    let rows = frame.collect().await.expect("rows");
    let count = rows[0]
        .column(0)
        .as_any()
        .downcast_ref::<Int64Array>()
        .expect("a count");
    assert_eq!(count.value(0), expected);
    assert!(expected > 10, "{expected}");
}

#[tokio::test]
async fn joins_and_nested_queries_load_parts_of_one_file() {
    let bed = Bed::ordered(&[], 1000, 100).await;
    for sql in [
        "SELECT a.n, b.s FROM t a JOIN t b ON a.m = b.n WHERE a.n < 90 AND b.n < 40",
        "SELECT a.n, b.s FROM t a LEFT JOIN t b ON a.n = b.n AND b.n > 950 WHERE a.n > 900",
        "SELECT count(*) FROM t WHERE n > 800 AND m IN (SELECT n FROM t WHERE n < 5)",
        "WITH c AS (SELECT s, sum(m) AS total FROM t WHERE n < 250 GROUP BY s) SELECT * FROM c WHERE total > 90",
        "SELECT n FROM t WHERE n > 700 AND n < (SELECT max(n) - 290 FROM t)",
        "SELECT n FROM t WHERE n < 100 UNION ALL SELECT m FROM t WHERE n > 900",
        "SELECT n, sum(m) OVER (ORDER BY n) FROM t WHERE n BETWEEN 350 AND 380",
        "SELECT n, s FROM t WHERE n > 640 ORDER BY m DESC, n LIMIT 5",
        "SELECT count(*), min(s) FROM t WHERE n < 0",
        "SELECT m, count(*) FROM t WHERE n < -1 GROUP BY m",
        "SELECT n, s FROM t WHERE s = 's050'",
        "SELECT count(*) FROM t",
    ] {
        bed.pair.check(sql, false, "first").await;
        bed.pair.check(sql, false, "again").await;
    }
}

/// LIMIT alone skips no row groups.
#[tokio::test]
async fn limits_change_no_rows() {
    let bed = Bed::ordered(&[], 1000, 100).await;
    // The first rows of an order, or those that pass a filter, may be anywhere.
    for sql in [
        "SELECT n, m FROM t ORDER BY n DESC LIMIT 3",
        "SELECT n FROM t WHERE m = 3 ORDER BY n LIMIT 40",
        "SELECT count(*), sum(m) FROM t LIMIT 1",
        "SELECT m, count(*) FROM t GROUP BY m ORDER BY m LIMIT 31",
        "SELECT a.n FROM t a JOIN t b ON a.n = b.n + 900 ORDER BY a.n LIMIT 7",
    ] {
        bed.pair.check(sql, false, "limits").await;
    }
}

/// Parameters of a prepared statement decide which rows are loaded.
#[tokio::test]
async fn parameters_load_other_rows() {
    let bed = Bed::ordered(&[], 1000, 100).await;
    for ctx in [&bed.pair.cpu, &bed.pair.gpu] {
        let prepare = "PREPARE part AS SELECT sum(n), min(s), count(*) FROM t WHERE n BETWEEN $1 AND $2";
        galatea::sql(ctx, prepare).await.expect("prepared");
    }
    for (low, high) in [
        (0, 5),
        (950, 960),
        (0, 5),
        (95, 105),
        (400, 300),
        (0, 999),
        (0, 5),
    ] {
        let sql = format!("EXECUTE part({low}, {high})");
        let mut answers = Vec::new();
        for ctx in [&bed.pair.cpu, &bed.pair.gpu] {
            let frame = galatea::sql(ctx, &sql).await.expect("a plan");
            answers.push(frame.collect().await.expect("rows"));
        }
        same(&answers[0], &answers[1]).unwrap_or_else(|difference| panic!("{sql}\n{difference}"));
    }
}

/// A load of short ranges does not read the pages between them.
#[tokio::test]
async fn pages_between_short_ranges_are_not_read() {
    for page in [1, 2, 5] {
        let bed = Bed::new(&[("galatea.tuning.parquet_decoding", "host")]);
        let n: ArrayRef = Arc::new(Int64Array::from_iter_values(0..600));
        let m = (0..600).map(|row| (row / page % 9 == 0).then_some(row));
        let m: ArrayRef = Arc::new(Int64Array::from_iter(m));
        let rows = RecordBatch::try_from_iter_with_nullable([("n", n, true), ("m", m, true)]);
        let rows = rows.expect("columns of one length");
        let properties = WriterProperties::builder()
            .set_data_page_row_count_limit(page as usize)
            .set_write_batch_size(page as usize)
            .set_dictionary_enabled(false)
            .build();
        write(&bed.folder.path().join("a.parquet"), &rows, properties);
        bed.register(&[rows]).await;
        let sql = "SELECT count(*), sum(n), min(m), max(m) FROM t WHERE m IS NOT NULL";
        let plan = bed.explained(sql).await;
        assert!(plan.contains("row groups=1 of 1"), "{plan}");
        bed.pair.check(sql, true, &format!("{page} rows a page")).await;
    }
}

/// Files that are rewritten between queries.
#[tokio::test]
async fn rewritten_files_are_pruned_anew() {
    let bed = Bed::new(&[]);
    let path = bed.folder.path().join("a.parquet");
    let sql = "SELECT count(*), sum(m), min(s) FROM t WHERE n BETWEEN 210 AND 220";
    for (count, size) in [(1000, 100), (400, 50), (230, 100), (1000, 1000), (200, 10)] {
        let rows = ordered(count);
        write(&path, &rows, groups(size));
        bed.register(&[rows]).await;
        bed.pair
            .check(sql, true, &format!("{count} rows, {size} a row group"))
            .await;
        bed.pair.check(sql, true, "again").await;
    }
}

/// A random file: sorted, clustered or scattered values, NULLs, NaN, and properties of the writer.
fn random_rows(random: &mut SmallRng, count: usize) -> RecordBatch {
    let spread = random.random_range(0..3);
    let base: Vec<i64> = (0..count)
        .map(|row| match spread {
            0 => row as i64,
            1 => (row / 40 * 40) as i64 + random.random_range(0..60),
            _ => random.random_range(0..count as i64),
        })
        .collect();
    let nulls: Vec<bool> = {
        let whole = random.random_range(0..8) * 50;
        let share = random.random_range(0.0..0.3);
        (0..count)
            .map(|row| (whole..whole + 120).contains(&row) || random.random_bool(share))
            .collect()
    };
    let with_nulls = |row: usize| !nulls[row];
    let n: ArrayRef = Arc::new(Int64Array::from_iter_values(base.iter().copied()));
    let i: ArrayRef = Arc::new(Int32Array::from_iter(
        (0..count).map(|row| with_nulls(row).then_some(base[row] as i32 * 3 - 500)),
    ));
    let f: ArrayRef = Arc::new(Float64Array::from_iter((0..count).map(|row| {
        with_nulls(row).then(|| match random.random_range(0..60) {
            0 => f64::NAN,
            1 => -f64::NAN,
            2 => -0.0,
            _ => base[row] as f64 / 2.0,
        })
    })));
    let s: ArrayRef = Arc::new(StringArray::from_iter((0..count).map(|row| {
        with_nulls(row).then(|| format!("{}{:05}", "long ".repeat(15), base[row] / 3))
    })));
    let d = Decimal128Array::from_iter(
        (0..count).map(|row| with_nulls(row).then(|| i128::from(base[row]) * 125)),
    );
    let d: ArrayRef = Arc::new(d.with_precision_and_scale(15, 2).expect("in range"));
    let day: ArrayRef = Arc::new(Date32Array::from_iter_values(
        base.iter().map(|value| *value as i32 + 10_000),
    ));
    let flag: ArrayRef = Arc::new(BooleanArray::from_iter(
        (0..count).map(|row| with_nulls(row).then(|| base[row] > count as i64 / 2)),
    ));
    let columns = [
        ("n", n),
        ("i", i),
        ("f", f),
        ("s", s),
        ("d", d),
        ("day", day),
        ("flag", flag),
    ];
    let columns = columns.into_iter().map(|(name, values)| (name, values, true));
    RecordBatch::try_from_iter_with_nullable(columns).expect("columns of one length")
}

pub(crate) fn random_properties(random: &mut SmallRng) -> WriterProperties {
    let statistics = match random.random_range(0..4) {
        0 => EnabledStatistics::Chunk,
        1 if random.random_bool(0.3) => EnabledStatistics::None,
        _ => EnabledStatistics::Page,
    };
    let compression = match random.random_range(0..3) {
        0 => Compression::UNCOMPRESSED,
        1 => Compression::SNAPPY,
        _ => Compression::ZSTD(ZstdLevel::default()),
    };
    let version = match random.random_bool(0.5) {
        true => WriterVersion::PARQUET_1_0,
        false => WriterVersion::PARQUET_2_0,
    };
    WriterProperties::builder()
        .set_max_row_group_row_count(Some(random.random_range(60..600)))
        .set_data_page_row_count_limit(random.random_range(10..120))
        .set_write_batch_size(random.random_range(5..20))
        .set_statistics_enabled(statistics)
        .set_statistics_truncate_length(random.random_bool(0.5).then_some(64))
        .set_column_index_truncate_length(random.random_bool(0.5).then_some(16))
        .set_dictionary_enabled(random.random_bool(0.6))
        .set_dictionary_page_size_limit(random.random_range(100..4000))
        .set_bloom_filter_enabled(random.random_bool(0.4))
        .set_bloom_filter_max_ndv(300)
        .set_compression(compression)
        .set_writer_version(version)
        .build()
}

/// A random condition.
fn random_predicate(random: &mut SmallRng, count: i64, depth: u32) -> String {
    let value = random.random_range(-20..count + 20);
    let near = value + random.random_range(0..60);
    if depth > 0 && random.random_bool(0.5) {
        let (left, right) = (
            random_predicate(random, count, depth - 1),
            random_predicate(random, count, depth - 1),
        );
        return match random.random_range(0..5) {
            0 => format!("({left} OR {right})"),
            1 => format!("NOT ({left})"),
            _ => format!("({left} AND {right})"),
        };
    }
    let text = |value: i64| format!("'{}{:05}'", "long ".repeat(15), value / 3);
    match random.random_range(0..18) {
        0 | 1 => format!("n BETWEEN {value} AND {near}"),
        2 => format!("n = {value}"),
        3 => format!("n <> {value}"),
        4 => format!("n IN ({value}, {near}, {})", value / 2),
        5 => format!("i > {}", value * 3 - 500),
        6 => format!("i IS NULL AND n < {value}"),
        7 => "s IS NOT NULL".to_owned(),
        8 => format!("f < {}", value as f64 / 2.0),
        9 => format!("f >= {}", value as f64 / 2.0),
        10 => "f = 0.0".to_owned(),
        11 => format!("s = {}", text(value)),
        12 => format!("s > {}", text(value)),
        13 => format!("s LIKE '{}000%'", "long ".repeat(15)),
        14 => format!("d BETWEEN {} AND {}", value as f64 * 1.25, near as f64 * 1.25),
        15 => format!("day >= DATE '1997-05-19' + {value}"),
        16 => "flag".to_owned(),
        _ => format!("n + i > {value}"),
    }
}

/// Random predicates over random files: some queries load parts, later ones other parts or whole columns.
#[tokio::test]
async fn random_predicates_over_random_files() {
    let seed = galatea_device::environment::seed();
    println!("seed {seed}");
    let mut random = SmallRng::seed_from_u64(seed);
    for round in 0..6 {
        let decoding = ["device", "host"][round % 2];
        let bed = Bed::new(&[("galatea.tuning.parquet_decoding", decoding)]);
        let mut all = Vec::new();
        for file in 0..random.random_range(1..3) {
            let count = random.random_range(200..1500);
            let rows = random_rows(&mut random, count);
            let path = bed.folder.path().join(format!("{file}.parquet"));
            write(&path, &rows, random_properties(&mut random));
            all.push(rows);
        }
        bed.register(&all).await;
        for number in 0..6 {
            let predicate = random_predicate(&mut random, 1500, 2);
            let sql = match number % 3 {
                0 => format!("SELECT count(*), sum(n), min(s), max(d), count(f) FROM t WHERE {predicate}"),
                1 => {
                    format!("SELECT flag, count(*), max(day), min(i) FROM t WHERE {predicate} GROUP BY flag")
                }
                _ => format!("SELECT n, i, s, d FROM t WHERE {predicate}"),
            };
            let context = format!("seed {seed}, round {round}, {decoding}");
            bed.pair.check(&sql, false, &context).await;
            let expected = answer(&bed.pair.cpu, &sql).await;
            let again = answer(&bed.pair.gpu, &sql).await;
            same(&expected, &again).unwrap_or_else(|difference| panic!("{context}\n{sql}\n{difference}"));
        }
    }
}
