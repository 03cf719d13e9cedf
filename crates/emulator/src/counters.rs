//! Counters on demand: the load that a kernel would put on a GPU's memory system.
//!
//! Devices with [`EmulatorOptions::count`](crate::EmulatorOptions::count) compile kernels with a call before
//! every load, store and atomic. The lanes of a warp run one after the other here, so the accesses that a GPU
//! would execute as one instruction are grouped afterwards: the n-th visit of a lane to a place in the code
//! belongs to the n-th visit of the other lanes, counted from the last point where the whole warp
//! synchronised (a collective of all its lanes, a block barrier, the start). If a lane visits a place less
//! often than others between two such points, its visits are therefore grouped with the earliest ones of the
//! others.
//!
//! The model:
//! * **Shared memory** has 32 banks of 4 bytes. An access of up to 4 bytes per lane is one pass of 32 lanes,
//!   of 8 bytes two passes of 16, of 16 bytes four passes of 8. The *rounds* of a pass are the number of
//!   different words in the most accessed bank: lanes that read or write the same word share a round. Atomics
//!   do not share: each lane's operation in the most accessed bank is a round.
//! * **Global memory** is transferred in *sectors* of 32 bytes: an access costs the different sectors that
//!   its lanes touch.
//! * Local memory, kernel arguments and module variables (`__device__`, `__constant__`) are not counted, nor
//!   are accesses that the host compiler's optimiser removed, or added by calling `memcpy`.

use std::collections::{HashMap, VecDeque};
use std::ops::{AddAssign, Range};

use crate::abi::{LANES, access as kinds};
use crate::shared::SharedMemory;

/// The widths of a lane's access in bytes, in the order of the arrays in counters.
pub const WIDTHS: [u32; 5] = [1, 2, 4, 8, 16];
const BANKS: u64 = 32;
const WORD: u64 = 4;
const SECTOR: u64 = 32;

/// Operations of a device's kernels since the counters were last reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Warp collectives completed.
    pub collectives: u64,
    /// Block barriers completed.
    pub barriers: u64,
    /// Loads from shared memory.
    pub shared_reads: SharedAccesses,
    /// Stores to shared memory.
    pub shared_writes: SharedAccesses,
    /// Atomics on shared memory.
    pub shared_atomics: SharedAccesses,
    /// Loads from global memory.
    pub global_reads: GlobalAccesses,
    /// Stores to global memory.
    pub global_writes: GlobalAccesses,
    /// Atomics on global memory.
    pub global_atomics: GlobalAccesses,
}

/// Accesses to shared memory of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedAccesses {
    /// Accesses by a warp.
    pub instructions: u64,
    /// Accesses by a lane, per width (see [`WIDTHS`]).
    pub lanes: [u64; 5],
    /// Serialisation rounds; equal to the number of passes if no banks conflict.
    pub rounds: u64,
}

/// Accesses to global memory of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GlobalAccesses {
    /// Accesses by a warp.
    pub instructions: u64,
    /// Accesses by a lane, per width (see [`WIDTHS`]).
    pub lanes: [u64; 5],
    /// Sectors of 32 bytes transferred, per width of the access.
    pub sectors: [u64; 5],
}

impl GlobalAccesses {
    /// Bytes that lanes accessed. The other bytes of the sectors are transferred in vain.
    #[must_use]
    pub fn useful_bytes(&self) -> u64 {
        self.lanes
            .iter()
            .zip(WIDTHS)
            .map(|(&lanes, width)| lanes * u64::from(width))
            .sum()
    }

    /// Bytes transferred.
    #[must_use]
    pub fn moved_bytes(&self) -> u64 {
        self.sectors.iter().sum::<u64>() * SECTOR
    }
}

impl AddAssign for SharedAccesses {
    fn add_assign(&mut self, other: SharedAccesses) {
        self.instructions += other.instructions;
        self.rounds += other.rounds;
        add_all(&mut self.lanes, other.lanes);
    }
}

impl AddAssign for GlobalAccesses {
    fn add_assign(&mut self, other: GlobalAccesses) {
        self.instructions += other.instructions;
        add_all(&mut self.lanes, other.lanes);
        add_all(&mut self.sectors, other.sectors);
    }
}

