//! Dense groups in shared memory or registers of a block, laid out so that lanes do not meet (Sitaridi & Ross
//! §1-3).
//!
//! An accumulator is an array of elements, one per group and copy: whole 64-bit words where each thread has a
//! copy of its own, otherwise planes of 32-bit words with native atomics. Which element a row updates is the
//! layout's:
//!
//! | layout | element | conflicts |
//! | --- | --- | --- |
//! | `Registers` | none: a register per group and thread | none |
//! | `Threads` | group × threads + thread | none, no atomics |
//! | `Copies` | group × stride + lane mod copies | none with 32 copies and more; fewer the more copies there are |
//! | `Placed` | the slot that the row of a placed column names | those the placement left |
//!
//! With `hot` groups, the most frequent ones of a sample, their rows go to registers of each thread instead.
//! Rows may be combined first: of a run, the consecutive rows of a thread with one group, in registers, for
//! columns sorted or clustered by group; or of a warp's lanes with one group, for groups so many that there
//! is no room for copies, and so frequent that lanes meet.

use super::super::aggregate::Accumulator;
use super::super::bind::{AccumulatorPlan, Contribution};
use super::super::generate::SinkFrame;
use super::{combine_by_warps, hot, scalar, value_of};
use std::fmt::{self, Write};

/// Where the groups of a block are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SharedHome {
    /// Registers of each thread.
    Registers,
    /// A copy per thread.
    Threads,
    /// Copies for groups of lanes.
    Copies {
        /// Copies of a group: a power of two up to 32.
        copies: u32,
        /// Elements from a group to the next.
        stride: u32,
    },
    /// The slots of a placed column.
    Placed {
        /// Kernel column.
        column: usize,
        /// Slots.
        slots: u32,
        /// Slots that are the first of their value, and its number: the copies follow.
        values: u32,
        /// Lookup table: of the first slots the group, of copies the first slot, all ones for holes.
        table: usize,
    },
}

/// Which rows of a group are added up before it is updated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Combine {
    /// None.
    Nothing,
    /// Consecutive rows of a thread.
    Runs,
    /// The rows of a warp's lanes.
    Warps,
}

/// How a block collects dense groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedLayout {
    /// Groups.
    pub groups: u64,
    /// Where they are.
    pub home: SharedHome,
    /// Which rows are added up first.
    pub combine: Combine,
    /// Groups that have registers of each thread besides: so frequent that lanes would meet in them whatever
    /// the copies.
    pub hot: u32,
    /// Threads of a block.
    pub block: u32,
}

impl fmt::Display for SharedLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.home {
            SharedHome::Registers => write!(f, "registers({} groups", self.groups)?,
            SharedHome::Threads => write!(f, "shared({} groups, a copy per thread", self.groups)?,
            SharedHome::Copies { copies: 1, .. } => write!(f, "shared({} groups, one copy", self.groups)?,
            SharedHome::Copies { copies, stride } => {
                write!(
                    f,
                    "shared({} groups, {copies} copies, stride {stride}",
                    self.groups
                )?;
            }
            SharedHome::Placed { slots, .. } => {
                write!(
                    f,
                    "shared({} groups in {slots} slots of a placed column",
                    self.groups
                )?;
            }
        }
        f.write_str(match self.combine {
            Combine::Nothing => "",
            Combine::Runs => ", runs",
            Combine::Warps => ", combined by warps",
        })?;
        if self.hot > 0 {
            write!(f, ", {} hot in registers", self.hot)?;
        }
        write!(f, ", {} threads)", self.block)
    }
}

/// What an accumulator is in shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// `u32` counts.
    Count,
    /// Planes of `u32`.
    Split(u64),
    /// Planes of `u64`.
    Whole(u64),
}

impl SharedLayout {
    /// Elements of an accumulator.
    pub fn elements(&self) -> u64 {
        match self.home {
            SharedHome::Registers => 0,
            SharedHome::Threads => self.groups * u64::from(self.block),
            SharedHome::Copies { stride, .. } => self.groups * u64::from(stride),
            SharedHome::Placed { slots, .. } => u64::from(slots),
        }
    }

