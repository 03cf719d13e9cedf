//! The lines of `galatea top`.

use galatea_server::feed::{Bandwidths, Device, Ended, RegionKind, RunState, Running, Snapshot};
use unicode_width::UnicodeWidthChar;

/// Ended statements that are shown.
const HISTORY: usize = 15;

/// Regions of a device that are shown.
const REGIONS: usize = 6;

/// Columns of the map of a device's memory.
const MAP: usize = 60;

/// How lines are shown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Screen {
    columns: usize,
    colours: bool,
}

impl Screen {
    /// Lines for programs.
    pub(crate) fn plain(columns: usize) -> Self {
        Self {
            columns,
            colours: false,
        }
    }

    /// Lines for a terminal.
    pub(crate) fn coloured(columns: usize) -> Self {
        Self {
            columns,
            colours: true,
        }
    }

    fn paint(self, code: &str, text: &str) -> String {
        match self.colours && !text.is_empty() {
            true => format!("\x1b[{code}m{text}\x1b[0m"),
            false => text.to_string(),
        }
    }
}

/// The first columns of a string. Control characters, which a terminal would obey, become spaces.
fn cut(text: &str, columns: usize) -> String {
    let mut width = 0;
    let mut shown = String::new();
    for letter in text.chars() {
        let is_hidden =
            letter.is_control() || matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        let letter = if is_hidden { ' ' } else { letter };
        width += letter.width().unwrap_or(0);
        if width > columns {
            break;
        }
        shown.push(letter);
    }
    shown
}

/// A string in a column of that width.
fn cell(text: &str, columns: usize) -> String {
    let shown = cut(text, columns);
    let width: usize = shown.chars().filter_map(UnicodeWidthChar::width).sum();
    shown + &" ".repeat(columns.saturating_sub(width))
}

/// A count of bytes with three digits.
fn bytes(count: u64) -> String {
    let mut rest = count as f64;
    let mut units = ["B", "KiB", "MiB", "GiB", "TiB"].into_iter();
    let mut unit = units.next().unwrap_or_default();
    while rest >= 1024.0
        && let Some(next) = units.next()
    {
        rest /= 1024.0;
        unit = next;
    }
    match unit {
        "B" => format!("{count} B"),
        _ if rest >= 100.0 => format!("{rest:.0} {unit}"),
        _ => format!("{rest:.1} {unit}"),
    }
}

fn seconds(time: f64) -> String {
    match time {
        time if time < 1.0 => format!("{:.1} ms", time * 1e3),
        time if time < 100.0 => format!("{time:.2} s"),
        time => format!("{} min {:02.0} s", (time / 60.0).floor(), (time % 60.0).floor()),
    }
}

/// The state of a server as lines.
pub(crate) fn view(snapshot: &Snapshot, screen: Screen) -> Vec<String> {
    let (server, viewer) = (&snapshot.server, &snapshot.viewer);
    let admin = if viewer.admin { ", administrator" } else { "" };
    let stopping = if server.stopping { ", shutting down" } else { "" };
    let mut lines = vec![cut(
        &format!(
            "galatea {}  {}{admin}  up {}  {} sessions{stopping}",
            server.version,
            viewer.user,
            seconds(server.uptime),
            server.sessions
        ),
        screen.columns,
    )];
    match snapshot.devices.as_slice() {
        [] => lines.push("No device is open.".to_string()),
        devices => devices
            .iter()
            .for_each(|device| add_device(&mut lines, device, screen)),
    }
    if let Some(store) = snapshot.store {
        lines.push(format!(
            "Columns in host memory: {} of {}",
            bytes(store.used_bytes),
            bytes(store.limit_bytes)
        ));
    }
    let heading = |title: &str| screen.paint("1", &cell(title, screen.columns));
    lines.push(String::new());
    lines.push(heading(&format!("Running ({})", snapshot.running.len())));
    if !snapshot.running.is_empty() {
        lines.push(cell(
            &running_cells(
                [
                    "id", "user", "state", "time", "progress", "demand", "rows", "read",
                ],
                "statement",
            ),
            screen.columns,
        ));
    }
    lines.extend(
        snapshot
            .running
            .iter()
            .map(|statement| running(statement, screen)),
    );
    if snapshot.hidden > 0 {
        lines.push(format!("{} statements of other users run.", snapshot.hidden));
    }
    let history = snapshot.history.as_deref().unwrap_or_default();
    lines.push(String::new());
    lines.push(heading(&format!("History ({})", history.len())));
    if !history.is_empty() {
        lines.push(cell(
            &ended_cells(
                ["id", "user", "outcome", "device", "time", "rows", "read"],
                "statement",
            ),
            screen.columns,
        ));
    }
    lines.extend(
        history
            .iter()
            .take(HISTORY)
            .map(|statement| ended(statement, screen)),
    );
    lines
}

