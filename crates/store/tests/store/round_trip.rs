//! Encoding and decoding is the identity, for every type and the boundary sizes of loops.

use std::sync::Arc;

use arrow::array::*;
use arrow::compute::concat;
use arrow::datatypes::*;
use galatea_store::*;
use proptest::prelude::*;

use crate::data::{NULLS, Nulls, SHAPES, Shape, all_types, array, batch, pieces};

const CHUNK: usize = 1500;

fn store(packing: Packing) -> Arc<Store> {
    Store::new(StoreOptions {
        memory_limit: Some(1 << 30),
        chunk_rows: CHUNK,
        packing,
    })
}

/// The whole column, decoded.
pub(crate) fn decoded(column: &Arc<Column>) -> ArrayRef {
    let decoder = Decoder::new(column).unwrap();
    let chunks = column.chunks.iter().enumerate();
    let arrays: Vec<ArrayRef> = chunks
        .map(|(chunk, rows)| decoder.decode(chunk, 0..rows.rows as usize).unwrap())
        .collect();
    if arrays.is_empty() {
        return new_empty_array(&column.data_type);
    }
    concat(&arrays.iter().map(AsRef::as_ref).collect::<Vec<_>>()).unwrap()
}

/// Asserts the same type, the same nulls and the same bits.
pub(crate) fn assert_same(expected: &ArrayRef, actual: &ArrayRef, what: &str) {
    assert_eq!(expected.data_type(), actual.data_type(), "{what}");
    assert_eq!(expected.len(), actual.len(), "{what}");
    // Floats compare by their bits: two NaNs are the same, two zeros are not.
    fn bits(array: &ArrayRef) -> ArrayRef {
        match array.data_type() {
            DataType::Float16 => {
                let array = array.as_primitive::<Float16Type>();
                Arc::new(array.unary::<_, UInt16Type>(half::f16::to_bits))
            }
            DataType::Float32 => {
                let array = array.as_primitive::<Float32Type>();
                Arc::new(array.unary::<_, UInt32Type>(f32::to_bits))
            }
            DataType::Float64 => {
                let array = array.as_primitive::<Float64Type>();
                Arc::new(array.unary::<_, UInt64Type>(f64::to_bits))
            }
            // Two dictionaries may number the same values differently.
            DataType::Dictionary(_, values) => arrow::compute::cast(array, values).unwrap(),
            _ => Arc::clone(array),
        }
    }
    let (expected, actual) = (bits(expected), bits(actual));
    if *expected != *actual {
        let differ = (0..expected.len()).find(|row| *expected.slice(*row, 1) != *actual.slice(*row, 1));
        let row = differ.unwrap_or(0);
        panic!(
            "{what}: row {row}: {:?} became {:?}",
            expected.slice(row, 1),
            actual.slice(row, 1)
        );
    }
}

fn check(data_type: &DataType, rows: usize, shape: Shape, nulls: Nulls, seed: u64) {
    for packing in [Packing::Off, Packing::On] {
        check_packing(data_type, rows, shape, nulls, (seed, packing));
    }
}

fn check_packing(
    data_type: &DataType,
    rows: usize,
    shape: Shape,
    nulls: Nulls,
    (seed, packing): (u64, Packing),
) {
    let what = format!("{data_type}, {rows} rows, {shape:?}, nulls {nulls:?}, seed {seed}, {packing:?}");
    let array = array(data_type, rows, shape, nulls, seed);
    let batch = batch(Arc::clone(&array));
    let store = store(packing);
    let table = StoredTable::from_batches(&store, "t", batch.schema(), pieces(&batch, seed)).expect(&what);
    let snapshot = table.snapshot();
    let column = &snapshot.columns[0];
    assert_same(&array, &decoded(column), &what);
    assert_eq!(snapshot.rows(), rows as u64, "{what}");
    assert!(
        snapshot
            .chunk_rows
            .iter()
            .all(|rows| (1..=CHUNK as u32).contains(rows)),
        "{what}"
    );
    assert_eq!(column.null_count as usize, array.logical_null_count(), "{what}");
    for chunk in &column.chunks {
        assert_eq!(chunk.validity.is_some(), chunk.zone.null_count > 0, "{what}");
        assert!(chunk.views().all(|view| view.offset() % 256 == 0), "{what}");
        if let Some(bytes) = column.encoding.bytes_per_row() {
            assert_eq!(chunk.data.plain_bytes(), bytes * chunk.rows as usize, "{what}");
        }
    }
    // Any part of a chunk decodes to that part.
    if rows > 40 {
        let decoder = Decoder::new(column).unwrap();
        let part = decoder.decode(0, 3..40).unwrap();
        assert_same(&array.slice(3, 37), &part, &format!("{what}, rows 3..40"));
    }
}

