//! Frames of columns: compares answers with the CPU's, with and without each optimisation, and counts moved
//! bytes.

use std::sync::{Arc, Mutex};

use galatea_device::Device;
use galatea_experiments::flow::workload::set_query::{COLUMNS, SetQuery, column};
use galatea_flow::paging::{
    Answer, Condition, PageQuery, PageShape, PagedScan, Paging, ROWS_OF_GROUP, Wanted,
};
use galatea_flow::{Cpu, CpuWork, Step, Topic, Topology};
use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};

use crate::{emulated, small};

const SHAPE: PageShape = PageShape {
    columns: COLUMNS.len(),
    groups: 4,
};

/// A query over a table by a stream.
fn run(device: &Device, table: &Arc<SetQuery>, scan: &PagedScan) -> Answer {
    let mut topology = Topology::new();
    let shape = scan.shape;
    let there = topology.topic(Topic::new("table").frame_bytes(shape.frame_bytes()).depth(4));
    let back = topology.topic(Topic::new("answers").frame_bytes(scan.answer_bytes()).depth(4));
    let (frames, paging) = (table.frames(shape), scan.paging);
    let source = {
        let table = Arc::clone(table);
        Cpu::new("table", 1, move |_| {
            let (table, mut next) = (Arc::clone(&table), 0);
            move |work: &mut CpuWork<'_>| {
                if next == frames {
                    return Ok(Step::End);
                }
                table.write(shape, paging, next, work.output());
                next += 1;
                Ok(Step::Next)
            }
        })
    };
    let answer = Arc::new(Mutex::new(Answer::default()));
    let sink = {
        let (answer, scan) = (Arc::clone(&answer), scan.clone());
        Cpu::new("answer", 1, move |_| {
            let (answer, scan) = (Arc::clone(&answer), scan.clone());
            move |work: &mut CpuWork<'_>| {
                answer.lock().unwrap().add(&scan, work.input());
                Ok(Step::Next)
            }
        })
    };
    topology
        .link(None, source, Some(there))
        .link(Some(there), scan.clone(), Some(back))
        .link(Some(back), sink, None);
    topology.run(device, &small(2, 64)).unwrap();
    let mut answer = answer.lock().unwrap().clone();
    answer.rows.sort_unstable();
    answer
}

fn scans(query: &PageQuery) -> [PagedScan; 4] {
    let scan = |paging, index| PagedScan {
        shape: SHAPE,
        paging,
        index,
        query: query.clone(),
    };
    [
        scan(Paging::Rows, false),
        scan(Paging::Rows, true),
        scan(Paging::Columns, false),
        scan(Paging::Columns, true),
    ]
}

fn check(table: &SetQuery, answer: &Answer, query: &PageQuery, case: &str) {
    let (count, sum, mut rows) = table.answer(query, 0..table.rows());
    rows.sort_unstable();
    assert_eq!((answer.count, answer.sum), (count, sum), "{case}");
    assert_eq!(answer.rows, rows, "{case}");
}

#[test]
fn set_queries_match_the_cpu_and_transfer_few_bytes() {
    let device = emulated(111);
    let table = Arc::new(SetQuery::new(40 * ROWS_OF_GROUP + 17, 5));
    let whole = table.frames(SHAPE) * SHAPE.frame_bytes();
    let (mut plain, mut paged, mut indexed) = (0, 0, 0);
    for (name, query) in table.queries(column("K10K")) {
        let mut moved = Vec::new();
        for scan in scans(&query) {
            let answer = run(&device, &table, &scan);
            let case = format!("{name}, {:?}, index {}", scan.paging, scan.index);
            check(&table, &answer, &query, &case);
            assert!(
                answer.bytes as usize <= whole + whole / 8,
                "{case}: {} bytes",
                answer.bytes
            );
            moved.push(answer.bytes);
        }
        // Each optimisation alone moves fewer bytes, or the same number plus the index.
        assert!(moved[2] < moved[0], "{name}: {moved:?}");
        assert!(moved[3] <= moved[2] + moved[2] / 8, "{name}: {moved:?}");
        (plain, paged, indexed) = (plain + moved[0], paged + moved[2], indexed + moved[3]);
        // In the paper, columns alone save 80 to 85 % for Q1 to Q3, and 45 to 60 % for Q4.
        let saved = 1.0 - moved[3] as f64 / moved[0] as f64;
        assert!(
            saved >= if name.starts_with("Q4") { 0.5 } else { 0.8 },
            "{name}: {moved:?}"
        );
    }
    assert!(
        (indexed as f64) < 0.2 * plain as f64,
        "{indexed} of {plain} bytes"
    );
    assert!(indexed < paged && paged < plain, "{indexed}, {paged}, {plain}");
}

