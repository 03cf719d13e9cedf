//! The layout of centroids.

/// Centroids in the layout of device code: an origin, rows relative to it, and initial values of scores.
/// `kmeans/nearest.cuh` describes the layout.
#[derive(Debug, Clone, PartialEq)]
pub struct Centroids {
    clusters: usize,
    features: usize,
    words: Vec<f32>,
}

impl Centroids {
    /// Number of floats of `clusters` centroids of `features` features.
    #[must_use]
    pub fn floats(clusters: usize, features: usize) -> usize {
        features.next_multiple_of(4) + clusters.next_multiple_of(4) * (features + 1)
    }

    /// Lays out centroids, `rows` of `features` each, relative to a value at their centre. That value has few
    /// significant bits, so that its difference to a point is exact unless the point is much nearer to zero
    /// than the centroids are to each other.
    ///
    /// # Panics
    /// If `rows` is not a whole number of rows, or empty.
    #[must_use]
    pub fn new(rows: &[f64], features: usize) -> Self {
        assert!(
            !rows.is_empty() && rows.len().is_multiple_of(features),
            "whole rows"
        );
        let clusters = rows.len() / features;
        let mut words = vec![0f32; Self::floats(clusters, features)];
        let (origin, rest) = words.split_at_mut(features.next_multiple_of(4));
        let (relative, norms) = rest.split_at_mut(clusters.next_multiple_of(4) * features);
        for (f, origin) in origin.iter_mut().take(features).enumerate() {
            let values = || rows.iter().skip(f).step_by(features).copied();
            let mean = values().sum::<f64>() / clusters as f64;
            let spread = values().map(|value| (value - mean).abs()).fold(0.0, f64::max);
            *origin = if spread > 0.0 {
                let unit = (spread.log2().floor() - 2.0).exp2();
                ((mean / unit).round() * unit) as f32
            } else {
                mean as f32
            };
        }
        norms.fill(f32::NEG_INFINITY);
        for (cluster, row) in rows.chunks_exact(features).enumerate() {
            let mut square = 0.0;
            for (f, value) in row.iter().enumerate() {
                let value = (value - f64::from(origin[f])) as f32;
                relative[cluster * features + f] = value;
                square += f64::from(value) * f64::from(value);
            }
            norms[cluster] = (-0.5 * square) as f32;
        }
        Self {
            clusters,
            features,
            words,
        }
    }

    /// Number of centroids.
    #[must_use]
    pub fn clusters(&self) -> usize {
        self.clusters
    }

    /// The origin of rows.
    #[must_use]
    pub fn origin(&self) -> &[f32] {
        &self.words[..self.features]
    }

    /// The rows relative to the origin.
    #[must_use]
    pub fn relative(&self) -> &[f32] {
        &self.words[self.features.next_multiple_of(4)..][..self.clusters * self.features]
    }

    /// Replaces the rows; the origin is unchanged.
    ///
    /// # Panics
    /// If the number of values differs.
    pub fn set_relative(&mut self, rows: &[f32]) {
        let start = self.features.next_multiple_of(4);
        let norms = start + self.clusters.next_multiple_of(4) * self.features;
        self.words[start..start + self.clusters * self.features].copy_from_slice(rows);
        for (cluster, row) in rows.chunks_exact(self.features).enumerate() {
            let square: f64 = row.iter().map(|value| f64::from(*value).powi(2)).sum();
            self.words[norms + cluster] = (-0.5 * square) as f32;
        }
    }

    /// The words to upload to a device.
    #[must_use]
    pub fn words(&self) -> &[f32] {
        &self.words
    }

    /// Replaces the words by those of a device.
    ///
    /// # Panics
    /// If the number of words differs.
    pub fn set_words(&mut self, words: Vec<f32>) {
        assert_eq!(words.len(), self.words.len(), "words of the same centroids");
        self.words = words;
    }

    /// The centroids: origin and row together, row after row.
    #[must_use]
    pub fn rows(&self) -> Vec<f64> {
        let (origin, rest) = self.words.split_at(self.features.next_multiple_of(4));
        let rows = rest[..self.clusters * self.features].chunks_exact(self.features);
        rows.flat_map(|row| {
            let values = row.iter().zip(origin);
            values.map(|(value, origin)| f64::from(*value) + f64::from(*origin))
        })
        .collect()
    }
}
