//! Numerics of any length, in text and in binary.

use arrow::datatypes::i256;
use datafusion::scalar::ScalarValue;
use pgwire::api::Type;
use pgwire::error::PgWireResult;

use super::errors::error_state;
use super::value_errors::malformed;

/// The most digits of a decimal.
pub(super) const DIGITS: usize = 76;

/// A decimal with the digits of the text.
pub(super) fn numeric(text: &str) -> PgWireResult<ScalarValue> {
    let wrong = || malformed(&Type::NUMERIC, text);
    let too_long = || {
        error_state(
            "22003",
            format!("value \"{text}\" has more than {DIGITS} digits, the maximum of type numeric"),
        )
    };
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let lower = unsigned.to_ascii_lowercase();
    if matches!(lower.as_str(), "nan" | "inf" | "infinity") {
        return Err(error_state(
            "22003",
            format!("{text} is not supported as a value of type numeric"),
        ));
    }
    let (number, exponent) = match lower.split_once('e') {
        Some((number, exponent)) => (number, exponent.parse::<i64>().map_err(|_| wrong())?),
        None => (lower.as_str(), 0),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let mut digits: String = [whole, fraction].concat();
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong());
    }
    let scale = i64::try_from(fraction.len())
        .map_err(|_| too_long())?
        .checked_sub(exponent);
    let mut scale = scale.ok_or_else(too_long)?;
    if scale < 0 {
        let zeros = usize::try_from(-scale).map_err(|_| too_long())?;
        if zeros > DIGITS {
            return Err(too_long());
        }
        digits.extend(std::iter::repeat_n('0', zeros));
        scale = 0;
    }
    let significant = digits.trim_start_matches('0');
    let scale = usize::try_from(scale).map_err(|_| too_long())?;
    let precision = significant.len().max(scale).max(1);
    if precision > DIGITS {
        return Err(too_long());
    }
    let sign = if text.starts_with('-') { "-" } else { "" };
    let signed = format!("{sign}{}", if significant.is_empty() { "0" } else { significant });
    let (width, scale) = (precision as u8, scale as i8);
    match precision {
        0..=38 => Ok(ScalarValue::Decimal128(
            Some(signed.parse().map_err(|_| wrong())?),
            width,
            scale,
        )),
        _ => Ok(ScalarValue::Decimal256(
            Some(i256::from_string(&signed).ok_or_else(wrong)?),
            width,
            scale,
        )),
    }
}

/// The text of a binary numeric; `None` if it is malformed.
pub(super) fn numeric_text(bytes: &[u8]) -> Option<PgWireResult<String>> {
    let mut fields = bytes
        .chunks(2)
        .map(|field| field.try_into().ok().map(u16::from_be_bytes));
    let mut next = || fields.next().flatten();
    let count = usize::from(next()?);
    let weight = i32::from(next()?.cast_signed());
    let sign = next()?;
    let scale = usize::from(next()?);
    let special = match sign {
        0x0000 | 0x4000 => None,
        0xc000 => Some("NaN"),
        0xd000 => Some("Infinity"),
        0xf000 => Some("-Infinity"),
        _ => return None,
    };
    if let Some(special) = special {
        return Some(Ok(special.to_string()));
    }
    if weight > 100 || scale > 16_383 {
        let problem = format!("value has more than {DIGITS} digits, the maximum of type numeric");
        return Some(Err(error_state("22003", problem)));
    }
    let digits: Vec<u16> = (0..count)
        .map(|_| next().filter(|digit| *digit < 10_000))
        .collect::<Option<_>>()?;
    let group = |place: i32| {
        let index = usize::try_from(weight - place).ok();
        index.and_then(|index| digits.get(index)).copied().unwrap_or(0)
    };
    let mut text = String::from(if sign == 0x4000 { "-" } else { "" });
    for place in (0..=weight.max(0)).rev() {
        text += &format!("{:04}", group(place));
    }
    if scale > 0 {
        let mut fraction = String::new();
        let mut place = -1;
        while fraction.len() < scale {
            fraction += &format!("{:04}", group(place));
            place -= 1;
        }
        text += ".";
        text += &fraction[..scale];
    }
    Some(Ok(text))
}
