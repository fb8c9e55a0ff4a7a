//! Fetches a kernel from a Debian mirror: index, packages, the files of them that are needed. Nothing is installed.
//!
//! What is trusted: the archive's key on this host (`debian-archive-keyring`) signs `InRelease`, which holds the
//! checksum of the index, which holds those of the packages. Where `gpgv` or the key is missing, the result says so. A
//! signature or a checksum that is wrong is an error. Dates are not checked, so a mirror that lags, or a snapshot of
//! one, can be used.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use super::cache::{About, Cache, Kernel, MODULES, VMLINUZ};
use super::index::{self, Offer, Package};
use super::tools::{CURL, DPKG_DEB, GPGV, SHA256SUM, XZ};
use super::{SERIES, VmError, apt, modules};

/// The key that Debian's archive is signed with.
pub const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// The index of a suite, below `dists/SUITE`.
const INDEX: &str = "main/binary-amd64/Packages.xz";
/// Suites that may have a series that is not among [`SERIES`].
const SUITES: [&str; 4] = ["bookworm", "trixie", "forky", "sid"];

/// How to fetch.
pub struct Fetch<'a> {
    /// The mirror's address; the host's own where there is none.
    pub mirror: Option<String>,
    /// The key that the mirror's index must be signed with; [`KEYRING`] but for tests.
    pub keyring: PathBuf,
    /// Called with what is downloaded, how many bytes are there and how many there will be.
    pub progress: &'a mut dyn FnMut(&str, u64, u64),
    /// Ends it early.
    pub stop: &'a AtomicBool,
}

/// Brings the newest cloud kernel of `series` into the cache. A kernel that is there already is left as it is.
///
/// # Errors
/// If no suite has it, the mirror cannot be reached, what it sends is not what the archive signed, or the cache cannot
/// be written. What was downloaded until then is kept and used by the next attempt.
pub fn fetch(cache: &Cache, series: &str, mut how: Fetch<'_>) -> Result<Kernel, VmError> {
    match cache.kernel(series) {
        Err(VmError::NotFetched { .. } | VmError::Broken { .. }) => {}
        there => return there,
    }
    let mirror = how.mirror.clone().unwrap_or_else(apt::mirror);
    let mirror = mirror.trim_end_matches('/');
    let downloads = cache.dir().join(".download");
    fs::create_dir_all(cache.dir()).map_err(VmError::file(cache.dir()))?;
    let scratch = tempfile::Builder::new().prefix(".new-").tempdir_in(cache.dir());
    let scratch = scratch.map_err(VmError::file(cache.dir()))?;

    let (suite, offer, signature) = find(mirror, series, scratch.path(), &mut how)?;
    let unpacked = scratch.path().join("packages");
    fs::create_dir_all(&downloads).map_err(VmError::file(&downloads))?;
    for package in &offer.packages {
        let deb = downloads.join(format!("{}.deb", &package.sha256));
        download_package(mirror, package, &deb, &mut how)?;
        let mut unpack = DPKG_DEB.command()?;
        unpack.arg("-x").arg(&deb).arg(&unpacked);
        DPKG_DEB.run(&mut unpack, how.stop, &mut || ())?;
    }
    let kernel = scratch.path().join("kernel");
    let about = take(&unpacked, &kernel, suite, &offer, signature, how.stop)?;
    let kernel = cache.take_in(&kernel, about)?;
    for package in &offer.packages {
        let deb = downloads.join(format!("{}.deb", &package.sha256));
        fs::remove_file(&deb).map_err(VmError::file(&deb))?;
    }
    // It may hold parts of other kernels.
    let _ = fs::remove_dir(&downloads);
    Ok(kernel)
}

/// Looks for `series` in the suite that is known to have it, and in the others if it has moved on.
fn find(
    mirror: &str,
    series: &str,
    scratch: &Path,
    how: &mut Fetch<'_>,
) -> Result<(&'static str, Offer, String), VmError> {
    let known = SERIES.iter().find(|(name, _)| *name == series).map(|(_, suite)| *suite);
    let others = SUITES.into_iter().filter(|suite| Some(*suite) != known);
    let mut offered = Vec::new();
    for suite in known.into_iter().chain(others) {
        let (offers, signature) = match suite_offers(mirror, suite, scratch, how) {
            Err(VmError::ToolFailed { detail, .. }) if is_not_there(&detail) => continue,
            found => found?,
        };
        for offer in offers {
            if offer.series() == series {
                return Ok((suite, offer, signature));
            }
            offered.push(format!("{} in {suite}", offer.series()));
        }
    }
    Err(VmError::NoSuchKernel { series: series.to_owned(), mirror: mirror.to_owned(), offered })
}

