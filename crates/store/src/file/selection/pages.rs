//! Pages of row groups: the ranges of rows that remain after pruning by page indexes.
//!
//! The page index of a column has the bounds of its pages. A predicate over one column excludes the rows of
//! some pages. The remaining ranges are extended to whole pages of all columns of the load, because the
//! device decodes whole pages. The host decodes columns with pages that end at other rows.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use ::parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use ::parquet::file::metadata::ParquetMetaData;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, UInt64Array};
use arrow::compute::concat;
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::{Column as ColumnName, ScalarValue};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column as ColumnExpr;
use datafusion::physical_expr::split_conjunction;
use datafusion::physical_expr::utils::collect_columns;

use super::super::files::TableFiles;
use super::super::page_index::{PageIndex, Wanted, read_index};
use super::bounds::Bounds;
use super::candidates::Candidates;
use super::places::Place;
use crate::damage::contained;
use crate::pool::on_pool;
use crate::prune::prune_with;
use crate::version::{SelectedGroup, Selection};

/// Maximum share of the rows of a row group that is read in part. Above it, the row group is read whole.
const MOST_ROWS: f64 = 0.9;

/// Row groups with page indexes of one file.
struct Indexed {
    file: usize,
    index: PageIndex,
}

/// The selection without the pages that predicates exclude. `read`: how each file stores the columns of the
/// load. Row groups with unreadable page indexes stay whole.
pub(super) async fn without_pages(
    files: &TableFiles,
    candidates: &Arc<Candidates>,
    selection: Selection,
    read: &[Vec<Place>],
) -> Selection {
    let mut indexed = Vec::new();
    let mut by_file: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for group in &selection.groups {
        by_file.entry(group.file).or_default().push(group.group);
    }
    for (file, groups) in by_file {
        let Some(locations) = leaves(read, file) else {
            continue;
        };
        let of_predicates = candidates
            .columns
            .iter()
            .filter_map(|(_, places)| match &places[file] {
                Place::Stored { leaf, .. } => Some(*leaf),
                _ => None,
            });
        let wanted = Wanted {
            groups,
            bounds: of_predicates.collect(),
            locations,
        };
        let open = &candidates.row_groups.files[file];
        if let Some(index) = read_index(files, open, wanted).await {
            indexed.push(Indexed { file, index });
        }
    }
    if indexed.is_empty() {
        return selection;
    }
    let (candidates, whole) = (Arc::clone(candidates), selection.clone());
    let pruned = on_pool(move || Ok(contained(|| candidates.by_pages(&indexed, selection))));
    match pruned.await {
        Ok(Ok(pruned)) => pruned,
        _ => whole,
    }
}

/// The leaf columns of a file that the load reads; `None` if one is nested.
fn leaves(read: &[Vec<Place>], file: usize) -> Option<BTreeSet<usize>> {
    let mut leaves = BTreeSet::new();
    for places in read {
        match &places[file] {
            Place::Stored { leaf, .. } => {
                leaves.insert(*leaf);
            }
            Place::Null | Place::Constant(_) => {}
            Place::Unknown => return None,
        }
    }
    Some(leaves)
}

/// Ranges of rows by file and row group.
type RowRanges = HashMap<(usize, usize), Vec<Range<usize>>>;

impl Candidates {
    /// The selection with the ranges of rows that remain after pruning by page indexes.
    fn by_pages(&self, indexed: &[Indexed], mut selection: Selection) -> Selection {
        let mut rows: RowRanges = HashMap::new();
        for of_file in indexed {
            for group in of_file.index.groups() {
                let all = self.metadata(of_file.file, group).num_rows().max(0) as usize;
                rows.insert((of_file.file, group), std::iter::once(0..all).collect());
            }
        }
        for predicate in &self.predicates {
            for conjunct in split_conjunction(predicate) {
                let used: BTreeSet<usize> = collect_columns(conjunct).iter().map(ColumnExpr::index).collect();
                if let (Some(column), 1) = (used.first(), used.len()) {
                    self.exclude(indexed, *column, conjunct, &mut rows);
                }
            }
        }
        let mut groups = Vec::new();
        for group in std::mem::take(&mut selection.groups) {
            let Some(ranges) = rows.remove(&(group.file, group.group)) else {
                groups.push(group);
                continue;
            };
            let index = indexed.iter().find(|of_file| of_file.file == group.file);
            let all = self.metadata(group.file, group.group).num_rows().max(0) as usize;
            let Some(index) = index.map(|of_file| &of_file.index) else {
                continue;
            };
            let starts: Vec<Vec<usize>> = index.first_rows(group.group).collect();
            let ranges = whole_pages(ranges, &starts, all);
            let left: usize = ranges.iter().map(Range::len).sum();
            if left == 0 {
                selection.pruning.by_pages += 1;
                continue;
            }
            let is_whole = left as f64 > MOST_ROWS * all as f64;
            let ranges = (!is_whole).then_some(ranges);
            for starts in &starts {
                let pages = pages(starts, all);
                let is_read = |page: &Range<usize>| {
                    let mut ranges = ranges.iter().flatten();
                    is_whole || ranges.any(|range| page.start < range.end && range.start < page.end)
                };
                selection.pruning.pages += pages.len() as u64;
                selection.pruning.pages_read += pages.iter().filter(|page| is_read(page)).count() as u64;
            }
            groups.push(SelectedGroup {
                rows: ranges,
                ..group
            });
        }
        selection.groups = groups;
        selection
    }

