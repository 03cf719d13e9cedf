//! The row groups of Parquet files that may have rows that satisfy predicates.
//!
//! A load reads the footers first. Row groups with statistics that contradict a predicate are left out
//! ([`bounds`]), then those with Bloom filters that exclude the values of an equality ([`bloom`]). Of the
//! others, pages with bounds that contradict a predicate are left out, too ([`pages`]). A bound that is
//! missing or not trusted ([`places`]) is unknown, and a predicate over unknown bounds keeps the row group.

mod bloom;
mod bounds;
mod candidates;
mod clustering;
mod pages;
mod places;

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr_common::physical_expr::snapshot_physical_expr;

use self::bloom::BloomFilters;
use self::bounds::GroupStatistics;
use self::candidates::Candidates;
pub(super) use self::clustering::is_clustered;
use self::pages::without_pages;
pub(super) use self::places::{FilePlaces, Place};
use super::column_reader::Int96;
use super::files::TableFiles;
use crate::damage::contained;
use crate::error::Result;
use crate::load_report::Pruning;
use crate::pool::on_pool;
use crate::prune::prune_with;
use crate::version::{RowGroups, SelectedGroup, Selection};

/// The row groups and pages that may have rows that satisfy all predicates. The predicates are over the
/// table's schema. `read`: the columns that the load reads.
///
/// # Errors
/// The schema of a file cannot be read, or the threads of the pool have ended. Unreadable statistics and
/// Bloom filters keep their row groups.
pub(super) async fn select(
    files: &TableFiles,
    row_groups: &Arc<RowGroups>,
    predicates: &[Arc<dyn PhysicalExpr>],
    int96: Option<&Int96>,
    read: &[usize],
) -> Result<Selection> {
    let predicates = predicates
        .iter()
        .filter_map(|predicate| snapshot_physical_expr(Arc::clone(predicate)).ok())
        .collect::<Vec<_>>();
    let used: BTreeSet<usize> = predicates
        .iter()
        .flat_map(collect_columns)
        .map(|column| column.index())
        .filter(|index| *index < files.schema.fields().len())
        .collect();
    let places = FilePlaces::new(files, row_groups, int96)?;
    let columns = used.into_iter().map(|index| (index, places.of(index)));
    let read: Vec<Vec<Place>> = read.iter().map(|column| places.of(*column)).collect();
    let candidates = Arc::new(Candidates {
        row_groups: Arc::clone(row_groups),
        groups: row_groups.all().filter(|(_, _, rows)| *rows > 0).collect(),
        schema: Arc::clone(&files.schema),
        predicates,
        columns: columns.collect(),
    });
    let of_statistics = Arc::clone(&candidates);
    let mut keep = on_pool(move || Ok(of_statistics.by_statistics())).await?;
    let left = keep.iter().filter(|kept| **kept).count();
    let filters = BloomFilters::read(files, &candidates, &keep).await?;
    if !filters.is_empty() {
        let of_filters = Arc::clone(&candidates);
        let before = keep.clone();
        keep = on_pool(move || Ok(of_filters.by_filters(before, &filters))).await?;
    }
    let kept = keep.iter().filter(|kept| **kept).count();
    let groups = candidates.groups.iter().zip(&keep).filter(|(_, kept)| **kept);
    let groups = groups.map(|((file, group, _), _)| SelectedGroup {
        file: *file,
        group: *group,
        rows: None,
    });
    let selection = Selection {
        groups: groups.collect(),
        pruning: Pruning {
            row_groups: keep.len() as u64,
            by_statistics: (keep.len() - left) as u64,
            by_bloom_filters: (left - kept) as u64,
            ..Pruning::default()
        },
    };
    Ok(without_pages(files, &candidates, selection, &read).await)
}

impl Candidates {
    /// Whether each row group remains after pruning by statistics.
    fn by_statistics(&self) -> Vec<bool> {
        let pruned = contained(|| {
            let statistics = GroupStatistics::of(self);
            prune_with(&self.schema, &statistics, &self.predicates)
        });
        self.or_all(pruned)
    }

    /// Whether each row group of `keep` also remains after pruning by Bloom filters.
    fn by_filters(&self, mut keep: Vec<bool>, filters: &BloomFilters) -> Vec<bool> {
        let pruned = contained(|| prune_with(&self.schema, filters, &self.predicates));
        let pruned = self.or_all(pruned);
        keep.iter_mut().zip(pruned).for_each(|(keep, may)| *keep &= may);
        keep
    }

    /// The outcome of pruning. A panic over damaged statistics keeps all row groups.
    fn or_all(&self, pruned: std::result::Result<Vec<bool>, String>) -> Vec<bool> {
        pruned.unwrap_or_else(|panic| {
            tracing::debug!(
                panic,
                "the statistics of a file are damaged, so all row groups are kept"
            );
            vec![true; self.groups.len()]
        })
    }
}
