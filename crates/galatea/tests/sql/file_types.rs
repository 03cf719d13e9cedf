//! Folders of Parquet files that store one column in different types.

use crate::compare::Pair;
use datafusion::arrow::array::*;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::data_type::{FixedLenByteArray, FixedLenByteArrayType, Int32Type, Int64Type};
use datafusion::parquet::file::writer::SerializedFileWriter;
use datafusion::parquet::schema::parser::parse_message_type;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

fn write(path: &Path, columns: Vec<(&str, ArrayRef)>) {
    let batch = RecordBatch::try_from_iter(columns).expect("columns of one length");
    let file = File::create(path).expect("a new file");
    let mut writer = ArrowWriter::try_new(file, batch.schema(), None).expect("a writer");
    writer.write(&batch).expect("writes");
    writer.close().expect("writes");
}

/// A file with one decimal column `d`, stored as `physical`.
fn write_decimals(path: &Path, physical: &str, values: &[i64]) {
    let schema = format!("message m {{ REQUIRED {physical} d (DECIMAL(9, 2)); }}");
    let schema = Arc::new(parse_message_type(&schema).expect("a schema"));
    let file = File::create(path).expect("a new file");
    let mut writer = SerializedFileWriter::new(file, schema, Arc::default()).expect("a writer");
    let mut group = writer.next_row_group().expect("a row group");
    let mut column = group.next_column().expect("a column").expect("the one column");
    match physical {
        "INT32" => {
            let values: Vec<i32> = values.iter().map(|value| *value as i32).collect();
            column.typed::<Int32Type>().write_batch(&values, None, None)
        }
        "INT64" => column.typed::<Int64Type>().write_batch(values, None, None),
        _ => {
            let bytes = |value: &i64| FixedLenByteArray::from(value.to_be_bytes()[3..].to_vec());
            let values: Vec<FixedLenByteArray> = values.iter().map(bytes).collect();
            column
                .typed::<FixedLenByteArrayType>()
                .write_batch(&values, None, None)
        }
    }
    .expect("writes");
    column.close().expect("writes");
    group.close().expect("writes");
    writer.close().expect("writes");
}

async fn external(pair: &Pair, name: &str, columns: &str, folder: &Path) {
    let sql = format!(
        "CREATE EXTERNAL TABLE {name} {columns} STORED AS PARQUET LOCATION '{}/'",
        folder.display()
    );
    for ctx in [&pair.cpu, &pair.gpu] {
        ctx.sql(&sql)
            .await
            .expect("plans")
            .collect()
            .await
            .expect("a table");
    }
}

#[tokio::test]
async fn decimals_of_different_physical_types_are_merged() {
    let folder = tempfile::tempdir().expect("a folder");
    let values: Vec<i64> = (-50..50).map(|value| value * 1234).collect();
    write_decimals(&folder.path().join("a.parquet"), "INT64", &values);
    write_decimals(
        &folder.path().join("b.parquet"),
        "FIXED_LEN_BYTE_ARRAY (5)",
        &values,
    );
    write_decimals(&folder.path().join("c.parquet"), "INT32", &values);
    let other: ArrayRef = Arc::new(Int64Array::from_iter_values(0..70));
    write(&folder.path().join("d.parquet"), vec![("other", other)]);
    for chunk_rows in ["1048576", "64"] {
        let pair = Pair::new(&[("galatea.tuning.chunk_rows", chunk_rows)]);
        external(&pair, "t", "(d DECIMAL(9, 2), other BIGINT)", folder.path()).await;
        for sql in [
            "SELECT count(*), count(d), sum(d), min(d), max(d) FROM t",
            "SELECT d, count(*) FROM t GROUP BY d",
            "SELECT d, other FROM t WHERE d > 100 OR other < 7",
        ] {
            pair.check(sql, true, chunk_rows).await;
        }
    }
}