    /// Removes from `rows` the pages that a condition on one column excludes.
    fn exclude(
        &self,
        indexed: &[Indexed],
        column: usize,
        condition: &Arc<dyn PhysicalExpr>,
        rows: &mut RowRanges,
    ) {
        match self.page_statistics(indexed, column) {
            Ok(Some((statistics, pages))) => {
                let keep = prune_with(&self.schema, &statistics, &[Arc::clone(condition)]);
                let mut kept: RowRanges = HashMap::new();
                for ((place, page), keep) in pages.into_iter().zip(keep) {
                    let kept = kept.entry(place).or_default();
                    if keep {
                        kept.push(page);
                    }
                }
                for (place, kept) in kept {
                    if let Some(ranges) = rows.get_mut(&place) {
                        *ranges = common(ranges, &kept);
                    }
                }
            }
            Ok(None) => {}
            Err(error) => tracing::debug!(column, %error, "the page index of a column is unusable"),
        }
    }

    /// The bounds of the pages of a column, with the file, row group and rows of each page.
    #[expect(clippy::type_complexity, reason = "pages with their places")]
    fn page_statistics(
        &self,
        indexed: &[Indexed],
        column: usize,
    ) -> arrow::error::Result<Option<(PageStatistics, Vec<((usize, usize), Range<usize>)>)>> {
        let Some((_, places)) = self.columns.iter().find(|(index, _)| *index == column) else {
            return Ok(None);
        };
        let table = self.schema.field(column).data_type();
        let (mut parts, mut pages_of) = (Vec::new(), Vec::new());
        for Indexed { file, index } in indexed {
            let Place::Stored { leaf, field, trust } = &places[*file] else {
                continue;
            };
            let metadata: &ParquetMetaData = index.metadata();
            let (Some(bounds), Some(locations)) = (metadata.column_index(), metadata.offset_index()) else {
                continue;
            };
            let groups: Vec<usize> = index.with_bounds(*leaf).collect();
            if groups.is_empty() {
                continue;
            }
            let descriptor = metadata.file_metadata().schema_descr();
            let converter = StatisticsConverter::from_column_index(*leaf, field, descriptor)?;
            let nulls = converter.data_page_null_counts(bounds, locations, &groups)?;
            let known = BooleanArray::from(vec![true; nulls.len()]);
            parts.push(Bounds::trusted(
                (
                    converter.data_page_mins(bounds, locations, &groups)?,
                    converter.data_page_maxes(bounds, locations, &groups)?,
                ),
                nulls,
                (&known, &known),
                (*trust, table),
            )?);
            for number in groups {
                let starts = index.first_rows_of(number, *leaf);
                let group = index.group(number);
                let all = self.metadata(*file, group).num_rows().max(0) as usize;
                let pages = pages(&starts, all);
                pages_of.extend(pages.into_iter().map(|page| ((*file, group), page)));
            }
        }
        if parts.is_empty() {
            return Ok(None);
        }
        let all = |side: fn(&Bounds) -> &dyn Array| {
            let arrays: Vec<&dyn Array> = parts.iter().map(side).collect();
            concat(&arrays)
        };
        let statistics = PageStatistics {
            column,
            bounds: Bounds {
                lower: all(|part| &part.lower)?,
                upper: all(|part| &part.upper)?,
                nulls: all(|part| &part.nulls)?.as_primitive().clone(),
            },
            rows: pages_of.iter().map(|(_, page)| page.len() as u64).collect(),
        };
        Ok((statistics.rows.len() == statistics.bounds.nulls.len()).then_some((statistics, pages_of)))
    }
}

