//! Predicted times of the join algorithms.
//!
//! | algorithm | time, without that of reading the columns of both sides once |
//! | --- | --- |
//! | hash | each row of both sides accesses the whole table at random |
//! | radix | both sides are written into partitions, then their rows access one slice of the table at a time |
//! | triton | both sides are stored in partitions, those beyond device memory cross the link twice; then like radix |
//! | multipass | the columns of both sides are read again for each further partition |
//!
//! Hash and radix need the whole table in device memory. EXPLAIN shows the times of a join if its table
//! exceeds the cache (`join costs`). A run chooses with the numbers of rows that it counts:
//! `execution/partition_choice.rs` between hash and radix, and `execution/triton.rs` between triton and
//! multipass, without the accesses to the table, which both have.

use super::out_of_core::{least_row_bytes, row_bytes, rows_in, value_bytes};
use crate::graph::{JoinCosts, PipelineRef};
use galatea_base::policy::policy;
use galatea_layout::model::Machine;

policy! {
    /// Accesses of rows to build sides. Bytes are a unit of time: device memory reads them sequentially in
    /// it. Fitted to joins of rows of 8 bytes on an H200 with 4.3 TB/s of memory bandwidth
    /// (`bench/results/2026-11-23-nvidia-h200/joins-in-memory`), and to partitioned rows on an H100
    /// (`bench/results/2026-11-28-nvidia-h100/partitioned-rows.txt`), in bytes of the H200.
    pub(crate) struct AccessCosts {
        /// Bytes of a lookup beyond the cache, of a bit and a value: 24 thousand million per second.
        far_read: f64 = 180.0,
        /// Bytes of storing a row beyond the cache: 10 thousand million per second.
        far_write: f64 = 430.0,
        /// Bytes of a lookup within the cache: 116 thousand million per second.
        near_read: f64 = 37.0,
        /// Bytes of storing a row within the cache: 63 thousand million per second.
        near_write: f64 = 68.0,
        /// Fraction of device memory bandwidth at which partitions are written.
        writing: f64 = 0.6,
        /// Minimum bytes of writing a row into few partitions, and more of them for each partition: 160
        /// thousand million rows per second into 32 partitions, 105 into 256, because runs are shorter.
        least_row: f64 = 25.0,
        /// See `least_row`.
        each_partition: f64 = 0.06,
        /// Seconds of two more launches, and of reading the counts.
        launches: f64 = 150e-6,
        /// Divisor of the cache size: the quotient is the size of a partition of the build side. Blocks
        /// access one partition at a time, and two of them while they change to the next one.
        cache_parts: u64 = 3,
        /// Minimum number of partitions.
        least: u64 = 8,
        /// Maximum number of partitions: with more, runs are short.
        most: u64 = 256,
    }
}

policy! {
    /// Runs over partitions of state that exceeds device memory.
    pub(crate) struct OutOfCoreCosts {
        /// Divisor of device memory: the build side and the probe side of a partition may each use the
        /// quotient.
        memory: u64 = 4,
        /// Seconds of a run besides transfers: admission, arguments, launches, reading of counters.
        run: f64 = 0.5e-3,
        /// Seconds to queue a copy of the rows of a partition in a batch.
        copy: f64 = 5e-6,
        /// Bytes of a packed row over the link, relative to those of a stored one. Stored rows are not
        /// packed.
        packed: f64 = 0.2,
    }
}

/// The costs of accesses to build sides.
pub(crate) const ACCESSES: AccessCosts = AccessCosts::DEFAULT;

/// The costs of partitions beyond device memory.
pub(crate) const OUT_OF_CORE: OutOfCoreCosts = OutOfCoreCosts::DEFAULT;

/// Number of partitions so that each slice of a build side of that number of bytes fits its share of the
/// cache.
pub(crate) fn cache_partitions(bytes: u64, cache: u64) -> u32 {
    let parts = bytes.div_ceil((cache / ACCESSES.cache_parts).max(1));
    parts.next_power_of_two().clamp(ACCESSES.least, ACCESSES.most) as u32
}

/// Rows and the memory that they access.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Accesses {
    /// Number of scanned rows.
    pub(crate) scanned: f64,
    /// Number of rows that access the build side.
    pub(crate) rows: f64,
    /// Size of the build side in bytes.
    pub(crate) bytes: f64,
    /// Fraction of the build side that the rows in flight at once access.
    pub(crate) share: f64,
    /// Whether the rows are stored in the build side.
    pub(crate) writes: bool,
}

impl Accesses {
    /// Seconds of random accesses to the build side if rows in flight together access one of `parts` equal
    /// parts.
    pub(crate) fn seconds(self, parts: f64, machine: &Machine) -> f64 {
        let (far, near) = match self.writes {
            true => (ACCESSES.far_write, ACCESSES.near_write),
            false => (ACCESSES.far_read, ACCESSES.near_read),
        };
        let touched = self.bytes * self.share.min(1.0 / parts);
        let missed = (1.0 - machine.l2_bytes as f64 / touched.max(1.0)).clamp(0.0, 1.0);
        self.rows * (missed * far + (1.0 - missed) * near) / machine.memory_bytes_per_second
    }

