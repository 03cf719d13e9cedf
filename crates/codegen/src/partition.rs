//! A pipeline in two, so that its rows are in partitions when they meet a build side.
//!
//! ```text
//! scan ── filters ── look up ── sink            each row touches a random place of the build side
//!
//! scan ── filters ── partitions                 rows leave in the order of their key's partition
//!                        └── look up ── sink    which the places of the build side are in, too: those of a partition fit the cache
//! ```
//!
//! The first pipeline keeps what the second one reads of a row: values of columns and of other build sides,
//! and nothing that is computed of them, since that could raise an error for a row that has no partner.

use super::plan::{Partitioning, PipelinePlan, RowOrder, SinkPlan};
use arrow::datatypes::{Field, Schema};
use galatea_expression::{Expr, ExprKind};
use galatea_kernels::MAX_OUTPUTS;
use std::cell::RefCell;
use std::convert::Infallible;
use std::sync::Arc;

/// Which build side the rows of a pipeline meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meeting {
    /// The one that they are stored in.
    Own,
    /// One that they look up, by its number.
    Other(usize),
}

/// The two pipelines of a partitioned probe: one writes rows into partitions, the other reads them partition
/// by partition.
#[derive(Debug, Clone, PartialEq)]
pub struct Halves {
    /// Brings rows into partitions.
    pub first: PipelinePlan,
    /// Goes through them.
    pub second: PipelinePlan,
}

impl PipelinePlan {
    /// The key by which its rows meet a build side; `None` if there is none, or more than one.
    pub fn key_of(&self, meeting: Meeting) -> Option<&Expr> {
        match (meeting, &self.sink) {
            (
                Meeting::Own,
                SinkPlan::Build { key, .. } | SinkPlan::BuildGroups { key, .. } | SinkPlan::Lists { key, .. },
            ) => Some(key),
            (Meeting::Own, _) => None,
            (Meeting::Other(wanted), sink) => {
                let mut keys = Vec::new();
                for expression in self.expressions() {
                    collect_keys(expression, wanted, &mut keys);
                }
                if let SinkPlan::Probe { dimension, key, .. } = sink
                    && *dimension == wanted
                {
                    keys.push(key);
                }
                let (first, others) = keys.split_first()?;
                others.iter().all(|key| key == first).then_some(*first)
            }
        }
    }

    /// How many of its filters come before the first that looks up the build side of that number.
    pub fn filters_before(&self, dimension: usize) -> usize {
        let first = self.filters.iter().position(|filter| looks_up(filter, dimension));
        first.unwrap_or(self.filters.len())
    }

    /// Of a pipeline that brings rows into partitions: the one that only counts them.
    pub fn counting_partitions(&self) -> Option<Self> {
        let SinkPlan::Partition { key, by, .. } = &self.sink else {
            return None;
        };
        let sink = SinkPlan::Partition {
            key: key.clone(),
            columns: Vec::new(),
            by: Partitioning {
                counts: true,
                ..by.clone()
            },
        };
        Some(Self { sink, ..self.clone() })
    }

    /// The pipeline in two; build side number `rows` of the second one is the rows of the first. `None` where
    /// rows cannot be kept in between.
    pub fn in_partitions(&self, meeting: Meeting, rows: usize, by: Partitioning) -> Option<Halves> {
        // What finds the first rows of an order goes through the rows several times.
        let first_rows = matches!(
            &self.sink,
            SinkPlan::Materialise {
                order: Some(RowOrder::First(_)),
                ..
            }
        );
        if first_rows || matches!(self.sink, SinkPlan::Mark { .. } | SinkPlan::Partition { .. }) {
            return None;
        }
        let key = self.key_of(meeting)?.clone();
        // Filters keep their order: one may rely on those before it.
        let split = match meeting {
            Meeting::Own => self.filters.len(),
            Meeting::Other(dimension) => self.filters_before(dimension),
        };
        let (before, behind) = self.filters.split_at(split);
        let kept = Kept {
            meeting,
            rows,
            columns: RefCell::default(),
            refused: RefCell::default(),
        };
        let filters = behind.iter().map(|filter| kept.read(filter)).collect();
        let sink = match self.sink.clone().map(&|e| Ok::<_, Infallible>(kept.read(e))) {
            Ok(sink) => sink,
            Err(never) => match never {},
        };
        let columns = kept.columns.into_inner();
        if kept.refused.into_inner() || columns.len() > MAX_OUTPUTS / 2 {
            return None;
        }
        let columns = columns.into_iter().enumerate().collect();
        Some(Halves {
            first: Self {
                filters: before.to_vec(),
                sink: SinkPlan::Partition { key, columns, by },
                output: Arc::new(Schema::empty()),
            },
            second: Self {
                filters,
                sink,
                output: Arc::clone(&self.output),
            },
        })
    }
}

/// What is kept of rows between two pipelines.
struct Kept {
    meeting: Meeting,
    /// The build side that the rows are.
    rows: usize,
    columns: RefCell<Vec<Expr>>,
    /// Whether something cannot be kept.
    refused: RefCell<bool>,
}

impl Kept {
    /// The expression over the rows that are kept.
    fn read(&self, expression: &Expr) -> Expr {
        expression.replaced(&|node| {
            let is_value = match node.kind() {
                ExprKind::Column(_) | ExprKind::RowNumber | ExprKind::TableRow | ExprKind::ByRow(_) => true,
                ExprKind::Member { dimension, key }
                | ExprKind::Absent { dimension, key }
                | ExprKind::Lookup { dimension, key, .. } => {
                    if self.meeting == Meeting::Other(*dimension) {
                        return None;
                    }
                    *self.refused.borrow_mut() |= !is_plain(key);
                    true
                }
                _ => false,
            };
            is_value.then(|| self.column(node))
        })
    }

    /// The column that keeps the value.
    fn column(&self, value: &Expr) -> Expr {
        let mut columns = self.columns.borrow_mut();
        let known = columns.iter().position(|column| column == value);
        let number = known.unwrap_or_else(|| {
            columns.push(value.clone());
            columns.len() - 1
        });
        let field = Field::new("kept", value.data_type().clone(), value.nullable());
        Expr::lookup(self.rows, number, &field, Expr::row_number())
    }
}

/// Whether evaluating a key raises no error, wherever that is.
fn is_plain(key: &Expr) -> bool {
    match key.kind() {
        ExprKind::Column(_) | ExprKind::Literal(_) | ExprKind::RowNumber => true,
        ExprKind::Tuple(parts) => parts.iter().all(is_plain),
        ExprKind::Lookup { key, .. } => is_plain(key),
        _ => false,
    }
}

/// Whether the expression looks up the dimension.
fn looks_up(expression: &Expr, wanted: usize) -> bool {
    let mut keys = Vec::new();
    collect_keys(expression, wanted, &mut keys);
    !keys.is_empty()
}

/// The keys by which the dimension is looked up.
fn collect_keys<'e>(expression: &'e Expr, wanted: usize, keys: &mut Vec<&'e Expr>) {
    match expression.kind() {
        ExprKind::Member { dimension, key }
        | ExprKind::Absent { dimension, key }
        | ExprKind::Lookup { dimension, key, .. }
            if *dimension == wanted =>
        {
            keys.push(key);
        }
        _ => {}
    }
    for child in expression.children() {
        collect_keys(child, wanted, keys);
    }
}
