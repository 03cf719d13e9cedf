//! Splits a pipeline in two, so that its rows are partitioned before they probe a build side.
//!
//! ```text
//! scan ── filters ── look up ── sink            each row accesses a random place of the build side
//!
//! scan ── filters ── partitions                 rows are written in the order of their key's partition
//!                        └── look up ── sink    a partition's rows access a part that fits the cache
//! ```
//!
//! The first pipeline stores the parts of a row that the second one reads: columns and values of other build
//! sides. It stores no computed values, since their computation could raise an error for a row without a
//! match.

use super::plan::{Partitioning, PipelinePlan, RowOrder, SinkPlan};
use arrow::datatypes::{Field, Schema};
use galatea_expression::{Expr, ExprKind, Function};
use galatea_kernels::MAX_OUTPUTS;
use std::cell::RefCell;
use std::convert::Infallible;
use std::sync::Arc;

/// The build side that partitions are aligned with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AlignedSide {
    /// The build side that the pipeline itself builds.
    Own,
    /// The groups that the pipeline computes.
    Groups,
    /// The build side with this number, which the pipeline looks up.
    Other(usize),
}

/// The two pipelines of a partitioned probe: one writes rows into partitions, the other reads them partition
/// by partition.
#[derive(Debug, Clone, PartialEq)]
pub struct PartitionPasses {
    /// Writes rows into partitions.
    pub first: PipelinePlan,
    /// Reads the partitions.
    pub second: PipelinePlan,
}

impl PipelinePlan {
    /// The key of the rows in the build side; `None` if the key is missing or not unique.
    pub fn key_of(&self, aligned: AlignedSide) -> Option<&Expr> {
        match (aligned, &self.sink) {
            (
                AlignedSide::Own,
                SinkPlan::Build { key, .. }
                | SinkPlan::BuildGroups { key, .. }
                | SinkPlan::Multimap { key, .. },
            ) => Some(key),
            (AlignedSide::Own | AlignedSide::Groups, _) => None,
            (AlignedSide::Other(wanted), sink) => {
                let mut keys = Vec::new();
                for expression in self.expressions() {
                    collect_keys(expression, wanted, &mut keys);
                }
                if let SinkPlan::Probe { build_side, key, .. } = sink
                    && *build_side == wanted
                {
                    keys.push(key);
                }
                let (first, others) = keys.split_first()?;
                others.iter().all(|key| key == first).then_some(*first)
            }
        }
    }

    /// The key of its groups as one expression; `None` if it has no groups, or few: a single one, or those of
    /// a pipeline that counts the rows of buckets.
    pub fn group_key(&self) -> Option<Expr> {
        let is_bucket = |key: &Expr| {
            matches!(
                key.kind(),
                ExprKind::Call {
                    function: Function::Bucket,
                    ..
                }
            )
        };
        match &self.sink {
            SinkPlan::Aggregate { keys, .. } if keys.iter().any(is_bucket) => None,
            SinkPlan::Aggregate { keys, .. } => Expr::tuple(keys.clone()),
            _ => None,
        }
    }

    /// Number of filters before the first one that looks up build side number `build_side`.
    pub fn filters_before(&self, build_side: usize) -> usize {
        let first = self
            .filters
            .iter()
            .position(|filter| looks_up(filter, build_side));
        first.unwrap_or(self.filters.len())
    }

    /// The pipeline that only counts the rows per partition, if this pipeline writes partitions.
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

