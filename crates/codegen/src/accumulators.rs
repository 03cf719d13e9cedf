//! The accumulators that aggregates need, and how results are computed from them.

mod finish;

pub use finish::Limit;
pub use finish::{Finish, FinishForm};

use super::aggregate::{Accumulator, AggregateCall, AggregateFunction, SumWidth, sum_width};
use super::moments::{Moment, MomentSum};
use super::shared_sums::shared_sums;
use arrow::datatypes::DataType;
use galatea_base::reason::Reason;
use galatea_expression::code::Code;
use galatea_expression::{Emitter, Expr, Interval, Kind, StringForm, Value, result_range};

/// An accumulator and the value that each row adds to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contribution {
    /// Kind of accumulator.
    pub accumulator: Accumulator,
    /// C++ condition for the row to count; `None` for every row.
    pub condition: Option<String>,
    /// C++ expression added.
    pub value: String,
    /// The interval of the value; all of `i128` if it is unknown.
    pub range: (i128, i128),
    /// First word in the group's words in global memory.
    pub word: usize,
    /// First word in the group's words in a block's partial result.
    pub partial: usize,
}

/// The range of a value without a derived interval.
const UNKNOWN: (i128, i128) = (i128::MIN, i128::MAX);

impl Contribution {
    /// Whether the values fit an unsigned 32-bit integer.
    pub fn is_narrow(&self) -> bool {
        let (low, high) = self.range;
        low >= 0 && high <= i128::from(u32::MAX)
    }

    /// Estimated share of the rows that change the high half of a 64-bit sum. Values are assumed to average
    /// half of the largest one.
    pub fn high_halves(&self) -> f64 {
        let (low, high) = self.range;
        let largest = low.unsigned_abs().max(high.unsigned_abs());
        (largest as f64 / 2f64.powi(33)).min(1.0)
    }
}

/// The accumulator of MIN or MAX over strings: the place of the best string so far among the interned strings
/// (`interned.cuh`). A row with a better string interns it and updates the word in global memory, whichever
/// strategy collects the other accumulators. This happens a few dozen times per group, and only global memory
/// holds the string to compare with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extreme {
    /// Whether this is MIN.
    pub least: bool,
    /// C++ condition for the row to count; `None` for every row.
    pub condition: Option<String>,
    /// C++ expression of the string.
    pub text: String,
    /// Index of the lookup table of interned strings.
    pub table: usize,
    /// Word in the group's words in global memory.
    pub word: usize,
}

/// The accumulators of a group and the computation of results from them.
#[derive(Debug, Clone, Default)]
pub struct AccumulatorPlan {
    /// The accumulators that rows add to.
    pub contributions: Vec<Contribution>,
    /// The accumulators of MIN and MAX over strings.
    pub extremes: Vec<Extreme>,
    /// The result columns, one per aggregate call.
    pub finishes: Vec<Finish>,
    /// Words per group in global memory.
    pub words: usize,
    /// Words per group in a block's partial result.
    pub partial_words: usize,
}

impl AccumulatorPlan {
    fn add(
        &mut self,
        accumulator: Accumulator,
        condition: Option<String>,
        value: String,
        range: (i128, i128),
    ) -> usize {
        if let Some(known) = self
            .contributions
            .iter()
            .find(|c| c.accumulator == accumulator && c.condition == condition && c.value == value)
        {
            return known.word;
        }
        let (word, partial) = (self.words, self.partial_words);
        self.words += accumulator.words();
        self.partial_words += accumulator.partial_words();
        self.contributions.push(Contribution {
            accumulator,
            condition,
            value,
            range,
            word,
            partial,
        });
        word
    }