    /// Seconds of writing rows of `row_bytes` bytes with keys of `key_bytes` into `parts` partitions.
    pub(crate) fn partitioning(
        self,
        (row_bytes, key_bytes): (f64, f64),
        parts: f64,
        machine: &Machine,
    ) -> f64 {
        let least = ACCESSES.least_row + ACCESSES.each_partition * parts;
        let written = (2.0 * row_bytes / ACCESSES.writing).max(least);
        let bytes = self.scanned * key_bytes + self.rows * (written + row_bytes);
        ACCESSES.launches + bytes / machine.memory_bytes_per_second
    }
}

/// Rows that are stored once in partitions, or read once per partition. Both times are without that of
/// reading the columns once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PartitionedBytes<'a> {
    /// The bytes of the stored rows of each side.
    pub(crate) sides: &'a [u64],
    /// Number of stored columns of all sides.
    pub(crate) columns: usize,
    /// Number of partitions of stored rows.
    pub(crate) partitions: u32,
    /// Number of runs over stored rows.
    pub(crate) runs: u64,
    /// Bytes of a batch of rows.
    pub(crate) memory: u64,
}

impl PartitionedBytes<'_> {
    fn stored(&self) -> u64 {
        self.sides.iter().sum()
    }

    /// Seconds with rows that are stored once, over a link of `link` bytes per second.
    pub(crate) fn stored_once(&self, link: f64) -> f64 {
        let batches = self.sides.iter().map(|bytes| bytes.div_ceil(self.memory.max(1)));
        let batches: u64 = batches.sum();
        // The batches that do not fit are written to the host, and read back.
        let spilled = self.stored().saturating_sub(2 * self.memory) as f64 / link;
        let runs = (batches + self.runs) as f64;
        let copies = f64::from(self.partitions) * batches as f64 * self.columns as f64;
        2.0 * spilled + runs * OUT_OF_CORE.run + copies * OUT_OF_CORE.copy
    }

    /// Seconds with columns that are read `reads` times, packed, over a link of `link` bytes per second.
    pub(crate) fn read_per_partition(&self, reads: usize, link: f64) -> f64 {
        let again = OUT_OF_CORE.packed * self.stored() as f64 / link;
        let reads = reads as f64;
        (reads - 1.0).max(0.0) * again + 2.0 * reads * OUT_OF_CORE.run
    }
}

/// Measured rates of a device, and its memory.
#[derive(Debug, Clone)]
pub(crate) struct DeviceRates {
    /// The parameters of the cost model.
    pub(crate) machine: Machine,
    /// Bytes per second over the link.
    pub(crate) link: f64,
    /// The limit of device memory in bytes.
    pub(crate) memory: u64,
}

/// The predicted times of the join with build side number `side` of a pipeline, which another pipeline builds
/// with `rows` predicted rows. `None` if the host builds it, or if its table fits the cache and device
/// memory.
pub(crate) fn costs(
    pipeline: PipelineRef<'_>,
    side: usize,
    rows: f64,
    rates: &DeviceRates,
) -> Option<JoinCosts> {
    let build = pipeline.build(side)?;
    let table_row = least_row_bytes(&build.plan.sink).max(1) as f64;
    let sides = [build, pipeline].map(scanned);
    let probe = pipeline.rows.map_or(rows, |rows| rows as f64);
    Some(JoinSizes {
        rows: [rows, probe],
        table: rows * table_row,
        partitioned_row: row_bytes(&build.plan.sink),
        row_bytes: sides.map(|(bytes, _)| bytes as f64),
        columns: sides.iter().map(|(_, columns)| columns).sum(),
    })
    .filter(|sizes| sizes.table > rates.machine.l2_bytes.min(rates.memory) as f64)
    .map(|sizes| sizes.costs(rates))
}

/// Bytes of the columns of a row that a pipeline reads, and their number.
fn scanned(pipeline: PipelineRef<'_>) -> (u64, usize) {
    let columns = pipeline.plan.columns();
    let bytes = |column: &usize| value_bytes(pipeline.schema.field(*column).data_type());
    (columns.iter().map(bytes).sum(), columns.len())
}

/// The sizes of a join.
struct JoinSizes {
    /// Number of rows of the build side and of the probe side.
    rows: [f64; 2],
    /// Bytes of the build table, at least.
    table: f64,
    /// Bytes of a row of the build side in a partition, which has a hash table.
    partitioned_row: u64,
    /// Bytes of the columns of a row of each side.
    row_bytes: [f64; 2],
    /// Number of these columns.
    columns: usize,
}

