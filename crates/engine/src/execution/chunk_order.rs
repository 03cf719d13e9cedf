//! Where the chunks of a table come in an order, by their zones.

use super::run::Run;
use galatea_codegen::{RowOrder, SinkPlan};
use galatea_expression::{Expr, ExprKind, Function};
use galatea_store::{Column, Scalar};
use std::cmp::Ordering;

/// The column that an order is by in the first place.
#[derive(Debug, Clone, Copy)]
pub(super) struct FirstColumn<'v> {
    column: &'v Column,
    descending: bool,
}

/// Where the values of a chunk begin and end in an order.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ends<'v> {
    pub(super) first: &'v Scalar,
    pub(super) last: &'v Scalar,
}

impl FirstColumn<'_> {
    /// The ends of a chunk, if its zone tells.
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

    /// How two values follow each other.
    pub(super) fn compare(&self, one: &Scalar, other: &Scalar) -> Ordering {
        let ascending = one.partial_cmp(other).unwrap_or(Ordering::Equal);
        match self.descending {
            false => ascending,
            true => ascending.reverse(),
        }
    }

    /// The chunks, those first whose last values come first.
    pub(super) fn in_order(&self, chunks: &[usize]) -> Vec<usize> {
        let mut chunks: Vec<_> = chunks.iter().map(|chunk| (*chunk, self.ends(*chunk))).collect();
        chunks.sort_by(|(_, one), (_, other)| match (one, other) {
            (Some(one), Some(other)) => self.compare(one.last, other.last),
            (one, other) => one.is_none().cmp(&other.is_none()),
        });
        chunks.into_iter().map(|(chunk, _)| chunk).collect()
    }

    /// The last value of some chunks, if the zones of all of them tell.
    pub(super) fn last_of(&self, chunks: &[usize]) -> Option<&Scalar> {
        let ends: Option<Vec<_>> = chunks.iter().map(|chunk| self.ends(*chunk)).collect();
        let last = ends?.into_iter().map(|ends| ends.last);
        last.max_by(|one, other| self.compare(one, other))
    }

    /// Whether no row of a chunk comes after one of the next, as far as the zones of all tell.
    fn follow_each_other(&self, chunks: &[usize]) -> bool {
        let ends: Option<Vec<_>> = chunks.iter().map(|chunk| self.ends(*chunk)).collect();
        let follows = |pair: &[Ends<'_>]| self.compare(pair[0].last, pair[1].first) != Ordering::Greater;
        ends.is_some_and(|ends| ends.windows(2).all(follows))
    }
}

impl<'a> Run<'a> {
    /// The column that an order is by in the first place, if that is a column; `key` is a sort key, or its
    /// first word.
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

    /// Whether rows that are to be sorted are all of a table's, whose zones do not speak against its being in
    /// that order.
    pub(super) fn may_be_in_order(&self) -> bool {
        let SinkPlan::Materialise {
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
