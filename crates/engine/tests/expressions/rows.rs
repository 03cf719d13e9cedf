//! Random columns of every type that the device represents, with NULLs and edge values of arithmetic.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int8Array, Int16Array,
    Int32Array, Int64Array, RecordBatch, StringArray, StringViewArray, TimestampMicrosecondArray,
    TimestampSecondArray, UInt8Array, UInt32Array, UInt64Array,
};
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use galatea_expression::{ColumnBinding, ColumnKind};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// Rows of every test.
pub(crate) const ROWS: usize = 192;

/// A batch and the bindings of its columns in the kernel.
pub(crate) struct Rows {
    pub(crate) batch: RecordBatch,
    pub(crate) bindings: Vec<ColumnBinding>,
}

/// Name, type, whether it may be NULL.
pub(crate) fn schema() -> Schema {
    let field = |name: &str, data_type: DataType, nullable: bool| Field::new(name, data_type, nullable);
    Schema::new(vec![
        field("tiny", DataType::Int8, true),
        field("short", DataType::Int16, false),
        field("number", DataType::Int32, true),
        field("big", DataType::Int64, true),
        field("small", DataType::Int64, false),
        field("byte", DataType::UInt8, true),
        field("natural", DataType::UInt32, false),
        field("huge", DataType::UInt64, true),
        field("price", DataType::Decimal128(15, 2), false),
        field("discount", DataType::Decimal128(15, 2), true),
        field("rate", DataType::Decimal128(10, 4), true),
        field("vast", DataType::Decimal128(38, 10), true),
        field("single", DataType::Float32, true),
        field("real", DataType::Float64, true),
        field("day", DataType::Date32, true),
        field("moment", DataType::Timestamp(TimeUnit::Microsecond, None), true),
        field("instant", DataType::Timestamp(TimeUnit::Second, None), false),
        field("flag", DataType::Boolean, true),
        field("certain", DataType::Boolean, false),
        field("word", DataType::Utf8View, true),
        field("city", DataType::Utf8, false),
        field("note", DataType::Utf8View, true),
        field("memo", DataType::Utf8, false),
    ])
}

const WORDS: [&str; 12] = [
    "",
    "a",
    "ab",
    "apple",
    "banana",
    "Zürich",
    "日本語",
    "100%",
    "under_score",
    "back\\slash",
    "42",
    "2024-02-29",
];
const CITIES: [&str; 9] = [
    "apple", "Berlin", "Köln", "banana", "New York", "-7", "x", "Zürich", "a",
];

/// Columns of a seed.
pub(crate) fn rows(seed: u64) -> Rows {
    let mut random = SmallRng::seed_from_u64(seed);
    let schema = schema();
    let mut columns: Vec<ArrayRef> = Vec::new();
    let mut bindings = Vec::new();
    for field in schema.fields() {
        let nullable = field.is_nullable();
        let array: ArrayRef = match (field.name().as_str(), field.data_type()) {
            ("small", _) => Arc::new(Int64Array::from_iter(integers(&mut random, nullable, -9, 9))),
            (_, DataType::Int8) => Arc::new(Int8Array::from_iter(narrow(integers(
                &mut random,
                nullable,
                -128,
                127,
            )))),
            (_, DataType::Int16) => Arc::new(Int16Array::from_iter(narrow(integers(
                &mut random,
                nullable,
                -32768,
                32767,
            )))),
            (_, DataType::Int32) => Arc::new(Int32Array::from_iter(narrow(integers(
                &mut random,
                nullable,
                i32::MIN.into(),
                i32::MAX.into(),
            )))),
            (_, DataType::Int64) => Arc::new(Int64Array::from_iter(integers(
                &mut random,
                nullable,
                i64::MIN,
                i64::MAX,
            ))),
            (_, DataType::UInt8) => Arc::new(UInt8Array::from_iter(narrow(integers(
                &mut random,
                nullable,
                0,
                255,
            )))),
            (_, DataType::UInt32) => Arc::new(UInt32Array::from_iter(narrow(integers(
                &mut random,
                nullable,
                0,
                u32::MAX.into(),
            )))),
            (_, DataType::UInt64) => Arc::new(UInt64Array::from_iter(
                integers(&mut random, nullable, i64::MIN, i64::MAX)
                    .map(|value| value.map(|value| value as u64)),
            )),
            ("price", _) => decimals(
                integers(&mut random, nullable, 90_000, 10_500_000).map(widen),
                15,
                2,
            ),
            ("discount", _) => decimals(integers(&mut random, nullable, 0, 10).map(widen), 15, 2),
            ("rate", _) => decimals(
                integers(&mut random, nullable, -9_999_999_999, 9_999_999_999).map(widen),
                10,
                4,
            ),
            ("vast", _) => {
                let mut other = SmallRng::seed_from_u64(seed ^ 0x5eed);
                let most = 10i128.pow(38) - 1;
                let values = integers(&mut random, nullable, i64::MIN, i64::MAX).map(move |value| {
                    value.map(|value| match other.random_range(0..4) {
                        0 => most,
                        1 => -most,
                        2 => i128::from(value) * i128::from(other.random_range(0..i64::MAX)) % most,
                        _ => i128::from(value % 1_000_000_007),
                    })
                });
                decimals(values.collect::<Vec<_>>().into_iter(), 38, 10)
            }
            (_, DataType::Float32) => Arc::new(Float32Array::from_iter(
                floats(&mut random, nullable).map(|value| value.map(|value| value as f32)),
            )),
            (_, DataType::Float64) => Arc::new(Float64Array::from_iter(floats(&mut random, nullable))),
            (_, DataType::Date32) => Arc::new(Date32Array::from_iter(narrow(integers(
                &mut random,
                nullable,
                -30_000,
                60_000,
            )))),
            (_, DataType::Timestamp(TimeUnit::Microsecond, _)) => {
                Arc::new(TimestampMicrosecondArray::from_iter(integers(
                    &mut random,
                    nullable,
                    -3_000_000_000_000_000,
                    5_000_000_000_000_000,
                )))
            }
            (_, DataType::Timestamp(_, _)) => Arc::new(TimestampSecondArray::from_iter(integers(
                &mut random,
                nullable,
                -5_000_000_000,
                9_000_000_000,
            ))),
            (_, DataType::Boolean) => {
                Arc::new(BooleanArray::from_iter((0..ROWS).map(|_| {
                    (!nullable || random.random_range(0..5) > 0).then(|| random.random())
                })))
            }
            ("city", _) => Arc::new(StringArray::from_iter(texts(&mut random, nullable, &CITIES))),
            ("memo", _) => Arc::new(StringArray::from_iter(texts(&mut random, nullable, &WORDS))),
            _ => Arc::new(StringViewArray::from_iter(texts(&mut random, nullable, &WORDS))),
        };
        bindings.push(ColumnBinding {
            data_type: field.data_type().clone(),
            kind: kind(field.name(), &array),
            nullable,
        });
        columns.push(array);
    }
    let batch = RecordBatch::try_new(Arc::new(schema), columns).expect("columns of the schema");
    Rows { batch, bindings }
}

