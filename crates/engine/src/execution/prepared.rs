//! Pipelines that were bound and compiled before: a repeated query starts at its launch.

use super::run::RunError;
use crate::pipeline::PipelinePlan;
use crate::pipeline::generate::{BoundPipeline, Shape, bind};
use galatea_device::{Compiled, Device, Tier};
use galatea_kernels::Pipeline;
use galatea_store::{Column, TableView};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Pipelines kept at most.
const KEPT: usize = 64;

/// A pipeline bound to the encodings of certain columns, and compiled.
#[derive(Debug)]
pub struct Prepared {
    plan: PipelinePlan,
    /// Weak references keep the addresses from being used again, so that equal addresses mean equal columns.
    columns: Vec<Weak<Column>>,
    shape: Shape,
    /// The pipeline with its generated source.
    pub bound: BoundPipeline,
    /// The kernel.
    pub kernel: Pipeline,
    /// Blocks of a launch that are resident on the device together.
    pub resident_blocks: u64,
}

impl Prepared {
    fn fits(&self, plan: &PipelinePlan, view: &TableView, shape: Shape) -> bool {
        self.shape == shape
            && self.columns.len() == view.columns.len()
            && (self.columns.iter().zip(&view.columns))
                .all(|(kept, now)| std::ptr::eq(kept.as_ptr(), Arc::as_ptr(now)))
            && self.bound.rows == view.rows
            && self.plan == *plan
    }
}

/// How a run came by its pipeline.
#[derive(Debug)]
pub struct Preparation {
    /// The pipeline.
    pub pipeline: Arc<Prepared>,
    /// Binding and generating code.
    pub generate: Duration,
    /// Compiling, or finding the compiled kernel.
    pub compile: Duration,
    /// Where the kernel came from; `None` when the whole pipeline was kept.
    pub compiled: Option<Compiled>,
}

/// The pipelines of one device that are kept, most recently used last.
#[derive(Debug, Default)]
pub struct PreparedPipelines(Mutex<VecDeque<Arc<Prepared>>>);

impl PreparedPipelines {
    /// The pipeline of `plan` over the columns of `view`, kept or made now.
    pub fn prepare(
        &self,
        device: &Device,
        plan: &PipelinePlan,
        view: &TableView,
        shape: Shape,
    ) -> Result<Preparation, RunError> {
        let start = Instant::now();
        if let Some(pipeline) = self.find(plan, view, shape) {
            return Ok(Preparation {
                pipeline,
                generate: start.elapsed(),
                compile: Duration::ZERO,
                compiled: None,
            });
        }
        let bound = bind(plan, view, shape)?;
        let generate = start.elapsed();
        tracing::debug!(source = bound.source, strategy = %bound.strategy, "generated a pipeline");
        let start = Instant::now();
        let (kernel, compiled) = Pipeline::compile(device, &bound.source, Tier::Optimised)?;
        let compile = start.elapsed();
        let pipeline = Arc::new(Prepared {
            plan: plan.clone(),
            columns: view.columns.iter().map(Arc::downgrade).collect(),
            shape,
            resident_blocks: kernel.resident_blocks(bound.block, bound.dynamic_shared)?,
            bound,
            kernel,
        });
        let mut kept = self.0.lock();
        if kept.len() == KEPT {
            kept.pop_front();
        }
        kept.push_back(Arc::clone(&pipeline));
        Ok(Preparation {
            pipeline,
            generate,
            compile,
            compiled: Some(compiled),
        })
    }

    fn find(&self, plan: &PipelinePlan, view: &TableView, shape: Shape) -> Option<Arc<Prepared>> {
        let mut kept = self.0.lock();
        let at = kept
            .iter()
            .position(|pipeline| pipeline.fits(plan, view, shape))?;
        let pipeline = kept.remove(at)?;
        kept.push_back(Arc::clone(&pipeline));
        Some(pipeline)
    }
}
