//! The row groups of a table's Parquet files, and the chunks formed from them.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::sync::Arc;

use ::parquet::file::metadata::ParquetMetaData;
use ::parquet::file::page_index::offset_index::PageLocation;
use bytes::Bytes;
use datafusion::datasource::physical_plan::parquet::metadata::DFParquetMetadata;
use futures::{StreamExt, TryStreamExt};
use object_store::ObjectStore;

use super::selection::Selection;
use super::source_file::SourceFile;
use crate::damage::{contained_async, panicked, parquet_error};
use crate::error::{Result, StoreError};

/// Footers that are read at the same time.
const CONCURRENT_FOOTERS: usize = 32;

/// Consecutive row groups of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) file: usize,
    pub(crate) row_groups: Range<usize>,
    pub(crate) rows: usize,
}

/// A file with its footer.
#[derive(Debug, Clone)]
pub(crate) struct OpenFile {
    pub(crate) source: SourceFile,
    pub(crate) metadata: Arc<ParquetMetaData>,
    /// Locations of pages, for loads of row groups that are read in part.
    pub(crate) pages: Option<FilePages>,
}

/// Locations of pages of a file.
#[derive(Debug, Clone)]
pub(crate) struct FilePages {
    /// By row group and leaf column.
    pub(crate) locations: HashMap<(usize, usize), Vec<PageLocation>>,
    /// The metadata of the file, with these locations.
    pub(crate) metadata: Arc<ParquetMetaData>,
}

impl OpenFile {
    /// Reads a range (start and length) of a local file.
    pub(crate) fn read(&self, (start, length): (u64, u64)) -> Result<Bytes> {
        let error = |error: std::io::Error| StoreError::Io {
            file: self.source.name(),
            source: error.into(),
        };
        let Some(path) = &self.source.path else {
            return Err(StoreError::Io {
                file: self.source.name(),
                source: "the object store gave fewer ranges than it was asked for".into(),
            });
        };
        // A damaged footer may contain any length. The decoder reports missing bytes with their place.
        let length = length.min(self.source.meta.size.saturating_sub(start));
        let mut file = File::open(path).map_err(error)?;
        file.seek(SeekFrom::Start(start)).map_err(error)?;
        let mut bytes = Vec::new();
        bytes
            .try_reserve_exact(length as usize)
            .map_err(|refused| error(std::io::Error::new(std::io::ErrorKind::OutOfMemory, refused)))?;
        file.take(length).read_to_end(&mut bytes).map_err(error)?;
        Ok(bytes.into())
    }

    /// The error of unreadable contents.
    pub(crate) fn corrupt(
        &self,
        column: Option<&String>,
        row_group: Option<usize>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> StoreError {
        StoreError::CorruptFile {
            file: self.source.name(),
            column: column.cloned(),
            row_group,
            source: source.into(),
        }
    }
}

/// The row groups of all files of a version, or those of a slice.
#[derive(Debug, Default)]
pub(crate) struct RowGroups {
    pub(crate) files: Arc<Vec<OpenFile>>,
    /// Each chunk consists of row groups, of several files if they are small.
    pub(crate) chunks: Vec<Vec<Run>>,
    /// The row groups that are read in part (file, number in the file), with the ranges of rows to read.
    pub(crate) partial: HashMap<(usize, usize), Vec<Range<usize>>>,
}

impl RowGroups {
    /// Reads the footers, and forms chunks of at most `chunk_target` rows, but of at least one row group.
    pub(crate) async fn read(
        objects: &dyn ObjectStore,
        sources: Vec<SourceFile>,
        chunk_target: usize,
    ) -> Result<Self> {
        let footers = sources.into_iter().map(|source| {
            async move {
                // DataFusion's cache distinguishes versions of a file by size and modification time only, so
                // it is not used.
                let footer = DFParquetMetadata::new(objects, &source.meta)
                    .with_page_index_policy(Some(::parquet::file::metadata::PageIndexPolicy::Skip));
                let metadata = match contained_async(footer.fetch_metadata()).await {
                    Ok(metadata) => metadata.map_err(|error| parquet_error(&source.name(), error))?,
                    Err(panic) => return Err(panicked(&source.name(), &panic)),
                };
                Ok::<_, StoreError>(OpenFile {
                    source,
                    metadata,
                    pages: None,
                })
            }
        });
        let files: Vec<OpenFile> = futures::stream::iter(footers)
            .buffered(CONCURRENT_FOOTERS)
            .try_collect()
            .await?;
        let files = Arc::new(files);
        let row_groups: Vec<_> = all(&files).collect();
        if let Some((file, group, rows)) = row_groups.iter().find(|(_, _, rows)| *rows > u32::MAX as usize) {
            return Err(StoreError::UnsupportedSource {
                table: files[*file].source.name(),
                reason: format!("row group {group} has {rows} rows, the most are {}", u32::MAX),
            });
        }
        let chunks = chunks(row_groups.into_iter(), chunk_target);
        Ok(Self {
            files,
            chunks,
            partial: HashMap::new(),
        })
    }

