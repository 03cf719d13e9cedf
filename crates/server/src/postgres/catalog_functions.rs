//! Functions of `pg_catalog` that datafusion-pg-catalog does not have, or not with all of their types.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{Array, AsArray, BooleanArray, Int32Array, StringArray};
use arrow::datatypes::{DataType, Field, Int32Type, Int64Type};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::{exec_err, internal_err};
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ScalarUDF, Signature, SimpleScalarUDF, TypeSignature, Volatility,
};
use datafusion::prelude::SessionContext;
use datafusion::scalar::ScalarValue;

use super::catalog_names::PG_CATALOG;
use super::catalog_tables::{Sources, type_name};
use super::cells::wire_type;
use crate::tables::SCHEMA;

/// Names of types with their object identifiers. Drivers look up types by name.
const TYPES: [(&str, i32); 34] = [
    ("bool", 16),
    ("boolean", 16),
    ("bytea", 17),
    ("char", 18),
    ("name", 19),
    ("bigint", 20),
    ("int8", 20),
    ("int2", 21),
    ("smallint", 21),
    ("int", 23),
    ("int4", 23),
    ("integer", 23),
    ("text", 25),
    ("oid", 26),
    ("json", 114),
    ("float4", 700),
    ("real", 700),
    ("double precision", 701),
    ("float8", 701),
    ("bpchar", 1042),
    ("character", 1042),
    ("varchar", 1043),
    ("character varying", 1043),
    ("date", 1082),
    ("time", 1083),
    ("time without time zone", 1083),
    ("timestamp", 1114),
    ("timestamp without time zone", 1114),
    ("timestamptz", 1184),
    ("timestamp with time zone", 1184),
    ("interval", 1186),
    ("decimal", 1700),
    ("numeric", 1700),
    ("uuid", 2950),
];

/// Functions with one value: their names, their numbers of arguments, and the value.
fn constants(user: &str) -> Vec<(&'static str, &'static [usize], ScalarValue)> {
    let text = |value: &str| ScalarValue::Utf8(Some(value.to_string()));
    let no_text = ScalarValue::Utf8(None);
    let (yes, no) = (
        ScalarValue::Boolean(Some(true)),
        ScalarValue::Boolean(Some(false)),
    );
    let no_size = ScalarValue::Int64(None);
    vec![
        ("pg_type_is_visible", &[1], yes.clone()),
        ("pg_function_is_visible", &[1], yes.clone()),
        ("pg_operator_is_visible", &[1], yes.clone()),
        ("pg_opclass_is_visible", &[1], yes.clone()),
        ("pg_opfamily_is_visible", &[1], yes.clone()),
        ("pg_collation_is_visible", &[1], yes.clone()),
        ("pg_conversion_is_visible", &[1], yes.clone()),
        ("pg_statistics_obj_is_visible", &[1], yes.clone()),
        ("pg_ts_config_is_visible", &[1], yes.clone()),
        ("pg_ts_dict_is_visible", &[1], yes.clone()),
        ("pg_ts_parser_is_visible", &[1], yes.clone()),
        ("pg_ts_template_is_visible", &[1], yes.clone()),
        ("has_column_privilege", &[3, 4], yes.clone()),
        ("has_function_privilege", &[2, 3], yes.clone()),
        ("has_sequence_privilege", &[2, 3], yes.clone()),
        ("has_type_privilege", &[2, 3], yes.clone()),
        ("has_tablespace_privilege", &[2, 3], yes.clone()),
        ("pg_has_role", &[2, 3], yes),
        ("pg_is_in_recovery", &[0], no.clone()),
        ("pg_is_other_temp_schema", &[1], no),
        ("pg_my_temp_schema", &[0], ScalarValue::Int32(Some(0))),
        ("pg_advisory_unlock_all", &[0], text("")),
        ("pg_tablespace_location", &[1], text("")),
        ("pg_encoding_to_char", &[1], text("UTF8")),
        ("pg_get_userbyid", &[1], text(user)),
        ("current_role", &[0], text(user)),
        ("pg_get_indexdef", &[1, 3], no_text.clone()),
        ("pg_get_constraintdef", &[1, 2], no_text.clone()),
        ("pg_get_ruledef", &[1, 2], no_text.clone()),
        ("pg_get_triggerdef", &[1, 2], no_text.clone()),
        ("pg_get_functiondef", &[1], no_text.clone()),
        ("pg_get_function_result", &[1], no_text.clone()),
        ("pg_get_function_arguments", &[1], no_text.clone()),
        ("pg_get_function_identity_arguments", &[1], no_text.clone()),
        ("pg_get_serial_sequence", &[2], no_text.clone()),
        ("pg_get_partkeydef", &[1], no_text.clone()),
        ("obj_description", &[1, 2], no_text.clone()),
        ("col_description", &[2], no_text.clone()),
        ("shobj_description", &[2], no_text.clone()),
        ("inet_server_addr", &[0], no_text.clone()),
        ("inet_client_addr", &[0], no_text),
        ("pg_table_size", &[1], no_size.clone()),
        ("pg_indexes_size", &[1], no_size.clone()),
        ("pg_database_size", &[1], no_size.clone()),
        ("pg_tablespace_size", &[1], no_size),
    ]
}

