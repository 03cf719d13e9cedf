//! Whether the rows of a pipeline are brought into partitions before they meet a build side.
//!
//! A row that is stored in a build side, or looks one up, touches a random place of it. Beyond the L2 cache
//! that costs several times as much as in it. In partitions the places of rows that follow each other are
//! close together, for the price of reading the keys once to count them, and of writing and reading the rows
//! once more. Columns that come over the link for each run come once more to be counted, while accesses of
//! rows that come are hidden by the copies of those after them. Rows that come in the order of the key, as
//! zone maps tell, have their places close together as it is.

use super::run::Run;
use crate::device::columns::{ColumnPages, away};
use crate::device::demand;
use crate::joins::build_table::SideRows;
use datafusion::common::human_readable_size;
use galatea_base::policy::policy;
use galatea_base::reason::Reason;
use galatea_codegen::bound::ResultPlan;
use galatea_codegen::{Halves, Meeting, Partitioning, PipelinePlan};
use galatea_expression::{Expr, KeySpace};
use galatea_layout::model::Machine;
use galatea_store::{Scalar, Zone};
use std::collections::BTreeSet;
use std::time::Duration;

policy! {
    /// When the rows of a join are brought into partitions. Bytes stand for the time in which device memory
    /// reads them in order; fitted to joins of rows of 8 bytes on an H200, whose memory has 4.3 TB/s
    /// (`bench/results/2026-11-23-nvidia-h200/joins-in-memory`).
    pub(super) struct PartitionPolicy {
        /// Rows at least.
        rows: u64 = 1 << 20,
        /// Bytes of a row that is looked up beyond the cache, a bit and a value: 24 thousand million a
        /// second.
        far_read: f64 = 180.0,
        /// Bytes of a row that is stored there: 10 thousand million a second.
        far_write: f64 = 430.0,
        /// Bytes of a row that is looked up in the cache: 116 thousand million a second.
        near_read: f64 = 37.0,
        /// Bytes of a row that is stored there: 35 thousand million a second.
        near_write: f64 = 120.0,
        /// Share of the rate of device memory that writing partitions reaches.
        writing: f64 = 0.6,
        /// Bytes of a row that is written, at least: 114 thousand million a second.
        least_row: f64 = 38.0,
        /// Seconds of two more launches, and of reading the counts.
        launches: f64 = 150e-6,
        /// Bytes that come over the link in a second, where that was not measured.
        link: f64 = 50e9,
        /// Parts of the cache, of which one is for the places of a partition.
        cache_parts: u64 = 16,
        /// Chunks that are under way at once.
        chunks: f64 = 8.0,
        /// Chunks that have a key, on average, at most where rows are in the order of the key.
        overlap: f64 = 2.0,
        /// Partitions at least.
        least: u64 = 16,
        /// Partitions at most: more have short runs.
        most: u64 = 256,
        /// Part of the free device memory that rows in partitions may take: one so-many-th.
        memory: u64 = 2,
    }
}

const POLICY: PartitionPolicy = PartitionPolicy::DEFAULT;

/// What was decided.
#[derive(Debug)]
pub(super) enum PartitionChoice {
    /// There was nothing to decide.
    None,
    /// Rows meet build sides as they come, and why.
    Direct(String),
    /// In partitions; how many, and why.
    Partitions(Box<Halves>, String),
}

/// A build side that rows meet.
struct Met {
    meeting: Meeting,
    keys: KeySpace,
    /// Bytes of the memory that rows touch.
    bytes: u64,
}

/// Rows, and what they touch.
#[derive(Debug, Clone, Copy)]
struct Accesses {
    /// Rows that are scanned.
    scanned: f64,
    /// Rows that meet the build side.
    rows: f64,
    /// Bytes of the build side.
    bytes: f64,
    /// Share of it that rows which are under way at once touch.
    share: f64,
    writes: bool,
}

