//! Ties, empty clusters, and rejected arguments.

use galatea_kmeans::{DeviceKMeans, Init, KMeans, KMeansError, Points, PointsBuilder};
use galatea_memory::regions::MemoryManager;

use crate::{device, machine};

#[test]
fn ties_use_the_lowest_label_and_empty_clusters_remain() {
    let device = device(16 << 20);
    let machine = machine(&device);
    let manager = MemoryManager::new(&device).unwrap();
    let on = DeviceKMeans::new(&manager, machine).unwrap();
    // 0 is equally far from 1 and -1, and no point is near 100.
    let points = Points::from_columns(&[vec![0.0f32, 3.0, 3.0, -3.0]]).unwrap();
    let settings = KMeans {
        max_iter: 1,
        tol: 0.0,
        init: Init::Given(vec![1.0, -1.0, 100.0]),
        ..KMeans::new(3)
    };
    for on in [None, Some(&on)] {
        let model = settings.fit_with(&points, on, true, &mut |_| true).unwrap();
        assert_eq!(model.centroids, [2.0, -3.0, 100.0]);
        assert_eq!(model.labels.unwrap().iter().collect::<Vec<_>>(), [0, 0, 0, 1]);
        assert_eq!(model.sizes, [3, 1, 0]);
        assert_eq!(model.inertia, 4.0 + 1.0 + 1.0);
    }
}

#[test]
fn invalid_clusterings_are_rejected_with_numbers() {
    let points = Points::from_columns(&[vec![1.0f32, 2.0]]).unwrap();
    assert!(matches!(
        KMeans::new(3).fit(&points),
        Err(KMeansError::TooFewPoints {
            clusters: 3,
            points: 2
        })
    ));
    assert!(matches!(
        KMeans::new(0).fit(&points),
        Err(KMeansError::Clusters { clusters: 0, .. })
    ));
    let mut builder = PointsBuilder::new(vec!["x".to_owned(), "y".to_owned()]).unwrap();
    builder
        .append(&[[1.0, 2.0, 3.0], [f32::NAN, 1.0, f32::INFINITY]])
        .unwrap();
    match builder.finish() {
        Err(KMeansError::NotFinite { column, rows }) => assert_eq!((column.as_str(), rows), ("y", 2)),
        other => panic!("{other:?}"),
    }
}
