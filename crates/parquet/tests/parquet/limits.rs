//! Pages written byte by byte: what no writer writes, and every violation with its error.

use galatea_kernels::ParquetFailure;
use galatea_parquet::Problem;
use parquet::basic::Compression;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::bytes::{
    DELTA_BINARY_PACKED, DELTA_BYTE_ARRAY, DELTA_LENGTH_BYTE_ARRAY, DICTIONARY, PLAIN, RLE, data, decode,
    dictionary, header, integers, page, problem, problem_of, runs, value, varint, zigzag,
};
use crate::support::Bench;

#[test]
fn runs_of_every_width_and_length() {
    for bench in Bench::all() {
        let mut random = SmallRng::seed_from_u64(9);
        for width in 0..=16 {
            let (bytes, values) = runs(width, &mut random);
            let strings: Vec<u8> = (0..1_i32 << width)
                .flat_map(|value| (value * 3).to_le_bytes())
                .collect();
            let chunk = [
                dictionary(1 << width, &strings),
                page(
                    values.len() as i32,
                    DICTIONARY,
                    &[&[width as u8], &bytes[..]].concat(),
                ),
            ]
            .concat();
            let codec = Compression::UNCOMPRESSED;
            let column = decode(&bench, "required int32 v", codec, values.len(), &chunk).unwrap();
            let expected = values.iter().map(|value| i128::from(*value) * 3);
            assert!(integers(&bench, &column).into_iter().eq(expected), "{width} bits");
            // One value more than the runs have.
            let longer = [
                dictionary(1 << width, &strings),
                page(
                    values.len() as i32 + 1,
                    DICTIONARY,
                    &[&[width as u8], &bytes[..]].concat(),
                ),
            ]
            .concat();
            let count = values.len() as u64;
            let Problem::Value { failure, limit, .. } =
                problem(&bench, "required int32 v", values.len() + 1, &longer)
            else {
                panic!("the runs end early");
            };
            assert_eq!((failure, limit), (ParquetFailure::RunsEnd, count + 1));
        }
    }
}

/// Snappy: all tags, with lengths and distances of every size.
#[test]
fn snappy_tags_of_every_kind() {
    for bench in Bench::all() {
        let noise: Vec<u8> = (0..70_000_u32)
            .map(|at| (at.wrapping_mul(at) >> 7) as u8)
            .collect();
        let mut plain = noise.clone();
        let mut stored = vec![62 << 2];
        stored.extend(&(noise.len() as u32 - 1).to_le_bytes()[..3]);
        stored.extend(&noise);
        // Copies: near, far, farthest; one that overlaps itself.
        for (tag, operand, distance, length) in [
            (1 | 3 << 2 | 2 << 5, vec![5], 2 << 8 | 5, 7),
            (2 | 63 << 2, vec![0x10, 0x27], 10_000, 64),
            (3 | 30 << 2, 69_000_u32.to_le_bytes().to_vec(), 69_000, 31),
            (2 | 59 << 2, vec![3, 0], 3, 60),
        ] {
            stored.push(tag);
            stored.extend(operand);
            for _ in 0..length {
                plain.push(plain[plain.len() - distance]);
            }
        }
        // Literals with lengths of 1, 2 and 4 bytes.
        for (tag, bytes, length) in [(60, 1, 200), (61, 2, 300), (63, 4, 7)] {
            stored.push(tag << 2);
            stored.extend(&(length as u32 - 1).to_le_bytes()[..bytes]);
            stored.extend(&noise[..length]);
            plain.extend(&noise[..length]);
        }
        let rows = plain.len() / 8;
        let stored = [varint(plain.len() as u64), stored].concat();
        let chunk = data(rows as i32, PLAIN, plain.len(), &stored);
        let column = decode(&bench, "required int64 v", Compression::SNAPPY, rows, &chunk).unwrap();
        let expected = plain
            .chunks_exact(8)
            .map(|word| i128::from(i64::from_le_bytes(word.try_into().unwrap())));
        assert!(integers(&bench, &column).into_iter().eq(expected));
    }
}

