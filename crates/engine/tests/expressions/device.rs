//! Runs emitted statements for every row of a batch on a device.

use std::fmt::Write as _;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use galatea_device::{ArgumentBytes, Device, DeviceBuffer, Geometry, Program, Stream};
use galatea_expression::{
    ColumnBinding, ColumnKind, HEADERS, Kind, LookupTable, Parameters, Value, kind_for,
};

/// Bytes that are stored of a string result: its length in four, then its bytes.
const TEXT: usize = 128;

/// An expression ready to run.
pub(crate) struct Emitted {
    pub(crate) statements: String,
    pub(crate) value: Value,
    pub(crate) parameters: Parameters,
}

/// One result of one row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Outcome {
    Error,
    Null,
    /// Integers and booleans.
    Integer(i128),
    /// Floats by bits.
    Bits(u64),
    Text(Vec<u8>),
}

/// A row's outcome, and the integer in its variable, NULL or not.
#[derive(Debug, Clone)]
pub(crate) struct Ran {
    pub(crate) outcome: Outcome,
    pub(crate) raw: i128,
}

/// A kernel that evaluates expressions, with its arguments and results in memory.
pub(crate) struct Prepared {
    pub(crate) program: Program,
    bytes: ArgumentBytes,
    values: DeviceBuffer<i128>,
    nulls: DeviceBuffer<u8>,
    errors: DeviceBuffer<u32>,
    texts: DeviceBuffer<u8>,
    /// The data that the arguments point to.
    _inputs: Vec<DeviceBuffer<u8>>,
    stream: Stream,
}

/// Uploads a batch and writes the kernel that evaluates all expressions for each of its rows.
pub(crate) fn prepare(
    device: &Device,
    batch: &RecordBatch,
    bindings: &[ColumnBinding],
    expressions: &[Emitted],
) -> Prepared {
    let stream = device.stream().expect("a stream");
    let mut arguments = Arguments {
        device,
        stream: &stream,
        bytes: ArgumentBytes::new(),
        declarations: String::new(),
        buffers: vec![],
    };
    let mut loads = String::new();
    for (index, binding) in bindings.iter().enumerate() {
        arguments.column(index, batch.column(index), binding, &mut loads);
    }
    let (rows, count) = (batch.num_rows(), expressions.len());
    let mut bodies = String::new();
    let mut texts = 0;
    for (index, expression) in expressions.iter().enumerate() {
        let literals = arguments.pointer(
            "const u64*",
            &format!("literals{index}"),
            &padded(&expression.parameters.literals),
        );
        let mut addresses = Vec::new();
        for table in &expression.parameters.tables {
            let LookupTable::Host(bytes) = table else {
                panic!("nothing is built on the device here");
            };
            addresses.push(arguments.upload(&padded_bytes(bytes)));
        }
        let tables = arguments.pointer("const u8* const*", &format!("tables{index}"), &padded(&addresses));
        let _ = writeln!(
            bodies,
            "{{ const Expression args{{a.{literals}, a.{tables}, a.errors + {index} * a.rows + row}};"
        );
        bodies.push_str(&expression.statements);
        let value = &expression.value;
        let null = value.null.as_deref().unwrap_or("false");
        let _ = writeln!(bodies, "a.nulls[{index} * a.rows + row] = {null};");
        let stored = match value.kind {
            Kind::F32 => format!("(i128)bits_as<u32>({})", value.code),
            Kind::F64 => format!("(i128)bits_as<u64>({})", value.code),
            Kind::Text | Kind::ComputedString => {
                texts += 1;
                let _ = writeln!(
                    bodies,
                    "store_text(a.texts + ({} * a.rows + row) * {TEXT}, {});",
                    texts - 1,
                    value.code
                );
                "(i128)0".to_owned()
            }
            _ => format!("(i128){}", value.code),
        };
        let _ = writeln!(bodies, "a.values[{index} * a.rows + row] = {stored}; }}");
    }
    let values: DeviceBuffer<i128> = arguments.output("i128*", "values", rows * count);
    let nulls: DeviceBuffer<u8> = arguments.output("u8*", "nulls", rows * count);
    let errors: DeviceBuffer<u32> = arguments.output("u32*", "errors", rows * count);
    let text: DeviceBuffer<u8> = arguments.output("u8*", "texts", rows * texts.max(1) * TEXT);
    arguments.bytes.push(rows as u64);
    let mut source = String::from("#include \"galatea/thread.cuh\"\n");
    for header in HEADERS {
        let _ = writeln!(source, "#include \"{header}\"");
    }
    let _ = write!(
        source,
        "using namespace galatea;\n\
         struct Expression {{ const u64* literals; const u8* const* tables; u32* error; }};\n\
         struct Arguments {{\n{}u64 rows;\n}};\n\
         template <class T> GALATEA_NOINLINE void store_text(u8* to, const T& text) {{\n\
         const u32 length = u32(string_length(text));\n\
         *(u32*)to = length;\n\
         WalkOver<T> walk(text);\n\
         for (u32 i = 0; i < length && i < {}; ++i) to[4 + i] = u8(walk.take());\n}}\n\
         extern \"C\" __global__ void evaluate(Arguments a) {{\n\
         for (u64 row = grid_thread(); row < a.rows; row += grid_threads()) {{\n{loads}{bodies}}}\n}}\n",
        arguments.declarations,
        TEXT - 4,
    );
    let program = Program::new("expressions", source)
        .headers(galatea_kernels::headers())
        .entry("evaluate");
    let Arguments { bytes, buffers, .. } = arguments;
    Prepared {
        program,
        bytes,
        values,
        nulls,
        errors,
        texts: text,
        _inputs: buffers,
        stream,
    }
}