/// The binding that a store would choose; `note` and `memo` stay strings.
fn kind(name: &str, array: &ArrayRef) -> ColumnKind {
    match array.data_type() {
        DataType::Boolean => ColumnKind::Boolean,
        DataType::Float32 => ColumnKind::Float32,
        DataType::Float64 => ColumnKind::Float64,
        DataType::Utf8 | DataType::Utf8View if name == "note" || name == "memo" => ColumnKind::Text,
        DataType::Utf8 | DataType::Utf8View => ColumnKind::Dictionary {
            values: dictionary(array),
        },
        _ => {
            // NULL rows hold 0, which has to be within the range.
            let values = (0..array.len()).map(|row| super::device::integer(array, row).unwrap_or(0));
            let (min, max) = values.fold((i128::MAX, i128::MIN), |(min, max), value| {
                (min.min(value), max.max(value))
            });
            ColumnKind::Integer { min, max }
        }
    }
}

fn dictionary(array: &ArrayRef) -> ArrayRef {
    let values: BTreeSet<String> = (0..array.len())
        .filter_map(|row| super::device::text(array, row))
        .collect();
    Arc::new(StringArray::from_iter_values(values))
}

fn integers(
    random: &mut SmallRng,
    nullable: bool,
    low: i64,
    high: i64,
) -> impl Iterator<Item = Option<i64>> + use<> {
    let edges = [low, high, low.saturating_add(1), high - 1, 0, 1, -1, 2, 10, 7, -7];
    let values: Vec<Option<i64>> = (0..ROWS)
        .map(|_| {
            if nullable && random.random_range(0..6) == 0 {
                return None;
            }
            let value = match random.random_range(0..4) {
                0 => edges[random.random_range(0..edges.len())],
                1 => random.random_range(-20..20),
                _ => random.random_range(low..=high),
            };
            Some(value.clamp(low, high))
        })
        .collect();
    values.into_iter()
}

fn narrow<T: TryFrom<i64>>(values: impl Iterator<Item = Option<i64>>) -> impl Iterator<Item = Option<T>> {
    values.map(|value| value.and_then(|value| T::try_from(value).ok()))
}

fn widen(value: Option<i64>) -> Option<i128> {
    value.map(i128::from)
}

fn decimals(values: impl Iterator<Item = Option<i128>>, precision: u8, scale: i8) -> ArrayRef {
    let array = Decimal128Array::from_iter(values).with_precision_and_scale(precision, scale);
    Arc::new(array.expect("values of this precision"))
}

fn floats(random: &mut SmallRng, nullable: bool) -> impl Iterator<Item = Option<f64>> + use<> {
    let edges = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        -0.5,
        1.5,
        2.5,
        f64::NAN,
        -f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::MAX,
        f64::MIN_POSITIVE,
        2147483647.5,
        -2147483648.9,
        9.223372036854775e18,
        1e38,
        1e-300,
        0.1,
    ];
    let values: Vec<Option<f64>> = (0..ROWS)
        .map(|_| {
            if nullable && random.random_range(0..6) == 0 {
                return None;
            }
            Some(match random.random_range(0..3) {
                0 => edges[random.random_range(0..edges.len())],
                1 => f64::from(random.random_range(-1000..1000)) / 8.0,
                _ => (random.random::<f64>() - 0.5) * 10f64.powi(random.random_range(-3..12)),
            })
        })
        .collect();
    values.into_iter()
}

fn texts<'a>(
    random: &mut SmallRng,
    nullable: bool,
    choices: &[&'a str],
) -> impl Iterator<Item = Option<&'a str>> + use<'a> {
    let values: Vec<Option<&str>> = (0..ROWS)
        .map(|_| {
            (!nullable || random.random_range(0..6) > 0)
                .then(|| choices[random.random_range(0..choices.len())])
        })
        .collect();
    values.into_iter()
}
