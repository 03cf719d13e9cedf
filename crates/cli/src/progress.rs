//! Progress of long work, on a terminal.

use std::collections::HashMap;
use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::Duration;

use galatea_bench::workload::generate::Progress;
use indicatif::{HumanBytes, HumanCount, MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

/// One bar per table, on standard error; nothing where that is no terminal, or when asked to be quiet.
pub(crate) struct Bars {
    all: MultiProgress,
    bars: Mutex<HashMap<String, ProgressBar>>,
}

impl Bars {
    pub(crate) fn new(quiet: bool) -> Self {
        let target = if quiet || !std::io::stderr().is_terminal() {
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
        let bars = self
            .bars
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
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
            .unwrap_or_else(std::sync::PoisonError::into_inner)
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
            // A table that was there needs no bar; what is told about it is told by the command.
            tracing::debug!(table, rows, "complete already");
        }
    }
}

/// A bar over `length` steps, for measurements.
pub(crate) fn steps(quiet: bool, prefix: &str, length: u64) -> ProgressBar {
    let bar = if quiet || !std::io::stderr().is_terminal() {
        ProgressBar::hidden()
    } else {
        ProgressBar::new(length)
    };
    bar.set_style(style("{prefix:>12} {wide_bar} {pos}/{len} {msg} {eta:>4}"));
    bar.set_prefix(prefix.to_string());
    bar
}
