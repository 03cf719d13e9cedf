//! `galatea calibrate`: measures the device once, for all sessions on this machine.

use std::io::{self, Write};

use galatea::CalibrateError;

use crate::arguments::{CalibrateArguments, SessionArguments};
use crate::errors::CliError;
use crate::session;

pub(crate) async fn run(session: &SessionArguments, arguments: &CalibrateArguments) -> Result<(), CliError> {
    let built = session::build(session, None, None).await?;
    let text = if arguments.forget {
        match galatea::forget_calibration(&built.ctx) {
            Ok(true) => "Forgotten: the constants are an H200's again, scaled to this device.".to_string(),
            Ok(false) => "Nothing was measured on this device.".to_string(),
            // The files remain after a GPU is removed.
            Err(CalibrateError::NoDevice(_)) => match galatea::forget_calibrations() {
                Ok(0) => "Nothing was measured on this machine.".to_string(),
                Ok(files) => format!("Forgotten: the calibrations of {files} device(s)."),
                Err(error) => return Err(CalibrateError::from(error).into()),
            },
            Err(error) => return Err(error.into()),
        }
    } else {
        format!(
            "{}; galatea calibrate --forget removes it, galatea doctor shows the bandwidths.",
            galatea::calibrate(&built.ctx)?
        )
    };
    let _ = writeln!(io::stdout(), "{text}");
    Ok(())
}
