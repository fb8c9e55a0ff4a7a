//! Commands on a terminal: one that is closed under them, and names from outside that would speak to it.
//!
//! What needs root prints why it does nothing without it.

#![allow(clippy::disallowed_methods, reason = "the command's end is waited for")]

mod wire;

use std::ffi::CStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use wire::{Wire, words};

/// A pseudo-terminal: what a program writes to `user` is read from `keeper`, whose end closes the terminal.
struct Terminal {
    keeper: File,
    user: OwnedFd,
}

impl Terminal {
    fn new() -> Self {
        let size = libc::winsize { ws_row: 40, ws_col: 150, ws_xpixel: 0, ws_ypixel: 0 };
        let mut name = [0; 64];
        // SAFETY: the descriptor is open from the first call on and ours alone; the name has the stated room and the
        // kernel ends it with a zero byte; the size is read only. No other thread's child may inherit the keeper's end.
        let (keeper, name) = unsafe {
            let keeper = libc::posix_openpt(libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC);
            assert!(keeper >= 0, "{}", std::io::Error::last_os_error());
            let keeper = File::from_raw_fd(keeper);
            assert_eq!(libc::grantpt(keeper.as_raw_fd()), 0);
            assert_eq!(libc::unlockpt(keeper.as_raw_fd()), 0);
            assert_eq!(libc::ptsname_r(keeper.as_raw_fd(), name.as_mut_ptr(), name.len()), 0);
            assert_eq!(libc::ioctl(keeper.as_raw_fd(), libc::TIOCSWINSZ, &raw const size), 0);
            (keeper, CStr::from_ptr(name.as_ptr()).to_str().unwrap().to_owned())
        };
        let user = File::options().read(true).write(true).custom_flags(libc::O_NOCTTY).open(name).unwrap();
        Self { keeper, user: user.into() }
    }

    /// Starts a command on it. Where the terminal is the command's own, its closing is signalled by SIGHUP too.
    fn start(&self, command: &mut Command, own: bool) -> Child {
        let end = || Stdio::from(self.user.try_clone().unwrap());
        command.stdin(end()).stdout(end()).stderr(end()).env("TERM", "xterm");
        // SAFETY: these calls are safe between fork and exec and take no pointers.
        unsafe {
            command.pre_exec(move || {
                libc::setsid();
                // Tests may run where hangups are ignored, as under nohup(1).
                libc::signal(libc::SIGHUP, libc::SIG_DFL);
                if own {
                    libc::ioctl(0, libc::TIOCSCTTY, 0);
                }
                Ok(())
            })
        };
        command.spawn().unwrap()
    }

    /// Reads until `text` was written.
    fn wait_for(&mut self, text: &str) {
        let mut seen = Vec::new();
        let mut bytes = [0; 4096];
        while !String::from_utf8_lossy(&seen).contains(text) {
            let read = self.keeper.read(&mut bytes).unwrap_or(0);
            assert!(read > 0, "no '{text}' in {}", String::from_utf8_lossy(&seen));
            seen.extend(&bytes[..read]);
        }
    }
}