#[test]
fn damaged_compressed_bytes_have_specific_errors() {
    use ParquetFailure::{CompressedEnd, CopyDistance, Size};
    let bench = Bench::seeded(1);
    let of = |codec, stored: &[u8]| {
        let chunk = data(2, PLAIN, 8, stored);
        problem_of(decode(&bench, "required int32 v", codec, 2, &chunk))
    };
    let snappy = |stored: &[u8]| of(Compression::SNAPPY, stored);
    assert_eq!(snappy(&[9, 3 << 2, 1, 2, 3, 4]), value(Size, 9, 8));
    assert_eq!(snappy(&[8, 3 << 2, 1, 2, 3]), value(CompressedEnd, 0, 8));
    assert_eq!(snappy(&[8, 3 << 2, 1, 2, 3, 4]), value(CompressedEnd, 4, 8));
    assert_eq!(snappy(&[8, 3 << 2, 1, 2, 3, 4, 1, 0]), value(CopyDistance, 0, 4));
    assert_eq!(snappy(&[8, 3 << 2, 1, 2, 3, 4, 1, 5]), value(CopyDistance, 5, 4));
    assert_eq!(snappy(&[8, 3 << 2, 1, 2, 3, 4, 1 | 1 << 2, 4]), value(Size, 9, 8));
    assert_eq!(snappy(&[8, 3 << 2, 1, 2, 3, 4, 2, 4]), value(CompressedEnd, 4, 8));
    assert_eq!(snappy(&[0x88]), value(CompressedEnd, 0, 8));
    let lz4 = |stored: &[u8]| of(Compression::LZ4_RAW, stored);
    assert_eq!(lz4(&[0x40, 1, 2, 3]), value(CompressedEnd, 0, 8));
    assert_eq!(lz4(&[0x40, 1, 2, 3, 4]), value(CompressedEnd, 4, 8));
    assert_eq!(lz4(&[0x40, 1, 2, 3, 4, 0, 0]), value(CopyDistance, 0, 4));
    assert_eq!(lz4(&[0x41, 1, 2, 3, 4, 4, 0]), value(Size, 9, 8));
    assert_eq!(lz4(&[0xf0, 255, 255]), value(CompressedEnd, 0, 8));
    let Problem::Compressed { codec, .. } = of(Compression::ZSTD(Default::default()), &[1, 2, 3]) else {
        panic!("the bytes are not Zstandard");
    };
    assert_eq!(codec, "Zstandard");
}

#[test]
fn lying_headers_have_specific_errors() {
    let bench = Bench::seeded(1);
    let column = "required int32 v";
    let out_of_range = |name, number, greatest| Problem::OutOfRange {
        name,
        number,
        least: 0,
        greatest,
    };
    let body = [7, 0, 0, 0];
    let long = [header(0, 4, 90, 5, &[1, PLAIN, RLE, RLE]), body.to_vec()].concat();
    assert_eq!(
        problem(&bench, column, 1, &long),
        out_of_range("compressed size", 90, 4)
    );
    let negative = header(0, 4, -4_i32 as usize, 5, &[1, PLAIN, RLE, RLE]);
    assert_eq!(
        problem(&bench, column, 1, &negative),
        out_of_range("compressed size", -4, i32::MAX.into())
    );
    assert_eq!(
        problem(&bench, column, 1, &page(2, PLAIN, &[0; 8])),
        out_of_range("rows of a page", 2, 1)
    );
    let differs = |name, number, expected| Problem::Differs {
        name,
        number,
        expected,
    };
    assert_eq!(
        problem(&bench, column, 2, &page(1, PLAIN, &body)),
        differs("rows of all pages", 1, 2)
    );
    assert_eq!(
        problem(&bench, column, 1, &data(1, PLAIN, 5, &body)),
        differs("uncompressed size", 5, 4)
    );
    let bomb = data(1, PLAIN, 1 << 30, &body);
    assert_eq!(
        problem_of(decode(&bench, column, Compression::SNAPPY, 1, &bomb)),
        out_of_range("uncompressed size", 1 << 30, 88)
    );
    assert_eq!(
        problem(&bench, column, 1, &page(1, DICTIONARY, &[0])),
        Problem::NoDictionary
    );
    let late = [page(1, PLAIN, &body), dictionary(1, &body)].concat();
    assert_eq!(problem(&bench, column, 2, &late), Problem::LateDictionary);
    assert_eq!(
        problem(&bench, column, 1, &dictionary(1 << 30, &body)),
        out_of_range("values of a dictionary page", 1 << 30, 1)
    );
    let v2 = |part: &[i32], body: &[u8]| [header(3, body.len(), body.len(), 8, part), body.to_vec()].concat();
    let optional = "optional int32 v";
    // Levels: a run of 2 rows that are not NULL.
    let levels = [&[4, 1][..], &[0; 8]].concat();
    assert_eq!(
        problem(&bench, optional, 2, &v2(&[2, 1, 2, PLAIN, 2, 0], &levels)),
        differs("NULLs of a page", 0, 1)
    );
    assert_eq!(
        problem(&bench, optional, 2, &v2(&[2, 0, 1, PLAIN, 2, 0], &levels)),
        differs("rows of a page", 1, 2)
    );
    assert_eq!(
        problem(&bench, optional, 2, &v2(&[2, 0, 2, PLAIN, 11, 0], &levels)),
        out_of_range("bytes of definition levels", 11, 10)
    );
    assert_eq!(
        problem(&bench, optional, 2, &v2(&[2, 0, 2, PLAIN, 2, 1], &levels)),
        out_of_range("bytes of repetition levels", 1, 0)
    );
    assert_eq!(problem(&bench, column, 1, &[0x15]), Problem::HeaderEnds);
    assert_eq!(
        problem(&bench, column, 1, &[0]),
        Problem::Missing { field: "type" }
    );
}

