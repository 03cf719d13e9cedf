//! The plan of a pipeline at planning time.

mod order;
mod strings;

pub use order::{RowOrder, TopRows, WindowInput};

use super::aggregate::{AggregateCall, AggregateFunction};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::DataFusionError;
use galatea_base::reason::Reason;
use galatea_expression::{BuildPart, Expr, ExprKind, Interval, JoinKeyPart, KeySpace, Rebind};
use galatea_kernels::{MAX_LITERALS, MAX_OUTPUTS};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::convert::Infallible;
use std::sync::Arc;

/// Maximum number of aggregates of a pipeline. Compile time is quadratic in it: seconds at this limit.
const MAX_AGGREGATES: usize = 256;

/// The plan of a pipeline.
#[derive(Debug, Clone, PartialEq)]
pub struct PipelinePlan {
    /// Conjuncts over source columns, in the order they are applied.
    pub filters: Vec<Expr>,
    /// The sink of the surviving rows.
    pub sink: SinkPlan,
    /// Schema of the record batches the pipeline returns.
    pub output: SchemaRef,
}

/// The sink of the surviving rows of a pipeline.
#[derive(Debug, Clone, PartialEq)]
pub enum SinkPlan {
    /// `GROUP BY keys`; without keys, the result is exactly one row.
    Aggregate {
        /// Group expressions, in output order.
        keys: Vec<Expr>,
        /// Aggregates, following the keys in the output.
        aggregates: Vec<AggregateCall>,
        /// Whether the groups stay on the device for other pipelines.
        kept: bool,
    },
    /// Returns one output row per surviving row.
    Rows {
        /// Output expressions.
        outputs: Vec<Expr>,
        /// The requested order of the rows, if any.
        order: Option<RowOrder>,
    },
    /// A build side of other pipelines: arrays by key, which stay on the device.
    Build {
        /// The key. Rows with a NULL key have been filtered out.
        key: Expr,
        /// Columns of the build side, by number, ascending.
        columns: Vec<(usize, Expr)>,
        /// Whether keys are required to be unique.
        unique: bool,
        /// The keys, if the build side is one partition of an out-of-core join.
        part: Option<BuildPart>,
    },
    /// The multimap build side of a join: arrays of rows by position and a list of the rows of each key,
    /// which stay on the device.
    Multimap {
        /// The key.
        key: Expr,
        /// Columns of the join, by number, ascending.
        columns: Vec<(usize, Expr)>,
        /// Whether NULL is a key like other values.
        null_keys: bool,
        /// Whether rows with a NULL key, which matches nothing, are kept; they are in no list. Otherwise they
        /// have been filtered out.
        keeps_all: bool,
        /// The keys, if the build side is one partition of an out-of-core join.
        part: Option<BuildPart>,
    },
    /// The probe side of such a join: arrays of rows by position, each with its list of matches, which stay
    /// on the device.
    Probe {
        /// Number of the build side with the multimap.
        build_side: usize,
        /// The key to look up.
        key: Expr,
        /// Columns of the join, by number, ascending.
        columns: Vec<(usize, Expr)>,
        /// Whether a row without a match yields a pair with NULL for the columns of the build side. Otherwise
        /// such rows have been filtered out.
        keeps_all: bool,
    },
    /// Marks of the pairs that fulfil a join condition, and of the rows with such a pair.
    Mark {
        /// Number of the build side that consists of the pairs.
        build_side: usize,
        /// The marks that are written.
        marking: Marking,
    },
    /// Rows of other pipelines, sorted into the order of a window for window functions; they stay on the
    /// device.
    Windows(WindowInput),
    /// Rows by position that are one part of another pipeline's input; they stay on the device.
    Store {
        /// Columns of the other pipeline, by number, ascending.
        columns: Vec<(usize, Expr)>,
        /// Number of the part.
        part: u32,
    },
    /// Rows of another pipeline, partitioned by a key; they stay on the device.
    Partition {
        /// The key.
        key: Expr,
        /// The columns that the other pipeline reads, by number, ascending.
        columns: Vec<(usize, Expr)>,
        /// The partitioning.
        by: Partitioning,
    },
    /// A build side of other pipelines: groups as arrays of accumulators by key, which stay on the device.
    BuildGroups {
        /// The key, which is column 0 of the build side. Rows with a NULL key have been filtered out.
        key: Expr,
        /// Columns of the build side from 1 on.
        aggregates: Vec<AggregateCall>,
        /// The keys, if the build side is one partition of an out-of-core join.
        part: Option<BuildPart>,
    },
}

