//! Differential tests of the expression compiler: SQL expressions over random columns with NULLs and edge values, evaluated by
//! DataFusion and by generated code on the emulated device. Values, NULLs and errors have to agree row by row, bit by bit.

mod device;
mod differential;
mod generate;
mod rows;

use differential::{Check, check};
use generate::{Generator, Kind};

/// Expressions whose agreement is worth a test of its own.
#[test]
fn chosen_expressions_agree() {
    let expressions = include_str!("chosen.sql")
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with("--"))
        .map(str::to_owned)
        .collect::<Vec<_>>();
    for (round, expressions) in expressions.chunks(60).enumerate() {
        let summary = check(round as u64, expressions, Check::AllLowered);
        assert_eq!(summary.compared, expressions.len(), "{summary:?}");
    }
}

/// Random expressions. A failure prints the seed and the expression.
#[test]
fn random_expressions_agree() {
    let mut compared = 0;
    for seed in 0..10 {
        let mut generator = Generator::new(seed);
        let expressions: Vec<String> = (0..80)
            .map(|number| {
                let kind = Kind::ALL[number % Kind::ALL.len()];
                generator.expression(kind, 1 + number as u32 / 16 % 4)
            })
            .collect();
        compared += check(seed, &expressions, Check::WhatIsLowered).compared;
    }
    assert!(
        compared > 200,
        "only {compared} expressions were compared: the generator or lowering is broken"
    );
}
