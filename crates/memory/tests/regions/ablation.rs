//! Disabled parts of the manager: each has the documented effect.

use crate::{Column, load, own_device_with};
use galatea_device::{DriverCall, EmulatorOptions, Faults, MemoryBudget};
use galatea_memory::regions::{Ablation, Ablations, MemoryManager};
use std::sync::Arc;

const PAGE: usize = 4096;

fn only(ablation: Ablation) -> Ablations {
    Ablations::default().with(ablation)
}

/// A manager with a column of three pages in device memory, and the handle that counts calls of its device.
fn loaded() -> (MemoryManager, Column, Faults) {
    let faults = Faults::default();
    let device = own_device_with(EmulatorOptions {
        faults: faults.clone(),
        ..EmulatorOptions::default()
    });
    let manager = MemoryManager::new(&device).unwrap();
    let column = Column::of("column", 3, PAGE);
    load(&manager, &device.stream().unwrap(), &column);
    faults.clear();
    (manager, column, faults)
}

#[test]
fn ablation_sets_contain_their_members() {
    for (number, (ablation, word)) in Ablation::ALL.into_iter().enumerate() {
        let set = only(ablation);
        for (other, (member, _)) in Ablation::ALL.into_iter().enumerate() {
            assert_eq!(set.has(member), number == other, "{word}");
            assert!(set.with(member).has(ablation) && set.with(member).has(member));
        }
        assert!(!Ablations::default().has(ablation));
    }
}

#[test]
fn no_access_ablation_copies_clean_pages_back() {
    for (ablations, copies) in [(Ablations::default(), 0), (only(Ablation::NoAccess), 3)] {
        let (manager, _column, faults) = loaded();
        manager.set_ablations(ablations);
        manager.clear().unwrap();
        assert_eq!((manager.bytes(), manager.evicted()), (0, 3));
        assert_eq!(faults.calls(DriverCall::CopyToHost), copies);
    }
}

#[test]
fn whole_region_ablation_evicts_all_pages() {
    for (ablations, left) in [(Ablations::default(), 2), (only(Ablation::WholeRegion), 0)] {
        let (manager, _column, _) = loaded();
        manager.set_ablations(ablations);
        assert!(manager.evict_one().unwrap());
        assert_eq!(manager.bytes(), left * PAGE as u64);
    }
}

#[test]
fn no_reference_ablation_pins_unread_pages() {
    for (ablations, stays) in [(Ablations::default(), false), (only(Ablation::NoReference), true)] {
        let (manager, column, _) = loaded();
        manager.set_ablations(ablations);
        let other = Column::of("other", 1, PAGE);
        let mut scan = manager.scan([&other].into_iter());
        scan.reference_all();
        assert_eq!(manager.evict_one().unwrap(), !stays);
        scan.release();
        assert!(manager.evict_one().unwrap());
        // Calling it twice has no further effect, and a source may be dropped meanwhile.
        scan.reference_all();
        scan.reference_all();
        drop(column);
        drop(scan);
        assert_eq!(manager.bytes(), 0);
    }
}

#[test]
fn naive_ablation_evicts_nothing_for_others() {
    let (manager, column, _) = loaded();
    let device = manager.device().clone();
    let stream = device.stream().unwrap();
    device.budget().set_limit(Some(4 * PAGE as u64));
    manager.set_ablations(only(Ablation::Naive));
    assert!(manager.allocate(&stream, 2 * PAGE as u64).unwrap().is_none());
    let other = Column::of("other", 3, PAGE);
    let scan = manager.scan([&other].into_iter());
    assert!(scan.room() <= MemoryBudget::charge_of(PAGE as u64));
    assert!(scan.page(0, 0, true).is_ok());
    assert!(scan.page(0, 1, true).unwrap().is_none());
    drop(scan);
    assert_eq!(manager.bytes_of(&other), 0, "columns go with their query");
    assert_eq!(manager.evicted(), 0);
    manager.set_ablations(Ablations::default());
    assert!(manager.allocate(&stream, 2 * PAGE as u64).unwrap().is_some());
    assert!(manager.bytes_of(&column) < 3 * PAGE as u64);
}

#[test]
fn staging_buffers_are_used_again() {
    let (manager, column, _) = loaded();
    manager.set_ablations(only(Ablation::Copied));
    let view = &column.pages[0].view;
    let first = manager.staged(view).unwrap();
    assert_eq!(first.as_slice(), view.as_slice());
    let second = manager.staged(&column.pages[1].view).unwrap();
    assert!(!Arc::ptr_eq(first.memory(), second.memory()), "still in use");
    assert_eq!(first.as_slice(), view.as_slice());
    let before = Arc::as_ptr(first.memory());
    drop(first);
    let third = manager.staged(&column.pages[2].view).unwrap();
    assert_eq!(third.as_slice(), column.pages[2].view.as_slice());
    assert_eq!(Arc::as_ptr(third.memory()), before);
}
