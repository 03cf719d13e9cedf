//! The text of intervals: `1 year 2 mons 3 days 04:05:06.7`, `P1Y2M3DT4H5M6.7S`.

use arrow::datatypes::IntervalMonthDayNanoType;

/// An interval of the engine.
pub(super) type Interval = arrow::datatypes::IntervalMonthDayNano;

pub(super) fn interval(months: i32, days: i32, nanos: i64) -> Interval {
    IntervalMonthDayNanoType::make_value(months, days, nanos)
}

/// Nanoseconds of a second and of a day.
const SECOND: i128 = 1_000_000_000;
const DAY: i128 = 86_400 * SECOND;

/// A number in units of 10^-9.
type Nano = i128;

#[derive(Debug, Default)]
struct Sum {
    months: i128,
    days: i128,
    nanos: i128,
}

impl Sum {
    fn add(&mut self, number: Nano, unit: &str) -> Option<()> {
        let months = |count: i128| (count, number.checked_mul(count));
        match unit {
            "microsecond" | "microseconds" | "us" | "usec" | "usecs" => self.nanos += number / 1_000_000,
            "millisecond" | "milliseconds" | "ms" | "msec" | "msecs" => self.nanos += number / 1_000,
            "second" | "seconds" | "sec" | "secs" | "s" => self.nanos += number,
            "minute" | "minutes" | "min" | "mins" | "m" => self.nanos += number.checked_mul(60)?,
            "hour" | "hours" | "hr" | "hrs" | "h" => self.nanos += number.checked_mul(3600)?,
            "day" | "days" | "d" => self.add_days(number),
            "week" | "weeks" | "w" => self.add_days(number.checked_mul(7)?),
            "month" | "months" | "mon" | "mons" => self.add_months(months(1).1?),
            "year" | "years" | "yr" | "yrs" | "y" => self.add_months(months(12).1?),
            "decade" | "decades" => self.add_months(months(120).1?),
            "century" | "centuries" | "c" => self.add_months(months(1_200).1?),
            "millennium" | "millenniums" | "millennia" => self.add_months(months(12_000).1?),
            _ => return None,
        }
        Some(())
    }

    /// A fraction of a day is a time.
    fn add_days(&mut self, number: Nano) {
        self.days += number / SECOND;
        self.nanos += number % SECOND * (DAY / SECOND);
    }

    /// A fraction of a month is a number of days, of which a month has 30.
    fn add_months(&mut self, number: Nano) {
        self.months += number / SECOND;
        self.add_days(number % SECOND * 30);
    }

    fn interval(&self, sign: i128) -> Option<Interval> {
        Some(interval(
            i32::try_from(self.months * sign).ok()?,
            i32::try_from(self.days * sign).ok()?,
            i64::try_from(self.nanos * sign).ok()?,
        ))
    }
}

/// The number at the begin of a text, in units of 10^-9, and the rest of the text.
fn number(text: &str) -> Option<(Nano, &str)> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let end = unsigned
        .find(|letter: char| !letter.is_ascii_digit() && letter != '.')
        .unwrap_or(unsigned.len());
    let (digits, rest) = unsigned.split_at(end);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if (whole.is_empty() && fraction.is_empty()) || whole.len() > 18 || fraction.contains('.') {
        return None;
    }
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let fraction = format!("{:0<9}", fraction.get(..9).unwrap_or(fraction));
    let value = whole * SECOND + fraction.parse::<i128>().ok()?;
    Some((if text.starts_with('-') { -value } else { value }, rest))
}

/// The nanoseconds of `04:05:06.7`.
fn time(text: &str) -> Option<i128> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let mut total = 0;
    let mut unit = 3600;
    for part in unsigned.split(':') {
        if part.starts_with(['-', '+']) || unit == 0 {
            return None;
        }
        let (value, rest) = number(part)?;
        if !rest.is_empty() {
            return None;
        }
        total += value * unit;
        unit /= 60;
    }
    Some(if text.starts_with('-') { -total } else { total })
}

/// The interval of a text; `None` if it is none.
pub(super) fn parse(text: &str) -> Option<Interval> {
    let text = text.trim().to_ascii_lowercase();
    if let Some(iso) = text.strip_prefix('p') {
        return standard(iso);
    }
    let mut words: Vec<&str> = text.split_whitespace().filter(|word| *word != "@").collect();
    let sign = match words.last() {
        Some(&"ago") => {
            words.pop();
            -1
        }
        _ => 1,
    };
    if words.is_empty() {
        return None;
    }
    let mut sum = Sum::default();
    let mut words = words.into_iter().peekable();
    while let Some(word) = words.next() {
        if word.contains(':') {
            sum.nanos += time(word)?;
            continue;
        }
        let (value, unit) = number(word)?;
        let unit = match unit {
            // A number alone is one of seconds.
            "" => words
                .next_if(|next| next.starts_with(|letter: char| letter.is_alphabetic()))
                .unwrap_or("second"),
            unit => unit,
        };
        sum.add(value, unit)?;
    }
    sum.interval(sign)
}

/// The interval of a text of ISO 8601 after its `P`.
fn standard(text: &str) -> Option<Interval> {
    let mut sum = Sum::default();
    let mut rest = text;
    let mut is_time = false;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('t') {
            (is_time, rest) = (true, after);
            continue;
        }
        let (value, after) = number(rest)?;
        let unit = match (is_time, after.get(..1)?) {
            (false, "m") => "month",
            (false, unit @ ("y" | "w" | "d")) | (true, unit @ ("h" | "m" | "s")) => unit,
            _ => return None,
        };
        sum.add(value, unit)?;
        rest = &after[1..];
    }
    sum.interval(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_read() {
        for (text, expected) in [
            (
                "1 year 2 mons -3 days 04:05:06.7",
                interval(14, -3, 14_706_700_000_000),
            ),
            ("86400000000 microseconds", interval(0, 0, 86_400_000_000_000)),
            ("1.5 days", interval(0, 1, 43_200_000_000_000)),
            ("0.5 month ago", interval(0, -15, 0)),
            ("-00:00:01", interval(0, 0, -1_000_000_000)),
            ("@ 1day 2 hours", interval(0, 1, 7_200_000_000_000)),
            ("7", interval(0, 0, 7_000_000_000)),
            ("P1Y2M3DT4H5M6.5S", interval(14, 3, 14_706_500_000_000)),
            ("P-1W", interval(0, -7, 0)),
        ] {
            assert_eq!(parse(text), Some(expected), "{text}");
        }
        for wrong in ["", "P", "soon", "1 moon", "1:2:3:4", "99999999999 years"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
