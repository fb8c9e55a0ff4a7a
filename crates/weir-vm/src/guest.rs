//! One guest, from its start to its end: QEMU boots a kernel with an archive in memory for its file system, the guest
//! runs a job, and what the job printed and left comes back.
//!
//! Three virtio-serial ports carry the job's standard output, its standard error, and at the end a tar archive of
//! `/results`; the serial port carries the kernel's console. The guest has no disk and no network card.

use std::fs;
use std::io::{self, BufRead, BufReader, PipeReader, PipeWriter, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::VmError;
use super::cache::Kernel;
use super::initramfs::{self, Contents};
use super::kvm;
use super::tools::{self, QEMU, TAR};

/// How often a running guest is looked at.
const TICK: Duration = Duration::from_millis(100);
/// How long a guest may take to come up with KVM before it is started again without.
const KVM_PATIENCE: Duration = Duration::from_secs(20);
const KVM: &str = "kvm";
/// How QEMU calls its emulation of processors.
pub const TCG: &str = "tcg";
/// The console's file.
const CONSOLE: &str = "console";
/// What the guest's first program says before the job.
const UP: &str = "weir: up";
/// Lines of the console that an error shows.
const CONSOLE_LINES: usize = 15;
/// Lines between the guest and a slow reader.
const LINES: usize = 1024;

/// A machine to be started.
#[derive(Clone, Debug)]
pub struct Guest {
    /// What it boots.
    pub kernel: Kernel,
    /// Its processors.
    pub cpus: u32,
    /// Its memory in MiB. Its files live there too.
    pub memory: u32,
    /// Programs of the host that it shall have, by name or path, on its `PATH` and with their libraries.
    pub programs: Vec<String>,
    /// Files and folders of the host that it shall have, and where.
    pub files: Vec<(PathBuf, PathBuf)>,
    /// Where the archives are kept that it sends, the last at its end; for a job that sends some of its results before.
    /// `None` for a folder of the guest's own.
    pub sent: Option<PathBuf>,
    /// How long it may run.
    pub timeout: Duration,
    /// Emulates the processor even where KVM works.
    pub emulate: bool,
    /// Lets the guest's clock count its instructions, a nanosecond each, instead of following the host's: a guest on a
    /// slow or busy host then takes longer and measures the same. Emulates, with one processor; a guest that waits
    /// skips ahead.
    pub virtual_time: bool,
}

/// Where a line of the job comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Its standard output.
    Out,
    /// Its standard error.
    Err,
}

/// A guest that came to its end.
#[derive(Debug)]
pub struct Finished {
    /// The job's exit status.
    pub status: i32,
    /// From QEMU's start to its end.
    pub wall: Duration,
    /// `kvm` or `tcg`.
    pub accelerator: &'static str,
    /// The kernel's release.
    pub release: String,
    /// The bytes of the archive that it booted with.
    pub image_bytes: u64,
    dir: TempDir,
}

impl Finished {
    /// The folder with what the job left in `/results`; it goes with this value.
    pub fn results(&self) -> PathBuf {
        self.dir.path().join("results")
    }

    /// Whether the job left nothing there.
    pub fn is_empty(&self) -> bool {
        fs::read_dir(self.results()).map_or(true, |mut entries| entries.next().is_none())
    }

    /// Copies what the job left there to `out`, which is made if it is missing.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn save(&self, out: &Path) -> Result<(), VmError> {
        copy(&self.results(), out)
    }
}

/// Unpacks the archives that a guest sent, one behind the other, into `dir`.
pub fn unpack(sent: &Path, dir: &Path, stop: &AtomicBool) -> Result<(), VmError> {
    let mut tar = TAR.command()?;
    // When a guest wrote a file is of no use: its counted time may be ahead of ours.
    tar.args(["--extract", "--ignore-zeros", "--no-same-owner", "--touch", "--file"]).arg(sent);
    tar.arg("--directory").arg(dir);
    TAR.run(&mut tar, stop, &mut || ()).map(drop)
}

fn copy(from: &Path, to: &Path) -> Result<(), VmError> {
    fs::create_dir_all(to).map_err(VmError::file(to))?;
    for entry in fs::read_dir(from).map_err(VmError::file(from))?.flatten() {
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().map_err(VmError::file(&path))?;
        if kind.is_dir() {
            copy(&path, &target)?;
        } else if kind.is_file() {
            fs::copy(&path, &target).map_err(VmError::file(&target))?;
        }
        // A link of the guest may lead anywhere on this host.
    }
    Ok(())
}

