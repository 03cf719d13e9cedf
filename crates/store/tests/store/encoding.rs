//! The chosen encodings, and their memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::*;
use galatea_store::*;

use crate::data::batch;
use crate::round_trip::{assert_same, decoded};

fn encoded(array: ArrayRef, chunk_rows: usize) -> Arc<Column> {
    let store = Store::new(StoreOptions {
        memory_limit: Some(1 << 30),
        chunk_rows,
        ..StoreOptions::default()
    });
    let batch = batch(array);
    let table = StoredTable::from_batches(&store, "t", batch.schema(), [batch]).unwrap();
    Arc::clone(&table.snapshot().columns[0])
}

fn frame(values: impl IntoIterator<Item = i64>, chunk_rows: usize) -> (Width, u64, Vec<i64>) {
    let array: ArrayRef = Arc::new(Int64Array::from_iter_values(values));
    let column = encoded(Arc::clone(&array), chunk_rows);
    assert_same(&array, &decoded(&column), "frame");
    match column.encoding {
        Encoding::Integer { width, factor } => (
            width,
            factor,
            column.chunks.iter().map(|chunk| chunk.base).collect(),
        ),
        ref other => panic!("{other:?}"),
    }
}

#[test]
fn widths_are_the_narrowest() {
    assert_eq!(frame([5; 100], 1000), (Width::Zero, 1, vec![5]));
    assert_eq!(frame(1000..1256, 1000), (Width::One, 1, vec![1000]));
    assert_eq!(frame(1000..1257, 1000), (Width::Two, 1, vec![1000]));
    assert_eq!(frame([0, 65_535, 1], 1000), (Width::Two, 1, vec![0]));
    assert_eq!(frame([0, 65_536, 1], 1000), (Width::Four, 1, vec![0]));
    assert_eq!(
        frame([i64::MIN, i64::MAX, 0], 1000),
        (Width::Eight, 1, vec![i64::MIN])
    );
    // Each chunk has its own base; all have one width.
    assert_eq!(frame(0..1000, 250), (Width::One, 1, vec![0, 250, 500, 750]));
    let two = (0..500).map(|row| {
        if row < 250 {
            row
        } else {
            1_000_000 + row * 100 + row % 2
        }
    });
    assert_eq!(frame(two, 250), (Width::Two, 1, vec![0, 1_025_000]));
}

#[test]
fn factors_are_used_if_they_narrow_codes() {
    // Quantities of decimal(15, 2) from 1.00 to 50.00.
    let quantities = (0..1000).map(|row| (row % 50 + 1) * 100);
    assert_eq!(frame(quantities, 300), (Width::One, 100, vec![100; 4]));
    // Whole seconds in microseconds.
    let seconds = (0..300).map(|row| 1_700_000_000_000_000 + row * 1_000_000);
    assert_eq!(
        frame(seconds, 1000),
        (Width::Two, 1_000_000, vec![1_700_000_000_000_000])
    );
    // A common divisor that narrows nothing is not used.
    assert_eq!(frame([0, 2, 4, 6], 1000), (Width::One, 1, vec![0]));
    // The column's factor divides those of all chunks. One was divided by more, one not at all.
    let mixed = (0..750).map(|row| match row / 250 {
        0 => row * 1000,
        1 => 30 * (row % 7),
        _ => 40 * (row * row % 6000),
    });
    let (width, factor, _) = frame(mixed, 250);
    assert_eq!((width, factor), (Width::Two, 10));
    // A chunk with only one value, or only nulls, does not affect the choice.
    let array: ArrayRef = Arc::new(Int64Array::from_iter((0..900).map(|row| match row / 300 {
        0 => Some(7),
        1 => None,
        _ => Some(row * 4096),
    })));
    let column = encoded(Arc::clone(&array), 300);
    assert!(
        matches!(
            column.encoding,
            Encoding::Integer {
                width: Width::Two,
                factor: 4096
            }
        ),
        "{:?}",
        column.encoding
    );
    assert_same(&array, &decoded(&column), "factor");
}

#[test]
fn unsigned_integers_beyond_i64_are_encoded() {
    let values = [u64::MAX, u64::MAX - 1, 1 << 63, (1 << 63) + 5];
    for chunk_rows in [1, 2, 10] {
        let array: ArrayRef = Arc::new(UInt64Array::from_iter_values(values));
        assert_same(&array, &decoded(&encoded(Arc::clone(&array), chunk_rows)), "u64");
    }
    let array: ArrayRef = Arc::new(UInt64Array::from_iter_values([0, u64::MAX, 3]));
    assert_same(&array, &decoded(&encoded(Arc::clone(&array), 10)), "u64");
}

