//! Micro-VMs: kernels fetched from a mirror that is made here, and guests that come to each of their ends.
//!
//! Guests need a kernel in this user's cache; without one these tests say so and skip.

use std::cell::Cell;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use weir_vm::guest::folder_prefix;
use weir_vm::{Cache, Finished, Guest, Stream, VmError};

#[path = "vm/mirror.rs"]
mod mirror;

static TURN: Mutex<()> = Mutex::new(());

/// A guest with the first kernel of the cache, and the turn to run it: two at a time would only wait for each other.
fn guest() -> Option<(Guest, MutexGuard<'static, ()>)> {
    let kernel = Cache::of_user().ok().and_then(|cache| cache.kernels().into_iter().next());
    let Some(kernel) = kernel else {
        weir_testkit::skip::skip("vm", "no kernel is in the cache; run weir vm fetch 6.1");
        return None;
    };
    for (program, package) in [("qemu-system-x86_64", "qemu-system-x86"), ("busybox", "busybox-static")] {
        if !weir_vm::initramfs::host_has(program) {
            weir_testkit::skip::skip("vm", &format!("'{program}' is in the Debian package '{package}'"));
            return None;
        }
    }
    Some((Guest::new(kernel), TURN.lock().unwrap_or_else(|poison| poison.into_inner())))
}

fn run(guest: &Guest, script: &str) -> (Result<Finished, VmError>, Vec<(Stream, String)>) {
    let mut lines = Vec::new();
    let result =
        guest.run(script, &mut |stream, line| lines.push((stream, line.to_owned())), &AtomicBool::new(false));
    (result, lines)
}

/// No QEMU of ours runs, and no folder of ours is left.
fn assert_nothing_is_left() {
    let folders = std::fs::read_dir(std::env::temp_dir()).unwrap().flatten();
    let ours: Vec<_> = folders
        .map(|entry| entry.file_name().into_string().unwrap_or_default())
        .filter(|name| name.starts_with(&folder_prefix()))
        .collect();
    assert!(ours.is_empty(), "{ours:?}");
    for task in std::fs::read_dir("/proc/self/task").unwrap().flatten() {
        let children = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        for child in children.split_whitespace() {
            let name = std::fs::read_to_string(format!("/proc/{child}/comm")).unwrap_or_default();
            assert!(!name.starts_with("qemu"), "{child}");
        }
    }
}

#[test]
fn a_job_has_its_streams_its_files_and_its_exit_status() {
    let Some((mut guest, _turn)) = guest() else { return };
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("inner")).unwrap();
    std::fs::write(dir.path().join("inner/file"), "from the host\n").unwrap();
    guest.files.push((dir.path().to_owned(), "/given".into()));
    let script = "cat /given/inner/file\necho to the other stream >&2\nuname -r\nmkdir /results/deep\n\
                  /bin/tc qdisc add dev lo root codel && /bin/tc qdisc show dev lo >/results/deep/tc\n\
                  ln -s /etc/passwd /results/link\nprintf 'no newline'\nexit 42\n";
    let (finished, lines) = run(&guest, script);
    let finished = finished.unwrap();
    assert_eq!(finished.status, 42);
    let of = |wanted: Stream| -> Vec<_> {
        lines.iter().filter(|(stream, _)| *stream == wanted).map(|(_, line)| line.as_str()).collect()
    };
    assert_eq!(of(Stream::Out), ["from the host", guest.kernel.about.release.as_str(), "no newline"]);
    assert_eq!(of(Stream::Err), ["to the other stream"]);
    let out = dir.path().join("out");
    finished.save(&out).unwrap();
    let tc = std::fs::read_to_string(out.join("deep/tc")).unwrap();
    assert!(tc.contains("qdisc codel"), "{tc}");
    assert!(!out.join("link").exists(), "a link of the guest leads to a file of the host");
    drop(finished);
    assert_nothing_is_left();
}

