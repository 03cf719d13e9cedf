//! Warp collectives: a rendezvous of the lanes named in a mask.
//!
//! A lane that calls a collective records mask, operation, value and argument, and waits. Its group is the
//! lanes of the mask that have not exited. The last lane of the group to arrive computes the results of all
//! lanes and continues, and the others become runnable. Groups with different masks may wait at the same
//! time, even if the masks overlap, because a lane is in one group only. Results are computed when the group
//! is complete, not when a lane resumes, because a faster lane may have recorded its next value by then.
//!
//! In CUDA, a shuffle from a lane outside the mask has an undefined result. Here it is a distinctive pattern.
//! Two errors are reported: a lane that is not in its own mask, and lanes of one group in different
//! operations.

use crate::abi::{LANES, collective as operation};
use crate::report::Site;

/// The result of a shuffle from a lane outside the mask.
const UNDEFINED: u64 = 0xbad0_bad1_bad2_bad3;

/// The lanes of one warp.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Warp {
    /// Lanes that may run: they are not started, or suspended and released.
    pub(crate) runnable: u32,
    /// Lanes in a collective.
    pub(crate) waiting: u32,
    /// Lanes that left the kernel, or are beyond the end of the block.
    pub(crate) exited: u32,
    /// Position in the block.
    pub(crate) index: usize,
    masks: [u32; LANES],
    operations: [u32; LANES],
    arguments: [u32; LANES],
    values: [u64; LANES],
    results: [u64; LANES],
    sites: [Site; LANES],
}

impl Default for Warp {
    fn default() -> Warp {
        Warp {
            runnable: 0,
            waiting: 0,
            exited: 0,
            index: 0,
            masks: [0; LANES],
            operations: [0; LANES],
            arguments: [0; LANES],
            values: [0; LANES],
            results: [0; LANES],
            sites: [Site::NONE; LANES],
        }
    }
}

/// State of a group after the arrival of a lane.
pub(crate) enum Group {
    /// Some lanes have not arrived.
    Incomplete,
    /// The results are computed.
    Complete,
    /// This lane and the given one are in different operations.
    Mixed(usize),
}

impl Warp {
    /// Creates the warp at a position of a block.
    pub(crate) fn new(index: usize) -> Warp {
        Warp {
            index,
            ..Warp::default()
        }
    }

    /// Marks all `lanes` as not started.
    pub(crate) fn reset(&mut self, lanes: u32) {
        self.runnable = lanes;
        self.waiting = 0;
        self.exited = !lanes;
    }

    /// Records that a lane calls a collective and waits.
    #[inline(always)]
    pub(crate) fn arrive(
        &mut self,
        lane: usize,
        kind: u32,
        mask: u32,
        value: u64,
        argument: u32,
        site: Site,
    ) {
        self.masks[lane] = mask;
        self.operations[lane] = kind;
        self.arguments[lane] = argument;
        self.values[lane] = value;
        self.sites[lane] = site;
        self.waiting |= 1 << lane;
    }

    /// The result of a lane's last collective.
    #[inline(always)]
    pub(crate) fn result(&self, lane: usize) -> u64 {
        self.results[lane]
    }

    /// The current collective of a waiting lane: operation, mask and place in the source.
    pub(crate) fn wait_of(&self, lane: usize) -> (u32, u32, Site) {
        (self.operations[lane], self.masks[lane], self.sites[lane])
    }

    /// Called after a lane has exited: completes the groups that waited only for lanes that have exited.
    /// Returns whether it completed a group.
    #[cold]
    pub(crate) fn release_without_exited(&mut self) -> bool {
        let mut released = false;
        let mut left = self.waiting;
        while left != 0 {
            let lane = left.trailing_zeros() as usize;
            let mask = self.masks[lane];
            left &= !(1 << lane);
            if let Group::Complete = self.complete(lane, mask) {
                let needed = mask & !self.exited;
                self.waiting &= !needed;
                self.runnable |= needed;
                left &= !needed;
                released = true;
            }
        }
        released
    }

    /// Computes the group of `lane` if all its lanes that have not exited are waiting in it.
    #[inline]
    pub(crate) fn complete(&mut self, lane: usize, mask: u32) -> Group {
        let needed = mask & !self.exited;
        if self.waiting & needed != needed {
            return Group::Incomplete;
        }
        let kind = self.operations[lane];
        if needed == u32::MAX {
            let mut differences = 0;
            for other in 0..LANES {
                differences |= (self.masks[other] ^ mask) | (self.operations[other] ^ kind);
            }
            if differences != 0 {
                return self.compare(needed, lane, mask);
            }
        } else {
            match self.compare(needed, lane, mask) {
                Group::Complete => {}
                other => return other,
            }
        }
        self.compute(kind, needed, mask);
        Group::Complete
    }

