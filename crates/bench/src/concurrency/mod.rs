//! Concurrency: many clients on one device. Device memory may fit only a part of the columns that they read.
//!
//! A client is a separate session that shares tables, store and device with the others, like a server's
//! sessions, and sends its next query after the answer to the last. Experiments:
//!
//! * **clients**: n clients, each sending all queries in orders of its own. Queries per second, latencies,
//!   and the maximum use of device memory against the limit.
//! * **pairs**: two clients, each repeating one query, for all pairs that together read more than the limit.
//!   The weighted speed-up of a pair is the sum, over both, of the time alone over the time beside the other.
//!   Turns without cost would result in 1. With turns, each query may evict columns of the other; one client
//!   that alternates measures that.
//! * **pairs without the manager**: the same pairs, but a query that finds the device full fails, and nothing
//!   is evicted.
//! * **beside**: latency of a small query alone, and beside a client that repeats a large one.
//! * **mixed**: latency of n clients alone, and beside a client that repeats large queries of another
//!   workload.
//! * **cancel**: the time from dropping a query at a random point of its run to its last effect on the
//!   device.
//! * **open**: one seeded trace of Poisson arrivals at twice the rate that one query at a time reaches, under
//!   each policy of admission. Latencies are measured from the arrival.
//!
//! Times alone are measured under the same limit. Every result is compared with that of the query's first
//! run, which used the device exclusively and had no limit. A loop ends with the first answer after its time,
//! so that every client has at least one.

mod cancel;
mod load;
mod open;
mod report;

pub use report::{ConcurrencyReport, Row};

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::harness::session::{self, DeviceSession};
use crate::machine::Machine;
use crate::measure::{self, Ceilings};
use crate::workload::Query;
use crate::workload::tables::Tables;
use crate::{BenchError, Result};
use galatea_device::Device;
use load::{Client, Known, Script, Tally, drive};

/// The selected experiments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Experiments {
    /// Numbers of clients.
    pub clients: bool,
    /// Pairs of queries.
    pub pairs: bool,
    /// The pairs, also without the manager.
    pub naive: bool,
    /// A small query beside a large one.
    pub beside: bool,
    /// Clients beside a client of [`Plan::large`].
    pub mixed: bool,
    /// Cancelled queries.
    pub cancel: bool,
    /// An open system.
    pub open: bool,
}

/// The measurements to run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The tables.
    pub tables: Tables,
    /// The queries. For `beside`, the first is the small one and the last the large one.
    pub queries: Vec<Query>,
    /// The tables and the queries of the client with large queries, for `mixed`.
    pub large: Option<(Tables, Vec<Query>)>,
    /// The selected experiments.
    pub experiments: Experiments,
    /// Numbers of clients.
    pub clients: Vec<usize>,
    /// The time that each configuration runs.
    pub time: Duration,
    /// The limit of device memory, in the form of the setting; `None` keeps the setting.
    pub limit: Option<String>,
    /// Seed of the orders of queries.
    pub seed: u64,
    /// Settings of the sessions, by full name. The GPU is forced if they name no device.
    pub settings: Vec<(String, String)>,
    /// The machine to record.
    pub machine: Machine,
    /// The bounding rates; `None` without a GPU.
    pub ceilings: Option<Ceilings>,
}

/// The device, the queries, and the regions that each query reads.
struct Bed<'a> {
    plan: &'a Plan,
    session: DeviceSession,
    known: Arc<[Known]>,
    /// For each query, the bytes of each region that it reads.
    reads: Vec<HashMap<(String, u64), u64>>,
    limit: u64,
}

impl Plan {
    /// Default numbers of clients.
    pub const CLIENTS: [usize; 5] = [1, 4, 16, 32, 64];