    /// The accumulators of `aggregates`. `rewrite` maps source columns to kernel columns. `bounds` contains
    /// the maximum number of values that are added, and whether a group exists only if it has a row.
    ///
    /// # Errors
    /// Errors of the emitter; calls without accumulators.
    pub fn of_calls(
        aggregates: &[AggregateCall],
        rewrite: &dyn Fn(&Expr) -> Expr,
        bounds: (u64, bool),
        emitter: &mut Emitter<'_>,
        code: &mut Code,
    ) -> Result<Self, Reason> {
        let (rows, grouped) = bounds;
        let mut accumulators = Self::default();
        for (call, shared) in aggregates.iter().zip(shared_sums(aggregates)) {
            let filter = call.filter.as_ref().map(rewrite);
            let filter = filter.map(|f| emitter.emit(&f, code)).transpose()?;
            // The argument is evaluated only for rows that pass the call's filter.
            let kept: Vec<String> = filter.iter().map(|f| f.code.clone()).collect();
            let mut emit = |e: &Expr| emitter.emit_where(&kept, &rewrite(e), code);
            if let Some((argument, each)) = shared {
                let argument = emit(&argument)?;
                if call.function == AggregateFunction::SumWrapping || fits_plus(&argument, each, rows) {
                    accumulators.sum_plus(call, (&argument, each), filter.as_ref(), rows, grouped)?;
                    continue;
                }
            }
            let arguments = call.argument.iter().flat_map(Expr::parts).map(emit);
            let arguments = arguments.collect::<Result<Vec<_>, _>>()?;
            if let ([argument], true) = (&arguments[..], call.function.orders_values())
                && let Some((text, form)) = emitter.compared_string(argument)
            {
                accumulators.extreme(call, (argument, text, form), filter.as_ref());
                continue;
            }
            if let AggregateFunction::Moment(moment) = call.function {
                accumulators.moment(call, moment, &arguments, filter.as_ref(), rows)?;
                continue;
            }
            accumulators.call(call, arguments.first(), filter.as_ref(), rows, grouped)?;
        }
        Ok(accumulators)
    }

    /// Adds a MIN or MAX that compares strings. `text` is the C++ expression of the string and
    /// `table` the index of the table of interned strings.
    fn extreme(
        &mut self,
        call: &AggregateCall,
        (argument, (text, table), form): (&Value, (String, usize), StringForm),
        filter: Option<&Value>,
    ) {
        let extreme = Extreme {
            least: call.function == AggregateFunction::Min,
            condition: condition(&[argument], filter),
            text,
            table,
            word: self.words,
        };
        let same = |known: &&Extreme| {
            Extreme {
                word: known.word,
                ..extreme.clone()
            } == **known
        };
        let known = self.extremes.iter().find(same).map(|known| known.word);
        let word = known.unwrap_or_else(|| {
            self.words += 1;
            self.extremes.push(extreme);
            self.words - 1
        });
        self.finishes.push(Finish {
            form: FinishForm::Place { word, form },
            // The place of an interned string is never 0.
            valid: Some(word),
            data_type: call.field.data_type().clone(),
            limit: None,
        });
    }

    /// The word that counts all rows of a group.
    pub fn row_count(&mut self) -> usize {
        self.add(Accumulator::Count, None, "1ull".into(), (1, 1))
    }