#[test]
fn lying_values_have_specific_errors() {
    use ParquetFailure as F;
    let bench = Bench::seeded(1);
    let of = |column: &str, rows: i32, encoding, body: &[u8]| {
        problem(&bench, column, rows as usize, &page(rows, encoding, body))
    };
    let integer = "required int32 v";
    assert_eq!(of(integer, 2, PLAIN, &[0; 7]), value(F::ValuesEnd, 8, 7));
    assert_eq!(
        of("required boolean v", 9, PLAIN, &[0]),
        value(F::ValuesEnd, 2, 1)
    );
    assert_eq!(
        of("required boolean v", 1, RLE, &[9, 0, 0, 0, 2]),
        value(F::ValuesEnd, 9, 1)
    );
    let run = of("required boolean v", 2, RLE, &[2, 0, 0, 0, 4, 2]);
    assert_eq!(run, value(F::BooleanRun, 2, 1));
    // Levels.
    let optional = "optional int32 v";
    assert_eq!(
        of(optional, 1, PLAIN, &[9, 0, 0, 0, 2, 1]),
        value(F::LevelBytes, 9, 6)
    );
    assert_eq!(of(optional, 1, PLAIN, &[1, 0]), value(F::LevelBytes, 0, 2));
    assert_eq!(
        of(optional, 2, PLAIN, &[2, 0, 0, 0, 2, 1]),
        value(F::LevelsEnd, 0, 2)
    );
    assert_eq!(of(optional, 1, PLAIN, &[2, 0, 0, 0, 2, 2]), value(F::Level, 2, 1));
    // Dictionary indices.
    let indices = |body: &[u8]| {
        let chunk = [dictionary(2, &[0; 8]), page(2, DICTIONARY, body)].concat();
        problem(&bench, integer, 2, &chunk)
    };
    assert_eq!(indices(&[2, 4, 2]), value(F::Index, 2, 2));
    assert_eq!(indices(&[33, 4, 2]), value(F::IndexWidth, 33, 32));
    assert_eq!(indices(&[2, 2, 1]), value(F::RunsEnd, 0, 2));
    assert_eq!(indices(&[]), value(F::ValuesEnd, 1, 0));
    // A bit-packed run that is longer than its bytes.
    assert_eq!(indices(&[9, 3, 0]), value(F::RunsEnd, 0, 2));
    // Deltas: block of 128 in 4 parts.
    let delta = |count: u64, rest: &[u8]| [varint(128), varint(4), varint(count), rest.to_vec()].concat();
    let deltas = |body: &[u8]| of(integer, 3, DELTA_BINARY_PACKED, body);
    assert_eq!(deltas(&delta(4, &[0])), value(F::DeltaCount, 4, 3));
    assert_eq!(deltas(&delta(3, &[0])), value(F::DeltaEnd, 1, 3));
    assert_eq!(deltas(&delta(3, &[0, 0, 1, 0, 0, 0])), value(F::DeltaEnd, 1, 3));
    assert_eq!(
        deltas(&delta(3, &[0, 0, 65, 0, 0, 0])),
        value(F::DeltaWidth, 65, 64)
    );
    assert_eq!(deltas(&[128, 1, 0, 3, 0]), value(F::DeltaHeader, 128, 0));
    assert_eq!(deltas(&[100, 4, 3, 0]), value(F::DeltaHeader, 100, 4));
    assert_eq!(deltas(&[128]), value(F::DeltaEnd, 0, 3));
    // Strings.
    let strings = |rows, encoding, body: &[u8]| of("required binary v", rows, encoding, body);
    assert_eq!(
        strings(1, PLAIN, &[3, 0, 0, 0, b'a', b'b']),
        value(F::StringLength, 3, 6)
    );
    assert_eq!(
        strings(2, PLAIN, &[1, 0, 0, 0, b'a', 0]),
        value(F::StringLength, 0, 1)
    );
    // Lengths that are all the same: a first length, then deltas of no bits.
    let lengths = |count, first: i64| delta(count, &[&zigzag(first)[..], &[0, 0, 0, 0, 0]].concat());
    let two = [lengths(2, 2), b"abc".to_vec()].concat();
    assert_eq!(
        strings(2, DELTA_LENGTH_BYTE_ARRAY, &two),
        value(F::StringLength, 4, 3)
    );
    let negative = [lengths(2, -1), b"abc".to_vec()].concat();
    let Problem::Value { failure, .. } = strings(2, DELTA_LENGTH_BYTE_ARRAY, &negative) else {
        panic!("a length is negative");
    };
    assert_eq!(failure, F::StringLength);
    let prefixes = [lengths(2, 1), lengths(2, 1), b"ab".to_vec()].concat();
    assert_eq!(
        strings(2, DELTA_BYTE_ARRAY, &prefixes),
        value(F::PrefixLength, 1, 0)
    );
    let fixed = [lengths(2, 0), lengths(2, 3), b"abcdef".to_vec()].concat();
    let decimal = "required fixed_len_byte_array(4) v (DECIMAL(9, 2))";
    assert_eq!(
        of(decimal, 2, DELTA_BYTE_ARRAY, &fixed),
        value(F::ValueLength, 3, 4)
    );
    // Types narrower than their bytes.
    assert_eq!(
        of("required int32 v (UINT_8)", 2, PLAIN, &[1, 0, 0, 0, 0, 1, 0, 0]),
        Problem::OutOfRange {
            name: "integer",
            number: 256,
            least: 0,
            greatest: 255
        }
    );
}

