//! Findings on the memory of relations and of the table: figures 3.12 and 3.13.

use super::rows::{GPU, ON_DEVICE, ON_PEER, Rows, found, loss};

/// Values of the parameter: the device, another device, the host.
const DEVICE: f64 = 0.0;
const PEER: f64 = 1.0;
const HOST: f64 = 2.0;

fn name(place: f64) -> &'static str {
    match place {
        PEER => "in the memory of another device",
        HOST => "in host memory",
        _ => "on the device",
    }
}

/// The rate of a workload with its relations in a memory.
fn with_relations(rows: &Rows<'_>, workload: &str, place: f64) -> Option<f64> {
    let algorithm = match place {
        DEVICE => ON_DEVICE,
        PEER => ON_PEER,
        _ => GPU,
    };
    rows.of_workload(algorithm, workload, place)
}

/// The nearest other memory that was measured: one hop away.
fn one_hop(measured: impl Fn(f64) -> bool) -> f64 {
    if measured(PEER) { PEER } else { HOST }
}

pub(super) fn relations(rows: &Rows<'_>, lines: &mut Vec<String>) {
    const FIGURE: &str = "figure 3.12";
    let rate = |workload: &'static str, place| with_relations(rows, workload, place);
    let hop = one_hop(|place| rate("A", place).is_some());
    let facts = |workload: &'static str| {
        let (device, far) = (rate(workload, DEVICE)?, rate(workload, HOST)?);
        let near = rate(workload, hop)?;
        let facts = format!(
            "{device:.2} G tuples/s with relations on the device become {near:.2} {}, {:.0} % less, and {far:.2} {}, {:.0} % less",
            name(hop),
            loss(near, device),
            name(HOST),
            loss(far, device)
        );
        Some((facts, device, near, far))
    };
    let a = facts("A").map(|(facts, device, near, far)| {
        let losses = [loss(near, device), loss(far, device)];
        let holds = losses.iter().all(|loss| (11.0..=58.0).contains(loss));
        (facts, holds)
    });
    let thesis = "workload A loses 16 to 53 % of its rate with 1 to 3 hops to the relations";
    lines.push(found(FIGURE, thesis, a));
    let b = facts("B").map(|(facts, device, near, _)| {
        let times = device / near;
        let facts = format!("{facts}: {times:.1} times the rate of one hop");
        (facts, (3.6..=4.4).contains(&times))
    });
    let thesis = "workload B, whose table is in the cache, has 4 times the rate of one hop with relations on the device";
    lines.push(found(FIGURE, thesis, b));
    let far = facts("B").filter(|_| hop == PEER).map(|(_, _, near, far)| {
        let lost = loss(far, near);
        let facts = format!("{near:.2} G tuples/s become {far:.2} from host memory, {lost:.0} % less");
        (facts, (lost - 46.0).abs() <= 10.0)
    });
    let thesis = "workload B loses 46 % from the nearest to the farthest memory beyond the device's";
    match far {
        None if hop == HOST => lines.push(format!(
            "{FIGURE}: {thesis}: only one memory beyond the device's could be measured"
        )),
        far => lines.push(found(FIGURE, thesis, far)),
    }
    let c = facts("C").zip(facts("B")).map(|(c, b)| {
        let losses = (loss(c.2, c.1), loss(b.2, b.1));
        let facts = format!(
            "{}; C loses {:.0} % with one hop, B {:.0} %",
            c.0, losses.0, losses.1
        );
        (facts, losses.0 < losses.1)
    });
    let thesis = "random accesses to device memory dominate workload C, so hops cost it less than B";
    lines.push(found(FIGURE, thesis, c));
}

pub(super) fn tables(rows: &Rows<'_>, lines: &mut Vec<String>) {
    const FIGURE: &str = "figure 3.13";
    for algorithm in [ON_PEER, GPU] {
        let relations = match algorithm {
            ON_PEER => "relations in the memory of another device",
            _ => "relations in host memory",
        };
        // Relations in another device's memory exist only with one.
        if rows.of(algorithm, "").next().is_none() && algorithm == ON_PEER {
            continue;
        }
        let rate = |workload: &'static str, place| rows.of_workload(algorithm, workload, place);
        let hop = one_hop(|place| rate("A", place).is_some());
        let facts = |workload: &'static str| {
            let (device, near) = (rate(workload, DEVICE)?, rate(workload, hop)?);
            let lost = loss(near, device);
            let facts = format!(
                "{workload} has {device:.2} G tuples/s with the table on the device and {near:.2} {}, {lost:.0} % less",
                name(hop)
            );
            Some((facts, lost))
        };
        let both = facts("A").zip(facts("C")).map(|(a, c)| {
            let holds = [a.1, c.1].iter().all(|lost| (73.0..=88.0).contains(lost));
            (format!("{}; {}", a.0, c.0), holds)
        });
        let thesis =
            format!("({relations}) one hop to the table costs workloads A and C 78 to 83 % of the rate");
        lines.push(found(FIGURE, &thesis, both));
        if hop == PEER {
            let more = |workload: &'static str| {
                let (near, far) = (rate(workload, PEER)?, rate(workload, HOST)?);
                let lost = loss(far, near);
                let facts = format!(
                    "{workload} has {near:.2} G tuples/s with the table {} and {far:.2} {}, {lost:.0} % less",
                    name(PEER),
                    name(HOST)
                );
                Some((facts, lost))
            };
            let both = more("A").zip(more("C")).map(|(a, c)| {
                let holds = [a.1, c.1].iter().all(|lost| (45.0..=70.0).contains(lost));
                (format!("{}; {}", a.0, c.0), holds)
            });
            let thesis = format!(
                "({relations}) the next memory costs workloads A and C another 50 %, and 15 to 31 % of the rest"
            );
            lines.push(found(FIGURE, &thesis, both));
        }
        let small = facts("B").map(|(facts, lost)| (facts, lost >= 50.0));
        let thesis = format!(
            "({relations}) a small table is not cached across the link, so that workload B loses most of its rate"
        );
        lines.push(found(FIGURE, &thesis, small));
    }
}
