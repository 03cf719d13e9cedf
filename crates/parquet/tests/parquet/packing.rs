//! Codes of integers and of dictionary indices, and the bounds from which frames are chosen.

use galatea_parquet::{Bounds, DecodedValues, Frame, ParquetError};

use crate::cells::{Cell, indices, validity};
use crate::sample::{Encodings, Nulls, Sample};
use crate::support::{Bench, File};

fn column(file: &File, name: &str) -> usize {
    let schema = file.metadata.file_metadata().schema_descr();
    (0..file.columns())
        .find(|column| schema.column(*column).name() == name)
        .unwrap()
}

/// Codes of `width` bytes.
fn codes(bytes: &[u8], width: u32) -> Vec<u64> {
    let wide = |code: &[u8]| {
        let mut word = [0; 8];
        word[..code.len()].copy_from_slice(code);
        u64::from_le_bytes(word)
    };
    bytes.chunks(width as usize).map(wide).collect()
}

#[test]
fn integers_become_codes_of_a_frame() {
    for bench in Bench::all() {
        for nulls in [Nulls::Forbidden, Nulls::Random] {
            let file = Sample::new(777, nulls, Encodings::Plain).file();
            for (name, factor, width) in [
                ("i8", 1, 1),
                ("i16", 1, 2),
                ("date", 1, 4),
                ("decimal5", 1, 4),
                ("u32", 1, 4),
                ("i64", 1, 8),
                ("u64", 1, 8),
                ("decimal15", 1, 8),
            ] {
                let number = column(&file, name);
                let decoded = file.column(&bench, number).unwrap();
                let DecodedValues::Fixed {
                    bounds: Some(Bounds::Integers(least, greatest)),
                    ..
                } = decoded.values
                else {
                    panic!("{name} has integers");
                };
                let cells = file.expected(number).unwrap();
                let integers = cells.iter().filter_map(|cell| match cell {
                    Cell::Integer(integer) => Some(*integer),
                    _ => None,
                });
                let (found_least, found_greatest) = integers
                    .clone()
                    .fold((i128::MAX, i128::MIN), |(least, greatest), integer| {
                        (least.min(integer), greatest.max(integer))
                    });
                assert_eq!((least, greatest), (found_least, found_greatest), "{name}");
                let frame = Frame {
                    base: least as i64,
                    factor,
                    width,
                };
                let packed = bench.decoder.pack(&bench.stream, &decoded, frame).unwrap();
                let packed = codes(&bench.stream.read(&packed, ..).unwrap(), width);
                let expected = cells.iter().map(|cell| match cell {
                    Cell::Integer(integer) => (integer - least) as u64,
                    _ => 0,
                });
                assert!(packed.into_iter().eq(expected), "{name}, {nulls:?}");
            }
        }
    }
}

#[test]
fn common_divisors_of_differences() {
    use arrow::array::{ArrayRef, Int64Array, RecordBatch};
    use std::sync::Arc;

    for bench in Bench::all() {
        for (values, divisor) in [
            (vec![Some(5); 100], 0),
            (vec![None, Some(-4), None], 0),
            (vec![Some(i64::MIN), None, Some(i64::MAX)], u64::MAX),
            ((0..2000).map(|number| Some(number * 60 + 1)).collect(), 60),
            (
                (0..2000)
                    .map(|number| (number != 700).then_some(number * 36 - 18))
                    .collect(),
                36,
            ),
            (
                (0..2000)
                    .map(|number| Some(if number == 1999 { 7 } else { number * 6 }))
                    .collect(),
                1,
            ),
        ] {
            let least = values.iter().flatten().min().copied().unwrap();
            let array = Arc::new(Int64Array::from(values)) as ArrayRef;
            let batch = RecordBatch::try_from_iter([("v", array)]).unwrap();
            let file = crate::sample::written(&batch, Default::default());
            let decoded = file.column(&bench, 0).unwrap();
            let found = bench.decoder.common_divisor(&bench.stream, &decoded, least);
            assert_eq!(found.unwrap(), divisor);
        }
    }
}

