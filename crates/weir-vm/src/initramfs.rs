//! The guest's whole file system: programs of the host with their shared libraries, the kernel's modules, the job and
//! its files, in one archive that the kernel unpacks into memory.
//!
//! Everything lies below `/usr`: `/bin` and `/sbin` are links to `/usr/bin`, `/lib` is one to `/usr/lib`, whatever the
//! host does, so a program is found by each of its names.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufWriter, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use super::VmError;
use super::cache::Kernel;
use super::cpio::Archive;
use super::tools::{self, LDD};

/// The guest's first program.
const INIT: &str = include_str!("init.sh");

/// Programs that every guest has, and the Debian package of each.
const PROGRAMS: [(&str, &str); 4] =
    [("sh", "dash"), ("busybox", "busybox-static"), ("ip", "iproute2"), ("tc", "iproute2")];

/// Programs that every guest has if the host has them.
const EXTRAS: [&str; 4] = ["ss", "bpftool", "ethtool", "nsenter"];

/// Options of modules that would make devices which nobody asked for.
const OPTIONS: [(&str, &str); 2] = [("dummy", "numdummies=0"), ("ifb", "numifbs=0")];

/// Whether this host has a program of that name, or at that path, which a guest could be given.
pub fn host_has(program: &str) -> bool {
    tools::find(program).is_some()
}

/// What a guest is to hold besides the kernel's modules and the programs that all have.
#[derive(Clone, Copy, Debug)]
pub struct Contents<'a> {
    /// The job, a shell script.
    pub script: &'a str,
    /// More programs of the host, by name or path. Each keeps its name and is on the `PATH`.
    pub programs: &'a [String],
    /// Files and folders: where they are on the host, and where they shall be in the guest.
    pub files: &'a [(PathBuf, PathBuf)],
}

/// Writes the archive for `kernel` to `path`. Returns its size in bytes.
///
/// # Errors
/// If a program is not there, a file cannot be read, or the archive cannot be written.
pub fn write(
    path: &Path,
    kernel: &Kernel,
    contents: &Contents<'_>,
    stop: &AtomicBool,
) -> Result<u64, VmError> {
    let file = File::create(path).map_err(VmError::file(path))?;
    let mut image =
        Image { archive: Archive::new(BufWriter::new(file)), path, needed: BTreeSet::new(), stop };
    for dir in ["proc", "sys", "dev", "run", "tmp", "results", "root", "var", "etc", "usr/lib/busybox"] {
        image.put(|archive| archive.directory(dir))?;
    }
    for (link, target) in [
        ("bin", "usr/bin"),
        ("sbin", "usr/bin"),
        ("lib", "usr/lib"),
        ("lib64", "usr/lib64"),
        ("usr/sbin", "bin"),
        ("var/run", "/run"),
        ("var/tmp", "/tmp"),
    ] {
        image.put(|archive| archive.symlink(link, target))?;
    }
    for (file, text) in [
        ("etc/passwd", "root:x:0:0:root:/root:/bin/sh\n"),
        ("etc/group", "root:x:0:\n"),
        ("etc/hosts", "127.0.0.1 localhost\n::1 localhost\n"),
        ("weir/job", contents.script),
        ("weir/modules", modules(kernel).as_str()),
    ] {
        image.text(file, 0o644, text)?;
    }
    image.text("init", 0o755, INIT)?;
    for name in &kernel.about.modules {
        image.file(&kernel.module(name), &format!("/usr/lib/modules/{name}.ko"))?;
    }
    for (program, package) in PROGRAMS {
        let missing = || VmError::Tool { program: program.to_owned(), package: package.to_owned() };
        image.program(&tools::find(program).ok_or_else(missing)?, program)?;
    }
    for program in EXTRAS {
        if let Some(found) = tools::find(program) {
            image.program(&found, program)?;
        }
    }
    for program in contents.programs {
        let missing =
            || VmError::Request(format!("this host has no program '{program}' to give to the guest"));
        let found = tools::find(program).ok_or_else(missing)?;
        image.program(&found, program.rsplit('/').next().unwrap_or(program))?;
    }
    for (host, guest) in contents.files {
        image.given(host, guest)?;
    }
    image.libraries()?;
    image.archive.finish().map_err(VmError::file(path))?;
    Ok(path.metadata().map_err(VmError::file(path))?.len())
}

/// A line per module: its name and its options.
fn modules(kernel: &Kernel) -> String {
    let line = |name: &String| {
        let options = OPTIONS.iter().find(|(module, _)| module == name).map_or("", |(_, options)| options);
        format!("{name} {options}\n")
    };
    kernel.about.modules.iter().map(line).collect()
}

struct Image<'a> {
    archive: Archive<BufWriter<File>>,
    path: &'a Path,
    /// Programs of the host whose libraries are still to be added.
    needed: BTreeSet<PathBuf>,
    stop: &'a AtomicBool,
}

