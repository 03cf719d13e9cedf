//! UNION ALL of inputs that are correlated by the same equalities.

use super::condition::{Condition, Kind};
use super::domain::columns_of;
use super::lifted::{Lifted, Lifting};
use datafusion::common::{Column, Result, not_impl_err};
use datafusion::logical_expr::{Expr, LogicalPlan, Operator, Projection, Union};
use std::collections::BTreeSet;
use std::sync::Arc;

impl Lifting<'_> {
    /// The inputs with the same equalities: over the values of the outer rows if they have others.
    pub(super) fn with_equal_keys(&mut self, inputs: Vec<Lifted>) -> Result<Vec<Lifted>> {
        let is_in = |condition: &Condition, other: &Lifted| {
            match &condition.kind {
            Kind::Equal { op, outer, .. } => other.conditions.iter().any(|other| {
                matches!(&other.kind, Kind::Equal { op: same, outer: value, .. } if same == op && value == outer)
            }),
            Kind::Other(_) => false,
        }
        };
        let are_in = |one: &Lifted, other: &Lifted| {
            one.conditions.len() == other.conditions.len()
                && one.conditions.iter().all(|condition| is_in(condition, other))
        };
        if let [first, others @ ..] = &inputs[..]
            && others
                .iter()
                .all(|other| are_in(first, other) && are_in(other, first))
        {
            return Ok(inputs);
        }
        let mut columns = BTreeSet::new();
        for input in &inputs {
            columns.extend(columns_of(&input.conditions)?);
        }
        let inputs = inputs.into_iter();
        let inputs = inputs.map(|input| self.over_domain_if_any(input, columns.clone()));
        inputs.collect()
    }

    /// The union of the lifted inputs, with a column for each equality.
    pub(super) fn united(&self, union: &Union, inputs: Vec<Lifted>) -> Result<Lifted> {
        let width = union.schema.fields().len();
        let names: Vec<String> = (0..width).map(|_| self.fresh_name()).collect();
        let mut keys: Option<Vec<(Condition, Operator, Expr, String)>> = None;
        let mut projected = Vec::new();
        for (lifted, before) in inputs.into_iter().zip(&union.inputs) {
            let mut equal = equalities(lifted.conditions)?;
            let keys = keys.get_or_insert_with(|| {
                let keys = equal.iter().cloned();
                keys.map(|(_, op, outer, condition)| (condition, op, outer, self.fresh_name()))
                    .collect()
            });
            let own = before.schema().columns().into_iter().zip(&names);
            let mut columns: Vec<Expr> = own.map(|(own, name)| Expr::Column(own).alias(name)).collect();
            for (_, op, outer, name) in keys.iter() {
                let at = equal
                    .iter()
                    .position(|(_, other, value, _)| other == op && value == outer);
                let Some(at) = at else {
                    return unequal();
                };
                columns.push(equal.swap_remove(at).0.alias(name));
            }
            if !equal.is_empty() {
                return unequal();
            }
            let input = Projection::try_new(columns, Arc::new(lifted.plan))?;
            projected.push(Arc::new(LogicalPlan::Projection(input)));
        }
        let keys = keys.unwrap_or_default();
        let plan = Union::try_new(projected)?;
        let own = names.iter().zip(union.schema.iter());
        let own = own.map(|(name, (relation, field))| {
            Expr::Column(Column::new_unqualified(name)).alias_qualified(relation.cloned(), field.name())
        });
        let key = |name: &String| Expr::Column(Column::new_unqualified(name));
        let columns = own.chain(keys.iter().map(|(.., name)| key(name))).collect();
        let plan = Projection::try_new(columns, Arc::new(LogicalPlan::Union(plan)))?;
        let conditions = keys
            .into_iter()
            .map(|(condition, _, _, name)| condition.with_inner(|_| key(&name)));
        Ok(Lifted {
            plan: LogicalPlan::Projection(plan),
            conditions: conditions.collect(),
        })
    }
}

/// The sides of equalities; refuses other conditions.
fn equalities(conditions: Vec<Condition>) -> Result<Vec<(Expr, Operator, Expr, Condition)>> {
    let equal = conditions.into_iter().map(|condition| match &condition.kind {
        Kind::Equal { inner, op, outer } => Ok((inner.clone(), *op, outer.clone(), condition)),
        Kind::Other(_) => unequal(),
    });
    equal.collect()
}

fn unequal<T>() -> Result<T> {
    not_impl_err!(
        "UNION in a subquery whose inputs are not all correlated by equalities with the same values of the query \
         around it\nhint: write a subquery for each input, with OR or UNION ALL outside"
    )
}