/// Partitioning by key: the rows of a partition access adjacent entries of a build side.
#[derive(Debug, Clone, PartialEq)]
pub struct Partitioning {
    /// The key space of the build side.
    pub keys: KeySpace,
    /// Number of partitions, a power of two.
    pub parts: u32,
    /// Whether rows are only counted.
    pub counts: bool,
    /// Whether each partition begins at a multiple of 32 rows, so that its NULL bitmaps begin with a word.
    pub aligned: bool,
}

impl Partitioning {
    /// Partitioning by a number below `parts`, a power of two, which is the key.
    pub(crate) fn by_number(parts: u32) -> Self {
        let number = JoinKeyPart {
            interval: Interval {
                low: 0,
                high: i128::from(parts) - 1,
            },
            values: None,
            by_place: false,
            nulls: false,
        };
        let keys = KeySpace {
            parts: vec![number],
            slots: None,
            is_wide: false,
        };
        Self {
            keys,
            parts,
            counts: false,
            aligned: true,
        }
    }
}

/// The rows that a join returns. A *pair* here is a probe row and a build row that fulfil the join condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Marking {
    /// The pairs, and rows without a pair.
    Outer {
        /// Whether the join has a condition, which pairs must fulfil.
        conditional: bool,
        /// Whether probe rows without a pair are kept.
        probe: bool,
        /// Whether build rows without a pair are kept.
        build: bool,
    },
    /// The probe rows with a pair.
    Semi,
    /// The probe rows without a pair.
    Anti,
    /// All probe rows, and a column that contains whether they have a pair.
    Mark {
        /// Number of the column.
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
    /// The keys and aggregates of groups, returned or kept as a build side.
    pub fn grouped(&self) -> Option<(&[Expr], &[AggregateCall])> {
        match self {
            Self::Aggregate { keys, aggregates, .. } => Some((keys, aggregates)),
            Self::BuildGroups { key, aggregates, .. } => Some((std::slice::from_ref(key), aggregates)),
            _ => None,
        }
    }

    /// This sink, with groups that stay on the device for other pipelines.
    pub fn kept(mut self) -> Self {
        if let Self::Aggregate { kept, .. } = &mut self {
            *kept = true;
        }
        self
    }

    /// The key and the columns of rows that stay on the device as a join side or in partitions.
    pub fn keyed(&self) -> Option<(&Expr, &[(usize, Expr)])> {
        match self {
            Self::Build { key, columns, .. }
            | Self::Multimap { key, columns, .. }
            | Self::Probe { key, columns, .. }
            | Self::Partition { key, columns, .. } => Some((key, columns)),
            _ => None,
        }
    }

    /// Limits a build side to the keys of one partition of an out-of-core join.
    pub fn set_part(&mut self, keys: BuildPart) {
        if let Self::Build { part, .. } | Self::BuildGroups { part, .. } | Self::Multimap { part, .. } = self
        {
            *part = Some(keys);
        }
    }

    /// Whether the sink writes columns of single surviving rows.
    pub(crate) fn writes_rows(&self) -> bool {
        matches!(self, Self::Rows { .. } | Self::Windows(_) | Self::Store { .. }) || self.keyed().is_some()
    }

    /// A verb for the sink's operation.
    pub fn verb(&self) -> &'static str {
        match self {
            Self::Aggregate { keys, .. } if keys.is_empty() => "aggregate",
            Self::Aggregate { .. } => "group",
            Self::Rows { .. } => "filter",
            Self::Build { .. } | Self::BuildGroups { .. } | Self::Multimap { .. } => "build",
            Self::Probe { .. } => "probe",
            Self::Mark { .. } => "mark",
            Self::Windows(_) => "sort for windows",
            Self::Store { .. } => "store",
            Self::Partition { by, .. } if by.counts => "count partitions",
            Self::Partition { .. } => "partition",
        }
    }

    /// Replaces source column `i` by `columns[i]`.
    pub fn substitute(self, columns: &[Expr]) -> Self {
        match self.map(&|e| Ok::<_, Infallible>(e.substitute(columns))) {
            Ok(sink) => sink,
            Err(never) => match never {},
        }
    }

    /// Replaces every expression.
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
            Self::Rows { outputs, order } => Self::Rows {
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
                part,
            } => Self::Build {
                key: replace(&key)?,
                columns: numbered(columns)?,
                unique,
                part,
            },
            Self::Multimap {
                key,
                columns,
                null_keys,
                keeps_all,
                part,
            } => Self::Multimap {
                key: replace(&key)?,
                columns: numbered(columns)?,
                null_keys,
                keeps_all,
                part,
            },
            Self::Probe {
                build_side,
                key,
                columns,
                keeps_all,
            } => Self::Probe {
                build_side,
                key: replace(&key)?,
                columns: numbered(columns)?,
                keeps_all,
            },
            Self::Mark { build_side, marking } => Self::Mark { build_side, marking },
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
            Self::BuildGroups {
                key,
                aggregates,
                part,
            } => Self::BuildGroups {
                key: replace(&key)?,
                aggregates: calls(aggregates)?,
                part,
            },
        })
    }
}

