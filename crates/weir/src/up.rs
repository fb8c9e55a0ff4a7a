//! `weir up`: words, flags and a file become a setup; what happens then is weir-link's.

use std::ops::ControlFlow;
use std::process::ExitCode;

use serde::Serialize;
use weir_kernel::{Keys, Setup, Step, UpError};

use crate::cli::{SetupArgs, StepOutput, UpArgs};
use crate::{file, rates, talk};

/// Sets up, or says what it would do.
pub(crate) fn run(args: &UpArgs) -> anyhow::Result<ExitCode> {
    match keys(&args.setup)?.and_then(setup) {
        Ok(setup) => bring(&setup, args.output),
        Err(wrong) => Ok(talk::wrong(&wrong)),
    }
}

/// Brings the interface to `setup` and reports what was done.
pub(crate) fn bring(setup: &Setup, output: StepOutput) -> anyhow::Result<ExitCode> {
    let done = if output.dry_run {
        weir_kernel::plan(setup)
    } else {
        let stop = talk::stop_flag()?;
        weir_kernel::up(setup, &mut |_| match talk::is_stopped(&stop) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        })
    };
    let done = match done {
        Ok(done) => done,
        Err(error) => return Ok(failed(&error)),
    };
    for warning in &done.warnings {
        talk::say!("weir: warning: {warning}");
    }
    if output.json {
        talk::print_json(&Told {
            device: &setup.device,
            steps: tell(&done.steps),
            warnings: &done.warnings,
        })?;
    } else if output.dry_run {
        print_lines(&done.steps)?;
    } else if done.steps.is_empty() {
        talk::say!("{}: nothing to change", setup.device);
    } else {
        talk::say!("{}: {}; `weir down dev {}` takes it off", setup.device, describe(setup), setup.device);
    }
    Ok(ExitCode::SUCCESS)
}

/// What was wrong with the machine; wrong words and being interrupted have codes of their own.
pub(crate) fn failed(error: &UpError) -> ExitCode {
    talk::say!("weir: {error}");
    match error {
        _ if error.is_interruption() => ExitCode::from(talk::INTERRUPTED),
        UpError::Setup(_) => ExitCode::from(talk::WRONG),
        _ => ExitCode::FAILURE,
    }
}

/// What words and flags say, and where they say nothing, the file; the inner error is what is wrong with either. The
/// outer one is a file that cannot be read.
pub(crate) fn keys(args: &SetupArgs) -> anyhow::Result<Result<Keys, String>> {
    let below = match &args.config {
        Some(path) => file::read(path)?,
        None => Ok((Keys::default(), toml::Table::new())),
    };
    let words = words(args);
    let above = weir_kernel::parse_words(&words).map_err(|error| error.to_string());
    Ok(below.and_then(|(below, file)| {
        let above = above?;
        warn_of_rates(&words, &file);
        Ok(above.over(below))
    }))
}

/// All that is wanted, or what is wrong with it.
pub(crate) fn setup(keys: Keys) -> Result<Setup, String> {
    Setup::from_keys(keys).map_err(|error| error.to_string())
}

/// Says where a rate is in bytes per second: of the words, and where they say nothing, of the file.
fn warn_of_rates(words: &[String], file: &toml::Table) {
    for key in ["rate", "ingress_rate"] {
        let said = words.windows(2).find(|pair| pair[0].replace('-', "_") == key);
        let text = said.map(|pair| pair[1].as_str()).or_else(|| file.get(key)?.as_str());
        rates::warn(key, text.unwrap_or_default());
    }
}

/// The words, then the flags as words.
fn words(args: &SetupArgs) -> Vec<String> {
    let mut words = args.words.clone();
    let values = [
        ("dev", &args.dev),
        ("rate", &args.rate),
        ("ingress_rate", &args.ingress_rate),
        ("direction", &args.direction),
        ("queues", &args.queues),
        ("standard", &args.standard),
        ("responsive", &args.responsive),
        ("split", &args.split),
        ("sharing", &args.sharing),
        ("share", &args.share),
        ("limit", &args.limit),
        ("rtt", &args.rtt),
        ("flows", &args.flows),
        ("preset", &args.preset),
    ];
    for (word, value) in values {
        words.extend(value.iter().flat_map(|value| [word.to_owned(), value.clone()]));
    }
    words.extend(args.set.iter().flat_map(|set| ["set".to_owned(), set.clone()]));
    for (word, given) in [("ecn", args.ecn), ("noecn", args.noecn), ("replace", args.replace)] {
        words.extend(given.then(|| word.to_owned()));
    }
    words
}

/// What was done, for programs.
#[derive(Serialize)]
pub(crate) struct Told<'a> {
    pub(crate) device: &'a str,
    pub(crate) steps: Vec<ToldStep>,
    pub(crate) warnings: &'a [String],
}

/// A step, for programs.
#[derive(Serialize)]
pub(crate) struct ToldStep {
    purpose: String,
    lines: Vec<String>,
}

/// Steps for programs.
pub(crate) fn tell(steps: &[Step]) -> Vec<ToldStep> {
    let told = |step: &Step| ToldStep {
        purpose: step.purpose.clone(),
        lines: step.to_string().lines().map(str::to_owned).collect(),
    };
    steps.iter().map(told).collect()
}

/// Steps as the lines that they are.
pub(crate) fn print_lines(steps: &[Step]) -> anyhow::Result<()> {
    let lines: Vec<String> = steps.iter().map(ToString::to_string).collect();
    if lines.is_empty() { talk::print("# nothing to do") } else { talk::print(&lines.join("\n")) }
}

fn describe(setup: &Setup) -> String {
    let rates: Vec<String> = setup
        .direction
        .each()
        .iter()
        .map(|direction| format!("{direction} {}", setup.rate_of(*direction)))
        .collect();
    format!("{}, {}, split {} sharing {}", rates.join(" and "), setup.queues, setup.split, setup.sharing)
}
