//! The budget: exact, like a full card, and equal to the driver's figure.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::{devices, emulated, emulated_with};
use crate::{
    Device, DeviceBuffer, DeviceError, DeviceOptions, EmulatorOptions, GRANULARITY, HostMemory, MemoryBudget,
};
use std::sync::Arc;

fn out_of_memory<T: std::fmt::Debug>(result: Result<T, DeviceError>) -> (u64, u64, u64) {
    match result {
        Err(DeviceError::OutOfMemory {
            requested,
            used,
            limit,
            ..
        }) => (requested, used, limit),
        other => panic!("expected to be out of memory: {other:?}"),
    }
}

#[test]
fn limit_is_exact_and_freed_memory_counts() {
    let options = DeviceOptions {
        memory_limit: Some(8 * GRANULARITY),
        ..DeviceOptions::default()
    };
    let device = Device::emulated(EmulatorOptions::default(), options).unwrap();
    let stream = device.stream().unwrap();
    let budget = device.budget();
    assert_eq!(budget.limit(), 8 * GRANULARITY);

    let first = device.zeroed::<u8>(&stream, 5 * GRANULARITY as usize).unwrap();
    let second = device
        .zeroed::<u8>(&stream, 2 * GRANULARITY as usize + 1)
        .unwrap();
    assert_eq!(
        (budget.used(), budget.available(), budget.allocations()),
        (8 * GRANULARITY, 0, 2)
    );
    assert_eq!(
        out_of_memory(device.alloc::<u8>(&stream, 1)),
        (GRANULARITY, 8 * GRANULARITY, 8 * GRANULARITY)
    );
    drop(second);
    assert_eq!(budget.used(), 5 * GRANULARITY);
    let third = device.zeroed::<u8>(&stream, 3 * GRANULARITY as usize).unwrap();
    drop((first, third));
    assert_eq!(
        (budget.used(), budget.peak(), budget.allocations()),
        (0, 8 * GRANULARITY, 0)
    );
    budget.reset_peak();
    assert_eq!(budget.peak(), 0);
}

#[test]
fn out_of_memory_message_has_sizes_and_setting() {
    let options = DeviceOptions {
        memory_limit: Some(4096),
        ..DeviceOptions::default()
    };
    let device = Device::emulated(EmulatorOptions::default(), options).unwrap();
    let stream = device.stream().unwrap();
    let _held = device.zeroed::<u8>(&stream, 1024).unwrap();
    let error = device.alloc::<u64>(&stream, 1024).unwrap_err();
    assert!(error.is_out_of_memory() && !error.is_device_lost());
    assert_eq!(
        error.to_string(),
        "out of device memory: 8192 bytes requested, 1024 of 4096 bytes in use\nhint: raise galatea.memory.gpu_limit if \
         the card has more, or lower the memory a query asks for"
    );
}

#[test]
fn excessive_sizes_are_out_of_memory() {
    let device = emulated();
    let stream = device.stream().unwrap();
    for len in [usize::MAX, usize::MAX / 8, 1 << 50] {
        out_of_memory(device.alloc::<u64>(&stream, len));
    }
    assert_eq!(device.budget().used(), 0);
}

#[test]
fn full_device_fails_like_the_memory_limit() {
    let device = emulated_with(EmulatorOptions {
        memory: 4 << 20,
        ..EmulatorOptions::default()
    });
    let stream = device.stream().unwrap();
    // Another user of the card: memory that is not in the budget.
    let context = stream.context();
    context.bind().unwrap();
    let mut address = 0;
    // SAFETY: the pointer is valid for a write, the context current and the stream one of its.
    let code = unsafe { (context.driver.cuMemAllocAsync)(&raw mut address, 3 << 20, stream.handle()) };
    context.check("cuMemAllocAsync", code).unwrap();

    let held = device.zeroed::<u8>(&stream, 512 << 10).unwrap();
    let (requested, used, limit) = out_of_memory(device.alloc::<u8>(&stream, 1 << 20));
    assert_eq!((requested, used), (1 << 20, 512 << 10));
    assert!(
        limit < 4 << 20 && limit >= used,
        "the limit is what the card leaves: {limit}"
    );
    assert_eq!(
        device.budget().used(),
        512 << 10,
        "the failed allocation is not charged"
    );
    drop(held);

    // SAFETY: allocated above, freed once.
    let code = unsafe { (context.driver.cuMemFreeAsync)(address, stream.handle()) };
    context.check("cuMemFreeAsync", code).unwrap();
    drop(device.zeroed::<u8>(&stream, 2 << 20).unwrap());
}

