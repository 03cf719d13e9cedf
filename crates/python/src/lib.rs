//! The Python package `galatea`: the extension module `galatea._galatea`.
//!
//! The module contains the classes and functions that need the engine. The Python sources beside it
//! (`python/galatea`) define the public interface over them: connections, relations, cursors.
//!
//! ```text
//! galatea.Connection, Relation, Cursor         python/galatea/*.py
//!   Session   a session of the engine          session, variables (tables from Python variables), parameters
//!   Frame     a planned query                  frame, explain
//!   Batches   a finished result                batches, values (Arrow to Python)
//!   Stream    a running query                  stream
//! threads     threads of queries; waiting without the GIL, with signals and progress
//! errors      exceptions of DB-API 2.0, with the messages of the terminal
//! ```
//!
//! Arrow data crosses the border through Arrow's C data interface, in both directions without copies.
#![forbid(unsafe_code)]

mod batches;
mod device;
mod errors;
mod frame;
mod input;
mod parameters;
mod session;
mod stream;
mod threads;
mod values;
mod variables;

use pyo3::prelude::*;

#[pymodule]
fn _galatea(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    errors::register(module)?;
    module.add_class::<session::Session>()?;
    module.add_class::<frame::Frame>()?;
    module.add_class::<batches::Batches>()?;
    module.add_class::<stream::Stream>()?;
    module.add_function(wrap_pyfunction!(device::device_info, module)?)?;
    module.add_function(wrap_pyfunction!(threads::shut_down, module)?)?;
    Ok(())
}
