//! Race detection: finds two accesses of different threads of a block to the same bytes, at least one of them
//! a write, that no synchronisation orders.
//!
//! Threads of a block run one after the other here, so a kernel with a race may return correct results for
//! every seed. The actual order of two accesses is irrelevant: the check is whether the program orders them.
//!
//! * `__syncthreads` and its variants order all accesses before the barrier with all accesses after it. So
//!   does a named barrier here, whatever threads take part, which may hide races between the others.
//! * `__syncwarp` does so for the lanes of its mask. Votes, shuffles and matches do not: CUDA guarantees no
//!   memory order by them.
//! * In global memory, a fence of the first thread is assumed to be half of a correct handshake. So races
//!   beside unrelated fences are not found. In shared memory fences order nothing, as for `compute-sanitizer
//!   --tool racecheck`.
//! * Atomics, accesses through pointers to volatile and loads past the L1 cache (`__ldcg`, `__ldcv`) do not
//!   race with one another.
//!
//! Accesses of different blocks, and of the host, are not compared: see the crate's documentation about weak
//! memory order.

use std::collections::HashMap;
use std::ffi::{CStr, c_void};
use std::ops::Range;
use std::process::Command;

use crate::abi::{LANES, access as kinds};
use crate::shared::SharedMemory;
use crate::warp::lanes;

/// Size in bytes of the units of recorded accesses.
const WORD: u64 = 8;

/// An access of a thread to some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Access {
    kind: u32,
    warp: usize,
    lane: usize,
    /// Address of the instruction in the module.
    site: usize,
}

impl Access {
    fn writes(self) -> bool {
        matches!(self.kind, kinds::WRITE | kinds::ATOMIC | kinds::VOLATILE_WRITE)
    }

    /// Whether the access cannot be torn and is visible to others: such accesses do not race with one
    /// another.
    fn is_strong(self) -> bool {
        !matches!(self.kind, kinds::READ | kinds::WRITE)
    }

    fn describe(self) -> String {
        let what = match self.kind {
            kinds::READ => "read",
            kinds::WRITE => "written",
            kinds::ATOMIC => "updated atomically",
            kinds::VOLATILE_READ => "read as volatile",
            _ => "written as volatile",
        };
        let thread = self.warp * LANES + self.lane;
        format!("{what} by thread {thread} at {}", place(self.site))
    }
}

/// Accesses of one kind and place in the code by lanes of one warp.
#[derive(Debug)]
struct Noted {
    kind: u32,
    site: usize,
    warp: usize,
    /// The accessed bytes of the word, a bit each.
    bytes: u8,
    /// Per lane, or 0: the time of the access, and the number of fences that the lane had executed.
    times: [u32; LANES],
    fences: [u32; LANES],
}

/// The order of the lanes of a warp: for each lane, the accesses that happened before.
#[derive(Debug, Clone)]
struct WarpOrder {
    /// Logical time of each lane, incremented by every synchronisation.
    now: [u32; LANES],
    /// `seen[lane][other]`: accesses of `other` up to that time happened before the next access of `lane`.
    seen: [[u32; LANES]; LANES],
    fences: [u32; LANES],
}

impl WarpOrder {
    fn new() -> WarpOrder {
        WarpOrder {
            now: [1; LANES],
            seen: [[0; LANES]; LANES],
            fences: [0; LANES],
        }
    }

    fn synchronise(&mut self, mask: u32) {
        let mut all = [0; LANES];
        for lane in lanes(mask) {
            for (all, seen) in all.iter_mut().zip(self.seen[lane]) {
                *all = seen.max(*all);
            }
        }
        for lane in lanes(mask) {
            all[lane] = self.now[lane];
            self.now[lane] += 1;
        }
        for lane in lanes(mask) {
            self.seen[lane] = all;
        }
    }
}

/// Two accesses that are not ordered.
#[derive(Debug)]
pub(crate) struct Race {
    address: u64,
    bytes: u32,
    /// Offset in the block's static or dynamic shared memory.
    shared: Option<u64>,
    first: Access,
    second: Access,
}

impl Race {
    /// Formats the report. It looks up source lines, so it must not run on a device thread's stack.
    pub(crate) fn describe(&self) -> String {
        let memory = match self.shared {
            Some(offset) => format!("byte {offset} of shared memory"),
            None => format!("global memory at {:#x}", self.address),
        };
        format!(
            "nothing orders two accesses to {memory} ({} bytes): {}, then {}",
            self.bytes,
            self.first.describe(),
            self.second.describe()
        )
    }
}

