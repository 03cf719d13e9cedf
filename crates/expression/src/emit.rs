//! From [`Expr`] to C++ statements for one row.
//!
//! All statements define constants in one scope, without branches, so that every value can be shared. A
//! definition with the same right-hand side as a previous one is not written again, and an expression that
//! was emitted before is not traversed again. Only raising errors and loops over strings must be avoided in
//! untaken branches. Both depend on the *guard*, the condition under which DataFusion would evaluate the
//! expression at this place.

mod arithmetic;
mod case;
mod cast;
mod compare;
mod computed_string;
mod datetime;
mod dictionary;
mod division;
mod float;
mod frames;
mod groups;
mod guards;
mod inlist;
mod key_hash;
mod key_number;
mod late_materialised;
mod literal;
mod lookup;
mod number;
mod pairs;
mod parts;
mod sort_key;
mod string_scan;
mod strings;
mod windows;

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::DataType;

use super::binding::{ColumnBinding, ColumnKind};
use super::error::Fault;
use super::function::Function;
use super::interval::Interval;
use super::ir::{Expr, ExprKind};
use super::kind::Kind;
use super::lookup_side::LookupSide;
use super::packed::PackedLookupSide;
use super::parameters::Parameters;
use super::value::Value;
use crate::code::{Code, line};
use galatea_base::reason::Reason;
use galatea_base::stack::growing;

pub(crate) use cast::supported as cast_supported;
use guards::Raise;
use literal::{constant_string, integer_of, string_of};
pub use pairs::PAIR_CHUNK_BITS;
pub use sort_key::OrderedString;

/// The integer value of an integer-like constant.
pub fn integer_literal(value: &datafusion::common::ScalarValue) -> Option<i128> {
    integer_of(value)
}

/// Writes the statements of expressions over the same row.
///
/// Names are `v0`, `v1`, ... in the order of writing, so equal inputs yield equal code.
#[derive(Debug)]
pub struct Emitter<'a> {
    bindings: &'a [ColumnBinding],
    parameters: &'a mut Parameters,
    build_sides: &'a [Arc<LookupSide>],
    packed: &'a [Option<PackedLookupSide>],
    prefix: &'static str,
    names: usize,
    /// Statements written since the last call of `emit`.
    out: Code,
    scope: Scope,
    /// Guards of the enclosing places, outermost first.
    guards: Vec<String>,
    /// Every error that can be raised so far, in order.
    raises: Vec<Raise>,
    /// The enclosing expressions that can raise errors, outermost first.
    places: Vec<Expr>,
    /// String searches by whole warps, if nearly all rows need the strings.
    scans: Option<string_scan::StringScans>,
    /// For each word of a sort key, its strings without a dictionary. A string belongs to the word with the
    /// last bit of its position.
    ordered_strings: HashMap<Expr, Vec<OrderedString>>,
}

/// The definitions that are visible at a place in the code.
#[derive(Debug, Clone, Default)]
pub struct Scope {
    expressions: HashMap<Expr, Emitted>,
    definitions: HashMap<String, String>,
    /// Places of build-side rows, by build side and key.
    places: HashMap<(usize, Expr), lookup::Place>,
    /// Guards of the places where an error was raised, by condition and fault.
    raised: HashMap<(String, Fault), Vec<Vec<String>>>,
}

#[derive(Debug, Clone)]
struct Emitted {
    value: Value,
    /// The errors that it can raise. Each has only the guards inside the expression.
    raises: Vec<Raise>,
}

impl<'a> Emitter<'a> {
    /// An emitter for rows with these column bindings. Literals and tables are added to `parameters`.
    pub fn new(bindings: &'a [ColumnBinding], parameters: &'a mut Parameters) -> Self {
        Self {
            bindings,
            parameters,
            build_sides: &[],
            packed: &[],
            prefix: "v",
            names: 0,
            out: Code::default(),
            scope: Scope::default(),
            guards: vec![],
            raises: vec![],
            places: vec![],
            scans: None,
            ordered_strings: HashMap::new(),
        }
    }

    /// Sets the build sides that [`ExprKind::Member`] and [`ExprKind::Lookup`] refer to by number. `packed`
    /// has an entry for each of them: its packed form, if it is packed in shared memory.
    #[must_use]
    pub fn with_build_sides(
        mut self,
        build_sides: &'a [Arc<LookupSide>],
        packed: &'a [Option<PackedLookupSide>],
    ) -> Self {
        self.build_sides = build_sides;
        self.packed = packed;
        self
    }

    /// Sets a C++ condition that is true if the row counts. Errors are raised only if it is true.
    #[must_use]
    pub fn with_guard(mut self, condition: &str) -> Self {
        self.guards = vec![condition.to_owned()];
        self
    }