impl Accesses {
    /// Seconds at random places of the build side, of which rows that are close together touch one of
    /// `parts`.
    fn seconds(self, parts: f64, machine: &Machine) -> f64 {
        let (far, near) = match self.writes {
            true => (POLICY.far_write, POLICY.near_write),
            false => (POLICY.far_read, POLICY.near_read),
        };
        let touched = self.bytes * self.share.min(1.0 / parts);
        let missed = (1.0 - machine.l2_bytes as f64 / touched.max(1.0)).clamp(0.0, 1.0);
        self.rows * (missed * far + (1.0 - missed) * near) / machine.memory_bytes_per_second
    }

    /// Seconds of bringing rows of so many bytes, and keys of `key_bytes`, into partitions.
    fn partitioning(self, row_bytes: f64, key_bytes: f64, machine: &Machine) -> f64 {
        let written = (2.0 * row_bytes / POLICY.writing).max(POLICY.least_row);
        let bytes = self.scanned * key_bytes + self.rows * (written + row_bytes);
        POLICY.launches + bytes / machine.memory_bytes_per_second
    }
}

/// Seconds of the link that a pipeline takes.
#[derive(Debug, Clone, Copy, Default)]
struct LinkTimes {
    /// For its columns.
    once: f64,
    /// For those that are read again after its rows were counted.
    again: f64,
}

impl LinkTimes {
    /// The time of rows that meet build sides as they come, in so many seconds.
    fn direct(self, seconds: f64) -> f64 {
        self.once.max(seconds)
    }

    /// The time of rows that are brought into partitions, and then meet build sides.
    fn partitioned(self, partitioning: f64, seconds: f64) -> f64 {
        self.again + self.once.max(partitioning) + seconds
    }
}