/// The letter and the colour of a kind of region in the map.
fn mark(kind: RegionKind) -> (char, &'static str) {
    match kind {
        RegionKind::Column => ('c', "44;97"),
        RegionKind::Table => ('t', "43;30"),
        RegionKind::Result => ('r', "42;30"),
        RegionKind::Working => ('w', "45;97"),
    }
}

const KINDS: [(RegionKind, &str); 4] = [
    (RegionKind::Column, "columns"),
    (RegionKind::Table, "tables"),
    (RegionKind::Result, "results"),
    (RegionKind::Working, "working"),
];

fn add_device(lines: &mut Vec<String>, device: &Device, screen: Screen) {
    lines.push(String::new());
    let title = format!(
        "{}  {} of {} in use  {} evictions",
        device.name,
        bytes(device.used_bytes),
        bytes(device.limit_bytes),
        device.evicted
    );
    lines.push(screen.paint("1", &cell(&title, screen.columns)));
    let sum = |kind| -> u64 {
        let of_kind = device.regions.iter().filter(|region| region.kind == kind);
        of_kind.map(|region| region.device_bytes).sum()
    };
    let tiles = |bytes: u64| (bytes as f64 / device.limit_bytes.max(1) as f64 * MAP as f64).round() as usize;
    let (mut map, mut filled, mut named) = (String::new(), 0, 0);
    for (kind, _) in KINDS {
        let (letter, colour) = mark(kind);
        let size = sum(kind);
        named += size;
        // A kind in use has one tile at least.
        let count = tiles(size).max(usize::from(size > 0)).min(MAP - filled);
        filled += count;
        map += &screen.paint(colour, &letter.to_string().repeat(count));
    }
    let others = device.used_bytes.saturating_sub(named);
    let count = tiles(others).min(MAP - filled);
    filled += count;
    map += &"o".repeat(count);
    map += &".".repeat(MAP - filled);
    let sums = KINDS
        .map(|(kind, name)| format!("{name} {}", bytes(sum(kind))))
        .join(", ");
    let sums = format!("{sums}, others {}", bytes(others));
    let room = screen.columns.saturating_sub(MAP + 3);
    lines.push(format!("[{map}] {}", cut(&sums, room)));
    let rate = device.rates.last().map(|rate| rate.bytes).unwrap_or_default();
    lines.push(cut(&rates(rate, device.ceilings), screen.columns));
    for region in device.regions.iter().take(REGIONS) {
        let line = format!(
            "  {} {:>10} of {:>10}  {}",
            mark(region.kind).0,
            bytes(region.device_bytes),
            bytes(region.bytes),
            region.name.as_deref().unwrap_or("(hidden)")
        );
        lines.push(cut(&line, screen.columns));
    }
    let more = device.regions.len().saturating_sub(REGIONS) + device.regions_left_out;
    if more > 0 {
        lines.push(format!("  and {more} more regions"));
    }
}

fn rates(rate: Bandwidths<f64>, ceilings: Option<Bandwidths<f64>>) -> String {
    let one = |name: &str, of: fn(&Bandwidths<f64>) -> f64| {
        let ceiling = ceilings
            .as_ref()
            .map(|ceilings| format!(" of {:.1}", of(ceilings) / 1e9));
        format!(
            "{name} {:.2}{} GB/s",
            of(&rate) / 1e9,
            ceiling.unwrap_or_default()
        )
    };
    [
        one("host to device", |rates| rates.to_device),
        one("device to host", |rates| rates.to_host),
        one("device memory", |rates| rates.memory),
    ]
    .join("   ")
}

/// A line of the running statements.
fn running_cells(cells: [&str; 8], statement: &str) -> String {
    let [id, user, state, time, progress, demand, rows, read] = cells;
    format!(
        "{id:>6} {} {state:<8} {time:>10} {progress:<16} {demand:>10} {rows:>12} {read:>10} {statement}",
        cell(user, 12)
    )
}

fn running(statement: &Running, screen: Screen) -> String {
    let state = match statement.state {
        RunState::Planning => "planning",
        RunState::Waiting => "waiting",
        RunState::Running => "running",
    };
    let progress = statement.progress.as_ref().map(|progress| match progress.total {
        Some(total) if total > 0 => {
            let share = progress.done.min(total) as f64 / total as f64 * 100.0;
            format!("{} {share:.0} %", progress.step)
        }
        _ => progress.step.clone(),
    });
    let line = running_cells(
        [
            &statement.id.to_string(),
            &statement.user,
            state,
            &seconds(statement.elapsed),
            &progress.unwrap_or_default(),
            &bytes(statement.demand_bytes),
            &statement.rows.to_string(),
            &bytes(statement.device_bytes),
        ],
        &statement.statement,
    );
    cell(&line, screen.columns)
}

