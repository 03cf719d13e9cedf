//! Dense groups in shared memory or registers of a block, laid out to avoid lane conflicts (Sitaridi & Ross
//! §1-3); see [`SharedLayout`] for the layouts.
//!
//! If the sample has `hot` groups, their rows are accumulated in registers of each thread instead. Rows may
//! be combined first: either runs (consecutive rows of a thread with the same group) in registers, or the
//! rows of a warp's lanes with the same group. The latter is for group counts that leave no room for copies
//! and for groups so frequent that lanes conflict.

use super::statements::{add_to_registers, combine_lanes, compare_strings, value_of, words_of_group};
use super::{Geometry, Sink, hot, scalar};
use crate::accumulators::{AccumulatorPlan, Contribution};
use crate::aggregate::Accumulator;
use crate::group_layout::{ColumnSlots, ElementForm, SharedLayout};
use galatea_expression::code::{Code, line};
use galatea_layout::model::AccumulatorLayout;

/// Collects the dense groups of a block.
#[derive(Debug)]
pub(crate) struct SharedSink {
    pub(crate) accumulators: AccumulatorPlan,
    pub(crate) layout: SharedLayout,
    /// Indices of the literals that contain the hot groups.
    pub(crate) hot: Vec<usize>,
}

impl Sink for SharedSink {
    fn dynamic_shared(&self) -> u32 {
        u32::try_from(self.layout.bytes(&self.accumulators)).unwrap_or(u32::MAX)
    }

    fn is_warp_aggregated(&self) -> bool {
        self.layout.is_warp_aggregated()
    }

    /// Clears the accumulators.
    fn prologue(&self, _: Geometry, code: &mut Code) {
        let (plan, layout) = (&self.accumulators, &self.layout);
        if layout.accumulators == AccumulatorLayout::Registers {
            return scalar::declare(plan, layout.groups, code);
        }
        code.lines("GALATEA_DYNAMIC_SHARED(dynamic_shared);");
        for (k, (form, at)) in layout.arrays(plan).into_iter().enumerate() {
            let word = match form {
                ElementForm::Whole(_) => "u64",
                ElementForm::Count | ElementForm::Split(_) => "u32",
            };
            line!(
                code,
                "{word}* const acc{k} = reinterpret_cast<{word}*>(dynamic_shared + {at}u);"
            );
        }
        line!(
            code,
            "for (u32 i = threadIdx.x; i < {}u; i += {}u) reinterpret_cast<u64*>(dynamic_shared)[i] = 0;",
            layout.bytes(plan) / 8,
            layout.block
        );
        if let AccumulatorLayout::Replicated { copies, .. } = layout.accumulators {
            line!(code, "const u32 copy = threadIdx.x & {}u;", copies - 1);
        }
        hot::prologue(plan, &self.hot, code);
        if layout.runs {
            self.flush(code);
        }
        code.lines("__syncthreads();");
    }

    fn row(&self, code: &mut Code) {
        let (plan, layout) = (&self.accumulators, &self.layout);
        compare_strings(plan, &words_of_group(plan, &self.group()), code);
        if layout.accumulators == AccumulatorLayout::Registers {
            for group in 0..layout.groups {
                line!(code, "if (group == {group}u) {{");
                add_to_registers(plan, |w| format!("&w{group}_{w}"), code);
                code.lines("}");
            }
            return;
        }
        if layout.runs {
            // The current run ends when another group begins; the last run ends after the rows of the step.
            let group = self.group();
            line!(
                code,
                "if ({group} != run) {{\n    flush();\n    run = {group};\n}}"
            );
            add_to_registers(plan, |w| format!("&w{w}"), code);
            return;
        }
        hot::update(plan, layout.hot, code);
        code.lines("{");
        self.element(&self.group(), code);
        if layout.is_warp_aggregated() {
            combine_lanes(plan, ("active", "at"), code, |k, c, low, high| {
                self.add(k, c, &value_of(c.accumulator, low, high))
            });
        } else {
            for (k, c) in plan.contributions.iter().enumerate() {
                if let Some(condition) = &c.condition {
                    code.part(format_args!("if ({condition}) "));
                }
                line!(code, "{}", self.add(k, c, &c.value));
            }
        }
        code.lines("}");
    }

    /// Adds the last run to its group.
    fn after_rows(&self, code: &mut Code) {
        if self.layout.runs {
            code.lines("flush();\nrun = 0xffffffffu;");
        }
    }

    fn epilogue(&self, _: Geometry, code: &mut Code) {
        if self.layout.accumulators == AccumulatorLayout::Registers {
            return scalar::merge(&self.accumulators, self.layout.groups, self.layout.block, code);
        }
        self.merge(code);
        hot::merge(&self.accumulators, self.layout.hot, code);
    }
}

impl SharedSink {
    /// The statement that adds a row with value `value` to element `at`.
    fn add(&self, k: usize, c: &Contribution, value: &str) -> String {
        let plane = self.layout.elements();
        let private = self.layout.is_privatised();
        let words = if private { "PrivateWords" } else { "SharedWords" };
        match (self.layout.form(c), c.accumulator) {
            (ElementForm::Count, _) if private => format!("acc{k}[at] += u32({value});"),
            (ElementForm::Count, _) if value == "1ull" => format!("SharedWords::count(acc{k} + at);"),
            (ElementForm::Count, _) => format!("atomicAdd(acc{k} + at, u32({value}));"),
            (ElementForm::Split(4), _) => {
                format!("SharedWords::sum128(acc{k} + at, {plane}u, {value});")
            }
            (ElementForm::Split(_), _) if c.is_narrow() && value == c.value => {
                format!("SharedWords::sum_narrow(acc{k} + at, acc{k} + {plane}u + at, u32({value}));")
            }
            (ElementForm::Split(_), _) => {
                format!("SharedWords::sum64(acc{k} + at, acc{k} + {plane}u + at, u64({value}));")
            }
            (ElementForm::Whole(2), _) => {
                format!("{words}::sum128(acc{k} + at, acc{k} + {plane}u + at, {value});")
            }
            (ElementForm::Whole(_), Accumulator::SumF64) => {
                format!("{words}::sum_f64(acc{k} + at, {value});")
            }
            (ElementForm::Whole(_), accumulator) => {
                let update = accumulator.update_partial();
                format!("{words}::{update}(acc{k} + at, u64({value}));")
            }
        }
    }

