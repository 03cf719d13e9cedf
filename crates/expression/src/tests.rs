//! Tests of lowering without a device: types, reasons and columns, and that literals do not change the code.

use std::sync::Arc;

use arrow::array::{ArrayRef, StringArray};
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::prelude::SessionContext;

use super::{ColumnBinding, ColumnKind, Emitter, Expr, Kind, Parameters, lower};
use crate::code::Code;
use galatea_base::reason::Reason;

fn schema() -> Schema {
    Schema::new(vec![
        Field::new("i", DataType::Int32, true),
        Field::new("b", DataType::Int64, false),
        Field::new("p", DataType::Decimal128(15, 2), false),
        Field::new("f", DataType::Float64, false),
        Field::new("d", DataType::Date32, false),
        Field::new("t", DataType::Timestamp(TimeUnit::Nanosecond, None), false),
        Field::new("s", DataType::Utf8View, true),
        Field::new("u", DataType::Utf8View, false),
        Field::new("l", DataType::new_list(DataType::Int32, true), true),
    ])
}

fn lowered(sql: &str) -> Result<Expr, Reason> {
    let context = SessionContext::new();
    let df_schema = DFSchema::try_from(schema()).expect("a schema");
    let expression = context.parse_sql_expr(sql, &df_schema).expect("an expression");
    lower(
        &context
            .create_physical_expr(expression, &df_schema)
            .expect("a plan"),
        &schema(),
    )
}

fn supported(sql: &str) -> Expr {
    lowered(sql).unwrap_or_else(|reason| panic!("{sql}: {reason}"))
}

fn dictionary(values: &[&str]) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(values))
}

/// Bindings with dictionary-encoded strings, and with integers between 0 and `high`.
fn bindings(high: i128) -> Vec<ColumnBinding> {
    let schema = schema();
    let binding = |field: &Arc<Field>| {
        let mut binding = ColumnBinding::of_type(field.data_type(), field.is_nullable())?;
        binding.kind = match binding.kind {
            ColumnKind::Text => ColumnKind::Dictionary {
                values: dictionary(&["AIR", "MAIL", "RAIL", "SHIP"]),
            },
            ColumnKind::Integer { .. } => ColumnKind::Integer { min: 0, max: high },
            other => other,
        };
        Some(binding)
    };
    schema.fields().iter().map_while(binding).collect()
}

fn emitted(expression: &Expr, bindings: &[ColumnBinding]) -> (String, super::Value, Parameters) {
    let mut parameters = Parameters::default();
    let mut code = Code::default();
    let value = Emitter::new(bindings, &mut parameters)
        .emit(expression, &mut code)
        .expect("emitted");
    (code.as_str().to_owned(), value, parameters)
}

#[test]
fn result_types_match_datafusion() {
    assert_eq!(*supported("p * (1 - p)").data_type(), DataType::Decimal128(38, 4));
    assert_eq!(*supported("i + b").data_type(), DataType::Int64);
    assert_eq!(*supported("d - d").data_type(), DataType::Int64);
    assert_eq!(*supported("date_part('year', d)").data_type(), DataType::Int32);
    assert!(supported("i IS NULL OR s = 'x'").nullable());
    assert!(!supported("b + 1").nullable());
}

#[test]
fn unsupported_expressions_are_refused_with_a_reason() {
    assert!(
        matches!(lowered("l"), Err(Reason::Type { .. })),
        "{:?}",
        lowered("l")
    );
    assert!(matches!(lowered("random() + f"), Err(Reason::Function { .. })));
    assert!(matches!(lowered("chr(i) = 'a'"), Err(Reason::Function { .. })));
    assert!(matches!(lowered("CAST(f AS VARCHAR)"), Err(Reason::Cast { .. })));
    let reason = lowered("b + nvl2(i, b, i)").expect_err("no device version");
    assert!(reason.to_string().contains("nvl2"), "{reason}");
}

