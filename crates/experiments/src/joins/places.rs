//! Figures 3.12 and 3.13: relations, and the hash table, at increasing distance from the device.
//!
//! The thesis' places are device memory, host memory one hop away over NVLink, and the memories of the other
//! CPU and its device. Here they are device memory, the memory of another device one hop away over NVLink,
//! and host memory behind PCIe.

use galatea_device::PageOrder;
use galatea_kernels::JoinHashing;
use galatea_memory::transfer::Result;

use super::lab::{Lab, PlacedTable};
use super::relations::Place;
use super::table::Placement;
use super::workload::{Shape, Workload};

/// Workloads A, B and C of figure 3.12: 13, 12 and 10 GiB of tuples without shrinking.
fn scaled(shrink: u64) -> [Shape; 3] {
    let tuples = |gib: u64, bytes: u64| (gib << 30) / bytes / shrink;
    let (a, b, c) = (tuples(13, 16), tuples(12, 16), tuples(10, 8));
    let small = (1 << 18).min(b / 17);
    [
        Shape::uniform("A", 8, a / 17, a - a / 17),
        Shape::uniform("B", 8, small, b - small),
        Shape::uniform("C", 4, c / 2, c / 2),
    ]
}

/// Figure 3.12: relations in each memory, and the table in the device's.
pub(super) fn relation_places(lab: &mut Lab<'_>) -> Result<()> {
    lab.has_peer();
    for shape in scaled(lab.scale.shrink) {
        if lab.late(&format!("workload {}", shape.name)) {
            break;
        }
        let mut workload = Workload::new(lab.device, shape, lab.scale.seed)?;
        let Some(memory) = lab.memory(shape.perfect_bytes(), Placement::Device)? else {
            continue;
        };
        let table = PlacedTable {
            table: memory.table(JoinHashing::Perfect, shape.domain, shape.word_bytes)?,
            memory: &memory,
            placement: Placement::Device,
        };
        for place in Place::READ {
            let Some(mut relations) = lab.relations(&shape, place)? else {
                continue;
            };
            let at = ("place of the relations", place.number());
            lab.placed(&mut workload, &mut relations, table, at, None)?;
        }
    }
    Ok(())
}

/// Figure 3.13: the table in each memory. Relations are one hop away: in host memory, and in the memory of
/// another device. The link to the latter is as fast as the thesis' link.
///
/// A quarter of the rows is used, so that a table of workload C in host memory takes seconds and not minutes.
pub(super) fn table_places(lab: &mut Lab<'_>) -> Result<()> {
    let relation_places = match lab.has_peer() {
        true => &[Place::Host, Place::Peer][..],
        false => &[Place::Host],
    };
    let shrink = 4 * lab.scale.shrink;
    for shape in [Shape::a(shrink), Shape::b(shrink), Shape::c(shrink)] {
        if lab.late(&format!("workload {}", shape.name)) {
            break;
        }
        let mut workload = Workload::new(lab.device, shape, lab.scale.seed)?;
        for place in Place::READ {
            let placement = match place {
                Place::Peer => Placement::Peer(0, PageOrder::DeviceFirst),
                Place::Host => Placement::Host,
                _ => Placement::Device,
            };
            if place == Place::Peer && relation_places.len() == 1 {
                continue;
            }
            let Some(memory) = lab.memory(shape.perfect_bytes(), placement)? else {
                continue;
            };
            let table = PlacedTable {
                table: memory.table(JoinHashing::Perfect, shape.domain, shape.word_bytes)?,
                memory: &memory,
                placement,
            };
            let at = ("place of the table", place.number());
            for relations in relation_places {
                if let Some(mut relations) = lab.relations(&shape, *relations)? {
                    lab.placed(&mut workload, &mut relations, table, at, None)?;
                }
            }
        }
    }
    Ok(())
}
