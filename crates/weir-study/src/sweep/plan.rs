//! All cells of a sweep, each checked before any runs.
//!
//! Combinations are numbered with the last axis fastest. A cell's scenario is made anew from the texts each time it is
//! needed, so that a million cells need no room but that of their addresses.

use std::path::Path;

use serde::Deserialize;
use weir_core::Rate;

use super::file::{File, Texts};
use super::record::Measured;
use super::splice::{Splice, splice};
use super::values::Datum;
use super::{Axis, ColumnMeta, Fault, Key, SweepError, SweptKey, Value, columns};
use crate::engine::{self, Address, Kept, Origin, Outcome, Store};
use weir_scenario::toml_file;
use weir_scenario::toml_place;
use weir_scenario::{Refusal, Scenario};
use weir_world::{World, check};

/// A sweep whose cells can all run.
pub struct Sweep {
    file: File,
    /// The numbers of the combinations that are not excluded.
    combinations: Vec<usize>,
    addresses: Vec<Address>,
    origin: Origin,
    /// Of all combinations.
    fastest: Rate,
    /// Cells may cost whatever they do.
    large: bool,
}

/// One cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    /// Its place among the combinations.
    pub(super) combination: usize,
    /// The number of its run.
    pub(super) run: u64,
}

impl Sweep {
    /// Reads a sweep and the scenario that it names, and checks every cell. `most` is how many cells there may be; in
    /// a `large` sweep each may cost more than [`Cost::MOST`](weir_world::Cost::MOST).
    ///
    /// # Errors
    /// If a file cannot be read, or a cell cannot run. The error has file and line.
    pub fn load(path: &Path, most: u64, large: bool) -> Result<Self, SweepError> {
        Self::parse(toml_file::read(path)?, path, most, large)
    }

