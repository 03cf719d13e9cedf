//! The figures of papers, and the experiments that reproduce them.
//!
//! [`THESIS`] is the one place where an experiment of a module is registered for a figure. A new module needs
//! a variant of [`Module`], an arm of [`Figure::run`], and its figures in the list.

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
    /// Name of the module.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Transfer => "transfer",
            Self::Joins => "joins",
            Self::Partitioned => "partitioned",
        }
    }
}

/// An experiment that reproduces a figure, or a part of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Figure {
    /// Number of the figure, like 3.16.
    pub number: &'static str,
    /// Its subject.
    pub subject: &'static str,
    /// The module of the experiment.
    pub module: Module,
    /// Name of the experiment in its module.
    pub experiment: &'static str,
}

const fn figure(
    number: &'static str,
    subject: &'static str,
    module: Module,
    experiment: &'static str,
) -> Figure {
    Figure {
        number,
        subject,
        module,
        experiment,
    }
}

/// Figures of C. Lutz, *Scalable Data Management using GPUs with Fast Interconnects* (2022). A figure may
/// have several experiments.
pub const THESIS: &[Figure] = &[
    figure("3.1", "bandwidth of the link", Module::Transfer, "rates"),
    figure("3.2", "reads by CPU and kernels", Module::Transfer, "cpu"),
    figure("3.2", "latency of loads", Module::Transfer, "latency"),
    figure("3.11", "transfer methods", Module::Transfer, "probe"),
    figure(
        "3.11",
        "transfer methods between devices",
        Module::Transfer,
        transfer::PEER,
    ),
    figure(
        "3.12",
        "memory of the relations",
        Module::Joins,
        "relation_places",
    ),
    figure("3.13", "memory of the table", Module::Joins, "table_places"),
    figure(
        "3.14",
        "selection and aggregation",
        Module::Transfer,
        "selectivity",
    ),
    figure("3.15", "probe side", Module::Joins, "probe_side"),
    figure("3.16", "build side", Module::Joins, "build_side"),
    figure("3.16", "tables in both memories", Module::Joins, "hybrid"),
    figure("3.16", "share on the device", Module::Joins, "shares"),
    figure("3.16", "two devices", Module::Joins, "peer_build_side"),
    figure("3.16", "share on two devices", Module::Joins, "peer_shares"),
    figure("3.17", "build-to-probe ratio", Module::Joins, "ratio"),
    figure("3.18", "data skew", Module::Joins, "skew"),
    figure("3.18", "data skew, two devices", Module::Joins, "peer_skew"),
    figure("3.19", "join selectivity", Module::Joins, "match_rate"),
    figure("3.20", "CPU and GPU together", Module::Joins, "cooperation"),
    figure("4.1", "join scaling", Module::Joins, "tuples"),
    figure("4.1", "join scaling, two devices", Module::Joins, "peer_tuples"),
    figure("4.3", "destinations of partitions", Module::Partitioned, "4.3"),
    figure("4.5", "granularity and alignment", Module::Transfer, "pieces"),
    figure("4.6", "TLB", Module::Transfer, "tlb"),
    figure("4.12", "scaling of the Triton join", Module::Partitioned, "4.12"),
    figure("4.13", "utilisation of the link", Module::Partitioned, "4.13"),
    figure("4.14", "time by phase", Module::Partitioned, "4.14"),
    figure("4.15", "bounds by phase", Module::Partitioned, "4.15"),
    figure("4.16", "partitioning by CPU and GPU", Module::Partitioned, "4.16"),
    figure(
        "4.17",
        "algorithms of the first pass",
        Module::Partitioned,
        "4.17",
    ),
    figure(
        "4.18",
        "partitioning across the link",
        Module::Partitioned,
        "4.18",
    ),
    figure(
        "4.19",
        "partitioning in device memory",
        Module::Partitioned,
        "4.19",
    ),
    figure("4.20", "fanouts of both passes", Module::Partitioned, "4.20"),
    figure("4.21", "cached share of the state", Module::Partitioned, "4.21"),
    figure("4.22", "prefix sum by CPU and GPU", Module::Partitioned, "4.22"),
    figure("4.23", "build-to-probe ratio", Module::Partitioned, "4.23"),
    figure("4.24", "payload columns", Module::Partitioned, "4.24"),
    figure("4.25", "fewer multiprocessors", Module::Partitioned, "4.25"),
];

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

