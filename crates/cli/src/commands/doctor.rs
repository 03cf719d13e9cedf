//! `galatea doctor`: the capabilities of this machine, and remedies for missing ones.
//!
//! It never fails: without a GPU, DataFusion's CPU operators run the queries.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use chrono::DateTime;
use datafusion::prelude::SessionContext;
use galatea::{EngineSettings, GalateaConfig};
use galatea_device::{
    CacheFolder, Calibration, DISK_LIMIT, Device, DeviceInfo, DeviceOptions, EmulatorOptions, GroupingRates,
    Probe,
};
use galatea_engine::config::DeviceChoice;
use galatea_engine::device::calibration;
use walkdir::WalkDir;

use crate::arguments::{DoctorArguments, SessionArguments};
use crate::errors::CliError;
use crate::session;

/// The processor of queries in short: `NVIDIA H200`, or `the CPU (no CUDA driver)`.
pub(crate) fn device_line() -> String {
    match galatea_device::probe().usable() {
        Ok(device) => device.name.clone(),
        Err(missing) => format!("the CPU (no {})", missing.what),
    }
}

pub(crate) fn run(session: &SessionArguments, arguments: &DoctorArguments) -> Result<(), CliError> {
    let probe = galatea_device::probe();
    let mut report = Report::default();
    verdict(&mut report, &probe);
    software(&mut report, &probe);
    for device in &probe.devices {
        attributes(&mut report, device);
    }
    let ctx = session::builder(session).build()?;
    let emulated =
        GalateaConfig::of(ctx.state_ref().read().config_options()).device == DeviceChoice::Emulated;
    let device = match emulated {
        true => Some(Device::emulated(
            EmulatorOptions::default(),
            DeviceOptions::default(),
        )),
        false => probe
            .usable()
            .is_ok()
            .then(|| Device::gpu(0, DeviceOptions::default())),
    };
    match device {
        Some(Ok(device)) => calibration(&mut report, &device, arguments.measure),
        Some(Err(error)) => {
            report.section("Measured");
            report.row("failed", error);
        }
        None => {}
    }
    host(&mut report);
    caches(&mut report);
    settings(&mut report, &ctx);
    let _ = io::stdout().write_all(report.text.as_bytes());
    Ok(())
}

#[derive(Default)]
struct Report {
    text: String,
}

impl Report {
    fn section(&mut self, title: &str) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.text += title;
        self.text.push('\n');
    }

    fn row(&mut self, name: &str, value: impl std::fmt::Display) {
        // Values of several lines are indented to their column.
        let value = value.to_string().replace('\n', &format!("\n{:34}", ""));
        self.text += &format!("  {name:<31} {value}\n");
    }
}

fn verdict(report: &mut Report, probe: &Probe) {
    match probe.usable() {
        Ok(device) => report.section(&format!(
            "Queries run on {} where it is faster, on the CPU elsewhere.",
            device.name
        )),
        Err(missing) => {
            report.section("Queries run on DataFusion's CPU operators: there is no usable GPU.");
            report.row("missing", missing.what);
            report.row("because", &missing.reason);
            report.row("to get it", missing.remedy);
        }
    }
}

fn version((major, minor): (u32, u32)) -> String {
    format!("{major}.{minor}")
}

fn software(report: &mut Report, probe: &Probe) {
    report.section("Software");
    report.row("galatea", env!("CARGO_PKG_VERSION"));
    report.row("datafusion", datafusion::DATAFUSION_VERSION);
    match &probe.driver {
        Ok(driver) => report.row(
            "CUDA driver",
            format!("found, speaks CUDA {}", version(driver.version)),
        ),
        Err(missing) => report.row(
            "CUDA driver",
            format!("not found: {}\nhint: {}", missing.reason, missing.remedy),
        ),
    }
    match &probe.nvrtc {
        Ok(nvrtc) => report.row(
            "NVRTC",
            format!(
                "{} at {} ({})",
                version(nvrtc.version),
                nvrtc.path.display(),
                nvrtc.found_by
            ),
        ),
        Err(missing) => report.row(
            "NVRTC",
            format!("not found: {}\nhint: {}", missing.reason, missing.remedy),
        ),
    }
}

fn bytes(bytes: u64) -> String {
    indicatif::BinaryBytes(bytes).to_string()
}

fn yes_no(value: bool) -> &'static str {
    if value { "yes" } else { "no" }
}

fn attributes(report: &mut Report, device: &DeviceInfo) {
    report.section(&format!("GPU {}: {}", device.ordinal, device.name));
    report.row("compute capability", version(device.compute_capability));
    report.row("multiprocessors", device.multiprocessors);
    report.row("device memory", bytes(device.total_memory));
    report.row("level-2 cache", bytes(device.l2_bytes));
    let shared = (
        bytes(device.shared_memory_per_block.into()),
        bytes(device.shared_memory_per_multiprocessor.into()),
    );
    report.row(
        "shared memory",
        format!("{} a block, {} a multiprocessor", shared.0, shared.1),
    );
    report.row(
        "registers",
        format!(
            "{} a block, {} a multiprocessor",
            device.registers_per_block, device.registers_per_multiprocessor
        ),
    );
    report.row(
        "threads",
        format!(
            "{} a block, {} a multiprocessor",
            device.max_threads_per_block, device.max_threads_per_multiprocessor
        ),
    );
    report.row("copy engines", device.copy_engines);
    report.row("PCI address", &device.pci);
    report.row("pageable memory access", yes_no(device.pageable_memory_access));
    report.row(
        "concurrent managed access",
        yes_no(device.concurrent_managed_access),
    );
    report.row("atomics between CPU and GPU", yes_no(device.host_native_atomics));
    report.row("cooperative launch", yes_no(device.cooperative_launch));
    report.row("memory pools", yes_no(device.memory_pools));
    report.row("virtual memory management", yes_no(device.virtual_memory));
    report.row("host memory registration", yes_no(device.host_register));
    report.row("error-correcting memory", yes_no(device.ecc));
}

