//! Statistics of files do not turn columns of floats into constants.
//!
//! DataFusion replaces a column of a file by a constant if its least and greatest values in the file are
//! equal. The extremes of floats do not count NaN, so a column with NaN and one other value would lose its
//! NaN. The rule marks such an extreme as inexact. It runs before placement, so that the CPU's version of a
//! GPU subtree has the same files.

use datafusion::common::Result;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{ColumnStatistics, Statistics};
use datafusion::config::ConfigOptions;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig, FileScanConfigBuilder};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use std::sync::Arc;

/// The rule that marks the greatest value of such a column as inexact.
#[derive(Debug, Default)]
pub(super) struct NoFloatConstants;

impl PhysicalOptimizerRule for NoFloatConstants {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let changed = plan.transform_up(|node| {
            let files = node
                .downcast_ref::<DataSourceExec>()
                .and_then(|scan| scan.data_source().downcast_ref::<FileScanConfig>());
            Ok(match files.and_then(without_float_constants) {
                Some(scan) => Transformed::yes(scan as Arc<dyn ExecutionPlan>),
                None => Transformed::no(node),
            })
        })?;
        Ok(changed.data)
    }

    fn name(&self) -> &'static str {
        "galatea_no_float_constants"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The scan, if the statistics of a file state that a column of floats is constant.
fn without_float_constants(scan: &FileScanConfig) -> Option<Arc<DataSourceExec>> {
    let mut files = scan.file_groups.iter().flat_map(FileGroup::iter);
    if !files.any(|file| statistics(file).is_some()) {
        return None;
    }
    let groups = scan.file_groups.iter().map(|group| {
        let files = group.iter().cloned().map(|mut file| {
            if let Some(changed) = statistics(&file) {
                file.statistics = Some(Arc::new(changed));
            }
            file
        });
        let changed = FileGroup::new(files.collect());
        match group.file_statistics(None) {
            Some(statistics) => changed.with_statistics(Arc::new(statistics.clone())),
            None => changed,
        }
    });
    let groups = groups.collect();
    let config = FileScanConfigBuilder::from(scan.clone()).with_file_groups(groups);
    Some(DataSourceExec::from_data_source(config.build()))
}

/// The statistics of a file without constants of floats; `None` if it has no such constant.
fn statistics(file: &PartitionedFile) -> Option<Statistics> {
    let statistics = file.statistics.as_ref()?;
    if !statistics.column_statistics.iter().any(is_constant) {
        return None;
    }
    let mut changed = statistics.as_ref().clone();
    let constants = changed.column_statistics.iter_mut();
    for column in constants.filter(|column| is_constant(column)) {
        column.max_value = column.max_value.clone().to_inexact();
    }
    Some(changed)
}

fn is_constant(column: &ColumnStatistics) -> bool {
    match (&column.min_value, &column.max_value) {
        (Precision::Exact(least), Precision::Exact(greatest)) => {
            least == greatest && least.data_type().is_floating()
        }
        _ => false,
    }
}
