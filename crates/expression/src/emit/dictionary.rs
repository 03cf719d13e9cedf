//! Functions of one string as tables over the codes of its dictionary.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::{cast, max, min};
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::ScalarValue;
use rayon::iter::{IndexedParallelIterator, IntoParallelIterator, IntoParallelRefIterator, ParallelIterator};
use rayon::slice::{ParallelSlice, ParallelSliceMut};

use galatea_device::in_parallel;

use super::{Emitter, boolean, integer_of, integer_value};
use crate::dictionary::{Bytes, ranked};
use crate::error::RowError;
use crate::host_function::HostFunction;
use crate::interval::Interval;
use crate::ir::{Expr, ExprKind};
use crate::kernel_error::Place;
use crate::kind::Kind;
use crate::lookup_side::integers;
use crate::string::is_string;
use crate::value::Value;
use galatea_base::reason::Reason;

/// Number of table entries that one thread writes at a time.
const TABLE_PIECE: usize = 1 << 14;

/// Maximum number of possible members of a set that fits a literal.
const MASK: usize = 64;

/// Results of a chain of functions for the values of a dictionary, followed by the result for NULL.
struct Chain {
    base: Value,
    results: ArrayRef,
    errors: Vec<Option<RowError>>,
    /// Whether the argument is a column; errors then contain its name.
    of_column: bool,
}

