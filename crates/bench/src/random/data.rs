//! Random tables of every type, with NULLs and edge values. The tests of the crate `galatea` include this
//! file as a module of their own.

use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int8Array, Int16Array,
    Int32Array, Int64Array, RecordBatch, StringArray, StringViewArray, TimestampMicrosecondArray, UInt8Array,
    UInt32Array, UInt64Array,
};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::sync::Arc;

/// The distribution of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Spread over small and moderate ranges, a tenth NULL.
    Ordinary,
    /// Every value NULL.
    AllNull,
    /// All rows are equal.
    AllEqual,
    /// Nine tenths of the rows share one value.
    Skewed,
}

/// A batch with columns: i8 i16 i32 i64 u8 u32 u64 d9 d18 d38 f32 f64 day ts flag low high view, all
/// nullable, and k, v, which are not.
pub(crate) fn batch(rows: usize, seed: u64, shape: Shape) -> RecordBatch {
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut column = |make: &mut dyn FnMut(&mut Picker) -> ArrayRef| {
        let mut picker = Picker {
            rows,
            shape,
            rng: SmallRng::seed_from_u64(rng.random()),
        };
        make(&mut picker)
    };
    macro_rules! primitive {
        ($array:ty, $range:expr) => {
            column(&mut |p: &mut Picker| {
                Arc::new(
                    p.values(|r| r.random_range($range))
                        .into_iter()
                        .collect::<$array>(),
                )
            })
        };
    }
    let words = [
        "AIR",
        "RAIL",
        "SHIP",
        "",
        "TRUCK",
        "MAIL",
        "FOB",
        "REG AIR",
        "ünïcödé",
        "%_\\",
    ];
    let low = |r: &mut SmallRng| words[r.random_range(0..words.len())].to_string();
    let high = |r: &mut SmallRng| {
        let length = r.random_range(0..40);
        (0..length)
            .map(|_| char::from(r.random_range(b'a'..=b'e')))
            .collect::<String>()
    };
    let decimal = |p: &mut Picker, limit: i128, precision: u8, scale: i8| -> ArrayRef {
        let array: Decimal128Array = p.values(|r| r.random_range(-limit..=limit)).into_iter().collect();
        Arc::new(
            array
                .with_precision_and_scale(precision, scale)
                .expect("a valid decimal type"),
        )
    };
    let columns: Vec<(&str, ArrayRef, bool)> = vec![
        ("i8", primitive!(Int8Array, i8::MIN..=i8::MAX), true),
        ("i16", primitive!(Int16Array, -300..300), true),
        ("i32", primitive!(Int32Array, -100_000..100_000), true),
        (
            "i64",
            column(&mut |p| {
                let array: Int64Array = p
                    .values(|r| match r.random_range(0..50) {
                        0 => i64::MAX,
                        1 => i64::MIN,
                        _ => r.random_range(-1_000_000_000_000..1_000_000_000_000),
                    })
                    .into_iter()
                    .collect();
                Arc::new(array)
            }),
            true,
        ),
        ("u8", primitive!(UInt8Array, 0..=255), true),
        ("u32", primitive!(UInt32Array, 0..=u32::MAX), true),
        ("u64", primitive!(UInt64Array, 0..=u64::MAX), true),
        ("d9", column(&mut |p| decimal(p, 999_999_999, 9, 2)), true),
        ("d18", column(&mut |p| decimal(p, 999_999_999_999, 18, 4)), true),
        ("d38", column(&mut |p| decimal(p, 10i128.pow(30), 38, 6)), true),
        ("f32", primitive!(Float32Array, -1000.0f32..1000.0), true),
        ("f64", primitive!(Float64Array, -1.0e6..1.0e6), true),
        ("day", primitive!(Date32Array, 8000..12000), true),
        (
            "ts",
            primitive!(TimestampMicrosecondArray, 0i64..2_000_000_000_000_000),
            true,
        ),
        (
            "flag",
            column(&mut |p| {
                Arc::new(
                    p.values(Rng::random::<bool>)
                        .into_iter()
                        .collect::<BooleanArray>(),
                )
            }),
            true,
        ),
        (
            "low",
            column(&mut |p| Arc::new(p.values(low).into_iter().collect::<StringArray>())),
            true,
        ),
        (
            "high",
            column(&mut |p| Arc::new(p.values(high).into_iter().collect::<StringArray>())),
            true,
        ),
        (
            "view",
            column(&mut |p| Arc::new(p.values(low).into_iter().collect::<StringViewArray>())),
            true,
        ),
        (
            "k",
            Arc::new(Int32Array::from_iter_values((0..rows).map(|i| (i % 7) as i32))),
            false,
        ),
        (
            "v",
            Arc::new(Int64Array::from_iter_values((0..rows).map(|i| i as i64 - 5))),
            false,
        ),
    ];
    RecordBatch::try_from_iter_with_nullable(columns).expect("columns of one length")
}

struct Picker {
    rows: usize,
    shape: Shape,
    rng: SmallRng,
}

impl Picker {
    fn values<T: Clone>(&mut self, mut next: impl FnMut(&mut SmallRng) -> T) -> Vec<Option<T>> {
        let common = next(&mut self.rng);
        (0..self.rows)
            .map(|_| match self.shape {
                Shape::AllNull => None,
                Shape::AllEqual => Some(common.clone()),
                Shape::Skewed if self.rng.random_range(0..10) > 0 => Some(common.clone()),
                _ if self.rng.random_range(0..10) == 0 => None,
                _ => Some(next(&mut self.rng)),
            })
            .collect()
    }
}
