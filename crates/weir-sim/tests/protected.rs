//! Random mixes of honest flows and intruders at a protected dual queue, whose L4S queue has a limit of its own or has
//! none: no honest flow is demoted, and intruders are. A thousand mixes are run by the example `protected_mixes`.

#[path = "protected/mix.rs"]
mod mix;

use mix::Mix;

#[test]
fn of_random_mixes_no_honest_flow_is_demoted_and_nearly_all_intruders_are() {
    let (mut honest, mut intruders, mut found) = (0, 0, 0);
    for seed in 0..16 {
        let mix = Mix::run(seed / 2, if seed % 2 == 0 { "" } else { "l4s_limit 1.8ms" }).unwrap();
        assert_eq!(mix.wronged(), 0, "{mix}");
        let (here, demoted) = mix.intruders();
        honest += mix.flows.len() - here;
        intruders += here;
        found += demoted;
    }
    assert!(honest > 40 && intruders > 16, "{honest} {intruders}");
    assert!(found * 10 >= intruders * 9, "{found} of {intruders}");
}