impl Emitter<'_> {
    pub(super) fn dictionary(
        &mut self,
        expression: &Expr,
        function: &HostFunction,
        argument: &Expr,
        native: Option<&Expr>,
    ) -> Result<Value, Reason> {
        if let Some(chain) = self.chain(function, argument)? {
            return self.looked_up(expression, chain);
        }
        match native {
            Some(native) => self.expression(native),
            None => Err(Reason::Encoding {
                column: argument.columns().into_iter().next().unwrap_or_default(),
                needed: "dictionary encoded",
            }),
        }
    }

    /// Evaluates a function of a string and the functions nested in it; `None` if the string has no
    /// dictionary.
    fn chain(&mut self, function: &HostFunction, argument: &Expr) -> Result<Option<Chain>, Reason> {
        if let ExprKind::Dictionary {
            function: inner,
            argument,
            ..
        } = argument.kind()
        {
            let Some(chain) = self.chain(inner, argument)? else {
                return Ok(None);
            };
            let evaluated = function.evaluate(std::slice::from_ref(&chain.results))?;
            let errors = match (chain.errors.is_empty(), evaluated.errors.is_empty()) {
                (true, _) => evaluated.errors,
                (_, true) => chain.errors,
                _ => chain
                    .errors
                    .into_iter()
                    .zip(evaluated.errors)
                    .map(|(inner, outer)| inner.or(outer))
                    .collect(),
            };
            return Ok(Some(Chain {
                base: chain.base,
                results: evaluated.results,
                errors,
                of_column: false,
            }));
        }
        let base = self.string_operand(argument)?;
        let Kind::Code { values } = &base.kind else {
            return Ok(None);
        };
        let evaluated = function.evaluate_with_null(values)?;
        Ok(Some(Chain {
            base,
            results: evaluated.results,
            errors: evaluated.errors,
            of_column: argument.as_column().is_some(),
        }))
    }

    fn looked_up(&mut self, expression: &Expr, chain: Chain) -> Result<Value, Reason> {
        let Chain {
            base,
            results,
            errors,
            of_column,
        } = chain;
        let values = results.len() - 1;
        let null_is_null = results.is_null(values) && errors.get(values).is_none_or(Option::is_none);
        // If NULL yields NULL, its rows may read any entry; otherwise they have their own entry.
        let (index, entries, mut null) = match &base.null {
            Some(null) if null_is_null => (base.code.clone(), values, Some(null.clone())),
            Some(null) => {
                let own = self.parameters.literal(values as u64);
                let index = self.define_as(
                    "u32",
                    &format!("{null} ? (u32)args.literals[{own}] : {}", base.code),
                );
                (index, values + 1, None)
            }
            None => (base.code.clone(), values, None),
        };
        for raised in errors
            .iter()
            .take(entries)
            .flatten()
            .collect::<std::collections::BTreeSet<_>>()
        {
            let raising: Vec<bool> = errors
                .iter()
                .take(entries)
                .map(|error| error.as_ref() == Some(raised))
                .collect();
            let raises = self.member_test(&raising, &index);
            let raises = self.define(&Kind::Bool, &raises);
            let raises = self.unless_null(&raises, null.as_ref());
            let place = match of_column {
                true => Place::Named(raised.expression.clone()),
                false => self.error_place(),
            };
            self.raise(&raises, raised.fault.clone(), place);
        }
        let results = results.slice(0, entries);
        if results.logical_null_count() > 0 {
            let nulls: Vec<bool> = (0..entries).map(|entry| results.is_null(entry)).collect();
            let test = self.member_test(&nulls, &index);
            let test = self.define(&Kind::Bool, &test);
            null = Some(match null {
                None => test,
                Some(null) => self.define(&Kind::Bool, &format!("{null} || {test}")),
            });
        }
        self.entry(expression, &results, &index, null)
    }

    /// Reads entry `index` of a table of results.
    fn entry(
        &mut self,
        expression: &Expr,
        results: &ArrayRef,
        index: &str,
        null: Option<String>,
    ) -> Result<Value, Reason> {
        let data_type = expression.data_type();
        if is_string(data_type) {
            let bytes = Bytes::of(results)?;
            let (values, ranks) = ranked(&[&bytes], data_type)?;
            let code = self.translated(index, &ranks[0]);
            return Ok(Value {
                code,
                null,
                kind: Kind::Code { values },
                data_type: data_type.clone(),
                range: None,
            });
        }
        let refuse = |error: datafusion::common::DataFusionError| Reason::Expression {
            expression: expression.to_string(),
            detail: error.to_string(),
        };
        let scalars = || {
            let entries = (0..results.len()).into_par_iter();
            let scalars = entries.map(|entry| ScalarValue::try_from_array(results, entry));
            in_parallel(|| scalars.collect::<Result<Vec<_>, _>>()).map_err(refuse)
        };
        match data_type {
            DataType::Boolean => {
                let results = results.as_boolean().iter();
                let members: Vec<bool> = results.map(|value| value == Some(true)).collect();
                let test = self.member_test(&members, index);
                let test = self.define(&Kind::Bool, &test);
                // NULL entries are not members, but rows with NULL input may read any entry.
                let code = self.unless_null(&test, null.as_ref());
                Ok(boolean(code, null))
            }
            DataType::Float32 | DataType::Float64 => {
                let single = *data_type == DataType::Float32;
                let mut bytes = Vec::with_capacity(results.len().max(1) * 8);
                for value in &scalars()? {
                    match value {
                        ScalarValue::Float32(value) => bytes.extend(value.unwrap_or_default().to_le_bytes()),
                        ScalarValue::Float64(value) => bytes.extend(value.unwrap_or_default().to_le_bytes()),
                        _ => {}
                    }
                }
                bytes.extend([0; 8]);
                let table = self.parameters.table(bytes);
                let kind = if single { Kind::F32 } else { Kind::F64 };
                let code = self.define(
                    &kind,
                    &format!("table_entry<{}>(args.tables[{table}], {index})", kind.c_type()),
                );
                Ok(Value {
                    code,
                    null,
                    kind,
                    data_type: data_type.clone(),
                    range: None,
                })
            }
            data_type if data_type.is_integer() && *data_type != DataType::UInt64 => {
                let wide = cast(results, &DataType::Int64).map_err(|error| refuse(error.into()))?;
                let entries = wide.as_primitive::<Int64Type>();
                let low = min(entries).unwrap_or(0);
                let interval = Interval {
                    low: low.into(),
                    high: max(entries).unwrap_or(0).into(),
                };
                let read = match entries.null_count() {
                    0 => self.number_table(entries.values(), index),
                    _ => {
                        let filled: Vec<i64> = entries.iter().map(|entry| entry.unwrap_or(low)).collect();
                        self.number_table(&filled, index)
                    }
                };
                Ok(self.table_entry(&read, null, data_type, interval))
            }
            data_type => {
                let entries: Vec<Option<i128>> = match integers(results, "a dictionary") {
                    Ok(integers) => integers,
                    Err(_) => scalars()?.iter().map(integer_of).collect(),
                };
                let known = || entries.iter().flatten().copied();
                let low = known().min().unwrap_or(0);
                let interval = Interval {
                    low,
                    high: known().max().unwrap_or(0),
                };
                let filled: Vec<i128> = entries.iter().map(|entry| entry.unwrap_or(low)).collect();
                let read = self.number_table(&filled, index);
                Ok(self.table_entry(&read, null, data_type, interval))
            }
        }
    }

    /// An integer value that the C++ expression `read` reads.
    fn table_entry(
        &mut self,
        read: &str,
        null: Option<String>,
        data_type: &DataType,
        interval: Interval,
    ) -> Value {
        let kind = interval.kind();
        let code = self.define(&kind, &format!("({}){read}", kind.c_type()));
        integer_value(code, null, kind, data_type.clone(), interval)
    }

    /// C++ expression that reads an integer from a table of the narrowest type.
    pub(super) fn number_table<N: Copy + Into<i128> + Sync>(&mut self, entries: &[N], index: &str) -> String {
        let (c_type, bytes) = in_parallel(|| number_bytes(entries));
        let table = self.parameters.table(bytes);
        format!("table_entry<{c_type}>(args.tables[{table}], {index})")
    }

    /// A condition: whether `index` is a member; a range comparison if the members are contiguous.
    pub(super) fn member_test(&mut self, members: &[bool], index: &str) -> String {
        let Some(first) = members.iter().position(|member| *member) else {
            return "false".to_owned();
        };
        let last = members.iter().rposition(|member| *member).unwrap_or(first);
        if first == 0 && last + 1 == members.len() && members.iter().all(|member| *member) {
            return "true".to_owned();
        }
        if members[first..=last].iter().all(|member| *member) {
            let start = self.parameters.literal(first as u64);
            let span = self.parameters.literal((last - first) as u64);
            return format!("(u32)({index} - (u32)args.literals[{start}]) <= (u32)args.literals[{span}]");
        }
        if members.len() <= MASK {
            let mask = members
                .iter()
                .enumerate()
                .fold(0u64, |mask, (bit, member)| mask | u64::from(*member) << bit);
            let mask = self.parameters.literal(mask);
            return format!("(args.literals[{mask}] >> {index} & 1) != 0");
        }
        let mut bitmap = vec![0u8; members.len().div_ceil(32) * 4];
        for (bit, _) in members.iter().enumerate().filter(|(_, member)| **member) {
            bitmap[bit / 8] |= 1 << (bit % 8);
        }
        let table = self.parameters.table(bitmap);
        format!("table_bit(args.tables[{table}], {index})")
    }
}

/// The narrowest C++ type of a table of integers, and the table's bytes.
fn number_bytes<N: Copy + Into<i128> + Sync>(entries: &[N]) -> (&'static str, Vec<u8>) {
    let numbers = || entries.par_iter().map(|entry| (*entry).into());
    let interval = Interval {
        low: numbers().min().unwrap_or(0),
        high: numbers().max().unwrap_or(0),
    };
    let (c_type, width) = interval.table_type();
    let mut bytes = vec![0; entries.len().max(1) * width];
    let pieces = bytes.par_chunks_mut(TABLE_PIECE * width);
    pieces
        .zip(entries.par_chunks(TABLE_PIECE))
        .for_each(|(bytes, entries)| {
            for (target, entry) in bytes.chunks_exact_mut(width).zip(entries) {
                let number: i128 = (*entry).into();
                target.copy_from_slice(&number.to_le_bytes()[..width]);
            }
        });
    (c_type, bytes)
}