impl Run<'_> {
    /// Decides, by the setting or by the times that are expected.
    pub(super) fn choose_partitions(&self) -> PartitionChoice {
        let forced = self.config.join_partitions.0;
        let over_table = !self.view.columns.is_empty() && self.fetch.is_none();
        if forced == 1 || !over_table || (forced == 0 && self.rows() < POLICY.rows) {
            return PartitionChoice::None;
        }
        let machine = self.runtime.machine();
        let mut met = self.met();
        if forced == 0 {
            // What the cache holds has near places alone.
            met.retain(|met| met.bytes > machine.l2_bytes);
        }
        let saved = |met: &Met| {
            let accesses = self.accesses(met);
            accesses.seconds(1.0, &machine) - accesses.seconds(POLICY.most as f64, &machine)
        };
        let Some(met) = met.into_iter().max_by(|a, b| saved(a).total_cmp(&saved(b))) else {
            return PartitionChoice::None;
        };
        let parts = match forced {
            0 => parts_for(met.bytes, machine.l2_bytes),
            forced => forced,
        };
        let many = match forced {
            0 => format!("{parts}"),
            _ => format!("{parts}, forced"),
        };
        let what = format!(
            "{} of {} beside {} of cache",
            size(met.bytes),
            self.name_of(met.meeting),
            size(machine.l2_bytes)
        );
        let accesses = self.accesses(&met);
        let near = accesses.seconds(1.0, &machine);
        if forced == 0 && saved(&met) <= POLICY.launches {
            return PartitionChoice::Direct(format!("none: {what}, in the order of the key"));
        }
        let by = Partitioning {
            keys: met.keys,
            parts,
            counts: false,
        };
        let Some(halves) = self.plan.in_partitions(met.meeting, self.sides.len(), by) else {
            return PartitionChoice::Direct(format!("none: {what}, rows cannot be kept"));
        };
        let kept = match self.result_of(&halves.first) {
            Ok((ResultPlan::Partition(kept), _)) => kept,
            Ok(_) => return PartitionChoice::None,
            Err(reason) => return PartitionChoice::Direct(format!("none: {what}, {reason}")),
        };
        if forced != 0 {
            return PartitionChoice::Partitions(Box::new(halves), format!("{many}: {what}"));
        }
        let needed = kept.bytes(self.rows());
        let room = self.runtime.room() / POLICY.memory;
        if needed > room {
            let reason = format!(
                "none: {what}, rows of {} for {} of device memory",
                size(needed),
                size(room)
            );
            return PartitionChoice::Direct(reason);
        }
        let row_bytes = needed as f64 / self.rows().max(1) as f64;
        let key_bytes = row_bytes.min(8.0);
        let link = self.link_times(&halves);
        let direct = link.direct(near);
        let partitioned = link.partitioned(
            accesses.partitioning(row_bytes, key_bytes, &machine),
            accesses.seconds(parts.into(), &machine),
        );
        let times = format!(
            "{} so, {} directly",
            milliseconds(partitioned),
            milliseconds(direct)
        );
        match partitioned < direct {
            true => PartitionChoice::Partitions(Box::new(halves), format!("{many}: {what}, {times}")),
            false => PartitionChoice::Direct(format!("none: {what}, {times}")),
        }
    }

    /// What its columns take that are not in device memory, and those of them that counting its rows reads.
    fn link_times(&self, halves: &Halves) -> LinkTimes {
        let measured = self.runtime.calibration().map(|measured| measured.h2d);
        let link = measured.unwrap_or(POLICY.link);
        let counting = halves.first.counting_partitions();
        let counted = counting.map_or_else(BTreeSet::new, |counting| counting.columns());
        let (mut once, mut again) = (0, 0);
        for (source, column) in self.plan.columns().into_iter().zip(&self.view.columns) {
            let chunks = self.chunks.iter().map(|chunk| &column.chunks[*chunk]);
            let bytes = away(chunks, self.runtime.memory().bytes_of(&ColumnPages(column)));
            once += bytes;
            again += if counted.contains(&source) { bytes } else { 0 };
        }
        // Where all of them stay, the second reading finds them.
        let missing = self.inputs().0.missing_bytes;
        let stay = self.config.cache_device.0 && self.part.is_none() && missing <= self.runtime.room();
        LinkTimes {
            once: once as f64 / link,
            again: if stay { 0.0 } else { again as f64 / link },
        }
    }

    /// The build sides that its rows meet by a key, whose memory is random to them.
    fn met(&self) -> Vec<Met> {
        let mut met = Vec::new();
        if self.plan.key_of(Meeting::Own).is_some()
            && let Ok((result, _)) = self.result_of(self.plan)
        {
            let own = match result {
                ResultPlan::Build(plan) => Some((plan.bytes(), plan.keys)),
                ResultPlan::BuildGroups(plan) => Some((8 * plan.words(), plan.keys.clone())),
                ResultPlan::Lists(plan) => Some((plan.lookup_bytes(), plan.keys)),
                _ => None,
            };
            met.extend(own.map(|(bytes, keys)| Met {
                meeting: Meeting::Own,
                keys,
                bytes,
            }));
        }
        for (number, side) in self.sides.iter().enumerate() {
            let meeting = Meeting::Other(number);
            let (SideRows::Built(table), Some(_)) = (side, self.plan.key_of(meeting)) else {
                continue;
            };
            let table = table.lock();
            let keys = table.dimension.key_space();
            met.extend(keys.map(|keys| Met {
                meeting,
                keys,
                bytes: table.lookup_bytes,
            }));
        }
        met
    }

    fn accesses(&self, met: &Met) -> Accesses {
        // Keys that follow each other have no slots that do.
        let share = match (self.plan.key_of(met.meeting), met.keys.slots) {
            (Some(key), None) => self.share_of_keys(key),
            _ => 1.0,
        };
        Accesses {
            scanned: self.rows() as f64,
            rows: self.rows() as f64 * self.share_passed(),
            bytes: met.bytes as f64,
            share,
            writes: met.meeting == Meeting::Own,
        }
    }

    /// The share of all keys that rows which are under way at once have, as zone maps tell.
    fn share_of_keys(&self, key: &Expr) -> f64 {
        let columns: Vec<usize> = key
            .parts()
            .first()
            .map_or_else(Vec::new, |part| part.columns().into_iter().collect());
        let [column] = columns.as_slice() else { return 1.0 };
        let at = self.plan.columns().iter().position(|source| source == column);
        let Some(column) = at.and_then(|at| self.view.columns.get(at)) else {
            return 1.0;
        };
        let span = |zone: &Zone| match (&zone.min, &zone.max) {
            (Some(Scalar::Integer(min)), Some(Scalar::Integer(max))) => Some((*min, *max)),
            _ => None,
        };
        let spans: Vec<(i128, i128)> = self
            .chunks
            .iter()
            .filter_map(|chunk| span(&column.chunks[*chunk].zone))
            .collect();
        let (Some(low), Some(high)) = (
            spans.iter().map(|(low, _)| *low).min(),
            spans.iter().map(|(_, high)| *high).max(),
        ) else {
            return 1.0;
        };
        let all = (high - low) as f64 + 1.0;
        let together = spans
            .iter()
            .map(|(low, high)| (high - low) as f64 / all)
            .sum::<f64>();
        let many = spans.len() as f64;
        match many >= POLICY.chunks && together <= POLICY.overlap {
            // Rows follow each other in the order of the key: so do the places that they touch.
            true => 0.0,
            false => (POLICY.chunks * together / many).min(1.0),
        }
    }

    /// The share of its rows that are expected to meet the build side: those that pass all filters. Where
    /// some of these are behind it, more do, which is not known.
    fn share_passed(&self) -> f64 {
        let seen = (self.runtime.demands()).share_passed(demand::shape(self.plan, self.view));
        let expected = || self.result_of(self.plan).map_or(1.0, |(_, share)| share);
        seen.unwrap_or_else(expected)
    }

    /// What a pipeline over its rows and build sides makes, and the share of rows that is expected to pass.
    fn result_of(&self, plan: &PipelinePlan) -> Result<(ResultPlan, f64), Reason> {
        let dimensions: Vec<_> = self.sides.iter().map(SideRows::dimension).collect();
        let prepared = self.runtime.prepared();
        prepared.result_of(plan, self.view, &dimensions, self.kernel_options())
    }

    fn name_of(&self, meeting: Meeting) -> String {
        match meeting {
            Meeting::Own => "this build side".to_owned(),
            Meeting::Other(number) => format!("d{number}"),
        }
    }
}