/// The columns of build side `build_side` in `lookups`, ascending. The keys of `lookups` are a build side and
/// one of its columns.
pub fn looked_up(lookups: &BTreeMap<(usize, usize), DataType>, build_side: usize) -> Vec<usize> {
    let columns = lookups.keys().filter(|(number, _)| *number == build_side);
    columns.map(|(_, column)| *column).collect()
}

impl PipelinePlan {
    /// The pipeline that only counts the rows that pass the filters.
    pub fn counting(&self) -> Self {
        Self::counts(self.filters.clone(), None)
    }

    /// The pipeline that counts the rows that pass these filters, in column `rows`. If `part` is given, the
    /// rows are counted by part, and `rows` is the second column.
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

    /// Replaces pending constants by the values that subqueries have returned.
    ///
    /// # Errors
    /// DataFusion's error if a subquery has not run.
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

    /// Replaces expressions that read values of subqueries.
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

    /// Whether only the host can compute the results of its aggregates, so that no pipeline can read them.
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
            SinkPlan::Rows { outputs, order } => {
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

    /// The columns that rows look up, by build side and column.
    pub fn lookups(&self) -> BTreeMap<(usize, usize), DataType> {
        self.expressions().iter().flat_map(|e| e.lookups()).collect()
    }

    /// The columns that rows look up in one build side, ascending.
    pub fn lookups_of(&self, build_side: usize) -> Vec<usize> {
        looked_up(&self.lookups(), build_side)
    }

    /// Checks the limits of a pipeline that do not depend on the encodings of its columns.
    ///
    /// # Errors
    /// The reason why the device cannot run the plan.
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
        if let SinkPlan::Rows { outputs, order } = &self.sink {
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
        if let Some(made) = self.coded_strings().into_iter().find(|text| text.is_made()) {
            return Err(Reason::without_dictionary(made));
        }
        for expression in self.expressions() {
            expression.check_depth()?;
            expression.check_joined_strings()?;
            expression.check_made()?;
        }
        // Each constant takes at least one word.
        let constants: HashSet<&Expr> = self.expressions().iter().flat_map(|e| e.constants()).collect();
        limit(constants.len(), MAX_LITERALS, "literals")
    }

    /// Source columns that the pipeline reads, ascending.
    pub fn columns(&self) -> BTreeSet<usize> {
        self.expressions().iter().flat_map(|e| e.columns()).collect()
    }
}
