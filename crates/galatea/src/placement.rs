//! The rule that decides, for every physical plan, where it runs.

use std::sync::Arc;

use datafusion::common::plan_err;
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use galatea_engine::config::{DeviceChoice, GalateaConfig};
use galatea_engine::report::{QueryReport, QueryReports};

/// Last of a session's physical optimizer rules: it sees the plan that would run on the CPU.
#[derive(Debug)]
pub(crate) struct Placement {
    reports: QueryReports,
}

impl Placement {
    pub(crate) fn new(reports: QueryReports) -> Self {
        Self { reports }
    }
}

impl PhysicalOptimizerRule for Placement {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        options: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        // Statements such as SET and CREATE leave an empty plan without columns behind; they are no query.
        if plan.schema().fields().is_empty() {
            return Ok(plan);
        }
        let reason = match GalateaConfig::of(options).device {
            DeviceChoice::Cpu => "galatea.device is cpu".to_string(),
            DeviceChoice::Auto => no_gpu(),
            asked @ (DeviceChoice::Gpu | DeviceChoice::Emulated) => {
                return plan_err!(
                    "galatea.device is {asked}, but {}\nhint: SET galatea.device = 'auto'",
                    no_gpu()
                );
            }
        };
        self.reports.record(QueryReport::cpu(vec![reason]));
        Ok(plan)
    }

    fn name(&self) -> &str {
        "galatea_placement"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Why there is no GPU to place anything on.
fn no_gpu() -> String {
    "this build has no GPU operators".to_string()
}