impl AddAssign for Counters {
    fn add_assign(&mut self, other: Counters) {
        self.collectives += other.collectives;
        self.barriers += other.barriers;
        self.shared_reads += other.shared_reads;
        self.shared_writes += other.shared_writes;
        self.shared_atomics += other.shared_atomics;
        self.global_reads += other.global_reads;
        self.global_writes += other.global_writes;
        self.global_atomics += other.global_atomics;
    }
}

fn add_all(to: &mut [u64; 5], from: [u64; 5]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to += from;
    }
}

/// Collects the counts of one runner.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    counters: Counters,
    /// Ranges of device memory when the launch began.
    global: Vec<Range<u64>>,
    shared: Vec<Range<usize>>,
    warps: Vec<HashMap<Place, Visits>>,
}

/// A place in the code, and the kind of access there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Place {
    site: usize,
    /// For an access wider than 16 bytes: the index of the piece.
    piece: u32,
    kind: u32,
    width: u32,
}

/// The visits of the lanes to a place since the warp last synchronised.
#[derive(Debug, Default)]
struct Visits {
    /// Number of visits of each lane.
    times: [u32; LANES],
    /// Number of the first entry of `open`.
    first: u32,
    open: VecDeque<Group>,
}

/// Accesses of lanes that a GPU would execute as one.
#[derive(Debug, Clone)]
struct Group {
    lanes: u32,
    addresses: [u64; LANES],
}

impl Recorder {
    /// Creates a recorder for the blocks of a launch that may touch these ranges of device memory.
    pub(crate) fn new(global: Vec<Range<u64>>) -> Recorder {
        Recorder {
            global,
            ..Recorder::default()
        }
    }

    pub(crate) fn begin_block(&mut self, shared: &SharedMemory, warps: usize) {
        self.shared = shared.ranges().to_vec();
        self.warps.resize_with(warps, HashMap::new);
    }

    /// Closes all open groups.
    pub(crate) fn end_block(&mut self) {
        for warp in 0..self.warps.len() {
            self.synchronise(warp);
        }
    }

    pub(crate) fn collective(&mut self, warp: usize, whole_warp: bool) {
        self.counters.collectives += 1;
        if whole_warp {
            self.synchronise(warp);
        }
    }

    pub(crate) fn barrier(&mut self) {
        self.counters.barriers += 1;
        self.end_block();
    }

    /// Closes the open groups of a warp, as all its lanes are at the same point.
    fn synchronise(&mut self, warp: usize) {
        let visits = std::mem::take(&mut self.warps[warp]);
        for (place, visits) in visits {
            for group in visits.open {
                self.close(place, &group);
            }
        }
    }

    pub(crate) fn access(
        &mut self,
        warp: usize,
        lane: usize,
        address: u64,
        bytes: u32,
        kind: u32,
        site: usize,
    ) {
        let kind = match kind {
            kinds::FENCE => return,
            kinds::VOLATILE_READ => kinds::READ,
            kinds::VOLATILE_WRITE => kinds::WRITE,
            kind => kind,
        };
        for piece in 0..bytes.div_ceil(16) {
            let width = (bytes - piece * 16).min(16).next_power_of_two();
            let place = Place {
                site,
                piece,
                kind,
                width,
            };
            let visits = self.warps[warp].entry(place).or_default();
            let index = (visits.times[lane] - visits.first) as usize;
            visits.times[lane] += 1;
            if index == visits.open.len() {
                visits.open.push_back(Group {
                    lanes: 0,
                    addresses: [0; LANES],
                });
            }
            let group = &mut visits.open[index];
            group.lanes |= 1 << lane;
            group.addresses[lane] = address + u64::from(piece) * 16;
            if index == 0 && group.lanes == u32::MAX {
                let full = visits.open.pop_front();
                visits.first += 1;
                if let Some(group) = full {
                    self.close(place, &group);
                }
            }
        }
    }

    fn close(&mut self, place: Place, group: &Group) {
        let first = group.addresses[group.lanes.trailing_zeros() as usize];
        let width = WIDTHS
            .iter()
            .position(|&width| width == place.width)
            .unwrap_or(WIDTHS.len() - 1);
        let lanes = u64::from(group.lanes.count_ones());
        if self.shared.iter().any(|range| range.contains(&(first as usize))) {
            let counters = match place.kind {
                kinds::READ => &mut self.counters.shared_reads,
                kinds::WRITE => &mut self.counters.shared_writes,
                _ => &mut self.counters.shared_atomics,
            };
            counters.instructions += 1;
            counters.lanes[width] += lanes;
            counters.rounds += rounds(group, place.width, place.kind == kinds::ATOMIC);
        } else if self.is_global(first) {
            let counters = match place.kind {
                kinds::READ => &mut self.counters.global_reads,
                kinds::WRITE => &mut self.counters.global_writes,
                _ => &mut self.counters.global_atomics,
            };
            counters.instructions += 1;
            counters.lanes[width] += lanes;
            counters.sectors[width] += sectors(group, place.width);
        }
    }

