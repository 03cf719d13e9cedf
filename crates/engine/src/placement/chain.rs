//! Filters, projections and lookups over a source: a pipeline without its sink.

use super::nodes::node;
use super::shared_rows::SharedRows;
use super::subtree::{Build, BuildSide, PipelineSource, Subtree};
use crate::expression::{Expr, MAX_PAYLOAD, lower, representable};
use crate::pipeline::{PipelinePlan, SinkPlan};
use crate::reason::Reason;
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Finds the chain of a plan (`find.rs`): joins and build sides have chains of their own.
pub(super) type FindChain = fn(&Arc<dyn ExecutionPlan>) -> Result<Chain, Reason>;

/// Filters, projections and joins with dimensions from a source upwards, all in terms of the source's
/// columns.
pub(super) struct Chain {
    pub(super) source: PipelineSource,
    /// The aggregation pipeline whose groups are the rows, if the source is `PipelineSource::Groups`.
    pub(super) groups: Option<Subtree>,
    source_schema: SchemaRef,
    rows: Option<u64>,
    pub(super) dimensions: Vec<BuildSide>,
    /// By dimension: how a pipeline on the device could build it, if one can.
    pub(super) buildable: Vec<Option<Buildable>>,
    pub(super) filters: Vec<Expr>,
    pub(super) pruning: Vec<Arc<dyn PhysicalExpr>>,
    /// The current node's output columns.
    pub(super) columns: Vec<Expr>,
    /// Source column of each output column, as long as they are plain columns: lets pruning predicates be
    /// rewritten.
    pub(super) plain: Vec<Option<usize>>,
}

impl Chain {
    /// Replaces the output columns.
    pub(super) fn project(&mut self, columns: Vec<(Expr, Option<usize>)>) {
        (self.columns, self.plain) = columns.into_iter().unzip();
    }

    /// Whether the join keys `keys` (over the schema of `plan`, whose chain this is) may repeat among the
    /// groups: they are plain columns and do not cover the GROUP BY key.
    pub(super) fn shares_keys<'k>(
        &self,
        groups: &Subtree,
        plan: &Arc<dyn ExecutionPlan>,
        keys: impl Iterator<Item = &'k Arc<dyn PhysicalExpr>>,
    ) -> bool {
        let schema = plan.schema();
        let columns: Option<Vec<usize>> = keys
            .map(|key| lower(key, &schema).ok()?.substitute(&self.columns).as_column())
            .collect();
        match (&groups.plan.sink, columns) {
            (SinkPlan::Aggregate { keys, .. }, Some(columns)) => {
                !(0..keys.len()).all(|part| columns.contains(&part))
            }
            _ => false,
        }
    }

    /// Whether the rows are those of a table, on the device or to be brought there.
    pub(super) fn is_of_table(&self) -> bool {
        matches!(
            self.source,
            PipelineSource::Files { .. } | PipelineSource::Stored(_)
        )
    }

    /// The rows of a table, with the columns of these indices.
    pub(super) fn over_table(
        source: PipelineSource,
        schema: SchemaRef,
        rows: Option<u64>,
        indices: &[usize],
    ) -> Self {
        let columns = indices
            .iter()
            .map(|i| {
                let field = schema.field(*i);
                Expr::column(*i, field.data_type().clone(), field.is_nullable())
            })
            .collect();
        Self {
            source,
            groups: None,
            source_schema: schema,
            rows,
            dimensions: Vec::new(),
            buildable: Vec::new(),
            filters: Vec::new(),
            pruning: Vec::new(),
            columns,
            plain: indices.iter().map(|i| Some(*i)).collect(),
        }
    }

    /// The predicate over source columns, if it only uses plain ones.
    pub(super) fn rewrite_for_pruning(
        &self,
        predicate: &Arc<dyn PhysicalExpr>,
    ) -> Option<Arc<dyn PhysicalExpr>> {
        let mut plain = true;
        let rewritten = Arc::clone(predicate)
            .transform(|e| {
                Ok(match e.downcast_ref::<Column>() {
                    Some(column) => match self.plain.get(column.index()).copied().flatten() {
                        Some(index) => {
                            let name = self.source_schema.field(index).name();
                            Transformed::yes(Arc::new(Column::new(name, index)) as Arc<dyn PhysicalExpr>)
                        }
                        None => {
                            plain = false;
                            Transformed::no(e)
                        }
                    },
                    None => Transformed::no(e),
                })
            })
            .ok()?
            .data;
        plain.then_some(rewritten)
    }

    /// Looks up the columns of groups, by the number of the row, in the group table, which becomes the last
    /// of the build sides.
    fn look_up_groups(mut self, sink: SinkPlan) -> (Self, SinkPlan) {
        let (PipelineSource::Groups(plan), Some(groups)) = (&self.source, self.groups.take()) else {
            return (self, sink);
        };
        let number = self.dimensions.len();
        let row = Expr::row_number();
        let fields = self.source_schema.fields().iter().enumerate();
        let columns: Vec<Expr> = fields
            .map(|(index, field)| Expr::lookup(number, index, field, row.clone()))
            .collect();
        let side = BuildSide {
            plan: Arc::clone(plan),
            key: Arc::new(Column::new("entry", 0)),
            wanted: row.clone(),
            unique: true,
            rows: None,
            shape: None,
            limit: Some(node("AggregateExec", "its groups have to stay on the device")),
            build: None,
            shared: SharedRows::default(),
        };
        for side in &mut self.dimensions {
            side.wanted = side.wanted.substitute(&columns);
        }
        let filters = self.filters.iter().map(|filter| filter.substitute(&columns));
        self.filters = [Expr::member(number, row)].into_iter().chain(filters).collect();
        self.pruning.clear();
        self.dimensions.push(side);
        self.buildable.push(Some(Buildable::Groups(groups)));
        (self, sink.substitute(&columns))
    }

    /// The pipeline whose rows go to `sink`.
    pub(super) fn finish(self, sink: SinkPlan, output: SchemaRef) -> Result<Subtree, Reason> {
        let (mut chain, sink) = self.look_up_groups(sink);
        let plan = PipelinePlan {
            filters: chain.filters,
            sink,
            output,
        };
        for column in plan.columns() {
            let field = chain.source_schema.field(column);
            if galatea_store::supports_type(field.data_type()).is_err() {
                return Err(Reason::Type {
                    data_type: field.data_type().clone(),
                    place: field.name().clone(),
                });
            }
        }
        plan.check()?;
        let is_groups = |side: &Option<Buildable>| matches!(side, Some(Buildable::Groups(_)));
        let groups: Vec<bool> = chain.buildable.iter().map(is_groups).collect();
        check_lookups(&plan, &groups)?;
        let wanted = plan.lookups();
        let sides = chain.dimensions.iter_mut().zip(chain.buildable);
        for (number, (side, buildable)) in sides.enumerate() {
            let columns = wanted.keys().filter(|(dimension, _)| *dimension == number);
            let columns: Vec<usize> = columns.map(|(_, column)| *column).collect();
            let built = buildable.and_then(|buildable| buildable.build(&columns, side.unique).ok());
            side.build = built.map(|subtree| Build {
                subtree: Box::new(subtree),
                shape: None,
            });
        }
        Ok(Subtree {
            source: chain.source,
            dimensions: chain.dimensions,
            plan,
            pruning: chain.pruning,
            rows: chain.rows,
            schema: chain.source_schema,
            fetch: None,
            shape: None,
            prediction: None,
        })
    }
}