    /// Bytes of shared memory that the accumulators take.
    pub fn bytes(&self, plan: &AccumulatorPlan) -> u64 {
        let per_element: u64 = plan.contributions.iter().map(|c| self.form(c).bytes()).sum();
        // Planes of whole words come first, so nothing is lost to alignment but at the end.
        (self.elements().saturating_mul(per_element)).saturating_add(7) & !7
    }

    /// Whether each thread has elements of its own.
    fn private(&self) -> bool {
        matches!(self.home, SharedHome::Threads | SharedHome::Registers)
    }

    fn form(&self, c: &Contribution) -> Form {
        match c.accumulator {
            Accumulator::Count => Form::Count,
            Accumulator::Sum64 | Accumulator::SumWidening if !self.private() => Form::Split(2),
            Accumulator::Sum128 if !self.private() => Form::Split(4),
            Accumulator::Sum128 => Form::Whole(2),
            _ => Form::Whole(1),
        }
    }

    /// By contribution: form, and first byte.
    fn regions(&self, plan: &AccumulatorPlan) -> Vec<(Form, u64)> {
        let mut regions: Vec<(Form, u64)> = plan.contributions.iter().map(|c| (self.form(c), 0)).collect();
        let mut end = 0;
        for whole in [true, false] {
            for (form, at) in &mut regions {
                if matches!(form, Form::Whole(_)) == whole {
                    *at = end;
                    end += form.bytes() * self.elements();
                }
            }
        }
        regions
    }

    /// The statement that adds a row of value `value` to element `at`.
    fn add(&self, k: usize, c: &Contribution, value: &str) -> String {
        let plane = self.elements();
        let home = if self.private() {
            "PrivateWords"
        } else {
            "SharedWords"
        };
        match (self.form(c), c.accumulator) {
            (Form::Count, _) if self.private() => format!("acc{k}[at] += u32({value});"),
            (Form::Count, _) if value == "1ull" => format!("SharedWords::count(acc{k} + at);"),
            (Form::Count, _) => format!("atomicAdd(acc{k} + at, u32({value}));"),
            (Form::Split(4), _) => format!("SharedWords::sum128(acc{k} + at, {plane}u, {value});"),
            (Form::Split(_), _) if c.is_narrow() && value == c.value => {
                format!("SharedWords::sum_narrow(acc{k} + at, acc{k} + {plane}u + at, u32({value}));")
            }
            (Form::Split(_), _) => {
                format!("SharedWords::sum64(acc{k} + at, acc{k} + {plane}u + at, u64({value}));")
            }
            (Form::Whole(2), _) => format!("{home}::sum128(acc{k} + at, acc{k} + {plane}u + at, {value});"),
            (Form::Whole(_), Accumulator::SumF64) => format!("{home}::sum_f64(acc{k} + at, {value});"),
            (Form::Whole(_), Accumulator::Max64) => format!("{home}::max64(acc{k} + at, {value});"),
            (Form::Whole(_), _) => format!("{home}::sum64(acc{k} + at, u64({value}));"),
        }
    }

    /// The elements of an accumulator, to be read back.
    fn read(&self, k: usize, c: &Contribution) -> String {
        let plane = self.elements();
        match self.form(c) {
            Form::Count => format!("CountElements{{acc{k}}}"),
            Form::Split(planes) => format!("SplitElements{{acc{k}, {plane}u, {}}}", planes == 4),
            Form::Whole(planes) => format!("WholeElements{{acc{k}, {plane}u, {}}}", planes == 2),
        }
    }