#[test]
fn every_type_at_every_size() {
    for data_type in all_types() {
        for rows in [0, 1, 31, 32, 33, CHUNK - 1, CHUNK, CHUNK + 1] {
            for shape in [Shape::Random, Shape::Few] {
                for nulls in NULLS {
                    check(&data_type, rows, shape, nulls, rows as u64);
                }
            }
        }
    }
}

#[test]
fn every_type_in_every_shape() {
    for data_type in all_types() {
        for shape in SHAPES {
            for nulls in [Nulls::No, Nulls::Some] {
                check(&data_type, 2 * CHUNK + 500, shape, nulls, 7);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn random_columns(
        data_type in proptest::sample::select(all_types()),
        rows in 0usize..5000,
        shape in proptest::sample::select(SHAPES.to_vec()),
        nulls in proptest::sample::select(NULLS.to_vec()),
        seed in any::<u64>(),
    ) {
        check(&data_type, rows, shape, nulls, seed);
    }

    /// Any sequence of integers, whatever its extremes and common divisors.
    #[test]
    fn any_integers(
        start in prop_oneof![Just(i64::MIN), Just(i64::MAX), Just(0), any::<i64>()],
        step in prop_oneof![Just(1u64), Just(100), Just(1 << 32), Just(u64::MAX), any::<u64>()],
        codes in proptest::collection::vec(proptest::option::of(any::<u16>()), 1..4000),
    ) {
        let values = codes.iter().map(|code| code.map(|code| start.wrapping_add_unsigned(step.wrapping_mul(u64::from(code)))));
        let signed: ArrayRef = Arc::new(Int64Array::from_iter(values.clone()));
        let unsigned: ArrayRef = Arc::new(UInt64Array::from_iter(values.map(|value| value.map(|value| value as u64))));
        for array in [signed, unsigned] {
            let batch = batch(Arc::clone(&array));
            let table = StoredTable::from_batches(&store(Packing::On), "t", batch.schema(), [batch]).unwrap();
            assert_same(&array, &decoded(&table.snapshot().columns[0]), "integers");
        }
    }
}

#[test]
fn very_long_and_empty_strings() {
    let long = "x".repeat(3 << 20);
    let other = format!("{}y", &long[1..]);
    let values = [
        Some(""),
        Some(long.as_str()),
        None,
        Some("z"),
        Some(other.as_str()),
        Some(long.as_str()),
        Some(""),
    ];
    for data_type in [DataType::Utf8, DataType::Utf8View, DataType::LargeBinary] {
        let array = arrow::compute::cast(&StringArray::from_iter(values), &data_type).unwrap();
        let batch = batch(Arc::clone(&array));
        let table = StoredTable::from_batches(&store(Packing::On), "t", batch.schema(), [batch]).unwrap();
        assert_same(&array, &decoded(&table.snapshot().columns[0]), "long strings");
    }
}

#[test]
fn types_without_an_encoding_are_named() {
    let list = DataType::List(Arc::new(Field::new("item", DataType::Int32, true)));
    for data_type in [
        DataType::Decimal256(50, 2),
        list,
        DataType::Interval(IntervalUnit::MonthDayNano),
    ] {
        assert!(supports_type(&data_type).is_err());
        let schema = Arc::new(Schema::new(vec![Field::new("odd", data_type.clone(), true)]));
        let error = StoredTable::from_batches(&store(Packing::On), "t", schema, []).unwrap_err();
        assert!(error.is_refusal());
        match error {
            StoreError::UnsupportedType {
                column,
                data_type: named,
                ..
            } => {
                assert_eq!((column.as_str(), named), ("odd", data_type));
            }
            other => panic!("{other}"),
        }
    }
}
