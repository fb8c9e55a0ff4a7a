//! Runs random mixes of honest flows and intruders at a protected dual queue and says who was demoted:
//!
//!     cargo run --release -p weirnet-sim --example protected_mixes -- 0 1000
//!
//! The numbers are the first seed and how many. `docs/validation/dualq-figures.md` tells what they came to.

#![allow(clippy::print_stdout, reason = "an example")]

#[path = "../tests/protected/mix.rs"]
mod mix;

use mix::Mix;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut given = std::env::args().skip(1).map(|number| number.parse::<u64>());
    let first = given.next().transpose()?.unwrap_or(0);
    let count = given.next().transpose()?.unwrap_or(20);
    let (mut honest, mut wronged, mut intruders, mut found) = (0, 0, 0, 0);
    for seed in first..first + count {
        let mix = Mix::run(seed)?;
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
