//! Build sides of joins: the source of the rows that a pipeline looks up, their keys, and whether a pipeline
//! can build them on the device.

use crate::graph::{BuildSide, PipelineGraph, PipelineSource, key_name};
use crate::placement::chain::{Buildable, Chain, Finder};
use crate::placement::nodes::{input, other, refuse, statistics};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::{JoinSide, ScalarValue};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::HashJoinExec;
use galatea_base::reason::Reason;
use galatea_codegen::SinkPlan;
use galatea_codegen::aggregate::{AggregateCall, AggregateFunction};
use galatea_expression::{Comparison, Expr, ExprKind, MAX_INDICES, domain, is_key, lower};
use std::sync::Arc;

/// The build side of `plan` by these keys together, if a pipeline over a table can build it.
pub(in crate::placement) fn buildable(
    plan: &Arc<dyn ExecutionPlan>,
    keys: &[&Arc<dyn PhysicalExpr>],
    finder: &Finder<'_>,
) -> Option<Buildable> {
    let chain = finder.below(plan).ok()?;
    if !chain.is_on_device() {
        return None;
    }
    let parts = keys.iter().map(|key| {
        let part = lower(key, &plan.schema()).ok()?.substitute(&chain.columns);
        is_key(part.data_type()).then_some(part)
    });
    let key = Expr::tuple(parts.collect::<Option<Vec<_>>>()?)?;
    let chain = Box::new(chain);
    Some(Buildable::Rows { chain, key })
}

/// Groups that a join looks up by their key.
pub(in crate::placement) struct Groups {
    /// The aggregate.
    plan: Arc<dyn ExecutionPlan>,
    /// Its pipeline.
    graph: PipelineGraph,
    /// The columns of the join's input, over those of the aggregate.
    columns: Vec<Expr>,
    /// Filters that select the groups of the input, over the columns of the aggregate.
    filters: Vec<Expr>,
}

impl Groups {
    /// The groups by `key` that `plan` selects and projects, if they are of a table and no run has found
    /// their keys to be too far apart for direct-address arrays.
    pub(in crate::placement) fn of(
        plan: &Arc<dyn ExecutionPlan>,
        key: &Arc<dyn PhysicalExpr>,
        finder: &Finder<'_>,
    ) -> Option<Self> {
        let chain = finder.below(plan).ok()?;
        let (PipelineSource::Groups(aggregate), Some(found)) = (&chain.source, chain.groups) else {
            return None;
        };
        let SinkPlan::Aggregate { keys, .. } = &found.root().get().plan.sink else {
            return None;
        };
        let by_key = lower(key, &plan.schema())
            .ok()?
            .substitute(&chain.columns)
            .as_column()
            == Some(0);
        let one = matches!(keys.as_slice(), [key] if domain(key.data_type()).is_some());
        let groups = (by_key && one && chain.build_sides.is_empty()).then(|| Self {
            plan: Arc::clone(aggregate),
            graph: found,
            columns: chain.columns,
            filters: chain.filters,
        })?;
        // For any lookup expression.
        let scattered = |unique| finder.found_scattered(&groups.source(&Expr::row_number(), unique));
        (!scattered(true) && !scattered(false)).then_some(groups)
    }

    /// The build side; `wanted` is the key of the row to look up.
    fn source(&self, wanted: &Expr, unique: bool) -> BuildSide {
        let schema = self.plan.schema();
        let key: Arc<dyn PhysicalExpr> = Arc::new(Column::new(schema.field(0).name(), 0));
        BuildSide::new(&self.plan, &key, wanted.clone(), unique)
    }
}

/// The build side of a join.
pub(in crate::placement) struct Side {
    /// The columns of the join's input, as the rows of the pipeline look them up.
    pub(in crate::placement) columns: Vec<Expr>,
    /// Filters between the aggregate and the join (HAVING), over the looked-up columns.
    pub(in crate::placement) filters: Vec<Expr>,
    pub(in crate::placement) source: BuildSide,
    pub(in crate::placement) buildable: Option<Buildable>,
}

