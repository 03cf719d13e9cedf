//! What a pipeline computes, known at planning time.

mod order;
mod texts;

pub use order::{RowOrder, TopRows, WindowInput};

use super::aggregate::{AggregateCall, AggregateFunction};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::DataFusionError;
use galatea_base::reason::Reason;
use galatea_expression::{Expr, ExprKind, KeySpace, Rebind};
use galatea_kernels::{MAX_LITERALS, MAX_OUTPUTS};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::convert::Infallible;
use std::sync::Arc;

/// Aggregates of a pipeline at most. A compiler takes a time that is quadratic in them: seconds for so many.
const MAX_AGGREGATES: usize = 256;

/// What one pipeline computes.
#[derive(Debug, Clone, PartialEq)]
pub struct PipelinePlan {
    /// Conjuncts over source columns, in the order they are applied.
    pub filters: Vec<Expr>,
    /// Where surviving rows go.
    pub sink: SinkPlan,
    /// Schema of the record batches the pipeline returns.
    pub output: SchemaRef,
}

/// Where surviving rows go.
#[derive(Debug, Clone, PartialEq)]
pub enum SinkPlan {
    /// `GROUP BY keys`; no keys makes exactly one row.
    Aggregate {
        /// Group expressions, in output order.
        keys: Vec<Expr>,
        /// Aggregates, following the keys in the output.
        aggregates: Vec<AggregateCall>,
        /// Whether the groups stay on the device for other pipelines.
        kept: bool,
    },
    /// One output row per surviving row.
    Materialise {
        /// Output expressions.
        outputs: Vec<Expr>,
        /// In which order rows are wanted, if that matters.
        order: Option<RowOrder>,
    },
    /// A build side of other pipelines: the rows as arrays by key, which stay on the device.
    Build {
        /// The key. Rows whose key is NULL are filtered out before.
        key: Expr,
        /// Columns of the build side, by number, ascending.
        columns: Vec<(usize, Expr)>,
        /// Whether no two rows may have the same key.
        unique: bool,
        /// Rows at most, of a part of a build side.
        most: Option<u64>,
    },
    /// The build side of a join whose keys repeat: the rows as arrays by position, and a list of the rows of
    /// each key, which stay on the device.
    Lists {
        /// The key.
        key: Expr,
        /// Columns of the join, by number, ascending.
        columns: Vec<(usize, Expr)>,
        /// Whether NULL is a key like others.
        null_keys: bool,
        /// Whether rows whose key is NULL, and none, are kept, in no list; otherwise they are filtered out
        /// before.
        keeps_all: bool,
        /// Rows at most, of a part of a build side.
        most: Option<u64>,
    },
    /// The probe side of such a join: the rows as arrays by position, each with the list of its partners,
    /// which stay on the device.
    Probe {
        /// Which build side has the lists.
        dimension: usize,
        /// What is looked up.
        key: Expr,
        /// Columns of the join, by number, ascending.
        columns: Vec<(usize, Expr)>,
        /// Whether a row without partners is a pair, with NULL for the columns of the build side; otherwise
        /// such rows are filtered out before.
        keeps_all: bool,
    },
    /// Which pairs of a join fulfil its condition, and which rows have one that does.
    Mark {
        /// The build side whose pairs are the rows.
        dimension: usize,
        /// What becomes of them.
        marking: Marking,
    },
    /// Rows of other pipelines: in the order of a window, which functions are computed over; they stay on the
    /// device.
    Windows(WindowInput),
    /// Rows of another pipeline by position, which are a part of its rows; they stay on the device.
    Store {
        /// Columns of the other pipeline, by number, ascending.
        columns: Vec<(usize, Expr)>,
        /// Which part.
        part: u32,
    },
    /// Rows of another pipeline, in partitions by a key; they stay on the device.
    Partition {
        /// The key.
        key: Expr,
        /// What the other pipeline reads, by number, ascending.
        columns: Vec<(usize, Expr)>,
        /// The partitions.
        by: Partitioning,
    },
    /// A build side of other pipelines: groups by a key, as arrays of accumulators that stay on the device.
    BuildGroups {
        /// The key, column 0 of the build side. Rows whose key is NULL are filtered out before.
        key: Expr,
        /// Columns of the build side from 1 on.
        aggregates: Vec<AggregateCall>,
    },
}

