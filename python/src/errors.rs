//! Errors as the exceptions of `weirnet.errors`, with the words that the command has for them.

use pyo3::prelude::*;
use weir_scenario::ScenarioError;
use weir_scenario::toml_file::FileError;
use weir_study::StudyError;
use weir_study::figure::FigureError;
use weir_study::sweep::SweepError;
use weir_world::RunError;

use crate::given::DICT;

/// An exception of `weirnet.errors`.
pub(crate) fn raise(py: Python<'_>, class: &str, message: &str) -> PyErr {
    let class = py.import("weirnet.errors").and_then(|module| module.getattr(class));
    match class.and_then(|class| class.call1((message,))) {
        Ok(error) => PyErr::from_value(error),
        Err(error) => error,
    }
}

/// What went wrong, before it is an exception: that takes the interpreter's lock.
#[derive(Debug)]
pub(crate) struct Fault {
    class: &'static str,
    message: String,
}

impl Fault {
    /// The exception called `class`, about whatever has these words.
    pub(crate) fn new(class: &'static str, message: &impl ToString) -> Self {
        Self { class, message: message.to_string() }
    }

    /// As an exception.
    pub(crate) fn raise(&self, py: Python<'_>) -> PyErr {
        raise(py, self.class, &self.message)
    }
}

/// Of a dict, the key that is wrong: the lines of its text are nobody's.
fn placed(path: &str, key: &str, message: &str) -> String {
    if key.is_empty() { format!("{path}: {message}") } else { format!("{path}: {key}: {message}") }
}

impl From<ScenarioError> for Fault {
    fn from(error: ScenarioError) -> Self {
        let class = "ScenarioError";
        match error {
            ScenarioError::Value { path, key, message, .. } if path == DICT => {
                Self::new(class, &placed(&path, &key, &message))
            }
            ScenarioError::File(error) => error.into(),
            error => Self::new(class, &error),
        }
    }
}

impl From<FileError> for Fault {
    fn from(error: FileError) -> Self {
        let class = "ScenarioError";
        match error {
            FileError::Syntax { path, words, key, .. } if path == DICT => {
                Self::new(class, &placed(&path, &key, &words))
            }
            error => Self::new(class, &error),
        }
    }
}

impl From<weir_report::output::OutputError> for Fault {
    fn from(error: weir_report::output::OutputError) -> Self {
        Self::new("OutputError", &error)
    }
}

impl From<StudyError> for Fault {
    fn from(error: StudyError) -> Self {
        let class = match &error {
            StudyError::Output(_) => "OutputError",
            StudyError::Jobs { .. } | StudyError::Take { .. } => "ScenarioError",
            _ => "RunError",
        };
        Self::new(class, &error)
    }
}

impl From<SweepError> for Fault {
    fn from(error: SweepError) -> Self {
        match error {
            SweepError::Study(error) => error.into(),
            SweepError::Output(error) => error.into(),
            SweepError::Read(error) => error.into(),
            SweepError::Value { path, key, message, .. } if path == DICT => {
                Self::new("ScenarioError", &placed(&path, &key, &message))
            }
            error => Self::new("ScenarioError", &error),
        }
    }
}

impl From<FigureError> for Fault {
    fn from(error: FigureError) -> Self {
        match error {
            FigureError::Study(error) => error.into(),
            error => Self::new("ScenarioError", &error),
        }
    }
}

impl Fault {
    /// What a run failed at; the command names the scenario too.
    pub(crate) fn of_run(name: &str, error: &RunError) -> Self {
        let class = match error {
            RunError::Scenario(_) => "ScenarioError",
            RunError::Capture { .. } => "OutputError",
            RunError::World(_) | RunError::Panic(_) => "RunError",
        };
        Self::new(class, &format!("scenario '{name}': {error}"))
    }
}
