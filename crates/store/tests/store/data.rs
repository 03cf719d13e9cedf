//! Random arrays of every type that the store supports, from a seed.

use std::sync::Arc;

use arrow::array::*;
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::*;
use half::f16;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// Every type with an encoding.
pub(crate) fn all_types() -> Vec<DataType> {
    use DataType::*;
    let key = |key: DataType| Dictionary(Box::new(key), Box::new(Utf8));
    let mut types = vec![
        Null,
        Boolean,
        Int8,
        Int16,
        Int32,
        Int64,
        UInt8,
        UInt16,
        UInt32,
        UInt64,
        Float16,
        Float32,
        Float64,
        Decimal32(9, 2),
        Decimal64(18, 4),
        Decimal128(15, 2),
        Decimal128(38, 10),
        Date32,
        Date64,
        Time32(TimeUnit::Second),
        Time32(TimeUnit::Millisecond),
        Time64(TimeUnit::Microsecond),
        Time64(TimeUnit::Nanosecond),
        Utf8,
        LargeUtf8,
        Utf8View,
        Binary,
        LargeBinary,
        BinaryView,
        key(Int16),
        key(UInt16),
        key(Int32),
        key(UInt64),
        Dictionary(Box::new(Int32), Box::new(Int64)),
    ];
    for unit in [
        TimeUnit::Second,
        TimeUnit::Millisecond,
        TimeUnit::Microsecond,
        TimeUnit::Nanosecond,
    ] {
        types.extend([
            Timestamp(unit, None),
            Timestamp(unit, Some("+02:00".into())),
            Duration(unit),
        ]);
    }
    types
}

/// The distribution of the values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Any values of the type, its extremes included.
    Random,
    /// Few values.
    Few,
    /// One value.
    Equal,
    /// Mostly one value, sometimes others.
    Skewed,
    /// Multiples of a thousand.
    Multiples,
    /// Distinct values, if the type has enough of them.
    Distinct,
}

pub(crate) const SHAPES: [Shape; 6] = [
    Shape::Random,
    Shape::Few,
    Shape::Equal,
    Shape::Skewed,
    Shape::Multiples,
    Shape::Distinct,
];

/// The share of rows that are null.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nulls {
    No,
    Some,
    All,
}

pub(crate) const NULLS: [Nulls; 3] = [Nulls::No, Nulls::Some, Nulls::All];

/// An integer of the shape, within `bits` bits.
fn integer(rng: &mut SmallRng, shape: Shape, row: usize, bits: u32) -> i128 {
    let any = |rng: &mut SmallRng| match rng.random_range(0..10) {
        0 => i128::MAX >> (128 - bits),
        1 => i128::MIN >> (128 - bits),
        2 => 0,
        _ => rng.random::<i128>() >> (128 - bits),
    };
    match shape {
        Shape::Random => any(rng),
        Shape::Few => rng.random_range(-3..4),
        Shape::Equal => 42,
        Shape::Skewed if rng.random_range(0..100) == 0 => any(rng),
        Shape::Skewed => 7,
        Shape::Multiples if bits <= 16 => rng.random_range(-6..6) * 10,
        Shape::Multiples => 17 + rng.random_range(0..50) * 1000,
        Shape::Distinct => row as i128,
    }
}

fn text(rng: &mut SmallRng, shape: Shape, row: usize) -> String {
    let words = [
        "",
        "a",
        "aa",
        "R",
        "N",
        "é",
        "\u{10ffff}",
        "AIR REG",
        "a string of more than twelve bytes",
    ];
    match shape {
        Shape::Random | Shape::Multiples => {
            let length = if rng.random_range(0..200) == 0 {
                300
            } else {
                rng.random_range(0..20)
            };
            (0..length)
                .map(|_| char::from(rng.random_range(b' '..b'~')))
                .collect()
        }
        Shape::Few => words[rng.random_range(0..words.len())].to_owned(),
        Shape::Equal => "the same".to_owned(),
        Shape::Skewed if rng.random_range(0..100) == 0 => format!("rare {}", rng.random::<u64>()),
        Shape::Skewed => "common".to_owned(),
        Shape::Distinct => format!("Customer#{row:09}"),
    }
}

