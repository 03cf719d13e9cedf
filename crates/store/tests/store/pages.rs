//! Loads with predicates read the pages that the page index leaves, on the host and on the device.

use std::sync::Arc;

use arrow::array::*;
use galatea_device::{Device, DeviceOptions, EmulatorOptions};
use galatea_store::*;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaDataReader};
use parquet::file::properties::{
    EnabledStatistics, WriterProperties, WriterPropertiesBuilder, WriterVersion,
};

use crate::round_trip::decoded;
use crate::row_groups::{Bed, numbers, table, write};

/// Row groups of 400 rows in pages of 20.
fn pages() -> WriterPropertiesBuilder {
    WriterProperties::builder()
        .set_max_row_group_row_count(Some(400))
        .set_data_page_row_count_limit(20)
        .set_write_batch_size(20)
}

fn page_decoder() -> Arc<PageDecoder> {
    let device = Device::emulated(EmulatorOptions::default(), DeviceOptions::default()).unwrap();
    let decoder = PageDecoder::new(&device, 50e9);
    decoder.set_always(true);
    decoder
}

fn rows_of_all() -> RecordBatch {
    let nulls = |row: &i64| (300..340).contains(row) || row % 7 == 3;
    let values = |row: i64| (!nulls(&row)).then_some(row * row % 1009);
    let m: ArrayRef = Arc::new(Int64Array::from_iter((0..800).map(values)));
    let text = |row: i64| (!nulls(&row)).then(|| format!("text {}", row / 9));
    let s: ArrayRef = Arc::new(StringArray::from_iter((0..800).map(text)));
    let f: ArrayRef =
        Arc::new(Float64Array::from_iter((0..800).map(|row| {
            (!nulls(&row)).then(|| if row == 410 { f64::NAN } else { row as f64 / 4.0 })
        })));
    let flag: ArrayRef = Arc::new(BooleanArray::from_iter((0..800).map(|row| Some(row % 3 == 0))));
    table(vec![
        ("n", numbers(800)),
        ("m", m),
        ("s", s),
        ("f", f),
        ("flag", flag),
    ])
}

async fn pruning(bed: &Bed, sql: &str) -> (TableView, Pruning) {
    let view = bed.load(sql).await;
    let pruning = view.loaded.as_ref().unwrap().pruning.unwrap();
    (view, pruning)
}

#[tokio::test]
async fn page_indexes_skip_pages() {
    for (sql, rows, groups, pages) in [
        ("n BETWEEN 105 AND 125", 40, 1, (2, 20)),
        ("n = 399 OR n = 400", 40, 2, (2, 40)),
        ("n < 10 OR n BETWEEN 350 AND 355", 40, 1, (2, 20)),
        ("n > 100 AND n < 110 AND s > 'text'", 20, 1, (1, 20)),
        // Pages 15 and 16 of the first row group have no value but NULL.
        ("n BETWEEN 290 AND 345 AND m IS NOT NULL", 40, 1, (2, 20)),
        ("f < 3.0", 20, 1, (1, 20)),
        ("n BETWEEN 10 AND 790", 800, 2, (40, 40)),
    ] {
        for device in [false, true] {
            let bed = Bed::new(&rows_of_all(), pages_of(device)).await;
            if device {
                bed.store.set_page_decoder(Some(page_decoder()));
            }
            let (view, pruning) = pruning(&bed, sql).await;
            assert_eq!(view.rows, rows, "{sql}");
            let skipped = pruning.by_statistics + pruning.by_bloom_filters + pruning.by_pages;
            assert_eq!(pruning.row_groups - skipped, groups, "{sql}");
            let columns = view.columns.len() as u64;
            assert_eq!(
                (pruning.pages_read, pruning.pages),
                (pages.0 * columns, pages.1 * columns),
                "{sql}"
            );
            let loaded = view.loaded.unwrap();
            assert_eq!(loaded.on_host() == 0, device, "{sql}: {loaded:?}");
        }
    }
}

fn pages_of(is_version_2: bool) -> WriterPropertiesBuilder {
    match is_version_2 {
        true => pages()
            .set_writer_version(WriterVersion::PARQUET_2_0)
            .set_compression(Compression::SNAPPY),
        false => pages(),
    }
}

