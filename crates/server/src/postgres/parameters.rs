//! Values of parameters, in the text format and in the binary format.
//!
//! The type that a client declares is the type of its parameter. A parameter without a declared type has the
//! type that the plan determines, and is a string without one.

use std::str;
use std::sync::Arc;

use arrow::array::timezone::Tz;
use arrow::compute::kernels::cast_utils::{Parser, string_to_datetime, string_to_time_nanoseconds};
use arrow::datatypes::{DataType, Date32Type, Field, IntervalUnit, TimeUnit};
use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::tokenizer::Token;
use pgwire::api::Type;
use pgwire::error::PgWireResult;
use postgres_types::Kind;

use super::array_text;
use super::cells;
use super::errors::{error, error_state};
use super::interval_text;
use super::numeric_text::{DIGITS, numeric, numeric_text};
use super::text_edits::Edits;
use super::tokens::Tokens;
use super::uuid_text::uuid_text;
use super::value_errors::{date_out_of_range, infinite, malformed, malformed_binary, out_of_range, shown};
use crate::binding::ANY_DECIMAL;
use crate::failure::Failure;
use crate::session::Prepared;
use crate::statement_text::dialect_of;

/// A parameter of a statement.
#[derive(Debug, Clone)]
pub(super) struct Parameter {
    /// The type of the protocol.
    pub(super) wire: Type,
    /// The type that the plan determines.
    inferred: Option<DataType>,
    is_declared: bool,
}

/// The parameters of a statement, with the types that the client declared.
pub(super) fn parameters(prepared: &Prepared, declared: &[Option<Type>]) -> PgWireResult<Vec<Parameter>> {
    let types = prepared.parameters().map_err(error)?;
    let parameters = types.into_iter().enumerate().map(|(index, inferred)| {
        let declared = declared.get(index).and_then(Option::as_ref);
        match declared.filter(|wire| **wire != Type::UNKNOWN) {
            Some(wire) => Parameter {
                wire: wire.clone(),
                inferred,
                is_declared: true,
            },
            None => Parameter {
                wire: inferred.as_ref().map_or(Type::TEXT, wire_type),
                inferred,
                is_declared: false,
            },
        }
    });
    Ok(parameters.collect())
}

/// The name of a type in SQL; `None` for a type that a cast in the statement cannot have.
fn sql_name(wire: &Type) -> Option<String> {
    Some(match *wire {
        Type::BOOL => "BOOLEAN".to_string(),
        Type::INT2 => "SMALLINT".to_string(),
        Type::INT4 => "INT".to_string(),
        Type::INT8 => "BIGINT".to_string(),
        Type::FLOAT4 => "REAL".to_string(),
        Type::FLOAT8 => "DOUBLE".to_string(),
        Type::NUMERIC => match ANY_DECIMAL {
            DataType::Decimal128(precision, scale) => format!("DECIMAL({precision}, {scale})"),
            _ => return None,
        },
        Type::TEXT | Type::VARCHAR | Type::BPCHAR | Type::NAME => "VARCHAR".to_string(),
        Type::BYTEA => "BYTEA".to_string(),
        Type::DATE => "DATE".to_string(),
        Type::TIME => "TIME".to_string(),
        Type::TIMESTAMP => "TIMESTAMP".to_string(),
        Type::TIMESTAMPTZ => "TIMESTAMPTZ".to_string(),
        Type::INTERVAL => "INTERVAL".to_string(),
        _ => return None,
    })
}