impl JoinSizes {
    fn costs(&self, rates: &DeviceRates) -> JoinCosts {
        let machine = &rates.machine;
        let sides = [0, 1].map(|side| Accesses {
            scanned: self.rows[side],
            rows: self.rows[side],
            bytes: self.table,
            share: 1.0,
            writes: side == 0,
        });
        let accessing = |parts: f64| sides.iter().map(|side| side.seconds(parts, machine)).sum::<f64>();
        let partitioning = |parts: f64| {
            let row = |side: usize| (self.row_bytes[side], self.row_bytes[side].min(8.0));
            let seconds = |side: usize| sides[side].partitioning(row(side), parts, machine);
            seconds(0) + seconds(1)
        };
        let near = f64::from(cache_partitions(self.table as u64, machine.l2_bytes));
        let bytes = [0, 1].map(|side| (self.rows[side] * self.row_bytes[side]) as u64);
        let memory = rates.memory / OUT_OF_CORE.memory;
        let most = rows_in(memory, self.partitioned_row);
        let reads = (self.rows[0] / most as f64).ceil().max(1.0);
        let partitions = (reads as u32).next_power_of_two();
        let stored = PartitionedBytes {
            sides: &bytes,
            columns: self.columns,
            partitions,
            runs: 2 * u64::from(partitions),
            memory,
        };
        let fits = |bytes: f64| bytes <= rates.memory as f64;
        let [own, other] = bytes;
        let in_partitions = self.table + own.max(other) as f64;
        let parts = f64::from(partitions);
        JoinCosts {
            hash: fits(self.table).then(|| accessing(1.0)),
            radix: fits(in_partitions).then(|| partitioning(near) + accessing(near)),
            triton: partitioning(parts) + stored.stored_once(rates.link) + accessing(parts),
            multipass: stored.read_per_partition(reads as usize, rates.link) + accessing(reads),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether partitioning is expected to be faster for `rows` rows of 8 bytes, on an H200.
    fn pays(rows: u64, bytes: u64, share: f64, writes: bool) -> bool {
        let machine = &Machine::H200;
        let accesses = Accesses {
            scanned: rows as f64,
            rows: rows as f64,
            bytes: bytes as f64,
            share,
            writes,
        };
        let parts = f64::from(cache_partitions(bytes, machine.l2_bytes));
        let partitioned =
            accesses.partitioning((8.0, 4.0), parts, machine) + accesses.seconds(parts, machine);
        partitioned < accesses.seconds(1.0, machine)
    }

    #[test]
    fn partitioning_is_chosen_if_build_table_exceeds_cache() {
        // The workloads of `galatea bench joins`: 4 bytes and a bit per key.
        let table = |keys: u64| 4 * keys + keys / 8;
        let million = 1_000_000;
        for (keys, rows) in [(1 << 27, 1u64 << 31), (1024 * million, 1024 * million)] {
            assert!(pays(keys, table(keys), 1.0, true), "{keys} are stored");
            assert!(pays(rows, table(keys), 1.0, false), "{rows} look up {keys}");
        }
        assert!(
            !pays(1 << 31, table(1 << 18), 1.0, false),
            "in the cache as it is"
        );
        assert!(
            !pays(1 << 31, table(1 << 27), 0.01, false),
            "in the order of the key"
        );
        assert!(!pays(1 << 21, table(1 << 27), 1.0, false), "few rows");
    }

    #[test]
    fn partition_count_fits_build_partition_in_cache() {
        let parts = |bytes: u64| cache_partitions(bytes, 48 << 20);
        assert_eq!([1, 48 << 20, 128 << 20, 129 << 20].map(parts), [8, 8, 8, 16]);
        assert_eq!([1 << 30, 3 << 30, 1 << 40].map(parts), [64, 256, 256]);
    }

    /// Joins of 2^30 by 2^30 rows on an H200, in memory and with memory for a part of the state.
    #[test]
    fn cheapest_algorithm_depends_on_memory() {
        let workload = JoinSizes {
            rows: [(1u64 << 30) as f64; 2],
            table: 5.0 * (1u64 << 30) as f64,
            partitioned_row: 26,
            row_bytes: [8.0, 8.0],
            columns: 4,
        };
        let costs = |memory: u64| {
            workload.costs(&DeviceRates {
                machine: Machine::H200,
                link: 52e9,
                memory,
            })
        };
        let in_memory = costs(100 << 30);
        let [hash, radix] = [in_memory.hash, in_memory.radix].map(|cost| cost.expect("it fits"));
        assert!(radix < hash, "{radix} and {hash} s");
        assert!(radix < in_memory.triton && radix < in_memory.multipass);
        let small = costs(512 << 20);
        assert_eq!([small.hash, small.radix], [None, None]);
        assert!(small.triton < small.multipass, "{small:?}");
        let fits = costs(10 << 30);
        assert!(fits.hash.is_some_and(|hash| hash < fits.triton), "{fits:?}");
        assert_eq!(fits.radix, None, "partitioned rows exceed memory");
    }
}
