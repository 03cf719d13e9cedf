//! Files in memory, read by the parquet crate and by the device.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use ::bytes::Bytes;
use galatea_device::{Device, DeviceOptions, EmulatorOptions, Stream};
use galatea_parquet::{ColumnChunk, ColumnShape, DecodedColumn, Decoder, Input, Lane, ParquetError};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};

use crate::cells::{Cell, of_arrays, of_column};

/// A device with the kernels loaded.
pub(crate) struct Bench {
    pub(crate) device: Device,
    pub(crate) stream: Stream,
    lane: Mutex<Lane>,
    pub(crate) decoder: Decoder,
}

impl Bench {
    pub(crate) fn new(options: EmulatorOptions) -> Self {
        let device = Device::emulated(options, DeviceOptions::default()).unwrap();
        Self::on(device)
    }

    fn on(device: Device) -> Self {
        let lane = Lane::new(&device).unwrap();
        let decoder = Decoder::new(&device).unwrap();
        Self {
            device,
            stream: lane.stream().clone(),
            lane: Mutex::new(lane),
            decoder,
        }
    }

    /// Decodes column chunks of one column.
    pub(crate) fn decode(
        &self,
        shape: &ColumnShape,
        chunks: &[ColumnChunk<'_>],
    ) -> Result<DecodedColumn, ParquetError> {
        let mut lane = self.lane.lock().unwrap();
        self.decoder.decode(&mut lane, Input::new(shape, chunks)?)
    }

    /// An emulated device in an order of lanes and blocks drawn from a seed.
    pub(crate) fn seeded(seed: u64) -> Self {
        Self::new(EmulatorOptions {
            seed,
            ..EmulatorOptions::default()
        })
    }

    /// The emulated device, and the GPU if there is one.
    pub(crate) fn all() -> Vec<Self> {
        let gpu = galatea_device::testing::gpu();
        [Self::seeded(1)].into_iter().chain(gpu.map(Self::on)).collect()
    }
}

/// A Parquet file in memory.
pub(crate) struct File {
    pub(crate) bytes: Bytes,
    pub(crate) metadata: Arc<ParquetMetaData>,
}

impl File {
    pub(crate) fn new(bytes: Vec<u8>) -> Result<Self, String> {
        let bytes = Bytes::from(bytes);
        let metadata = ParquetMetaDataReader::new().parse_and_finish(&bytes);
        Ok(Self {
            metadata: Arc::new(metadata.map_err(|error| error.to_string())?),
            bytes,
        })
    }

    pub(crate) fn columns(&self) -> usize {
        self.metadata.file_metadata().schema_descr().num_columns()
    }

    /// The same footer over other bytes of the same length.
    pub(crate) fn with_bytes(&self, bytes: Vec<u8>) -> Self {
        Self {
            bytes: Bytes::from(bytes),
            metadata: Arc::clone(&self.metadata),
        }
    }

    /// First byte and number of bytes of a column chunk.
    pub(crate) fn range(&self, row_group: usize, column: usize) -> (usize, usize) {
        let (start, length) = self.metadata.row_group(row_group).column(column).byte_range();
        (start as usize, length as usize)
    }

    /// The column chunks of a column.
    pub(crate) fn chunks(&self, column: usize) -> Vec<ColumnChunk<'_>> {
        let groups = self.metadata.row_groups().iter().enumerate();
        groups
            .map(|(row_group, metadata)| {
                let (start, length) = self.range(row_group, column);
                let chunk = metadata.column(column);
                ColumnChunk {
                    file: "test.parquet",
                    column: chunk.column_descr().name(),
                    row_group,
                    start: start as u64,
                    bytes: &self.bytes[start..start + length],
                    rows: metadata.num_rows() as usize,
                    codec: chunk.compression(),
                }
            })
            .collect()
    }

    /// The column's shape, if the device decodes it.
    pub(crate) fn shape(&self, column: usize) -> Result<ColumnShape, galatea_parquet::Unsupported> {
        let schema = self.metadata.file_metadata().schema_descr();
        ColumnShape::of(&schema.column(column), 1)
    }

    /// The column as the device decodes it.
    pub(crate) fn column(&self, bench: &Bench, column: usize) -> Result<DecodedColumn, ParquetError> {
        let shape = self.shape(column).expect("a supported column");
        bench.decode(&shape, &self.chunks(column))
    }

    /// The cells of the column as the device decodes it.
    pub(crate) fn decoded(&self, bench: &Bench, column: usize) -> Result<Vec<Cell>, ParquetError> {
        let schema = self.metadata.file_metadata().schema_descr();
        let unsigned = self.shape(column).is_ok_and(|shape| {
            let galatea_parquet::ValueKind::Fixed { order, .. } = shape.kind else {
                return false;
            };
            order == galatea_kernels::ParquetOrder::Unsigned
        });
        assert!(column < schema.num_columns());
        let found = of_column(&bench.stream, &self.column(bench, column)?, unsigned);
        if self.metadata.num_row_groups() > 1 {
            assert_eq!(self.by_row_group(bench, column, unsigned)?, found);
        }
        Ok(found)
    }

    /// The cells of the column: all pages are decoded together, then the rows of each row group are read.
    fn by_row_group(&self, bench: &Bench, column: usize, unsigned: bool) -> Result<Vec<Cell>, ParquetError> {
        let shape = self.shape(column).expect("a supported column");
        let chunks = self.chunks(column);
        let mut lane = bench.lane.lock().unwrap();
        let pages = bench
            .decoder
            .decode_pages(&mut lane, Input::new(&shape, &chunks)?)?;
        let mut cells = Vec::new();
        for chunk in 0..chunks.len() {
            let rows = bench.decoder.rows(&lane, &pages, chunk..chunk + 1)?;
            cells.extend(of_column(&bench.stream, &rows, unsigned));
        }
        Ok(cells)
    }

    /// The cells of the column as the parquet crate reads it.
    pub(crate) fn expected(&self, column: usize) -> Result<Vec<Cell>, String> {
        let read = || -> Result<Vec<Cell>, Box<dyn std::error::Error>> {
            let metadata =
                ArrowReaderMetadata::try_new(Arc::clone(&self.metadata), ArrowReaderOptions::new())?;
            let schema = metadata.parquet_schema();
            let projection = ProjectionMask::leaves(schema, [column]);
            let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(self.bytes.clone(), metadata)
                .with_projection(projection)
                .build()?;
            let mut arrays = Vec::new();
            for batch in reader {
                arrays.push(Arc::clone(batch?.column(0)));
            }
            Ok(of_arrays(&arrays))
        };
        match catch_unwind(AssertUnwindSafe(read)) {
            Ok(read) => read.map_err(|error| error.to_string()),
            Err(_) => Err("the parquet crate panics".to_owned()),
        }
    }

    /// Compares a column of both readers.
    pub(crate) fn check(&self, bench: &Bench, column: usize, context: &str) {
        let descriptor = self.metadata.file_metadata().schema_descr().column(column);
        let name = descriptor.name();
        let expected = self
            .expected(column)
            .unwrap_or_else(|error| panic!("{context}, {name}: {error}"));
        let found = self
            .decoded(bench, column)
            .unwrap_or_else(|error| panic!("{context}, {name}: {error}"));
        assert_eq!(found.len(), expected.len(), "{context}, {name}");
        for (row, (found, expected)) in found.iter().zip(&expected).enumerate() {
            assert_eq!(found, expected, "{context}, {name}, row {row}");
        }
    }
}
