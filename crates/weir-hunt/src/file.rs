//! A hunt's file: the scenario, its genes, what is looked for, and how long.

use std::path::Path;

use toml::de::{DeTable, DeValue};
use toml::{Spanned, de};
use weir_core::words::{hint_in, nearest};
use weir_scenario::{Scenario, toml_file};
use weir_truth::policy::Policy;
use weir_truth::truth::Class;
use weir_world::SIM;

use crate::draft::Draft;
use crate::gene::{Gene, Part};
use crate::objective::{LINK, NAMED, Objective, Want, flow_names, owners};
use crate::search::Search;
use crate::{Hunt, HuntError, Plan};
use weir_study::engine::Origin;
use weir_study::sweep::grammar::{Fault, Texts, measures};

const KEYS: [&str; 10] = [
    "scenario",
    "name",
    "search",
    "seed",
    "evaluations",
    "repeat",
    "confirm",
    "tolerance",
    "objective",
    "genes",
];
const OBJECTIVE: [&str; 4] = ["measure", "of", "beside", "want"];

impl Hunt {
    /// Reads a hunt and the scenario that it names, and checks both ends of every gene.
    ///
    /// # Errors
    /// If a file cannot be read, or something in it makes no sense. The error has file and line.
    pub fn load(path: &Path, plan: &Plan) -> Result<Self, HuntError> {
        Self::parse(toml_file::read(path)?, path, plan)
    }

    /// As [`load`](Self::load), of a text; `path` is what errors call it, and a scenario's file is looked for from
    /// there.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn parse(text: String, path: &Path, plan: &Plan) -> Result<Self, HuntError> {
        let mut texts = Texts::new(text, path);
        let text = texts.sweep.clone();
        let root = DeTable::parse(&text).map_err(|error| texts.own(Fault::toml(error)))?;
        let root = root.get_ref();
        known(root, &KEYS, "a hunt").map_err(|fault| texts.own(fault))?;
        texts.find_scenario(root, "a hunt")?;
        let genes = match root.get("genes").map(|value| (value.get_ref(), value.span().start)) {
            Some((DeValue::Table(table), _)) if !table.is_empty() => {
                // A fault of the scenario's text and one of the hunt's are told apart by their place.
                texts.table().map_err(|fault| texts.error(fault))?;
                Gene::all(&texts, table).map_err(|fault| texts.own(fault))?
            }
            other => {
                let what = "a hunt needs genes: a table [genes] with keys of the scenario and what each may be, such \
                            as \"bottleneck.rtt\" = { from = \"5ms\", to = \"200ms\" }";
                return Err(texts.own(Fault::new(other.map_or(0, |(_, at)| at), what.to_owned())).into());
            }
        };
        let number = |key: &str, usual: f64, is_right: &dyn Fn(f64) -> bool, what: &str| {
            number(root, key, usual, is_right, what).map_err(|fault| texts.own(fault))
        };
        let whole = |number: f64| number >= 1.0 && number.fract() == 0.0;
        let name = match root.get("name").map(|value| (value.get_ref().as_str(), value.span().start)) {
            None => path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
            Some((Some(name), _)) if !name.is_empty() => name.to_owned(),
            Some((_, at)) => return Err(texts.own(Fault::new(at, "name: give a text".to_owned())).into()),
        };
        let search = match root.get("search").map(|value| (value.get_ref().as_str(), value.span().start)) {
            None => Search::default(),
            Some((said, at)) => {
                let said = said.unwrap_or_default();
                let known = Search::ALL.map(Search::name);
                Search::ALL.into_iter().find(|search| search.name() == said).ok_or_else(|| {
                    let hint = hint_in("\"", said, known);
                    texts.own(Fault::new(at, format!("search: it is one of {}{hint}", known.join(", "))))
                })?
            }
        };
        let evaluations = number("evaluations", 500.0, &whole, "a whole number from 1")? as usize;
        let seed = number("seed", 1.0, &|seed| seed >= 0.0 && seed.fract() == 0.0, "a whole number from 0")?;
        let tolerance =
            number("tolerance", 0.1, &|part| (0.0..1.0).contains(&part), "a number from 0 to below 1")?;
        let mut hunt = Self {
            name,
            search: plan.search.unwrap_or(search),
            seed: plan.seed.unwrap_or(seed as u64),
            evaluations: plan.evaluations.unwrap_or(evaluations),
            repeat: number("repeat", 1.0, &whole, "a whole number of runs from 1")? as u64,
            confirm: number("confirm", 10.0, &whole, "a whole number of runs from 1")? as u64,
            tolerance,
            objective: Objective {
                measure: String::new(),
                of: LINK.to_owned(),
                beside: None,
                want: Want::High,
            },
            large: plan.large,
            origin: Origin::new(SIM, None)?,
            genes,
            texts,
        };
        let middle = hunt.check_ends()?;
        hunt.objective = objective(root, &middle, &hunt.genes).map_err(|fault| hunt.texts.own(fault))?;
        Ok(hunt)
    }

    /// Checks each gene at both ends, and at each value where they can be counted, the others in their middle. Returns
    /// the scenario with all of them there.
    fn check_ends(&self) -> Result<Scenario, HuntError> {
        let middle = vec![0.5; self.coordinates().count()];
        let scenario = self.scenario(&self.draft(&middle))?;
        for (place, part) in self.coordinates().enumerate() {
            let ends = match part.count() {
                Some(count) => (0..count).map(|value| (value as f64 + 0.5) / count as f64).collect(),
                None => vec![0.0, 1.0],
            };
            for end in ends {
                let mut point = middle.clone();
                point[place] = end;
                self.scenario(&self.draft(&point))?;
            }
        }
        Ok(scenario)
    }

    /// What each number of a point means.
    pub(crate) fn coordinates(&self) -> impl Iterator<Item = &Part> {
        self.genes.iter().flat_map(|gene| &gene.parts)
    }

    /// The candidate at a point.
    pub(crate) fn draft(&self, point: &[f64]) -> Draft {
        let mut units = point.iter();
        let of =
            |gene: &Gene| gene.parts.iter().map(|part| part.allele(*units.next().unwrap_or(&0.5))).collect();
        Draft::new(self.genes.iter().map(of).collect())
    }
}

