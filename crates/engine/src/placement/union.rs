//! UNION ALL: the rows of each input stay on the device and are the rows of the pipeline above, one input
//! after another.
//!
//! ```text
//! t ── filter ── rows by position ──┐
//! u ── filter ── rows by position ──┴── groups, the side of a join, an order, ...
//! ```
//!
//! Each input has encodings of its own, and so a kernel of its own. In the pipeline above, a column is that
//! of the input which contains the row; strings use one dictionary of all inputs. A union that no operator
//! above computes with remains a CPU operator, which returns the rows of its inputs.

use super::chain::{Chain, Finder, UnionPart};
use super::nodes::node;
use super::plan_node::PlanNode;
use crate::graph::PipelineSource;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::union::UnionExec;
use galatea_base::reason::Reason;
use std::sync::Arc;

/// Maximum number of inputs: each takes an argument of the kernel, and every row computes with all of them.
const MAX_PARTS: usize = 16;

/// The chain over the rows of the union `plan`.
pub(super) fn chain(
    union: &UnionExec,
    plan: &Arc<dyn ExecutionPlan>,
    finder: &Finder<'_>,
) -> Result<Chain, Reason> {
    let inputs = flattened(union);
    if inputs.len() > MAX_PARTS {
        return Err(Reason::Limit {
            expression: "UNION ALL".into(),
            asked: inputs.len() as u64,
            limit: MAX_PARTS as u64,
            unit: "inputs",
        });
    }
    let schema = plan.schema();
    let types = |plan: &Arc<dyn ExecutionPlan>| {
        let schema = plan.schema();
        let types = schema.fields().iter().map(|field| field.data_type().clone());
        types.collect::<Vec<_>>()
    };
    let parts = inputs.into_iter().map(|input| {
        if types(input) != types(plan) {
            return Err(node("UnionExec", "inputs of different types"));
        }
        let chain = finder.below(input)?;
        if !finder.takes(&chain) {
            return Err(node("UnionExec", "an input whose rows CPU operators compute"));
        }
        Ok(UnionPart {
            plan: Arc::clone(input),
            chain,
        })
    });
    let parts = parts.collect::<Result<Vec<_>, Reason>>()?;
    let rows = parts.iter().map(|part| part.chain.rows()).sum();
    let source = PipelineSource::Union(Arc::clone(plan));
    let all: Vec<usize> = (0..schema.fields().len()).collect();
    let mut chain = Chain::over_table(source, schema, rows, &all);
    chain.parts = parts;
    Ok(chain)
}

/// The inputs of a union; nested unions are flattened.
fn flattened(union: &UnionExec) -> Vec<&Arc<dyn ExecutionPlan>> {
    let inputs = union.inputs().iter();
    let flat = inputs.map(|input| match PlanNode::of(input) {
        PlanNode::Union(below) => flattened(below),
        _ => vec![input],
    });
    flat.flatten().collect()
}
