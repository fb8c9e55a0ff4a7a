//! Python classes under names that scenarios use. Weir's catalogues know a discipline by a type and a controller by a
//! function, each for good; so there are as many types and functions as names can be registered, and a name that is
//! registered again, as a notebook's cell does, has a new class under its old number.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use weir_scenario::Scenario;
use weir_world::World;

use crate::errors::{Fault, raise};

/// Names of each kind, in one process.
pub(crate) const MOST: usize = 32;

/// A class under a name.
pub(crate) struct Slot {
    pub(crate) name: &'static str,
    pub(crate) class: Py<PyAny>,
    /// Changes with the class's code.
    code: String,
}

/// Classes of one kind, in the order in which their names were registered.
pub(crate) struct Slots {
    kind: &'static str,
    /// Taken only while the interpreter's lock is held, so that a fork finds it free.
    list: Mutex<Vec<Slot>>,
}

/// Congestion controllers.
pub(crate) static CONTROLLERS: Slots = Slots::new("controller");
/// Queue disciplines.
pub(crate) static DISCIPLINES: Slots = Slots::new("kind");

impl Slots {
    const fn new(kind: &'static str) -> Self {
        Self { kind, list: Mutex::new(Vec::new()) }
    }

    fn list(&self) -> MutexGuard<'_, Vec<Slot>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a class under `name`. `first` makes a name known that has no number yet.
    ///
    /// # Errors
    /// What `first` refuses, or if there are too many names.
    pub(crate) fn put(
        &self,
        py: Python<'_>,
        name: &str,
        class: Py<PyAny>,
        code: String,
        first: impl FnOnce(usize, &'static str) -> Result<(), String>,
    ) -> PyResult<()> {
        let mut list = self.list();
        if let Some(slot) = list.iter_mut().find(|slot| slot.name == name) {
            let old = std::mem::replace(&mut slot.class, class);
            slot.code = code;
            // Python code may run when a class goes.
            drop(list);
            drop(old);
            return Ok(());
        }
        if list.len() == MOST {
            let words = format!("{name}: a process can have {MOST} names; use one of them again");
            return Err(raise(py, "WeirError", &words));
        }
        let name: &'static str = Box::leak(name.to_owned().into_boxed_str());
        first(list.len(), name).map_err(|words| raise(py, "WeirError", &words))?;
        list.push(Slot { name, class, code });
        Ok(())
    }

    /// The class of a number, and its name.
    pub(crate) fn get(&self, py: Python<'_>, number: usize) -> (&'static str, Py<PyAny>) {
        let list = self.list();
        let slot = &list[number];
        (slot.name, slot.class.clone_ref(py))
    }

    /// All names.
    pub(crate) fn names(&self) -> Vec<&'static str> {
        self.list().iter().map(|slot| slot.name).collect()
    }

    /// The first of the names that JSON of a scenario has as its value.
    fn named_in(&self, json: &str) -> Option<&'static str> {
        let is_in = |name: &&'static str| json.contains(&format!("\"{}\":\"{name}\"", self.kind));
        self.names().into_iter().find(is_in)
    }
}

/// Refuses Python classes where they would be late: a packet does not wait for an interpreter.
pub(crate) fn check_world(py: Python<'_>, scenario: &Scenario, world: &dyn World) -> PyResult<()> {
    if world.is_virtual() {
        return Ok(());
    }
    let json = serde_json::to_string(scenario).unwrap_or_default();
    match CONTROLLERS.named_in(&json).or_else(|| DISCIPLINES.named_in(&json)) {
        None => Ok(()),
        Some(name) => Err(late(name, world).raise(py)),
    }
}

/// The same for a sweep, by its text.
pub(crate) fn check_sweep(text: &str, world: &dyn World) -> Result<(), Fault> {
    let name = if world.is_virtual() { None } else { word_in(text) };
    name.map_or(Ok(()), |name| Err(late(name, world)))
}

/// Refuses Python classes where other processes run the cells.
pub(crate) fn check_cluster(text: &str) -> Result<(), Fault> {
    let words = |name| {
        format!(
            "'{name}' is a Python class of this process, which the workers of a cluster have not; leave client out"
        )
    };
    word_in(text).map_or(Ok(()), |name| Err(Fault::new("ScenarioError", &words(name))))
}

/// The first of all names that is a word of a sweep's text.
fn word_in(text: &str) -> Option<&'static str> {
    let names =
        Python::attach(|_| CONTROLLERS.names().into_iter().chain(DISCIPLINES.names()).collect::<Vec<_>>());
    let is_word = |name: &&'static str| {
        text.split(|c: char| c.is_whitespace() || c == '"' || c == '\'').any(|word| word == *name)
    };
    names.into_iter().find(is_word)
}

fn late(name: &str, world: &dyn World) -> Fault {
    let world = world.name();
    let words = format!(
        "'{name}' is a Python class, which runs in world sim alone; packets of {world} do not wait for it"
    );
    Fault::new("ScenarioError", &words)
}

/// What changes with the code of any class that has a name; empty if none has.
pub(crate) fn code() -> String {
    let of = |slots: &Slots| -> Vec<String> {
        slots.list().iter().map(|slot| format!("{} {} {}", slots.kind, slot.name, slot.code)).collect()
    };
    [of(&CONTROLLERS), of(&DISCIPLINES)].concat().join("; ")
}

/// Expands to `[$make!(0), $make!(1), ...]` for all numbers of [`MOST`].
macro_rules! numbered {
    ($make:ident) => {
        [
            $make!(0),
            $make!(1),
            $make!(2),
            $make!(3),
            $make!(4),
            $make!(5),
            $make!(6),
            $make!(7),
            $make!(8),
            $make!(9),
            $make!(10),
            $make!(11),
            $make!(12),
            $make!(13),
            $make!(14),
            $make!(15),
            $make!(16),
            $make!(17),
            $make!(18),
            $make!(19),
            $make!(20),
            $make!(21),
            $make!(22),
            $make!(23),
            $make!(24),
            $make!(25),
            $make!(26),
            $make!(27),
            $make!(28),
            $make!(29),
            $make!(30),
            $make!(31),
        ]
    };
}
pub(crate) use numbered;
