//! The scale of experiments, and the measurement of a point.

use std::time::Instant;

use galatea_device::Device;
use galatea_kernels::{JoinHashing, JoinTable};
use galatea_memory::transfer::{Access, Method, Result, TransferError};

use super::cpu;
use super::gpu::{GpuJoin, Run};
use super::het::Morsels;
use super::model::Predicted;
use super::radix::RadixJoin;
use super::relations::{Place, Relations};
use super::row::{Bound, Row};
use super::table::{Placement, TableMemory};
use super::workload::{Shape, Workload};
use crate::runs;
use crate::transfer::{InPlace, cpu_reads, peer_reads};

/// Experiments with relations or tables in the memory of another device, which [`Scale::peer`] has to name.
pub const PEER: [&str; 4] = ["peer_build_side", "peer_shares", "peer_skew", "peer_tuples"];

/// Experiments with relations or tables in each memory, among them that of another device if there is one.
pub const PLACES: [&str; 2] = ["relation_places", "table_places"];

/// Whether an experiment measures the memory of another device.
#[must_use]
pub fn uses_peer(experiment: &str) -> bool {
    PEER.contains(&experiment) || PLACES.contains(&experiment)
}

/// The figure of the thesis that an experiment reproduces.
#[must_use]
pub fn figure_of(experiment: &str) -> &'static str {
    match experiment {
        "relation_places" => "3.12",
        "table_places" => "3.13",
        "probe_side" => "3.15",
        "build_side" | "hybrid" | "shares" | "peer_build_side" | "peer_shares" => "3.16",
        "ratio" => "3.17",
        "skew" | "peer_skew" => "3.18",
        "match_rate" => "3.19",
        "cooperation" => "3.20",
        "tuples" | "peer_tuples" => "4.1",
        _ => "",
    }
}

/// The scale of measurements.
#[derive(Debug, Clone)]
pub struct Scale {
    /// Divisor of the thesis' numbers of rows and of `budget`, a power of two. Some experiments have more
    /// points than fit the time, and use a half to an eighth of the rows.
    pub shrink: u64,
    /// Bytes of device memory that hash tables of `build_side`, `hybrid` and `tuples` may use; the thesis'
    /// device has 15 GiB. It is divided like the rows.
    pub budget: u64,
    /// Number of runs.
    pub runs: usize,
    /// Sizes of morsels of `cooperation`.
    pub morsels: Morsels,
    /// Bytes of a measurement of the link's rates, a multiple of 4 KiB. The rate of the CPU's memory is
    /// measured with four times as many bytes, which exceed its caches.
    pub rate_bytes: usize,
    /// Seconds after which an experiment measures no further points.
    pub seconds: f64,
    /// Seed of the relations.
    pub seed: u64,
    /// Another device, for relations and tables in its memory.
    pub peer: Option<Device>,
}

impl Default for Scale {
    fn default() -> Self {
        Self {
            shrink: 4,
            budget: 15 << 30,
            runs: 3,
            morsels: Morsels::default(),
            rate_bytes: 256 << 20,
            seconds: 25.0,
            seed: 1,
            peer: None,
        }
    }
}

impl Scale {
    /// A small scale, to test that everything works.
    #[must_use]
    pub fn small() -> Self {
        Self {
            shrink: 1 << 18,
            runs: 1,
            morsels: Morsels {
                cpu: 4 << 10,
                device: 16 << 10,
            },
            rate_bytes: 64 << 10,
            seconds: 600.0,
            ..Self::default()
        }
    }
}

/// Rates of another device's memory, as of the host's in [`Lab`].
#[derive(Clone, Copy)]
struct PeerRates {
    link: f64,
    random: f64,
}

impl PeerRates {
    /// Measures them. `None` without another device that this one can access.
    fn new(device: &Device, scale: &Scale) -> Result<Option<Self>> {
        let Some(peer) = &scale.peer else {
            return Ok(None);
        };
        let rate = |pieces| {
            let rate = peer_reads((device, peer), scale.rate_bytes, pieces, 3)?;
            Ok::<_, TransferError>(rate.map(|rate| runs::median(&rate.values)))
        };
        let (link, random) = (rate((512, false))?, rate((16, true))?);
        Ok(link.zip(random).map(|(link, random)| Self {
            link,
            random: random / 16.0,
        }))
    }
}

/// A hash table, and the memory it is in.
#[derive(Clone, Copy)]
pub(super) struct PlacedTable<'a> {
    pub(super) table: JoinTable,
    pub(super) memory: &'a TableMemory,
    pub(super) placement: Placement,
}

/// The parts of an experiment in progress.
pub(super) struct Lab<'a> {
    pub(super) device: &'a Device,
    pub(super) scale: &'a Scale,
    experiment: &'static str,
    join: GpuJoin,
    /// Bytes per second that kernels read over the link, and the CPU reads from its memory.
    link: f64,
    cpu: f64,
    /// Random accesses of 16 bytes per second over the link.
    random: f64,
    peer: Option<PeerRates>,
    /// Number of the next run, over all measurements: selects its inputs.
    next: usize,
    begun: Instant,
    notes: Vec<String>,
    out: &'a mut dyn FnMut(Row),
}

