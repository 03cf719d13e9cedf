//! The row groups of a table's Parquet files, and the chunks made of them.

use std::sync::Arc;

use ::parquet::file::metadata::ParquetMetaData;
use datafusion::datasource::physical_plan::parquet::metadata::DFParquetMetadata;
use futures::{StreamExt, TryStreamExt};

use super::{FileTable, SourceFile};
use crate::error::{Result, StoreError};

/// Footers that are read at the same time.
const CONCURRENT_FOOTERS: usize = 32;

/// Consecutive row groups of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) file: usize,
    pub(super) row_groups: std::ops::Range<usize>,
    pub(super) rows: usize,
}

/// A file with its footer.
#[derive(Debug)]
pub(super) struct OpenFile {
    pub(super) source: SourceFile,
    pub(super) metadata: Arc<ParquetMetaData>,
}

/// All files of a version.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) files: Vec<OpenFile>,
    /// Each chunk: whole row groups, of several files where they are small.
    pub(super) chunks: Vec<Vec<Run>>,
}

impl Layout {
    /// Reads the footers.
    pub(super) async fn read(table: &FileTable, chunk_target: usize) -> Result<Self> {
        let sources = table.fresh_files().await?;
        let footers = sources.into_iter().map(|source| {
            async move {
                // DataFusion's cache tells versions of a file apart by size and time of change alone: not
                // asked.
                let metadata = DFParquetMetadata::new(table.objects.as_ref(), &source.meta)
                    .with_page_index_policy(Some(::parquet::file::metadata::PageIndexPolicy::Skip))
                    .fetch_metadata()
                    .await
                    .map_err(|error| StoreError::CorruptFile {
                        file: source.name(),
                        column: None,
                        row_group: None,
                        source: error.into(),
                    })?;
                Ok::<_, StoreError>(OpenFile { source, metadata })
            }
        });
        let files: Vec<OpenFile> = futures::stream::iter(footers)
            .buffered(CONCURRENT_FOOTERS)
            .try_collect()
            .await?;
        let row_groups = files.iter().enumerate().flat_map(|(file, open)| {
            let groups = open.metadata.row_groups().iter().enumerate();
            groups.map(move |(group, metadata)| (file, group, metadata.num_rows().max(0) as usize))
        });
        let row_groups: Vec<_> = row_groups.collect();
        if let Some((file, group, rows)) = row_groups.iter().find(|(_, _, rows)| *rows > u32::MAX as usize) {
            return Err(StoreError::UnsupportedSource {
                table: files[*file].source.name(),
                reason: format!("row group {group} has {rows} rows, the most are {}", u32::MAX),
            });
        }
        let chunks = chunks(row_groups.into_iter(), chunk_target);
        Ok(Self { files, chunks })
    }

    pub(super) fn chunk_rows(&self) -> Vec<u32> {
        let rows = |runs: &Vec<Run>| runs.iter().map(|run| run.rows).sum::<usize>() as u32;
        self.chunks.iter().map(rows).collect()
    }
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

    fn run(file: usize, row_groups: std::ops::Range<usize>, rows: usize) -> Run {
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
            // An empty row group is no row group.
            vec![run(0, 2..3, 40), run(0, 4..5, 10), run(1, 0..1, 50)],
            vec![run(1, 1..2, 500)],
            vec![run(1, 2..3, 1)],
        ];
        assert_eq!(chunks(groups.into_iter(), 100), expected);
        assert_eq!(chunks(std::iter::empty(), 100), Vec::<Vec<Run>>::new());
    }
}
