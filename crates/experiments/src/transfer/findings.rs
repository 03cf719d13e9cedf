//! Compares the thesis' results with measured rows: the published result, the measured facts, and whether the
//! result holds.

use galatea_memory::transfer::{Access, Method};

use super::experiments::Measured;
use super::measure::Source;

mod peer;
mod rows;
#[cfg(test)]
mod tests;

use peer::peer_probe;
use rows::{Rows, ZERO_COPY, about, found, loses, loss, percent};

const GIB: usize = 1 << 30;

/// The findings from rows of figures 3.2, 3.11, 3.14, 4.5 and 4.6 of the thesis. Each line ends in "holds",
/// or in "does not hold, because" and the figures that contradict it.
#[must_use]
pub fn findings(rows: &[Measured]) -> Vec<String> {
    let mut lines = Vec::new();
    for (experiment, say) in [
        ("latency", latency as fn(&Rows<'_>, &mut Vec<String>)),
        ("cpu", cpu),
        ("probe", probe),
        (super::experiments::PEER, peer_probe),
        ("selectivity", selectivity),
        ("pieces", granularity),
        ("pieces", alignment),
        ("tlb", tlb),
    ] {
        let rows: Vec<&Measured> = rows.iter().filter(|row| row.experiment == experiment).collect();
        if !rows.is_empty() {
            say(&Rows(rows), &mut lines);
        }
    }
    lines
}

/// Figure 3.2: a load over the link, compared with one of the device's memory, and the CPU's.
fn latency(rows: &Rows<'_>, lines: &mut Vec<String>) {
    let link = rows.of(ZERO_COPY);
    let over = |source| Some((link?, rows.of(source)?));
    let device = over(Source::DeviceMemory);
    let facts = |(link, device): (f64, f64)| {
        format!(
            "it takes {link:.0} ns, and {device:.0} ns of the device's memory, {:.2} times as long",
            link / device
        )
    };
    let longer = device.map(|both| (facts(both), both.0 > both.1));
    const WHAT: &str = "one of the two";
    let thesis = "a load over the link takes longer than one of the device's memory";
    lines.push(found("figure 3.2c", thesis, longer, WHAT));
    let by = device.map(|both| (facts(both), about(both.0 / both.1, (1.54, 1.54))));
    lines.push(found(
        "figure 3.2c",
        "it takes 1.54 times as long over NVLink 2.0",
        by,
        WHAT,
    ));
    let cpu = over(Source::Cpu).map(|(link, cpu)| {
        let ratio = link / cpu;
        let facts = format!("it takes {link:.0} ns, and {cpu:.0} ns of the CPU, {ratio:.1} times as long");
        (facts, about(ratio, (6.0, 7.0)))
    });
    let thesis = "a load over the link takes 6 to 7 times as long as the CPU's of its memory";
    lines.push(found("figure 3.2b", thesis, cpu, WHAT));
}

/// Figure 3.2b: 4-byte reads of the CPU, and of kernels over the link.
fn cpu(rows: &Rows<'_>, lines: &mut Vec<String>) {
    let both = |random| {
        let of = |source| rows.median(|row| row.rate.source == source && row.rate.random == random);
        Some((of(Source::Cpu)?, of(ZERO_COPY)?))
    };
    let facts = |(cpu, link): (f64, f64)| {
        format!(
            "the CPU reads {cpu:.2} GB/s, kernels {link:.2} over the link, {:.2} times",
            cpu / link
        )
    };
    let sequential = both(false).map(|both| (facts(both), about(both.0 / both.1, (1.38, 2.0))));
    let thesis = "the CPU reads its memory in order at 1.38 to 2 times the link's rate";
    lines.push(found("figure 3.2b", thesis, sequential, "one of the two"));
    let random = both(true).map(|both| {
        let loss = loss(both.1, both.0);
        let by = percent(loss, "slower", "faster");
        let facts = format!("{}, so the link is {by}", facts(both));
        (facts, (6.0..=32.0).contains(&loss))
    });
    let thesis = "at random places the link is 16 to 22 % slower than the CPU";
    lines.push(found("figure 3.2b", thesis, random, "one of the two"));
}

/// Figure 3.11: the probe of a join with tuples from each transfer method.
fn probe(rows: &Rows<'_>, lines: &mut Vec<String>) {
    const FIGURE: &str = "figure 3.11";
    let of = |method: Method| rows.best(|way| way == method).map(|best| best.1);
    let zero_copy = of(Method::ZeroCopy);
    let pinned = [Method::Pinned, Method::PinnedPieces, Method::ZeroCopy];
    let need = || {
        let (with, most) = rows.best(|way| pinned.contains(&way))?;
        let (without, other) = rows.best(|way| !pinned.contains(&way) && way != Method::Coherence)?;
        let facts = format!(
            "{with} has {most:.1} GB/s, {without}, the best of the others, {other:.1}, {:.0} % of it",
            100.0 * other / most
        );
        Some((facts, other < most))
    };
    let thesis = "the full rate needs pinned memory";
    lines.push(found(
        FIGURE,
        thesis,
        need(),
        "a way with pinned memory, or one without,",
    ));

    let beside = |method: Method| Some((of(method)?, zero_copy?));
    let facts = |method: Method, (rate, zero_copy): (f64, f64)| {
        format!(
            "{method} has {rate:.1} GB/s of the {zero_copy:.1} of zero-copy, {}",
            percent(loss(rate, zero_copy), "less", "more")
        )
    };
    let staged =
        beside(Method::Staged).map(|both| (facts(Method::Staged, both), loss(both.0, both.1) <= 8.0));
    lines.push(found(
        FIGURE,
        "staged copies are within 8 % of zero-copy",
        staged,
        "one of the two",
    ));
    for (method, thesis) in [(Method::UnifiedMigration, 72.0), (Method::UnifiedPrefetch, 45.0)] {
        let lost = beside(method).map(|both| (facts(method, both), loses(loss(both.0, both.1), thesis)));
        let thesis = format!("{method} is {thesis:.0} % slower than zero-copy");
        lines.push(found(FIGURE, &thesis, lost, "one of the two"));
    }

    let slow = [Method::Pageable, Method::DynamicPinning];
    let text = |rates: &[(Method, f64)]| {
        let texts = rates.iter().map(|(method, rate)| format!("{method} {rate:.1}"));
        texts.collect::<Vec<_>>().join(", ")
    };
    let slow_rates = slow.iter().map(|method| Some((*method, of(*method)?)));
    let slow_rates: Option<Vec<(Method, f64)>> = slow_rates.collect();
    let much = slow_rates.as_ref().zip(zero_copy).map(|(slow, zero_copy)| {
        let facts = format!("in GB/s, {}, and zero-copy {zero_copy:.1}", text(slow));
        (facts, slow.iter().all(|(_, rate)| *rate < zero_copy / 2.0))
    });
    let thesis = "pageable copies and dynamic pinning have less than half of the rate of zero-copy";
    lines.push(found(FIGURE, thesis, much, "one of these"));
    let others = Method::ALL.into_iter().filter(|method| !slow.contains(method));
    let others: Vec<(Method, f64)> = others.filter_map(|method| Some((method, of(method)?))).collect();
    let slowest = slow_rates.filter(|_| !others.is_empty()).map(|slow| {
        let most = slow.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
        let holds = others.iter().all(|(_, rate)| *rate > most);
        (format!("in GB/s, {}, and {}", text(&slow), text(&others)), holds)
    });
    let thesis = "pageable copies and dynamic pinning are the slowest";
    lines.push(found(FIGURE, thesis, slowest, "one of these"));
}

/// Figure 3.14: Query 6, which selects 1.3 % of its rows.
fn selectivity(rows: &Rows<'_>, lines: &mut Vec<String>) {
    const FIGURE: &str = "figure 3.14";
    const SELECTED: f64 = 0.013;
    let at = |row: &&&Measured| {
        row.selected
            .is_some_and(|(selected, _)| (selected - SELECTED).abs() < 1e-6)
    };
    let rows = Rows(rows.0.iter().filter(at).copied().collect());
    let by = |name: &str| {
        rows.median(|row| row.rate.source == ZERO_COPY && row.selected.is_some_and(|(_, by)| by == name))
    };
    let branch = by("branch").zip(by("predicate")).map(|(branch, predicate)| {
        let facts =
            format!("branches have {branch:.1} GB/s of all columns' bytes, predication {predicate:.1}");
        (facts, branch > predicate)
    });
    let thesis = "a branch beats predication over the link where 1.3 % of the rows are selected";
    lines.push(found(FIGURE, thesis, branch, "zero-copy"));
    let greatest = |of_cpu: bool| {
        let rows = rows
            .0
            .iter()
            .filter(|row| (row.rate.source == Source::Cpu) == of_cpu);
        rows.map(|row| (row.median(), *row))
            .max_by(|a, b| a.0.total_cmp(&b.0))
    };
    let cpu = greatest(true).zip(greatest(false)).map(|((cpu, _), (link, best))| {
        let by = best.selected.map_or("", |(_, by)| by);
        let facts = format!(
            "the CPU has {cpu:.1} GB/s, kernels have {link:.1} by {} and {by}, so the CPU has {:.2} times their rate",
            best.rate.source,
            cpu / link
        );
        (facts, (1.0..=1.2).contains(&(cpu / link)))
    });
    let thesis = "the CPU is fastest, by up to 20 %, where 1.3 % of the rows are selected";
    lines.push(found(FIGURE, thesis, cpu, "one of the two"));
}

/// Rates of unshifted pieces of at most `most` bytes, by the bytes of a piece.
fn by_piece(rows: &Rows<'_>, access: Access, random: bool, most: u64) -> Vec<(u64, f64)> {
    let chosen = |row: &&&Measured| {
        let rate = &row.rate;
        rate.access == access && rate.random == random && row.shift == 0 && rate.piece <= most
    };
    let mut rates: Vec<(u64, f64)> = rows
        .0
        .iter()
        .filter(chosen)
        .map(|row| (row.rate.piece, row.median()))
        .collect();
    rates.sort_by_key(|(piece, _)| *piece);
    rates
}

/// Figure 4.5a: the rate of random pieces by their bytes.
fn granularity(rows: &Rows<'_>, lines: &mut Vec<String>) {
    const FIGURE: &str = "figure 4.5a";
    const LINE: u64 = 128;
    let text = |rates: &[(u64, f64)]| {
        let texts = rates.iter().map(|(piece, rate)| format!("{rate:.2} at {piece}"));
        texts.collect::<Vec<_>>().join(", ")
    };
    for (access, name) in [(Access::Read, "reads"), (Access::Write, "writes")] {
        let rates = by_piece(rows, access, true, LINE);
        let grow = (rates.len() > 1).then(|| {
            let holds = rates.windows(2).all(|pair| pair[1].1 > pair[0].1);
            (format!("in GB/s by bytes, {}", text(&rates)), holds)
        });
        let thesis = format!("random {name} grow with their size, up to 128 bytes");
        lines.push(found(FIGURE, &thesis, grow, "more than one size"));

        let sequential = by_piece(rows, access, false, u64::MAX)
            .into_iter()
            .map(|(_, rate)| rate);
        let sequential = sequential.max_by(f64::total_cmp);
        let reach = |sequential: f64| {
            let rates = by_piece(rows, access, true, u64::MAX);
            let (_, at_line) = rates.iter().find(|(piece, _)| *piece == LINE)?;
            let first = rates.iter().find(|(_, rate)| *rate >= 0.9 * sequential);
            let facts = format!(
                "they have {at_line:.1} GB/s at 128 bytes, sequential ones {sequential:.1}, and {}",
                match first {
                    Some((piece, rate)) =>
                        format!("random ones come within a tenth of that at {piece} bytes, {rate:.1}"),
                    None => "no random ones come within a tenth of that".to_owned(),
                }
            );
            Some((facts, *at_line >= 0.9 * sequential))
        };
        let thesis = format!("random {name} of 128 bytes reach the sequential rate");
        lines.push(found(
            FIGURE,
            &thesis,
            sequential.and_then(reach),
            "one of the two",
        ));
    }
    let reads = by_piece(rows, Access::Read, true, LINE / 2);
    let writes = by_piece(rows, Access::Write, true, LINE / 2);
    let gain = |(piece, read): &(u64, f64)| {
        let (_, write) = writes.iter().find(|(other, _)| other == piece)?;
        Some((*piece, 100.0 * (read / write - 1.0)))
    };
    let gains: Vec<(u64, f64)> = reads.iter().filter_map(gain).collect();
    let faster = (!gains.is_empty()).then(|| {
        let texts = gains
            .iter()
            .map(|(piece, gain)| format!("{gain:+.0} % at {piece} bytes"));
        let facts = format!(
            "reads have, beside writes, {}",
            texts.collect::<Vec<_>>().join(", ")
        );
        let holds = gains.iter().all(|(_, gain)| (34.0..=84.0).contains(gain));
        (facts, holds)
    });
    let thesis = "random reads of up to 64 bytes are 44 to 74 % faster than writes";
    lines.push(found(FIGURE, thesis, faster, "one of the two"));
}

/// Figure 4.5b: random pieces of 512 bytes, misaligned by 16 bytes.
fn alignment(rows: &Rows<'_>, lines: &mut Vec<String>) {
    for (access, name, thesis) in [(Access::Read, "reads", 20.0), (Access::Write, "writes", 56.0)] {
        let at = |shift| {
            rows.median(|row| {
                let rate = &row.rate;
                rate.access == access && rate.random && rate.piece == 512 && row.shift == shift
            })
        };
        let lost = at(0).zip(at(16)).map(|(aligned, shifted)| {
            let loss = loss(shifted, aligned);
            let facts = format!(
                "they have {shifted:.1} GB/s instead of {aligned:.1}, {}",
                percent(loss, "less", "more")
            );
            (facts, loses(loss, thesis))
        });
        let thesis = format!("random {name} of 512 bytes lose {thesis:.0} % where they are off by 16 bytes");
        lines.push(found("figure 4.5b", &thesis, lost, "one of the two"));
    }
}

/// The extent of a chain from which its loads take longer.
struct Step {
    stride: usize,
    /// The minimum nanoseconds over all extents.
    base: f64,
    /// The largest extent before the step, and its nanoseconds.
    reach: (usize, f64),
    /// The first extent after the step, if one exists, and its nanoseconds.
    beyond: Option<(usize, f64)>,
}

impl Step {
    /// Finds the step of each stride. After it, loads take more than `factor` times the minimum for all
    /// extents.
    fn find(rows: &Rows<'_>, source: Source, factor: f64) -> Vec<Self> {
        let chains = rows.0.iter().filter(|row| row.rate.source == source);
        let mut chains: Vec<(usize, usize, f64)> = chains
            .filter_map(|row| Some((row.reach?.stride, row.reach?.extent, row.median())))
            .collect();
        chains.sort_by_key(|(stride, extent, _)| (*stride, *extent));
        let of_stride = |chains: &[(usize, usize, f64)]| {
            let base = chains.iter().map(|chain| chain.2).min_by(f64::total_cmp)?;
            let within = |chain: &(usize, usize, f64)| chain.2 <= factor * base;
            let last = chains.iter().rposition(within)?;
            let at = |place: usize| chains.get(place).map(|(_, extent, time)| (*extent, *time));
            Some(Self {
                stride: chains.first()?.0,
                base,
                reach: at(last)?,
                beyond: at(last + 1),
            })
        };
        chains.chunk_by(|a, b| a.0 == b.0).filter_map(of_stride).collect()
    }

    fn text(&self) -> String {
        let (extent, time) = self.reach;
        let beyond = match self.beyond {
            Some((extent, time)) => format!("{time:.0} at {}", size(extent)),
            None => "no step beyond".to_owned(),
        };
        format!(
            "with strides of {} {:.0} ns at best, {time:.0} at {}, {beyond}",
            size(self.stride),
            self.base,
            size(extent)
        )
    }
}

fn size(bytes: usize) -> String {
    match (bytes / GIB, bytes >> 20) {
        (0, 0) => format!("{} KiB", bytes >> 10),
        (0, mebibytes) => format!("{mebibytes} MiB"),
        _ => format!("{} GiB", bytes as f64 / GIB as f64),
    }
}

/// Figure 4.6: the extent that chains reach before their loads take longer.
fn tlb(rows: &Rows<'_>, lines: &mut Vec<String>) {
    // Misses take 1.5 times as long on the thesis' device, and 7 times over its link.
    for (source, memory, factor, thesis) in [
        (Source::DeviceMemory, "the device's memory", 1.25, 8),
        (ZERO_COPY, "host memory", 2.0, 32),
    ] {
        let steps = Step::find(rows, source, factor);
        let texts: Vec<String> = steps.iter().map(Step::text).collect();
        let facts = steps.iter().map(|step| step.reach.0).min().map(|reach| {
            let until = match steps.iter().any(|step| step.beyond.is_some()) {
                true => format!(
                    "loads take more than {factor} times as long beyond {}",
                    size(reach)
                ),
                false => format!(
                    "loads take no more than {factor} times as long up to {}, the most that was measured",
                    size(reach)
                ),
            };
            (format!("{until}: {}", texts.join("; ")), reach == thesis * GIB)
        });
        let thesis = format!("the TLB reaches {thesis} GiB of {memory}");
        lines.push(found("figure 4.6", &thesis, facts, memory));
    }
}