    /// Runs the experiments. `done` is called after each configuration.
    ///
    /// # Errors
    /// A query that fails alone, clients that do not finish in time, and errors of devices. Failures and
    /// wrong results of concurrent queries are counted: [`ConcurrencyReport::problems`].
    pub async fn measure(&self, mut done: impl FnMut(&str)) -> Result<ConcurrencyReport> {
        let mut report = ConcurrencyReport::new(self.machine.clone());
        if self.queries.is_empty() {
            return Ok(report);
        }
        let bed = Bed::new(self).await?;
        if self.experiments.clients {
            bed.clients(&mut report, &mut done).await?;
        }
        if self.experiments.pairs {
            bed.pairs(&mut report, &mut done).await?;
        }
        if self.experiments.beside {
            bed.beside(&mut report, &mut done).await?;
        }
        if let (true, Some((tables, queries))) = (self.experiments.mixed, &self.large) {
            bed.mixed((tables, queries), &mut report, &mut done).await?;
        }
        if self.experiments.cancel {
            bed.cancel(&mut report, &mut done).await?;
        }
        if self.experiments.open {
            bed.open(&mut report, &mut done).await?;
        }
        Ok(report)
    }
}

impl<'a> Bed<'a> {
    async fn new(plan: &'a Plan) -> Result<Self> {
        let session = DeviceSession::open(&plan.tables, &plan.settings).await?;
        let (mut known, mut reads) = (Vec::new(), Vec::new());
        for query in &plan.queries {
            session.device()?.memory().clear()?;
            let run = measure::run(&session.ctx, &query.sql).await?;
            reads.push(session::resident(&*session.device()?).into_iter().collect());
            known.push(Known {
                query: query.clone(),
                result: run.batches,
            });
        }
        let mut bed = Self {
            plan,
            session,
            known: known.into(),
            reads,
            limit: 0,
        };
        let device = match &plan.limit {
            Some(limit) => bed.session.limit(limit)?,
            None => bed.session.device()?,
        };
        bed.limit = device.device().budget().limit();
        // Each query runs twice, so that kernels are compiled for this limit and columns that fit are
        // resident.
        for known in bed.known.iter().chain(bed.known.iter()) {
            let run = measure::run(&bed.session.ctx, &known.query.sql).await?;
            known
                .query
                .compare(&known.result, &run.batches)
                .map_err(|difference| BenchError::Differs {
                    query: known.query.name.clone(),
                    what: format!("alone, {} B of device memory", bed.limit),
                    difference: Box::new(difference),
                })?;
        }
        // Kernels of the quick tier would run in the first configurations, and those of the optimised tier in
        // the last.
        Device::finish_compiling();
        Ok(bed)
    }

    /// Bytes that two queries read together.
    fn joint_bytes(&self, a: usize, b: usize) -> u64 {
        let mut both = self.reads[a].clone();
        for (region, bytes) in &self.reads[b] {
            let known = both.entry(region.clone()).or_default();
            *known = (*known).max(*bytes);
        }
        both.values().sum()
    }

    /// Runs a client per script. Returns one tally each, and the maximum use of device memory.
    async fn drive(&self, scripts: &[Script]) -> Result<(Vec<Tally>, u64)> {
        let client = |script| Client::new(&self.session, &self.known, script);
        self.drive_all(scripts.iter().map(client).collect()).await
    }

    async fn drive_all(&self, clients: Vec<Client>) -> Result<(Vec<Tally>, u64)> {
        let device = self.session.device()?;
        let budget = device.device().budget();
        budget.reset_peak();
        let tallies = drive(clients, self.plan.time).await?;
        Ok((tallies, budget.peak()))
    }

    /// The row of the clients' tallies.
    fn row(&self, experiment: &str, clients: usize, tally: &Tally, peak: u64) -> Row {
        Row::new(self.plan, experiment, clients, tally, (peak, self.limit))
    }

    /// Scripts of all queries in another order for each client.
    fn scripts(&self, clients: usize) -> Vec<Script> {
        let shuffled = |client| Script::shuffled(self.known.len(), self.plan.seed.wrapping_add(client));
        (0..clients as u64).map(shuffled).collect()
    }

    async fn clients(&self, report: &mut ConcurrencyReport, done: &mut impl FnMut(&str)) -> Result<()> {
        for clients in &self.plan.clients {
            let (tallies, peak) = self.drive(&self.scripts(*clients)).await?;
            let all = Tally::of_all(&tallies);
            let row = self.row("clients", *clients, &all, peak);
            report.push(row, &all);
            done(&format!("{clients} clients"));
        }
        report.compare_clients();
        Ok(())
    }

