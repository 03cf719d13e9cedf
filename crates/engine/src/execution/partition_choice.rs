//! Decides whether the rows of a pipeline are partitioned before they probe a build side or are stored in
//! one.
//!
//! A row that is stored in a build side, or probes one, accesses a random address of it. Beyond the L2 cache
//! such an access costs several times as much as within it. In a partition, consecutive rows access nearby
//! addresses. The price is a pass over the keys to count them, and writing and reading the rows once more.
//! Columns that are transferred over the link for each run are transferred once more for the counting pass,
//! while without partitions the accesses of arrived rows overlap with the copies of later ones. Rows that
//! arrive in the order of the key, according to zone maps, access nearby addresses without partitions.

use super::pipeline_run::Run;
use crate::config::JoinAlgorithm;
use crate::device::columns::away;
use crate::device::demand;
use crate::joins::build_table::SideRows;
use crate::joins::costs::{ACCESSES, Accesses, cache_partitions};
use datafusion::common::human_readable_size;
use galatea_base::policy::policy;
use galatea_base::reason::Reason;
use galatea_codegen::bound::ResultPlan;
use galatea_codegen::{AlignedSide, PartitionPasses, Partitioning, PipelinePlan};
use galatea_expression::{Expr, KeySpace};
use galatea_store::KeyZones;
use std::collections::BTreeSet;
use std::time::Duration;

policy! {
    /// When the rows of a join are partitioned in device memory.
    pub(super) struct PartitionPolicy {
        /// Minimum number of rows.
        rows: u64 = 1 << 20,
        /// Number of chunks in flight at once.
        chunks: f64 = 8.0,
        /// Divisor of free device memory: partitioned rows may use the quotient.
        memory: u64 = 2,
    }
}

const POLICY: PartitionPolicy = PartitionPolicy::DEFAULT;

/// The decision.
#[derive(Debug)]
pub(super) enum PartitionChoice {
    /// No alternatives exist.
    None,
    /// Rows access build sides in scan order, with the reason.
    Direct(String),
    /// Rows are partitioned, by these two pipelines, with the reason.
    Partitions(Box<PartitionPasses>, String),
}

/// A build side that rows are stored in or probe.
struct Met {
    aligned: AlignedSide,
    keys: KeySpace,
    /// Bytes of memory that the rows access.
    bytes: u64,
}

/// Transfer times of a pipeline in seconds.
#[derive(Debug, Clone, Copy, Default)]
struct LinkTimes {
    /// Time to transfer its columns.
    once: f64,
    /// Time to transfer again the columns that are also read to count its rows.
    again: f64,
}

impl LinkTimes {
    /// Time without partitions, if accesses to build sides take `seconds`.
    fn direct(self, seconds: f64) -> f64 {
        self.once.max(seconds)
    }

    /// Time with partitions: partitioning, then accesses to build sides.
    fn partitioned(self, partitioning: f64, seconds: f64) -> f64 {
        self.again + self.once.max(partitioning) + seconds
    }
}

