//! Residency: a query's time by the share of its data that fits in device memory.
//!
//! A query runs once without a limit, which yields the bytes that it keeps in device memory. Then the limit
//! is set to shares of these bytes, in turn. After each change, device memory is emptied once, and unmeasured
//! runs reload the columns that fit. A measured run finds a part of its data resident and transfers the rest
//! over the link, so that no engine is faster than
//!
//! ```text
//!   bound = max(resident bytes / rate of reading device memory, bytes over the link / rate of the link)
//! ```
//!
//! A row contains the time of the run as a multiple of the bound, in total and in its kernels, which wait for
//! the streamed part. The limit also counts working memory: at 100 % not quite all columns fit. Results must
//! be equal at every share.

mod report;

pub use report::{ResidencyReport, Row};

use arrow::array::RecordBatch;
use galatea_device::Device;
use galatea_engine::device::DeviceRuntime;

use crate::harness::WARMUPS;
use crate::harness::session::DeviceSession;
use crate::machine::Machine;
use crate::measure::{self, Ceilings, Run};
use crate::workload::Query;
use crate::workload::tables::Tables;
use crate::{BenchError, Result};

/// The measurements to run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The tables.
    pub tables: Tables,
    /// The queries.
    pub queries: Vec<Query>,
    /// Limits, in hundredths of the bytes that a query keeps in device memory without one.
    pub shares: Vec<u32>,
    /// Number of measured runs at each share.
    pub iterations: u32,
    /// Settings of the sessions, by full name. The GPU is forced if they name no device.
    pub settings: Vec<(String, String)>,
    /// The machine to record.
    pub machine: Machine,
    /// The bounding rates; `None` without a GPU.
    pub ceilings: Option<Ceilings>,
}

impl Plan {
    /// Default shares.
    pub const SHARES: [u32; 13] = [5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 100, 110];

    /// Runs every query at every share. `done` is called after each share, and after the runs without a
    /// limit.
    ///
    /// # Errors
    /// [`BenchError::Differs`] if a result depends on the share, [`BenchError::NothingResident`] for a query
    /// that keeps nothing in device memory, and errors of queries and devices.
    pub async fn measure(&self, mut done: impl FnMut(&Query)) -> Result<ResidencyReport> {
        let mut report = ResidencyReport::new(self.machine.clone());
        for query in &self.queries {
            self.measure_query(query, &mut report, &mut done).await?;
        }
        report.sort(&self.queries, &self.shares);
        Ok(report)
    }

    async fn measure_query(
        &self,
        query: &Query,
        report: &mut ResidencyReport,
        done: &mut impl FnMut(&Query),
    ) -> Result<()> {
        // Each query has its own session, because resident data of others must not count as its bytes.
        let session = DeviceSession::open(&self.tables, &self.settings).await?;
        let first = measure::run(&session.ctx, &query.sql).await?;
        let device = session.device()?;
        let query_bytes = device.memory().bytes();
        if query_bytes == 0 {
            let reasons = first.report.map(|report| report.reasons.join("; "));
            return Err(BenchError::NothingResident {
                query: query.name.clone(),
                reasons: reasons.unwrap_or_default(),
            });
        }
        let mut case = Case {
            plan: self,
            session: &session,
            query,
            expected: &first.batches,
            query_bytes,
            share: None,
        };
        case.measure(&device, report).await?;
        done(query);
        // The largest limit is first: after an out-of-memory refusal, a pipeline may be left to the CPU from
        // then on.
        let mut shares = self.shares.clone();
        shares.sort_unstable_by(|a, b| b.cmp(a));
        shares.dedup();
        for share in shares {
            let limit = (query_bytes * u64::from(share) / 100).max(1);
            let device = session.limit(&format!("{limit} B"))?;
            case.share = Some(share);
            case.measure(&device, report).await?;
            done(query);
        }
        Ok(())
    }
}

/// A query under one limit.
struct Case<'a> {
    plan: &'a Plan,
    session: &'a DeviceSession,
    query: &'a Query,
    expected: &'a [RecordBatch],
    query_bytes: u64,
    share: Option<u32>,
}

impl Case<'_> {
    /// Runs the unmeasured runs, then the measured ones.
    async fn measure(&self, device: &DeviceRuntime, report: &mut ResidencyReport) -> Result<()> {
        for _ in 0..WARMUPS {
            let run = measure::run(&self.session.ctx, &self.query.sql).await?;
            self.check(&run)?;
        }
        Device::finish_compiling();
        for iteration in 0..self.plan.iterations.max(1) {
            let (resident_bytes, evicted) = (device.memory().bytes(), device.memory().evicted());
            let run = measure::run(&self.session.ctx, &self.query.sql).await?;
            self.check(&run)?;
            let mut row = self.row(iteration, &run);
            row.limit_bytes = device.device().budget().limit();
            row.resident_bytes = resident_bytes;
            row.evicted_pages = device.memory().evicted() - evicted;
            row.set_bound(self.plan.ceilings);
            report.rows.push(row);
        }
        Ok(())
    }

    fn check(&self, run: &Run) -> Result<()> {
        self.query
            .compare(self.expected, &run.batches)
            .map_err(|difference| BenchError::Differs {
                query: self.query.name.clone(),
                what: self
                    .share
                    .map_or_else(|| "no limit".to_string(), |share| format!("{share} % resident")),
                difference: Box::new(difference),
            })
    }

    fn row(&self, iteration: u32, run: &Run) -> Row {
        let (tables, report) = (&self.plan.tables, run.report.as_ref());
        let ms = |duration: std::time::Duration| duration.as_secs_f64() * 1e3;
        Row {
            workload: tables.workload.to_string(),
            scale: tables.scale,
            query: self.query.name.clone(),
            share: self.share,
            limit_bytes: 0,
            query_bytes: self.query_bytes,
            resident_bytes: 0,
            device_bytes: report.map_or(0, |report| report.device_bytes),
            link_bytes: report.map_or(0, |report| report.link_bytes),
            evicted_pages: 0,
            iteration,
            rows: run.rows(),
            total_ms: ms(run.total),
            kernel_ms: report.map_or(0.0, |report| ms(report.phases.kernel)),
            transfer_ms: report.map_or(0.0, |report| ms(report.phases.transfer)),
            bound_ms: None,
            ratio: None,
            kernel_ratio: None,
            device: report.map_or_else(String::new, |report| report.device.to_string()),
            fell_back: report.map_or(0, |report| report.fell_back as u64),
            reasons: report.map_or_else(String::new, |report| report.reasons.join("; ")),
            settings: report::settings(&self.plan.settings),
            machine: self.plan.machine.clone(),
        }
    }
}

#[cfg(test)]
mod tests;
