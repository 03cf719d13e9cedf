//! Columns of rows in the order of a window: of the row at a position, and functions over other rows.

use super::lookup::Place;
use super::{Emitter, boolean, integer_value};
use crate::built::Part;
use crate::error;
use crate::interval::{Interval, result_range};
use crate::ir::Expr;
use crate::kind::Kind;
use crate::lookup_side::{LookupSide, Payload, Table};
use crate::value::Value;
use crate::windows::{BoundCall, DerivedForm, WindowFunction, WindowShape, WindowWord};
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use galatea_base::reason::Reason;
use galatea_kernels::{Fold, WindowValue};

/// The rows of a window that an expression reads.
#[derive(Clone, Copy)]
pub(super) struct Rows<'r> {
    found: &'r LookupSide,
    /// C++ expression of the directory.
    pub(super) table: &'r str,
    /// Name of the row's `WindowPlace`.
    pub(super) place: &'r str,
}

impl Rows<'_> {
    pub(super) fn column(&self, column: usize) -> Result<&Payload, Reason> {
        self.found.column(column).ok_or(Reason::Encoding {
            column,
            needed: "a column that the window kept",
        })
    }

    /// C++ expression of an entry in a part of the directory.
    pub(super) fn entry(&self, c_type: &str, word: usize, at: &str) -> String {
        format!("window_part<{c_type}>({}, {word}u)[{at}]", self.table)
    }
}

/// Another position in the order: C++ expressions of whether it is missing, and of its number otherwise.
struct OtherPlace {
    absent: String,
    at: String,
}

