//! The named facts of a pipeline.

use super::loads::{column_chunks, from_disk, from_files, gigabytes, row_groups, steps};
use crate::graph::{PipelineRef, PipelineSource, Prediction};
use crate::joins::JoinAlgorithm;
use crate::report::RunReport;
use arrow::datatypes::Schema;
use datafusion::common::human_readable_count;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig};
use galatea_base::reason::{milliseconds, size};
use galatea_codegen::aggregate::AggregateCall;
use galatea_codegen::{RowOrder, SinkPlan, WindowInput};
use galatea_expression::{Expr, ExprKind, WindowFunction};
use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

/// A named property of a node or a pipeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fact {
    /// Its name, one or two words.
    pub(crate) name: &'static str,
    /// Its values.
    pub(crate) values: Vec<String>,
    /// Whether it has any number of values.
    pub(crate) is_list: bool,
}

impl Fact {
    pub(crate) fn one(name: &'static str, value: impl Into<String>) -> Self {
        Self {
            name,
            values: vec![value.into()],
            is_list: false,
        }
    }

    /// Values of any number, below each other.
    pub(crate) fn list(name: &'static str, values: Vec<String>) -> Option<Self> {
        (!values.is_empty()).then_some(Self {
            name,
            values,
            is_list: true,
        })
    }

    /// The values in one line, in brackets for any number of them.
    fn bracketed(&self) -> String {
        let text = self.values();
        if self.is_list { format!("[{text}]") } else { text }
    }

    /// The values in one line.
    pub(crate) fn values(&self) -> String {
        self.values.join(", ")
    }
}

/// All facts of a node or of a pipeline, in reading order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Facts(pub(crate) Vec<Fact>);

impl fmt::Display for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, fact) in self.0.iter().enumerate() {
            let comma = if number == 0 { "" } else { ", " };
            write!(f, "{comma}{}={}", fact.name, fact.bracketed())?;
        }
        Ok(())
    }
}

impl Facts {
    /// Adds a fact.
    pub(crate) fn push(&mut self, name: &'static str, value: &str) {
        self.0.push(Fact::one(name, value));
    }

    /// Adds facts.
    pub(crate) fn extend(&mut self, others: Self) {
        self.0.extend(others.0);
    }

    /// The facts of a pipeline's plan.
    pub(crate) fn planned(pipeline: PipelineRef<'_>) -> Self {
        let columns = &*pipeline.schema;
        let named = |expressions: &[Expr]| -> Vec<String> {
            expressions
                .iter()
                .map(|expression| bare(expression, columns))
                .collect()
        };
        let mut facts = vec![source(pipeline)];
        facts.extend(joins(pipeline, columns));
        facts.extend(join_costs(pipeline));
        // Conditions that only test for an entry of a group table or a match are not shown.
        let of_entries = |filter: &&Expr| match filter.kind() {
            ExprKind::Member { build_side, .. } => pipeline.row_sides.contains(build_side),
            _ => false,
        };
        let filters = pipeline.plan.filters.iter();
        let filters: Vec<Expr> = filters.filter(|filter| !of_entries(filter)).cloned().collect();
        facts.extend(Fact::list("filters", named(&filters)));
        match &pipeline.plan.sink {
            SinkPlan::Aggregate { keys, aggregates, .. } => {
                facts.extend(Fact::list("keys", named(keys)));
                facts.extend(Fact::list("aggregates", calls(aggregates, columns)));
            }
            SinkPlan::Rows { outputs, order } => {
                facts.extend(Fact::list("outputs", named(outputs)));
                let computed: Vec<Expr> = (outputs.iter())
                    .filter(|output| output.is_for_host(&|_| false))
                    .cloned()
                    .collect();
                facts.extend(Fact::list("computed on the CPU", named(&computed)));
                facts.extend(order.as_ref().and_then(|order| match order {
                    RowOrder::First(top) => {
                        let rows = format!("first {} by {}", top.fetch, bare(&top.key, columns));
                        Some(Fact::one("top k", rows))
                    }
                    RowOrder::All(words) => {
                        let keys = words.first()?;
                        let is_place = |key: &&Expr| matches!(key.kind(), ExprKind::RowNumber);
                        let text = match keys.children().into_iter().all(|key| is_place(&key)) {
                            true => "the order of the window".to_owned(),
                            false => bare(keys, columns),
                        };
                        Some(Fact::one("sorted by", text))
                    }
                }));
            }
            SinkPlan::Build {
                key, columns: built, ..
            } => {
                facts.push(Fact::one("build side by", bare(key, columns)));
                facts.extend(strings_by_row(built, columns));
            }
            SinkPlan::Multimap {
                key, columns: kept, ..
            } => {
                facts.push(Fact::one("multimap by", bare(key, columns)));
                facts.extend(strings_by_row(kept, columns));
            }
            SinkPlan::Probe {
                key, columns: kept, ..
            } => {
                facts.push(Fact::one("probe side by", bare(key, columns)));
                facts.extend(strings_by_row(kept, columns));
            }
            SinkPlan::Partition { key, .. } => facts.push(Fact::one("partitions by", bare(key, columns))),
            SinkPlan::Mark { marking, .. } => facts.push(Fact::one("marks", marking.to_string())),
            SinkPlan::Store { .. } => {}
            SinkPlan::Windows(input) => {
                facts.extend(windows(input, columns));
                facts.extend(strings_by_row(&input.columns, columns));
            }
            SinkPlan::BuildGroups { key, aggregates, .. } => {
                facts.push(Fact::one("build side by", bare(key, columns)));
                facts.extend(Fact::list("aggregates", calls(aggregates, columns)));
            }
        }
        if let Some(fetch) = pipeline.fetch {
            facts.push(Fact::one("fetch", fetch.to_string()));
        }
        if let Some(Prediction { hot, unpaid, cpu }) = pipeline.prediction {
            let warm_up = match unpaid.is_zero() {
                true => String::new(),
                false => format!(" + {} warm-up", milliseconds(unpaid)),
            };
            let (hot, cpu) = (milliseconds(hot), milliseconds(cpu));
            facts.push(Fact::one(
                "predicted",
                format!("{hot}{warm_up} on the GPU, {cpu} on the CPU"),
            ));
        }
        Self(facts)
    }

