//! k-means by its definition, in 64-bit floats.

/// Centroids, sizes, inertia and labels after some iterations.
pub(crate) struct Reference {
    pub(crate) centroids: Vec<f64>,
    pub(crate) sizes: Vec<u64>,
    pub(crate) inertia: f64,
    pub(crate) labels: Vec<u32>,
    /// By point: the difference between the squared distances to the second nearest and to the nearest
    /// centroid.
    pub(crate) margins: Vec<f64>,
}

fn assign(columns: &[Vec<f32>], centroids: &[f64], point: usize) -> (u32, f64, f64) {
    let d = columns.len();
    let (mut label, mut best, mut second) = (0, f64::INFINITY, f64::INFINITY);
    for (cluster, row) in centroids.chunks_exact(d).enumerate() {
        let square: f64 = row
            .iter()
            .zip(columns)
            .map(|(c, x)| (f64::from(x[point]) - c).powi(2))
            .sum();
        if square < best {
            (label, second, best) = (cluster as u32, best, square);
        } else {
            second = second.min(square);
        }
    }
    (label, best, second)
}

/// Runs exactly `iterations` iterations from the given centroids, and computes labels by the last centroids.
pub(crate) fn reference(columns: &[Vec<f32>], first: &[f64], iterations: u32) -> Reference {
    let (d, n, k) = (columns.len(), columns[0].len(), first.len() / columns.len());
    let mut centroids = first.to_vec();
    for _ in 0..iterations {
        let (mut sums, mut sizes) = (vec![0.0; k * d], vec![0u64; k]);
        for point in 0..n {
            let label = assign(columns, &centroids, point).0 as usize;
            sizes[label] += 1;
            for f in 0..d {
                sums[label * d + f] += f64::from(columns[f][point]);
            }
        }
        for (cluster, size) in sizes.iter().enumerate().filter(|(_, size)| **size > 0) {
            for f in 0..d {
                centroids[cluster * d + f] = sums[cluster * d + f] / *size as f64;
            }
        }
    }
    let (mut sizes, mut inertia, mut labels, mut margins) = (vec![0; k], 0.0, Vec::new(), Vec::new());
    for point in 0..n {
        let (label, best, second) = assign(columns, &centroids, point);
        sizes[label as usize] += 1;
        inertia += best;
        labels.push(label);
        margins.push(second - best);
    }
    Reference {
        centroids,
        sizes,
        inertia,
        labels,
        margins,
    }
}
