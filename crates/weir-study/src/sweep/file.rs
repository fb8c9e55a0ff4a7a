//! A sweep's file: the scenario or its path, the keys that are swept, what goes together and what is left out.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::values::{Steps, Value, common};
use super::{Axis, Fault, Key, SweepError, splice};
use weir_core::words::{hint_in, nearest};
use weir_scenario::toml_file::{self, FileError};
use weir_scenario::toml_place;
use weir_world::{EMU, KERNEL, SIM, World};

/// What a file says, read but not yet multiplied.
pub(super) struct File {
    pub(super) texts: Texts,
    pub(super) name: String,
    pub(super) world: &'static dyn World,
    pub(super) repeat: u64,
    /// Whether combinations draw other random numbers than each other.
    pub(super) independent: bool,
    /// In the order of their first key in the file.
    pub(super) axes: Vec<Axis>,
    pub(super) excluded: Vec<Exclusion>,
}

/// What does not run: for each key named its axis, and the places of the values that must come together.
pub(super) type Exclusion = Vec<(usize, Vec<usize>)>;

/// The texts that errors refer to.
pub struct Texts {
    pub(super) path: String,
    /// That of the file itself.
    pub sweep: String,
    /// Path and text of the scenario, if it is another file.
    pub(super) scenario: Option<(String, String)>,
    pub(super) files: Files,
}

/// Where the texts are of what a sweep names: its scenario, and traces.
pub(super) enum Files {
    Disk,
    /// By path, as another process has sent them.
    Sent(BTreeMap<String, String>),
}

impl Files {
    fn scenario(&self, path: &Path) -> Result<String, FileError> {
        match self {
            Self::Disk => toml_file::read(path),
            Self::Sent(texts) => sent(texts, path)
                .map_err(|source| FileError::Read { path: path.display().to_string(), source }),
        }
    }

    pub(super) fn trace(&self, path: &Path) -> io::Result<String> {
        match self {
            Self::Disk => weir_scenario::read_trace(path),
            Self::Sent(texts) => sent(texts, path),
        }
    }
}

fn sent(texts: &BTreeMap<String, String>, path: &Path) -> io::Result<String> {
    let text = texts.get(path.display().to_string().as_str()).cloned();
    text.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "it was not sent along"))
}

const KEYS: [&str; 8] = ["scenario", "name", "world", "repeat", "independent", "sweep", "zip", "exclude"];

impl Texts {
    /// Those of the file `path`, whose text is `text`; its scenario is still to be found.
    pub fn new(text: String, path: &Path) -> Self {
        Self::of(text, path, Files::Disk)
    }

    pub(super) fn of(text: String, path: &Path, files: Files) -> Self {
        Self { path: path.display().to_string(), sweep: text, scenario: None, files }
    }

    /// Reads the scenario that `root`, the file's table, names, unless it is in the file. `what` is what errors call
    /// the file.
    pub fn find_scenario(&mut self, root: &DeTable<'_>, what: &str) -> Result<(), SweepError> {
        match root.get("scenario").map(|value| (value.get_ref(), value.span())) {
            Some((DeValue::String(base), _)) => {
                let base = Path::new(&self.path).parent().unwrap_or(Path::new("")).join(base.as_ref());
                self.scenario = Some((base.display().to_string(), self.files.scenario(&base)?));
                Ok(())
            }
            Some((DeValue::Table(_), _)) => Ok(()),
            other => {
                let at = other.map_or(0, |(_, span)| span.start);
                let remedy = "needs a scenario: scenario = \"base.toml\", or a table [scenario]";
                Err(self.own(Fault::new(at, format!("{what} {remedy}"))))
            }
        }
    }

    /// The text that holds the scenario.
    pub(super) fn scenario(&self) -> &str {
        self.scenario.as_ref().map_or(&self.sweep, |(_, text)| text)
    }

    /// Where what the scenario names is looked for.
    pub(super) fn folder(&self) -> &Path {
        let path = self.scenario.as_ref().map_or(&self.path, |(path, _)| path);
        Path::new(path).parent().unwrap_or(Path::new(""))
    }

    /// Behind which places are those of the sweep's file.
    pub(crate) fn offset(&self) -> usize {
        self.scenario().len() + 1
    }

