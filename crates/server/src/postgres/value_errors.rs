//! Errors of values that are not of their type.

use pgwire::api::Type;
use pgwire::error::PgWireError;

use super::errors::error_state;

/// The name of a type in messages.
pub(super) fn shown(wire: &Type) -> &str {
    match *wire {
        Type::BOOL => "boolean",
        Type::INT2 => "smallint",
        Type::INT4 => "integer",
        Type::INT8 => "bigint",
        Type::FLOAT4 => "real",
        Type::FLOAT8 => "double precision",
        Type::TIMESTAMP => "timestamp",
        Type::TIMESTAMPTZ => "timestamp with time zone",
        _ => wire.name(),
    }
}

pub(super) fn malformed(wire: &Type, text: &str) -> PgWireError {
    let name = shown(wire);
    error_state(
        "22P02",
        format!("invalid input syntax for type {name}: \"{text}\""),
    )
}

pub(super) fn out_of_range(wire: &Type, text: &str) -> PgWireError {
    let name = shown(wire);
    error_state(
        "22003",
        format!("value \"{text}\" is out of range for type {name}"),
    )
}

pub(super) fn malformed_binary(wire: &Type) -> PgWireError {
    let name = shown(wire);
    error_state("22P03", format!("incorrect binary data format for type {name}"))
}

pub(super) fn infinite(wire: &Type) -> PgWireError {
    let name = shown(wire);
    error_state(
        "22008",
        format!("infinity is not supported as a value of type {name}"),
    )
}

pub(super) fn date_out_of_range(wire: &Type) -> PgWireError {
    let name = shown(wire);
    error_state("22008", format!("value is out of range for type {name}"))
}