/// What this process's folders in the directory for temporary files begin with.
pub fn folder_prefix() -> String {
    format!("weir-vm-{}-", std::process::id())
}

/// A word as a shell reads it back unchanged.
pub fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

impl Guest {
    /// A machine with two processors and 2 GiB that may run for ten minutes.
    pub fn new(kernel: Kernel) -> Self {
        Self {
            kernel,
            cpus: 2,
            memory: 2048,
            programs: Vec::new(),
            files: Vec::new(),
            sent: None,
            timeout: Duration::from_secs(600),
            emulate: false,
            virtual_time: false,
        }
    }

    /// Boots, runs `script` as root with `sh` in `/root`, and waits for its end. Lines that it prints are handed to
    /// `on_line` as they come.
    ///
    /// # Errors
    /// If QEMU or a program for the guest is missing, the kernel panics, the guest dies or exceeds its time, or `stop`
    /// is set. Nothing is left running or on disk.
    pub fn run(
        &self,
        script: &str,
        on_line: &mut dyn FnMut(Stream, &str),
        stop: &AtomicBool,
    ) -> Result<Finished, VmError> {
        if !cfg!(target_arch = "x86_64") {
            let host = std::env::consts::ARCH;
            return Err(VmError::Request(format!(
                "micro-VMs are made of this host's programs and an x86-64 kernel, but this host is {host}"
            )));
        }
        // Packing takes a while: what is missing is better reported at once.
        QEMU.command()?;
        let dir = tempfile::Builder::new().prefix(&folder_prefix()).tempdir();
        let dir = dir.map_err(VmError::file(&std::env::temp_dir()))?;
        let image = dir.path().join("initramfs");
        let contents = Contents { script, programs: &self.programs, files: &self.files };
        let image_bytes = initramfs::write(&image, &self.kernel, &contents, stop)?;
        let needed = image_bytes.div_ceil(1 << 20) * 2 + 256;
        if u64::from(self.memory) < needed {
            return Err(VmError::Request(format!(
                "the guest's files fill {} MiB of memory, twice while it boots; give it at least {needed} MiB with --memory",
                image_bytes >> 20
            )));
        }
        let wants_kvm = !self.emulate && !self.virtual_time;
        let mut accelerator = if wants_kvm && kvm::probe().is_ok() { KVM } else { TCG };
        let deadline = now() + self.timeout;
        let mut again = false;
        loop {
            let started = now();
            let ended = self.boot(dir.path(), accelerator, deadline, on_line, stop)?;
            let wall = now() - started;
            if !is_up(dir.path()) && !matches!(ended, Ended::TimedOut) {
                if accelerator == KVM {
                    // Inside another virtual machine KVM may start and still run no kernel.
                    accelerator = TCG;
                    continue;
                }
                // An emulated kernel with several processors was seen to panic as it booted, in code that it patches
                // then. A second boot tells a kernel that cannot boot from one that was unlucky.
                if !self.virtual_time && !again && panic(dir.path()).is_some() {
                    again = true;
                    continue;
                }
            }
            self.conclude(ended, dir.path(), stop)?;
            let status = self.status(dir.path())?;
            let release = self.kernel.about.release.clone();
            return Ok(Finished { status, wall, accelerator, release, image_bytes, dir });
        }
    }

