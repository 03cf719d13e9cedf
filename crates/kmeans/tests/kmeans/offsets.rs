//! Points from 64-bit floats, far from zero.

use galatea_kmeans::{Init, KMeans, PointsBuilder};

/// 32-bit floats distinguish times of 2026 only in steps of 128 s.
#[test]
fn offsets_preserve_differences_of_64_bit_points() {
    let start = 1_795_000_000.0;
    let times: Vec<f64> = (0..1000)
        .map(|i| start + f64::from(i % 4) * 5.0 + f64::from(i) * 1e-3)
        .collect();
    let mut builder = PointsBuilder::new(vec!["time".to_owned()]).unwrap();
    for some in times.chunks(300) {
        builder.append_wide(&[some]).unwrap();
    }
    let points = builder.finish().unwrap();
    assert!((points.rows(999..1000)[0] - times[999]).abs() < 1e-5);
    let first: Vec<f64> = (0..4).map(|i| start + f64::from(i) * 5.0).collect();
    let settings = KMeans {
        init: Init::Given(first),
        ..KMeans::new(4)
    };
    let model = settings.fit_predict(&points).unwrap();
    assert_eq!(model.sizes, [250; 4]);
    for (cluster, centroid) in model.centroids.iter().enumerate() {
        let of = times.iter().skip(cluster).step_by(4).sum::<f64>() / 250.0;
        assert!((centroid - of).abs() < 1e-4, "{centroid} is not {of}");
    }
    // Labels by a model with another offset of its points.
    let mut builder = PointsBuilder::new(vec!["time".to_owned()]).unwrap();
    builder.append(&[[start as f32, start as f32 + 128.0]]).unwrap();
    let others = model.predict(&builder.finish().unwrap(), None).unwrap();
    assert_eq!(others.iter().last(), Some(3));
}
