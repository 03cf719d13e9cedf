//! Definitions shared by host and device for k-means: the layout of centroids and chunks, and the shape of a
//! pass.

mod centroids;

pub use centroids::Centroids;

/// Words of a chunk in the table of a pass: address of the points, address of the labels or 0, points,
/// stride.
pub const CHUNK_WORDS: usize = 4;
/// Maximum number of starts of one launch of [`KmeansFit`](crate::KmeansFit).
pub const FIT_STARTS: usize = 16;
/// Words of a start in its arguments: addresses of centroids, partials, shifts, masses and state, and the
/// bits of the scale.
pub(crate) const START_WORDS: usize = 6;
/// Strides of chunks are multiples of this, in points: a warp loads whole runs of this length.
pub const STRIDE_POINTS: usize = 128;
/// Maximum number of features of its points that a thread holds in registers; passes over more are wide
/// (`kmeans/wide.cuh`).
pub const MOST_FEATURES: u32 = 32;

/// How accumulators are replicated: `kmeans/sums.cuh` has a table of costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sums {
    /// No sums: only labels, or the inertia, are computed.
    None,
    /// One copy per thread in registers, for a handful of accumulators.
    Registers,
    /// One copy per thread in shared memory: Cluster Merge with Partitioned Private (thesis §5.2.1, §5.2.2).
    Private,
    /// Lanes own features: Partitioned Features with Partitioned Local (thesis §5.2.1, §5.2.2), within a
    /// warp.
    Features,
    /// Several copies per block, by atomics in shared memory.
    Shared,
    /// In device memory, by atomics.
    Global,
}

impl Sums {
    /// All summing methods, in the order of the table.
    pub const ALL: [Self; 5] = [
        Self::Registers,
        Self::Private,
        Self::Features,
        Self::Shared,
        Self::Global,
    ];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Registers => "registers",
            Self::Private => "private",
            Self::Features => "features",
            Self::Shared => "shared",
            Self::Global => "global",
        }
    }
}

/// How a pass finds the nearest centroids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Scores {
    /// A thread holds whole points and iterates over the centroids, in 32-bit floats (`kmeans/nearest.cuh`,
    /// `kmeans/wide.cuh`).
    #[default]
    Lanes,
    /// The matrix units, by products of pairs of halves: labels are correct if squared distances differ by
    /// more than [`matrix_error`] (`kmeans/matrix.cuh`).
    Matrix,
}

impl Scores {
    /// Both methods.
    pub const ALL: [Self; 2] = [Self::Lanes, Self::Matrix];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Lanes => "lanes",
            Self::Matrix => "matrix",
        }
    }
}

/// Units that the scores of [`Scores::Matrix`] span for points and centroids within a radius of 1:
/// `kmeans/matrix.cuh` derives it. It is reduced by a hundredth, for the rounding of the unit itself.
const MATRIX_UNITS: f64 = 0.99 * 7_864_320.0;

/// Factor of points and centroids for [`Scores::Matrix`], if `square_radius` is the sum of the squares of the
/// greatest values by feature, relative to the origin. `None`: it is not a 32-bit float. It has 8 significant
/// bits, so that its product with an origin, which has few, is exact.
#[must_use]
pub fn matrix_scale(square_radius: f64) -> Option<f32> {
    let most = (MATRIX_UNITS / square_radius).sqrt() as f32;
    let scale = f32::from_bits(most.to_bits() & 0xffff_0000);
    (scale.is_normal() && (scale * scale).is_normal()).then_some(scale)
}