    fn compare(&self, needed: u32, lane: usize, mask: u32) -> Group {
        for other in lanes(needed) {
            if self.masks[other] != mask {
                return Group::Incomplete;
            }
            if self.operations[other] != self.operations[lane] {
                return Group::Mixed(other);
            }
        }
        Group::Complete
    }

    /// The results of all lanes of a complete group.
    fn compute(&mut self, kind: u32, needed: u32, mask: u32) {
        match kind {
            operation::SYNCWARP => {}
            operation::SHFL | operation::SHFL_UP | operation::SHFL_DOWN | operation::SHFL_XOR => {
                for lane in lanes(needed) {
                    let source = source_lane(kind, lane as u32, self.arguments[lane]);
                    let present = mask >> source & 1 != 0 && self.exited >> source & 1 == 0;
                    self.results[lane] = if present {
                        self.values[source as usize]
                    } else {
                        UNDEFINED
                    };
                }
            }
            operation::BALLOT | operation::ANY | operation::ALL => {
                let mut ballot = 0_u32;
                for lane in lanes(needed) {
                    ballot |= u32::from(self.values[lane] != 0) << lane;
                }
                let result = match kind {
                    operation::BALLOT => ballot,
                    operation::ANY => u32::from(ballot != 0),
                    _ => u32::from(ballot == needed),
                };
                self.give(needed, u64::from(result));
            }
            operation::MATCH_ANY => {
                let mut left = needed;
                while left != 0 {
                    let value = self.values[left.trailing_zeros() as usize];
                    let equal = lanes(left)
                        .filter(|&lane| self.values[lane] == value)
                        .fold(0, |set, lane| set | 1 << lane);
                    self.give(equal, u64::from(equal));
                    left &= !equal;
                }
            }
            operation::MATCH_ALL => {
                let first = self.values[needed.trailing_zeros() as usize];
                let equal = lanes(needed).all(|lane| self.values[lane] == first);
                self.give(needed, if equal { u64::from(needed) } else { 0 });
            }
            _ => {
                let values = lanes(needed).map(|lane| self.values[lane] as u32);
                let result = match kind {
                    operation::REDUCE_ADD => values.fold(0, u32::wrapping_add),
                    operation::REDUCE_MIN => values.fold(u32::MAX, u32::min),
                    operation::REDUCE_MAX => values.fold(0, u32::max),
                    operation::REDUCE_MIN_SIGNED => {
                        values.fold(i32::MAX, |least, value| least.min(value as i32)) as u32
                    }
                    operation::REDUCE_MAX_SIGNED => {
                        values.fold(i32::MIN, |most, value| most.max(value as i32)) as u32
                    }
                    operation::REDUCE_AND => values.fold(u32::MAX, |all, value| all & value),
                    operation::REDUCE_OR => values.fold(0, |all, value| all | value),
                    operation::REDUCE_XOR => values.fold(0, |all, value| all ^ value),
                    _ => unreachable!("device code and run time have the same list of operations"),
                };
                self.give(needed, u64::from(result));
            }
        }
    }

    fn give(&mut self, needed: u32, result: u64) {
        for lane in lanes(needed) {
            self.results[lane] = result;
        }
    }
}

/// The lanes of a mask, in ascending order.
pub(crate) fn lanes(mask: u32) -> impl Iterator<Item = usize> {
    let mut left = mask;
    std::iter::from_fn(move || {
        (left != 0).then(|| {
            let lane = left.trailing_zeros() as usize;
            left &= left - 1;
            lane
        })
    })
}

/// The lane that a shuffle reads: PTX `shfl.sync` with CUDA's clamp values. `argument` contains source, delta
/// or lane mask in its low half and the width in its high half.
fn source_lane(kind: u32, lane: u32, argument: u32) -> u32 {
    let (operand, width) = (argument & 0xffff, argument >> 16);
    let width = if width == 0 { 32 } else { width };
    let segment = lane & !(width - 1);
    match kind {
        operation::SHFL => segment | (operand & (width - 1)),
        operation::SHFL_UP => lane
            .checked_sub(operand)
            .filter(|&source| source >= segment)
            .unwrap_or(lane),
        operation::SHFL_DOWN => Some(lane + operand)
            .filter(|&source| source < segment + width)
            .unwrap_or(lane),
        _ => Some(lane ^ (operand & 31))
            .filter(|&source| source < segment + width)
            .unwrap_or(lane),
    }
}
