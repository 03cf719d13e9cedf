//! Device memory, emulated by host memory.
//!
//! Every allocation is filled with a pattern drawn from the seed. A large allocation is a mapping of its own
//! that ends at an inaccessible page and is unmapped when freed, so that overruns and uses after free fault.
//! A small one is surrounded by a canary that is checked when it is freed. Under AddressSanitizer, the
//! sanitizer's allocator is used, which finds both at once. Pinned host memory is a list of ranges here.
//!
//! Memory freed in stream order stays until the stream reaches the operation, but its handle is invalid at
//! once.

use std::collections::BTreeMap;
use std::ops::Range;
use std::ptr;

use parking_lot::Mutex;

use crate::sanitizer;
use crate::shared::fill;

/// Alignment of every allocation, and the unit of memory accounting.
const ALIGNMENT: usize = 256;
/// Allocations of at least this size are mappings.
const LARGE: usize = 64 << 10;
const PAGE: usize = 4096;
const CANARY: u64 = 0xca9a_ca9a_ca9a_ca9a;

/// The memory of one device.
#[derive(Debug)]
pub(crate) struct Memory {
    limit: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    used: u64,
    peak: u64,
    live: BTreeMap<u64, Allocation>,
    pinned: BTreeMap<u64, usize>,
}

#[derive(Debug)]
struct Allocation {
    bytes: usize,
    /// Freed in stream order, but the stream has not reached the operation.
    dying: bool,
    /// Whether it was allocated in stream order, from the pool.
    pooled: bool,
    backing: Backing,
}

#[derive(Debug, Clone, Copy)]
enum Backing {
    /// Start and length of the mapping.
    Mapping(usize, usize),
    /// From the allocator, with canaries of [`ALIGNMENT`] bytes on both sides: the start of the first canary.
    Canaries(usize),
    /// From the allocator of AddressSanitizer.
    Plain,
}

impl Memory {
    pub(crate) fn new(limit: u64) -> Memory {
        Memory {
            limit,
            state: Mutex::default(),
        }
    }

    /// Size in bytes.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// Bytes allocated now, and the maximum so far.
    pub(crate) fn used(&self) -> (u64, u64) {
        let state = self.state.lock();
        (state.used, state.peak)
    }

    /// Bytes of the pool: memory that was allocated in stream order.
    pub(crate) fn pooled(&self) -> u64 {
        let state = self.state.lock();
        let pooled = state.live.values().filter(|allocation| allocation.pooled);
        pooled
            .map(|allocation| allocation.bytes.next_multiple_of(ALIGNMENT) as u64)
            .sum()
    }

    /// Allocates. Returns `None` if the device (or the host) is full.
    pub(crate) fn allocate(&self, bytes: usize, pattern: u64, pooled: bool) -> Option<u64> {
        let charged = bytes.checked_next_multiple_of(ALIGNMENT)? as u64;
        {
            let mut state = self.state.lock();
            if state.used.checked_add(charged)? > self.limit {
                return None;
            }
            state.used += charged;
            state.peak = state.peak.max(state.used);
        }
        let Some((address, backing)) = acquire(bytes) else {
            self.state.lock().used -= charged;
            return None;
        };
        // SAFETY: was just allocated with this size.
        unsafe { fill(address as *mut u8, bytes, pattern) };
        self.state.lock().live.insert(
            address,
            Allocation {
                bytes,
                dying: false,
                pooled,
                backing,
            },
        );
        Some(address)
    }

    /// Marks an allocation as freed in stream order. Returns false if `address` is not the start of a live
    /// one.
    pub(crate) fn retire(&self, address: u64) -> bool {
        match self.state.lock().live.get_mut(&address) {
            Some(allocation) if !allocation.dying => {
                allocation.dying = true;
                true
            }
            _ => false,
        }
    }

    /// Whether an allocation waits for its stream to free it.
    pub(crate) fn has_dying(&self) -> bool {
        self.state.lock().live.values().any(|allocation| allocation.dying)
    }

    /// Frees a retired allocation. The error describes writes outside of it.
    pub(crate) fn free(&self, address: u64) -> Result<(), String> {
        let Some(allocation) = ({
            let mut state = self.state.lock();
            let removed = state.live.remove(&address);
            if let Some(allocation) = &removed {
                state.used -= allocation.bytes.next_multiple_of(ALIGNMENT) as u64;
            }
            removed
        }) else {
            return Ok(());
        };
        let verdict = check_canaries(address, &allocation);
        release(address, &allocation);
        verdict
    }

    /// Whether a call may use the range: it is inside one live allocation or pinned host range.
    pub(crate) fn usable(&self, address: u64, bytes: usize) -> bool {
        self.contains(address, bytes, false)
    }

    /// Whether a stream may store a word there by itself: the address is not in the pool's memory.
    pub(crate) fn takes_words(&self, address: u64) -> bool {
        let state = self.state.lock();
        let below = state.live.range(..=address).next_back();
        let pooled = below.is_some_and(|(&start, allocation)| {
            allocation.pooled && address < start + allocation.bytes as u64
        });
        drop(state);
        !pooled && self.usable(address, size_of::<u32>())
    }

    /// Whether the range still exists, even if it was freed in stream order.
    pub(crate) fn holds(&self, address: u64, bytes: usize) -> bool {
        self.contains(address, bytes, true)
    }

