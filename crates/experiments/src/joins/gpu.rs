//! The no-partitioning join on the device.

use std::time::Instant;

use galatea_device::{Device, DeviceBuffer, InOut, Result, Stream};
use galatea_kernels::{JoinBuild, JoinClear, JoinProbe, JoinRows, JoinTable};

use super::workload::{Answer, Workload};

/// Seconds of the phases of a join.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Phases {
    /// Build, or partitioning.
    pub build: f64,
    /// Copy of the table.
    pub copy: f64,
    /// Probe, or the join of partitions.
    pub probe: f64,
}

impl Phases {
    /// All phases.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.build + self.copy + self.probe
    }
}

/// A phase of a join.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Build,
    Probe,
}

/// A run of a join.
#[derive(Debug, Clone, Copy)]
pub struct Run {
    /// Times.
    pub phases: Phases,
    /// The found answer.
    pub answer: Answer,
    /// Fraction of the probe's rows that the device processed.
    pub device_share: f64,
}

/// The kernels of the join, on one stream.
#[derive(Debug)]
pub struct GpuJoin {
    pub(super) stream: Stream,
    pub(super) build: JoinBuild,
    pub(super) probe: JoinProbe,
    clear: JoinClear,
    pub(super) sum: DeviceBuffer<u64>,
}

impl GpuJoin {
    /// Compiles and loads the kernels.
    ///
    /// # Errors
    /// The device's.
    pub fn new(device: &Device) -> Result<Self> {
        let stream = device.stream()?;
        Ok(Self {
            build: JoinBuild::new(device)?,
            probe: JoinProbe::new(device)?,
            clear: JoinClear::new(device)?,
            sum: device.zeroed(&stream, 2)?,
            stream,
        })
    }

    /// The stream of all launches.
    #[must_use]
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Removes all entries of a table, and waits. This also removes the entries of earlier runs.
    ///
    /// # Errors
    /// The device's.
    pub fn clear(&self, table: &JoinTable) -> Result<()> {
        self.clear.launch(&self.stream, table)?;
        self.stream.synchronize()
    }

    /// Joins rows of any device-accessible memory, which must stay valid. The table is cleared before the
    /// time starts.
    ///
    /// # Errors
    /// The device's.
    pub fn run(&mut self, build: JoinRows, probe: JoinRows, table: &JoinTable) -> Result<Run> {
        self.phases(table, |join, phase| match phase {
            Phase::Build => join.build.launch(&join.stream, build, table),
            Phase::Probe => {
                let sum = InOut(&mut join.sum);
                join.probe.launch(&join.stream, probe, table, sum)
            }
        })
    }

    /// A join by a function that queues the work of each phase. The table is cleared before the time starts.
    pub(super) fn phases(
        &mut self,
        table: &JoinTable,
        mut work: impl FnMut(&mut Self, Phase) -> Result<()>,
    ) -> Result<Run> {
        self.stream.fill(&mut self.sum, 0)?;
        self.clear(table)?;
        let start = Instant::now();
        work(self, Phase::Build)?;
        self.stream.synchronize()?;
        let built = Instant::now();
        work(self, Phase::Probe)?;
        self.stream.synchronize()?;
        let phases = Phases {
            build: (built - start).as_secs_f64(),
            copy: 0.0,
            probe: built.elapsed().as_secs_f64(),
        };
        let found = self.stream.read(&self.sum, ..)?;
        Ok(Run {
            phases,
            answer: Answer {
                sum: found[0],
                matches: found[1],
            },
            device_share: 1.0,
        })
    }

    /// Joins the relations of a workload in place.
    ///
    /// # Errors
    /// The device's.
    pub fn run_in_place(&mut self, workload: &Workload, table: &JoinTable) -> Result<Run> {
        self.run(workload.build_in_place(), workload.probe_in_place(), table)
    }
}