    /// Adds an aggregate call. `rows` is the maximum number of values that are added. `grouped`: a group
    /// exists only if it has a row.
    pub fn call(
        &mut self,
        call: &AggregateCall,
        argument: Option<&Value>,
        filter: Option<&Value>,
        rows: u64,
        grouped: bool,
    ) -> Result<(), Reason> {
        let condition = condition(argument.as_slice(), filter);
        let count = |plan: &mut Self| plan.add(Accumulator::Count, condition.clone(), "1ull".into(), (1, 1));
        let data_type = call.field.data_type().clone();
        let ((AggregateFunction::Count, _) | (_, None)) = (call.function, argument) else {
            let argument = argument.ok_or_else(|| missing(call))?;
            let valid = if grouped && condition.is_none() {
                None
            } else {
                Some(count(self))
            };
            let mut limit = None;
            let form = match call.function {
                AggregateFunction::SumWrapping => {
                    let wraps = matches!(data_type, DataType::Int64 | DataType::UInt64);
                    self.sum(argument, &condition, rows, wraps)?
                }
                AggregateFunction::Sum => {
                    limit = limit_of(call, argument, rows);
                    match may_leave_128_bits(argument, rows) {
                        true => self.sum_in_halves(argument, &condition),
                        false => self.sum(argument, &condition, rows, false)?,
                    }
                }
                AggregateFunction::Avg => {
                    let count = count(self);
                    if may_leave_128_bits(argument, rows) {
                        return Err(Reason::Function {
                            name: call.function.name().to_owned(),
                            detail: "sums of these values may leave 128 bits".into(),
                        });
                    }
                    match (self.sum(argument, &condition, rows, false)?, &argument.data_type) {
                        (FinishForm::Sum64(sum), DataType::Decimal128(_, scale)) => {
                            FinishForm::AverageDecimal {
                                sum,
                                wide: false,
                                count,
                                scale: *scale,
                            }
                        }
                        (FinishForm::Sum128(sum), DataType::Decimal128(_, scale)) => {
                            FinishForm::AverageDecimal {
                                sum,
                                wide: true,
                                count,
                                scale: *scale,
                            }
                        }
                        (FinishForm::SumF64(sum), _) => FinishForm::AverageF64 { sum, count },
                        _ => return Err(missing(call)),
                    }
                }
                AggregateFunction::Min | AggregateFunction::Max => {
                    self.rank(argument, &condition, call.function == AggregateFunction::Min)?
                }
                AggregateFunction::BitAnd | AggregateFunction::BitOr | AggregateFunction::BitXor => {
                    self.bits(call.function, argument, &condition)?
                }
                AggregateFunction::Count | AggregateFunction::Moment(_) => return Err(missing(call)),
            };
            self.finishes.push(Finish {
                form,
                valid,
                data_type,
                limit,
            });
            return Ok(());
        };
        let word = count(self);
        self.finishes.push(Finish {
            form: FinishForm::Count(word),
            valid: None,
            data_type,
            limit: None,
        });
        Ok(())
    }

    /// Adds a call that sums its argument plus the constant `each`. It reuses the sum of the argument, which
    /// other calls share.
    pub fn sum_plus(
        &mut self,
        call: &AggregateCall,
        (argument, each): (&Value, i64),
        filter: Option<&Value>,
        rows: u64,
        grouped: bool,
    ) -> Result<(), Reason> {
        self.call(call, Some(argument), filter, rows, grouped)?;
        let condition = condition(&[argument], filter);
        let count = self.add(Accumulator::Count, condition, "1ull".into(), (1, 1));
        let form = self.finishes.last_mut().map(|finish| &mut finish.form);
        let form = form.ok_or_else(|| missing(call))?;
        let FinishForm::Sum64(sum) = *form else {
            return Err(missing(call));
        };
        *form = FinishForm::SumPlus { sum, count, each };
        Ok(())
    }

    /// Adds a variance, covariance, correlation or regression call.
    pub fn moment(
        &mut self,
        call: &AggregateCall,
        moment: Moment,
        arguments: &[Value],
        filter: Option<&Value>,
        rows: u64,
    ) -> Result<(), Reason> {
        let (a, b) = match arguments {
            [a] => (a, a),
            [a, b] => (a, b),
            _ => return Err(missing(call)),
        };
        let condition = condition(&arguments.iter().collect::<Vec<_>>(), filter);
        let count = self.add(Accumulator::Count, condition.clone(), "1ull".into(), (1, 1));
        let mut sums = Vec::new();
        for sum in moment.sums() {
            let factors = match sum {
                MomentSum::A => (a, None),
                MomentSum::B => (b, None),
                MomentSum::Aa => (a, Some(a)),
                MomentSum::Ab => (a, Some(b)),
                MomentSum::Bb => (b, Some(b)),
            };
            let (word, wide) = self.exact_sum(call, factors, &condition, rows)?;
            sums.push((*sum, word, wide));
        }
        let scale = |argument: &Value| match argument.data_type {
            DataType::Decimal32(_, scale)
            | DataType::Decimal64(_, scale)
            | DataType::Decimal128(_, scale) => scale,
            _ => 0,
        };
        self.finishes.push(Finish {
            form: FinishForm::Moment {
                moment,
                count,
                sums,
                scales: [scale(a), scale(b)],
            },
            valid: None,
            data_type: call.field.data_type().clone(),
            limit: None,
        });
        Ok(())
    }