#[tokio::test]
async fn columns_of_different_types_and_orders_are_cast() {
    let folder = tempfile::tempdir().expect("a folder");
    let numbers = |range: std::ops::Range<i64>| Arc::new(Int64Array::from_iter_values(range)) as ArrayRef;
    let words: ArrayRef = Arc::new(StringArray::from_iter_values(
        (0..100).map(|n| format!("w{}", n % 9)),
    ));
    let to = |array: &ArrayRef, data_type: &DataType| cast(array, data_type).expect("castable");
    let micros = DataType::Timestamp(TimeUnit::Microsecond, None);
    let millis = DataType::Timestamp(TimeUnit::Millisecond, None);
    let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    write(
        &folder.path().join("a.parquet"),
        vec![
            ("n", to(&numbers(0..100), &DataType::Int32)),
            ("w", Arc::clone(&words)),
            ("t", to(&numbers(5000..5100), &millis)),
            ("f", to(&numbers(0..100), &DataType::Float32)),
        ],
    );
    write(
        &folder.path().join("b.parquet"),
        vec![
            ("f", to(&numbers(100..200), &DataType::Float64)),
            ("t", to(&numbers(7_000_000..7_000_100), &micros)),
            ("w", to(&words, &dictionary)),
            ("n", numbers(1 << 40..(1 << 40) + 100)),
        ],
    );
    write(
        &folder.path().join("c.parquet"),
        vec![
            ("w", to(&words, &DataType::LargeUtf8)),
            ("unasked", numbers(0..100)),
        ],
    );
    let pair = Pair::new(&[]);
    external(
        &pair,
        "t",
        "(n BIGINT, w VARCHAR, t TIMESTAMP, f DOUBLE)",
        folder.path(),
    )
    .await;
    for sql in [
        "SELECT count(*), sum(n), min(t), max(t), sum(f), min(w) FROM t",
        "SELECT w, count(n), sum(f) FROM t GROUP BY w",
        "SELECT n, w, t FROM t WHERE t > TIMESTAMP '1970-01-01T00:00:05.050' OR w = 'w3'",
    ] {
        pair.check(sql, true, "cast columns").await;
    }
    // A value that the table's type cannot represent fails equally.
    let narrow = Pair::new(&[]);
    external(&narrow, "t", "(n INT)", folder.path()).await;
    narrow
        .check("SELECT sum(n) FROM t", false, "values beyond the type")
        .await;
}

/// Times of day of any unit are times of SQL: they are compared with each other, with constants and with the
/// times of other files. Row groups and pages are skipped by statistics in the unit of the file.
#[tokio::test]
async fn times_of_every_unit_are_times_of_sql() {
    let seconds = Int32Array::from_iter((0..6_000).map(|row| (row % 50 != 7).then_some(row * 14)));
    let seconds: ArrayRef = Arc::new(seconds);
    let as_type = |data_type: &DataType| {
        let coarse = cast(&seconds, &DataType::Time32(TimeUnit::Second)).expect("times");
        cast(&coarse, data_type).expect("times of a unit")
    };
    let types = [
        DataType::Time32(TimeUnit::Millisecond),
        DataType::Time64(TimeUnit::Microsecond),
        DataType::Time64(TimeUnit::Nanosecond),
    ];
    let rows: ArrayRef = Arc::new(Int64Array::from_iter_values(0..6_000));
    let pair = Pair::new(&[("galatea.tuning.chunk_rows", "2000")]);
    for (number, data_type) in types.iter().enumerate() {
        let folder = tempfile::tempdir().expect("a folder");
        for file in ["a.parquet", "b.parquet"] {
            let columns = vec![("t", as_type(data_type)), ("a", Arc::clone(&rows))];
            write(&folder.path().join(file), columns);
        }
        external(&pair, &format!("times{number}"), "", folder.path()).await;
        for condition in [
            "t = TIME '01:00:40'",
            "t <> TIME '01:00:40'",
            "t > TIME '22:00:00'",
            "t BETWEEN TIME '00:10:00' AND TIME '00:30:00.5'",
            "t IN (TIME '00:00:14', TIME '05:00:00')",
            "t < '00:20:00'",
            "t IS NULL",
        ] {
            let sql = format!("SELECT count(*), min(t), max(t), sum(a) FROM times{number} WHERE {condition}");
            pair.check(&sql, false, condition).await;
        }
        for sql in [
            format!("SELECT t, count(*) FROM times{number} WHERE a < 300 GROUP BY t"),
            format!("SELECT extract(hour FROM t) AS h, count(*) FROM times{number} GROUP BY h"),
            format!("SELECT count(*), max(o.t) FROM times0 JOIN times{number} AS o ON times0.t = o.t"),
            format!("SELECT t FROM times{number} WHERE a < 3 UNION ALL SELECT TIME '01:00:00'"),
            format!("SELECT coalesce(t, TIME '01:00:00') FROM times{number} WHERE a < 20"),
        ] {
            pair.check(&sql, false, &sql).await;
        }
    }
}
