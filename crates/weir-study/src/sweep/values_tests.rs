//! Values and ranges.

use proptest::prelude::*;
use toml::de::{DeTable, DeValue};

use super::{Quantity, Steps, Value, common};

fn range(text: &str) -> Result<Vec<String>, String> {
    let text = format!("x = {text}");
    let table = DeTable::parse(&text).unwrap();
    let value = table.get_ref().get("x").unwrap();
    let DeValue::Table(inner) = value.get_ref() else { panic!("{text}") };
    let steps = Steps::read(&text, inner, value.span()).map_err(|fault| fault.message)?;
    Ok(steps.values().into_iter().map(|value| value.label).collect())
}

#[test]
fn ranges_reach_their_end_and_keep_their_unit() {
    for (text, labels) in [
        ("{ from = \"5ms\", to = \"160ms\", factor = 2 }", "5ms 10ms 20ms 40ms 80ms 160ms"),
        ("{ from = \"900us\", to = \"1.2ms\", step = \"100us\" }", "900us 1ms 1.1ms 1.2ms"),
        ("{ from = \"10mbit\", to = \"1gbit\", factor = 10 }", "10mbit 100mbit 1gbit"),
        ("{ from = \"0.1bdp\", to = \"0.5bdp\", step = \"0.1bdp\" }", "0.1bdp 0.2bdp 0.3bdp 0.4bdp 0.5bdp"),
        ("{ from = \"10p\", to = \"30p\", step = \"10p\" }", "10p 20p 30p"),
        ("{ from = \"1kb\", to = \"4kb\", factor = 2 }", "1kb 2kb 4kb"),
        ("{ from = 0, to = 1.0, step = 0.25 }", "0.0 0.25 0.5 0.75 1.0"),
        ("{ from = 1, to = 10, step = 4 }", "1 5 9"),
        ("{ from = 1, to = 1, factor = 2 }", "1"),
    ] {
        assert_eq!(range(text).unwrap().join(" "), labels, "{text}");
    }
}

#[test]
fn a_range_that_leads_nowhere_says_what_to_change() {
    for (text, says) in [
        ("{ from = 1, to = 9 }", "either `step` or `factor`"),
        ("{ from = 1, to = 9, step = 1, factor = 2 }", "either `step` or `factor`"),
        ("{ from = 1, to = 9, stepp = 1 }", "did you mean `step`?"),
        ("{ from = 1, step = 1 }", "has no `to`"),
        ("{ from = 9, to = 1, step = 1 }", "exchange them"),
        ("{ from = 1, to = 9, step = 0 }", "above 0"),
        ("{ from = \"1ms\", to = \"9ms\", step = \"1mbit\" }", "same unit"),
        ("{ from = \"1ms\", to = \"9mbit\", step = 1 }", "one kind of unit"),
        ("{ from = \"reno\", to = \"cubic\", step = 1 }", "list the values"),
        ("{ from = 1, to = 9, factor = 1 }", "above 1"),
        ("{ from = 0, to = 9, factor = 2 }", "begin above it"),
    ] {
        let message = range(text).unwrap_err();
        assert!(message.contains(says), "{text}: {message}");
    }
}

#[test]
fn columns_take_the_unit_that_all_values_have() {
    let of = |texts: &[&str]| {
        let values: Vec<Value> = texts
            .iter()
            .map(|text| {
                let value = DeValue::parse(text).unwrap();
                Value::read(text, &value).unwrap()
            })
            .collect();
        common(&values)
    };
    assert_eq!(of(&["\"5ms\"", "\"1s\""]), Quantity::Time);
    assert_eq!(of(&["\"10mbit\"", "\"1mbps\""]), Quantity::Rate);
    assert_eq!(of(&["\"1mb\"", "\"10kb\""]), Quantity::Size);
    assert_eq!(of(&["\"1bdp\"", "\"10p\""]), Quantity::Text);
    assert_eq!(of(&["1", "2.5"]), Quantity::Number);
    assert_eq!(of(&["true", "false"]), Quantity::Truth);
    assert_eq!(of(&["\"codel\"", "{ kind = \"pie\" }"]), Quantity::Text);
}

proptest! {
    #[test]
    fn a_step_has_every_multiple_up_to_the_end(from in 1u64..1_000, step in 1u64..500, count in 1u64..200, over in 0.0..0.999f64) {
        let to = from + step * (count - 1) + (step as f64 * over) as u64;
        let labels = range(&format!("{{ from = \"{from}us\", to = \"{to}us\", step = \"{step}us\" }}")).unwrap();
        let nanos: Vec<u64> = labels.iter().map(|label| label.parse::<weir_core::Duration>().unwrap().as_nanos()).collect();
        let expected: Vec<u64> = (0..count).map(|index| (from + step * index) * 1000).collect();
        prop_assert_eq!(nanos, expected);
    }

    #[test]
    fn a_factor_has_every_power_up_to_the_end(from in 1u64..1_000, factor in 2u64..6, count in 1u32..8) {
        let to = from * factor.pow(count - 1);
        let labels = range(&format!("{{ from = \"{from}kbit\", to = \"{to}kbit\", factor = {factor} }}")).unwrap();
        let rates: Vec<u64> = labels.iter().map(|label| label.parse::<weir_core::Rate>().unwrap().bits_per_sec()).collect();
        let expected: Vec<u64> = (0..count).map(|index| from * factor.pow(index) * 1000).collect();
        prop_assert_eq!(rates, expected);
    }
}
