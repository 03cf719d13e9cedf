//! Columns of Parquet files.
//!
//! The unit of work is one column of one chunk, or of several chunks that a device decodes together. One
//! thread reads its bytes, one piece per row group, decodes them with the parquet crate, or on a device
//! ([`super::on_device`]), and encodes them ([`super::column_reader`]). All cores thus work on independent
//! units, and none waits for another. From object stores, asynchronous requests read ahead of the threads.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use ::parquet::file::page_index::offset_index::PageLocation;
use arrow::datatypes::TimeUnit;
use datafusion::config::ParquetOptions;
use datafusion::physical_expr::PhysicalExpr;
use futures::StreamExt;
use object_store::ObjectStore;

use super::column_bytes::Piece;
use super::column_reader::{Fetched, Int96, Readers};
use super::files::TableFiles;
use super::load::Load;
use super::page_index::{PageIndex, Wanted, read_index, with_locations};
use super::part::ColumnSize;
use super::selection::{FilePlaces, Place, is_clustered, select};
use crate::column::Column;
use crate::encode::LocalChunk;
use crate::error::{Result, StoreError};
use crate::ingest::EncodedChunk;
use crate::load_steps::LoadStep;
use crate::pool::{on_pool, on_pool_of};
use crate::version::{FilePages, OpenFile, RowGroups, Selection, Version};

/// Units of work after which the load is cancelled if their size predicts that the whole does not fit.
const UNITS_TO_JUDGE: usize = 8;

/// The Parquet options that change the types of columns.
#[derive(Debug)]
pub(super) struct ParquetFormat {
    int96: Option<Int96>,
}

impl ParquetFormat {
    pub(super) fn new(options: &ParquetOptions) -> Result<Self> {
        Ok(Self {
            int96: int96(options)?,
        })
    }

    /// Distinguishes ways of reading the same files.
    pub(super) fn describe(&self) -> String {
        format!("{:?}", self.int96)
    }

    /// The row groups of a version. Footers are read once.
    pub(super) async fn row_groups(&self, files: &TableFiles, version: &Version) -> Result<Arc<RowGroups>> {
        let read = async || {
            let sources = files.now().await?;
            let read = RowGroups::read(files.objects.as_ref(), sources, version.chunk_target);
            read.await.map(Arc::new)
        };
        version.row_groups.get_or_try_init(read).await.map(Arc::clone)
    }

    /// The rows that may satisfy predicates. `read`: the columns that the load reads.
    pub(super) async fn select(
        &self,
        files: &TableFiles,
        row_groups: &Arc<RowGroups>,
        predicates: &[Arc<dyn PhysicalExpr>],
        read: &[usize],
    ) -> Result<Selection> {
        select(files, row_groups, predicates, self.int96.as_ref(), read).await
    }

    /// Whether a range of the values of a column selects few row groups.
    pub(super) async fn is_clustered(
        &self,
        files: &TableFiles,
        version: &Version,
        column: usize,
    ) -> Result<bool> {
        let row_groups = self.row_groups(files, version).await?;
        is_clustered(files, &row_groups, column, self.int96.as_ref())
    }

    /// The row groups of a slice. Those that are read in part have the locations of the columns' pages.
    async fn with_pages(
        &self,
        files: &TableFiles,
        row_groups: &Arc<RowGroups>,
        columns: &[usize],
    ) -> Result<Arc<RowGroups>> {
        if row_groups.partial.is_empty() {
            return Ok(Arc::clone(row_groups));
        }
        let places = FilePlaces::new(files, row_groups, self.int96.as_ref())?;
        let places: Vec<Vec<Place>> = columns.iter().map(|column| places.of(*column)).collect();
        let mut open = Vec::with_capacity(row_groups.files.len());
        for (number, file) in row_groups.files.iter().enumerate() {
            let groups = row_groups.partial.keys().filter(|(of, _)| *of == number);
            let groups: Vec<usize> = groups.map(|(_, group)| *group).collect();
            let leaves = places.iter().filter_map(|places| match &places[number] {
                Place::Stored { leaf, .. } => Some(*leaf),
                _ => None,
            });
            let leaves: BTreeSet<usize> = leaves.collect();
            let mut locations = located(files, file, &groups, leaves.clone()).await;
            if locations.len() < groups.len() * leaves.len() {
                // The file has the page index of some columns only.
                for leaf in leaves {
                    locations.extend(located(files, file, &groups, BTreeSet::from([leaf])).await);
                }
            }
            let pages = (!locations.is_empty()).then(|| FilePages {
                metadata: Arc::new(with_locations(&file.metadata, &locations)),
                locations,
            });
            open.push(OpenFile {
                pages,
                ..file.clone()
            });
        }
        Ok(Arc::new(RowGroups {
            files: Arc::new(open),
            chunks: row_groups.chunks.clone(),
            partial: row_groups.partial.clone(),
        }))
    }