    /// Declares `at`, the element of the row's group.
    fn element(&self, group: &str) -> String {
        match self.home {
            SharedHome::Registers => String::new(),
            SharedHome::Threads => {
                format!("const u32 at = u32({group}) * {}u + threadIdx.x;\n", self.block)
            }
            SharedHome::Copies { copies: 1, stride: 1 } => format!("const u32 at = u32({group});\n"),
            SharedHome::Copies { copies: 1, stride } => format!("const u32 at = u32({group}) * {stride}u;\n"),
            SharedHome::Copies { stride, .. } => format!("const u32 at = u32({group}) * {stride}u + copy;\n"),
            SharedHome::Placed { .. } => format!("const u32 at = {group};\n"),
        }
    }

    /// What names the group of a row: its number, or the slot of a placed column.
    fn group(&self) -> String {
        match self.home {
            SharedHome::Placed { column, .. } => format!("u32(q{column}[i])"),
            _ => "group".into(),
        }
    }
}

impl Form {
    fn bytes(self) -> u64 {
        match self {
            Self::Count => 4,
            Self::Split(planes) => 4 * planes,
            Self::Whole(planes) => 8 * planes,
        }
    }
}

/// Adds a row to its group.
pub fn update(plan: &AccumulatorPlan, layout: &SharedLayout, code: &mut String) {
    if layout.home == SharedHome::Registers {
        for group in 0..layout.groups {
            let _ = writeln!(code, "if (group == {group}u) {{");
            super::add_to_registers(plan, |w| format!("&w{group}_{w}"), code);
            code.push_str("}\n");
        }
        return;
    }
    if layout.combine == Combine::Runs {
        // The run so far is left when another group begins; the last one after the rows of the step.
        let _ = writeln!(
            code,
            "if ({0} != run) {{\nflush();\nrun = {0};\n}}",
            layout.group()
        );
        super::add_to_registers(plan, |w| format!("&w{w}"), code);
        return;
    }
    hot::update(plan, layout.hot, code);
    code.push_str("{\n");
    code.push_str(&layout.element(&layout.group()));
    if layout.combine == Combine::Warps {
        combine_by_warps(plan, ("together", "at"), code, |k, c, low, high| {
            layout.add(k, c, &value_of(c.accumulator, low, high))
        });
    } else {
        for (k, c) in plan.contributions.iter().enumerate() {
            if let Some(condition) = &c.condition {
                let _ = write!(code, "if ({condition}) ");
            }
            code.push_str(&layout.add(k, c, &c.value));
            code.push('\n');
        }
    }
    code.push_str("}\n");
}

/// After the rows of a step: what is left of a run.
pub fn after_rows(layout: &SharedLayout) -> &'static str {
    if layout.combine == Combine::Runs {
        "            flush();\n            run = 0xffffffffu;\n"
    } else {
        ""
    }
}

/// Clears before; merges into global memory after.
pub fn frame(plan: &AccumulatorPlan, layout: &SharedLayout, literals: &[usize]) -> SinkFrame {
    if layout.home == SharedHome::Registers {
        return scalar::frame_of_groups(plan, layout.groups, layout.block);
    }
    let bytes = layout.bytes(plan);
    let block = layout.block;
    let mut prologue = String::from("GALATEA_DYNAMIC_SHARED(dynamic_shared);\n");
    for (k, (form, at)) in layout.regions(plan).into_iter().enumerate() {
        let word = if matches!(form, Form::Whole(_)) {
            "u64"
        } else {
            "u32"
        };
        let _ = writeln!(
            prologue,
            "{word}* const acc{k} = reinterpret_cast<{word}*>(dynamic_shared + {at}u);"
        );
    }
    let _ = writeln!(
        prologue,
        "for (u32 i = threadIdx.x; i < {}u; i += {block}u) reinterpret_cast<u64*>(dynamic_shared)[i] = 0;",
        bytes / 8
    );
    if let SharedHome::Copies {
        copies: copies @ 2.., ..
    } = layout.home
    {
        let _ = writeln!(prologue, "const u32 copy = threadIdx.x & {}u;", copies - 1);
    }
    prologue.push_str(&hot::prologue(plan, literals));
    if layout.combine == Combine::Runs {
        prologue.push_str(&flush(plan, layout));
    }
    prologue.push_str("__syncthreads();\n");
    SinkFrame {
        prologue,
        epilogue: merge(plan, layout) + &hot::merge(plan, layout.hot),
        dynamic_shared: u32::try_from(bytes).unwrap_or(u32::MAX),
        ..SinkFrame::default()
    }
}

