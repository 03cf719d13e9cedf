//! Types of settings: the accepted values of each, and its display.

use galatea_base::setting::{SettingValue, one_of};
use std::fmt::{self, Display};

/// A limit on memory: the default, a number of bytes, or a share of the total.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MemoryLimit {
    /// The documented default of the setting.
    Auto,
    /// A number of bytes.
    Bytes(u64),
    /// A percentage of the total, 1 to 100.
    Percent(u8),
}

impl MemoryLimit {
    /// The limit in bytes, given `total` bytes of memory. `auto` is the caller's meaning of
    /// [`MemoryLimit::Auto`].
    pub fn resolve(self, total: u64, auto: u64) -> u64 {
        match self {
            Self::Auto => auto,
            Self::Bytes(bytes) => bytes,
            Self::Percent(percent) => total / 100 * u64::from(percent),
        }
    }
}

/// Binary units, largest first.
const UNITS: [(&str, u64); 4] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
];

impl Display for MemoryLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Auto => f.write_str("auto"),
            Self::Percent(percent) => write!(f, "{percent}%"),
            // The size is exact, so that it can be set again: crates that print sizes round.
            Self::Bytes(bytes) => match UNITS.iter().find(|(_, unit)| bytes != 0 && bytes % unit == 0) {
                Some((name, unit)) => write!(f, "{} {name}", bytes / unit),
                None => write!(f, "{bytes} B"),
            },
        }
    }
}

impl SettingValue for MemoryLimit {
    fn accepts() -> String {
        "auto, a size such as '8 GiB' or '512 MiB' (binary units), or a percentage such as '50%'".to_string()
    }

    fn parse(text: &str) -> Option<Self> {
        if text.eq_ignore_ascii_case("auto") {
            return Some(Self::Auto);
        }
        if let Some(percent) = text.strip_suffix('%') {
            let percent = percent.trim_end().parse().ok()?;
            return (1..=100).contains(&percent).then_some(Self::Percent(percent));
        }
        let sizes = parse_size::Config::new().with_binary();
        let bytes = sizes.parse_size(text).ok()?;
        (bytes > 0).then_some(Self::Bytes(bytes))
    }
}

/// A limit on files: none, the documented default, or a number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DiskLimit {
    /// No files.
    Off,
    /// The documented default of the setting.
    Auto,
    /// A number of bytes.
    Bytes(u64),
}

impl Display for DiskLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Off => f.write_str("off"),
            Self::Auto => MemoryLimit::Auto.fmt(f),
            Self::Bytes(bytes) => MemoryLimit::Bytes(bytes).fmt(f),
        }
    }
}

impl SettingValue for DiskLimit {
    fn accepts() -> String {
        "off, auto, or a size such as '8 GiB' or '512 MiB' (binary units)".to_string()
    }

    fn parse(text: &str) -> Option<Self> {
        if text == "0" || text.eq_ignore_ascii_case("off") {
            return Some(Self::Off);
        }
        match MemoryLimit::parse(text)? {
            MemoryLimit::Auto => Some(Self::Auto),
            MemoryLimit::Bytes(bytes) => Some(Self::Bytes(bytes)),
            MemoryLimit::Percent(_) => None,
        }
    }
}

/// On or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Switch(pub bool);

impl Display for Switch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0 { "true" } else { "false" })
    }
}

impl SettingValue for Switch {
    fn accepts() -> String {
        one_of(&["true", "false"])
    }

    fn parse(text: &str) -> Option<Self> {
        match text.to_ascii_lowercase().as_str() {
            "true" | "on" => Some(Self(true)),
            "false" | "off" => Some(Self(false)),
            _ => None,
        }
    }
}

/// An integer from `MIN` to `MAX`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Count<const MIN: u64, const MAX: u64>(pub u64);

impl<const MIN: u64, const MAX: u64> Display for Count<MIN, MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<const MIN: u64, const MAX: u64> SettingValue for Count<MIN, MAX> {
    fn accepts() -> String {
        format!("a whole number from {MIN} to {MAX}")
    }

    fn parse(text: &str) -> Option<Self> {
        text.replace('_', "")
            .parse()
            .ok()
            .filter(|n| (MIN..=MAX).contains(n))
            .map(Self)
    }
}

/// Threads per block: a power of two from 32 to 1024; 0: chosen for each pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BlockThreads(pub u32);

impl Display for BlockThreads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("auto"),
            threads => threads.fmt(f),
        }
    }
}

impl SettingValue for BlockThreads {
    fn accepts() -> String {
        "auto, 32, 64, 128, 256, 512 or 1024".to_string()
    }

    fn parse(text: &str) -> Option<Self> {
        if text.eq_ignore_ascii_case("auto") {
            return Some(Self(0));
        }
        text.parse()
            .ok()
            .filter(|n: &u32| n.is_power_of_two() && (32..=1024).contains(n))
            .map(Self)
    }
}

/// Partitions of a join's rows: a power of two up to 256, 1 for none; 0: chosen by the cost model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct JoinPartitions(pub u32);

impl Display for JoinPartitions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("auto"),
            parts => parts.fmt(f),
        }
    }
}

impl SettingValue for JoinPartitions {
    fn accepts() -> String {
        "auto, 1, 2, 4, 8, 16, 32, 64, 128 or 256".to_string()
    }

    fn parse(text: &str) -> Option<Self> {
        if text.eq_ignore_ascii_case("auto") {
            return Some(Self(0));
        }
        text.parse()
            .ok()
            .filter(|n: &u32| n.is_power_of_two() && *n <= 256)
            .map(Self)
    }
}

/// Copies of a group: a power of two up to 32; 0: chosen by the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct GroupCopies(pub u32);

impl Display for GroupCopies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl SettingValue for GroupCopies {
    fn accepts() -> String {
        "0, 1, 2, 4, 8, 16 or 32".to_string()
    }

    fn parse(text: &str) -> Option<Self> {
        let copies = text.parse().ok();
        copies
            .filter(|n: &u32| *n == 0 || n.is_power_of_two() && *n <= 32)
            .map(Self)
    }
}
