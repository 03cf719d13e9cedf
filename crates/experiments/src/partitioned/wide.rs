//! Payload columns after a join: figure 4.24.
//!
//! The join reads keys only, and its result is a join index: the record number in the probe side of each
//! match. Then the values of all payload columns are summed, which are in host memory:
//!
//! - late materialisation, as in the thesis: a kernel loads each value over the link by record number;
//! - staged columns, ours: copy engines transfer one whole column after another, and a kernel loads its
//!   values from device memory, while the next column is copied.

use std::time::Instant;

use galatea_device::{DeviceBuffer, Event, Result};

use super::columns::Columns;
use super::figure::{Figure, name};
use super::options::Options;
use super::rig::{Bytes, Rig};
use super::row::Row;
use super::triton::Join;

/// Bytes of a random access of a kernel: a sector.
const SECTOR: u64 = 32;

/// Buffers of the materialisation.
struct Materialise {
    /// Addresses of columns in host memory.
    addresses: DeviceBuffer<u64>,
    /// Columns in device memory, and their addresses.
    staged: [DeviceBuffer<u64>; 2],
    staged_addresses: DeviceBuffer<u64>,
    sums: DeviceBuffer<u64>,
}

impl Materialise {
    fn new(rig: &Rig, columns: &Columns, most: usize, rows: usize) -> Result<Self> {
        let column = || rig.device.zeroed::<u64>(&rig.kernels, rows.max(1));
        let staged = [column()?, column()?];
        let staged_addresses: Vec<u64> = staged.iter().map(DeviceBuffer::address).collect();
        Ok(Self {
            addresses: rig.device.upload(&rig.kernels, &columns.addresses(most.max(1)))?,
            staged_addresses: rig.device.upload(&rig.kernels, &staged_addresses)?,
            staged,
            sums: rig.device.zeroed(&rig.kernels, 2)?,
        })
    }

    /// Loads the values of columns over the link.
    fn late(&self, rig: &Rig, index: (u64, u64), width: usize) -> Result<()> {
        let columns = (self.addresses.address(), width as u32);
        let most = rig.multiprocessors();
        rig.materialise
            .launch(&rig.kernels, index, columns, self.sums.address(), most)
    }

    /// Copies columns, and loads their values from device memory.
    fn staged(&mut self, rig: &Rig, index: (u64, u64), columns: &Columns, width: usize) -> Result<()> {
        let mut loaded: [Option<Event>; 2] = Default::default();
        for column in 0..width {
            let slot = column % 2;
            if let Some(event) = &loaded[slot] {
                rig.copies.wait(event)?;
            }
            rig.copies
                .copy_to_device(&mut self.staged[slot], &columns.view(column)?)?;
            rig.kernels.wait(&rig.copies.record()?)?;
            let address = self.staged_addresses.address() + 8 * slot as u64;
            let (sums, most) = (self.sums.address(), rig.multiprocessors());
            rig.materialise
                .launch(&rig.kernels, index, (address, 1), sums, most)?;
            loaded[slot] = Some(rig.kernels.record()?);
        }
        Ok(())
    }
}

/// Seconds of the join and of the materialisation of each run.
#[derive(Default)]
struct Runs {
    joins: Vec<f64>,
    materialised: Vec<f64>,
}

impl Runs {
    fn whole(&self) -> Vec<f64> {
        let runs = self.joins.iter().zip(&self.materialised);
        runs.map(|(join, materialised)| join + materialised).collect()
    }
}