#[test]
fn multiples_are_divided_by_the_factor() {
    use arrow::array::{ArrayRef, Int64Array, RecordBatch};
    use std::sync::Arc;

    let bench = Bench::seeded(3);
    let values = Int64Array::from_iter_values((0..300).map(|number| 7 - number * 1_000_000));
    let batch = RecordBatch::try_from_iter([("v", Arc::new(values) as ArrayRef)]).unwrap();
    let file = crate::sample::written(&batch, Default::default());
    let decoded = file.column(&bench, 0).unwrap();
    let divisor = bench
        .decoder
        .common_divisor(&bench.stream, &decoded, 7 - 299 * 1_000_000);
    assert_eq!(divisor.unwrap(), 1_000_000);
    let frame = Frame {
        base: 7 - 299 * 1_000_000,
        factor: 1_000_000,
        width: 2,
    };
    let packed = bench.decoder.pack(&bench.stream, &decoded, frame).unwrap();
    let packed = codes(&bench.stream.read(&packed, ..).unwrap(), 2);
    assert!(packed.into_iter().eq((0..300).rev()));
}

#[test]
fn bounds_of_floats_exclude_nan() {
    use arrow::array::{ArrayRef, Float32Array, Float64Array, RecordBatch};
    use std::sync::Arc;

    let bench = Bench::seeded(4);
    let numbers = [f64::NAN, 2.5, -0.0, -7.25, -f64::NAN, 0.0];
    let single: Float32Array = numbers.iter().map(|number| Some(*number as f32)).collect();
    let double: Float64Array = numbers.iter().copied().map(Some).collect();
    let nan = Float64Array::from(vec![f64::NAN; 6]);
    let columns = [
        ("single", Arc::new(single) as ArrayRef),
        ("double", Arc::new(double) as ArrayRef),
        ("nan", Arc::new(nan) as ArrayRef),
    ];
    let file = crate::sample::written(&RecordBatch::try_from_iter(columns).unwrap(), Default::default());
    for (column, expected) in [
        (0, (Some(Bounds::Floats(-7.25, 2.5)), 2)),
        (1, (Some(Bounds::Floats(-7.25, 2.5)), 2)),
        (2, (None, 6)),
    ] {
        let DecodedValues::Fixed { bounds, nans, .. } = file.column(&bench, column).unwrap().values else {
            panic!("floats have a fixed size");
        };
        assert_eq!((bounds, nans), expected, "column {column}");
    }
}

#[test]
fn dictionary_indices_become_codes_of_a_map() {
    for bench in Bench::all() {
        let sample = Sample {
            group_rows: 300,
            ..Sample::new(800, Nulls::Random, Encodings::Dictionary)
        };
        let file = sample.file();
        let decoded = file.column(&bench, column(&file, "string")).unwrap();
        let DecodedValues::Indices {
            indices: found,
            dictionary_values,
            ..
        } = &decoded.values
        else {
            panic!("all pages have indices");
        };
        let found = indices(&bench.stream, found);
        // Strings of later row groups have indices after those of earlier ones.
        assert!(found.iter().any(|index| *index as usize > *dictionary_values / 2));
        let map: Vec<u32> = (0..*dictionary_values as u32)
            .map(|index| 60_000 - index)
            .collect();
        let device_map = bench.device.upload(&bench.stream, &map).unwrap();
        let packed = bench
            .decoder
            .pack_indices(&bench.stream, &decoded, &device_map, 2)
            .unwrap();
        let packed = codes(&bench.stream.read(&packed, ..).unwrap(), 2);
        for (row, valid) in validity(&bench.stream, &decoded).into_iter().enumerate() {
            let expected = if valid { map[found[row] as usize].into() } else { 0 };
            assert_eq!(packed[row], expected, "row {row}");
        }
        let short = bench.device.upload(&bench.stream, &map[1..]).unwrap();
        let refused = bench.decoder.pack_indices(&bench.stream, &decoded, &short, 2);
        assert!(matches!(refused, Err(ParquetError::Device(_))));
        let frame = Frame {
            base: 0,
            factor: 1,
            width: 4,
        };
        let refused = bench.decoder.pack(&bench.stream, &decoded, frame);
        assert!(matches!(refused, Err(ParquetError::Device(_))));
    }
}
