//! Filters, projections and lookups over a source: a pipeline without its sink.

use super::nodes::node;
use super::shared_rows::SharedRows;
use super::subtree::{Build, BuildSide, PipelineSource, Subtree};
use super::window_input::Window;
use crate::expression::{Expr, MAX_PAYLOAD, SortOrder, lower, representable};
use crate::pipeline::{Marking, PipelinePlan, SinkPlan};
use crate::reason::Reason;
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Finds the chain of a plan (`find.rs`), with what earlier runs have shown: joins and build sides have
/// chains of their own.
pub(super) struct Finder<'f> {
    pub(super) find: fn(&Arc<dyn ExecutionPlan>, &Finder<'_>) -> Result<Chain, Reason>,
    /// Whether a run has found rows of one key in a build side.
    pub(super) repeats: &'f dyn Fn(&BuildSide) -> bool,
}

impl Finder<'_> {
    /// The chain of a plan, from its source upwards.
    pub(super) fn below(&self, plan: &Arc<dyn ExecutionPlan>) -> Result<Chain, Reason> {
        (self.find)(plan, self)
    }
}

/// Filters, projections and joins with dimensions from a source upwards, all in terms of the source's
/// columns.
pub(super) struct Chain {
    pub(super) source: PipelineSource,
    /// The aggregation pipeline whose groups are the rows, if the source is `PipelineSource::Groups`.
    pub(super) groups: Option<Subtree>,
    /// The join whose pairs are the rows, if the source is `PipelineSource::Pairs`.
    pub(super) pairs: Option<Box<PairJoin>>,
    /// The window whose rows are the rows, if the source is `PipelineSource::Windows`.
    pub(super) windows: Option<Box<WindowLevel>>,
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

    /// Whether the rows are those of a table, on the device or to be brought there, or made there.
    pub(super) fn is_on_device(&self) -> bool {
        !matches!(self.source, PipelineSource::Plan(_))
    }