/// The ranges of rows of pages. `starts`: the first row of each page; `rows`: the rows of the row group.
fn pages(starts: &[usize], rows: usize) -> Vec<Range<usize>> {
    let ends = starts.iter().skip(1).copied().chain([rows]);
    starts
        .iter()
        .copied()
        .zip(ends)
        .map(|(start, end)| start..end)
        .collect()
}

/// The rows that are in both lists of ascending ranges.
fn common(left: &[Range<usize>], right: &[Range<usize>]) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    let (mut own, mut others) = (left.iter().peekable(), right.iter().peekable());
    while let (Some(one), Some(other)) = (own.peek(), others.peek()) {
        let (start, end) = (one.start.max(other.start), one.end.min(other.end));
        if start < end {
            match found.last_mut() {
                Some(last) if last.end == start => last.end = end,
                _ => found.push(start..end),
            }
        }
        if one.end <= other.end {
            own.next();
        } else {
            others.next();
        }
    }
    found
}

/// The ranges extended to whole pages of every column. `starts`: the first rows of the pages of each column.
fn whole_pages(mut ranges: Vec<Range<usize>>, starts: &[Vec<usize>], rows: usize) -> Vec<Range<usize>> {
    loop {
        let before = ranges.clone();
        for starts in starts {
            let extended = ranges.iter().map(|range| {
                let first = starts.partition_point(|start| *start <= range.start);
                let end = starts.partition_point(|start| *start < range.end);
                let start = first.checked_sub(1).map_or(0, |page| starts[page]);
                start..starts.get(end).copied().unwrap_or(rows)
            });
            let mut merged: Vec<Range<usize>> = Vec::new();
            for range in extended {
                match merged.last_mut() {
                    Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                    _ => merged.push(range),
                }
            }
            ranges = merged;
        }
        if ranges == before {
            return ranges;
        }
    }
}

/// The statistics of the pages of one column.
struct PageStatistics {
    column: usize,
    bounds: Bounds,
    rows: Vec<u64>,
}

impl PageStatistics {
    fn of(&self, column: &ColumnName) -> Option<&Bounds> {
        (column.name.parse() == Ok(self.column)).then_some(&self.bounds)
    }
}

impl PruningStatistics for PageStatistics {
    fn min_values(&self, column: &ColumnName) -> Option<ArrayRef> {
        Some(Arc::clone(&self.of(column)?.lower))
    }

    fn max_values(&self, column: &ColumnName) -> Option<ArrayRef> {
        Some(Arc::clone(&self.of(column)?.upper))
    }

    fn num_containers(&self) -> usize {
        self.rows.len()
    }

    fn null_counts(&self, column: &ColumnName) -> Option<ArrayRef> {
        Some(Arc::new(self.of(column)?.nulls.clone()))
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        Some(Arc::new(UInt64Array::from(self.rows.clone())))
    }

    fn contained(&self, _: &ColumnName, _: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        None
    }
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "lists of ranges of rows")]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_two_conditions_are_intersected() {
        assert_eq!(common(&[0..10, 20..30], &[5..25]), [5..10, 20..25]);
        assert_eq!(common(&[0..10], &[10..20]), Vec::<Range<usize>>::new());
        assert_eq!(common(&[0..10], &[0..4, 4..8]), [0..8], "adjacent pages");
        assert_eq!(common(&[], &[0..4]), Vec::<Range<usize>>::new());
        assert_eq!(
            common(&[0..100], &[3..4, 50..60, 99..100]),
            [3..4, 50..60, 99..100]
        );
    }

    #[test]
    fn ranges_are_extended_to_pages_of_all_columns() {
        let aligned = vec![vec![0, 10, 20, 30], vec![0, 10, 20, 30]];
        assert_eq!(whole_pages(vec![12..13], &aligned, 35), [10..20]);
        assert_eq!(whole_pages(vec![0..1, 34..35], &aligned, 35), [0..10, 30..35]);
        assert_eq!(whole_pages(vec![5..6, 12..13], &aligned, 35), [0..20]);
        let wider = vec![vec![0, 10, 20, 30], vec![0, 20]];
        assert_eq!(whole_pages(vec![12..13], &wider, 40), [0..20]);
        // Pages that never end at the same row.
        let apart = vec![vec![0, 10, 20, 30], vec![0, 15, 25]];
        assert_eq!(whole_pages(vec![12..13], &apart, 35), [0..35]);
        assert_eq!(whole_pages(Vec::new(), &aligned, 35), Vec::<Range<usize>>::new());
        assert_eq!(whole_pages(vec![3..4], &[], 35), [3..4], "columns without pages");
    }
}