impl Image<'_> {
    fn put(
        &mut self,
        put: impl FnOnce(&mut Archive<BufWriter<File>>) -> std::io::Result<()>,
    ) -> Result<(), VmError> {
        put(&mut self.archive).map_err(VmError::file(self.path))
    }

    fn text(&mut self, guest: &str, mode: u32, text: &str) -> Result<(), VmError> {
        self.put(|archive| archive.file(guest, mode, text.len() as u64, text.as_bytes()))
    }

    /// Adds a file of the host, unless the guest has one of that name.
    fn file(&mut self, host: &Path, guest: &str) -> Result<(), VmError> {
        let guest = below_usr(guest);
        if self.archive.has(&guest) {
            return Ok(());
        }
        let file = File::open(host).map_err(VmError::file(host))?;
        let found = file.metadata().map_err(VmError::file(host))?;
        self.put(|archive| archive.file(&guest, found.permissions().mode(), found.size(), file))
    }

    fn program(&mut self, host: &Path, name: &str) -> Result<(), VmError> {
        self.file(host, &format!("/usr/bin/{name}"))?;
        self.needed.insert(host.to_owned());
        Ok(())
    }

    /// Adds a file that was asked for, with its libraries, or a folder with all that is in it.
    fn given(&mut self, host: &Path, guest: &Path) -> Result<(), VmError> {
        let name = guest.to_str().filter(|name| name.starts_with('/') && !name.contains("/../"));
        let name = name.ok_or_else(|| {
            VmError::Request(format!("'{}' is no absolute path for a file of the guest", guest.display()))
        })?;
        if !host.is_dir() {
            self.needed.insert(host.to_owned());
            return self.file(host, name);
        }
        self.put(|archive| archive.directory(&below_usr(name)))?;
        let mut entries: Vec<_> =
            fs::read_dir(host).map_err(VmError::file(host))?.flatten().map(|entry| entry.path()).collect();
        entries.sort();
        for entry in entries {
            let Some(last) = entry.file_name().and_then(|last| last.to_str()) else { continue };
            let inside = format!("{}/{last}", name.trim_end_matches('/'));
            let kind = entry.symlink_metadata().map_err(VmError::file(&entry))?.file_type();
            if kind.is_symlink() {
                let target = fs::read_link(&entry).map_err(VmError::file(&entry))?;
                self.put(|archive| archive.symlink(&below_usr(&inside), &target.to_string_lossy()))?;
            } else if kind.is_dir() {
                self.given(&entry, Path::new(&inside))?;
            } else if kind.is_file() {
                self.file(&entry, &inside)?;
            }
        }
        Ok(())
    }

    /// Adds the shared libraries of all programs, and the loader.
    fn libraries(&mut self) -> Result<(), VmError> {
        let mut libraries = BTreeSet::new();
        for program in std::mem::take(&mut self.needed) {
            if !is_elf(&program)? {
                continue;
            }
            let mut ldd = LDD.command()?;
            ldd.arg(&program);
            match LDD.run(&mut ldd, self.stop, &mut || ()) {
                Ok(printed) => {
                    libraries.extend(listed(&String::from_utf8_lossy(&printed)).map_err(|library| {
                        let program = program.display();
                        VmError::Request(format!(
                            "{program} needs the library {library}, which this host has not"
                        ))
                    })?)
                }
                // It says so of a program that needs no libraries, and fails.
                Err(VmError::ToolFailed { detail, .. }) if detail.contains("not a dynamic executable") => {}
                Err(error) => return Err(error),
            }
        }
        for library in libraries {
            self.file(Path::new(&library), &library)?;
        }
        Ok(())
    }
}

/// The paths that `ldd` lists: `name => path (address)`, or the loader's `path (address)`.
///
/// # Errors
/// The name of a library that is not found.
fn listed(printed: &str) -> Result<Vec<String>, String> {
    let mut paths = Vec::new();
    for line in printed.lines().map(str::trim) {
        let (name, rest) = line.split_once(" => ").unwrap_or((line, line));
        if rest.starts_with("not found") {
            return Err(name.to_owned());
        }
        let path = rest.split(" (").next().unwrap_or_default().trim();
        if path.starts_with('/') {
            paths.push(path.to_owned());
        }
    }
    Ok(paths)
}

fn is_elf(path: &Path) -> Result<bool, VmError> {
    let mut magic = Vec::new();
    let file = File::open(path).map_err(VmError::file(path))?;
    file.take(4).read_to_end(&mut magic).map_err(VmError::file(path))?;
    Ok(magic == b"\x7fELF")
}

/// Where a path leads in the guest, whose `/bin`, `/sbin`, `/lib`, `/lib64` and `/usr/sbin` are links.
fn below_usr(path: &str) -> String {
    let path = path.trim_start_matches('/');
    for (from, to) in [
        ("usr/sbin/", "usr/bin/"),
        ("bin/", "usr/bin/"),
        ("sbin/", "usr/bin/"),
        ("lib/", "usr/lib/"),
        ("lib64/", "usr/lib64/"),
    ] {
        if let Some(rest) = path.strip_prefix(from) {
            return format!("{to}{rest}");
        }
    }
    path.to_owned()
}

#[cfg(test)]
mod tests {
    use super::{below_usr, listed};

    #[test]
    fn libraries_are_read_from_ldd() {
        let printed = "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibelf.so.1 => /lib/x86_64-linux-gnu/libelf.so.1 (0x00007f)\n\
                       \tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x7f)\n\t/lib64/ld-linux-x86-64.so.2 (0x7f)\n";
        assert_eq!(
            listed(printed).unwrap(),
            [
                "/lib/x86_64-linux-gnu/libelf.so.1",
                "/lib/x86_64-linux-gnu/libc.so.6",
                "/lib64/ld-linux-x86-64.so.2"
            ]
        );
        assert_eq!(listed("\tlibodd.so.1 => not found\n").unwrap_err(), "libodd.so.1");
        assert!(listed("\tstatically linked\n").unwrap().is_empty());
    }

    #[test]
    fn paths_lead_below_usr() {
        let paths = ["/bin/ip", "/usr/sbin/tc", "/lib64/ld.so", "/lib/x/y.so", "/usr/bin/ss", "/srv/bin/x"];
        assert_eq!(
            paths.map(below_usr),
            ["usr/bin/ip", "usr/bin/tc", "usr/lib64/ld.so", "usr/lib/x/y.so", "usr/bin/ss", "srv/bin/x"]
        );
    }
}