#[test]
fn columns_and_dictionary_columns_are_collected() {
    let expression = supported("i > 1 AND initcap(s) = 'X' AND u LIKE 'a%'");
    assert_eq!(expression.columns().into_iter().collect::<Vec<_>>(), [0, 6, 7]);
    // LIKE has device code, initcap does not.
    assert_eq!(
        expression.dictionary_columns().into_iter().collect::<Vec<_>>(),
        [6]
    );
    assert_eq!(expression.conjuncts().len(), 3);
    assert!(supported("s").dictionary_columns().is_empty());
    let moved = expression.remap_columns(&|column| column + 10);
    assert_eq!(moved.columns().into_iter().collect::<Vec<_>>(), [10, 16, 17]);
}

#[test]
fn projections_are_inlined() {
    let over = supported("b + i");
    let below: Vec<Expr> = (0..9)
        .map(|column| {
            if column == 1 {
                supported("b * 2")
            } else {
                supported("i")
            }
        })
        .collect();
    assert_eq!(
        over.substitute(&below).to_string(),
        supported("b * 2 + i").to_string()
    );
    // A function of a computed string is a function of the string below.
    let shout = supported("upper(s) = 'AIR'").substitute(&vec![supported("replace(s, 'R', 'r')"); 9]);
    let (_, _, parameters) = emitted(&shout, &bindings(10));
    assert!(parameters.tables.is_empty(), "one comparison of codes");
}

#[test]
fn literals_do_not_change_code() {
    let bindings = bindings(1_000_000);
    for (a, b) in [
        ("b * 3 > 50", "b * 4 > 51"),
        ("p > 1.50 AND i = 9", "p > 1.70 AND i = 8"),
        ("d >= DATE '1994-01-01'", "d >= DATE '1995-01-01'"),
        ("s = 'AIR'", "s = 'SHIP'"),
        ("u IN ('AIR', 'RAIL')", "u IN ('MAIL', 'SHIP')"),
    ] {
        let (first, second) = (supported(a), supported(b));
        let ((code, _, one), (other, _, two)) = (emitted(&first, &bindings), emitted(&second, &bindings));
        assert_eq!(code, other, "{a} and {b}");
        assert_ne!(one.literals, two.literals, "{a} and {b}");
    }
}

#[test]
fn integer_kind_is_derived_from_interval() {
    let expression = supported("p * (1 - p) * (1 + p)");
    let (_, value, _) = emitted(&expression, &bindings(100));
    assert!(matches!(value.kind, Kind::I32), "{value:?}");
    let (_, value, _) = emitted(&expression, &bindings(1_000_000));
    assert!(matches!(value.kind, Kind::I64), "{value:?}");
    let (code, value, _) = emitted(&expression, &bindings(1 << 50));
    assert!(matches!(value.kind, Kind::I128), "{value:?}");
    assert!(code.contains("galatea_raise"), "{code}");
    let (code, _, _) = emitted(&supported("b + b"), &bindings(100));
    assert!(!code.contains("u64"), "no wrapping: {code}");
}

#[test]
fn common_subexpressions_are_shared() {
    let bindings = bindings(1 << 40);
    let mut parameters = Parameters::default();
    let mut code = Code::default();
    let mut emitter = Emitter::new(&bindings, &mut parameters);
    let first = emitter
        .emit(&supported("p * (1 - p)"), &mut code)
        .expect("emitted");
    let before = code.as_str().len();
    let again = emitter
        .emit(&supported("p * (1 - p)"), &mut code)
        .expect("emitted");
    assert_eq!((first.code, code.as_str().len()), (again.code, before));
    let scope = emitter.enter();
    emitter
        .emit(&supported("p * (1 - p) + 7"), &mut code)
        .expect("emitted");
    emitter.leave(scope);
    let before = code.as_str().len();
    emitter
        .emit(&supported("p * (1 - p) + 7"), &mut code)
        .expect("emitted");
    assert!(code.as_str().len() > before, "forgotten with its block");
}

