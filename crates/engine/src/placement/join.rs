//! Joins of a fact table with dimensions by foreign key: part of the fact table's pipeline.
//!
//! A join stays inside a pipeline when each row has one partner at most and finds it by one key: the columns of the
//! dimension are expressions over that key ([`ExprKind::Lookup`](crate::expression::ExprKind::Lookup)), and rows without a partner
//! are filtered out. The dimension's rows are collected first, whatever plan makes them. Whether its keys are unique and
//! close together is seen only then; if not, the join is the CPU's.
//!
//! Which side is the dimension: of an inner join the smaller, by the rows of the tables underneath, because filters that
//! DataFusion can only guess at make dimensions smaller, not larger; the build side where that is not known. A semijoin or
//! an antijoin says it itself, and asks for existence alone, so that keys may be repeated.

use super::subtree::{Chain, Subtree, node, statistics};
use crate::expression::{Expr, MAX_INDICES, MAX_PAYLOAD, domain, is_key, lower, representable};
use crate::history::PlanKey;
use crate::pipeline::{PipelinePlan, SinkPlan};
use crate::placement::PipelineSource;
use crate::reason::Reason;
use arrow::datatypes::{DataType, Schema};
use datafusion::common::{JoinSide, JoinType, NullEquality, ScalarValue};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::HashJoinExec;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A table whose rows a pipeline looks up by key.
#[derive(Debug, Clone)]
pub struct DimensionSource {
    /// What makes its rows.
    pub plan: Arc<dyn ExecutionPlan>,
    /// The key, over the plan's columns.
    pub key: Arc<dyn PhysicalExpr>,
    /// What is looked up, over the pipeline's columns.
    pub wanted: Expr,
    /// Whether no two rows may have the same key.
    pub unique: bool,
    /// Rows it is expected to have.
    pub rows: Option<u64>,
    /// By what a refusal of its rows at run time is remembered, whatever pipeline looks them up.
    pub shape: Option<PlanKey>,
    /// Why its rows cannot be arranged on the host, if that is known before.
    pub limit: Option<Reason>,
    /// The pipeline that makes it on the device; otherwise its plan runs and its rows are arranged on the host.
    pub build: Option<Build>,
}

/// A build side that a pipeline makes.
#[derive(Debug, Clone)]
pub struct Build {
    /// The pipeline.
    pub subtree: Box<Subtree>,
    /// By what a refusal at run time is remembered.
    pub shape: Option<PlanKey>,
}

/// A build side whose columns are not chosen yet.
pub(super) struct Buildable {
    chain: Chain,
    key: Expr,
}

impl Buildable {
    /// The build side of `plan` by `key`, if a pipeline over a table can make it.
    fn of(plan: &Arc<dyn ExecutionPlan>, key: &Arc<dyn PhysicalExpr>) -> Option<Self> {
        let chain = Chain::below(plan).ok()?;
        if matches!(chain.source, PipelineSource::Plan(_)) {
            return None;
        }
        let key = lower(key, &plan.schema()).ok()?.substitute(&chain.columns);
        domain(key.data_type())?;
        Some(Self { chain, key })
    }

    /// The pipeline that makes the build side with those columns.
    pub(super) fn build(self, columns: &[usize], unique: bool) -> Result<Subtree, Reason> {
        let Self { mut chain, key } = self;
        if key.nullable() {
            chain.filters.push(key.is_null().negated());
        }
        let columns: Vec<(usize, Expr)> = (columns.iter())
            .map(|column| (*column, chain.columns[*column].clone()))
            .collect();
        chain.finish(
            SinkPlan::Build { key, columns, unique },
            Arc::new(Schema::empty()),
        )
    }
}

/// A key as people read it.
fn key_name(key: &Arc<dyn PhysicalExpr>) -> String {
    key.downcast_ref::<Column>()
        .map_or_else(|| key.to_string(), |column| column.name().to_owned())
}

impl DimensionSource {
    /// Name of the key.
    pub fn key_name(&self) -> String {
        key_name(&self.key)
    }

