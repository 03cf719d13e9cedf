//! Warp collectives: a rendezvous of the lanes named in a mask.
//!
//! A lane that calls a collective records mask, operation, value and argument, and waits. When the last lane
//! of the mask has come (exited lanes do not count), that lane computes the results of all and goes on; the
//! others become runnable. Groups with different masks may be waiting at the same time, overlapping ones
//! included: a lane is in one group only. Results are computed when the group is complete, not when a lane
//! resumes, because a faster lane may have recorded its next value by then.
//!
//! Undefined in CUDA and answered here with a pattern nobody computes by accident: a shuffle from a lane
//! outside the mask. Reported: a lane that is not in its own mask, and lanes of one mask in different
//! operations.

use std::ffi::c_char;
use std::ptr;

use crate::abi::collective as operation;
use crate::block::{self, LANES, Runner, Thread};
use crate::fiber;
use crate::report::{FailureKind, Site};

/// What a shuffle from a lane outside the mask gives.
const UNDEFINED: u64 = 0xbad0_bad1_bad2_bad3;

/// The lanes of one warp.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Warp {
    /// Lanes that may run: not started, or suspended and released.
    pub(crate) runnable: u32,
    /// Lanes in a collective.
    pub(crate) waiting: u32,
    /// Lanes that left the kernel, or never were.
    pub(crate) exited: u32,
    /// Position in the block.
    pub(crate) index: usize,
    /// The first lane's thread.
    pub(crate) threads: *mut Thread,
    /// Who runs the block; set when it starts.
    pub(crate) runner: *mut Runner,
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
            threads: ptr::null_mut(),
            runner: ptr::null_mut(),
            masks: [0; LANES],
            operations: [0; LANES],
            arguments: [0; LANES],
            values: [0; LANES],
            results: [0; LANES],
            sites: [Site::NONE; LANES],
        }
    }
}

/// The state of a group after a lane has come.
enum Group {
    /// Some lanes are still missing.
    Incomplete,
    /// Results are computed.
    Complete,
    /// This lane and the given one are in different operations.
    Mixed(usize),
}

impl Warp {
    /// Gives the warp its place in a block.
    pub(crate) fn bind(&mut self, index: usize, threads: *mut Thread) {
        self.index = index;
        self.threads = threads;
    }

    /// All `lanes` not started.
    pub(crate) fn reset(&mut self, lanes: u32) {
        self.runnable = lanes;
        self.waiting = 0;
        self.exited = !lanes;
    }

    /// What a waiting lane waits in: operation, mask and place.
    pub(crate) fn wait_of(&self, lane: usize) -> (u32, u32, Site) {
        (self.operations[lane], self.masks[lane], self.sites[lane])
    }

    /// After an exit: completes groups that only missed exited lanes. Whether any was.
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
    fn complete(&mut self, lane: usize, mask: u32) -> Group {
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

/// The lanes of a mask, ascending.
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

/// The lane a shuffle reads: PTX `shfl.sync` with CUDA's clamp values. `argument` holds source, delta or lane
/// mask in its low half and the width in its high half.
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

/// `__galatea_runtime::collective`.
pub(crate) unsafe extern "C" fn collective(
    kind: u32,
    mask: u32,
    value: u64,
    argument: u32,
    file: *const c_char,
    line: u32,
) -> u64 {
    let thread = fiber::current();
    // SAFETY: called by device code, so `thread` is the running one; see the rules in `block`. No reference
    // into the warp lives across `suspend`.
    unsafe {
        let warp = (*thread).warp;
        let lane = (*thread).view.lane as usize;
        let bit = 1_u32 << lane;
        let site = Site { file, line };
        if mask & bit == 0 {
            not_in_mask(thread, kind, mask, site);
        }
        {
            let warp = &mut *warp;
            warp.masks[lane] = mask;
            warp.operations[lane] = kind;
            warp.arguments[lane] = argument;
            warp.values[lane] = value;
            warp.sites[lane] = site;
            warp.waiting |= bit;
        }
        let needed = mask & !(*warp).exited;
        if (*warp).waiting & needed != needed {
            block::suspend(thread);
        } else {
            meet(thread, lane, mask, needed);
        }
        (*warp).results[lane]
    }
}

/// All lanes of the mask wait, though perhaps for one another's other groups: the running thread goes on if
/// its group is complete, and waits if not.
#[inline(never)]
unsafe fn meet(thread: *mut Thread, lane: usize, mask: u32, needed: u32) {
    // SAFETY: as in `collective`.
    unsafe {
        let warp = &mut *(*thread).warp;
        match warp.complete(lane, mask) {
            Group::Complete => {
                warp.waiting &= !needed;
                warp.runnable |= needed & !(1 << lane);
                let runner = &mut *warp.runner;
                runner.tick(1);
                runner.runnable_warps |= 1 << warp.index;
                if let Some(recorder) = &mut runner.recorder {
                    recorder.collective(warp.index, needed == !warp.exited);
                }
            }
            Group::Incomplete => block::suspend(thread),
            Group::Mixed(other) => mixed(thread, warp.operations[lane], warp.sites[lane], other),
        }
    }
}

#[cold]
unsafe fn not_in_mask(thread: *mut Thread, kind: u32, mask: u32, site: Site) -> ! {
    let name = operation::name(kind);
    // SAFETY: the running thread's runner.
    unsafe {
        let lane = (*thread).view.lane;
        let what = format!("{name} at {site}: lane {lane} is not in its own mask {mask:#010x}");
        (*Thread::runner(thread)).fail(Some(thread), FailureKind::Collective, &what)
    }
}

#[cold]
unsafe fn mixed(thread: *mut Thread, kind: u32, site: Site, other: usize) -> ! {
    // SAFETY: the running thread's runner and warp.
    unsafe {
        let lane = (*thread).view.lane;
        let (other_kind, mask, other_site) = (*(*thread).warp).wait_of(other);
        let what = format!(
            "lanes of mask {mask:#010x} are in different collectives: lane {lane} in {} at {site}, lane {other} in {} at {other_site}",
            operation::name(kind),
            operation::name(other_kind),
        );
        (*Thread::runner(thread)).fail(Some(thread), FailureKind::Collective, &what)
    }
}
