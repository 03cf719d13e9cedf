//! Bloom filters skip row groups.

use std::fs::File;
use std::sync::Arc;

use arrow::array::*;
use parquet::file::metadata::ParquetMetaDataReader;

use crate::row_groups::{Bed, groups, table, write};

#[tokio::test]
async fn bloom_filters_skip_row_groups_without_the_values() {
    let scattered = |row: i64| row * 7919 % 10_007;
    let keys: ArrayRef = Arc::new(Int64Array::from_iter_values((0..800).map(scattered)));
    let small: ArrayRef = Arc::new(Int16Array::from_iter_values(
        (0..800).map(|row| (scattered(row) % 30_000) as i16),
    ));
    let text: ArrayRef = Arc::new(StringArray::from_iter_values(
        (0..800).map(|row| format!("key {}", scattered(row))),
    ));
    let decimal = (0..800).map(|row| i128::from(scattered(row)));
    let decimal = Decimal128Array::from_iter_values(decimal);
    let decimal: ArrayRef = Arc::new(decimal.with_precision_and_scale(30, 2).unwrap());
    let day: ArrayRef = Arc::new(Date32Array::from_iter_values(
        (0..800).map(|row| scattered(row) as i32),
    ));
    let float: ArrayRef = Arc::new(Float64Array::from_iter_values((0..800).map(|row| {
        if row == 5 {
            -0.0
        } else {
            scattered(row) as f64 + 1.0
        }
    })));
    let batch = table(vec![
        ("k", keys),
        ("i", small),
        ("s", text),
        ("d", decimal),
        ("day", day),
        ("f", float),
    ]);
    let properties = groups()
        .set_dictionary_enabled(false)
        .set_bloom_filter_enabled(true)
        .set_bloom_filter_max_ndv(50)
        .set_bloom_filter_fpp(0.01);
    let bed = Bed::new(&batch, properties).await;
    // The row group of row 333; filters have few false positives.
    let value = scattered(333);
    for sql in [
        format!("k = {value}"),
        format!("i = {value}"),
        format!("s = 'key {value}'"),
        format!("d = {}.{:02}", value / 100, value % 100),
        format!("day = DATE '1970-01-01' + {value}"),
        format!("k = {value} AND s = 'key {value}'"),
    ] {
        let (read, by_statistics, by_filters) = bed.counts(&sql).await;
        assert!((1..=3).contains(&read), "{sql}: {read}");
        assert_eq!(read + by_statistics + by_filters, 8, "{sql}");
        assert!(by_filters >= 4, "{sql}: {by_filters}");
    }
    let other = scattered(700);
    let (read, ..) = bed.counts(&format!("k IN ({value}, {other}, NULL)")).await;
    assert!((2..=4).contains(&read), "{read}");
    assert_eq!(bed.counts("f = 0.0").await.2, 0, "-0.0 is equal");
    let either = format!("k = {value} OR s = 'key {other}'");
    assert_eq!(bed.counts(&either).await.2, 0, "either column may decide");
    assert_eq!(bed.counts(&format!("k <> {value}")).await, (8, 0, 0));
}

#[tokio::test]
async fn unreadable_bloom_filters_are_not_used() {
    let keys: ArrayRef = Arc::new(Int64Array::from_iter_values(
        (0..800).map(|row| row * 7919 % 10_007),
    ));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    let properties = groups()
        .set_dictionary_enabled(false)
        .set_bloom_filter_enabled(true)
        .set_bloom_filter_max_ndv(50);
    write(&path, &table(vec![("k", keys)]), properties.build());
    let metadata = ParquetMetaDataReader::new()
        .parse_and_finish(&File::open(&path).unwrap())
        .unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    for group in metadata.row_groups() {
        let start = group.column(0).bloom_filter_offset().unwrap() as usize;
        bytes[start..start + 12].fill(0xff);
    }
    std::fs::write(&path, bytes).unwrap();
    let bed = Bed::of(folder).await;
    assert_eq!(bed.counts(&format!("k = {}", 333 * 7919 % 10_007)).await.2, 0);
}
