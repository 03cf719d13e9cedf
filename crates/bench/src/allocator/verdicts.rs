//! The paper's results beside the rows: whether each holds, with the measured facts.

use super::report::Row;
use super::{AllocatorReport, Experiment};
use crate::harness::{Facts, Finding, range, verdict};

/// The largest request of the paper.
const LARGEST: u64 = 8192;

/// The verdicts on an experiment, each for the part of a figure that its name is of.
pub(super) fn of(report: &AllocatorReport, experiment: Experiment) -> Vec<Finding> {
    let rows = Rows(report.of(experiment).collect());
    let found: Vec<(&str, &'static str, Facts)> = match experiment {
        Experiment::Contention => vec![(
            experiment.name(),
            "the time of an atomic operation by every thread on one word grows linearly with the threads",
            rows.contention(),
        )],
        Experiment::Theory => vec![(
            experiment.name(),
            "steps of a random walk hardly grow with the number of threads if a tenth of the pages are free",
            rows.theory(),
        )],
        Experiment::FreeShare => vec![
            (
                experiment.name(),
                "CoRW is more than ten times faster than Ouroboros in most cases",
                rows.free_share(),
            ),
            (
                experiment.name(),
                "measured steps of a thread equal equations 2 and 4, to a tenth",
                rows.steps(),
            ),
            (
                experiment.name(),
                "measured steps of a warp stay below equations 3 and 5",
                rows.bounds(),
            ),
            (
                "drain",
                "(ours) with a thread for every free page, the default search is faster than a queue",
                rows.drain(),
            ),
        ],
        Experiment::Scaling => vec![
            (
                experiment.name(),
                "RW_malloc is up to three orders of magnitude faster than Ouroboros, which holds what it allocated",
                rows.beside_ouroboros("hold", |row| row.allocate_ms, |most| most >= 1000.0),
            ),
            (
                experiment.name(),
                "it is also faster than Ouroboros whose memory is freed at once",
                rows.beside_ouroboros("warm", |row| row.allocate_ms, |_| true),
            ),
            (
                "freeing",
                "RW_malloc frees up to ten times as fast as Ouroboros",
                rows.beside_ouroboros("warm", |row| row.release_ms, |most| most >= 9.0),
            ),
        ],
        Experiment::Sizes => vec![(
            experiment.name(),
            "RW_malloc does not depend on the size from 4 B to 8 KiB",
            rows.sizes(),
        )],
        Experiment::Mixed => vec![(
            experiment.name(),
            "(ours) the default search is faster than RW_malloc for every mix",
            rows.over("RW_malloc", "window", |least, _| least > 1.0),
        )],
        Experiment::Utilization => vec![(
            experiment.name(),
            "RW_malloc always uses close to 100 % of the pool",
            rows.utilization(),
        )],
        Experiment::HashJoin => vec![
            (
                experiment.name(),
                "RW-BM beats a single atomic counter in all cases",
                rows.over("RW-BM32", "bump", |_, most| most < 1.0),
            ),
            (
                experiment.name(),
                "CoRW beats a single atomic counter in all cases",
                rows.over("CoRW32", "bump", |_, most| most < 1.0),
            ),
            (
                experiment.name(),
                "a single counter is slightly better than RW",
                rows.over("RW", "bump", |least, _| least > 1.0),
            ),
        ],
    };
    let figure = experiment.figure().to_string();
    let of =
        |(name, claim, ours): (&str, &'static str, Facts)| Finding::new(&figure, name, claim, verdict(ours));
    found.into_iter().map(of).collect()
}

/// Rows of one experiment.
struct Rows<'r>(Vec<&'r Row>);

/// Rows that differ in the allocator alone.
fn same_case(a: &Row, b: &Row) -> bool {
    let pool = |row: &Row| row.share.map(|share| (share.to_bits(), row.pages));
    (&a.regime, a.size, a.threads, pool(a)) == (&b.regime, b.size, b.threads, pool(b))
}

