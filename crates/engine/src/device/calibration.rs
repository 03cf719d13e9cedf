//! The device parameters of the cost model of grouped aggregation.
//!
//! Sizes are queried from the driver. Rates are measured once per machine (`galatea calibrate`,
//! [`DeviceRuntime::calibrate`]) and loaded from the cache folder whenever the device is opened. Until they
//! are measured, they are an H200's rates, scaled to the number of multiprocessors. A stored calibration of
//! another device, driver or version is ignored with a warning: it never fails a query.
//!
//! [`DeviceRuntime::calibrate`]: crate::device::DeviceRuntime::calibrate

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use galatea_device::{Calibration, Device, DeviceInfo, GroupingRates};
use galatea_layout::model::Machine;

/// A device for the model: its own sizes, with the rates measured on it, or else the rates of the reference
/// machine.
#[must_use]
pub fn machine(info: &DeviceInfo, measured: Option<&GroupingRates>) -> Machine {
    let rates = measured.copied().unwrap_or_else(|| scaled(info));
    Machine {
        multiprocessors: info.multiprocessors,
        threads: info.max_threads_per_multiprocessor,
        blocks: info.max_blocks_per_multiprocessor,
        shared_bytes: info.shared_memory_per_multiprocessor.into(),
        shared_bytes_per_block: info.shared_memory_per_block.into(),
        l2_bytes: info.l2_bytes,
        shared_bytes_reserved: info.reserved_shared_memory_per_block.into(),
        measured: measured.is_some(),
        rounds_per_second: rates.rounds_per_second,
        update_latency: rates.update_latency,
        match_rounds: rates.match_rounds,
        memory_bytes_per_second: rates.memory_bytes_per_second,
        memory_bytes_in_flight: rates.memory_bytes_in_flight,
        global_atomics_per_second: rates.global_atomics_per_second,
        global_atomics_on_one_address: rates.global_atomics_on_one_address,
        ..Machine::H200
    }
}

/// The rates of a model.
#[must_use]
pub fn rates(machine: &Machine) -> GroupingRates {
    GroupingRates {
        rounds_per_second: machine.rounds_per_second,
        update_latency: machine.update_latency,
        match_rounds: machine.match_rounds,
        memory_bytes_per_second: machine.memory_bytes_per_second,
        memory_bytes_in_flight: machine.memory_bytes_in_flight,
        global_atomics_per_second: machine.global_atomics_per_second,
        global_atomics_on_one_address: machine.global_atomics_on_one_address,
    }
}

/// The reference machine's rates, scaled to the number of multiprocessors of a device.
fn scaled(info: &DeviceInfo) -> GroupingRates {
    let reference = Machine::H200;
    let size = f64::from(info.multiprocessors) / f64::from(reference.multiprocessors);
    GroupingRates {
        rounds_per_second: reference.rounds_per_second * size,
        memory_bytes_per_second: reference.memory_bytes_per_second * size,
        global_atomics_per_second: reference.global_atomics_per_second * size,
        ..rates(&reference)
    }
}

/// The calibration stored for a device; `None` if none matches, with a warning if a stored one is stale.
pub(crate) fn stored(device: &Device) -> Option<Calibration> {
    Calibration::load(device).unwrap_or_else(|stale| {
        tracing::warn!("{stale}");
        None
    })
}

/// A new calibration, with the rates that the model assumed before. Displays as a table.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibrated {
    /// The device's name.
    pub device: String,
    /// The measured calibration.
    pub measured: Calibration,
    /// The rates that the model used before.
    pub assumed: GroupingRates,
    /// Whether those rates were measured on this device, too.
    pub assumed_measured: bool,
    /// Path at which the calibration is stored.
    pub path: PathBuf,
    /// Duration of the measurement.
    pub took: Duration,
}

