//! The kernels on this host's disk: a folder per series with the kernel, its modules and a description.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::VmError;
use super::index::{self, Package};

/// The description's file in a kernel's folder.
const DESCRIPTION: &str = "kernel.json";
/// The kernel's file in its folder.
pub(super) const VMLINUZ: &str = "vmlinuz";
/// The modules' folder in a kernel's folder.
pub(super) const MODULES: &str = "modules";

/// Where fetched kernels are kept.
#[derive(Clone, Debug)]
pub struct Cache {
    dir: PathBuf,
}

/// A kernel that has been fetched.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// Its folder.
    pub dir: PathBuf,
    /// What is known of it.
    pub about: About,
}

/// What is known of a fetched kernel; `kernel.json` in its folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// The first two numbers of its version, such as `6.1`.
    pub series: String,
    /// What `uname -r` says in it.
    pub release: String,
    /// The Debian suite that it comes from.
    pub suite: String,
    /// The packages that it was taken from, with version and checksum.
    pub packages: Vec<Package>,
    /// Whether the archive's signature was verified, or why not.
    pub signature: String,
    /// Its modules, in the order they are loaded in.
    pub modules: Vec<String>,
    /// Of the modules that a guest is given, those that are built into it.
    pub built_in: Vec<String>,
    /// Of these, those that it has not.
    pub absent: Vec<String>,
}

impl Cache {
    /// The cache in `dir`.
    pub fn at(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }

    /// The cache of this user: `WEIR_VM_CACHE`, else `weir/vm` in `XDG_CACHE_HOME`, else in `~/.cache`.
    ///
    /// # Errors
    /// If none of the three is set.
    pub fn of_user() -> Result<Self, VmError> {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let dir = set("WEIR_VM_CACHE")
            .or_else(|| Some(set("XDG_CACHE_HOME")?.join("weir/vm")))
            .or_else(|| Some(set("HOME")?.join(".cache/weir/vm")));
        let nowhere = || VmError::Request("HOME is not set; name a cache folder with --cache DIR".to_owned());
        Ok(Self::at(dir.ok_or_else(nowhere)?))
    }

    /// Its folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The kernels in it, oldest series first. A folder that holds something else is left out.
    pub fn kernels(&self) -> Vec<Kernel> {
        let entries = fs::read_dir(&self.dir).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let mut kernels: Vec<_> = names.filter_map(|series| self.kernel(&series).ok()).collect();
        kernels.sort_by(|a, b| index::compare(&a.about.series, &b.about.series));
        kernels
    }

    /// The kernel called `series`, or the newest one that is there.
    ///
    /// # Errors
    /// As [`Cache::kernel`]; where there is none at all, its error names the newest that can be fetched.
    pub fn wanted(&self, series: Option<&str>) -> Result<Kernel, VmError> {
        if let Some(series) = series {
            return self.kernel(series);
        }
        let number = |kernel: &Kernel| {
            let parts = kernel.about.series.split('.').map(|part| part.parse().unwrap_or(0));
            parts.collect::<Vec<u32>>()
        };
        let newest = self.kernels().into_iter().max_by_key(number);
        newest.map_or_else(|| self.kernel(super::SERIES[super::SERIES.len() - 1].0), Ok)
    }