/// Registers of a run, and the function that adds them to its group.
fn flush(plan: &AccumulatorPlan, layout: &SharedLayout) -> String {
    let mut code = String::from("u32 run = 0xffffffffu;\n");
    for w in 0..plan.partial_words {
        let _ = writeln!(code, "u64 w{w} = 0;");
    }
    code.push_str("const auto flush = [&] {\n    if (run == 0xffffffffu) return;\n");
    code.push_str("    ");
    code.push_str(&layout.element("run"));
    for (k, c) in plan.contributions.iter().enumerate() {
        let word = format!("w{}", c.partial);
        let value = value_of(c.accumulator, &word, &format!("w{}", c.partial + 1));
        // A word of a run without a value that counts is zero, and changes nothing.
        let _ = writeln!(code, "    {}", layout.add(k, c, &value));
    }
    for w in 0..plan.partial_words {
        let _ = write!(code, "    w{w} = 0;");
    }
    code.push_str("\n};\n");
    code
}

fn merge(plan: &AccumulatorPlan, layout: &SharedLayout) -> String {
    let (groups, block, warps) = (layout.groups, layout.block, layout.block / 32);
    let (copies, stride) = match layout.home {
        SharedHome::Threads => (block, block),
        SharedHome::Copies { copies, stride } => (copies, stride),
        _ => (1, 1),
    };
    let few = copies < 16;
    let mut code = String::from("__syncthreads();\n");
    let _ = match layout.home {
        SharedHome::Placed { values, table, .. } => {
            code.push_str(&gather_copies(plan, layout));
            writeln!(
                code,
                "for (u32 first = threadIdx.x; first < {values}u; first += {block}u) {{\n    const u32 group = __ldg(reinterpret_cast<const u32*>(args.tables[{table}]) + first);"
            )
        }
        _ if few => writeln!(
            code,
            "for (u32 group = threadIdx.x; group < {groups}u; group += {block}u) {{\n    const u32 first = group * {stride}u;"
        ),
        _ => writeln!(
            code,
            "for (u32 group = threadIdx.x >> 5; group < {groups}u; group += {warps}u) {{\n    const u32 first = group * {stride}u;"
        ),
    };
    let _ = writeln!(
        code,
        "    u64* const home = reinterpret_cast<u64*>(args.groups) + u64(group) * {}u;",
        plan.words
    );
    let function = if few { "merge_few" } else { "merge_copies" };
    for (k, c) in plan.contributions.iter().enumerate() {
        let elements = layout.read(k, c);
        let _ = writeln!(
            code,
            "    {function}<{}>({elements}, first, {copies}u, home + {});",
            c.accumulator.merge(),
            c.word
        );
    }
    code.push_str("}\n");
    code
}

/// Adds the copies of a placed column's values to the first ones, in shared memory, where a value with many
/// copies costs little.
fn gather_copies(plan: &AccumulatorPlan, layout: &SharedLayout) -> String {
    let SharedHome::Placed {
        slots, values, table, ..
    } = layout.home
    else {
        return String::new();
    };
    let mut code = format!(
        "for (u32 copy = {values}u + threadIdx.x; copy < {slots}u; copy += {}u) {{
    const u32 at = __ldg(reinterpret_cast<const u32*>(args.tables[{table}]) + copy);
    if (at == 0xffffffffu) continue;\n",
        layout.block
    );
    for (k, c) in plan.contributions.iter().enumerate() {
        let word = |half: &str| format!("{}.{half}(copy)", layout.read(k, c));
        let value = value_of(c.accumulator, &word("low"), &word("high"));
        let _ = writeln!(code, "    {}", layout.add(k, c, &value));
    }
    code.push_str("}\n__syncthreads();\n");
    code
}
