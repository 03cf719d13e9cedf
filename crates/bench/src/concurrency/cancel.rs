//! Cancels queries at random points of their run.

use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::physical_plan::execute_stream;
use futures::StreamExt;
use galatea_engine::device::DeviceRuntime;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::load::Tally;
use super::{Bed, ConcurrencyReport};
use crate::{BenchError, Result, measure};

/// Interval of polls for the end of the query.
const LOOK: Duration = Duration::from_micros(50);

impl Bed<'_> {
    /// Cancels each query repeatedly for the time of a configuration. Latencies are measured from dropping
    /// the stream of results until the device is idle and the query has released its memory.
    pub(super) async fn cancel(
        &self,
        report: &mut ConcurrencyReport,
        done: &mut impl FnMut(&str),
    ) -> Result<()> {
        let mut random = SmallRng::seed_from_u64(self.plan.seed);
        let device = self.session.device()?;
        for (number, known) in self.known.iter().enumerate() {
            // Runs that stream their columns are the longest. Cached columns are resident by now.
            let whole = measure::run(&self.session.ctx, &known.query.sql).await?.total;
            let budget = device.device().budget();
            budget.reset_peak();
            let (mut tally, start) = (Tally::default(), Instant::now());
            while start.elapsed() < self.plan.time {
                let after = whole.mul_f64(random.random_range(0.0..1.0));
                if let Some(seconds) = self.cancel_once(&device, &known.query.sql, after).await? {
                    tally.latencies.push((number, seconds));
                }
            }
            tally.seconds = start.elapsed().as_secs_f64();
            let mut row = self.row("cancel", 1, &tally, budget.peak());
            row.query.clone_from(&known.query.name);
            row.joint_bytes = self.joint_bytes(number, number);
            report.push(row, &tally);
            done(&format!("{} cancelled", known.query.name));
        }
        Ok(())
    }

    /// Runs a query and drops its stream after a while. Returns the seconds to the last effect; `None` if the
    /// query ended before.
    async fn cancel_once(&self, device: &DeviceRuntime, sql: &str, after: Duration) -> Result<Option<f64>> {
        let ctx = self.session.client();
        let plan = ctx.sql(sql).await?.create_physical_plan().await?;
        let mut stream = execute_stream(Arc::clone(&plan), ctx.task_ctx())?;
        let to_the_end = async {
            while let Some(batch) = stream.next().await {
                batch?;
            }
            Ok::<(), BenchError>(())
        };
        if let Ok(ended) = tokio::time::timeout(after, to_the_end).await {
            ended?;
            return Ok(None);
        }
        let dropped = Instant::now();
        drop((stream, plan));
        while !device.memory().admission().queries().is_empty() {
            tokio::time::sleep(LOOK).await;
        }
        device.device().synchronize()?;
        Ok(Some(dropped.elapsed().as_secs_f64()))
    }
}
