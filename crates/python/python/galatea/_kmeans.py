"""k-means with the conventions of scikit-learn, which it needs."""

from __future__ import annotations

from typing import Any

import numpy
import pyarrow
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from ._connection import Connection, default_connection
from ._galatea import ProgrammingError
from ._relation import Relation


class KMeans(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """Clusters points, on the GPU for many points and on the CPU for few.

    Parameters are those of `sklearn.cluster.KMeans`. `init` is `"k-means++"`, `"random"` or `"first"`.
    `connection` is the connection that computes the clusters, by default that of `galatea.sql`. Features are
    rounded to 32-bit floats, as distances from an offset if they are far from zero.
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        init: str = "k-means++",
        n_init: int = 1,
        max_iter: int = 300,
        tol: float = 1e-4,
        random_state: Any = None,
        connection: Connection | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.connection = connection

    def fit(self, X: Any, y: Any = None) -> KMeans:
        """Computes `cluster_centers_`, `labels_`, `inertia_` and `n_iter_` of the points, rows of `X`."""
        points = validate_data(self, X, dtype=[numpy.float64, numpy.float32], order="C")
        if self.n_clusters > len(points):
            raise ValueError(f"n_samples={len(points)} should be >= n_clusters={self.n_clusters}.")
        seed = check_random_state(self.random_state).randint(2**31)
        names = [f"f{feature}" for feature in range(points.shape[1])]
        table = pyarrow.table([numpy.ascontiguousarray(column) for column in points.T], names=names)
        settings = {
            "k": int(self.n_clusters),
            "init": self.init,
            "n_init": int(self.n_init),
            "max_iter": int(self.max_iter),
            "tol": float(self.tol),
            "seed": int(seed),
        }
        arguments = ", ".join(f"{name} => {_literal(value)}" for name, value in settings.items())
        query = f"SELECT * FROM kmeans((SELECT * FROM points), {arguments}) ORDER BY label"
        clusters = self._query(query, points=table).arrow()
        centers = [clusters[name].to_numpy() for name in names]
        self.cluster_centers_ = numpy.stack(centers, axis=1).astype(points.dtype, copy=False)
        self.inertia_ = float(clusters["inertia"][0].as_py())
        self.n_iter_ = int(clusters["iterations"][0].as_py())
        self._n_features_out = len(self.cluster_centers_)
        self.labels_ = self._assign(points)
        return self

    def predict(self, X: Any) -> Any:
        """The label of the nearest centroid of each point."""
        check_is_fitted(self)
        return self._assign(self._points(X))

    def transform(self, X: Any) -> Any:
        """The distances of each point to the centroids."""
        check_is_fitted(self)
        return euclidean_distances(self._points(X), self.cluster_centers_)

    def score(self, X: Any, y: Any = None) -> float:
        """The negative inertia of the points."""
        return -float((self.transform(X).min(axis=1) ** 2).sum())

    def _points(self, X: Any) -> Any:
        return validate_data(self, X, dtype=[numpy.float64, numpy.float32], order="C", reset=False)

    def _assign(self, points: Any) -> Any:
        values = pyarrow.array(numpy.ascontiguousarray(points, dtype=numpy.float64).ravel())
        lists = pyarrow.FixedSizeListArray.from_arrays(values, points.shape[1])
        rows = pyarrow.table({"point": lists, "row": numpy.arange(len(points))})
        centers = self.cluster_centers_.astype(numpy.float64).tolist()
        query = "SELECT kmeans_assign(point, $centers) AS label FROM points ORDER BY row"
        labels = self._query(query, {"centers": centers}, points=rows).arrow()["label"]
        return labels.to_numpy().astype(numpy.int32)

    def _query(self, query: str, parameters: dict[str, Any] | None = None, **tables: Any) -> Relation:
        connection = self.connection or default_connection()
        return Relation(connection, connection._query(query, parameters, tables.get))


def _literal(value: object) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if not isinstance(value, (int, float)):
        raise ProgrammingError(f"a setting of k-means cannot be {value!r}")
    return repr(value)
