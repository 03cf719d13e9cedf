//! How far points and centroids are spread, and whether matrix units tell them apart.

use galatea_kernels::kmeans::{Centroids, matrix_scale};

use crate::Points;

/// With fewer points a cluster, one that matrix units give to another cluster that is as far would be seen in
/// its mean; 32-bit floats are fast enough for them.
pub(crate) const FEW_POINTS: u64 = 1024;
/// Points that the variance of features is estimated from at most.
const VARIANCE_SAMPLE: u64 = 1 << 16;
/// Matrix units take points whose square radius is at most so many times their variance: their resolution is
/// a share of the radius, and a few points far from all others would leave none for the others.
const RADIUS_OF_VARIANCE: f64 = 256.0;

/// The mean of the features' variances, of a sample that is taken once.
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

/// The sum of the squares of the greatest values by feature, of points and of centroids, relative to the
/// origin. Means of points are no farther than points are, so it holds for all iterations.
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

/// Factor of points and centroids for matrix units, where these can tell them apart.
pub(crate) fn scale(points: &Points, centroids: &Centroids) -> Option<f32> {
    let radius = square_radius(points, centroids);
    let limit = RADIUS_OF_VARIANCE * variance(points) * points.features() as f64;
    (radius <= limit).then(|| matrix_scale(radius)).flatten()
}
