//! Replacing the supported subtrees of one plan that are worth it, from its root down.

use super::assessment::{Assessment, place_again};
use super::chain::Finder;
use super::find::{finder, refusal, subtree};
use super::nodes::{ends, is_partial, orders_result, unsupported};
use super::reasons::Reasons;
use super::{classes, grouping_sets, sort, stream, top};
use crate::config::DeviceChoice;
use crate::graph::{BuildSide, InputPlan, PipelineGraph, PipelineSource};
use crate::nodes::{GpuExec, WorkRowsExec};
use crate::report::PlanReport;
use datafusion::common::Result;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, ReplaceChildrenOptions};
use galatea_base::reason::Reason;
use galatea_base::stack::growing;
use std::sync::Arc;

/// What of the time that its parts are expected to save a subtree must save to be waited for: predictions are
/// not better than that, and what its parts return is not copied.
const PARTS_GAIN: f64 = 0.9;

/// Places the subtrees of one plan.
pub(super) struct Placer<'a> {
    assessment: &'a Assessment<'a>,
    report: &'a PlanReport,
    finder: Finder<'a>,
}

impl<'a> Placer<'a> {
    /// `found`: what earlier runs have found in the rows of a build side.
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

    /// Places what is worth it in `plan`, of which no more than `fetch` rows are wanted.
    pub(super) fn place(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        fetch: Option<usize>,
        reasons: &mut Reasons,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        growing(|| self.place_level(plan, fetch, reasons))
    }

