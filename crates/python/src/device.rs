//! The device of queries.

use galatea_device::DeviceInfo;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The GPUs of this machine, and the part that is missing to use one.
///
/// Returns a dictionary: `available`, whether queries can run on a GPU; `devices`, a list with the name,
/// compute capability, memory in bytes and number of multiprocessors of each GPU; `driver` and `nvrtc`, the
/// versions of CUDA's driver and compiler, or `None`; `missing`, the missing part, the reason and the remedy,
/// or `None`.
#[pyfunction]
pub(crate) fn device_info(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let probe = py.detach(galatea_device::probe);
    let version = |(major, minor): (u32, u32)| format!("{major}.{minor}");
    let dict = PyDict::new(py);
    let usable = probe.usable();
    dict.set_item("available", usable.is_ok())?;
    let devices = probe.devices.iter().map(|device| device_dict(py, device));
    dict.set_item("devices", devices.collect::<PyResult<Vec<_>>>()?)?;
    dict.set_item(
        "driver",
        probe.driver.as_ref().ok().map(|driver| version(driver.version)),
    )?;
    dict.set_item(
        "nvrtc",
        probe.nvrtc.as_ref().ok().map(|nvrtc| version(nvrtc.version)),
    )?;
    let missing = match usable {
        Ok(_) => None,
        Err(missing) => {
            let dict = PyDict::new(py);
            dict.set_item("part", missing.what)?;
            dict.set_item("reason", missing.reason)?;
            dict.set_item("remedy", missing.remedy)?;
            Some(dict)
        }
    };
    dict.set_item("missing", missing)?;
    Ok(dict)
}

fn device_dict<'py>(py: Python<'py>, device: &DeviceInfo) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("name", &device.name)?;
    let (major, minor) = device.compute_capability;
    dict.set_item("compute_capability", format!("{major}.{minor}"))?;
    dict.set_item("memory", device.total_memory)?;
    dict.set_item("multiprocessors", device.multiprocessors)?;
    Ok(dict)
}