impl fmt::Display for Calibrated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let before = match self.assumed_measured {
            true => "before",
            false => "scaled from an H200",
        };
        writeln!(f, "{}, measured in {:.1} s", self.device, self.took.as_secs_f64())?;
        writeln!(
            f,
            "  {:<31} {:>11} {before:>20} {:>6}",
            "constant", "measured", "ratio"
        )?;
        let assumed = self.assumed.figures();
        for ((name, measured), (_, assumed)) in self.measured.grouping.figures().into_iter().zip(assumed) {
            writeln!(
                f,
                "  {name:<31} {measured:>11.4e} {assumed:>20.4e} {:>6.2}",
                measured / assumed
            )?;
        }
        let ways: Vec<(&str, f64)> = self.measured.link.figures().collect();
        if !ways.is_empty() {
            writeln!(f, "  bytes a second across the link, chunk by chunk")?;
        }
        for (name, rate) in ways {
            writeln!(f, "  {name:<31} {rate:>11.4e}")?;
        }
        if let Some(times) = self.measured.chunks {
            writeln!(f, "  nanoseconds of a small chunk that comes over the link")?;
            writeln!(f, "  {:<31} {:>11.4e}", "by a launch each", times.launched)?;
            writeln!(f, "  {:<31} {:>11.4e}", "by one that waits", times.awaited)?;
        }
        write!(f, "Kept in {}", self.path.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::DeviceRuntime;
    use galatea_device::{DeviceOptions, EmulatorOptions, LinkRates};
    use galatea_layout::Frequencies;
    use galatea_layout::model::{Accumulators, GroupedAggregation, Groups, Launch, predict};
    use galatea_memory::transfer::Method;

    fn device(folder: &tempfile::TempDir) -> Device {
        let options = DeviceOptions {
            cache_directory: Some(folder.path().to_path_buf()),
            ..DeviceOptions::default()
        };
        Device::emulated(EmulatorOptions::default(), options).expect("always there")
    }

    /// The calibration of an H200 with a hundredth of its memory bandwidth.
    fn slow_memory() -> Calibration {
        Calibration {
            measured_at: 1_795_248_383,
            hbm_read: 45e9,
            hbm_copy: 45e9,
            h2d: 1e9,
            d2h: 1e9,
            both_ways: 1e9,
            h2d_pageable: 1e9,
            pinning: 1e9,
            launch_nanoseconds: 2000.0,
            round_trip_nanoseconds: 7000.0,
            grouping: GroupingRates {
                memory_bytes_per_second: 45e9,
                ..rates(&Machine::H200)
            },
            link: LinkRates::default(),
            chunks: None,
        }
    }

    /// The device with an H200's sizes.
    fn h200(info: &DeviceInfo) -> DeviceInfo {
        let reference = Machine::H200;
        DeviceInfo {
            multiprocessors: reference.multiprocessors,
            max_threads_per_multiprocessor: reference.threads,
            max_blocks_per_multiprocessor: reference.blocks,
            shared_memory_per_multiprocessor: reference.shared_bytes as u32,
            shared_memory_per_block: reference.shared_bytes_per_block as u32,
            reserved_shared_memory_per_block: reference.shared_bytes_reserved as u32,
            ..info.clone()
        }
    }

    /// Predicted seconds of one count of 64 groups.
    fn predicted(machine: &Machine) -> f64 {
        let groups = Frequencies::zipf(64, 0.0).expect("frequencies");
        let aggregation = GroupedAggregation {
            rows: 200_000_000,
            row_bytes: 8.0,
            groups: Groups::Frequencies(&groups),
            accumulators: Accumulators {
                counts: 1,
                sums: 0,
                wide_sums: 0,
                high_halves: 0.0,
            },
            laid_out: None,
            instructions: 0.0,
        };
        let launch = Launch {
            threads: 256,
            rows_per_thread: 16,
            shared_bytes: machine.shared_bytes_per_block,
        };
        let choice = predict(&aggregation, &launch, machine);
        choice.best().map_or(f64::NAN, |(_, cost)| cost.seconds)
    }

    #[test]
    fn constants_are_scaled_until_they_are_measured() {
        let folder = tempfile::tempdir().expect("a folder");
        let runtime = DeviceRuntime::new(device(&folder)).expect("a runtime");
        let (before, multiprocessors) = (runtime.machine(), runtime.device().info().multiprocessors);
        let size = f64::from(multiprocessors) / 132.0;
        assert!(!before.measured && before.multiprocessors == multiprocessors);
        assert_eq!(before.rounds_per_second, Machine::H200.rounds_per_second * size);
        assert_eq!(before.update_latency, Machine::H200.update_latency);

        // A calibration that is stored while the device is open is found the next time it is opened.
        slow_memory().store(runtime.device()).expect("stored");
        assert_eq!(runtime.machine(), before);
        let runtime = DeviceRuntime::new(runtime.device().clone()).expect("a runtime");
        let after = runtime.machine();
        assert!(after.measured && after.multiprocessors == multiprocessors);
        assert_eq!(rates(&after), slow_memory().grouping);
        assert_eq!(runtime.calibration(), Some(slow_memory()));
        let h200 = h200(runtime.device().info());
        // The query is memory-bound, so a hundredth of the bandwidth makes it a hundred times slower.
        let (fast, slow) = (
            predicted(&Machine::H200),
            predicted(&machine(&h200, Some(&slow_memory().grouping))),
        );
        let ratio = slow / fast;
        assert!((80.0..=120.0).contains(&ratio), "{slow} / {fast} s");

        assert!(runtime.forget_calibration().expect("removed"));
        assert_eq!(runtime.machine(), before);
        assert!(!runtime.forget_calibration().expect("nothing to remove"));
    }

    #[test]
    fn stale_calibration_is_ignored() {
        let folder = tempfile::tempdir().expect("a folder");
        let device = device(&folder);
        let scaled = DeviceRuntime::new(device.clone()).expect("a runtime").machine();
        slow_memory().store(&device).expect("stored");
        let path = Calibration::path(&device).expect("a cache folder");
        let good = std::fs::read_to_string(&path).expect("a file");
        let wrong = [
            "{".to_string(),
            good.replace("\"multiprocessors\": ", "\"multiprocessors\": 9"),
            good.replace("27.0", "-27.0"),
            good.replace("\"version\": ", "\"version\": 9"),
        ];
        for text in wrong {
            assert_ne!(text, good);
            std::fs::write(&path, &text).expect("written");
            assert_eq!(
                DeviceRuntime::new(device.clone()).expect("a runtime").machine(),
                scaled,
                "{text}"
            );
        }
    }

    #[test]
    fn chunks_use_fastest_measured_transfer_method() {
        let folder = tempfile::tempdir().expect("a folder");
        let device = device(&folder);
        let chosen = || {
            DeviceRuntime::new(device.clone())
                .expect("a runtime")
                .chunk_transfer()
        };
        assert_eq!(chosen(), Method::Pinned);
        let all = LinkRates {
            pinned: Some(50e9),
            zero_copy: Some(60e9),
            ..LinkRates::default()
        };
        // Among the methods that copy memory of the store.
        for (pageable, staged, expected) in [
            (None, None, Method::Pinned),
            (Some(12e9), Some(50e9), Method::Pinned),
            (Some(51e9), Some(40e9), Method::Pageable),
            (Some(51e9), Some(52e9), Method::Staged),
        ] {
            let link = LinkRates {
                pageable,
                staged,
                ..all
            };
            Calibration {
                link,
                ..slow_memory()
            }
            .store(&device)
            .expect("stored");
            assert_eq!(chosen(), expected);
        }
    }

    #[test]
    fn the_emulated_device_is_not_calibrated() {
        let folder = tempfile::tempdir().expect("a folder");
        let runtime = DeviceRuntime::new(device(&folder)).expect("a runtime");
        let before = runtime.machine();
        let error = runtime.calibrate().expect_err("it has no times");
        assert!(
            matches!(error, galatea_device::DeviceError::NotTimed { .. }),
            "{error}"
        );
        assert_eq!(runtime.machine(), before);
    }

    #[test]
    fn calibration_report_compares_new_and_previous_rates() {
        let calibrated = Calibrated {
            device: "NVIDIA H200".to_string(),
            measured: slow_memory(),
            assumed: rates(&Machine::H200),
            assumed_measured: false,
            path: PathBuf::from("/cache/x.json"),
            took: Duration::from_millis(2300),
        };
        insta::assert_snapshot!(calibrated, @r"
        NVIDIA H200, measured in 2.3 s
          constant                           measured  scaled from an H200  ratio
          rounds_per_second                 2.4500e11            2.4500e11   1.00
          update_latency                     3.5000e1             3.5000e1   1.00
          match_rounds                       2.7000e1             2.7000e1   1.00
          memory_bytes_per_second           4.5000e10            4.5000e12   0.01
          memory_bytes_in_flight             3.0000e4             3.0000e4   1.00
          global_atomics_per_second         1.0000e11            1.0000e11   1.00
          global_atomics_on_one_address      1.3600e9             1.3600e9   1.00
        Kept in /cache/x.json
        ");
    }
}
