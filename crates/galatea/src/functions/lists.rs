//! `list_aggregate(list, 'name', ...)`: an aggregate function over the elements of each list.
//!
//! The function is one of DataFusion's aggregate functions, or `mode`, with its own type of result. Further
//! arguments are those of the function: `list_aggregate(words, 'string_agg', ', ')`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, new_null_array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::common::{ScalarValue, exec_err, plan_err};
use datafusion::error::Result;
use datafusion::functions_aggregate::all_default_aggregate_functions;
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{
    AggregateUDF, ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion::physical_expr::expressions::{Column, Literal};

use super::mode::Mode;
use super::wrong_arguments;

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Aggregate {
    signature: Signature,
    aliases: Vec<String>,
}

impl Aggregate {
    pub(super) fn new() -> Self {
        let aliases = ["list_aggr", "array_aggregate", "array_aggr"];
        Self {
            signature: Signature::user_defined(Volatility::Immutable),
            aliases: aliases.map(str::to_owned).to_vec(),
        }
    }
}

/// Names of DuckDB for functions that have another name here.
const NAMES: [(&str, &str); 5] = [
    ("first", "first_value"),
    ("last", "last_value"),
    ("list", "array_agg"),
    ("approx_count_distinct", "approx_distinct"),
    ("variance", "var"),
];

fn function(name: &str) -> Result<Arc<AggregateUDF>> {
    let lower = name.to_ascii_lowercase();
    let renamed = NAMES.iter().find(|(known, _)| *known == lower);
    let known = renamed.map_or(lower.as_str(), |(_, renamed)| renamed);
    let mut functions = all_default_aggregate_functions();
    functions.push(Arc::new(Mode::new().into()));
    let is_named = |function: &&Arc<AggregateUDF>| {
        function.name() == known || function.aliases().iter().any(|alias| alias == known)
    };
    match functions.iter().find(is_named) {
        Some(function) => Ok(Arc::clone(function)),
        None => plan_err!(
            "list_aggregate has no aggregate function {name}\nhint: functions are count, sum, avg, min, max and those \
             of the list of functions"
        ),
    }
}

/// The type of the elements of a list.
fn element(list: &DataType) -> Option<DataType> {
    match list {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            Some(item.data_type().clone())
        }
        DataType::Null => Some(DataType::Null),
        _ => None,
    }
}

/// An aggregate function over elements of a type.
struct Over {
    function: AggregateFunctionExpr,
    /// The type that the elements are converted to.
    element: DataType,
}

impl Over {
    fn new(name: &str, element: DataType, further: &[ScalarValue]) -> Result<Self> {
        let function = function(name)?;
        let mut fields: Vec<FieldRef> = vec![Arc::new(Field::new("element", element, true))];
        for value in further {
            fields.push(Arc::new(Field::new("argument", value.data_type(), true)));
        }
        let fields = fields_with_udf(&fields, function.as_ref())?;
        let Some(first) = fields.first() else {
            return plan_err!("list_aggregate: the function {name} takes no argument");
        };
        let element = first.data_type().clone();
        let schema: SchemaRef = Arc::new(Schema::new(vec![Arc::clone(first)]));
        let mut arguments: Vec<Arc<dyn PhysicalExpr>> = vec![Arc::new(Column::new(first.name(), 0))];
        for (value, field) in further.iter().zip(&fields[1..]) {
            arguments.push(Arc::new(Literal::new(value.cast_to(field.data_type())?)));
        }
        let function = AggregateExprBuilder::new(function, arguments)
            .schema(schema)
            .alias(name)
            .build()?;
        Ok(Self { function, element })
    }

    /// The result for the elements of one list.
    fn of(&self, elements: &ArrayRef) -> Result<ScalarValue> {
        let mut accumulator = self.function.create_accumulator()?;
        let mut values = vec![cast(elements, &self.element)?];
        for argument in &self.function.expressions()[1..] {
            if let Some(literal) = argument.downcast_ref::<Literal>() {
                values.push(literal.value().to_array_of_size(elements.len())?);
            }
        }
        if !elements.is_empty() {
            accumulator.update_batch(&values)?;
        }
        accumulator.evaluate()
    }
}

/// The name of the function, a constant.
fn name(value: Option<&ScalarValue>) -> Result<&str> {
    match value.and_then(|value| value.try_as_str().flatten()) {
        Some(name) => Ok(name),
        None => plan_err!(
            "the second argument of list_aggregate must be the name of an aggregate function\nhint: list_aggregate(l, 'sum')"
        ),
    }
}

impl ScalarUDFImpl for Aggregate {
    fn name(&self) -> &'static str {
        "list_aggregate"
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [list, name, further @ ..] if element(list).is_some() && name.is_string() => {
                let list = match list {
                    DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
                        DataType::List(Arc::clone(item))
                    }
                    DataType::Null => DataType::List(Arc::new(Field::new_list_field(DataType::Null, true))),
                    list => list.clone(),
                };
                let mut types = vec![list, DataType::Utf8];
                types.extend_from_slice(further);
                Ok(types)
            }
            types => wrong_arguments(
                self.name(),
                "a list and the name of an aggregate function",
                types,
                "list_aggregate([1, 2], 'sum')",
            ),
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        wrong_arguments(
            self.name(),
            "constants after the list",
            types,
            "list_aggregate([1, 2], 'sum')",
        )
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let types: Vec<DataType> = args
            .arg_fields
            .iter()
            .map(|field| field.data_type().clone())
            .collect();
        let Some(element) = types.first().and_then(element) else {
            return self
                .return_type(&types)
                .map(|own| Arc::new(Field::new("", own, true)));
        };
        let constants: Option<Vec<ScalarValue>> = args
            .scalar_arguments
            .iter()
            .skip(2)
            .map(|value| value.cloned())
            .collect();
        let name = name(args.scalar_arguments.get(1).copied().flatten())?;
        let Some(constants) = constants else {
            return plan_err!(
                "the further arguments of list_aggregate must be constants, as in list_aggregate(l, 'string_agg', ', ')"
            );
        };
        let over = Over::new(name, element, &constants)?;
        let own = over.function.field().data_type().clone();
        Ok(Arc::new(Field::new(self.name(), own, true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [list, function, further @ ..] = args.args.as_slice() else {
            return exec_err!("{} takes two arguments, got {}", self.name(), args.args.len());
        };
        let scalar = |value: &ColumnarValue| match value {
            ColumnarValue::Scalar(value) => Some(value.clone()),
            ColumnarValue::Array(_) => None,
        };
        let function = scalar(function);
        let further: Vec<ScalarValue> = further.iter().filter_map(scalar).collect();
        let lists = list.to_array(args.number_rows)?;
        let lists = lists.as_list::<i32>();
        let over = Over::new(name(function.as_ref())?, lists.value_type(), &further)?;
        let own = args.return_field.data_type();
        let null = ScalarValue::try_from(own)?;
        let results = lists.iter().map(|elements| match elements {
            Some(elements) => over.of(&elements),
            None => Ok(null.clone()),
        });
        let results: Vec<ScalarValue> = results.collect::<Result<_>>()?;
        let array = match results.is_empty() {
            true => new_null_array(own, 0),
            false => ScalarValue::iter_to_array(results)?,
        };
        Ok(ColumnarValue::Array(array))
    }
}