    /// The scenario before anything is put in.
    pub fn table(&self) -> Result<Spanned<DeTable<'_>>, Fault> {
        let mut root = DeTable::parse(self.scenario()).map_err(Fault::toml)?;
        if self.scenario.is_some() {
            return Ok(root);
        }
        match root.get_mut().remove("scenario").map(|inside| (inside.span(), inside.into_inner())) {
            Some((span, DeValue::Table(table))) => Ok(Spanned::new(span, table)),
            _ => Err(Fault::new(0, "the scenario is no table".to_owned())),
        }
    }

    /// The error with file and line; places behind the scenario's text are the sweep's.
    pub fn error(&self, fault: Fault) -> SweepError {
        let (path, text, at) = match (&self.scenario, fault.at.checked_sub(self.offset())) {
            (_, Some(at)) => (&self.path, &self.sweep, at),
            (Some((path, text)), None) => (path, text, fault.at),
            (None, None) => (&self.path, &self.sweep, fault.at),
        };
        at_place(path, text, at, fault.message)
    }

    /// The same for a place in the sweep's file.
    pub fn own(&self, fault: Fault) -> SweepError {
        at_place(&self.path, &self.sweep, fault.at, fault.message)
    }
}

/// What is wrong at a place of a text, which stands in the file `path`.
fn at_place(path: &str, text: &str, at: usize, message: String) -> SweepError {
    let key = toml_place::key_at(text, at).unwrap_or_default();
    SweepError::Value { path: path.to_owned(), line: toml_place::line(text, at), key, message }
}

impl File {
    /// What `text` says, which stands in the file `path`, and the scenario that it names.
    pub(super) fn parse(text: String, path: &Path, most: u64, files: Files) -> Result<Self, SweepError> {
        let mut texts = Texts::of(text, path, files);
        let text = texts.sweep.clone();
        let root = DeTable::parse(&text).map_err(|error| texts.own(Fault::toml(error)))?;
        let root = root.get_ref();
        if let Some(key) = root.keys().find(|key| !KEYS.contains(&key.get_ref().as_ref())) {
            let hint = hint_in("`", key.get_ref(), KEYS);
            let what = format!("a sweep has no key `{}`{hint}", key.get_ref());
            return Err(texts.own(Fault::new(key.span().start, what)));
        }
        texts.find_scenario(root, "a sweep")?;
        let axes = axes(&text, root, &texts, most)?;
        let excluded = excluded(&text, root, &axes).map_err(|fault| texts.own(fault))?;
        let stem = || path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let head = Head::read(root).map_err(|fault| texts.own(fault))?;
        let cells = axes.iter().map(|axis| axis.len as f64).product::<f64>() * head.repeat as f64;
        if cells > most as f64 {
            let at = toml_place::span(
                &DeTable::parse(&text).map_err(|error| texts.own(Fault::toml(error)))?,
                "sweep",
            );
            return Err(texts.own(too_many(at.start, cells, most)));
        }
        let name = head.name.unwrap_or_else(stem);
        let Head { world, repeat, independent, .. } = head;
        Ok(Self { texts, name, world, repeat, independent, axes, excluded })
    }
}

/// The keys that hold one value.
struct Head {
    name: Option<String>,
    world: &'static dyn World,
    repeat: u64,
    independent: bool,
}

impl Head {
    fn read(root: &DeTable<'_>) -> Result<Self, Fault> {
        let name = match root.get("name").map(|value| (value.get_ref().as_str(), value.span().start)) {
            None => None,
            Some((Some(name), _)) if !name.is_empty() => Some(name.to_owned()),
            Some((_, at)) => return Err(Fault::new(at, "name: give a text".to_owned())),
        };
        let worlds = [SIM, EMU, KERNEL];
        let world = match root.get("world").map(|value| (value.get_ref().as_str(), value.span().start)) {
            None => SIM,
            Some((said, at)) => {
                let said = said.unwrap_or_default();
                let near = || {
                    let near = nearest(said, worlds.map(World::name));
                    near.map_or_else(String::new, |near| format!("; did you mean \"{near}\"?"))
                };
                worlds.into_iter().find(|world| world.name() == said).ok_or_else(|| {
                    let what = format!("world: a sweep runs in sim, emu or kernel{}", near());
                    Fault::new(at, what)
                })?
            }
        };
        let repeat = match root.get("repeat") {
            None => 1,
            Some(value) => value
                .get_ref()
                .as_integer()
                .and_then(|number| u64::from_str_radix(number.as_str(), number.radix()).ok())
                .filter(|repeat| *repeat > 0)
                .ok_or_else(|| {
                    Fault::new(value.span().start, "repeat: give a whole number of runs from 1".to_owned())
                })?,
        };
        let independent = match root.get("independent").map(|value| (value.get_ref(), value.span().start)) {
            None => false,
            Some((DeValue::Boolean(independent), _)) => *independent,
            Some((_, at)) => return Err(Fault::new(at, "independent: give true or false".to_owned())),
        };
        Ok(Self { name, world, repeat, independent })
    }
}