/// The statement with casts of its parameters to the declared types. `None` if it has no cast.
pub(super) fn with_types(sql: &str, dialect: &str, declared: &[Option<Type>]) -> Option<String> {
    if !sql.contains('$') {
        return None;
    }
    let statement = Tokens::of(sql, dialect_of(dialect).as_ref())?;
    let mut edits = Edits::new(sql);
    for (index, token) in statement.tokens.iter().enumerate() {
        let Token::Placeholder(name) = token else {
            continue;
        };
        let is_concat = |place: usize| statement.is(place, &Token::StringConcat);
        let number: Option<usize> = name.strip_prefix('$').and_then(|digits| digits.parse().ok());
        let wire = number.and_then(|number| declared.get(number.checked_sub(1)?)?.as_ref());
        let type_name = match wire.filter(|wire| **wire != Type::UNKNOWN) {
            Some(wire) => sql_name(wire),
            // An operand of || without a type is a string.
            None => (is_concat(index + 1) || is_concat(index.wrapping_sub(1))).then(|| "VARCHAR".to_string()),
        };
        if let Some(type_name) = type_name {
            let (begin, end) = statement.places[index];
            edits.replace(begin, end, format!("CAST({} AS {type_name})", &sql[begin..end]));
        }
    }
    edits.applied()
}

/// The type of the protocol for values of a type.
fn wire_type(data_type: &DataType) -> Type {
    let field = Arc::new(Field::new("", data_type.clone(), true));
    cells::wire_type(&field).unwrap_or(Type::TEXT)
}

fn is_string(wire: &Type) -> bool {
    matches!(
        *wire,
        Type::TEXT | Type::VARCHAR | Type::BPCHAR | Type::NAME | Type::UNKNOWN | Type::CHAR
    )
}

/// Whether values are object identifiers.
fn is_object(wire: &Type) -> bool {
    matches!(
        *wire,
        Type::OID
            | Type::REGCLASS
            | Type::REGTYPE
            | Type::REGPROC
            | Type::REGPROCEDURE
            | Type::REGNAMESPACE
            | Type::REGROLE
    )
}

/// The type of the engine for NULL of a type of the protocol.
fn engine_type(wire: &Type, zone: &str) -> DataType {
    match *wire {
        Type::BOOL => DataType::Boolean,
        Type::INT2 => DataType::Int16,
        Type::INT4 => DataType::Int32,
        Type::INT8 => DataType::Int64,
        Type::FLOAT4 => DataType::Float32,
        Type::FLOAT8 => DataType::Float64,
        Type::NUMERIC => DataType::Decimal128(20, 6),
        Type::BYTEA => DataType::Binary,
        Type::DATE => DataType::Date32,
        Type::TIME => DataType::Time64(TimeUnit::Microsecond),
        Type::TIMESTAMP => DataType::Timestamp(TimeUnit::Microsecond, None),
        Type::TIMESTAMPTZ => DataType::Timestamp(TimeUnit::Microsecond, Some(zone.into())),
        Type::INTERVAL => DataType::Interval(IntervalUnit::MonthDayNano),
        _ if is_object(wire) => DataType::Int32,
        _ => match wire.kind() {
            Kind::Array(element) => {
                DataType::List(Arc::new(Field::new_list_field(engine_type(element, zone), true)))
            }
            _ => DataType::Utf8,
        },
    }
}

impl Parameter {
    /// The type that a string is read as: a declared string for a column of another type has that type.
    fn read_as(&self) -> Type {
        match &self.inferred {
            Some(inferred) if self.is_declared && is_string(&self.wire) => wire_type(inferred),
            // Such a column has values that int8 does not have.
            Some(DataType::UInt64) if !self.is_declared => Type::NUMERIC,
            _ => self.wire.clone(),
        }
    }

    /// NULL of the type of the parameter.
    pub(super) fn null(&self, zone: &str) -> PgWireResult<ScalarValue> {
        let data_type = match &self.inferred {
            Some(inferred) if !self.is_declared || is_string(&self.wire) => inferred.clone(),
            _ => engine_type(&self.wire, zone),
        };
        ScalarValue::try_from(data_type).map_err(|cause| error(cause.into()))
    }

    /// The value that a client sent. `zone` is the time zone of the connection.
    ///
    /// # Errors
    /// The bytes are no value of the type.
    pub(super) fn value(
        &self,
        bytes: Option<&[u8]>,
        is_binary: bool,
        zone: &str,
    ) -> PgWireResult<ScalarValue> {
        let Some(bytes) = bytes else {
            return self.null(zone);
        };
        if let Some(DataType::FixedSizeBinary(16)) = self.inferred
            && (self.wire == Type::UUID || is_string(&self.wire))
        {
            return uuid(bytes, is_binary);
        }
        if is_binary && !is_string(&self.wire) {
            return from_binary(&self.wire, bytes, zone);
        }
        from_text(&self.read_as(), string(bytes)?, zone)
    }
}