#[test]
fn a_panic_is_told_with_the_console() {
    let Some((guest, _turn)) = guest() else { return };
    let (result, lines) = run(&guest, "echo before\necho c >/proc/sysrq-trigger\necho after\n");
    let error = result.unwrap_err();
    assert!(matches!(error, VmError::Died { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("panicked: sysrq triggered crash"), "{text}");
    assert!(text.contains(&guest.kernel.about.release) && text.lines().count() > 5, "{text}");
    assert_eq!(lines, [(Stream::Out, "before".to_owned())]);
    assert_nothing_is_left();
}

#[test]
fn a_guest_that_switches_itself_off_is_no_success() {
    let Some((guest, _turn)) = guest() else { return };
    let (result, _) = run(&guest, "poweroff -f\nsleep 1000\n");
    let text = result.unwrap_err().to_string();
    assert!(text.contains("ended before its job did"), "{text}");
    assert_nothing_is_left();
}

#[test]
fn a_guest_that_hangs_is_ended() {
    let Some((mut guest, _turn)) = guest() else { return };
    guest.timeout = Duration::from_secs(1);
    let (result, _) = run(&guest, "sleep 1000\n");
    let text = result.unwrap_err().to_string();
    assert!(text.contains("was not done after 1 s"), "{text}");
    assert_nothing_is_left();
}

#[test]
fn a_guest_is_interrupted_while_it_runs() {
    let Some((guest, _turn)) = guest() else { return };
    let (stop, seen) = (AtomicBool::new(false), Cell::new(false));
    let mut first_line = |_: Stream, _: &str| {
        seen.set(true);
        stop.store(true, Ordering::Relaxed);
    };
    let result = guest.run("echo I am up\nsleep 1000\n", &mut first_line, &stop);
    assert!(seen.get() && matches!(result, Err(VmError::Interrupted)));
    assert_nothing_is_left();
}

#[test]
fn what_cannot_be_given_is_named_before_anything_boots() {
    let Some((guest, _turn)) = guest() else { return };
    let with = |program: &str, file: Option<(&str, &str)>, memory| Guest {
        programs: vec![program.to_owned()],
        files: file.into_iter().map(|(host, guest)| (host.into(), guest.into())).collect(),
        memory,
        ..guest.clone()
    };
    for (guest, said) in [
        (with("no-such-program", None, 2048), "no program 'no-such-program'"),
        (with("ip", Some(("/nowhere/file", "/x")), 2048), "/nowhere/file: No such file"),
        (with("ip", Some(("/dev/null", "x")), 2048), "'x' is no absolute path"),
        (with("ip", None, 16), "with --memory"),
    ] {
        let (result, lines) = run(&guest, "echo booted");
        let text = result.unwrap_err().to_string();
        assert!(text.contains(said) && lines.is_empty(), "{text}");
    }
    assert_nothing_is_left();
}

#[test]
fn a_kernel_is_fetched_once_and_only_what_is_needed_is_kept() {
    let Some(mirror) = mirror::Mirror::new() else { return };
    let dir = tempfile::tempdir().unwrap();
    let cache = Cache::at(dir.path());
    let kernel = mirror.fetch(&cache, "6.1").unwrap();
    assert_eq!(kernel.about.release, "6.1.0-50-cloud-amd64");
    assert_eq!(kernel.about.modules, ["virtio_ring", "virtio_console", "sch_codel"]);
    assert_eq!(kernel.about.built_in, ["sch_fq_codel"]);
    assert!(kernel.about.absent.contains(&"sch_htb".to_owned()));
    assert!(kernel.about.signature.starts_with("not verified"), "{}", kernel.about.signature);
    assert_eq!(std::fs::read(kernel.vmlinuz()).unwrap(), b"the kernel");
    assert_eq!(names(dir.path()), ["6.1"]);
    // It is there: the mirror is not asked again.
    mirror.remove();
    assert_eq!(mirror.fetch(&cache, "6.1").unwrap().about, kernel.about);
    let error = mirror.fetch(&cache, "6.12").unwrap_err().to_string();
    assert!(error.contains("there is no cloud kernel 6.12 at file://"), "{error}");
}

#[test]
fn a_series_that_has_moved_on_is_found_and_a_missing_one_names_what_there_is() {
    let Some(mirror) = mirror::Mirror::new() else { return };
    let dir = tempfile::tempdir().unwrap();
    let cache = Cache::at(dir.path());
    assert_eq!(mirror.fetch(&cache, "7.3").unwrap().about.suite, "trixie");
    let error = mirror.fetch(&cache, "6.12").unwrap_err().to_string();
    assert!(error.contains("it has 7.3 in trixie, 6.1 in bookworm"), "{error}");
}

#[test]
fn an_unfinished_download_goes_on() {
    let Some(mirror) = mirror::Mirror::new() else { return };
    let dir = tempfile::tempdir().unwrap();
    let cache = Cache::at(dir.path());
    let (sum, bytes) = mirror.package("linux-image-6.1.0-50-cloud-amd64");
    let part = dir.path().join(".download").join(format!("{sum}.deb"));
    std::fs::create_dir(part.parent().unwrap()).unwrap();
    std::fs::write(&part, &bytes[..bytes.len() / 2]).unwrap();
    // What is missing lies in the second half only.
    mirror.spoil_first_half("linux-image-6.1.0-50-cloud-amd64");
    mirror.fetch(&cache, "6.1").unwrap();
    assert_eq!(names(dir.path()), ["6.1"]);
}

#[test]
fn what_the_archive_did_not_sign_is_refused() {
    let Some(mirror) = mirror::Mirror::new() else { return };
    let dir = tempfile::tempdir().unwrap();
    let cache = Cache::at(dir.path());
    mirror.spoil_first_half("linux-image-6.1.0-50-cloud-amd64");
    let error = mirror.fetch(&cache, "6.1").unwrap_err();
    assert!(matches!(&error, VmError::Untrusted(text) if text.contains("has the checksum")), "{error}");
    mirror.spoil_index();
    let error = mirror.fetch(&cache, "6.1").unwrap_err();
    assert!(matches!(&error, VmError::Untrusted(text) if text.contains("the index of bookworm")), "{error}");
    assert!(cache.kernels().is_empty());
    if !weir_vm::initramfs::host_has("gpgv") {
        weir_testkit::skip::skip("gpgv", "signatures of an index");
        return;
    }
    // A keyring that is there must have signed the index.
    let keyring = dir.path().join("keyring.gpg");
    std::fs::write(&keyring, "").unwrap();
    let error = mirror.fetch_signed(&cache, "6.1", &keyring).unwrap_err();
    assert!(matches!(&error, VmError::Untrusted(text) if text.contains("signature of bookworm")), "{error}");
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}
