//! Chooses the sink for the surviving rows of a pipeline, and emits the values that the sink needs of each
//! row.

mod groups;

use super::bound::ResultPlan;
use super::build_plan::{
    BuildPlan, MarkPlan, MultimapPlan, PartitionPlan, ProbePlan, StorePlan, WindowsPlan,
};
use super::column_access::ColumnAccess;
use super::options::KernelOptions;
use super::output::{self, RowsPlan};
use super::plan::{Marking, Partitioning, PipelinePlan, RowOrder, SinkPlan, WindowInput};
use super::sink::Sink;
use super::sink::append::AppendSink;
use super::sink::build::BuildSink;
use super::sink::chains::ChainsSink;
use super::sink::mark::MarkSink;
use super::sink::multimap::{MAX_COLUMNS, MultimapSink};
use super::sink::partition::{PartitionSink, block_for};
use super::sink::probe::ProbeSink;
use super::sink::store::StoreSink;
use super::sink::windows::WindowsSink;
use super::strategy::Strategy;
use crate::choices::RowOutput;
use galatea_base::policy::policy;
use galatea_base::reason::Reason;
use galatea_expression::code::Code;
use galatea_expression::{
    BuildPart, BuiltColumn, Emitter, Expr, JoinKeyPart, KeySpace, Kind, Spare, Value, WindowShape,
};
use galatea_kernels::KeyWidth;
use galatea_store::TableView;

/// The number of rows of a table, and the expected number that pass the filters.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cardinality {
    pub(super) rows: u64,
    pub(super) passing: f64,
}

policy! {
    /// Constants of the choice of a sink.
    pub(super) struct SinkPolicy {
        /// Maximum number of rows that the columns of an append sink hold at once. If more are expected, heap
        /// pages are at least as fast.
        direct_rows: f64 = 16.0 * 1024.0 * 1024.0,
        /// Minimum share of indices with a row for presence to be a sentinel in a column rather than a
        /// bitmap.
        full_arrays: f64 = 0.5,
        /// Maximum number of groups that are numbered densely rather than hashed.
        dense_groups: u64 = 1 << 22,
    }
}

const POLICY: SinkPolicy = SinkPolicy::DEFAULT;

/// Where returned rows are written.
pub(super) fn row_strategy(forced: RowOutput, cardinality: Cardinality) -> Strategy {
    match forced {
        RowOutput::Direct => Strategy::Append { counted: false },
        RowOutput::Auto if cardinality.passing <= POLICY.direct_rows => Strategy::Append { counted: false },
        RowOutput::Counted => Strategy::Append { counted: true },
        RowOutput::Auto | RowOutput::Heap => Strategy::Chains,
    }
}

/// A bound sink: how rows are collected, and how results are computed.
#[derive(Debug)]
pub(super) struct BoundSink {
    pub(super) sink: Box<dyn Sink>,
    pub(super) strategy: Strategy,
    pub(super) result: ResultPlan,
    /// The reason for the strategy of dense groups, or for the way rows are found by key.
    pub(super) why: Option<String>,
}

impl BoundSink {
    fn new(sink: impl Sink + 'static, strategy: Strategy, result: ResultPlan) -> Self {
        Self {
            sink: Box::new(sink),
            strategy,
            result,
            why: None,
        }
    }
}

/// Inputs of the choice of a sink.
pub(super) struct SinkInput<'a> {
    pub(super) plan: &'a PipelinePlan,
    pub(super) view: &'a TableView,
    pub(super) columns: &'a [ColumnAccess],
    /// Maps source columns to kernel columns.
    pub(super) rewrite: &'a dyn Fn(&Expr) -> Expr,
    pub(super) items: u32,
    pub(super) options: &'a KernelOptions,
    pub(super) cardinality: Cardinality,
    /// Whether rows look up build sides through the cache.
    pub(super) looks_up: bool,
}

