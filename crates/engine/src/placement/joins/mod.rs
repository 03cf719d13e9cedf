//! Joins that are part of a pipeline, the one over the larger table.
//!
//! A join stays inside a pipeline if each row has at most one match: the columns of the other side are lookup
//! expressions ([`ExprKind::Lookup`](galatea_expression::ExprKind::Lookup)), and rows without a match are
//! filtered out, or get NULL. The build side (`build_side.rs`) is built first, and only then are its keys
//! known to be unique. If they are not, the rows of the join are those of a multimap join (`pairs.rs`).
//!
//! The build side of an inner join is the one with the smaller underlying table, because filters with unknown
//! selectivity make it smaller, not larger; if sizes are unknown, it is DataFusion's build side. A semijoin,
//! an antijoin or an outer join determines it.

pub(in crate::placement) mod build_side;
pub(in crate::placement) mod eager;
pub(in crate::placement) mod pairs;

use crate::placement::chain::{Chain, Finder};
use crate::placement::nodes::{by_size, input, key_of, other, refuse, statistics};
use crate::placement::plan_node::Join;
use arrow::datatypes::{DataType, Schema};
use build_side::{Groups, NotEqualSemiJoin, Side, buildable, side};
use datafusion::common::{JoinSide, JoinType, NullEquality, ScalarValue};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::HashJoinExec;
use galatea_base::reason::Reason;
use galatea_expression::{Expr, is_key, is_string, lower};
use std::sync::Arc;

/// The chain of the join `plan`: a lookup, or else a multimap join.
pub(in crate::placement) fn chain(
    join: Join<'_>,
    plan: &Arc<dyn ExecutionPlan>,
    finder: &Finder<'_>,
) -> Result<Chain, Reason> {
    if let Join::Hash(join) = join
        && let Ok(chain) = lookup(join, finder)
    {
        return Ok(chain);
    }
    pairs::chain(join, plan, finder)
}

/// The chain of the probe side, which looks up the build side.
fn lookup(join: &HashJoinExec, finder: &Finder<'_>) -> Result<Chain, Reason> {
    if join.fetch().is_some() {
        return Err(refuse("a limit inside the join"));
    }
    if join.null_equality() != NullEquality::NullEqualsNothing {
        return Err(refuse("NULL keys that have partners"));
    }
    let facts = match join.join_type() {
        JoinType::Inner => by_size(join.left(), join.right()).to_vec(),
        JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark | JoinType::Left => vec![JoinSide::Left],
        JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark | JoinType::Right => {
            vec![JoinSide::Right]
        }
        other => return Err(refuse(format!("a {other} join has no device version"))),
    };
    let mut chains: Vec<_> = (facts.into_iter())
        .filter_map(|side| Some((side, finder.below(input(join, side)).ok()?)))
        .filter(|(_, chain)| finder.takes(chain))
        .collect();
    if let [(larger, first), (smaller, second)] = chains.as_slice() {
        let keys = |side: JoinSide| join.on().iter().map(move |pair| key_of(pair, side));
        // Groups are looked up rather than scanned, unless several share a key.
        let swaps = match (&first.groups, &second.groups) {
            (Some(groups), None) => !first.shares_keys(groups, input(join, *larger), keys(*larger)),
            (_, Some(groups)) => second.shares_keys(groups, input(join, *smaller), keys(*smaller)),
            (None, None) => false,
        };
        if swaps {
            chains.swap(0, 1);
        }
    }
    let (fact, chain) = (chains.into_iter().next())
        .ok_or_else(|| refuse("no table among the sides that may be the larger one"))?;
    attach(join, fact, chain, finder)
}

/// The pair of keys for the lookup; the others are compared afterwards. The build side's key with the widest
/// range is the one that may be unique.
fn key_pair(build_side: &Arc<dyn ExecutionPlan>, keys: &[&Arc<dyn PhysicalExpr>]) -> Option<usize> {
    if keys.len() == 1 {
        return Some(0);
    }
    let known = statistics(build_side);
    let span = |key: &Arc<dyn PhysicalExpr>| {
        let column = key.downcast_ref::<Column>()?;
        let bounds = known.as_ref()?.column_statistics.get(column.index())?;
        let number = |value: Option<&ScalarValue>| value.and_then(galatea_expression::integer_literal);
        number(bounds.max_value.get_value())?.checked_sub(number(bounds.min_value.get_value())?)
    };
    // Among equally wide ranges, the first one.
    (0..keys.len()).rev().max_by_key(|number| span(keys[*number]))
}

