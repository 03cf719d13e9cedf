//! New centroids from the sums of a pass.

use bytemuck::{Pod, Zeroable};
use galatea_device::{DevicePointer, Geometry, InOut, Out, Result, Stream, kernel_arguments};

use super::{BLOCK, same_length};
use crate::kernel::resident_kernel;

kernel_arguments! {
    /// Arguments of `kmeans_update`.
    pub struct KmeansUpdateArguments in "galatea/args/kmeans_update.h" {
        /// Sums of each slot.
        pub partials: DevicePointer<f64>,
        /// Centroids, in the layout of [`Centroids`](crate::kmeans::Centroids).
        pub centroids: DevicePointer<f32>,
        /// Squared distance that each centroid moved.
        pub shifts: DevicePointer<f64>,
        /// Points of each cluster.
        pub masses: DevicePointer<u64>,
        /// State of the fit.
        pub state: DevicePointer<KmeansState>,
        /// Tolerance of the shift.
        pub tolerance: f64,
        /// Clusters.
        pub clusters: u32,
        /// Features.
        pub features: u32,
        /// Slots of the partials.
        pub slots: u32,
        /// 1: centroids are unchanged.
        pub fixed: u32,
    }
}

/// State of a fit on the device that the host reads; the header documents the fields.
#[derive(Debug, Clone, Copy, PartialEq, Default, Pod, Zeroable)]
#[repr(C)]
pub struct KmeansState {
    /// Updates done.
    pub iterations: u64,
    /// 1 once the centroids moved no further than the tolerance.
    pub done: u64,
    /// Sum of the squared distances that centroids moved.
    pub shift: f64,
    /// Sum of squared distances of points to their centroids, if passes computed it.
    pub inertia: f64,
    /// Clusters without points.
    pub empty: u64,
    /// Blocks that have finished; 0 between launches.
    pub ticket: u64,
    /// Arrivals of blocks at barriers of [`KmeansFit`](crate::KmeansFit).
    pub arrived: u64,
}

resident_kernel! {
    /// Consumes the sums of a pass, and moves the centroids.
    KmeansUpdate, "kmeans_update", KmeansUpdateArguments
}

/// How an update ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum UpdateRule {
    /// Centroids move to the means; the fit is done when the sum of the squared distances that they moved is
    /// at most the tolerance.
    Means {
        /// Negative: the fit is never done.
        tolerance: f64,
    },
    /// Centroids are unchanged: only masses and inertia are computed.
    Fixed,
}

impl KmeansUpdate {
    /// Moves `clusters` centroids of `features` features by the partials of `slots` slots, which are cleared.
    /// `shifts` and `masses` have a word per cluster, `state` one element.
    ///
    /// # Errors
    /// [`galatea_device::DeviceError::Range`] for inconsistent lengths; the device's.
    #[expect(
        clippy::too_many_arguments,
        reason = "each is a range of device memory of its own"
    )]
    pub fn launch(
        &self,
        stream: &Stream,
        (clusters, features, slots): (u32, u32, u32),
        rule: UpdateRule,
        partials: InOut<'_, f64>,
        centroids: InOut<'_, f32>,
        shifts: Out<'_, f64>,
        masses: Out<'_, u64>,
        state: InOut<'_, KmeansState>,
    ) -> Result<()> {
        let (k, d) = (clusters as usize, features as usize);
        same_length(
            "partials of kmeans_update",
            slots as usize * (k * (d + 1) + 1),
            partials.len(),
        )?;
        same_length(
            "centroids of kmeans_update",
            crate::kmeans::Centroids::floats(k, d),
            centroids.len(),
        )?;
        same_length("shifts of kmeans_update", k, shifts.len())?;
        same_length("masses of kmeans_update", k, masses.len())?;
        same_length("state of kmeans_update", 1, state.len())?;
        let (tolerance, fixed) = match rule {
            UpdateRule::Means { tolerance } => (tolerance, 0),
            UpdateRule::Fixed => (-1.0, 1),
        };
        let arguments = KmeansUpdateArguments {
            partials: partials.pointer(),
            centroids: centroids.pointer(),
            shifts: shifts.pointer(),
            masses: masses.pointer(),
            state: state.pointer(),
            tolerance,
            clusters,
            features,
            slots,
            fixed,
        };
        let references = [
            partials.reference(),
            centroids.reference(),
            shifts.reference(),
            masses.reference(),
            state.reference(),
        ];
        debug_assert!(self.blocks > 0);
        let geometry = Geometry::new(clusters, BLOCK);
        self.function.launch(stream, geometry, &arguments, &references)
    }
}