    /// The lookup as people read it, over the pipeline's columns.
    pub fn named(&self, columns: &Schema) -> String {
        let rows = self
            .rows
            .map_or_else(|| "unknown".to_string(), |rows| rows.to_string());
        let lookup = format!("{} on {}", self.key_name(), self.wanted.named(columns));
        match &self.build {
            None => format!("{lookup}, rows {rows}"),
            Some(build) => format!("{lookup}, built by ({})", build.subtree.described()),
        }
    }
}

/// Why the join cannot be part of a pipeline; `None` for other nodes, and for joins that can.
pub(super) fn refusal(plan: &Arc<dyn ExecutionPlan>) -> Option<Reason> {
    chain(plan.downcast_ref::<HashJoinExec>()?).err()
}

fn refuse(detail: impl Into<String>) -> Reason {
    node("HashJoinExec", detail)
}

/// The pipeline of the fact side, which looks up the other one.
pub(super) fn chain(join: &HashJoinExec) -> Result<Chain, Reason> {
    if join.fetch().is_some() {
        return Err(refuse("a limit inside the join"));
    }
    if join.null_equality() != NullEquality::NullEqualsNothing || join.null_aware {
        return Err(refuse("NULL keys that have partners"));
    }
    let facts = match join.join_type() {
        JoinType::Inner => by_size(join),
        JoinType::LeftSemi | JoinType::LeftAnti => vec![JoinSide::Left],
        JoinType::RightSemi | JoinType::RightAnti => vec![JoinSide::Right],
        other => return Err(refuse(format!("a {other} join has no device version"))),
    };
    let (fact, chain) = (facts.into_iter())
        .find_map(|side| {
            let chain = Chain::below(input(join, side)).ok()?;
            (!matches!(chain.source, PipelineSource::Plan(_))).then_some((side, chain))
        })
        .ok_or_else(|| refuse("no table among the sides that may be the larger one"))?;
    attach(join, fact, chain)
}

fn input(join: &HashJoinExec, side: JoinSide) -> &Arc<dyn ExecutionPlan> {
    match side {
        JoinSide::Right => join.right(),
        _ => join.left(),
    }
}

/// The sides, larger first.
fn by_size(join: &HashJoinExec) -> Vec<JoinSide> {
    match (size(join.left()), size(join.right())) {
        (Some(left), Some(right)) if left > right => vec![JoinSide::Left, JoinSide::Right],
        _ => vec![JoinSide::Right, JoinSide::Left],
    }
}

/// Bytes of a row of a table of which only the bytes are known.
const ROW_BYTES: usize = 64;

/// Rows of the largest table under a plan.
fn size(plan: &Arc<dyn ExecutionPlan>) -> Option<usize> {
    let children = plan.children();
    if !children.is_empty() {
        let sizes: Option<Vec<usize>> = children.into_iter().map(size).collect();
        return sizes?.into_iter().max();
    }
    let known = statistics(plan)?;
    let bytes = known.total_byte_size.get_value().map(|bytes| bytes / ROW_BYTES);
    known.num_rows.get_value().copied().or(bytes)
}

