//! Filters, projections and lookups over a source: a pipeline without its sink.

mod buildable;
pub(super) mod window_input;

pub(super) use buildable::{Buildable, PairInput, PairJoin, UnionPart, WindowLevel};

use super::nodes::node;
use crate::graph::{BuildSide, ByNode, Pipeline, PipelineGraph, PipelineSource};
use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use galatea_base::reason::Reason;
use galatea_base::stack::growing;
use galatea_codegen::{PipelinePlan, SinkPlan};
use galatea_expression::{Expr, MAX_PAYLOAD, SortOrder, is_string, lower, representable};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

/// Finds the chain of a plan (`find.rs`) and uses the findings of earlier runs. Joins and build sides have
/// chains of their own.
///
/// A join may be a lookup or a join over a multimap, with either side as its build side, and each of these
/// needs the chains of its inputs. So each chain is found once and cached: otherwise the search would take
/// exponential time.
pub(super) struct Finder<'f> {
    find: fn(&Arc<dyn ExecutionPlan>, &Finder<'_>) -> Result<Chain, Reason>,
    /// A finding of an earlier run in the rows of a build side that rules it out: see [`Reason::is_of_rows`].
    pub(super) found: &'f dyn Fn(&BuildSide) -> Option<Reason>,
    /// Whether rows of CPU operators are encoded and transferred to the device: if it is forced.
    pub(super) encodes: bool,
    /// The chains found: without and with rows of CPU operators that are encoded.
    chains: Rc<[ByNode<Result<Chain, Reason>>; 2]>,
}

impl<'f> Finder<'f> {
    /// A finder without cached chains; `find` finds a chain from those of the inputs.
    pub(super) fn new(
        find: fn(&Arc<dyn ExecutionPlan>, &Finder<'_>) -> Result<Chain, Reason>,
        found: &'f dyn Fn(&BuildSide) -> Option<Reason>,
        encodes: bool,
    ) -> Self {
        Self {
            find,
            found,
            encodes,
            chains: Rc::default(),
        }
    }

    /// The chain of a plan, from its source upwards.
    pub(super) fn below(&self, plan: &Arc<dyn ExecutionPlan>) -> Result<Chain, Reason> {
        self.chains[usize::from(self.encodes)].get_or(plan, || {
            growing(|| (self.find)(plan, self)).and_then(Chain::checked)
        })
    }

    /// The same finder, but only tables are transferred to the device.
    pub(super) fn over_tables(&self) -> Self {
        Self {
            encodes: false,
            chains: Rc::clone(&self.chains),
            ..*self
        }
    }

    /// Whether a run has found that the keys of groups used as a build side are too far apart.
    pub(super) fn found_scattered(&self, side: &BuildSide) -> bool {
        matches!((self.found)(side), Some(Reason::ScatteredGroups { .. }))
    }

    /// Whether the rows of the chain are on the device, or may be transferred there.
    pub(super) fn takes(&self, chain: &Chain) -> bool {
        self.encodes || chain.is_on_device()
    }
}

/// Filters, projections and joins with build sides from a source upwards, all in terms of the source's
/// columns.
#[derive(Clone)]
pub(super) struct Chain {
    pub(super) source: PipelineSource,
    /// The aggregation pipeline that returns the rows, if the source is `PipelineSource::Groups`.
    pub(super) groups: Option<PipelineGraph>,
    /// The join that returns the rows, if the source is `PipelineSource::Pairs`.
    pub(super) pairs: Option<Box<PairJoin>>,
    /// The window that returns the rows, if the source is `PipelineSource::Windows`.
    pub(super) windows: Option<Box<WindowLevel>>,
    /// The inputs of the union, one after another, if the source is `PipelineSource::Union`.
    pub(super) parts: Vec<UnionPart>,
    source_schema: SchemaRef,
    rows: Option<u64>,
    pub(super) build_sides: Vec<BuildSide>,
    /// The build sides that hold the rows of the source: see [`Pipeline::row_sides`].
    row_sides: Range<usize>,
    /// By build side: the pipeline that could build it on the device, if any.
    pub(super) buildable: Vec<Option<Buildable>>,
    pub(super) filters: Vec<Expr>,
    pub(super) pruning: Vec<Arc<dyn PhysicalExpr>>,
    /// The current node's output columns.
    pub(super) columns: Vec<Expr>,
    /// Source column of each output column, as long as they are plain columns. Pruning predicates are
    /// rewritten with it.
    pub(super) plain: Vec<Option<usize>>,
}

impl Chain {
    /// Refuses a chain with an expression that is too deep: expressions of the nodes above are substituted
    /// into those of the chain, so none gets deeper than two limits.
    fn checked(self) -> Result<Self, Reason> {
        let mut all = self.columns.iter().chain(&self.filters);
        all.try_for_each(Expr::check_depth)?;
        Ok(self)
    }