/// Whether the mirror has no such file, as none has every suite: what curl says of HTTP's 404, and of a mirror on a
/// disk.
fn is_not_there(complaint: &str) -> bool {
    complaint.contains("returned error: 404") || complaint.contains("(37)")
}

/// The kernels of a suite, and how its signature fared.
fn suite_offers(
    mirror: &str,
    suite: &str,
    scratch: &Path,
    how: &mut Fetch<'_>,
) -> Result<(Vec<Offer>, String), VmError> {
    let release = scratch.join(format!("{suite}.InRelease"));
    download(&format!("{mirror}/dists/{suite}/InRelease"), &release, None, suite, how)?;
    let (text, signature) = verified(&release, suite, &how.keyring, how.stop)?;
    let (size, sha256) = index::checksum(&text, suite, INDEX)?;
    let packed = scratch.join(format!("{suite}.Packages.xz"));
    download(&format!("{mirror}/dists/{suite}/{INDEX}"), &packed, Some(size), suite, how)?;
    check(&packed, &sha256, &format!("the index of {suite}"), how.stop)?;
    let mut unpack = XZ.command()?;
    unpack.arg("-dc").arg(&packed);
    let index = XZ.run(&mut unpack, how.stop, &mut || ())?;
    let packages = index::packages(&String::from_utf8_lossy(&index), "linux-")?;
    Ok((index::offers(&packages), signature))
}

/// The part of an `InRelease` file that is signed, and by whom.
fn verified(
    release: &Path,
    suite: &str,
    keyring: &Path,
    stop: &AtomicBool,
) -> Result<(String, String), VmError> {
    let read = |path: &Path| fs::read_to_string(path).map_err(VmError::file(path));
    let missing = match (keyring.is_file(), GPGV.is_there()) {
        (false, _) => Some("the package debian-archive-keyring"),
        (true, false) => Some("the package gpgv"),
        (true, true) => None,
    };
    if let Some(missing) = missing {
        return Ok((read(release)?, format!("not verified: {missing} is not installed")));
    }
    let signed = release.with_extension("signed");
    let mut gpgv = GPGV.command()?;
    gpgv.arg("--keyring").arg(keyring).arg("--output").arg(&signed).arg(release);
    match GPGV.run(&mut gpgv, stop, &mut || ()) {
        Ok(_) => Ok((read(&signed)?, format!("verified with {}", keyring.display()))),
        Err(VmError::ToolFailed { detail, .. }) => Err(VmError::Untrusted(format!(
            "the signature of {suite} is not Debian's ({}); try another mirror, or update debian-archive-keyring",
            detail.lines().last().unwrap_or_default().trim()
        ))),
        Err(error) => Err(error),
    }
}

/// Brings a package to `deb`, unless it is there; an unfinished download goes on where it ended.
fn download_package(mirror: &str, package: &Package, deb: &Path, how: &mut Fetch<'_>) -> Result<(), VmError> {
    let there = deb.metadata().map_or(0, |found| found.len());
    if there != package.size {
        if there > package.size {
            fs::remove_file(deb).map_err(VmError::file(deb))?;
        }
        let url = format!("{mirror}/{}", package.filename);
        download(&url, deb, Some(package.size), &package.name, how)?;
    }
    check(deb, &package.sha256, &package.name, how.stop).inspect_err(|error| {
        if matches!(error, VmError::Untrusted(_)) {
            // The next attempt would only find it wrong again.
            let _ = fs::remove_file(deb);
        }
    })
}

/// Downloads `url` to `to`, reporting how far it is.
fn download(url: &str, to: &Path, size: Option<u64>, what: &str, how: &mut Fetch<'_>) -> Result<(), VmError> {
    let mut curl = CURL.command()?;
    curl.args([
        "--fail",
        "--location",
        "--silent",
        "--show-error",
        "--retry",
        "3",
        "--connect-timeout",
        "20",
    ]);
    // A transfer that has come to a halt ends instead of waiting for ever.
    curl.args(["--speed-limit", "1000", "--speed-time", "60", "--continue-at", "-"]);
    curl.arg("--output").arg(to).arg("--").arg(url);
    let progress = &mut *how.progress;
    let mut tell = || {
        let there = to.metadata().map_or(0, |found| found.len());
        progress(what, there, size.unwrap_or(0));
    };
    let fetched = CURL.run(&mut curl, how.stop, &mut tell);
    tell();
    fetched.map(drop).map_err(|error| match error {
        // It complains once for each attempt.
        VmError::ToolFailed { program, detail } => {
            let last = detail.lines().last().unwrap_or_default();
            VmError::ToolFailed {
                program,
                detail: format!("{url}: {last}; another mirror can be named with --mirror"),
            }
        }
        other => other,
    })
}

