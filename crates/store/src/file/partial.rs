//! The part of a table that a load reads: the rows that the predicates of a query need, or all rows.
//!
//! A load reads a part if the part is small. A column is read whole once its parts together would exceed the
//! bytes of the whole column, so that later queries with other predicates find it in memory.

use std::sync::Arc;

use galatea_base::policy::policy;

use super::format::Format;
use super::parquet::ParquetFormat;
use super::part::{ColumnSize, Part};
use super::table::FileTable;
use crate::column::Column;
use crate::error::Result;
use crate::load_report::Pruning;
use crate::source::LoadHints;
use crate::version::{Selection, Slice, Version};

policy! {
    /// The choice between loading the rows that a query needs and loading whole columns.
    pub(crate) struct PartialLoads {
        /// Maximum share of the bytes of the missing columns that a partial load reads.
        share: f64 = 0.5,
    }
}

impl FileTable {
    /// The part of the version that a load of these columns reads.
    pub(super) async fn part(&self, version: &Version, columns: &[usize], hints: &LoadHints) -> Result<Part> {
        let Format::Parquet(format) = &self.format else {
            return Ok(Part::default());
        };
        if columns.is_empty() || hints.predicates.is_empty() || self.has_layout(columns) {
            return Ok(Part::default());
        }
        let known = version.slices.selection(&hints.predicates);
        let kept = known.and_then(|selection| self.kept_slice(version, &selection, columns, hints));
        if kept.is_some() {
            return Ok(Part {
                slice: kept,
                ..Part::default()
            });
        }
        if self.is_on_disk(version, columns) {
            return Ok(Part::default());
        }
        let selection = self.selection(format, version, columns, hints).await?;
        let pruning = Some(selection.pruning);
        let row_groups = format.row_groups(&self.files, version).await?;
        let whole = Part {
            pruning,
            ..Part::default()
        };
        let groups = row_groups.all().filter(|(_, _, rows)| *rows > 0).count();
        let all_rows = selection.groups.iter().all(|group| group.rows.is_none());
        if selection.groups.len() == groups && all_rows {
            return Ok(whole);
        }
        if let Some(slice) = self.kept_slice(version, &selection, columns, hints) {
            return Ok(Part {
                slice: Some(slice),
                ..whole
            });
        }
        let sizes = format.sizes(&self.files, &row_groups, columns, &selection)?;
        let bytes = columns.iter().copied().zip(sizes.iter().map(|size| size.part));
        let bytes: Vec<(usize, u64)> = bytes.collect();
        if !self.pays(version, columns, &sizes, hints) {
            return Ok(whole);
        }
        let skipped = sizes.iter().map(|size| size.whole - size.part).sum();
        let make = || row_groups.only(&selection, version.chunk_target);
        let forget = |id| self.files.store.forget(id);
        Ok(Part {
            slice: Some(version.slices.slice(&selection, make, forget)),
            pruning: pruning.map(|pruning| Pruning {
                bytes: skipped,
                ..pruning
            }),
            bytes,
        })
    }

    /// The cached columns of a slice with all rows that the predicates need; `None` if no slice has all of
    /// these columns.
    pub(super) fn kept_part(
        &self,
        version: &Version,
        columns: &[usize],
        hints: &LoadHints,
    ) -> Option<Vec<Arc<Column>>> {
        let selection = version.slices.selection(&hints.predicates)?;
        let slice = self.kept_slice(version, &selection, columns, hints)?;
        let kept = columns
            .iter()
            .map(|column| self.kept_column(slice.id, *column, hints));
        kept.collect()
    }

    /// A slice with all rows of a selection and all of these columns in memory.
    fn kept_slice(
        &self,
        version: &Version,
        selection: &Selection,
        columns: &[usize],
        hints: &LoadHints,
    ) -> Option<Arc<Slice>> {
        version.slices.covering(selection, |slice| {
            let mut columns = columns.iter();
            columns.all(|column| self.kept_column(slice.id, *column, hints).is_some())
        })
    }

    /// Whether one of the columns has a conflict layout. A conflict layout covers all rows of the table.
    fn has_layout(&self, columns: &[usize]) -> bool {
        let versions = &self.files.store.file_versions;
        let mut columns = columns.iter();
        columns.any(|column| versions.layout(&self.key, *column).is_some())
    }

    /// Whether all columns that are not in memory are in the cache on disk.
    fn is_on_disk(&self, version: &Version, columns: &[usize]) -> bool {
        let Some(keys) = self.disk_keys(version) else {
            return false;
        };
        let store = &self.files.store;
        let mut columns = columns.iter();
        columns.all(|column| {
            store.cached(version.id, *column).is_some() || keys.cache.find(&keys.column(*column)).is_some()
        })
    }

    /// The rows that the query needs.
    async fn selection(
        &self,
        format: &ParquetFormat,
        version: &Version,
        columns: &[usize],
        hints: &LoadHints,
    ) -> Result<Arc<Selection>> {
        let row_groups = format.row_groups(&self.files, version).await?;
        if let Some(selection) = version.slices.selection(&hints.predicates) {
            return Ok(selection);
        }
        let selection = format.select(&self.files, &row_groups, &hints.predicates, columns);
        let selection = Arc::new(selection.await?);
        version.slices.record(&hints.predicates, &selection);
        Ok(selection)
    }

    /// Whether to read only the selected rows of the columns.
    fn pays(&self, version: &Version, columns: &[usize], sizes: &[ColumnSize], hints: &LoadHints) -> bool {
        let cached = |column: usize| self.kept_column(version.id, column, hints).is_some();
        let (mut whole, mut part, mut spent) = (0, 0, 0);
        for (column, size) in columns.iter().zip(sizes) {
            part += size.part;
            if !cached(*column) {
                whole += size.whole;
                spent += version.slices.spent(*column);
            }
        }
        if hints.is_temporary {
            return part < whole;
        }
        part as f64 <= PartialLoads::DEFAULT.share * whole as f64 && spent + part <= whole
    }
}
