//! The groups of an aggregate.

use super::contents::{Contents, GroupStorage};
use super::pieces::Part;
use super::{Integers, Outlet, batch, dictionary_array};
use crate::device::RunError;
use crate::string::interned::StringsAtPlaces;
use crate::string::late_materialised::string_array;
use arrow::array::{ArrayRef, Float64Array, RecordBatch};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Decimal128Type, DecimalType};
use arrow::error::ArrowError;
use galatea_codegen::PipelinePlan;
use galatea_codegen::accumulators::{AccumulatorPlan, Finish, FinishForm};
use galatea_codegen::bound::{BoundPipeline, ResultPlan};
use galatea_codegen::group_key::{GroupKey, KeyColumn, KeyForm, KeyLayout, KeyPart, KeyValues};
use galatea_codegen::moments::{Moment, MomentSum, Moments};
use galatea_codegen::strategy::Strategy;
use galatea_device::Stream;
use galatea_expression::{Fault, Raised, RowError, StringForm};

/// Sends the groups of an aggregate to `outlet` as record batches, at least `fetch` groups if they exist.
/// Returns the number of bytes read.
pub(crate) fn groups(
    stream: &Stream,
    plan: &PipelinePlan,
    bound: &BoundPipeline,
    contents: &Contents,
    fetch: Option<u64>,
    outlet: &Outlet<'_>,
) -> Result<u64, RunError> {
    let stride = bound.slot_words();
    let texts = &contents.texts;
    match &contents.groups {
        GroupStorage::Host(words) => {
            let groups = words.len().checked_div(stride).unwrap_or(0);
            let batch = decode(plan, bound, Groups::new(words, 0, groups, 1, stride), texts)?;
            outlet.give(batch)?;
            Ok(0)
        }
        GroupStorage::Fixed(words, at) => {
            let part = Part::Records(words, at.start, stride);
            let groups = at.len() / stride;
            outlet.pieces(stream, groups, &[part], |piece| {
                let groups = Groups::new(piece.all_words(), piece.first, piece.rows, 1, stride);
                decode(plan, bound, groups, texts)
            })
        }
        GroupStorage::Collected(words) | GroupStorage::Numbered(words) => {
            let numbered = matches!(contents.groups, GroupStorage::Numbered(_));
            let columns = stride + usize::from(numbered);
            let groups = words.len() / columns;
            let parts: Vec<Part> = (0..columns)
                .map(|column| Part::Words(words, column * groups))
                .collect();
            let wanted = fetch.map_or(groups, |fetch| groups.min(fetch as usize));
            outlet.pieces(stream, wanted, &parts, |piece| {
                let (numbers, words) = piece.all_words().split_at(if numbered { piece.rows } else { 0 });
                let groups = Groups {
                    numbers: numbered.then(|| numbers.to_vec()),
                    ..Groups::new(words, piece.first, piece.rows, piece.rows, 1)
                };
                decode(plan, bound, groups, texts)
            })
        }
    }
}

fn decode(
    plan: &PipelinePlan,
    bound: &BoundPipeline,
    all: Groups<'_>,
    texts: &StringsAtPlaces,
) -> Result<RecordBatch, RunError> {
    let ResultPlan::Aggregate {
        key,
        accumulators,
        occupied,
    } = &bound.result
    else {
        return Err(RunError::Defect("a sink of rows has no groups".into()));
    };
    // Dense accumulators exist for every possible group, unless the nonempty ones were collected.
    let used = match (occupied, &bound.strategy) {
        (Some(word), Strategy::Shared(_) | Strategy::Dense(_)) if all.numbers.is_none() => all.nonzero(*word),
        _ => all,
    };
    let arrays = arrays(key.as_ref(), accumulators, &used, texts)?;
    Ok(batch(&plan.output, arrays, used.len())?)
}

/// The keys and the results of groups with consecutive words in `words`; `numbers` are the groups of a dense
/// key.
///
/// # Errors
/// Errors of Arrow and of aggregates.
pub(crate) fn records(
    key: &GroupKey,
    accumulators: &AccumulatorPlan,
    words: &[u64],
    numbers: Vec<u64>,
) -> Result<Vec<ArrayRef>, RunError> {
    let stride = key.slot_key_words() + accumulators.words;
    let groups = Groups::new(words, 0, words.len().checked_div(stride).unwrap_or(0), 1, stride);
    arrays(
        Some(key),
        accumulators,
        &Groups {
            numbers: Some(numbers),
            ..groups
        },
        // Keys of tables that are read this way have dictionaries.
        &StringsAtPlaces::default(),
    )
}

