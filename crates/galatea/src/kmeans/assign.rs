//! `kmeans_assign(point, centroids)`: the label of the centroid nearest to a point.
//!
//! ```sql
//! WITH c AS (SELECT array_agg([x, y] ORDER BY label) AS centroids FROM kmeans((SELECT x, y FROM t), k => 8))
//! SELECT id, kmeans_assign([x, y], centroids) AS label FROM new_points CROSS JOIN c;
//! ```
//!
//! Labels number centroids from 0, in the order of the list. Ties go to the lowest. Distances are computed in
//! 64 bits. So the label may differ from `kmeans_labels` for a point with two nearest centroids that only
//! 32-bit rounding distinguishes.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, ListArray, UInt32Builder};
use arrow::datatypes::{DataType, Field, Float64Type};
use datafusion::common::{exec_err, plan_err};
use datafusion::error::Result;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::registry::FunctionRegistry;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

const NAME: &str = "kmeans_assign";

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Assign {
    signature: Signature,
}

/// Adds the function to a session, unless it has one of that name.
pub(super) fn register(state: &mut SessionState) {
    if state.scalar_functions().contains_key(NAME) {
        return;
    }
    let signature = Signature::user_defined(Volatility::Immutable);
    if let Err(error) = state.register_udf(Arc::new(ScalarUDF::new_from_impl(Assign { signature }))) {
        tracing::warn!(%error, "{NAME}() could not be registered");
    }
}

fn list_of(item: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(item, true)))
}

/// The type of a list's items.
fn item(list: &DataType) -> Option<&DataType> {
    match list {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            Some(item.data_type())
        }
        _ => None,
    }
}

impl ScalarUDFImpl for Assign {
    fn name(&self) -> &'static str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let numeric = |item: &DataType| item.is_numeric() || item.is_null();
        if let [point, centroids] = types
            && (point.is_null() || item(point).is_some_and(numeric))
            && (centroids.is_null() || item(centroids).and_then(item).is_some_and(numeric))
        {
            let point = list_of(DataType::Float64);
            return Ok(vec![point.clone(), list_of(point)]);
        }
        let types: Vec<String> = types.iter().map(ToString::to_string).collect();
        plan_err!(
            "{NAME} takes a point and a list of centroids, lists of numbers as long as the point, not ({})\n\
             hint: {NAME}([x, y], [[0, 0], [10, 5]])",
            types.join(", ")
        )
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::UInt32)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let [point, centroids] = args.args.as_slice() else {
            return exec_err!("{NAME} takes two arguments, got {}", args.args.len());
        };
        let points = point.to_array(rows)?;
        let points: &ListArray = points.as_list();
        let mut labels = UInt32Builder::with_capacity(rows);
        if let ColumnarValue::Scalar(centroids) = centroids {
            // One list for all points.
            let centroids = centroids.to_array()?;
            let centroids = Centroids::of(centroids.as_list(), 0)?;
            for row in 0..rows {
                labels.append_option(label(points, row, centroids.as_ref())?);
            }
        } else {
            let lists = centroids.to_array(rows)?;
            let lists: &ListArray = lists.as_list();
            for row in 0..rows {
                labels.append_option(label(points, row, Centroids::of(lists, row)?.as_ref())?);
            }
        }
        Ok(ColumnarValue::Array(Arc::new(labels.finish()) as ArrayRef))
    }
}

/// A list of centroids.
struct Centroids {
    rows: Vec<f64>,
    features: usize,
}

impl Centroids {
    /// The centroids of a row; `None` if the list is NULL.
    fn of(lists: &ListArray, row: usize) -> Result<Option<Self>> {
        if lists.is_null(row) {
            return Ok(None);
        }
        let list = lists.value(row);
        let list: &ListArray = list.as_list();
        let mut centroids = Self {
            rows: Vec::new(),
            features: 0,
        };
        for label in 0..list.len() {
            let centroid = if list.is_null(label) {
                None
            } else {
                coordinates(&list.value(label))
            };
            let Some(centroid) = centroid else {
                return exec_err!("{NAME}: centroid {label} is NULL, or has a coordinate that is NULL");
            };
            if label > 0 && centroid.len() != centroids.features {
                return exec_err!(
                    "{NAME}: centroid {label} has {} coordinates, centroid 0 has {}",
                    centroid.len(),
                    centroids.features
                );
            }
            if let Some(value) = centroid.iter().find(|value| !value.is_finite()) {
                return exec_err!("{NAME}: centroid {label} has the coordinate {value}");
            }
            centroids.features = centroid.len();
            centroids.rows.extend(centroid);
        }
        if centroids.rows.is_empty() {
            return exec_err!("{NAME}: there are no centroids, or they have no coordinates");
        }
        Ok(Some(centroids))
    }

    /// The centroid nearest to a point; on a tie, the first.
    fn nearest(&self, point: &[f64]) -> u32 {
        let distance = |centroid: &[f64]| {
            let squares = centroid.iter().zip(point).map(|(c, x)| (x - c) * (x - c));
            squares.sum::<f64>()
        };
        let distances = self.rows.chunks_exact(self.features).map(distance).enumerate();
        let nearest = distances.reduce(|best, other| if other.1 < best.1 { other } else { best });
        nearest.map_or(0, |(label, _)| label as u32)
    }
}

/// The values of a list; `None` if one is NULL.
fn coordinates(list: &ArrayRef) -> Option<Vec<f64>> {
    let values: &Float64Array = list.as_primitive::<Float64Type>();
    (values.null_count() == 0).then(|| values.values().to_vec())
}

/// The label of a row's point; `None` if the point, one of its coordinates or the centroids are NULL.
fn label(points: &ListArray, row: usize, centroids: Option<&Centroids>) -> Result<Option<u32>> {
    let Some(centroids) = centroids.filter(|_| points.is_valid(row)) else {
        return Ok(None);
    };
    let Some(point) = coordinates(&points.value(row)) else {
        return Ok(None);
    };
    if point.len() != centroids.features {
        return exec_err!(
            "{NAME}: a point has {} coordinates, the centroids have {}",
            point.len(),
            centroids.features
        );
    }
    if let Some(value) = point.iter().find(|value| !value.is_finite()) {
        return exec_err!("{NAME}: a point has the coordinate {value}");
    }
    Ok(Some(centroids.nearest(&point)))
}