    /// The kernel of a series.
    ///
    /// # Errors
    /// If it has not been fetched, or its folder is damaged.
    pub fn kernel(&self, series: &str) -> Result<Kernel, VmError> {
        let dir = self.folder(series)?;
        let path = dir.join(DESCRIPTION);
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(VmError::NotFetched { series: series.to_owned(), cache: self.dir.clone() });
            }
            read => read.map_err(VmError::file(&path))?,
        };
        let broken = |path: &Path, detail: String| VmError::Broken {
            path: path.to_owned(),
            detail,
            series: series.to_owned(),
        };
        let about: About = serde_json::from_str(&text).map_err(|error| broken(&path, error.to_string()))?;
        let kernel = Kernel { dir, about };
        let files = kernel.about.modules.iter().map(|name| kernel.module(name)).chain([kernel.vmlinuz()]);
        for file in files {
            if !file.is_file() {
                return Err(broken(&file, "is missing".to_owned()));
            }
        }
        Ok(kernel)
    }

    /// Removes the kernel of a series; says whether there was one.
    ///
    /// # Errors
    /// If its files cannot be removed.
    pub fn remove(&self, series: &str) -> Result<bool, VmError> {
        let dir = self.folder(series)?;
        match fs::remove_dir_all(&dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            removed => removed.map(|()| true).map_err(VmError::file(&dir)),
        }
    }

    /// Writes the description of a kernel whose files are in `dir`, and moves it to its place.
    pub(super) fn take_in(&self, dir: &Path, about: About) -> Result<Kernel, VmError> {
        let description = dir.join(DESCRIPTION);
        let text = serde_json::to_string_pretty(&about).unwrap_or_default();
        fs::write(&description, text + "\n").map_err(VmError::file(&description))?;
        let place = self.folder(&about.series)?;
        self.remove(&about.series)?;
        fs::rename(dir, &place).map_err(VmError::file(&place))?;
        Ok(Kernel { dir: place, about })
    }

    /// A series is the name of a folder here, so it may hold nothing but numbers and a dot.
    fn folder(&self, series: &str) -> Result<PathBuf, VmError> {
        let whole = !series.is_empty() && index::series(series) == series;
        if !whole || series.starts_with('.') || series.ends_with('.') {
            return Err(VmError::Request(format!(
                "'{series}' is no kernel series; write its first two numbers, such as 6.1"
            )));
        }
        Ok(self.dir.join(series))
    }
}

impl Kernel {
    /// The file that QEMU boots.
    pub fn vmlinuz(&self) -> PathBuf {
        self.dir.join(VMLINUZ)
    }

    /// The file of one of its modules.
    pub fn module(&self, name: &str) -> PathBuf {
        self.dir.join(MODULES).join(format!("{name}.ko"))
    }

    /// Bytes on disk.
    pub fn size(&self) -> u64 {
        let files = self.about.modules.iter().map(|name| self.module(name)).chain([self.vmlinuz()]);
        files.filter_map(|file| file.metadata().ok()).map(|found| found.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::{About, Cache, VMLINUZ};

    fn about() -> About {
        About {
            series: "6.1".to_owned(),
            release: "6.1.0-1-cloud-amd64".to_owned(),
            suite: "bookworm".to_owned(),
            packages: Vec::new(),
            signature: "verified".to_owned(),
            modules: Vec::new(),
            built_in: Vec::new(),
            absent: Vec::new(),
        }
    }

    #[test]
    fn a_kernel_is_taken_in_found_and_removed() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path().join("vm"));
        assert!(cache.kernels().is_empty());
        let error = cache.kernel("6.1").unwrap_err().to_string();
        assert!(error.contains("run 'weir vm fetch 6.1'"), "{error}");

        let part = dir.path().join("vm/.part");
        std::fs::create_dir_all(&part).unwrap();
        std::fs::write(part.join(VMLINUZ), "kernel").unwrap();
        cache.take_in(&part, about()).unwrap();
        let kernels = cache.kernels();
        assert_eq!((kernels.len(), kernels[0].size()), (1, 6));
        assert_eq!(kernels[0].about, about());

        std::fs::remove_file(kernels[0].vmlinuz()).unwrap();
        let error = cache.kernel("6.1").unwrap_err().to_string();
        assert!(error.contains("vmlinuz is missing") || error.contains("vmlinuz: is missing"), "{error}");
        assert!(cache.remove("6.1").unwrap() && !cache.remove("6.1").unwrap());
    }

    #[test]
    fn a_series_cannot_lead_elsewhere() {
        let cache = Cache::at("/nowhere");
        for series in ["", ".", "..", "6.1/..", "../6.1", "6.1.2", "six"] {
            let error = cache.remove(series).unwrap_err().to_string();
            assert!(error.contains("is no kernel series"), "{series}: {error}");
        }
    }
}