fn rate(bytes_per_second: f64) -> String {
    format!("{:.1} GB/s", bytes_per_second / 1e9)
}

/// The calibration of the device, or the command that creates it. It is measured now if requested.
fn calibration(report: &mut Report, device: &Device, measure: bool) {
    report.section("Measured");
    let found = match measure {
        true => galatea_kernels::calibrate(device)
            .map(Some)
            .map_err(|error| error.to_string()),
        false => Calibration::load(device).map_err(|stale| stale.to_string()),
    };
    match found {
        Ok(Some(measured)) => {
            rates(report, &measured);
            constants(
                report,
                &format!("measured {}", date(measured.measured_at)),
                device,
                Some(&measured.grouping),
            );
        }
        Ok(None) => constants(report, SCALED, device, None),
        Err(error) => {
            report.row("failed", error);
            constants(report, SCALED, device, None);
        }
    }
}

const SCALED: &str =
    "an H200's, scaled to this device\nhint: galatea calibrate measures them in a few seconds";

fn rates(report: &mut Report, measured: &Calibration) {
    report.row("device memory, read", rate(measured.hbm_read));
    report.row("device memory, copy", rate(measured.hbm_copy));
    report.row("host to device, pinned", rate(measured.h2d));
    report.row("device to host, pinned", rate(measured.d2h));
    report.row("both at once", rate(measured.both_ways));
    report.row("host to device, pageable", rate(measured.h2d_pageable));
    report.row("pinning host memory", rate(measured.pinning));
    report.row(
        "kernel launch",
        format!("{:.1} us", measured.launch_nanoseconds / 1e3),
    );
    report.row(
        "launch and wait",
        format!("{:.1} us", measured.round_trip_nanoseconds / 1e3),
    );
    if let Some(times) = measured.chunks {
        report.row("small chunk, launched", format!("{:.1} us", times.launched / 1e3));
        report.row("small chunk, awaited", format!("{:.1} us", times.awaited / 1e3));
    }
}

/// The constants of the cost model of grouped aggregation.
fn constants(report: &mut Report, source: &str, device: &Device, measured: Option<&GroupingRates>) {
    report.row("constants of the cost model", source);
    for (name, value) in calibration::rates(&calibration::machine(device.info(), measured)).figures() {
        report.row(name, format!("{value:.4e}"));
    }
}

fn date(seconds: u64) -> String {
    let time = i64::try_from(seconds)
        .ok()
        .and_then(|seconds| DateTime::from_timestamp(seconds, 0));
    time.map_or_else(
        || "once".to_string(),
        |time| time.format("on %Y-%m-%d at %H:%M UTC").to_string(),
    )
}

fn host(report: &mut Report) {
    let machine = galatea_bench::machine::Machine::look(None, Some(String::new()));
    report.section("Host");
    report.row("machine", machine.description);
}

fn caches(report: &mut Report) {
    report.section("Caches");
    let cache = match CacheFolder::open(None) {
        Ok(cache) => cache,
        Err(refused) => return report.row("none, nothing is kept", refused),
    };
    let root = cache.path();
    report.row("directory", root.display());
    let limit = format!("{}, then those not used for longest leave", bytes(DISK_LIMIT));
    report.row("compiled kernels, at most", limit);
    let mut entries: Vec<_> = fs::read_dir(root).into_iter().flatten().flatten().collect();
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let (files, size) = usage(&entry.path());
        report.row(
            &entry.file_name().to_string_lossy(),
            format!("{} in {files} file(s)", bytes(size)),
        );
    }
}

/// The number of files and bytes below `path`.
fn usage(path: &Path) -> (u64, u64) {
    let entries = WalkDir::new(path).into_iter().flatten();
    entries
        .filter_map(|entry| entry.metadata().ok())
        .filter(|metadata| !metadata.is_dir())
        .fold((0, 0), |(files, size), metadata| {
            (files + 1, size + metadata.len())
        })
}

fn settings(report: &mut Report, ctx: &SessionContext) {
    let in_force = ctx.state().config_options().entries();
    report.section("Settings in force");
    for setting in GalateaConfig::reference()
        .into_iter()
        .chain(EngineSettings::reference())
    {
        let entry = in_force.iter().find(|entry| entry.key == setting.name);
        let value = entry.and_then(|entry| entry.value.clone()).unwrap_or_default();
        let note = if value == setting.default {
            ""
        } else {
            " (changed)"
        };
        report.row(&setting.name, format!("{value}{note}"));
    }
}
