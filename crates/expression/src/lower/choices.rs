//! CASE and IN.

use super::{Lowering, cast, comparable, plain, typed_null};
use crate::ir::{Expr, ExprKind};
use crate::operator::Comparison;
use crate::string::is_string;
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{CaseExpr, InListExpr, Literal};
use galatea_base::reason::Reason;
use std::sync::Arc;

impl Lowering<'_> {
    pub(super) fn case(&self, case: &CaseExpr, data_type: &DataType, nullable: bool) -> Result<Expr, Reason> {
        let base = case.expr().map(|base| self.lower(base)).transpose()?;
        let mut branches = Vec::with_capacity(case.when_then_expr().len());
        for (when, then) in case.when_then_expr() {
            let condition = self.lower(when)?;
            let condition = match &base {
                None => condition,
                Some(base) => {
                    if !comparable(base.data_type(), condition.data_type()) {
                        return Err(Reason::Operator {
                            operator: "CASE WHEN".to_owned(),
                            left: base.data_type().clone(),
                            right: condition.data_type().clone(),
                        });
                    }
                    let nullable = base.nullable() || condition.nullable();
                    let kind = ExprKind::Compare {
                        operator: Comparison::Equal,
                        left: base.clone(),
                        right: condition,
                        equal_zeros: false,
                    };
                    Expr::new(kind, DataType::Boolean, nullable)
                }
            };
            branches.push((condition, self.branch(then, data_type)?));
        }
        let otherwise = case
            .else_expr()
            .map(|otherwise| self.branch(otherwise, data_type))
            .transpose()?;
        Ok(Expr::new(
            ExprKind::Case { branches, otherwise },
            data_type.clone(),
            nullable,
        ))
    }

    /// A result of CASE, converted to the type of the CASE.
    pub(super) fn branch(
        &self,
        result: &Arc<dyn PhysicalExpr>,
        data_type: &DataType,
    ) -> Result<Expr, Reason> {
        if let Some(value) = result
            .downcast_ref::<Literal>()
            .filter(|literal| literal.value().is_null())
        {
            return typed_null(value.value(), data_type);
        }
        let result = self.lower(result)?;
        if result.data_type() == data_type || (is_string(result.data_type()) && is_string(data_type)) {
            return Ok(result);
        }
        cast(result, data_type, true)
    }

    pub(super) fn in_list(&self, in_list: &InListExpr, nullable: bool) -> Result<Expr, Reason> {
        let value = self.lower(in_list.expr())?;
        let constants: Option<Vec<ScalarValue>> =
            in_list.list().iter().map(|item| self.constant(item)).collect();
        if let Some(constants) = constants {
            let list_has_null = constants.iter().any(ScalarValue::is_null);
            let list: Vec<_> = constants
                .into_iter()
                .filter(|item| !item.is_null())
                .map(plain)
                .collect();
            if let Some(item) = list
                .iter()
                .find(|item| !comparable(value.data_type(), &item.data_type()))
            {
                return Err(Reason::Operator {
                    operator: "IN".to_owned(),
                    left: value.data_type().clone(),
                    right: item.data_type(),
                });
            }
            let kind = ExprKind::InList {
                value,
                list,
                list_has_null,
                negated: in_list.negated(),
            };
            return Ok(Expr::new(kind, DataType::Boolean, nullable));
        }
        let mut found: Option<Expr> = None;
        for item in in_list.list() {
            let item = self.lower(item)?;
            if !comparable(value.data_type(), item.data_type()) {
                return Err(Reason::Operator {
                    operator: "IN".to_owned(),
                    left: value.data_type().clone(),
                    right: item.data_type().clone(),
                });
            }
            let kind = ExprKind::Compare {
                operator: Comparison::Equal,
                left: value.clone(),
                right: item,
                equal_zeros: false,
            };
            let equal = Expr::new(kind, DataType::Boolean, true);
            found = Some(match found {
                None => equal,
                Some(found) => Expr::new(ExprKind::Or(found, equal), DataType::Boolean, true),
            });
        }
        let found = found.unwrap_or_else(|| Expr::literal(ScalarValue::Boolean(Some(false))));
        Ok(if in_list.negated() {
            Expr::new(ExprKind::Not(found), DataType::Boolean, true)
        } else {
            found
        })
    }
}
