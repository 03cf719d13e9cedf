//! Columns of dictionary indices are encoded like columns of plain values.

use datafusion::prelude::ParquetReadOptions;
use parquet::basic::Compression;
use parquet::file::properties::WriterVersion;

use crate::data::{Nulls, Shape};
use crate::device_pages::{all_columns, assert_same_column};
use crate::files::{batch, context, properties, store, write};

/// Files with a dictionary for every column, and files of the same rows without.
#[tokio::test]
async fn dictionary_indices_are_encoded_like_plain_values() {
    let of_files = [
        (Shape::Few, Nulls::Some),
        (Shape::Multiples, Nulls::No),
        (Shape::Random, Nulls::Some),
        (Shape::Equal, Nulls::All),
    ];
    for (version, codec, rows) in [
        (WriterVersion::PARQUET_1_0, Compression::SNAPPY, 1000),
        (WriterVersion::PARQUET_2_0, Compression::LZ4_RAW, 100),
        (WriterVersion::PARQUET_1_0, Compression::UNCOMPRESSED, 33),
    ] {
        let mut columns = Vec::new();
        for has_dictionary in [false, true] {
            let directory = tempfile::tempdir().unwrap();
            let properties = properties()
                .set_dictionary_enabled(has_dictionary)
                .set_writer_version(version)
                .set_compression(codec)
                .set_max_row_group_row_count(Some(rows))
                .build();
            for (file, (shape, nulls)) in of_files.into_iter().enumerate() {
                let path = directory.path().join(format!("{file}.parquet"));
                write(&path, &batch(700, shape, nulls, 5), properties.clone());
            }
            let context = context();
            let path = directory.path().to_str().unwrap();
            let options = ParquetReadOptions::default();
            context.register_parquet("t", path, options).await.unwrap();
            columns.push(all_columns(&store(), &context).await.columns);
        }
        let [plain, indexed] = columns.as_slice() else {
            panic!("two kinds of files");
        };
        assert_eq!(plain.len(), indexed.len());
        for (plain, indexed) in plain.iter().zip(indexed) {
            let context = format!(
                "{version:?}, {codec}, {rows} rows, {}: {}",
                plain.name, plain.data_type
            );
            assert_same_column(plain, indexed, &context);
        }
    }
}