    fn contains(&self, address: u64, bytes: usize, dying: bool) -> bool {
        let state = self.state.lock();
        let within = |start: u64, length: usize| {
            address
                .checked_add(bytes as u64)
                .is_some_and(|end| end <= start + length as u64)
        };
        let owned = state
            .live
            .range(..=address)
            .next_back()
            .is_some_and(|(&start, allocation)| {
                (dying || !allocation.dying) && within(start, allocation.bytes)
            });
        owned
            || state
                .pinned
                .range(..=address)
                .next_back()
                .is_some_and(|(&start, &length)| within(start, length))
    }

    /// Registers host memory. Returns false if it overlaps a registered range.
    pub(crate) fn pin(&self, address: u64, bytes: usize) -> bool {
        let mut state = self.state.lock();
        let end = address + bytes as u64;
        let overlaps = state
            .pinned
            .range(..end)
            .next_back()
            .is_some_and(|(&start, &length)| start + length as u64 > address);
        if !overlaps {
            state.pinned.insert(address, bytes);
        }
        !overlaps
    }

    /// Unregisters host memory. Returns false if `address` is not the start of a registered range.
    pub(crate) fn unpin(&self, address: u64) -> bool {
        self.state.lock().pinned.remove(&address).is_some()
    }

    /// Bytes of registered host memory.
    pub(crate) fn pinned_bytes(&self) -> u64 {
        self.state.lock().pinned.values().map(|bytes| *bytes as u64).sum()
    }

    /// Whether a host range is registered.
    pub(crate) fn pinned(&self, address: u64, bytes: usize) -> bool {
        let state = self.state.lock();
        state
            .pinned
            .range(..=address)
            .next_back()
            .is_some_and(|(&start, &length)| address + bytes as u64 <= start + length as u64)
    }

    /// All allocations and pinned ranges, in ascending order.
    pub(crate) fn ranges(&self) -> Vec<Range<u64>> {
        let state = self.state.lock();
        let live = state
            .live
            .iter()
            .map(|(&start, allocation)| start..start + allocation.bytes as u64);
        let pinned = state
            .pinned
            .iter()
            .map(|(&start, &bytes)| start..start + bytes as u64);
        let mut ranges: Vec<_> = live.chain(pinned).collect();
        ranges.sort_unstable_by_key(|range| range.start);
        ranges
    }

    /// Describes the allocation next to an address, for reports.
    pub(crate) fn describe(&self, address: u64) -> Option<String> {
        let state = self.state.lock();
        let (&start, allocation) = state.live.range(..=address).next_back()?;
        let offset = address - start;
        (offset < allocation.bytes as u64 + PAGE as u64)
            .then(|| format!("byte {offset} of an allocation of {} bytes", allocation.bytes))
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        for (&address, allocation) in &self.state.get_mut().live {
            release(address, allocation);
        }
    }
}

fn acquire(bytes: usize) -> Option<(u64, Backing)> {
    if sanitizer::present() {
        return aligned(bytes).map(|start| (start as u64, Backing::Plain));
    }
    if bytes >= LARGE {
        let length = bytes.next_multiple_of(PAGE) + PAGE;
        // SAFETY: a new anonymous mapping.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return None;
        }
        // SAFETY: the last page of the new mapping; advice about the rest of it.
        unsafe {
            libc::mprotect(base.cast::<u8>().add(length - PAGE).cast(), PAGE, libc::PROT_NONE);
            libc::madvise(base, length - PAGE, libc::MADV_HUGEPAGE);
        }
        let end = base as usize + length - PAGE;
        let start = end - bytes.next_multiple_of(ALIGNMENT);
        return Some((start as u64, Backing::Mapping(base as usize, length)));
    }
    let start = aligned(bytes + 2 * ALIGNMENT)?;
    // SAFETY: both canaries are inside the new allocation.
    unsafe {
        fill(start as *mut u8, ALIGNMENT, CANARY);
        fill((start + ALIGNMENT + bytes) as *mut u8, ALIGNMENT, CANARY);
    }
    Some(((start + ALIGNMENT) as u64, Backing::Canaries(start)))
}

fn aligned(bytes: usize) -> Option<usize> {
    let mut start = ptr::null_mut();
    // SAFETY: a plain allocation; the alignment is a power of two.
    let result = unsafe { libc::posix_memalign(&mut start, ALIGNMENT, bytes.max(1)) };
    (result == 0 && !start.is_null()).then_some(start as usize)
}

fn check_canaries(address: u64, allocation: &Allocation) -> Result<(), String> {
    let Backing::Canaries(start) = allocation.backing else {
        return Ok(());
    };
    let end = address as usize + allocation.bytes;
    for (name, canary) in [("before", start), ("after", end)] {
        // SAFETY: the canaries belong to the allocation, which is about to be freed.
        let bytes = unsafe { std::slice::from_raw_parts(canary as *const u8, ALIGNMENT) };
        let pattern = CANARY.to_le_bytes();
        if let Some(at) = bytes
            .iter()
            .enumerate()
            .position(|(index, &byte)| byte != pattern[index % 8])
        {
            let distance = if name == "after" { at } else { ALIGNMENT - at };
            return Err(format!(
                "out-of-bounds write: {distance} bytes {name} an allocation of {} bytes at {address:#x}, found when it was freed",
                allocation.bytes
            ));
        }
    }
    Ok(())
}

fn release(address: u64, allocation: &Allocation) {
    // SAFETY: each was acquired in this way and is released once.
    unsafe {
        match allocation.backing {
            Backing::Mapping(base, length) => {
                libc::munmap(base as *mut _, length);
            }
            Backing::Canaries(start) => libc::free(start as *mut _),
            Backing::Plain => libc::free(address as *mut _),
        }
    }
}
