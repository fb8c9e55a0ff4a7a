//! `weir recv` and `weir serve-probe`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use anyhow::Context;
use serde_json::{Value, json};
use weir_transport::{Error, Identity, Notice, Receiver, ReceiverOptions};

use super::{peer, rate, size, speed};
use crate::cli::{ListenArgs, RecvArgs, ServeProbeArgs};
use crate::talk::{self, Bar};

/// Notices that wait to be printed.
const NOTICES: usize = 256;
/// How often the stop switch is looked at.
const TICK: Duration = Duration::from_millis(100);

/// Receives files until it is stopped.
pub(super) fn run(args: &RecvArgs) -> anyhow::Result<ExitCode> {
    let dir = args.dir.canonicalize().with_context(|| format!("cannot use --dir {}", args.dir.display()))?;
    anyhow::ensure!(dir.is_dir(), "--dir {} is no folder", dir.display());
    serve(&args.listen, Some(dir), args.max_size.map_or(u64::MAX, |size| size.0), args.once)
}

/// Answers probes until it is stopped.
pub(super) fn serve_probe(args: &ServeProbeArgs) -> anyhow::Result<ExitCode> {
    serve(&args.listen, None, 0, false)
}

fn serve(args: &ListenArgs, folder: Option<PathBuf>, largest: u64, once: bool) -> anyhow::Result<ExitCode> {
    let stop = talk::stop_flag()?;
    let (tell, told) = mpsc::sync_channel(NOTICES);
    let listener: weir_transport::Listener = Arc::new(move |notice| {
        // Where nobody reads what is printed, senders wait, but how far they are is not worth waiting. When nobody
        // listens any more, this end is being stopped.
        if matches!(notice, Notice::Written { .. }) {
            drop(tell.try_send(notice));
        } else {
            drop(tell.send(notice));
        }
    });
    let path = peer::identity(args)?;
    let fingerprint = Identity::load_or_make(&path)?.fingerprint();
    let start = |listen| {
        let identity = Identity::load_or_make(&path)?;
        let options = ReceiverOptions { listen, identity, folder: folder.clone(), largest };
        Receiver::start(options, Arc::clone(&listener))
    };
    let mut started = Err(Error::Local("there is no address to listen at".to_owned()));
    for address in peer::listen(args) {
        started = started.or_else(|_| start(address));
    }
    let receiver = started?;
    if args.json {
        print_line(&json!({
            "event": "listens",
            "address": receiver.address().to_string(),
            "fingerprint": fingerprint.to_string(),
            "folder": folder,
        }))?;
    } else {
        let files = folder.as_ref().map(|folder| format!("; files go to {}", folder.display()));
        let address = receiver.address();
        talk::print(&format!(
            "listens at {address}{}\nfingerprint {fingerprint}",
            files.unwrap_or_default()
        ))?;
    }
    hear(args.json, once, &told, &stop)
}

/// Tells what happens until it is stopped or, if `once`, a file has arrived.
fn hear(
    as_json: bool,
    once: bool,
    told: &mpsc::Receiver<Notice>,
    stop: &AtomicBool,
) -> anyhow::Result<ExitCode> {
    let mut bar: Option<(String, Bar)> = None;
    while !talk::is_stopped(stop) {
        let notice = match told.recv_timeout(TICK) {
            Ok(notice) => notice,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => break,
        };
        if let Notice::Written { name, size, bytes } = &notice {
            let (_, bar) = match bar.take_if(|(of, _)| of == name) {
                Some(same) => bar.insert(same),
                None => bar.insert((name.clone(), Bar::new(name))),
            };
            bar.show(*bytes as f64 / *size as f64, None, &super::size(*bytes));
            continue;
        }
        bar = None;
        if as_json {
            print_line(&event(&notice))?;
        } else if let Some(words) = words(&notice) {
            talk::print(&words)?;
        }
        if once && matches!(notice, Notice::Arrived { .. }) {
            return Ok(ExitCode::SUCCESS);
        }
    }
    Ok(ExitCode::from(talk::INTERRUPTED))
}

fn print_line(value: &Value) -> anyhow::Result<()> {
    talk::print_encoded(&value.to_string())
}

fn event(notice: &Notice) -> Value {
    match notice {
        Notice::Begins { from, name, size, had } => {
            json!({"event": "begins", "from": from, "name": name, "bytes": size, "had_bytes": had})
        }
        Notice::Arrived { from, path, size, had, digest, took } => json!({
            "event": "arrived",
            "from": from,
            "path": path,
            "bytes": size,
            "had_bytes": had,
            "sha256": digest,
            "took_s": took.as_secs_f64(),
        }),
        Notice::Probed { from, bytes } => json!({"event": "probed", "from": from, "bytes": bytes}),
        Notice::Failed { from, why } => json!({"event": "failed", "from": from, "why": why.to_string()}),
        _ => Value::Null,
    }
}

fn words(notice: &Notice) -> Option<String> {
    Some(match notice {
        Notice::Arrived { from, path, size, had, digest, .. } if size == had && *size > 0 => {
            format!("{}: {from} has the same\nsha256 {digest}", path.display())
        }
        Notice::Arrived { from, path, size: all, had, digest, took } => {
            let (name, bytes) = (path.display(), size(*all));
            let fast = rate(speed(all - had, *took));
            format!("{name}: {bytes} from {from} in {:.2} s, {fast}\nsha256 {digest}", took.as_secs_f64())
        }
        Notice::Probed { from, bytes } => format!("probed by {from} with {}", size(*bytes)),
        Notice::Failed { from, why: Error::Refused(why) } => format!("refused {from}: {why}"),
        Notice::Failed { from, why } => format!("{from}: {why}"),
        _ => return None,
    })
}
