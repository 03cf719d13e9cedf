//! The bytes of column chunks that a load reads.

use std::ops::Range;

use ::parquet::file::metadata::ColumnChunkMetaData;

use super::column_reader::{ColumnReader, Readers};
use super::page_index::pages_of_rows;
use crate::version::Run;

impl Readers {
    /// The byte ranges of a column that a load reads, for each row group of a run. Empty if the file does not
    /// store the column.
    pub(super) fn ranges(&self, run: &Run, column: usize) -> Vec<Vec<Range<u64>>> {
        let ColumnReader::Stored { leaf, located, .. } = &self.columns[column][run.file] else {
            return Vec::new();
        };
        let file = &self.row_groups.files[run.file];
        let ranges = run.row_groups.clone().map(|group| {
            let chunk = file.metadata.row_group(group).column(*leaf);
            let whole = byte_range(chunk);
            match self.pages_of(run.file, group, *leaf).filter(|_| *located) {
                Some((mut pages, _)) => {
                    let pages_of_file = file.pages.as_ref();
                    let first = pages_of_file.and_then(|pages| pages.locations.get(&(group, *leaf))?.first());
                    let first = first.map_or(whole.start, |page| page.offset.max(0) as u64);
                    if whole.start < first {
                        pages.insert(0, whole.start..first);
                    }
                    pages
                }
                None => vec![whole],
            }
        });
        ranges.collect()
    }

    /// The byte ranges of the pages with rows that are read, and the number of rows of these pages; `None` if
    /// the row group is read whole, or the locations of its pages are unknown.
    pub(super) fn pages_of(
        &self,
        file: usize,
        group: usize,
        leaf: usize,
    ) -> Option<(Vec<Range<u64>>, usize)> {
        let rows = self.row_groups.partial.get(&(file, group))?;
        let file = &self.row_groups.files[file];
        let pages = file.pages.as_ref()?.locations.get(&(group, leaf))?;
        let all = file.metadata.row_group(group).num_rows().max(0) as usize;
        Some(pages_of_rows(pages, all, rows))
    }
}

/// The bytes of a column chunk, its dictionary page included. Negative lengths are read as 0.
fn byte_range(column: &ColumnChunkMetaData) -> Range<u64> {
    let start = column
        .dictionary_page_offset()
        .unwrap_or_else(|| column.data_page_offset());
    let start = u64::try_from(start).unwrap_or(0);
    start..start.saturating_add(u64::try_from(column.compressed_size()).unwrap_or(0))
}
