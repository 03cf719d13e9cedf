//! The experiments of chapter 3 of the thesis on the no-partitioning join, and of figure 4.1, by name.

use std::time::Instant;

use galatea_device::{Device, PageOrder};
use galatea_kernels::{JoinHashing, JoinTable};
use galatea_memory::transfer::{Access, Method, Result};

use super::cpu;
use super::gpu::{GpuJoin, OnDevice, Run};
use super::het::{Cooperation, Morsels};
use super::model::Predicted;
use super::radix::RadixJoin;
use super::row::{Bound, Row};
use super::table::{Placement, TableMemory};
use super::workload::{Shape, Workload};
use crate::runs;
use crate::transfer::{InPlace, cpu_reads};

/// Names of the experiments, in the order in which they run.
pub const EXPERIMENTS: [&str; 7] = [
    "probe_side",
    "build_side",
    "ratio",
    "skew",
    "match_rate",
    "cooperation",
    "tuples",
];

/// The figure of the thesis that an experiment reproduces.
#[must_use]
pub fn figure_of(experiment: &str) -> &'static str {
    match experiment {
        "probe_side" => "3.15",
        "build_side" => "3.16",
        "ratio" => "3.17",
        "skew" => "3.18",
        "match_rate" => "3.19",
        "cooperation" => "3.20",
        "tuples" => "4.1",
        _ => "",
    }
}

/// The scale of measurements.
#[derive(Debug, Clone)]
pub struct Scale {
    /// Divisor of the thesis' numbers of rows and of `budget`, a power of two. Some experiments have more
    /// points than fit the time, and use half or a quarter of the rows.
    pub shrink: u64,
    /// Bytes of device memory that hash tables of `build_side` and `tuples` may use; the thesis' device has
    /// 15 GiB. It is divided like the rows.
    pub budget: u64,
    /// Number of runs.
    pub runs: usize,
    /// Sizes of morsels of `cooperation`.
    pub morsels: Morsels,
    /// Bytes by which the rates of the link and of the CPU's memory are measured, a multiple of 4 KiB.
    pub rate_bytes: usize,
    /// Seconds after which an experiment measures no further points.
    pub seconds: f64,
    /// Seed of the relations.
    pub seed: u64,
}