/// The keys, if any, and the results.
fn arrays(
    key: Option<&GroupKey>,
    accumulators: &AccumulatorPlan,
    used: &Groups<'_>,
    texts: &StringsAtPlaces,
) -> Result<Vec<ArrayRef>, RunError> {
    let mut arrays: Vec<ArrayRef> = Vec::new();
    if let Some(key) = key {
        let columns = match key.layout {
            KeyLayout::Dense { .. } => key.decode(vec![used.numbers()]),
            KeyLayout::Packed | KeyLayout::Words(_) => {
                let first = key.slot_key_words() - key.key_words();
                key.decode(
                    (0..key.key_words())
                        .map(|word| used.column(first + word))
                        .collect(),
                )
            }
        };
        for (part, column) in key.parts.iter().zip(columns) {
            arrays.push(key_array(part, column, texts)?);
        }
    }
    let states = States {
        groups: used,
        first: key.map_or(0, GroupKey::slot_key_words),
    };
    for finish in &accumulators.finishes {
        arrays.push(states.finish(finish, texts)?);
    }
    Ok(arrays)
}

/// The words of groups, by column: `[group][word]` if their number is fixed, `[word][group]` from a hash
/// table.
struct Groups<'a> {
    words: &'a [u64],
    word_stride: usize,
    group_stride: usize,
    /// Number of the first group.
    first: u64,
    /// The existing groups, counted from the first, ascending.
    used: Vec<u32>,
    /// Their numbers, if these do not follow from their positions.
    numbers: Option<Vec<u64>>,
}

impl<'a> Groups<'a> {
    fn new(words: &'a [u64], first: usize, groups: usize, word_stride: usize, group_stride: usize) -> Self {
        Self {
            words,
            word_stride,
            group_stride,
            first: first as u64,
            used: (0..groups as u32).collect(),
            numbers: None,
        }
    }

    /// The groups that have a nonzero word at this position.
    fn nonzero(mut self, word: usize) -> Self {
        let from = word * self.word_stride;
        let at = |group: &u32| self.words[from + *group as usize * self.group_stride];
        self.used.retain(|group| at(group) != 0);
        self
    }

    fn len(&self) -> usize {
        self.used.len()
    }

    /// The groups' numbers.
    fn numbers(&self) -> Vec<u64> {
        if let Some(numbers) = &self.numbers {
            return numbers.clone();
        }
        self.used
            .iter()
            .map(|group| self.first + u64::from(*group))
            .collect()
    }

    /// One word of every group.
    fn words(&self, word: usize) -> impl Iterator<Item = u64> {
        let from = word * self.word_stride;
        (self.used.iter()).map(move |group| self.words[from + *group as usize * self.group_stride])
    }

    fn column(&self, word: usize) -> Vec<u64> {
        self.words(word).collect()
    }
}

fn key_array(part: &KeyPart, column: KeyColumn, texts: &StringsAtPlaces) -> Result<ArrayRef, RunError> {
    let KeyColumn { values, nulls } = column;
    Ok(match (values, &part.form) {
        (KeyValues::Narrow(values), _) => Integers::Narrow(values).array(nulls, &part.data_type)?,
        (KeyValues::Wide(values), _) => Integers::Wide(values).array(nulls, &part.data_type)?,
        (KeyValues::Floats(values), _) => cast(&Float64Array::new(values.into(), nulls), &part.data_type)?,
        (KeyValues::Codes(codes), KeyForm::Code { values }) => {
            dictionary_array(codes, nulls, values, &part.data_type)?
        }
        (KeyValues::Places(places), _) => {
            let valid = |group: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(group));
            let groups = places.into_iter().enumerate();
            let texts = groups.map(|(group, place)| valid(group).then(|| texts.get(place)));
            string_array(texts, &part.data_type)?
        }
        (KeyValues::Codes(_), form) => {
            return Err(RunError::Defect(format!(
                "codes of a key part of the form {form:?}"
            )));
        }
    })
}