/// A signature of any types.
fn any(arities: &[usize], volatility: Volatility) -> Signature {
    let arities = arities.iter().map(|arity| match arity {
        0 => TypeSignature::Nullary,
        arity => TypeSignature::Any(*arity),
    });
    Signature::one_of(arities.collect(), volatility)
}

/// Adds a function.
fn add(
    ctx: &SessionContext,
    name: &str,
    signature: Signature,
    result: DataType,
    function: impl Fn(&[ColumnarValue]) -> Result<ColumnarValue> + Send + Sync + 'static,
) {
    let function = SimpleScalarUDF::new_with_signature(name, signature, result, Arc::new(function));
    ctx.register_udf(ScalarUDF::from(function));
}

/// The results of a function of one string.
fn of_strings<T>(
    arguments: &[ColumnarValue],
    function: impl Fn(&str) -> Option<T>,
) -> Result<Vec<Option<T>>> {
    let arrays = ColumnarValue::values_to_arrays(arguments)?;
    let Some(names) = arrays.first() else {
        return internal_err!("a function of a string has no argument");
    };
    let names = names.as_string::<i32>().iter();
    Ok(names.map(|name| name.and_then(&function)).collect())
}

/// A string of one row.
fn string(argument: Option<&ColumnarValue>) -> Result<Option<String>> {
    match argument {
        Some(ColumnarValue::Scalar(value)) => Ok(value.try_as_str().flatten().map(str::to_string)),
        Some(ColumnarValue::Array(array)) if array.len() == 1 => {
            let value = ScalarValue::try_from_array(array, 0)?;
            Ok(value.try_as_str().flatten().map(str::to_string))
        }
        _ => exec_err!("the name of a setting is one string"),
    }
}