    /// All row groups of the files: file, number in the file, rows.
    pub(crate) fn all(&self) -> impl Iterator<Item = (usize, usize, usize)> {
        all(&self.files)
    }

    /// The selected row groups of the same files, in chunks of at most `chunk_target` rows.
    pub(crate) fn only(&self, selection: &Selection, chunk_target: usize) -> Self {
        let groups = selection.groups.iter().map(|selected| {
            let metadata = self.files[selected.file].metadata.row_group(selected.group);
            let rows = match &selected.rows {
                Some(rows) => rows.iter().map(Range::len).sum(),
                None => metadata.num_rows().max(0) as usize,
            };
            (selected.file, selected.group, rows)
        });
        let partial = selection.groups.iter().filter_map(|selected| {
            let rows = selected.rows.clone()?;
            Some(((selected.file, selected.group), rows))
        });
        Self {
            files: Arc::clone(&self.files),
            chunks: chunks(groups, chunk_target),
            partial: partial.collect(),
        }
    }

    /// Number of rows that are read of a row group.
    pub(crate) fn rows_of(&self, file: usize, group: usize) -> usize {
        match self.partial.get(&(file, group)) {
            Some(rows) => rows.iter().map(Range::len).sum(),
            None => self.files[file].metadata.row_group(group).num_rows().max(0) as usize,
        }
    }

    pub(crate) fn chunk_rows(&self) -> Vec<u32> {
        let rows = |runs: &Vec<Run>| runs.iter().map(|run| run.rows).sum::<usize>() as u32;
        self.chunks.iter().map(rows).collect()
    }
}

/// All row groups of files: file, number in the file, rows.
fn all(files: &[OpenFile]) -> impl Iterator<Item = (usize, usize, usize)> {
    files.iter().enumerate().flat_map(|(file, open)| {
        let groups = open.metadata.row_groups().iter().enumerate();
        groups.map(move |(group, metadata)| (file, group, metadata.num_rows().max(0) as usize))
    })
}

/// Gathers consecutive row groups (file, index, rows) until the next would exceed `target` rows.
fn chunks(row_groups: impl Iterator<Item = (usize, usize, usize)>, target: usize) -> Vec<Vec<Run>> {
    let mut chunks: Vec<Vec<Run>> = Vec::new();
    let mut room = 0;
    for (file, group, rows) in row_groups.filter(|(_, _, rows)| *rows > 0) {
        let run = Run {
            file,
            row_groups: group..group + 1,
            rows,
        };
        match chunks.last_mut() {
            Some(chunk) if rows <= room => {
                match chunk.last_mut() {
                    Some(last) if last.file == file && last.row_groups.end == group => {
                        last.row_groups.end = group + 1;
                        last.rows += rows;
                    }
                    _ => chunk.push(run),
                }
                room -= rows;
            }
            _ => {
                chunks.push(vec![run]);
                room = target.saturating_sub(rows);
            }
        }
    }
    chunks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(file: usize, row_groups: Range<usize>, rows: usize) -> Run {
        Run {
            file,
            row_groups,
            rows,
        }
    }

    #[test]
    fn chunks_are_whole_row_groups_up_to_the_target() {
        let groups = [
            (0, 0, 40),
            (0, 1, 40),
            (0, 2, 40),
            (0, 3, 0),
            (0, 4, 10),
            (1, 0, 50),
            (1, 1, 500),
            (1, 2, 1),
        ];
        let expected = vec![
            vec![run(0, 0..2, 80)],
            // An empty row group is skipped.
            vec![run(0, 2..3, 40), run(0, 4..5, 10), run(1, 0..1, 50)],
            vec![run(1, 1..2, 500)],
            vec![run(1, 2..3, 1)],
        ];
        assert_eq!(chunks(groups.into_iter(), 100), expected);
        assert_eq!(chunks(std::iter::empty(), 100), Vec::<Vec<Run>>::new());
    }
}
