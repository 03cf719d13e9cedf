//! Slices of a table: the rows that the predicates of some queries need.
//!
//! A query with predicates may load its columns for a part of the rows only. Such a part is a table of its
//! own, with a [`TableId`], chunks and columns. A query that needs other rows never gets the slice, so that
//! readers do not handle missing rows. A column is loaded whole as soon as its slices together would read
//! more bytes than the whole column: all loads of a column together read at most twice its bytes.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNode;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::scalar_subquery::ScalarSubqueryExpr;
use datafusion::physical_expr_common::physical_expr::snapshot_generation;
use parking_lot::Mutex;

use super::row_groups::RowGroups;
use super::selection::Selection;
use crate::source::TableId;

/// Maximum number of slices of a version, and of recorded selections.
const KEPT: usize = 64;

/// A part of a version's rows.
#[derive(Debug)]
pub(crate) struct Slice {
    pub(crate) id: TableId,
    pub(crate) selection: Arc<Selection>,
    pub(crate) row_groups: Arc<RowGroups>,
}

/// The slices of a version.
#[derive(Debug, Default)]
pub(crate) struct Slices(Mutex<Known>);

/// The predicates of a query, all of which are true for the rows that it needs.
type Predicates = Vec<Arc<dyn PhysicalExpr>>;

#[derive(Debug, Default)]
struct Known {
    /// The least recently used first.
    slices: Vec<Arc<Slice>>,
    /// Constant predicates with the rows that they select; the least recently used first.
    selections: Vec<(Predicates, Arc<Selection>)>,
    /// Bytes of files that slices have read, by column, since the column was last loaded whole.
    spent: HashMap<usize, u64>,
}

impl Slices {
    /// The recorded rows that these predicates select.
    pub(crate) fn selection(&self, predicates: &[Arc<dyn PhysicalExpr>]) -> Option<Arc<Selection>> {
        let mut known = self.0.lock();
        let place = known
            .selections
            .iter()
            .position(|(others, _)| others == predicates)?;
        let found = known.selections.remove(place);
        let selection = Arc::clone(&found.1);
        known.selections.push(found);
        Some(selection)
    }

    /// Records the rows that predicates select, unless these may select others in a later execution.
    pub(crate) fn record(&self, predicates: &[Arc<dyn PhysicalExpr>], selection: &Arc<Selection>) {
        if !predicates.iter().all(is_constant) {
            return;
        }
        let mut known = self.0.lock();
        known.selections.retain(|(others, _)| others != predicates);
        if known.selections.len() == KEPT {
            known.selections.remove(0);
        }
        known
            .selections
            .push((predicates.to_vec(), Arc::clone(selection)));
    }

    /// A slice with all rows of a selection, preferably without other rows. `has` must be true for it.
    pub(crate) fn covering(&self, selection: &Selection, has: impl Fn(&Slice) -> bool) -> Option<Arc<Slice>> {
        let mut known = self.0.lock();
        let exact = |slice: &Arc<Slice>| slice.selection.groups == selection.groups && has(slice);
        let wider = |slice: &Arc<Slice>| slice.selection.covers(selection) && has(slice);
        let place = known.slices.iter().position(exact);
        let place = place.or_else(|| known.slices.iter().position(wider))?;
        let slice = known.slices.remove(place);
        known.slices.push(Arc::clone(&slice));
        Some(slice)
    }

    /// The slice of exactly these rows. If it does not exist, `make` creates its row groups, and `forget` is
    /// called with the id of the least recently used slice if that has to be dropped.
    pub(crate) fn slice(
        &self,
        selection: &Arc<Selection>,
        make: impl FnOnce() -> RowGroups,
        forget: impl Fn(TableId),
    ) -> Arc<Slice> {
        if let Some(slice) = self.covering(selection, |slice| slice.selection.groups == selection.groups) {
            return slice;
        }
        let slice = Arc::new(Slice {
            id: TableId::next(),
            selection: Arc::clone(selection),
            row_groups: Arc::new(make()),
        });
        let mut known = self.0.lock();
        if known.slices.len() == KEPT {
            forget(known.slices.remove(0).id);
        }
        known.slices.push(Arc::clone(&slice));
        slice
    }

    /// The identities of all slices.
    pub(crate) fn ids(&self) -> Vec<TableId> {
        self.0.lock().slices.iter().map(|slice| slice.id).collect()
    }

