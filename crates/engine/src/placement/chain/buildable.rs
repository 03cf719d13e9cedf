//! Results that pipelines leave on the device for others: build sides, join matches, rows of windows and
//! unions. Their columns are chosen once the lookups are known.

use super::Chain;
use crate::graph::{PipelineGraph, PipelineSource};
use crate::placement::chain::window_input::Window;
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::physical_plan::ExecutionPlan;
use galatea_base::reason::Reason;
use galatea_codegen::aggregate::AggregateCall;
use galatea_codegen::{Marking, SinkPlan};
use galatea_expression::Expr;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A build side with columns that are not chosen yet.
#[derive(Clone)]
pub(in crate::placement) enum Buildable {
    /// Rows of a table, after filters and lookups of its own.
    Rows {
        /// Filters and lookups.
        chain: Box<Chain>,
        /// The key, over the columns of the table.
        key: Expr,
    },
    /// Join matches.
    Pairs(Box<PairJoin>),
    /// Rows in the order of a window.
    Windows(Box<WindowLevel>),
    /// The rows of the union's input with that number.
    Part(Box<UnionPart>, u32),
    /// Any result of a pipeline, with all of its columns.
    Complete(Box<PipelineGraph>),
}

impl Buildable {
    /// Whether column `index` is a string without a dictionary; only groups have such columns.
    pub(in crate::placement) fn is_made(&self, index: usize) -> bool {
        let Self::Complete(graph) = self else {
            return false;
        };
        let SinkPlan::Aggregate { keys, aggregates, .. } = &graph.root().get().plan.sink else {
            return false;
        };
        let of_call = |call: &AggregateCall| {
            let argument = call.argument.as_ref().filter(|_| call.function.orders_values());
            argument.is_some_and(Expr::is_made)
        };
        match index.checked_sub(keys.len()) {
            None => keys[index].is_made(),
            Some(call) => aggregates.get(call).is_some_and(of_call),
        }
    }

    /// The pipeline that builds the build side with these columns, some of which are only returned.
    pub(in crate::placement) fn build(
        self,
        columns: &[usize],
        unique: bool,
        is_returned: &dyn Fn(usize) -> bool,
    ) -> Result<PipelineGraph, Reason> {
        let (mut chain, key) = match self {
            Self::Rows { chain, key } => (chain, key),
            Self::Pairs(join) => return join.build(columns, is_returned),
            Self::Windows(windows) => return windows.build(columns, is_returned),
            Self::Part(part, number) => return part.build(number, columns),
            Self::Complete(graph) => return Ok(*graph),
        };
        let nullable = key.parts().iter().filter(|part| part.nullable());
        chain
            .filters
            .extend(nullable.map(|part| part.is_null().negated()));
        let column = |number: usize| match is_returned(number) {
            true => chain.returned_column(number),
            false => chain.columns[number].clone(),
        };
        let columns: Vec<(usize, Expr)> = columns.iter().map(|number| (*number, column(*number))).collect();
        chain.finish(
            SinkPlan::Build {
                key,
                columns,
                unique,
                part: None,
            },
            Arc::new(Schema::empty()),
        )
    }

    /// The pipeline that leaves the groups of `graph` on the device.
    pub(in crate::placement) fn groups(mut graph: PipelineGraph) -> Option<Self> {
        let plan = &mut graph.root_mut().plan;
        if plan.finishes_on_host() {
            return None;
        }
        let SinkPlan::Aggregate { keys, aggregates, .. } = plan.sink.clone() else {
            return None;
        };
        let key = keys.into_iter().next().filter(|key| !key.is_made())?;
        if key.nullable() {
            plan.filters.push(key.is_null().negated());
        }
        plan.sink = SinkPlan::BuildGroups {
            key,
            aggregates,
            part: None,
        };
        plan.output = Arc::new(Schema::empty());
        Some(Self::Complete(Box::new(graph)))
    }
}

/// One side of a join with keys that may repeat.
#[derive(Clone)]
pub(in crate::placement) struct PairInput {
    pub(in crate::placement) plan: Arc<dyn ExecutionPlan>,
    pub(in crate::placement) chain: Chain,
    /// The key, over the columns of the chain's source.
    pub(in crate::placement) key: Expr,
    /// The number of the side's first column in the join.
    pub(in crate::placement) first: usize,
}

impl PairInput {
    /// The columns of the join that belong to this side, by number; some are only returned.
    fn columns(&self, of_join: &BTreeSet<usize>, is_returned: &dyn Fn(usize) -> bool) -> Vec<(usize, Expr)> {
        let own = self.first..self.first + self.chain.columns.len();
        let own = of_join.iter().filter(|column| own.contains(column));
        let column = |column: usize| match is_returned(column) {
            true => self.chain.returned_column(column - self.first),
            false => self.chain.columns[column - self.first].clone(),
        };
        own.map(|number| (*number, column(*number))).collect()
    }

    /// The plan of this side, and the pipeline that builds a multimap of its rows by key, with these columns
    /// of the join.
    fn lists(
        mut self,
        (of_join, is_returned): (&BTreeSet<usize>, &dyn Fn(usize) -> bool),
        null_keys: bool,
        keeps_all: bool,
    ) -> Result<(Arc<dyn ExecutionPlan>, PipelineGraph), Reason> {
        if !null_keys && !keeps_all {
            let nullable = self.key.parts().iter().filter(|part| part.nullable());
            let filters: Vec<Expr> = nullable.map(|part| part.is_null().negated()).collect();
            self.chain.filters.extend(filters);
        }
        let sink = SinkPlan::Multimap {
            columns: self.columns(of_join, is_returned),
            key: self.key,
            null_keys,
            keeps_all,
            part: None,
        };
        Ok((self.plan, self.chain.finish(sink, Arc::new(Schema::empty()))?))
    }

