//! Why a part of a plan stays on the CPU.
//!
//! Placement asks before it acts: every component answers `Result<_, Reason>`, and the reason travels
//! unchanged to EXPLAIN, to the metrics and to the user's screen. A reason is data, not prose: the variant
//! says which rule refused, the fields say what it refused, and [`Display`](std::fmt::Display) makes one line
//! of it.

use arrow::datatypes::DataType;
use std::fmt;
use std::time::Duration;

/// How a time is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// By the cost model.
    Predicted,
    /// By the cost model, with reading and copying columns that are not in device memory yet.
    PredictedWithLoading,
    /// By an earlier run.
    Measured,
}

impl fmt::Display for Basis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Predicted => "predicted",
            Self::PredictedWithLoading => "predicted, with loading and compiling",
            Self::Measured => "measured",
        })
    }
}

/// Bytes in the largest binary unit of which there is one.
pub fn size(bytes: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64 / 1024.0;
    for unit in units {
        if value < 1.0 {
            return format!("{bytes} B");
        }
        if value < 1024.0 || unit == "TiB" {
            return format!("{value:.1} {unit}");
        }
        value /= 1024.0;
    }
    format!("{bytes} B")
}

/// A time as EXPLAIN shows it.
pub fn milliseconds(time: Duration) -> String {
    let time = time.as_secs_f64() * 1e3;
    let digits = if time < 10.0 { 2 } else { 0 };
    format!("{time:.digits$} ms")
}

/// Why something is not executed on the device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// A value of this type is not represented on the device.
    #[error("type {data_type} has no device representation (in {place})")]
    Type {
        /// The type that was asked for.
        data_type: DataType,
        /// The expression or column it occurs in.
        place: String,
    },
    /// All GPU subtrees together are expected to save too little of the query's time for a prediction to be
    /// relied on.
    #[error("the device is expected to save {} of {}, which is within the error of the prediction", milliseconds(*saved), milliseconds(*of))]
    Gain {
        /// What they are expected to save.
        saved: Duration,
        /// What the query is expected to take on the CPU.
        of: Duration,
    },
    /// A function without a device version, or not for these arguments.
    #[error("function {name}: {detail}")]
    Function {
        /// SQL name of the function.
        name: String,
        /// What is missing.
        detail: String,
    },
    /// An operator without a device version for these operand types.
    #[error("operator {operator} on {left} and {right} has no device version")]
    Operator {
        /// SQL operator.
        operator: String,
        /// Type of the left operand.
        left: DataType,
        /// Type of the right operand.
        right: DataType,
    },
    /// A cast without a device version.
    #[error("cast from {from} to {to} has no device version")]
    Cast {
        /// Type of the input.
        from: DataType,
        /// Type of the result.
        to: DataType,
    },
    /// An expression of a kind that the compiler does not know.
    #[error("expression {expression}: {detail}")]
    Expression {
        /// The expression as DataFusion prints it.
        expression: String,
        /// What is missing.
        detail: String,
    },
    /// Values may leave 128 bits, where the device has no wider integer.
    #[error("{expression} may need values between {low} and {high}: more than 128 bits")]
    Overflow {
        /// The expression concerned.
        expression: String,
        /// Lower end of the interval of values, as far as it is known.
        low: String,
        /// Upper end.
        high: String,
    },
    /// A column is not encoded in the way the expression needs.
    #[error("column {column} is not {needed}")]
    Encoding {
        /// Index of the column in the input of the expression.
        column: usize,
        /// The encoding that would do.
        needed: &'static str,
    },
    /// Tables made for an expression would be too large.
    #[error("{expression} would need {asked} {unit}, limit {limit}")]
    Limit {
        /// What needs them.
        expression: String,
        /// How many are needed.
        asked: u64,
        /// The limit.
        limit: u64,
        /// What is counted.
        unit: &'static str,
    },
    /// Rows of a build side have the same key, of which a join takes one row.
    #[error("{expression} would need {rows} rows of one key, limit 1")]
    RepeatedKey {
        /// The join.
        expression: String,
        /// The rows of that key, or a lower bound.
        rows: u64,
    },
    /// The keys of groups that are a build side lie too far apart for arrays by key.
    #[error(
        "a join with groups would need {numbers} keys of groups, from the least to the greatest, limit {limit}"
    )]
    ScatteredGroups {
        /// The numbers from the least key to the greatest.
        numbers: u64,
        /// The limit.
        limit: u64,
    },
    /// An expression has more levels than passes over it can go through.
    #[error("expression too deep: {levels} levels, the limit is {limit}")]
    TooDeep {
        /// Levels of the expression.
        levels: u64,
        /// The limit.
        limit: u64,
    },
    /// A plan node, or a form of it, without a device version.
    #[error("{node}: {detail}")]
    Node {
        /// DataFusion's name of the node.
        node: String,
        /// What is missing.
        detail: String,
    },
    /// The device would be slower.
    #[error("the CPU is faster: {} on the device ({device_basis}), {} on the CPU ({cpu_basis})", milliseconds(*device), milliseconds(*cpu))]
    Cost {
        /// Time on the device.
        device: Duration,
        /// How it is known.
        device_basis: Basis,
        /// Time on the CPU.
        cpu: Duration,
        /// How it is known.
        cpu_basis: Basis,
    },
    /// The GPU would be faster if the columns were loaded and the kernels compiled.
    #[error("GPU is cold, warming up in the background, {paid} % paid by runs on the CPU: {} warm, {} cold, {} on the CPU (predicted)", milliseconds(*hot), milliseconds(*first), milliseconds(*cpu))]
    Cold {
        /// Time on the device after the warm-up.
        hot: Duration,
        /// Time on the device with the warm-up.
        first: Duration,
        /// Time on the CPU.
        cpu: Duration,
        /// Share of the warm-up, in percent, that runs on the CPU have lost for want of it. A query warms the
        /// GPU up itself when the rest no longer exceeds its time on the CPU.
        paid: u32,
    },
    /// The driver of the GPU initialises, and the CPU answers sooner.
    #[error("the GPU is starting (0.3 s, once for the process)")]
    Starting,
    /// A setting rules the device out.
    #[error("{setting} = {value}")]
    Setting {
        /// Name of the setting.
        setting: &'static str,
        /// Its value.
        value: String,
    },
    /// The emulated device, in a session whose program has not allowed it.
    #[error(
        "this session does not allow the emulated device, which compiles code with the machine's C++ compiler and loads it: \
         SessionBuilder::with_emulated_device does, and --set galatea.device=emulated on the command line"
    )]
    EmulatedDevice,
    /// There is no usable device.
    #[error("no device: {detail}")]
    Device {
        /// What was looked for and how to get it.
        detail: String,
    },
}

impl Reason {
    /// Whether the rows of a build side are the cause, however the build side is made.
    pub fn is_of_rows(&self) -> bool {
        matches!(self, Self::RepeatedKey { .. } | Self::ScatteredGroups { .. })
    }

    /// A text that kernels compute is needed by its codes.
    pub fn without_dictionary(text: impl fmt::Display) -> Self {
        Self::Expression {
            expression: text.to_string(),
            detail: "a computed text without a dictionary".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn sizes_have_the_largest_unit_that_fits() {
        let sizes = [0, 1023, 1024, 60_000, 1 << 20, 3 << 29, 5 << 40, u64::MAX].map(size);
        let expected = [
            "0 B",
            "1023 B",
            "1.0 KiB",
            "58.6 KiB",
            "1.0 MiB",
            "1.5 GiB",
            "5.0 TiB",
            "16777216.0 TiB",
        ];
        assert_eq!(sizes, expected);
    }
}