/// Partitions of rows by a key: rows of one find their places in a build side next to each other.
#[derive(Debug, Clone, PartialEq)]
pub struct Partitioning {
    /// The keys of the build side.
    pub keys: KeySpace,
    /// Number of partitions, a power of two.
    pub parts: u32,
    /// Whether rows are counted, and nothing else.
    pub counts: bool,
}

/// What becomes of the rows of a join, by whether a pair of theirs fulfils the condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Marking {
    /// The pairs, and rows that have none.
    Outer {
        /// Whether there is a condition, and pairs that do not fulfil it are none.
        conditional: bool,
        /// Whether rows of the probe side stay that have none.
        probe: bool,
        /// Whether rows of the build side stay that have none.
        build: bool,
    },
    /// The probe rows that have one.
    Semi,
    /// The probe rows that have none.
    Anti,
    /// All probe rows, and a column that says which have one.
    Mark {
        /// The number of the column.
        column: usize,
    },
}

impl std::fmt::Display for Marking {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Outer { .. } => "pairs, and rows without any",
            Self::Semi => "rows with a pair",
            Self::Anti => "rows without a pair",
            Self::Mark { .. } => "whether rows have a pair",
        })
    }
}

impl SinkPlan {
    /// The keys and the aggregates of groups, returned or kept by key.
    pub fn grouped(&self) -> Option<(&[Expr], &[AggregateCall])> {
        match self {
            Self::Aggregate { keys, aggregates, .. } => Some((keys, aggregates)),
            Self::BuildGroups { key, aggregates } => Some((std::slice::from_ref(key), aggregates)),
            _ => None,
        }
    }

    /// The same of groups that stay on the device for other pipelines.
    pub fn kept(mut self) -> Self {
        if let Self::Aggregate { kept, .. } = &mut self {
            *kept = true;
        }
        self
    }

    /// The key and the columns of rows that stay on the device: a side of a join, or in partitions.
    pub fn keyed(&self) -> Option<(&Expr, &[(usize, Expr)])> {
        match self {
            Self::Build { key, columns, .. }
            | Self::Lists { key, columns, .. }
            | Self::Probe { key, columns, .. }
            | Self::Partition { key, columns, .. } => Some((key, columns)),
            _ => None,
        }
    }

    /// Whether columns of surviving rows are written down, one by one.
    pub(crate) fn writes_rows(&self) -> bool {
        matches!(
            self,
            Self::Materialise { .. } | Self::Windows(_) | Self::Store { .. }
        ) || self.keyed().is_some()
    }