fn string(bytes: &[u8]) -> PgWireResult<&str> {
    str::from_utf8(bytes).map_err(|_| error_state("22021", "invalid byte sequence for encoding \"UTF8\""))
}

/// The value of a string in the text format of the type.
pub(super) fn from_text(wire: &Type, text: &str, zone: &str) -> PgWireResult<ScalarValue> {
    let trimmed = text.trim();
    Ok(match *wire {
        Type::BOOL => ScalarValue::Boolean(Some(boolean(trimmed).ok_or_else(|| malformed(wire, text))?)),
        Type::INT2 => ScalarValue::Int16(Some(integer(wire, text)?)),
        Type::INT4 => ScalarValue::Int32(Some(integer(wire, text)?)),
        Type::INT8 => ScalarValue::Int64(Some(integer(wire, text)?)),
        Type::FLOAT4 => {
            let value: f32 = trimmed.parse().map_err(|_| malformed(wire, text))?;
            check_float(value.is_infinite(), wire, text)?;
            ScalarValue::Float32(Some(value))
        }
        Type::FLOAT8 => {
            let value: f64 = trimmed.parse().map_err(|_| malformed(wire, text))?;
            check_float(value.is_infinite(), wire, text)?;
            ScalarValue::Float64(Some(value))
        }
        Type::NUMERIC => numeric(trimmed)?,
        Type::BYTEA => ScalarValue::Binary(Some(bytea(text).ok_or_else(|| malformed(wire, text))?)),
        Type::DATE => {
            check_finite(wire, trimmed)?;
            let days = Date32Type::parse(trimmed)
                .or_else(|| Date32Type::parse(trimmed.split([' ', 'T']).next().unwrap_or(trimmed)));
            ScalarValue::Date32(Some(days.ok_or_else(|| malformed(wire, text))?))
        }
        Type::TIME => {
            let nanos = string_to_time_nanoseconds(trimmed).map_err(|_| malformed(wire, text))?;
            ScalarValue::Time64Microsecond(Some(nanos / 1000))
        }
        Type::TIMESTAMP => {
            check_finite(wire, trimmed)?;
            timestamp(wire, without_zone(trimmed), None)?
        }
        Type::TIMESTAMPTZ => {
            check_finite(wire, trimmed)?;
            timestamp(wire, trimmed, Some(zone))?
        }
        Type::INTERVAL => ScalarValue::IntervalMonthDayNano(Some(
            interval_text::parse(trimmed).ok_or_else(|| malformed(wire, text))?,
        )),
        _ if is_object(wire) => match trimmed.parse::<u32>() {
            Ok(number) => object(number),
            Err(_) if *wire == Type::OID => return Err(malformed(wire, text)),
            Err(_) => ScalarValue::Utf8(Some(text.to_string())),
        },
        _ => match wire.kind() {
            Kind::Array(element) => {
                let elements = array_text::elements(text).ok_or_else(|| malformed(wire, text))?;
                let values = elements.iter().map(|value| match value {
                    Some(value) => from_text(element, value, zone).map(Some),
                    None => Ok(None),
                });
                list(element, values.collect::<PgWireResult<_>>()?, zone)?
            }
            _ => ScalarValue::Utf8(Some(text.to_string())),
        },
    })
}