    /// Whether the rows are those of a window in the order of these keys, over the columns of the source.
    pub(super) fn is_ordered_by(&self, keys: &[(Expr, SortOrder)]) -> bool {
        let level = self.windows.as_ref();
        level.is_some_and(|level| level.window.is_order_of(&level.input.columns, keys))
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
            pairs: None,
            windows: None,
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

    /// Adds a build side that has to stay on the device, where a pipeline makes it of `plan`.
    fn add_made(&mut self, plan: Arc<dyn ExecutionPlan>, wanted: Expr, buildable: Buildable) {
        self.dimensions.push(BuildSide {
            limit: Some(node(plan.name(), "its rows have to stay on the device")),
            plan,
            key: Arc::new(Column::new("keys", 0)),
            wanted,
            unique: false,
            rows: None,
            shape: None,
            build: None,
            shared: SharedRows::default(),
        });
        self.buildable.push(Some(buildable));
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

    /// Looks up the columns of groups, pairs or rows of a window by the number of the row, in the build side
    /// that other pipelines make of them, which becomes the last one.
    fn look_up_rows(mut self, sink: SinkPlan) -> (Self, SinkPlan) {
        let (plan, buildable) = match (&self.source, self.groups.take(), self.pairs.take()) {
            (PipelineSource::Groups(plan), Some(groups), _) => {
                (Arc::clone(plan), Buildable::Complete(Box::new(groups)))
            }
            (PipelineSource::Pairs(plan), _, Some(pairs)) => (Arc::clone(plan), Buildable::Pairs(pairs)),
            (PipelineSource::Windows(plan), ..) => match self.windows.take() {
                Some(windows) => (Arc::clone(plan), Buildable::Windows(windows)),
                None => return (self, sink),
            },
            _ => return (self, sink),
        };
        let number = self.dimensions.len();
        let row = Expr::row_number();
        let fields = self.source_schema.fields().iter().enumerate();
        let columns: Vec<Expr> = fields
            .map(|(index, field)| Expr::lookup(number, index, field, row.clone()))
            .collect();
        for side in &mut self.dimensions {
            side.wanted = side.wanted.substitute(&columns);
        }
        let filters = self.filters.iter().map(|filter| filter.substitute(&columns));
        // Every place of an order has a row; not every entry of a table a group.
        let is_window = matches!(buildable, Buildable::Windows(_));
        let member = (!is_window).then(|| Expr::member(number, row.clone()));
        self.filters = member.into_iter().chain(filters).collect();
        self.pruning.clear();
        self.add_made(plan, row, buildable);
        (self, sink.substitute(&columns))
    }

    /// The pipeline whose rows go to `sink`.
    pub(super) fn finish(self, sink: SinkPlan, output: SchemaRef) -> Result<Subtree, Reason> {
        let (mut chain, sink) = self.look_up_rows(sink);
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
        let is_one_table = |side: &Option<Buildable>| !matches!(side, None | Some(Buildable::Rows { .. }));
        let tables: Vec<bool> = chain.buildable.iter().map(is_one_table).collect();
        check_lookups(&plan, &tables)?;
        let wanted = plan.lookups();
        let sides = chain.dimensions.iter_mut().zip(chain.buildable);
        for (number, (side, buildable)) in sides.enumerate() {
            let columns = wanted.keys().filter(|(dimension, _)| *dimension == number);
            let columns: Vec<usize> = columns.map(|(_, column)| *column).collect();
            let built = match buildable {
                Some(rows @ (Buildable::Pairs(_) | Buildable::Windows(_))) => {
                    Some(rows.build(&columns, side.unique)?)
                }
                other => other.and_then(|buildable| buildable.build(&columns, side.unique).ok()),
            };
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
        chain: Box<Chain>,
        /// The key, over the columns of the table.
        key: Expr,
    },
    /// Pairs of rows.
    Pairs(Box<PairJoin>),
    /// Rows in the order of a window.
    Windows(Box<WindowLevel>),
    /// Whatever a pipeline leaves, with all of its columns.
    Complete(Box<Subtree>),
}

impl Buildable {
    /// The pipeline that makes the build side with those columns.
    pub(super) fn build(self, columns: &[usize], unique: bool) -> Result<Subtree, Reason> {
        let (mut chain, key) = match self {
            Self::Rows { chain, key } => (chain, key),
            Self::Pairs(join) => return join.build(columns),
            Self::Windows(windows) => return windows.build(columns),
            Self::Complete(subtree) => return Ok(*subtree),
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
        if subtree.plan.finishes_on_host() {
            return None;
        }
        let SinkPlan::Aggregate { keys, aggregates } = subtree.plan.sink else {
            return None;
        };
        let key = keys.into_iter().next()?;
        if key.nullable() {
            subtree.plan.filters.push(key.is_null().negated());
        }
        subtree.plan.sink = SinkPlan::BuildGroups { key, aggregates };
        subtree.plan.output = Arc::new(Schema::empty());
        Some(Self::Complete(Box::new(subtree)))
    }
}

/// One side of a join whose keys may repeat.
pub(super) struct PairInput {
    pub(super) plan: Arc<dyn ExecutionPlan>,
    pub(super) chain: Chain,
    /// The key, over the columns of the chain's source.
    pub(super) key: Expr,
    /// The number of its first column in the join.
    pub(super) first: usize,
}

impl PairInput {
    /// Those of the join's columns that are of this side, by number.
    fn columns(&self, of_join: &BTreeSet<usize>) -> Vec<(usize, Expr)> {
        let own = self.first..self.first + self.chain.columns.len();
        let own = of_join.iter().filter(|column| own.contains(column));
        own.map(|column| (*column, self.chain.columns[column - self.first].clone()))
            .collect()
    }

    /// The pipeline that lists the rows by key, with these columns of the join, and what it stands for.
    fn lists(
        mut self,
        of_join: &BTreeSet<usize>,
        null_keys: bool,
        keeps_all: bool,
    ) -> Result<(Arc<dyn ExecutionPlan>, Subtree), Reason> {
        if !null_keys && !keeps_all {
            let nullable = self.key.parts().iter().filter(|part| part.nullable());
            let filters: Vec<Expr> = nullable.map(|part| part.is_null().negated()).collect();
            self.chain.filters.extend(filters);
        }
        let sink = SinkPlan::Lists {
            columns: self.columns(of_join),
            key: self.key,
            null_keys,
            keeps_all,
        };
        Ok((self.plan, self.chain.finish(sink, Arc::new(Schema::empty()))?))
    }

    /// The chain of this side with what tells whether a row of the other one has the key.
    pub(super) fn with_member(mut self, other: Self, null_keys: bool) -> Result<(Chain, Expr), Reason> {
        let (plan, lists) = other.lists(&BTreeSet::new(), null_keys, false)?;
        let member = Expr::member(self.chain.dimensions.len(), self.key.clone());
        self.chain
            .add_made(plan, self.key, Buildable::Complete(Box::new(lists)));
        Ok((self.chain, member))
    }
}

/// A join whose keys may repeat, with its pairs as rows.
pub(super) struct PairJoin {
    pub(super) probe: PairInput,
    pub(super) build: PairInput,
    /// The node.
    pub(super) plan: Arc<dyn ExecutionPlan>,
    /// The columns of the node without its projection: those of the left side, of the right side, and that of
    /// a mark.
    pub(super) schema: SchemaRef,
    /// What is not known from the keys alone: which pairs and rows stay.
    pub(super) marking: Option<Marking>,
    /// Whether NULL is a key like others.
    pub(super) null_keys: bool,
    /// Whether a probe row without partners is a pair.
    pub(super) keeps_all: bool,
    /// Conditions over the join's columns, of pairs that are marked.
    pub(super) conditions: Vec<Expr>,
}

impl PairJoin {
    /// The pipelines that leave the pairs on the device, with these columns of the join.
    fn build(self, columns: &[usize]) -> Result<Subtree, Reason> {
        let Self {
            mut probe,
            build,
            plan,
            schema,
            marking,
            null_keys,
            keeps_all,
            conditions,
        } = self;
        let of_conditions = conditions.iter().flat_map(Expr::columns);
        let wanted: BTreeSet<usize> = columns.iter().copied().chain(of_conditions).collect();
        let nothing = || Arc::new(Schema::empty());
        let keeps_build = matches!(marking, Some(Marking::Outer { build: true, .. }));
        let (of_build, lists) = build.lists(&wanted, null_keys, keeps_build)?;
        let dimension = probe.chain.dimensions.len();
        let drops = !keeps_all
            && match marking {
                None | Some(Marking::Semi) => true,
                Some(Marking::Outer { probe, .. }) => !probe,
                Some(Marking::Anti | Marking::Mark { .. }) => false,
            };
        if drops {
            probe
                .chain
                .filters
                .push(Expr::member(dimension, probe.key.clone()));
        }
        probe
            .chain
            .add_made(of_build, probe.key.clone(), Buildable::Complete(Box::new(lists)));
        let sink = SinkPlan::Probe {
            dimension,
            columns: probe.columns(&wanted),
            key: probe.key,
            keeps_all,
        };
        let pairs = probe.chain.finish(sink, nothing())?;
        let Some(marking) = marking else {
            return Ok(pairs);
        };
        let source = PipelineSource::Pairs(Arc::clone(&plan));
        let mut marks = Chain::over_table(source, Arc::clone(&schema), None, &[]);
        let row = Expr::row_number();
        let fields = schema.fields().iter().enumerate();
        let looked_up: Vec<Expr> = fields
            .map(|(index, field)| Expr::lookup(0, index, field, row.clone()))
            .collect();
        let conditions = conditions
            .iter()
            .map(|condition| condition.substitute(&looked_up));
        marks.filters.extend(conditions);
        marks.add_made(plan, row, Buildable::Complete(Box::new(pairs)));
        let sink = SinkPlan::Mark {
            dimension: 0,
            marking,
        };
        marks.finish(sink, nothing())
    }
}

/// Functions over one order of rows.
pub(super) struct WindowLevel {
    /// The rows.
    pub(super) input: Chain,
    /// The order, and the functions; their columns follow those of the input.
    pub(super) window: Window,
}

impl WindowLevel {
    /// The pipeline that leaves the rows on the device in order, with these columns.
    fn build(self, columns: &[usize]) -> Result<Subtree, Reason> {
        let input = self.window.input(&self.input.columns, columns);
        let nothing = Arc::new(Schema::empty());
        self.input.finish(SinkPlan::Windows(input), nothing)
    }
}

/// Whether the columns that a pipeline looks up have a device representation, and are few enough; those
/// of `tables` are exempt, since all their columns are one.
fn check_lookups(plan: &PipelinePlan, tables: &[bool]) -> Result<(), Reason> {
    let mut columns: BTreeMap<usize, u64> = BTreeMap::new();
    for ((dimension, column), data_type) in plan.lookups() {
        if !representable(&data_type) {
            return Err(Reason::Type {
                data_type,
                place: format!("column {column} of a dimension"),
            });
        }
        *columns.entry(dimension).or_default() += u64::from(!tables[dimension]);
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
