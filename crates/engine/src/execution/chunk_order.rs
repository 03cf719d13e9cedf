//! Positions of a table's chunks in a sort order, according to their zone maps.

use super::pipeline_run::Run;
use galatea_codegen::{RowOrder, SinkPlan};
use galatea_expression::{Expr, ExprKind, Function};
use galatea_store::{Column, Scalar};
use std::cmp::Ordering;

/// The first column of a sort order.
#[derive(Debug, Clone, Copy)]
pub(super) struct FirstColumn<'v> {
    column: &'v Column,
    descending: bool,
}

/// The first and the last value of a chunk in the sort order.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ends<'v> {
    pub(super) first: &'v Scalar,
    pub(super) last: &'v Scalar,
}

impl FirstColumn<'_> {
    /// The ends of a chunk, if its zone map has them.
    pub(super) fn ends(&self, chunk: usize) -> Option<Ends<'_>> {
        let zone = &self.column.chunks[chunk].zone;
        if zone.null_count > 0 || zone.has_nan {
            return None;
        }
        let (min, max) = (zone.min.as_ref()?, zone.max.as_ref()?);
        Some(match self.descending {
            false => Ends {
                first: min,
                last: max,
            },
            true => Ends {
                first: max,
                last: min,
            },
        })
    }

    /// Compares two values in the sort order.
    pub(super) fn compare(&self, one: &Scalar, other: &Scalar) -> Ordering {
        let ascending = one.partial_cmp(other).unwrap_or(Ordering::Equal);
        match self.descending {
            false => ascending,
            true => ascending.reverse(),
        }
    }

    /// The chunks in ascending order of their last values.
    pub(super) fn in_order(&self, chunks: &[usize]) -> Vec<usize> {
        let mut chunks: Vec<_> = chunks.iter().map(|chunk| (*chunk, self.ends(*chunk))).collect();
        chunks.sort_by(|(_, one), (_, other)| match (one, other) {
            (Some(one), Some(other)) => self.compare(one.last, other.last),
            (one, other) => one.is_none().cmp(&other.is_none()),
        });
        chunks.into_iter().map(|(chunk, _)| chunk).collect()
    }

    /// The last value of the chunks, if the zone maps of all of them have it.
    pub(super) fn last_of(&self, chunks: &[usize]) -> Option<&Scalar> {
        let ends: Option<Vec<_>> = chunks.iter().map(|chunk| self.ends(*chunk)).collect();
        let last = ends?.into_iter().map(|ends| ends.last);
        last.max_by(|one, other| self.compare(one, other))
    }

    /// Whether, according to the zone maps, no row of a chunk sorts after a row of the next chunk. False if a
    /// zone map is missing.
    fn follow_each_other(&self, chunks: &[usize]) -> bool {
        let ends: Option<Vec<_>> = chunks.iter().map(|chunk| self.ends(*chunk)).collect();
        let follows = |pair: &[Ends<'_>]| self.compare(pair[0].last, pair[1].first) != Ordering::Greater;
        ends.is_some_and(|ends| ends.windows(2).all(follows))
    }
}

impl<'a> Run<'a> {
    /// The first column of the sort order, if the first sort expression is a column. `key` is a sort key, or
    /// its first word.
    pub(super) fn first_column(&self, key: &Expr) -> Option<FirstColumn<'a>> {
        let ExprKind::Call {
            function: Function::SortKey(orders) | Function::SortWord { orders, .. },
            arguments,
        } = key.kind()
        else {
            return None;
        };
        let column = arguments.first()?.as_column()?;
        let position = self.plan.columns().iter().position(|other| *other == column)?;
        Some(FirstColumn {
            column: &self.view.columns[position],
            descending: orders.first()?.descending,
        })
    }

    /// Whether the rows to sort are all rows of a table, and its zone maps do not rule out that it is already
    /// in that order.
    pub(super) fn may_be_in_order(&self) -> bool {
        let SinkPlan::Rows {
            order: Some(RowOrder::All(words)),
            ..
        } = &self.plan.sink
        else {
            return false;
        };
        let whole = self.plan.filters.is_empty() && self.part.is_none() && self.rows() == self.view.rows;
        let first = words.first().filter(|_| whole);
        let first = first.and_then(|word| self.first_column(word));
        first.is_some_and(|first| first.follow_each_other(self.chunks))
    }
}