impl Figure<'_> {
    /// Figure 4.24: joins with payload columns of the probe side.
    pub(super) fn columns(&mut self) -> Result<()> {
        let million = self.scale.million;
        let most = self.scale.columns.iter().copied().max().unwrap_or(0);
        let mut sizes = self.scale.wide.clone();
        // The largest relations first: the others use their memory.
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        let largest = sizes.first().copied().unwrap_or(0) * million;
        let mut columns = Columns::new(&self.rig.device, largest * most)?;
        for size in sizes {
            let workload = (size, size);
            // A payload column that is read and partitioned with the keys.
            self.join(workload, self.options(), ("payload columns", 1.0))?;
            columns.fill(most, size * million, size as u64)?;
            for staged in [false, true] {
                self.materialise(workload, &mut columns, staged)?;
            }
        }
        Ok(())
    }

    /// Joins relations, and sums payload columns, by the number of columns.
    fn materialise(&mut self, workload: (usize, usize), columns: &mut Columns, staged: bool) -> Result<()> {
        let tuples = workload.1 * self.scale.million;
        let options = Options {
            index: true,
            ..self.options()
        };
        let mut inputs = self.rig.inputs(workload.0 * self.scale.million, tuples, 1)?;
        let mut join = Join::new(self.rig, &inputs, options)?;
        let most = self.scale.columns.iter().copied().max().unwrap_or(0);
        let mut buffers = Materialise::new(self.rig, columns, most, tuples)?;
        // Seconds of a column so far.
        let mut of_column = 0.0;
        for width in self.scale.columns.clone() {
            if width == 0 && staged {
                continue;
            }
            if of_column * width as f64 > 3.0 * self.scale.patience {
                break;
            }
            let mut runs = Runs::default();
            while self.is_open(&runs.whole()) {
                inputs.refresh(6000 + width as u64)?;
                columns.refresh(width)?;
                let joined = join.run(self.rig, &inputs)?;
                let expected = [inputs.numbers(), tuples as u64];
                assert_eq!(
                    joined.sums,
                    expected,
                    "record numbers and matches of {}",
                    name(&options)
                );
                let Some(index) = join.index() else {
                    return Ok(());
                };
                self.rig.kernels.fill(&mut buffers.sums, 0)?;
                self.rig.kernels.synchronize()?;
                let begun = Instant::now();
                match staged {
                    _ if width == 0 => {}
                    false => buffers.late(self.rig, index, width)?,
                    true => buffers.staged(self.rig, index, columns, width)?,
                }
                self.rig.synchronize()?;
                let seconds = begun.elapsed().as_secs_f64();
                runs.materialised.push(if width == 0 { 0.0 } else { seconds });
                runs.joins.push(joined.first + joined.second);
                let launches = if staged { width } else { width.min(1) };
                let expected = [columns.sum(width), (tuples * launches) as u64];
                let found = self.rig.kernels.read(&buffers.sums, ..)?;
                assert_eq!(found, expected, "sum of {width} columns, and records");
            }
            of_column = crate::runs::median(&runs.materialised) / width.max(1) as f64;
            let values = (tuples * width) as u64;
            let materialised = match staged {
                // The index is read once, and a sector for each value.
                false => Bytes {
                    to_device: SECTOR * values,
                    to_host: 0,
                    memory: 8 * tuples as u64,
                },
                true => Bytes {
                    to_device: 8 * values,
                    to_host: 0,
                    memory: (8 + 8 + SECTOR) * values,
                },
            };
            let [first, second] = join.bytes(inputs.tuples());
            for (experiment, seconds, bytes) in [
                ("join", runs.whole(), first + second + materialised),
                ("join index", runs.joins.clone(), first + second),
                ("materialisation", runs.materialised.clone(), materialised),
            ] {
                if experiment == "materialisation" && width == 0 {
                    continue;
                }
                let row = self.row(workload, ("payload columns", width as f64));
                (self.out)(Row {
                    experiment,
                    algorithm: match staged {
                        true => "Staged columns".to_owned(),
                        false => "Late materialisation".to_owned(),
                    },
                    seconds,
                    bytes,
                    spilled: join.spilled(),
                    bits: join.bits(),
                    ..row
                });
            }
        }
        self.rig.keep(inputs);
        Ok(())
    }
}
