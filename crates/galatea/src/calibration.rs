//! Calibration of a session's device: measures the rates that its cost model uses.

use std::sync::Arc;

use datafusion::prelude::SessionContext;
use galatea_base::reason::Reason;
use galatea_device::{CacheFolder, Calibration, DeviceError};
use galatea_engine::config::GalateaConfig;
use galatea_engine::device::DeviceRuntime;
use galatea_engine::device::calibration::Calibrated;
use galatea_engine::session::Session;

/// The reason that a device was not calibrated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CalibrateError {
    /// The context is not a Galatea session.
    #[error(
        "this context has no device: it is not a Galatea session\nhint: galatea::install(&ctx) makes it one"
    )]
    NoSession,
    /// The session has no device.
    #[error("there is nothing to calibrate: {0}")]
    NoDevice(Reason),
    /// The device cannot be measured, or the calibration cannot be written.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// Measures the session's device, which should be idle: the rates of its memory, its link and its atomics.
/// Stores the figures in the cache folder for every session on this machine; this session uses them at once.
/// Blocks for a few seconds.
///
/// Without a calibration, the cost model of grouped aggregation uses the figures of an H200, scaled to the
/// device's number of multiprocessors.
///
/// # Errors
/// [`CalibrateError`]. The emulated device has no times of its own: [`DeviceError::NotTimed`].
///
/// ```
/// # fn main() -> datafusion::error::Result<()> {
/// let session = galatea::session().with_emulated_device(galatea::EmulatorOptions::default());
/// let ctx = session.with_setting("galatea.device", "emulated").build()?;
/// match galatea::calibrate(&ctx) {
///     Ok(calibrated) => println!("{calibrated}"),
///     Err(error) => println!("not calibrated: {error}"),
/// }
/// # Ok(())
/// # }
/// ```
pub fn calibrate(ctx: &SessionContext) -> Result<Calibrated, CalibrateError> {
    Ok(device(ctx)?.calibrate()?)
}

/// Removes the calibration of the session's device. Returns whether one existed.
///
/// # Errors
/// [`CalibrateError`].
pub fn forget_calibration(ctx: &SessionContext) -> Result<bool, CalibrateError> {
    Ok(device(ctx)?.forget_calibration()?)
}

/// Removes the calibrations of all devices of this user. It needs no device. Returns their number. Sessions
/// that have opened a device keep its figures.
///
/// # Errors
/// [`DeviceError`]: the cache folder cannot be used, or a file cannot be removed.
pub fn forget_calibrations() -> Result<usize, DeviceError> {
    Calibration::forget_all(&CacheFolder::open(None).map_err(DeviceError::NoCache)?)
}

fn device(ctx: &SessionContext) -> Result<Arc<DeviceRuntime>, CalibrateError> {
    let config = ctx.copied_config();
    let session = config
        .get_extension::<Session>()
        .ok_or(CalibrateError::NoSession)?;
    let settings = GalateaConfig::of(config.options());
    let found = session
        .engine()
        .usable(&settings)
        .and_then(|()| session.engine().device(&settings));
    found.map_err(CalibrateError::NoDevice)
}
