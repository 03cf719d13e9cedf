//! The bytes that phases of a join move at least.

use super::clock::Phase;
use super::options::First;
use super::rig::Bytes;

/// The properties of a join that determine the bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Traffic {
    pub(super) first: First,
    /// Tuples of both sides.
    pub(super) tuples: u64,
    /// Bytes of the state in host memory.
    pub(super) spilled: u64,
    /// Whether values are not read.
    pub(super) keys_only: bool,
    pub(super) cpu_prefix_sum: bool,
}

impl Traffic {
    /// Phases of the second half, after any first pass but the refined one.
    const SECOND: [Phase; 4] = [
        Phase::Gather,
        Phase::SecondPrefixSum,
        Phase::SecondPass,
        Phase::Join,
    ];

    /// The bytes of a phase.
    pub(super) fn of(&self, phase: Phase) -> Bytes {
        let (tuples, spilled) = (self.tuples, self.spilled);
        let cached = 16 * tuples - spilled;
        let column = if self.keys_only { 8 } else { 16 };
        let refined = matches!(self.first, First::Refined(_));
        let [to_device, to_host, memory] = match phase {
            Phase::CopyIn if self.first.has_chunks() => [column * tuples, 0, column * tuples],
            Phase::PrefixSum if self.first.has_chunks() => [0, 0, 8 * tuples],
            Phase::FirstPass if self.first.has_chunks() => [0, 0, (column + 16) * tuples],
            Phase::CopyOut if self.first.has_chunks() => [0, spilled, spilled],
            // Rows are read twice, and written.
            Phase::SecondPass if refined => [0, 0, 48 * tuples],
            Phase::Join if refined => [spilled, 0, cached],
            Phase::PrefixSum if self.first != First::Cpu && !self.cpu_prefix_sum => [8 * tuples, 0, 0],
            Phase::FirstPass if self.first != First::Cpu => [column * tuples, spilled, cached],
            Phase::Gather if !refined => [spilled, 0, cached + 16 * tuples],
            Phase::SecondPrefixSum | Phase::Join if !refined => [0, 0, 16 * tuples],
            Phase::SecondPass => [0, 0, 32 * tuples],
            // The CPU's, and those that a first pass has not.
            _ => [0, 0, 0],
        };
        Bytes {
            to_device,
            to_host,
            memory,
        }
    }

    /// The bytes of the first pass, and of the second half. The refined first pass has the second pass.
    pub(super) fn halves(&self) -> [Bytes; 2] {
        let second: &[Phase] = match self.first {
            First::Refined(_) => &[Phase::Join],
            _ => &Self::SECOND,
        };
        let of = |is_second: bool| {
            let phases = Phase::ALL.into_iter();
            let phases = phases.filter(|phase| second.contains(phase) == is_second);
            phases.fold(Bytes::default(), |sum, phase| sum + self.of(phase))
        };
        [of(false), of(true)]
    }
}

#[cfg(test)]
mod tests {
    use galatea_kernels::RadixAlgorithm::Linear;

    use super::*;

    /// The sums that a join reads and writes, by first pass.
    #[test]
    fn halves_have_the_bytes_of_all_phases() {
        let of = |first, cpu_prefix_sum| {
            let traffic = Traffic {
                first,
                tuples: 100,
                spilled: 600,
                keys_only: false,
                cpu_prefix_sum,
            };
            traffic
                .halves()
                .map(|bytes| (bytes.to_device, bytes.to_host, bytes.memory))
        };
        assert_eq!(
            of(First::Direct(Linear), false),
            [(2400, 600, 1000), (600, 0, 9000)]
        );
        assert_eq!(
            of(First::Direct(Linear), true),
            [(1600, 600, 1000), (600, 0, 9000)]
        );
        assert_eq!(
            of(First::Staged(Linear), false),
            [(1600, 600, 6200), (600, 0, 9000)]
        );
        assert_eq!(
            of(First::Refined(Linear), false),
            [(1600, 600, 11_000), (600, 0, 1000)]
        );
        assert_eq!(of(First::Cpu, false), [(0, 0, 0), (600, 0, 9000)]);
    }
}
