//! Figures 3.16, 3.18 and 4.1 with the memory of another device in the CPU's place, and tables by the share
//! of their pages on the device.
//!
//! Relations are in the memory of the other device, as the thesis' are in the CPU's. Some points are repeated
//! with relations on the device, so that only accesses to the table cross the link. Atomic operations across
//! the link are native, so linear probing is measured without a sample of the rows.

use galatea_device::PageOrder;
use galatea_kernels::JoinHashing;
use galatea_memory::transfer::Result;

use super::lab::{Lab, PlacedTable};
use super::relations::Place;
use super::table::Placement;
use super::workload::{Shape, Workload};

const PERFECT: JoinHashing = JoinHashing::Perfect;
/// A table in the memory of the other device only.
const OTHER: Placement = Placement::Peer(0, PageOrder::DeviceFirst);

/// Measures a join with each of the placements of its table. The first two are the device's memory and the
/// other memory. Their rates are the ends of the predictions for the other placements.
fn each(
    lab: &mut Lab<'_>,
    workload: &mut Workload,
    place: Place,
    placements: &[Placement],
    at: impl Fn(Placement) -> (&'static str, f64),
) -> Result<()> {
    let shape = workload.shape();
    let Some(mut relations) = lab.relations(&shape, place)? else {
        return Ok(());
    };
    let mut rates = Vec::new();
    for placement in placements {
        let Some(memory) = lab.memory(shape.perfect_bytes(), *placement)? else {
            rates.push(f64::NAN);
            continue;
        };
        let table = PlacedTable {
            table: memory.table(PERFECT, shape.domain, shape.word_bytes)?,
            memory: &memory,
            placement: *placement,
        };
        let ends = match rates.as_slice() {
            [device, other, ..] => Some((*device, *other)),
            _ => None,
        };
        rates.push(lab.placed(workload, &mut relations, table, at(*placement), ends)?);
    }
    Ok(())
}

/// The memory beside the device's that has a part of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Second {
    Host,
    Peer,
}

/// Figure 3.16: a table of half a budget, by the share of its pages on the device. Relations are in the
/// second memory, and then on the device.
pub(super) fn shares(lab: &mut Lab<'_>, second: Second) -> Result<()> {
    if second == Second::Peer && !lab.has_peer() {
        return Ok(());
    }
    let rows = lab.scale.budget / lab.scale.shrink / 8 / 16;
    let shape = Shape::uniform("C, 16 bytes", 8, rows, rows);
    let bytes = shape.perfect_bytes();
    let mut workload = Workload::new(lab.device, shape, lab.scale.seed)?;
    let (places, other, orders) = match second {
        Second::Host => (
            [Place::HostByChunk, Place::Device, Place::Host],
            Placement::Host,
            &[PageOrder::Interleaved][..],
        ),
        Second::Peer => (
            [Place::PeerByChunk, Place::Device, Place::Peer],
            OTHER,
            &[PageOrder::Interleaved, PageOrder::DeviceFirst][..],
        ),
    };
    let share_bytes = [0.1, 0.25, 0.5, 0.75, 0.9].map(|share| (bytes as f64 * share) as u64);
    let mut placements = vec![Placement::Device, other];
    for order in orders {
        placements.extend(share_bytes.map(|most| match second {
            Second::Host => Placement::Hybrid(most, *order),
            Second::Peer => Placement::Peer(most, *order),
        }));
    }
    let at = |placement| {
        let most = match placement {
            Placement::Device => bytes,
            Placement::Host => 0,
            Placement::Hybrid(most, _) | Placement::Peer(most, _) => most,
        };
        (
            "share of the table on the device",
            (100.0 * most as f64 / bytes as f64).round() / 100.0,
        )
    };
    for place in places {
        if lab.late(&format!("relations{}", place.suffix())) {
            break;
        }
        each(lab, &mut workload, place, &placements, at)?;
    }
    Ok(())
}

