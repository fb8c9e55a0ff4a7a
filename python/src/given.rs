//! What Python code gives: a scenario or a sweep as a file's path or as a dict. A dict becomes the text of such a file,
//! so that both are read, checked and explained by the same code.

use std::path::{Path, PathBuf};

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyByteArray, PyBytes, PyFloat, PyInt, PyMapping, PyString};
use toml::{Table, Value};
use weir_scenario::toml_file;

use crate::errors::{Fault, raise};

/// What errors call a dict, which has lines of its own: those of the text that it stands for.
pub(crate) const DICT: &str = "dict";

/// How deep a dict may be: a sweep's deepest key is its scenario's, and a dict that contains itself has no end.
const DEEPEST: usize = 16;

/// A scenario or a sweep as text.
pub(crate) struct Given {
    /// TOML.
    pub(crate) text: String,
    /// What errors call it, and from where the files are looked for that it names.
    pub(crate) path: PathBuf,
    /// Whether it was a dict.
    pub(crate) is_dict: bool,
}

impl Given {
    /// The text of a file, or of what is in a dict.
    ///
    /// # Errors
    /// If it is neither, a file cannot be read, or a dict holds what TOML cannot.
    pub(crate) fn of(what: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = what.py();
        if let Ok(dict) = what.cast::<PyMapping>() {
            let table = table(dict, "", 0)?;
            let text = toml::to_string(&table)
                .map_err(|error| raise(py, "ScenarioError", &format!("{DICT}: {error}")))?;
            return Ok(Self { text, path: PathBuf::from(DICT), is_dict: true });
        }
        let path: PathBuf = what.extract().map_err(|_| {
            let class = what.get_type();
            PyTypeError::new_err(format!("give a dict or the path of a TOML file, not {class}"))
        })?;
        if path.to_string_lossy().contains('\n') {
            let words =
                "this is text, not the path of a TOML file; give tomllib.loads(text), or write it to a file";
            return Err(raise(py, "ScenarioError", words));
        }
        let text = toml_file::read(&path).map_err(|error| Fault::new("ScenarioError", &error).raise(py))?;
        Ok(Self { text, path, is_dict: false })
    }

    /// What it is called without a name of its own.
    pub(crate) fn stem(&self) -> String {
        let stem = if self.is_dict {
            "run"
        } else {
            self.path.file_stem().and_then(|stem| stem.to_str()).unwrap_or("")
        };
        stem.to_owned()
    }
}

fn inside(place: &str, key: &str) -> String {
    if place.is_empty() { key.to_owned() } else { format!("{place}.{key}") }
}

fn table(dict: &Bound<'_, PyMapping>, place: &str, depth: usize) -> PyResult<Table> {
    let mut table = Table::new();
    for item in dict.items()?.iter() {
        let (key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = item.extract()?;
        let key: String = key.extract().map_err(|_| {
            let class = key.get_type();
            PyTypeError::new_err(format!("{DICT}: a key of {} is no text but {class}", named(place)))
        })?;
        // None is no value: the key is not given.
        if !value.is_none() {
            let place = inside(place, &key);
            table.insert(key, toml_value(&value, &place, depth)?);
        }
    }
    Ok(table)
}

fn named(place: &str) -> &str {
    if place.is_empty() { "the scenario" } else { place }
}

/// `depth` counts the dicts and lists around it.
fn toml_value(value: &Bound<'_, PyAny>, place: &str, depth: usize) -> PyResult<Value> {
    if depth > DEEPEST {
        let words =
            format!("{DICT}: {place}: dicts and lists are too deep in each other; does one contain itself?");
        return Err(raise(value.py(), "ScenarioError", &words));
    }
    if let Ok(truth) = value.cast::<PyBool>() {
        return Ok(Value::Boolean(truth.is_true()));
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(Value::String(text.to_string()));
    }
    if value.is_instance_of::<PyInt>() {
        return value.extract().map(Value::Integer).map_err(|_| {
            raise(value.py(), "ScenarioError", &format!("{DICT}: {place}: {value} is too large a number"))
        });
    }
    if value.is_instance_of::<PyFloat>() {
        return value.extract().map(Value::Float);
    }
    if let Ok(dict) = value.cast::<PyMapping>() {
        return table(dict, place, depth + 1).map(Value::Table);
    }
    if value.hasattr("__fspath__")? {
        let path: PathBuf = value.extract()?;
        return Ok(Value::String(path.display().to_string()));
    }
    // Numbers of NumPy are neither int nor float, but have an index or a value.
    if let Ok(number) = value.call_method0("__index__") {
        return toml_value(&number, place, depth + 1);
    }
    if !value.hasattr("__iter__")?
        && let Ok(number) = value.call_method0("__float__")
    {
        return toml_value(&number, place, depth + 1);
    }
    // Bytes would be a list of numbers.
    let is_bytes = value.is_instance_of::<PyBytes>() || value.is_instance_of::<PyByteArray>();
    let Some(items) = value.try_iter().ok().filter(|_| !is_bytes) else {
        let class = value.get_type();
        return Err(PyTypeError::new_err(format!(
            "{DICT}: {place}: a scenario cannot hold {class}; give text with a unit such as \"10mbit\", a number, \
             True, False, a list or a dict"
        )));
    };
    let mut list = Vec::new();
    for (index, item) in items.enumerate() {
        list.push(toml_value(&item?, &inside(place, &index.to_string()), depth + 1)?);
    }
    Ok(Value::Array(list))
}

/// A value of `serde_json` as Python's.
pub(crate) fn from_json<'py>(py: Python<'py>, json: &str) -> PyResult<Bound<'py, PyAny>> {
    py.import("json")?.call_method1("loads", (json,))
}

/// Keyword arguments that a function does not have are errors of Python's own; this is for an option's words.
pub(crate) fn world(py: Python<'_>, name: &str) -> PyResult<&'static dyn weir_world::World> {
    weir_world::ALL.into_iter().find(|world| world.name() == name).ok_or_else(|| {
        let names: Vec<&str> = weir_world::ALL.iter().map(|world| world.name()).collect();
        let hint = weir_core::words::hint(name, names);
        raise(py, "ScenarioError", &format!("on: no world is called '{name}'{hint}"))
    })
}

/// A folder that was given.
pub(crate) fn folder(out: Option<PathBuf>) -> Option<PathBuf> {
    out.filter(|out| out != Path::new(""))
}
