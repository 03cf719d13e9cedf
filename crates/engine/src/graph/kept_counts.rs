//! Row counts of partitions, which executions of one cached plan share.

use arrow::array::RecordBatch;
use galatea_codegen::PipelinePlan;
use galatea_expression::LookupSide;
use galatea_store::TableId;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::iter::zip;
use std::sync::Arc;

/// Maximum number of results: counts of both sides of two joins and of groups, for two limits of memory.
const MOST: usize = 16;

/// The results of the pipelines that count the rows of a pipeline's partitions.
#[derive(Debug, Clone, Default)]
pub struct KeptCounts(Arc<Mutex<VecDeque<Counted>>>);

#[derive(Debug)]
struct Counted {
    inputs: CountInputs,
    counts: Vec<RecordBatch>,
}

/// The inputs of a counting pipeline. Equal inputs have equal counts.
#[derive(Debug, Clone, Default)]
pub(crate) struct CountInputs {
    /// The counting pipeline and those below it, without pending constants.
    pub(crate) plans: Vec<PipelinePlan>,
    /// The versions of the tables that these scan.
    pub(crate) tables: Vec<TableId>,
    /// The rows of CPU operators that these look up.
    pub(crate) rows: Vec<Arc<LookupSide>>,
}

impl CountInputs {
    fn is_equal(&self, other: &Self) -> bool {
        let same_rows = || zip(&self.rows, &other.rows).all(|(own, other)| Arc::ptr_eq(own, other));
        self.tables == other.tables
            && self.rows.len() == other.rows.len()
            && same_rows()
            && self.plans == other.plans
    }
}

impl KeptCounts {
    /// The counts of an earlier execution over equal inputs.
    pub(crate) fn get(&self, inputs: &CountInputs) -> Option<Vec<RecordBatch>> {
        let kept = self.0.lock();
        let found = kept.iter().find(|known| known.inputs.is_equal(inputs));
        found.map(|known| known.counts.clone())
    }

    /// Keeps the counts over these inputs. The oldest ones are dropped.
    pub(crate) fn keep(&self, inputs: CountInputs, counts: &[RecordBatch]) {
        let mut kept = self.0.lock();
        if kept.len() >= MOST {
            kept.pop_front();
        }
        kept.push_back(Counted {
            inputs,
            counts: counts.to_vec(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, Int64Array};
    use galatea_expression::Expr;

    #[test]
    fn counts_are_reused_for_equal_inputs() {
        let keys: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
        let rows = || Arc::new(LookupSide::new("k", &keys, &[], true).expect("a build side"));
        let inputs = CountInputs {
            plans: vec![PipelinePlan::counts(Vec::new(), None)],
            tables: vec![TableId::next()],
            rows: vec![rows()],
        };
        let kept = KeptCounts::default();
        assert!(kept.get(&inputs).is_none(), "nothing was kept");
        let copy = kept.clone();
        kept.keep(inputs.clone(), &[]);
        assert!(copy.get(&inputs).is_some());
        let other_version = CountInputs {
            tables: vec![TableId::next()],
            ..inputs.clone()
        };
        let other_rows = CountInputs {
            rows: vec![rows()],
            ..inputs.clone()
        };
        let other_filter = CountInputs {
            plans: vec![PipelinePlan::counts(vec![Expr::table_row().within(0, 1)], None)],
            ..inputs.clone()
        };
        for other in [other_version, other_rows, other_filter, CountInputs::default()] {
            assert!(copy.get(&other).is_none(), "{other:?}");
        }
        for _ in 0..MOST {
            let tables = vec![TableId::next()];
            kept.keep(
                CountInputs {
                    tables,
                    ..CountInputs::default()
                },
                &[],
            );
        }
        assert!(copy.get(&inputs).is_none(), "the oldest counts are dropped");
    }
}