/// A line of the ended statements.
fn ended_cells(cells: [&str; 7], statement: &str) -> String {
    let [id, user, outcome, device, time, rows, read] = cells;
    format!(
        "{id:>6} {} {outcome:<9} {device:<12} {time:>10} {rows:>12} {read:>10} {statement}",
        cell(user, 12)
    )
}

fn ended(statement: &Ended, screen: Screen) -> String {
    let line = ended_cells(
        [
            &statement.id.to_string(),
            &statement.user,
            &statement.outcome,
            statement.device.as_deref().unwrap_or_default(),
            &seconds(statement.elapsed),
            &statement.rows.to_string(),
            &bytes(statement.device_bytes),
        ],
        &statement.statement,
    );
    let line = cell(&line, screen.columns);
    match statement.outcome.as_str() {
        "done" => line,
        _ => screen.paint("31", &line),
    }
}

#[cfg(test)]
mod tests {
    use galatea_server::feed::{Progress, Rate, Region};

    use super::*;

    fn snapshot() -> Snapshot {
        let region = |kind, name: &str, bytes| Region {
            name: Some(name.to_string()),
            kind,
            bytes,
            device_bytes: bytes,
            ..Region::default()
        };
        let gib = 1 << 30;
        Snapshot {
            devices: vec![Device {
                name: "H100".to_string(),
                limit_bytes: 60 * gib,
                used_bytes: 45 * gib,
                regions: vec![
                    region(RegionKind::Column, "lineitem.l_tax", 30 * gib),
                    region(RegionKind::Table, "a build side", 10 * gib),
                    region(RegionKind::Result, "output columns", 1),
                ],
                ceilings: Some(Bandwidths {
                    to_device: 55e9,
                    to_host: 50e9,
                    memory: 3e12,
                }),
                rates: vec![Rate {
                    at: 0,
                    bytes: Bandwidths {
                        to_device: 12.5e9,
                        ..Bandwidths::default()
                    },
                }],
                ..Device::default()
            }],
            running: vec![Running {
                id: 7,
                user: "ann".to_string(),
                statement: "SELECT '\x1b[31m\u{202e}'\n, 1".to_string(),
                state: RunState::Running,
                progress: Some(Progress {
                    step: "running".to_string(),
                    done: 1,
                    total: Some(4),
                }),
                ..Running::default()
            }],
            history: Some(vec![Ended {
                id: 6,
                outcome: "failed".to_string(),
                statement: "SELECT 漢字".to_string(),
                ..Ended::default()
            }]),
            ..Snapshot::default()
        }
    }

    #[test]
    fn the_map_has_the_shares_of_the_limit() {
        let lines = view(&snapshot(), Screen::plain(200));
        let map = lines.iter().find(|line| line.starts_with('[')).expect("a map");
        let expected = format!(
            "[{}{}r{}{}]",
            "c".repeat(30),
            "t".repeat(10),
            "o".repeat(5),
            ".".repeat(14)
        );
        assert!(map.starts_with(&expected), "{map}");
        assert!(
            map.ends_with("columns 30.0 GiB, tables 10.0 GiB, results 1 B, working 0 B, others 5.0 GiB"),
            "{map}"
        );
        let text = lines.join("\n");
        assert!(text.contains("host to device 12.50 of 55.0 GB/s"), "{text}");
        assert!(
            text.contains("running 25 %") && text.contains("History (1)"),
            "{text}"
        );
    }

    #[test]
    fn statements_cannot_control_the_terminal() {
        let plain = view(&snapshot(), Screen::plain(200)).join("\n");
        assert!(
            !plain.contains('\x1b') && !plain.contains('\u{202e}'),
            "{plain:?}"
        );
        assert!(plain.contains("SELECT ' [31m ' , 1"), "{plain}");
        // Only the colours of the view itself.
        let coloured = view(&snapshot(), Screen::coloured(200)).join("\n");
        assert!(coloured.contains("SELECT ' [31m ' , 1"), "{coloured:?}");
    }

    #[test]
    fn lines_fit_the_screen() {
        for columns in [40, 80, 137] {
            for line in view(&snapshot(), Screen::plain(columns)) {
                let width: usize = line.chars().filter_map(UnicodeWidthChar::width).sum();
                assert!(width <= columns.max(MAP + 3), "{columns}: {line}");
            }
        }
        assert_eq!(
            (cut("漢字", 3), cell("漢", 3)),
            ("漢".to_string(), "漢 ".to_string())
        );
        assert_eq!(
            [0, 1023, 1024, 1 << 20, 300 << 30].map(bytes),
            ["0 B", "1023 B", "1.0 KiB", "1.0 MiB", "300 GiB"]
        );
    }
}