    /// What it does, in a word.
    pub fn verb(&self) -> &'static str {
        match self {
            Self::Aggregate { keys, .. } if keys.is_empty() => "aggregate",
            Self::Aggregate { .. } => "group",
            Self::Materialise { .. } => "filter",
            Self::Build { .. } | Self::BuildGroups { .. } | Self::Lists { .. } => "build",
            Self::Probe { .. } => "probe",
            Self::Mark { .. } => "mark",
            Self::Windows(_) => "sort for windows",
            Self::Store { .. } => "store",
            Self::Partition { by, .. } if by.counts => "count partitions",
            Self::Partition { .. } => "partition",
        }
    }

    /// The same with column `i` of the source being `columns[i]`.
    pub fn substitute(self, columns: &[Expr]) -> Self {
        match self.map(&|e| Ok::<_, Infallible>(e.substitute(columns))) {
            Ok(sink) => sink,
            Err(never) => match never {},
        }
    }

    /// The same with every expression replaced.
    pub(super) fn map<E>(self, replace: &dyn Fn(&Expr) -> Result<Expr, E>) -> Result<Self, E> {
        let all = |expressions: Vec<Expr>| expressions.iter().map(replace).collect::<Result<_, _>>();
        let numbered = |columns: Vec<(usize, Expr)>| {
            let column = |(number, column): (usize, Expr)| Ok((number, replace(&column)?));
            columns.into_iter().map(column).collect::<Result<Vec<_>, E>>()
        };
        let calls = |calls: Vec<AggregateCall>| {
            let call = |call: AggregateCall| {
                Ok(AggregateCall {
                    argument: call.argument.as_ref().map(replace).transpose()?,
                    filter: call.filter.as_ref().map(replace).transpose()?,
                    ..call
                })
            };
            calls.into_iter().map(call).collect::<Result<_, E>>()
        };
        Ok(match self {
            Self::Aggregate {
                keys,
                aggregates,
                kept,
            } => Self::Aggregate {
                keys: all(keys)?,
                aggregates: calls(aggregates)?,
                kept,
            },
            Self::Materialise { outputs, order } => Self::Materialise {
                outputs: all(outputs)?,
                order: match order {
                    Some(RowOrder::First(top)) => {
                        let key = replace(&top.key)?;
                        Some(RowOrder::First(TopRows { key, ..top }))
                    }
                    Some(RowOrder::All(words)) => Some(RowOrder::All(all(words)?)),
                    None => None,
                },
            },
            Self::Build {
                key,
                columns,
                unique,
                most,
            } => Self::Build {
                key: replace(&key)?,
                columns: numbered(columns)?,
                unique,
                most,
            },
            Self::Lists {
                key,
                columns,
                null_keys,
                keeps_all,
                most,
            } => Self::Lists {
                key: replace(&key)?,
                columns: numbered(columns)?,
                null_keys,
                keeps_all,
                most,
            },
            Self::Probe {
                dimension,
                key,
                columns,
                keeps_all,
            } => Self::Probe {
                dimension,
                key: replace(&key)?,
                columns: numbered(columns)?,
                keeps_all,
            },
            Self::Mark { dimension, marking } => Self::Mark { dimension, marking },
            Self::Partition { key, columns, by } => Self::Partition {
                key: replace(&key)?,
                columns: numbered(columns)?,
                by,
            },
            Self::Store { columns, part } => Self::Store {
                columns: numbered(columns)?,
                part,
            },
            Self::Windows(input) => Self::Windows(WindowInput {
                columns: numbered(input.columns)?,
                partition: all(input.partition)?,
                order: all(input.order)?,
                ties: input.ties.as_ref().map(replace).transpose()?,
                calls: input.calls,
            }),
            Self::BuildGroups { key, aggregates } => Self::BuildGroups {
                key: replace(&key)?,
                aggregates: calls(aggregates)?,
            },
        })
    }
}

/// The columns of one dimension among lookups by dimension and column, ascending.
pub fn looked_up(lookups: &BTreeMap<(usize, usize), DataType>, dimension: usize) -> Vec<usize> {
    let columns = lookups.keys().filter(|(number, _)| *number == dimension);
    columns.map(|(_, column)| *column).collect()
}

impl PipelinePlan {
    /// The pipeline that only counts the rows which pass the filters.
    pub fn counting(&self) -> Self {
        Self::counts(self.filters.clone(), None)
    }

    /// The pipeline that counts the rows which pass these filters: `rows`, of each `part` if there are parts,
    /// then the second column.
    pub fn counts(filters: Vec<Expr>, part: Option<Expr>) -> Self {
        let rows = Arc::new(Field::new("rows", DataType::Int64, false));
        let number = part
            .as_ref()
            .map(|part| Arc::new(Field::new("part", part.data_type().clone(), false)));
        let fields: Vec<_> = number.into_iter().chain([Arc::clone(&rows)]).collect();
        let count = AggregateCall {
            function: AggregateFunction::Count,
            argument: None,
            filter: None,
            field: rows,
        };
        Self {
            filters,
            sink: SinkPlan::Aggregate {
                keys: part.into_iter().collect(),
                aggregates: vec![count],
                kept: false,
            },
            output: Arc::new(Schema::new(fields)),
        }
    }

    /// The same with constants in place of what subqueries have returned by now.
    ///
    /// # Errors
    /// DataFusion's, if a subquery has not run.
    pub fn resolved(&self) -> Result<Self, DataFusionError> {
        let is_pending = |e: &&Expr| matches!(e.kind(), ExprKind::Pending(_));
        let pending = |e: &Expr| e.constants().iter().any(is_pending);
        if !self.expressions().into_iter().any(pending) {
            return Ok(self.clone());
        }
        let filters = self.filters.iter().map(Expr::resolved);
        Ok(Self {
            filters: filters.collect::<Result<_, _>>()?,
            sink: self.sink.clone().map(&Expr::resolved)?,
            output: Arc::clone(&self.output),
        })
    }

