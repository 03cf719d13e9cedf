//! A plan as an outline: one node per line, the facts of a GPU subtree on lines of their own.
//!
//! ```text
//! runs on     GPU
//!
//! SortExec
//! │  sorted by     l_returnflag
//! └─ GpuExec
//!    source      store lineitem
//!    filters     l_shipdate <= 1998-09-02
//!    keys        l_returnflag
//!                l_linestatus
//! ```

use super::interval::with_sql_intervals;
use super::operator;
use crate::facts::{Fact, Facts};
use crate::nodes::GpuExec;
use crate::placement::PlacementExec;
use crate::stream::GpuStreamExec;
use datafusion::common::human_readable_count;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};
use galatea_base::reason::milliseconds;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The plan as readable text; `analysed`: it has run, and each node shows its rows and its time.
#[must_use]
pub fn outline(plan: &Arc<dyn ExecutionPlan>, analysed: bool) -> String {
    let mut lines = Vec::new();
    let mut root = plan;
    if let Some(placement) = plan.downcast_ref::<PlacementExec>() {
        lines.push(format!("{:NAME$}{}", "runs on", placement.device()));
        if let Some(gpu) = placement.gpu() {
            lines.push(format!("{:NAME$}{gpu}", "GPU"));
        }
        // The first line of a reason is sufficient here; `galatea doctor` shows the remedy.
        let fallbacks = placement.fallbacks();
        let reasons = placement.reasons().iter().chain(&fallbacks);
        let reasons: Vec<String> = reasons
            .filter_map(|reason| reason.lines().next().map(str::to_owned))
            .collect();
        push_values(&mut lines, "", "on the CPU", &reasons);
        lines.push(String::new());
        root = placement.input();
    }
    node(root, analysed, "", "", &mut lines);
    lines.join("\n")
}

/// Width of a fact's name.
const NAME: usize = 14;

fn node(plan: &Arc<dyn ExecutionPlan>, analysed: bool, first: &str, rest: &str, lines: &mut Vec<String>) {
    let children = plan.children();
    let (known, cost) = match (
        plan.downcast_ref::<GpuExec>(),
        plan.downcast_ref::<GpuStreamExec>(),
    ) {
        (Some(gpu), _) => (Some(gpu.facts(analysed)), String::new()),
        (_, Some(stream)) => (Some(stream.facts(analysed)), cost(plan, analysed)),
        _ => (operator::facts(plan.as_ref()), cost(plan, analysed)),
    };
    match &known {
        Some(known) => {
            lines.push(format!("{first}{}{cost}", plan.name()));
            let bar = if children.is_empty() { "   " } else { "│  " };
            facts(known, &format!("{rest}{bar}"), lines);
        }
        None => {
            let line = line(plan.as_ref());
            lines.push(format!("{first}{line}{cost}"));
        }
    }
    for (number, child) in children.iter().enumerate() {
        let (branch, bar) = match number + 1 == children.len() {
            true => ("└─ ", "   "),
            false => ("├─ ", "│  "),
        };
        node(
            child,
            analysed,
            &format!("{rest}{branch}"),
            &format!("{rest}{bar}"),
            lines,
        );
    }
}

fn facts(facts: &Facts, indent: &str, lines: &mut Vec<String>) {
    for Fact { name, values, .. } in &facts.0 {
        push_values(lines, indent, name, values);
    }
}

/// A name, and its values below each other.
fn push_values(lines: &mut Vec<String>, indent: &str, name: &str, values: &[String]) {
    let all = values.iter().flat_map(|value| value.lines());
    for (number, value) in all.enumerate() {
        let value = with_sql_intervals(value);
        let name = if number == 0 { name } else { "" };
        // Names that are wider keep one space.
        let gap = NAME.saturating_sub(name.chars().count()).max(1);
        lines.push(format!("{indent}{name}{:gap$}{value}", ""));
    }
}

/// Rows of a DataFusion node that has run, and the time that its partitions have computed.
fn cost(plan: &Arc<dyn ExecutionPlan>, analysed: bool) -> String {
    let Some(metrics) = plan.metrics().filter(|_| analysed) else {
        return String::new();
    };
    let rows = metrics
        .output_rows()
        .map(|rows| format!("{} rows", human_readable_count(rows)));
    let time = metrics
        .elapsed_compute()
        .map(|nanoseconds| format!("CPU {}", milliseconds(Duration::from_nanos(nanoseconds as u64))));
    let parts: Vec<String> = rows.into_iter().chain(time).collect();
    if parts.is_empty() {
        String::new()
    } else {
        format!("  ({})", parts.join(", "))
    }
}

/// The line of a node without facts.
pub(super) fn line(plan: &dyn ExecutionPlan) -> String {
    with_sql_intervals(&Line(plan).to_string())
}

/// A node as its own line of EXPLAIN.
struct Line<'a>(&'a dyn ExecutionPlan);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        DisplayAs::fmt_as(self.0, DisplayFormatType::Default, f)
    }
}