/// Partitions whose places are a part of the cache each.
fn parts_for(bytes: u64, cache: u64) -> u32 {
    let parts = bytes.div_ceil((cache / POLICY.cache_parts).max(1));
    parts.next_power_of_two().clamp(POLICY.least, POLICY.most) as u32
}

fn size(bytes: u64) -> String {
    human_readable_size(usize::try_from(bytes).unwrap_or(usize::MAX))
}

fn milliseconds(seconds: f64) -> String {
    format!("{:.2?}", Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether partitions are expected to be faster for so many rows, of 8 bytes, on an H200.
    fn pays(rows: u64, bytes: u64, share: f64, writes: bool) -> bool {
        let machine = &Machine::H200;
        let accesses = Accesses {
            scanned: rows as f64,
            rows: rows as f64,
            bytes: bytes as f64,
            share,
            writes,
        };
        let parts = parts_for(bytes, machine.l2_bytes);
        let partitioned = accesses.partitioning(8.0, 4.0, machine) + accesses.seconds(parts.into(), machine);
        partitioned < accesses.seconds(1.0, machine)
    }

    #[test]
    fn partitions_pay_where_rows_are_stored_beyond_the_cache() {
        // The workloads of `galatea bench joins`: 4 bytes and a bit of each key.
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
    fn columns_that_come_twice_cost_the_link_twice() {
        // TPC-H 13 at scale 100: 150 million orders, whose comments are read to count those that pass.
        let resident = LinkTimes::default();
        assert!(resident.partitioned(0.004, 0.004) < resident.direct(0.015));
        let streamed = LinkTimes {
            once: 0.16,
            again: 0.16,
        };
        assert!(streamed.partitioned(0.004, 0.004) > streamed.direct(0.015));
        // Accesses that take longer than the link does are worth keys that come twice.
        let keys = LinkTimes {
            once: 0.02,
            again: 0.01,
        };
        assert!(keys.partitioned(0.004, 0.02) < keys.direct(0.1));
    }

    #[test]
    fn a_partition_has_a_part_of_the_cache() {
        let parts = |bytes: u64| parts_for(bytes, 48 << 20);
        assert_eq!([1, 48 << 20, 96 << 20, 97 << 20].map(parts), [16, 16, 32, 64]);
        assert_eq!([1 << 30, 3 << 30, 1 << 40].map(parts), [256, 256, 256]);
    }
}