/// Adds the functions to a session.
pub(super) fn install(ctx: &SessionContext, sources: &Sources) {
    let strings = |count| Signature::exact(vec![DataType::Utf8; count], Volatility::Stable);
    for (name, arities, value) in constants(&sources.user) {
        let value = ColumnarValue::Scalar(value);
        let result = value.data_type();
        add(ctx, name, any(arities, Volatility::Stable), result, move |_| {
            Ok(value.clone())
        });
    }
    add(ctx, "to_regtype", strings(1), DataType::Int32, |arguments| {
        let found = of_strings(arguments, |name| {
            let name = name.trim().to_ascii_lowercase();
            let name = name.strip_prefix("pg_catalog.").unwrap_or(&name);
            TYPES
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, oid)| *oid)
        })?;
        Ok(ColumnarValue::Array(Arc::new(Int32Array::from(found))))
    });
    for (name, null) in [("quote_literal", None), ("quote_nullable", Some("NULL"))] {
        add(ctx, name, strings(1), DataType::Utf8, move |arguments| {
            let quoted = of_strings(arguments, |value| {
                Some(format!("'{}'", value.replace('\'', "''")))
            })?;
            let quoted = quoted.into_iter().map(|value| value.or(null.map(str::to_string)));
            Ok(ColumnarValue::Array(Arc::new(quoted.collect::<StringArray>())))
        });
    }
    let number = Signature::exact(vec![DataType::Int64], Volatility::Immutable);
    add(ctx, "pg_size_pretty", number, DataType::Utf8, |arguments| {
        let arrays = ColumnarValue::values_to_arrays(arguments)?;
        let sizes = arrays
            .first()
            .map(|sizes| sizes.as_primitive::<Int64Type>().iter());
        let texts = sizes.into_iter().flatten().map(|size| size.map(pretty));
        Ok(ColumnarValue::Array(Arc::new(texts.collect::<StringArray>())))
    });
    add(
        ctx,
        "pg_typeof",
        any(&[1], Volatility::Stable),
        DataType::Utf8,
        |arguments| {
            let data_type = arguments.first().map_or(DataType::Null, ColumnarValue::data_type);
            let wire = wire_type(&Arc::new(Field::new("", data_type, true)));
            let name = wire.map(|wire| type_name(&wire).to_string());
            Ok(ColumnarValue::Scalar(ScalarValue::Utf8(name)))
        },
    );
    for name in ["json_build_object", "jsonb_build_object"] {
        let arguments = Signature::variadic_any(Volatility::Stable);
        add(ctx, name, arguments, DataType::Utf8, json_object);
    }
    settings(ctx, sources);
    views(ctx, sources);
}

/// Adds `current_setting` and `set_config`.
fn settings(ctx: &SessionContext, sources: &Sources) {
    let parameters = Arc::clone(&sources.parameters);
    let signature = Signature::one_of(
        vec![
            TypeSignature::Exact(vec![DataType::Utf8]),
            TypeSignature::Exact(vec![DataType::Utf8, DataType::Boolean]),
        ],
        Volatility::Volatile,
    );
    add(
        ctx,
        "current_setting",
        signature,
        DataType::Utf8,
        move |arguments| {
            let Some(name) = string(arguments.first())? else {
                return Ok(ColumnarValue::Scalar(ScalarValue::Utf8(None)));
            };
            let value = parameters.lock().setting(&name.to_ascii_lowercase());
            let may_lack = matches!(
                arguments.get(1),
                Some(ColumnarValue::Scalar(ScalarValue::Boolean(Some(true))))
            );
            match value {
                None if !may_lack => exec_err!("unrecognized configuration parameter \"{name}\""),
                value => Ok(ColumnarValue::Scalar(ScalarValue::Utf8(value))),
            }
        },
    );
    let parameters = Arc::clone(&sources.parameters);
    let signature = Signature::exact(
        vec![DataType::Utf8, DataType::Utf8, DataType::Boolean],
        Volatility::Volatile,
    );
    add(ctx, "set_config", signature, DataType::Utf8, move |arguments| {
        let name = string(arguments.first())?
            .unwrap_or_default()
            .to_ascii_lowercase();
        let value = string(arguments.get(1))?;
        let mut parameters = parameters.lock();
        if parameters.get(&name).is_none() || matches!(name.as_str(), "timezone" | "statement_timeout") {
            return exec_err!("set_config cannot change the parameter \"{name}\"\nhint: use SET");
        }
        match parameters.set(&name, value) {
            Ok(value) => Ok(ColumnarValue::Scalar(ScalarValue::Utf8(Some(value)))),
            Err(problem) => exec_err!("{problem}"),
        }
    });
}

