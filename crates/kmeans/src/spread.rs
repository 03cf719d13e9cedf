//! The spread of points and centroids, and whether matrix units can distinguish them.

use galatea_kernels::kmeans::{Centroids, matrix_scale};

use crate::Points;

/// Minimum number of points per cluster for matrix units. They may assign a point to another cluster at the
/// same distance, which would be noticeable in the mean of fewer points; 32-bit floats are fast enough for
/// these.
pub(crate) const FEW_POINTS: u64 = 1024;
/// Maximum number of points from which the variance of features is estimated.
const VARIANCE_SAMPLE: u64 = 1 << 16;
/// Maximum ratio of the points' square radius to their variance for matrix units. Their resolution is a
/// fraction of the radius, so a few points far from all others would leave too little for the others.
const RADIUS_OF_VARIANCE: f64 = 256.0;

/// The mean of the features' variances, computed once from a sample.
pub(crate) fn variance(points: &Points) -> f64 {
    *points.variance.get_or_init(|| variance_of_sample(points))
}

fn variance_of_sample(points: &Points) -> f64 {
    let d = points.features();
    let step = points.len().div_ceil(VARIANCE_SAMPLE).max(1);
    let mut rows = Vec::new();
    for point in (0..points.len()).step_by(step as usize) {
        points.gather(point, &mut rows);
    }
    let count = (rows.len() / d).max(1) as f64;
    let of_feature = |f: usize| {
        let values = || rows.iter().skip(f).step_by(d);
        let mean = values().sum::<f64>() / count;
        values().map(|value| (value - mean).powi(2)).sum::<f64>() / count
    };
    (0..d).map(of_feature).sum::<f64>() / d as f64
}

/// The sum over the features of the square of the greatest absolute value, of points and centroids, relative
/// to the origin. Means of points are not farther than the points, so it holds for all iterations.
pub(crate) fn square_radius(points: &Points, centroids: &Centroids) -> f64 {
    let d = points.features();
    let (origin, relative) = (centroids.origin(), centroids.relative());
    let of_feature = |f: usize| {
        let (least, most) = points.extents()[f];
        let distance = |value: f32| (f64::from(value) - f64::from(origin[f])).abs();
        let rows = relative.iter().skip(f).step_by(d);
        let of_rows = rows.map(|value| f64::from(value.abs()));
        of_rows.fold(distance(least).max(distance(most)), f64::max)
    };
    (0..d).map(|f| of_feature(f).powi(2)).sum()
}

/// Factor of points and centroids for matrix units, if these can distinguish them.
pub(crate) fn scale(points: &Points, centroids: &Centroids) -> Option<f32> {
    let radius = square_radius(points, centroids);
    let limit = RADIUS_OF_VARIANCE * variance(points) * points.features() as f64;
    (radius <= limit).then(|| matrix_scale(radius)).flatten()
}