#[test]
fn charged_bytes_match_driver_usage() {
    for device in devices() {
        let seed = 17;
        let mut random = SmallRng::seed_from_u64(seed);
        let stream = device.stream().unwrap();
        let (base, claimed) = (device.memory_use().unwrap().pool_used, device.budget().used());
        let mut held: Vec<DeviceBuffer<u8>> = Vec::new();
        for step in 0..200 {
            if random.random_bool(0.6) {
                let len = random.random_range(0..200_000);
                held.push(device.zeroed(&stream, len).unwrap());
            } else if !held.is_empty() {
                let index = random.random_range(0..held.len());
                held.swap_remove(index);
            }
            stream.synchronize().unwrap();
            let claims: u64 = held
                .iter()
                .map(|buffer| MemoryBudget::charge_of(buffer.bytes()))
                .sum();
            assert_eq!(
                device.budget().used(),
                claimed + claims,
                "step {step}, seed {seed}"
            );
            let driver = device.memory_use().unwrap().pool_used - base;
            assert_eq!(driver, claims, "step {step}, seed {seed}, {}", device.info().name);
        }
        drop(held);
        stream.synchronize().unwrap();
        assert_eq!(device.memory_use().unwrap().pool_used, base);
    }
}

#[test]
fn trim_releases_unused_pool_memory() {
    let device = emulated();
    let stream = device.stream().unwrap();
    let free = device.memory_use().unwrap().free;
    drop(device.zeroed::<u8>(&stream, 10 << 20).unwrap());
    device.trim().unwrap();
    let after = device.memory_use().unwrap();
    assert_eq!((after.free, after.pool_used, after.pool_reserved), (free, 0, 0));
}

#[test]
fn concurrent_allocations_respect_the_limit() {
    let limit = 64 * GRANULARITY;
    let options = DeviceOptions {
        memory_limit: Some(limit),
        ..DeviceOptions::default()
    };
    let device = Device::emulated(EmulatorOptions::default(), options).unwrap();
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let device = &device;
            scope.spawn(move || {
                let mut random = SmallRng::seed_from_u64(seed);
                let stream = device.stream().unwrap();
                for _ in 0..200 {
                    let blocks = random.random_range(1..40);
                    if let Ok(buffer) = device.alloc::<u8>(&stream, blocks * GRANULARITY as usize) {
                        assert!(device.budget().used() <= limit);
                        drop(buffer);
                    }
                }
            });
        }
    });
    assert!(device.budget().peak() <= limit);
    assert_eq!((device.budget().used(), device.budget().allocations()), (0, 0));
}

#[test]
fn limit_is_capped_at_device_memory() {
    let device = emulated_with(EmulatorOptions {
        memory: 4 << 20,
        ..EmulatorOptions::default()
    });
    let budget = device.budget();
    assert_eq!(budget.limit(), 4 << 20);
    budget.set_limit(Some(1 << 20));
    assert_eq!(budget.limit(), 1 << 20);
    budget.set_limit(Some(1 << 40));
    assert_eq!(budget.limit(), 4 << 20);
    let stream = device.stream().unwrap();
    let held = device.zeroed::<u8>(&stream, 2 << 20).unwrap();
    budget.set_limit(Some(1 << 20));
    assert_eq!(budget.available(), 0);
    out_of_memory(device.alloc::<u8>(&stream, 1));
    drop(held);
    device.zeroed::<u8>(&stream, 1 << 20).unwrap();
}

#[test]
fn automatic_limit_is_free_memory_minus_reserve() {
    let device = emulated_with(EmulatorOptions {
        memory: 64 << 20,
        ..EmulatorOptions::default()
    });
    let stream = device.stream().unwrap();
    assert_eq!(device.automatic_limit().unwrap(), 60 << 20);
    // Memory that this process holds counts as free; memory of others does not.
    let held = device.zeroed::<u8>(&stream, 8 << 20).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(device.automatic_limit().unwrap(), 60 << 20);
    drop(held);
}

#[test]
fn memory_that_cannot_be_pinned_is_used_unpinned() {
    let device = emulated_with(EmulatorOptions {
        pinned_memory: 4 << 10,
        ..EmulatorOptions::default()
    });
    let (small, large) = (
        HostMemory::new(4 << 10).unwrap(),
        HostMemory::new(8 << 10).unwrap(),
    );
    let (small, large) = (Arc::new(small), large.into_view());
    assert!(device.pin_if_possible(&small).unwrap() && device.is_pinned(&small));
    assert!(!device.pin_if_possible(large.memory()).unwrap());
    assert!(device.pin(large.memory()).unwrap_err().is_out_of_memory());
    let stream = device.stream().unwrap();
    let mut copied = device.zeroed::<u8>(&stream, 8 << 10).unwrap();
    stream.copy_to_device(&mut copied, &large).unwrap();
    assert_eq!(stream.read(&copied, ..).unwrap(), vec![0; 8 << 10]);
}