    async fn pairs(&self, report: &mut ConcurrencyReport, done: &mut impl FnMut(&str)) -> Result<()> {
        let name = |number: usize| self.known[number].query.name.clone();
        let all = (0..self.known.len()).flat_map(|a| (a..self.known.len()).map(move |b| (a, b)));
        let pairs: Vec<_> = all
            .filter(|(a, b)| self.joint_bytes(*a, *b) > self.limit)
            .collect();
        if self.plan.experiments.naive {
            self.naive(&pairs, report, done).await?;
        }
        // Time alone, by query.
        let mut alone: HashMap<usize, f64> = HashMap::new();
        for (a, b) in pairs {
            for query in [a, b] {
                if alone.contains_key(&query) {
                    continue;
                }
                // Columns that others have used would take memory for a while.
                self.session.device()?.memory().clear()?;
                for _ in 0..2 {
                    measure::run(&self.session.ctx, &self.known[query].query.sql).await?;
                }
                let (tallies, peak) = self.drive(&[Script::InTurn(vec![query])]).await?;
                let tally = &tallies[0];
                let mut row = self.row("alone", 1, tally, peak);
                (row.query, row.joint_bytes) = (name(query), self.joint_bytes(query, query));
                report.push(row, tally);
                alone.insert(query, tally.mean(None).unwrap_or(f64::NAN));
                done(&format!("{} alone", name(query)));
            }
            let both = [Script::InTurn(vec![a]), Script::InTurn(vec![b])];
            let (tallies, peak) = self.drive(&both).await?;
            let (turns, _) = self.drive(&[Script::InTurn(vec![a, b])]).await?;
            let beside = |tally: &Tally| tally.mean(None).unwrap_or(f64::NAN);
            let (time_a, time_b) = (alone[&a], alone[&b]);
            let in_turn = [a, b].map(|query| turns[0].mean(Some(query)).unwrap_or(f64::NAN));
            let mut tally = Tally::of_all(&tallies);
            let mut row = self.row("pair", 2, &tally, peak);
            (row.query, row.other, row.joint_bytes) = (name(a), name(b), self.joint_bytes(a, b));
            let weighted = time_a / beside(&tallies[0]) + time_b / beside(&tallies[1]);
            row.weighted = Some(weighted).filter(|value| value.is_finite());
            let sequential = (time_a + time_b) / (in_turn[0] + in_turn[1]);
            row.sequential = Some(sequential).filter(|value| value.is_finite());
            row.add_problems(&turns[0]);
            tally.problems.extend(turns[0].problems.iter().cloned());
            report.push(row, &tally);
            done(&format!("{} and {}", name(a), name(b)));
        }
        Ok(())
    }

    /// The pairs side by side without the manager. Each query runs alone with its own columns.
    async fn naive(
        &self,
        pairs: &[(usize, usize)],
        report: &mut ConcurrencyReport,
        done: &mut impl FnMut(&str),
    ) -> Result<()> {
        let name = |number: usize| self.known[number].query.name.clone();
        for (setting, value) in [("debug.memory_ablations", "naive"), ("fallback", "error")] {
            self.session.set(setting, value).await?;
        }
        let mut alone: HashMap<usize, Option<f64>> = HashMap::new();
        for (a, b) in pairs {
            for query in [*a, *b] {
                if alone.contains_key(&query) {
                    continue;
                }
                self.session.device()?.clear()?;
                let (tallies, peak) = self.drive(&[Script::InTurn(vec![query])]).await?;
                let mut row = self.row("naive alone", 1, &tallies[0], peak);
                (row.query, row.joint_bytes) = (name(query), self.joint_bytes(query, query));
                report.rows.push(row);
                alone.insert(query, tallies[0].mean(None));
                done(&format!("{} alone without the manager", name(query)));
            }
            let both = [Script::InTurn(vec![*a]), Script::InTurn(vec![*b])];
            let (tallies, peak) = self.drive(&both).await?;
            let all = Tally::of_all(&tallies);
            let mut row = self.row("naive", 2, &all, peak);
            (row.query, row.other, row.joint_bytes) = (name(*a), name(*b), self.joint_bytes(*a, *b));
            // Failed runs are excluded: this is the rate of answers, relative to the rate alone.
            let speedup = |query: usize, tally: &Tally| {
                let rate = tally.latencies.len() as f64 / tally.seconds;
                alone[&query].map(|alone| alone * rate)
            };
            row.weighted = speedup(*a, &tallies[0])
                .zip(speedup(*b, &tallies[1]))
                .map(|(a, b)| a + b);
            report.rows.push(row);
            done(&format!("{} and {} without the manager", name(*a), name(*b)));
        }
        for (setting, value) in [("debug.memory_ablations", "default"), ("fallback", "default")] {
            self.session.set(setting, value).await?;
        }
        self.session.device()?.clear()?;
        Ok(())
    }

