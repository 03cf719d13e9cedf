//! Predictions of the rate of a join whose table is in both memories.

/// Three predictions, in the unit of the rates that they are made from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Predicted {
    /// The thesis' (section 3.4.3): the mean of both rates, weighted by the shares of the accesses.
    pub mean: f64,
    /// Accesses one after another: the times add up, so the mean is harmonic.
    pub series: f64,
    /// Accesses to both memories at the same time: the slower part determines the rate.
    pub overlap: f64,
}

impl Predicted {
    /// Predicts the rate if the share `on_device` of the table is in the device's memory, from the rates with
    /// a table in the device's memory only and in the host's only.
    #[must_use]
    pub fn new(on_device: f64, device: f64, host: f64) -> Self {
        let on_host = 1.0 - on_device;
        Self {
            mean: on_device * device + on_host * host,
            series: 1.0 / (on_device / device + on_host / host),
            // With a share of 0 or 1 the other memory does not limit the rate. The device's limit is not
            // exceeded even if few accesses go to it: the relations cross the link in any case.
            overlap: (device / on_device).min(host / on_host).min(device.max(host)),
        }
    }

    /// The name and the value of the prediction closest to a measured rate.
    #[must_use]
    pub fn closest(&self, measured: f64) -> (&'static str, f64) {
        let all = [
            ("the arithmetic mean", self.mean),
            ("accesses in series", self.series),
            ("overlapping accesses", self.overlap),
        ];
        let off = |value: f64| (value / measured).ln().abs();
        all.into_iter()
            .min_by(|a, b| off(a.1).total_cmp(&off(b.1)))
            .unwrap_or(all[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn predictions_agree_at_the_ends_and_are_ordered_between() {
        for (share, rate) in [(0.0, 0.5), (1.0, 3.0)] {
            let at = Predicted::new(share, 3.0, 0.5);
            for value in [at.mean, at.series, at.overlap] {
                assert!((value - rate).abs() < 1e-12, "{at:?}");
            }
        }
        let half = Predicted::new(0.5, 3.0, 0.5);
        assert!((half.mean - 1.75).abs() < 1e-12);
        assert!((half.series - 1.0 / (0.5 / 3.0 + 0.5 / 0.5)).abs() < 1e-12);
        assert!((half.overlap - 1.0).abs() < 1e-12);
        assert_eq!(half.closest(0.9).0, "accesses in series");
        assert_eq!(half.closest(5.0).0, "the arithmetic mean");
    }
}
