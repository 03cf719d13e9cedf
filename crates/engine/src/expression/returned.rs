//! What is returned of a row: values that the device writes, and what the host computes of them.
//!
//! A text that is made of others is no value that a kernel writes down. Where rows are returned, it need not
//! be: the values that it is made of are returned, and DataFusion evaluates the expression where they are
//! gathered, of the rows that passed.

use super::host_function::HostFunction;
use super::ir::{Expr, ExprKind};
use super::text::is_text;
use std::sync::Arc;

impl Expr {
    /// What the host computes of values that are returned, where there is no dictionary: the function, and
    /// its arguments. Numbers that the device computes are none.
    pub(crate) fn hosted(&self) -> Option<(&Arc<HostFunction>, Vec<&Self>)> {
        match self.kind() {
            ExprKind::Hosted {
                function, arguments, ..
            } => Some((function, arguments.iter().collect())),
            ExprKind::Dictionary {
                function,
                argument,
                native,
            } if (native.is_none() || is_text(self.data_type()))
                && (argument.as_column().is_some() || argument.hosted().is_some()) =>
            {
                Some((function, vec![argument]))
            }
            _ => None,
        }
    }

    /// Whether the host computes it where it is returned, given whether a column is text without a
    /// dictionary.
    pub(crate) fn is_for_host(&self, is_text_column: &dyn Fn(usize) -> bool) -> bool {
        match self.kind() {
            ExprKind::Hosted { native, .. } => {
                native.is_made() || native.dictionary_columns().into_iter().any(is_text_column)
            }
            ExprKind::Dictionary { argument, .. } if self.hosted().is_some() => {
                argument.as_column().is_some_and(is_text_column) || argument.is_for_host(is_text_column)
            }
            _ => false,
        }
    }

    /// The values that the device writes of an output: itself, or what the host computes it of, whatever the
    /// encodings of columns.
    pub(crate) fn returned(&self) -> Vec<&Self> {
        match self.hosted() {
            Some((_, arguments)) if self.is_for_host(&|_| false) => {
                arguments.into_iter().flat_map(Self::returned).collect()
            }
            _ => vec![self],
        }
    }
}