    /// Adds a literal of one word for the pipeline's own use; returns its index.
    pub fn parameter(&mut self, word: u64) -> usize {
        self.parameters.literal(word)
    }

    /// Adds a lookup table for the pipeline's own use; returns its index.
    pub fn table(&mut self, bytes: Vec<u8>) -> usize {
        self.parameters.table(bytes)
    }

    /// Adds a literal of two words; returns the index of the first.
    pub(crate) fn wide_parameter(&mut self, value: i128) -> usize {
        self.parameters.wide_literal(value)
    }

    /// Replaces the condition of [`Self::with_guard`] for subsequent statements.
    pub fn set_guard(&mut self, condition: Option<&str>) {
        self.guards = condition.map(str::to_owned).into_iter().collect();
    }

    /// The current definitions, to be passed to [`Self::leave`] at the end of a C++ block that opens here.
    #[must_use]
    pub fn enter(&self) -> Scope {
        self.scope.clone()
    }

    /// Forgets the definitions since [`Self::enter`], because the C++ block is closed.
    pub fn leave(&mut self, scope: Scope) {
        self.scope = scope;
    }

    /// Appends the statements of an expression to `code`; its value is then in scope.
    ///
    /// # Errors
    /// If the encodings do not permit it: a column lacks a required dictionary, or values could exceed 128
    /// bits.
    pub fn emit(&mut self, expression: &Expr, code: &mut Code) -> Result<Value, Reason> {
        let value = self.expression(expression);
        code.nest(0, &self.out.take());
        value
    }

    /// Like [`Self::emit`], for a value that is stored for the host or a later pipeline: a string literal
    /// becomes a dictionary.
    ///
    /// # Errors
    /// Those of [`Self::emit`].
    pub fn emit_stored(&mut self, expression: &Expr, code: &mut Code) -> Result<Value, Reason> {
        match Self::code_literal(expression) {
            Some(value) => value,
            None => self.emit(expression, code),
        }
    }

    /// Like [`Self::emit`], at a place that is evaluated only if all `conditions` (C++ expressions) hold,
    /// such as the previous filters. Otherwise no error is raised and the value is undefined.
    ///
    /// # Errors
    /// Those of [`Self::emit`].
    pub fn emit_where(
        &mut self,
        conditions: &[String],
        expression: &Expr,
        code: &mut Code,
    ) -> Result<Value, Reason> {
        let depth = self.guards.len();
        self.guards.extend_from_slice(conditions);
        let value = self.emit(expression, code);
        self.guards.truncate(depth);
        value
    }

    /// Numbers of the columns that must be declared before the statements of `expression`.
    #[must_use]
    pub fn columns(expression: &Expr) -> Vec<usize> {
        expression.columns().into_iter().collect()
    }

    fn expression(&mut self, expression: &Expr) -> Result<Value, Reason> {
        growing(|| self.expression_level(expression))
    }

    fn expression_level(&mut self, expression: &Expr) -> Result<Value, Reason> {
        match expression.kind() {
            ExprKind::Column(index) => return self.column(*index),
            ExprKind::Literal(value) => return self.literal(value, expression.data_type()),
            _ => {}
        }
        if let Some(known) = self.scope.expressions.get(expression).cloned() {
            let depth = self.guards.len();
            for Raise {
                guards,
                condition,
                fault,
                place,
            } in known.raises
            {
                self.guards.extend(guards);
                self.raise(&condition, fault, place);
                self.guards.truncate(depth);
            }
            return Ok(known.value);
        }
        let (first, depth) = (self.raises.len(), self.guards.len());
        let has_origin = expression.origin().is_some();
        self.places.extend(has_origin.then(|| expression.clone()));
        let value = self.compute(expression);
        if has_origin {
            self.places.pop();
        }
        let value = value?;
        let inside = |raise: &Raise| Raise {
            guards: raise.guards[depth..].to_vec(),
            ..raise.clone()
        };
        let raises = self.raises[first..].iter().map(inside).collect();
        let emitted = Emitted {
            value: value.clone(),
            raises,
        };
        self.scope.expressions.insert(expression.clone(), emitted);
        Ok(value)
    }

