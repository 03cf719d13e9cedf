//! Files of other writers: those of apache/parquet-testing whose columns are not nested.

use std::path::Path;

use galatea_parquet::unsupported;
use parquet::file::metadata::RowGroupMetaData;

use crate::support::{Bench, File};

/// Compares every column that both readers decode. Returns their number.
fn check_file(bench: &Bench, path: &Path) -> usize {
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    // A footer that the parquet crate refuses is not for this crate.
    let Ok(file) = File::new(std::fs::read(path).unwrap()) else {
        return 0;
    };
    // The parquet crate reads no more rows than the file declares; one of these files declares 0 beside a row
    // group of 6.
    let rows: i64 = file
        .metadata
        .row_groups()
        .iter()
        .map(RowGroupMetaData::num_rows)
        .sum();
    if rows != file.metadata.file_metadata().num_rows() {
        return 0;
    }
    let mut compared = 0;
    for column in 0..file.columns() {
        let groups = file.metadata.row_groups();
        if groups
            .iter()
            .any(|group| unsupported(group.column(column)).is_some())
        {
            continue;
        }
        match (file.expected(column), file.decoded(bench, column)) {
            (Ok(expected), Ok(found)) => {
                let differing = expected
                    .iter()
                    .zip(&found)
                    .position(|(expected, found)| expected != found);
                assert_eq!(differing, None, "{name}, column {column}");
                assert_eq!(expected.len(), found.len(), "{name}, column {column}");
                compared += 1;
            }
            (Ok(_), Err(error)) => panic!("{name}, column {column}: {error}"),
            // A damaged file: this crate may read more of it, but not fail in another way.
            (Err(_), _) => {}
        }
    }
    compared
}

#[test]
fn columns_of_other_writers() {
    for bench in Bench::all() {
        let mut files: Vec<_> = std::fs::read_dir("tests/parquet-testing")
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "parquet"))
            .collect();
        files.sort();
        let columns: usize = files.iter().map(|file| check_file(&bench, file)).sum();
        assert!(columns >= 170, "{columns} columns of {} files", files.len());
    }
}