/// The value of bytes in the binary format of the type.
fn from_binary(wire: &Type, bytes: &[u8], zone: &str) -> PgWireResult<ScalarValue> {
    let wrong = || malformed_binary(wire);
    Ok(match *wire {
        Type::BOOL => ScalarValue::Boolean(Some(i8::from_be_bytes(exact(wire, bytes)?) != 0)),
        Type::INT2 => ScalarValue::Int16(Some(i16::from_be_bytes(exact(wire, bytes)?))),
        Type::INT4 => ScalarValue::Int32(Some(i32::from_be_bytes(exact(wire, bytes)?))),
        Type::INT8 => ScalarValue::Int64(Some(i64::from_be_bytes(exact(wire, bytes)?))),
        Type::FLOAT4 => ScalarValue::Float32(Some(f32::from_be_bytes(exact(wire, bytes)?))),
        Type::FLOAT8 => ScalarValue::Float64(Some(f64::from_be_bytes(exact(wire, bytes)?))),
        Type::NUMERIC => numeric(&numeric_text(bytes).ok_or_else(wrong)??)?,
        Type::BYTEA => ScalarValue::Binary(Some(bytes.to_vec())),
        Type::DATE => {
            let days = i32::from_be_bytes(exact(wire, bytes)?);
            if matches!(days, i32::MIN | i32::MAX) {
                return Err(infinite(wire));
            }
            let days = days.checked_add(DAYS_TO_2000);
            ScalarValue::Date32(Some(days.ok_or_else(|| date_out_of_range(wire))?))
        }
        Type::TIME => {
            let micros = i64::from_be_bytes(exact(wire, bytes)?);
            if !(0..DAY).contains(&micros) {
                return Err(date_out_of_range(wire));
            }
            ScalarValue::Time64Microsecond(Some(micros))
        }
        Type::TIMESTAMP | Type::TIMESTAMPTZ => {
            let micros = i64::from_be_bytes(exact(wire, bytes)?);
            if matches!(micros, i64::MIN | i64::MAX) {
                return Err(infinite(wire));
            }
            let micros = micros.checked_add(i64::from(DAYS_TO_2000) * DAY);
            let zone = (*wire == Type::TIMESTAMPTZ).then(|| zone.into());
            ScalarValue::TimestampMicrosecond(Some(micros.ok_or_else(|| date_out_of_range(wire))?), zone)
        }
        Type::INTERVAL => {
            let bytes: [u8; 16] = exact(wire, bytes)?;
            let [micros @ .., a, b, c, d, e, f, g, h] = bytes;
            let nanos = i64::from_be_bytes(micros).checked_mul(1000);
            let interval = interval_text::interval(
                i32::from_be_bytes([e, f, g, h]),
                i32::from_be_bytes([a, b, c, d]),
                nanos.ok_or_else(|| error_state("22015", "interval out of range"))?,
            );
            ScalarValue::IntervalMonthDayNano(Some(interval))
        }
        Type::UUID => uuid_text(bytes)
            .map(|text| ScalarValue::Utf8(Some(text)))
            .ok_or_else(wrong)?,
        Type::JSONB => match bytes {
            [1, json @ ..] => ScalarValue::Utf8(Some(string(json)?.to_string())),
            _ => return Err(wrong()),
        },
        Type::JSON | Type::XML => ScalarValue::Utf8(Some(string(bytes)?.to_string())),
        _ if is_string(wire) => ScalarValue::Utf8(Some(string(bytes)?.to_string())),
        _ if is_object(wire) => object(u32::from_be_bytes(exact(wire, bytes)?)),
        _ => match wire.kind() {
            Kind::Array(element) => {
                let elements = binary_elements(bytes, element).ok_or_else(wrong)??;
                let values = elements.into_iter().map(|value| match value {
                    Some(value) => from_binary(element, value, zone).map(Some),
                    None => Ok(None),
                });
                list(element, values.collect::<PgWireResult<_>>()?, zone)?
            }
            _ => {
                return Err(error(Failure::unsupported(format!(
                    "a binary parameter of type {} is not supported\nhint: send it as text, or cast a string",
                    shown(wire)
                ))));
            }
        },
    })
}

/// Days from 1970 to 2000, from which PostgreSQL counts.
const DAYS_TO_2000: i32 = 10_957;

/// Microseconds of a day.
const DAY: i64 = 86_400_000_000;

fn exact<const N: usize>(wire: &Type, bytes: &[u8]) -> PgWireResult<[u8; N]> {
    bytes.try_into().map_err(|_| malformed_binary(wire))
}