    /// Adds the facts of a run of the pipeline; `spent`: also its time and bytes, and the number of rows that
    /// was `expected` to pass.
    pub(crate) fn add_run(&mut self, report: &RunReport, spent: bool, expected: Option<u64>) {
        self.extend(Self::ran(report));
        if spent {
            self.extend(Self::spent(report, expected));
        }
    }

    /// The strategy of a run, and the reason for it.
    fn ran(report: &RunReport) -> Self {
        let columns = if report.resident { "resident" } else { "streamed" };
        let mut facts = vec![
            Fact::one("strategy", report.strategy.clone()),
            Fact::one("columns", columns),
            Fact::one("compiled", report.compiled),
            Fact::one("grid", report.grid.to_string()),
        ];
        facts.extend(report.way.map(|way| Fact::one("transfer method", way.name())));
        if let Some(load) = &report.loaded {
            facts.extend(column_chunks(load).map(|sides| Fact::one("column chunks", sides)));
            facts.extend(row_groups(load).map(|read| Fact::one("row groups", read)));
        }
        let rows = report.build_side_rows.iter().map(ToString::to_string).collect();
        facts.extend(Fact::list("build side rows", rows));
        let memories = report.build_sides.iter().enumerate();
        let memories = memories
            .map(|(number, memory)| format!("d{number}: {memory}"))
            .collect();
        facts.extend(Fact::list("build side memory", memories));
        let partitions = report.partitions.as_ref();
        facts.extend(partitions.map(|why| Fact::one("partitions", why.clone())));
        facts.extend(report.why.as_ref().map(|why| Fact::one("why", why.clone())));
        let counts = [
            ("chunks overlapped", report.awaited as u64),
            ("chunks shared", report.shared_chunks as u64),
            ("counting passes", report.passes as u64),
            ("sort partitions", report.sort_ranges as u64),
            ("sort passes", u64::from(report.sort_passes)),
            ("hash table grown", report.grown as u64),
            ("preemptions", report.preemptions as u64),
            ("heap pages", report.pages),
        ];
        let counted = counts.into_iter().filter(|(_, count)| *count > 0);
        facts.extend(counted.map(|(name, count)| Fact::one(name, count.to_string())));
        let allocations = report.page_allocations;
        facts.extend(allocations.map(|pages| Fact::one("page allocations", pages.to_string())));
        if report.in_order {
            facts.push(Fact::one("sort", "skipped (input sorted)"));
        }
        if let Some(fraction) = report.ceiling {
            facts.push(Fact::one("ceiling", format!("{:.0}%", fraction * 100.0)));
        }
        Self(facts)
    }

