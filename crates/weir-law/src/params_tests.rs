//! The settings as text, and the page that documents them.

use crate::{MainSignal, Params, Preset, Tie};

#[test]
fn a_preset_with_overrides() {
    let read = |text: &str| toml::from_str::<Params>(text);
    assert_eq!(read("").unwrap(), Params::preset(Preset::Paper));
    let fixed =
        read("preset = \"comsys\"\nfull_cycles = true\nmain_signal = \"ecn\"\ntie = \"keep\"").unwrap();
    let comsys = Params::preset(Preset::Comsys);
    assert_eq!(fixed, Params { full_cycles: true, main_signal: MainSignal::Ecn, tie: Tie::Keep, ..comsys });
    let unknown = read("full_cycle = true").unwrap_err().to_string();
    assert!(unknown.contains("full_cycle") && unknown.contains("full_cycles"), "{unknown}");
    for (text, part) in [
        ("spin_debounce = 0", "spin_debounce = 0 is out of range: use 1 to 16"),
        ("mss = 0", "1 to 65535"),
        ("response_denominator = 0", "1 to 1000000"),
        ("preset = \"best\"", "robust"),
        ("votes_kept = 1", "votes_kept = 1 is out of range: use 0, or 2 to 255"),
        ("votes_kept = 256", "votes_kept = 256 is out of range: use 0, or 2 to 255"),
        ("spin_debounce = -1", "spin_debounce = -1 is out of range: use 1 to 16"),
        ("lapse_round_trips = 256", "lapse_round_trips = 256 is out of range: use 0 to 255"),
        ("mss = 4294967296", "mss = 4294967296 is out of range: use 1 to 65535"),
        ("mss = 1.5", "mss = 1.5 is no whole number: use 1 to 65535"),
        ("mss = \"big\"", "mss = \"big\" is no whole number: use 1 to 65535"),
        ("mss = []", "expected a whole number"),
        ("preset = \"robust\"\nbyte_counters = true", "byte_counters = true does not go with whole_conduct"),
        ("preset = \"comsys\"\nwhole_conduct = true", "set one of them to false"),
    ] {
        let error = read(text).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    let two_windows = read("preset = \"robust\"\nbyte_counters = true\nwhole_conduct = false").unwrap();
    assert!(two_windows.byte_counters && !two_windows.whole_conduct);
    for preset in [Preset::Paper, Preset::Comsys, Preset::Robust] {
        let params = Params::preset(preset);
        assert_eq!(read(&toml::to_string(&params).unwrap()).unwrap(), params);
        params.check().unwrap();
        assert_eq!(Params::from(preset), params);
    }
}

/// Each row of the table in `docs/reference/law.md` names a field and its value in each preset; all fields are there.
#[test]
fn the_page_has_the_presets_values() {
    let page = include_str!("../../../docs/reference/law.md");
    let [paper, comsys, robust] = [Preset::Paper, Preset::Comsys, Preset::Robust]
        .map(|preset| serde_json::to_value(Params::preset(preset)).unwrap().as_object().unwrap().clone());
    let mut rows = Vec::new();
    for line in page.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> =
            line.trim_matches('|').split('|').map(|cell| cell.trim().trim_matches('`')).collect();
        let Some(value) = paper.get(cells[0]) else { continue };
        let text = |value: &serde_json::Value| value.to_string().trim_matches('"').to_owned();
        let values = [value, &comsys[cells[0]], &robust[cells[0]]].map(text);
        assert_eq!(cells[1..4], values, "{line}");
        rows.push(cells[0]);
    }
    assert_eq!(rows, Params::FIELDS);
}