    /// Splits the pipeline in two. The rows of the first pipeline are build side number `rows` of the second
    /// one. `None` if the rows cannot be stored in between.
    pub fn in_partitions(
        &self,
        aligned: AlignedSide,
        rows: usize,
        by: Partitioning,
    ) -> Option<PartitionPasses> {
        // A top-k search reads its rows several times.
        let first_rows = matches!(
            &self.sink,
            SinkPlan::Rows {
                order: Some(RowOrder::First(_)),
                ..
            }
        );
        if first_rows || matches!(self.sink, SinkPlan::Mark { .. } | SinkPlan::Partition { .. }) {
            return None;
        }
        let key = match aligned {
            AlignedSide::Groups => self.group_key()?,
            _ => self.key_of(aligned)?.clone(),
        };
        // Filters keep their order: one may rely on the previous ones.
        let split = match aligned {
            AlignedSide::Own | AlignedSide::Groups => self.filters.len(),
            AlignedSide::Other(build_side) => self.filters_before(build_side),
        };
        let (before, behind) = self.filters.split_at(split);
        let kept = Kept {
            aligned,
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
        Some(PartitionPasses {
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

impl PipelinePlan {
    /// Splits the pipeline in two like [`Self::in_partitions`], with partitions by the hash of the key in the
    /// build side: partition `i` of `parts` has the hashes from `i * 2^32 / parts`. All keys with a NULL part
    /// are in one partition, unless `spreads`. The first pipeline runs while the build side does not exist
    /// yet. `None` also if the stored rows depend on the build side, or on their position in the scan.
    pub fn in_hash_partitions(
        &self,
        aligned: AlignedSide,
        rows: usize,
        (parts, spreads): (u32, bool),
    ) -> Option<PartitionPasses> {
        let mut passes = self.in_partitions(aligned, rows, Partitioning::by_number(parts))?;
        if let SinkPlan::Partition { key, .. } = &mut passes.first.sink {
            *key = Expr::key_hash(key, spreads).bucket(0, u32::BITS - parts.ilog2());
        }
        let refused = |expression: &&Expr| {
            let looks_up = match aligned {
                AlignedSide::Own | AlignedSide::Groups => false,
                AlignedSide::Other(build_side) => looks_up(expression, build_side),
            };
            looks_up || is_by_position(expression)
        };
        let is_refused = passes.first.expressions().iter().any(refused);
        (!is_refused).then_some(passes)
    }
}

/// Whether the value of an expression depends on the position of its row in the scan.
fn is_by_position(expression: &Expr) -> bool {
    let by_position = matches!(
        expression.kind(),
        ExprKind::RowNumber | ExprKind::LateMaterialised(_)
    );
    by_position || expression.children().into_iter().any(is_by_position)
}

/// The columns that are stored between the two pipelines.
struct Kept {
    aligned: AlignedSide,
    /// Number of the build side that contains the stored rows.
    rows: usize,
    columns: RefCell<Vec<Expr>>,
    /// Whether a value cannot be stored.
    refused: RefCell<bool>,
}

impl Kept {
    /// The expression over the stored rows.
    fn read(&self, expression: &Expr) -> Expr {
        expression.replaced(&|node| {
            let is_value = match node.kind() {
                ExprKind::Column(_)
                | ExprKind::RowNumber
                | ExprKind::TableRow
                | ExprKind::LateMaterialised(_) => true,
                ExprKind::Member { build_side, key }
                | ExprKind::Absent { build_side, key }
                | ExprKind::Lookup { build_side, key, .. } => {
                    if self.aligned == AlignedSide::Other(*build_side) {
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

    /// The stored column of the value.
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

/// Whether evaluating a key never raises an error.
fn is_plain(key: &Expr) -> bool {
    match key.kind() {
        ExprKind::Column(_) | ExprKind::Literal(_) | ExprKind::RowNumber => true,
        ExprKind::Tuple(parts) => parts.iter().all(is_plain),
        ExprKind::Lookup { key, .. } => is_plain(key),
        _ => false,
    }
}

/// Whether the expression looks up the build side.
fn looks_up(expression: &Expr, wanted: usize) -> bool {
    let mut keys = Vec::new();
    collect_keys(expression, wanted, &mut keys);
    !keys.is_empty()
}

/// The lookup keys of the build side.
fn collect_keys<'e>(expression: &'e Expr, wanted: usize, keys: &mut Vec<&'e Expr>) {
    match expression.kind() {
        ExprKind::Member { build_side, key }
        | ExprKind::Absent { build_side, key }
        | ExprKind::Lookup { build_side, key, .. }
            if *build_side == wanted =>
        {
            keys.push(key);
        }
        _ => {}
    }
    for child in expression.children() {
        collect_keys(child, wanted, keys);
    }
}
