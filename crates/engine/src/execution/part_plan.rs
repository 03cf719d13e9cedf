//! Which join of a subtree may run part after part, and its pipelines over one part: that of the build side
//! and those that meet it keep the rows whose key has a hash within a range.

use crate::expression::{BUCKETS, Expr};
use crate::graph::{PipelineSource, Subtree};
use crate::pipeline::{Meeting, PipelinePlan, RowOrder, SinkPlan};
use std::ops::Range;

/// Bits of a key's hash below the number of its part.
const SHIFT: u32 = u32::BITS - BUCKETS.ilog2();

/// Bytes of a column without a width of its own: the code of a text.
const CODE_BYTES: u64 = 4;

/// A join of a subtree whose build side may be made and met part after part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PartedJoin {
    /// With the build side of that number, which the rows of the subtree's own pipeline look up.
    Lookup(usize),
    /// The one whose pairs are the rows of the subtree's own pipeline.
    Pairs,
}

impl PartedJoin {
    /// The joins of a subtree that may run so, those with the most rows on the build side first.
    pub(super) fn of(subtree: &Subtree) -> Vec<Self> {
        let returns = match &subtree.plan.sink {
            // A part has an order of its own, and marks of its own pairs.
            SinkPlan::Materialise {
                order: Some(RowOrder::All(_)),
                ..
            }
            | SinkPlan::Mark { .. }
            | SinkPlan::Partition { .. } => return Vec::new(),
            SinkPlan::Materialise { .. } | SinkPlan::Aggregate { .. } => true,
            // What has a place for each row that is scanned has none for pairs that are not known yet.
            _ => false,
        };
        let lookups = (0..subtree.dimensions.len()).map(Self::Lookup);
        let pairs = Some(Self::Pairs).filter(|_| returns);
        let mut joins: Vec<Self> = (lookups.chain(pairs))
            .filter(|join| join.keys(subtree).is_some())
            .collect();
        let rows = |join: &Self| {
            join.build(subtree)
                .and_then(|build| build.rows)
                .unwrap_or(u64::MAX)
        };
        joins.sort_by_key(|join| std::cmp::Reverse(rows(join)));
        joins
    }

    /// The key of its build side, and that of the rows that look it up; `None` if it cannot run in parts.
    pub(super) fn keys(self, subtree: &Subtree) -> Option<[&Expr; 2]> {
        let build = self.build(subtree)?;
        if !matches!(build.plan.sink, SinkPlan::Build { .. } | SinkPlan::Lists { .. }) {
            return None;
        }
        let (own, met) = match self {
            Self::Lookup(side) => {
                // The list of each row is a place in this build side, of which there has to be one then.
                if matches!(&subtree.plan.sink, SinkPlan::Probe { dimension, .. } if *dimension == side) {
                    return None;
                }
                (
                    build.plan.key_of(Meeting::Own)?,
                    subtree.plan.key_of(Meeting::Other(side))?,
                )
            }
            Self::Pairs => {
                let (probe, side) = self.probe(subtree)?;
                (
                    build.plan.key_of(Meeting::Own)?,
                    probe.plan.key_of(Meeting::Other(side))?,
                )
            }
        };
        // Where all rows have one key there is one part.
        (!own.parts().is_empty()).then_some([own, met])
    }

    /// The pipeline of its build side.
    pub(super) fn build(self, subtree: &Subtree) -> Option<&Subtree> {
        let (subtree, side) = match self {
            Self::Lookup(side) => (subtree, side),
            Self::Pairs => self.probe(subtree)?,
        };
        Some(&subtree.dimensions.get(side)?.build.as_ref()?.subtree)
    }

    /// Of pairs the pipeline of the probe side, and the number of the build side that it looks up.
    pub(super) fn probe(self, subtree: &Subtree) -> Option<(&Subtree, usize)> {
        if self != Self::Pairs || !matches!(subtree.source, PipelineSource::Pairs(_)) {
            return None;
        }
        let last = &subtree.dimensions.last()?.build.as_ref()?.subtree;
        match &last.plan.sink {
            SinkPlan::Probe { dimension, .. } => Some((last, *dimension)),
            SinkPlan::Mark { .. } => self.probe(last),
            _ => None,
        }
    }