#[test]
fn decimals_beyond_64_bits_are_wide() {
    let wide = i128::from(i64::MAX) + 1;
    let array: ArrayRef = Arc::new(Decimal128Array::from_iter([
        Some(1),
        None,
        Some(2),
        Some(wide),
        Some(-wide - 1),
    ]));
    let column = encoded(Arc::clone(&array), 2);
    assert!(matches!(column.encoding, Encoding::Decimal128));
    assert_same(&array, &decoded(&column), "wide");
    let narrow: ArrayRef = Arc::new(Decimal128Array::from_iter([Some(1), Some(wide - 1)]));
    assert!(matches!(encoded(narrow, 2).encoding, Encoding::Integer { .. }));
}

fn strings(values: impl IntoIterator<Item = String>, chunk_rows: usize) -> Arc<Column> {
    let array: ArrayRef = Arc::new(StringArray::from_iter_values(values));
    let column = encoded(Arc::clone(&array), chunk_rows);
    assert_same(&array, &decoded(&column), "strings");
    column
}

#[test]
fn dictionaries_are_sorted_and_shared_by_chunks() {
    let words = ["b", "", "zz", "a", "\u{e9}", "Z", "ab", "a\0"];
    let column = strings(
        (0..5000).map(|row| words[(row * 31 + row / 900) % words.len()].to_owned()),
        512,
    );
    let values = column.dictionary().unwrap().as_string::<i32>().clone();
    let sorted: Vec<&str> = values.iter().flatten().collect();
    assert!(
        sorted.is_sorted_by(|left, right| left.as_bytes() < right.as_bytes()),
        "{sorted:?}"
    );
    assert!(matches!(
        column.encoding,
        Encoding::Dictionary {
            width: Width::One,
            ..
        }
    ));
    for (code, value) in sorted.iter().enumerate() {
        assert_eq!(
            dictionary_code(column.dictionary().unwrap(), value.as_bytes()),
            Some(code)
        );
    }
    assert_eq!(dictionary_code(column.dictionary().unwrap(), b"no"), None);
    assert_eq!(
        dictionary_lower_bound(column.dictionary().unwrap(), b"\xff"),
        sorted.len()
    );
}

#[test]
fn dictionaries_are_chosen_if_they_pay() {
    let dictionary = |column: &Column| matches!(column.encoding, Encoding::Dictionary { .. });
    // Few values always pay; the width follows their number.
    assert!(dictionary(&strings(
        (0..200).map(|row| format!("name {row}")),
        100
    )));
    let many = strings(
        (0..40_000).map(|row| format!("a name that repeats {}", row * 7 % 1000)),
        5000,
    );
    assert!(matches!(
        many.encoding,
        Encoding::Dictionary {
            width: Width::Two,
            ..
        }
    ));
    // A dictionary of values that hardly repeat does not pay.
    assert!(!dictionary(&strings(
        (0..40_000).map(|row| format!("a name {}", row / 2)),
        5000
    )));
    assert!(!dictionary(&strings(
        (0..60_000).map(|row| format!("Customer#{row:09}")),
        60_000
    )));
    // If one chunk has no repeated values, all are stored as strings.
    let mixed = (0..80_000).map(|row| {
        if row < 40_000 {
            "same".to_owned()
        } else {
            format!("Customer#{row:09}")
        }
    });
    assert!(!dictionary(&strings(mixed, 40_000)));
}

#[tokio::test]
async fn required_dictionaries_are_always_built() {
    let store = Store::new(StoreOptions {
        memory_limit: Some(1 << 30),
        chunk_rows: 30_000,
        ..StoreOptions::default()
    });
    let array: ArrayRef = Arc::new(StringArray::from_iter(
        (0..50_000).map(|row| (row % 9 != 0).then(|| format!("Customer#{row:09}"))),
    ));
    let batch = batch(Arc::clone(&array));
    let table = StoredTable::from_batches(&store, "t", batch.schema(), [batch]).unwrap();
    let plain = table.load(&[0], &LoadHints::default(), None).await.unwrap();
    assert!(matches!(plain.columns[0].encoding, Encoding::Text { .. }));
    let hints = LoadHints::with_dictionaries(vec![0]);
    let view = table.load(&[0], &hints, None).await.unwrap();
    assert!(matches!(
        view.columns[0].encoding,
        Encoding::Dictionary {
            width: Width::Two,
            ..
        }
    ));
    assert_same(&array, &decoded(&view.columns[0]), "required dictionary");
    let again = table.load(&[0], &hints, None).await.unwrap();
    assert!(Arc::ptr_eq(&view.columns[0], &again.columns[0]));
}

