//! Where a flow's share is looked for.

use super::{FlowBin, Series, Who, is_part, load, throughput};

#[test]
fn what_the_figures_say_is_of_flows_and_variants_that_they_have() {
    for figure in load() {
        let id = &figure.about.id;
        let shows = |who| figure.flow.iter().any(|shown| shown.who == who);
        for variant in &figure.about.variants {
            let systems = figure.system.iter().filter(|system| system.variant == variant.name).count();
            assert_eq!(systems, usize::from(shows(Who::Delay)), "{id}, {}", variant.name);
            let said = figure.claim.iter();
            let said = said.filter(|it| it.variants.is_empty() || it.variants.contains(&variant.name));
            assert!(said.count() > 0, "nothing is said of {id}, {}", variant.name);
        }
        for claim in &figure.claim {
            assert!(shows(claim.of) && claim.over.is_none_or(shows), "{id}: {}", claim.text);
            assert!(claim.least.is_some() || claim.most.is_some(), "{id}: {}", claim.text);
            let known = |name: &String| figure.about.variants.iter().any(|variant| variant.name == *name);
            assert!(claim.variants.iter().all(known), "{id}: {}", claim.text);
        }
    }
}

#[test]
fn throughput_is_of_whole_bins_within_the_span_and_of_both_sub_flows() {
    let series = Series { interval_s: 0.5, end_s: 2.6, ..Series::default() };
    let bins = |bytes: &[u64]| -> Vec<FlowBin> {
        bytes.iter().map(|&departed_bytes| FlowBin { departed_bytes, ..FlowBin::default() }).collect()
    };
    // A list may lack bins at its end.
    let (heavy, light) = (bins(&[9_000, 50_000, 50_000, 25_000, 7_000]), bins(&[0, 0, 12_500]));
    let of = |span| throughput(&series, [&heavy, &light].into_iter(), span);
    assert_eq!(of((0.5, 2.0)), Some(137_500.0 * 8.0 / 1.5 / 1e6));
    assert_eq!(of((0.4, 1.6)), Some(112_500.0 * 8.0 / 1.0 / 1e6));
    // The last bin ends with the run, 2.6 s.
    assert_eq!(of((1.5, 2.5)), Some(25_000.0 * 8.0 / 0.5 / 1e6));
    assert_eq!(of((1.5, 2.6)), Some(32_000.0 * 8.0 / 1.1 / 1e6));
    assert_eq!(of((2.6, 9.0)), None);
    assert!(is_part("trains light", "trains") && is_part("trains", "trains"));
    assert!(!is_part("trains 2", "trains") && !is_part("Cubic", "trains"));
}
