//! Every type in every encoding, page version, codec, pattern of NULLs and shape of row groups.

use galatea_device::EmulatorOptions;
use galatea_parquet::unsupported;
use parquet::basic::{BrotliLevel, Compression, Encoding, GzipLevel, ZstdLevel};
use parquet::file::properties::WriterVersion;

use crate::sample::{Encodings, Nulls, Sample};
use crate::support::Bench;

const VERSIONS: [WriterVersion; 2] = [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0];

/// Compares all columns of a file, which has to have the encodings of the sample.
fn check(bench: &Bench, sample: &Sample) {
    let file = sample.file();
    for column in 0..file.columns() {
        let has_values = sample.rows > 0 && sample.nulls != Nulls::All;
        for group in file.metadata.row_groups().iter().filter(|_| has_values) {
            let chunk = group.column(column);
            let expected = sample.expected_encoding(chunk.column_descr().name());
            let found: Vec<Encoding> = chunk.encodings().collect();
            assert!(
                found.contains(&expected),
                "{sample:?}, column {column}: {found:?}"
            );
            assert_eq!(unsupported(chunk), None, "{sample:?}, column {column}");
        }
        file.check(bench, column, &format!("{sample:?}"));
    }
}

#[test]
fn every_encoding_version_and_null_pattern() {
    for bench in Bench::all() {
        for encodings in Encodings::ALL {
            for version in VERSIONS {
                for nulls in Nulls::ALL {
                    check(
                        &bench,
                        &Sample {
                            version,
                            ..Sample::new(331, nulls, encodings)
                        },
                    );
                }
            }
        }
    }
}

#[test]
fn sizes_around_words_and_blocks() {
    for bench in Bench::all() {
        for (seed, rows) in [0, 1, 31, 32, 33, 1023, 1024, 1025].into_iter().enumerate() {
            for encodings in Encodings::ALL {
                let nulls = [Nulls::Random, Nulls::Runs, Nulls::Forbidden][seed % 3];
                check(
                    &bench,
                    &Sample {
                        version: VERSIONS[seed % 2],
                        seed: seed as u64,
                        ..Sample::new(rows, nulls, encodings)
                    },
                );
            }
        }
    }
}

#[test]
fn several_pages_and_row_groups() {
    for bench in Bench::all() {
        for encodings in Encodings::ALL {
            for (version, page_rows, group_rows) in [
                (VERSIONS[0], 100, 1 << 20),
                (VERSIONS[1], 33, 250),
                (VERSIONS[0], 1, 7),
            ] {
                check(
                    &bench,
                    &Sample {
                        version,
                        page_rows,
                        group_rows,
                        ..Sample::new(if page_rows == 1 { 40 } else { 700 }, Nulls::Random, encodings)
                    },
                );
            }
        }
    }
}

/// Once a dictionary is full, the pages of a column chunk have another encoding.
#[test]
fn pages_after_a_full_dictionary() {
    for bench in Bench::all() {
        for (version, group_rows) in [(VERSIONS[0], 1 << 20), (VERSIONS[1], 450)] {
            let sample = Sample {
                version,
                group_rows,
                page_rows: 100,
                dictionary_bytes: 300,
                ..Sample::new(900, Nulls::Random, Encodings::Dictionary)
            };
            check(&bench, &sample);
            let file = sample.file();
            let mixed = (0..file.columns()).filter(|column| {
                let encodings = file.metadata.row_group(0).column(*column).encodings();
                encodings.filter(|encoding| *encoding != Encoding::RLE).count()
                    > 1 + usize::from(version == VERSIONS[1])
            });
            assert!(mixed.count() > 5);
        }
    }
}

#[test]
fn every_codec() {
    for bench in Bench::all() {
        for codec in [
            Compression::SNAPPY,
            Compression::LZ4_RAW,
            Compression::GZIP(GzipLevel::default()),
            Compression::BROTLI(BrotliLevel::default()),
            Compression::ZSTD(ZstdLevel::default()),
        ] {
            for version in VERSIONS {
                let patterns = [Nulls::Runs, Nulls::Random, Nulls::Forbidden];
                let all = Encodings::ALL.into_iter().enumerate();
                let all = all.map(|(number, encodings)| (patterns[number % 3], encodings));
                for (nulls, encodings) in all.chain([(Nulls::All, Encodings::Plain)]) {
                    check(
                        &bench,
                        &Sample {
                            version,
                            codec,
                            page_rows: 300,
                            ..Sample::new(700, nulls, encodings)
                        },
                    );
                }
            }
        }
    }
}

#[test]
fn long_columns() {
    for bench in Bench::all() {
        for (nulls, encodings, codec) in [
            (Nulls::Random, Encodings::Dictionary, Compression::SNAPPY),
            (Nulls::Runs, Encodings::Delta, Compression::LZ4_RAW),
        ] {
            let sample = Sample {
                codec,
                page_rows: 30_000,
                ..Sample::new(100_000, nulls, encodings)
            };
            let file = sample.file();
            for name in ["boolean", "i32", "f64", "string"] {
                let schema = file.metadata.file_metadata().schema_descr();
                let column = (0..file.columns())
                    .find(|column| schema.column(*column).name() == name)
                    .unwrap();
                file.check(&bench, column, &format!("{sample:?}"));
            }
        }
    }
}

/// The kernels have no races, in any order of lanes and blocks.
#[test]
fn hostile_schedules_and_race_detection() {
    let stress = EmulatorOptions {
        seed: 5,
        stress: true,
        ..EmulatorOptions::default()
    };
    let races = EmulatorOptions {
        races: true,
        ..EmulatorOptions::default()
    };
    for options in [stress, races] {
        let bench = Bench::new(options);
        for (encodings, codec) in Encodings::ALL.into_iter().zip([
            Compression::UNCOMPRESSED,
            Compression::SNAPPY,
            Compression::LZ4_RAW,
            Compression::SNAPPY,
        ]) {
            check(
                &bench,
                &Sample {
                    codec,
                    page_rows: 90,
                    ..Sample::new(150, Nulls::Random, encodings)
                },
            );
        }
    }
}
