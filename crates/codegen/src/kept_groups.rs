//! Groups that stay on the device: the layout of key parts and aggregates in a group table, for the pipelines
//! that read it.

use super::accumulators::{AccumulatorPlan, Finish, FinishForm};
use super::bound::{BoundPipeline, ResultPlan};
use super::group_key::{GroupKey, KeyForm, KeyLayout, KeyPart};
use super::strategy::Strategy;
use arrow::datatypes::DataType;
use galatea_base::reason::Reason;
use galatea_expression::{
    CodedStrings, DigitValue, GroupColumn, GroupForm, GroupNull, GroupWords, Interval, LookupSide, Product,
    StringForm, domain,
};
use std::collections::BTreeMap;

/// The groups of a pipeline as a build side, which other pipelines look up by entry number.
///
/// # Errors
/// [`Reason::Type`] of an aggregate that is computed only on the host, [`Reason::Node`] of rows.
pub fn entries(bound: &BoundPipeline) -> Result<LookupSide, Reason> {
    let ResultPlan::Aggregate {
        key,
        accumulators,
        occupied,
    } = &bound.result
    else {
        return Err(Reason::Node {
            node: "AggregateExec".into(),
            detail: "the rows are not groups".into(),
        });
    };
    let stride = bound.slot_words();
    let first = stride - accumulators.words;
    let hashed = matches!(bound.strategy, Strategy::Hash { .. });
    let mut columns = match key {
        Some(key) => key_columns(key, hashed)?,
        None => BTreeMap::new(),
    };
    let keys = columns.len();
    columns.extend(aggregates(accumulators, (first, keys), bound.rows)?);
    let occupied = match (hashed, occupied) {
        // The first word of a free slot, its key or its state, is 0.
        (true, _) => Some(0),
        (false, word) => word.map(|word| first + word),
    };
    Ok(LookupSide::entries(GroupWords {
        stride,
        occupied,
        columns,
    }))
}

/// The columns of the key parts, numbered from 0.
fn key_columns(key: &GroupKey, hashed: bool) -> Result<BTreeMap<usize, GroupColumn>, Reason> {
    let mut columns = BTreeMap::new();
    if let KeyLayout::Words(_) = key.layout {
        // The state word, the null bits, then the words of each part.
        let (bits, mut word) = (1, 2);
        for (number, part) in key.parts.iter().enumerate() {
            let (form, words) = word_form(part, word);
            let null = match part.nullable {
                true => GroupNull::Bit {
                    word: bits,
                    bit: number,
                },
                false => GroupNull::Never,
            };
            columns.insert(number, GroupColumn { form, null });
            word += words;
        }
        return Ok(columns);
    }
    let mut divisor = 1_u64;
    for (number, part) in key.parts.iter().enumerate().rev() {
        let radix = part.radix().ok_or_else(|| unsupported(&part.data_type))?;
        let value = match &part.form {
            KeyForm::Integer { .. } if part.data_type == DataType::Boolean => DigitValue::Boolean,
            KeyForm::Integer { low, size, .. } => {
                let high = low + i128::from(size.unwrap_or(1).max(1) - 1);
                DigitValue::Integer(Interval { low: *low, high })
            }
            KeyForm::Code { values } => DigitValue::Code(CodedStrings(values.clone())),
            KeyForm::Float64 | KeyForm::Text => return Err(unsupported(&part.data_type)),
        };
        let form = GroupForm::Digit {
            number: hashed.then_some(0),
            divisor,
            radix,
            value,
        };
        let null = match part.nullable {
            true => GroupNull::LastDigit,
            false => GroupNull::Never,
        };
        columns.insert(number, GroupColumn { form, null });
        divisor = divisor.saturating_mul(radix);
    }
    Ok(columns)
}

/// The form of a key part that is stored unchanged from `word` on, and its number of words.
fn word_form(part: &KeyPart, word: usize) -> (GroupForm, usize) {
    let all = Interval {
        low: i128::MIN,
        high: i128::MAX,
    };
    match &part.form {
        KeyForm::Integer { low, size, words } => {
            let known = size.map(|size| Interval {
                low: *low,
                high: low + i128::from(size.max(1) - 1),
            });
            let interval = known.or_else(|| domain(&part.data_type));
            match words {
                2 => {
                    let interval = interval.unwrap_or(all);
                    (GroupForm::Wide { word, interval }, 2)
                }
                _ => {
                    let long = Interval::of::<i64>();
                    let interval = interval.map_or(long, |interval| interval.clamp(long));
                    (GroupForm::Integer { word, interval }, 1)
                }
            }
        }
        KeyForm::Code { values } => {
            let values = CodedStrings(values.clone());
            let complement = false;
            (
                GroupForm::Code {
                    word,
                    complement,
                    values,
                },
                1,
            )
        }
        KeyForm::Float64 => (GroupForm::Float { word }, 1),
        KeyForm::Text => {
            let form = StringForm::Text;
            (GroupForm::Text { word, form }, 1)
        }
    }
}

fn unsupported(data_type: &DataType) -> Reason {
    Reason::Type {
        data_type: data_type.clone(),
        place: "a column of groups that stay on the device".into(),
    }
}

