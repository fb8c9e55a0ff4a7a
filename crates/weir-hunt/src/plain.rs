//! A scenario as a file that people read: without what is so by default.

use toml::{Table, Value};
use weir_qdisc::QdiscConfig;
use weir_scenario::{Bottleneck, Flow, Measure, Scenario, Workload};

/// The scenario as TOML, with `head` as comment lines before it.
pub(crate) fn text(scenario: &Scenario, head: &[String]) -> String {
    let whole = || toml::to_string(scenario).unwrap_or_default();
    let short = short(scenario).filter(|short| {
        Scenario::parse(short, "")
            .is_ok_and(|read| toml::to_string(&read).ok() == toml::to_string(scenario).ok())
    });
    let comments =
        head.iter().map(|line| if line.is_empty() { "#\n".to_owned() } else { format!("# {line}\n") });
    comments.collect::<String>() + "\n" + &short.unwrap_or_else(whole)
}

fn short(scenario: &Scenario) -> Option<String> {
    let mut root = Table::try_from(scenario).ok()?;
    let bottleneck = &scenario.bottleneck;
    let usual = Bottleneck::new(bottleneck.rate, bottleneck.rtt, bottleneck.qdisc.clone());
    let table = root.get_mut("bottleneck")?.as_table_mut()?;
    strip(table, &Table::try_from(&usual).ok()?, &["rate", "rtt", "qdisc"]);
    let words = table.get("qdisc").and_then(words);
    let is_same = |words: &String| words.parse().is_ok_and(|read: QdiscConfig| read == bottleneck.qdisc);
    if let Some(words) = words.filter(is_same) {
        table.insert("qdisc".to_owned(), Value::String(words));
    }
    for (flow, table) in scenario.flows.iter().zip(tables(&mut root, "flow")) {
        strip(table, &Table::try_from(Flow::of(flow.stack)).ok()?, &["stack", "controller"]);
        if flow.controller.is_empty() {
            table.remove("controller");
        }
    }
    for (workload, table) in scenario.workloads.iter().zip(tables(&mut root, "workload")) {
        let usual = Workload::new(workload.kind, workload.stack);
        strip(table, &Table::try_from(usual).ok()?, &["kind", "stack", "controller"]);
    }
    strip(root.get_mut("measure")?.as_table_mut()?, &Table::try_from(Measure::default()).ok()?, &[]);
    root.retain(|key, value| key != "seed" || value.as_integer() != Some(1));
    root.retain(|_, value| value.as_table().is_none_or(|table| !table.is_empty()));
    toml::to_string(&root).ok()
}

/// A queue's table in words; none where a key of it is a table.
fn words(queue: &Value) -> Option<String> {
    let queue = queue.as_table()?;
    let mut words = queue.get("kind")?.as_str()?.to_owned();
    for (key, value) in queue.iter().filter(|(key, _)| *key != "kind") {
        match value {
            Value::Boolean(true) => words += &format!(" {key}"),
            Value::String(value) => words += &format!(" {key} {value}"),
            Value::Integer(value) => words += &format!(" {key} {value}"),
            Value::Float(value) => words += &format!(" {key} {value}"),
            _ => return None,
        }
    }
    Some(words)
}

fn tables<'t>(root: &'t mut Table, key: &str) -> impl Iterator<Item = &'t mut Table> {
    let all = root.get_mut(key).and_then(Value::as_array_mut);
    all.into_iter().flatten().filter_map(Value::as_table_mut)
}

/// Removes what is as usual, but for some keys that a reader expects.
fn strip(table: &mut Table, usual: &Table, kept: &[&str]) {
    table.retain(|key, value| kept.contains(&key) || usual.get(key) != Some(value));
}