    /// NOT IN: removes rows for which the result is unknown. If a key of the other side is NULL, that is
    /// every row; if the other side has any row, it is every row with a NULL key.
    pub(in crate::placement) fn only_certain(&mut self, others: Self) {
        if !self.key.nullable() && !others.key.nullable() {
            return;
        }
        let flag = |null: bool| Expr::literal(ScalarValue::Int32(Some(null.into())));
        let build_side = self.chain.build_sides.len();
        let has = |null| Expr::member(build_side, flag(null));
        let filters = &mut self.chain.filters;
        if others.key.nullable() {
            filters.push(has(true).negated());
        }
        if self.key.nullable() {
            filters.extend(Expr::all([self.key.is_null(), has(false)]).map(|open| open.negated()));
        }
        let rows = Buildable::Rows {
            chain: Box::new(others.chain),
            key: Expr::either(others.key.is_null(), flag(true), flag(false)),
        };
        self.chain.add_made(others.plan, flag(true), rows);
    }

    /// The chain of this side, and the condition that a row of the other side has the same key.
    pub(in crate::placement) fn with_member(
        mut self,
        other: Self,
        null_keys: bool,
    ) -> Result<(Chain, Expr), Reason> {
        let (plan, lists) = other.lists((&BTreeSet::new(), &|_| false), null_keys, false)?;
        let member = Expr::member(self.chain.build_sides.len(), self.key.clone());
        self.chain
            .add_made(plan, self.key, Buildable::Complete(Box::new(lists)));
        Ok((self.chain, member))
    }
}

/// A join with keys that may repeat; its rows are the matches.
#[derive(Clone)]
pub(in crate::placement) struct PairJoin {
    pub(in crate::placement) probe: PairInput,
    pub(in crate::placement) build: PairInput,
    /// The node.
    pub(in crate::placement) plan: Arc<dyn ExecutionPlan>,
    /// The columns of the node without its projection: those of the left side, of the right side, and the
    /// mark column.
    pub(in crate::placement) schema: SchemaRef,
    /// How conditions beside the keys select matches and rows; `None` if the keys alone decide.
    pub(in crate::placement) marking: Option<Marking>,
    /// Whether NULL is a key like others.
    pub(in crate::placement) null_keys: bool,
    /// Whether a probe row without a match is returned.
    pub(in crate::placement) keeps_all: bool,
    /// Conditions over the join's columns, for the matches that are marked.
    pub(in crate::placement) conditions: Vec<Expr>,
}

impl PairJoin {
    /// The pipelines that leave the matches on the device, with these columns of the join, some of which are
    /// only returned.
    fn build(self, columns: &[usize], is_returned: &dyn Fn(usize) -> bool) -> Result<PipelineGraph, Reason> {
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
        let of_conditions: BTreeSet<usize> = conditions.iter().flat_map(Expr::columns).collect();
        let wanted: BTreeSet<usize> = columns.iter().chain(&of_conditions).copied().collect();
        let is_returned = |column: usize| is_returned(column) && !of_conditions.contains(&column);
        let nothing = || Arc::new(Schema::empty());
        let keeps_build = matches!(marking, Some(Marking::Outer { build: true, .. }));
        let (of_build, lists) = build.lists((&wanted, &is_returned), null_keys, keeps_build)?;
        let columns_of_probe = probe.columns(&wanted, &is_returned);
        let build_side = probe.chain.build_sides.len();
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
                .push(Expr::member(build_side, probe.key.clone()));
        }
        probe
            .chain
            .add_made(of_build, probe.key.clone(), Buildable::Complete(Box::new(lists)));
        let sink = SinkPlan::Probe {
            build_side,
            columns: columns_of_probe,
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
        marks.add_rows(plan, row, Buildable::Complete(Box::new(pairs)));
        let sink = SinkPlan::Mark {
            build_side: 0,
            marking,
        };
        marks.finish(sink, nothing())
    }
}

/// An input of a union.
#[derive(Clone)]
pub(in crate::placement) struct UnionPart {
    pub(in crate::placement) plan: Arc<dyn ExecutionPlan>,
    /// Its rows.
    pub(in crate::placement) chain: Chain,
}

impl UnionPart {
    /// The pipeline that leaves the rows on the device as part `part` of the union, with these columns.
    fn build(self, part: u32, columns: &[usize]) -> Result<PipelineGraph, Reason> {
        let columns = columns.iter();
        let columns = columns.map(|column| (*column, self.chain.columns[*column].clone()));
        let columns = columns.collect();
        let nothing = Arc::new(Schema::empty());
        self.chain.finish(SinkPlan::Store { columns, part }, nothing)
    }
}

/// Functions over one order of rows.
#[derive(Clone)]
pub(in crate::placement) struct WindowLevel {
    /// The rows.
    pub(in crate::placement) input: Chain,
    /// The order, and the functions; their columns follow those of the input.
    pub(in crate::placement) window: Window,
}

impl WindowLevel {
    /// The pipeline that leaves the rows on the device in order, with these columns, some of which are only
    /// returned.
    fn build(self, columns: &[usize], is_returned: &dyn Fn(usize) -> bool) -> Result<PipelineGraph, Reason> {
        let mut input = self.window.input(&self.input.columns, columns);
        let arguments: BTreeSet<usize> = (input.calls.iter())
            .filter_map(|(_, call)| call.argument)
            .collect();
        for (number, column) in &mut input.columns {
            if is_returned(*number) && !arguments.contains(number) {
                *column = self.input.returned_column(*number);
            }
        }
        let nothing = Arc::new(Schema::empty());
        self.input.finish(SinkPlan::Windows(input), nothing)
    }
}