impl<'a> Lab<'a> {
    /// Measures the rates of the link and of the CPU's memory, and loads the kernels.
    pub(super) fn new(
        device: &'a Device,
        scale: &'a Scale,
        experiment: &'static str,
        out: &'a mut dyn FnMut(Row),
    ) -> Result<Self> {
        let begun = Instant::now();
        let link = InPlace::new(device, Method::ZeroCopy, scale.rate_bytes)?
            .rate(Access::Read, (512, 0, false), 3)?
            .values;
        let random = InPlace::new(device, Method::ZeroCopy, scale.rate_bytes)?
            .rate(Access::Read, (16, 0, true), 3)?
            .values;
        let cpu = cpu_reads(4 * scale.rate_bytes, false, 3)?.values;
        let peer = match uses_peer(experiment) {
            true => PeerRates::new(device, scale)?,
            false => None,
        };
        Ok(Self {
            device,
            scale,
            experiment,
            join: GpuJoin::new(device)?,
            link: runs::median(&link),
            cpu: runs::median(&cpu),
            random: runs::median(&random) / 16.0,
            peer,
            next: 1,
            begun,
            notes: Vec::new(),
            out,
        })
    }

    /// Notes on points that were not measured.
    pub(super) fn into_notes(self) -> Vec<String> {
        self.notes
    }
}