    /// The sum of an integer or of the product of two integers, wide enough that no number of rows overflows
    /// it.
    fn exact_sum(
        &mut self,
        call: &AggregateCall,
        (left, right): (&Value, Option<&Value>),
        condition: &Option<String>,
        rows: u64,
    ) -> Result<(usize, bool), Reason> {
        let (low, high) = left.range.ok_or_else(|| missing(call))?;
        let largest = |(low, high): (i128, i128)| low.unsigned_abs().max(high.unsigned_abs());
        let (bound, range) = match right
            .map(|right| right.range.ok_or_else(|| missing(call)))
            .transpose()?
        {
            None => (Some(largest((low, high))), (low, high)),
            Some(other) => {
                let bound = largest((low, high)).checked_mul(largest(other));
                (bound, UNKNOWN)
            }
        };
        let width = bound
            .and_then(|bound| sum_width(bound, rows))
            .ok_or_else(|| Reason::Function {
                name: call.function.name().to_owned(),
                detail: "sums of products of these values may leave 128 bits".into(),
            })?;
        let value = |c_type: &str| match right {
            None => format!("{c_type}({})", left.code),
            Some(right) => format!("{c_type}({}) * {c_type}({})", left.code, right.code),
        };
        let (accumulator, value) = match width {
            SumWidth::Narrow => (Accumulator::Sum64, format!("u64({})", value("i64"))),
            SumWidth::Widening => (Accumulator::SumWidening, format!("({})", value("i64"))),
            SumWidth::Wide => (Accumulator::Sum128, format!("({})", value("i128"))),
        };
        let word = self.add(accumulator, condition.clone(), value, range);
        Ok((word, width != SumWidth::Narrow))
    }

    fn sum(
        &mut self,
        argument: &Value,
        condition: &Option<String>,
        rows: u64,
        wraps: bool,
    ) -> Result<FinishForm, Reason> {
        let code = &argument.code;
        Ok(match argument.kind {
            Kind::F32 | Kind::F64 => FinishForm::SumF64(self.add(
                Accumulator::SumF64,
                condition.clone(),
                format!("double({code})"),
                UNKNOWN,
            )),
            Kind::I32 | Kind::I64 | Kind::I128 => {
                let (low, high) = argument.range.unwrap_or(UNKNOWN);
                let largest = low.unsigned_abs().max(high.unsigned_abs());
                let width = sum_width(largest, rows);
                let narrow = match argument.kind {
                    Kind::I128 => format!("u64({code})"),
                    _ => format!("u64(i64({code}))"),
                };
                if wraps || width == Some(SumWidth::Narrow) {
                    FinishForm::Sum64(self.add(Accumulator::Sum64, condition.clone(), narrow, (low, high)))
                } else if width == Some(SumWidth::Widening) {
                    FinishForm::Sum128(self.add(
                        Accumulator::SumWidening,
                        condition.clone(),
                        format!("i64({code})"),
                        (low, high),
                    ))
                } else {
                    FinishForm::Sum128(self.add(
                        Accumulator::Sum128,
                        condition.clone(),
                        format!("i128({code})"),
                        (low, high),
                    ))
                }
            }
            _ => {
                return Err(Reason::Type {
                    data_type: argument.data_type.clone(),
                    place: "sum".into(),
                });
            }
        })
    }

    /// The sum of 128-bit integers that may overflow 128 bits: separate sums of the upper and the lower 64
    /// bits of each value.
    fn sum_in_halves(&mut self, argument: &Value, condition: &Option<String>) -> FinishForm {
        let mut half = |value: String, range: Interval| {
            let range = (range.low, range.high);
            self.add(Accumulator::Sum128, condition.clone(), value, range)
        };
        let code = &argument.code;
        FinishForm::SumHalves {
            high: half(format!("(i128({code}) >> 64)"), Interval::of::<i64>()),
            low: half(format!("i128(u64({code}))"), Interval::of::<u64>()),
        }
    }

    fn bits(
        &mut self,
        function: AggregateFunction,
        argument: &Value,
        condition: &Option<String>,
    ) -> Result<FinishForm, Reason> {
        let code = match argument.kind {
            Kind::I32 | Kind::I64 => format!("u64(i64({}))", argument.code),
            Kind::I128 => format!("u64({})", argument.code),
            _ => {
                return Err(Reason::Type {
                    data_type: argument.data_type.clone(),
                    place: "an aggregate of bits".into(),
                });
            }
        };
        let complement = function == AggregateFunction::BitAnd;
        let (accumulator, value) = match function {
            AggregateFunction::BitAnd => (Accumulator::Or64, format!("~{code}")),
            AggregateFunction::BitOr => (Accumulator::Or64, code),
            _ => (Accumulator::Xor64, code),
        };
        let word = self.add(accumulator, condition.clone(), value, UNKNOWN);
        Ok(FinishForm::Bits { word, complement })
    }

