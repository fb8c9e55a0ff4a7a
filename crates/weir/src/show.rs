//! `weir show`: the bottlenecks that `weir up` made on this host's interfaces, what their queues and programs have
//! counted, and their flows. Reads only. `docs/reference/show.md` shows a session and lists the fields.

pub(crate) mod numbers;
#[cfg(test)]
pub(crate) mod testing;
mod text;

use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;
use weir_kernel::Lost;
use weir_kernel::model::{Bottleneck, Flow, Model};

use crate::cli::ShowArgs;
use crate::talk;

pub(crate) use text::QUEUES;

/// What `--json` prints.
#[derive(Serialize)]
#[serde(untagged)]
enum Shown<'a> {
    Known(&'a Bottleneck),
    Lost(&'a Lost),
}

/// What the words after `weir show` ask for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Wanted {
    flows: bool,
    device: Option<String>,
}

/// Shows what there is. Nothing to show is no failure; an interface that is not there and a damaged bottleneck are.
pub(crate) fn run(args: &ShowArgs) -> anyhow::Result<ExitCode> {
    let wanted = match wanted("show", &args.what) {
        Ok(wanted) => wanted,
        Err(message) => return Ok(talk::wrong(&message)),
    };
    let device = wanted.device.as_deref();
    let Model { bottlenecks: shown, lost } = Model::read(device)?;
    if shown.is_empty() && lost.is_empty() {
        device.map_or(Ok(()), weir_kernel::find)?;
        talk::say!("{}", text::nothing(device));
    }
    if args.json && wanted.flows {
        let flows: Vec<&Flow> = shown.iter().flat_map(|bottleneck| &bottleneck.flows).collect();
        talk::print_json(&flows)?;
    } else if args.json {
        talk::print_json(
            &shown.iter().map(Shown::Known).chain(lost.iter().map(Shown::Lost)).collect::<Vec<_>>(),
        )?;
    } else if wanted.flows {
        if !shown.is_empty() {
            talk::print(&text::flows(&shown, args.statistics))?;
        }
    } else if !shown.is_empty() || !lost.is_empty() {
        talk::print(&text::bottlenecks(&shown, &lost, args.statistics, now_unix_s()))?;
    }
    if lost.is_empty() && !text::any_fault(&shown) {
        return Ok(ExitCode::SUCCESS);
    }
    // The text has said it already.
    if args.json || wanted.flows {
        let known = shown.iter().flat_map(|bottleneck| &bottleneck.faults);
        for fault in known.chain(lost.iter().map(|lost| &lost.fault)) {
            talk::say!("weir: {fault}");
        }
    }
    Ok(ExitCode::FAILURE)
}

/// Seconds since 1970.
#[allow(clippy::disallowed_methods, reason = "a bottleneck's age and the time of a look are the clock's")]
pub(crate) fn now_unix_s() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// Reads `[flows] [dev DEVICE | DEVICE]`, in any order.
fn wanted(verb: &str, words: &[String]) -> Result<Wanted, String> {
    let mut wanted = Wanted::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let device = match word.as_str() {
            "flows" => {
                wanted.flows = true;
                continue;
            }
            "flow" => {
                let remedy = "did you mean 'flows'? An interface of that name is 'dev flow'";
                return Err(format!("'flow' is not known; {remedy}"));
            }
            "dev" => words
                .next()
                .ok_or_else(|| format!("dev needs the name of an interface, as in: weir {verb} dev eth0"))?,
            _ => word,
        };
        if let Some(first) = wanted.device.replace(device.clone()) {
            return Err(format!(
                "'{first}' and '{device}' are two interfaces; name one, or none for all, as in: weir {verb} dev eth0"
            ));
        }
    }
    Ok(wanted)
}

/// Reads `[dev DEVICE | DEVICE]`.
pub(crate) fn device(words: &[String]) -> Result<Option<String>, String> {
    match wanted("top", words)? {
        Wanted { flows: true, .. } => Err("'flows' is a word of weir show; weir top shows flows".to_owned()),
        Wanted { device, .. } => Ok(device),
    }
}

#[cfg(test)]
mod tests {
    use super::{Wanted, device, wanted};

    fn read(text: &str) -> Result<Wanted, String> {
        wanted("show", &text.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn words_are_those_of_iproute2() {
        let eth0 = || Some("eth0".to_owned());
        assert_eq!(read(""), Ok(Wanted { flows: false, device: None }));
        for text in ["eth0", "dev eth0"] {
            assert_eq!(read(text), Ok(Wanted { flows: false, device: eth0() }), "{text}");
        }
        for text in ["flows dev eth0", "dev eth0 flows", "eth0 flows"] {
            assert_eq!(read(text), Ok(Wanted { flows: true, device: eth0() }), "{text}");
        }
        // An interface may have any name.
        assert_eq!(read("dev flows"), Ok(Wanted { flows: false, device: Some("flows".to_owned()) }));
        assert_eq!(read("dev flow"), Ok(Wanted { flows: false, device: Some("flow".to_owned()) }));
        assert!(read("flow").unwrap_err().contains("did you mean 'flows'?"));
        assert!(read("dev").unwrap_err().contains("dev needs"));
        assert!(read("eth0 eth1").unwrap_err().contains("'eth0' and 'eth1'"));
        assert!(device(&["flows".to_owned()]).is_err());
        for words in [&["dev"][..], &["eth0", "eth1"]] {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            assert!(device(&words).unwrap_err().ends_with("as in: weir top dev eth0"));
        }
    }
}
