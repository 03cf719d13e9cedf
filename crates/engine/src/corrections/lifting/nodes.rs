//! Each operator of a correlated subquery, adapted to the rows of all outer rows.

use super::condition::Condition;
use super::domain::{all_inside, outer_columns};
use super::is_total;
use super::joins::with_conditions_below;
use super::lifted::{Lifted, Lifting};
use super::settle::{Reader, only, sets_of, with_columns};
use crate::window_filters::{named_as, window_function};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, Result, not_impl_err};
use datafusion::logical_expr::expr::GroupingSet;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{
    Aggregate, Distinct, DistinctOn, Expr, Filter, Limit, LogicalPlan, Projection, Sort, SortExpr,
    SubqueryAlias, Unnest, Window, cast, lit,
};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

impl Lifting<'_> {
    /// The plan without its conditions. `counts_copies`: whether the number of equal rows matters.
    pub(in super::super) fn lift(&mut self, plan: LogicalPlan, counts_copies: bool) -> Result<Lifted> {
        if !is_correlated(&plan)? {
            self.is_changed |= self.has_conditions && !is_simple(&plan)?;
            return Ok(Lifted::without(plan));
        }
        if matches!(plan, LogicalPlan::Filter(_) | LogicalPlan::Join(_)) || !plan.contains_outer_reference() {
            return self.operator(plan, counts_copies);
        }
        if matches!(&plan, LogicalPlan::Aggregate(aggregate) if is_total(aggregate)) {
            return self.operator(plan, counts_copies);
        }
        match self.read_inside(&plan)? {
            Some(plan) => self.operator(plan, counts_copies),
            None => {
                self.is_impossible = true;
                Ok(Lifted::without(plan))
            }
        }
    }

    /// An operator over rows with the outer columns that its expressions read; `None` if the values of these
    /// cannot be computed.
    fn read_inside(&mut self, plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
        let expressions = plan.expressions();
        let mut columns = BTreeSet::new();
        for expression in &expressions {
            columns.extend(outer_columns(expression)?);
        }
        let [input] = plan.inputs()[..] else {
            return Ok(None);
        };
        let Some((rows, inside)) = self.beside_domain(input.clone(), &columns)? else {
            return Ok(None);
        };
        let expressions = all_inside(expressions, &inside)?;
        plan.with_new_exprs(expressions, vec![rows]).map(Some)
    }

    fn operator(&mut self, plan: LogicalPlan, counts_copies: bool) -> Result<Lifted> {
        match plan {
            LogicalPlan::Filter(filter) => self.filter(&filter, counts_copies),
            LogicalPlan::Projection(projection) => self.projection(&projection, counts_copies),
            LogicalPlan::SubqueryAlias(alias) => self.alias(&alias, counts_copies),
            LogicalPlan::Join(join) => {
                let left = self.lift(join.left.as_ref().clone(), counts_copies)?;
                let right = self.lift(join.right.as_ref().clone(), counts_copies)?;
                self.is_changed |= self.has_conditions && !is_simple_join(&join);
                self.joined(&join, left, right)
            }
            plan => {
                let lifted = self.reading_together(&plan, counts_copies)?;
                self.is_changed = true;
                Ok(lifted)
            }
        }
    }

    /// An operator that DataFusion does not adapt, or not always.
    fn reading_together(&mut self, plan: &LogicalPlan, counts_copies: bool) -> Result<Lifted> {
        match plan {
            LogicalPlan::Aggregate(aggregate) => self.aggregate(aggregate, counts_copies),
            LogicalPlan::Window(window) => self.window(window),
            LogicalPlan::Distinct(Distinct::All(input)) => {
                let lifted = self.lift(input.as_ref().clone(), counts_copies)?;
                let own: Vec<Expr> = input.schema().columns().into_iter().map(Expr::Column).collect();
                let reader = Reader {
                    name: "DISTINCT or UNION",
                    by: &own,
                    splits: !counts_copies,
                };
                let settled = self.settled(lifted, &reader)?;
                let input = only(settled.plan, input.schema(), &settled.keys)?;
                Ok(Lifted {
                    plan: LogicalPlan::Distinct(Distinct::All(Arc::new(input))),
                    conditions: settled.conditions,
                })
            }
            LogicalPlan::Distinct(Distinct::On(on)) => self.distinct_on(on),
            LogicalPlan::Sort(sort) if sort.fetch.is_some() => {
                let rows = sort.fetch.and_then(|rows| i64::try_from(rows).ok());
                let input = LogicalPlan::Sort(Sort {
                    fetch: None,
                    ..sort.clone()
                });
                self.limit(&Limit {
                    skip: None,
                    fetch: rows.map(|rows| Box::new(lit(rows))),
                    input: Arc::new(input),
                })
            }
            LogicalPlan::Sort(sort) => {
                let lifted = self.lift(sort.input.as_ref().clone(), counts_copies)?;
                let plan = plan.with_new_exprs(plan.expressions(), vec![lifted.plan])?;
                Ok(Lifted { plan, ..lifted })
            }
            LogicalPlan::Limit(limit) => self.limit(limit),
            LogicalPlan::Union(union) => {
                let inputs = union.inputs.iter();
                let inputs = inputs.map(|input| self.lift(input.as_ref().clone(), counts_copies));
                let inputs = inputs.collect::<Result<Vec<_>>>()?;
                if self.is_impossible {
                    return Ok(Lifted::without(plan.clone()));
                }
                let inputs = self.with_equal_keys(inputs)?;
                self.united(union, inputs)
            }
            LogicalPlan::Unnest(unnest) => self.unnest(plan, unnest, counts_copies),
            LogicalPlan::Extension(_) => {
                self.is_impossible = true;
                Ok(Lifted::without(plan.clone()))
            }
            LogicalPlan::RecursiveQuery(_) => not_impl_err!(
                "WITH RECURSIVE that reads columns of the query around its subquery\nhint: join its result instead"
            ),
            _ => not_impl_err!("this operator in a correlated subquery: {}", plan.display()),
        }
    }

    fn filter(&mut self, filter: &Filter, counts_copies: bool) -> Result<Lifted> {
        let (input, predicate) = match filter.input.as_ref() {
            LogicalPlan::Join(join) => {
                let (join, above) = with_conditions_below(join, &filter.predicate)?;
                (LogicalPlan::Join(join), conjunction(above))
            }
            input => (input.clone(), Some(filter.predicate.clone())),
        };
        let lifted = self.lift(input, counts_copies)?;
        let Some(predicate) = predicate else {
            return Ok(lifted);
        };
        let (found, own) = Condition::split(&predicate);
        if found.iter().any(Condition::has_subquery) {
            let conditions = found.into_iter().chain(lifted.conditions).collect();
            let plan = match conjunction(own) {
                Some(own) => LogicalPlan::Filter(Filter::try_new(own, Arc::new(lifted.plan))?),
                None => lifted.plan,
            };
            if let Ok((over, _)) = self.over_domain(Lifted { plan, conditions }, BTreeSet::new())? {
                return Ok(over);
            }
            return not_impl_err!(
                "a condition with a column of the query around a subquery and a further correlated subquery\nhint: \
                 compute the further subquery in FROM, and compare its column"
            );
        }
        self.has_conditions |= !found.is_empty();
        let plan = match conjunction(own) {
            Some(own) => LogicalPlan::Filter(Filter::try_new(own, Arc::new(lifted.plan))?),
            None => lifted.plan,
        };
        let conditions = found.into_iter().chain(lifted.conditions).collect();
        Ok(Lifted { plan, conditions })
    }

    fn projection(&mut self, projection: &Projection, counts_copies: bool) -> Result<Lifted> {
        let lifted = self.lift(projection.input.as_ref().clone(), counts_copies)?;
        let mut columns = projection.expr.clone();
        let mut names = HashMap::new();
        for column in lifted.columns() {
            let same = |expr: &Expr| matches!(expr.clone().unalias(), Expr::Column(own) if own == *column);
            let name = match projection.expr.iter().position(same) {
                Some(at) => Column::from(projection.schema.qualified_field(at)),
                None => {
                    let name = self.fresh_name();
                    columns.push(Expr::Column(column.clone()).alias(&name));
                    Column::new_unqualified(name)
                }
            };
            names.insert(column.clone(), name);
        }
        let plan = LogicalPlan::Projection(Projection::try_new(columns, Arc::new(lifted.plan))?);
        Lifted::renamed(plan, lifted.conditions, &names)
    }

    fn alias(&mut self, alias: &SubqueryAlias, counts_copies: bool) -> Result<Lifted> {
        let lifted = self.lift(alias.input.as_ref().clone(), counts_copies)?;
        self.is_changed |= !lifted.conditions.is_empty();
        let before = lifted.plan.schema().columns();
        let plan = SubqueryAlias::try_new(Arc::new(lifted.plan), alias.alias.clone())?;
        let names = before.into_iter().zip(plan.schema.columns()).collect();
        Lifted::renamed(LogicalPlan::SubqueryAlias(plan), lifted.conditions, &names)
    }

    fn window(&mut self, window: &Window) -> Result<Lifted> {
        let lifted = self.lift(window.input.as_ref().clone(), true)?;
        let partitions = window.window_expr.iter().filter_map(window_function);
        let partitions: Vec<&Vec<Expr>> = partitions.map(|call| &call.params.partition_by).collect();
        let (first, others) = partitions
            .split_first()
            .map_or((Vec::new(), &[][..]), |(first, others)| {
                ((*first).clone(), others)
            });
        let shared = first
            .into_iter()
            .filter(|key| others.iter().all(|keys| keys.contains(key)));
        let shared: Vec<Expr> = shared.collect();
        let reader = Reader {
            name: "a window function",
            by: &shared,
            splits: false,
        };
        let settled = self.settled(lifted, &reader)?;
        let calls = window.window_expr.iter().map(|call| match window_function(call) {
            Some(function) => {
                let mut function = function.clone();
                let keys = settled.keys.iter().cloned().map(Expr::Column);
                function.params.partition_by.extend(keys);
                named_as(call, function)
            }
            None => call.clone(),
        });
        Ok(Lifted {
            plan: LogicalPlan::Window(Window::try_new(calls.collect(), Arc::new(settled.plan))?),
            conditions: settled.conditions,
        })
    }

    fn aggregate(&mut self, aggregate: &Aggregate, counts_copies: bool) -> Result<Lifted> {
        let is_distinct = aggregate.aggr_expr.is_empty();
        let lifted = self.lift(aggregate.input.as_ref().clone(), counts_copies || !is_distinct)?;
        let sets = match aggregate.group_expr.as_slice() {
            [Expr::GroupingSet(sets)] => Some(sets_of(sets)),
            _ => None,
        };
        let has_total = sets.as_ref().map_or(aggregate.group_expr.is_empty(), |sets| {
            sets.iter().any(Vec::is_empty)
        });
        if has_total && !self.is_impossible {
            if aggregate.group_expr.is_empty()
                && let Some(total) = self.total(aggregate, lifted)?
            {
                return Ok(total);
            }
            return not_impl_err!(
                "an aggregate without GROUP BY, or with ROLLUP, CUBE or an empty grouping set, in this place of a \
                 subquery that reads columns of the query around it\nhint: compute it in a scalar or LATERAL subquery \
                 of its own"
            );
        }
        let reader = Reader {
            name: "GROUP BY",
            by: match sets {
                None => &aggregate.group_expr,
                Some(_) => &[],
            },
            splits: is_distinct && !counts_copies,
        };
        let settled = self.settled(lifted, &reader)?;
        let keys = settled.keys.iter().cloned().map(Expr::Column);
        let groups = match &sets {
            None => aggregate.group_expr.iter().cloned().chain(keys).collect(),
            // In front, so that grouping() has the same bits.
            Some(sets) => {
                let keys: Vec<Expr> = keys.collect();
                let sets = sets.iter().map(|set| [keys.as_slice(), set].concat());
                vec![Expr::GroupingSet(GroupingSet::GroupingSets(sets.collect()))]
            }
        };
        let calls = aggregate.aggr_expr.clone();
        let plan = LogicalPlan::Aggregate(Aggregate::try_new(Arc::new(settled.plan), groups, calls)?);
        let plan = match sets {
            None => plan,
            Some(_) => with_types(plan, aggregate, &settled.keys)?,
        };
        // A group that is an expression is a column above.
        let groups = aggregate.group_expr.iter().zip(aggregate.schema.columns());
        let groups: HashMap<&Expr, Column> = match reader.by.is_empty() {
            true => HashMap::new(),
            false => groups.collect(),
        };
        let conditions = settled.conditions.into_iter().map(|condition| {
            condition.with_inner(|inner| groups.get(&inner).cloned().map_or(inner, Expr::Column))
        });
        Ok(Lifted {
            plan,
            conditions: conditions.collect(),
        })
    }

    fn distinct_on(&mut self, on: &DistinctOn) -> Result<Lifted> {
        let lifted = self.lift(on.input.as_ref().clone(), true)?;
        let reader = Reader {
            name: "DISTINCT ON",
            by: &[],
            splits: false,
        };
        let settled = self.settled(lifted, &reader)?;
        let keys: Vec<Expr> = settled.keys.iter().cloned().map(Expr::Column).collect();
        let sorts = on.sort_expr.as_ref().map(|sorts| {
            let keys = keys.iter().map(|key| SortExpr::new(key.clone(), true, false));
            keys.chain(sorts.iter().cloned()).collect()
        });
        let plan = DistinctOn::try_new(
            keys.iter().chain(&on.on_expr).cloned().collect(),
            on.select_expr.iter().chain(&keys).cloned().collect(),
            sorts,
            Arc::new(settled.plan),
        )?;
        Ok(Lifted {
            plan: LogicalPlan::Distinct(Distinct::On(plan)),
            conditions: settled.conditions,
        })
    }

    fn limit(&mut self, limit: &Limit) -> Result<Lifted> {
        // A LIMIT above a projection is the same as one below it, next to the sort.
        let below = |input: &Arc<LogicalPlan>| {
            Arc::new(LogicalPlan::Limit(Limit {
                input: Arc::clone(input),
                ..limit.clone()
            }))
        };
        match limit.input.as_ref() {
            LogicalPlan::Projection(projection) => {
                let columns = projection.expr.clone();
                let moved = Projection::try_new(columns, below(&projection.input))?;
                self.projection(&moved, true)
            }
            LogicalPlan::SubqueryAlias(alias) => {
                let moved = SubqueryAlias::try_new(below(&alias.input), alias.alias.clone())?;
                self.alias(&moved, true)
            }
            input => {
                self.is_impossible |=
                    input.contains_outer_reference() && matches!(input, LogicalPlan::Sort(_));
                // The numbers of rows have the order of the sort.
                let input = match input {
                    LogicalPlan::Sort(sort) if sort.fetch.is_none() => sort.input.as_ref(),
                    input => input,
                };
                let input = self.lift(input.clone(), true)?;
                match self.is_impossible {
                    true => Ok(input),
                    false => self.limited(limit, input),
                }
            }
        }
    }

    fn unnest(&mut self, plan: &LogicalPlan, unnest: &Unnest, counts_copies: bool) -> Result<Lifted> {
        let lifted = self.lift(unnest.input.as_ref().clone(), counts_copies)?;
        // Copies of the columns that it unnests keep their values.
        let columns = lifted.columns().into_iter().cloned();
        let copies: HashMap<Column, Column> = columns
            .map(|column| (column, Column::new_unqualified(self.fresh_name())))
            .collect();
        let more = copies.iter();
        let more = more.map(|(column, copy)| (Expr::Column(column.clone()), copy.name.clone()));
        let input = with_columns(lifted.plan, more.collect())?;
        let plan = plan.with_new_exprs(plan.expressions(), vec![input])?;
        Lifted::renamed(plan, lifted.conditions, &copies)
    }
}

