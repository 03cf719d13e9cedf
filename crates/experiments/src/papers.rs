//! The experiments of a thesis' figures, by module and name.
//!
//! The list of figures is `galatea_bench::papers`. A new module needs a variant of [`Module`], and an arm of
//! each method of [`Experiment`].

use galatea_device::Device;
use galatea_memory::transfer::Result;

use crate::{joins, partitioned, transfer};

/// A module of experiments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Module {
    /// [`transfer`]: the link.
    Transfer,
    /// [`joins`]: the no-partitioning join.
    Joins,
    /// [`partitioned`]: partitioning, and joins of partitions. An experiment has the number of its figure.
    Partitioned,
}

impl Module {
    /// All modules.
    pub const ALL: [Self; 3] = [Self::Transfer, Self::Joins, Self::Partitioned];

    /// Name of the module.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Transfer => "transfer",
            Self::Joins => "joins",
            Self::Partitioned => "partitioned",
        }
    }

    /// Names of its experiments.
    #[must_use]
    pub fn experiments(self) -> Vec<&'static str> {
        match self {
            Self::Transfer => [&transfer::EXPERIMENTS[..], &[transfer::PEER]].concat(),
            Self::Joins => [&joins::EXPERIMENTS[..], &joins::PEER].concat(),
            Self::Partitioned => partitioned::FIGURES.to_vec(),
        }
    }
}

/// An experiment of a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Experiment {
    /// The module.
    pub module: Module,
    /// Name of the experiment in its module.
    pub name: &'static str,
}

/// The scales of all modules.
#[derive(Debug, Clone, Default)]
pub struct Scales {
    /// Of [`transfer`].
    pub transfer: transfer::Scale,
    /// Of [`joins`].
    pub joins: joins::Scale,
    /// Of [`partitioned`].
    pub partitioned: partitioned::Scale,
}

impl Scales {
    /// Small scales, to test that everything works.
    #[must_use]
    pub fn small() -> Self {
        Self {
            transfer: transfer::Scale::small(),
            joins: joins::Scale::small(),
            partitioned: partitioned::Scale::small(),
        }
    }

    /// Sets the number of runs.
    #[must_use]
    pub fn with_runs(mut self, runs: usize) -> Self {
        self.transfer.runs = runs;
        self.joins.runs = runs;
        self.partitioned.runs = runs;
        self
    }

    /// Sets the second device, for figures with another device in the CPU's place.
    #[must_use]
    pub fn with_peer(mut self, peer: Option<Device>) -> Self {
        self.transfer.peer.clone_from(&peer);
        self.joins.peer = peer;
        self
    }
}

impl Experiment {
    /// Names of the fields of the rows.
    #[must_use]
    pub fn header(self) -> &'static str {
        match self.module {
            Module::Transfer => transfer::Measured::HEADER,
            Module::Joins => joins::Row::HEADER,
            Module::Partitioned => partitioned::Row::HEADER,
        }
    }

    /// The figure that the module itself assigns to its experiment, if it does.
    #[must_use]
    pub fn figure(self) -> Option<&'static str> {
        match self.module {
            Module::Transfer => None,
            Module::Joins => Some(joins::figure_of(self.name)),
            Module::Partitioned => Some(self.name),
        }
    }

    /// Whether the experiment measures the memory of another device ([`Scales::with_peer`]).
    #[must_use]
    pub fn uses_peer(self) -> bool {
        match self.module {
            Module::Transfer => self.name == transfer::PEER,
            Module::Joins => joins::uses_peer(self.name),
            Module::Partitioned => false,
        }
    }

    /// Runs the experiment. `row` is called with each row once it is measured. Returns the findings, and
    /// notes on points that were not measured.
    ///
    /// # Errors
    /// An error of the device.
    pub fn run(self, device: &Device, scales: &Scales, row: &mut dyn FnMut(String)) -> Result<Vec<String>> {
        match self.module {
            Module::Transfer => {
                let mut rows = Vec::new();
                transfer::run(device, self.name, &scales.transfer, &mut |measured| {
                    row(measured.csv());
                    rows.push(measured);
                })?;
                if rows.is_empty() {
                    return Ok(vec![format!(
                        "{}: the memory of another device was not measured: there is no other device that this one can access",
                        self.name
                    )]);
                }
                Ok(transfer::findings(&rows))
            }
            Module::Joins => {
                let mut rows = Vec::new();
                let notes = joins::run(device, self.name, &scales.joins, &mut |measured| {
                    row(measured.csv());
                    rows.push(measured);
                })?;
                Ok([joins::findings(&rows), notes].concat())
            }
            Module::Partitioned => {
                let scale = &scales.partitioned;
                let mut rig = partitioned::Rig::new(device, scale.copied)?;
                let mut rows = Vec::new();
                partitioned::run(&mut rig, self.name, scale, &mut |measured| {
                    row(measured.csv());
                    rows.push(measured);
                })?;
                Ok(partitioned::findings(&rows))
            }
        }
    }
}