    /// The compressed bytes of each column in all row groups, and in the selected rows. The bytes of a part
    /// of a row group are estimated from its share of the rows.
    pub(super) fn sizes(
        &self,
        files: &TableFiles,
        row_groups: &RowGroups,
        columns: &[usize],
        selection: &Selection,
    ) -> Result<Vec<ColumnSize>> {
        let places = FilePlaces::new(files, row_groups, self.int96.as_ref())?;
        let sizes = columns.iter().map(|column| {
            let places = places.of(*column);
            let mut size = ColumnSize::default();
            for (file, group, _) in row_groups.all() {
                if let Place::Stored { leaf, .. } = &places[file] {
                    let metadata = row_groups.files[file].metadata.row_group(group);
                    let bytes = metadata.column(*leaf).compressed_size();
                    size.whole += u64::try_from(bytes).unwrap_or(0);
                }
            }
            for selected in &selection.groups {
                if let Place::Stored { leaf, .. } = &places[selected.file] {
                    let metadata = row_groups.files[selected.file].metadata.row_group(selected.group);
                    let bytes = u64::try_from(metadata.column(*leaf).compressed_size()).unwrap_or(0);
                    let rows = |rows: &Vec<Range<usize>>| rows.iter().map(Range::len).sum::<usize>() as u64;
                    size.part += match &selected.rows {
                        Some(partial) => bytes / (metadata.num_rows().max(1) as u64) * rows(partial),
                        None => bytes,
                    };
                }
            }
            size
        });
        Ok(sizes.collect())
    }

    /// Reads columns, with enough concurrent pieces to keep all cores busy.
    pub(super) async fn load(&self, load: Load<'_>) -> Result<Vec<Arc<Column>>> {
        let Load {
            files,
            version,
            columns,
            ..
        } = load;
        let started = Instant::now();
        let row_groups = match &load.part.slice {
            Some(slice) => self.with_pages(files, &slice.row_groups, columns).await?,
            None => self.row_groups(files, version).await?,
        };
        let chunk_rows = row_groups.chunk_rows();
        if load.part.slice.is_none() && version.chunk_rows.get_or_init(|| chunk_rows.clone()) != &chunk_rows {
            return Err(version.other_rows(&files.name));
        }
        let rows = chunk_rows.iter().map(|rows| u64::from(*rows)).sum();
        let encoder = load.encoder(Some(rows))?;
        let _cancel = encoder.cancellation.on_drop();
        let readers = Arc::new(Readers::new(files, &row_groups, columns, self.int96.as_ref())?);
        let limit = files.store.memory_limit();
        let is_awaited = load.is_awaited();
        let units = readers.units(files.store.page_decoder().as_deref());
        load.counts.clock.add(LoadStep::Open, started.elapsed());
        let (count, total_cells) = (
            row_groups.chunks.len() * columns.len(),
            rows * columns.len() as u64,
        );
        let mut running = futures::stream::iter(units)
            .map(|unit| {
                let (encoder, readers) = (Arc::clone(&encoder), Arc::clone(&readers));
                let is_awaited = is_awaited.clone();
                async move {
                    let mut fetched = Vec::new();
                    for chunk in unit.chunks.clone() {
                        fetched.push(fetch(files.objects.as_ref(), &readers, chunk, unit.column).await?);
                    }
                    let work = unit.clone();
                    let encode = move || readers.encode(&encoder, &work, fetched);
                    let encoded = on_pool_of(is_awaited, encode).await?;
                    Ok::<_, StoreError>((unit, encoded))
                }
            })
            .buffer_unordered(2 * rayon::current_num_threads());
        let mut chunks: Vec<Vec<Option<LocalChunk>>> = chunk_rows
            .iter()
            .map(|_| (0..columns.len()).map(|_| None).collect())
            .collect();
        let (mut done, mut cells, mut bytes) = (0, 0, 0);
        while let Some(unit) = running.next().await {
            let (unit, encoded) = match unit {
                Err(StoreError::StoreLimit { needed, used, .. }) => {
                    let (cells, bytes) = encoder.meter.totals();
                    let room = limit.saturating_sub(used);
                    let needed = estimate(bytes, cells, total_cells).max(needed).max(room + 1);
                    return Err(load.refuse(needed, used));
                }
                unit => unit?,
            };
            for (chunk, encoded) in unit.chunks.zip(encoded) {
                done += 1;
                cells += u64::from(encoded.rows);
                bytes += encoded.size();
                chunks[chunk][unit.column] = Some(encoded);
            }
            let estimate = estimate(bytes, cells, total_cells);
            if done >= UNITS_TO_JUDGE.max(count / 16) && estimate > limit + limit / 4 {
                return Err(load.refuse(estimate, 0));
            }
        }
        drop(running);
        let chunks = chunks.into_iter().zip(chunk_rows).map(|(columns, rows)| {
            let columns = columns.into_iter().collect::<Option<Vec<_>>>();
            let missing = || StoreError::Internal("a column of a chunk was not encoded".to_owned());
            Ok(EncodedChunk {
                rows,
                columns: columns.ok_or_else(missing)?,
            })
        });
        let chunks = chunks.collect::<Result<Vec<_>>>()?;
        let (started, finisher) = (Instant::now(), Arc::clone(&encoder));
        let columns = on_pool(move || finisher.finish(chunks)).await;
        load.counts.clock.add(LoadStep::Write, started.elapsed());
        columns
    }
}

