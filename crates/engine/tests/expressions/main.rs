//! Differential tests of the expression compiler: SQL expressions over random columns with NULLs and edge
//! values, evaluated by DataFusion and by generated code on a device. Values, NULLs and errors have to agree
//! row by row, bit by bit.

mod device;
mod differential;
mod generate;
mod rows;

use differential::{Check, Target, check};
use galatea_device::testing;
use generate::{Generator, Kind};

/// Expressions that are worth a test of their own.
fn chosen(target: &Target) {
    let expressions = include_str!("chosen.sql")
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with("--"))
        .map(str::to_owned)
        .collect::<Vec<_>>();
    for (round, expressions) in expressions.chunks(60).enumerate() {
        let summary = check(target, round as u64, expressions, Check::AllLowered);
        assert_eq!(summary.compared, expressions.len(), "{summary:?}");
    }
}

/// Random expressions. A failure prints the seed and the expression.
fn random(target: &Target, seeds: std::ops::Range<u64>) {
    let (mut compared, mut made) = (0, 0);
    for seed in seeds {
        let mut generator = Generator::new(seed);
        let expressions: Vec<String> = (0..80)
            .map(|number| {
                let kind = Kind::ALL[number % Kind::ALL.len()];
                generator.expression(kind, 1 + number as u32 / 16 % 4)
            })
            .collect();
        made += expressions.len();
        compared += check(target, seed, &expressions, Check::WhatIsLowered).compared;
    }
    assert!(
        compared * 2 > made,
        "only {compared} of {made} were compared: the generator or lowering is broken"
    );
}

#[test]
fn chosen_expressions_agree() {
    chosen(&Target::emulated());
}

#[test]
fn random_expressions_agree() {
    random(&Target::emulated(), 0..10);
}

/// Hundreds of kernels; run after changes to the compiler.
#[test]
#[ignore = "minutes"]
fn many_random_expressions_agree() {
    random(&Target::emulated(), 10..400);
}

#[test]
fn expressions_agree_on_a_gpu() {
    let Some(device) = testing::gpu() else { return };
    let target = Target::Run(device);
    chosen(&target);
    random(&target, 0..3);
}

#[test]
fn generated_code_compiles_for_a_gpu() {
    let Some(nvrtc) = testing::nvrtc() else { return };
    let target = Target::Compile(nvrtc);
    chosen(&target);
    random(&target, 0..1);
}