/// Checks the accesses of one block at a time.
#[derive(Debug, Default)]
pub(crate) struct Races {
    shared: Vec<Range<u64>>,
    /// Stacks of device threads, their local memory.
    local: Vec<Range<u64>>,
    warps: Vec<WarpOrder>,
    /// Accesses since the last barrier of the block.
    words: HashMap<u64, Vec<Noted>>,
}

impl Races {
    pub(crate) fn begin_block(
        &mut self,
        shared: &SharedMemory,
        stacks: impl Iterator<Item = (*mut u8, usize)>,
        warps: usize,
    ) {
        let wide = |range: Range<usize>| range.start as u64..range.end as u64;
        self.shared = shared.ranges().map(wide).to_vec();
        self.local = stacks
            .map(|(start, bytes)| start as u64..start as u64 + bytes as u64)
            .collect();
        self.warps.clear();
        self.warps.resize_with(warps, WarpOrder::new);
        self.words.clear();
    }

    /// Records that all threads of the block are at a barrier.
    pub(crate) fn barrier(&mut self) {
        self.words.clear();
    }

    /// Records that the lanes of a mask are in `__syncwarp`.
    pub(crate) fn synchronise(&mut self, warp: usize, mask: u32) {
        self.warps[warp].synchronise(mask);
    }

    /// Checks a memory access or records a fence of a thread.
    ///
    /// # Errors
    /// The race of this access with another.
    pub(crate) fn access(
        &mut self,
        (warp, lane): (usize, usize),
        address: u64,
        bytes: u32,
        kind: u32,
        site: usize,
    ) -> Result<(), Box<Race>> {
        if kind == kinds::FENCE {
            self.warps[warp].fences[lane] += 1;
            return Ok(());
        }
        if self.local.iter().any(|range| range.contains(&address)) {
            return Ok(());
        }
        let shared = self.shared.iter().find(|range| range.contains(&address));
        let shared = shared.map(|range| address - range.start);
        let own = Access {
            kind,
            warp,
            lane,
            site,
        };
        let end = address + u64::from(bytes);
        let mut at = address;
        while at < end {
            let word = at / WORD;
            let stop = end.min((word + 1) * WORD);
            let mask = (((1_u32 << (stop - at)) - 1) << (at % WORD)) as u8;
            if let Some(first) = self.note(word, mask, own, shared.is_some()) {
                return Err(Box::new(Race {
                    address,
                    bytes,
                    shared,
                    first,
                    second: own,
                }));
            }
            at = stop;
        }
        Ok(())
    }

    /// Records an access to bytes of a word. Returns an earlier access that races with it.
    fn note(&mut self, word: u64, bytes: u8, own: Access, is_shared: bool) -> Option<Access> {
        let Access {
            kind,
            warp,
            lane,
            site,
        } = own;
        let noted = self.words.entry(word).or_default();
        for other in noted.iter() {
            let first = Access {
                kind: other.kind,
                warp: other.warp,
                lane: 0,
                site: other.site,
            };
            let harmless = !first.writes() && !own.writes() || first.is_strong() && own.is_strong();
            if other.bytes & bytes == 0 || harmless {
                continue;
            }
            for by in 0..LANES {
                let time = other.times[by];
                let same_thread = other.warp == warp && by == lane;
                if time == 0 || same_thread {
                    continue;
                }
                let synchronised = other.warp == warp && self.warps[warp].seen[lane][by] >= time;
                let fenced = !is_shared && self.warps[other.warp].fences[by] > other.fences[by];
                if !synchronised && !fenced {
                    return Some(Access { lane: by, ..first });
                }
            }
        }
        let (time, fences) = (self.warps[warp].now[lane], self.warps[warp].fences[lane]);
        let same = |other: &&mut Noted| {
            (other.kind, other.site, other.warp, other.bytes) == (kind, site, warp, bytes)
        };
        let entry = match noted.iter_mut().find(same) {
            Some(entry) => entry,
            None => {
                noted.push(Noted {
                    kind,
                    site,
                    warp,
                    bytes,
                    times: [0; LANES],
                    fences: [0; LANES],
                });
                noted.last_mut()?
            }
        };
        entry.times[lane] = time;
        entry.fences[lane] = fences;
        None
    }
}

