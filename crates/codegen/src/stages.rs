//! Stages: groups the columns that a pipeline loads together.
//!
//! Loading a column only for surviving rows saves memory traffic if whole 32-byte sectors are not read. It
//! costs latency, since the load waits for the previous filters. The decision depends on the expected share
//! of sectors that no surviving row accesses, `(1 - s)^(rows per sector)` for the selectivity `s` so far: a
//! conjunct (or the sink) is added to the previous stage if its columns would be read anyway. Selectivities
//! are estimated from the columns' intervals, assuming a uniform distribution. A wrong estimate costs time,
//! but does not affect the result.

use super::choices::Selection;
use super::column_access::ColumnAccess;
use galatea_base::policy::policy;
use galatea_expression::{ColumnKind, Comparison, Expr, ExprKind};
use std::collections::BTreeSet;

policy! {
    /// Policy for loading columns together.
    pub(super) struct LoadPolicy {
        /// Bytes of a memory transaction.
        sector_bytes: f64 = 32.0,
        /// Minimum share of unread sectors for loading a column later to pay.
        worth_waiting: f64 = 0.4,
    }
}

const POLICY: LoadPolicy = LoadPolicy::DEFAULT;

/// A set of conjuncts evaluated in one loop over a thread's rows.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Stage {
    /// Indices of the conjuncts.
    pub(super) filters: Vec<usize>,
    /// Columns used, loaded before or in this stage.
    pub(super) columns: BTreeSet<usize>,
}

/// The stages of a pipeline, in order.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Stages {
    /// The stages that only filter.
    pub(super) before: Vec<Stage>,
    /// The last stage, which passes rows to the sink in the same loop.
    pub(super) last: Stage,
}

/// Groups the conjuncts, in order, and the sink. `separate`: the sink cannot share a loop with conjuncts.
pub(super) fn plan(
    selection: Selection,
    filters: &[Expr],
    columns: &[ColumnAccess],
    sink: &BTreeSet<usize>,
    separate: bool,
) -> Stages {
    let mut stages = Stages::default();
    let mut loaded = BTreeSet::new();
    let mut selectivity = 1.0;
    for (index, filter) in filters.iter().enumerate() {
        let used = filter.columns();
        extend(
            &mut stages,
            used.difference(&loaded).copied(),
            columns,
            (selection, selectivity),
            false,
        );
        loaded.extend(&used);
        stages.last.filters.push(index);
        stages.last.columns.extend(used);
        selectivity *= estimate(filter, columns);
    }
    let separate = separate && !filters.is_empty();
    extend(
        &mut stages,
        sink.difference(&loaded).copied(),
        columns,
        (selection, selectivity),
        separate,
    );
    stages.last.columns.extend(sink);
    stages
}

/// The estimated share of rows that pass all conjuncts.
pub(super) fn selectivity(filters: &[Expr], columns: &[ColumnAccess]) -> f64 {
    filters.iter().map(|filter| estimate(filter, columns)).product()
}

/// Starts a new stage if forced, or if loading some new column later pays.
fn extend(
    stages: &mut Stages,
    fresh: impl Iterator<Item = usize>,
    columns: &[ColumnAccess],
    (selection, selectivity): (Selection, f64),
    forced: bool,
) {
    let mut fresh = fresh.map(|column| untouched(&columns[column], selectivity));
    // Columns of the first condition are needed by all rows.
    let has_filters = !stages.last.filters.is_empty();
    let waits = match selection {
        Selection::Auto => fresh.any(|share| share > POLICY.worth_waiting),
        Selection::Branch => has_filters && fresh.next().is_some(),
        Selection::Predicate => false,
    };
    if forced || waits {
        stages.before.push(std::mem::take(&mut stages.last));
    }
}

/// Share of a column's sectors that contain no surviving row.
fn untouched(column: &ColumnAccess, selectivity: f64) -> f64 {
    let rows = POLICY.sector_bytes / column.form.row_bytes().max(1) as f64;
    (1.0 - selectivity).powf(rows)
}

/// The share of rows that pass a conjunct, assuming that the column's values are uniformly distributed.
fn estimate(filter: &Expr, columns: &[ColumnAccess]) -> f64 {
    let guess = match filter.kind() {
        ExprKind::Compare {
            operator,
            left,
            right,
            ..
        } => {
            let range = |e: &Expr| match &columns[e.as_column()?].binding.kind {
                ColumnKind::Integer { min, max } => Some((*min as f64, *max as f64)),
                _ => None,
            };
            let literal = |e: &Expr| {
                e.as_literal()
                    .and_then(galatea_expression::integer_literal)
                    .map(|v| v as f64)
            };
            let below =
                |(min, max): (f64, f64), value: f64| ((value - min) / (max - min + 1.0)).clamp(0.0, 1.0);
            match (
                range(left).zip(literal(right)),
                range(right).zip(literal(left)),
                operator,
            ) {
                (_, _, Comparison::Equal | Comparison::NotDistinct) => Some(0.05),
                (Some((range, value)), _, Comparison::Less | Comparison::LessOrEqual)
                | (_, Some((range, value)), Comparison::Greater | Comparison::GreaterOrEqual) => {
                    Some(below(range, value + 1.0))
                }
                (Some((range, value)), _, Comparison::Greater | Comparison::GreaterOrEqual)
                | (_, Some((range, value)), Comparison::Less | Comparison::LessOrEqual) => {
                    Some(1.0 - below(range, value))
                }
                _ => None,
            }
        }
        ExprKind::Not(_) | ExprKind::Or(..) => Some(0.9),
        _ => None,
    };
    guess.unwrap_or(0.3).clamp(0.001, 1.0)
}
