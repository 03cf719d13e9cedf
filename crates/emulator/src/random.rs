//! The small generator of every scheduling choice.

/// A linear congruential generator with 64 bits of state. It returns the upper half of the state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Random {
    state: u64,
}

impl Random {
    /// The stream of choices for one block of one launch with one seed.
    pub(crate) fn new(seed: u64, launch: u64, block: u64) -> Random {
        Random {
            state: mix(seed ^ mix(launch ^ mix(block))),
        }
    }

    /// The next 32 random bits.
    #[inline(always)]
    pub(crate) fn next(&mut self) -> u32 {
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 32) as u32
    }
}

/// The finaliser of splitmix64.
pub(crate) fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}