    /// As [`load`](Self::load), of a text; `path` is what errors call it, and a scenario's file is looked for from
    /// there.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn parse(text: String, path: &Path, most: u64, large: bool) -> Result<Self, SweepError> {
        let file = File::parse(text, path, most)?;
        let all: usize = file.axes.iter().map(|axis| axis.len).product();
        let origin = Origin::new(file.world, None)?;
        let (combinations, addresses, fastest) = (Vec::new(), Vec::new(), Rate::default());
        let mut sweep = Self { combinations, addresses, origin, fastest, large, file };
        sweep.combinations = (0..all).filter(|number| !sweep.is_excluded(*number)).collect();
        if sweep.combinations.is_empty() {
            return Err(SweepError::Nothing(path.display().to_string()));
        }
        sweep.find_addresses()?;
        Ok(sweep)
    }

    /// The same cells with code that is no part of Weir, such as a controller that was registered: what another `code`
    /// has measured is not found. The text must change whenever the code does.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn with_code(mut self, code: &str) -> Result<Self, SweepError> {
        code.clone_into(&mut self.origin.also);
        self.addresses.clear();
        self.find_addresses()?;
        Ok(self)
    }

    fn find_addresses(&mut self) -> Result<(), SweepError> {
        for combination in 0..self.combinations.len() {
            let scenario = self.scenario(combination)?;
            self.fastest = self.fastest.max(scenario.bottleneck.rate);
            let described = self.origin.describe(&scenario);
            let addresses = (0..self.file.repeat).map(|run| engine::address(&described, run));
            self.addresses.extend(addresses);
        }
        Ok(())
    }

    /// The columns of its table.
    pub fn columns(&self) -> Vec<ColumnMeta> {
        columns::meta(&columns::all(self))
    }

    /// The rows of its table, as `sweep.csv` has them, from the results that are kept in `out`.
    pub fn rows(&self, out: &Path) -> impl Iterator<Item = Vec<Datum>> + '_ {
        let store = Store::new(out);
        (0..self.cells()).flat_map(move |cell| match store.read::<Measured>(self.address(cell)) {
            Kept::Whole(Outcome::Measured(measured)) => columns::measured(self, cell, &measured),
            Kept::Whole(Outcome::Failed(error)) => vec![columns::failed(self, cell, &error)],
            Kept::Nothing | Kept::Damaged => Vec::new(),
        })
    }

    /// What it is called: `name`, or the file's name without `.toml`.
    pub fn name(&self) -> &str {
        &self.file.name
    }

    /// Whether its cells may cost whatever they do.
    pub(super) fn is_large(&self) -> bool {
        self.large
    }

    /// Where its cells run.
    pub fn world(&self) -> &'static dyn World {
        self.file.world
    }

    /// Runs of each combination.
    pub fn repeat(&self) -> u64 {
        self.file.repeat
    }

    /// How many combinations there are.
    pub fn combinations(&self) -> usize {
        self.combinations.len()
    }

    /// How many cells there are.
    pub fn cells(&self) -> usize {
        self.addresses.len()
    }

    /// The keys, in the order of the table.
    pub fn keys(&self) -> Vec<SweptKey> {
        let axes = self.file.axes.iter().enumerate();
        axes.flat_map(|(axis, keys)| {
            keys.keys.iter().map(move |key| SweptKey {
                key: key.name.clone(),
                axis,
                column: key.column(),
                values: key.values.iter().map(|value| value.label.clone()).collect(),
            })
        })
        .collect()
    }

    /// The values of a cell and its run, for people.
    pub fn describe(&self, cell: usize) -> String {
        let Cell { combination, run } = self.cell(cell);
        let values = self.chosen(combination).map(|(key, value)| format!("{} = {}", key.name, value.label));
        values.chain([format!("run {run}")]).collect::<Vec<_>>().join(", ")
    }

    /// How many cells have a result in `out`.
    pub fn done(&self, out: &Path) -> usize {
        let store = Store::new(out);
        let is_there = |address: &&Address| matches!(store.read::<Measured>(address), Kept::Whole(_));
        self.addresses.iter().filter(is_there).count()
    }

    pub(super) fn axes(&self) -> &[Axis] {
        &self.file.axes
    }

    pub(super) fn text(&self) -> &str {
        &self.file.texts.sweep
    }

    pub(super) fn origin(&self) -> &Origin {
        &self.origin
    }

    pub(super) fn fastest(&self) -> Rate {
        self.fastest
    }

    pub(super) fn address(&self, cell: usize) -> &Address {
        &self.addresses[cell]
    }

    /// The cell of that number.
    pub(super) fn cell(&self, cell: usize) -> Cell {
        let repeat = self.file.repeat as usize;
        Cell { combination: cell / repeat, run: (cell % repeat) as u64 }
    }

    /// The places of a combination's values, one for each axis.
    pub(crate) fn places(&self, combination: usize) -> Vec<usize> {
        places(&self.file.axes, self.combinations[combination])
    }

    /// Each key with its value.
    pub(super) fn chosen(&self, combination: usize) -> impl Iterator<Item = (&Key, &Value)> {
        let places = self.places(combination);
        self.file
            .axes
            .iter()
            .zip(places)
            .flat_map(|(axis, place)| axis.keys.iter().map(move |key| (key, &key.values[place])))
    }

    fn is_excluded(&self, number: usize) -> bool {
        let places = places(&self.file.axes, number);
        let fits = |(axis, values): &(usize, Vec<usize>)| values.contains(&places[*axis]);
        self.file.excluded.iter().any(|together| together.iter().all(fits))
    }

    /// The scenario of a combination, checked for the sweep's world.
    ///
    /// # Errors
    /// If it cannot run there.
    pub(crate) fn scenario(&self, combination: usize) -> Result<Scenario, SweepError> {
        let chosen: Vec<(&Key, &Value)> = self.chosen(combination).collect();
        scenario_with(&self.file.texts, &chosen, self.file.world, self.large)
    }

    /// The same cells in a world that no file names.
    #[cfg(test)]
    pub(super) fn in_world(mut self, world: &'static dyn World) -> Self {
        (self.file.world, self.origin.world) = (world, world);
        self
    }
}

