//! Times of the phases of a join without overlap.

use std::time::Duration;

use galatea_device::{Event, Result, Stream};
use parking_lot::Mutex;

/// A phase of a join or of a partitioning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Copies of columns to the device.
    CopyIn,
    /// The histogram of the first pass and its prefix sum.
    PrefixSum,
    /// Writing tuples to the partitions of the first pass.
    FirstPass,
    /// Copies of state to the host.
    CopyOut,
    /// The CPU lists the slices of partitions.
    Scheduling,
    /// Copies of a partition's slices from both memories to one array.
    Gather,
    /// The histogram of the second pass and its prefix sum.
    SecondPrefixSum,
    /// Partitioning by the bits of the second pass.
    SecondPass,
    /// Hash tables in shared memory.
    Join,
}

impl Phase {
    /// All phases, in the order of a join.
    pub(super) const ALL: [Self; 9] = [
        Self::CopyIn,
        Self::PrefixSum,
        Self::FirstPass,
        Self::CopyOut,
        Self::Scheduling,
        Self::Gather,
        Self::SecondPrefixSum,
        Self::SecondPass,
        Self::Join,
    ];

    /// Name in rows.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::CopyIn => "copies in",
            Self::PrefixSum => "prefix sum 1",
            Self::FirstPass => "partition 1",
            Self::CopyOut => "copies out",
            Self::Scheduling => "scheduling",
            Self::Gather => "gathering",
            Self::SecondPrefixSum => "prefix sum 2",
            Self::SecondPass => "partition 2",
            Self::Join => "joining",
        }
    }
}

/// Events after the steps of a stream.
#[derive(Debug, Default)]
pub(super) struct Clock {
    begun: Mutex<Option<Event>>,
    marks: Mutex<Vec<(Phase, Event)>>,
}

impl Clock {
    /// Starts again.
    pub(super) fn begin(&self, stream: &Stream) -> Result<()> {
        self.marks.lock().clear();
        *self.begun.lock() = Some(stream.record()?);
        Ok(())
    }

    /// All work since the last mark belongs to a phase.
    pub(super) fn mark(&self, stream: &Stream, phase: Phase) -> Result<()> {
        let event = stream.record()?;
        self.marks.lock().push((phase, event));
        Ok(())
    }

    /// The times of all phases that occurred, in the order of [`Phase::ALL`]. Waits for them.
    pub(super) fn phases(&self) -> Result<Vec<(Phase, Duration)>> {
        let (begun, marks) = (self.begun.lock(), self.marks.lock());
        let mut before = begun.as_ref();
        let mut sums: Vec<(Phase, Option<Duration>)> = Phase::ALL.map(|phase| (phase, None)).to_vec();
        for (phase, event) in marks.iter() {
            let Some(earlier) = before.replace(event) else {
                continue;
            };
            let time = event.elapsed_since(earlier)?;
            for (_, sum) in sums.iter_mut().filter(|(of, _)| of == phase) {
                *sum = Some(sum.unwrap_or_default() + time);
            }
        }
        let found = sums.into_iter().filter_map(|(phase, sum)| Some((phase, sum?)));
        Ok(found.collect())
    }
}
