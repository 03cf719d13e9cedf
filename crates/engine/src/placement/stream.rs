//! Subtrees over unbounded rows, as persistent operators.

use super::chain::Finder;
use super::cost::Estimator;
use super::find::subtree;
use super::nodes::node;
use crate::config::{DeviceChoice, GalateaConfig};
use crate::graph::PipelineGraph;
use crate::session::Session;
use crate::stream::GpuStreamExec;
use datafusion::physical_plan::ExecutionPlan;
use galatea_base::policy::policy;
use galatea_base::reason::Reason;
use std::sync::Arc;

policy! {
    /// The host's work for a row of a stream that runs on the device, in nanoseconds of one core.
    pub(super) struct StreamCosts {
        /// A value that crosses the link, in either direction.
        crossed_value: f64 = 1.0,
        /// A value of a returned row.
        returned_value: f64 = 4.0,
        /// Assigning the row to its window.
        window: f64 = 10.0,
        /// A row's share of its frame.
        row: f64 = 2.0,
    }
}

const POLICY: StreamCosts = StreamCosts::DEFAULT;

/// The node of the subtree under `plan`; `None` if it cannot be the root of one, an error with the reason if
/// it stays on the CPU.
pub(super) fn operator(
    plan: &Arc<dyn ExecutionPlan>,
    finder: &Finder<'_>,
    session: &Arc<Session>,
    config: &GalateaConfig,
) -> Option<Result<Arc<dyn ExecutionPlan>, Reason>> {
    let found = subtree(plan, finder)?;
    Some(found.and_then(|found| {
        if !config.stream_enabled.0 {
            return Err(Reason::Setting {
                setting: "galatea.stream.enabled",
                value: "false".into(),
            });
        }
        if config.device == DeviceChoice::Auto {
            check_worth(&found, plan)?;
        }
        let node = GpuStreamExec::new(found, plan, Arc::clone(session), config.clone())?;
        Ok(Arc::new(node) as Arc<dyn ExecutionPlan>)
    }))
}

/// Checks that the host is expected to do less for a row than DataFusion's operators do, which keep the order
/// of a stream on one core.
fn check_worth(found: &PipelineGraph, plan: &Arc<dyn ExecutionPlan>) -> Result<(), Reason> {
    let crossed = found.root().plan.columns().len() as f64 * POLICY.crossed_value;
    let after = match found.root().returns_rows() {
        true => {
            let outputs = plan.schema().fields().len() as f64;
            outputs * (POLICY.crossed_value + POLICY.returned_value)
        }
        false => POLICY.window,
    };
    let (device, cpu) = (
        POLICY.row + crossed + after,
        Estimator::new(1).host_nanoseconds_a_row(plan),
    );
    match device <= cpu {
        true => Ok(()),
        false => Err(node(
            plan.name(),
            format!(
                "frames are expected to take the host {device:.1} ns a row, DataFusion's operators {cpu:.1} (galatea.device = 'gpu' forces them)"
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Engine;
    use crate::placement::find::finder;
    use crate::report::QueryReports;
    use crate::stream::Channel;
    use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
    use datafusion::prelude::{SessionConfig, SessionContext};
    use galatea_device::{Architecture, compile_for, testing};
    use galatea_kernels::Flow;

    /// The first subtree of a query over a channel that a pipeline supports.
    async fn found(sql: &str) -> (Arc<dyn ExecutionPlan>, PipelineGraph) {
        let schema = Schema::new(vec![
            Field::new("ts", DataType::Timestamp(TimeUnit::Microsecond, None), false),
            Field::new("k", DataType::Int64, true),
            Field::new("d", DataType::Decimal128(20, 2), true),
            Field::new("f", DataType::Float32, true),
            Field::new("t", DataType::Utf8View, true),
        ]);
        let (_, table) = Channel::new(Arc::new(schema))
            .ordered_by(["ts"])
            .open()
            .expect("a channel");
        let ctx = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(1));
        ctx.register_table("s", table).expect("a new table");
        let frame = ctx.sql(sql).await.expect("parses");
        let mut plan = frame.create_physical_plan().await.expect("plans");
        loop {
            if let Some(Ok(found)) = subtree(&plan, &finder(&|_| None, true)) {
                return (plan, found);
            }
            plan = Arc::clone(
                plan.children()
                    .first()
                    .unwrap_or_else(|| panic!("no subtree: {sql}")),
            );
        }
    }

    const WINDOWED: &str =
        "SELECT date_bin(INTERVAL '1 second', ts) AS w, t, k, sum(d), avg(f), max(k), count(*) FROM s
        WHERE f > 1 GROUP BY w, t, k";
    const COMPUTED: &str = "SELECT f * 2 + 1, k * k % 7, d / 3, date_trunc('month', ts) FROM s
        WHERE abs(k) * 2 > k % 5 AND d > 3";

    #[tokio::test]
    async fn streams_are_placed_if_cpu_rows_cost_more() {
        for (sql, worth) in [
            (WINDOWED, true),
            (COMPUTED, true),
            ("SELECT * FROM s WHERE k > 1", false),
        ] {
            let (plan, found) = found(sql).await;
            let decided = check_worth(&found, &plan);
            assert_eq!(decided.is_ok(), worth, "{sql}: {decided:?}");
        }
    }

    #[tokio::test]
    async fn kernels_compile_for_every_target() {
        let Some(nvrtc) = testing::nvrtc() else { return };
        let engine = Engine::builder().build().expect("an engine");
        let session = Arc::new(Session::new(engine, QueryReports::default()));
        for sql in [WINDOWED, COMPUTED, "SELECT t FROM s WHERE k > 1"] {
            let (plan, found) = found(sql).await;
            let config = GalateaConfig::default();
            let node = GpuStreamExec::new(found, &plan, Arc::clone(&session), config).expect(sql);
            let program = Flow::program(&node.source());
            for architecture in [Architecture::SM_80, Architecture::SM_90] {
                let image = compile_for(architecture, &program, &nvrtc);
                let image = image.unwrap_or_else(|error| panic!("{sql}, {architecture}: {error}"));
                assert!(!image.is_empty());
            }
        }
    }
}