/// An array of a type.
pub(crate) fn array(data_type: &DataType, rows: usize, shape: Shape, nulls: Nulls, seed: u64) -> ArrayRef {
    let rng = &mut SmallRng::seed_from_u64(seed);
    let validity = match nulls {
        Nulls::No => None,
        Nulls::Some => Some(NullBuffer::from_iter(
            (0..rows).map(|_| rng.random_range(0..3) != 0),
        )),
        Nulls::All => Some(NullBuffer::new_null(rows)),
    };
    macro_rules! integers {
        ($type:ty, $bits:expr) => {{
            let values =
                (0..rows).map(|row| integer(rng, shape, row, $bits) as <$type as ArrowPrimitiveType>::Native);
            let array = PrimitiveArray::<$type>::new(values.collect(), validity);
            Arc::new(array.with_data_type(data_type.clone())) as ArrayRef
        }};
    }
    let decimal_bits = |precision: u8| (f64::from(precision) * 10f64.log2()) as u32;
    match data_type {
        DataType::Null => Arc::new(NullArray::new(rows)),
        DataType::Boolean => {
            let values = (0..rows)
                .map(|row| integer(rng, shape, row, 8) % 2 == 0)
                .collect();
            Arc::new(BooleanArray::new(values, validity))
        }
        DataType::Int8 => integers!(Int8Type, 8),
        DataType::Int16 => integers!(Int16Type, 16),
        DataType::Int32 => integers!(Int32Type, 32),
        DataType::Int64 => integers!(Int64Type, 64),
        DataType::UInt8 => integers!(UInt8Type, 8),
        DataType::UInt16 => integers!(UInt16Type, 16),
        DataType::UInt32 => integers!(UInt32Type, 32),
        DataType::UInt64 => integers!(UInt64Type, 64),
        DataType::Date32 => integers!(Date32Type, 24),
        DataType::Date64 => {
            let values = (0..rows)
                .map(|row| integer(rng, shape, row, 24) as i64 * 86_400_000)
                .collect();
            Arc::new(Date64Array::new(values, validity))
        }
        DataType::Time32(TimeUnit::Second) => integers!(Time32SecondType, 16),
        DataType::Time32(_) => integers!(Time32MillisecondType, 26),
        DataType::Time64(TimeUnit::Microsecond) => integers!(Time64MicrosecondType, 36),
        DataType::Time64(_) => integers!(Time64NanosecondType, 46),
        DataType::Timestamp(TimeUnit::Second, _) => integers!(TimestampSecondType, 36),
        DataType::Timestamp(TimeUnit::Millisecond, _) => integers!(TimestampMillisecondType, 46),
        DataType::Timestamp(TimeUnit::Microsecond, _) => integers!(TimestampMicrosecondType, 56),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => integers!(TimestampNanosecondType, 64),
        DataType::Duration(TimeUnit::Second) => integers!(DurationSecondType, 64),
        DataType::Duration(TimeUnit::Millisecond) => integers!(DurationMillisecondType, 64),
        DataType::Duration(TimeUnit::Microsecond) => integers!(DurationMicrosecondType, 64),
        DataType::Duration(TimeUnit::Nanosecond) => integers!(DurationNanosecondType, 64),
        DataType::Decimal32(precision, _) => integers!(Decimal32Type, decimal_bits(*precision)),
        DataType::Decimal64(precision, _) => integers!(Decimal64Type, decimal_bits(*precision)),
        DataType::Decimal128(precision, _) => integers!(Decimal128Type, decimal_bits(*precision)),
        DataType::Float16 => {
            let special = [
                f16::NAN,
                f16::NEG_INFINITY,
                f16::INFINITY,
                f16::NEG_ZERO,
                f16::MAX,
                f16::MIN_POSITIVE,
            ];
            let values = (0..rows).map(|row| match rng.random_range(0..8) {
                0 if shape == Shape::Random => special[rng.random_range(0..special.len())],
                _ => f16::from_f64(integer(rng, shape, row, 10) as f64 / 4.0),
            });
            Arc::new(Float16Array::new(values.collect(), validity))
        }
        DataType::Float32 => {
            let special = [
                f32::NAN,
                -f32::NAN,
                f32::NEG_INFINITY,
                f32::INFINITY,
                -0.0,
                0.0,
                f32::MAX,
                f32::MIN,
            ];
            let values = (0..rows).map(|row| match rng.random_range(0..8) {
                0 if shape == Shape::Random => special[rng.random_range(0..special.len())],
                _ => integer(rng, shape, row, 30) as f32 / 7.0,
            });
            Arc::new(Float32Array::new(values.collect(), validity))
        }
        DataType::Float64 => {
            let special = [
                f64::NAN,
                -f64::NAN,
                f64::NEG_INFINITY,
                f64::INFINITY,
                -0.0,
                0.0,
                f64::MAX,
                f64::MIN,
            ];
            let values = (0..rows).map(|row| match rng.random_range(0..8) {
                0 if shape == Shape::Random => special[rng.random_range(0..special.len())],
                _ => integer(rng, shape, row, 60) as f64 / 7.0,
            });
            Arc::new(Float64Array::new(values.collect(), validity))
        }
        DataType::Dictionary(_, values) => {
            let shape = if shape == Shape::Few || shape == Shape::Equal {
                shape
            } else {
                Shape::Few
            };
            cast(&array(values, rows, shape, nulls, seed), data_type).unwrap()
        }
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {
            let values = (0..rows).map(|row| {
                let mut bytes = text(rng, shape, row).into_bytes();
                if shape == Shape::Random && !bytes.is_empty() {
                    bytes[0] = rng.random();
                }
                let valid = validity.as_ref().is_none_or(|validity| validity.is_valid(row));
                valid.then_some(bytes)
            });
            cast(&BinaryArray::from_iter(values), data_type).unwrap()
        }
        _ => {
            let values = (0..rows).map(|row| {
                let valid = validity.as_ref().is_none_or(|validity| validity.is_valid(row));
                valid.then(|| text(rng, shape, row))
            });
            cast(&StringArray::from_iter(values), data_type).unwrap()
        }
    }
}

/// One column as a batch.
pub(crate) fn batch(column: ArrayRef) -> RecordBatch {
    let field = Field::new("c", column.data_type().clone(), true);
    RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![column]).unwrap()
}

/// The batch in pieces of random lengths, some of them empty, some of them slices.
pub(crate) fn pieces(batch: &RecordBatch, seed: u64) -> Vec<RecordBatch> {
    let rng = &mut SmallRng::seed_from_u64(seed);
    let mut pieces = vec![batch.slice(0, 0)];
    let mut start = 0;
    while start < batch.num_rows() {
        let rows = rng.random_range(0..=(batch.num_rows() - start).min(700));
        pieces.push(batch.slice(start, rows));
        start += rows;
    }
    pieces
}