#[test]
fn an_empty_dictionary_has_a_value_for_code_zero() {
    let array: ArrayRef = Arc::new(StringArray::new_null(10));
    let column = encoded(array, 4);
    assert_eq!(column.dictionary().unwrap().len(), 1);
    assert!(column.range.is_none());
}

/// Bytes of the slabs and dictionaries of some columns.
fn bytes_of(columns: &[Arc<Column>]) -> u64 {
    let mut slabs = BTreeMap::new();
    let mut dictionaries = BTreeMap::new();
    for column in columns {
        for chunk in &column.chunks {
            for view in chunk.views() {
                slabs.insert(Arc::as_ptr(view.memory()), view.memory().len() as u64);
            }
        }
        if let Some(dictionary) = column.dictionary() {
            dictionaries.insert(
                Arc::as_ptr(dictionary).cast::<()>(),
                dictionary.get_buffer_memory_size() as u64,
            );
        }
    }
    slabs.values().sum::<u64>() + dictionaries.values().sum::<u64>()
}

#[test]
fn used_memory_counts_slabs_and_dictionaries() {
    let store = Store::new(StoreOptions {
        memory_limit: Some(1 << 30),
        chunk_rows: 1000,
        ..StoreOptions::default()
    });
    let rows = 12_345;
    let columns: Vec<(&str, ArrayRef)> = vec![
        (
            "a",
            Arc::new(Int32Array::from_iter_values((0..rows).map(|row| row % 300))),
        ),
        (
            "b",
            Arc::new(StringArray::from_iter_values(
                (0..rows).map(|row| format!("word {}", row % 10)),
            )),
        ),
        (
            "c",
            Arc::new(StringArray::from_iter_values(
                (0..rows).map(|row| format!("Clerk#{:09}", row * 31)),
            )),
        ),
        (
            "d",
            Arc::new(Float64Array::from_iter(
                (0..rows).map(|row| (row % 5 != 0).then_some(f64::from(row))),
            )),
        ),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let table = StoredTable::from_batches(&store, "t", batch.schema(), [batch.clone()]).unwrap();
    let snapshot = table.snapshot();
    assert_eq!(store.memory_used(), bytes_of(&snapshot.columns));
    assert_eq!(
        store.memory_used(),
        snapshot.columns.iter().map(|column| column.bytes()).sum::<u64>()
    );
    // Little more than the bytes that a scan reads.
    let read: u64 = snapshot.columns.iter().map(|column| column.stored_bytes()).sum();
    assert!(
        read <= store.memory_used() && store.memory_used() < read + 4 * 13 * 3 * 256 + 1000,
        "{read}"
    );
    let other = StoredTable::from_batches(&store, "u", batch.schema(), [batch]).unwrap();
    let both: Vec<_> = snapshot
        .columns
        .iter()
        .chain(&other.snapshot().columns)
        .cloned()
        .collect();
    assert_eq!(store.memory_used(), bytes_of(&both));
    drop((both, other));
    assert_eq!(store.memory_used(), bytes_of(&snapshot.columns));
    drop((snapshot, table));
    assert_eq!(store.memory_used(), 0);
}

#[test]
fn oversized_table_error_contains_sizes() {
    let store = Store::new(StoreOptions {
        memory_limit: Some(100_000),
        chunk_rows: 1000,
        ..StoreOptions::default()
    });
    let array: ArrayRef = Arc::new(Float64Array::from_iter_values((0..50_000).map(f64::from)));
    let batch = batch(array);
    // Several threads reserve memory for chunks. The numbers add up, whichever thread is refused.
    for _ in 0..50 {
        let error = StoredTable::from_batches(&store, "big", batch.schema(), [batch.clone()]).unwrap_err();
        assert!(error.is_refusal());
        match error {
            StoreError::StoreLimit {
                table,
                needed,
                used,
                limit,
                knob,
            } => {
                assert_eq!(
                    (table.as_str(), used, limit, knob),
                    ("big", 0, 100_000, "galatea.memory.store_limit")
                );
                assert!(needed > limit, "{needed}");
            }
            other => panic!("{other}"),
        }
        assert_eq!(store.memory_used(), 0);
    }
    store.set_memory_limit(1_000_000);
    StoredTable::from_batches(&store, "big", batch.schema(), [batch]).unwrap();
}