    fn rank(
        &mut self,
        argument: &Value,
        condition: &Option<String>,
        complement: bool,
    ) -> Result<FinishForm, Reason> {
        let code = &argument.code;
        let flip = if complement { "~" } else { "" };
        let word = |plan: &mut Self, rank: String| {
            plan.add(
                Accumulator::Max64,
                condition.clone(),
                format!("{flip}{rank}"),
                UNKNOWN,
            )
        };
        Ok(match &argument.kind {
            Kind::I32 | Kind::I64 | Kind::Bool => FinishForm::RankInteger {
                word: word(self, format!("rank_i64(i64({code}))")),
                complement,
            },
            Kind::I128 if argument.interval().within(Interval::of::<i64>()) => FinishForm::RankInteger {
                word: word(self, format!("rank_i64(i64({code}))")),
                complement,
            },
            Kind::I128 if argument.interval().within(Interval::of::<u64>()) => FinishForm::RankUnsigned {
                word: word(self, format!("u64({code})")),
                complement,
            },
            Kind::F32 | Kind::F64 => FinishForm::RankFloat {
                word: word(self, format!("rank_f64(double({code}))")),
                complement,
            },
            Kind::Code { values } => FinishForm::RankCode {
                word: word(self, format!("u64({code})")),
                complement,
                values: values.clone(),
            },
            // MIN and MAX of these are compared as strings.
            Kind::I128 | Kind::Text | Kind::ComputedString | Kind::Place => {
                return Err(Reason::Type {
                    data_type: argument.data_type.clone(),
                    place: "min or max".into(),
                });
            }
        })
    }
}

/// The interval of the sum of `rows` values; `None` if it exceeds 128 bits.
fn sums_of(argument: &Value, rows: u64) -> Option<Interval> {
    let (low, high) = argument.range?;
    let rows = Interval {
        low: 0,
        high: i128::from(rows.max(1)),
    };
    Interval { low, high }.multiply(rows)
}

/// Whether the sum of `rows` decimals may overflow 128 bits. Sums of 64-bit integers never do.
fn may_leave_128_bits(argument: &Value, rows: u64) -> bool {
    argument.range.is_some() && argument.data_type.is_decimal() && sums_of(argument, rows).is_none()
}

/// The type limits of the sum of `rows` values; `None` if the sum always fits.
fn limit_of(call: &AggregateCall, argument: &Value, rows: u64) -> Option<Limit> {
    argument.range?;
    let range = result_range(call.field.data_type())?;
    (!sums_of(argument, rows).is_some_and(|sums| sums.within(range))).then(|| Limit {
        range,
        call: call.field.name().clone(),
    })
}

/// Whether the sum of `rows` values, each plus the constant, fits 64 bits.
fn fits_plus(argument: &Value, each: i64, rows: u64) -> bool {
    let Some((low, high)) = argument.range else {
        return false;
    };
    let largest = low.unsigned_abs().max(high.unsigned_abs());
    let largest = largest.saturating_add(each.unsigned_abs().into());
    sum_width(largest, rows) == Some(SumWidth::Narrow)
}

fn missing(call: &AggregateCall) -> Reason {
    Reason::Function {
        name: call.field.name().clone(),
        detail: "no accumulator for this argument".into(),
    }
}

/// The condition for a row to count: it passes the filter and no argument is NULL.
fn condition(arguments: &[&Value], filter: Option<&Value>) -> Option<String> {
    let mut parts = Vec::new();
    if let Some(filter) = filter {
        parts.push(filter.code.clone());
    }
    let nulls = arguments.iter().filter_map(|argument| argument.null.as_ref());
    parts.extend(nulls.map(|null| format!("!{null}")));
    (!parts.is_empty()).then(|| parts.join(" && "))
}