/// Fails if a sum overflows its type. Groups without a value have sums of 0.
fn check_limit(sums: &[i128], finish: &Finish) -> Result<(), RunError> {
    let Some(limit) = &finish.limit else {
        return Ok(());
    };
    match sums.iter().all(|sum| limit.range.contains(*sum)) {
        true => Ok(()),
        false => {
            let raised = RowError::overflow(&limit.call, &finish.data_type);
            Err(RunError::Raised(Box::new(Raised::Named(raised))))
        }
    }
}

/// `high * 2^64 + low`, or the nearest 128-bit integer, which is no valid decimal.
fn sum_of_halves(high: i128, low: i128) -> i128 {
    let upper = high + (low >> 64);
    let nearest = if upper < 0 { i128::MIN } else { i128::MAX };
    i64::try_from(upper).map_or(nearest, |upper| {
        (i128::from(upper) << 64) | i128::from(low as u64)
    })
}

/// The accumulators of groups.
struct States<'a> {
    groups: &'a Groups<'a>,
    /// The first accumulator word of a group.
    first: usize,
}

impl States<'_> {
    fn words(&self, word: usize) -> impl Iterator<Item = u64> {
        self.groups.words(self.first + word)
    }

    fn signed(&self, word: usize) -> impl Iterator<Item = i64> {
        self.words(word).map(|value| value as i64)
    }

    fn wide(&self, word: usize) -> impl Iterator<Item = i128> {
        (self.words(word).zip(self.words(word + 1)))
            .map(|(low, high)| ((u128::from(high) << 64) | u128::from(low)) as i128)
    }

    fn finish(&self, finish: &Finish, texts: &StringsAtPlaces) -> Result<ArrayRef, RunError> {
        let nulls = finish.valid.map(|word| {
            let counts: Vec<u64> = self.words(word).collect();
            NullBuffer::new(BooleanBuffer::collect_bool(counts.len(), |i| counts[i] != 0))
        });
        let data_type = &finish.data_type;
        let floats = |values: Vec<f64>, nulls| cast(&Float64Array::new(values.into(), nulls), data_type);
        Ok(match &finish.form {
            FinishForm::Count(word) => {
                Integers::Narrow(self.signed(*word).collect()).array(None, data_type)?
            }
            FinishForm::Sum64(word) => {
                Integers::Narrow(self.signed(*word).collect()).array(nulls, data_type)?
            }
            FinishForm::Bits { word, complement } => {
                let bits = self.words(*word).map(|bits| unflip(bits, *complement) as i64);
                Integers::Narrow(bits.collect()).array(nulls, data_type)?
            }
            FinishForm::SumPlus { sum, count, each } => {
                let sums = (self.signed(*sum).zip(self.signed(*count)))
                    .map(|(sum, count)| sum.wrapping_add(count.wrapping_mul(*each)));
                Integers::Narrow(sums.collect()).array(nulls, data_type)?
            }
            FinishForm::Sum128(word) => {
                let sums: Vec<i128> = self.wide(*word).collect();
                check_limit(&sums, finish)?;
                Integers::Wide(sums).array(nulls, data_type)?
            }
            FinishForm::SumHalves { high, low } => {
                let halves = self.wide(*high).zip(self.wide(*low));
                let sums: Vec<i128> = halves.map(|(high, low)| sum_of_halves(high, low)).collect();
                check_limit(&sums, finish)?;
                Integers::Wide(sums).array(nulls, data_type)?
            }
            FinishForm::SumF64(word) => floats(self.words(*word).map(f64::from_bits).collect(), nulls)?,
            FinishForm::AverageF64 { sum, count } => {
                let averages = (self.words(*sum).zip(self.words(*count)))
                    .map(|(sum, count)| f64::from_bits(sum) / count as f64);
                floats(averages.collect(), nulls)?
            }
            FinishForm::AverageDecimal {
                sum,
                wide,
                count,
                scale,
            } => {
                let sums: Vec<i128> = if *wide {
                    self.wide(*sum).collect()
                } else {
                    self.signed(*sum).map(i128::from).collect()
                };
                let averages = decimal_averages(&sums, self.words(*count), *scale, data_type)?;
                Integers::Wide(averages).array(nulls, data_type)?
            }
            FinishForm::Moment {
                moment,
                count,
                sums,
                scales,
            } => self.moments(*moment, *count, sums, *scales, data_type)?,
            FinishForm::RankInteger { word, complement } => {
                let values = self
                    .words(*word)
                    .map(|rank| (unflip(rank, *complement) ^ (1 << 63)) as i64);
                Integers::Narrow(values.collect()).array(nulls, data_type)?
            }
            FinishForm::RankUnsigned { word, complement } => {
                let values = self
                    .words(*word)
                    .map(|rank| i128::from(unflip(rank, *complement)));
                Integers::Wide(values.collect()).array(nulls, data_type)?
            }
            FinishForm::RankFloat { word, complement } => {
                let value = |rank: u64| {
                    let rank = unflip(rank, *complement);
                    f64::from_bits(if rank >> 63 == 1 { rank ^ (1 << 63) } else { !rank })
                };
                floats(self.words(*word).map(value).collect(), nulls)?
            }
            FinishForm::Place { word, form } => {
                let places = self.words(*word);
                match form {
                    StringForm::Text => {
                        let found = places.map(|place| (place != 0).then(|| texts.get(place)));
                        string_array(found, data_type)?
                    }
                    StringForm::Integer => {
                        let values = places.map(|place| texts.integer(place)).collect();
                        Integers::Wide(values).array(nulls, data_type)?
                    }
                }
            }
            FinishForm::RankCode {
                word,
                complement,
                values,
            } => {
                let codes = self.words(*word).map(|rank| unflip(rank, *complement) as u32);
                dictionary_array(codes.collect(), nulls, values, data_type)?
            }
        })
    }
}