    fn is_global(&self, address: u64) -> bool {
        let after = self.global.partition_point(|range| range.start <= address);
        after > 0 && self.global[after - 1].contains(&address)
    }

    /// Returns the collected counts and sets them to zero.
    pub(crate) fn take(&mut self) -> Counters {
        std::mem::take(&mut self.counters)
    }
}

/// Rounds of an access to shared memory.
fn rounds(group: &Group, width: u32, atomic: bool) -> u64 {
    let lanes_per_pass = match width {
        8 => 16,
        16 => 8,
        _ => 32,
    };
    let mut rounds = 0;
    for first in (0..LANES).step_by(lanes_per_pass) {
        let lanes = (first..first + lanes_per_pass).filter(|lane| group.lanes >> lane & 1 != 0);
        let words = lanes.flat_map(|lane| {
            let address = group.addresses[lane];
            address / WORD..=(address + u64::from(width) - 1) / WORD
        });
        let mut words: Vec<u64> = words.collect();
        if !atomic {
            words.sort_unstable();
            words.dedup();
        }
        let mut wanted = [0; BANKS as usize];
        for word in words {
            wanted[(word % BANKS) as usize] += 1;
        }
        rounds += wanted.into_iter().max().unwrap_or(0);
    }
    rounds
}

/// Sectors touched by an access to global memory.
fn sectors(group: &Group, width: u32) -> u64 {
    let lanes = (0..LANES).filter(|lane| group.lanes >> lane & 1 != 0);
    let mut touched: Vec<u64> = lanes
        .flat_map(|lane| {
            let address = group.addresses[lane];
            address / SECTOR..=(address + u64::from(width) - 1) / SECTOR
        })
        .collect();
    touched.sort_unstable();
    touched.dedup();
    touched.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(address: impl Fn(u64) -> u64) -> Group {
        Group {
            lanes: u32::MAX,
            addresses: std::array::from_fn(|lane| 4096 + address(lane as u64)),
        }
    }

    #[test]
    fn rounds_equal_distinct_words_of_the_busiest_bank() {
        let read = |width, address: &dyn Fn(u64) -> u64| rounds(&group(address), width, false);
        assert_eq!(read(4, &|lane| lane * 4), 1);
        assert_eq!(read(4, &|lane| lane * 8), 2);
        assert_eq!(read(4, &|lane| lane * 12), 1, "an odd stride has no conflicts");
        assert_eq!(read(4, &|lane| lane * 128), 32);
        assert_eq!(read(4, &|_| 0), 1, "a broadcast");
        assert_eq!(read(1, &|lane| lane), 1, "four lanes share a word");
        assert_eq!(read(8, &|lane| lane * 8), 2, "two passes");
        assert_eq!(read(8, &|lane| lane * 16), 4);
        assert_eq!(read(16, &|lane| lane * 16), 4, "four passes");
        assert_eq!(read(8, &|_| 0), 2);
    }

    #[test]
    fn atomics_on_one_word_are_serialised() {
        let atomic = |address: &dyn Fn(u64) -> u64| rounds(&group(address), 4, true);
        assert_eq!(atomic(&|lane| lane * 4), 1);
        assert_eq!(atomic(&|_| 0), 32);
        assert_eq!(atomic(&|lane| lane % 8 * 4), 4);
        assert_eq!(atomic(&|lane| lane % 8 * 128), 32, "different words of one bank");
    }

    #[test]
    fn sectors_are_counted_once_per_access() {
        assert_eq!(sectors(&group(|lane| lane * 4), 4), 4);
        assert_eq!(sectors(&group(|lane| 4 + lane * 4), 4), 5, "not aligned");
        assert_eq!(sectors(&group(|lane| lane * 32), 4), 32);
        assert_eq!(sectors(&group(|lane| lane), 1), 1);
        assert_eq!(sectors(&group(|lane| lane * 16), 16), 16);
    }
}
