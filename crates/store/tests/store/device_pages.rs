//! Parquet files whose pages the emulated device decodes have the same encoded columns as on the host.

use std::sync::Arc;

use datafusion::prelude::{ParquetReadOptions, SessionContext};
use galatea_device::{Device, DeviceOptions, EmulatorOptions};
use galatea_store::{Chunk, Column, ColumnSource, HostReason, LoadHints, PageDecoder, Store, TableView};
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::{WriterProperties, WriterVersion};

use crate::data::{Nulls, Shape};
use crate::files::{batch, context, file_table, properties, store, write};

fn page_decoder() -> Arc<PageDecoder> {
    let device = Device::emulated(EmulatorOptions::default(), DeviceOptions::default()).unwrap();
    let decoder = PageDecoder::new(&device, 50e9);
    decoder.set_always(true);
    decoder
}

/// Asserts equal encodings, zones and bytes.
pub(crate) fn assert_same_column(host: &Column, device: &Column, context: &str) {
    assert_eq!(host.name, device.name, "{context}");
    assert_eq!(
        format!("{:?}", host.encoding),
        format!("{:?}", device.encoding),
        "{context}"
    );
    assert_eq!(
        (host.null_count, host.has_nan),
        (device.null_count, device.has_nan),
        "{context}"
    );
    assert_eq!(host.chunks.len(), device.chunks.len(), "{context}");
    for (host, device) in host.chunks.iter().zip(&device.chunks) {
        assert_eq!((host.rows, host.base), (device.rows, device.base), "{context}");
        assert_eq!(host.zone, device.zone, "{context}");
        let bytes =
            |chunk: &Chunk| -> Vec<Vec<u8>> { chunk.views().map(|view| view.as_slice().to_vec()).collect() };
        assert_eq!(bytes(host), bytes(device), "{context}");
    }
}

pub(crate) async fn all_columns(store: &Arc<Store>, context: &SessionContext) -> TableView {
    let table = file_table(context, store, "select * from t").await;
    let all: Vec<usize> = (0..ColumnSource::schema(table.as_ref()).fields().len()).collect();
    table.load(&all, &LoadHints::default(), None).await.unwrap()
}

#[tokio::test]
async fn device_and_host_encode_the_same_columns() {
    let variants = [
        ("plain", properties().set_dictionary_enabled(false)),
        ("dictionary", properties().set_compression(Compression::SNAPPY)),
        (
            "spilled dictionary",
            properties()
                .set_dictionary_page_size_limit(64)
                .set_compression(Compression::LZ4_RAW)
                .set_write_batch_size(16),
        ),
        (
            "v2 zstd",
            properties()
                .set_writer_version(WriterVersion::PARQUET_2_0)
                .set_compression(Compression::ZSTD(ZstdLevel::default())),
        ),
    ];
    let decoder = page_decoder();
    for (name, properties) in variants {
        let properties: WriterProperties = properties.build();
        let directory = tempfile::tempdir().unwrap();
        for (file, (shape, nulls)) in [
            (Shape::Random, Nulls::Some),
            (Shape::Few, Nulls::No),
            (Shape::Multiples, Nulls::Some),
            (Shape::Equal, Nulls::All),
        ]
        .into_iter()
        .enumerate()
        {
            let path = directory.path().join(format!("{file}.parquet"));
            write(&path, &batch(700, shape, nulls, 5), properties.clone());
        }
        let context = context();
        let path = directory.path().to_str().unwrap();
        context
            .register_parquet("t", path, ParquetReadOptions::default())
            .await
            .unwrap();
        let host = all_columns(&store(), &context).await.columns;
        let with_device = store();
        with_device.set_page_decoder(Some(Arc::clone(&decoder)));
        let device = all_columns(&with_device, &context).await;
        let (report, device) = (device.loaded.unwrap(), device.columns);
        assert_eq!(host.len(), device.len());
        for (host, device) in host.iter().zip(&device) {
            assert_same_column(
                host,
                device,
                &format!("{name}, {}: {}", host.name, host.data_type),
            );
        }
        assert!(report.on_device > 10 * report.on_host(), "{name}: {report:?}");
    }
}

#[tokio::test]
async fn errors_of_damaged_pages_name_the_page() {
    use arrow::array::{ArrayRef, Int64Array, RecordBatch};

    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("damaged.parquet");
    let values: ArrayRef = Arc::new(Int64Array::from_iter_values((0..500).map(|row| row * row)));
    let batch = RecordBatch::try_from_iter([("v", values)]).unwrap();
    let properties = properties()
        .set_dictionary_enabled(false)
        .set_compression(Compression::SNAPPY);
    write(&path, &batch, properties.build());
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[60..120].fill(0xff);
    std::fs::write(&path, &bytes).unwrap();
    let context = context();
    context
        .register_parquet("t", path.to_str().unwrap(), ParquetReadOptions::default())
        .await
        .unwrap();
    let store = store();
    store.set_page_decoder(Some(page_decoder()));
    let table = file_table(&context, &store, "select * from t").await;
    let refused = table.load(&[0], &LoadHints::default(), None).await.unwrap_err();
    let text = refused.to_string();
    for part in ["damaged.parquet", "column v", "row group 0, page 0"] {
        assert!(text.contains(part), "{part:?} in {text}");
    }
}

#[tokio::test]
async fn host_decodes_small_column_chunks_at_first_prices() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("small.parquet");
    write(
        &path,
        &batch(300, Shape::Random, Nulls::Some, 5),
        properties().build(),
    );
    let context = context();
    context
        .register_parquet("t", path.to_str().unwrap(), ParquetReadOptions::default())
        .await
        .unwrap();
    let store = store();
    let decoder = page_decoder();
    decoder.set_always(false);
    store.set_page_decoder(Some(Arc::clone(&decoder)));
    let table = file_table(&context, &store, "select * from t").await;
    let view = table.load(&[0, 1], &LoadHints::default(), None).await.unwrap();
    let report = view.loaded.unwrap();
    // The first column chunk of a class has the constant price.
    assert!(report.host_reasons.contains_key(&HostReason::Price), "{report:?}");
    assert_eq!(report.on_device + report.on_host(), 2, "{report:?}");
    assert!(report.bytes_read > 0 && !report.time.is_zero(), "{report:?}");
    // Columns in memory are not loaded again.
    let view = table.load(&[1], &LoadHints::default(), None).await.unwrap();
    assert_eq!(view.loaded, None);
}