fn boolean(text: &str) -> Option<bool> {
    let text = text.to_ascii_lowercase();
    let is = |word: &str| !text.is_empty() && word.starts_with(&text);
    match text.as_str() {
        "on" | "1" => Some(true),
        "of" | "off" | "0" => Some(false),
        _ if is("true") || is("yes") => Some(true),
        _ if is("false") || is("no") => Some(false),
        _ => None,
    }
}

fn integer<T: TryFrom<i128>>(wire: &Type, text: &str) -> PgWireResult<T> {
    let trimmed = text.trim();
    let digits = trimmed.strip_prefix(['-', '+']).unwrap_or(trimmed);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(malformed(wire, text));
    }
    let value = trimmed.parse::<i128>().ok();
    value
        .and_then(|value| T::try_from(value).ok())
        .ok_or_else(|| out_of_range(wire, text))
}

/// Refuses numbers that are too large, which are not infinity.
fn check_float(is_infinite: bool, wire: &Type, text: &str) -> PgWireResult<()> {
    match is_infinite && text.bytes().any(|byte| byte.is_ascii_digit()) {
        true => Err(out_of_range(wire, text)),
        false => Ok(()),
    }
}

fn check_finite(wire: &Type, text: &str) -> PgWireResult<()> {
    let name = text.strip_prefix(['-', '+']).unwrap_or(text);
    match name.eq_ignore_ascii_case("infinity") || name.eq_ignore_ascii_case("inf") {
        true => Err(infinite(wire)),
        false => Ok(()),
    }
}

/// An object identifier. The catalog has them as Int32.
fn object(number: u32) -> ScalarValue {
    match i32::try_from(number) {
        Ok(number) => ScalarValue::Int32(Some(number)),
        Err(_) => ScalarValue::Int64(Some(i64::from(number))),
    }
}

