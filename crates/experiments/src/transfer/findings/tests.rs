//! Findings from constructed rows: claims that hold, and the same claims not holding.

use super::super::latency::Reach;
use super::super::measure::Rate;
use super::*;

/// A row with one run. The value is in the row's unit. The caller changes the other fields.
fn row(experiment: &'static str, source: Source, unit: &'static str, value: f64) -> Measured {
    let scale = match unit {
        "GB/s" => 1e9,
        "G tuples/s" => 16e9,
        _ => 1.0,
    };
    Measured {
        experiment,
        rate: Rate {
            source,
            access: Access::Read,
            piece: 4096,
            random: false,
            values: vec![value * scale],
        },
        threads: 0,
        both: false,
        shift: 0,
        selected: None,
        reach: None,
        unit,
    }
}

/// The outcomes of the findings with a claim that contains this text: whether each holds.
fn outcomes(lines: &[String], claim: &str) -> Vec<bool> {
    let of_claim = lines.iter().filter(|line| line.contains(claim));
    of_claim
        .map(|line| {
            assert!(
                line.ends_with(": holds") != line.contains(": does not hold, because "),
                "{line}"
            );
            line.ends_with(": holds")
        })
        .collect()
}

#[test]
fn findings_skip_unrun_experiments_and_name_missing_rows() {
    assert!(findings(&[]).is_empty());
    let lines = findings(&[row("latency", ZERO_COPY, "ns", 1238.0)]);
    assert_eq!(lines.len(), 3);
    for line in lines {
        assert!(
            line.ends_with("does not hold, because one of the two was not measured"),
            "{line}"
        );
    }
}

#[test]
fn link_latency_is_compared_with_gpu_and_cpu() {
    let rows = |link, device, cpu| {
        [
            row("latency", Source::Cpu, "ns", cpu),
            row("latency", Source::DeviceMemory, "ns", device),
            row("latency", ZERO_COPY, "ns", link),
        ]
    };
    let thesis = findings(&rows(434.0, 282.0, 67.0));
    assert_eq!(thesis.len(), 3);
    assert!(thesis.iter().all(|line| line.ends_with(": holds")), "{thesis:#?}");
    let pcie = findings(&rows(1238.0, 151.0, 90.0));
    assert_eq!(outcomes(&pcie, "longer than one of the device's memory"), [true]);
    assert_eq!(outcomes(&pcie, "1.54 times as long"), [false]);
    assert_eq!(outcomes(&pcie, "6 to 7 times"), [false]);
    assert!(pcie[1].contains("1238 ns, and 151 ns"), "{pcie:#?}");
}

#[test]
fn cpu_is_compared_for_sequential_and_random_reads() {
    let rows = |cpu: [f64; 2], link: [f64; 2]| {
        let of = |source, rates: [f64; 2]| {
            [false, true].map(|random| {
                let mut row = row("cpu", source, "GB/s", rates[usize::from(random)]);
                row.rate.random = random;
                row
            })
        };
        [of(Source::Cpu, cpu), of(ZERO_COPY, link)].concat()
    };
    let thesis = findings(&rows([100.0, 3.0], [63.0, 2.5]));
    assert_eq!(outcomes(&thesis, "1.38 to 2 times"), [true]);
    assert_eq!(outcomes(&thesis, "16 to 22 % slower"), [true]);
    let other = findings(&rows([300.0, 1.0], [50.0, 8.0]));
    assert_eq!(outcomes(&other, "1.38 to 2 times"), [false]);
    assert_eq!(outcomes(&other, "16 to 22 % slower"), [false]);
    assert!(
        other[1].contains(
            "the CPU reads 1.00 GB/s, kernels 8.00 over the link, 0.12 times, so the link is 700 % faster"
        ),
        "{other:#?}"
    );
}

#[test]
fn probes_are_compared_by_transfer_method() {
    let rows = |rates: [(Method, f64); 7]| {
        let rows = rates.map(|(method, rate)| {
            // Rows of tuples have the same values in another unit.
            let of = |unit, rate| row("probe", Source::Way(method), unit, rate);
            [of("GB/s", rate), of("G tuples/s", rate / 16.0)]
        });
        rows.concat()
    };
    use Method::{DynamicPinning, Pageable, Pinned, Staged, UnifiedMigration, UnifiedPrefetch, ZeroCopy};
    let thesis = findings(&rows([
        (Pageable, 2.0),
        (Staged, 10.6),
        (DynamicPinning, 2.2),
        (Pinned, 11.3),
        (UnifiedPrefetch, 6.3),
        (UnifiedMigration, 3.2),
        (ZeroCopy, 11.4),
    ]));
    assert_eq!(thesis.len(), 6);
    assert!(thesis.iter().all(|line| line.ends_with(": holds")), "{thesis:#?}");
    let other = findings(&rows([
        (Pageable, 6.1),
        (Staged, 11.8),
        (DynamicPinning, 34.2),
        (Pinned, 52.0),
        (UnifiedPrefetch, 53.0),
        (UnifiedMigration, 48.7),
        (ZeroCopy, 50.4),
    ]));
    for claim in [
        "needs pinned memory",
        "within 8 %",
        "72 % slower",
        "45 % slower",
        "less than half",
        "are the slowest",
    ] {
        assert_eq!(outcomes(&other, claim), [false], "{claim}: {other:#?}");
    }
    assert!(
        other[1].contains("staged copy has 11.8 GB/s of the 50.4 of zero-copy, 77 % less"),
        "{other:#?}"
    );
}