    fn compute(&mut self, expression: &Expr) -> Result<Value, Reason> {
        match expression.kind() {
            ExprKind::Column(index) => self.column(*index),
            ExprKind::Literal(value) => self.literal(value, expression.data_type()),
            ExprKind::Arithmetic {
                operator,
                left,
                right,
                checked,
            } => self.arithmetic(expression, *operator, left, right, *checked),
            ExprKind::Bitwise {
                operator,
                left,
                right,
            } => self.bitwise(*operator, left, right),
            ExprKind::Compare {
                operator,
                left,
                right,
                equal_zeros,
            } => self.comparison(*operator, left, right, *equal_zeros),
            ExprKind::And(left, right) => self.and(left, right),
            ExprKind::Or(left, right) => self.or(left, right),
            ExprKind::Not(input) => self.not(input),
            ExprKind::IsNull(input) => {
                let input = self.expression(input)?;
                Ok(boolean(input.null.unwrap_or_else(|| "false".to_owned()), None))
            }
            ExprKind::Negate(input) => self.negate(expression, input),
            ExprKind::Case { branches, otherwise } => self.case(expression, branches, otherwise.as_ref()),
            ExprKind::InList {
                value,
                list,
                list_has_null,
                negated,
            } => self.in_list(expression, value, list, *list_has_null, *negated),
            ExprKind::Cast { input, safe } => self.cast(expression, input, *safe),
            ExprKind::Call { function, arguments } => self.call(expression, function, arguments),
            ExprKind::Dictionary {
                function,
                argument,
                native,
            } => self.dictionary(expression, function, argument, native.as_ref()),
            ExprKind::Hosted { native, .. } => self.expression(native),
            ExprKind::LateMaterialised(text) => self.late_materialised(expression, text),
            ExprKind::Pending(_) => Err(Reason::Expression {
                expression: "a subquery".into(),
                detail: "its value is not known yet".into(),
            }),
            // The chunk number, then the row number within the chunk.
            ExprKind::RowNumber => {
                let number = "i64(u64(cursor.index()) << 32 | (row + (u32)i))";
                let interval = Interval {
                    low: 0,
                    high: 1 << 62,
                };
                let code = self.define_as("i64", number);
                Ok(integer_value(
                    code,
                    None,
                    Kind::I64,
                    expression.data_type().clone(),
                    interval,
                ))
            }
            ExprKind::TableRow => {
                let interval = Interval {
                    low: 0,
                    high: 1 << 62,
                };
                let code = self.define_as("i64", "i64(first_row + (row + (u32)i))");
                Ok(integer_value(
                    code,
                    None,
                    Kind::I64,
                    expression.data_type().clone(),
                    interval,
                ))
            }
            ExprKind::Tuple(_) => Err(Reason::Expression {
                expression: "several values".into(),
                detail: "a key of a join, and nothing else".into(),
            }),
            ExprKind::Member { build_side, key } => self.member(*build_side, key),
            ExprKind::Absent { build_side, key } => self.absent(*build_side, key),
            ExprKind::Lookup {
                build_side,
                column,
                key,
                ..
            } => self.lookup(expression, *build_side, *column, key),
        }
    }

    fn call(&mut self, expression: &Expr, function: &Function, arguments: &[Expr]) -> Result<Value, Reason> {
        match (function, arguments) {
            (Function::Absolute, [input]) => self.absolute(expression, input),
            (
                Function::Ceiling
                | Function::Floor
                | Function::Round { .. }
                | Function::TruncateTo { .. }
                | Function::SquareRoot
                | Function::Sign
                | Function::Truncate
                | Function::IsNan,
                [input],
            ) => self.float_function(expression, function, input),
            (
                Function::Multiple {
                    rounding,
                    divisor,
                    factor,
                    digits,
                },
                [input],
            ) => self.multiple(expression, (*rounding, *divisor, *factor), *digits, input),
            (
                Function::GreatestCommonDivisor
                | Function::LeastCommonMultiple
                | Function::Factorial
                | Function::MakeDate
                | Function::MakeTime,
                arguments,
            ) => self.of_integers(expression, function, arguments),
            (Function::Elementary(function), arguments) => self.elementary(expression, *function, arguments),
            (Function::DateBin { stride, origin }, [input]) => {
                self.date_bin(expression, (*stride, *origin), input)
            }
            (Function::DateBinMonths { months, origin }, [input]) => {
                self.date_bin_months(expression, (*months, *origin), input)
            }
            (Function::DatePart(part), [input]) => self.date_part(expression, *part, input),
            (Function::DateTrunc(unit), [input]) => self.date_trunc(expression, *unit, input),
            (
                Function::AddInterval {
                    months,
                    days,
                    nanoseconds,
                },
                [input],
            ) => self.add_interval(expression, (*months, *days, *nanoseconds), input),
            (Function::SortKey(orders), arguments) => self.sort_key(orders, arguments),
            (Function::SortWord { orders, word, words }, arguments) => {
                self.sort_word(expression, orders, arguments, (*word, *words))
            }
            (Function::Within, [key, least, greatest]) => self.within(key, [least, greatest]),
            (Function::Bucket, [key, least, shift]) => self.bucket(key, [least, shift]),
            (Function::Drawn { shift }, [row, state, bound]) => self.drawn(row, *shift, [state, bound]),
            (Function::KeyHash { spreads }, parts) => self.key_hash(parts, *spreads),
            (Function::KeyOrder, [key]) => self.key_order(key),
            (Function::Join { skips_nulls }, parts) => self.joined(expression, parts, *skips_nulls),
            (Function::JoinBy, [separator, parts @ ..]) => self.joined_by(expression, separator, parts),
            (Function::Upper | Function::Lower, [input]) => self.mapped(expression, function, input),
            (Function::Repeat, [input, times]) => self.repeated(expression, input, times),
            (Function::Pad { left }, [input, count, fill]) => {
                self.padded(expression, *left, input, [count, fill])
            }
            (Function::Replace, [input, from, to]) => self.replaced(expression, input, [from, to]),
            (Function::Reverse, [input]) => self.turned(expression, input),
            (Function::Hex, [input]) => self.hex(expression, input),
            (_, arguments) => self.string_function(expression, function, arguments),
        }
    }