/// The bytes of a string in the text format of bytea: in hexadecimal, or with escapes.
fn bytea(text: &str) -> Option<Vec<u8>> {
    if let Some(digits) = text.strip_prefix("\\x") {
        let digits: Vec<u32> = digits
            .chars()
            .map(|digit| digit.to_digit(16))
            .collect::<Option<_>>()?;
        let pairs = digits.chunks(2).map(|pair| match pair {
            [high, low] => u8::try_from(high * 16 + low).ok(),
            _ => None,
        });
        return pairs.collect();
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    loop {
        rest = match rest {
            [] => return Some(bytes),
            [b'\\', b'\\', after @ ..] => {
                bytes.push(b'\\');
                after
            }
            [
                b'\\',
                high @ b'0'..=b'3',
                middle @ b'0'..=b'7',
                low @ b'0'..=b'7',
                after @ ..,
            ] => {
                bytes.push((high - b'0') * 64 + (middle - b'0') * 8 + (low - b'0'));
                after
            }
            [b'\\', ..] => return None,
            [byte, after @ ..] => {
                bytes.push(*byte);
                after
            }
        };
    }
}

/// A timestamp as a string without its offset, which PostgreSQL ignores for the type without a zone.
fn without_zone(text: &str) -> &str {
    const DATE: usize = 10;
    let text = text.strip_suffix(['Z', 'z']).unwrap_or(text);
    match text.get(DATE..).and_then(|time| time.rfind(['+', '-'])) {
        Some(place) => text[..DATE + place].trim_end(),
        None => text,
    }
}

fn timestamp(wire: &Type, text: &str, zone: Option<&str>) -> PgWireResult<ScalarValue> {
    let wrong = || malformed(wire, text);
    let parsed: Tz = zone.unwrap_or("+00:00").parse().map_err(|_| wrong())?;
    // An offset of hours alone, as PostgreSQL prints it.
    let moment = string_to_datetime(&parsed, text);
    let moment = moment.or_else(|_| string_to_datetime(&parsed, &format!("{text}:00")));
    let moment = moment.map_err(|_| wrong())?;
    let zone = zone.map(Into::into);
    let nanos = moment.timestamp_subsec_nanos();
    match (nanos % 1000, moment.timestamp_nanos_opt()) {
        (1.., Some(nanos)) => Ok(ScalarValue::TimestampNanosecond(Some(nanos), zone)),
        _ => Ok(ScalarValue::TimestampMicrosecond(
            Some(moment.timestamp_micros()),
            zone,
        )),
    }
}

/// A UUID for a column of 16 bytes.
fn uuid(bytes: &[u8], is_binary: bool) -> PgWireResult<ScalarValue> {
    let value = match bytes.len() {
        16 if is_binary => Some(bytes.to_vec()),
        _ => {
            let text = string(bytes)?;
            let digits: String = text
                .chars()
                .filter(|letter| !matches!(letter, '-' | '{' | '}'))
                .collect();
            bytea(&format!("\\x{digits}")).filter(|bytes| bytes.len() == 16)
        }
    };
    let value = value.ok_or_else(|| malformed(&Type::UUID, &String::from_utf8_lossy(bytes)))?;
    Ok(ScalarValue::FixedSizeBinary(16, Some(value)))
}

type Elements<'a> = Vec<Option<&'a [u8]>>;

/// The elements of a binary array; `None` if it is malformed.
fn binary_elements<'a>(bytes: &'a [u8], element: &Type) -> Option<PgWireResult<Elements<'a>>> {
    let mut rest = bytes;
    let mut next = || {
        let (number, after) = rest.split_first_chunk::<4>()?;
        rest = after;
        Some(i32::from_be_bytes(*number))
    };
    let dimensions = next()?;
    let (_has_null, _type) = (next()?, next()?);
    if dimensions == 0 {
        return Some(Ok(Vec::new()));
    }
    if dimensions != 1 {
        let problem = format!(
            "arrays of arrays of {} are not supported as parameters",
            shown(element)
        );
        return Some(Err(error(Failure::unsupported(problem))));
    }
    let (count, _bound) = (next()?, next()?);
    let mut elements = Vec::new();
    for _ in 0..count {
        let (length, after) = rest.split_first_chunk::<4>()?;
        rest = after;
        let value = match usize::try_from(i32::from_be_bytes(*length)) {
            Err(_) => None,
            Ok(length) => {
                let (value, after) = rest.split_at_checked(length)?;
                rest = after;
                Some(value)
            }
        };
        elements.push(value);
    }
    Some(Ok(elements))
}

/// A list of values of one type.
fn list(element: &Type, values: Vec<Option<ScalarValue>>, zone: &str) -> PgWireResult<ScalarValue> {
    let fail = |cause: datafusion::error::DataFusionError| error(cause.into());
    let data_type = common_type(values.iter().flatten()).unwrap_or_else(|| engine_type(element, zone));
    let values = values.into_iter().map(|value| match value {
        Some(value) => value.cast_to(&data_type),
        None => ScalarValue::try_from(&data_type),
    });
    let values = values.collect::<Result<Vec<_>, _>>().map_err(fail)?;
    Ok(ScalarValue::List(ScalarValue::new_list_nullable(
        &values, &data_type,
    )))
}

