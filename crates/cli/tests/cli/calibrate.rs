//! `galatea calibrate`, and the output of the doctor and EXPLAIN ANALYZE for measured and other constants.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use galatea_device::{Calibration, Device, DeviceOptions, EmulatorOptions, GroupingRates, LinkRates};

use crate::support::{Ran, command, galatea, samples};

const EMULATED: [&str; 2] = ["--set", "galatea.device=emulated"];

/// The path of the calibration of the emulated device, for the command in `directory`.
fn path(directory: &Path) -> PathBuf {
    let name = Calibration::path(first_device()).expect("a cache folder");
    directory
        .join("cache/calibration")
        .join(name.file_name().expect("a file"))
}

/// The first emulated device of a process, which is equal in every process.
fn first_device() -> &'static Device {
    static FIRST: OnceLock<Device> = OnceLock::new();
    FIRST.get_or_init(|| {
        let options = DeviceOptions {
            cache_directory: Some(Path::new(env!("CARGO_TARGET_TMPDIR")).join("calibrations")),
            ..DeviceOptions::default()
        };
        let device = Device::emulated(EmulatorOptions::default(), options).expect("always there");
        calibration().store(&device).expect("stored");
        device
    })
}

/// Calibrates the emulated device of the command in `directory`.
fn store(directory: &Path) {
    let path = path(directory);
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    std::fs::copy(Calibration::path(first_device()).expect("a cache folder"), path).expect("copied");
}

/// A calibration as if measured on 2026-11-21.
fn calibration() -> Calibration {
    Calibration {
        measured_at: 1_795_248_383,
        hbm_read: 4.4e12,
        hbm_copy: 4.1e12,
        h2d: 55e9,
        d2h: 54e9,
        both_ways: 98e9,
        h2d_pageable: 12e9,
        pinning: 3e9,
        launch_nanoseconds: 2100.0,
        round_trip_nanoseconds: 6700.0,
        grouping: GroupingRates {
            rounds_per_second: 123.4e9,
            update_latency: 34.755,
            match_rounds: 27.192,
            memory_bytes_per_second: 4.38e12,
            memory_bytes_in_flight: 29_876.0,
            global_atomics_per_second: 104e9,
            global_atomics_on_one_address: 1.365e9,
        },
        link: LinkRates::default(),
        chunks: None,
    }
}

fn emulated(directory: &Path, arguments: &[&str]) -> Ran {
    galatea(directory, &[arguments, &EMULATED].concat())
}

#[test]
fn emulated_and_cpu_devices_are_not_calibrated() {
    let directory = samples();
    let ran = emulated(directory.path(), &["calibrate"]);
    assert_eq!((ran.code, ran.out.as_str()), (1, ""));
    assert!(ran.err.starts_with("error: cannot calibrate "), "{}", ran.err);
    assert!(
        ran.err.contains("\nhint: galatea calibrate needs a GPU"),
        "{}",
        ran.err
    );
    assert!(!path(directory.path()).exists());

    let ran = galatea(directory.path(), &["calibrate", "--set", "galatea.device=cpu"]);
    assert_eq!(ran.code, 1);
    assert_eq!(
        ran.err,
        "error: there is nothing to calibrate: galatea.device = cpu"
    );
    if galatea_device::probe().usable().is_err() {
        let ran = galatea(directory.path(), &["calibrate"]);
        assert_eq!(ran.code, 1);
        assert!(
            ran.err
                .starts_with("error: there is nothing to calibrate: no device: "),
            "{}",
            ran.err
        );
    }
}