    /// The time and bytes of a run; its metrics contain the same numbers.
    fn spent(report: &RunReport, expected: Option<u64>) -> Self {
        let skipped = match report.chunks_skipped {
            0 => String::new(),
            skipped => format!(", {skipped} of {} chunks skipped", report.chunks + skipped),
        };
        let count = |rows: u64| human_readable_count(usize::try_from(rows).unwrap_or(usize::MAX));
        let expected = expected.map(|rows| format!(" ({} expected)", count(rows)));
        let rows = format!(
            "{} scanned, {} passed the filters{}{skipped}",
            count(report.rows),
            count(report.rows_passed),
            expected.unwrap_or_default()
        );
        let phases = [
            ("generate", report.generate),
            ("compile", report.compile),
            ("transfer", report.transfer),
            ("kernel", report.kernel),
        ];
        let phases = phases.map(|(name, time)| format!("{name} {}", milliseconds(time)));
        let ahead = match report.ahead {
            Duration::ZERO => String::new(),
            ahead => format!("; compiled before in {}", milliseconds(ahead)),
        };
        // Copies and kernels may run at the same time.
        let time = format!(
            "{} (overlapping: {}){ahead}",
            milliseconds(report.total),
            phases.join(", ")
        );
        let mut facts = vec![
            Fact::one("rows", rows),
            Fact::one("time", time),
            Fact::one("read", size(report.device_bytes) + &rate(report)),
            Fact::one("over the link", size(report.link_bytes)),
        ];
        if let Some(load) = &report.loaded {
            facts.extend(from_files(load).map(|read| Fact::one("from files", read)));
            facts.extend(steps(load).map(|times| Fact::one("load steps", times)));
            facts.extend(from_disk(load).map(|read| Fact::one("from the column cache", read)));
        }
        Self(facts)
    }
}

/// The rate at which kernels read, and the measured maximum of the device.
fn rate(report: &RunReport) -> String {
    if report.kernel.is_zero() {
        return String::new();
    }
    let rate = report.device_bytes as f64 / report.kernel.as_secs_f64();
    let memory = if report.resident {
        "device memory"
    } else {
        "the link"
    };
    match report.ceiling {
        Some(fraction) if fraction > 0.0 => format!(
            " at {}, {:.0} % of the {} of {memory}",
            gigabytes(rate),
            fraction * 100.0,
            gigabytes(rate / fraction)
        ),
        _ => format!(" at {}", gigabytes(rate)),
    }
}

/// The files of a scan, by the name of the first.
pub(crate) fn files(scan: &FileScanConfig) -> String {
    let mut files = scan.file_groups.iter().flat_map(FileGroup::iter);
    let first = files.next().map(|file| &file.object_meta.location);
    // A file that several partitions read counts once.
    let others: BTreeSet<_> = files.map(|file| &file.object_meta.location).collect();
    let Some(first) = first else {
        return "no files".to_string();
    };
    let name = first.filename().unwrap_or_default();
    match others.len() - usize::from(others.contains(first)) {
        0 => format!("file {name}"),
        more => format!("files {name} and {more} more"),
    }
}

fn source(pipeline: PipelineRef<'_>) -> Fact {
    let rows = |what: &str| {
        let sides = pipeline.get().row_sides.clone();
        let values = sides.map(|side| made_by(format!("{what} d{side}"), pipeline, side));
        values.collect::<Vec<_>>()
    };
    let values = match &pipeline.source {
        PipelineSource::Stored(table) => vec![format!("store {}", table.name())],
        PipelineSource::Files { scan, .. } => match scan.data_source().downcast_ref::<FileScanConfig>() {
            Some(scan) => vec![files(scan)],
            None => vec!["no files".to_string()],
        },
        PipelineSource::Plan(input) => vec![format!("rows of {}", input.plan().name())],
        PipelineSource::Groups(_) => rows("groups"),
        PipelineSource::Pairs(_) => with_algorithm(rows("pairs"), pipeline),
        PipelineSource::Windows(_) => rows("ordered rows"),
        PipelineSource::Union(_) => rows("rows"),
    };
    Fact {
        is_list: values.len() > 1,
        name: "source",
        values,
    }
}

/// The pairs of keys of a join, with the algorithm that joins their rows.
fn with_algorithm(pairs: Vec<String>, pipeline: PipelineRef<'_>) -> Vec<String> {
    let Some(algorithm) = JoinAlgorithm::of_pairs(pipeline) else {
        return pairs;
    };
    let named = |pairs| format!("{pairs}, {}", algorithm.name());
    pairs.into_iter().map(named).collect()
}

/// The value with the pipeline that builds the build side, if one does.
fn made_by(known: String, pipeline: PipelineRef<'_>, side: usize) -> String {
    match pipeline.build(side) {
        Some(build) => format!("{known}, built by {}", build.id()),
        None => known,
    }
}

