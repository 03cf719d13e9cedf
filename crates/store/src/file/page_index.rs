//! Page indexes: the locations of the pages of a column chunk, and the bounds of their values.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use ::parquet::file::metadata::{
    ColumnChunkMetaData, PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData,
};
use ::parquet::file::page_index::column_index::ColumnIndexMetaData;
use ::parquet::file::page_index::offset_index::{OffsetIndexMetaData, PageLocation};
use object_store::ObjectStoreExt;

use super::column_bytes::{ColumnBytes, Piece};
use super::files::TableFiles;
use crate::damage::contained;
use crate::version::OpenFile;

/// Maximum number of bytes from the first page index of a file to the end of the last one. Longer
/// ranges are not read.
const MOST_BYTES: u64 = 32 << 20;

/// Page indexes to read.
#[derive(Debug, Clone, Default)]
pub(super) struct Wanted {
    /// Row groups of the file.
    pub(super) groups: Vec<usize>,
    /// Leaf columns that need bounds of pages, if the file has these.
    pub(super) bounds: BTreeSet<usize>,
    /// Leaf columns that need locations of pages. Row groups without locations for all columns of `bounds`
    /// and `locations` are left out.
    pub(super) locations: BTreeSet<usize>,
}

/// Page indexes of some row groups of a file.
#[derive(Debug)]
pub(super) struct PageIndex {
    /// The metadata of these row groups only. A column that was not requested has the page index of another
    /// column.
    metadata: ParquetMetaData,
    /// Their numbers in the file.
    groups: Vec<usize>,
    /// The leaf columns of [`Wanted::locations`].
    locations: Vec<usize>,
}

/// Reads page indexes. `None` if the file has none for these columns, if they cannot be read, or if a
/// location of a page is invalid.
pub(super) async fn read_index(files: &TableFiles, file: &OpenFile, wanted: Wanted) -> Option<PageIndex> {
    let located: BTreeSet<usize> = wanted.locations.union(&wanted.bounds).copied().collect();
    let first = *located.first()?;
    let has_all = |group: &usize| {
        let group = file.metadata.row_group(*group);
        let mut leaves = located.iter();
        leaves.all(|leaf| offset_index(group.column(*leaf)).is_some())
    };
    let groups: Vec<usize> = wanted.groups.into_iter().filter(has_all).collect();
    let columns = |group: &RowGroupMetaData| {
        let known = group.column(first);
        let columns = group.columns().iter().enumerate().map(|(leaf, column)| {
            let mut builder = column.clone().into_builder();
            if !wanted.bounds.contains(&leaf) {
                builder = builder
                    .set_column_index_offset(None)
                    .set_column_index_length(None);
            }
            // The parquet crate reads the locations of all columns or of none.
            if !located.contains(&leaf) {
                builder = builder
                    .set_offset_index_offset(known.offset_index_offset())
                    .set_offset_index_length(known.offset_index_length());
            }
            builder.build()
        });
        columns.collect::<Result<Vec<ColumnChunkMetaData>, _>>()
    };
    let of_groups = groups.iter().map(|group| {
        let group = file.metadata.row_group(*group);
        let builder = group.clone().into_builder();
        builder.set_column_metadata(columns(group)?).build()
    });
    let of_groups = of_groups.collect::<Result<Vec<_>, _>>().ok()?;
    let metadata = ParquetMetaData::new(file.metadata.file_metadata().clone(), of_groups);
    let policy = PageIndexPolicy::Optional;
    let columns = metadata.row_groups().iter().flat_map(RowGroupMetaData::columns);
    let ranges = columns.flat_map(|column| [column_index(column), offset_index(column)]);
    let range = ranges
        .flatten()
        .reduce(|left, right| left.start.min(right.start)..left.end.max(right.end))?;
    let size = file.source.meta.size;
    if range.start >= range.end || range.end > size || range.end - range.start > MOST_BYTES {
        return None;
    }
    let bytes = match file.source.path {
        Some(_) => file.read((range.start, range.end - range.start)).ok()?,
        None => {
            let bytes = files.objects.get_range(&file.source.meta.location, range.clone());
            bytes.await.ok()?
        }
    };
    let source = ColumnBytes {
        pieces: vec![Piece {
            start: range.start,
            bytes,
        }],
        file_size: size,
    };
    let read = contained(|| {
        let mut reader = ParquetMetaDataReader::new_with_metadata(metadata).with_page_index_policy(policy);
        reader.read_page_indexes_sized(&source, size)?;
        reader.finish()
    });
    let metadata = read.ok()?.ok()?;
    metadata.offset_index()?;
    let index = PageIndex {
        metadata,
        groups,
        locations: wanted.locations.into_iter().collect(),
    };
    index.only_valid(file, &located)
}

/// The place of a column chunk's bounds of pages.
fn column_index(column: &ColumnChunkMetaData) -> Option<Range<u64>> {
    range(column.column_index_offset()?, column.column_index_length()?)
}

/// The place of a column chunk's locations of pages.
fn offset_index(column: &ColumnChunkMetaData) -> Option<Range<u64>> {
    range(column.offset_index_offset()?, column.offset_index_length()?)
}

fn range(start: i64, length: i32) -> Option<Range<u64>> {
    let start = u64::try_from(start).ok()?;
    let length = u64::try_from(length).ok()?;
    Some(start..start.checked_add(length)?)
}

impl PageIndex {
    /// The index, if the locations of pages are valid in all of its row groups.
    fn only_valid(self, file: &OpenFile, leaves: &BTreeSet<usize>) -> Option<Self> {
        let mut numbers = 0..self.groups.len();
        let valid = numbers.all(|number| {
            let group = file.metadata.row_group(self.groups[number]);
            let mut leaves = leaves.iter();
            leaves.all(|leaf| is_valid(self.located(number, *leaf), group.column(*leaf), group.num_rows()))
        });
        valid.then_some(self)
    }