/// Reads the bytes of a column of a chunk if the file is not local. The bytes of local files are read by the
/// thread that decodes them.
async fn fetch(objects: &dyn ObjectStore, readers: &Readers, chunk: usize, column: usize) -> Result<Fetched> {
    let mut fetched = Vec::new();
    for run in &readers.row_groups.chunks[chunk] {
        let file = &readers.row_groups.files[run.file];
        let ranges = readers.ranges(run, column);
        if file.source.path.is_some() || ranges.is_empty() {
            fetched.push(None);
            continue;
        }
        let all: Vec<Range<u64>> = ranges.iter().flatten().cloned().collect();
        let bytes = objects.get_ranges(&file.source.meta.location, &all).await;
        let bytes = bytes.map_err(|error| StoreError::Io {
            file: file.source.name(),
            source: error.into(),
        })?;
        let mut bytes = bytes.into_iter();
        let groups = ranges.into_iter().map(|ranges| {
            let pieces = ranges.into_iter().zip(&mut bytes);
            let pieces = pieces.map(|(range, bytes)| Piece {
                start: range.start,
                bytes,
            });
            pieces.collect()
        });
        fetched.push(Some(groups.collect()));
    }
    Ok(fetched)
}

/// The locations of pages by row group and leaf column, for the row groups that have them for all of
/// `leaves`.
async fn located(
    files: &TableFiles,
    file: &OpenFile,
    groups: &[usize],
    leaves: BTreeSet<usize>,
) -> HashMap<(usize, usize), Vec<PageLocation>> {
    if groups.is_empty() || leaves.is_empty() {
        return HashMap::new();
    }
    let wanted = Wanted {
        groups: groups.to_vec(),
        locations: leaves,
        ..Wanted::default()
    };
    let index = read_index(files, file, wanted).await;
    index.map_or_else(HashMap::new, PageIndex::into_locations)
}

/// Estimates the bytes of all cells from those encoded so far.
fn estimate(bytes: u64, cells: u64, total_cells: u64) -> u64 {
    let estimate = u128::from(bytes) * u128::from(total_cells) / u128::from(cells.max(1));
    u64::try_from(estimate).unwrap_or(u64::MAX)
}

/// The type of INT96 columns by DataFusion's options.
fn int96(options: &ParquetOptions) -> Result<Option<Int96>> {
    let Some(unit) = &options.coerce_int96 else {
        return Ok(None);
    };
    let unit = match unit.as_str() {
        "ns" => TimeUnit::Nanosecond,
        "us" => TimeUnit::Microsecond,
        "ms" => TimeUnit::Millisecond,
        "s" => TimeUnit::Second,
        other => {
            return Err(StoreError::UnsupportedSource {
                table: "coerce_int96".to_owned(),
                reason: format!("unknown unit: {other}"),
            });
        }
    };
    let zone = options.coerce_int96_tz.as_deref().map(Arc::from);
    Ok(Some(Int96 { unit, zone }))
}