/// Adds the dimension to the fact side's pipeline.
fn attach(join: &HashJoinExec, fact: JoinSide, mut chain: Chain) -> Result<Chain, Reason> {
    let [(left, right)] = join.on() else {
        return Err(refuse(format!("{} pairs of keys, limit 1", join.on().len())));
    };
    let (dimension, fact_key, key) = match fact {
        JoinSide::Right => (join.left(), right, left),
        _ => (join.right(), left, right),
    };
    let wanted = lower(fact_key, &input(join, fact).schema())?.substitute(&chain.columns);
    let schema = dimension.schema();
    let key_type = (key.data_type(&schema)).map_err(|error| refuse(error.to_string()))?;
    let text = |t: &DataType| is_key(t) && t.primitive_width().is_none();
    let alike = wanted.data_type() == &key_type || text(wanted.data_type()) && text(&key_type);
    if !is_key(&key_type) || !alike {
        return Err(Reason::Operator {
            operator: "JOIN ON".into(),
            left: wanted.data_type().clone(),
            right: key_type,
        });
    }
    let inner = *join.join_type() == JoinType::Inner;
    let buildable = Buildable::of(dimension, key);
    let (known, limit) = match known_rows(dimension, key) {
        Err(limit) if buildable.is_some() => (None, Some(limit)),
        known => (known?, None),
    };
    let number = chain.dimensions.len();
    let looked_up: Vec<(Expr, Option<usize>)> = (schema.fields().iter().enumerate())
        .map(|(index, field)| {
            let is_key = key.downcast_ref::<Column>().is_some_and(|c| c.index() == index);
            // The key of the partner is the key looked for.
            if is_key && field.data_type() == wanted.data_type() {
                return (wanted.clone(), None);
            }
            (Expr::lookup(number, index, field, wanted.clone()), None)
        })
        .collect();
    let own: Vec<(Expr, Option<usize>)> = chain.columns.iter().cloned().zip(chain.plain.clone()).collect();
    let member = Expr::member(number, wanted.clone());
    chain.filters.push(match join.join_type() {
        JoinType::LeftAnti | JoinType::RightAnti if join.filter().is_some() => {
            return Err(refuse("an antijoin with a condition beside the keys"));
        }
        JoinType::LeftAnti | JoinType::RightAnti => member.negated(),
        _ => member,
    });
    if let Some(filter) = join.filter() {
        let columns: Vec<Expr> = (filter.column_indices().iter())
            .map(|column| {
                let side = if column.side == fact { &own } else { &looked_up };
                side[column.index].0.clone()
            })
            .collect();
        let filter = lower(filter.expression(), filter.schema())?.substitute(&columns);
        chain.filters.extend(filter.conjuncts());
    }
    chain.dimensions.push(DimensionSource {
        plan: Arc::clone(dimension),
        key: Arc::clone(key),
        wanted,
        unique: inner || join.filter().is_some(),
        rows: known,
        shape: None,
        limit,
        build: None,
    });
    chain.buildable.push(buildable);
    let columns = match (inner, fact) {
        (false, _) => own,
        (true, JoinSide::Right) => looked_up.into_iter().chain(own).collect(),
        (true, _) => own.into_iter().chain(looked_up).collect(),
    };
    chain.project(match &join.projection {
        Some(projection) => projection.iter().map(|i| columns[*i].clone()).collect(),
        None => columns,
    });
    Ok(chain)
}

/// Rows a dimension is expected to have; refuses what its statistics already rule out.
fn known_rows(
    dimension: &Arc<dyn ExecutionPlan>,
    key: &Arc<dyn PhysicalExpr>,
) -> Result<Option<u64>, Reason> {
    let limit = |asked: u64, unit| Reason::Limit {
        expression: format!("the join on {}", key_name(key)),
        asked,
        limit: MAX_INDICES,
        unit,
    };
    let Some(known) = statistics(dimension) else {
        return Ok(None);
    };
    let rows = known.num_rows.get_value().map(|rows| *rows as u64);
    if let Some(rows) = rows.filter(|rows| *rows > MAX_INDICES) {
        return Err(limit(rows, "rows of the dimension"));
    }
    let bounds = key
        .downcast_ref::<Column>()
        .and_then(|column| known.column_statistics.get(column.index()));
    let number = |value: Option<&ScalarValue>| value.and_then(crate::expression::integer_literal);
    let ends = bounds.map(|b| (number(b.min_value.get_value()), number(b.max_value.get_value())));
    if let Some((Some(low), Some(high))) = ends {
        let span = u64::try_from(high.saturating_sub(low)).unwrap_or(0);
        if span >= MAX_INDICES {
            return Err(limit(
                span.saturating_add(1),
                "indices, from the least key to the greatest",
            ));
        }
    }
    Ok(rows)
}

/// Whether the columns that a pipeline looks up have a device representation, and are few enough.
pub(super) fn check(plan: &PipelinePlan) -> Result<(), Reason> {
    let mut columns: BTreeMap<usize, u64> = BTreeMap::new();
    for ((dimension, column), data_type) in plan.lookups() {
        if !representable(&data_type) {
            return Err(Reason::Type {
                data_type,
                place: format!("column {column} of a dimension"),
            });
        }
        *columns.entry(dimension).or_default() += 1;
    }
    match columns.values().max() {
        Some(most) if *most > MAX_PAYLOAD as u64 => Err(Reason::Limit {
            expression: "a join".into(),
            asked: *most,
            limit: MAX_PAYLOAD as u64,
            unit: "columns of one dimension",
        }),
        _ => Ok(()),
    }
}