impl SinkInput<'_> {
    /// Chooses the sink. The values that it needs of a live row are emitted into `code`.
    pub(super) fn bind(&self, emitter: Emitter<'_>, code: &mut Code) -> Result<BoundSink, Reason> {
        match &self.plan.sink {
            SinkPlan::Aggregate { keys, aggregates, .. } => self.groups(keys, aggregates, emitter, code),
            SinkPlan::BuildGroups {
                key,
                aggregates,
                part,
            } => self.build_groups((key, *part), aggregates, emitter, code),
            SinkPlan::Build {
                key,
                columns,
                unique,
                part,
            } => self.build((key, *part), columns, *unique, emitter, code),
            SinkPlan::Rows { outputs, order } => {
                let words = match order {
                    Some(RowOrder::All(words)) => words.as_slice(),
                    _ => &[],
                };
                self.rows(outputs, words, emitter, code)
            }
            SinkPlan::Multimap {
                key,
                columns,
                null_keys,
                keeps_all,
                part,
            } => self.lists((key, *part), columns, (*null_keys, *keeps_all), emitter, code),
            SinkPlan::Probe {
                build_side,
                key,
                columns,
                keeps_all,
            } => self.probe((*build_side, key), columns, *keeps_all, emitter, code),
            SinkPlan::Mark { build_side, marking } => mark(*build_side, *marking, emitter, code),
            SinkPlan::Windows(input) => self.windows(input, emitter, code),
            SinkPlan::Store { columns, part } => self.store(columns, *part, emitter, code),
            SinkPlan::Partition { key, columns, by } => self.partition(key, columns, by, emitter, code),
        }
    }

    /// Returned rows, and the words of the sort key if they are to be sorted.
    fn rows(
        &self,
        outputs: &[Expr],
        words: &[Expr],
        mut emitter: Emitter<'_>,
        code: &mut Code,
    ) -> Result<BoundSink, Reason> {
        let outputs: Vec<Expr> = outputs.iter().map(self.rewrite).collect();
        let mut rows = RowsPlan::new(&outputs, self.columns, &mut emitter, code)?;
        let columns = &mut rows.columns;
        let outputs = columns.len();
        for (index, word) in words.iter().enumerate() {
            let word = (self.rewrite)(word);
            let value = emitter.emit(&word, code)?;
            // Words that are always zero do not affect the order.
            if value.range != Some((0, 0)) {
                let texts = emitter.ordered_strings(&word).iter();
                rows.texts
                    .extend(texts.map(|text| (columns.len() - outputs, *text)));
                columns.push(output::column(outputs + index, &value)?);
            }
        }
        output::check_number(columns)?;
        let strategy = match words.is_empty() {
            true => row_strategy(self.options.row_output, self.cardinality),
            false => Strategy::Sort {
                words: columns.len() - outputs,
                in_order: self.options.in_order,
            },
        };
        let (outputs, result) = (columns.clone(), ResultPlan::Rows(rows));
        Ok(match strategy {
            Strategy::Chains => BoundSink::new(ChainsSink { outputs }, strategy, result),
            _ => {
                let in_order = matches!(strategy, Strategy::Sort { in_order: true, .. });
                BoundSink::new(AppendSink { outputs, in_order }, strategy, result)
            }
        })
    }

    /// A build side of rows in arrays by key.
    fn build(
        &self,
        (key, part): (&Expr, Option<BuildPart>),
        columns: &[(usize, Expr)],
        unique: bool,
        mut emitter: Emitter<'_>,
        code: &mut Code,
    ) -> Result<BoundSink, Reason> {
        let key = (self.rewrite)(key);
        let mut parts = Vec::new();
        for part in key.parts() {
            let value = emitter.emit(part, code)?;
            parts.push(emitter.interned(value, code));
        }
        let parts_of_key = parts.iter().map(|part| JoinKeyPart::new(part, false)).collect();
        let keys = match part {
            Some(part) => KeySpace::of_part(parts_of_key, part)?,
            None => KeySpace::new(parts_of_key, self.cardinality.rows)?,
        };
        let number = emitter.key_number(&keys, &key, &parts, code)?;
        let (built, values) = self.built(columns, &mut emitter, code)?;
        let plan = BuildPlan {
            marker: self.marker(&keys, &built),
            keys,
            columns: built,
            unique,
        };
        let sink = BuildSink {
            plan: plan.clone(),
            number,
            values,
        };
        let presence = match plan.marker {
            Some(_) => "values say which keys have a row",
            None => "bits say which keys have a row",
        };
        let why = plan.keys.why_table().unwrap_or(presence);
        Ok(BoundSink {
            why: Some(why.to_owned()),
            ..BoundSink::new(sink, Strategy::Build, ResultPlan::Build(plan))
        })
    }

    /// The column whose entries mark indices without a row by a sentinel, instead of a bitmap. A row then
    /// reads memory once instead of twice to look up its match. A bitmap has a fraction of the bytes and
    /// stays in the cache of a multiprocessor, so it is better if most lookups find no row.
    fn marker(&self, keys: &KeySpace, columns: &[BuiltColumn]) -> Option<(usize, Spare)> {
        let full = self.cardinality.passing >= POLICY.full_arrays * keys.indices() as f64;
        if keys.slots.is_some() || !full {
            return None;
        }
        let marks = |(position, column): (usize, &BuiltColumn)| {
            let spare = column.spare()?;
            Some((column.width, position, spare))
        };
        let columns = columns.iter().enumerate().filter_map(marks);
        let (_, position, spare) = columns.min_by_key(|(width, position, _)| (*width, *position))?;
        Some((position, spare))
    }

    /// Columns that stay on the device, and their values for the row.
    fn built(
        &self,
        columns: &[(usize, Expr)],
        emitter: &mut Emitter<'_>,
        code: &mut Code,
    ) -> Result<(Vec<BuiltColumn>, Vec<Value>), Reason> {
        let (mut built, mut values) = (Vec::new(), Vec::new());
        for (column, expression) in columns {
            let value = emitter.emit_stored(&(self.rewrite)(expression), code)?;
            built.push(BuiltColumn::new(*column, &value)?);
            values.push(value);
        }
        Ok((built, values))
    }

    /// A multimap: rows by position, with lists by key.
    fn lists(
        &self,
        (key, part): (&Expr, Option<BuildPart>),
        columns: &[(usize, Expr)],
        (null_keys, keeps_all): (bool, bool),
        mut emitter: Emitter<'_>,
        code: &mut Code,
    ) -> Result<BoundSink, Reason> {
        check_columns(columns.len())?;
        let key = (self.rewrite)(key);
        let mut parts = Vec::new();
        for part in key.parts() {
            let value = emitter.emit(part, code)?;
            parts.push(emitter.interned(value, code));
        }
        let nulls: Vec<&str> = parts.iter().filter_map(|part| part.null.as_deref()).collect();
        let null =
            (keeps_all && !null_keys && !nulls.is_empty()).then(|| format!("({})", nulls.join(" || ")));
        let parts_of_key = parts
            .iter()
            .map(|part| JoinKeyPart::new(part, null_keys))
            .collect();
        let keys = match part {
            Some(part) => KeySpace::of_part(parts_of_key, part)?,
            None => KeySpace::of_lists(parts_of_key, self.cardinality.rows)?,
        };
        let number = emitter.key_number(&keys, &key, &parts, code)?;
        let (built, values) = self.built(columns, &mut emitter, code)?;
        let why = keys.why_table();
        let plan = MultimapPlan { keys, columns: built };
        let result = ResultPlan::Multimap(plan.clone());
        let sink = MultimapSink {
            plan,
            number,
            null,
            values,
        };
        Ok(BoundSink {
            why: why.map(str::to_owned),
            ..BoundSink::new(sink, Strategy::Multimap, result)
        })
    }

    /// A probe side: rows by position, with the lists of their matches.
    fn probe(
        &self,
        (build_side, key): (usize, &Expr),
        columns: &[(usize, Expr)],
        keeps_all: bool,
        mut emitter: Emitter<'_>,
        code: &mut Code,
    ) -> Result<BoundSink, Reason> {
        check_columns(columns.len())?;
        let list = emitter.list(build_side, &(self.rewrite)(key), code)?;
        let (built, values) = self.built(columns, &mut emitter, code)?;
        let plan = ProbePlan {
            build_side,
            columns: built,
            keeps_all,
        };
        let result = ResultPlan::Probe(plan.clone());
        Ok(BoundSink::new(
            ProbeSink { plan, list, values },
            Strategy::Probe,
            result,
        ))
    }

    /// Rows by position, with the words of a window's sort key.
    fn windows(
        &self,
        input: &WindowInput,
        mut emitter: Emitter<'_>,
        code: &mut Code,
    ) -> Result<BoundSink, Reason> {
        let (columns, values) = self.built(&input.columns, &mut emitter, code)?;
        let (mut words, mut texts) = (Vec::new(), Vec::new());
        let mut keys = [0; 2];
        let ties = input.ties.as_slice();
        for (part, expressions) in [&*input.partition, &*input.order, ties].into_iter().enumerate() {
            for word in expressions {
                let word = (self.rewrite)(word);
                let value = emitter.emit(&word, code)?;
                // Words that are always zero do not affect the order.
                if value.range == Some((0, 0)) {
                    continue;
                }
                let placed = emitter.ordered_strings(&word).iter();
                texts.extend(placed.map(|text| (words.len(), *text)));
                let width = match value.kind {
                    Kind::I32 => KeyWidth::Four,
                    _ => KeyWidth::Eight,
                };
                words.push((width, value));
                keys.get_mut(part).into_iter().for_each(|count| *count += 1);
            }
        }
        let plan = WindowsPlan {
            shape: WindowShape::new(&columns, &input.calls, self.cardinality.rows)?,
            columns,
            words: words.iter().map(|(width, _)| *width).collect(),
            keys,
            texts,
        };
        let strategy = Strategy::Windows { words: words.len() };
        let result = ResultPlan::Windows(plan.clone());
        let words = words.into_iter().map(|(_, value)| value).collect();
        Ok(BoundSink::new(
            WindowsSink { plan, values, words },
            strategy,
            result,
        ))
    }

    /// Rows by position.
    fn store(
        &self,
        columns: &[(usize, Expr)],
        part: u32,
        mut emitter: Emitter<'_>,
        code: &mut Code,
    ) -> Result<BoundSink, Reason> {
        let (columns, values) = self.built(columns, &mut emitter, code)?;
        let plan = StorePlan { columns, part };
        let result = ResultPlan::Store(plan.clone());
        Ok(BoundSink::new(
            StoreSink { plan, values },
            Strategy::Store,
            result,
        ))
    }

    /// Partitioned rows by position.
    fn partition(
        &self,
        key: &Expr,
        columns: &[(usize, Expr)],
        by: &Partitioning,
        mut emitter: Emitter<'_>,
        code: &mut Code,
    ) -> Result<BoundSink, Reason> {
        let partition = emitter.partition(&by.keys, by.parts, &(self.rewrite)(key), code)?;
        let (columns, values) = self.built(columns, &mut emitter, code)?;
        let plan = PartitionPlan {
            columns,
            parts: by.parts,
            counts: by.counts,
            aligned: by.aligned,
        };
        let block = block_for(&plan, self.items, self.options)?;
        let sink = PartitionSink {
            plan: plan.clone(),
            partition,
            values,
            block,
            items: self.items,
        };
        let strategy = Strategy::Partition {
            parts: by.parts,
            block,
        };
        Ok(BoundSink::new(sink, strategy, ResultPlan::Partition(plan)))
    }
}

/// Refuses a join side with more columns than outputs.
fn check_columns(columns: usize) -> Result<(), Reason> {
    if columns <= MAX_COLUMNS {
        return Ok(());
    }
    Err(Reason::Limit {
        expression: "a join".into(),
        asked: columns as u64,
        limit: MAX_COLUMNS as u64,
        unit: "columns of one side",
    })
}

/// Marks of pairs and rows.
fn mark(
    build_side: usize,
    marking: Marking,
    mut emitter: Emitter<'_>,
    code: &mut Code,
) -> Result<BoundSink, Reason> {
    let pair = emitter.pair_of_row(build_side, code)?;
    let result = ResultPlan::Mark(MarkPlan { build_side, marking });
    Ok(BoundSink::new(MarkSink { pair }, Strategy::Mark, result))
}
