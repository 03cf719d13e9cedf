//! Measures joins on a GPU, or tests the measurements on the emulated device.
//!
//! ```sh
//! joins [--emulated] [--runs N] [--shrink N] [--budget-gib N] [--seconds N] [--seed N] [--out DIR]
//!       [--cpu-morsel-mib N] [--gpu-morsel-mib N] [--no-check] [--only-check] [--peer] [--check-shrink N] [EXPERIMENT...]
//! ```
//!
//! `--peer` opens a second device. The experiments with another device in the CPU's place are then measured,
//! and the others use it for the places of relations and tables; only the former unless experiments are
//! named.
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
use galatea_experiments::joins::{EXPERIMENTS, PEER, PLACES, Row, Scale, findings, run};
use galatea_experiments::transfer;

fn main() -> ExitCode {
    let mut scale = Scale::default();
    let (mut emulated, mut check, mut out, mut chosen) = (false, true, None, Vec::new());
    let (mut measure, mut with_peer) = (true, false);
    let mut check_shrink = None;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut text = || arguments.next().unwrap_or_default();
        let number = |text: String| text.parse::<u64>().unwrap_or(1);
        match argument.as_str() {
            "--emulated" => emulated = true,
            "--peer" => with_peer = true,
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
    let known = [EXPERIMENTS.as_slice(), &PEER, &[transfer::PEER]].concat();
    // Each of these measures nothing but the memory of another device.
    let with_other = [&PEER[..], &[transfer::PEER]].concat();
    let named = |names: &[&str], chosen: &[String]| chosen.iter().any(|name| names.contains(&name.as_str()));
    with_peer |= named(&with_other, &chosen);
    if with_peer && chosen.is_empty() {
        chosen.extend(PLACES.iter().chain(&with_other).map(|name| (*name).to_owned()));
    }
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
    if with_peer {
        let peer = match emulated {
            true => open(),
            false => Device::gpu(1, DeviceOptions::default()),
        };
        match peer {
            Ok(peer) => scale.peer = Some(peer),
            Err(error) => println!("no second device, so its memory is not measured: {error}"),
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
        let with_other = with_other.iter().copied().filter(|_| scale.peer.is_some());
        for name in EXPERIMENTS.into_iter().chain(with_other) {
            let mut rows = 0;
            match attempt(&device, name, &small, &mut |_| rows += 1) {
                Ok(lines) => {
                    // Times mean nothing here, but notes do.
                    let notes = lines.iter().filter(|line| line.starts_with(&format!("{name}: ")));
                    notes.for_each(|note| println!("check: {note}"));
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
    let measured = known.iter().copied().filter(|name| {
        let all = chosen.is_empty() && EXPERIMENTS.contains(name);
        measure && !emulated && (all || chosen.iter().any(|chosen| chosen == name))
    });
    for name in measured {
        if wrong.contains(&name) {
            println!("{name} is not measured: its check failed");
            continue;
        }
        let begun = Instant::now();
        let header = match name == transfer::PEER {
            true => transfer::Measured::HEADER,
            false => Row::HEADER,
        };
        let mut text = format!("{header}\n");
        println!("{header}");
        let outcome = attempt(&device, name, &scale, &mut |row: String| {
            println!("{row}");
            let _ = writeln!(text, "{row}");
        });
        let lines = outcome.unwrap_or_else(|reason| {
            wrong.push(name);
            vec![format!("{name} failed: {reason}")]
        });
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

/// Runs an experiment. Returns findings and notes. The error is that of the device, or the message of a wrong
/// answer; findings from rows before it are printed.
fn attempt(
    device: &Device,
    name: &str,
    scale: &Scale,
    out: &mut dyn FnMut(String),
) -> Result<Vec<String>, String> {
    let mut lines = Vec::new();
    let ran = catch_unwind(AssertUnwindSafe(|| {
        if name == transfer::PEER {
            let mut rows = Vec::new();
            let of_link = transfer::Scale {
                runs: scale.runs,
                peer: scale.peer.clone(),
                // The shrink of a check is larger.
                ..match scale.shrink > CHECK {
                    true => transfer::Scale::small(),
                    false => transfer::Scale::default(),
                }
            };
            let ran = transfer::run(device, name, &of_link, &mut |row| {
                out(row.csv());
                rows.push(row);
            });
            lines = transfer::findings(&rows);
            return ran;
        }
        let mut rows = Vec::new();
        let notes = run(device, name, scale, &mut |row| {
            out(row.csv());
            rows.push(row);
        });
        lines = findings(&rows);
        lines.extend(notes?);
        Ok::<_, galatea_memory::transfer::TransferError>(())
    }));
    match ran {
        Ok(Ok(())) => Ok(lines),
        Ok(Err(error)) => {
            lines.iter().for_each(|line| println!("{line}"));
            Err(error.to_string())
        }
        Err(_) => Err("a wrong answer, see above".to_owned()),
    }
}

/// Scales that shrink rows more than this number of times are those of checks.
const CHECK: u64 = 1 << 10;

fn failed(what: &str, error: &dyn std::error::Error) -> ExitCode {
    println!("{what} failed: {error}");
    ExitCode::FAILURE
}