    fn located(&self, number: usize, leaf: usize) -> &[PageLocation] {
        let of_group = self.metadata.offset_index().and_then(|index| index.get(number));
        let of_column = of_group.and_then(|columns| columns.get(leaf));
        of_column.map_or(&[], |index| index.page_locations())
    }

    /// The row groups, by their number in the file.
    pub(super) fn groups(&self) -> impl Iterator<Item = usize> {
        self.groups.iter().copied()
    }

    /// The number in the file of a row group of the index.
    pub(super) fn group(&self, number: usize) -> usize {
        self.groups[number]
    }

    /// The metadata of the row groups, with the indexes.
    pub(super) fn metadata(&self) -> &ParquetMetaData {
        &self.metadata
    }

    /// The numbers in the index of the row groups with bounds for the pages of a column.
    pub(super) fn with_bounds(&self, leaf: usize) -> impl Iterator<Item = usize> {
        let has_bounds = move |number: &usize| {
            let of_group = self.metadata.column_index().and_then(|index| index.get(*number));
            let of_column = of_group.and_then(|columns| columns.get(leaf));
            of_column.is_some_and(|index| {
                !matches!(index, ColumnIndexMetaData::NONE)
                    && index.num_pages() as usize == self.located(*number, leaf).len()
            })
        };
        (0..self.groups.len()).filter(has_bounds)
    }

    /// The first row of each page of a column. `number`: the number of the row group in the index.
    pub(super) fn first_rows_of(&self, number: usize, leaf: usize) -> Vec<usize> {
        let located = self.located(number, leaf).iter();
        located.map(|page| page.first_row_index.max(0) as usize).collect()
    }

    /// For each column of [`Wanted::locations`], the first row of each page. `group`: the number of the row
    /// group in the file.
    pub(super) fn first_rows(&self, group: usize) -> impl Iterator<Item = Vec<usize>> {
        let number = self.groups.iter().position(|own| *own == group);
        let leaves = number.into_iter().flat_map(|number| {
            let leaves = self.locations.iter();
            leaves.map(move |leaf| (number, *leaf))
        });
        leaves.map(|(number, leaf)| self.first_rows_of(number, leaf))
    }

    /// The locations by row group of the file and leaf column.
    pub(super) fn into_locations(self) -> HashMap<(usize, usize), Vec<PageLocation>> {
        let mut found = HashMap::new();
        for (number, group) in self.groups.iter().enumerate() {
            for leaf in &self.locations {
                found.insert((*group, *leaf), self.located(number, *leaf).to_vec());
            }
        }
        found
    }
}

/// Whether pages follow each other within a column chunk, and have rows from the first one on.
fn is_valid(pages: &[PageLocation], chunk: &ColumnChunkMetaData, rows: i64) -> bool {
    let Some(first) = pages.first() else { return false };
    let start = chunk.dictionary_page_offset().unwrap_or(chunk.data_page_offset());
    let Some(end) = start.checked_add(chunk.compressed_size()) else {
        return false;
    };
    let end_of = |page: &PageLocation| page.offset.checked_add(i64::from(page.compressed_page_size));
    let follows = |pages: &[PageLocation]| match pages {
        [page, next] => {
            page.first_row_index < next.first_row_index && end_of(page).is_some_and(|end| end <= next.offset)
        }
        _ => true,
    };
    let last = pages.last().unwrap_or(first);
    first.first_row_index == 0
        && first.offset >= start
        && start >= 0
        && pages.iter().all(|page| page.compressed_page_size > 0)
        && pages.windows(2).all(follows)
        && last.first_row_index < rows
        && end_of(last).is_some_and(|last| last <= end)
}

/// The metadata of a file with the locations of pages of some row groups.
pub(super) fn with_locations(
    metadata: &ParquetMetaData,
    located: &HashMap<(usize, usize), Vec<PageLocation>>,
) -> ParquetMetaData {
    let groups = metadata.row_groups().iter().enumerate().map(|(group, columns)| {
        let is_located = located.keys().any(|(of, _)| *of == group);
        let leaves = 0..if is_located { columns.num_columns() } else { 0 };
        let pages = leaves.map(|leaf| OffsetIndexMetaData {
            page_locations: located.get(&(group, leaf)).cloned().unwrap_or_default(),
            unencoded_byte_array_data_bytes: None,
        });
        pages.collect()
    });
    let groups = groups.collect();
    let builder = metadata.clone().into_builder();
    builder.set_offset_index(Some(groups)).build()
}

/// The byte ranges of the pages that have some of `rows`, with adjacent ranges joined, and the number of rows
/// of these pages.
pub(super) fn pages_of_rows(
    pages: &[PageLocation],
    group_rows: usize,
    rows: &[Range<usize>],
) -> (Vec<Range<u64>>, usize) {
    let mut bytes: Vec<Range<u64>> = Vec::new();
    let mut count = 0;
    for (number, page) in pages.iter().enumerate() {
        let first = page.first_row_index.max(0) as usize;
        let next = pages.get(number + 1);
        let end = next.map_or(group_rows, |next| next.first_row_index.max(0) as usize);
        if !rows.iter().any(|range| first < range.end && range.start < end) {
            continue;
        }
        count += end - first;
        let start = page.offset.max(0) as u64;
        let range = start..start + page.compressed_page_size.max(0) as u64;
        match bytes.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => bytes.push(range),
        }
    }
    (bytes, count)
}
