//! The columns, words of the order and functions that a window needs of the rows below it.

use arrow::datatypes::FieldRef;
use galatea_base::reason::Reason;
use galatea_codegen::WindowInput;
use galatea_expression::{Expr, Frame, FrameBound, SortOrder, Units, WindowCall, WindowFunction};
use galatea_kernels::WINDOW_KEYS;
use std::collections::BTreeSet;

/// An order of rows and functions over it, all over the columns of the source of the rows.
#[derive(Clone)]
pub(in crate::placement) struct Window {
    /// The keys of the partition, and their order.
    pub(in crate::placement) partition: Vec<(Expr, SortOrder)>,
    /// The keys of the order within a partition.
    pub(in crate::placement) order: Vec<(Expr, SortOrder)>,
    /// The tie breaker for rows that are equal in the order.
    pub(in crate::placement) row: Expr,
    /// The functions.
    pub(in crate::placement) functions: Vec<WindowFunctionCall>,
}

/// All rows of the partition.
pub(in crate::placement) const WHOLE: Frame = Frame {
    units: Units::Rows,
    start: FrameBound::Unbounded,
    end: FrameBound::Unbounded,
};

/// A function of a [`Window`].
#[derive(Clone)]
pub(in crate::placement) struct WindowFunctionCall {
    pub(in crate::placement) function: WindowFunction,
    /// Over the columns of the input's source.
    pub(in crate::placement) argument: Option<Expr>,
    /// Whether the function skips rows in which the argument is NULL.
    pub(in crate::placement) ignores_nulls: bool,
    /// The number of its key column is not set yet: the key is the first one of the order.
    pub(in crate::placement) frame: Frame,
    pub(in crate::placement) field: FieldRef,
}

impl Window {
    /// Refuses orders with too many words.
    pub(in crate::placement) fn checked(self) -> Result<Self, Reason> {
        // One more word breaks ties.
        let words = [&self.partition, &self.order].map(|keys| Expr::sort_words(keys.iter().cloned()).len());
        let words = words[0] + words[1] + 1;
        match words > WINDOW_KEYS {
            true => Err(Reason::Limit {
                expression: "the order of a window".into(),
                asked: words as u64,
                limit: WINDOW_KEYS as u64,
                unit: "words of 64 bits",
            }),
            false => Ok(self),
        }
    }

    /// Whether rows in this order are also in the order of these keys. The keys are over the columns of the
    /// window, and the first of these are the columns `below`.
    pub(in crate::placement) fn is_order_of(&self, below: &[Expr], keys: &[(Expr, SortOrder)]) -> bool {
        let mut own = self.partition.iter().chain(&self.order);
        keys.iter().all(|(key, order)| {
            let column = key.as_column().and_then(|column| below.get(column));
            own.next()
                .is_some_and(|(known, its)| column == Some(known) && its == order)
        })
    }

    /// The input of the window from rows with the columns `below`, such that these columns of the window can
    /// be looked up: the first are those below, the others the functions.
    pub(in crate::placement) fn input(self, below: &[Expr], columns: &[usize]) -> WindowInput {
        let own = below.len();
        let mut calls = Vec::new();
        let mut wanted: BTreeSet<usize> = columns.iter().copied().filter(|column| *column < own).collect();
        // Columns for arguments follow those of the functions.
        let behind = own + self.functions.len();
        let functions = self.functions.into_iter().zip(own..);
        let mut computed: Vec<Expr> = Vec::new();
        let mut ties = false;
        for (call, number) in functions.filter(|(_, number)| columns.contains(number)) {
            let mut column_of = |value: &Expr| {
                let known = below.iter().position(|column| column == value);
                let number = known.unwrap_or_else(|| {
                    let known = computed.iter().position(|column| column == value);
                    behind
                        + known.unwrap_or_else(|| {
                            computed.push(value.clone());
                            computed.len() - 1
                        })
                });
                wanted.insert(number);
                number
            };
            let argument = call.argument.as_ref().map(&mut column_of);
            let frame = match self.order.first() {
                Some((key, _)) => call.frame.by_column(|| column_of(key)),
                None => call.frame,
            };
            ties |= call.function.orders_peers(&frame);
            calls.push((
                number,
                WindowCall {
                    function: call.function,
                    argument,
                    ignores_nulls: call.ignores_nulls,
                    frame,
                    field: call.field,
                },
            ));
        }
        let column = |number: usize| match below.get(number) {
            Some(column) => column.clone(),
            None => computed[number - behind].clone(),
        };
        let place = ties.then(|| Expr::sort_words([(self.row, SortOrder::ASCENDING)]));
        WindowInput {
            columns: wanted.iter().map(|number| (*number, column(*number))).collect(),
            partition: Expr::sort_words(self.partition),
            order: Expr::sort_words(self.order),
            ties: place.and_then(|mut words| words.pop()),
            calls,
        }
    }
}
