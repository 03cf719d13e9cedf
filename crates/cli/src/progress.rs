//! Progress of long work on a terminal.

use std::collections::HashMap;
use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use datafusion::physical_plan::ExecutionPlan;
use galatea::{QueryProgress, QueryReports, QueryStep, ScanProgress};
use galatea_bench::workload::generate::Progress;
use indicatif::{
    HumanBytes, HumanCount, MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle, TermLike,
};

/// One bar per table on standard error; none if that is not a terminal, or in quiet mode.
pub(crate) struct Bars {
    all: MultiProgress,
    bars: Mutex<HashMap<String, ProgressBar>>,
}

impl Bars {
    pub(crate) fn new(quiet: bool) -> Self {
        let target = if quiet || !io::stderr().is_terminal() {
            ProgressDrawTarget::hidden()
        } else {
            ProgressDrawTarget::stderr_with_hz(10)
        };
        Self {
            all: MultiProgress::with_draw_target(target),
            bars: Mutex::default(),
        }
    }

    fn with(&self, table: &str, act: impl FnOnce(&ProgressBar)) {
        let bars = self.bars.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bar) = bars.get(table) {
            act(bar);
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

impl Progress for Bars {
    fn started(&self, table: &str, rows: u64) {
        let bar = self.all.add(ProgressBar::new(rows));
        bar.set_style(style(
            "{prefix:>12} {wide_bar} {human_pos:>13} rows {per_sec:>16} {eta:>4}",
        ));
        bar.set_prefix(table.to_string());
        bar.enable_steady_tick(Duration::from_millis(200));
        self.bars
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(table.to_string(), bar);
    }

    fn advanced(&self, table: &str, rows: u64) {
        self.with(table, |bar| bar.inc(rows));
    }

    fn finished(&self, table: &str, rows: u64, bytes: u64, skipped: bool) {
        self.with(table, |bar| {
            bar.set_style(style("{prefix:>12} {msg}"));
            let size = HumanBytes(bytes);
            bar.finish_with_message(format!(
                "{:>13} rows {size:>12} in {:.1} s",
                HumanCount(rows).to_string(),
                bar.elapsed().as_secs_f64()
            ));
        });
        if skipped {
            // An existing table needs no bar. The command reports it.
            tracing::debug!(table, rows, "complete already");
        }
    }
}

/// A bar of `length` steps, for measurements.
pub(crate) fn steps(quiet: bool, prefix: &str, length: u64) -> ProgressBar {
    let bar = if quiet || !io::stderr().is_terminal() {
        ProgressBar::hidden()
    } else {
        ProgressBar::new(length)
    };
    bar.set_style(style("{prefix:>12} {wide_bar} {pos}/{len} {msg} {eta:>4}"));
    bar.set_prefix(prefix.to_string());
    bar
}

/// The time that a statement runs before its progress is shown.
const PATIENCE: Duration = Duration::from_secs(1);

/// Shows the activity of a statement, from its first second until its result is printed.
pub(crate) struct Watch {
    watcher: Mutex<Option<Watcher>>,
    scans: Scans,
}

/// The scans of the running plan, if the CPU runs all of it.
type Scans = Arc<Mutex<Option<ScanProgress>>>;

/// A separate thread: queries may keep those of the runtime busy.
struct Watcher {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Watch {
    /// Starts to watch the query that is planned next.
    pub(crate) fn start(quiet: bool, reports: Option<Arc<QueryReports>>) -> Self {
        if quiet || !io::stderr().is_terminal() {
            return Self {
                watcher: Mutex::default(),
                scans: Scans::default(),
            };
        }
        let (stop, stopped) = mpsc::channel();
        let scans = Scans::default();
        let shared = Arc::clone(&scans);
        let work = move || watch(&stopped, reports.as_deref(), &shared);
        let spawned = thread::Builder::new().name("progress".to_string()).spawn(work);
        // Without a thread, no bar is shown.
        let watcher = spawned.ok().map(|thread| Watcher { stop, thread });
        Self {
            watcher: Mutex::new(watcher),
            scans,
        }
    }

    /// Shows the share of rows that the scans of `plan` have read, unless the plan reports its own progress.
    pub(crate) fn follow(&self, plan: &Arc<dyn ExecutionPlan>) {
        *self.scans.lock().unwrap_or_else(PoisonError::into_inner) = ScanProgress::of(plan);
    }

    /// Removes the bar. No other bar appears afterwards.
    pub(crate) fn end(&self) {
        let watcher = self.watcher.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Watcher { stop, thread }) = watcher {
            drop(stop);
            // The screen is free after the thread has ended.
            let _ = thread.join();
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.end();
    }
}

/// Standard error, reported narrower than it is. A bar fills its line, and the `^C` that a terminal echoes
/// behind it must not wrap to another line, which would be cleared instead.
#[derive(Debug)]
struct Narrower;

impl Narrower {
    /// Columns of `^C` and the cursor.
    const ECHO: u16 = 3;

    fn send(text: &str) -> io::Result<()> {
        io::stderr().write_all(text.as_bytes())
    }

    /// Moves the cursor by the control sequence that ends in `direction`. The sequence treats 0 as 1.
    fn move_by(steps: usize, direction: char) -> io::Result<()> {
        match steps {
            0 => Ok(()),
            steps => Self::send(&format!("\x1b[{steps}{direction}")),
        }
    }
}

impl TermLike for Narrower {
    fn width(&self) -> u16 {
        let size = terminal_size::terminal_size_of(io::stderr());
        size.map_or(80, |(columns, _)| columns.0)
            .saturating_sub(Self::ECHO)
    }

    fn move_cursor_up(&self, lines: usize) -> io::Result<()> {
        Self::move_by(lines, 'A')
    }

    fn move_cursor_down(&self, lines: usize) -> io::Result<()> {
        Self::move_by(lines, 'B')
    }

    fn move_cursor_right(&self, columns: usize) -> io::Result<()> {
        Self::move_by(columns, 'C')
    }

    fn move_cursor_left(&self, columns: usize) -> io::Result<()> {
        Self::move_by(columns, 'D')
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        Self::send(&format!("{text}\n"))
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        Self::send(text)
    }

    fn clear_line(&self) -> io::Result<()> {
        Self::send("\r\x1b[2K")
    }

    fn flush(&self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// The work that a step has done, if the total is unknown.
fn counted(progress: QueryProgress) -> String {
    match progress {
        QueryProgress {
            step: QueryStep::Clustering,
            done,
            ..
        } => format!("iteration {done}, "),
        QueryProgress {
            step: QueryStep::Reading,
            done: rows @ 1..,
            total: None,
        } => format!("{} rows, ", HumanCount(rows)),
        _ => String::new(),
    }
}

/// Draws until `stopped` has lost its sender.
fn watch(stopped: &Receiver<()>, reports: Option<&QueryReports>, scans: &Scans) {
    let goes_on = |time| stopped.recv_timeout(time) == Err(RecvTimeoutError::Timeout);
    if !goes_on(PATIENCE) {
        return;
    }
    let start = Instant::now();
    let bar = ProgressBar::with_draw_target(
        None,
        ProgressDrawTarget::term_like_with_hz(Box::new(Narrower), 10),
    );
    loop {
        let reported = reports
            .and_then(QueryReports::last)
            .and_then(|report| report.progress);
        let progress = reported.or_else(|| {
            let scans = scans.lock().unwrap_or_else(PoisonError::into_inner);
            scans.as_ref().map(ScanProgress::get)
        });
        let step = progress.map_or_else(|| "running".to_string(), |progress| progress.step.to_string());
        // k-means ends when it has converged, possibly before the maximum number of iterations.
        let total = progress
            .filter(|progress| progress.step != QueryStep::Clustering)
            .and_then(|progress| progress.total);
        bar.set_style(style(match total {
            Some(_) => "{prefix:>10} {wide_bar} {percent:>3} % {msg}",
            None => "{prefix:>10} {spinner} {msg}",
        }));
        bar.set_prefix(step);
        if let (Some(progress), Some(total)) = (progress, total) {
            bar.set_length(total);
            bar.set_position(progress.done);
        }
        let seconds = (PATIENCE + start.elapsed()).as_secs();
        let done = progress.map_or_else(String::new, counted);
        let ctrl_c = match reports.is_some_and(QueryReports::offers_end) {
            true => "ends it here",
            false => "cancels",
        };
        bar.set_message(format!("{done}{seconds} s, Ctrl-C {ctrl_c}"));
        bar.tick();
        if !goes_on(Duration::from_millis(200)) {
            break;
        }
    }
    bar.finish_and_clear();
}
