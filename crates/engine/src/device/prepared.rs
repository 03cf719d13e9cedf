//! A cache of bound and compiled pipelines: a repeated query starts at its launch.

use super::RunError;
use super::kernel_times::KernelTimes;
use galatea_base::reason::Reason;
use galatea_codegen::PipelinePlan;
use galatea_codegen::bind::bind;
use galatea_codegen::bound::{BoundPipeline, ResultPlan};
use galatea_codegen::column_access::integer_range;
use galatea_codegen::options::KernelOptions;
use galatea_device::{Compiled, Device, PendingModule, Tier};
use galatea_expression::LookupSide;
use galatea_kernels::Pipeline;
use galatea_store::layout::CodeMeaning;
use galatea_store::{Column, Encoding, Holder, Identity, TableView};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Maximum number of cached pipelines. A query has about ten, so this is enough for several workloads of a
/// hundred queries. A pipeline has about 50 KiB of generated code.
const KEPT: usize = 4096;

/// Maximum number of cached pipelines over the same columns. A search compares all of them. The partitions of
/// an out-of-core join differ in literals, and would otherwise replace the pipelines of other queries. It
/// does not apply to pipelines without columns, which read rows of other pipelines: these belong to all
/// queries, and are the same in each partition.
const KEPT_OVER_COLUMNS: usize = 256;

/// Maximum bytes of build sides that all cached pipelines hold together.
const KEPT_BUILD_SIDES: usize = 256 << 20;

/// A pipeline that is bound to the encodings of certain columns, and compiled.
#[derive(Debug, Clone)]
pub struct Prepared {
    plan: PipelinePlan,
    columns: Vec<BoundColumn>,
    /// Rows are collected again for each query, so their content is compared.
    build_sides: Vec<Arc<LookupSide>>,
    options: KernelOptions,
    /// The pipeline with its generated source.
    pub bound: BoundPipeline,
    /// The kernel.
    pub kernel: Pipeline,
    /// The compiler effort of the kernel.
    pub tier: Tier,
    /// The optimised kernel, until it is used. A second run of the pipeline queues its compilation.
    pending: Option<PendingModule>,
    /// Number of blocks of a launch that are resident on the device together.
    pub resident_blocks: u64,
    /// Times of binding and compiling ahead of the first run, until a run reports them.
    made_ahead: Arc<Mutex<Option<Made>>>,
    /// Time of last use, by the clock of the cache.
    last_use: Arc<AtomicU64>,
}

/// How a pipeline was prepared.
#[derive(Debug)]
struct Made {
    begun: Instant,
    took: Duration,
    compiled: Compiled,
}

/// The properties of a column that a pipeline is bound to. The pipeline can read every column of the same
/// lineage within these bounds.
#[derive(Debug, Clone)]
struct BoundColumn {
    /// Weak references prevent the addresses from being reused, so that equal addresses mean equal encodings.
    lineage: Weak<Identity>,
    /// Bounds of the values, including those of NULL rows.
    range: Option<(i128, i128)>,
    has_nulls: bool,
    has_nan: bool,
}

impl BoundColumn {
    fn of(column: &Column) -> Self {
        Self {
            lineage: Arc::downgrade(&column.lineage),
            range: integer_bounds(column),
            has_nulls: column.null_count > 0,
            has_nan: column.has_nan,
        }
    }

    fn holds(&self, column: &Column) -> bool {
        let within = match (self.range, integer_bounds(column)) {
            (Some((low, high)), Some((least, most))) => low <= least && most <= high,
            (_, None) => true,
            (None, Some(_)) => false,
        };
        std::ptr::eq(self.lineage.as_ptr(), Arc::as_ptr(&column.lineage))
            && within
            && (self.has_nulls || column.null_count == 0)
            && (self.has_nan || !column.has_nan)
    }
}

/// The least and the greatest value that a row can decode to, if binding depends on it.
fn integer_bounds(column: &Column) -> Option<(i128, i128)> {
    let integers = match &column.encoding {
        Encoding::Integer { .. } | Encoding::Decimal128 => true,
        Encoding::Slots { layout, .. } => matches!(layout.meaning, CodeMeaning::Integer { .. }),
        _ => false,
    };
    integers.then(|| integer_range(column))
}

/// Number of rows for binding a pipeline over a table, with some headroom.
fn with_headroom(rows: u64) -> u64 {
    rows + rows / 16 + 64
}