    /// The same with other expressions where values of subqueries are read.
    ///
    /// # Errors
    /// Those of `replace`.
    pub fn rebound(&self, replace: &Rebind<'_>) -> Result<Self, DataFusionError> {
        let rebound = |expression: &Expr| expression.rebound(replace);
        Ok(Self {
            filters: self.filters.iter().map(rebound).collect::<Result<_, _>>()?,
            sink: self.sink.clone().map(&rebound)?,
            output: Arc::clone(&self.output),
        })
    }

    /// Whether results of its groups are made on the host alone.
    pub fn finishes_on_host(&self) -> bool {
        let calls = self.sink.grouped().map_or(&[][..], |(_, aggregates)| aggregates);
        calls.iter().any(|call| call.function.finishes_on_host())
    }

    /// Every expression of the pipeline.
    pub fn expressions(&self) -> Vec<&Expr> {
        self.filters.iter().chain(self.sink_expressions()).collect()
    }

    /// The expressions evaluated for surviving rows.
    pub fn sink_expressions(&self) -> Vec<&Expr> {
        if let Some((keys, aggregates)) = self.sink.grouped() {
            let calls = aggregates
                .iter()
                .flat_map(|call| call.argument.iter().chain(&call.filter));
            return keys.iter().chain(calls).collect();
        }
        if let Some((key, columns)) = self.sink.keyed() {
            return [key].into_iter().chain(columns.iter().map(|(_, e)| e)).collect();
        }
        match &self.sink {
            SinkPlan::Materialise { outputs, order } => {
                let order = order.iter().flat_map(RowOrder::expressions);
                outputs.iter().flat_map(Expr::returned).chain(order).collect()
            }
            SinkPlan::Windows(input) => {
                let columns = input.columns.iter().map(|(_, column)| column);
                columns.chain(input.words()).collect()
            }
            SinkPlan::Store { columns, .. } => columns.iter().map(|(_, column)| column).collect(),
            _ => Vec::new(),
        }
    }

    /// The columns that rows look up in each dimension.
    pub fn lookups(&self) -> BTreeMap<(usize, usize), DataType> {
        self.expressions().iter().flat_map(|e| e.lookups()).collect()
    }

    /// The columns that rows look up in one dimension, ascending.
    pub fn lookups_of(&self, dimension: usize) -> Vec<usize> {
        looked_up(&self.lookups(), dimension)
    }

    /// Refuses what no encoding of the columns could make fit into a pipeline.
    pub fn check(&self) -> Result<(), Reason> {
        let limit = |asked: usize, limit: usize, unit| match asked <= limit {
            true => Ok(()),
            false => Err(Reason::Limit {
                expression: "pipeline".into(),
                asked: asked as u64,
                limit: limit as u64,
                unit,
            }),
        };
        if let SinkPlan::Materialise { outputs, order } = &self.sink {
            let words = match order {
                Some(RowOrder::All(words)) => words.len(),
                _ => 0,
            };
            let returned: HashSet<&Expr> = outputs.iter().flat_map(Expr::returned).collect();
            limit(returned.len() + words, MAX_OUTPUTS / 2, "output columns")?;
        }
        if let SinkPlan::Windows(input) = &self.sink {
            let outputs = input.columns.len() + input.words().count();
            limit(outputs, MAX_OUTPUTS / 2, "columns and words of a window")?;
        }
        if let SinkPlan::Store { columns, .. } = &self.sink {
            limit(columns.len(), MAX_OUTPUTS / 2, "columns of a union")?;
        }
        if let Some((_, aggregates)) = self.sink.grouped() {
            limit(aggregates.len(), MAX_AGGREGATES, "aggregates")?;
        }
        if let Some(made) = self.coded_texts().into_iter().find(|text| text.is_made()) {
            return Err(Reason::without_dictionary(made));
        }
        for expression in self.expressions() {
            expression.check_depth()?;
            expression.check_joined_texts()?;
            expression.check_made()?;
        }
        // Each takes a word at least.
        let constants: HashSet<&Expr> = self.expressions().iter().flat_map(|e| e.constants()).collect();
        limit(constants.len(), MAX_LITERALS, "literals")
    }

    /// Source columns the pipeline reads, ascending.
    pub fn columns(&self) -> BTreeSet<usize> {
        self.expressions().iter().flat_map(|e| e.columns()).collect()
    }
}
