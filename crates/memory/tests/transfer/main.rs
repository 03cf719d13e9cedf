//! Every transfer method transfers the host's bytes to kernels and the kernels' bytes to the host.

use galatea_device::{Device, DeviceOptions, EmulatorOptions};
use galatea_kernels::{LinkAccess, Pieces};
use galatea_memory::transfer::{
    Access, Capabilities, Meter, Method, TransferError, TransferOptions, link_rates, open,
};

fn emulated(seed: u64) -> Device {
    let options = EmulatorOptions {
        seed,
        ..EmulatorOptions::default()
    };
    Device::emulated(options, DeviceOptions::default()).expect("the emulated device is always there")
}

const PRESENT: [Method; 8] = [
    Method::Pageable,
    Method::Staged,
    Method::DynamicPinning,
    Method::Pinned,
    Method::PinnedPieces,
    Method::UnifiedPrefetch,
    Method::UnifiedMigration,
    Method::ZeroCopy,
];

fn options() -> TransferOptions {
    TransferOptions {
        chunk_bytes: 192 << 10,
        threads: 3,
        piece_bytes: 64 << 10,
    }
}

/// Pieces that cover all bytes at an address.
fn all(address: u64, bytes: usize, writes: bool, seed: u64) -> Pieces {
    Pieces {
        address,
        bytes: bytes as u64,
        piece: bytes as u64,
        count: 1,
        random: false,
        writes,
        seed,
    }
}

#[test]
fn kernels_read_host_writes() {
    let device = emulated(1);
    let stream = device.stream().unwrap();
    let kernel = LinkAccess::new(&device).unwrap();
    let mut sum = device.zeroed::<u64>(&stream, 1).unwrap();
    for method in PRESENT {
        let bytes = 400 << 10;
        let mut transfer = open(&device, method, bytes, &options()).unwrap();
        assert_eq!(transfer.method(), method);
        assert!(
            transfer.host().unwrap().iter().all(|byte| *byte == 0),
            "{method} begins with zeros"
        );
        // Lengths around the pieces, and starts within them; each twice, with other bytes.
        for (round, len) in [4_usize, 128, 4092, 4096, 4100, 65536, 65540, 192 << 10]
            .into_iter()
            .enumerate()
        {
            for start in [0, 4, 4096, 200 << 10] {
                let range = start..start + len;
                let words: &mut [u32] = bytemuck::cast_slice_mut(transfer.host().unwrap());
                for (at, word) in words.iter_mut().enumerate() {
                    *word = (at as u32).wrapping_mul(2_654_435_761).wrapping_add(round as u32);
                }
                let own = &words[start / 4..(start + len) / 4];
                let expected = own.iter().map(|word| u64::from(*word)).sum::<u64>();
                stream.fill(&mut sum, 0).unwrap();
                let address = transfer.bring(&stream, range).unwrap();
                kernel
                    .launch(&stream, all(address, len, false, 0), &mut sum)
                    .unwrap();
                let found = stream.read(&sum, ..).unwrap();
                assert_eq!(found, [expected], "{method}, {len} bytes from {start}");
            }
        }
    }
}

#[test]
fn host_reads_kernel_writes() {
    let device = emulated(2);
    let stream = device.stream().unwrap();
    let kernel = LinkAccess::new(&device).unwrap();
    let mut sum = device.zeroed::<u64>(&stream, 1).unwrap();
    for method in PRESENT {
        let bytes = 300 << 10;
        let mut transfer = open(&device, method, bytes, &options()).unwrap();
        for (round, (start, len)) in [
            (0, 4),
            (8, 4096),
            (4096, 65540),
            (0, 192 << 10),
            (100 << 10, 192 << 10),
        ]
        .into_iter()
        .enumerate()
        {
            let seed = round as u64 + 5;
            transfer.host().unwrap().fill(0xa5);
            let address = transfer.room(&stream, start..start + len).unwrap();
            kernel
                .launch(&stream, all(address, len, true, seed), &mut sum)
                .unwrap();
            transfer.collect(&stream, start..start + len).unwrap();
            let words: &[u32] = bytemuck::cast_slice(transfer.host().unwrap());
            for (at, word) in words.iter().enumerate() {
                let inside = (start / 4..(start + len) / 4).contains(&at);
                let expected = if inside {
                    LinkAccess::written(seed, (at - start / 4) as u64)
                } else {
                    0xa5a5_a5a5
                };
                assert_eq!(*word, expected, "word {at}, {method}, {len} bytes from {start}");
            }
        }
    }
}