/// The type that has all values without a loss.
fn common_type<'v>(values: impl Iterator<Item = &'v ScalarValue>) -> Option<DataType> {
    values.map(ScalarValue::data_type).reduce(|a, b| match (&a, &b) {
        (
            DataType::Decimal128(first, scale) | DataType::Decimal256(first, scale),
            DataType::Decimal128(second, other) | DataType::Decimal256(second, other),
        ) => {
            let whole = |precision: u8, scale: i8| i16::from(precision) - i16::from(scale);
            let fraction = *scale.max(other);
            let digits = whole(*first, *scale).max(whole(*second, *other)) + i16::from(fraction);
            let digits = u8::try_from(digits).unwrap_or(u8::MAX);
            match digits {
                0..=38 => DataType::Decimal128(digits, fraction),
                _ => DataType::Decimal256(digits.min(DIGITS as u8), fraction),
            }
        }
        (DataType::Timestamp(TimeUnit::Nanosecond, _), _) | (DataType::Int64, DataType::Int32) => a,
        _ => b,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgwire::error::PgWireError;

    fn text(wire: &Type, text: &str) -> ScalarValue {
        from_text(wire, text, "+00:00").unwrap()
    }

    fn state(result: PgWireResult<ScalarValue>) -> String {
        match result {
            Err(PgWireError::UserError(info)) => info.code,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn numbers_are_exact_or_refused() {
        assert_eq!(
            text(&Type::NUMERIC, "10.50"),
            ScalarValue::Decimal128(Some(1050), 4, 2)
        );
        assert_eq!(
            text(&Type::NUMERIC, "-1e3"),
            ScalarValue::Decimal128(Some(-1000), 4, 0)
        );
        assert_eq!(
            text(&Type::NUMERIC, "0.001"),
            ScalarValue::Decimal128(Some(1), 3, 3)
        );
        assert!(matches!(
            text(&Type::NUMERIC, &"9".repeat(40)),
            ScalarValue::Decimal256(Some(_), 40, 0)
        ));
        assert_eq!(
            text(&Type::FLOAT8, "-Infinity"),
            ScalarValue::Float64(Some(f64::NEG_INFINITY))
        );
        for (wire, wrong, expected) in [
            (Type::INT4, "3000000000", "22003"),
            (Type::INT4, "1.5", "22P02"),
            (Type::INT8, "", "22P02"),
            (Type::FLOAT8, "1e999", "22003"),
            (Type::NUMERIC, "NaN", "22003"),
            (Type::NUMERIC, "1e99", "22003"),
            (Type::NUMERIC, ".", "22P02"),
            (Type::BOOL, "maybe", "22P02"),
            (Type::DATE, "infinity", "22008"),
            (Type::DATE, "yesterday", "22P02"),
            (Type::INT4_ARRAY, "{1,x}", "22P02"),
        ] {
            assert_eq!(
                state(from_text(&wire, wrong, "+00:00")),
                expected,
                "{wire} {wrong}"
            );
        }
    }

    #[test]
    fn binary_numbers_have_their_digits() {
        // 12345.678: groups 1, 2345, 6780; weight 1; scale 3.
        let bytes = [0, 3, 0, 1, 0, 0, 0, 3, 0, 1, 9, 41, 26, 124];
        let value = from_binary(&Type::NUMERIC, &bytes, "+00:00").unwrap();
        assert_eq!(value, ScalarValue::Decimal128(Some(12_345_678), 8, 3));
        // -0.0001: one group, weight -1.
        let bytes = [0, 1, 255, 255, 64, 0, 0, 4, 0, 1];
        let value = from_binary(&Type::NUMERIC, &bytes, "+00:00").unwrap();
        assert_eq!(value, ScalarValue::Decimal128(Some(-1), 4, 4));
        assert_eq!(state(from_binary(&Type::NUMERIC, &bytes[..9], "+00:00")), "22P03");
    }

    #[test]
    fn times_and_strings_are_read() {
        assert_eq!(
            text(&Type::DATE, "2000-01-02"),
            ScalarValue::Date32(Some(DAYS_TO_2000 + 1))
        );
        let utc = |micros| ScalarValue::TimestampMicrosecond(Some(micros), Some("+00:00".into()));
        assert_eq!(text(&Type::TIMESTAMPTZ, "1970-01-01 02:00:00+02"), utc(0));
        assert_eq!(
            text(&Type::TIMESTAMP, "1970-01-01 00:00:01.5+02:00"),
            ScalarValue::TimestampMicrosecond(Some(1_500_000), None)
        );
        assert_eq!(
            text(&Type::BYTEA, "\\x00ff"),
            ScalarValue::Binary(Some(vec![0, 255]))
        );
        assert_eq!(
            text(&Type::BYTEA, "a\\\\\\001"),
            ScalarValue::Binary(Some(b"a\\\x01".to_vec()))
        );
        let list = text(&Type::NUMERIC_ARRAY, "{1.5,NULL,22}");
        assert_eq!(
            list.data_type(),
            DataType::List(Arc::new(Field::new_list_field(DataType::Decimal128(3, 1), true)))
        );
    }
}
