//! Block barriers: `__syncthreads` and its reducing variants, and named barriers.
//!
//! `__syncthreads` waits for every thread that has not exited. All threads must be at the same call: another
//! kind, or the same kind at another place in the source, is reported (CUDA leaves it undefined; the place is
//! that in the source text, so a call duplicated by the compiler is still one call). A barrier that some
//! threads never reach ends as a deadlock. The report lists the calls of the others.

use crate::abi::{LANES, barrier as kinds};
use crate::report::Site;

/// One barrier of a block.
#[derive(Debug)]
pub(crate) struct Barrier {
    /// Number of threads that have arrived.
    pub(crate) arrived: u32,
    /// For a named barrier: the number of threads to wait for.
    pub(crate) expected: u32,
    pub(crate) kind: u32,
    pub(crate) site: Site,
    /// The lanes that wait, per warp.
    pub(crate) waiting: [u32; LANES],
    holding: u32,
    result: u32,
}

impl Default for Barrier {
    fn default() -> Barrier {
        Barrier {
            arrived: 0,
            expected: 0,
            kind: 0,
            site: Site::NONE,
            waiting: [0; LANES],
            holding: 0,
            result: 0,
        }
    }
}

impl Barrier {
    /// Records the arrival of a thread at a call. The first thread sets the call. Returns `false` if the
    /// thread is at another call than the threads before it.
    pub(crate) fn arrive(&mut self, kind: u32, site: Site, expected: u32, predicate: u32) -> bool {
        let is_named = |kind: u32| kind == kinds::NAMED || kind == kinds::ARRIVE;
        if self.arrived == 0 {
            (self.kind, self.site, self.expected) = (kind, site, expected);
        } else {
            let same = match is_named(kind) {
                true => is_named(self.kind) && self.expected == expected,
                false => self.kind == kind && self.site.same(&site),
            };
            if !same {
                return false;
            }
        }
        self.arrived += 1;
        self.holding += predicate;
        true
    }

    /// Computes the result after all threads have arrived. The threads that wait are still in `waiting`.
    pub(crate) fn complete(&mut self) {
        self.result = match self.kind {
            kinds::AND => u32::from(self.holding == self.arrived),
            kinds::OR => u32::from(self.holding != 0),
            kinds::COUNT => self.holding,
            _ => 0,
        };
        self.arrived = 0;
        self.holding = 0;
    }

    /// The result of the last completed call.
    pub(crate) fn result(&self) -> u32 {
        self.result
    }

    /// Resets the barrier to no arrived threads.
    pub(crate) fn reset(&mut self) {
        if self.arrived != 0 {
            self.waiting = [0; LANES];
        }
        self.arrived = 0;
        self.holding = 0;
    }
}
