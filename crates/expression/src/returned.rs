//! The returned values of a row: values that the device writes, and functions that the host computes from
//! them.
//!
//! A computed string cannot be written by a kernel. If it is returned, it need not be: its arguments are
//! returned, and DataFusion evaluates the expression when the rows that passed are gathered.

use super::host_function::HostFunction;
use super::ir::{Expr, ExprKind};
use super::string::is_string;
use std::collections::BTreeSet;
use std::sync::Arc;

impl Expr {
    /// The function and its arguments, if the host computes this value when it is returned and has no
    /// dictionary. Numbers that the device computes are excluded.
    pub fn hosted(&self) -> Option<(&Arc<HostFunction>, Vec<&Self>)> {
        match self.kind() {
            ExprKind::Hosted {
                function, arguments, ..
            } => Some((function, arguments.iter().collect())),
            ExprKind::Dictionary {
                function,
                argument,
                native,
            } if (native.is_none() || is_string(self.data_type()))
                && (argument.is_string_of_row() || argument.hosted().is_some()) =>
            {
                Some((function, vec![argument]))
            }
            _ => None,
        }
    }

    /// Whether it is a string stored in a table: a column, or a column of a build side, even if it is NULL
    /// for rows without a match.
    fn is_string_of_row(&self) -> bool {
        match self.kind() {
            ExprKind::Column(_) => is_string(self.data_type()),
            ExprKind::Lookup { made, .. } => is_string(self.data_type()) && !made,
            _ => (self.as_only_where()).is_some_and(|(_, value)| value.is_string_of_row()),
        }
    }

    /// Whether the host computes it when it is returned. `has_no_dictionary` is true for stored strings
    /// without a dictionary.
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

    /// Adds the strings of build sides that are only returned to `texts`, by number and column, and all other
    /// looked-up columns to `others`.
    pub fn collect_returned_strings(
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
                    build_side,
                    column,
                    key,
                    ..
                } if value.is_string_of_row() => {
                    texts.insert((*build_side, *column));
                    others.extend(key.lookups().into_keys());
                }
                _ => others.extend(value.lookups().into_keys()),
            }
        }
    }

    /// The values that the device writes for an output if the host computes as much as possible: the output
    /// itself, or its arguments.
    pub fn values_for_host(&self) -> Vec<&Self> {
        match self.hosted() {
            Some((_, arguments)) => arguments.into_iter().flat_map(Self::values_for_host).collect(),
            None => vec![self],
        }
    }

    /// The values that the device writes for an output, independent of the encodings of columns: the output
    /// itself, or the arguments of the host's function.
    pub fn returned(&self) -> Vec<&Self> {
        match self.hosted() {
            Some((_, arguments)) if self.is_for_host(&|_| false) => {
                arguments.into_iter().flat_map(Self::returned).collect()
            }
            _ => vec![self],
        }
    }
}