/// Compares a file with the checksum that it must have.
fn check(file: &Path, expected: &str, what: &str, stop: &AtomicBool) -> Result<(), VmError> {
    let mut sum = SHA256SUM.command()?;
    sum.arg("--").arg(file);
    let printed = SHA256SUM.run(&mut sum, stop, &mut || ())?;
    let printed = String::from_utf8_lossy(&printed);
    // A backslash in front says that the name of the file is quoted.
    let found = printed.split_whitespace().next().unwrap_or_default().trim_start_matches('\\');
    if found == expected {
        return Ok(());
    }
    Err(VmError::Untrusted(format!(
        "{what} has the checksum {found}, but the archive says {expected}; the mirror may be half updated or wrong: \
         try again later, or another one with --mirror"
    )))
}

/// Takes what a guest needs out of unpacked packages into `kernel`.
fn take(
    unpacked: &Path,
    kernel: &Path,
    suite: &str,
    offer: &Offer,
    signature: String,
    stop: &AtomicBool,
) -> Result<About, VmError> {
    let lacks = |what: &str| {
        let names: Vec<_> = offer.packages.iter().map(|package| package.name.as_str()).collect();
        VmError::Index(format!("{} has no {what}; Debian has changed its packages", names.join(" and ")))
    };
    let (release, folder) = (&offer.release, kernel.join(MODULES));
    fs::create_dir_all(&folder).map_err(VmError::file(&folder))?;
    let trees = ["usr/lib/modules", "lib/modules"].map(|path| unpacked.join(path).join(release));
    let tree = trees.iter().find(|tree| tree.is_dir()).ok_or_else(|| lacks("modules"))?;
    let images = [unpacked.join("boot").join(format!("vmlinuz-{release}")), tree.join("vmlinuz")];
    let image = images.iter().find(|image| image.is_file()).ok_or_else(|| lacks("kernel"))?;
    let target = kernel.join(VMLINUZ);
    fs::copy(image, &target).map_err(VmError::file(&target))?;

    let files = modules::found(tree);
    let mut depends = |name: &str| -> Result<Option<Vec<String>>, VmError> {
        let Some(file) = files.get(name) else { return Ok(None) };
        let bytes = uncompressed(file, stop)?;
        let target = folder.join(format!("{name}.ko"));
        fs::write(&target, &bytes).map_err(VmError::file(&target))?;
        modules::depends(name, &bytes).map(Some)
    };
    let ordered = modules::order(modules::WANTED.iter().copied(), &mut depends)?;
    let list = tree.join("modules.builtin");
    let list = fs::read_to_string(&list).map_err(|_| lacks("list of what is built in"))?;
    let has = |name: &str| list.lines().any(|line| module_name(line) == name);
    let others =
        modules::WANTED.iter().filter(|name| !files.contains_key(**name)).map(|name| (*name).to_owned());
    let (built_in, absent) = others.partition(|name| has(name));
    Ok(About {
        series: offer.series().to_owned(),
        release: release.clone(),
        suite: suite.to_owned(),
        packages: offer.packages.clone(),
        signature,
        modules: ordered,
        built_in,
        absent,
    })
}

/// `sch_fq_codel` of `kernel/net/sched/sch_fq_codel.ko`.
fn module_name(path: &str) -> String {
    let file = path.rsplit('/').next().unwrap_or_default();
    file.trim_end_matches(".ko").replace('-', "_")
}

fn uncompressed(module: &PathBuf, stop: &AtomicBool) -> Result<Vec<u8>, VmError> {
    if module.extension().is_some_and(|extension| extension == "xz") {
        let mut unpack = XZ.command()?;
        unpack.arg("-dc").arg(module);
        XZ.run(&mut unpack, stop, &mut || ())
    } else {
        let mut bytes = Vec::new();
        let read = File::open(module).and_then(|mut file| std::io::Read::read_to_end(&mut file, &mut bytes));
        read.map(|_| bytes).map_err(VmError::file(module))
    }
}
