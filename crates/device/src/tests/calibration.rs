//! The calibration file: it is read back as it was written, and refused if any of it belongs to another
//! device.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::{
    CacheFolder, Calibration, CalibrationRefusal, Device, DeviceOptions, EmulatorOptions, GroupingRates,
    LinkRates,
};

fn device(folder: &tempfile::TempDir) -> Device {
    let options = DeviceOptions {
        cache_directory: Some(folder.path().to_path_buf()),
        ..DeviceOptions::default()
    };
    Device::emulated(EmulatorOptions::default(), options).expect("the emulated device is always there")
}

/// Figures with digits that imprecise output would lose.
fn calibration() -> Calibration {
    Calibration {
        measured_at: 1_795_248_383,
        hbm_read: 4_383_312_345_679.0,
        hbm_copy: 4.1e12,
        h2d: 55.3e9,
        d2h: 54.9e9,
        both_ways: 98.7e9,
        h2d_pageable: 12e9,
        pinning: 3e9,
        launch_nanoseconds: 2100.0,
        round_trip_nanoseconds: 6700.0,
        grouping: GroupingRates {
            rounds_per_second: 259_027_812_345.0,
            update_latency: 34.755,
            match_rounds: 27.192,
            memory_bytes_per_second: 4.38e12,
            memory_bytes_in_flight: 29_876.0,
            global_atomics_per_second: 104_442_400_001.0,
            global_atomics_on_one_address: 1.365e9,
        },
        link: LinkRates::default(),
        chunks: None,
    }
}

#[test]
fn stored_calibration_is_loaded_unchanged() {
    let folder = tempfile::tempdir().expect("a folder");
    let device = device(&folder);
    assert!(
        Calibration::load(&device)
            .expect("nothing is wrong with nothing")
            .is_none()
    );
    assert!(!Calibration::forget(&device).expect("nothing to remove"));
    calibration().store(&device).expect("stored");
    assert_eq!(Calibration::load(&device).expect("fits"), Some(calibration()));
    let newer = Calibration {
        measured_at: 1_795_300_000,
        ..calibration()
    };
    newer.store(&device).expect("replaced");
    assert_eq!(Calibration::load(&device).expect("fits"), Some(newer));
    // No partially written file remains.
    let path = Calibration::path(&device).expect("a cache folder");
    let files = std::fs::read_dir(path.parent().expect("a folder")).expect("listed");
    assert_eq!(files.count(), 1);
    assert!(Calibration::forget(&device).expect("removed") && !path.exists());
}

#[test]
fn calibrations_of_all_devices_are_removed_without_a_device() {
    let folder = tempfile::tempdir().expect("a folder");
    let device = device(&folder);
    let cache = CacheFolder::open(Some(folder.path())).expect("a cache folder");
    assert_eq!(Calibration::forget_all(&cache).expect("nothing to remove"), 0);
    calibration().store(&device).expect("stored");
    let path = Calibration::path(&device).expect("a cache folder");
    let other = path.with_file_name("another-device.json");
    std::fs::copy(&path, &other).expect("copied");
    assert_eq!(Calibration::forget_all(&cache).expect("removed"), 2);
    assert!(!path.exists() && !other.exists());
}

#[test]
fn unwritable_folder_is_named_in_the_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let device = device(&folder);
    std::fs::write(folder.path().join("calibration"), "a file where the folder goes").expect("written");
    let error = calibration().store(&device).expect_err("no folder");
    assert!(error.to_string().contains("calibration"), "{error}");
}

/// Applies a change to a good file and returns its refusal.
fn refused(change: impl FnOnce(&mut Value)) -> (CalibrationRefusal, String, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let device = device(&folder);
    calibration().store(&device).expect("stored");
    let path = Calibration::path(&device).expect("a cache folder");
    let text = std::fs::read(&path).expect("a file");
    let mut value = serde_json::from_slice(&text).expect("JSON");
    change(&mut value);
    std::fs::write(&path, value.to_string()).expect("written");
    let stale = Calibration::load(&device).expect_err("refused");
    let text = stale.to_string();
    (stale.refusal, text, path)
}

#[test]
fn calibration_of_another_device_is_refused() {
    let (refusal, text, path) = refused(|file| file["version"] = json!(1));
    assert!(
        matches!(refusal, CalibrationRefusal::Version { found: 1 }),
        "{text}"
    );
    assert!(text.contains(&path.display().to_string()), "{text}");
    assert!(text.ends_with("hint: galatea calibrate renews it"), "{text}");
    for (key, other) in [
        ("device", json!("NVIDIA A100")),
        ("uuid", json!("00000000000000000000000000000001")),
        ("driver", json!([11, 8])),
        ("multiprocessors", json!(108)),
    ] {
        let (refusal, text, _) = refused(|file| file["of"][key] = other.clone());
        let CalibrationRefusal::OtherDevice { found, here } = refusal else {
            panic!("{key}: {text}");
        };
        assert_ne!(found, here);
    }
}

#[test]
fn malformed_calibration_is_refused() {
    for (key, value) in [
        ("rounds_per_second", json!(0)),
        ("update_latency", json!(-34.0)),
        ("match_rounds", json!(-0.0)),
        ("memory_bytes_in_flight", json!(-1e300)),
    ] {
        let (refusal, text, _) = refused(|file| file["calibration"]["grouping"][key] = value.clone());
        let is_named = matches!(refusal, CalibrationRefusal::Figure { name, .. } if name == key);
        assert!(is_named, "{key}: {text}");
    }
    let (refusal, text, _) = refused(|file| file["calibration"]["h2d"] = json!(0.0));
    assert!(
        matches!(refusal, CalibrationRefusal::Figure { name: "h2d", .. }),
        "{text}"
    );
    // JSON has no infinities and no NaN: serialisers write null for them.
    for value in [json!(null), json!("NaN"), json!([1])] {
        let (refusal, text, _) = refused(|file| file["calibration"]["grouping"]["match_rounds"] = value);
        assert!(matches!(refusal, CalibrationRefusal::Damaged(_)), "{text}");
    }
    let (refusal, text, _) = refused(|file| {
        file["calibration"]
            .as_object_mut()
            .expect("an object")
            .remove("grouping");
    });
    assert!(matches!(refusal, CalibrationRefusal::Damaged(_)), "{text}");
}

#[test]
fn corrupt_calibration_files_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let device = device(&folder);
    calibration().store(&device).expect("stored");
    let path = Calibration::path(&device).expect("a cache folder");
    let whole = std::fs::read(&path).expect("a file");
    let huge = String::from_utf8_lossy(&whole)
        .replace("34.755", "1e999")
        .into_bytes();
    let mut damaged: Vec<Vec<u8>> = (0..whole.len())
        .step_by(97)
        .map(|len| whole[..len].to_vec())
        .collect();
    damaged.extend([huge, vec![0xff; 64], b"[]".to_vec(), b"null".to_vec()]);
    for text in damaged {
        std::fs::write(&path, &text).expect("written");
        let stale = Calibration::load(&device).expect_err("refused");
        assert!(matches!(stale.refusal, CalibrationRefusal::Damaged(_)), "{stale}");
    }
    std::fs::remove_file(&path).expect("removed");
    std::fs::create_dir(&path).expect("a folder where the file goes");
    let stale = Calibration::load(&device).expect_err("refused");
    assert!(
        matches!(stale.refusal, CalibrationRefusal::Unreadable(_)),
        "{stale}"
    );
}
