//! Damaged pages: bytes changed or cut at random. The device returns the values of the parquet crate, or an
//! error with a place; it never reads out of bounds (the emulated device would fail the launch), and ends.

use std::ops::Range;
use std::process::Command;
use std::time::{Duration, Instant};

use galatea_device::EmulatorOptions;
use galatea_parquet::ParquetError;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterVersion;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::sample::{Encodings, Nulls, Sample};
use crate::support::{Bench, File};

/// Changes some bytes of a column chunk; rather near its start, where headers and levels are.
fn damaged(file: &File, column: usize, random: &mut SmallRng) -> File {
    let mut bytes = file.bytes.to_vec();
    let groups = file.metadata.num_row_groups();
    let (start, length) = file.range(random.random_range(0..groups), column);
    for _ in 0..random.random_range(1..4) {
        let within = match random.random_bool(0.5) {
            true => length,
            false => length.min(80),
        };
        let at = start + random.random_range(0..within);
        bytes[at] = match random.random_range(0..4) {
            0 => random.random(),
            1 => 0xff,
            2 => 0,
            _ => bytes[at] ^ (1 << random.random_range(0..8)),
        };
    }
    file.with_bytes(bytes)
}

/// Decodes a damaged column. Returns whether there was an error.
fn check(bench: &Bench, file: &File, column: usize, context: &str) -> bool {
    let begin = Instant::now();
    let found = file.decoded(bench, column);
    assert!(begin.elapsed() < Duration::from_secs(20), "{context}: too slow");
    match found {
        Ok(found) => {
            // The parquet crate reads some damaged bytes that this crate refuses, and refuses others, such as
            // bytes after the values.
            if let Ok(expected) = file.expected(column) {
                assert_eq!(found, expected, "{context}");
            }
            false
        }
        Err(ParquetError::Damaged { place, .. }) => {
            assert_eq!(place.file, "test.parquet", "{context}");
            true
        }
        // A page may declare more values than the device has memory for.
        Err(
            ParquetError::Unsupported { .. }
            | ParquetError::Device(galatea_device::DeviceError::OutOfMemory { .. }),
        ) => true,
        Err(error) => panic!("{context}: {error}"),
    }
}

/// Decodes changed files of every encoding and several codecs. Returns the number of errors.
fn check_rounds(bench: &Bench, rounds: Range<u64>) -> u64 {
    let mut errors = 0;
    for round in rounds {
        for (index, encodings) in Encodings::ALL.into_iter().enumerate() {
            for (codec, version) in [
                (Compression::UNCOMPRESSED, WriterVersion::PARQUET_1_0),
                (Compression::UNCOMPRESSED, WriterVersion::PARQUET_2_0),
                (Compression::SNAPPY, WriterVersion::PARQUET_1_0),
                (Compression::LZ4_RAW, WriterVersion::PARQUET_2_0),
                (
                    Compression::ZSTD(ZstdLevel::default()),
                    WriterVersion::PARQUET_1_0,
                ),
            ] {
                let seed = round * 1000 + index as u64;
                let sample = Sample {
                    codec,
                    version,
                    page_rows: 120,
                    seed,
                    ..Sample::new(200, Nulls::Random, encodings)
                };
                let file = sample.file();
                let mut random = SmallRng::seed_from_u64(seed);
                for column in 0..file.columns() {
                    for attempt in 0..3 {
                        let context = format!("{sample:?}, column {column}, attempt {attempt}");
                        let broken = damaged(&file, column, &mut random);
                        errors += u64::from(check(bench, &broken, column, &context));
                    }
                }
            }
        }
    }
    errors
}

#[test]
fn changed_bytes_give_errors_or_equal_values() {
    let errors = check_rounds(&Bench::seeded(11), 0..1);
    assert!(errors > 200, "{errors} errors");
}

#[test]
#[ignore = "takes a minute; for changes of the kernels"]
fn many_changed_bytes_give_errors_or_equal_values() {
    let errors = check_rounds(&Bench::seeded(11), 1..40);
    assert!(errors > 40 * 200, "{errors} errors");
}

/// Every access of the kernels to changed pages is in bounds. AddressSanitizer has to be loaded at process
/// start, so the test runs this binary again, for the ignored test below.
#[test]
fn accesses_to_changed_pages_are_in_bounds() {
    let library = Command::new("c++").arg("-print-file-name=libasan.so").output();
    let library = library
        .ok()
        .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    let Some(library) = library.filter(|path| path.starts_with('/')) else {
        println!("skipped: the C++ compiler has no libasan.so");
        return;
    };
    let output = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "damage::changed_pages_on_a_sanitized_device",
            "--ignored",
        ])
        .env("LD_PRELOAD", library)
        .env("ASAN_OPTIONS", "detect_leaks=0")
        .output()
        .unwrap();
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

#[test]
#[ignore = "needs AddressSanitizer; accesses_to_changed_pages_are_in_bounds runs it"]
fn changed_pages_on_a_sanitized_device() {
    let bench = Bench::new(EmulatorOptions {
        address_sanitizer: true,
        ..EmulatorOptions::default()
    });
    assert!(check_rounds(&bench, 7..8) > 0);
}

#[test]
fn cut_column_chunks_give_errors() {
    let bench = Bench::seeded(12);
    for encodings in Encodings::ALL {
        let sample = Sample {
            codec: Compression::SNAPPY,
            ..Sample::new(100, Nulls::Runs, encodings)
        };
        let file = sample.file();
        let mut random = SmallRng::seed_from_u64(5);
        for column in 0..file.columns() {
            let shape = file.shape(column).unwrap();
            let mut chunks = file.chunks(column);
            let whole = chunks[0].bytes;
            for _ in 0..4 {
                chunks[0].bytes = &whole[..random.random_range(0..whole.len())];
                let refused = bench.decode(&shape, &chunks);
                let Err(ParquetError::Damaged { place, .. }) = refused else {
                    panic!(
                        "{sample:?}, column {column}, {} bytes: {refused:?}",
                        chunks[0].bytes.len()
                    );
                };
                assert_eq!(place.row_group, 0);
            }
        }
    }
}
