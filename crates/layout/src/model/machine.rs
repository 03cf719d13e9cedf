//! Performance figures of a GPU for the model.

/// The figures of a GPU on which the cost of grouped aggregation depends.
///
/// The unit of work in shared memory is the *round*: one request of each bank. Rates are in rounds per second
/// of all multiprocessors together. Everything that passes through the same pipe is counted in rounds: an
/// access without conflicts is one, an access of 64-bit words two, a shuffle one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Machine {
    /// Number of multiprocessors.
    pub multiprocessors: u32,
    /// The most resident threads of a multiprocessor.
    pub threads: u32,
    /// The most resident blocks of a multiprocessor.
    pub blocks: u32,
    /// Shared memory of a multiprocessor, in bytes.
    pub shared_bytes: u64,
    /// The most shared memory of one block, in bytes.
    pub shared_bytes_per_block: u64,
    /// Memory of a multiprocessor that shared memory and the cache share, in bytes. Data in flight from
    /// device memory needs space in the cache.
    pub cache_and_shared_bytes: u64,
    /// Size in bytes of the cache of device memory, which executes its atomics.
    pub l2_bytes: u64,
    /// Shared memory that the system reserves per block, in bytes.
    pub shared_bytes_reserved: u64,
    /// Whether the rates below were measured on this device rather than scaled from another's.
    pub measured: bool,
    /// Rounds of shared memory per second, all multiprocessors together.
    pub rounds_per_second: f64,
    /// Latency of an update in shared memory until its warp can continue, in rounds of one multiprocessor. A
    /// multiprocessor with fewer warps than rounds waits.
    pub update_latency: f64,
    /// Rounds of `__match_any_sync`, which finds the lanes of a warp with the same group.
    pub match_rounds: f64,
    /// Bytes read from device memory per second.
    pub memory_bytes_per_second: f64,
    /// Bytes in flight per multiprocessor that let grouped sums reach 63 % of that rate. Three times this
    /// number reaches 95 %.
    pub memory_bytes_in_flight: f64,
    /// Atomics on different addresses of device memory per second.
    pub global_atomics_per_second: f64,
    /// Atomics on one address of device memory per second.
    pub global_atomics_on_one_address: f64,
}

impl Machine {
    /// An H200 (132 multiprocessors, compute capability 9.0). Measured on 2026-11-20 and 21.
    ///
    /// | figure | source |
    /// | --- | --- |
    /// | `rounds_per_second` | 259 G by `galatea bench conflicts machine`; 231 G by 32-bit counts of 1-byte keys (985 G rows/s for 8 groups in one bank, 2144 for 256 uniform ones); the middle |
    /// | counts of equal groups share a round | the same 985 G rows/s: with a round per lane it would be 246 |
    /// | `memory_bytes_per_second` | a kernel that only reads: 4.51 to 4.56 TB/s |
    /// | `global_atomics_per_second` | 76 to 104 G/s, random 64-bit atomics in 4 MB |
    /// | `global_atomics_on_one_address` | 1.365 G lanes/s, of whole warps |
    /// | threads, blocks, bytes of shared memory | the driver's attributes |
    /// | `memory_bytes_in_flight` | grouped sums of 200 million rows with 40, 49 and 82 KB in flight: 72, 84
    /// and 93 % of the rate |
    /// | bytes in flight that the cache holds | the same with 28 KiB of cache left: 72 %, as if a third more fitted |
    /// | `update_latency`, `match_rounds` | `galatea bench conflicts machine` |
    pub const H200: Self = Self {
        multiprocessors: 132,
        threads: 2048,
        blocks: 32,
        shared_bytes: 228 << 10,
        shared_bytes_per_block: 227 << 10,
        cache_and_shared_bytes: 256 << 10,
        l2_bytes: 60 << 20,
        shared_bytes_reserved: 1 << 10,
        measured: false,
        rounds_per_second: 245e9,
        update_latency: 35.0,
        match_rounds: 27.0,
        memory_bytes_per_second: 4.5e12,
        memory_bytes_in_flight: 30e3,
        global_atomics_per_second: 100e9,
        global_atomics_on_one_address: 1.36e9,
    };

    /// Instructions of warps per second, of all multiprocessors together: four schedulers each. An H200
    /// reached 85 % of their issue slots at best (TPC-H's first query, 97 instructions a row with 32 copies,
    /// 66 with a copy per thread).
    #[must_use]
    pub fn instructions_per_second(&self) -> f64 {
        0.85 * 4.0 * self.rounds_per_second
    }

    /// Atomics of whole warps within one KiB of device memory per second: 2.4 times those on one address, 3.3
    /// G on an H200.
    #[must_use]
    pub fn global_atomics_in_a_kib(&self) -> f64 {
        2.4 * self.global_atomics_on_one_address
    }

    /// Bytes of cache that remain beside shared memory, which is allocated in steps.
    #[must_use]
    pub fn cache_bytes(&self, shared_bytes: u64) -> u64 {
        const STEPS: [u64; 10] = [0, 8, 16, 32, 64, 100, 132, 164, 196, 228];
        let steps = STEPS.iter().map(|step| step << 10);
        let share = steps
            .filter(|step| *step >= shared_bytes)
            .min()
            .unwrap_or(shared_bytes);
        self.cache_and_shared_bytes.saturating_sub(share)
    }

    /// Number of resident blocks of a multiprocessor, for blocks of that number of threads and bytes of
    /// shared memory.
    #[must_use]
    pub fn resident_blocks(&self, threads: u32, shared_bytes: u64) -> u32 {
        let by_memory = self.shared_bytes / (shared_bytes + self.shared_bytes_reserved);
        let by_threads = self.threads / threads.max(1);
        by_threads
            .min(self.blocks)
            .min(u32::try_from(by_memory).unwrap_or(u32::MAX))
    }

    /// Bytes per second from device memory with `asked` bytes in flight for the blocks of a multiprocessor,
    /// each with that number of bytes of shared memory. Data in flight occupies the cache and leaves it piece
    /// by piece.
    #[must_use]
    pub fn read_rate(&self, asked: f64, blocks: u32, shared_bytes: u64) -> f64 {
        let cache = self.cache_bytes(u64::from(blocks) * (shared_bytes + self.shared_bytes_reserved));
        let asked = asked.min(cache as f64 * 4.0 / 3.0);
        self.memory_bytes_per_second * (1.0 - (-asked / self.memory_bytes_in_flight).exp())
    }
}