#[test]
fn cost_constants_are_measured_or_scaled() {
    let directory = samples();
    let scaled = emulated(directory.path(), &["doctor"]).out;
    assert!(scaled.contains("an H200's, scaled to this device"), "{scaled}");
    assert!(
        scaled.contains("hint: galatea calibrate measures them in a few seconds"),
        "{scaled}"
    );
    assert!(
        scaled.contains("update_latency                  3.5000e1"),
        "{scaled}"
    );
    let query = "EXPLAIN ANALYZE SELECT x % 5, sum(x) FROM t GROUP BY 1";
    let table = "CREATE TABLE t AS SELECT value AS x FROM generate_series(1, 3000)";
    let explain = |expected: &str| {
        let arguments = [
            "--maxrows",
            "inf",
            "-c",
            table,
            "-c",
            "SET datafusion.explain.format = 'indent'",
            "-c",
            query,
        ];
        let ran = emulated(directory.path(), &arguments);
        assert!(
            ran.out.contains(expected),
            "{expected} in:\n{}\n{}",
            ran.out,
            ran.err
        );
    };
    explain(", constants scaled");

    store(directory.path());
    let measured = emulated(directory.path(), &["doctor"]).out;
    assert!(
        measured.contains("measured on 2026-11-21 at 08:06 UTC"),
        "{measured}"
    );
    assert!(
        measured.contains("rounds_per_second               1.2340e11"),
        "{measured}"
    );
    assert!(
        measured.contains("host to device, pinned          55.0 GB/s"),
        "{measured}"
    );
    explain(", constants measured");

    let ran = emulated(directory.path(), &["calibrate", "--forget"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert_eq!(
        ran.out,
        "Forgotten: the constants are an H200's again, scaled to this device."
    );
    let ran = emulated(directory.path(), &["calibrate", "--forget"]);
    assert_eq!(ran.out, "Nothing was measured on this device.");
}

#[test]
fn calibrations_are_forgotten_without_a_device() {
    let directory = samples();
    store(directory.path());
    let forget = ["calibrate", "--forget", "--set", "galatea.device=cpu"];
    let ran = galatea(directory.path(), &forget);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert_eq!(ran.out, "Forgotten: the calibrations of 1 device(s).");
    assert!(!path(directory.path()).exists());
    let ran = galatea(directory.path(), &forget);
    assert_eq!(ran.out, "Nothing was measured on this machine.");
}

/// A query runs for any contents of the file. The log and the doctor name the file and the remedy.
#[test]
fn corrupt_calibration_file_is_named_and_ignored() {
    let directory = samples();
    store(directory.path());
    let path = path(directory.path());
    std::fs::write(&path, "{\"version\": 2,").expect("written");
    let mut command = command(
        directory.path(),
        &[
            &["-q", "-c", "SELECT sum(id) FROM 'parts/*.parquet'"],
            &EMULATED[..],
        ]
        .concat(),
    );
    let ran = command.env("RUST_LOG", "warn").output().expect("it runs");
    let (out, log) = (
        String::from_utf8_lossy(&ran.stdout),
        String::from_utf8_lossy(&ran.stderr),
    );
    assert!(ran.status.success() && out.contains("42"), "{out}\n{log}");
    for part in [
        &path.display().to_string(),
        "is not used: it is damaged",
        "galatea calibrate renews it",
    ] {
        assert!(log.contains(part), "{part} in:\n{log}");
        let doctor = emulated(directory.path(), &["doctor"]).out;
        assert!(doctor.contains(part), "{part} in:\n{doctor}");
    }
    let ran = emulated(directory.path(), &["calibrate", "--forget"]);
    assert!(ran.out.starts_with("Forgotten") && !path.exists(), "{}", ran.out);
}

#[test]
fn transfers_use_the_method_measured_as_fastest() {
    let directory = samples();
    let explain = |expected: &str| {
        let arguments = [
            "-c",
            "CREATE TABLE t AS SELECT value AS x FROM generate_series(1, 3000)",
            "-c",
            "EXPLAIN ANALYZE SELECT x % 5, sum(x) FROM t GROUP BY 1",
        ];
        let ran = emulated(
            directory.path(),
            &[&["--maxrows", "inf"], &arguments[..]].concat(),
        );
        assert!(
            ran.out.contains(expected),
            "{expected} in:\n{}\n{}",
            ran.out,
            ran.err
        );
    };
    for (way, name) in [
        ("staged", "staged copy"),
        ("pageable", "pageable copy"),
        ("zero_copy", "pinned copy"),
    ] {
        store(directory.path());
        let stored = std::fs::read_to_string(path(directory.path())).expect("stored");
        let (none, some) = (format!("\"{way}\": null"), format!("\"{way}\": 99000000000.0"));
        assert!(stored.contains(&none), "{stored}");
        std::fs::write(path(directory.path()), stored.replace(&none, &some)).expect("written");
        explain(&format!("transfer method {name}"));
    }
}