/// The scenario of `texts` with a value for each of some keys, checked for a world.
///
/// # Errors
/// If it cannot run there.
pub fn scenario_with(
    texts: &Texts,
    chosen: &[(&Key, &Value)],
    world: &'static dyn World,
    large: bool,
) -> Result<Scenario, SweepError> {
    let offset = texts.offset();
    let splices: Vec<Splice<'_>> = chosen
        .iter()
        .map(|(key, value)| Splice { path: &key.path, literal: &value.literal, at: value.at })
        .collect();
    let read = |table: toml::Spanned<toml::de::DeTable<'_>>| {
        let read = Scenario::deserialize(toml::Deserializer::from(table.clone()));
        let mut scenario = read.map_err(|error| {
            let fault = Fault::toml(error);
            // A discipline is read as a whole; the key that was put into it is where to look.
            let inside = chosen.iter().find(|(key, _)| {
                let mut above = (1..key.path.len()).map(|steps| key.path[..steps].join("."));
                above.any(|path| toml_place::span(&table, &path).start == fault.at)
            });
            Fault { at: inside.map_or(fault.at, |(_, value)| offset + value.at), ..fault }
        })?;
        // It is the sweep that has a name, and no result depends on it.
        scenario.name.clear();
        let checked = scenario
            .complete(texts.folder())
            .and_then(|()| scenario.check())
            .and_then(|()| check(&scenario, world, large));
        let wrong = checked.err();
        let wrong = wrong.or_else(|| {
            let remedy = "a sweep keeps no packets; run this one scenario with `weir run --pcap`";
            scenario.measure.pcap.then(|| Refusal::new("measure.pcap", remedy))
        });
        match wrong {
            None => Ok(scenario),
            Some(Refusal { key, message }) => {
                // A key that is swept is where to change it, also where the error names the table around it.
                let swept = chosen.iter().find(|(swept, _)| {
                    let path = swept.path.join(".");
                    path.strip_prefix(&key).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
                });
                let at = match swept {
                    Some((_, value)) => offset + value.at,
                    None => toml_place::span(&table, &key).start,
                };
                let with = chosen.iter().map(|(key, value)| format!("{} = {}", key.name, value.label));
                let with = with.collect::<Vec<_>>().join(", ");
                let with = if with.is_empty() { with } else { format!(" (with {with})") };
                Err(Fault::new(at, format!("{}: {message}{with}", scenario.said(&key))))
            }
        }
    };
    let scenario = texts.table().and_then(|table| splice(table, &splices, offset, read));
    scenario.map_err(|fault| texts.error(fault))
}