/// Adds `pg_get_viewdef` and `to_regclass`.
fn views(ctx: &SessionContext, sources: &Sources) {
    let own = sources.clone();
    let signature = Signature::one_of(
        vec![
            TypeSignature::Exact(vec![DataType::Int32]),
            TypeSignature::Exact(vec![DataType::Int32, DataType::Boolean]),
            TypeSignature::Exact(vec![DataType::Int32, DataType::Int64]),
        ],
        Volatility::Stable,
    );
    add(
        ctx,
        "pg_get_viewdef",
        signature,
        DataType::Utf8,
        move |arguments| {
            let arrays = ColumnarValue::values_to_arrays(arguments)?;
            let objects = own.objects();
            let oids = arrays.first().map(|oids| oids.as_primitive::<Int32Type>().iter());
            let texts = oids.into_iter().flatten().map(|oid| {
                let object = objects.iter().find(|object| Some(object.oid) == oid)?;
                own.definition(&object.schema, &object.name)
            });
            Ok(ColumnarValue::Array(Arc::new(texts.collect::<StringArray>())))
        },
    );
    let own = sources.clone();
    let number = Signature::exact(vec![DataType::Int32], Volatility::Stable);
    add(
        ctx,
        "pg_table_is_visible",
        number,
        DataType::Boolean,
        move |arguments| {
            let arrays = ColumnarValue::values_to_arrays(arguments)?;
            let objects = own.objects();
            let visible = objects
                .iter()
                .filter(|object| matches!(object.schema.as_str(), SCHEMA | PG_CATALOG));
            let visible: BTreeSet<i32> = visible.map(|object| object.oid).collect();
            let oids = arrays.first().map(|oids| oids.as_primitive::<Int32Type>().iter());
            let found = oids
                .into_iter()
                .flatten()
                .map(|oid| oid.map(|oid| visible.contains(&oid)));
            Ok(ColumnarValue::Array(Arc::new(found.collect::<BooleanArray>())))
        },
    );
    let own = sources.clone();
    let strings = Signature::exact(vec![DataType::Utf8], Volatility::Stable);
    add(ctx, "to_regclass", strings, DataType::Int32, move |arguments| {
        let objects = own.objects();
        let found = of_strings(arguments, |name| {
            let (schema, name) = match name.split_once('.') {
                Some((schema, name)) => (Some(schema), name),
                None => (None, name),
            };
            let name = name.trim_matches('"');
            let object = objects.iter().find(|object| {
                object.name.eq_ignore_ascii_case(name) && schema.is_none_or(|schema| object.schema == schema)
            });
            object.map(|object| object.oid)
        })?;
        Ok(ColumnarValue::Array(Arc::new(Int32Array::from(found))))
    });
}

/// The JSON objects of keys and values.
fn json_object(arguments: &[ColumnarValue]) -> Result<ColumnarValue> {
    if !arguments.len().is_multiple_of(2) {
        return exec_err!("the arguments of json_build_object are keys and values");
    }
    let arrays = ColumnarValue::values_to_arrays(arguments)?;
    let options = FormatOptions::default();
    let formatters = arrays
        .iter()
        .map(|array| ArrayFormatter::try_new(array.as_ref(), &options));
    let formatters = formatters.collect::<std::result::Result<Vec<_>, _>>()?;
    let rows = arrays.first().map_or(0, Array::len);
    let objects = (0..rows).map(|row| {
        let mut fields = Vec::new();
        for index in (0..arrays.len()).step_by(2) {
            let key = formatters[index].value(row).to_string();
            let value = &arrays[index + 1];
            let text = formatters[index + 1].value(row).to_string();
            let data_type = value.data_type();
            let json = match value.is_null(row) {
                true => "null".to_string(),
                false if data_type.is_numeric() || *data_type == DataType::Boolean => text,
                false => serde_json::Value::String(text).to_string(),
            };
            fields.push(format!("{} : {json}", serde_json::Value::String(key)));
        }
        Some(format!("{{{}}}", fields.join(", ")))
    });
    Ok(ColumnarValue::Array(Arc::new(objects.collect::<StringArray>())))
}

/// A size with its unit.
fn pretty(size: i64) -> String {
    let mut value = size;
    for unit in ["bytes", "kB", "MB", "GB", "TB"] {
        if value.abs() < 10_240 {
            return format!("{value} {unit}");
        }
        value /= 1024;
    }
    format!("{value} PB")
}
