//! Sizes and durations with units, as the configuration states them.

use std::time::Duration;

/// Bytes: `512 MiB`, `4 GB`, `65536`.
pub(crate) fn bytes(text: &str) -> Result<usize, String> {
    let sizes = parse_size::Config::new().with_binary();
    let bytes = sizes
        .parse_size(text)
        .ok()
        .and_then(|bytes| usize::try_from(bytes).ok());
    bytes
        .filter(|bytes| *bytes > 0)
        .ok_or_else(|| format!("expected a size such as '512 MiB', not '{text}'"))
}

/// A duration: `500 ms`, `30 s`, `10 min`, `2 h`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("expected a duration such as '30 s', '10 min' or '2 h', not '{text}'");
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().map_err(|_| wrong())?;
    let milliseconds = match text[digits..].trim() {
        "ms" => 1,
        "s" => 1_000,
        "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(wrong()),
    };
    // A later end than the clock can represent would panic.
    let longest = 36_500 * 86_400_000;
    match number.checked_mul(milliseconds) {
        Some(duration @ 1..) if duration <= longest => Ok(Duration::from_millis(duration)),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_parsed() {
        assert_eq!(bytes("512 MiB"), Ok(512 << 20));
        assert_eq!(duration("500 ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("10min"), Ok(Duration::from_secs(600)));
        assert_eq!(duration("2 h"), Ok(Duration::from_secs(7200)));
        for text in ["", "5", "5 weeks", "-1 s", "0 s", "99999999999999999999 s", "s"] {
            assert!(duration(text).is_err(), "{text}");
        }
        assert!(bytes("0").is_err() && bytes("many").is_err());
    }
}
