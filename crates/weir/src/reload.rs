//! `weir reload`: what is up, with some of it said anew.

use std::process::ExitCode;

use anyhow::bail;

use crate::cli::ReloadArgs;
use crate::talk;
use crate::up::{bring, failed, keys, setup};

/// Changes what is up.
pub(crate) fn run(args: &ReloadArgs) -> anyhow::Result<ExitCode> {
    let said = match keys(&args.setup)? {
        Ok(keys) => keys,
        // Its words are those of weir up.
        Err(wrong) => return Ok(talk::wrong(&wrong.replace("a word of weir up", "a word of weir reload"))),
    };
    let Some(device) = said.dev.clone() else {
        return Ok(talk::wrong(&"no device is given; add 'dev eth0'"));
    };
    let standing = match weir_kernel::standing(&device) {
        Ok(standing) => standing,
        Err(error) => return Ok(failed(&error)),
    };
    let Some(standing) = standing else {
        bail!("nothing is up on {device}; use `weir up dev {device} rate ...`");
    };
    // A file is all that is wanted; words alone change what is there.
    let keys = match args.setup.config {
        Some(_) => Ok(said),
        None => standing.keys.changed_by(said).map_err(|error| error.to_string()),
    };
    match keys.and_then(setup) {
        Ok(setup) => bring(&setup, args.output),
        Err(wrong) => Ok(talk::wrong(&wrong)),
    }
}