fn known(table: &DeTable<'_>, keys: &[&'static str], what: &str) -> Result<(), Fault> {
    match table.keys().find(|key| !keys.contains(&key.get_ref().as_ref())) {
        None => Ok(()),
        Some(key) => {
            let hint = hint_in("`", key.get_ref(), keys.iter().copied());
            Err(Fault::new(key.span().start, format!("{what} has no key `{}`{hint}", key.get_ref())))
        }
    }
}

fn number(
    root: &DeTable<'_>,
    key: &str,
    usual: f64,
    is_right: &dyn Fn(f64) -> bool,
    what: &str,
) -> Result<f64, Fault> {
    let Some(value) = root.get(key) else { return Ok(usual) };
    let read = |value: &Spanned<DeValue<'_>>| match value.get_ref() {
        DeValue::Integer(number) => {
            i64::from_str_radix(number.as_str(), number.radix()).ok().map(|whole| whole as f64)
        }
        DeValue::Float(number) => number.as_str().parse().ok(),
        _ => None,
    };
    let found = read(value).filter(|number| is_right(*number));
    found.ok_or_else(|| Fault::new(value.span().start, format!("{key}: give {what}")))
}

/// The objective, held against a scenario that the genes make.
fn objective(root: &de::DeTable<'_>, scenario: &Scenario, genes: &[Gene]) -> Result<Objective, Fault> {
    let names = || NAMED.iter().map(|(name, ..)| *name);
    let Some((DeValue::Table(table), span)) =
        root.get("objective").map(|value| (value.get_ref(), value.span()))
    else {
        let what = "a hunt needs a table [objective] with a `measure`";
        let all = names().collect::<Vec<_>>().join(", ");
        return Err(Fault::new(0, format!("{what}: {all}, or one of means.csv of a sweep")));
    };
    known(table, &OBJECTIVE, "an objective")?;
    let text = |key: &str| match table.get(key).map(|value| (value.get_ref().as_str(), value.span().start)) {
        None => Ok(None),
        Some((Some(text), at)) => Ok(Some((text.to_owned(), at))),
        Some((None, at)) => Err(Fault::new(at, format!("{key}: give a text"))),
    };
    let Some((measure, at)) = text("measure")? else {
        let what =
            format!("the objective has no `measure`; give one of {}", names().collect::<Vec<_>>().join(", "));
        return Err(Fault::new(span.start, what));
    };
    let named = NAMED.iter().find(|(name, ..)| *name == measure);
    if named.is_none() && !measures().any(|known| known == measure) {
        let near = nearest(&measure, names().chain(measures()));
        let near = near.map_or_else(String::new, |near| format!(" did you mean \"{near}\"?"));
        let all = names().collect::<Vec<_>>().join(", ");
        let what =
            format!("there is no measure \"{measure}\";{near} there are {all}, and those of means.csv");
        return Err(Fault::new(at, what));
    }
    let want = match text("want")? {
        None => named.map(|(_, want, _)| *want).ok_or_else(|| {
            Fault::new(
                at,
                format!("\"{measure}\" may be looked for at both ends; give want = \"low\" or \"high\""),
            )
        })?,
        Some((word, _)) if word == "low" => Want::Low,
        Some((word, _)) if word == "high" => Want::High,
        Some((_, at)) => return Err(Fault::new(at, "want: give \"low\" or \"high\"".to_owned())),
    };
    let of_flow = named.is_some_and(|(_, _, of_flow)| *of_flow);
    let flows = flow_names(scenario);
    let senders = || flows.iter().cloned().chain(scenario.workloads.iter().map(|one| one.label().to_owned()));
    let known: Vec<String> = match measure.as_str() {
        "share" => senders().collect(),
        _ if of_flow => flows.clone(),
        _ => owners(scenario),
    };
    let owner = |key: &str| match text(key)? {
        Some((name, at)) if !known.contains(&name) => {
            let hint = hint_in("\"", &name, known.iter().map(String::as_str));
            let what = format!("{key}: the scenario has no \"{name}\" with {measure}{hint}");
            Err(Fault::new(at, format!("{what}; there are {}", known.join(", "))))
        }
        found => Ok(found),
    };
    let (of, beside) = (owner("of")?, text("beside")?);
    if let Some((_, at)) = of.as_ref().filter(|(name, _)| measure == "utilisation" && name != LINK) {
        return Err(Fault::new(*at, format!("{measure} is of the link; leave `of` out")));
    }
    if let Some((_, at)) = beside.as_ref().filter(|_| measure != "share") {
        return Err(Fault::new(*at, format!("{measure} stands beside nothing; leave `beside` out")));
    }
    let beside = owner("beside")?;
    if of.is_none() && of_flow {
        let what = format!("{measure} is of a flow; give of = \"NAME\"");
        return Err(Fault::new(at, format!("{what}; there are {}", known.join(", "))));
    }
    if let (Some((name, at)), "wrong") = (&of, measure.as_str()) {
        let place = flows.iter().position(|known| known == name).unwrap_or_default();
        let flow = scenario.flows.iter().filter(|flow| flow.count > 0).nth(place);
        let controller = flow.map(|flow| flow.controller.clone()).unwrap_or_default();
        let is_known = Class::of(&controller).is_some_and(|class| {
            class.right().is_some() || Policy::load().right(&controller, "loss").is_some()
        });
        let is_gene = genes.iter().any(|gene| gene.key.path.last().is_some_and(|step| step == "controller"));
        if !is_known && !is_gene {
            let what =
                format!("of: it is not known what \"{name}\" is, whose controller is \"{controller}\"");
            return Err(Fault::new(*at, format!("{what}; name a flow that the law judges")));
        }
    }
    let of = of.map_or_else(|| LINK.to_owned(), |(name, _)| name);
    Ok(Objective { measure, of, beside: beside.map(|(name, _)| name), want })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::{Hunt, Plan};

    const SCENARIO: &str = r#"
[scenario.bottleneck]
rate = "10mbit"
rtt = "20ms"
qdisc = "bfifo limit 1bdp"
[[scenario.flow]]
name = "bulk"
stack = "tcp"
controller = "reno"
duration = "1s"
[[scenario.flow]]
name = "cross"
stack = "udp"
rate = "1mbit"
"#;

    fn load(text: &str) -> Result<Hunt, String> {
        let text = format!("{text}{SCENARIO}");
        Hunt::parse(text, Path::new("h.toml"), &Plan::default()).map_err(|error| error.to_string())
    }

    const OBJECTIVE: &str = "[objective]\nmeasure = \"share\"\nof = \"bulk\"\n";

    #[test]
    fn genes_come_where_their_keys_lead() {
        let genes = r#"[genes]
"bottleneck.rtt" = { from = "10ms", to = "1s", log = true }
"flow.cross.count" = { from = 1, to = 5, step = 2 }
flow.bulk.controller = ["reno", "cubic"]
"bottleneck.rates" = { words = "{rate} for {time}", count = 2, rate = { from = "1mbit", to = "3mbit" }, time = ["1s", "2s"] }
"bottleneck.qdisc.limit" = { from = "1bdp", to = "8bdp", factor = 2 }
"#;
        let hunt = load(&format!("{OBJECTIVE}{genes}")).unwrap();
        assert_eq!(hunt.coordinates().count(), 8);
        let scenario = hunt.scenario(&hunt.draft(&[0.5, 0.9, 0.0, 0.0, 0.0, 1.0, 0.9, 0.3])).unwrap();
        assert_eq!(scenario.bottleneck.rtt.as_nanos(), 100_000_000, "the middle of the logarithm");
        assert_eq!((scenario.flows[1].count, scenario.flows[0].controller.as_str()), (5, "reno"));
        let rates: Vec<String> = scenario.bottleneck.rates.iter().map(ToString::to_string).collect();
        assert_eq!(rates, ["1mbit for 1s", "3mbit for 2s"]);
        assert_eq!(scenario.bottleneck.qdisc, "bfifo limit 2bdp".parse().unwrap());
        let neutral = hunt.scenario(&hunt.draft(&[]).neutral()).unwrap();
        assert_eq!((neutral.bottleneck.rtt.as_nanos(), neutral.flows[1].count), (20_000_000, 1));
    }

    #[test]
    fn whole_numbers_may_be_hexadecimal() {
        let gene = "\"bottleneck.rates\" = { words = \"{rate} for 1s\", count = 0x2, rate = [\"1mbit\", \"3mbit\"] }";
        let hunt = load(&format!("evaluations = 0x10\n{OBJECTIVE}[genes]\n{gene}\n")).unwrap();
        assert_eq!((hunt.evaluations, hunt.coordinates().count()), (16, 2));
    }

    #[test]
    fn errors_have_file_line_and_remedy() {
        let gene = "[genes]\n\"bottleneck.rtt\" = { from = \"5ms\", to = \"50ms\" }\n";
        let with = |objective: &str| format!("{gene}[objective]\n{objective}\n");
        let genes = |gene: &str| format!("{OBJECTIVE}[genes]\n{gene}\n");
        for (text, says) in [
            (OBJECTIVE.to_owned(), ["h.toml: line 1: ", "a hunt needs genes"]),
            (gene.to_owned(), ["h.toml: line 1: ", "a table [objective]"]),
            (with("measure = \"shar\"\nof = \"bulk\""), ["line 4: ", "did you mean \"share\"?"]),
            (with("measure = \"share\""), ["line 4: ", "of = \"NAME\"; there are bulk, cross"]),
            (with("measure = \"share\"\nof = \"bulkk\""), ["line 5: ", "did you mean \"bulk\"?"]),
            (with("measure = \"jain_index\""), ["line 4: ", "want = \"low\" or \"high\""]),
            (with("measure = \"wrong\"\nof = \"cross\""), ["line 5: ", "not known what \"cross\" is"]),
            (
                with("measure = \"stall\"\nof = \"bulk\"\nbeside = \"cross\""),
                ["line 6: ", "leave `beside` out"],
            ),
            (with("measure = \"utilisation\"\nof = \"bulk\""), ["line 5: ", "leave `of` out"]),
            (with("measur = \"stall\""), ["line 4: ", "did you mean `measure`?"]),
            (genes("\"bottleneck.rat\" = [\"1mbit\", \"2mbit\"]"), ["line 5: ", "did you mean `rate`?"]),
            (
                genes("\"bottleneck.rtt\" = { from = \"9ms\", to = \"5ms\" }"),
                ["line 5: ", "`to` above `from`"],
            ),
            (genes("\"bottleneck.rtt\" = { from = \"5ms\" }"), ["line 5: ", "has no `to`"]),
            (
                genes("\"bottleneck.rtt\" = { from = \"0ms\", to = \"5ms\", log = true }"),
                ["line 5: ", "above 0"],
            ),
            (
                genes("\"bottleneck.rtt\" = { from = \"5ms\", to = \"5mbit\" }"),
                ["line 5: ", "one kind of unit"],
            ),
            (
                genes("\"bottleneck.rtt\" = { from = \"5ms\", to = \"9ms\", logg = true }"),
                ["line 5: ", "did you mean `log`?"],
            ),
            (genes("\"bottleneck.rtt\" = [\"5ms\"]"), ["line 5: ", "at least two"]),
            (genes("\"bottleneck.rtt\" = \"5ms\""), ["line 5: ", "nothing to choose"]),
            (
                genes("\"bottleneck.rates\" = { words = \"5mbit\", count = 3 }"),
                ["line 5: ", "always the same"],
            ),
            (
                genes("\"bottleneck.rtt\" = { from = \"5ms\", to = \"5000000s\" }"),
                ["line 5: ", "bottleneck.rtt"],
            ),
            (genes("\"flow.bulk.controller\" = [\"reno\", \"cubik\"]"), ["line 5: ", "did you mean 'cubic'"]),
            (genes("\"flow.bulc.controller\" = [\"reno\", \"cubic\"]"), ["line 5: ", "`flow.bulk`"]),
            (format!("evaluations = 0\n{OBJECTIVE}{gene}"), ["line 1: ", "a whole number from 1"]),
            (format!("search = \"cmaes\"\n{OBJECTIVE}{gene}"), ["line 1: ", "did you mean \"cma-es\"?"]),
            (format!("evaluatons = 9\n{OBJECTIVE}{gene}"), ["line 1: ", "did you mean `evaluations`?"]),
        ] {
            let message = load(&text).err().unwrap_or_else(|| panic!("no error:\n{text}"));
            for says in says {
                assert!(message.contains(says), "{text}\n{message}");
            }
        }
    }

    #[test]
    fn the_examples_can_be_hunted() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/hunts");
        let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
        let files: Vec<_> = files.filter(|path| path.is_file()).collect();
        assert!(!files.is_empty());
        for file in files {
            Hunt::load(&file, &Plan::default()).unwrap();
        }
    }
}