fn too_many(at: usize, cells: f64, most: u64) -> Fault {
    let what = format!("these keys and `repeat` make {cells:.0} cells, more than {most}");
    Fault::new(at, format!("{what}; take fewer values, zip keys that belong together, or raise --max-cells"))
}

/// All axes: each key of `[sweep]`, each `[[zip]]`.
fn axes(text: &str, root: &DeTable<'_>, texts: &Texts, most: u64) -> Result<Vec<Axis>, SweepError> {
    let own = |fault: Fault| texts.own(fault);
    let scenario = texts.table().map_err(|fault| texts.error(fault))?;
    let mut axes: Vec<Axis> = Vec::new();
    let mut keys = Keys { text, scenario: scenario.get_ref(), most, keys: Vec::new() };
    if let Some(value) = root.get("sweep") {
        let DeValue::Table(table) = value.get_ref() else {
            return Err(own(Fault::new(
                value.span().start,
                "sweep: it is a table of keys and values".to_owned(),
            )));
        };
        keys.table("", table).map_err(own)?;
        axes.extend(keys.keys.drain(..).map(|key| Axis { len: key.values.len(), keys: vec![key] }));
    }
    for group in tables(root, "zip").map_err(own)? {
        let DeValue::Table(table) = group.get_ref() else { continue };
        keys.table("", table).map_err(own)?;
        let mut keys: Vec<Key> = keys.keys.drain(..).collect();
        keys.sort_by_key(|key| key.at);
        let Some(first) = keys.first() else {
            return Err(own(Fault::new(group.span().start, "zip: the group has no key".to_owned())));
        };
        let len = first.values.len();
        if let Some(other) = keys.iter().find(|key| key.values.len() != len) {
            let what = format!(
                "`{}` has {} values and `{}` has {len}; keys of one [[zip]] need equally many",
                other.name,
                other.values.len(),
                first.name
            );
            return Err(own(Fault::new(other.at, what)));
        }
        axes.push(Axis { len, keys });
    }
    for axis in &axes {
        let mut seen = std::collections::BTreeSet::new();
        if let Some(twice) = (0..axis.len).find(|place| !seen.insert(axis.label(*place))) {
            let what = format!("`{}` has {} twice", axis.name(), axis.label(twice));
            let at = axis.keys[0].values[twice].at;
            return Err(own(Fault::new(at, format!("{what}; remove one: repeat = 2 repeats runs"))));
        }
    }
    axes.sort_by_key(|axis| axis.keys[0].at);
    let mut all: Vec<&Key> = axes.iter().flat_map(|axis| &axis.keys).collect();
    all.sort_by(|a, b| (&a.path, a.at).cmp(&(&b.path, b.at)));
    if let Some(pair) = all.windows(2).find(|pair| pair[0].path == pair[1].path) {
        let line = toml_place::line(text, pair[0].at);
        let what =
            format!("`{}` is swept in line {line} already; give its values in one place", pair[1].name);
        return Err(own(Fault::new(pair[1].at, what)));
    }
    Ok(axes)
}

/// The tables `[[name]]`, or the one `[name]`.
fn tables<'t, 'i>(root: &'t DeTable<'i>, name: &str) -> Result<Vec<&'t Spanned<DeValue<'i>>>, Fault> {
    let Some(value) = root.get(name) else { return Ok(Vec::new()) };
    let all: Vec<_> = match value.get_ref() {
        DeValue::Array(items) => items.iter().collect(),
        _ => vec![value],
    };
    match all.iter().find(|value| !value.get_ref().is_table()) {
        None => Ok(all),
        Some(other) => Err(Fault::new(other.span().start, format!("write [[{name}]] and keys below it"))),
    }
}

