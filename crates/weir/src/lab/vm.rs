//! `weir vm`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use serde::Serialize;
use weir_vm::fetch::{self, Fetch};
use weir_vm::{Cache, Guest, Kernel, SERIES, Stream, VmError};

use super::progress::Progress;
use crate::cli::{VmClock, VmCommand, VmFetchArgs, VmRunArgs};
use crate::talk;

/// Does what `weir vm` was asked for.
pub(crate) fn run(command: &VmCommand) -> anyhow::Result<ExitCode> {
    let done = match command {
        VmCommand::Fetch(args) => fetch(args),
        VmCommand::List { cache, json } => list(&cache_at(cache.as_deref())?, *json),
        VmCommand::Run(args) => run_command(args),
        VmCommand::Remove { kernels, cache } => remove(kernels, &cache_at(cache.as_deref())?),
    };
    match done {
        Err(error) if matches!(error.downcast_ref(), Some(VmError::Interrupted)) => {
            talk::say!("weir: interrupted");
            Ok(ExitCode::from(talk::INTERRUPTED))
        }
        done => done,
    }
}

fn cache_at(dir: Option<&Path>) -> Result<Cache, VmError> {
    dir.map_or_else(Cache::of_user, |dir| Ok(Cache::at(dir)))
}

fn fetch(args: &VmFetchArgs) -> anyhow::Result<ExitCode> {
    let cache = cache_at(args.cache.as_deref())?;
    let stop = talk::stop_flag()?;
    let all = args.kernels.iter().any(|kernel| kernel == "all");
    let wanted: Vec<String> = if all {
        SERIES.iter().map(|(series, _)| (*series).to_owned()).collect()
    } else {
        args.kernels.clone()
    };
    for series in &wanted {
        let before = cache.kernel(series).is_ok();
        let progress = Progress::new(series);
        let kernel = fetch::fetch(
            &cache,
            series,
            Fetch {
                mirror: args.mirror.clone(),
                keyring: PathBuf::from(fetch::KEYRING),
                progress: &mut |what, there, size| {
                    progress.show(there as f64 / size.max(1) as f64, None, what);
                },
                stop: &stop,
            },
        )?;
        drop(progress);
        let how = if before { "is there already" } else { "fetched" };
        talk::print(&format!("{series}  {how}  {}", kernel.about.release))?;
        if !before && kernel.about.signature.starts_with("not verified") {
            talk::say!("weir: warning: {series}: the archive's signature was {}", kernel.about.signature);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A kernel, as `weir vm list --json` shows it.
#[derive(Serialize)]
struct Listed<'a> {
    #[serde(flatten)]
    about: &'a weir_vm::cache::About,
    size_bytes: u64,
    folder: &'a Path,
}

fn list(cache: &Cache, json: bool) -> anyhow::Result<ExitCode> {
    let kernels = cache.kernels();
    if json {
        let listed = |kernel: &'_ Kernel| (kernel.size(), kernel.dir.clone());
        let sizes: Vec<(u64, PathBuf)> = kernels.iter().map(listed).collect();
        let rows: Vec<Listed<'_>> = kernels
            .iter()
            .zip(&sizes)
            .map(|(kernel, (size, folder))| Listed { about: &kernel.about, size_bytes: *size, folder })
            .collect();
        talk::print_json(&rows)?;
        return Ok(ExitCode::SUCCESS);
    }
    for kernel in &kernels {
        let about = &kernel.about;
        let size = kernel.size() as f64 / 1e6;
        talk::print(&format!(
            "{:<6} {:<28} {:<10} {:>3} modules  {size:>5.1} MB  signature {}",
            about.series,
            about.release,
            about.suite,
            about.modules.len(),
            about.signature
        ))?;
    }
    if kernels.is_empty() {
        talk::say!("weir: no kernel in {}; run 'weir vm fetch all'", cache.dir().display());
    }
    Ok(ExitCode::SUCCESS)
}

fn remove(kernels: &[String], cache: &Cache) -> anyhow::Result<ExitCode> {
    for series in kernels {
        let removed = cache.remove(series)?;
        talk::say!("weir: {series} {}", if removed { "removed" } else { "was not there" });
    }
    Ok(ExitCode::SUCCESS)
}

fn run_command(args: &VmRunArgs) -> anyhow::Result<ExitCode> {
    if let Some(out) = &args.out {
        weir_report::output::check_writable(out)?;
    }
    let kernel = cache_at(args.cache.as_deref())?.kernel(&args.kernel)?;
    let mut guest = Guest::new(kernel);
    guest.cpus = args.cpus;
    guest.memory = args.memory;
    guest.timeout = args.timeout.to_std();
    guest.emulate = args.emulate;
    guest.virtual_time = args.clock == VmClock::Counted;
    guest.files = args.files.iter().map(|file| place(file)).collect::<anyhow::Result<_>>()?;
    guest.programs.clone_from(&args.programs);
    let weir = std::env::current_exe().context("cannot find the weir executable to give to the guest")?;
    guest.files.push((weir, PathBuf::from("/usr/bin/weir")));
    let script = script(&args.command);
    guest.programs.extend(first_program(args));

    let stop = talk::stop_flag()?;
    let mut failed = None;
    let mut show = |stream: Stream, line: &str| match stream {
        Stream::Out => failed = failed.take().or(talk::print_as_is(line).err()),
        Stream::Err => talk::say_as_is(line),
    };
    let finished = guest.run(&script, &mut show, &stop)?;
    if let Some(error) = failed {
        return Err(error);
    }
    match &args.out {
        Some(out) => finished.save(out)?,
        None if !finished.is_empty() => {
            talk::say!("weir: the command left files in /results; --out DIR brings them here");
        }
        None => {}
    }
    // A shell's exit status has eight bits.
    Ok(ExitCode::from(finished.status as u8))
}

/// The program that the command begins with, if the guest would not have it otherwise.
fn first_program(args: &VmRunArgs) -> Option<String> {
    let first = args.command.first()?;
    let given = args.files.iter().any(|file| file.rsplit_once(':').is_some_and(|(_, guest)| guest == first));
    let own = first == "weir" || given;
    (!own && weir_vm::initramfs::host_has(first)).then(|| first.clone())
}

/// A host's file and its place in the guest, `HOST:GUEST`; without a place it keeps its own.
fn place(file: &str) -> anyhow::Result<(PathBuf, PathBuf)> {
    let (host, guest) = file.rsplit_once(':').unwrap_or((file, file));
    let host = std::path::absolute(host).with_context(|| format!("--file {file}"))?;
    anyhow::ensure!(host.exists(), "--file {file}: there is no {}", host.display());
    let guest = if file.contains(':') { PathBuf::from(guest) } else { host.clone() };
    anyhow::ensure!(
        guest.is_absolute(),
        "--file {file}: the place in the guest must begin with '/', such as --file {}:/root/{}",
        host.display(),
        guest.display()
    );
    Ok((host, guest))
}

/// A script that runs the command with exactly these words.
fn script(command: &[String]) -> String {
    let words: Vec<_> = command.iter().map(|word| weir_vm::guest::quoted(word)).collect();
    format!("exec {}\n", words.join(" "))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use clap::Parser;

    use super::{first_program, place, script};
    use crate::cli::{Cli, Command, LabCommand, VmClock, VmCommand, VmRunArgs};

    fn parsed(words: &[&str]) -> VmRunArgs {
        let words = ["weir", "vm", "run"].iter().chain(words);
        match Cli::try_parse_from(words).unwrap().command {
            Command::Lab(LabCommand::Vm(VmCommand::Run(args))) => args,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_command_is_passed_on_word_by_word() {
        let args = parsed(&["6.1", "--cpus", "4", "--", "sh", "-c", "echo 'a b' $HOME", "--cpus"]);
        assert_eq!((args.kernel.as_str(), args.cpus), ("6.1", 4));
        assert_eq!(script(&args.command), "exec 'sh' '-c' 'echo '\\''a b'\\'' $HOME' '--cpus'\n");
    }

    #[test]
    fn the_clock_is_the_hosts_unless_asked() {
        assert_eq!(parsed(&["6.1", "--", "true"]).clock, VmClock::Host);
        assert_eq!(parsed(&["6.1", "--clock", "counted", "--", "true"]).clock, VmClock::Counted);
    }

    #[test]
    fn a_command_is_required() {
        for words in [&["6.1"][..], &["6.1", "--"], &["--", "true"]] {
            let words = ["weir", "vm", "run"].iter().chain(words);
            assert!(Cli::try_parse_from(words).is_err());
        }
    }

    #[test]
    fn files_have_a_place() {
        let here = PathBuf::from("/dev/null");
        assert_eq!(place("/dev/null").unwrap(), (here.clone(), here.clone()));
        assert_eq!(place("/dev/null:/etc/x").unwrap(), (here, PathBuf::from("/etc/x")));
        assert!(place("/dev/null:x").unwrap_err().to_string().contains("must begin with '/'"));
        assert!(place("/nowhere/x:/x").unwrap_err().to_string().contains("there is no /nowhere/x"));
    }

    #[test]
    fn the_commands_own_program_goes_along() {
        assert_eq!(first_program(&parsed(&["6.1", "--", "ls", "-l"])).as_deref(), Some("ls"));
        assert_eq!(first_program(&parsed(&["6.1", "--", "weir", "doctor"])), None);
        assert_eq!(first_program(&parsed(&["6.1", "--", "no-such-program"])), None);
        assert_eq!(first_program(&parsed(&["6.1", "--file", "/bin/true:/bin/x", "--", "/bin/x"])), None);
    }
}