/// Some pages are read, in all encodings, codecs and versions.
#[tokio::test]
async fn pages_of_every_kind_are_read_alone() {
    let decoder = page_decoder();
    let small = || pages().set_dictionary_page_size_limit(40);
    let version_2 = || pages().set_writer_version(WriterVersion::PARQUET_2_0);
    for (name, properties) in [
        ("dictionary", pages()),
        (
            "full dictionary, Zstandard",
            small().set_compression(Compression::ZSTD(ZstdLevel::default())),
        ),
        (
            "plain, LZ4",
            pages()
                .set_dictionary_enabled(false)
                .set_compression(Compression::LZ4_RAW),
        ),
        ("deltas", version_2().set_dictionary_enabled(false)),
        (
            "gzip",
            version_2().set_compression(Compression::GZIP(Default::default())),
        ),
    ] {
        for device in [false, true] {
            let bed = Bed::new(&rows_of_all(), properties.clone()).await;
            if device {
                bed.store.set_page_decoder(Some(Arc::clone(&decoder)));
            }
            for sql in [
                "n BETWEEN 203 AND 217",
                "n IN (65, 333, 501)",
                "n > 770 AND s IS NOT NULL",
            ] {
                let (view, pruning) = pruning(&bed, sql).await;
                assert!(pruning.pages_read < pruning.pages, "{name}: {sql}");
                assert!(view.rows <= 60, "{name}: {sql}: {} rows, {pruning:?}", view.rows);
                let loaded = view.loaded.unwrap();
                assert_eq!(loaded.on_host() == 0, device, "{name}: {sql}: {loaded:?}");
                let size = std::fs::metadata(bed.folder.path().join("a.parquet"))
                    .unwrap()
                    .len();
                assert!(
                    loaded.bytes_read < size * 2 / 3,
                    "{name}: {sql}: {} bytes of {size}",
                    loaded.bytes_read
                );
            }
        }
    }
}

/// The pages of one column end at other rows.
#[tokio::test]
async fn host_decodes_columns_whose_pages_end_elsewhere() {
    let wide: ArrayRef = Arc::new(StringArray::from_iter_values(
        (0..800).map(|row| format!("{row} {}", "wide".repeat(30))),
    ));
    let rows = table(vec![("n", numbers(800)), ("w", wide)]);
    let properties = pages()
        .set_dictionary_enabled(false)
        .set_write_batch_size(1)
        .set_data_page_size_limit(1500);
    let bed = Bed::new(&rows, properties).await;
    bed.store.set_page_decoder(Some(page_decoder()));
    let table = bed.table().await;
    let predicate = bed.predicate(&table, "n BETWEEN 203 AND 217");
    let hints = LoadHints {
        predicates: vec![predicate],
        ..LoadHints::default()
    };
    let view = table.load(&[0], &hints, None).await.unwrap();
    assert_eq!((view.rows, view.loaded.unwrap().on_device), (20, 1));
    let wide = table.load(&[1], &hints, None).await.unwrap();
    assert_eq!((wide.rows, wide.id), (20, view.id), "the same rows");
    let loaded = wide.loaded.unwrap();
    assert_eq!(
        loaded.host_reasons.get(&HostReason::PartOfPage),
        Some(&1),
        "{loaded:?}"
    );
    let values = decoded(&wide.columns[0]);
    assert!(values.as_string_view().value(3).starts_with("203 "));
    // Both columns together: pages of both.
    let view = bed.load("n BETWEEN 503 AND 507").await;
    assert!(view.rows > 20, "{} rows", view.rows);
}

#[tokio::test]
async fn predicates_between_pages_skip_the_row_group() {
    let values: ArrayRef = Arc::new(Int64Array::from_iter_values((0..400).map(|row| row * 10)));
    let bed = Bed::new(&table(vec![("n", values)]), pages()).await;
    let (view, pruning) = pruning(&bed, "n = 195").await;
    assert_eq!((view.rows, pruning.by_pages), (0, 1), "between 190 and 200");
    assert_eq!(pruning.by_statistics, 0);
}

