//! Why a part of a plan stays on the CPU.
//!
//! Placement checks before it acts: every component returns `Result<_, Reason>`, and the reason is passed on
//! unchanged to EXPLAIN, to the metrics and to the user's screen. A reason is data, not prose: the variant is
//! the rule that refused, the fields are the refused object, and [`Display`](std::fmt::Display) prints both
//! as one line.

use arrow::datatypes::DataType;
use std::fmt;
use std::time::Duration;

/// Source of a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// Predicted by the cost model.
    Predicted,
    /// Predicted by the cost model, including loading columns and compiling kernels.
    PredictedWithLoading,
    /// Measured in an earlier run.
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

/// Formats bytes in the largest binary unit that is not larger than the number.
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

/// Formats a time as EXPLAIN shows it.
pub fn milliseconds(time: Duration) -> String {
    let time = time.as_secs_f64() * 1e3;
    let digits = if time < 10.0 { 2 } else { 0 };
    format!("{time:.digits$} ms")
}

/// The reason why a part of a plan is not executed on the device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// A value of this type is not represented on the device.
    #[error("type {data_type} has no device representation (in {place})")]
    Type {
        /// The unsupported type.
        data_type: DataType,
        /// The expression or column it occurs in.
        place: String,
    },
    /// The time that all GPU subtrees together are expected to save is within the error of the prediction.
    #[error("the device is expected to save {} of {}, which is within the error of the prediction", milliseconds(*saved), milliseconds(*of))]
    Gain {
        /// Time that the GPU subtrees are expected to save.
        saved: Duration,
        /// Expected time of the query on the CPU.
        of: Duration,
    },
    /// A function without a device version, at least for these arguments.
    #[error("function {name}: {detail}")]
    Function {
        /// SQL name of the function.
        name: String,
        /// The unsupported argument or form.
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
    /// An expression that the compiler does not support.
    #[error("expression {expression}: {detail}")]
    Expression {
        /// The expression as DataFusion prints it.
        expression: String,
        /// The unsupported argument or form.
        detail: String,
    },
    /// Values may exceed 128 bits, the widest integer of the device.
    #[error("{expression} may need values between {low} and {high}: more than 128 bits")]
    Overflow {
        /// The expression that may overflow.
        expression: String,
        /// Lower bound of the values, if it is known.
        low: String,
        /// Upper bound.
        high: String,
    },
    /// A column is not encoded in the way the expression needs.
    #[error("column {column} is not {needed}")]
    Encoding {
        /// Index of the column in the input of the expression.
        column: usize,
        /// An encoding that would be supported.
        needed: &'static str,
    },
    /// Lookup tables of an expression would be too large.
    #[error("{expression} would need {asked} {unit}, limit {limit}")]
    Limit {
        /// The expression that needs the tables.
        expression: String,
        /// The number needed.
        asked: u64,
        /// The limit.
        limit: u64,
        /// Unit of the number and the limit, plural.
        unit: &'static str,
    },
    /// Several rows of a build side have the same key, but the join supports unique build keys only.
    #[error("{expression} would need {rows} rows of one key, limit 1")]
    RepeatedKey {
        /// The join.
        expression: String,
        /// Number of rows with that key, or a lower bound of it.
        rows: u64,
    },
    /// The group keys of a build side span a range that is too large for an array indexed by key.
    #[error(
        "a join with groups would need {numbers} keys of groups, from the least to the greatest, limit {limit}"
    )]
    ScatteredGroups {
        /// Number of integers from the smallest to the largest key.
        numbers: u64,
        /// The limit.
        limit: u64,
    },
    /// An expression is nested deeper than the passes over it support.
    #[error("expression too deep: {levels} levels, the limit is {limit}")]
    TooDeep {
        /// Levels of the expression.
        levels: u64,
        /// The limit.
        limit: u64,
    },
    /// A plan node, or a form of a plan node, without a device version.
    #[error("{node}: {detail}")]
    Node {
        /// DataFusion's name of the node.
        node: String,
        /// The unsupported argument or form.
        detail: String,
    },
    /// The device would be slower.
    #[error("the CPU is faster: {} on the device ({device_basis}), {} on the CPU ({cpu_basis})", milliseconds(*device), milliseconds(*cpu))]
    Cost {
        /// Time on the device.
        device: Duration,
        /// Source of the time on the device.
        device_basis: Basis,
        /// Time on the CPU.
        cpu: Duration,
        /// Source of the time on the CPU.
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
        /// Share of the warm-up, in percent, that runs on the CPU have paid by losing time because the GPU
        /// was cold. When they have lost half of its time, all of it counts as paid.
        paid: u32,
    },
    /// The GPU driver has not started, and the query is too short to wait for it.
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
    /// The device is emulated, and the session's program has not allowed that.
    #[error(
        "this session does not allow the emulated device, which compiles code with the machine's C++ compiler and loads it: \
         SessionBuilder::with_emulated_device does, and --set galatea.device=emulated on the command line"
    )]
    EmulatedDevice,
    /// No usable device exists.
    #[error("no device: {detail}")]
    Device {
        /// The device that was searched for, and how to get one.
        detail: String,
    },
}

impl Reason {
    /// Whether the rows of a build side are the cause, and not the method that builds the side.
    pub fn is_of_rows(&self) -> bool {
        matches!(self, Self::RepeatedKey { .. } | Self::ScatteredGroups { .. })
    }

    /// The reason for a computed string that would need dictionary codes but has no dictionary.
    pub fn without_dictionary(text: impl fmt::Display) -> Self {
        Self::Expression {
            expression: text.to_string(),
            detail: "a computed string without a dictionary".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn sizes_use_the_largest_fitting_unit() {
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
