//! Decodes columns of chunks on the device, if the device can and is not slower.

use std::time::Instant;

use bytes::Bytes;
use galatea_device::before_the_end;
use galatea_parquet::{
    ColumnChunk, ColumnShape, Decoder, Input, ParquetError, ValueKind, decompresses_on_device, unsupported,
};
use parquet::file::metadata::ColumnChunkMetaData;
use rayon::prelude::*;

use super::column_bytes::{Piece, joined};
use super::column_reader::{ColumnReader, Readers, Unit};
use crate::encode::{Decoded, LocalChunk};
use crate::error::{Result, StoreError};
use crate::ingest::ChunkEncoder;
use crate::load_report::HostReason;
use crate::load_steps::LoadStep;
use crate::page_decoder::{ColumnChunkSize, PageDecoder, Side};
use crate::version::Run;

/// The reason why the host decodes a column of a chunk.
pub(super) struct Refused {
    pub(super) reason: HostReason,
    /// The violation that the device has found.
    damage: Option<ParquetError>,
}

impl From<HostReason> for Refused {
    fn from(reason: HostReason) -> Self {
        Self { reason, damage: None }
    }
}

impl From<ParquetError> for Refused {
    fn from(error: ParquetError) -> Self {
        tracing::debug!(%error, "a column is decoded on the host");
        let reason = HostReason::of(&error);
        let damage = (reason == HostReason::Damaged).then_some(error);
        Self { reason, damage }
    }
}

impl Refused {
    /// An error of the host for the same bytes. The device names the page and the numbers of a damaged file,
    /// which the parquet crate does not.
    pub(super) fn explained(self, error: StoreError) -> StoreError {
        match (error, self.damage) {
            (
                StoreError::CorruptFile {
                    file,
                    column,
                    row_group,
                    ..
                },
                Some(damage),
            ) => StoreError::CorruptFile {
                file,
                column,
                row_group,
                source: damage.into(),
            },
            (error, _) => error,
        }
    }
}

impl Readers {
    /// The metadata of a column in the row groups of a chunk that have the column, with the share of the rows
    /// that is read of each row group.
    fn column_chunks(
        &self,
        chunk: usize,
        column: usize,
    ) -> impl Iterator<Item = (&ColumnChunkMetaData, f64)> {
        let runs = self.row_groups.chunks[chunk].iter();
        runs.flat_map(move |run| {
            let leaf = match &self.columns[column][run.file] {
                ColumnReader::Stored { leaf, .. } => Some(*leaf),
                ColumnReader::Null | ColumnReader::Constant(_) => None,
            };
            let metadata = &self.row_groups.files[run.file].metadata;
            leaf.into_iter().flat_map(move |leaf| {
                run.row_groups.clone().map(move |group| {
                    let all = metadata.row_group(group);
                    let rows = self.row_groups.rows_of(run.file, group);
                    (all.column(leaf), rows as f64 / all.num_rows().max(1) as f64)
                })
            })
        })
    }

    /// The shape of a unit's column for the device: the same in all row groups.
    fn shape_on_device(&self, unit: &Unit) -> Result<ColumnShape, HostReason> {
        let mut shared = None;
        for run in self.row_groups.chunks[unit.chunks.clone()].iter().flatten() {
            let ColumnReader::Stored { shape, .. } = &self.columns[unit.column][run.file] else {
                return Err(HostReason::Type);
            };
            let shape = shape.ok_or(HostReason::Type)?;
            if !self.has_whole_pages(run, unit.column) {
                return Err(HostReason::PartOfPage);
            }
            if shared.is_some_and(|shared| shared != shape) {
                return Err(HostReason::Type);
            }
            shared = Some(shape);
        }
        let mut chunks = unit
            .chunks
            .clone()
            .flat_map(|chunk| self.column_chunks(chunk, unit.column))
            .map(|(metadata, _)| metadata);
        match chunks.find_map(unsupported) {
            Some(reason) => Err(reason.into()),
            None => shared.ok_or(HostReason::Type),
        }
    }

    /// Whether the rows that the load reads of a run fill whole pages of the column.
    fn has_whole_pages(&self, run: &Run, column: usize) -> bool {
        let ColumnReader::Stored { leaf, located, .. } = &self.columns[column][run.file] else {
            return true;
        };
        let mut groups = run.row_groups.clone();
        groups.all(|group| {
            let is_partial = self.row_groups.partial.contains_key(&(run.file, group));
            let rows = self.row_groups.rows_of(run.file, group);
            let pages = self.pages_of(run.file, group, *leaf).filter(|_| *located);
            !is_partial || pages.is_some_and(|(_, of_pages)| of_pages == rows)
        })
    }

    /// The size of a column of a chunk.
    pub(super) fn size(&self, chunk: usize, column: usize) -> ColumnChunkSize {
        let mut size = ColumnChunkSize {
            rows: 0,
            stored: 0,
            plain: 0,
            strings: false,
            host_codec: false,
            indexed: self.shape_of_indices(chunk, column).is_some(),
        };
        for (metadata, share) in self.column_chunks(chunk, column) {
            let part = |number: i64| (number.max(0) as f64 * share) as u64;
            size.rows += part(metadata.num_values());
            size.stored += part(metadata.compressed_size());
            size.plain += part(metadata.uncompressed_size());
            size.strings |= ColumnShape::of(metadata.column_descr(), 1)
                .is_ok_and(|shape| matches!(shape.kind, ValueKind::Strings { .. }));
            size.host_codec |= !decompresses_on_device(metadata.compression());
        }
        size
    }