#[test]
fn errors_in_untaken_case_branches_are_not_raised() {
    let (code, _, _) = emitted(
        &supported("CASE WHEN i > 3 THEN b / b ELSE 0 END"),
        &bindings(100),
    );
    let raise = code
        .lines()
        .find(|line| line.contains("galatea_raise"))
        .expect("division by zero is raised");
    assert!(raise.contains("&&"), "only under the condition: {raise}");
}

#[test]
fn missing_required_dictionary_is_refused() {
    let text: Vec<ColumnBinding> = schema()
        .fields()
        .iter()
        .map_while(|field| ColumnBinding::of_type(field.data_type(), field.is_nullable()))
        .collect();
    let mut parameters = Parameters::default();
    let refused =
        Emitter::new(&text, &mut parameters).emit(&supported("initcap(s) = 'X'"), &mut Code::default());
    assert!(
        matches!(refused, Err(Reason::Encoding { column: 6, .. })),
        "{refused:?}"
    );
}

#[test]
fn errors_of_dictionary_values_quote_the_string() {
    let (code, _, parameters) = emitted(&supported("CAST(s AS INT)"), &bindings(1));
    assert_eq!(parameters.errors.len(), 4, "one per value");
    assert!(code.contains("galatea_raise"), "{code}");
    let error = parameters.errors[0].raised(&[]).to_string();
    assert!(error.contains("Cannot cast string 'AIR'"), "{error}");
    assert!(error.contains("in CAST(s AS Int32)"), "{error}");
}

#[test]
fn constant_expressions_are_folded() {
    assert_eq!(
        supported("1 + 2").as_literal(),
        Some(&ScalarValue::Int64(Some(3)))
    );
}

#[test]
fn functions_are_displayed_as_sql() {
    for (sql, shown) in [
        ("date_trunc('month', t)", "date_trunc('month', t)"),
        ("date_part('dow', d)", "date_part('dow', d)"),
        ("date_bin(INTERVAL '15 minutes', t)", "date_bin(900 s, t)"),
        ("date_bin(INTERVAL '2 months', t)", "date_bin(2 months, t)"),
        (
            "date_bin(INTERVAL '1 microsecond', t, TIMESTAMP '2001-02-03 04:05:06')",
            "date_bin(1 us, t, '2001-02-03T04:05:06')",
        ),
        (
            "t + INTERVAL '1 month 2 days'",
            "(t + INTERVAL '1 months 2 days')",
        ),
        ("ln(f)", "ln(f)"),
        ("power(f, 3.0)", "power(f, 3)"),
        ("round(f, 2)", "round(f, 2)"),
        ("round(p, 1)", "round(p, 1)"),
        ("floor(f)", "floor(f)"),
        ("sqrt(f)", "sqrt(f)"),
        ("abs(b)", "abs(b)"),
    ] {
        assert_eq!(supported(sql).named(&schema()).to_string(), shown, "{sql}");
    }
}

/// `Debug` shows Rust's names of the variants and fields.
#[test]
fn no_name_of_a_function_is_of_rust() {
    for sql in [
        "s || u",
        "substr(s || u, 2, 3)",
        "s || u LIKE '%a_b%c'",
        "starts_with(s || u, 'a')",
        "trim(s || u)",
        "split_part(s || u, 'a', 2)",
        "(s || u) ~ 'a+b'",
        "ascii(s || u)",
        "strpos(s || u, 'a')",
    ] {
        let shown = supported(sql).named(&schema()).to_string();
        let rust = |c: char| c == '{' || c == '[';
        assert!(!shown.contains(rust), "{sql}: {shown}");
        let name = shown.split('(').find(|name| !name.is_empty()).unwrap_or_default();
        assert_eq!(name, name.to_lowercase(), "{sql}: {shown}");
    }
}