    /// Where the pipelines of the probe side and of the build side are in the graph, of a subtree that is at
    /// this place.
    pub(super) fn places(self, subtree: &Subtree, mut at: Vec<usize>) -> (Vec<usize>, Vec<usize>) {
        let side = match self {
            Self::Lookup(side) => side,
            Self::Pairs => {
                let mut subtree = subtree;
                loop {
                    let last = subtree.dimensions.len().saturating_sub(1);
                    at.push(last);
                    let build = subtree.dimensions.get(last).and_then(|side| side.build.as_ref());
                    match build.map(|build| (&build.subtree, &build.subtree.plan.sink)) {
                        Some((_, SinkPlan::Probe { dimension, .. })) => break *dimension,
                        Some((next, _)) => subtree = next,
                        None => break last,
                    }
                }
            }
        };
        let build = [at.as_slice(), &[side]].concat();
        (at, build)
    }

    /// The subtree with a build side that has no rows.
    pub(super) fn without(self, subtree: &Subtree) -> Subtree {
        self.over(subtree, &(0..0), 1)
    }

    /// The subtree over a part: the rows whose keys have a hash in that range of parts, of which the build
    /// side has `most` at most.
    pub(super) fn over(self, subtree: &Subtree, parts: &Range<u32>, most: u64) -> Subtree {
        let mut subtree = subtree.clone();
        match self {
            Self::Lookup(side) => restrict(&mut subtree, side, parts, most),
            Self::Pairs => over_pairs(&mut subtree, parts, most),
        }
        subtree
    }
}

/// Keeps the pairs of a part.
fn over_pairs(subtree: &mut Subtree, parts: &Range<u32>, most: u64) {
    let last = subtree.dimensions.last_mut().and_then(|side| side.build.as_mut());
    let Some(last) = last else { return };
    match last.subtree.plan.sink {
        SinkPlan::Probe { dimension, .. } => restrict(&mut last.subtree, dimension, parts, most),
        _ => over_pairs(&mut last.subtree, parts, most),
    }
}

/// Keeps the rows of a part, and those of a build side that they look up.
fn restrict(subtree: &mut Subtree, side: usize, parts: &Range<u32>, most: u64) {
    let end = i64::from(parts.end) << SHIFT;
    let (least, greatest) = match parts.is_empty() {
        true => (1, 0),
        false => (i64::from(parts.start) << SHIFT, end - 1),
    };
    let Some(build) = subtree
        .dimensions
        .get_mut(side)
        .and_then(|side| side.build.as_mut())
    else {
        return;
    };
    let spreads = spreads(&build.subtree.plan.sink);
    let within = |key: &Expr| Expr::key_hash(key, spreads).within(least, greatest);
    let plan = &mut build.subtree.plan;
    let key = plan.key_of(Meeting::Own).map(&within);
    plan.filters.extend(key);
    if let SinkPlan::Build { most: rows, .. } | SinkPlan::Lists { most: rows, .. } = &mut plan.sink {
        *rows = Some(most);
    }
    let key = subtree.plan.key_of(Meeting::Other(side)).map(&within);
    // Before what is looked up in the build side, and behind what the key may rely on.
    let at = subtree.plan.filters_before(side);
    key.into_iter()
        .for_each(|key| subtree.plan.filters.insert(at, key));
}

/// Whether keys with NULL, which have no partner, may be in any part, for the sink of a build side.
pub(super) fn spreads(build: &SinkPlan) -> bool {
    !matches!(build, SinkPlan::Lists { null_keys: true, .. })
}

/// The subtree that counts the rows in each part of the hashes of a key, of those that pass these filters.
pub(super) fn counting(subtree: &Subtree, filters: &[Expr], key: &Expr, spreads: bool) -> Subtree {
    let number = Expr::key_hash(key, spreads).bucket(0, SHIFT);
    Subtree {
        plan: PipelinePlan::counts(filters.to_vec(), Some(number)),
        fetch: None,
        ..subtree.clone()
    }
}

/// Bytes of a row of a build side, or of a probe side, as far as types tell: with its place in a table of
/// keys and in lists.
pub(super) fn row_bytes(sink: &SinkPlan) -> u64 {
    let width = |(_, column): &(usize, Expr)| {
        let width = column.data_type().primitive_width();
        // A bit that says whether it is NULL, rounded up.
        1 + width.map_or(CODE_BYTES, |bytes| bytes as u64)
    };
    let columns: u64 = sink
        .keyed()
        .map_or(0, |(_, columns)| columns.iter().map(width).sum());
    match sink {
        // Two slots a row, each of a key and of a place for every column.
        SinkPlan::Build { .. } => 2 * (8 + columns),
        // Two slots a row, each of a key and the start of a list; then the row's slot, rank and place there.
        SinkPlan::Lists { .. } => 2 * (8 + 4) + 12 + columns,
        // The start of the list, its length, and the pairs before.
        _ => 16 + columns,
    }
}
