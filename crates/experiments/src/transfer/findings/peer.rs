//! Findings on the probe of tuples in the memory of another device.

use super::super::measure::{PeerWay, Source};
use super::super::peer::WITHOUT_MEANING;
use super::rows::{Rows, ZERO_COPY, found, loss};

/// Figure 3.11 with tuples in the memory of another device.
pub(super) fn peer_probe(rows: &Rows<'_>, lines: &mut Vec<String>) {
    const FIGURE: &str = "figure 3.11, two devices";
    let of = |source: Source| {
        let rows = rows
            .0
            .iter()
            .filter(|row| row.unit == "GB/s" && row.rate.source == source);
        rows.map(|row| row.median()).max_by(f64::total_cmp)
    };
    let way = |way: PeerWay| of(Source::Peer(way));
    let in_place = way(PeerWay::InPlace);
    let best = PeerWay::ALL
        .into_iter()
        .filter_map(|way| Some((way, of(Source::Peer(way))?)))
        .max_by(|a, b| a.1.total_cmp(&b.1));
    let coherence = in_place.zip(best).map(|(rate, (name, best))| {
        let facts = format!("it has {rate:.1} GB/s, and {name}, the best, {best:.1}");
        (facts, rate >= 0.92 * best)
    });
    let thesis = "reading in place (coherence, zero-copy) is within 8 % of the best way over NVLink 2.0";
    lines.push(found(FIGURE, thesis, coherence, "reading in place"));
    let copy = in_place.zip(way(PeerWay::Copy)).map(|(place, copy)| {
        let facts = format!("copies by chunk have {copy:.1} GB/s, reading in place {place:.1}");
        (facts, loss(copy, place).abs() <= 10.0)
    });
    lines.push(found(
        FIGURE,
        "copies by chunk match reading in place over NVLink 2.0",
        copy,
        "one of the two",
    ));
    let unified = [PeerWay::UnifiedPrefetch, PeerWay::UnifiedMigration];
    let unified: Option<Vec<f64>> = unified.into_iter().map(way).collect();
    let slowest = unified.zip(in_place).zip(way(PeerWay::Copy));
    let slowest = slowest.map(|((unified, place), copy)| {
        let facts = format!(
            "unified prefetch has {:.1} GB/s, unified migration {:.1}, the others {place:.1} and {copy:.1}",
            unified[0], unified[1]
        );
        (facts, unified.iter().all(|rate| *rate < place.min(copy)))
    });
    let thesis = "both ways with unified memory are the slowest";
    lines.push(found(FIGURE, thesis, slowest, "one of the ways"));
    let link = in_place.zip(of(ZERO_COPY)).map(|(place, host)| {
        let facts = format!(
            "reading in place has {place:.1} GB/s between the devices and {host:.1} from the host, {:.1} times",
            place / host
        );
        (facts, place >= 0.9 * 5.0 * host)
    });
    lines.push(found(
        FIGURE,
        "NVLink 2.0 has up to 5 times the rate of PCIe 3.0",
        link,
        "one of the two",
    ));
    let without: Vec<&str> = WITHOUT_MEANING.iter().map(|method| method.name()).collect();
    lines.push(format!(
        "{FIGURE}: not measured: {}, because they are ways to read pageable memory of the host, and memory of a device is never pageable",
        without.join(", ")
    ));
}
