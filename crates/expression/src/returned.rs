//! What is returned of a row: values that the device writes, and what the host computes of them.
//!
//! A text that is made of others is no value that a kernel writes down. Where rows are returned, it need not
//! be: the values that it is made of are returned, and DataFusion evaluates the expression where they are
//! gathered, of the rows that passed.

use super::host_function::HostFunction;
use super::ir::{Expr, ExprKind};
use super::text::is_text;
use std::collections::BTreeSet;
use std::sync::Arc;

impl Expr {
    /// What the host computes of values that are returned, where there is no dictionary: the function, and
    /// its arguments. Numbers that the device computes are none.
    pub fn hosted(&self) -> Option<(&Arc<HostFunction>, Vec<&Self>)> {
        match self.kind() {
            ExprKind::Hosted {
                function, arguments, ..
            } => Some((function, arguments.iter().collect())),
            ExprKind::Dictionary {
                function,
                argument,
                native,
            } if (native.is_none() || is_text(self.data_type()))
                && (argument.is_text_of_row() || argument.hosted().is_some()) =>
            {
                Some((function, vec![argument]))
            }
            _ => None,
        }
    }

    /// Whether it is a text that a row of a table has: a column, or one of a build side, also where it is
    /// NULL without a partner.
    fn is_text_of_row(&self) -> bool {
        match self.kind() {
            ExprKind::Column(_) => is_text(self.data_type()),
            ExprKind::Lookup { made, .. } => is_text(self.data_type()) && !made,
            _ => (self.as_only_where()).is_some_and(|(_, value)| value.is_text_of_row()),
        }
    }

    /// Whether the host computes it where it is returned, given whether a text of a row has no dictionary.
    pub fn is_for_host(&self, has_no_dictionary: &dyn Fn(&Self) -> bool) -> bool {
        match self.kind() {
            ExprKind::Hosted {
                native, arguments, ..
            } => {
                let for_host =
                    |argument: &Self| has_no_dictionary(argument) || argument.is_for_host(has_no_dictionary);
                native.is_made() || arguments.iter().any(for_host)
            }
            ExprKind::Dictionary { argument, .. } if self.hosted().is_some() => {
                has_no_dictionary(argument) || argument.is_for_host(has_no_dictionary)
            }
            _ => false,
        }
    }

    /// Adds to `texts` the texts of build sides, by number and column, that are returned and nothing else is
    /// computed of, and to `others` what is looked up beside them.
    pub fn collect_returned_texts(
        &self,
        texts: &mut BTreeSet<(usize, usize)>,
        others: &mut BTreeSet<(usize, usize)>,
    ) {
        for value in self.values_for_host() {
            let mut value = value;
            while let Some((condition, inner)) = value.as_only_where() {
                others.extend(condition.lookups().into_keys());
                value = inner;
            }
            match value.kind() {
                ExprKind::Lookup {
                    dimension,
                    column,
                    key,
                    ..
                } if value.is_text_of_row() => {
                    texts.insert((*dimension, *column));
                    others.extend(key.lookups().into_keys());
                }
                _ => others.extend(value.lookups().into_keys()),
            }
        }
    }

    /// The values that the device writes of an output where the host computes all that it can: the output, or
    /// what that is computed of.
    pub fn values_for_host(&self) -> Vec<&Self> {
        match self.hosted() {
            Some((_, arguments)) => arguments.into_iter().flat_map(Self::values_for_host).collect(),
            None => vec![self],
        }
    }

    /// The values that the device writes of an output: itself, or what the host computes it of, whatever the
    /// encodings of columns.
    pub fn returned(&self) -> Vec<&Self> {
        match self.hosted() {
            Some((_, arguments)) if self.is_for_host(&|_| false) => {
                arguments.into_iter().flat_map(Self::returned).collect()
            }
            _ => vec![self],
        }
    }
}