    /// One start of QEMU, until it ends.
    fn boot(
        &self,
        dir: &Path,
        accelerator: &str,
        deadline: Instant,
        on_line: &mut dyn FnMut(Stream, &str),
        stop: &AtomicBool,
    ) -> Result<Ended, VmError> {
        let mut qemu = QEMU.command()?;
        self.arguments(&mut qemu, dir, accelerator);
        // Should QEMU crash, its core file goes with the folder.
        qemu.current_dir(dir);
        let mut running = Running::start(qemu).map_err(|error| QEMU.failed(error.to_string()))?;
        let patience = if accelerator == KVM { Some(now() + KVM_PATIENCE) } else { None };
        let mut killed = None;
        loop {
            match running.lines.recv_timeout(TICK) {
                Ok((stream, line)) => on_line(stream, &line),
                Err(RecvTimeoutError::Timeout) => {}
                // Both ends of the job's output are closed: QEMU has ended.
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if stop.load(Ordering::Relaxed) {
                return Err(VmError::Interrupted);
            }
            if killed.is_none() {
                killed = if now() >= deadline {
                    Some(Ended::TimedOut)
                } else if patience.is_some_and(|until| now() >= until) && !is_up(dir) {
                    Some(Ended::NeverCameUp)
                } else {
                    None
                };
                if killed.is_some() {
                    // What it has printed until now is still passed on.
                    tools::end(&mut running.qemu);
                }
            }
        }
        let (status, complaint) = running.finish().map_err(|error| QEMU.failed(error.to_string()))?;
        Ok(killed.unwrap_or(Ended::Itself(status, complaint)))
    }

    fn arguments(&self, qemu: &mut Command, dir: &Path, accelerator: &str) {
        let path = |name: &str| dir.join(name).display().to_string();
        // QEMU 7.2's emulation of cmpxchg16b leaves garbage in the flags, on which kernel 6.12 panics within minutes:
        // it guards its memory allocator with that instruction where the processor has it.
        // With erms or fsrm kernels copy by single bytes, each of which icount counts as an instruction.
        let (accel, cpu, cpus) = match accelerator {
            TCG if self.virtual_time => ("tcg,thread=single", "max,cx16=off,erms=off,fsrm=off", 1),
            TCG => ("tcg,thread=multi", "max,cx16=off", self.cpus),
            other => (other, "max", self.cpus),
        };
        qemu.args(["-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-monitor", "none"]);
        qemu.args(["-machine", "q35", "-cpu", cpu, "-accel", accel]);
        qemu.args(["-smp", &cpus.to_string(), "-m", &self.memory.to_string()]);
        if self.virtual_time {
            qemu.args(["-icount", "shift=0,sleep=off"]);
        }
        qemu.arg("-kernel").arg(self.kernel.vmlinuz()).args(["-initrd", &path("initramfs")]);
        // Every oops is a panic, and a panic ends QEMU: a broken kernel is an error, not a result. Kernels compare the
        // processor's time stamps with a timer and give them up for a slow clock where emulation lets the two drift.
        let words = "console=ttyS0 loglevel=5 oops=panic panic=-1 tsc=reliable rdinit=/init";
        qemu.args(["-append", words]);
        qemu.args(["-chardev", &format!("file,id=console,path={}", path(CONSOLE))]);
        // What the guest has written is in its file before the guest goes on. A thread of QEMU's that is notified of it
        // might come to it only after the guest has switched itself off.
        qemu.args(["-serial", "chardev:console", "-device", "virtio-serial-pci,ioeventfd=off"]);
        // QEMU's own standard output is the job's. It reads nothing, so its standard input can be the other way out.
        let results = self.sent(dir).display().to_string();
        let ports = [("out", "/proc/self/fd/1"), ("err", "/proc/self/fd/0"), ("results", results.as_str())];
        for (number, (name, path)) in (1..).zip(ports) {
            qemu.args(["-chardev", &format!("file,id={name},path={path}")]);
            qemu.args(["-device", &format!("virtserialport,chardev={name},nr={number},name=weir.{name}")]);
        }
    }

    fn sent(&self, dir: &Path) -> PathBuf {
        self.sent.clone().unwrap_or_else(|| dir.join("results.tar"))
    }

    /// Unpacks what the guest sent, or says why it sent nothing.
    fn conclude(&self, ended: Ended, dir: &Path, stop: &AtomicBool) -> Result<(), VmError> {
        let sent = self.sent(dir);
        let what = match ended {
            Ended::Itself(status, _)
                if status.success() && sent.metadata().is_ok_and(|found| found.len() > 0) =>
            {
                return unpack(&sent, dir, stop);
            }
            Ended::TimedOut => format!("was not done after {} s", self.timeout.as_secs()),
            Ended::NeverCameUp => "did not come up".to_owned(),
            Ended::Itself(status, complaint) => match panic(dir) {
                Some(panic) => format!("panicked: {panic}"),
                None if !status.success() && !complaint.is_empty() => format!("could not run: {complaint}"),
                None if !status.success() => format!("was ended ({status})"),
                None => "ended before its job did".to_owned(),
            },
        };
        Err(VmError::Died { release: self.kernel.about.release.clone(), what, lines: last_lines(dir) })
    }

    fn status(&self, dir: &Path) -> Result<i32, VmError> {
        let text = fs::read_to_string(dir.join("weir/status")).unwrap_or_default();
        text.trim().parse().map_err(|_| VmError::Inside {
            release: self.kernel.about.release.clone(),
            detail: "the job's exit status was not sent".to_owned(),
        })
    }
}

/// How a start of QEMU ended.
enum Ended {
    /// By itself; with what QEMU complained about.
    Itself(ExitStatus, String),
    /// Its time was over.
    TimedOut,
    /// The guest showed no life.
    NeverCameUp,
}

/// QEMU and the threads that read what it writes. QEMU is killed when this goes.
struct Running {
    qemu: Child,
    lines: std::sync::mpsc::Receiver<(Stream, String)>,
    readers: Vec<JoinHandle<()>>,
    complaint: Option<JoinHandle<String>>,
}

impl Running {
    fn start(mut qemu: Command) -> io::Result<Self> {
        let (out, out_end) = io::pipe()?;
        let (err, err_end) = io::pipe()?;
        let (mut said, said_end): (PipeReader, PipeWriter) = io::pipe()?;
        // Keys pressed at our terminal are ours to handle.
        qemu.stdout(out_end).stdin(err_end).stderr(said_end).process_group(0);
        end_with_us(&mut qemu);
        let child = qemu.spawn()?;
        // It holds our copies of the pipes' ends; readers would wait for these, too.
        drop(qemu);
        let (to, lines) = sync_channel(LINES);
        let readers = vec![read_lines(out, Stream::Out, to.clone()), read_lines(err, Stream::Err, to)];
        let complaint = std::thread::spawn(move || {
            let mut text = Vec::new();
            // What came before an error is all there is to report.
            let _ = said.read_to_end(&mut text);
            String::from_utf8_lossy(&text).trim().to_owned()
        });
        Ok(Self { qemu: child, lines, readers, complaint: Some(complaint) })
    }