impl<'r> Rows<'r> {
    fn of(&self, allocator: &str) -> impl Iterator<Item = &'r Row> {
        self.0
            .iter()
            .copied()
            .filter(move |row| row.allocator == allocator)
    }

    /// The least value of all variants of Ouroboros in the case of a row.
    fn ouroboros(&self, row: &Row, value: impl Fn(&Row) -> Option<f64>) -> Option<f64> {
        let others = self
            .0
            .iter()
            .filter(|other| !other.ours && other.allocator.starts_with("Ouroboros") && same_case(row, other));
        others.filter_map(|other| value(other)).min_by(f64::total_cmp)
    }

    fn contention(&self) -> Facts {
        let rows: Vec<&Row> = self.of("one word, every thread").collect();
        let [.., second, last] = rows.as_slice() else {
            return None;
        };
        let (few, many) = (second.allocate_ms?, last.allocate_ms?);
        let (threads, grown) = (last.threads as f64 / second.threads as f64, many / few);
        Some((
            (0.85..1.15).contains(&(grown / threads)),
            format!(
                "exchanges by {} and {} threads take {few:.3} and {many:.3} ms, {grown:.1} times for {threads:.0} times the threads",
                second.threads, last.threads
            ),
        ))
    }

    fn theory(&self) -> Facts {
        let ends = |allocator: &str| {
            let tenth = self.of(allocator).filter(|row| row.free * 10 == row.pages);
            let rows: Vec<&Row> = tenth.collect();
            Some((*rows.first()?, *rows.last()?))
        };
        let ((few, many), (first, last)) = (ends("RW")?, ends("queue")?);
        let (least, most) = (few.tas?, many.tas?);
        let (queue_least, queue_most) = (first.tas?, last.tas?);
        Some((
            most / least < 1.1 && queue_most / queue_least > 10.0,
            format!(
                "from {} to {} threads, RW takes {least:.2} to {most:.2} steps, a queue {queue_least:.1} to {queue_most:.1}",
                few.threads, many.threads
            ),
        ))
    }

    fn free_share(&self) -> Facts {
        let walks = self.of("CoRW32").filter(|row| row.regime == "share");
        let gains: Vec<f64> = walks
            .filter_map(|row| Some(self.ouroboros(row, |row| row.allocate_ms)? / row.allocate_ms?))
            .collect();
        let (least, most) = range(gains.iter().copied())?;
        let ten = gains.iter().filter(|gain| **gain >= 10.0).count();
        Some((
            2 * ten > gains.len(),
            format!(
                "CoRW32 is so in {ten} of {} cases, and has {least:.2} to {most:.2} times the speed of the fastest variant",
                gains.len()
            ),
        ))
    }

    fn steps(&self) -> Facts {
        let off = |row: &&Row| Some((row.tas? / row.expected_tas? - 1.0).abs());
        let off: Vec<f64> = self.0.iter().filter_map(off).collect();
        let (_, worst) = range(off.iter().copied())?;
        let close = off.iter().filter(|off| **off <= 0.1).count();
        Some((
            close == off.len(),
            format!(
                "{close} of {} rows are within a tenth, the worst is off by {:.0} %",
                off.len(),
                100.0 * worst
            ),
        ))
    }

    fn bounds(&self) -> Facts {
        let over = |row: &&Row| Some(row.was? / row.was_bound?);
        let over: Vec<f64> = self.0.iter().filter_map(over).collect();
        let (_, worst) = range(over.iter().copied())?;
        let above = over.iter().filter(|over| **over > 1.0).count();
        Some((
            above == 0,
            format!(
                "{above} of {} rows are above the bound; the greatest has {worst:.2} times it",
                over.len()
            ),
        ))
    }

    fn drain(&self) -> Facts {
        let drained = self.of("window").filter(|row| row.regime == "drain");
        let queue = |row: &Row| self.of("queue").find(|other| same_case(row, other))?.allocate_ms;
        let gains = drained.filter_map(|row| Some(queue(row)? / row.allocate_ms?));
        let (least, most) = range(gains)?;
        Some((
            least > 1.0,
            format!("a queue takes {least:.2} to {most:.2} times as long"),
        ))
    }

    /// Times of Ouroboros over those of RW_malloc. `enough` decides on the greatest.
    fn beside_ouroboros(
        &self,
        regime: &str,
        value: impl Fn(&Row) -> Option<f64>,
        enough: impl Fn(f64) -> bool,
    ) -> Facts {
        let rows = self.of("RW_malloc").filter(|row| row.regime == regime);
        let gains: Vec<f64> = rows
            .filter_map(|row| Some(self.ouroboros(row, &value)? / value(row)?))
            .collect();
        let (least, most) = range(gains.iter().copied())?;
        let slower = gains.iter().filter(|gain| **gain < 1.0).count();
        Some((
            slower == 0 && enough(most),
            format!(
                "the fastest variant takes {least:.2} to {most:.2} times as long, less in {slower} of {} cases",
                gains.len()
            ),
        ))
    }

    fn sizes(&self) -> Facts {
        let threads = self.of("RW_malloc").map(|row| row.threads).max()?;
        let times = self
            .of("RW_malloc")
            .filter(|row| row.threads == threads && row.regime == "hold" && row.size <= LARGEST);
        let (least, most) = range(times.filter_map(|row| row.allocate_ms))?;
        Some((
            most / least < 2.0,
            format!("with {threads} threads it takes {least:.4} to {most:.4} ms"),
        ))
    }

    /// Times of an allocator over those of another one, in the same cases.
    fn over(&self, allocator: &str, than: &str, holds: impl Fn(f64, f64) -> bool) -> Facts {
        let other = |row: &Row| self.of(than).find(|other| same_case(row, other))?.allocate_ms;
        let ratios: Vec<f64> = self
            .of(allocator)
            .filter_map(|row| Some(row.allocate_ms? / other(row)?))
            .collect();
        let (least, most) = range(ratios.iter().copied())?;
        Some((
            holds(least, most),
            format!(
                "{allocator} takes {least:.2} to {most:.2} times as long in {} cases",
                ratios.len()
            ),
        ))
    }

    fn utilization(&self) -> Facts {
        let used = |row: &&Row| row.share.map(|share| (share, row.size));
        let rows: Vec<&Row> = self.of("RW_malloc").collect();
        let shares: Vec<(f64, u64)> = rows.iter().filter_map(used).collect();
        let (share, size) = shares.iter().copied().min_by(|a, b| a.0.total_cmp(&b.0))?;
        let close = shares.iter().filter(|(share, _)| *share >= 0.96).count();
        Some((
            share >= 0.96,
            format!(
                "it uses {:.1} % of the bytes for requests of {size} bytes; {close} of {} sizes use 96 % or more",
                100.0 * share,
                shares.len()
            ),
        ))
    }
}
