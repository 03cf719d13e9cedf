//! The phases of a pipeline run on the host's clock.

use std::time::{Duration, Instant};

/// Maximum number of phases of one timeline. A pipeline that runs in many partitions has more; the later ones
/// are not recorded.
const MOST: usize = 64;

/// A phase of a pipeline run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SpanPhase {
    /// Reading and encoding columns.
    Load,
    /// Binding, generating and compiling the kernel.
    Compile,
    /// Transferring columns to the device before the kernel.
    Transfer,
    /// Kernels, and the copies that overlap with them.
    Kernel,
}

/// The time of one phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The phase.
    pub phase: SpanPhase,
    /// Its start. For kernels, the time at which the first one was queued.
    pub begun: Instant,
    /// Its duration. For kernels, it is measured on the device.
    pub took: Duration,
}

/// The phases of a pipeline run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Timeline {
    run: Option<(Instant, Instant)>,
    spans: Vec<Span>,
}

impl Timeline {
    /// The start and the end of the run; of all runs, if the pipeline ran in partitions.
    pub fn run(&self) -> Option<(Instant, Instant)> {
        self.run
    }

    /// The phases, by start except after a merge.
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// Records a phase.
    pub(crate) fn add(&mut self, phase: SpanPhase, begun: Instant, took: Duration) {
        if self.spans.len() < MOST {
            self.spans.push(Span { phase, begun, took });
        }
    }

    /// Records that a run has ended now.
    pub(crate) fn ended(&mut self, begun: Instant) {
        self.extend_to((begun, Instant::now()));
    }

    fn extend_to(&mut self, (begun, ended): (Instant, Instant)) {
        self.run = Some(match self.run {
            Some((first, last)) => (first.min(begun), last.max(ended)),
            None => (begun, ended),
        });
    }

    /// Adds the phases of another run of the same query.
    pub(crate) fn merge(&mut self, other: &Self) {
        if let Some(run) = other.run {
            self.extend_to(run);
        }
        let room = MOST - self.spans.len();
        self.spans.extend(other.spans.iter().take(room));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_timelines_cover_both_runs_and_stay_bounded() {
        let (start, ms) = (Instant::now(), Duration::from_millis);
        let mut timeline = Timeline::default();
        assert_eq!(timeline.run(), None);
        timeline.extend_to((start + ms(5), start + ms(9)));
        timeline.add(SpanPhase::Compile, start + ms(5), ms(1));
        let mut other = Timeline::default();
        other.extend_to((start, start + ms(7)));
        (0..100).for_each(|_| other.add(SpanPhase::Kernel, start, ms(1)));
        timeline.merge(&other);
        assert_eq!(timeline.run(), Some((start, start + ms(9))));
        assert_eq!(
            (timeline.spans().len(), timeline.spans()[0].phase),
            (MOST, SpanPhase::Compile)
        );
    }
}