/// Outcomes by expression and row.
pub(crate) fn run(
    device: &Device,
    prepared: &Prepared,
    rows: usize,
    expressions: &[Emitted],
) -> Vec<Vec<Ran>> {
    let Prepared { program, stream, .. } = prepared;
    let compiled = device
        .compile(program)
        .unwrap_or_else(|error| panic!("{error}\n{}", program.source));
    let function = compiled.module.function("evaluate").expect("the entry");
    function
        .launch(stream, Geometry::new(2_u64, 32_u64), &prepared.bytes)
        .expect("a launch");
    let values = stream.read(&prepared.values, ..).expect("values");
    let nulls = stream.read(&prepared.nulls, ..).expect("nulls");
    let errors = stream.read(&prepared.errors, ..).expect("errors");
    let text = stream.read(&prepared.texts, ..).expect("texts");
    let mut next_string = 0;
    expressions
        .iter()
        .enumerate()
        .map(|(index, expression)| {
            let is_string = expression.value.kind.is_bytes();
            next_string += usize::from(is_string);
            (0..rows)
                .map(|row| {
                    let at = index * rows + row;
                    let raw = values[at];
                    let outcome = if errors[at] != 0 {
                        Outcome::Error
                    } else if nulls[at] != 0 {
                        Outcome::Null
                    } else {
                        match &expression.value.kind {
                            Kind::F32 | Kind::F64 => Outcome::Bits(raw as u64),
                            Kind::Code { values } => Outcome::Text(
                                bytes(values, usize::try_from(raw).expect("a code")).expect("a value"),
                            ),
                            Kind::Text | Kind::ComputedString => {
                                let start = ((next_string - 1) * rows + row) * TEXT;
                                let length = u32::from_le_bytes(
                                    text[start..start + 4].try_into().expect("four bytes"),
                                );
                                Outcome::Text(text[start + 4..start + 4 + length as usize].to_vec())
                            }
                            _ => Outcome::Integer(raw),
                        }
                    };
                    Ran { outcome, raw }
                })
                .collect()
        })
        .collect()
}

/// The argument struct under construction, and the memory that it points to.
struct Arguments<'a> {
    device: &'a Device,
    stream: &'a Stream,
    bytes: ArgumentBytes,
    declarations: String,
    buffers: Vec<DeviceBuffer<u8>>,
}