/// Adds the build side to the probe side's pipeline.
fn attach(
    join: &HashJoinExec,
    fact: JoinSide,
    mut chain: Chain,
    finder: &Finder<'_>,
) -> Result<Chain, Reason> {
    let build_side = input(join, other(fact));
    let pairs: Vec<_> = (join.on().iter())
        .map(|(left, right)| match fact {
            JoinSide::Right => (right, left),
            _ => (left, right),
        })
        .collect();
    let fact_schema = input(join, fact).schema();
    let wanted = (pairs.iter())
        .map(|(key, _)| Ok(lower(key, &fact_schema)?.substitute(&chain.columns)))
        .collect::<Result<Vec<Expr>, Reason>>()?;
    let schema = build_side.schema();
    // All keys together form the lookup key if a pipeline can build the build side; otherwise one does, and
    // the others are compared.
    let keys: Vec<_> = pairs.iter().map(|(_, key)| *key).collect();
    let alike = |number: usize| {
        let key_type = keys[number].data_type(&schema);
        let wanted = wanted[number].data_type();
        key_type.is_ok_and(|key_type| key_type == *wanted || is_string(&key_type) && is_string(wanted))
    };
    let several = pairs.len() > 1;
    let together = several && (0..pairs.len()).all(alike);
    // Groups are looked up only by their own key.
    let of_groups =
        (0..keys.len()).find(|number| several && Groups::of(build_side, keys[*number], finder).is_some());
    let tuple = match of_groups {
        None if together => buildable(build_side, &keys, finder),
        _ => None,
    };
    let chosen: Vec<usize> = match tuple {
        Some(_) => (0..pairs.len()).collect(),
        None => {
            let chosen = of_groups.or_else(|| key_pair(build_side, &keys));
            vec![chosen.ok_or_else(|| refuse("no keys"))?]
        }
    };
    for number in &chosen {
        check_key(keys[*number], &schema, &wanted[*number])?;
    }
    let kind = *join.join_type();
    let anti = matches!(kind, JoinType::LeftAnti | JoinType::RightAnti);
    let mark = matches!(kind, JoinType::LeftMark | JoinType::RightMark);
    // A semijoin or antijoin reads no columns of the build side.
    let looks_up = matches!(kind, JoinType::Inner | JoinType::Left | JoinType::Right);
    if let (false, false, [number]) = (looks_up, mark, chosen.as_slice())
        && let Some(different) =
            NotEqualSemiJoin::of(join, fact, &chain, (keys[*number], &wanted[*number]), finder)
    {
        return Ok(different.attach(chain, build_side, keys[*number], anti));
    }
    let conditional = join.filter().is_some() || pairs.len() > chosen.len();
    if anti && conditional {
        return Err(refuse("an antijoin with a condition beside the keys"));
    }
    let Side {
        columns: looked_up,
        filters,
        source,
        buildable,
    } = side(
        build_side,
        &(chosen.iter())
            .map(|number| (keys[*number], &wanted[*number]))
            .collect::<Vec<_>>(),
        tuple,
        (chain.build_sides.len(), looks_up || conditional, anti),
        finder,
    )?;
    if source.unique && matches!((finder.found)(&source), Some(Reason::RepeatedKey { .. })) {
        return Err(Reason::RepeatedKey {
            expression: "a join".into(),
            rows: 2,
        });
    }
    let own = chain.columns.clone();
    let member = Expr::member(chain.build_sides.len(), source.wanted.clone());
    let test = match (join.null_aware, anti) {
        (true, _) => Expr::absent(chain.build_sides.len(), source.wanted.clone()),
        (false, true) => member.negated(),
        (false, false) => member,
    };
    // The host detects whether NULL is among the keys of NOT IN.
    let buildable = buildable.filter(|_| !join.null_aware);
    let mut conditions = vec![test];
    conditions.extend(filters);
    for number in (0..pairs.len()).filter(|number| !chosen.contains(number)) {
        let key = lower(keys[number], &schema)?.substitute(&looked_up);
        if wanted[number].data_type() != key.data_type() {
            return Err(refuse("keys of different types"));
        }
        conditions.push(Expr::equal(wanted[number].clone(), key));
    }
    if let Some(filter) = join.filter() {
        let columns: Vec<Expr> = (filter.column_indices().iter())
            .map(|column| match column.side == fact {
                true => own[column.index].clone(),
                false => looked_up[column.index].clone(),
            })
            .collect();
        let filter = lower(filter.expression(), filter.schema())?.substitute(&columns);
        conditions.extend(filter.conjuncts());
    }
    chain.build_sides.push(source);
    chain.buildable.push(buildable);
    let mut looked_up: Vec<(Expr, Option<usize>)> =
        looked_up.into_iter().map(|column| (column, None)).collect();
    let mut marks = None;
    match (kind, Expr::all(conditions.iter().cloned())) {
        // Never NULL: a condition that is NULL finds no match.
        (JoinType::LeftMark | JoinType::RightMark, Some(partner)) => {
            marks = Some((Expr::not_true(partner).negated(), None));
        }
        // Rows without a match are kept, with NULL in the looked-up columns.
        (JoinType::Left | JoinType::Right, Some(partner)) => {
            for (column, _) in &mut looked_up {
                *column = Expr::only_where(partner.clone(), column.clone());
            }
        }
        _ => chain.filters.extend(conditions),
    }
    let own = own.into_iter().zip(chain.plain.clone());
    let columns: Vec<(Expr, Option<usize>)> = match (looks_up, fact) {
        (false, _) => own.chain(marks).collect(),
        (true, JoinSide::Right) => looked_up.into_iter().chain(own).collect(),
        (true, _) => own.chain(looked_up).collect(),
    };
    chain.project(match &join.projection {
        Some(projection) => projection.iter().map(|i| columns[*i].clone()).collect(),
        None => columns,
    });
    Ok(chain)
}

/// Refuses keys that are neither numbers nor strings, or have another type than the value they are compared
/// with.
fn check_key(key: &Arc<dyn PhysicalExpr>, schema: &Schema, wanted: &Expr) -> Result<(), Reason> {
    let key_type = (key.data_type(schema)).map_err(|error| refuse(error.to_string()))?;
    let text = |t: &DataType| is_key(t) && t.primitive_width().is_none();
    let alike = wanted.data_type() == &key_type || text(wanted.data_type()) && text(&key_type);
    if is_key(&key_type) && alike {
        return Ok(());
    }
    Err(Reason::Operator {
        operator: "JOIN ON".into(),
        left: wanted.data_type().clone(),
        right: key_type,
    })
}