impl Default for Scale {
    fn default() -> Self {
        Self {
            shrink: 4,
            budget: 15 << 30,
            runs: 3,
            morsels: Morsels::default(),
            rate_bytes: 1 << 30,
            seconds: 25.0,
            seed: 1,
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

/// The parts of an experiment in progress.
struct Lab<'a> {
    device: &'a Device,
    scale: &'a Scale,
    experiment: &'static str,
    join: GpuJoin,
    /// Bytes per second that kernels read over the link, and the CPU reads from its memory.
    link: f64,
    cpu: f64,
    /// Number of the next run, over all measurements: selects its inputs.
    next: usize,
    begun: Instant,
    notes: Vec<String>,
    out: &'a mut dyn FnMut(Row),
}

/// Runs an experiment of [`EXPERIMENTS`]. `out` is called with each row once it is measured. Returns notes on
/// points that were not measured.
///
/// # Errors
/// An error of the device.
///
/// # Panics
/// If a join returns a wrong answer.
pub fn run(device: &Device, name: &str, scale: &Scale, out: &mut dyn FnMut(Row)) -> Result<Vec<String>> {
    let known = EXPERIMENTS.into_iter().find(|experiment| *experiment == name);
    let Some(experiment) = known else {
        return Ok(Vec::new());
    };
    let begun = Instant::now();
    let link = InPlace::new(device, Method::ZeroCopy, scale.rate_bytes)?
        .rate(Access::Read, (512, 0, false), 3)?
        .values;
    let cpu = cpu_reads(scale.rate_bytes, false, 3)?.values;
    let mut lab = Lab {
        device,
        scale,
        experiment,
        join: GpuJoin::new(device)?,
        link: runs::median(&link),
        cpu: runs::median(&cpu),
        next: 1,
        begun,
        notes: Vec::new(),
        out,
    };
    match experiment {
        "probe_side" => probe_side(&mut lab, &[1, 4, 16, 32], true)?,
        "build_side" => build_side(&mut lab)?,
        "ratio" => probe_side(&mut lab, &[1, 2, 4, 8, 16], false)?,
        "skew" => skew(&mut lab)?,
        "match_rate" => match_rate(&mut lab)?,
        "cooperation" => cooperation(&mut lab)?,
        _ => tuples(&mut lab)?,
    }
    let notes = lab.notes;
    device.trim()?;
    Ok(notes)
}

impl Lab<'_> {
    /// Whether the time is over. Notes it.
    fn late(&mut self, before: &str) -> bool {
        let seconds = self.begun.elapsed().as_secs_f64();
        let late = seconds > self.scale.seconds;
        if late {
            self.note(format!(
                "{before} and later were not measured: {seconds:.0} s have passed"
            ));
        }
        late
    }

    fn note(&mut self, text: String) {
        self.notes.push(format!("{}: {text}", self.experiment));
    }

    /// A row without runs.
    fn row(&self, workload: &Workload, algorithm: &str, (parameter, value): (&'static str, f64)) -> Row {
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
    fn measure(
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
    fn gpu(
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

    fn gpu_with(
        &mut self,
        workload: &mut Workload,
        memory: &TableMemory,
        (table, placement): (JoinTable, Placement),
        parameter: (&'static str, f64),
        ends: Option<(f64, f64)>,
    ) -> Result<f64> {
        let mut row = self.row(workload, &format!("GPU {}", table.hashing.name()), parameter);
        row.table = placement.to_string();
        row.table_share = memory.device_share(table.bytes());
        row.predicted = ends.map(|(device, host)| Predicted::new(row.table_share, device, host));
        self.measure(workload, row, |join, workload| {
            Ok(join.run_in_place(workload, &table)?)
        })
    }

    fn memory(&mut self, bytes: u64, placement: Placement) -> Result<Option<TableMemory>> {
        let memory = TableMemory::new(self.device, self.join.stream(), bytes, placement)?;
        if memory.is_none() {
            self.note(format!(
                "no table {placement}: the driver does not map pages of the host"
            ));
        }
        Ok(memory)
    }

    /// The join on the CPU, with a table in shared memory.
    fn cpu(
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

    fn radix(
        &mut self,
        workload: &mut Workload,
        join: &mut RadixJoin,
        parameter: (&'static str, f64),
    ) -> Result<f64> {
        let row = self.row(workload, "CPU radix", parameter);
        self.measure(workload, row, |_, workload| Ok(join.run(workload)))
    }
}

/// Bytes of a table with perfect hashing.
fn perfect_bytes(shape: &Shape) -> u64 {
    shape.domain * shape.tuple_bytes()
}

const PERFECT: JoinHashing = JoinHashing::Perfect;

/// Figures 3.15 and 3.17: more rows of S, with the table in the device's memory.
fn probe_side(lab: &mut Lab<'_>, ratios: &[u64], on_cpu: bool) -> Result<()> {
    let most = ratios.last().copied().unwrap_or(1);
    let shape = Shape::c_wide(lab.scale.shrink, most);
    let mut workload = Workload::new(lab.device, shape, lab.scale.seed)?;
    let Some(table) = lab.memory(perfect_bytes(&shape), Placement::Device)? else {
        return Ok(());
    };
    let rivals = match on_cpu {
        true => lab
            .memory(perfect_bytes(&shape), Placement::Host)?
            .map(|host| RadixJoin::new(&shape).map(|radix| (host, radix)))
            .transpose()?,
        false => None,
    };
    let mut rivals = rivals;
    for ratio in ratios {
        if lab.late(&format!("ratio {ratio}")) {
            break;
        }
        workload.use_probe_rows(shape.domain * ratio);
        let at = ("S per R", *ratio as f64);
        lab.gpu(&mut workload, &table, (PERFECT, Placement::Device), at, None)?;
        if let Some((host, radix)) = &mut rivals {
            lab.cpu(&mut workload, host, at)?;
            lab.radix(&mut workload, radix, at)?;
        }
    }
    Ok(())
}

/// Figure 3.16: more rows of both relations, with tables of up to twice the budget in all memories.
fn build_side(lab: &mut Lab<'_>) -> Result<()> {
    let budget = lab.scale.budget / lab.scale.shrink / 2;
    let shape = |share: f64| {
        let rows = (budget as f64 * share / 16.0) as u64;
        Shape::uniform("C, 16 bytes", 8, rows, rows)
    };
    let shares = [0.5, 1.0, 1.5, 2.0];
    let largest = shape(2.0);
    let bytes = perfect_bytes(&largest);
    let mut workload = Workload::new(lab.device, largest, lab.scale.seed)?;
    // The share, and the rates with the table in one memory.
    let mut ends = Vec::new();
    let device = lab.memory(bytes, Placement::Device)?;
    let host = lab.memory(bytes, Placement::Host)?;
    let mut radix = RadixJoin::new(&largest)?;
    for share in shares {
        if lab.late(&format!("tables of {share} budgets")) {
            break;
        }
        workload.reshape(shape(share))?;
        let at = ("table per budget", share);
        let mut rate = |memory: &Option<TableMemory>, placement| match memory {
            Some(memory) => lab.gpu(&mut workload, memory, (PERFECT, placement), at, None),
            None => Ok(f64::NAN),
        };
        let rates = (rate(&device, Placement::Device)?, rate(&host, Placement::Host)?);
        ends.push((share, rates));
        if let Some(host) = &host {
            lab.cpu(&mut workload, host, at)?;
        }
        if share == shares[0] || share == shares[3] {
            lab.radix(&mut workload, &mut radix, at)?;
        }
    }
    drop((device, host, radix));
    for order in [PageOrder::DeviceFirst, PageOrder::Interleaved] {
        // Pages in order serve all tables; interleaved ones must be placed for each.
        for (share, rates) in ends.iter().filter(|(share, _)| *share > 1.0) {
            if lab.late(&format!("hybrid tables of {share} budgets")) {
                break;
            }
            let placement = Placement::Hybrid(budget, order);
            workload.reshape(shape(*share))?;
            let bytes = perfect_bytes(&workload.shape());
            if let Some(memory) = lab.memory(bytes, placement)? {
                let at = ("table per budget", *share);
                lab.gpu(&mut workload, &memory, (PERFECT, placement), at, Some(*rates))?;
            }
        }
    }
    Ok(())
}

/// The shape of figures 3.18 and 3.19: workload A, with half of its R and a quarter of its S.
fn smaller_a(scale: &Scale) -> Shape {
    let Shape {
        domain, probe_rows, ..
    } = Shape::a(scale.shrink);
    Shape::uniform("A", 8, domain / 2, probe_rows / 4)
}

/// Figure 3.18: skewed keys of S, with the table in all memories.
fn skew(lab: &mut Lab<'_>) -> Result<()> {
    let shape = smaller_a(lab.scale);
    let bytes = perfect_bytes(&shape);
    let mut workload = Workload::new(lab.device, shape, lab.scale.seed)?;
    let mut memories = Vec::new();
    for placement in [
        Placement::Device,
        Placement::Host,
        Placement::Hybrid(bytes / 4, PageOrder::Interleaved),
        Placement::Hybrid(bytes / 2, PageOrder::Interleaved),
        Placement::Hybrid(bytes / 4 * 3, PageOrder::Interleaved),
    ] {
        if let Some(memory) = lab.memory(bytes, placement)? {
            memories.push((placement, memory));
        }
    }
    for exponent in [0.0, 0.5, 1.0, 1.5, 1.75] {
        if lab.late(&format!("exponent {exponent}")) {
            break;
        }
        workload.reshape(Shape {
            zipf: exponent,
            ..shape
        })?;
        let at = ("Zipf exponent", exponent);
        let mut rates = Vec::new();
        for (placement, memory) in &memories {
            let ends = match (placement, rates.as_slice()) {
                (Placement::Hybrid(..), [device, host, ..]) => Some((*device, *host)),
                _ => None,
            };
            rates.push(lab.gpu(&mut workload, memory, (PERFECT, *placement), at, ends)?);
            if *placement == Placement::Host {
                lab.cpu(&mut workload, memory, at)?;
            }
        }
    }
    Ok(())
}

/// Figure 3.19: R is a random part of its keys, so that only a part of S has a match.
fn match_rate(lab: &mut Lab<'_>) -> Result<()> {
    let shape = smaller_a(lab.scale);
    let bytes = perfect_bytes(&shape);
    let mut workload = Workload::new(lab.device, shape, lab.scale.seed)?;
    let device = lab.memory(bytes, Placement::Device)?;
    let host = lab.memory(bytes, Placement::Host)?;
    for selectivity in [0.0, 0.1, 0.25, 0.5, 1.0] {
        if lab.late(&format!("selectivity {selectivity}")) {
            break;
        }
        workload.reshape(Shape { selectivity, ..shape })?;
        let at = ("selectivity", selectivity);
        if let Some(memory) = &device {
            lab.gpu(&mut workload, memory, (PERFECT, Placement::Device), at, None)?;
        }
        if let Some(memory) = &host {
            lab.gpu(&mut workload, memory, (PERFECT, Placement::Host), at, None)?;
            lab.cpu(&mut workload, memory, at)?;
        }
    }
    Ok(())
}

/// Figure 3.20: both processors together, and each alone.
fn cooperation(lab: &mut Lab<'_>) -> Result<()> {
    let shrink = lab.scale.shrink;
    let mut both = Cooperation::new(lab.device, lab.scale.morsels)?;
    for shape in [Shape::a(shrink), Shape::b(shrink), Shape::c(shrink)] {
        if lab.late(&format!("workload {}", shape.name)) {
            break;
        }
        let at = ("morsel bytes of the CPU", lab.scale.morsels.cpu as f64);
        let bytes = perfect_bytes(&shape);
        let mut workload = Workload::new(lab.device, shape, lab.scale.seed)?;
        let device = lab.memory(bytes, Placement::Device)?;
        let host = lab.memory(bytes, Placement::Host)?;
        let (Some(device), Some(host)) = (device, host) else {
            continue;
        };
        lab.cpu(&mut workload, &host, at)?;
        lab.gpu(&mut workload, &device, (PERFECT, Placement::Device), at, None)?;
        if let TableMemory::Host(memory) = &host {
            let mut row = lab.row(&workload, "Het", at);
            row.table = Placement::Host.to_string();
            row.table_share = 0.0;
            lab.measure(&mut workload, row, |join, workload| {
                Ok(both.het(join, workload, memory)?)
            })?;
        }
        if let TableMemory::Device(entries) = &device {
            let table = device.table(PERFECT, shape.domain, shape.word_bytes)?;
            let mut copy = both.host_table(table.bytes())?;
            let mut row = lab.row(&workload, "GPU+Het", at);
            "device and host".clone_into(&mut row.table);
            row.table_share = 1.0;
            lab.measure(&mut workload, row, |join, workload| {
                Ok(both.gpu_het(join, workload, (&table, entries), &mut copy)?)
            })?;
        }
    }
    Ok(())
}

/// Divisor of the rows if linear probing uses host memory, where each insertion waits for the link.
const SAMPLE: u64 = 512;
/// Relations of at most this size are also joined in the device's memory.
const ON_DEVICE: u64 = 4 << 30;

/// Figure 4.1: relations of equal size, with tables that exceed the budget.
fn tuples(lab: &mut Lab<'_>) -> Result<()> {
    let shrink = 2 * lab.scale.shrink;
    let budget = lab.scale.budget / shrink;
    let largest = Shape::t(2048, shrink);
    let mut workload = Workload::new(lab.device, largest, lab.scale.seed)?;
    let mut radix = RadixJoin::new(&largest)?;
    let host = lab.memory(perfect_bytes(&largest), Placement::Host)?;
    for millions in [128, 256, 512, 1024, 2048] {
        if lab.late(&format!("{millions} M tuples")) {
            break;
        }
        let shape = Shape::t(millions, shrink);
        let at = ("M tuples of R without shrinking", millions as f64);
        workload.reshape(shape)?;
        lab.radix(&mut workload, &mut radix, at)?;
        if let Some(host) = &host {
            lab.cpu(&mut workload, host, at)?;
        }
        for hashing in [JoinHashing::Perfect, JoinHashing::Linear] {
            let slots = hashing.slots(shape.domain);
            let bytes = slots * shape.tuple_bytes();
            let placement = match bytes <= budget {
                true => Placement::Device,
                false => Placement::Hybrid(budget, PageOrder::DeviceFirst),
            };
            let Some(memory) = lab.memory(bytes, placement)? else {
                continue;
            };
            if hashing == JoinHashing::Linear && placement != Placement::Device {
                let rows = (shape.domain / SAMPLE).max(1);
                workload.reshape(Shape::uniform("T, few rows", 8, rows, rows))?;
            }
            let table = memory.table(hashing, slots, shape.word_bytes)?;
            lab.gpu_with(&mut workload, &memory, (table, placement), at, None)?;
            if placement == Placement::Device && shape.bytes() <= ON_DEVICE {
                let name = format!("GPU {} (columns on the device)", hashing.name());
                let mut row = lab.row(&workload, &name, at);
                row.table = placement.to_string();
                (row.table_share, row.bound) = (1.0, None);
                let device = lab.device;
                lab.measure(&mut workload, row, |join, workload| {
                    let columns = OnDevice::new(device, join.stream(), workload)?;
                    let [build, probe] = columns.rows();
                    Ok(join.run(build, probe, &table)?)
                })?;
            }
        }
    }
    Ok(())
}