    fn column(&mut self, index: usize) -> Result<Value, Reason> {
        let binding = self.bindings.get(index).ok_or(Reason::Encoding {
            column: index,
            needed: "bound",
        })?;
        let (kind, range) = match &binding.kind {
            ColumnKind::Integer { min, max } => {
                let interval = Interval {
                    low: *min,
                    high: *max,
                };
                (interval.kind(), Some((*min, *max)))
            }
            ColumnKind::Boolean => (Kind::Bool, None),
            ColumnKind::Float32 => (Kind::F32, None),
            ColumnKind::Float64 => (Kind::F64, None),
            ColumnKind::Dictionary { values } => (
                Kind::Code {
                    values: values.clone(),
                },
                None,
            ),
            ColumnKind::Text => (Kind::Text, None),
        };
        Ok(Value {
            code: format!("c{index}"),
            null: binding.nullable.then(|| format!("c{index}_null")),
            kind,
            data_type: binding.data_type.clone(),
            range,
        })
    }

    /// Defines a constant, or reuses one with the same definition. Returns its name.
    fn define(&mut self, kind: &Kind, rhs: &str) -> String {
        self.define_as(kind.c_type(), rhs)
    }

    pub(super) fn define_as(&mut self, c_type: &str, rhs: &str) -> String {
        let rhs = match rhs {
            "!false" => "true",
            "!true" => "false",
            rhs => rhs,
        };
        if rhs
            .chars()
            .all(|character| character.is_ascii_alphanumeric() || character == '_')
            && !rhs.is_empty()
        {
            return rhs.to_owned();
        }
        let definition = format!("{c_type} = {rhs}");
        if let Some(name) = self.scope.definitions.get(&definition) {
            return name.clone();
        }
        let name = format!("{}{}", self.prefix, self.names);
        self.names += 1;
        line!(self.out, "const {c_type} {name} = {rhs};");
        self.scope.definitions.insert(definition, name.clone());
        name
    }

    /// A `bool` that is true if any of the values is NULL.
    fn any_null(&mut self, values: &[&Value]) -> Option<String> {
        let mut nulls: Vec<&String> = values.iter().filter_map(|value| value.null.as_ref()).collect();
        nulls.dedup();
        match nulls.as_slice() {
            [] => None,
            [null] => Some((*null).clone()),
            nulls => {
                let rhs = nulls
                    .iter()
                    .map(|null| null.as_str())
                    .collect::<Vec<_>>()
                    .join(" | ");
                Some(self.define(&Kind::Bool, &rhs))
            }
        }
    }
}

/// A value of SQL type BOOLEAN; `code` must be false if `null` is true.
fn boolean(code: String, null: Option<String>) -> Value {
    Value {
        code,
        null,
        kind: Kind::Bool,
        data_type: DataType::Boolean,
        range: None,
    }
}

fn integer_value(
    code: String,
    null: Option<String>,
    kind: Kind,
    data_type: DataType,
    interval: Interval,
) -> Value {
    Value {
        code,
        null,
        kind,
        data_type,
        range: Some((interval.low, interval.high)),
    }
}

/// The value converted to another integer type.
fn as_kind(value: &Value, kind: &Kind) -> String {
    if value.kind.c_type() == kind.c_type() {
        value.code.clone()
    } else {
        format!("({}){}", kind.c_type(), value.code)
    }
}
