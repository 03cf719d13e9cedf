"""k-means with the conventions of scikit-learn."""

import numpy
import pytest
from sklearn.cluster import KMeans as OfSklearn
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import galatea


@parametrize_with_checks([galatea.KMeans(n_clusters=2, max_iter=20)])
def test_conventions_of_sklearn(estimator, check):
    check(estimator)


def test_clusters_of_blobs():
    points, truth = make_blobs(3000, centers=5, n_features=4, cluster_std=0.3, random_state=3)
    ours = galatea.KMeans(5, n_init=4, random_state=1).fit(points)
    theirs = OfSklearn(5, n_init=4, random_state=1).fit(points)
    assert adjusted_rand_score(truth, ours.labels_) == 1.0
    assert ours.inertia_ == pytest.approx(theirs.inertia_, rel=1e-4)
    order = lambda centers: centers[numpy.lexsort(centers.T)]
    numpy.testing.assert_allclose(order(ours.cluster_centers_), order(theirs.cluster_centers_), atol=1e-3)
    assert (ours.predict(points) == ours.labels_).all()
    assert ours.transform(points[:7]).shape == (7, 5)
    assert ours.score(points) == pytest.approx(-ours.inertia_, rel=1e-4)


def test_pipeline_and_names_of_features():
    points, _ = make_blobs(500, centers=3, random_state=0)
    pipeline = make_pipeline(StandardScaler(), galatea.KMeans(3, random_state=0))
    assert set(pipeline.fit_predict(points)) == {0, 1, 2}
    assert list(pipeline[-1].get_feature_names_out()) == ["kmeans0", "kmeans1", "kmeans2"]


def test_seed_determines_the_result():
    points = numpy.random.default_rng(0).normal(size=(1000, 3))
    first, second = (galatea.KMeans(4, random_state=5).fit(points).labels_ for _ in range(2))
    assert (first == second).all()


def test_wrong_settings_are_refused():
    points = numpy.zeros((5, 2))
    with pytest.raises(ValueError, match="n_samples=5 should be >= n_clusters=9"):
        galatea.KMeans(9).fit(points)
    with pytest.raises(galatea.Error, match="init"):
        galatea.KMeans(2, init="best").fit(points)


def test_emulated_device_computes_the_clusters(emulated):
    points, truth = make_blobs(2000, centers=3, cluster_std=0.2, random_state=1)
    model = galatea.KMeans(3, n_init=3, random_state=0, connection=emulated).fit(points)
    assert adjusted_rand_score(truth, model.labels_) == 1.0