/// Maximum difference of two squared distances that [`Scores::Matrix`] may order wrongly, about 2^-17 of the
/// square radius for 4 features: a score has an error of 2^-21 of the radius for its halves, of half that for
/// the omitted product of halves, of half a unit for its norm, and of a unit for each sum and 4 for the bits
/// of 16 products a step that the matrix units truncate; squared distances differ by twice as much as scores,
/// and there are two. Units are up to 2^-6 longer than the scale's limit.
#[must_use]
pub fn matrix_error(features: u32, square_radius: f64) -> f64 {
    let units = 0.5 + 5.0 * f64::from(features.div_ceil(4));
    let unit = (1.0 + 2f64.powi(-6)) / MATRIX_UNITS;
    4.0 * (units * unit + 1.5 * 2f64.powi(-21)) * square_radius
}

/// Number of centroids that a pass by matrix units processes at once, limited by the numbers in its keys.
const GROUP: u32 = 64;
/// Columns of a tile of the matrix units.
const TILE: u32 = 8;
/// Maximum number of words of centroids that a thread of such a pass holds; larger ones are in shared memory.
const HELD_WORDS: u32 = 48;
/// Maximum number of bytes of centroids that such a pass has in shared memory; larger ones are loaded one
/// group at a time, which leaves space for sums and, with more than [`MOST_FEATURES`] features, points.
const SHARED_CENTROIDS: [u64; 2] = [128 << 10, 64 << 10];
/// Features per step of the matrix units if there are more than [`MOST_FEATURES`].
const STEP_FEATURES: u32 = 16;

/// Bytes of a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LabelWidth {
    /// Up to 256 clusters.
    One,
    /// Up to 65536 clusters.
    Two,
    /// More.
    Four,
}

impl LabelWidth {
    /// The narrowest width for the number of clusters.
    #[must_use]
    pub fn of(clusters: u32) -> Self {
        match clusters {
            0..=0x100 => Self::One,
            0x101..=0x1_0000 => Self::Two,
            _ => Self::Four,
        }
    }

    /// The number of bytes.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            Self::One => 1,
            Self::Two => 2,
            Self::Four => 4,
        }
    }
}

/// The variant of a pass that is compiled, and the shape of its blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PassShape {
    /// d. Above [`MOST_FEATURES`] the pass is wide: it sums by [`Sums::Features`], [`Sums::Global`] or not at
    /// all.
    pub features: u32,
    /// k.
    pub clusters: u32,
    /// How it finds the nearest centroids. With matrix units it sums by [`Sums::Features`], [`Sums::Shared`]
    /// (not wide) or [`Sums::Global`], and neither writes nor reads labels.
    pub scores: Scores,
    /// How it sums.
    pub sums: Sums,
    /// Points per thread: 1, 2 or a multiple of 4; 4 for [`Sums::Features`]. In a wide pass by matrix units
    /// 4, or less; then 4 / `points` warps have the same points and share the centroids.
    pub points: u32,
    /// Threads of a block, whole warps.
    pub threads: u32,
    /// Number of copies that the threads of a block share, a power of two: accumulators of [`Sums::Shared`],
    /// masses of [`Sums::Features`]; in a wide pass the number of groups of threads; by matrix units the
    /// copies of a warp for [`Sums::Features`]: 8, 16 or 32, or 32 divided by the features rounded up to a
    /// power of two.
    pub copies: u32,
    /// Whether threads load their next points before they compute on the current ones: in a wide pass by
    /// matrix units shared memory then holds points of two tiles.
    pub ahead: bool,
    /// Whether they compare centroids in pairs: pays from 16 clusters on.
    pub paired: bool,
    /// Whether labels are read from where they would be written.
    pub given: bool,
    /// Width of the written labels, if any.
    pub labels: Option<LabelWidth>,
    /// Whether squared distances are summed.
    pub inertia: bool,
}

/// Maximum number of points that are added to a float accumulator before it is added to one of doubles, if it
/// is not shared by a block's threads.
const POINTS_OF_A_FLOAT: u64 = 4096;

/// The same in a wide pass, which merges more words.
const POINTS_OF_A_WIDE_FLOAT: u64 = 16384;