impl Lab<'_> {
    /// Whether the time is over. Notes it.
    pub(super) fn late(&mut self, before: &str) -> bool {
        let seconds = self.begun.elapsed().as_secs_f64();
        let late = seconds > self.scale.seconds;
        if late {
            self.note(format!(
                "{before} and later were not measured: {seconds:.0} s have passed"
            ));
        }
        late
    }

    /// Whether another device can be measured. Notes it if not.
    pub(super) fn has_peer(&mut self) -> bool {
        if self.peer.is_none() {
            let text = "the memory of another device was not measured: there is no other device that this one can access";
            self.note(text.to_owned());
        }
        self.peer.is_some()
    }

    /// Memory for the relations of a shape. `None` if the place is another device, and there is none.
    pub(super) fn relations(&self, shape: &Shape, place: Place) -> Result<Option<Relations>> {
        let devices = (self.device, self.scale.peer.as_ref());
        Ok(Relations::new(devices, self.join.stream(), shape, place)?)
    }

    pub(super) fn note(&mut self, text: String) {
        self.notes.push(format!("{}: {text}", self.experiment));
    }

    /// A row without runs.
    pub(super) fn row(
        &self,
        workload: &Workload,
        algorithm: &str,
        (parameter, value): (&'static str, f64),
    ) -> Row {
        let tuple = workload.shape().tuple_bytes() as f64;
        let (link, cpu) = (self.link / tuple / 1e9, self.cpu / tuple / 1e9);
        let (by, rate) = match algorithm {
            "CPU perfect" => ("CPU memory", cpu),
            // 8 bytes of a histogram, 16 read, 16 written, 16 read.
            "CPU radix" => ("CPU memory", cpu / 3.5),
            "Het" | "GPU+Het" => ("link and CPU memory", link + cpu),
            _ => ("link", link),
        };
        Row {
            experiment: self.experiment,
            figure: figure_of(self.experiment),
            algorithm: algorithm.to_owned(),
            table: String::new(),
            workload: workload.shape().name,
            parameter,
            value,
            tuples: workload.tuples(),
            runs: Vec::new(),
            device_share: 0.0,
            table_share: f64::NAN,
            bound: Some(Bound { by, rate }),
            predicted: None,
        }
    }

    /// Measures a join, with other inputs for each run. Returns its rate.
    pub(super) fn measure(
        &mut self,
        workload: &mut Workload,
        mut row: Row,
        mut run: impl FnMut(&mut GpuJoin, &Workload) -> Result<Run>,
    ) -> Result<f64> {
        for _ in 0..self.scale.runs.max(1) {
            workload.renew(self.next)?;
            self.next += 1;
            let found = run(&mut self.join, workload)?;
            assert_eq!(
                found.answer,
                workload.answer(),
                "{}: the answer of {} with table {}, {} {}",
                self.experiment,
                row.algorithm,
                row.table,
                row.parameter,
                row.value
            );
            row.add(&found);
        }
        let rate = row.rate();
        (self.out)(row);
        Ok(rate)
    }

    /// The join on the device, with a table in given memory.
    pub(super) fn gpu(
        &mut self,
        workload: &mut Workload,
        memory: &TableMemory,
        (hashing, placement): (JoinHashing, Placement),
        parameter: (&'static str, f64),
        ends: Option<(f64, f64)>,
    ) -> Result<f64> {
        let shape = workload.shape();
        let slots = hashing.slots(match hashing {
            JoinHashing::Perfect => shape.domain,
            JoinHashing::Linear => shape.build_rows(),
        });
        let table = memory.table(hashing, slots, shape.word_bytes)?;
        self.gpu_with(workload, memory, (table, placement), parameter, ends)
    }

    /// The join on the device of relations in place, with a table in given memory.
    pub(super) fn gpu_with(
        &mut self,
        workload: &mut Workload,
        memory: &TableMemory,
        (table, placement): (JoinTable, Placement),
        parameter: (&'static str, f64),
        ends: Option<(f64, f64)>,
    ) -> Result<f64> {
        let table = PlacedTable {
            table,
            memory,
            placement,
        };
        let relations = &mut Relations::in_host_memory();
        self.placed(workload, relations, table, parameter, ends)
    }

    /// The join on the device of relations in given memory, with a table in given memory. `ends` are the
    /// rates with the table in the memory of the device only, and in the other memory only.
    pub(super) fn placed(
        &mut self,
        workload: &mut Workload,
        relations: &mut Relations,
        table: PlacedTable<'_>,
        parameter: (&'static str, f64),
        ends: Option<(f64, f64)>,
    ) -> Result<f64> {
        let PlacedTable {
            table,
            memory,
            placement,
        } = table;
        let place = relations.place();
        let name = format!("GPU {}{}", table.hashing.name(), place.suffix());
        let mut row = self.row(workload, &name, parameter);
        row.table = placement.to_string();
        row.table_share = memory.device_share(table.bytes());
        let tuple = workload.shape().tuple_bytes() as f64;
        let of_relations = match place {
            Place::Host | Place::HostByChunk => row.bound,
            Place::Device => None,
            Place::Peer | Place::PeerByChunk => self.peer.map(|peer| Bound {
                by: "link between devices",
                rate: peer.link / tuple / 1e9,
            }),
        };
        // Accesses to the other part of the table.
        let (by, random) = match placement {
            Placement::Peer(..) => (
                "random accesses between devices",
                self.peer.map_or(f64::NAN, |peer| peer.random),
            ),
            _ => ("random accesses over the link", self.random),
        };
        let of_table = Bound {
            by,
            rate: random / (1.0 - row.table_share) / 1e9,
        };
        let of_table = Some(of_table).filter(|bound| bound.rate.is_finite());
        row.bound = of_relations
            .into_iter()
            .chain(of_table)
            .min_by(|a, b| a.rate.total_cmp(&b.rate));
        row.predicted = ends.map(|(device, other)| Predicted::new(row.table_share, device, other));
        self.measure(workload, row, |join, workload| {
            relations.fill(join.stream(), workload)?;
            Ok(relations.join(join, workload, &table)?)
        })
    }

    pub(super) fn memory(&mut self, bytes: u64, placement: Placement) -> Result<Option<TableMemory>> {
        match (
            TableMemory::new(
                (self.device, self.scale.peer.as_ref()),
                self.join.stream(),
                bytes,
                placement,
            ),
            placement,
        ) {
            (Ok(None), Placement::Peer(..)) => {
                self.note(format!(
                    "no table {placement}: there is no other device that this one can access"
                ));
                Ok(None)
            }
            (Ok(None), _) => {
                self.note(format!(
                    "no table {placement}: the driver does not map pages of the host"
                ));
                Ok(None)
            }
            // A driver may refuse pages of the host, or a large number of them. Other tables are measured.
            (Err(error), Placement::Hybrid(..) | Placement::Peer(..)) if self.device.alive().is_ok() => {
                self.note(format!("no table {placement} of {bytes} bytes: {error}"));
                Ok(None)
            }
            (memory, _) => Ok(memory?),
        }
    }

    /// The join on the CPU, with a table in shared memory.
    pub(super) fn cpu(
        &mut self,
        workload: &mut Workload,
        host: &TableMemory,
        parameter: (&'static str, f64),
    ) -> Result<f64> {
        let TableMemory::Host(memory) = host else {
            return Ok(f64::NAN);
        };
        let mut row = self.row(workload, "CPU perfect", parameter);
        row.table = Placement::Host.to_string();
        let shape = workload.shape();
        let words = (shape.domain * shape.tuple_bytes()).div_ceil(8) as usize;
        self.measure(workload, row, |_, workload| {
            Ok(cpu::no_partitioning(workload, &memory.words()[..words]))
        })
    }

    pub(super) fn radix(
        &mut self,
        workload: &mut Workload,
        join: &mut RadixJoin,
        parameter: (&'static str, f64),
    ) -> Result<f64> {
        let row = self.row(workload, "CPU radix", parameter);
        self.measure(workload, row, |_, workload| Ok(join.run(workload)))
    }
}