    /// Replaces the output columns.
    pub(super) fn project(&mut self, columns: Vec<(Expr, Option<usize>)>) {
        (self.columns, self.plain) = columns.into_iter().unzip();
    }

    /// Whether the join keys `keys` (over the schema of `plan`, whose chain this is) may repeat among the
    /// groups: they are plain columns and do not cover the GROUP BY key.
    pub(super) fn shares_keys<'k>(
        &self,
        groups: &PipelineGraph,
        plan: &Arc<dyn ExecutionPlan>,
        keys: impl Iterator<Item = &'k Arc<dyn PhysicalExpr>>,
    ) -> bool {
        let schema = plan.schema();
        let columns: Option<Vec<usize>> = keys
            .map(|key| lower(key, &schema).ok()?.substitute(&self.columns).as_column())
            .collect();
        match (&groups.root().plan.sink, columns) {
            (SinkPlan::Aggregate { keys, .. }, Some(columns)) => {
                !(0..keys.len()).all(|part| columns.contains(&part))
            }
            _ => false,
        }
    }

    /// Whether the rows are computed on the device, or are those of a table, which is resident or
    /// transferred.
    pub(super) fn is_on_device(&self) -> bool {
        !matches!(self.source, PipelineSource::Plan(_))
    }

    /// Rows of the source, if known.
    pub(super) fn rows(&self) -> Option<u64> {
        self.rows
    }

    /// Column `number` if it is only returned: a string of a table is late materialised. With build sides it
    /// is not: they may be built one partition after another, and then row numbers have no common order.
    fn returned_column(&self, number: usize) -> Expr {
        let column = self.columns[number].clone();
        let of_table = matches!(
            self.source,
            PipelineSource::Stored(_) | PipelineSource::Files { .. }
        );
        let is_string = column.as_column().is_some() && is_string(column.data_type());
        match of_table && is_string && self.build_sides.is_empty() {
            true => column.late_materialised(),
            false => column,
        }
    }

    /// Whether the rows are those of a window in the order of these keys, over the columns of the source.
    pub(super) fn is_ordered_by(&self, keys: &[(Expr, SortOrder)]) -> bool {
        let level = self.windows.as_ref();
        level.is_some_and(|level| level.window.is_order_of(&level.input.columns, keys))
    }

