//! Chunks that runs have in their slots, so that runs which stream the same columns at the same time copy
//! each chunk once.
//!
//! A run that streams a column looks for the chunk here first. If another run has it, or is copying it, the
//! run reads the slot of that run and copies nothing. Otherwise it announces its own slot, and copies the
//! chunk. The slot is used again after the launches of all runs that read it. Runs stay close to each other
//! without waiting: a run that falls behind finds all chunks up to the most recent one, and advances at the
//! speed of its kernels.
//!
//! ```text
//! chunk      7   8   9  10  11  12
//! run A      ─copies─────►          queued in its slots: 9, 11
//! run B          ─copies─────►      queued in its slots: 10, 12
//! reads      A: 9, 11 and B's 10, 12; B: the same
//! ```

use galatea_device::{DeviceBuffer, Event};
use galatea_memory::Identity;
use parking_lot::{Condvar, Mutex};
use std::collections::HashMap;
use std::mem;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Time after which a run without a free slot looks for one again.
const PATIENCE: Duration = Duration::from_millis(5);

/// If this number of columns is known, those without slots are removed.
const KNOWN: usize = 4096;

/// The chunks in the slots of all runs on a device.
#[derive(Debug, Default)]
pub(crate) struct StreamedChunks {
    /// By the address of the identity of a column's chunk.
    columns: Mutex<HashMap<usize, Announced>>,
    /// Notified when a run has queued its last launch over a slot of another.
    released: Condvar,
}

/// A column of a chunk that is in a slot.
#[derive(Debug)]
struct Announced {
    contents: Weak<SlotContents>,
    start: u64,
    /// Keeps the address of the identity from being used again.
    _identity: Weak<Identity>,
}

/// The columns of a chunk in a slot.
#[derive(Debug)]
pub(crate) struct SlotContents {
    address: u64,
    keys: Vec<usize>,
    state: Mutex<State>,
    copied: Condvar,
    /// Recorded after the launches that read the slot.
    readers: Mutex<Vec<Arc<Event>>>,
}

#[derive(Debug)]
enum State {
    /// The run that announced it has not queued its copy.
    Coming,
    /// The copy is done once the event is reached.
    Queued {
        buffer: Arc<DeviceBuffer<u8>>,
        copied: Arc<Event>,
    },
    /// No copy was queued.
    Failed,
}

impl SlotContents {
    /// Contents for the columns with these identities; their copy is not queued.
    fn new(address: u64, keys: Vec<usize>) -> Self {
        Self {
            address,
            keys,
            state: Mutex::new(State::Coming),
            copied: Condvar::new(),
            readers: Mutex::default(),
        }
    }

    /// The address of the slot.
    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    /// Called when the copy of the columns is queued, up to the event.
    pub(crate) fn queued(&self, buffer: &Arc<DeviceBuffer<u8>>, copied: Arc<Event>) {
        let buffer = Arc::clone(buffer);
        *self.state.lock() = State::Queued { buffer, copied };
        self.copied.notify_all();
    }

    /// Called when the run that announced it ends its attempt to copy: without effect after
    /// [`Self::queued`].
    pub(crate) fn given_up(&self) {
        let mut state = self.state.lock();
        if matches!(*state, State::Coming) {
            *state = State::Failed;
            self.copied.notify_all();
        }
    }

    /// Waits until the copy is queued, which happens at once. Returns the slot and the end of the copy; none
    /// if no copy was queued.
    pub(crate) fn wait_until_queued(&self) -> Option<(Arc<DeviceBuffer<u8>>, Arc<Event>)> {
        let mut state = self.state.lock();
        while matches!(*state, State::Coming) {
            self.copied.wait(&mut state);
        }
        match &*state {
            State::Queued { buffer, copied } => Some((Arc::clone(buffer), Arc::clone(copied))),
            State::Coming | State::Failed => None,
        }
    }

    /// Called after a launch that reads the slot was queued.
    pub(crate) fn read_by(&self, launch: &Arc<Event>) {
        self.readers.lock().push(Arc::clone(launch));
    }
}

/// A column of a chunk, and its place in a slot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SlotColumn<'c> {
    /// The identity of the column's chunk.
    pub(crate) identity: &'c Arc<Identity>,
    /// Its first byte in the slot of the run that copies it.
    pub(crate) start: u64,
}

/// The slots that have columns of a chunk.
#[derive(Debug)]
pub(crate) struct Found {
    /// For each column: its place in the slot of another run, if it has one.
    pub(crate) elsewhere: Vec<Option<(Arc<SlotContents>, u64)>>,
    /// The announced contents of the other columns, if there are any.
    pub(crate) own: Option<Arc<SlotContents>>,
}

