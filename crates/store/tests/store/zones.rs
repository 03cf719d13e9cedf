//! Zones bound the values of their chunks, and a chunk with a matching row is never skipped.

use std::sync::Arc;

use arrow::array::*;
use arrow::datatypes::*;
use datafusion::common::DFSchema;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::prelude::SessionContext;
use galatea_store::{Column, Decoder, Encoding, Scalar, Store, StoreOptions, StoredTable, prune};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::data::{Nulls, SHAPES, all_types, array, batch};

fn table(batch: &RecordBatch, chunk_rows: usize) -> StoredTable {
    let store = Store::new(StoreOptions {
        memory_limit: Some(1 << 30),
        chunk_rows,
        ..StoreOptions::default()
    });
    StoredTable::from_batches(&store, "t", batch.schema(), [batch.clone()]).unwrap()
}

fn physical(context: &SessionContext, schema: &Schema, sql: &str) -> Arc<dyn PhysicalExpr> {
    let schema = DFSchema::try_from(schema.clone()).unwrap();
    let expr = context.parse_sql_expr(sql, &schema).unwrap();
    context.create_physical_expr(expr, &schema).unwrap()
}

fn kept(batch: &RecordBatch, chunk_rows: usize, sql: &str) -> Vec<bool> {
    let context = SessionContext::new();
    let table = table(batch, chunk_rows);
    let predicate = physical(&context, &batch.schema(), sql);
    prune(&table.snapshot().view(), &[predicate])
}

#[test]
fn chunks_are_skipped() {
    let numbers: ArrayRef = Arc::new(Int32Array::from_iter(
        (0..1000).map(|row| (row >= 900 || row % 2 == 0).then_some(row)),
    ));
    let texts: ArrayRef = Arc::new(StringViewArray::from_iter_values(
        (0..1000).map(|row| format!("word{:02}", row / 20)),
    ));
    let dates: ArrayRef = Arc::new(Date32Array::from_iter_values((0..1000).map(|row| 9000 + row)));
    let decimals: ArrayRef = Arc::new(
        Decimal128Array::from_iter_values((0..1000).map(|row| row * 100))
            .with_precision_and_scale(15, 2)
            .unwrap(),
    );
    let floats: ArrayRef = Arc::new(Float64Array::from_iter_values((0..1000).map(|row| {
        if row == 950 {
            f64::NAN
        } else {
            f64::from(row) - 200.0
        }
    })));
    let batch = RecordBatch::try_from_iter([
        ("n", numbers),
        ("t", texts),
        ("d", dates),
        ("m", decimals),
        ("f", floats),
    ])
    .unwrap();
    let first = |count: usize| (0..10).map(|chunk| chunk < count).collect::<Vec<_>>();
    assert_eq!(kept(&batch, 100, "n < 250"), first(3));
    assert_eq!(kept(&batch, 100, "n between 0 and 99"), first(1));
    assert_eq!(kept(&batch, 100, "n in (3, 150)"), first(2));
    assert_eq!(kept(&batch, 100, "n = 1000"), first(0));
    assert_eq!(kept(&batch, 100, "n is null"), first(9));
    assert_eq!(kept(&batch, 100, "t = 'word03'"), first(1));
    assert_eq!(kept(&batch, 100, "t < 'word10'"), first(2));
    assert_eq!(kept(&batch, 100, "t like 'word0%'"), first(2));
    // Within the bounds of a chunk, but in no dictionary.
    assert_eq!(kept(&batch, 100, "t = 'word033'"), first(0));
    assert_eq!(kept(&batch, 100, "d < date '1994-09-20'"), first(1));
    assert_eq!(kept(&batch, 100, "m <= 150.00"), first(2));
    assert_eq!(
        kept(&batch, 100, "f < -50"),
        [true, true, false, false, false, false, false, false, false, true]
    );
    // Both zeros are zero, whichever one is a bound of the chunk.
    assert!(kept(&batch, 100, "f = -0.0")[2]);
    // Zones do not bound an expression, so everything may match.
    assert_eq!(kept(&batch, 100, "n % 7 = 8"), first(10));
}

#[test]
fn long_strings_have_short_bounds() {
    let column = |values: Vec<String>| -> Arc<Column> {
        let batch = batch(Arc::new(StringArray::from_iter_values(values)));
        // Too many different values for a dictionary.
        Arc::clone(&table(&batch, 100_000).snapshot().columns[0])
    };
    let long = |prefix: &str, row: usize| format!("{}{row:06}", prefix.repeat(40));
    let column = column(
        (0..20_000)
            .map(|row| long("é!", row))
            .chain([long("\u{10ffff}", 1)])
            .collect(),
    );
    assert!(matches!(column.encoding, Encoding::Text { .. }));
    let zone = &column.chunks[0].zone;
    assert!(!zone.exact);
    let (Some(Scalar::Bytes(min)), max) = (&zone.min, &zone.max) else {
        panic!("{zone:?}")
    };
    assert!(min.len() <= 64 && min.as_ref() <= long("é!", 0).as_bytes());
    assert!(std::str::from_utf8(min).is_ok());
    // No string is above one of the largest character.
    assert_eq!(max, &None);
}