/// The columns of an aggregate by grouping sets with the types that they had with fewer keys.
fn with_types(plan: LogicalPlan, before: &Aggregate, keys: &[Column]) -> Result<LogicalPlan> {
    let own = before.schema.iter().map(|(relation, field)| {
        let column = Column::new(relation.cloned(), field.name());
        match field.name() == Aggregate::INTERNAL_GROUPING_ID {
            true => {
                let id = cast(Expr::Column(column), field.data_type().clone());
                id.alias_qualified(relation.cloned(), field.name())
            }
            false => Expr::Column(column),
        }
    });
    let columns = own.chain(keys.iter().cloned().map(Expr::Column)).collect();
    Ok(LogicalPlan::Projection(Projection::try_new(
        columns,
        Arc::new(plan),
    )?))
}

/// Whether a subquery's own operators read outer columns, except those of LATERAL subqueries inside.
pub(super) fn is_correlated(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply(|node| {
        if matches!(node, LogicalPlan::Subquery(_)) {
            return Ok(TreeNodeRecursion::Jump);
        }
        found |= node.contains_outer_reference();
        Ok(match found {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    })?;
    Ok(found)
}

/// Whether DataFusion leaves all operators of a plan without conditions as they are.
fn is_simple(plan: &LogicalPlan) -> Result<bool> {
    let mut is_simple = true;
    plan.apply(|node| {
        is_simple &= match node {
            LogicalPlan::Join(join) => is_simple_join(join),
            LogicalPlan::Filter(_)
            | LogicalPlan::Projection(_)
            | LogicalPlan::SubqueryAlias(_)
            | LogicalPlan::TableScan(_)
            | LogicalPlan::EmptyRelation(_)
            | LogicalPlan::Values(_) => true,
            _ => false,
        };
        Ok(match is_simple {
            true => TreeNodeRecursion::Continue,
            false => TreeNodeRecursion::Stop,
        })
    })?;
    Ok(is_simple)
}

fn is_simple_join(join: &datafusion::logical_expr::Join) -> bool {
    join.join_type == datafusion::common::JoinType::Inner
}