/// Binds a pipeline so that it remains valid when rows are inserted.
fn bind_with_headroom(
    plan: &PipelinePlan,
    view: &TableView,
    build_sides: &[Arc<LookupSide>],
    options: KernelOptions,
) -> Result<BoundPipeline, Reason> {
    let rows = with_headroom(view.rows);
    let view = TableView { rows, ..view.clone() };
    bind(plan, &view, build_sides, options)
}

impl Prepared {
    /// Whether the columns that it was bound to, or later versions of them, still exist.
    fn is_current(&self) -> bool {
        self.columns
            .iter()
            .all(|column| column.lineage.strong_count() > 0)
    }

    /// The same pipeline with its optimised kernel, if that has been compiled since.
    fn optimised(&self) -> Result<Option<Self>, RunError> {
        let Some(pending) = &self.pending else {
            return Ok(None);
        };
        let Some((kernel, compiled)) = Pipeline::optimised(pending)? else {
            return Ok(None);
        };
        Ok(Some(Self {
            resident_blocks: kernel.resident_blocks(self.bound.block, self.bound.dynamic_shared)?,
            kernel,
            tier: compiled.tier,
            pending: None,
            ..self.clone()
        }))
    }

    /// Its key in the cache.
    fn address(&self) -> u64 {
        address(self.columns.iter().map(|column| column.lineage.as_ptr()))
    }

    fn build_side_bytes(&self) -> usize {
        self.build_sides.iter().map(|build_side| build_side.bytes()).sum()
    }

    fn fits(
        &self,
        plan: &PipelinePlan,
        view: &TableView,
        build_sides: &[Arc<LookupSide>],
        options: KernelOptions,
    ) -> bool {
        self.options == options
            && self.columns.len() == view.columns.len()
            && view.rows <= self.bound.rows
            && (self.columns.iter().zip(&view.columns)).all(|(bound, now)| bound.holds(now))
            && self.plan == *plan
            && self.build_sides.len() == build_sides.len()
            && (self.build_sides.iter().zip(build_sides)).all(|(own, other)| same_rows(own, other))
    }
}

/// Whether build sides have the same rows.
fn same_rows(one: &Arc<LookupSide>, other: &Arc<LookupSide>) -> bool {
    Arc::ptr_eq(one, other) || one == other
}

/// How a run obtained its pipeline.
#[derive(Debug)]
pub struct Preparation {
    /// The pipeline.
    pub pipeline: Arc<Prepared>,
    /// Time of binding and generating code.
    pub generate: Duration,
    /// Time of compiling the kernel, or of finding the compiled one.
    pub compile: Duration,
    /// Time of both, if they were done before the run.
    pub ahead: Duration,
    /// The start of that time.
    pub ahead_begun: Option<Instant>,
    /// Source of the kernel; `None` if the whole pipeline was cached from an earlier run.
    pub compiled: Option<Compiled>,
}

/// The cached pipelines of one device.
#[derive(Debug, Default)]
pub struct PreparedPipelines {
    kept: Arc<Kept>,
    /// Times until its last pipelines had their kernels.
    pub kernel_times: KernelTimes,
}

/// The cache. A pipeline contains dictionaries of its columns, so it is dropped with them.
#[derive(Debug, Default)]
struct Kept(Mutex<Pipelines>);

#[derive(Debug, Default)]
struct Pipelines {
    /// By the [`address`] of their columns.
    by_columns: HashMap<u64, Vec<Arc<Prepared>>>,
    /// Number of uses so far.
    clock: u64,
}

/// A hash of the lineages of columns: pipelines over other columns are not compared.
fn address(lineages: impl Iterator<Item = *const Identity>) -> u64 {
    let mut hasher = DefaultHasher::new();
    lineages.for_each(|lineage| lineage.hash(&mut hasher));
    hasher.finish()
}

impl Pipelines {
    fn all(&self) -> impl Iterator<Item = &Arc<Prepared>> {
        self.by_columns.values().flatten()
    }

    /// Finds a pipeline over the columns of `view`, and marks it as used.
    fn find(&mut self, view: &TableView, fits: impl Fn(&Prepared) -> bool) -> Option<Arc<Prepared>> {
        let lineages = view.columns.iter().map(|column| Arc::as_ptr(&column.lineage));
        let found = self.by_columns.get(&address(lineages))?;
        let found = found.iter().find(|pipeline| fits(pipeline))?;
        self.clock += 1;
        found.last_use.store(self.clock, Ordering::Relaxed);
        Some(Arc::clone(found))
    }