/// Figure 3.16: more rows of both relations, with tables of up to twice the budget.
pub(super) fn build_side(lab: &mut Lab<'_>) -> Result<()> {
    if !lab.has_peer() {
        return Ok(());
    }
    let budget = lab.scale.budget / lab.scale.shrink / 4;
    let shape = |share: f64| {
        let rows = (budget as f64 * share / 16.0) as u64;
        Shape::uniform("C, 16 bytes", 8, rows, rows)
    };
    let mut workload = Workload::new(lab.device, shape(2.0), lab.scale.seed)?;
    for share in [0.5, 1.0, 1.5, 2.0] {
        if lab.late(&format!("tables of {share} budgets")) {
            break;
        }
        workload.reshape(shape(share))?;
        let bytes = workload.shape().perfect_bytes();
        let mut placements = vec![Placement::Device, OTHER];
        if bytes > budget {
            placements.push(Placement::Peer(budget, PageOrder::DeviceFirst));
        }
        placements.push(Placement::Peer(bytes / 2, PageOrder::Interleaved));
        for place in [Place::Peer, Place::Device] {
            each(lab, &mut workload, place, &placements, |_| {
                ("table per budget", share)
            })?;
        }
    }
    Ok(())
}

/// Figure 3.18: skewed keys of S, by the share of the table on the device.
pub(super) fn skew(lab: &mut Lab<'_>) -> Result<()> {
    if !lab.has_peer() {
        return Ok(());
    }
    let shape = Shape::smaller_a(lab.scale.shrink);
    let bytes = shape.perfect_bytes();
    let mut workload = Workload::new(lab.device, shape, lab.scale.seed)?;
    let quarter = |count: u64| Placement::Peer(bytes / 4 * count, PageOrder::Interleaved);
    let placements = [Placement::Device, OTHER, quarter(1), quarter(2), quarter(3)];
    for zipf in [0.0, 0.5, 1.0, 1.5, 1.75] {
        if lab.late(&format!("exponent {zipf}")) {
            break;
        }
        workload.reshape(Shape { zipf, ..shape })?;
        for (place, placements) in [(Place::Peer, &placements[..]), (Place::Device, &placements[..3])] {
            each(lab, &mut workload, place, placements, |_| ("Zipf exponent", zipf))?;
        }
    }
    Ok(())
}

/// Figure 4.1: relations of equal size, with tables that exceed the budget, by perfect hashing and by linear
/// probing. Half of the rows of `tuples` are used.
pub(super) fn tuples(lab: &mut Lab<'_>) -> Result<()> {
    if !lab.has_peer() {
        return Ok(());
    }
    let shrink = 4 * lab.scale.shrink;
    let budget = lab.scale.budget / shrink;
    let mut workload = Workload::new(lab.device, Shape::t(2048, shrink), lab.scale.seed)?;
    for millions in [128, 256, 512, 1024, 2048] {
        if lab.late(&format!("{millions} M tuples")) {
            break;
        }
        let shape = Shape::t(millions, shrink);
        workload.reshape(shape)?;
        let at = ("M tuples of R without shrinking", millions as f64);
        for hashing in [JoinHashing::Perfect, JoinHashing::Linear] {
            let slots = hashing.slots(shape.domain);
            let bytes = slots * shape.tuple_bytes();
            let placements = match bytes <= budget {
                true => vec![Placement::Device, OTHER],
                false => vec![
                    Placement::Peer(budget, PageOrder::DeviceFirst),
                    Placement::Peer(budget, PageOrder::Interleaved),
                    OTHER,
                ],
            };
            for placement in placements {
                let Some(memory) = lab.memory(bytes, placement)? else {
                    continue;
                };
                let table = PlacedTable {
                    table: memory.table(hashing, slots, shape.word_bytes)?,
                    memory: &memory,
                    placement,
                };
                // A table in one memory, also without relations on the link.
                let places = match placement {
                    OTHER | Placement::Device => &[Place::Peer, Place::Device][..],
                    _ => &[Place::Peer],
                };
                for place in places {
                    if let Some(mut relations) = lab.relations(&shape, *place)? {
                        lab.placed(&mut workload, &mut relations, table, at, None)?;
                    }
                }
            }
        }
    }
    Ok(())
}
