//! Replacement of columns and of pending subquery values in expressions.

use std::cell::RefCell;
use std::sync::Arc;

use datafusion::common::DataFusionError;

use super::{Expr, ExprKind};
use crate::pending::{PendingScalar, Rebind};

impl Expr {
    /// Renumbers column `i` to `map(i)`.
    #[must_use]
    pub fn remap_columns(&self, map: &dyn Fn(usize) -> usize) -> Self {
        self.replace_leaves(&|column| match column.kind() {
            ExprKind::Column(index) => {
                Self::column(map(*index), column.data_type().clone(), column.nullable())
            }
            _ => column.clone(),
        })
    }

    /// Inlines a projection under the expression: column `i` becomes `exprs[i]`.
    ///
    /// # Panics
    /// If a column has no expression: this expression does not belong to that projection's schema.
    #[must_use]
    pub fn substitute(&self, exprs: &[Self]) -> Self {
        self.replace_leaves(&|column| {
            column
                .as_column()
                .map_or_else(|| column.clone(), |index| exprs[index].clone())
        })
    }

    /// Replaces pending constants by the values that subqueries have returned.
    ///
    /// # Errors
    /// DataFusion's error if a subquery has not run.
    pub fn resolved(&self) -> Result<Self, DataFusionError> {
        self.replace_pending(&|leaf, pending| {
            let value = ExprKind::Literal(pending.value()?);
            Ok(Self::new(value, leaf.data_type().clone(), true))
        })
    }

    /// Replaces DataFusion expressions that read values of subqueries.
    ///
    /// # Errors
    /// Those of `replace`.
    pub fn rebound(&self, replace: &Rebind<'_>) -> Result<Self, DataFusionError> {
        self.replace_pending(&|leaf, pending| {
            let value = ExprKind::Pending(pending.rebound(replace)?);
            Ok(Self::new(value, leaf.data_type().clone(), leaf.nullable()))
        })
    }

    /// Replaces each pending constant.
    fn replace_pending(
        &self,
        replace: &dyn Fn(&Self, &PendingScalar) -> Result<Self, DataFusionError>,
    ) -> Result<Self, DataFusionError> {
        let failed = RefCell::new(None);
        let replaced = self.replace_leaves(&|leaf| match leaf.kind() {
            ExprKind::Pending(pending) => replace(leaf, pending).unwrap_or_else(|error| {
                *failed.borrow_mut() = Some(error);
                leaf.clone()
            }),
            _ => leaf.clone(),
        });
        match failed.into_inner() {
            Some(error) => Err(error),
            None => Ok(replaced),
        }
    }

    /// Rebuilds the tree, replacing each column and each pending constant.
    fn replace_leaves(&self, replace: &dyn Fn(&Self) -> Self) -> Self {
        self.replaced(&|node| match node.kind() {
            ExprKind::Column(_) | ExprKind::Pending(_) => Some(replace(node)),
            _ => None,
        })
    }

    /// Rebuilds the tree, replacing each expression for which `replace` returns another one, from the root
    /// down.
    pub fn replaced(&self, replace: &dyn Fn(&Self) -> Option<Self>) -> Self {
        if let Some(other) = replace(self) {
            return other;
        }
        let go = |child: &Self| child.replaced(replace);
        let kind = match self.kind() {
            ExprKind::Column(_)
            | ExprKind::Pending(_)
            | ExprKind::Literal(_)
            | ExprKind::RowNumber
            | ExprKind::TableRow => {
                return self.clone();
            }
            ExprKind::Arithmetic {
                operator,
                left,
                right,
                checked,
            } => ExprKind::Arithmetic {
                operator: *operator,
                left: go(left),
                right: go(right),
                checked: *checked,
            },
            ExprKind::Bitwise {
                operator,
                left,
                right,
            } => ExprKind::Bitwise {
                operator: *operator,
                left: go(left),
                right: go(right),
            },
            ExprKind::Compare {
                operator,
                left,
                right,
                equal_zeros,
            } => ExprKind::Compare {
                operator: *operator,
                left: go(left),
                right: go(right),
                equal_zeros: *equal_zeros,
            },
            ExprKind::And(left, right) => ExprKind::And(go(left), go(right)),
            ExprKind::Or(left, right) => ExprKind::Or(go(left), go(right)),
            ExprKind::Not(input) => ExprKind::Not(go(input)),
            ExprKind::IsNull(input) => ExprKind::IsNull(go(input)),
            ExprKind::Negate(input) => ExprKind::Negate(go(input)),
            ExprKind::LateMaterialised(input) => ExprKind::LateMaterialised(go(input)),
            ExprKind::Case { branches, otherwise } => ExprKind::Case {
                branches: branches.iter().map(|(when, then)| (go(when), go(then))).collect(),
                otherwise: otherwise.as_ref().map(go),
            },
            ExprKind::InList {
                value,
                list,
                list_has_null,
                negated,
            } => ExprKind::InList {
                value: go(value),
                list: list.clone(),
                list_has_null: *list_has_null,
                negated: *negated,
            },
            ExprKind::Cast { input, safe } => ExprKind::Cast {
                input: go(input),
                safe: *safe,
            },
            ExprKind::Call { function, arguments } => ExprKind::Call {
                function: function.clone(),
                arguments: arguments.iter().map(go).collect(),
            },
            ExprKind::Dictionary {
                function,
                argument,
                native,
            } => ExprKind::Dictionary {
                function: Arc::clone(function),
                argument: go(argument),
                native: native.as_ref().map(go),
            },
            ExprKind::Hosted {
                function,
                arguments,
                native,
            } => ExprKind::Hosted {
                function: Arc::clone(function),
                arguments: arguments.iter().map(go).collect(),
                native: go(native),
            },
            ExprKind::Tuple(parts) => ExprKind::Tuple(parts.iter().map(go).collect()),
            ExprKind::Member { build_side, key } => ExprKind::Member {
                build_side: *build_side,
                key: go(key),
            },
            ExprKind::Absent { build_side, key } => ExprKind::Absent {
                build_side: *build_side,
                key: go(key),
            },
            ExprKind::Lookup {
                build_side,
                column,
                name,
                made,
                key,
            } => ExprKind::Lookup {
                build_side: *build_side,
                column: *column,
                name: name.clone(),
                made: *made,
                key: go(key),
            },
        };
        Self::new(kind, self.data_type().clone(), self.nullable()).with_origin(self.origin().cloned())
    }
}
