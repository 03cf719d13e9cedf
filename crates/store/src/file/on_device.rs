//! Decodes a column of a chunk on the device, where the device can.

use bytes::Bytes;
use galatea_parquet::{ColumnChunk, ColumnShape, ParquetError, unsupported};

use super::column_reader::{ColumnReader, Readers};
use crate::encode::{ColumnEncoder, Decoded, LocalChunk};
use crate::error::Result;
use crate::page_decoder::PageDecoder;

impl Readers {
    /// The shape of a column of a chunk for the device: the same in all row groups. None if the host has to
    /// decode it.
    pub(super) fn shape_on_device(&self, chunk: usize, column: usize) -> Option<ColumnShape> {
        let mut shared = None;
        for run in &self.row_groups.chunks[chunk] {
            let ColumnReader::Stored { leaf, shape, .. } = &self.columns[column][run.file] else {
                return None;
            };
            let shape = (*shape)?;
            if shared.is_some_and(|shared| shared != shape) {
                return None;
            }
            shared = Some(shape);
            let metadata = &self.row_groups.files[run.file].metadata;
            let mut groups = run.row_groups.clone();
            if groups.any(|group| unsupported(metadata.row_group(group).column(*leaf)).is_some()) {
                return None;
            }
        }
        shared
    }

    /// Decodes and encodes a column of a chunk. `bytes` has the column chunks of each run.
    pub(super) fn encode_on_device(
        &self,
        (decoder, encoder): (&PageDecoder, &ColumnEncoder),
        (chunk, column): (usize, usize),
        shape: &ColumnShape,
        bytes: &[Vec<Bytes>],
    ) -> Result<Result<LocalChunk>, ParquetError> {
        let names: Vec<String> = self.row_groups.chunks[chunk]
            .iter()
            .map(|run| self.row_groups.files[run.file].source.name())
            .collect();
        let mut chunks = Vec::new();
        for ((run, bytes), name) in self.row_groups.chunks[chunk].iter().zip(bytes).zip(&names) {
            let ColumnReader::Stored { leaf, .. } = &self.columns[column][run.file] else {
                continue;
            };
            let metadata = &self.row_groups.files[run.file].metadata;
            let ranges = self.ranges(run, column);
            for ((group, bytes), (start, _)) in run.row_groups.clone().zip(bytes).zip(ranges) {
                let group_metadata = metadata.row_group(group);
                chunks.push(ColumnChunk {
                    file: name,
                    column: self.fields[column].name(),
                    row_group: group,
                    start,
                    bytes,
                    rows: group_metadata.num_rows().max(0) as usize,
                    codec: group_metadata.column(*leaf).compression(),
                });
            }
        }
        let stream = decoder.device().stream()?;
        let found = decoder.decoder().decode(&stream, shape, &chunks)?;
        encoder.encode_decoded(Decoded {
            decoder: decoder.decoder(),
            stream: &stream,
            column: &found,
        })
    }
}