    /// C++ expression that reads the elements of an accumulator back.
    fn read(&self, k: usize, c: &Contribution) -> String {
        let plane = self.layout.elements();
        match self.layout.form(c) {
            ElementForm::Count => format!("CountElements{{acc{k}}}"),
            ElementForm::Split(planes) => format!("SplitElements{{acc{k}, {plane}u, {}}}", planes == 4),
            ElementForm::Whole(planes) => format!("WholeElements{{acc{k}, {plane}u, {}}}", planes == 2),
        }
    }

    /// Declares `at`, the element of the row's group.
    fn element(&self, group: &str, code: &mut Code) {
        match self.layout.accumulators {
            AccumulatorLayout::Registers => {}
            AccumulatorLayout::PerThread => {
                line!(
                    code,
                    "const u32 at = u32({group}) * {}u + threadIdx.x;",
                    self.layout.block
                );
            }
            AccumulatorLayout::Replicated { stride, .. } => {
                line!(code, "const u32 at = u32({group}) * {stride}u + copy;");
            }
            AccumulatorLayout::OneCopy | AccumulatorLayout::WarpAggregated | AccumulatorLayout::Slots => {
                line!(code, "const u32 at = u32({group});");
            }
        }
    }

    /// C++ expression of the group of a row: its number, or the slot of a laid-out column.
    fn group(&self) -> String {
        match self.layout.slots {
            Some(ColumnSlots { column, .. }) => format!("u32(q{column}[i])"),
            None => "group".into(),
        }
    }

    /// Declares the registers of a run, and the function that adds them to its group.
    fn flush(&self, code: &mut Code) {
        let words = self.accumulators.partial_words;
        code.lines("u32 run = 0xffffffffu;");
        for w in 0..words {
            line!(code, "u64 w{w} = 0;");
        }
        let mut body = Code::default();
        body.lines("if (run == 0xffffffffu) return;");
        self.element("run", &mut body);
        for (k, c) in self.accumulators.contributions.iter().enumerate() {
            let value = value_of(
                c.accumulator,
                &format!("w{}", c.partial),
                &format!("w{}", c.partial + 1),
            );
            // If no value of a run counts, its word is zero and changes nothing.
            line!(body, "{}", self.add(k, c, &value));
        }
        for w in 0..words {
            line!(body, "w{w} = 0;");
        }
        code.lines("const auto flush = [&] {");
        code.nest(1, &body);
        code.lines("};");
    }

    /// Merges the block's copies of each group into global memory.
    fn merge(&self, code: &mut Code) {
        let SharedLayout { groups, block, .. } = self.layout;
        let warps = block / 32;
        let (copies, stride) = match self.layout.accumulators {
            AccumulatorLayout::PerThread => (block, block),
            AccumulatorLayout::Replicated { copies, stride } => (copies, stride),
            _ => (1, 1),
        };
        let few = copies < 16;
        code.lines("__syncthreads();");
        if let Some(slots) = self.layout.slots {
            self.gather_copies(&slots, code);
            let ColumnSlots { values, table, .. } = slots;
            line!(
                code,
                "for (u32 first = threadIdx.x; first < {values}u; first += {block}u) {{
    const u32 group = __ldg(reinterpret_cast<const u32*>(args.tables[{table}]) + first);"
            );
        } else {
            let (start, step) = match few {
                true => ("threadIdx.x", block),
                false => ("threadIdx.x >> 5", warps),
            };
            line!(
                code,
                "for (u32 group = {start}; group < {groups}u; group += {step}u) {{
    const u32 first = group * {stride}u;"
            );
        }
        line!(
            code,
            "    u64* const total = reinterpret_cast<u64*>(args.groups) + u64(group) * {}u;",
            self.accumulators.words
        );
        let function = if few { "merge_few" } else { "merge_copies" };
        for (k, c) in self.accumulators.contributions.iter().enumerate() {
            line!(
                code,
                "    {function}<{}>({}, first, {copies}u, total + {});",
                c.accumulator.merge(),
                self.read(k, c),
                c.word
            );
        }
        code.lines("}");
    }

    /// Adds the copies of a laid-out column's values to the first ones, in shared memory, where a value with
    /// many copies costs little.
    fn gather_copies(&self, slots: &ColumnSlots, code: &mut Code) {
        let ColumnSlots {
            slots, values, table, ..
        } = slots;
        line!(
            code,
            "for (u32 copy = {values}u + threadIdx.x; copy < {slots}u; copy += {}u) {{
    const u32 at = __ldg(reinterpret_cast<const u32*>(args.tables[{table}]) + copy);
    if (at == 0xffffffffu) continue;",
            self.layout.block
        );
        for (k, c) in self.accumulators.contributions.iter().enumerate() {
            let word = |half: &str| format!("{}.{half}(copy)", self.read(k, c));
            let value = value_of(c.accumulator, &word("low"), &word("high"));
            line!(code, "    {}", self.add(k, c, &value));
        }
        code.lines("}\n__syncthreads();");
    }
}