#[test]
fn random_queries_match_the_cpu() {
    for seed in 0..12 {
        let mut random = SmallRng::seed_from_u64(seed);
        let device = emulated(seed + 1);
        let rows = [0, 1, 31, 32, 33, 1023, 1024, 1025, 5000, 4 * 1024 + 1][seed as usize % 10];
        let table = Arc::new(SetQuery::new(rows, seed));
        let conditions = (0..random.random_range(0..=5)).map(|_| {
            let column = random.random_range(0..COLUMNS.len());
            let most = match COLUMNS[column].1 {
                0 => rows as u32 + 2,
                values => values + 2,
            };
            let mut value = || random.random_range(0..=most);
            match value() % 3 {
                0 => Condition::equal(column, value()),
                1 => Condition::different(column, value()),
                _ => {
                    let ranges: Vec<(u32, u32)> = (0..=value() % 5).map(|_| (value(), value())).collect();
                    Condition::within(column, &ranges)
                }
            }
        });
        let conditions = conditions.collect();
        let wanted = match seed % 3 {
            0 => Wanted::Count,
            1 => Wanted::Sum(random.random_range(0..COLUMNS.len())),
            _ => Wanted::Rows(0, random.random_range(0..COLUMNS.len())),
        };
        let query = PageQuery { conditions, wanted };
        for scan in scans(&query) {
            let answer = run(&device, &table, &scan);
            let case = format!(
                "seed {seed}, {rows} rows, {:?}, index {}: {query:?}",
                scan.paging, scan.index
            );
            check(&table, &answer, &query, &case);
        }
    }
}

/// No row is lost that the index cannot exclude, and no page is read that it excludes.
#[test]
fn index_skips_excluded_pages() {
    let device = emulated(113);
    let table = Arc::new(SetQuery::new(8 * ROWS_OF_GROUP, 9));
    let count = |conditions: Vec<Condition>| PageQuery {
        conditions,
        wanted: Wanted::Count,
    };
    let pages = |query: &PageQuery| {
        let scan = scans(query)[3].clone();
        let answer = run(&device, &table, &scan);
        check(&table, &answer, query, &format!("{query:?}"));
        answer.pages
    };
    // A row of one page; a range that covers whole pages, which need not be read; no row at all.
    assert_eq!(pages(&count(vec![Condition::equal(0, 5000)])), 1);
    assert_eq!(pages(&count(vec![Condition::within(0, &[(1025, 3072)])])), 0);
    assert_eq!(pages(&count(vec![Condition::within(0, &[(1000, 3000)])])), 2);
    assert_eq!(pages(&count(vec![Condition::equal(column("K2"), 3)])), 0);
    assert_eq!(pages(&count(vec![Condition::different(column("K2"), 3)])), 0);
    assert_eq!(pages(&count(vec![Condition::different(column("K2"), 2)])), 8);
    // A value of 500000 is on few pages, which only the filters can detect.
    let value = table.value(4321, column("K500K"));
    assert!(pages(&count(vec![Condition::equal(column("K500K"), value)])) < 4);
}