    /// The rows of a table, with the columns at these indices.
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
            parts: Vec::new(),
            source_schema: schema,
            rows,
            build_sides: Vec::new(),
            row_sides: 0..0,
            buildable: Vec::new(),
            filters: Vec::new(),
            pruning: Vec::new(),
            columns,
            plain: indices.iter().map(|i| Some(*i)).collect(),
        }
    }

    /// The groups that `groups` computes of the aggregate `plan`, with the columns of this schema.
    pub(super) fn over_groups(
        plan: &Arc<dyn ExecutionPlan>,
        schema: SchemaRef,
        mut groups: PipelineGraph,
    ) -> Self {
        let indices: Vec<usize> = (0..schema.fields().len()).collect();
        let source = PipelineSource::Groups(Arc::clone(plan));
        let mut chain = Self::over_table(source, schema, groups.root().rows, &indices);
        let root = groups.root_mut();
        root.plan.sink = root.plan.sink.clone().kept();
        chain.groups = Some(groups);
        chain
    }

    /// Adds a build side that holds the rows of the source: a pipeline builds it from `plan`.
    fn add_rows(&mut self, plan: Arc<dyn ExecutionPlan>, wanted: Expr, buildable: Buildable) {
        if self.row_sides.is_empty() {
            self.row_sides = self.build_sides.len()..self.build_sides.len();
        }
        self.add_made(plan, wanted, buildable);
        self.row_sides.end = self.build_sides.len();
    }

    /// Adds a build side that has to stay on the device: a pipeline builds it from `plan`.
    fn add_made(&mut self, plan: Arc<dyn ExecutionPlan>, wanted: Expr, buildable: Buildable) {
        let key: Arc<dyn PhysicalExpr> = Arc::new(Column::new("keys", 0));
        self.build_sides.push(BuildSide {
            limit: Some(node(plan.name(), "its rows have to stay on the device")),
            ..BuildSide::new(&plan, &key, wanted, false)
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

    /// Looks up the columns of a union's rows by row number, in the build sides that other pipelines build
    /// from its inputs.
    fn look_up_parts(mut self, sink: SinkPlan) -> (Self, SinkPlan) {
        let row = Expr::row_number();
        let first = self.build_sides.len();
        let parts = std::mem::take(&mut self.parts);
        let numbers: Vec<usize> = (first..first + parts.len()).collect();
        let fields = self.source_schema.fields().iter().enumerate();
        let columns: Vec<Expr> = fields
            .map(|(index, field)| {
                let values = parts.iter().map(|part| part.chain.columns[index].clone());
                let constants: Option<Vec<Expr>> = values
                    .map(|value| value.as_literal().is_some().then_some(value))
                    .collect();
                match constants {
                    Some(constants) => Expr::by_part(&numbers, constants, field, &row),
                    None => Expr::of_parts(&numbers, index, field, &row),
                }
            })
            .collect();
        for side in &mut self.build_sides {
            side.wanted = side.wanted.substitute(&columns);
        }
        let filters = self.filters.iter().map(|filter| filter.substitute(&columns));
        self.filters = filters.collect();
        self.pruning.clear();
        for (number, part) in parts.into_iter().enumerate() {
            let plan = Arc::clone(&part.plan);
            self.add_rows(plan, row.clone(), Buildable::Part(Box::new(part), number as u32));
        }
        (self, sink.substitute(&columns))
    }

    /// Looks up the columns of groups, join matches or window rows by row number, in the build side that
    /// another pipeline builds from them, which becomes the last one. A union has one build side for each
    /// input.
    fn look_up_rows(mut self, sink: SinkPlan) -> (Self, SinkPlan) {
        if !self.parts.is_empty() {
            return self.look_up_parts(sink);
        }
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
        let number = self.build_sides.len();
        let row = Expr::row_number();
        let fields = self.source_schema.fields().iter().enumerate();
        let columns: Vec<Expr> = fields
            .map(|(index, field)| match buildable.is_made(index) {
                true => Expr::lookup_made(number, index, field, row.clone()),
                false => Expr::lookup(number, index, field, row.clone()),
            })
            .collect();
        for side in &mut self.build_sides {
            side.wanted = side.wanted.substitute(&columns);
        }
        let filters = self.filters.iter().map(|filter| filter.substitute(&columns));
        // Every position of a window's order has a row, but not every slot of a group table has a group.
        let is_window = matches!(buildable, Buildable::Windows(_));
        let member = (!is_window).then(|| Expr::member(number, row.clone()));
        self.filters = member.into_iter().chain(filters).collect();
        self.pruning.clear();
        self.add_rows(plan, row, buildable);
        (self, sink.substitute(&columns))
    }

    /// The graph of the pipeline with this sink.
    pub(super) fn finish(self, sink: SinkPlan, output: SchemaRef) -> Result<PipelineGraph, Reason> {
        let (chain, sink) = self.look_up_rows(sink);
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
        let returned = plan.returned_strings();
        let mut builds = Vec::new();
        for (number, (side, buildable)) in chain.build_sides.iter().zip(chain.buildable).enumerate() {
            let columns = wanted.keys().filter(|(build_side, _)| *build_side == number);
            let columns: Vec<usize> = columns.map(|(_, column)| *column).collect();
            let is_returned = |column: usize| returned.contains(&(number, column));
            builds.push(match buildable {
                Some(rows @ (Buildable::Pairs(_) | Buildable::Windows(_) | Buildable::Part(..))) => {
                    Some(rows.build(&columns, side.unique, &is_returned)?)
                }
                other => {
                    other.and_then(|buildable| buildable.build(&columns, side.unique, &is_returned).ok())
                }
            });
        }
        let root = Pipeline {
            build_sides: chain.build_sides,
            row_sides: chain.row_sides,
            pruning: chain.pruning,
            rows: chain.rows,
            ..Pipeline::new(chain.source, chain.source_schema, plan)
        };
        Ok(PipelineGraph::new(root, builds))
    }
}

/// Checks that the columns that a pipeline looks up have a device representation and are few enough. Those of
/// `tables` are exempt, since all their columns are one.
fn check_lookups(plan: &PipelinePlan, tables: &[bool]) -> Result<(), Reason> {
    let mut columns: BTreeMap<usize, u64> = BTreeMap::new();
    for ((build_side, column), data_type) in plan.lookups() {
        if !representable(&data_type) {
            return Err(Reason::Type {
                data_type,
                place: format!("column {column} of a build side"),
            });
        }
        *columns.entry(build_side).or_default() += u64::from(!tables[build_side]);
    }
    match columns.values().max() {
        Some(most) if *most > MAX_PAYLOAD as u64 => Err(Reason::Limit {
            expression: "a join".into(),
            asked: *most,
            limit: MAX_PAYLOAD as u64,
            unit: "columns of one build side",
        }),
        _ => Ok(()),
    }
}