    async fn beside(&self, report: &mut ConcurrencyReport, done: &mut impl FnMut(&str)) -> Result<()> {
        let (small, large) = (0, self.known.len() - 1);
        let script = |query: usize| Script::InTurn(vec![query]);
        let (tallies, peak) = self.drive(&[script(small)]).await?;
        let mut alone = self.row("beside", 1, &tallies[0], peak);
        alone.query.clone_from(&self.known[small].query.name);
        let p99_alone = alone.p99_ms;
        report.push(alone, &tallies[0]);
        done("the small query alone");
        let (tallies, peak) = self.drive(&[script(small), script(large)]).await?;
        let mut row = self.row("beside", 2, &tallies[0], peak);
        row.query.clone_from(&self.known[small].query.name);
        row.other.clone_from(&self.known[large].query.name);
        row.joint_bytes = self.joint_bytes(small, large);
        row.p99_ratio = row.p99_ms.zip(p99_alone).map(|(beside, alone)| beside / alone);
        row.add_problems(&tallies[1]);
        report.push(row, &Tally::of_all(&tallies));
        done("the small query beside the large one");
        Ok(())
    }

    async fn mixed(
        &self,
        (tables, queries): (&Tables, &[Query]),
        report: &mut ConcurrencyReport,
        done: &mut impl FnMut(&str),
    ) -> Result<()> {
        let session = self.session.with_tables(tables, &self.plan.settings).await?;
        let mut large = Vec::new();
        for query in queries {
            // The second run has its columns and kernels.
            measure::run(&session.ctx, &query.sql).await?;
            let run = measure::run(&session.ctx, &query.sql).await?;
            large.push(Known {
                query: query.clone(),
                result: run.batches,
            });
        }
        Device::finish_compiling();
        let large: Arc<[Known]> = large.into();
        let all = Script::InTurn((0..large.len()).collect());
        let (tallies, peak) = self.drive_all(vec![Client::new(&session, &large, &all)]).await?;
        let names: Vec<&str> = queries.iter().map(|query| query.name.as_str()).collect();
        let names = format!("{} {}", tables.workload, names.join(", "));
        let mut row = self.row("mixed large", 1, &tallies[0], peak);
        row.query.clone_from(&names);
        report.push(row, &tallies[0]);
        done("the large queries alone");
        for count in &self.plan.clients {
            let small = || {
                let scripts = self.scripts(*count);
                let clients = scripts
                    .iter()
                    .map(|script| Client::new(&self.session, &self.known, script));
                clients.collect::<Vec<_>>()
            };
            let (tallies, peak) = self.drive_all(small()).await?;
            let tally = Tally::of_all(&tallies);
            let row = self.row("mixed", *count, &tally, peak);
            let p99_alone = row.p99_ms;
            report.push(row, &tally);
            done(&format!("{count} clients alone"));
            let mut clients = small();
            clients.push(Client::new(&session, &large, &all));
            let (mut tallies, peak) = self.drive_all(clients).await?;
            let of_large = tallies.pop().unwrap_or_default();
            let tally = Tally::of_all(&tallies);
            let mut row = self.row("mixed", *count, &tally, peak);
            row.other.clone_from(&names);
            row.p99_ratio = row.p99_ms.zip(p99_alone).map(|(beside, alone)| beside / alone);
            report.push(row, &tally);
            let mut row = self.row("mixed large", 1, &of_large, peak);
            (row.query, row.other) = (names.clone(), format!("{count} clients"));
            report.push(row, &of_large);
            done(&format!("{count} clients beside the large queries"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