impl PassShape {
    /// Points that a block processes at a time.
    #[must_use]
    pub fn tile_points(&self) -> u64 {
        let held = u64::from(self.threads) * u64::from(self.points);
        match self.scores {
            Scores::Lanes => held,
            Scores::Matrix => held / 4,
        }
    }

    /// Number of lanes that share the features of a point if they own them, by matrix units.
    fn owners(&self) -> u32 {
        match self.sums {
            Sums::Features => 32 / self.copies.clamp(1, 8),
            _ => 4,
        }
    }

    /// Number of sums that a lane then has for a cluster's feature: points of a quad are added to different
    /// sums and do not wait for each other.
    fn chains(&self) -> u32 {
        match (self.sums, self.scores) {
            (Sums::Features, Scores::Matrix) if !self.is_wide() => (self.copies / 8).max(1),
            _ => 1,
        }
    }

    /// Features of a point that a thread holds.
    fn steps(&self) -> u32 {
        self.features.div_ceil(4)
    }

    /// Warps with the same points, in a wide pass by matrix units.
    #[must_use]
    pub fn shares(&self) -> u32 {
        match self.scores {
            Scores::Matrix if self.is_wide() => 4 / self.points.clamp(1, 4),
            _ => 1,
        }
    }

    /// Tiles of a group of centroids, by matrix units.
    fn group_tiles(&self) -> u32 {
        let tiles = self.clusters.div_ceil(TILE).min(GROUP / TILE);
        tiles.next_multiple_of(self.shares())
    }

    /// Whether threads hold the centroids for the matrix units.
    #[must_use]
    pub fn holds_centroids(&self) -> bool {
        self.features <= MOST_FEATURES
            && self.clusters <= GROUP
            && self.group_tiles() * 2 * self.steps() <= HELD_WORDS
    }

    /// Whether a block loads the centroids for the matrix units one group at a time, for each tile of points.
    #[must_use]
    pub fn streams_centroids(&self) -> bool {
        let most = SHARED_CENTROIDS[usize::from(self.is_wide())];
        self.clusters > GROUP && 4 * self.centroid_words() > most
    }

    /// Words of all centroids in the layout of the matrix units.
    fn centroid_words(&self) -> u64 {
        u64::from(self.all_tiles()) * self.tile_words()
    }

    /// Words of a tile of centroids.
    fn tile_words(&self) -> u64 {
        match self.is_wide() {
            true => 128 * u64::from(self.features.div_ceil(STEP_FEATURES)),
            false => 64 * u64::from(self.steps()),
        }
    }

    /// Number of tiles of whole groups of centroids.
    fn all_tiles(&self) -> u32 {
        self.clusters.next_multiple_of(self.group_tiles() * TILE) / TILE
    }

    /// Whether there are more features than registers hold.
    #[must_use]
    pub fn is_wide(&self) -> bool {
        self.features > MOST_FEATURES
    }

    /// Number of lanes that share the features of a point, for [`Sums::Features`].
    fn lanes(&self) -> u64 {
        u64::from(self.features.next_power_of_two().min(16))
    }