/// The figures with one of the numbers, or all of them without any number. The error is an unknown number.
///
/// # Errors
/// The first number that no figure has.
pub fn chosen<'a>(figures: &'static [Figure], numbers: &'a [String]) -> Result<Vec<Figure>, &'a str> {
    let has = |number: &str| figures.iter().any(|figure| figure.number == number);
    if let Some(unknown) = numbers.iter().find(|number| !has(number)) {
        return Err(unknown);
    }
    let wanted =
        |figure: &&Figure| numbers.is_empty() || numbers.iter().any(|number| number == figure.number);
    Ok(figures.iter().filter(wanted).copied().collect())
}

impl Figure {
    /// Names of the fields of the rows.
    #[must_use]
    pub fn header(&self) -> &'static str {
        match self.module {
            Module::Transfer => transfer::Measured::HEADER,
            Module::Joins => joins::Row::HEADER,
            Module::Partitioned => partitioned::Row::HEADER,
        }
    }

    /// Whether the experiment measures the memory of another device ([`Scales::with_peer`]).
    #[must_use]
    pub fn uses_peer(&self) -> bool {
        match self.module {
            Module::Transfer => self.experiment == transfer::PEER,
            Module::Joins => joins::uses_peer(self.experiment),
            Module::Partitioned => false,
        }
    }

    /// Runs the experiment. `row` is called with each row once it is measured. Returns the findings, and
    /// notes on points that were not measured.
    ///
    /// # Errors
    /// An error of the device.
    pub fn run(&self, device: &Device, scales: &Scales, row: &mut dyn FnMut(String)) -> Result<Vec<String>> {
        match self.module {
            Module::Transfer => {
                let mut rows = Vec::new();
                transfer::run(device, self.experiment, &scales.transfer, &mut |measured| {
                    row(measured.csv());
                    rows.push(measured);
                })?;
                if rows.is_empty() {
                    let figure = self.number;
                    return Ok(vec![format!(
                        "figure {figure}: the memory of another device was not measured: there is no other device that this one can access"
                    )]);
                }
                Ok(transfer::findings(&rows))
            }
            Module::Joins => {
                let mut rows = Vec::new();
                let notes = joins::run(device, self.experiment, &scales.joins, &mut |measured| {
                    row(measured.csv());
                    rows.push(measured);
                })?;
                Ok([joins::findings(&rows), notes].concat())
            }
            Module::Partitioned => {
                let scale = &scales.partitioned;
                let mut rig = partitioned::Rig::new(device, scale.copied)?;
                let mut rows = Vec::new();
                partitioned::run(&mut rig, self.experiment, scale, &mut |measured| {
                    row(measured.csv());
                    rows.push(measured);
                })?;
                Ok(partitioned::findings(&rows))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_name_experiments_of_their_modules() {
        for figure in THESIS {
            let known: Vec<&str> = match figure.module {
                Module::Transfer => [&transfer::EXPERIMENTS[..], &[transfer::PEER]].concat(),
                Module::Joins => [&joins::EXPERIMENTS[..], &joins::PEER].concat(),
                Module::Partitioned => partitioned::FIGURES.to_vec(),
            };
            assert!(known.contains(&figure.experiment), "{figure:?}");
            if figure.module == Module::Joins {
                assert_eq!(joins::figure_of(figure.experiment), figure.number);
            }
        }
        let joins = joins::EXPERIMENTS.iter().chain(&joins::PEER);
        for experiment in joins.chain(&partitioned::FIGURES) {
            assert!(THESIS.iter().any(|figure| figure.experiment == *experiment));
        }
    }

    #[test]
    fn figures_are_chosen_by_number() {
        let numbers = ["3.2".to_owned(), "4.1".to_owned()];
        let found = chosen(THESIS, &numbers).unwrap();
        let names: Vec<&str> = found.iter().map(|figure| figure.experiment).collect();
        assert_eq!(names, ["cpu", "latency", "tuples", "peer_tuples"]);
        assert_eq!(chosen(THESIS, &[]).unwrap().len(), THESIS.len());
        assert_eq!(chosen(THESIS, &["3.3".to_owned()]), Err("3.3"));
    }
}