    /// Bytes of a column that slices have read since the column was last loaded whole.
    pub(crate) fn spent(&self, column: usize) -> u64 {
        self.0.lock().spent.get(&column).copied().unwrap_or(0)
    }

    /// Records that a slice has read bytes of a column.
    pub(crate) fn spend(&self, column: usize, bytes: u64) {
        *self.0.lock().spent.entry(column).or_default() += bytes;
    }

    /// Records that a column was loaded whole.
    pub(crate) fn loaded_whole(&self, column: usize) {
        self.0.lock().spent.remove(&column);
    }
}

/// Whether an expression has the same meaning in all executions.
fn is_constant(predicate: &Arc<dyn PhysicalExpr>) -> bool {
    let subquery = predicate.exists(|part| Ok(part.is::<ScalarSubqueryExpr>()));
    snapshot_generation(predicate) == 0 && !subquery.unwrap_or(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load_report::Pruning;
    use crate::version::SelectedGroup;
    use std::ops::Range;

    use datafusion::physical_expr::expressions::lit;

    fn selection(groups: &[(usize, Option<Range<usize>>)]) -> Arc<Selection> {
        let groups = groups.iter().map(|(group, rows)| SelectedGroup {
            file: 0,
            group: *group,
            rows: rows.clone().map(|rows| vec![rows]),
        });
        Arc::new(Selection {
            groups: groups.collect(),
            pruning: Pruning::default(),
        })
    }

    #[test]
    fn slices_are_used_for_rows_that_they_have() {
        let slices = Slices::default();
        let whole = selection(&[(0, None), (2, None)]);
        let part = selection(&[(2, Some(10..20))]);
        let make = RowGroups::default;
        let wide = slices.slice(&whole, make, |_| unreachable!("few slices"));
        let found = |needed: &Selection| slices.covering(needed, |_| true).map(|slice| slice.id);
        assert_eq!(found(&whole), Some(wide.id));
        assert_eq!(found(&part), Some(wide.id), "a row group has all of its rows");
        assert_eq!(found(&selection(&[(1, None)])), None);
        assert_eq!(found(&selection(&[(0, None), (1, None), (2, None)])), None);
        let narrow = slices.slice(&part, make, |_| unreachable!("few slices"));
        assert_ne!(narrow.id, wide.id);
        assert_eq!(found(&part), Some(narrow.id), "no other rows");
        assert_eq!(found(&selection(&[(2, Some(12..20))])), Some(wide.id));
        let narrow_only = |slice: &Slice| slice.id == narrow.id;
        assert!(
            slices
                .covering(&selection(&[(2, Some(5..12))]), narrow_only)
                .is_none()
        );
        assert!(slices.covering(&selection(&[(2, None)]), narrow_only).is_none());
        assert!(
            slices
                .covering(&selection(&[(2, Some(12..13))]), narrow_only)
                .is_some()
        );
    }

    #[test]
    fn the_least_recently_used_slice_is_forgotten() {
        let slices = Slices::default();
        let forgotten = Mutex::new(Vec::new());
        let forget = |id| forgotten.lock().push(id);
        let ids: Vec<TableId> = (0..KEPT)
            .map(|group| {
                slices
                    .slice(&selection(&[(group, None)]), RowGroups::default, forget)
                    .id
            })
            .collect();
        let again = slices.slice(&selection(&[(0, None)]), RowGroups::default, forget);
        assert_eq!(again.id, ids[0]);
        assert!(forgotten.lock().is_empty());
        slices.slice(&selection(&[(KEPT, None)]), RowGroups::default, forget);
        assert_eq!(*forgotten.lock(), [ids[1]]);
        assert_eq!(slices.ids().len(), KEPT);
    }

    #[test]
    fn selections_of_constant_predicates_are_recorded() {
        use datafusion::physical_expr::expressions::DynamicFilterPhysicalExpr;

        let slices = Slices::default();
        let found = selection(&[(3, None)]);
        slices.record(&[lit(true)], &found);
        assert_eq!(slices.selection(&[lit(true)]), Some(Arc::clone(&found)));
        assert_eq!(slices.selection(&[lit(false)]), None);
        let dynamic: Arc<dyn PhysicalExpr> = Arc::new(DynamicFilterPhysicalExpr::new(Vec::new(), lit(true)));
        slices.record(&[Arc::clone(&dynamic)], &found);
        assert_eq!(slices.selection(&[dynamic]), None);
    }
}
