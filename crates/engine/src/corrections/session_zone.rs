//! Columns of TIMESTAMP WITH TIME ZONE are in the time zone of the session.
//!
//! DataFusion extracts, truncates, casts and prints such a value in the time zone of its column, which a file
//! or another session has chosen, and ignores `datafusion.execution.time_zone`. In PostgreSQL and DuckDB, the
//! column contains instants, and all of these use the zone of the session. Here each scan converts the zone
//! of its columns, which changes no value. Statements that write rows convert it back.

use std::iter::zip;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::{DdlStatement, Expr, ExprSchemable, LogicalPlan, Projection, Union, cast};
use datafusion::optimizer::AnalyzerRule;

/// Converts the zones of columns.
#[derive(Debug)]
pub(super) struct SessionZone;

impl AnalyzerRule for SessionZone {
    fn name(&self) -> &'static str {
        "session_zone"
    }

    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        match &config.execution.time_zone {
            Some(zone) if has_other_zones(&plan, zone)? => converted(plan, zone),
            _ => Ok(plan),
        }
    }
}

/// Whether a scan of the plan, or the table that it writes, has columns in another zone.
fn has_other_zones(plan: &LogicalPlan, zone: &str) -> Result<bool> {
    let mut found = match plan {
        LogicalPlan::Dml(statement) => has_other_zone(statement.input.schema(), zone),
        _ => false,
    };
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            found |= has_other_zone(&scan.projected_schema, zone);
        }
        Ok(match found {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    })?;
    Ok(found)
}

fn has_other_zone(schema: &DFSchema, zone: &str) -> bool {
    let mut fields = schema.fields().iter();
    fields.any(|field| in_zone(field.data_type(), zone).is_some())
}

/// The type in the zone of the session; `None` for a type without another zone.
fn in_zone(data_type: &DataType, zone: &str) -> Option<DataType> {
    match data_type {
        DataType::Timestamp(unit, Some(own)) if !is_same(own, zone) => {
            Some(DataType::Timestamp(*unit, Some(zone.into())))
        }
        _ => None,
    }
}

/// Whether a name is one of UTC.
pub(super) fn is_utc(zone: &str) -> bool {
    let names = ["UTC", "Z", "GMT", "Etc/UTC", "+00:00", "+00", "+0000", "-00:00"];
    names.iter().any(|name| zone.eq_ignore_ascii_case(name))
}

/// Whether two names are of one zone.
fn is_same(one: &str, other: &str) -> bool {
    one.eq_ignore_ascii_case(other) || is_utc(one) && is_utc(other)
}

/// The plan with the columns of all scans in the zone.
fn converted(plan: LogicalPlan, zone: &str) -> Result<LogicalPlan> {
    let writes = matches!(
        plan,
        LogicalPlan::Dml(_) | LogicalPlan::Copy(_) | LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(_))
    );
    if writes {
        let converted = plan.map_children(|input| {
            let types = Arc::clone(input.schema());
            let input = in_session(read_in_session(input, zone)?, zone)?;
            let types = types.fields().iter().map(|field| field.data_type().clone());
            with_types(input, types.collect()).map(Transformed::yes)
        })?;
        return Ok(converted.data);
    }
    match plan {
        // Each use of a view plans its definition.
        LogicalPlan::Ddl(_) => Ok(plan),
        plan => in_session(plan, zone),
    }
}

/// The rows of a statement, with strings and timestamps without a zone read in the zone of the session.
fn read_in_session(rows: LogicalPlan, zone: &str) -> Result<LogicalPlan> {
    let LogicalPlan::Projection(projection) = rows else {
        return Ok(rows);
    };
    let values = matches!(projection.input.as_ref(), LogicalPlan::Values(_));
    let schema = Arc::clone(projection.input.schema());
    let rows = LogicalPlan::Projection(projection);
    let rows = rows
        .map_expressions(|column| zones_read(column, &schema, zone))?
        .data;
    if !values {
        return Ok(rows);
    }
    let none = DFSchema::empty();
    let rows = rows.map_children(|values| values.map_expressions(|value| zones_read(value, &none, zone)))?;
    Ok(rows.data)
}

/// A value with its casts to another zone by way of the zone of the session.
fn zones_read(value: Expr, schema: &DFSchema, zone: &str) -> Result<Transformed<Expr>> {
    let has_zone = |value: &Expr| {
        let data_type = value.get_type(schema);
        data_type.is_ok_and(|own| matches!(own, DataType::Timestamp(_, Some(_))))
    };
    value.transform_up(|part| {
        Ok(match part {
            Expr::Cast(read) if !has_zone(&read.expr) => match in_zone(read.field.data_type(), zone) {
                Some(data_type) => {
                    let own = read.field.data_type().clone();
                    Transformed::yes(cast(cast(*read.expr, data_type), own))
                }
                None => Transformed::no(Expr::Cast(read)),
            },
            part => Transformed::no(part),
        })
    })
}

fn in_session(plan: LogicalPlan, zone: &str) -> Result<LogicalPlan> {
    let converted = plan.transform_up_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = &node {
            if !has_other_zone(&scan.projected_schema, zone) {
                return Ok(Transformed::no(node));
            }
            let types = scan.projected_schema.fields().iter().map(|field| {
                let own = field.data_type();
                in_zone(own, zone).unwrap_or_else(|| own.clone())
            });
            let types = types.collect();
            return with_types(node, types).map(Transformed::yes);
        }
        let node = node.map_expressions(|part| part.transform_up(|part| Ok(outer_in_session(part, zone))))?;
        // A union keeps its schema.
        if let LogicalPlan::Union(union) = node.data {
            let fields = union.schema.iter().map(|(qualifier, field)| {
                let own = field.data_type();
                let data_type = in_zone(own, zone).unwrap_or_else(|| own.clone());
                let field = Field::clone(field).with_data_type(data_type);
                (qualifier.cloned(), Arc::new(field))
            });
            let schema = DFSchema::new_with_metadata(fields.collect(), union.schema.metadata().clone())?;
            let schema = Arc::new(schema);
            return Ok(Transformed::yes(LogicalPlan::Union(Union { schema, ..union })));
        }
        Ok(Transformed::yes(node.data.recompute_schema()?))
    })?;
    Ok(converted.data)
}

/// A column of an enclosing query in the zone.
fn outer_in_session(part: Expr, zone: &str) -> Transformed<Expr> {
    match part {
        Expr::OuterReferenceColumn(field, column) => match in_zone(field.data_type(), zone) {
            Some(data_type) => {
                let field = Field::clone(&field).with_data_type(data_type);
                Transformed::yes(Expr::OuterReferenceColumn(Arc::new(field), column))
            }
            None => Transformed::no(Expr::OuterReferenceColumn(field, column)),
        },
        part => Transformed::no(part),
    }
}

/// The rows of a plan with columns of these types and of the same names.
fn with_types(plan: LogicalPlan, types: Vec<DataType>) -> Result<LogicalPlan> {
    let schema = Arc::clone(plan.schema());
    if zip(schema.fields(), &types).all(|(field, data_type)| field.data_type() == data_type) {
        return Ok(plan);
    }
    let columns = zip(schema.iter(), types).map(|((qualifier, field), data_type)| {
        let column = Expr::Column(Column::from((qualifier, field)));
        match *field.data_type() == data_type {
            true => column,
            false => cast(column, data_type).alias_qualified(qualifier.cloned(), field.name()),
        }
    });
    Projection::try_new(columns.collect(), Arc::new(plan)).map(LogicalPlan::Projection)
}
