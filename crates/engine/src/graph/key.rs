//! Fingerprints of plans, including the versions of the data that they read.

use super::by_node::ByNode;
use super::same_plan::is_same;
use super::{BuildSide, PipelineGraph, PipelineRef, PipelineSource, PlanKey};
use crate::config::GalateaConfig;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::{ExecutionPlan, displayable};
use galatea_store::StoreScanExec;
use std::cell::OnceCell;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// Key of a query with these settings over the same data.
pub(crate) fn query(plan: &Arc<dyn ExecutionPlan>, config: &GalateaConfig) -> PlanKey {
    let keys = Keys::new(config);
    key(|state| {
        keys.settings().hash(state);
        keys.rows(plan, true).hash(state);
    })
}

/// Computes the keys of pipelines. Subtrees contain one another, so the hash of each plan node is cached.
#[derive(Debug)]
pub(crate) struct Keys<'a> {
    config: &'a GalateaConfig,
    settings: OnceCell<u64>,
    /// Hashes without constants, and with them.
    nodes: [ByNode<u64>; 2],
}

impl<'a> Keys<'a> {
    /// The keys for queries with these settings.
    pub(crate) fn new(config: &'a GalateaConfig) -> Self {
        Self {
            config,
            settings: OnceCell::new(),
            nodes: Default::default(),
        }
    }

    /// The settings.
    pub(crate) fn config(&self) -> &'a GalateaConfig {
        self.config
    }

    /// Key of a pipeline over the same data, regardless of constants.
    pub(crate) fn shape(&self, found: PipelineRef<'_>) -> PlanKey {
        key(|state| {
            self.settings().hash(state);
            match &found.source {
                PipelineSource::Files { scan, .. } => data_source(scan, false, state),
                PipelineSource::Stored(table) => table.identity().hash(state),
                PipelineSource::Groups(plan)
                | PipelineSource::Pairs(plan)
                | PipelineSource::Windows(plan)
                | PipelineSource::Union(plan) => self.rows(plan, false).hash(state),
                PipelineSource::Plan(input) => self.rows(input.plan(), false).hash(state),
            }
            for expression in found.plan.expressions() {
                expression.hash_shape(state);
            }
            found.plan.output.hash(state);
            for build_side in &found.build_sides {
                build_side.key.to_string().hash(state);
                build_side.wanted.hash_shape(state);
                self.rows(build_side.plan.plan(), false).hash(state);
            }
            for build in found.builds() {
                self.shape(build).0.hash(state);
            }
        })
    }

    /// Key of the rows of a build side by their key, in any pipeline.
    pub(crate) fn build_side(&self, source: &BuildSide) -> PlanKey {
        key(|state| {
            source.key.to_string().hash(state);
            source.unique.hash(state);
            source.wanted.parts().len().hash(state);
            self.rows(source.plan.plan(), false).hash(state);
        })
    }

    /// Key of the rows of a build side by their key, with constants.
    pub(crate) fn build_side_rows(&self, source: &BuildSide) -> PlanKey {
        key(|state| {
            source.key.to_string().hash(state);
            self.rows(source.plan.plan(), true).hash(state);
        })
    }

    /// The same as [`Self::build_side`] for a build side that a pipeline builds on the device.
    pub(crate) fn build(&self, source: &BuildSide, graph: &PipelineGraph) -> PlanKey {
        key(|state| {
            "build".hash(state);
            if let Some(build) = source.build {
                let pipeline = graph.pipeline(build.pipeline);
                let expressions = pipeline.plan.expressions().into_iter();
                expressions.for_each(|expression| expression.hash_shape(state));
            }
            self.build_side(source).0.hash(state);
        })
    }

    /// Whether two plans return the same rows; see [`is_same`].
    pub(crate) fn same_rows(&self, a: &Arc<dyn ExecutionPlan>, b: &Arc<dyn ExecutionPlan>) -> bool {
        is_same(a, b, &|plan| self.rows(plan, true))
    }

    /// Hash of the settings that affect how a plan runs.
    fn settings(&self) -> u64 {
        *self.settings.get_or_init(|| {
            let default = GalateaConfig::default();
            let config = GalateaConfig {
                plan_cache: default.plan_cache,
                fallback: default.fallback,
                priority: default.priority,
                ..self.config.clone()
            };
            key(|state| format!("{config:?}").hash(state)).0
        })
    }

    /// Hash of a plan: its nodes, with their display if `exact`, and its data.
    fn rows(&self, plan: &Arc<dyn ExecutionPlan>, exact: bool) -> u64 {
        let hash = || {
            key(|state| {
                let children = node(plan, exact, state).then(|| plan.children());
                for child in children.into_iter().flatten() {
                    self.rows(child, exact).hash(state);
                }
            })
        };
        self.nodes[usize::from(exact)].get_or(plan, || hash().0)
    }
}

fn key(hash: impl FnOnce(&mut DefaultHasher)) -> PlanKey {
    let mut state = DefaultHasher::new();
    hash(&mut state);
    PlanKey(state.finish())
}

/// Hashes a node; returns whether its inputs belong to its key.
fn node(plan: &Arc<dyn ExecutionPlan>, exact: bool, state: &mut impl Hasher) -> bool {
    plan.name().hash(state);
    plan.schema().hash(state);
    if let Some(scan) = plan.downcast_ref::<StoreScanExec>() {
        (scan.snapshot().id, scan.projection()).hash(state);
        if !exact {
            return false;
        }
    }
    match plan.downcast_ref::<DataSourceExec>() {
        Some(scan) if scan.data_source().downcast_ref::<FileScanConfig>().is_some() => {
            data_source(scan, exact, state);
        }
        // A source without a version is identified by its display, which includes its statistics.
        _ if exact || plan.children().is_empty() => {
            displayable(plan.as_ref()).one_line().to_string().hash(state);
        }
        _ => {}
    }
    true
}

/// Hashes the files of a scan, its projection, and its filter if `exact`.
fn data_source(scan: &DataSourceExec, exact: bool, state: &mut impl Hasher) {
    let Some(files) = scan.data_source().downcast_ref::<FileScanConfig>() else {
        return;
    };
    files.object_store_url.as_str().hash(state);
    for file in files.file_groups.iter().flat_map(FileGroup::iter) {
        let meta = &file.object_meta;
        (&meta.location, meta.size, meta.last_modified, &meta.e_tag).hash(state);
    }
    if let Some(projection) = files.file_source().projection() {
        projection.to_string().hash(state);
    }
    if let (Some(filter), true) = (files.file_source().filter(), exact) {
        filter.to_string().hash(state);
    }
    files.limit.hash(state);
}