#[test]
fn strings_are_utf8() {
    for bench in Bench::all() {
        let text = |string: &[u8]| [&(string.len() as u32).to_le_bytes()[..], string].concat();
        let decoded = |string: &[u8]| {
            let body = [text("gut: äß€𝄞".as_bytes()), text(string)].concat();
            let codec = Compression::UNCOMPRESSED;
            decode(
                &bench,
                "required binary v (UTF8)",
                codec,
                2,
                &page(2, PLAIN, &body),
            )
        };
        let mut random = SmallRng::seed_from_u64(2);
        let parts: [&[u8]; 12] = [
            b"a",
            &[0xc3, 0xa4],
            &[0xe2, 0x82, 0xac],
            &[0xf0, 0x9d, 0x84, 0x9e],
            &[0x80],
            &[0xc0, 0x80],
            &[0xe0, 0x9f, 0xbf],
            &[0xed, 0xa0, 0x80],
            &[0xf0, 0x8f, 0xbf, 0xbf],
            &[0xf4, 0x90, 0x80, 0x80],
            &[0xff],
            &[0xe2, 0x82],
        ];
        let mut invalid = 0;
        for _ in 0..120 {
            let count = random.random_range(0..4);
            let of = if random.random_bool(0.5) { 4 } else { parts.len() };
            let string: Vec<u8> = (0..count)
                .flat_map(|_| parts[random.random_range(0..of)].to_vec())
                .collect();
            match std::str::from_utf8(&string) {
                Ok(_) => assert!(decoded(&string).is_ok(), "{string:x?}"),
                Err(_) => {
                    invalid += 1;
                    assert_eq!(
                        problem_of(decoded(&string)),
                        Problem::NotUtf8 { string: 1 },
                        "{string:x?}"
                    );
                }
            }
        }
        assert!(invalid > 20, "{invalid} strings are invalid");
    }
}

/// Errors name the place and the numbers.
#[test]
fn errors_are_specific() {
    let bench = Bench::seeded(1);
    let chunk = [dictionary(2, &[0; 8]), page(2, DICTIONARY, &[2, 4, 3])].concat();
    let error = decode(&bench, "required int32 v", Compression::UNCOMPRESSED, 2, &chunk).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot read column v of lies.parquet, row group 3, page 1, byte 1: dictionary index is not below the \
         number of dictionary values: 3, limit 2\nhint: the file is cut off, damaged, or not Parquet"
    );
    let refused = decode(&bench, "required int32 v", Compression::LZO, 2, &chunk).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "column v of lies.parquet is not decoded on the device: its codec is not supported"
    );
}
