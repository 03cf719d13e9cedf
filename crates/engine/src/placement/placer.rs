//! Replaces the profitable supported subtrees of a plan, from its root down.

use super::aggregate::{classes, grouping_sets};
use super::assessment::{Assessed, Assessment, FewGroups, Worth, place_again};
use super::chain::Finder;
use super::find::{finder, one_graph, refusal, subtree};
use super::functions;
use super::nodes::{ends, is_partial, orders_result};
use super::plan_node::PlanNode;
use super::reasons::Reasons;
use super::sort::{self, top};
use super::stream;
use crate::config::DeviceChoice;
use crate::graph::{BuildSide, InputPlan, PipelineGraph, PipelineSource};
use crate::nodes::{GpuExec, WorkRowsExec};
use crate::report::PlanReport;
use datafusion::common::Result;
use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, ReplaceChildrenOptions};
use galatea_base::reason::Reason;
use galatea_base::stack::growing;
use std::sync::Arc;

/// A subtree that waits for its warm-up replaces its parts if it saves this share of the time that the parts
/// save: predictions are not more exact, and the whole does not copy the results of its parts.
const PARTS_GAIN: f64 = 0.9;

/// A plan with its GPU subtrees.
pub(super) struct Placed {
    pub(super) plan: Arc<dyn ExecutionPlan>,
    pub(super) worth: Worth,
}

/// Places the subtrees of one plan.
pub(super) struct Placer<'a> {
    assessment: &'a Assessment<'a>,
    report: &'a PlanReport,
    finder: Finder<'a>,
}

impl<'a> Placer<'a> {
    /// `found`: the reason why an earlier run refused the rows of a build side.
    pub(super) fn new(
        assessment: &'a Assessment<'a>,
        report: &'a PlanReport,
        found: &'a dyn Fn(&BuildSide) -> Option<Reason>,
    ) -> Self {
        Self {
            assessment,
            report,
            finder: finder(found, assessment.config.device != DeviceChoice::Auto),
        }
    }

    /// Places the profitable subtrees of `plan`, limited to `fetch` rows.
    pub(super) fn place(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        fetch: Option<usize>,
        reasons: &mut Reasons,
    ) -> Result<Placed> {
        growing(|| self.place_level(plan, fetch, reasons))
    }

    /// Notes why a node stays on the CPU, and its further functions without a device version.
    fn note(&self, plan: &Arc<dyn ExecutionPlan>, reason: &Reason, reasons: &mut Reasons) {
        reasons.note(plan, reason);
        for other in functions::others(plan, reason, &self.finder) {
            reasons.note(plan, &other);
        }
    }

    fn place_level(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        fetch: Option<usize>,
        reasons: &mut Reasons,
    ) -> Result<Placed> {
        let assessment = self.assessment;
        let finder = &self.finder;
        // The gain of the subtree with this node as its root, after its warm-up.
        let mut own = Worth::default();
        let mut cold = None;
        let sorted = sort::below(&plan, finder);
        let is_sort = sorted.is_some() && matches!(PlanNode::of(&plan), PlanNode::Sort(_));
        if let Some((sort, found)) = sorted {
            let found = ends(&plan).and(found).and_then(|found| {
                sort::check_worth(&found, sort, &assessment.estimator, assessment.config)?;
                Ok(found)
            });
            match self.assess(found, &plan, None, &mut own) {
                Ok(found) => return Ok(self.node(found, plan, reasons)?.with_few(own.few)),
                Err(reason @ Reason::Cold { .. }) if is_sort && !orders_result(&plan) => cold = Some(reason),
                Err(reason) if is_sort && !orders_result(&plan) => self.note(&plan, &reason, reasons),
                Err(_) => {}
            }
        }
        if let Some((sort, Ok(found))) = top::below(&plan, finder)
            && ends(&plan).is_ok()
            && let Ok(found) = self.assess(Ok(found), sort.input(), None, &mut own)
        {
            let rows = self.node(found, Arc::clone(sort.input()), reasons)?;
            return Ok(rows.below(plan)?.with_few(own.few));
        }
        if let Some(found) = one_graph(&plan, finder)
            && let Ok(found) = self.assess(ends(&plan).and(Ok(found)), &plan, fetch, &mut Worth::default())
        {
            return Ok(self.node(found, plan, reasons)?.with_few(own.few));
        }
        if let Some(union) = self.place_sets(&plan, &mut own, reasons)? {
            return Ok(union.with_few(own.few));
        }
        if let Some(joined) = self.place_classes(&plan, &mut own)? {
            return Ok(joined.with_few(own.few));
        }
        if plan.boundedness().is_unbounded()
            && let Some(outcome) = stream::operator(&plan, finder, assessment.session, assessment.config)
        {
            match outcome {
                Ok(operator) => return Ok(Placed::alone(operator)),
                Err(reason) => self.note(&plan, &reason, reasons),
            }
        } else if let Some(outcome) = subtree(&plan, finder) {
            match self.assess(ends(&plan).and(outcome), &plan, fetch, &mut own) {
                Ok(found) => return Ok(self.node(found, plan, reasons)?.with_few(own.few)),
                // The final aggregate above a partial one has reported the reason.
                Err(_) if is_partial(&plan) => {}
                Err(reason @ Reason::Cold { .. }) => cold = Some(reason),
                Err(reason) => self.note(&plan, &reason, reasons),
            }
        } else if let Some(reason) = refusal(&plan, finder)
            && !orders_result(&plan)
            && !is_sort
        {
            self.note(&plan, &reason, reasons);
        }
        let Placed { plan: placed, worth } = self.place_inputs(&plan, fetch, reasons)?;
        // For a subtree that waits for its warm-up, the larger gain counts: its own, or that of its parts.
        let as_one = own.hot_gain >= PARTS_GAIN * worth.hot_gain;
        if let (true, Some(reason)) = (as_one, cold) {
            reasons.note(&plan, &reason);
        }
        let worth = match as_one {
            true => worth.waiting_as_one(own),
            false => worth.with_few(own.few),
        };
        Ok(Placed { plan: placed, worth })
    }