impl StreamedChunks {
    /// Finds columns of a chunk in slots of other runs, unless `finds` is false. Announces the columns that
    /// are not found: the caller will copy them to these starts in its slot at `address`. None if columns are
    /// not found and the caller has no slot.
    pub(crate) fn find_or_announce(
        &self,
        columns: &[SlotColumn<'_>],
        finds: bool,
        address: Option<u64>,
    ) -> Option<Found> {
        let mut known = self.columns.lock();
        let find = |column: &SlotColumn<'_>| find(&known, column.identity).filter(|_| finds);
        let elsewhere: Vec<_> = columns.iter().map(find).collect();
        if elsewhere.iter().all(Option::is_some) {
            return Some(Found { elsewhere, own: None });
        }
        let address = address?;
        if known.len() >= KNOWN {
            known.retain(|_, announced| announced.contents.strong_count() > 0);
        }
        let missing = columns
            .iter()
            .zip(&elsewhere)
            .filter(|(_, found)| found.is_none());
        let missing: Vec<_> = missing.map(|(column, _)| *column).collect();
        let keys = missing.iter().map(|column| key(column.identity)).collect();
        let own = Arc::new(SlotContents::new(address, keys));
        for column in missing {
            let announced = Announced {
                contents: Arc::downgrade(&own),
                start: column.start,
                _identity: Arc::downgrade(column.identity),
            };
            known.insert(key(column.identity), announced);
        }
        Some(Found {
            elsewhere,
            own: Some(own),
        })
    }

    /// Whether runs have all of these columns in slots.
    pub(crate) fn has_all(&self, columns: &[SlotColumn<'_>]) -> bool {
        let known = self.columns.lock();
        columns
            .iter()
            .all(|column| find(&known, column.identity).is_some())
    }

    /// Whether a run has a column of a chunk in a slot.
    pub(crate) fn has(&self, identity: &Arc<Identity>) -> bool {
        find(&self.columns.lock(), identity).is_some()
    }

    /// Takes contents back for a new use of their slot. Returns the events of the launches that read them;
    /// the contents, if another run is about to read them.
    pub(crate) fn take_back(
        &self,
        contents: Arc<SlotContents>,
    ) -> Result<Vec<Arc<Event>>, Arc<SlotContents>> {
        let mut known = self.columns.lock();
        let contents = Arc::try_unwrap(contents)?;
        for key in &contents.keys {
            // Another run may have announced the column since.
            if known
                .get(key)
                .is_some_and(|found| found.contents.strong_count() == 0)
            {
                known.remove(key);
            }
        }
        drop(known);
        let readers = mem::take(&mut *contents.readers.lock());
        Ok(readers)
    }

    /// Called when a run has queued its launch over a slot of another.
    pub(crate) fn release(&self) {
        self.released.notify_all();
    }

    /// Waits until a run releases a slot, or a short time.
    pub(crate) fn wait_for_release(&self) {
        self.released.wait_for(&mut self.columns.lock(), PATIENCE);
    }
}

/// The slot that has a column of a chunk, or will have it, and the start of the column in it.
fn find(known: &HashMap<usize, Announced>, identity: &Arc<Identity>) -> Option<(Arc<SlotContents>, u64)> {
    let announced = known.get(&key(identity))?;
    let contents = announced.contents.upgrade()?;
    let failed = matches!(*contents.state.lock(), State::Failed);
    (!failed).then_some((contents, announced.start))
}

fn key(identity: &Arc<Identity>) -> usize {
    Arc::as_ptr(identity).addr()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(identity: &Arc<Identity>, start: u64) -> SlotColumn<'_> {
        SlotColumn { identity, start }
    }

    #[test]
    fn columns_are_found_until_their_slot_is_taken_back() {
        let streamed = StreamedChunks::default();
        let [one, two, three] = [(); 3].map(|()| Arc::new(Identity::default()));
        let both = [column(&one, 0), column(&two, 256)];
        assert!(!streamed.has_all(&both) && !streamed.has(&one));
        assert!(
            streamed.find_or_announce(&both, true, None).is_none(),
            "there is no slot"
        );
        let found = streamed
            .find_or_announce(&both, true, Some(4096))
            .expect("a slot");
        let contents = found.own.expect("announced");
        assert!(found.elsewhere.iter().all(Option::is_none));

        // Another run finds the first column, and copies the third.
        let others = [column(&one, 0), column(&three, 512)];
        let other = streamed
            .find_or_announce(&others, true, Some(8192))
            .expect("a slot");
        let (elsewhere, start) = other.elsewhere[0].clone().expect("found");
        assert!(Arc::ptr_eq(&elsewhere, &contents) && other.elsewhere[1].is_none());
        assert_eq!((elsewhere.address(), start), (4096, 0));
        let own = other.own.expect("announced");
        assert_eq!(own.address(), 8192);

        // A run that does not search announces its own copy, which replaces the earlier one.
        let apart = streamed
            .find_or_announce(&others, false, Some(12_288))
            .expect("a slot");
        assert!(apart.elsewhere.iter().all(Option::is_none));
        drop(apart);
        assert!(!streamed.has(&one) && streamed.has(&two));

        drop(other.elsewhere);
        let contents = streamed.take_back(contents).expect_err("another run reads it");
        drop(elsewhere);
        assert!(streamed.take_back(contents).expect("no run reads it").is_empty());
        assert!(!streamed.has(&two));
    }

    #[test]
    fn copies_that_fail_are_not_found() {
        let streamed = StreamedChunks::default();
        let identity = Arc::new(Identity::default());
        let columns = [column(&identity, 0)];
        let announce = || {
            streamed
                .find_or_announce(&columns, true, Some(64))
                .expect("a slot")
        };
        let contents = announce().own.expect("announced");
        let reader = announce().elsewhere.remove(0).expect("found").0;
        let waits = std::thread::spawn(move || reader.wait_until_queued().is_none());
        contents.given_up();
        assert!(waits.join().expect("no panic"), "no copy was queued");
        assert!(!streamed.has(&identity));
        assert!(announce().own.is_some());
    }
}
