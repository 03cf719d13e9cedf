//! Measures partitioned joins on a GPU, or tests the measurements on the emulated device.
//!
//! ```sh
//! partitions [--emulated] [--runs N] [--million N] [--sizes M,M,M] [--partitioned M] [--gigabytes N]
//!            [--seconds N] [--chunk-mib M,M] [--only-check] [FIGURE...]
//! ```
//!
//! A check of all figures with few tuples runs first. `--million` is the number of tuples that counts as a
//! million of the thesis, `--gigabytes` the limit of the state, and no figure starts after `--seconds`.
//! `chunks` runs by name only, with chunks of the sizes of `--chunk-mib`.

#![forbid(unsafe_code)]

use std::panic::AssertUnwindSafe;
use std::process::ExitCode;
use std::time::Instant;

use galatea_device::{Device, DeviceOptions, EmulatorOptions};
use galatea_experiments::partitioned::{EXTRA, FIGURES, Rig, Row, Scale, findings, run};

fn main() -> ExitCode {
    let mut scale = Scale::default();
    let (mut emulated, mut measure) = (false, true);
    let (mut seconds, mut chosen) = (u64::MAX, Vec::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut text = || arguments.next().unwrap_or_default();
        match argument.as_str() {
            "--emulated" => emulated = true,
            "--only-check" => measure = false,
            "--runs" => scale.runs = text().parse().unwrap_or(1),
            "--million" => scale.million = text().parse().unwrap_or(1),
            "--partitioned" => scale.partitioned = text().parse().unwrap_or(1),
            "--gigabytes" => scale.limit = text().parse::<u64>().unwrap_or(16) << 30,
            "--seconds" => seconds = text().parse().unwrap_or(u64::MAX),
            "--chunk-mib" => {
                // A MiB has 2^16 tuples.
                let bits = |mib: &str| mib.parse().ok().map(|mib: u32| 16 + mib.max(1).ilog2());
                scale.chunks = text().split(',').filter_map(bits).collect();
            }
            "--sizes" => scale.sizes = text().split(',').filter_map(|size| size.parse().ok()).collect(),
            _ => chosen.push(argument),
        }
    }
    let device = if emulated {
        scale = Scale::small();
        Device::emulated(EmulatorOptions::default(), DeviceOptions::default())
    } else {
        Device::gpu(0, DeviceOptions::default())
    };
    let outcome = device.and_then(|device| {
        let begun = Instant::now();
        if !emulated || !measure {
            check(&device, emulated)?;
            println!("checks ended after {:.1} s", begun.elapsed().as_secs_f64());
        }
        if !measure {
            return Ok(());
        }
        let mut rig = Rig::new(&device, scale.copied)?;
        println!("{:?}", rig.limits);
        println!("{}", Row::HEADER);
        for figure in FIGURES.into_iter().chain(EXTRA) {
            let by_default = chosen.is_empty() && FIGURES.contains(&figure);
            if !by_default && !chosen.iter().any(|chosen| chosen == figure) {
                continue;
            }
            if begun.elapsed().as_secs() >= seconds {
                println!("figure {figure} is left out after {seconds} s");
                continue;
            }
            let (mut rows, start) = (Vec::new(), Instant::now());
            let outcome = guarded(&mut rig, figure, &scale, &mut |row| {
                println!("{}", row.csv());
                rows.push(row);
            });
            for line in findings(&rows) {
                println!("{line}");
            }
            println!("figure {figure} took {:.1} s", start.elapsed().as_secs_f64());
            if let Err(error) = outcome {
                println!("figure {figure} failed: {error}");
                device.alive()?;
            }
        }
        Ok(())
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("failed: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs a figure. A wrong result is printed, so that other figures run.
fn guarded(
    rig: &mut Rig,
    figure: &str,
    scale: &Scale,
    out: &mut dyn FnMut(Row),
) -> galatea_device::Result<()> {
    let run = AssertUnwindSafe(|| run(rig, figure, scale, out));
    std::panic::catch_unwind(run).unwrap_or_else(|_| {
        println!("figure {figure} has a WRONG RESULT");
        Ok(())
    })
}

/// Runs all figures with few tuples, but on a GPU with all of its blocks.
fn check(device: &Device, emulated: bool) -> galatea_device::Result<()> {
    let scale = Scale {
        million: 2000,
        partitioned: 500,
        task_bits: 15,
        wide: vec![64, 256],
        join_fanouts: (vec![3, 5], vec![4, 6]),
        limit: (16 << 30) / 500,
        chunk_bits: 14,
        chunks: vec![13, 15],
        page_bits: 11,
        entries: 2048,
        ..Scale::small()
    };
    let scale = if emulated { Scale::small() } else { scale };
    let mut rig = Rig::new(device, scale.copied)?;
    for figure in FIGURES.into_iter().chain(EXTRA) {
        let start = Instant::now();
        guarded(&mut rig, figure, &scale, &mut |_| ())?;
        println!("check of figure {figure}: {:.1} s", start.elapsed().as_secs_f64());
    }
    Ok(())
}
