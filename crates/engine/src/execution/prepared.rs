//! Pipelines that were bound and compiled before: a repeated query starts at its launch.

use super::run::RunError;
use crate::expression::Dimension;
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

/// Bytes of dimensions that a pipeline which is kept may hold.
const KEPT_DIMENSIONS: usize = 64 << 20;

/// A pipeline bound to the encodings of certain columns, and compiled.
#[derive(Debug)]
pub struct Prepared {
    plan: PipelinePlan,
    /// Weak references keep the addresses from being used again, so that equal addresses mean equal columns.
    columns: Vec<Weak<Column>>,
    /// Rows are collected anew for each query: it is their content that must be equal.
    dimensions: Vec<Arc<Dimension>>,
    shape: Shape,
    /// The pipeline with its generated source.
    pub bound: BoundPipeline,
    /// The kernel.
    pub kernel: Pipeline,
    /// Blocks of a launch that are resident on the device together.
    pub resident_blocks: u64,
}

impl Prepared {
    fn fits(
        &self,
        plan: &PipelinePlan,
        view: &TableView,
        dimensions: &[Arc<Dimension>],
        shape: Shape,
    ) -> bool {
        self.shape == shape
            && self.columns.len() == view.columns.len()
            && (self.columns.iter().zip(&view.columns))
                .all(|(kept, now)| std::ptr::eq(kept.as_ptr(), Arc::as_ptr(now)))
            && self.bound.rows == view.rows
            && self.plan == *plan
            && self.dimensions == dimensions
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
    /// The pipeline of `plan` over the columns of `view` and the rows of `dimensions`, kept or made now.
    pub fn prepare(
        &self,
        device: &Device,
        plan: &PipelinePlan,
        view: &TableView,
        dimensions: &[Arc<Dimension>],
        shape: Shape,
    ) -> Result<Preparation, RunError> {
        let start = Instant::now();
        if let Some(pipeline) = self.find(plan, view, dimensions, shape) {
            return Ok(Preparation {
                pipeline,
                generate: start.elapsed(),
                compile: Duration::ZERO,
                compiled: None,
            });
        }
        let bound = bind(plan, view, dimensions, shape)?;
        let generate = start.elapsed();
        tracing::debug!(source = bound.source, strategy = %bound.strategy, "generated a pipeline");
        let start = Instant::now();
        let (kernel, compiled) = Pipeline::compile(device, &bound.source, Tier::Optimised)?;
        let compile = start.elapsed();
        let pipeline = Arc::new(Prepared {
            plan: plan.clone(),
            columns: view.columns.iter().map(Arc::downgrade).collect(),
            dimensions: dimensions.to_vec(),
            shape,
            resident_blocks: kernel.resident_blocks(bound.block, bound.dynamic_shared)?,
            bound,
            kernel,
        });
        if dimensions.iter().map(|d| d.bytes()).sum::<usize>() <= KEPT_DIMENSIONS {
            let mut kept = self.0.lock();
            if kept.len() == KEPT {
                kept.pop_front();
            }
            kept.push_back(Arc::clone(&pipeline));
        }
        Ok(Preparation {
            pipeline,
            generate,
            compile,
            compiled: Some(compiled),
        })
    }

    fn find(
        &self,
        plan: &PipelinePlan,
        view: &TableView,
        dimensions: &[Arc<Dimension>],
        shape: Shape,
    ) -> Option<Arc<Prepared>> {
        let mut kept = self.0.lock();
        let at = kept
            .iter()
            .position(|pipeline| pipeline.fits(plan, view, dimensions, shape))?;
        let pipeline = kept.remove(at)?;
        kept.push_back(Arc::clone(&pipeline));
        Some(pipeline)
    }
}
