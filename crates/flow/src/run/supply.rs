//! Supplies exhausted heaps with read frames that are released, spare buffers, and buffers of other heaps.
//!
//! Heaps of each side take buffers that the other side does not use (XeFlow, section 4.4). The host's heaps
//! lend at once. The bitmap of a device's heap marks its free frames. It is in device memory, and the host
//! must not change it. The host therefore requests a buffer from blocks, which lend it once its frames are
//! released (`cuda/galatea/flow/lend.cuh`).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use galatea_device::SharedMemory;
use galatea_kernels::flow::{BLOCK_LENT, CONTROL_LEND, CONTROL_LINE, FrameMemory, loan_word};

use super::host::Shared;
use super::shortage::Shortage;
use super::{Run, Thread};
use crate::error::FlowError;

/// A buffer requested from blocks, identified by its word.
pub(super) struct Loan {
    word: u64,
    buffer: Arc<SharedMemory>,
    /// The frames of the heap that needs it.
    memory: Arc<FrameMemory>,
}

impl Run<'_> {
    /// Grants each exhausted heap a buffer: a spare one, or one that the other side does not use. Returns the
    /// number of granted buffers, and the number of those from other heaps.
    pub(super) fn supply(&mut self, shared: &Shared, threads: &mut [Thread], now: Instant) -> (u64, u64) {
        let mut granted = self.hear_loan();
        let mut stolen = granted;
        for thread in threads {
            // Each wait has another number, so a changed number means that a frame was taken in between.
            let starved = thread.pulse.starved.load(Ordering::Relaxed);
            let waited = thread.starved.still(starved, now);
            if starved == 0 {
                continue;
            }
            let link = &self.topology.links[thread.operator];
            let Some(publisher) = link
                .next
                .and_then(|topic| self.host.topics[topic].publisher.as_ref())
            else {
                continue;
            };
            // Publishers of inline frames wait for subscribers only.
            let Some(heap) = publisher.heap() else {
                continue;
            };
            // Releases read frames of the heap's other topics, because their publishers may be busy or have
            // ended.
            let of_heap = self
                .host
                .topics
                .iter()
                .filter_map(|topic| topic.publisher.as_ref());
            let of_heap = of_heap.filter(|other| other.heap().is_some_and(|other| Arc::ptr_eq(other, heap)));
            if of_heap.map(|other| other.reclaim()).sum::<u64>() > 0 || !heap.is_exhausted() {
                continue;
            }
            let memory = Arc::clone(heap.memory());
            if grant_spare(&memory, &mut self.host.spares) {
                granted += 1;
                continue;
            }
            if !memory.is_complete() {
                self.ask_for_loan(&memory);
            }
            if waited > self.options.timeout {
                shared.fail(exhausted(link.operator.name(), &memory, waited));
            }
        }
        let Some(kernel) = &self.kernel else {
            return (granted, stolen);
        };
        let mut unmet = None;
        for heap in &kernel.memory.heaps {
            let Some(memory) = &heap.memory else { continue };
            let wanted = heap.words.get(heap.wanted).load(Ordering::Acquire);
            if wanted == heap.heard.replace(wanted) || wanted as u32 as usize <= memory.granted() {
                // No block has made a request since.
                continue;
            }
            if memory.is_complete() {
                // The heap has a frame for each slot of its topics. One was released while a block probed
                // others.
                continue;
            }
            let own = grant_spare(memory, &mut self.host.spares);
            let other = || {
                let same = |bytes: usize| bytes >= memory.buffer_bytes();
                let mut lenders = self
                    .host
                    .heaps
                    .iter()
                    .filter(|heap| same(heap.memory().buffer_bytes()));
                let buffer = lenders.find_map(|heap| heap.lend_buffer())?;
                memory.grant(buffer).ok()
            };
            let lent = !own && other().is_some();
            if own || lent {
                let number = memory.granted() - 1;
                if let Some(buffer) = memory.buffer(number) {
                    heap.words
                        .get(1 + number)
                        .store(buffer.address(), Ordering::Relaxed);
                    heap.words.get(0).store(number as u64 + 1, Ordering::Release);
                }
                granted += 1;
                stolen += u64::from(lent);
            } else {
                unmet = Some(memory);
            }
        }
        // While subscribers read, frames are released; otherwise only a buffer helps.
        let moved: u64 = self
            .host
            .subscribers
            .iter()
            .flatten()
            .map(|subscriber| subscriber.read())
            .sum();
        if let Some(memory) = unmet {
            let limit = self.options.timeout;
            let waited = Shortage::length(&mut self.shortage, moved, now, limit / 4);
            if waited > limit {
                shared.fail(exhausted("blocks of the device".to_owned(), memory, waited));
            }
        }
        (granted, stolen)
    }

    /// Requests a buffer from blocks for a host heap, if they can spare one and no request is pending.
    fn ask_for_loan(&mut self, memory: &Arc<FrameMemory>) {
        let (Some(kernel), None) = (&self.kernel, &self.loan) else {
            return;
        };
        let mut heaps = kernel.memory.heaps.iter().enumerate();
        self.loan = heaps.find_map(|(heap, lender)| {
            let (number, buffer) = lender.ask_for_loan(memory.buffer_bytes())?;
            Some(Loan {
                word: loan_word(heap, number),
                buffer,
                memory: Arc::clone(memory),
            })
        });
        if let Some(loan) = &self.loan {
            self.host
                .control
                .get(CONTROL_LEND)
                .store(loan.word, Ordering::Release);
        }
    }

    /// Grants the requested buffer once blocks have lent it. Returns the number of granted buffers.
    fn hear_loan(&mut self) -> u64 {
        let lent = self.host.control.get(CONTROL_LINE + BLOCK_LENT);
        let lent = |loan: &mut Loan| lent.load(Ordering::Acquire) == loan.word;
        let Some(loan) = self.loan.take_if(lent) else {
            return 0;
        };
        // A spare buffer may have been granted first.
        match loan.memory.grant(loan.buffer) {
            Ok(_) => 1,
            Err(buffer) => {
                self.host.spares.push(buffer);
                0
            }
        }
    }
}

/// Grants a heap a spare buffer of its size.
fn grant_spare(memory: &FrameMemory, spares: &mut Vec<Arc<SharedMemory>>) -> bool {
    let fits = spares
        .iter()
        .position(|spare| spare.len() >= memory.buffer_bytes());
    let Some(fits) = fits.filter(|_| !memory.is_complete()) else {
        return false;
    };
    memory.grant(spares.swap_remove(fits)).is_ok()
}

fn exhausted(who: String, memory: &FrameMemory, waited: Duration) -> FlowError {
    FlowError::Exhausted {
        who,
        frame_bytes: memory.frame_bytes() as u64,
        limit: (memory.buffers() * memory.frames_per_buffer()) as u64,
        waited,
    }
}