/// Keys that are being collected.
struct Keys<'a> {
    text: &'a str,
    scenario: &'a DeTable<'a>,
    most: u64,
    keys: Vec<Key>,
}

impl Keys<'_> {
    /// The keys of a table; a table inside that is no range is a longer path.
    fn table(&mut self, above: &str, table: &DeTable<'_>) -> Result<(), Fault> {
        for (key, value) in table {
            let at = key.span().start;
            let name = if above.is_empty() {
                key.get_ref().to_string()
            } else {
                format!("{above}.{}", key.get_ref())
            };
            let values = match value.get_ref() {
                DeValue::Array(items) => {
                    self.few(at, items.len() as f64)?;
                    items.iter().map(|item| Value::read(self.text, item)).collect::<Result<Vec<_>, _>>()?
                }
                DeValue::Table(inside) if Steps::is_range(inside) => {
                    let steps = Steps::read(self.text, inside, value.span())?;
                    self.few(at, steps.count)?;
                    steps.values()
                }
                DeValue::Table(inside) => {
                    self.table(&name, inside)?;
                    continue;
                }
                _ if KEYS.contains(&name.as_str()) => {
                    let what =
                        format!("`{name}` is no key of the scenario; write it above [sweep], at the top");
                    return Err(Fault::new(at, what));
                }
                _ => {
                    let remedy = "give a list [...] or { from, to, step } or { from, to, factor }";
                    return Err(Fault::new(value.span().start, format!("`{name}` has one value; {remedy}")));
                }
            };
            self.key(name, at, values)?;
        }
        Ok(())
    }

    fn few(&self, at: usize, count: f64) -> Result<(), Fault> {
        if count > self.most as f64 { Err(too_many(at, count, self.most)) } else { Ok(()) }
    }

    fn key(&mut self, name: String, at: usize, values: Vec<Value>) -> Result<(), Fault> {
        if values.is_empty() {
            return Err(Fault::new(at, format!("`{name}` has no values; give at least one")));
        }
        let path = splice::steps(&name, self.scenario).map_err(|message| Fault::new(at, message))?;
        if path.iter().any(String::is_empty) {
            return Err(Fault::new(at, format!("`{name}` has an empty step; write it as bottleneck.rate")));
        }
        let quantity = common(&values);
        self.keys.push(Key { name, path, values, quantity, at });
        Ok(())
    }
}

/// What `[[exclude]]` leaves out.
fn excluded(text: &str, root: &DeTable<'_>, axes: &[Axis]) -> Result<Vec<Exclusion>, Fault> {
    let mut all = Vec::new();
    for table in tables(root, "exclude")? {
        let DeValue::Table(table) = table.get_ref() else { continue };
        let mut together = Vec::new();
        for (name, value) in table {
            let known = || {
                axes.iter().enumerate().flat_map(|(axis, keys)| keys.keys.iter().map(move |key| (axis, key)))
            };
            let Some((axis, key)) = known().find(|(_, key)| key.name == *name.get_ref()) else {
                let names = || known().map(|(_, key)| key.name.as_str());
                let what = match nearest(name.get_ref(), names()) {
                    Some(near) => {
                        format!("`{}` is not swept; did you mean \"{near}\", in quotes?", name.get_ref())
                    }
                    None => {
                        format!("`{}` is not swept{}", name.get_ref(), hint_in("\"", name.get_ref(), names()))
                    }
                };
                return Err(Fault::new(name.span().start, what));
            };
            let given: Vec<Value> = match value.get_ref() {
                DeValue::Array(items) => {
                    items.iter().map(|item| Value::read(text, item)).collect::<Result<_, _>>()?
                }
                _ => vec![Value::read(text, value)?],
            };
            let mut places = Vec::new();
            for given in given {
                // Keys that go together may have a value several times.
                let equal = |(place, value): (usize, &Value)| value.is(&given).then_some(place);
                let found: Vec<usize> = key.values.iter().enumerate().filter_map(equal).collect();
                if found.is_empty() {
                    let hint = hint_in("", &given.label, key.values.iter().map(|value| &value.label));
                    let what = format!("`{}` never is {}{hint}", key.name, given.label);
                    return Err(Fault::new(given.at, what));
                }
                places.extend(found);
            }
            together.push((axis, places));
        }
        all.push(together);
    }
    Ok(all)
}