/// How a process ended; what does not end within a minute is killed.
fn end(child: &mut Child) -> ExitStatus {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if Instant::now() > deadline {
            let ticks = ticks(child.id());
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("it goes on without its terminal and has used {ticks} ticks of a processor");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The processor time that a process has used, also when it has ended and is not waited for, in ticks of usually 10 ms:
/// fields 14 and 15 of proc_pid_stat(5).
fn ticks(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// Waits for the end of a process and leaves it to be waited for.
fn ended(pid: u32) -> bool {
    let deadline = Instant::now() + Duration::from_secs(20);
    while Instant::now() < deadline {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        if stat.rsplit_once(')').unwrap().1.trim_start().starts_with('Z') {
            return true;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    false
}

#[test]
fn top_ends_with_its_terminal() {
    let Some(wire) = Wire::new() else { return };
    wire.must("up w0 rate 50mbit queues bfifo/bfifo flows 64");
    for (own, line) in [(false, "top dev w0"), (false, "top dev w0 --interval 100s"), (true, "top dev w0")] {
        let mut terminal = Terminal::new();
        let mut command = wire.near.command(env!("CARGO_BIN_EXE_weir")).unwrap();
        let mut top = terminal.start(command.args(words(line)), own);
        terminal.wait_for("BACKLOG");
        let before = ticks(top.id());
        drop(terminal);
        let has_ended = ended(top.id());
        let used = ticks(top.id()) - before;
        let status =
            if has_ended { top.wait().unwrap() } else { top.kill().and_then(|()| top.wait()).unwrap() };
        assert!(has_ended, "{line}: it has not ended and used {used} ticks of a processor since");
        // A tenth of a second of a processor is far more than ending takes.
        assert!(used <= 10, "{line}: {used} ticks");
        assert_eq!(status.code(), Some(130), "{line}: {status:?}");
    }
    wire.must("down w0");
}

const LONG: &str = r#"
name = "NAME"
[bottleneck]
rate = "1gbit"
rtt = "5ms"
qdisc = "codel"
[[flow]]
name = "NAME"
stack = "tcp"
controller = "cubic"
duration = "DURATION"
"#;

fn scenario(folder: &Path, name: &str, duration: &str) -> std::path::PathBuf {
    let path = folder.join("s.toml");
    fs::write(&path, LONG.replace("NAME", name).replace("DURATION", duration)).unwrap();
    path
}

#[test]
fn a_run_whose_terminal_closes_writes_what_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let path = scenario(folder.path(), "long", "100000s");
    for signal in [None, Some(libc::SIGHUP)] {
        let out = folder.path().join(format!("{signal:?}"));
        let mut terminal = Terminal::new();
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.args(["run", "--on", "sim", "--out"]).args([&out, &path]);
        let mut run = terminal.start(&mut command, true);
        // Its progress.
        terminal.wait_for("%");
        match signal {
            // SAFETY: takes no pointers; the child is ours and not waited for yet.
            Some(signal) => assert_eq!(unsafe { libc::kill(run.id() as libc::pid_t, signal) }, 0),
            None => {
                drop(terminal.keeper);
                drop(terminal.user);
            }
        }
        let status = end(&mut run);
        assert_eq!((status.code(), status.signal()), (Some(130), None), "{signal:?}");
        let text = fs::read(out.join("run.json")).unwrap();
        let result: serde_json::Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(result["meta"]["cut_short"], "interrupted");
        assert!(result["flows"][0]["received_bytes"].as_u64() > Some(0));
        assert!(out.join("report.html").exists());
    }
}

/// Names that would set the terminal's title, clear it, or colour what follows.
const NAMES: [&str; 3] = ["a\u{1b}]0;owned\u{7}", "b\u{9b}2Jowned", "c\u{1b}[31mowned\u{7f}"];

/// No character that speaks to a terminal, but for the ends of lines.
fn is_plain(text: &str) -> bool {
    text.chars().all(|letter| letter == '\n' || !letter.is_control())
}

#[test]
fn names_from_a_file_do_not_speak_to_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    for name in NAMES {
        let escaped: String = name.chars().map(|letter| format!("\\u{:04x}", u32::from(letter))).collect();
        let path = scenario(folder.path(), &escaped, "1s");
        // The file has a name of that kind, too; a directory is there that cannot be one.
        let odd = folder.path().join(format!("{name}.toml"));
        fs::rename(path, &odd).unwrap();
        let out = folder.path().join(name);
        let out = out.to_str().unwrap();
        let missing = folder.path().join(format!("missing {name}.toml"));
        let inside = odd.join("out");
        let run = ["run", "--on", "sim", odd.to_str().unwrap(), "--out"];
        for (arguments, code) in [
            (&[&run[..], &[out]].concat()[..], 0),
            (&[&run[..], &[out, "--json"]].concat(), 0),
            (&[&run[..], &[inside.to_str().unwrap()]].concat(), 1),
            (&["run", missing.to_str().unwrap()], 1),
            (&["assess", missing.to_str().unwrap()], 1),
            (&["assess", odd.to_str().unwrap()], 1),
            (&["sweep", odd.to_str().unwrap()], 1),
            (&["up", "dev", "lo", "--config", odd.to_str().unwrap()], 2),
            (&["up", "dev", name, "rate", "5mbit"], 1),
            (&["up", "dev", "lo", name, "5mbit"], 2),
            (&["show", "dev", name], 1),
            (&["figure", "run", name], 1),
            (&["vm", "list", "--cache", out], 0),
            (&[name], 2),
        ] {
            let output = Command::new(env!("CARGO_BIN_EXE_weir")).args(arguments).output().unwrap();
            let said = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said:?}");
            assert!(is_plain(&said), "{arguments:?}: {said:?}");
            // The reader of the command line leaves colours out by itself.
            let told = !said.contains("owned") || said.contains("\\u") || arguments == [name];
            assert!(told, "{arguments:?}: {said:?}");
        }
    }
}

#[test]
fn a_progress_bar_does_not_speak_for_its_scenario() {
    let folder = tempfile::tempdir().unwrap();
    let path = scenario(folder.path(), "x\\u001b]0;owned\\u0007", "1s");
    let terminal = Terminal::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(["run", "--on", "sim", "--out"]).args([&folder.path().join("out"), &path]);
    let mut run = terminal.start(&mut command, true);
    let Terminal { mut keeper, user } = terminal;
    drop((user, command));
    let mut said = Vec::new();
    // A terminal whose last user has gone answers with an error.
    let _ = keeper.read_to_end(&mut said);
    assert!(end(&mut run).success());
    let said = String::from_utf8_lossy(&said);
    assert!(said.contains("owned") && !said.contains("\u{1b}]0;"), "{said:?}");
}

#[test]
fn interfaces_do_not_speak_to_the_terminal() {
    let Some(wire) = Wire::new() else { return };
    let name = "w\u{1b}[31mx\u{7}";
    let lines = [format!("link add {name} type veth peer name {name}y"), format!("link set {name} up")];
    wire.near.ip(&lines).unwrap();
    for line in [
        &format!("up dev {name} rate 20mbit queues bfifo/bfifo flows 64 --dry-run"),
        &format!("up dev {name} rate 20mbit queues bfifo/bfifo flows 64"),
        "up dev no-such rate 20mbit",
        "show",
        "show --json",
        "show flows",
        "show -s",
        "top --json --count 1 --interval 100ms",
        &format!("reload dev {name} rate 30mbit"),
        &format!("down dev {name}"),
    ] {
        let output = wire.weir(line, None);
        let said = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
        assert!(is_plain(&said), "{line:?}: {said:?}");
        assert!(output.status.success() || line.contains("no-such"), "{line:?}: {said:?}");
    }
}