/// The build sides other than those of its rows.
fn joins(pipeline: PipelineRef<'_>, columns: &Schema) -> Option<Fact> {
    let sides = pipeline.build_sides.iter().enumerate();
    let sides = sides.filter(|(number, _)| !pipeline.row_sides.contains(number));
    let values = sides.map(|(number, side)| {
        let (key, wanted) = (side.key_name(), bare(&side.wanted, columns));
        let algorithm = JoinAlgorithm::of(pipeline, number).name();
        let lookup = format!("d{number}: {key} on {wanted}, {algorithm}");
        match (&side.build, side.rows) {
            (Some(_), _) => made_by(lookup, pipeline, number),
            (None, Some(rows)) => format!("{lookup}, rows {rows}"),
            (None, None) => format!("{lookup}, rows unknown"),
        }
    });
    Fact::list("joins", values.collect())
}

fn duration(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

/// The predicted times of the algorithms of its joins, besides reading the columns of both sides once.
fn join_costs(pipeline: PipelineRef<'_>) -> Option<Fact> {
    let sides = pipeline.build_sides.iter().enumerate();
    let values = sides.filter_map(|(number, side)| {
        let costs = side.costs?;
        let algorithms = [
            ("hash", costs.hash),
            ("radix", costs.radix),
            ("triton", Some(costs.triton)),
            ("multipass", Some(costs.multipass)),
        ];
        let times = algorithms.into_iter().map(|(algorithm, seconds)| match seconds {
            Some(seconds) => format!("{algorithm} {}", milliseconds(duration(seconds))),
            None => format!("{algorithm} exceeds device memory"),
        });
        Some(format!("d{number}: {}", times.collect::<Vec<_>>().join(", ")))
    });
    Fact::list("join costs", values.collect())
}

/// Late-materialised strings, which are only returned.
fn strings_by_row(kept: &[(usize, Expr)], columns: &Schema) -> Option<Fact> {
    let texts = kept.iter().filter_map(|(_, column)| match column.kind() {
        ExprKind::LateMaterialised(text) => Some(bare(text, columns)),
        _ => None,
    });
    Fact::list("late-materialised strings", texts.collect())
}

/// The order of a window, and the functions over it.
fn windows(input: &WindowInput, columns: &Schema) -> Vec<Fact> {
    let argument = |number: &usize| {
        let mut kept = input.columns.iter();
        let column = kept.find(|(column, _)| column == number);
        column.map_or_else(String::new, |(_, column)| bare(column, columns))
    };
    let functions = input.calls.iter().map(|(_, call)| {
        let argument = match (&call.argument, &call.function) {
            (Some(column), _) => argument(column),
            (None, WindowFunction::Count) => "*".to_owned(),
            (None, _) => String::new(),
        };
        let frame = match call.function.has_frame() {
            true => format!(" over {}", call.frame),
            false => String::new(),
        };
        let nulls = if call.ignores_nulls { " ignore nulls" } else { "" };
        format!("{}({argument}){nulls}{frame}", call.function.name())
    });
    let keys = |words: &[Expr]| words.first().map(|word| bare(word, columns));
    let mut facts: Vec<Fact> = Fact::list("functions", functions.collect()).into_iter().collect();
    facts.extend(keys(&input.partition).map(|keys| Fact::one("partition by", keys)));
    facts.extend(keys(&input.order).map(|keys| Fact::one("order by", keys)));
    facts
}

fn calls(aggregates: &[AggregateCall], columns: &Schema) -> Vec<String> {
    let call = |call: &AggregateCall| {
        let function = call.function.name();
        let argument =
            (call.argument.as_ref()).map_or_else(|| "*".to_string(), |argument| bare(argument, columns));
        match &call.filter {
            Some(filter) => format!("{function}({argument}) FILTER (WHERE {})", bare(filter, columns)),
            None => format!("{function}({argument})"),
        }
    };
    aggregates.iter().map(call).collect()
}

/// An expression without the parentheses around all of it.
fn bare(expression: &Expr, columns: &Schema) -> String {
    let text = expression.named(columns).to_string();
    let inner = text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    let Some(inner) = inner.filter(|_| expression.parts().len() == 1) else {
        return text;
    };
    let mut depth = 0_i32;
    let mut quoted = false;
    for letter in inner.chars() {
        match letter {
            '\'' => quoted = !quoted,
            '(' if !quoted => depth += 1,
            ')' if !quoted => depth -= 1,
            _ => {}
        }
        if depth < 0 {
            return text;
        }
    }
    inner.to_string()
}