/// The computation of each aggregate from the words of a group with at most `rows` rows. `first` is the first
/// accumulator word, and `number` the column number of the first aggregate.
pub(super) fn aggregates(
    accumulators: &AccumulatorPlan,
    (first, number): (usize, usize),
    rows: u64,
) -> Result<BTreeMap<usize, GroupColumn>, Reason> {
    let range = |word: usize| {
        let contributions = accumulators.contributions.iter();
        let mut ranges = contributions.filter(|c| c.word == word).map(|c| c.range);
        let (low, high) = ranges.next().unwrap_or((0, 0));
        Interval { low, high }
    };
    let times = |interval: Interval, factor: i128| -> Option<Interval> {
        let (low, high) = (
            interval.low.checked_mul(factor)?,
            interval.high.checked_mul(factor)?,
        );
        Some(Interval {
            low: low.min(0),
            high: high.max(0),
        })
    };
    let long = Interval::of::<i64>();
    let finishes = accumulators.finishes.iter().enumerate();
    let column = |(call, finish): (usize, &Finish)| {
        let data_type = &finish.data_type;
        let form = match &finish.form {
            FinishForm::Count(word) => GroupForm::Integer {
                word: first + word,
                interval: Interval {
                    low: 0,
                    high: i128::from(rows),
                },
            },
            FinishForm::Sum64(word) => {
                let sums = times(range(*word), i128::from(rows)).filter(|sums| sums.within(long));
                GroupForm::Integer {
                    word: first + word,
                    interval: sums.unwrap_or(long),
                }
            }
            FinishForm::SumPlus { sum, count, each } => GroupForm::SumPlus {
                sum: first + sum,
                count: first + count,
                each: *each,
            },
            FinishForm::Sum128(word) => {
                let sums = times(range(*word), i128::from(rows)).or_else(|| match &finish.limit {
                    Some(_) => Some(Interval::of::<i128>()),
                    None => domain(data_type),
                });
                let (word, interval) = (first + word, sums.ok_or_else(|| unsupported(data_type))?);
                match &finish.limit {
                    None => GroupForm::Wide { word, interval },
                    Some(limit) => GroupForm::Checked {
                        word,
                        interval,
                        limit: limit.range,
                        name: limit.call.clone(),
                    },
                }
            }
            FinishForm::SumHalves { high, low } => {
                let limit = finish.limit.as_ref().ok_or_else(|| unsupported(data_type))?;
                GroupForm::PartitionPasses {
                    high: first + high,
                    low: first + low,
                    limit: limit.range,
                    name: limit.call.clone(),
                }
            }
            FinishForm::SumF64(word) if *data_type == DataType::Float64 => {
                GroupForm::Float { word: first + word }
            }
            FinishForm::AverageF64 { sum, count } if *data_type == DataType::Float64 => {
                GroupForm::AverageFloat {
                    sum: first + sum,
                    count: first + count,
                }
            }
            FinishForm::Bits { word, complement } => {
                let interval = domain(data_type).filter(|domain| domain.within(long));
                GroupForm::Bits {
                    word: first + word,
                    complement: *complement,
                    interval: interval.ok_or_else(|| unsupported(data_type))?,
                }
            }
            FinishForm::RankInteger { word, complement } if *data_type == DataType::Boolean => {
                GroupForm::RankBoolean {
                    word: first + word,
                    complement: *complement,
                }
            }
            FinishForm::RankInteger { word, complement } => GroupForm::Rank {
                word: first + word,
                complement: *complement,
                interval: domain(data_type).map_or(long, |domain| domain.clamp(long)),
            },
            FinishForm::RankUnsigned { word, complement } => GroupForm::RankUnsigned {
                word: first + word,
                complement: *complement,
            },
            FinishForm::RankFloat { word, complement } => GroupForm::RankFloat {
                word: first + word,
                complement: *complement,
            },
            FinishForm::Place { word, form } => GroupForm::Text {
                word: first + word,
                form: *form,
            },
            FinishForm::RankCode {
                word,
                complement,
                values,
            } => GroupForm::Code {
                word: first + word,
                complement: *complement,
                values: CodedStrings(values.clone()),
            },
            FinishForm::AverageDecimal {
                sum,
                wide,
                count,
                scale,
            } => {
                let DataType::Decimal128(_, target) = data_type else {
                    return Err(unsupported(data_type));
                };
                let factor = 10i64.checked_pow(u32::try_from(target - scale).unwrap_or(0));
                let factor = factor.ok_or_else(|| unsupported(data_type))?;
                let values = range(*sum);
                let product =
                    times(values, i128::from(rows)).and_then(|sums| times(sums, i128::from(factor)));
                let product = match (wide, product) {
                    (false, Some(product)) if product.within(long) => Product::Narrow,
                    (false, _) => Product::Widened,
                    (true, Some(_)) => Product::Wide,
                    // The average could exceed 128 bits, which is an error.
                    (true, None) => return Err(unsupported(data_type)),
                };
                let interval = times(values, i128::from(factor));
                GroupForm::Average {
                    sum: first + sum,
                    count: first + count,
                    factor,
                    product,
                    interval: interval.ok_or_else(|| unsupported(data_type))?,
                }
            }
            _ => return Err(unsupported(data_type)),
        };
        let null = match finish.valid {
            Some(word) => GroupNull::Counted(first + word),
            None => GroupNull::Never,
        };
        Ok((number + call, GroupColumn { form, null }))
    };
    finishes.map(column).collect()
}