/// The places of a combination's values: the digits of its number, the last axis fastest.
fn places(axes: &[Axis], number: usize) -> Vec<usize> {
    let mut rest = number;
    let mut places: Vec<usize> = axes
        .iter()
        .rev()
        .map(|axis| {
            let place = rest % axis.len;
            rest /= axis.len;
            place
        })
        .collect();
    places.reverse();
    places
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::super::{MOST_CELLS, Sweep, SweepError};

    const SCENARIO: &str = r#"
[bottleneck]
rate = "10mbit"
rtt = "20ms"
qdisc = "codel ecn limit 100p"
[[flow]]
name = "bulk.1"
stack = "tcp"
controller = "cubic"
bytes = "1mb"
[[flow]]
stack = "udp"
rate = "1mbit"
"#;

    /// A sweep over SCENARIO, which stands in a file of its own.
    fn load(text: &str, most: u64) -> Result<Sweep, SweepError> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("base.toml"), SCENARIO).unwrap();
        let path = folder.path().join("s.toml");
        std::fs::write(&path, format!("scenario = \"base.toml\"\n{text}")).unwrap();
        Sweep::load(&path, most, false)
    }

    fn error(text: &str) -> String {
        match load(text, MOST_CELLS) {
            Ok(_) => panic!("{text} is no error"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn values_come_where_their_keys_lead() {
        let sweep = load(
            r#"
[sweep]
flow."bulk.1".controller = ["reno"]
"flow.1.rate" = ["2mbit"]
"bottleneck.qdisc.target" = ["2ms"]
"measure.timeout" = ["9s"]
law.spin_debounce = [3]
seed = [7]
"#,
            MOST_CELLS,
        )
        .unwrap();
        let scenario = sweep.scenario(0).unwrap();
        assert_eq!(scenario.flows[0].controller, "reno");
        assert_eq!(scenario.flows[1].rate.unwrap().bits_per_sec(), 2_000_000);
        assert_eq!(scenario.bottleneck.qdisc, "codel ecn limit 100p target 2ms".parse().unwrap());
        assert_eq!((scenario.measure.timeout.as_nanos(), scenario.seed), (9_000_000_000, 7));
        assert_eq!(scenario.law_params().unwrap().spin_debounce, 3);
        assert_eq!(scenario.flows[0].name, "bulk.1", "what is not swept stays");
    }

    #[test]
    fn a_key_of_a_queue_that_is_swept_itself_goes_into_each() {
        let text = r#"
[sweep]
"bottleneck.qdisc" = ["codel", { kind = "codel", ecn = true }]
"bottleneck.qdisc.limit" = { from = "1bdp", to = "2bdp", factor = 2 }
"#;
        let sweep = load(text, MOST_CELLS).unwrap();
        let queues: Vec<_> = (0..sweep.combinations())
            .map(|number| sweep.scenario(number).unwrap().bottleneck.qdisc)
            .collect();
        let expected =
            ["codel limit 1bdp", "codel limit 2bdp", "codel ecn limit 1bdp", "codel ecn limit 2bdp"];
        assert_eq!(queues, expected.map(|words| words.parse().unwrap()));
    }

    #[test]
    fn what_is_excluded_does_not_run() {
        let axes = "[sweep]\n\"bottleneck.rtt\" = [\"5ms\", \"10ms\"]\n\"flow.0.controller\" = [\"reno\", \"cubic\"]\n";
        let all = |text: &str| {
            let sweep = load(&format!("{axes}{text}"), MOST_CELLS).unwrap();
            (0..sweep.cells()).map(|cell| sweep.describe(cell)).collect::<Vec<_>>()
        };
        assert_eq!(all("").len(), 4);
        let left = all("[[exclude]]\n\"bottleneck.rtt\" = \"5000us\"\n\"flow.0.controller\" = \"cubic\"\n");
        assert_eq!(left.len(), 3);
        assert!(
            !left.contains(&"bottleneck.rtt = 5ms, flow.0.controller = cubic, run 0".to_owned()),
            "{left:?}"
        );
        assert_eq!(all("[[exclude]]\n\"bottleneck.rtt\" = [\"5ms\"]\n[[exclude]]\n\"flow.0.controller\" = \"cubic\"\n").len(), 1);
        let message = error(&format!("{axes}[exclude]\n\"bottleneck.rtt\" = [\"5ms\", \"10ms\"]\n"));
        assert!(message.contains("leaves nothing"), "{message}");
    }

    #[test]
    fn errors_have_file_line_and_remedy() {
        for (text, says) in [
            ("[sweep]\n\"bottleneck.rat\" = [\"1mbit\"]", ["s.toml: line 3: ", "did you mean `rate`?"]),
            (
                "[sweep]\n\n\"bottleneck.rate\" = [\"1mbit\",\n \"0mbit\"]",
                ["s.toml: line 5: ", "is missing or 0"],
            ),
            ("[sweep]\n\"bottleneck.rate\" = [\"1mbits\"]", ["s.toml: line 3: ", "unknown unit"]),
            ("[sweep]\n\"bottleneck.rate\" = [\"5ms\"]", ["s.toml: line 3: ", "is not a rate"]),
            ("[sweep]\n\"bottleneck.rate\" = \"5ms\"", ["s.toml: line 3: ", "give a list"]),
            ("[sweep]\n\"bottleneck.rate.x\" = [\"5ms\"]", ["s.toml: line 3: ", "no keys"]),
            ("[sweep]\n\"bottleneck.rate\" = []", ["s.toml: line 3: ", "at least one"]),
            ("[sweep]\n\"bottleneck.rate\" = [\"1mbit\", \"1mbit\"]", ["s.toml: line 3: ", "twice"]),
            ("[sweep]\n\"flow.0.controller\" = [\"cubik\"]", ["s.toml: line 3: ", "did you mean 'cubic'"]),
            ("[sweep]\n\"flow.bulk.controller\" = [\"reno\"]", ["s.toml: line 3: ", "`flow.bulk.1`"]),
            ("[sweep]\n\"flow.2.controller\" = [\"reno\"]", ["s.toml: line 3: ", "from flow.0 to flow.1"]),
            (
                "[sweep]\n\"bottleneck.qdisc.limit\" = [\"2p\",\n\"0.01bdp\"]",
                ["s.toml: line 4: ", "bottleneck.qdisc: limit"],
            ),
            ("[sweep]\n\"bottleneck.qdisc.targett\" = [\"2ms\"]", ["s.toml: line 3: ", "target"]),
            ("[sweep]\nlaw.spin_debonce = [3]", ["s.toml: line 3: ", "did you mean `spin_debounce`?"]),
            ("repeat = 0", ["s.toml: line 2: ", "from 1"]),
            ("world = \"simm\"", ["s.toml: line 2: ", "did you mean \"sim\"?"]),
            ("repaet = 3", ["s.toml: line 2: ", "did you mean `repeat`?"]),
            ("[sweep]\nrepeat = 3", ["s.toml: line 3: ", "above [sweep]"]),
            (
                "[[zip]]\n\"seed\" = [1, 2]\n\"bottleneck.rtt\" = [\"1ms\"]",
                ["s.toml: line 4: ", "equally many"],
            ),
            ("[sweep]\n\"seed\" = [1, 2]\n[[zip]]\n\"seed\" = [3]", ["s.toml: line 5: ", "line 3 already"]),
            (
                "[sweep]\n\"seed\" = { from = 1, to = 1000000000, step = 1 }",
                ["s.toml: line 3: ", "--max-cells"],
            ),
            (
                "repeat = 1000000\n[sweep]\n\"seed\" = { from = 1, to = 1000, step = 1 }",
                ["s.toml: line 3: ", "make 1000000000 cells"],
            ),
            ("[sweep]\n\"seed\" = [1]\n[[exclude]]\n\"seed\" = 2", ["s.toml: line 5: ", "never is 2"]),
            (
                "[sweep]\n\"seed\" = [1]\n[[exclude]]\n\"sed\" = 1",
                ["s.toml: line 5: ", "did you mean \"seed\""],
            ),
            ("[sweep]\n\"measure.pcap\" = [true]", ["s.toml: line 3: ", "weir run --pcap"]),
            ("[sweep]\n\"flow.0.path\" = [[\"core\"]]", ["s.toml: line 3: ", "takes a list"]),
            ("world = \"emu\"\n[sweep]\n\"flow.0.gso\" = [4]", ["s.toml: line 4: ", "--on sim"]),
            ("[sweep]\n\"flow.0.bytes\" = [\"0b\"]", ["s.toml: line 3: ", "at least 1 byte"]),
            ("[sweep\n", ["s.toml: line 2: ", "]"]),
        ] {
            let message = error(text);
            for says in says {
                assert!(message.contains(says), "{text}\n{message}");
            }
        }
    }

    #[test]
    fn an_error_of_the_scenario_has_the_line_of_its_file() {
        let folder = tempfile::tempdir().unwrap();
        for (from, to, says) in [
            ("\"10mbit\"", "\"0mbit\"", "base.toml: line 3: bottleneck.rate"),
            ("limit 100p", "limit 0p", "base.toml: line 5: bottleneck.qdisc"),
            ("\"cubic\"", "\"cubik\"", "base.toml: line 9: flow 1 ('bulk.1'): controller"),
            ("stack = \"udp\"", "stak = \"udp\"", "base.toml: line 12: "),
            ("[bottleneck]", "[bottleneck", "base.toml: line 2: "),
        ] {
            std::fs::write(folder.path().join("base.toml"), SCENARIO.replacen(from, to, 1)).unwrap();
            let path = folder.path().join("s.toml");
            std::fs::write(&path, "scenario = \"base.toml\"\n[sweep]\n\"seed\" = [1]\n").unwrap();
            let message = Sweep::load(&path, MOST_CELLS, false).err().unwrap().to_string();
            assert!(message.contains(says), "{says}: {message}");
        }
        std::fs::remove_file(folder.path().join("base.toml")).unwrap();
        let message =
            Sweep::load(&folder.path().join("s.toml"), MOST_CELLS, false).err().unwrap().to_string();
        assert!(message.contains("cannot read") && message.contains("base.toml"), "{message}");
    }

    #[test]
    fn the_examples_can_run() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/sweeps");
        let files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
        assert!(!files.is_empty());
        for file in files {
            Sweep::load(&file, MOST_CELLS, false).unwrap();
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Products and zips: every combination once, the last axis fastest, zipped keys together.
        #[test]
        fn every_combination_comes_once(rtts in 1u64..5, seeds in 1u64..5, zipped in 1u64..5, repeat in 1u64..4, zip_first: bool) {
            let list = |count: u64, value: &dyn Fn(u64) -> String| (1..=count).map(value).collect::<Vec<_>>().join(", ");
            let sweep = format!(
                "[sweep]\n\"bottleneck.rtt\" = [{}]\n\"seed\" = [{}]\n",
                list(rtts, &|at| format!("\"{at}ms\"")),
                list(seeds, &|at| at.to_string()),
            );
            let zip = format!(
                "[[zip]]\n\"bottleneck.rate\" = [{}]\n\"flow.1.count\" = [{}]\n",
                list(zipped, &|at| format!("\"{at}mbit\"")),
                list(zipped, &|at| at.to_string()),
            );
            let text = if zip_first { format!("repeat = {repeat}\n{zip}{sweep}") } else { format!("repeat = {repeat}\n{sweep}{zip}") };
            let sweep = load(&text, MOST_CELLS).unwrap();
            prop_assert_eq!(sweep.cells() as u64, rtts * seeds * zipped * repeat);
            let mut addresses = BTreeSet::new();
            let mut seen = Vec::new();
            for cell in 0..sweep.cells() {
                prop_assert!(addresses.insert(*sweep.address(cell)), "two cells with one address");
                let place = sweep.cell(cell);
                let scenario = sweep.scenario(place.combination).unwrap();
                let rate = scenario.bottleneck.rate.bits_per_sec() / 1_000_000;
                prop_assert_eq!(rate, u64::from(scenario.flows[1].count), "the zip is apart");
                let rtt = scenario.bottleneck.rtt.as_nanos() / 1_000_000;
                let order = if zip_first { [rate, rtt, scenario.seed] } else { [rtt, scenario.seed, rate] };
                seen.push((order, place.run));
            }
            let mut sorted = seen.clone();
            sorted.sort_unstable();
            sorted.dedup();
            prop_assert_eq!(seen, sorted);
        }
    }
}
