//! Host memory of copies that run when the device is lost: nobody writes or reads it once its owner has it
//! back.
#![forbid(unsafe_code)]

use galatea_device::{Device, DeviceOptions, DriverCall, EmulatorOptions, FaultCode, Faults};
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

/// Bytes of a copy that takes some milliseconds.
const BYTES: usize = 64 << 20;

/// Loses the device at different moments of a read: at each, the memory that was read into is the reader's.
#[test]
fn a_read_that_fails_leaves_its_memory_alone() {
    let mut failed = 0;
    for round in 0..12_u32 {
        let faults = Faults::default();
        let options = EmulatorOptions {
            faults: faults.clone(),
            ..EmulatorOptions::default()
        };
        let device = Device::emulated(options, DeviceOptions::default()).expect("always there");
        let (reader, other) = (
            device.stream().expect("a stream"),
            device.stream().expect("a stream"),
        );
        let mut source = device.alloc::<u8>(&reader, BYTES).expect("memory");
        reader.fill(&mut source, 1).expect("queued");
        let source = source.assume_written();
        let mut word = device.alloc::<u8>(&other, 64).expect("memory");
        reader.synchronize().expect("done");
        other.synchronize().expect("done");
        let mut target = vec![0_u8; BYTES];
        let start = Barrier::new(2);
        let outcome = thread::scope(|scope| {
            scope.spawn(|| {
                start.wait();
                thread::sleep(Duration::from_millis(u64::from(round)));
                faults.fail(DriverCall::Fill, 0, 1, FaultCode::Lost);
                let _ = other.fill(&mut word, 2);
            });
            start.wait();
            reader.read_into(&source, &mut target)
        });
        failed += u32::from(outcome.is_err());
        target.fill(7);
        thread::sleep(Duration::from_millis(30));
        let changed = target.iter().filter(|byte| **byte != 7).count();
        assert_eq!(
            changed, 0,
            "round {round}: bytes were written after the read had returned {outcome:?}"
        );
    }
    assert!(failed > 0, "the device was never lost during a read");
}