/// A build side whose columns are not chosen yet.
pub(super) enum Buildable {
    /// Rows of a table, after filters and lookups of its own.
    Rows {
        /// Filters and lookups.
        chain: Chain,
        /// The key, over the columns of the table.
        key: Expr,
    },
    /// Groups of such rows by the key.
    Groups(Subtree),
}

impl Buildable {
    /// The pipeline that makes the build side with those columns.
    pub(super) fn build(self, columns: &[usize], unique: bool) -> Result<Subtree, Reason> {
        let (mut chain, key) = match self {
            Self::Rows { chain, key } => (chain, key),
            Self::Groups(subtree) => return Ok(subtree),
        };
        let nullable = key.parts().iter().filter(|part| part.nullable());
        chain
            .filters
            .extend(nullable.map(|part| part.is_null().negated()));
        let columns: Vec<(usize, Expr)> = (columns.iter())
            .map(|column| (*column, chain.columns[*column].clone()))
            .collect();
        chain.finish(
            SinkPlan::Build { key, columns, unique },
            Arc::new(Schema::empty()),
        )
    }

    /// The pipeline that leaves the groups of a subtree on the device.
    pub(super) fn groups(mut subtree: Subtree) -> Option<Self> {
        let SinkPlan::Aggregate { keys, aggregates } = subtree.plan.sink else {
            return None;
        };
        let key = keys.into_iter().next()?;
        if key.nullable() {
            subtree.plan.filters.push(key.is_null().negated());
        }
        subtree.plan.sink = SinkPlan::BuildGroups { key, aggregates };
        subtree.plan.output = Arc::new(Schema::empty());
        Some(Self::Groups(subtree))
    }
}

/// Whether the columns that a pipeline looks up have a device representation, and are few enough; build
/// sides marked in `groups` are exempt, since all their columns are one table.
fn check_lookups(plan: &PipelinePlan, groups: &[bool]) -> Result<(), Reason> {
    let mut columns: BTreeMap<usize, u64> = BTreeMap::new();
    for ((dimension, column), data_type) in plan.lookups() {
        if !representable(&data_type) {
            return Err(Reason::Type {
                data_type,
                place: format!("column {column} of a dimension"),
            });
        }
        *columns.entry(dimension).or_default() += u64::from(!groups[dimension]);
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
