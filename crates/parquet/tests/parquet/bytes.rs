//! Pages and column chunks, written byte by byte.

use std::sync::Arc;

use galatea_kernels::ParquetFailure;
use galatea_parquet::{ColumnChunk, ColumnShape, DecodedColumn, ParquetError, Problem};
use parquet::basic::Compression;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::SchemaDescriptor;
use rand::Rng;
use rand::rngs::SmallRng;

use crate::cells::{Cell, of_column};
use crate::support::Bench;

pub(crate) const PLAIN: i32 = 0;
pub(crate) const RLE: i32 = 3;
pub(crate) const DELTA_BINARY_PACKED: i32 = 5;
pub(crate) const DELTA_LENGTH_BYTE_ARRAY: i32 = 6;
pub(crate) const DELTA_BYTE_ARRAY: i32 = 7;
pub(crate) const DICTIONARY: i32 = 8;

pub(crate) fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 128 {
        bytes.push(number as u8 | 128);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

pub(crate) fn zigzag(number: i64) -> Vec<u8> {
    varint((number << 1 ^ number >> 63) as u64)
}

/// A struct of 32-bit integers, numbered from 1.
pub(crate) fn numbers(numbers: &[i32]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in numbers {
        bytes.push(0x15);
        bytes.extend(zigzag((*number).into()));
    }
    bytes
}

/// A page header of a kind, with its part at a field after the sizes.
pub(crate) fn header(kind: i32, plain: usize, stored: usize, field: u8, part: &[i32]) -> Vec<u8> {
    let mut bytes = numbers(&[kind, plain as i32, stored as i32]);
    bytes.push((field - 3) << 4 | 0x0c);
    bytes.extend(numbers(part));
    bytes.extend([0, 0]);
    bytes
}

/// A data page of version 1.
pub(crate) fn data(values: i32, encoding: i32, plain: usize, stored: &[u8]) -> Vec<u8> {
    [
        header(0, plain, stored.len(), 5, &[values, encoding, RLE, RLE]),
        stored.to_vec(),
    ]
    .concat()
}

/// A data page that is not compressed.
pub(crate) fn page(values: i32, encoding: i32, body: &[u8]) -> Vec<u8> {
    data(values, encoding, body.len(), body)
}

pub(crate) fn dictionary(values: i32, body: &[u8]) -> Vec<u8> {
    [
        header(2, body.len(), body.len(), 7, &[values, PLAIN]),
        body.to_vec(),
    ]
    .concat()
}

pub(crate) fn decode(
    bench: &Bench,
    column: &str,
    codec: Compression,
    rows: usize,
    bytes: &[u8],
) -> Result<DecodedColumn, ParquetError> {
    let schema = parse_message_type(&format!("message schema {{ {column}; }}")).unwrap();
    let schema = SchemaDescriptor::new(Arc::new(schema));
    let shape = ColumnShape::of(&schema.column(0), 1).unwrap();
    let chunk = ColumnChunk {
        file: "lies.parquet",
        column: "v",
        row_group: 3,
        start: 1000,
        bytes,
        rows,
        codec,
    };
    bench.decode(&shape, &[chunk])
}

/// The violation in pages that are not compressed.
pub(crate) fn problem(bench: &Bench, column: &str, rows: usize, bytes: &[u8]) -> Problem {
    problem_of(decode(bench, column, Compression::UNCOMPRESSED, rows, bytes))
}

pub(crate) fn problem_of(decoded: Result<DecodedColumn, ParquetError>) -> Problem {
    match decoded {
        Err(ParquetError::Damaged { place, problem }) => {
            assert_eq!(
                (place.file.as_str(), place.column.as_str(), place.row_group),
                ("lies.parquet", "v", 3)
            );
            problem
        }
        other => panic!("{other:?}"),
    }
}

pub(crate) fn value(failure: ParquetFailure, number: u64, limit: u64) -> Problem {
    Problem::Value {
        failure,
        number,
        limit,
    }
}

pub(crate) fn integers(bench: &Bench, column: &DecodedColumn) -> Vec<i128> {
    let cells = of_column(&bench.stream, column, false).into_iter();
    cells
        .map(|cell| match cell {
            Cell::Integer(integer) => integer,
            cell => panic!("{cell:?}"),
        })
        .collect()
}

/// Random runs of values below `1 << width`: their bytes and values.
pub(crate) fn runs(width: u32, random: &mut SmallRng) -> (Vec<u8>, Vec<u32>) {
    let (mut bytes, mut values) = (Vec::new(), Vec::new());
    let draw = |random: &mut SmallRng| random.random::<u32>().checked_shr(32 - width).unwrap_or(0);
    for _ in 0..random.random_range(1..150) {
        if random.random_bool(0.5) {
            let length = [0, 1, 7, 40, 300][random.random_range(0..5)];
            let value = draw(random);
            bytes.extend(varint(length << 1));
            bytes.extend(&value.to_le_bytes()[..width.div_ceil(8) as usize]);
            values.extend((0..length).map(|_| value));
        } else {
            let groups = random.random_range(0..6_u64);
            bytes.extend(varint(groups << 1 | 1));
            let run: Vec<u32> = (0..groups * 8).map(|_| draw(random)).collect();
            let mut packed = vec![0_u8; (groups * u64::from(width)) as usize];
            for (at, value) in run.iter().enumerate() {
                for bit in (0..width).filter(|bit| value >> bit & 1 == 1) {
                    let place = at * width as usize + bit as usize;
                    packed[place / 8] |= 1 << (place % 8);
                }
            }
            bytes.extend(packed);
            values.extend(run);
        }
    }
    (bytes, values)
}