    /// Decodes and encodes a unit on the device. `bytes` has the column chunks of each chunk and run.
    ///
    /// # Errors
    /// Those of the store. If the host has to decode the unit, the reason is returned.
    pub(super) fn encode_on_device(
        &self,
        decoder: &PageDecoder,
        encoder: &ChunkEncoder,
        unit: &Unit,
        bytes: &[Vec<Vec<Vec<Piece>>>],
    ) -> Result<Result<Vec<LocalChunk>, Refused>> {
        let sizes = unit.chunks.clone().map(|chunk| self.size(chunk, unit.column));
        let size = sizes
            .reduce(ColumnChunkSize::and)
            .ok_or_else(|| StoreError::Internal("a unit of work without chunks".to_owned()))?;
        let shape = match self.shape_on_device(unit) {
            Ok(shape) => shape,
            Err(reason) => return Ok(Err(reason.into())),
        };
        let kernels = match decoder.choose(&size, &encoder.cancellation)? {
            Ok(kernels) => kernels,
            Err(reason) => return Ok(Err(reason.into())),
        };
        let started = Instant::now();
        // The decoder needs consecutive bytes, so pages that are apart in the file are copied.
        let of_run = |run: &Vec<Vec<Piece>>| run.iter().map(|pieces| joined(pieces)).collect();
        let bytes: Vec<Vec<Vec<Bytes>>> = bytes
            .iter()
            .map(|runs| runs.iter().map(of_run).collect())
            .collect();
        let encoded = self.decode(decoder, &kernels, encoder, (unit, &shape), &bytes)?;
        if encoded.is_ok() {
            decoder.measured(Side::Device, &size, started.elapsed());
        }
        Ok(encoded)
    }

    fn decode(
        &self,
        decoder: &PageDecoder,
        kernels: &Decoder,
        encoder: &ChunkEncoder,
        (unit, shape): (&Unit, &ColumnShape),
        bytes: &[Vec<Vec<Bytes>>],
    ) -> Result<Result<Vec<LocalChunk>, Refused>> {
        let names: Vec<_> = unit.chunks.clone().map(|chunk| self.file_names(chunk)).collect();
        let mut chunks = Vec::new();
        // The end of each chunk's column chunks.
        let mut ends = Vec::new();
        for ((chunk, names), bytes) in unit.chunks.clone().zip(&names).zip(bytes) {
            chunks.extend(self.column_chunk_bytes((chunk, unit.column), names, bytes));
            ends.push(chunks.len());
        }
        let input = match Input::new(shape, &chunks) {
            Ok(input) => input,
            Err(error) => return Ok(Err(error.into())),
        };
        // The lane is returned before the host encodes strings.
        let received = {
            let clock = &encoder.meter.counts().clock;
            let lane = clock.time(LoadStep::Lane, || decoder.lane(&encoder.cancellation));
            let mut lane = match lane? {
                Ok(lane) => lane,
                Err(reason) => return Ok(Err(reason.into())),
            };
            // The process may end while the threads of a cancelled load still use the device.
            let receive = || {
                let pages = kernels.decode_pages(&mut lane, input)?;
                let mut received = Vec::with_capacity(ends.len());
                let mut start = 0;
                for end in ends {
                    let decoded = kernels.rows(&lane, &pages, start..end)?;
                    start = end;
                    received.push(encoder.encoders[unit.column].receive(Decoded {
                        decoder: kernels,
                        lane: &mut lane,
                        column: &decoded,
                    })?);
                }
                Ok(received)
            };
            let received = clock.time(LoadStep::Device, || before_the_end(receive));
            match received {
                Ok(received) => received.into_iter().collect::<Result<Vec<_>>>()?,
                Err(error) => return Ok(Err(ParquetError::into(error))),
            }
        };
        let (column, clock) = (&encoder.encoders[unit.column], &encoder.meter.counts().clock);
        let encoded = received
            .into_par_iter()
            .map(|received| clock.time(LoadStep::Encode, || column.encode_received(received)));
        encoded.collect::<Result<Vec<_>>>().map(Ok)
    }

    /// The name of the file of each run of a chunk.
    fn file_names(&self, chunk: usize) -> Vec<String> {
        let runs = self.row_groups.chunks[chunk].iter();
        runs.map(|run| self.row_groups.files[run.file].source.name())
            .collect()
    }

    /// The column chunks of a column of a chunk. `bytes` has those of each run.
    fn column_chunk_bytes<'b>(
        &'b self,
        (chunk, column): (usize, usize),
        names: &'b [String],
        bytes: &'b [Vec<Bytes>],
    ) -> Vec<ColumnChunk<'b>> {
        let mut chunks = Vec::new();
        for ((run, bytes), name) in self.row_groups.chunks[chunk].iter().zip(bytes).zip(names) {
            let ColumnReader::Stored { leaf, .. } = &self.columns[column][run.file] else {
                continue;
            };
            let file = &self.row_groups.files[run.file];
            let ranges = self.ranges(run, column);
            for ((group, bytes), ranges) in run.row_groups.clone().zip(bytes).zip(ranges) {
                let metadata = file.metadata.row_group(group);
                let start = ranges.first().map_or(0, |range| range.start);
                chunks.push(ColumnChunk {
                    file: name,
                    column: self.fields[column].name(),
                    row_group: group,
                    start,
                    bytes,
                    rows: self.row_groups.rows_of(run.file, group),
                    codec: metadata.column(*leaf).compression(),
                });
            }
        }
        chunks
    }
}