impl Arguments<'_> {
    fn upload(&mut self, bytes: &[u8]) -> u64 {
        let buffer = self.device.upload(self.stream, bytes).expect("device memory");
        let address = buffer.address();
        self.buffers.push(buffer);
        address
    }

    fn pointer(&mut self, c_type: &str, name: &str, bytes: &[u8]) -> String {
        let address = self.upload(bytes);
        let _ = writeln!(self.declarations, "{c_type} {name};");
        self.bytes.push(address);
        name.to_owned()
    }

    fn output<T: bytemuck::Pod>(&mut self, c_type: &str, name: &str, len: usize) -> DeviceBuffer<T> {
        let buffer = self.device.zeroed(self.stream, len).expect("device memory");
        let _ = writeln!(self.declarations, "{c_type} {name};");
        self.bytes.push(buffer.address());
        buffer
    }

    fn column(&mut self, index: usize, array: &ArrayRef, binding: &ColumnBinding, loads: &mut String) {
        let rows = 0..array.len();
        let integers = |array: &ArrayRef| {
            rows.clone()
                .map(|row| integer(array, row).unwrap_or(0))
                .collect::<Vec<_>>()
        };
        let (c_type, bytes): (&str, Vec<u8>) = match &binding.kind {
            ColumnKind::Integer { min, max } => {
                let kind = kind_for(*min, *max);
                let width = match kind {
                    Kind::I32 => 4,
                    Kind::I64 => 8,
                    _ => 16,
                };
                (
                    kind.c_type(),
                    integers(array)
                        .into_iter()
                        .flat_map(|value| value.to_le_bytes()[..width].to_vec())
                        .collect(),
                )
            }
            ColumnKind::Boolean => (
                "bool",
                integers(array).into_iter().map(|value| value as u8).collect(),
            ),
            ColumnKind::Float32 => (
                "float",
                integers(array)
                    .into_iter()
                    .flat_map(|bits| (bits as u32).to_le_bytes())
                    .collect(),
            ),
            ColumnKind::Float64 => (
                "double",
                integers(array)
                    .into_iter()
                    .flat_map(|bits| (bits as u64).to_le_bytes())
                    .collect(),
            ),
            ColumnKind::Dictionary { values } => {
                let code = |row| {
                    text(array, row).map_or(0, |value| {
                        (0..values.len())
                            .position(|code| text(values, code).as_ref() == Some(&value))
                            .expect("a value") as u32
                    })
                };
                (
                    "u32",
                    rows.clone().flat_map(|row| code(row).to_le_bytes()).collect(),
                )
            }
            ColumnKind::Text => {
                let mut offsets = vec![0u32];
                let mut bytes = Vec::new();
                for row in rows.clone() {
                    bytes.extend(text(array, row).unwrap_or_default().into_bytes());
                    offsets.push(bytes.len() as u32);
                }
                let offsets: Vec<u8> = offsets.into_iter().flat_map(u32::to_le_bytes).collect();
                let offsets = self.pointer("const u32*", &format!("offsets{index}"), &offsets);
                let bytes = self.pointer("const u8*", &format!("bytes{index}"), &padded_bytes(&bytes));
                let _ = writeln!(
                    loads,
                    "const Text c{index} = table_text(a.{offsets}, a.{bytes}, (u32)row);"
                );
                self.nulls(index, array, binding, loads);
                return;
            }
        };
        let data = self.pointer(&format!("const {c_type}*"), &format!("data{index}"), &bytes);
        let _ = writeln!(loads, "const {c_type} c{index} = a.{data}[row];");
        self.nulls(index, array, binding, loads);
    }

    fn nulls(&mut self, index: usize, array: &ArrayRef, binding: &ColumnBinding, loads: &mut String) {
        if !binding.nullable {
            return;
        }
        let nulls: Vec<u8> = (0..array.len()).map(|row| u8::from(array.is_null(row))).collect();
        let nulls = self.pointer("const u8*", &format!("nulls{index}"), &nulls);
        let _ = writeln!(loads, "const bool c{index}_null = a.{nulls}[row] != 0;");
    }
}

fn padded(words: &[u64]) -> Vec<u8> {
    padded_bytes(
        &words
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect::<Vec<_>>(),
    )
}

fn padded_bytes(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes.resize(bytes.len().next_multiple_of(16) + 16, 0);
    bytes
}

/// The string in a row.
pub(crate) fn text(array: &ArrayRef, row: usize) -> Option<String> {
    bytes(array, row).map(|bytes| String::from_utf8(bytes).expect("UTF-8"))
}

fn bytes(array: &ArrayRef, row: usize) -> Option<Vec<u8>> {
    match ScalarValue::try_from_array(array, row).expect("a scalar") {
        ScalarValue::Utf8(value) | ScalarValue::LargeUtf8(value) | ScalarValue::Utf8View(value) => {
            value.map(String::into_bytes)
        }
        ScalarValue::Binary(value) | ScalarValue::LargeBinary(value) | ScalarValue::BinaryView(value) => {
            value
        }
        other => panic!("{other:?} is no string"),
    }
}

/// The integer in a row; floats by bits, booleans as 0 and 1.
pub(crate) fn integer(array: &ArrayRef, row: usize) -> Option<i128> {
    if array.is_null(row) {
        return None;
    }
    Some(match ScalarValue::try_from_array(array, row).expect("a scalar") {
        ScalarValue::Boolean(Some(value)) => i128::from(value),
        ScalarValue::Float32(Some(value)) => i128::from(value.to_bits()),
        ScalarValue::Float64(Some(value)) => i128::from(value.to_bits()),
        ScalarValue::UInt64(Some(value)) => i128::from(value),
        ScalarValue::Decimal128(Some(value), _, _) => value,
        ScalarValue::Decimal64(Some(value), _, _) => i128::from(value),
        ScalarValue::Decimal32(Some(value), _, _) => i128::from(value),
        _ => {
            let one = cast(&array.slice(row, 1), &DataType::Int64).expect("an integer");
            match ScalarValue::try_from_array(&one, 0).expect("a scalar") {
                ScalarValue::Int64(Some(value)) => i128::from(value),
                other => panic!("{other:?} is no integer"),
            }
        }
    })
}

/// DataFusion's result for a row.
pub(crate) fn expected(array: &ArrayRef, row: usize) -> Outcome {
    match array.data_type() {
        _ if array.is_null(row) => Outcome::Null,
        DataType::Float32 | DataType::Float64 => Outcome::Bits(integer(array, row).expect("not NULL") as u64),
        DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8 => {
            Outcome::Text(bytes(array, row).expect("not NULL"))
        }
        _ => Outcome::Integer(integer(array, row).expect("not NULL")),
    }
}
