//! Measures joins on a GPU, or tests the measurements on the emulated device.
//!
//! ```sh
//! joins [--emulated] [--runs N] [--shrink N] [--budget-gib N] [--seconds N] [--seed N] [--out DIR]
//!       [--cpu-morsel-mib N] [--gpu-morsel-mib N] [--no-check] [--only-check] [--peer] [--check-shrink N] [EXPERIMENT...]
//! ```
//!
//! `--peer` measures tables in the memory of a second device, and nothing else unless it is named.
//!
//! It first runs all experiments on small relations, which checks the answer of every algorithm. An
//! experiment is not measured if its check fails. Rows go to the output and, with `--out`, to one file per
//! experiment; findings follow.

#![forbid(unsafe_code)]

use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::Instant;

use galatea_device::{Device, DeviceOptions, EmulatorOptions};
use galatea_experiments::joins::{EXPERIMENTS, PEER, Row, Scale, findings, run};

fn main() -> ExitCode {
    let mut scale = Scale::default();
    let (mut emulated, mut check, mut out, mut chosen) = (false, true, None, Vec::new());
    let mut measure = true;
    let mut check_shrink = None;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut text = || arguments.next().unwrap_or_default();
        let number = |text: String| text.parse::<u64>().unwrap_or(1);
        match argument.as_str() {
            "--emulated" => emulated = true,
            "--peer" => chosen.push(PEER.to_owned()),
            "--only-check" => measure = false,
            "--no-check" => check = false,
            "--runs" => scale.runs = number(text()) as usize,
            "--shrink" => scale.shrink = number(text()).max(1),
            "--budget-gib" => scale.budget = number(text()) << 30,
            "--check-shrink" => check_shrink = Some(number(text()).max(1)),
            "--seconds" => scale.seconds = number(text()) as f64,
            "--seed" => scale.seed = number(text()),
            "--cpu-morsel-mib" => scale.morsels.cpu = number(text()) << 20,
            "--gpu-morsel-mib" => scale.morsels.device = number(text()) << 20,
            "--out" => out = Some(text()),
            _ => chosen.push(argument),
        }
    }
    let known = [EXPERIMENTS.as_slice(), &[PEER]].concat();
    if let Some(unknown) = chosen.iter().find(|name| !known.contains(&name.as_str())) {
        println!("no experiment {unknown}: there are {}", known.join(", "));
        return ExitCode::FAILURE;
    }
    let open = || {
        if emulated {
            Device::emulated(EmulatorOptions::default(), DeviceOptions::default())
        } else {
            Device::gpu(0, DeviceOptions::default())
        }
    };
    let mut device = match open() {
        Ok(device) => device,
        Err(error) => return failed("opening the device", &error),
    };
    if chosen.iter().any(|name| name == PEER) {
        let peer = match emulated {
            true => open(),
            false => Device::gpu(1, DeviceOptions::default()),
        };
        match peer {
            Ok(peer) => scale.peer = Some(peer),
            Err(error) => println!("no second device, so {PEER} is not measured: {error}"),
        }
    }
    let info = device.info();
    println!(
        "device {}, {} multiprocessors, {} GiB; {} threads; shrink {}, {} runs",
        info.name,
        info.multiprocessors,
        info.total_memory >> 30,
        std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        scale.shrink,
        scale.runs
    );
    let mut wrong = Vec::new();
    if check || emulated {
        // On a GPU, enough rows for several blocks, pieces of generation and morsels.
        let small = Scale {
            shrink: check_shrink.unwrap_or(if emulated { 1 << 18 } else { 1 << 12 }),
            peer: scale.peer.clone(),
            ..Scale::small()
        };
        let begun = Instant::now();
        for name in EXPERIMENTS
            .into_iter()
            .chain(scale.peer.is_some().then_some(PEER))
        {
            let mut rows = 0;
            match attempt(&device, name, &small, &mut |_| rows += 1) {
                Ok(notes) => {
                    notes.iter().for_each(|note| println!("check: {note}"));
                    println!(
                        "check: {name}: {rows} right answers, {:.1} s",
                        begun.elapsed().as_secs_f64()
                    );
                }
                Err(reason) => {
                    println!("check: {name} failed after {rows} right answers: {reason}");
                    wrong.push(name);
                }
            }
            if device.alive().is_err() {
                // A new context replaces the lost one.
                device = match open() {
                    Ok(device) => device,
                    Err(error) => return failed("opening the device again", &error),
                };
            }
        }
    }
    let peer = scale.peer.is_some().then_some(PEER);
    let measured = EXPERIMENTS.into_iter().chain(peer).filter(|name| {
        let all = chosen.is_empty();
        measure && !emulated && (all || chosen.iter().any(|chosen| chosen == name))
    });
    for name in measured {
        if wrong.contains(&name) {
            println!("{name} is not measured: its check failed");
            continue;
        }
        let begun = Instant::now();
        let mut rows = Vec::new();
        let mut text = format!("{}\n", Row::HEADER);
        println!("{}", Row::HEADER);
        let outcome = attempt(&device, name, &scale, &mut |row: Row| {
            println!("{}", row.csv());
            let _ = writeln!(text, "{}", row.csv());
            rows.push(row);
        });
        let mut lines = findings(&rows);
        match outcome {
            Ok(notes) => lines.extend(notes),
            Err(reason) => {
                lines.push(format!("{name} failed: {reason}"));
                wrong.push(name);
            }
        }
        lines.iter().for_each(|line| println!("{line}"));
        println!("{name}: {:.1} s", begun.elapsed().as_secs_f64());
        if let Some(out) = &out {
            let written = std::fs::create_dir_all(out)
                .and_then(|()| std::fs::write(format!("{out}/{name}.csv"), &text))
                .and_then(|()| std::fs::write(format!("{out}/{name}.txt"), lines.join("\n") + "\n"));
            if let Err(error) = written {
                return failed(out, &error);
            }
        }
        if device.alive().is_err() {
            device = match open() {
                Ok(device) => device,
                Err(error) => return failed("opening the device again", &error),
            };
        }
    }
    match wrong.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// Runs an experiment. The error is that of the device, or the message of a wrong answer.
fn attempt(
    device: &Device,
    name: &str,
    scale: &Scale,
    out: &mut dyn FnMut(Row),
) -> Result<Vec<String>, String> {
    let ran = catch_unwind(AssertUnwindSafe(|| run(device, name, scale, out)));
    match ran {
        Ok(Ok(notes)) => Ok(notes),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("a wrong answer, see above".to_owned()),
    }
}

fn failed(what: &str, error: &dyn std::error::Error) -> ExitCode {
    println!("{what} failed: {error}");
    ExitCode::FAILURE
}