/// The build side of a join from the plan `build_side` by these keys, each with the expression that rows look
/// up. `tuple`: the build side by all keys together, if a pipeline can build it. The triple: the number of
/// the build side, whether keys must be unique, and whether this is an antijoin.
pub(in crate::placement) fn side(
    build_side: &Arc<dyn ExecutionPlan>,
    keys: &[(&Arc<dyn PhysicalExpr>, &Expr)],
    tuple: Option<Buildable>,
    (number, unique, anti): (usize, bool, bool),
    finder: &Finder<'_>,
) -> Result<Side, Reason> {
    let parts = keys.iter().map(|(_, wanted)| Expr::clone(wanted)).collect();
    let (Some((key, _)), Some(wanted)) = (keys.first(), Expr::tuple(parts)) else {
        return Err(refuse("no keys"));
    };
    // In an equijoin the build-side key column equals the probe-side key, so it needs no lookup.
    let column = |schema: &Schema, index: usize, known: Option<&Expr>| {
        let field = schema.field(index);
        match known.filter(|known| known.data_type() == field.data_type()) {
            Some(known) => known.clone(),
            None => Expr::lookup(number, index, field, wanted.clone()),
        }
    };
    let groups = match tuple {
        None => Groups::of(build_side, key, finder).filter(|groups| !anti || groups.filters.is_empty()),
        Some(_) => None,
    };
    if let Some(groups) = groups {
        let schema = groups.plan.schema();
        let of_group: Vec<Expr> = (0..schema.fields().len())
            .map(|index| column(&schema, index, (index == 0).then_some(&wanted)))
            .collect();
        let over = |expressions: &[Expr]| expressions.iter().map(|e| e.substitute(&of_group)).collect();
        return Ok(Side {
            columns: over(&groups.columns),
            filters: over(&groups.filters),
            source: groups.source(&wanted, unique),
            buildable: Buildable::groups(groups.graph),
        });
    }
    let schema = build_side.schema();
    let known = |index: usize| {
        let is_column = |key: &Arc<dyn PhysicalExpr>| {
            let column = key.downcast_ref::<Column>();
            column.is_some_and(|column| column.index() == index)
        };
        let found = keys.iter().find(|(key, _)| is_column(key));
        found.map(|(_, wanted)| *wanted)
    };
    let (buildable, rows, limit) = match tuple {
        // The host builds a table by a single key only.
        Some(tuple) => {
            let limit = refuse(format!("{} pairs of keys, limit 1", keys.len()));
            (Some(tuple), None, Some(limit))
        }
        None => {
            let buildable = buildable(build_side, &[*key], finder);
            let (rows, limit) = match known_rows(build_side, key) {
                Err(limit) if buildable.is_some() => (None, Some(limit)),
                known => (known?, None),
            };
            (buildable, rows, limit)
        }
    };
    Ok(Side {
        columns: (0..schema.fields().len())
            .map(|index| column(&schema, index, known(index)))
            .collect(),
        filters: Vec::new(),
        source: BuildSide {
            rows,
            limit,
            ..BuildSide::new(build_side, key, wanted, unique)
        },
        buildable,
    })
}

