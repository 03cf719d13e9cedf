//! Why nodes of a plan stay on the CPU.

use super::plan_node::PlanNode;
use datafusion::physical_plan::ExecutionPlan;
use galatea_base::reason::Reason;
use std::sync::Arc;

/// Why nodes of a plan stay on the CPU.
#[derive(Debug, Default, Clone)]
pub(crate) struct Reasons {
    /// Each reason once.
    pub(crate) texts: Vec<String>,
    /// Whether any of them keeps more than the order of rows on the CPU.
    pub(crate) concern_work: bool,
}

impl Reasons {
    /// A reason that keeps work on the CPU.
    pub(crate) fn work(reason: &Reason) -> Self {
        Self {
            texts: vec![reason.to_string()],
            concern_work: true,
        }
    }

    pub(super) fn add(&mut self, text: String, is_work: bool) {
        self.concern_work |= is_work;
        if !self.texts.contains(&text) {
            self.texts.push(text);
        }
    }

    /// Adds the reason why a node stays on the CPU.
    pub(super) fn note(&mut self, plan: &Arc<dyn ExecutionPlan>, reason: &Reason) {
        let text = match reason {
            Reason::Node { .. } | Reason::Setting { .. } | Reason::EmulatedDevice | Reason::Device { .. } => {
                reason.to_string()
            }
            _ => format!("{}: {reason}", plan.name()),
        };
        self.add(text, !matches!(PlanNode::of(plan), PlanNode::Sort(_)));
    }
}
