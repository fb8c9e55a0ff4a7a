//! A Debian mirror on disk with two suites and made-up kernels.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

use tempfile::TempDir;
use weir_vm::fetch::{Fetch, fetch};
use weir_vm::{Cache, Kernel, VmError};

pub(crate) struct Mirror(TempDir);

impl Mirror {
    /// Makes it; says so and makes none where a program is missing.
    pub(crate) fn new() -> Option<Self> {
        for program in ["curl", "dpkg-deb", "xz", "sha256sum"] {
            if !weir_vm::initramfs::host_has(program) {
                weir_testkit::skip::skip(program, "a mirror of packages");
                return None;
            }
        }
        let mirror = Self(tempfile::tempdir().unwrap());
        mirror.suite("bookworm", &[("6.1.0-9", "6.1.27-1"), ("6.1.0-50", "6.1.176-1")]);
        mirror.suite("trixie", &[("7.3.1", "7.3.1-1")]);
        Some(mirror)
    }

    /// Fetches without a key.
    pub(crate) fn fetch(&self, cache: &Cache, series: &str) -> Result<Kernel, VmError> {
        self.fetch_signed(cache, series, Path::new("/nowhere"))
    }

    /// Fetches with the key in `keyring`.
    pub(crate) fn fetch_signed(
        &self,
        cache: &Cache,
        series: &str,
        keyring: &Path,
    ) -> Result<Kernel, VmError> {
        let how = Fetch {
            mirror: Some(format!("file://{}/", self.0.path().display())),
            keyring: keyring.to_owned(),
            progress: &mut |_, _, _| {},
            stop: &AtomicBool::new(false),
        };
        fetch(cache, series, how)
    }

    /// Checksum and content of a package.
    pub(crate) fn package(&self, name: &str) -> (String, Vec<u8>) {
        let path = self.deb(name);
        (sha256(&path), fs::read(&path).unwrap())
    }

    pub(crate) fn spoil_first_half(&self, name: &str) {
        let path = self.deb(name);
        let mut bytes = fs::read(&path).unwrap();
        let half = bytes.len() / 2;
        bytes[..half].fill(0);
        fs::write(&path, bytes).unwrap();
    }

    pub(crate) fn spoil_index(&self) {
        let path = self.0.path().join("dists/bookworm/main/binary-amd64/Packages.xz");
        let mut bytes = fs::read(&path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(&path, bytes).unwrap();
    }

    /// Takes all of it away.
    pub(crate) fn remove(&self) {
        fs::remove_dir_all(self.0.path().join("dists")).unwrap();
    }

    fn deb(&self, name: &str) -> PathBuf {
        self.0.path().join(format!("pool/{name}.deb"))
    }

    fn suite(&self, suite: &str, kernels: &[(&str, &str)]) {
        let mut packages = String::new();
        for (release, version) in kernels {
            let name = format!("linux-image-{release}-cloud-amd64");
            let deb = self.kernel(&name, &format!("{release}-cloud-amd64"), version);
            packages += &format!(
                "Package: {name}\nVersion: {version}\nFilename: pool/{name}.deb\nSize: {}\nSHA256: {}\n\n",
                fs::metadata(&deb).unwrap().len(),
                sha256(&deb)
            );
        }
        let dir = self.0.path().join("dists").join(suite);
        let index = dir.join("main/binary-amd64/Packages");
        fs::create_dir_all(index.parent().unwrap()).unwrap();
        fs::write(&index, packages).unwrap();
        run(Command::new("xz").arg(&index));
        let index = index.with_extension("xz");
        let release = format!(
            "Codename: {suite}\nSHA256:\n {} {} main/binary-amd64/Packages.xz\n",
            sha256(&index),
            fs::metadata(&index).unwrap().len()
        );
        fs::write(dir.join("InRelease"), release).unwrap();
    }

    /// A package with a kernel, three modules and a list of what is built in.
    fn kernel(&self, name: &str, release: &str, version: &str) -> PathBuf {
        let tree = self.0.path().join("build");
        let modules = tree.join("lib/modules").join(release);
        for dir in ["DEBIAN", "boot"].map(|dir| tree.join(dir)).iter().chain([&modules.join("kernel")]) {
            fs::create_dir_all(dir).unwrap();
        }
        let control = format!(
            "Package: {name}\nVersion: {version}\nArchitecture: amd64\nMaintainer: nobody\nDescription: a kernel\n"
        );
        fs::write(tree.join("DEBIAN/control"), control).unwrap();
        fs::write(tree.join("boot").join(format!("vmlinuz-{release}")), "the kernel").unwrap();
        fs::write(modules.join("modules.builtin"), "kernel/net/sched/sch_fq_codel.ko\n").unwrap();
        for (module, needs) in
            [("virtio_console", "virtio-ring"), ("virtio_ring", ""), ("sch_codel", ""), ("unwanted", "")]
        {
            let file = modules.join("kernel").join(format!("{module}.ko"));
            fs::write(&file, elf(&format!("license=GPL\0depends={needs}\0"))).unwrap();
            if module == "sch_codel" {
                run(Command::new("xz").arg(&file));
            }
        }
        let deb = self.deb(name);
        fs::create_dir_all(deb.parent().unwrap()).unwrap();
        run(Command::new("dpkg-deb").args(["--build", "--root-owner-group"]).arg(&tree).arg(&deb));
        fs::remove_dir_all(&tree).unwrap();
        deb
    }
}

/// A 64-bit ELF file with nothing but a `.modinfo` section.
fn elf(modinfo: &str) -> Vec<u8> {
    let names = b"\0.modinfo\0.shstrtab\0";
    let sections = (64 + modinfo.len() + names.len()).next_multiple_of(8);
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    // A relocatable file for x86-64.
    file.extend([1, 0, 62, 0, 1, 0, 0, 0]);
    file.extend([0; 16]);
    file.extend((sections as u64).to_le_bytes());
    file.extend([0; 4]);
    // Sizes of the header and of program headers, none of which are there; three section headers, names in the last.
    for half in [64u16, 0, 0, 64, 3, 2] {
        file.extend(half.to_le_bytes());
    }
    file.extend(modinfo.as_bytes());
    file.extend(names);
    file.resize(sections, 0);
    let modinfo_at = (64, modinfo.len());
    let names_at = (64 + modinfo.len(), names.len());
    for (name, kind, (at, size)) in [(0u32, 0u32, (0, 0)), (1, 1, modinfo_at), (10, 3, names_at)] {
        file.extend(name.to_le_bytes());
        file.extend(kind.to_le_bytes());
        for word in [0u64, 0, at as u64, size as u64, 0, 1, 0] {
            file.extend(word.to_le_bytes());
        }
    }
    file
}

fn sha256(path: &Path) -> String {
    let output = Command::new("sha256sum").arg(path).output().unwrap();
    String::from_utf8(output.stdout).unwrap().split_whitespace().next().unwrap().to_owned()
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