    /// Inserts a pipeline. Returns the one over the same columns that it replaces, if these have too many.
    fn insert(&mut self, pipeline: Arc<Prepared>) -> Option<Arc<Prepared>> {
        self.clock += 1;
        pipeline.last_use.store(self.clock, Ordering::Relaxed);
        let has_columns = !pipeline.columns.is_empty();
        let over_columns = self.by_columns.entry(pipeline.address()).or_default();
        over_columns.push(pipeline);
        if !has_columns || over_columns.len() <= KEPT_OVER_COLUMNS {
            return None;
        }
        let uses = over_columns.iter().enumerate();
        let oldest = uses.min_by_key(|(_, kept)| kept.last_use.load(Ordering::Relaxed));
        oldest.map(|(at, _)| at).map(|at| over_columns.swap_remove(at))
    }

    /// Removes the least recently used pipelines until the others are within the limits.
    fn evict(&mut self) -> Vec<Arc<Prepared>> {
        let mut uses: Vec<(u64, usize)> = self
            .all()
            .map(|kept| (kept.last_use.load(Ordering::Relaxed), kept.build_side_bytes()))
            .collect();
        let (mut count, mut bytes) = (uses.len(), uses.iter().map(|(_, bytes)| bytes).sum::<usize>());
        if count <= KEPT && bytes <= KEPT_BUILD_SIDES {
            return Vec::new();
        }
        uses.sort_unstable();
        let mut last_evicted = 0;
        for (last_use, own) in uses {
            if count <= KEPT && bytes <= KEPT_BUILD_SIDES {
                break;
            }
            (count, bytes, last_evicted) = (count - 1, bytes - own, last_use);
        }
        self.remove(|kept| kept.last_use.load(Ordering::Relaxed) <= last_evicted)
    }

    fn remove(&mut self, is_removed: impl Fn(&Prepared) -> bool) -> Vec<Arc<Prepared>> {
        let mut gone = Vec::new();
        self.by_columns.retain(|_, kept| {
            gone.extend(kept.extract_if(.., |pipeline| is_removed(pipeline)));
            !kept.is_empty()
        });
        gone
    }
}

impl Holder for Kept {
    fn let_go(&self) {
        let gone = self.0.lock().remove(|pipeline| !pipeline.is_current());
        // Modules are unloaded after the lock is released.
        drop(gone);
    }
}

impl Kept {
    /// Replaces the same pipeline with another kernel, if that is still cached.
    fn replace(&self, pipeline: &Arc<Prepared>) {
        let mut kept = self.0.lock();
        let same = |kept: &&mut Arc<Prepared>| {
            Arc::ptr_eq(&kept.bound.source, &pipeline.bound.source)
                && kept.build_sides == pipeline.build_sides
        };
        let over_columns = kept.by_columns.get_mut(&pipeline.address());
        if let Some(kept) = over_columns.and_then(|kept| kept.iter_mut().find(same)) {
            *kept = Arc::clone(pipeline);
        }
    }

    fn keep(&self, pipeline: Arc<Prepared>) {
        let mut kept = self.0.lock();
        let replaced = kept.insert(pipeline);
        let gone = kept.evict();
        drop(kept);
        drop((replaced, gone));
    }
}