    /// The graph, if it is profitable. Otherwise adds the gain after its warm-up to `own`.
    fn assess(
        &self,
        found: Result<PipelineGraph, Reason>,
        plan: &Arc<dyn ExecutionPlan>,
        fetch: Option<usize>,
        own: &mut Worth,
    ) -> Result<(PipelineGraph, Worth), Reason> {
        let Assessed { graph, worth } = self.assessment.assess(found?, plan, fetch);
        match graph {
            Ok(graph) => Ok((graph, worth)),
            Err(reason) => {
                own.add(worth);
                Err(reason)
            }
        }
    }

    /// Places subtrees below a node that stays on the CPU.
    fn place_inputs(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        fetch: Option<usize>,
        reasons: &mut Reasons,
    ) -> Result<Placed> {
        let inputs: Vec<_> = plan.children().into_iter().cloned().collect();
        let fetch = fetch_below(plan, fetch);
        let recursive = match PlanNode::of(plan) {
            PlanNode::Recursion(query) => Some(query),
            _ => None,
        };
        let mut worth = Worth::default();
        let mut placed = Vec::with_capacity(inputs.len());
        for (number, input) in inputs.iter().enumerate() {
            let input = match (recursive, number) {
                (Some(query), 1..) => self.place_recursive_term(input, query.name(), reasons),
                _ => self.place(Arc::clone(input), fetch, reasons),
            }?;
            worth.add(input.worth);
            placed.push(input.plan);
        }
        let same = |(new, old): (&Arc<dyn ExecutionPlan>, _)| Arc::ptr_eq(new, old);
        let plan = match placed.iter().zip(&inputs).all(same) {
            true => Arc::clone(plan),
            false => Arc::clone(plan).replace_children(
                placed,
                ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute),
            )?,
        };
        Ok(Placed { plan, worth })
    }

    /// Places subtrees in the recursive term of a query if the device is forced. With `auto` the term stays
    /// on the CPU, because the number of steps and of their rows cannot be predicted.
    fn place_recursive_term(
        &self,
        term: &Arc<dyn ExecutionPlan>,
        name: &str,
        reasons: &mut Reasons,
    ) -> Result<Placed> {
        let refuse = |detail: &str| Reason::Node {
            node: "RecursiveQueryExec".into(),
            detail: detail.into(),
        };
        if self.assessment.config.device == DeviceChoice::Auto {
            let reason = refuse("its recursive term runs on the device only if galatea.device forces it");
            reasons.note(term, &reason);
            return Ok(Placed::alone(Arc::clone(term)));
        }
        let rereads = WorkRowsExec::in_place_of_tables(Arc::clone(term))?;
        let placed = self.place(Arc::clone(&rereads), None, reasons)?;
        if Arc::ptr_eq(&placed.plan, &rereads) {
            return Ok(Placed::alone(Arc::clone(term)));
        }
        // DataFusion provides the work table to only one node.
        if WorkRowsExec::readers(&placed.plan, name) > 1 {
            reasons.note(term, &refuse("its recursive term would read a step's rows twice"));
            return Ok(Placed::alone(Arc::clone(term)));
        }
        Ok(placed)
    }

    /// The union of the grouping sets of an aggregate, if every one of them is profitable. Otherwise adds the
    /// gain after their warm-up to `own`.
    fn place_sets(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        own: &mut Worth,
        reasons: &mut Reasons,
    ) -> Result<Option<Placed>> {
        let sets = match grouping_sets::sets(plan) {
            None => return Ok(None),
            Some(Ok(sets)) => sets,
            Some(Err(reason)) => {
                reasons.note(plan, &reason);
                return Ok(None);
            }
        };
        let (mut worth, mut of_sets) = (Worth::default(), Reasons::default());
        let mut placed = Vec::with_capacity(sets.len());
        for set in &sets {
            let set = self.place(Arc::clone(&set.aggregate), None, &mut of_sets)?;
            worth.add(set.worth);
            placed.push(set.plan);
        }
        if placed.iter().all(|set| set.is::<GpuExec>())
            && let Some(plan) = grouping_sets::union(sets, placed, &plan.schema())
        {
            return Ok(Some(Placed { plan, worth }));
        }
        own.add(worth.unplaced());
        for text in of_sets.texts {
            reasons.add(text, of_sets.concern_work);
        }
        Ok(None)
    }

    /// The join of the classes of an aggregate's calls, if every one of them is profitable. Otherwise adds
    /// the gain after their warm-up to `own`.
    fn place_classes(&self, plan: &Arc<dyn ExecutionPlan>, own: &mut Worth) -> Result<Option<Placed>> {
        let Some(classes) = classes::classes(plan).filter(|_| ends(plan).is_ok()) else {
            return Ok(None);
        };
        // If a class stays on the CPU, the reason of the aggregate is reported.
        let (mut worth, mut of_classes) = (Worth::default(), Reasons::default());
        let mut results = Vec::with_capacity(classes.len());
        for class in &classes {
            let placed = self.place(Arc::clone(&class.rows), None, &mut of_classes)?;
            worth.add(placed.worth);
            let result = Some(placed.plan).filter(|placed| placed.is::<GpuExec>());
            results.extend(result.and_then(|placed| class.over(placed)));
        }
        if results.len() == classes.len()
            && let Some(plan) = classes::joined(plan, &classes, results)
        {
            return Ok(Some(Placed { plan, worth }));
        }
        own.add(worth.unplaced());
        Ok(None)
    }

    /// The node of a subtree that computes what `cpu` does.
    fn node(
        &self,
        (mut found, mut worth): (PipelineGraph, Worth),
        cpu: Arc<dyn ExecutionPlan>,
        reasons: &mut Reasons,
    ) -> Result<Placed> {
        // The filter reports the reason itself.
        if let PipelineSource::Plan(made) = &found.root().source
            && matches!(PlanNode::of(made.plan()), PlanNode::Projection(_))
            && let Err(reason) = self.finder.over_tables().below(made.plan())
        {
            reasons.note(made.plan(), &reason);
        }
        // The inputs of the pipeline may contain further subtrees, and reasons of their own.
        for input in found.inputs_mut() {
            let placed = self.place(Arc::clone(input.plan()), None, reasons)?;
            worth.add(placed.worth);
            *input = InputPlan::new(placed.plan);
        }
        let node = GpuExec::new(
            found,
            cpu,
            Arc::clone(self.assessment.session),
            self.assessment.config.clone(),
            place_again,
            self.report.clone(),
        );
        Ok(Placed {
            plan: Arc::new(node),
            worth,
        })
    }
}

impl Placed {
    /// A plan without subtrees that were compared with the CPU.
    fn alone(plan: Arc<dyn ExecutionPlan>) -> Self {
        Self {
            plan,
            worth: Worth::default(),
        }
    }

    /// The plan, with the groups that other attempts to place it assumed to be few.
    fn with_few(self, few: Vec<FewGroups>) -> Self {
        Self {
            worth: self.worth.with_few(few),
            ..self
        }
    }

    /// The plan as the only input of a node.
    fn below(self, node: Arc<dyn ExecutionPlan>) -> Result<Self> {
        let changed = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        Ok(Self {
            plan: node.replace_children(vec![self.plan], changed)?,
            ..self
        })
    }
}

/// Number of rows that a node needs of its children to return `fetch` rows.
fn fetch_below(plan: &Arc<dyn ExecutionPlan>, fetch: Option<usize>) -> Option<usize> {
    match PlanNode::of(plan) {
        PlanNode::Limit { skip, fetch: own } => {
            let least = own.into_iter().chain(fetch).min();
            least.map(|rows| rows.saturating_add(skip))
        }
        PlanNode::Projection(_) | PlanNode::Arrangement(_) => fetch,
        _ => None,
    }
}
