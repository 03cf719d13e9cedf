//! Statistics of row groups that are missing, shortened, inverted, deprecated or NaN.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow::array::*;
use parquet::file::metadata::*;
use parquet::file::statistics::Statistics;

use crate::row_groups::{Bed, groups, numbers, table, write};

/// Replaces the footer of a file by one with other statistics, and without page index.
fn lie(path: &Path, statistics: impl Fn(usize, usize, Option<&Statistics>) -> Option<Statistics>) {
    let bytes = std::fs::read(path).unwrap();
    let metadata = ParquetMetaDataReader::new()
        .with_page_index_policy(PageIndexPolicy::Skip)
        .parse_and_finish(&File::open(path).unwrap())
        .unwrap();
    let footer = u32::from_le_bytes(bytes[bytes.len() - 8..bytes.len() - 4].try_into().unwrap());
    let data = &bytes[..bytes.len() - 8 - footer as usize];
    let groups = metadata.row_groups().iter().enumerate().map(|(number, group)| {
        let columns = group.columns().iter().enumerate().map(|(column, chunk)| {
            let known = chunk.statistics();
            let changed = statistics(number, column, known);
            // The page index has the true bounds.
            let builder = chunk.clone().into_builder();
            let builder = builder
                .set_column_index_offset(None)
                .set_column_index_length(None)
                .set_offset_index_offset(None)
                .set_offset_index_length(None);
            match changed {
                Some(changed) => builder.set_statistics(changed),
                None => builder.clear_statistics(),
            }
            .build()
            .unwrap()
        });
        let columns = columns.collect();
        group
            .clone()
            .into_builder()
            .set_column_metadata(columns)
            .build()
            .unwrap()
    });
    let file = metadata.file_metadata();
    let file = FileMetaData::new(
        file.version(),
        file.num_rows(),
        file.created_by().map(str::to_owned),
        file.key_value_metadata().cloned(),
        file.schema_descr_ptr(),
        file.column_orders().cloned(),
    );
    let changed = ParquetMetaData::new(file, groups.collect());
    let mut written = data.to_vec();
    ParquetMetaDataWriter::new(&mut written, &changed)
        .finish()
        .unwrap();
    std::fs::write(path, written).unwrap();
}

/// A bed with a file of `batch` that has other statistics.
async fn lying(
    batch: &RecordBatch,
    statistics: impl Fn(usize, usize, Option<&Statistics>) -> Option<Statistics>,
) -> Bed {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    write(&path, batch, groups().build());
    lie(&path, statistics);
    Bed::of(folder).await
}

#[tokio::test]
async fn null_counts_skip_row_groups_if_they_are_known() {
    let values = (0..800).map(|row| (!(200..400).contains(&row)).then_some(row));
    let batch = table(vec![("n", Arc::new(Int64Array::from_iter(values)) as ArrayRef)]);
    let bed = Bed::new(&batch, groups()).await;
    assert_eq!(bed.counts("n IS NULL").await, (2, 6, 0));
    assert_eq!(bed.counts("n IS NOT NULL").await, (6, 2, 0));
    assert_eq!(bed.counts("n > 650").await, (2, 6, 0));
    assert_eq!(bed.counts("n < 150").await, (2, 6, 0));
    let without = |_: usize, _: usize, known: Option<&Statistics>| match known? {
        Statistics::Int64(known) => Some(Statistics::int64(
            known.min_opt().copied(),
            known.max_opt().copied(),
            None,
            None,
            false,
        )),
        other => Some(other.clone()),
    };
    let bed = lying(&batch, without).await;
    assert_eq!(bed.counts("n IS NULL").await, (8, 0, 0), "unknown null counts");
    assert_eq!(bed.counts("n > 650").await, (4, 4, 0), "NULLs have no bounds");
}

#[tokio::test]
async fn bounds_that_contradict_each_other_are_not_used() {
    let batch = table(vec![("n", numbers(800)), ("m", numbers(800))]);
    let inverted = |group: usize, column: usize, known: Option<&Statistics>| match (known?, column) {
        (Statistics::Int64(known), 0) if group.is_multiple_of(2) => Some(Statistics::int64(
            known.max_opt().copied(),
            known.min_opt().copied(),
            None,
            Some(0),
            false,
        )),
        (other, _) => Some(other.clone()),
    };
    let bed = lying(&batch, inverted).await;
    assert_eq!(bed.counts("n = 50").await, (4, 4, 0));
    assert_eq!(bed.counts("m = 50").await, (1, 7, 0));
    let none = |_: usize, _: usize, _: Option<&Statistics>| None;
    let bed = lying(&batch, none).await;
    assert_eq!(bed.counts("n = 50").await, (8, 0, 0));
    let half = |_: usize, _: usize, known: Option<&Statistics>| match known? {
        Statistics::Int64(known) => Some(Statistics::int64(
            known.min_opt().copied(),
            None,
            None,
            Some(0),
            false,
        )),
        other => Some(other.clone()),
    };
    let bed = lying(&batch, half).await;
    assert_eq!(bed.counts("n < 50").await, (1, 7, 0));
    assert_eq!(bed.counts("n > 750").await, (8, 0, 0));
}