impl PreparedPipelines {
    /// The pipeline of `plan` over the columns of `view` and the rows of `build_sides`, cached or prepared
    /// now.
    pub fn prepare(
        &self,
        device: &Device,
        plan: &PipelinePlan,
        view: &TableView,
        build_sides: &[Arc<LookupSide>],
        options: KernelOptions,
    ) -> Result<Preparation, RunError> {
        let start = Instant::now();
        if let Some(mut pipeline) = self.find(plan, view, build_sides, options) {
            let made = pipeline.made_ahead.lock().take();
            // The first run does not need the optimised kernel, even if the pipeline was prepared ahead of
            // it.
            if made.is_none()
                && let Some(optimised) = pipeline.optimised()?
            {
                pipeline = Arc::new(optimised);
                self.kept.replace(&pipeline);
            }
            return Ok(Preparation {
                pipeline,
                generate: start.elapsed(),
                compile: Duration::ZERO,
                ahead: made.as_ref().map_or(Duration::ZERO, |made| made.took),
                ahead_begun: made.as_ref().map(|made| made.begun),
                compiled: made.map(|made| made.compiled),
            });
        }
        let bound = bind_with_headroom(plan, view, build_sides, options)?;
        let generate = start.elapsed();
        tracing::debug!(source = &*bound.source, strategy = %bound.strategy, "generated a pipeline");
        let start = Instant::now();
        let (kernel, compiled, pending) = match options.quick {
            true => Pipeline::compile_soon(device, &bound.source)?,
            false => {
                let (kernel, compiled) = Pipeline::compile(device, &bound.source, Tier::Optimised)?;
                (kernel, compiled, None)
            }
        };
        let compile = start.elapsed();
        self.kernel_times.record(&compiled);
        let pipeline = Arc::new(Prepared {
            plan: plan.clone(),
            columns: view
                .columns
                .iter()
                .map(|column| BoundColumn::of(column))
                .collect(),
            build_sides: build_sides.to_vec(),
            options,
            resident_blocks: kernel.resident_blocks(bound.block, bound.dynamic_shared)?,
            bound,
            kernel,
            tier: compiled.tier,
            pending,
            made_ahead: Arc::default(),
            last_use: Arc::default(),
        });
        if pipeline.build_side_bytes() <= KEPT_BUILD_SIDES {
            let holder: Arc<dyn Holder> = Arc::clone(&self.kept) as Arc<dyn Holder>;
            for column in &view.columns {
                column.lineage.tell(&Arc::downgrade(&holder));
            }
            self.kept.keep(Arc::clone(&pipeline));
        }
        Ok(Preparation {
            pipeline,
            generate,
            compile,
            ahead: Duration::ZERO,
            ahead_begun: None,
            compiled: Some(compiled),
        })
    }

    /// Prepares the pipeline before a run that will need it.
    pub fn prepare_ahead(
        &self,
        device: &Device,
        plan: &PipelinePlan,
        view: &TableView,
        build_sides: &[Arc<LookupSide>],
        options: KernelOptions,
    ) -> Result<(), RunError> {
        let begun = Instant::now();
        let made = self.prepare(device, plan, view, build_sides, options)?;
        if let Some(compiled) = made.compiled {
            let took = made.ahead + made.generate + made.compile;
            *made.pipeline.made_ahead.lock() = Some(Made {
                begun,
                took,
                compiled,
            });
        }
        Ok(())
    }

    /// The result of the pipeline of `plan`, and the share of rows that are expected to pass its filters.
    /// Nothing is compiled.
    pub fn result_of(
        &self,
        plan: &PipelinePlan,
        view: &TableView,
        build_sides: &[Arc<LookupSide>],
        options: KernelOptions,
    ) -> Result<(ResultPlan, f64), Reason> {
        self.with_bound(plan, view, build_sides, options, |bound| {
            (bound.result.clone(), bound.selectivity)
        })
    }

    /// Calls `read` with the bound pipeline of `plan`. Nothing is compiled.
    pub(crate) fn with_bound<R>(
        &self,
        plan: &PipelinePlan,
        view: &TableView,
        build_sides: &[Arc<LookupSide>],
        options: KernelOptions,
        read: impl FnOnce(&BoundPipeline) -> R,
    ) -> Result<R, Reason> {
        match self.find(plan, view, build_sides, options) {
            Some(kept) => Ok(read(&kept.bound)),
            None => Ok(read(&bind_with_headroom(plan, view, build_sides, options)?)),
        }
    }

    /// The collected rows, or equal rows that a cached pipeline is bound to: later runs then need not compare
    /// them.
    pub(crate) fn known_rows(&self, rows: Arc<LookupSide>) -> Arc<LookupSide> {
        let kept = self.kept.0.lock();
        let mut known = kept.all().flat_map(|pipeline| &pipeline.build_sides);
        known
            .find(|known| same_rows(known, &rows))
            .map_or(rows, Arc::clone)
    }

    /// Whether the pipeline of `plan` is cached, over any columns.
    pub fn knows(&self, plan: &PipelinePlan) -> bool {
        self.kept.0.lock().all().any(|pipeline| pipeline.plan == *plan)
    }

    fn find(
        &self,
        plan: &PipelinePlan,
        view: &TableView,
        build_sides: &[Arc<LookupSide>],
        options: KernelOptions,
    ) -> Option<Arc<Prepared>> {
        let mut kept = self.kept.0.lock();
        kept.find(view, |pipeline| pipeline.fits(plan, view, build_sides, options))
    }
}