impl Emitter<'_> {
    /// The position in the order that equals the current row number; the first position for rows that are not
    /// live.
    pub(super) fn window_place(&mut self, build_side: usize) -> Place {
        let table = self.window_table(build_side);
        let number = self.define_as("u32", "(live >> i & 1u) != 0 ? row + (u32)i : 0u");
        Place {
            inside: "true".to_owned(),
            index: self.define_as("WindowPlace", &format!("window_place({table}, {number})")),
            null: None,
        }
    }

    fn window_table(&mut self, build_side: usize) -> String {
        let directory = Table::Built(Part::Directory).of(build_side);
        format!("args.tables[{}]", self.parameters.lookup_table(directory))
    }

    /// A column of the row at a position, or a window function of it.
    pub(super) fn window_column(
        &mut self,
        expression: &Expr,
        build_side: usize,
        column: usize,
        (found, shape): (&LookupSide, &WindowShape),
        place: &Place,
    ) -> Result<Value, Reason> {
        let table = self.window_table(build_side);
        let rows = Rows {
            found,
            table: &table,
            place: &place.index,
        };
        let data_type = expression.data_type();
        match shape.calls.get(&column) {
            Some(call) => self.window_call(rows, call, data_type),
            None => {
                let row = format!("{}.row", rows.place);
                self.stored(rows, rows.column(column)?, &row, None, data_type)
            }
        }
    }

    /// The value of a column in a stored row. NULL if `absent` is true; `row` is then arbitrary.
    pub(super) fn stored(
        &mut self,
        rows: Rows<'_>,
        payload: &Payload,
        row: &str,
        absent: Option<&str>,
        data_type: &DataType,
    ) -> Result<Value, Reason> {
        let word_of = |table: &Table| match table {
            Table::Built(Part::Values(position)) => WindowWord::column(*position),
            Table::Built(Part::Nulls(position)) => WindowWord::column(*position) + 1,
            _ => WindowWord::Rows as usize,
        };
        let null = payload.nulls.as_ref().map(word_of);
        let null = null.map(|word| {
            format!(
                "table_bit((const u8*)window_part<u32>({}, {word}u), {row})",
                rows.table
            )
        });
        let null = match (absent, null) {
            (Some(absent), Some(null)) => Some(format!("{absent} || {null}")),
            (absent, null) => absent.map(str::to_owned).or(null),
        };
        let null = null.map(|null| self.define(&Kind::Bool, &null));
        let kind = payload.kind();
        let entry = rows.entry(payload.c_type, word_of(&payload.table), row);
        let code = self.define(&kind, &format!("({}){entry}", kind.c_type()));
        let code = match (&null, &kind) {
            (Some(null), Kind::Bool) => self.define(&kind, &format!("!{null} && {code}")),
            _ => code,
        };
        Ok(payload.value(code, null, data_type))
    }

    fn window_call(
        &mut self,
        rows: Rows<'_>,
        bound: &BoundCall,
        data_type: &DataType,
    ) -> Result<Value, Reason> {
        let place = rows.place;
        let call = &bound.call;
        let integer = |emitter: &mut Self, rhs: &str| {
            let code = emitter.define_as("i64", &format!("i64({rhs})"));
            integer_value(code, None, Kind::I64, data_type.clone(), Interval::of::<u32>())
        };
        let double = |emitter: &mut Self, rhs: &str| Value {
            code: emitter.define_as("double", rhs),
            null: None,
            kind: Kind::F64,
            data_type: data_type.clone(),
            range: None,
        };
        Ok(match &call.function {
            WindowFunction::RowNumber => integer(self, &format!("{place}.place - {place}.begin + 1")),
            WindowFunction::Rank => integer(self, &format!("{place}.peers_begin - {place}.begin + 1")),
            WindowFunction::DenseRank => integer(self, &format!("{place}.peer - {place}.first_peer + 1")),
            WindowFunction::PercentRank => double(self, &format!("window_percent_rank({place})")),
            WindowFunction::CumeDist => double(self, &format!("window_cume_dist({place})")),
            WindowFunction::Tile(tiles) => {
                let tiles = self.parameter(*tiles);
                integer(self, &format!("window_tile({place}, args.literals[{tiles}])"))
            }
            WindowFunction::Shift { offset, default } => {
                let payload = rows.column(self.argument_of(bound)?)?;
                let other = self.row_nearby(rows, *offset, bound.counts);
                self.or_default(rows, payload, other, default, data_type)?
            }
            WindowFunction::First | WindowFunction::Last | WindowFunction::Nth(_) => {
                let frame = self.frame(rows, &call.frame)?;
                let payload = rows.column(self.argument_of(bound)?)?;
                let number = match &call.function {
                    WindowFunction::First => 1,
                    WindowFunction::Last => -1,
                    WindowFunction::Nth(n) => *n,
                    _ => 0,
                };
                let other = self.row_of_frame(rows, &frame, number, bound.counts);
                self.at_place(rows, payload, &other, data_type)?
            }
            WindowFunction::Count
            | WindowFunction::Sum { .. }
            | WindowFunction::Avg { .. }
            | WindowFunction::Min
            | WindowFunction::Max => {
                let frame = self.frame(rows, &call.frame)?;
                self.aggregated(rows, bound, &frame, data_type)?
            }
        })
    }

    fn argument_of(&self, bound: &BoundCall) -> Result<usize, Reason> {
        bound.call.argument.ok_or_else(|| Reason::Function {
            name: bound.call.function.name().into(),
            detail: "an argument is needed".into(),
        })
    }

    /// The row of a frame with this number, counted from 1, or from the end if negative. If `counts` is
    /// given, only rows with a non-NULL value are counted.
    fn row_of_frame(
        &mut self,
        rows: Rows<'_>,
        frame: &str,
        number: i64,
        counts: Option<usize>,
    ) -> OtherPlace {
        let count = |at: &str| counts.map(|word| rows.entry("u32", word, at));
        let (begin, end) = (format!("{frame}.begin"), format!("{frame}.end"));
        let n = match (number, counts) {
            (-1..=1, None) => "1u".to_owned(),
            _ => format!("args.literals[{}]", self.parameter(number.unsigned_abs())),
        };
        let (Some(word), Some(before), Some(all)) = (counts, count(&begin), count(&end)) else {
            let (absent, at) = match number {
                1 => (format!("{frame}.rows() == 0"), begin),
                -1 => (format!("{frame}.rows() == 0"), format!("{end} - 1u")),
                0.. => (
                    format!("u64({frame}.rows()) < {n}"),
                    format!("{begin} + u32({n}) - 1u"),
                ),
                _ => (format!("u64({frame}.rows()) < {n}"), format!("{end} - u32({n})")),
            };
            return OtherPlace { absent, at };
        };
        let wanted = match number {
            0.. => format!("{before} + u32({n}) - 1u"),
            _ => format!("{all} - u32({n})"),
        };
        OtherPlace {
            absent: format!("u64({all} - {before}) < {n}"),
            at: format!("window_value({}, {word}u, {begin}, {end}, {wanted})", rows.table),
        }
    }

    /// The row at this offset before the current row, or after it if negative. If `counts` is given, only
    /// rows with a non-NULL value are counted.
    fn row_nearby(&mut self, rows: Rows<'_>, offset: i64, counts: Option<usize>) -> OtherPlace {
        let (place, table) = (rows.place, rows.table);
        let distance = self.parameter(offset.unsigned_abs());
        let distance = format!("args.literals[{distance}]");
        let count = |word: usize, at: &str| rows.entry("u32", word, &format!("{place}.{at}"));
        match (offset, counts) {
            (0.., Some(word)) => {
                let (own, first) = (count(word, "place"), count(word, "begin"));
                let wanted = format!("{own} - u32({distance})");
                OtherPlace {
                    absent: format!("u64({own} - {first}) < {distance}"),
                    at: format!("window_value({table}, {word}u, {place}.begin, {place}.place, {wanted})"),
                }
            }
            (_, Some(word)) => {
                let (before, all) = (count(word, "place + 1u"), count(word, "end"));
                let wanted = format!("{before} + u32({distance}) - 1u");
                OtherPlace {
                    absent: format!("u64({all} - {before}) < {distance}"),
                    at: format!("window_value({table}, {word}u, {place}.place + 1u, {place}.end, {wanted})"),
                }
            }
            (0.., None) => OtherPlace {
                absent: format!("u64({place}.place - {place}.begin) < {distance}"),
                at: format!("{place}.place - u32({distance})"),
            },
            _ => OtherPlace {
                absent: format!("u64({place}.end - {place}.place) <= {distance}"),
                at: format!("{place}.place + u32({distance})"),
            },
        }
    }

    /// The value of a column in another row; NULL if the row is missing.
    fn at_place(
        &mut self,
        rows: Rows<'_>,
        payload: &Payload,
        other: &OtherPlace,
        data_type: &DataType,
    ) -> Result<Value, Reason> {
        let (absent, row) = self.other_row(rows, other);
        self.stored(rows, payload, &row, Some(&absent), data_type)
    }

    /// Whether the other row is missing, and the stored row; if it is missing, the current row.
    fn other_row(&mut self, rows: Rows<'_>, OtherPlace { absent, at }: &OtherPlace) -> (String, String) {
        let absent = self.define(&Kind::Bool, absent);
        let row = format!("{absent} ? {}.row : window_row({}, {at})", rows.place, rows.table);
        (absent, self.define_as("u32", &row))
    }

    /// The value of a column in another row; a constant if the row is missing.
    fn or_default(
        &mut self,
        rows: Rows<'_>,
        payload: &Payload,
        place: OtherPlace,
        default: &ScalarValue,
        data_type: &DataType,
    ) -> Result<Value, Reason> {
        if default.is_null() {
            return self.at_place(rows, payload, &place, data_type);
        }
        let (absent, row) = self.other_row(rows, &place);
        // If the row is missing, the result is the default, which is not NULL.
        let value = self.stored(rows, payload, &row, None, data_type)?;
        let other = self.literal(default, data_type)?;
        let interval = value
            .kind
            .is_integer()
            .then(|| value.interval().hull(other.interval()));
        let kind = interval.map_or_else(|| value.kind.clone(), Interval::kind);
        if matches!(kind, Kind::Code { .. } | Kind::Text | Kind::ComputedString) {
            return Err(Reason::Function {
                name: "lag".into(),
                detail: "a default that is a string".into(),
            });
        }
        let c_type = kind.c_type();
        let null = value
            .null
            .map(|null| self.define(&Kind::Bool, &format!("!{absent} && {null}")));
        let code = self.define(
            &kind,
            &format!("{absent} ? ({c_type}){} : ({c_type}){}", other.code, value.code),
        );
        let code = match (&null, &kind) {
            (Some(null), Kind::Bool) => self.define(&kind, &format!("!{null} && {code}")),
            _ => code,
        };
        Ok(Value {
            code,
            null,
            kind,
            data_type: data_type.clone(),
            range: interval.map(|Interval { low, high }| (low, high)),
        })
    }

    /// An aggregate of a frame.
    fn aggregated(
        &mut self,
        rows: Rows<'_>,
        bound: &BoundCall,
        frame: &str,
        data_type: &DataType,
    ) -> Result<Value, Reason> {
        let between = |c_type: &str, word: usize| {
            let (end, begin) = (
                rows.entry(c_type, word, &format!("{frame}.end")),
                rows.entry(c_type, word, &format!("{frame}.begin")),
            );
            format!("{end} - {begin}")
        };
        let count = match bound.counts {
            Some(word) => self.define_as("u32", &between("u32", word)),
            None => self.define_as("u32", &format!("{frame}.rows()")),
        };
        if bound.call.function == WindowFunction::Count {
            let code = self.define_as("i64", &format!("i64({count})"));
            let interval = Interval::of::<u32>();
            return Ok(integer_value(code, None, Kind::I64, data_type.clone(), interval));
        }
        let (word, form) = bound.values.ok_or_else(|| Reason::Function {
            name: bound.call.function.name().into(),
            detail: "nothing that it is computed from".into(),
        })?;
        let null = self.define(&Kind::Bool, &format!("{count} == 0"));
        let fold = |c_type: &str, op: &str| {
            format!(
                "window_fold<{c_type}>({}, {word}u, {frame}, {op}{{}})",
                rows.table
            )
        };
        let folded = match form {
            DerivedForm::Counts => between("u32", word),
            DerivedForm::Sums => between("u64", word),
            DerivedForm::WideSums => between("u128", word),
            DerivedForm::Tree(Fold::SumF64, _) => fold("double", "Sum"),
            DerivedForm::Tree(Fold::Max64, _) => fold("u64", "Max"),
            DerivedForm::Tree(Fold::Max128, _) => fold("u128", "Max"),
        };
        let (c_type, signed) = match form {
            DerivedForm::Counts => ("u32", "u32"),
            DerivedForm::Sums | DerivedForm::Tree(Fold::Max64, _) => ("u64", "i64"),
            DerivedForm::WideSums | DerivedForm::Tree(Fold::Max128, _) => ("u128", "i128"),
            DerivedForm::Tree(Fold::SumF64, _) => ("double", "double"),
        };
        let folded = self.define_as(c_type, &folded);
        let complemented = |folded: &str| match form {
            DerivedForm::Tree(_, WindowValue::ComplementedRank | WindowValue::ComplementedWideRank) => {
                format!("~{folded}")
            }
            _ => folded.to_owned(),
        };
        let float = |kind: Kind, code: String| (kind, code, None);
        let (kind, code, interval) = match (&bound.call.function, form) {
            (WindowFunction::Avg { .. }, DerivedForm::Tree(..)) => {
                float(Kind::F64, format!("{folded} / double({count})"))
            }
            (_, DerivedForm::Tree(Fold::SumF64, _)) => float(Kind::F64, folded),
            (WindowFunction::Avg { digits }, _) => {
                let factor = self.wide_parameter(10i128.pow(*digits));
                let factor = format!(
                    "make_i128(args.literals[{factor}], args.literals[{}])",
                    factor + 1
                );
                let kind = bound.interval.kind();
                let quotient = format!(
                    "{}({null} ? i128(0) : i128({signed}({folded})) * {factor} / i128({count}))",
                    kind.c_type()
                );
                (kind, quotient, Some(bound.interval))
            }
            (WindowFunction::Sum { .. }, _) => {
                let kind = bound.interval.kind();
                // An unsigned sum is not sign-extended.
                let sum = match (*data_type == DataType::UInt64, form) {
                    (true, DerivedForm::Sums) => folded,
                    _ => format!("{signed}({folded})"),
                };
                (
                    kind.clone(),
                    format!("{}({sum})", kind.c_type()),
                    Some(bound.interval),
                )
            }
            _ => {
                let argument = self.argument_of(bound)?;
                let kind = rows.column(argument)?.kind();
                let rank = complemented(&folded);
                let value = match (&kind, form) {
                    (Kind::F32 | Kind::F64, _) => format!("{}(window_ranked_f64({rank}))", kind.c_type()),
                    (_, DerivedForm::Tree(Fold::Max128, _)) => format!("window_ranked_i128({rank})"),
                    _ => format!("window_ranked_i64({rank})"),
                };
                // The code of a NULL must still be within the interval or valid in the dictionary.
                let value = match &kind {
                    Kind::F32 | Kind::F64 => value,
                    Kind::Code { .. } => format!("{null} ? 0u : u32({value})"),
                    _ => {
                        let least = self.wide_parameter(bound.interval.low);
                        let least =
                            format!("make_i128(args.literals[{least}], args.literals[{}])", least + 1);
                        format!("{0}({null} ? {least} : i128({value}))", kind.c_type())
                    }
                };
                let is_integer = kind.is_integer();
                (kind, value, is_integer.then_some(bound.interval))
            }
        };
        let code = self.define(&kind, &code);
        if matches!(kind, Kind::Bool) {
            return Ok(boolean(code, Some(null)));
        }
        let value = Value {
            code,
            null: Some(null),
            kind,
            data_type: data_type.clone(),
            range: interval.map(|Interval { low, high }| (low, high)),
        };
        let limit = result_range(data_type).filter(|_| value.range.is_some());
        Ok(match (&bound.call.function, limit) {
            (WindowFunction::Sum { wraps: false }, Some(limit)) => {
                let fault = error::Fault::of_arithmetic(data_type);
                let place = crate::kernel_error::Place::Named(bound.call.field.name().clone());
                self.checked_range_at(value, limit, fault, place)
            }
            _ => value,
        })
    }
}