impl Run<'_> {
    /// Decides, by the setting or by expected times.
    pub(super) fn choose_partitions(&self) -> PartitionChoice {
        let algorithm = self.config.join_algorithm;
        let number = match algorithm {
            JoinAlgorithm::Auto | JoinAlgorithm::Radix => self.config.join_partitions.0,
            JoinAlgorithm::Hash | JoinAlgorithm::Multipass | JoinAlgorithm::Triton => 1,
        };
        let forced = number != 0 || algorithm == JoinAlgorithm::Radix;
        let over_table = !self.view.columns.is_empty() && self.fetch.is_none();
        if number == 1 || !over_table || (!forced && self.rows() < POLICY.rows) {
            return PartitionChoice::None;
        }
        let machine = self.runtime.machine();
        let mut met = self.met();
        if !forced {
            // Build sides that fit the cache have no far accesses.
            met.retain(|met| met.bytes > machine.l2_bytes);
        }
        let saved = |met: &Met| {
            let accesses = self.accesses(met);
            accesses.seconds(1.0, &machine) - accesses.seconds(ACCESSES.most as f64, &machine)
        };
        let Some(met) = met.into_iter().max_by(|a, b| saved(a).total_cmp(&saved(b))) else {
            return PartitionChoice::None;
        };
        let parts = match number {
            0 => cache_partitions(met.bytes, machine.l2_bytes),
            number => number,
        };
        let many = match forced {
            false => format!("{parts}"),
            true => format!("{parts}, forced"),
        };
        let what = format!(
            "{} of {} beside {} of cache",
            size(met.bytes),
            self.name_of(met.aligned),
            size(machine.l2_bytes)
        );
        let accesses = self.accesses(&met);
        let near = accesses.seconds(1.0, &machine);
        if !forced && saved(&met) <= ACCESSES.launches {
            return PartitionChoice::Direct(format!("none: {what}, in the order of the key"));
        }
        let by = Partitioning {
            keys: met.keys,
            parts,
            counts: false,
            aligned: false,
        };
        let Some(halves) = self.plan.in_partitions(met.aligned, self.sides.len(), by) else {
            return PartitionChoice::Direct(format!("none: {what}, rows cannot be kept"));
        };
        let kept = match self.result_of(&halves.first) {
            Ok((ResultPlan::Partition(kept), _)) => kept,
            Ok(_) => return PartitionChoice::None,
            Err(reason) => return PartitionChoice::Direct(format!("none: {what}, {reason}")),
        };
        if forced {
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
            accesses.partitioning((row_bytes, key_bytes), parts.into(), &machine),
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

    /// Transfer times of the columns that are not in device memory, and of those that the counting pass
    /// reads.
    fn link_times(&self, halves: &PartitionPasses) -> LinkTimes {
        let link = self.runtime.link_rate();
        let counting = halves.first.counting_partitions();
        let counted = counting.map_or_else(BTreeSet::new, |counting| counting.columns());
        let (mut once, mut again) = (0, 0);
        for (source, column) in self.plan.columns().into_iter().zip(&self.view.columns) {
            let chunks = self.chunks.iter().map(|chunk| &column.chunks[*chunk]);
            let bytes = away(chunks, self.runtime.memory().bytes_of(&**column));
            once += bytes;
            again += if counted.contains(&source) { bytes } else { 0 };
        }
        // If all columns stay on the device, the second pass finds them there.
        let missing = self.inputs().0.missing_bytes;
        let stay = self.config.cache_device.0 && self.part.is_none() && missing <= self.runtime.room();
        LinkTimes {
            once: once as f64 / link,
            again: if stay { 0.0 } else { again as f64 / link },
        }
    }

    /// The build sides that rows access by a key, at random addresses.
    fn met(&self) -> Vec<Met> {
        let mut met = Vec::new();
        if self.plan.key_of(AlignedSide::Own).is_some()
            && let Ok((result, _)) = self.result_of(self.plan)
        {
            let own = match result {
                ResultPlan::Build(plan) => Some((plan.bytes(), plan.keys)),
                ResultPlan::BuildGroups(plan) => Some((8 * plan.words(), plan.keys.clone())),
                ResultPlan::Multimap(plan) => Some((plan.lookup_bytes(), plan.keys)),
                _ => None,
            };
            met.extend(own.map(|(bytes, keys)| Met {
                aligned: AlignedSide::Own,
                keys,
                bytes,
            }));
        }
        for (number, side) in self.sides.iter().enumerate() {
            let aligned = AlignedSide::Other(number);
            let (SideRows::Built(table), Some(_)) = (side, self.plan.key_of(aligned)) else {
                continue;
            };
            let table = table.lock();
            let keys = table.build_side.key_space();
            met.extend(keys.map(|keys| Met {
                aligned,
                keys,
                bytes: table.lookup_bytes,
            }));
        }
        met
    }

    fn accesses(&self, met: &Met) -> Accesses {
        // Consecutive keys have no consecutive slots.
        let share = match (self.plan.key_of(met.aligned), met.keys.slots) {
            (Some(key), None) => self.share_of_keys(key),
            _ => 1.0,
        };
        Accesses {
            scanned: self.rows() as f64,
            rows: self.rows() as f64 * self.share_passed(),
            bytes: met.bytes as f64,
            share,
            writes: met.aligned == AlignedSide::Own,
        }
    }

    /// The fraction of all keys that the rows in flight at once have, according to zone maps.
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
        match KeyZones::of(column, self.chunks.iter().copied()) {
            // Rows are in the order of the key, and so are the addresses that they access.
            Some(zones) if zones.are_ordered() => 0.0,
            Some(zones) => (POLICY.chunks * zones.overlap / zones.chunks as f64).min(1.0),
            None => 1.0,
        }
    }

    /// The expected fraction of rows that access the build side: those that pass all filters. If some filters
    /// follow the access, more rows do, by an unknown number.
    fn share_passed(&self) -> f64 {
        let seen = (self.runtime.demands()).share_passed(demand::shape(self.plan, self.view));
        let expected = || self.result_of(self.plan).map_or(1.0, |(_, share)| share);
        seen.unwrap_or_else(expected)
    }

    /// The result of a pipeline over these rows and build sides, and the expected fraction of rows that pass.
    pub(super) fn result_of(&self, plan: &PipelinePlan) -> Result<(ResultPlan, f64), Reason> {
        let build_sides: Vec<_> = self.sides.iter().map(SideRows::build_side).collect();
        let prepared = self.runtime.prepared();
        prepared.result_of(plan, self.view, &build_sides, self.kernel_options())
    }

    fn name_of(&self, aligned: AlignedSide) -> String {
        match aligned {
            AlignedSide::Own => "this build side".to_owned(),
            AlignedSide::Groups => "the groups".to_owned(),
            AlignedSide::Other(number) => format!("d{number}"),
        }
    }
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

    #[test]
    fn counting_pass_adds_transfer_cost() {
        // TPC-H 13 at scale 100: 150 million orders with comments that are read to count the orders that
        // pass.
        let resident = LinkTimes::default();
        assert!(resident.partitioned(0.004, 0.004) < resident.direct(0.015));
        let streamed = LinkTimes {
            once: 0.16,
            again: 0.16,
        };
        assert!(streamed.partitioned(0.004, 0.004) > streamed.direct(0.015));
        // If accesses take longer than the link, transferring keys twice is worthwhile.
        let keys = LinkTimes {
            once: 0.02,
            again: 0.01,
        };
        assert!(keys.partitioned(0.004, 0.02) < keys.direct(0.1));
    }
}