/// File and line of an instruction, if the tools to find them are installed.
fn place(site: usize) -> String {
    // SAFETY: a plain struct of pointers; `dladdr` fills it for any address.
    let info = unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        (libc::dladdr(site as *const c_void, &mut info) != 0 && !info.dli_fname.is_null()).then_some(info)
    };
    let Some(info) = info else {
        return format!("{site:#x}");
    };
    // SAFETY: the name of a loaded object.
    let file = unsafe { CStr::from_ptr(info.dli_fname) }
        .to_string_lossy()
        .into_owned();
    // The site is the return address of the checking call.
    let offset = site - info.dli_fbase as usize - 1;
    let lines = Command::new("addr2line")
        .args(["-i", "-s", "-e", &file, &format!("{offset:#x}")])
        .output();
    let lines = lines.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    // Inlined functions, innermost first; the last line is the thunk around the kernel.
    let lines = lines.iter().flat_map(|text| text.lines());
    let lines: Vec<&str> = lines
        .filter(|line| !line.starts_with("export.h") && !line.starts_with("??"))
        .collect();
    match lines.is_empty() {
        true => format!("offset {offset:#x}"),
        false => lines.join(" in "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARED: u64 = 1 << 20;
    const GLOBAL: u64 = 1 << 30;

    fn races() -> Races {
        Races {
            shared: vec![SHARED..SHARED + 2048, SHARED + 2048..SHARED + 4096],
            warps: vec![WarpOrder::new(); 2],
            ..Races::default()
        }
    }

    fn read(races: &mut Races, thread: (usize, usize), at: u64) -> bool {
        races.access(thread, at, 4, kinds::READ, 1).is_err()
    }

    fn write(races: &mut Races, thread: (usize, usize), at: u64) -> bool {
        races.access(thread, at, 4, kinds::WRITE, 2).is_err()
    }

    #[test]
    fn write_races_with_unordered_accesses() {
        for at in [SHARED, GLOBAL] {
            let mut races = races();
            assert!(!read(&mut races, (0, 0), at) && !read(&mut races, (1, 0), at));
            assert!(write(&mut races, (0, 1), at), "after a read");
            assert!(!write(&mut races, (0, 1), at + 4), "a neighbour");
            assert!(read(&mut races, (1, 3), at + 4) && write(&mut races, (1, 3), at + 4));
            assert!(!read(&mut races, (0, 1), at + 4), "its own");
        }
    }

    #[test]
    fn barriers_order_blocks_and_lanes() {
        let mut races = races();
        assert!(!write(&mut races, (0, 0), SHARED));
        races.synchronise(0, 0b11);
        assert!(!read(&mut races, (0, 1), SHARED));
        assert!(read(&mut races, (0, 2), SHARED), "not in the mask");
        assert!(read(&mut races, (1, 0), SHARED), "another warp");
        races.synchronise(0, 0b110);
        assert!(!read(&mut races, (0, 2), SHARED), "by way of lane 1");
        races.barrier();
        assert!(!write(&mut races, (1, 0), SHARED));
    }

    #[test]
    fn fences_order_only_global_memory() {
        let mut races = races();
        for at in [SHARED, GLOBAL] {
            assert!(!write(&mut races, (0, 0), at));
        }
        assert!(races.access((0, 0), 0, 0, kinds::FENCE, 0).is_ok());
        assert!(!read(&mut races, (1, 0), GLOBAL));
        assert!(read(&mut races, (1, 0), SHARED));
    }

    #[test]
    fn strong_accesses_race_only_with_plain_accesses() {
        let mut races = races();
        let mut access = |thread, kind| races.access(thread, SHARED, 8, kind, 3).is_err();
        assert!(!access((0, 0), kinds::ATOMIC) && !access((0, 1), kinds::VOLATILE_WRITE));
        assert!(!access((1, 1), kinds::VOLATILE_READ));
        assert!(access((1, 2), kinds::READ));
    }

    #[test]
    fn accesses_are_compared_by_their_bytes() {
        let mut races = races();
        let mut access =
            |thread, at, bytes| races.access(thread, SHARED + at, bytes, kinds::WRITE, 4).is_err();
        assert!(!access((0, 0), 0, 16) && !access((0, 1), 16, 1) && !access((0, 2), 17, 1));
        assert!(access((1, 0), 15, 1) && access((1, 1), 12, 8));
    }
}
