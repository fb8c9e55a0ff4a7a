//! Random mixes of honest flows and intruders at a protected dual queue: no honest flow is demoted, and intruders are.
//! A thousand mixes are run by the example `protected_mixes`.

#[path = "protected/mix.rs"]
mod mix;

use mix::Mix;

#[test]
fn of_random_mixes_no_honest_flow_is_demoted_and_nearly_all_intruders_are() {
    let (mut honest, mut intruders, mut found) = (0, 0, 0);
    for seed in 0..8 {
        let mix = Mix::run(seed).unwrap();
        assert_eq!(mix.wronged(), 0, "{mix}");
        let (here, demoted) = mix.intruders();
        honest += mix.flows.len() - here;
        intruders += here;
        found += demoted;
    }
    assert!(honest > 20 && intruders > 8, "{honest} {intruders}");
    assert!(found * 10 >= intruders * 9, "{found} of {intruders}");
}