    /// Dynamic shared memory of a block: the sum of `Centroids<D>::floats` and the `floats` of the sums in
    /// device code (formulas in `kmeans/sums.cuh`).
    #[must_use]
    pub fn shared_bytes(&self) -> u64 {
        let (k, d, t) = (
            u64::from(self.clusters),
            u64::from(self.features),
            u64::from(self.threads),
        );
        let copies = u64::from(self.copies);
        if self.scores == Scores::Matrix {
            let centroids = match (self.holds_centroids(), self.streams_centroids()) {
                (true, _) => 0,
                (_, true) => u64::from(self.group_tiles()) * self.tile_words(),
                _ => self.centroid_words(),
            };
            let tile = match self.is_wide() {
                false => 0,
                true => {
                    let (points, shares) = (self.tile_points(), u64::from(self.shares()));
                    let exchange = if shares > 1 { 2 * shares * points } else { 0 };
                    let starts =
                        u64::from(self.all_tiles() * TILE + self.features.next_multiple_of(STEP_FEATURES));
                    points * d * (1 + u64::from(self.ahead)) + starts + exchange
                }
            };
            let sums = match self.sums {
                // Includes a cluster for points that do not exist.
                Sums::Features if self.is_wide() => copies * (k + 1) * d + k + self.tile_points(),
                Sums::Features => {
                    let owners = u64::from(self.owners());
                    let exchange = if owners == 4 { 0 } else { owners * 32 + 32 };
                    t / 32 * (exchange + (k + 1) * u64::from(self.chains()) * d.div_ceil(owners) * 32)
                        + (k + 1) * 8
                }
                Sums::Shared => k * (d + 1) * copies,
                _ => 0,
            };
            return 4 * (tile + centroids + sums);
        }
        if self.is_wide() {
            return match self.sums {
                Sums::Features => 4 * (copies * (k + 1) * d + k + self.tile_points()),
                _ => 0,
            };
        }
        let sums = match self.sums {
            Sums::None | Sums::Global => 0,
            Sums::Registers => t / 32 * k * (d + 1),
            Sums::Private => t * k * (d + 1),
            Sums::Features => {
                let lanes = self.lanes();
                t / 32 * (128 * lanes + 128 + k * d.div_ceil(lanes) * 32) + k * copies
            }
            Sums::Shared => k * (d + 1) * copies,
        };
        4 * (Centroids::floats(k as usize, d as usize) as u64 + sums)
    }

    /// Tiles between additions of a block's sums to the partials.
    pub(crate) fn flush_tiles(&self) -> u32 {
        let tiles = match self.sums {
            Sums::None | Sums::Global => u64::from(u32::MAX),
            Sums::Features if self.is_wide() => {
                POINTS_OF_A_WIDE_FLOAT * u64::from(self.copies) / self.tile_points()
            }
            // A lane adds the points of its group.
            Sums::Features if self.scores == Scores::Matrix => {
                POINTS_OF_A_FLOAT * 4 / u64::from(self.owners() * self.points)
            }
            Sums::Registers | Sums::Private => POINTS_OF_A_FLOAT / u64::from(self.points),
            Sums::Features => POINTS_OF_A_FLOAT * self.lanes() / (32 * u64::from(self.points)),
            // Shared by a block with many clusters: each receives a small part of the points.
            Sums::Shared => 64 * POINTS_OF_A_FLOAT / self.tile_points(),
        };
        tiles.max(1) as u32
    }

    /// Compiler definitions of the kernel.
    #[must_use]
    pub fn options(&self) -> Vec<String> {
        let sums = match self.sums {
            Sums::None => 0,
            Sums::Registers => 1,
            Sums::Private => 2,
            Sums::Features => 3,
            Sums::Shared => 4,
            Sums::Global => 5,
        };
        let clusters = match self.sums {
            Sums::Registers => self.clusters,
            _ => 0,
        };
        let labels = self.labels.map_or(0, LabelWidth::bytes) as u32;
        [
            ("FEATURES", self.features),
            ("POINTS", self.points),
            ("SUMS", sums),
            ("CLUSTERS", clusters),
            ("THREADS", self.threads),
            ("LABELS", labels),
            ("INERTIA", self.inertia.into()),
            ("AHEAD", self.ahead.into()),
            ("PAIRED", self.paired.into()),
            ("GIVEN", self.given.into()),
            ("MATRIX", (self.scores == Scores::Matrix).into()),
            ("TILES", self.group_tiles()),
            ("HELD", self.holds_centroids().into()),
            ("ONE_GROUP", (self.clusters <= GROUP).into()),
            ("STREAMED", self.streams_centroids().into()),
            ("OWNERS", self.owners()),
            ("CHAINS", self.chains()),
        ]
        .map(|(name, value)| format!("-DKMEANS_{name}={value}"))
        .into()
    }
}