#[test]
fn zones_bound_their_chunks() {
    for data_type in all_types() {
        for shape in SHAPES {
            let batch = batch(array(&data_type, 3000, shape, Nulls::Some, 11));
            let table = table(&batch, 700);
            let snapshot = table.snapshot();
            let decoder = Decoder::new(&snapshot.columns[0]).unwrap();
            for (chunk, encoded) in snapshot.columns[0].chunks.iter().enumerate() {
                let values = decoder.decode(chunk, 0..encoded.rows as usize).unwrap();
                let zone = &encoded.zone;
                assert_eq!(
                    zone.null_count as usize,
                    values.logical_null_count(),
                    "{data_type} {shape:?}"
                );
                check_bounds(&snapshot.columns[0], chunk, &values);
            }
        }
    }
}

fn check_bounds(column: &Column, chunk: usize, values: &ArrayRef) {
    let zone = &column.chunks[chunk].zone;
    let what = format!("{} {zone:?}", column.data_type);
    if values.logical_null_count() == values.len() {
        assert_eq!((&zone.min, &zone.max), (&None, &None), "{what}");
        return;
    }
    match (&zone.min, &zone.max) {
        (Some(Scalar::Float(min)), Some(Scalar::Float(max))) => {
            let values = arrow::compute::cast(values, &DataType::Float64).unwrap();
            let values: Vec<f64> = values.as_primitive::<Float64Type>().iter().flatten().collect();
            assert_eq!(zone.has_nan, values.iter().any(|value| value.is_nan()), "{what}");
            let numbers = || values.iter().filter(|value| !value.is_nan());
            assert!(numbers().all(|value| min <= value && value <= max), "{what}");
            assert!(
                numbers().any(|value| value == min) && numbers().any(|value| value == max),
                "{what}"
            );
        }
        (Some(Scalar::Bytes(min)), max) => {
            let values = arrow::compute::cast(values, &DataType::BinaryView).unwrap();
            for value in values.as_binary_view().iter().flatten() {
                assert!(min.as_ref() <= value, "{what}");
                if let Some(Scalar::Bytes(max)) = max {
                    assert!(value <= max.as_ref(), "{what}");
                }
            }
        }
        (Some(Scalar::Integer(min)), Some(Scalar::Integer(max))) => {
            assert!(zone.exact && min <= max, "{what}");
        }
        other => panic!("{what}: {other:?}"),
    }
}

/// A filter returns the same rows, whether chunks are skipped or not.
#[tokio::test]
async fn pruning_chunks_changes_no_result() {
    let seed = 20_261_121;
    let rng = &mut SmallRng::seed_from_u64(seed);
    let rows = 4000i64;
    let walk = |rng: &mut SmallRng| {
        let mut at = 0;
        (0..rows)
            .map(move |_| {
                at += rng.random_range(-3..4);
                (rng.random_range(0..20) != 0).then_some(at)
            })
            .collect::<Vec<_>>()
    };
    let numbers = walk(rng);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("n", Arc::new(Int64Array::from(numbers.clone()))),
        (
            "f",
            Arc::new(Float64Array::from_iter(numbers.iter().map(|number| {
                number.map(|number| {
                    if number == 7 {
                        f64::NAN
                    } else {
                        number as f64 / 2.0
                    }
                })
            }))),
        ),
        (
            "t",
            Arc::new(StringArray::from_iter(
                numbers
                    .iter()
                    .map(|number| number.map(|number| format!("{number:+04}"))),
            )),
        ),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let context = SessionContext::new();
    context.register_batch("plain", batch.clone()).unwrap();
    context
        .register_table("stored", Arc::new(table(&batch, 100)))
        .unwrap();
    for _ in 0..200 {
        let number = rng.random_range(-40..40);
        let filter = match rng.random_range(0..10) {
            0 => format!("n < {number}"),
            1 => format!("n >= {number} and t <> '{number:+04}'"),
            2 => format!("n in ({number}, {}, null)", number + 3),
            3 => format!("n not in ({number})"),
            4 => format!("f > {number}.5"),
            5 => format!("f <= {number}"),
            6 => format!("t = '{number:+04}' or n is null"),
            7 => format!("t between '{number:+04}' and '+9'"),
            8 => format!("not (f < {number})"),
            _ => format!("t like '{}%'", &format!("{number:+04}")[..3]),
        };
        let count = |table: &str| format!("select count(*), sum(n), max(t) from {table} where {filter}");
        let plain = context
            .sql(&count("plain"))
            .await
            .unwrap()
            .collect()
            .await
            .unwrap();
        let stored = context
            .sql(&count("stored"))
            .await
            .unwrap()
            .collect()
            .await
            .unwrap();
        assert_eq!(plain[0].columns(), stored[0].columns(), "seed {seed}: {filter}");
    }
}