/// Expected number of rows of a build side; refuses one that its statistics rule out.
fn known_rows(
    build_side: &Arc<dyn ExecutionPlan>,
    key: &Arc<dyn PhysicalExpr>,
) -> Result<Option<u64>, Reason> {
    let limit = |asked: u64, unit| Reason::Limit {
        expression: format!("the join on {}", key_name(key)),
        asked,
        limit: MAX_INDICES,
        unit,
    };
    let Some(known) = statistics(build_side) else {
        return Ok(None);
    };
    let rows = known.num_rows.get_value().map(|rows| *rows as u64);
    if let Some(rows) = rows.filter(|rows| *rows > MAX_INDICES) {
        return Err(limit(rows, "rows of the build side"));
    }
    let bounds = key
        .downcast_ref::<Column>()
        .and_then(|column| known.column_statistics.get(column.index()));
    let number = |value: Option<&ScalarValue>| value.and_then(galatea_expression::integer_literal);
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

/// A semijoin or antijoin that requires a row with the same key and a different value of one column. The
/// minimum and maximum of the column among the rows of the key decide it.
pub(in crate::placement) struct NotEqualSemiJoin {
    /// The pipeline that leaves minimum and maximum by key on the device.
    groups: PipelineGraph,
    /// The key that rows look up.
    wanted: Expr,
    /// The value that must differ from the column of the other rows.
    own: Expr,
    /// Type of the column.
    data_type: DataType,
}

impl NotEqualSemiJoin {
    /// The join, if it has this condition and a pipeline over a table can build the build side.
    pub(in crate::placement) fn of(
        join: &HashJoinExec,
        fact: JoinSide,
        chain: &Chain,
        (key_of_side, wanted): (&Arc<dyn PhysicalExpr>, &Expr),
        finder: &Finder<'_>,
    ) -> Option<Self> {
        let filter = join.filter()?;
        let condition = lower(filter.expression(), filter.schema()).ok()?;
        let ExprKind::Compare {
            operator: Comparison::NotEqual,
            left,
            right,
            ..
        } = condition.kind()
        else {
            return None;
        };
        let column = |e: &Expr| filter.column_indices().get(e.as_column()?);
        let (left, right) = (column(left)?, column(right)?);
        let (own, others) = match (left.side == fact, right.side == fact) {
            (true, false) => (left.index, right.index),
            (false, true) => (right.index, left.index),
            _ => return None,
        };
        let own = chain.columns.get(own)?.clone();
        let Buildable::Rows {
            chain: mut others_chain,
            key,
        } = buildable(input(join, other(fact)), &[key_of_side], finder)?
        else {
            return None;
        };
        if finder.found_scattered(&BuildSide::new(
            input(join, other(fact)),
            key_of_side,
            wanted.clone(),
            true,
        )) {
            return None;
        }
        let value = others_chain.columns.get(others)?.clone();
        let data_type = value.data_type().clone();
        if join.on().len() != 1 || domain(&data_type).is_none() || *own.data_type() != data_type {
            return None;
        }
        if key.nullable() {
            others_chain.filters.push(key.is_null().negated());
        }
        let call = |function, name: &str| AggregateCall {
            function,
            argument: Some(value.clone()),
            filter: None,
            field: Arc::new(Field::new(name, data_type.clone(), true)),
        };
        let aggregates = vec![
            call(AggregateFunction::Min, "least"),
            call(AggregateFunction::Max, "greatest"),
        ];
        let sink = SinkPlan::BuildGroups {
            key,
            aggregates,
            part: None,
        };
        Some(Self {
            groups: others_chain.finish(sink, Arc::new(Schema::empty())).ok()?,
            wanted: wanted.clone(),
            own,
            data_type,
        })
    }

    /// Adds the build side and the condition.
    pub(in crate::placement) fn attach(
        self,
        mut chain: Chain,
        build_side: &Arc<dyn ExecutionPlan>,
        key: &Arc<dyn PhysicalExpr>,
        anti: bool,
    ) -> Chain {
        let number = chain.build_sides.len();
        let differs = ["least", "greatest"]
            .into_iter()
            .enumerate()
            .map(|(index, name)| {
                let field = Field::new(name, self.data_type.clone(), true);
                let value = Expr::lookup(number, 1 + index, &field, self.wanted.clone());
                Expr::equal(self.own.clone(), value).negated()
            });
        let exists = [
            Some(Expr::member(number, self.wanted.clone())),
            Expr::any(differs),
        ];
        let exists: Vec<Expr> = exists.into_iter().flatten().collect();
        match Expr::all(exists.iter().cloned()) {
            Some(all) if anti => chain.filters.push(Expr::not_true(all)),
            _ => chain.filters.extend(exists),
        }
        chain.build_sides.push(BuildSide {
            limit: Some(refuse("a condition that columns differ, beside the keys")),
            ..BuildSide::new(build_side, key, self.wanted, true)
        });
        chain
            .buildable
            .push(Some(Buildable::Complete(Box::new(self.groups))));
        chain
    }
}