/// Files without a page index, and columns without one.
#[tokio::test]
async fn row_groups_without_page_index_are_read_whole() {
    let properties = pages().set_statistics_enabled(EnabledStatistics::Chunk);
    let bed = Bed::new(&rows_of_all(), properties).await;
    let (view, counts) = pruning(&bed, "n BETWEEN 105 AND 125").await;
    assert_eq!((view.rows, counts.by_statistics), (400, 1));
    let properties = pages().set_column_statistics_enabled("n".into(), EnabledStatistics::Chunk);
    let bed = Bed::new(&rows_of_all(), properties.clone()).await;
    let (view, _) = pruning(&bed, "n BETWEEN 105 AND 125").await;
    assert_eq!(view.rows, 400, "no bounds of the pages of n");
    let bed = Bed::new(&rows_of_all(), properties).await;
    let (view, _) = pruning(&bed, "f < 3.0").await;
    assert_eq!(view.rows, 20, "f has bounds");
}

/// Page indexes that are damaged, or have locations outside of the column chunk.
#[tokio::test]
async fn damaged_page_indexes_are_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    write(&path, &rows_of_all(), pages().build());
    let metadata = ParquetMetaDataReader::new()
        .with_page_index_policy(PageIndexPolicy::Skip)
        .parse_and_finish(&std::fs::File::open(&path).unwrap())
        .unwrap();
    let intact = std::fs::read(&path).unwrap();
    let column = metadata.row_group(0).column(0);
    for (place, length, what) in [
        (
            column.offset_index_offset(),
            column.offset_index_length(),
            "locations",
        ),
        (
            column.column_index_offset(),
            column.column_index_length(),
            "bounds",
        ),
    ] {
        let (start, length) = (place.unwrap() as usize, length.unwrap() as usize);
        for (from, byte) in [(0, 0xff), (length / 2, 0xff), (2, 0x00), (length - 6, 0x7f)] {
            let mut bytes = intact.clone();
            let to = length.min(from + 6);
            bytes[start + from..start + to].fill(byte);
            let bed = Bed::new(&rows_of_all(), pages()).await;
            // DataFusion reads the page index when it registers a file.
            std::fs::write(bed.folder.path().join("a.parquet"), bytes).unwrap();
            let table = bed.table().await;
            let hints = LoadHints {
                predicates: vec![bed.predicate(&table, "n BETWEEN 105 AND 125")],
                ..LoadHints::default()
            };
            // Damaged bounds may exclude rows, as damaged values would. Nothing else may happen.
            let loaded = table.load(&[0, 1, 2], &hints, None).await;
            assert!(loaded.is_ok(), "{what} from {from}: {loaded:?}");
        }
    }
    // Locations of another column.
    let other = metadata.row_group(0).column(2);
    let (from, to) = (
        other.offset_index_offset().unwrap(),
        column.offset_index_offset().unwrap(),
    );
    let length = column
        .offset_index_length()
        .unwrap()
        .min(other.offset_index_length().unwrap()) as usize;
    let mut bytes = intact.clone();
    bytes.copy_within(from as usize..from as usize + length, to as usize);
    let bed = Bed::new(&rows_of_all(), pages()).await;
    std::fs::write(bed.folder.path().join("a.parquet"), bytes).unwrap();
    let table = bed.table().await;
    let hints = LoadHints {
        predicates: vec![bed.predicate(&table, "n BETWEEN 105 AND 125")],
        ..LoadHints::default()
    };
    let view = table.load(&[0, 1], &hints, None).await.unwrap();
    let pruning = view.loaded.unwrap().pruning.unwrap();
    let counts = (pruning.by_statistics, pruning.pages);
    assert_eq!(counts, (1, 0), "pages outside of the column chunk");
}

/// A later query needs other pages of the same row group.
#[tokio::test]
async fn later_queries_read_other_pages() {
    let bed = Bed::new(&rows_of_all(), pages()).await;
    let first = bed.load("n BETWEEN 105 AND 125").await;
    assert_eq!(bed.load("n BETWEEN 106 AND 120").await.id, first.id);
    let second = bed.load("n BETWEEN 105 AND 145").await;
    assert_eq!((second.rows, second.loaded.is_some()), (60, true));
    assert_eq!(bed.load("n = 142").await.id, second.id);
    assert_eq!(bed.load("n = 105").await.loaded, None);
    let whole = bed.load("m >= 0").await;
    assert_eq!(whole.rows, 800);
    assert_eq!(bed.load("n = 600").await.id, whole.id);
}
