//! The Python module `weirnet._weirnet`: what the package `weirnet` is made of. The package's Python code gives it
//! names, types and documentation; here is what needs Weir itself.
//!
//! Whatever takes long runs on a thread of its own without the interpreter's lock (`watch`), so that other threads
//! go on and Ctrl-C is heard. No thread outlives a call: a fork later finds none.

mod ack;
mod arrow;
mod assess;
mod cluster;
mod controller;
mod discipline;
mod errors;
mod given;
mod gym;
mod rows;
mod run;
mod slots;
mod study;
mod watch;

use pyo3::prelude::*;

#[pymodule]
fn _weirnet(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<arrow::Table>()?;
    module.add_class::<run::Run>()?;
    module.add_class::<study::Sweep>()?;
    module.add_class::<study::Figure>()?;
    module.add_class::<assess::Assessment>()?;
    module.add_class::<cluster::Home>()?;
    module.add_class::<cluster::Away>()?;
    module.add_class::<ack::Ack>()?;
    module.add_class::<discipline::Packet>()?;
    module.add_class::<gym::Links>()?;
    module.add_function(wrap_pyfunction!(run::run, module)?)?;
    module.add_function(wrap_pyfunction!(study::sweep, module)?)?;
    module.add_function(wrap_pyfunction!(study::figure, module)?)?;
    module.add_function(wrap_pyfunction!(study::figures, module)?)?;
    module.add_function(wrap_pyfunction!(assess::assess, module)?)?;
    module.add_function(wrap_pyfunction!(controller::register_controller, module)?)?;
    module.add_function(wrap_pyfunction!(controller::controllers, module)?)?;
    module.add_function(wrap_pyfunction!(discipline::register_discipline, module)?)?;
    module.add_function(wrap_pyfunction!(discipline::disciplines, module)?)?;
    module.add_function(wrap_pyfunction!(run::set_program, module)?)
}