#[test]
fn two_ranges_can_be_resident_at_once() {
    let device = emulated(3);
    let stream = device.stream().unwrap();
    let kernel = LinkAccess::new(&device).unwrap();
    let mut sum = device.zeroed::<u64>(&stream, 1).unwrap();
    for method in PRESENT {
        let mut transfer = open(&device, method, 128 << 10, &options()).unwrap();
        let words: &mut [u32] = bytemuck::cast_slice_mut(transfer.host().unwrap());
        words
            .iter_mut()
            .enumerate()
            .for_each(|(at, word)| *word = at as u32);
        let first = transfer.bring(&stream, 0..4096).unwrap();
        let second = transfer.bring(&stream, 64 << 10..68 << 10).unwrap();
        kernel
            .launch(&stream, all(first, 4096, false, 0), &mut sum)
            .unwrap();
        kernel
            .launch(&stream, all(second, 4096, false, 0), &mut sum)
            .unwrap();
        let expected: u64 = (0..1024).sum::<u64>() + (16384..16384 + 1024).sum::<u64>();
        assert_eq!(stream.read(&sum, ..).unwrap(), [expected], "{method}");
        stream.fill(&mut sum, 0).unwrap();
    }
}

#[test]
fn missing_capability_error_names_the_attribute() {
    let device = emulated(4);
    let capabilities = Capabilities::probe(&device);
    for method in PRESENT {
        assert!(capabilities.has(method).is_ok(), "{method}");
    }
    let Err(error) = open(&device, Method::Coherence, 4096, &options()) else {
        panic!("coherence without a coherent link")
    };
    assert!(matches!(error, TransferError::Absent(_)));
    let text = error.to_string();
    assert!(
        text.contains("coherence is not available") && text.contains("attribute 88, is 0"),
        "{text}"
    );
    assert_eq!(Method::ALL.len(), PRESENT.len() + 1);
}

#[test]
fn a_range_longer_than_a_chunk_is_refused() {
    let device = emulated(5);
    let stream = device.stream().unwrap();
    for method in [Method::Pageable, Method::Staged, Method::Pinned] {
        let mut transfer = open(&device, method, 1 << 20, &options()).unwrap();
        let error = transfer
            .bring(&stream, 0..(192 << 10) + 1)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("196609 bytes") && error.contains("196608") && error.contains("chunk_bytes"),
            "{error}"
        );
    }
    for method in [Method::UnifiedMigration, Method::ZeroCopy] {
        let mut transfer = open(&device, method, 1 << 20, &options()).unwrap();
        assert!(transfer.bring(&stream, 0..(1 << 20) + 4).is_err(), "{method}");
    }
}

/// Managed memory counts as device memory: an allocation above the budget is refused without calling the
/// driver.
#[test]
fn managed_memory_stays_below_the_budget() {
    let device = emulated(6);
    let used = device.budget().used();
    let more = device.info().total_memory as usize + 1;
    assert!(open(&device, Method::UnifiedMigration, more, &options()).is_err());
    {
        let _transfer = open(&device, Method::UnifiedPrefetch, 1 << 20, &options()).unwrap();
        assert!(device.budget().used() >= used + (1 << 20));
    }
    assert_eq!(device.budget().used(), used);
}

/// Every method moves all bytes, of whole chunks and a partial one, and the meter checks them.
#[test]
fn meter_verifies_transferred_bytes() {
    let device = emulated(7);
    let mut meter = Meter::new(&device).unwrap();
    for method in PRESENT {
        let mut transfer = open(&device, method, 400 << 10, &options()).unwrap();
        for (seed, access) in [(1, Access::Read), (2, Access::Write), (3, Access::Read)] {
            let rate = meter.rate(&mut *transfer, options().chunk_bytes, access, seed);
            assert!(rate.unwrap() > 0.0, "{method}, {access:?}");
        }
    }
}

/// Values of another seed are detected as wrong.
#[test]
#[should_panic(expected = "pinned copy, Write: the kernel saw or left other bytes")]
fn meter_detects_wrong_bytes() {
    let device = emulated(8);
    let mut meter = Meter::new(&device).unwrap();
    let mut transfer = open(&device, Method::Pinned, 64 << 10, &options()).unwrap();
    let (chunk, bytes) = (options().chunk_bytes, 64 << 10);
    meter
        .go(&mut *transfer, chunk, Access::Write, (4, bytes))
        .unwrap();
    meter.check(&mut *transfer, chunk, Access::Write, (5, 0)).unwrap();
}

#[test]
fn calibration_measures_all_available_transfer_methods() {
    let rates = link_rates(&emulated(9), 256 << 10).unwrap();
    let present = [
        rates.pageable,
        rates.staged,
        rates.dynamic_pinning,
        rates.pinned,
        rates.pinned_pieces,
        rates.unified_prefetch,
        rates.unified_migration,
        rates.zero_copy,
    ];
    assert!(
        present.iter().all(|rate| rate.is_some_and(|rate| rate > 0.0)),
        "{rates:?}"
    );
    assert_eq!(rates.coherence, None);
}
