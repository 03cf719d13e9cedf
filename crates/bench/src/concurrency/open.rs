//! An open system: queries arrive independently of those that run (MultiQx §7.5).

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::load::{PATIENCE, STACK, Script, Tally};
use super::{Bed, ConcurrencyReport};
use crate::{BenchError, Result};

/// The compared policies of admission. The first sets the rate.
pub(super) const POLICIES: [&str; 7] = ["fix-1", "fix-2", "fix-3", "peak", "weight", "working", "auto"];

/// The arrival rate, relative to the rate at which sequential queries are answered.
const LOAD: f64 = 2.0;

/// Number of clients that measure the rate of the first policy, so that the next query is always ready.
const CLIENTS: u64 = 4;

/// Arrival time and number of each query.
pub(super) fn trace(seed: u64, rate: f64, time: Duration, queries: usize) -> Vec<(Duration, usize)> {
    let mut random = SmallRng::seed_from_u64(seed);
    let (mut at, mut arrivals) = (0.0, Vec::new());
    loop {
        // Exponential gaps produce a Poisson process.
        at += -(1.0 - random.random_range(0.0..1.0_f64)).ln() / rate;
        if at >= time.as_secs_f64() {
            return arrivals;
        }
        arrivals.push((Duration::from_secs_f64(at), random.random_range(0..queries)));
    }
}

impl Bed<'_> {
    pub(super) async fn open(
        &self,
        report: &mut ConcurrencyReport,
        done: &mut impl FnMut(&str),
    ) -> Result<()> {
        self.session.set("memory.admission", POLICIES[0]).await?;
        let scripts: Vec<_> = (0..CLIENTS)
            .map(|client| Script::shuffled(self.known.len(), self.plan.seed.wrapping_add(client)))
            .collect();
        let (tallies, _) = self.drive(&scripts).await?;
        let rate = LOAD * Tally::of_all(&tallies).per_second();
        let mut arrivals = trace(self.plan.seed, rate, self.plan.time, self.known.len());
        if arrivals.is_empty() {
            arrivals.push((Duration::ZERO, 0));
        }
        for policy in POLICIES {
            self.session.set("memory.admission", policy).await?;
            let device = self.session.device()?;
            device.clear()?;
            let budget = device.device().budget();
            budget.reset_peak();
            let tally = self.replay(&arrivals).await?;
            let mut row = self.row("open", arrivals.len(), &tally, budget.peak());
            row.policy = policy.to_string();
            report.push(row, &tally);
            done(&format!("arrivals under {policy}"));
        }
        report.compare_policies();
        self.session.set("memory.admission", "default").await
    }

    /// Starts each query at its arrival time, on a separate thread, and waits for all.
    async fn replay(&self, arrivals: &[(Duration, usize)]) -> Result<Tally> {
        let start = Instant::now();
        let mut answers = Vec::new();
        for &(at, number) in arrivals {
            let due = start + at;
            tokio::time::sleep_until(due.into()).await;
            let (send, receive) = oneshot::channel();
            let (ctx, known) = (self.session.client(), Arc::clone(&self.known));
            let runtime = Handle::current();
            let client = move || {
                let mut tally = Tally::default();
                runtime.block_on(tally.run(&ctx, number, &known[number], due));
                tally.seconds = start.elapsed().as_secs_f64();
                // The replay may have timed out.
                let _ = send.send(tally);
            };
            let thread = thread::Builder::new()
                .name("arrival".to_string())
                .stack_size(STACK);
            thread.spawn(client).map_err(BenchError::Thread)?;
            answers.push(receive);
        }
        let mut tallies = Vec::new();
        for answer in answers {
            let gone = || BenchError::NoAnswer {
                clients: arrivals.len(),
                seconds: PATIENCE.as_secs(),
            };
            let tally = tokio::time::timeout(PATIENCE, answer).await;
            tallies.push(tally.map_err(|_| gone())?.map_err(|_| gone())?);
        }
        Ok(Tally::of_all(&tallies))
    }
}