impl States<'_> {
    fn moments(
        &self,
        moment: Moment,
        count: usize,
        sums: &[(MomentSum, usize, bool)],
        scales: [i8; 2],
        data_type: &DataType,
    ) -> Result<ArrayRef, RunError> {
        let units = scales.map(|scale| 10f64.powi(i32::from(scale)));
        let groups = self.words(count).map(|count| Moments {
            count,
            units,
            ..Moments::default()
        });
        let mut groups: Vec<Moments> = groups.collect();
        for (sum, word, wide) in sums {
            let values: Vec<i128> = match wide {
                true => self.wide(*word).collect(),
                false => self.signed(*word).map(i128::from).collect(),
            };
            for (group, value) in groups.iter_mut().zip(values) {
                match sum {
                    MomentSum::A => group.sums[0] = value,
                    MomentSum::B => group.sums[1] = value,
                    MomentSum::Aa => group.products[0] = value,
                    MomentSum::Ab => group.products[1] = value,
                    MomentSum::Bb => group.products[2] = value,
                }
            }
        }
        if moment == Moment::RegrCount {
            let counts = groups.iter().map(|group| group.count as i64).collect();
            return Ok(Integers::Narrow(counts).array(None, data_type)?);
        }
        let results: Float64Array = groups.iter().map(|group| moment.finish(group)).collect();
        Ok(cast(&results, data_type)?)
    }
}

fn unflip(rank: u64, complement: bool) -> u64 {
    if complement { !rank } else { rank }
}

/// DataFusion's decimal averages: the sums at the result's scale, divided by the counts and rounded towards
/// zero; 0 if there is nothing to average.
fn decimal_averages(
    sums: &[i128],
    counts: impl Iterator<Item = u64>,
    scale: i8,
    data_type: &DataType,
) -> Result<Vec<i128>, RunError> {
    let DataType::Decimal128(precision, target) = data_type else {
        return Err(ArrowError::SchemaError(format!("decimal average of type {data_type}")).into());
    };
    let factor = 10i128.checked_pow(u32::try_from(target - scale).unwrap_or(0));
    let average = |(sum, count): (&i128, u64)| {
        if count == 0 {
            return Ok(0);
        }
        let average = factor
            .and_then(|factor| sum.checked_mul(factor))
            .map(|sum| sum / i128::from(count));
        match average {
            Some(average) if Decimal128Type::is_valid_decimal_precision(average, *precision) => Ok(average),
            _ => Err(RunError::Raised(Box::new(Raised::Named(RowError {
                fault: Fault::Function,
                expression: "avg".to_owned(),
            })))),
        }
    };
    sums.iter().zip(counts).map(average).collect()
}