    /// Waits for its end; how it ended, and what QEMU itself complained about.
    fn finish(&mut self) -> io::Result<(ExitStatus, String)> {
        let status = self.qemu.wait()?;
        let complaint = self.complaint.take().and_then(|thread| thread.join().ok()).unwrap_or_default();
        Ok((status, complaint))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        tools::end(&mut self.qemu);
        // A reader may wait for room among lines that nobody takes any more.
        self.lines = sync_channel(0).1;
        for reader in self.readers.drain(..) {
            // A reader that panicked has nothing more to say.
            let _ = reader.join();
        }
    }
}

fn read_lines(from: PipeReader, stream: Stream, to: SyncSender<(Stream, String)>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut from = BufReader::new(from);
        let mut line = Vec::new();
        while from.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            let text = String::from_utf8_lossy(line.strip_suffix(b"\n").unwrap_or(&line)).into_owned();
            if to.send((stream, text)).is_err() {
                break;
            }
            line.clear();
        }
    })
}

/// Has the kernel kill QEMU should this process die without a chance to do so itself.
fn end_with_us(qemu: &mut Command) {
    let end = || {
        // SAFETY: prctl with PR_SET_PDEATHSIG reads its arguments only, and is a plain system call, which may be made
        // between fork and exec.
        match unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    // SAFETY: the closure allocates nothing and takes no lock.
    unsafe { qemu.pre_exec(end) };
}

/// What the kernel and the guest's first program said.
fn console(dir: &Path) -> String {
    // Before QEMU has started there is no such file, and nothing was said.
    String::from_utf8_lossy(&fs::read(dir.join(CONSOLE)).unwrap_or_default()).into_owned()
}

/// Whether the job was begun.
fn is_up(dir: &Path) -> bool {
    console(dir).lines().any(|line| line.trim_end().ends_with(UP))
}

/// Why the kernel panicked, if it did.
fn panic(dir: &Path) -> Option<String> {
    let said = console(dir);
    let reason = |line: &str| Some(line.split_once("Kernel panic - not syncing: ")?.1.trim().to_owned());
    said.lines().find_map(reason)
}

/// The console's last lines, without the control characters that firmware prints.
fn last_lines(dir: &Path) -> Vec<String> {
    let said = console(dir);
    let clean = |line: &str| line.chars().filter(|c| !c.is_control()).collect::<String>();
    let lines: Vec<_> = said.lines().map(clean).filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(CONSOLE_LINES)..].to_vec()
}

#[allow(clippy::disallowed_methods, reason = "a guest runs on the real clock")]
fn now() -> Instant {
    Instant::now()
}
