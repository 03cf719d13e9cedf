//! Hashes by which plans are known again, with the versions of the data that they read.

use super::{BuildSide, PipelineGraph, PipelineRef, PipelineSource, PlanKey};
use crate::config::GalateaConfig;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::{ExecutionPlan, displayable};
use galatea_store::StoreScanExec;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// The same query with the same settings over the same data.
pub(crate) fn query(plan: &Arc<dyn ExecutionPlan>, config: &GalateaConfig) -> PlanKey {
    let mut state = DefaultHasher::new();
    settings(config, &mut state);
    nodes(plan, true, &mut state);
    PlanKey(state.finish())
}

/// A pipeline over the same data that may differ in constants.
pub(crate) fn shape(found: PipelineRef<'_>, config: &GalateaConfig) -> PlanKey {
    let mut state = DefaultHasher::new();
    settings(config, &mut state);
    match &found.source {
        PipelineSource::Files { scan, .. } => data_source(scan, false, &mut state),
        PipelineSource::Stored(table) => table.identity().hash(&mut state),
        PipelineSource::Groups(plan)
        | PipelineSource::Pairs(plan)
        | PipelineSource::Windows(plan)
        | PipelineSource::Union(plan) => nodes(plan, false, &mut state),
        PipelineSource::Plan(input) => nodes(input.plan(), false, &mut state),
    }
    for expression in found.plan.expressions() {
        expression.hash_shape(&mut state);
    }
    found.plan.output.hash(&mut state);
    for dimension in &found.dimensions {
        dimension.key.to_string().hash(&mut state);
        dimension.wanted.hash_shape(&mut state);
        nodes(dimension.plan.plan(), false, &mut state);
    }
    for build in found.builds() {
        shape(build, config).0.hash(&mut state);
    }
    PlanKey(state.finish())
}

/// Hashes the settings that decide how a plan runs.
fn settings(config: &GalateaConfig, state: &mut impl Hasher) {
    let default = GalateaConfig::default();
    let config = GalateaConfig {
        plan_cache: default.plan_cache,
        fallback: default.fallback,
        priority: default.priority,
        ..config.clone()
    };
    format!("{config:?}").hash(state);
}

/// The rows of a dimension by their key, in whatever pipeline.
pub(crate) fn dimension(source: &BuildSide) -> PlanKey {
    let mut state = DefaultHasher::new();
    source.key.to_string().hash(&mut state);
    source.unique.hash(&mut state);
    source.wanted.parts().len().hash(&mut state);
    nodes(source.plan.plan(), false, &mut state);
    PlanKey(state.finish())
}

/// The same as a pipeline makes it on the device.
pub(crate) fn build(source: &BuildSide, graph: &PipelineGraph) -> PlanKey {
    let mut state = DefaultHasher::new();
    "build".hash(&mut state);
    if let Some(build) = source.build {
        let pipeline = graph.pipeline(build.pipeline);
        let expressions = pipeline.plan.expressions().into_iter();
        expressions.for_each(|expression| expression.hash_shape(&mut state));
    }
    dimension(source).0.hash(&mut state);
    PlanKey(state.finish())
}

/// Hashes a plan: its nodes, with what they print if `exact`, and its data.
fn nodes(plan: &Arc<dyn ExecutionPlan>, exact: bool, state: &mut impl Hasher) {
    plan.name().hash(state);
    plan.schema().hash(state);
    if let Some(scan) = plan.downcast_ref::<StoreScanExec>() {
        (scan.snapshot().id, scan.projection()).hash(state);
        if !exact {
            return;
        }
    }
    match plan.downcast_ref::<DataSourceExec>() {
        Some(scan) if scan.data_source().downcast_ref::<FileScanConfig>().is_some() => {
            data_source(scan, exact, state);
        }
        // What has no version of its own is known by its statistics alone.
        _ if exact || plan.children().is_empty() => {
            displayable(plan.as_ref()).one_line().to_string().hash(state);
        }
        _ => {}
    }
    for child in plan.children() {
        nodes(child, exact, state);
    }
}

/// Hashes the files of a scan, what it says of its columns, and its filter if `exact`.
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
