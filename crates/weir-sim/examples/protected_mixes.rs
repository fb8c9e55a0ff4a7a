//! Runs random mixes of honest flows and intruders at a protected dual queue and says who was demoted:
//!
//!     cargo run --release -p weirnet-sim --example protected_mixes -- 0 1000 l4s_limit 1.8ms
//!
//! The numbers are the first seed and how many; words of the dual queue may follow.
//! `docs/validation/dualq-figures.md` tells what they came to.

#![allow(clippy::print_stdout, reason = "an example")]

#[path = "../tests/protected/mix.rs"]
mod mix;

use mix::Mix;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut given = std::env::args().skip(1);
    let first = given.next().map_or(Ok(0), |number| number.parse::<u64>())?;
    let count = given.next().map_or(Ok(20), |number| number.parse::<u64>())?;
    let more = given.collect::<Vec<_>>().join(" ");
    let (mut honest, mut wronged, mut intruders, mut found) = (0, 0, 0, 0);
    for seed in first..first + count {
        let mix = Mix::run(seed, &more)?;
        let (here, demoted) = mix.intruders();
        honest += mix.flows.len() - here;
        wronged += mix.wronged();
        intruders += here;
        found += demoted;
        if mix.wronged() > 0 || demoted < here {
            println!("{}{mix}", if mix.wronged() > 0 { "WRONGED " } else { "" });
        }
    }
    println!(
        "{count} mixes: {wronged} of {honest} honest flows demoted, {found} of {intruders} intruders demoted"
    );
    Ok(())
}