/// Statistics leave NaN out, and may have 0.0 for -0.0.
#[tokio::test]
async fn floats_have_lower_bounds_only() {
    let values = (0..800).map(|row| match row {
        150 => f64::NAN,
        row => f64::from(row),
    });
    let zeros = (0..800).map(|row| match row {
        0..100 if row % 2 == 0 => -0.0,
        0..100 => 0.0,
        row => f64::from(row),
    });
    let batch = table(vec![
        ("f", Arc::new(Float64Array::from_iter_values(values)) as ArrayRef),
        ("z", Arc::new(Float64Array::from_iter_values(zeros)) as ArrayRef),
    ]);
    let positive = |_: usize, _: usize, known: Option<&Statistics>| match known? {
        Statistics::Double(known) => Some(Statistics::double(
            known.min_opt().map(|bound| bound.abs()),
            known.max_opt().copied(),
            None,
            Some(0),
            false,
        )),
        other => Some(other.clone()),
    };
    for bed in [Bed::new(&batch, groups()).await, lying(&batch, positive).await] {
        assert_eq!(bed.counts("f < 50").await, (1, 7, 0));
        assert_eq!(bed.counts("f > 750").await, (8, 0, 0), "NaN is greater");
        assert_eq!(bed.counts("f = 120").await, (2, 6, 0));
        assert_eq!(bed.counts("z <= -0.0").await, (1, 7, 0));
        assert_eq!(bed.counts("z = 0.0").await, (1, 7, 0));
    }
    let nan = |_: usize, _: usize, _: Option<&Statistics>| {
        Some(Statistics::double(
            Some(f64::NAN),
            Some(f64::NAN),
            None,
            Some(0),
            false,
        ))
    };
    let bed = lying(&batch, nan).await;
    assert_eq!(bed.counts("f < 50").await, (8, 0, 0));
}

/// Bounds of long strings are shortened.
#[tokio::test]
async fn shortened_bounds_of_strings_are_bounds() {
    let long = "x".repeat(200);
    let values = (0..800).map(|row| match row / 100 {
        // All values have the same first 64 bytes.
        0 => format!("{long}{row}"),
        1 => long.clone(),
        2 => "\u{10ffff}".repeat(30),
        group => format!("{group}{}", "\u{e9}".repeat(60)),
    });
    let values: ArrayRef = Arc::new(StringArray::from_iter_values(values));
    let binary: ArrayRef = Arc::new(BinaryArray::from_iter_values((0..800).map(|row| {
        let mut value = vec![0xff; 100];
        value[99] = (row / 100) as u8;
        value
    })));
    let properties = groups().set_statistics_truncate_length(Some(8));
    let bed = Bed::new(&table(vec![("s", values), ("b", binary)]), properties).await;
    for sql in [
        format!("s = '{long}17'"),
        format!("s <> '{long}'"),
        format!("s > '{long}'"),
        format!("s < '{long}1'"),
        format!("s LIKE '{}%'", "x".repeat(150)),
        format!("s >= '{}'", "\u{10ffff}".repeat(30)),
        format!("s = '3{}'", "\u{e9}".repeat(60)),
        format!("b = X'{}07'", "ff".repeat(99)),
        format!("b <> X'{}07'", "ff".repeat(99)),
        format!("b > X'{}05'", "ff".repeat(99)),
    ] {
        bed.load(&sql).await;
    }
    assert_eq!(bed.counts(&format!("s = '3{}'", "\u{e9}".repeat(60))).await.0, 1);
    // A writer that shortens both bounds to one string.
    let equal = |_: usize, column: usize, known: Option<&Statistics>| match (known?, column) {
        (Statistics::ByteArray(_), 0) => {
            let bound = parquet::data_type::ByteArray::from("xx");
            let bounds = parquet::file::statistics::ValueStatistics::new(
                Some(bound.clone()),
                Some(bound),
                None,
                Some(0),
                false,
            );
            Some(Statistics::ByteArray(
                bounds.with_min_is_exact(false).with_max_is_exact(false),
            ))
        }
        (other, _) => Some(other.clone()),
    };
    let text: ArrayRef = Arc::new(StringArray::from_iter_values(
        (0..300).map(|row| format!("xx{row}")),
    ));
    let bed = lying(&table(vec![("s", text)]), equal).await;
    assert_eq!(bed.counts("s <> 'xx'").await, (3, 0, 0));
}

/// The deprecated bounds compare bytes with a sign.
#[tokio::test]
async fn deprecated_bounds_are_used_for_signed_numbers_only() {
    let text = (0..800).map(|row| match row / 100 {
        3 => "\u{e9}t\u{e9}".to_owned(),
        group => format!("{group}"),
    });
    let batch = table(vec![
        ("n", numbers(800)),
        ("s", Arc::new(StringArray::from_iter_values(text)) as ArrayRef),
    ]);
    let deprecated = |_: usize, _: usize, known: Option<&Statistics>| {
        Some(match known? {
            Statistics::Int64(known) => Statistics::int64(
                known.min_opt().copied(),
                known.max_opt().copied(),
                None,
                Some(0),
                true,
            ),
            Statistics::ByteArray(known) => Statistics::byte_array(
                known.max_opt().cloned(),
                known.max_opt().cloned(),
                None,
                Some(0),
                true,
            ),
            other => other.clone(),
        })
    };
    let bed = lying(&batch, deprecated).await;
    assert_eq!(bed.counts("n = 5").await, (1, 7, 0));
    assert_eq!(bed.counts("s = '5'").await, (8, 0, 0));
}