    fn place_level(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        fetch: Option<usize>,
        reasons: &mut Reasons,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let assessment = self.assessment;
        let (before, waiting) = (assessment.hot_gain.get(), assessment.waiting.borrow().len());
        let finder = &self.finder;
        let mut cold = None;
        let sorted = sort::below(&plan, finder);
        let is_sort = sorted.is_some() && plan.is::<SortExec>();
        if let Some((sort, found)) = sorted {
            let sorted = ends(&plan).and(found).and_then(|found| {
                sort::check_worth(&found, sort, &assessment.estimator, assessment.config)?;
                assessment.worthwhile(found, &plan, None)
            });
            match sorted {
                Ok(found) => return self.node(found, plan, reasons),
                Err(reason @ Reason::Cold { .. }) if is_sort && !orders_result(&plan) => cold = Some(reason),
                Err(reason) if is_sort && !orders_result(&plan) => reasons.note(&plan, &reason),
                Err(_) => {}
            }
        }
        if let Some((sort, Ok(found))) = top::below(&plan, finder)
            && ends(&plan).is_ok()
            && let Ok(found) = assessment.worthwhile(found, sort.input(), None)
        {
            let rows = self.node(found, Arc::clone(sort.input()), reasons)?;
            return plan.replace_children(
                vec![rows],
                ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute),
            );
        }
        if let Some(union) = self.place_sets(&plan, reasons)? {
            return Ok(union);
        }
        if let Some(joined) = self.place_classes(&plan)? {
            return Ok(joined);
        }
        if plan.boundedness().is_unbounded()
            && let Some(outcome) = stream::operator(&plan, finder, assessment.session, assessment.config)
        {
            match outcome {
                Ok(operator) => return Ok(operator),
                Err(reason) => reasons.note(&plan, &reason),
            }
        } else if let Some(outcome) = subtree(&plan, finder) {
            let worth = |found| assessment.worthwhile(found, &plan, fetch);
            match ends(&plan).and(outcome).and_then(worth) {
                Ok(found) => return self.node(found, plan, reasons),
                // Why a partial aggregate is none of a pipeline, the final one above it has said.
                Err(_) if is_partial(&plan) => {}
                Err(reason @ Reason::Cold { .. }) => cold = Some(reason),
                Err(reason) => reasons.note(&plan, &reason),
            }
        } else if let Some(reason) = refusal(&plan, finder).or_else(|| unsupported(&plan))
            && !orders_result(&plan)
            && !is_sort
        {
            reasons.note(&plan, &reason);
        }
        // For a subtree that is not yet worth loading, count the larger gain: its own, or that of the
        // subtrees in it.
        let as_one = assessment.hot_gain.replace(before);
        let waiting_as_one = assessment.waiting.borrow_mut().split_off(waiting);
        let children: Vec<_> = plan.children().into_iter().cloned().collect();
        let fetch = fetch_below(&plan, fetch);
        let recursive = plan.downcast_ref::<RecursiveQueryExec>();
        let placed = (children.iter().enumerate())
            .map(|(at, child)| match (recursive, at) {
                (Some(query), 1..) => self.place_recursive_term(child, query.name(), reasons),
                _ => self.place(Arc::clone(child), fetch, reasons),
            })
            .collect::<Result<Vec<_>>>()?;
        if as_one >= PARTS_GAIN * assessment.hot_gain.get() {
            assessment.hot_gain.set(as_one.max(assessment.hot_gain.get()));
            let mut all = assessment.waiting.borrow_mut();
            all.truncate(waiting);
            all.extend(waiting_as_one);
            // Where its parts are worth more, they are placed or warm up in its stead.
            if let Some(reason) = cold {
                reasons.note(&plan, &reason);
            }
        }
        let same = |(new, old): (&Arc<dyn ExecutionPlan>, _)| Arc::ptr_eq(new, old);
        if placed.iter().zip(&children).all(same) {
            return Ok(plan);
        }
        plan.replace_children(
            placed,
            ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute),
        )
    }

    /// Places what is worth it in the recursive term of a query, where the device is forced: how many rows a
    /// step has, and how many steps there are, nothing tells.
    fn place_recursive_term(
        &self,
        term: &Arc<dyn ExecutionPlan>,
        name: &str,
        reasons: &mut Reasons,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let refuse = |detail: &str| Reason::Node {
            node: "RecursiveQueryExec".into(),
            detail: detail.into(),
        };
        if self.assessment.config.device == DeviceChoice::Auto {
            let reason = refuse("its recursive term is on the device where that is forced alone");
            reasons.note(term, &reason);
            return Ok(Arc::clone(term));
        }
        let rereads = WorkRowsExec::in_place_of_tables(Arc::clone(term))?;
        let placed = self.place(Arc::clone(&rereads), None, reasons)?;
        if Arc::ptr_eq(&placed, &rereads) {
            return Ok(Arc::clone(term));
        }
        // DataFusion gives the work table to one node.
        if WorkRowsExec::readers(&placed, name) > 1 {
            reasons.note(term, &refuse("its recursive term would read a step's rows twice"));
            return Ok(Arc::clone(term));
        }
        Ok(placed)
    }

    /// The union of the grouping sets of an aggregate, if every one of them is worth a place.
    fn place_sets(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        reasons: &mut Reasons,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let sets = match grouping_sets::sets(plan) {
            None => return Ok(None),
            Some(Ok(sets)) => sets,
            Some(Err(reason)) => {
                reasons.note(plan, &reason);
                return Ok(None);
            }
        };
        let (gain, made) = (self.assessment.gain.get(), self.assessment.made.borrow().len());
        let mut own = Reasons::default();
        let placed = (sets.iter())
            .map(|set| self.place(Arc::clone(&set.aggregate), None, &mut own))
            .collect::<Result<Vec<_>>>()?;
        if placed.iter().all(|set| set.is::<GpuExec>())
            && let Some(union) = grouping_sets::union(sets, placed, &plan.schema())
        {
            return Ok(Some(union));
        }
        // What stays is what they would save, or forgo for the time of loading: `place` goes on with it.
        self.assessment.gain.set(gain);
        self.assessment.made.borrow_mut().truncate(made);
        for text in own.texts {
            reasons.add(text, own.concern_work);
        }
        Ok(None)
    }

    /// The classes of an aggregate's calls, joined, if every one of them is worth a place.
    fn place_classes(&self, plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let Some(classes) = classes::classes(plan).filter(|_| ends(plan).is_ok()) else {
            return Ok(None);
        };
        let (gain, made) = (self.assessment.gain.get(), self.assessment.made.borrow().len());
        // Where a class stays on the CPU, the aggregate says why.
        let mut own = Reasons::default();
        let mut results = Vec::with_capacity(classes.len());
        for class in &classes {
            let placed = self.place(Arc::clone(&class.rows), None, &mut own)?;
            let result = Some(placed).filter(|placed| placed.is::<GpuExec>());
            results.extend(result.and_then(|placed| class.over(placed)));
        }
        if results.len() == classes.len()
            && let Some(joined) = classes::joined(plan, &classes, results)
        {
            return Ok(Some(joined));
        }
        self.assessment.gain.set(gain);
        self.assessment.made.borrow_mut().truncate(made);
        Ok(None)
    }

    /// The node of a subtree that computes what `cpu` does.
    fn node(
        &self,
        mut found: PipelineGraph,
        cpu: Arc<dyn ExecutionPlan>,
        reasons: &mut Reasons,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        // Filters say it themselves.
        if let PipelineSource::Plan(made) = &found.root().source
            && made.plan().is::<ProjectionExec>()
            && let Err(reason) = self.finder.over_tables().below(made.plan())
        {
            reasons.note(made.plan(), &reason);
        }
        // What feeds the pipeline may hold further subtrees, and reasons of its own.
        for input in found.inputs_mut() {
            *input = InputPlan::new(self.place(Arc::clone(input.plan()), None, reasons)?);
        }
        Ok(Arc::new(GpuExec::new(
            found,
            cpu,
            Arc::clone(self.assessment.session),
            self.assessment.config.clone(),
            place_again,
            self.report.clone(),
        )))
    }
}

/// Rows that are wanted of a node's children, when `fetch` are of the node.
fn fetch_below(plan: &Arc<dyn ExecutionPlan>, fetch: Option<usize>) -> Option<usize> {
    let own = |skip: usize, fetch: Option<usize>| fetch.map(|rows| rows.saturating_add(skip));
    if let Some(limit) = plan.downcast_ref::<GlobalLimitExec>() {
        return own(limit.skip(), limit.fetch());
    }
    if let Some(limit) = plan.downcast_ref::<LocalLimitExec>() {
        return Some(limit.fetch());
    }
    let passes = plan.is::<ProjectionExec>() || plan.is::<CoalescePartitionsExec>();
    fetch.filter(|_| passes)
}
