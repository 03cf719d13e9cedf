//! Missing parts of this machine are error values, not panics.

use super::emulated;
use crate::{Device, DeviceError, DeviceOptions, probe};

#[test]
fn probe_reports_missing_libraries_with_remedy() {
    let found = probe();
    if let Err(missing) = &found.driver {
        assert!(!missing.reason.is_empty() && !missing.remedy.is_empty());
        assert!(missing.to_string().contains("\nhint: "), "{missing}");
        assert!(found.devices.is_empty());
        assert_eq!(found.usable().unwrap_err(), *missing);
    }
    if let Err(missing) = &found.nvrtc {
        assert!(missing.to_string().contains("nvidia-cuda-nvrtc"), "{missing}");
    }
}

#[test]
fn missing_gpu_is_a_typed_error() {
    let error = Device::gpu(4096, DeviceOptions::default()).unwrap_err();
    assert!(
        matches!(&error, DeviceError::NoDriver(missing) if !missing.remedy.is_empty()),
        "{error}"
    );
}

#[test]
fn emulated_device_reports_its_properties() {
    let device = emulated();
    let info = device.info();
    assert!(info.emulated);
    assert_eq!(
        (info.warp_size, info.max_threads_per_block, info.multiprocessors),
        (32, 1024, 2)
    );
    assert_eq!(info.total_memory, 1 << 30);
    assert_eq!(info.shared_memory_per_block, 99 << 10);
    assert_eq!(info.uuid.len(), 32);
    assert!(info.nvrtc_version.is_some());
    assert!(device.counters().is_some());
}

#[test]
fn handles_of_one_device_share_its_budget() {
    let Some(first) = crate::testing::exclusive_gpu() else {
        return;
    };
    let second = Device::gpu(0, DeviceOptions::default()).unwrap();
    let stream = first.stream().unwrap();
    let before = second.budget().used();
    let _held = first.zeroed::<u8>(&stream, 1 << 20).unwrap();
    assert!(second.budget().used() >= before + (1 << 20));
}