#[test]
fn branches_are_compared_with_predication_and_the_cpu() {
    let rows = |cpu: f64, branch: f64, predicate: f64| {
        let of = |source, by, rate| {
            let mut rows = [0.013, 1.0].map(|selected| {
                let mut row = row("selectivity", source, "GB/s", rate);
                row.selected = Some((selected, by));
                row
            });
            // The rate of selecting all rows does not matter.
            rows[1].rate.values = vec![1e15];
            rows
        };
        [
            of(Source::Cpu, "predicate", cpu),
            of(ZERO_COPY, "branch", branch),
            of(ZERO_COPY, "predicate", predicate),
        ]
        .concat()
    };
    let thesis = findings(&rows(115.0, 100.0, 60.0));
    assert_eq!(outcomes(&thesis, "a branch beats predication"), [true]);
    assert_eq!(outcomes(&thesis, "the CPU is fastest"), [true]);
    let other = findings(&rows(40.0, 45.0, 47.0));
    assert_eq!(outcomes(&other, "a branch beats predication"), [false]);
    assert_eq!(outcomes(&other, "the CPU is fastest"), [false]);
    assert!(other[1].contains("47.0 by zero-copy and predicate"), "{other:#?}");
}

/// A row of pieces.
fn piece(access: Access, piece: u64, random: bool, shift: u64, rate: f64) -> Measured {
    let mut row = row("pieces", ZERO_COPY, "GB/s", rate);
    row.rate = Rate {
        access,
        piece,
        random,
        ..row.rate
    };
    row.shift = shift;
    row
}

#[test]
fn access_sizes_are_compared_by_direction_and_alignment() {
    let rows = |reads: [f64; 4], writes: [f64; 4], shifted: [f64; 2]| {
        let sizes = [4, 64, 128, 512];
        let of = |access, rates: [f64; 4], shifted| {
            let random = sizes.into_iter().zip(rates);
            let mut rows: Vec<Measured> = random
                .map(|(bytes, rate)| piece(access, bytes, true, 0, rate))
                .collect();
            rows.push(piece(access, 512, true, 16, shifted));
            rows.push(piece(access, 4096, false, 0, 60.0));
            rows
        };
        let mut rows = [
            of(Access::Read, reads, shifted[0]),
            of(Access::Write, writes, shifted[1]),
        ]
        .concat();
        rows.reverse();
        findings(&rows)
    };
    let thesis = rows([2.5, 40.0, 60.0, 60.0], [1.6, 25.0, 60.0, 60.0], [48.0, 27.0]);
    assert_eq!(thesis.len(), 7);
    assert!(thesis.iter().all(|line| line.ends_with(": holds")), "{thesis:#?}");
    let other = rows([2.5, 40.0, 39.0, 60.0], [2.5, 41.0, 40.0, 50.0], [59.0, 50.0]);
    for claim in ["grow with their size", "of 128 bytes reach the sequential rate"] {
        assert_eq!(outcomes(&other, claim), [false; 2], "{claim}: {other:#?}");
    }
    assert_eq!(outcomes(&other, "faster than writes"), [false]);
    assert_eq!(outcomes(&other, "off by 16 bytes"), [false; 2]);
    let has = |part: &str| other.iter().any(|line| line.contains(part));
    assert!(has("within a tenth of that at 512 bytes, 60.0"), "{other:#?}");
    assert!(has("no random ones come within a tenth of that"), "{other:#?}");
    assert!(has("+0 % at 4 bytes"), "{other:#?}");
}

#[test]
fn tlb_reach_is_where_latency_increases() {
    let rows = |device: &[(usize, f64)], host: &[(usize, f64)]| {
        let of = |source, times: &[(usize, f64)]| {
            let rows = times.iter().flat_map(|(gibibytes, time)| {
                [16, 32].map(|stride| {
                    let mut row = row("tlb", source, "ns", *time);
                    row.reach = Some(Reach {
                        extent: gibibytes * GIB,
                        stride: stride << 20,
                    });
                    row
                })
            });
            rows.collect::<Vec<_>>()
        };
        let mut rows = [of(Source::DeviceMemory, device), of(ZERO_COPY, host)].concat();
        rows.reverse();
        findings(&rows)
    };
    let thesis = rows(
        // A slow first launch is not a step.
        &[(1, 300.0), (2, 152.0), (8, 155.0), (12, 226.0)],
        &[(1, 450.0), (8, 450.0), (16, 533.0), (32, 540.0)],
    );
    assert_eq!(outcomes(&thesis, "the TLB reaches"), [true, true]);
    assert!(
        thesis[0]
            .contains("beyond 8 GiB: with strides of 16 MiB 152 ns at best, 155 at 8 GiB, 226 at 12 GiB"),
        "{thesis:#?}"
    );
    assert!(
        thesis[1].contains("up to 32 GiB, the most that was measured"),
        "{thesis:#?}"
    );
    let other = rows(&[(1, 152.0), (64, 160.0)], &[(1, 1200.0), (4, 2600.0)]);
    assert_eq!(outcomes(&other, "the TLB reaches"), [false, false]);
    assert!(other[0].contains("no step beyond"), "{other:#?}");
    let lines = rows(&[(1, 152.0), (8, 155.0)], &[]);
    assert!(lines[1].ends_with("host memory was not measured"), "{lines:#?}");
}
