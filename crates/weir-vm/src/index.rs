//! What a Debian archive offers: its `InRelease` file with the checksums of its indexes, the `Packages` index with
//! those of its packages, and the kernels among them.
//!
//! Debian names the packages of its cloud kernels `linux-image-RELEASE-cloud-amd64` up to Debian 13, with all inside.
//! Afterwards `linux-binary-RELEASE-cloud-amd64` holds the kernel, `linux-modules-RELEASE-cloud-amd64` the modules, and
//! `linux-base-RELEASE-cloud-amd64` the list of those that are built in.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use super::VmError;

/// The flavour of Debian's kernels that is made for virtual machines, and the architecture.
const FLAVOUR: &str = "-cloud-amd64";

/// A package, as an index describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its path under the mirror's address.
    pub filename: String,
    /// Its size in bytes.
    pub size: u64,
    /// Its SHA-256 checksum, in hexadecimal digits.
    pub sha256: String,
}

/// A kernel that an archive offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// What `uname -r` says in it: `6.1.0-50-cloud-amd64`.
    pub release: String,
    /// The packages that hold it and its modules.
    pub packages: Vec<Package>,
}

impl Offer {
    /// The kernel's series, the first two numbers of its release.
    pub fn series(&self) -> &str {
        series(&self.release)
    }
}

/// The first two numbers of a release: `6.1` of `6.1.0-50-cloud-amd64`.
pub fn series(release: &str) -> &str {
    let digits_and_dots = release.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(release.len());
    let end = release[..digits_and_dots].match_indices('.').nth(1).map_or(digits_and_dots, |(at, _)| at);
    &release[..end]
}

/// Reads those packages of a `Packages` index (deb-control(5) paragraphs) whose name begins with `prefix`.
///
/// # Errors
/// If a package lacks what is needed to fetch it.
pub fn packages(index: &str, prefix: &str) -> Result<Vec<Package>, VmError> {
    let mut found = Vec::new();
    for paragraph in index.split("\n\n") {
        let field = |key: &str| {
            let value = |line: &'_ str| Some(line.strip_prefix(key)?.strip_prefix(':')?.trim().to_owned());
            paragraph.lines().find_map(value)
        };
        // The name comes first in nearly all of the 60,000 paragraphs.
        let Some(name) = field("Package").filter(|name| name.starts_with(prefix)) else { continue };
        let need = |key: &str| {
            let missing =
                || VmError::Index(format!("the mirror's index has no {key} for {name}; try another mirror"));
            field(key).filter(|value| !value.is_empty()).ok_or_else(missing)
        };
        let size = need("Size")?;
        let size = size.parse().map_err(|_| {
            VmError::Index(format!(
                "the mirror's index says that {name} has {size} bytes; try another mirror"
            ))
        })?;
        found.push(Package {
            version: need("Version")?,
            filename: need("Filename")?,
            size,
            sha256: need("SHA256")?,
            name,
        });
    }
    Ok(found)
}

/// The cloud kernels among `packages`, the newest of each series, oldest series first.
pub fn offers(packages: &[Package]) -> Vec<Offer> {
    let named = |prefix: &str, release: &str| {
        packages.iter().find(|package| {
            package.name.strip_prefix(prefix).and_then(|rest| rest.strip_suffix(FLAVOUR)) == Some(release)
        })
    };
    let mut newest: Vec<(Offer, String)> = Vec::new();
    for package in packages {
        let stem = ["linux-image-", "linux-binary-"]
            .iter()
            .find_map(|prefix| package.name.strip_prefix(prefix).and_then(|rest| rest.strip_suffix(FLAVOUR)));
        // Without a third number it is a package that only depends on the newest.
        let Some(stem) =
            stem.filter(|stem| series(stem).len() < stem.len() && !stem.starts_with("unsigned-"))
        else {
            continue;
        };
        // Beside a linux-binary package the linux-image package of the same release is empty.
        let split = named("linux-binary-", stem).zip(named("linux-modules-", stem));
        let parts = match split {
            Some((binary, modules)) => [Some(binary), Some(modules), named("linux-base-", stem)]
                .into_iter()
                .flatten()
                .cloned()
                .collect(),
            None if package.name.starts_with("linux-image-") => vec![package.clone()],
            None => continue,
        };
        let offer = Offer { release: format!("{stem}{FLAVOUR}"), packages: parts };
        let version = package.version.clone();
        match newest.iter_mut().find(|(other, _)| other.series() == offer.series()) {
            Some(kept) if compare(&version, &kept.1) == Ordering::Greater => *kept = (offer, version),
            Some(_) => {}
            None => newest.push((offer, version)),
        }
    }
    newest.sort_by(|(a, _), (b, _)| compare(a.series(), b.series()));
    newest.into_iter().map(|(offer, _)| offer).collect()
}

/// Compares two versions as deb-version(7) says: runs of digits by value, the rest by character, letters before
/// other characters and `~` before everything, the end included.
pub fn compare(a: &str, b: &str) -> Ordering {
    let epoch =
        |version: &str| version.split_once(':').and_then(|(epoch, _)| epoch.parse().ok()).unwrap_or(0u64);
    let rest = |version: &str| version.split_once(':').map_or(version, |(_, rest)| rest).as_bytes().to_vec();
    epoch(a).cmp(&epoch(b)).then_with(|| {
        let (a, b) = (rest(a), rest(b));
        let (mut a, mut b) = (a.as_slice(), b.as_slice());
        while !a.is_empty() || !b.is_empty() {
            let order = |rest: &[u8]| match rest.first() {
                Some(b'~') => -1,
                None | Some(b'0'..=b'9') => 0,
                Some(c) if c.is_ascii_alphabetic() => i32::from(*c),
                Some(c) => i32::from(*c) + 256,
            };
            while order(a) != 0 || order(b) != 0 {
                match order(a).cmp(&order(b)) {
                    Ordering::Equal => (a, b) = (&a[1..], &b[1..]),
                    unequal => return unequal,
                }
            }
            let (left, right);
            (left, a) = number(a);
            (right, b) = number(b);
            match left.cmp(&right) {
                Ordering::Equal => {}
                unequal => return unequal,
            }
        }
        Ordering::Equal
    })
}

/// The digits in front, as a value, and what follows them.
fn number(text: &[u8]) -> (u64, &[u8]) {
    let end = text.iter().position(|c| !c.is_ascii_digit()).unwrap_or(text.len());
    let value = |sum: u64, digit: &u8| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
    (text[..end].iter().fold(0, value), &text[end..])
}

/// Size and SHA-256 checksum that a (verified) `InRelease` file gives for the index at `path`.
///
/// # Errors
/// If the file is not of `suite` or does not name the index.
pub fn checksum(release: &str, suite: &str, path: &str) -> Result<(u64, String), VmError> {
    let names = |key: &str| release.lines().any(|line| line.strip_prefix(key).map(str::trim) == Some(suite));
    if !names("Codename:") && !names("Suite:") {
        return Err(VmError::Untrusted(format!(
            "the mirror's InRelease file for {suite} is that of another suite; try another mirror"
        )));
    }
    let sums = release.lines().skip_while(|line| line.trim_end() != "SHA256:").skip(1);
    for line in sums.take_while(|line| line.starts_with(' ')) {
        let words: Vec<_> = line.split_whitespace().collect();
        if let [sum, size, name] = words.as_slice()
            && *name == path
            && let Ok(size) = size.parse()
        {
            return Ok((size, (*sum).to_owned()));
        }
    }
    Err(VmError::Index(format!(
        "the mirror's InRelease file for {suite} does not name {path}; try another mirror"
    )))
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use super::{Package, checksum, compare, offers, packages, series};

    const INDEX: &str = "Package: linux-image-6.1.0-9-cloud-amd64\nSource: linux\nVersion: 6.1.27-1\nInstalled-Size: 1\n\
        Description: a kernel\n with lines: more\nFilename: pool/a.deb\nSize: 12\nSHA256: ab\n\n\
        Package: linux-image-6.1.0-50-cloud-amd64\nVersion: 6.1.176-1\nFilename: pool/b.deb\nSize: 34\nSHA256: cd\n\n\
        Package: zsh\nVersion: 1\n";

    fn package(name: &str, version: &str) -> Package {
        let (filename, sha256) = (format!("pool/{name}.deb"), String::new());
        Package { name: name.to_owned(), version: version.to_owned(), filename, size: 1, sha256 }
    }

    #[test]
    fn an_index_is_read() {
        let found = packages(INDEX, "linux-").unwrap();
        assert_eq!(found.len(), 2);
        let b = &found[1];
        assert_eq!((b.version.as_str(), b.filename.as_str()), ("6.1.176-1", "pool/b.deb"));
        assert_eq!((b.size, b.sha256.as_str()), (34, "cd"));
        let error = packages("Package: linux-x\nVersion: 1\nSize: 3\nFilename: x\n", "linux-").unwrap_err();
        assert!(error.to_string().contains("no SHA256 for linux-x"), "{error}");
        let error = packages(&INDEX.replace("34", "many"), "linux-").unwrap_err();
        assert!(error.to_string().contains("has many bytes"), "{error}");
    }

    #[test]
    fn the_newest_kernel_is_chosen_by_version_not_by_text() {
        let found = offers(&packages(INDEX, "linux-").unwrap());
        let found: Vec<_> = found.iter().map(|offer| (offer.series(), offer.release.as_str())).collect();
        assert_eq!(found, [("6.1", "6.1.0-50-cloud-amd64")]);
    }

    #[test]
    fn both_ways_of_packaging_are_known() {
        let found = offers(&[
            package("linux-binary-7.2.12+deb14-cloud-amd64", "7.2.12-1"),
            package("linux-binary-unsigned-7.2.12+deb14-cloud-amd64", "7.2.12-1"),
            package("linux-base-7.2.12+deb14-cloud-amd64", "7.2.12-1"),
            package("linux-image-7.2.12+deb14-cloud-amd64", "7.2.12-1"),
            package("linux-image-7.2.12+deb14-cloud-amd64-dbg", "7.2.12-1"),
            package("linux-modules-7.2.12+deb14-cloud-amd64", "7.2.12-1"),
            package("linux-image-cloud-amd64", "7.2.12-1"),
            package("linux-image-6.12-cloud-amd64", "6.12.107-1"),
            package("linux-image-6.12.94+deb13-cloud-amd64", "6.12.94-1"),
            package("linux-image-6.12.107+deb13-cloud-amd64", "6.12.107-1"),
            package("linux-image-6.12.107+deb13-cloud-amd64-unsigned", "6.12.107-1"),
            package("linux-image-6.12.107+deb13-amd64", "6.12.107-1"),
        ]);
        let names = |index: usize| -> Vec<_> {
            found[index].packages.iter().map(|package: &Package| package.name.as_str()).collect()
        };
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].release, "6.12.107+deb13-cloud-amd64");
        assert_eq!(names(0), ["linux-image-6.12.107+deb13-cloud-amd64"]);
        assert_eq!(
            names(1),
            [
                "linux-binary-7.2.12+deb14-cloud-amd64",
                "linux-modules-7.2.12+deb14-cloud-amd64",
                "linux-base-7.2.12+deb14-cloud-amd64"
            ]
        );
    }

    #[test]
    fn versions_are_ordered_as_dpkg_orders_them() {
        let ordered =
            ["6.1~rc1", "6.1", "6.1a", "6.1+deb", "6.1.9-1", "6.1.10-1~bpo1", "6.1.10-1", "6.1.10-2", "1:1"];
        for (i, a) in ordered.iter().enumerate() {
            for (j, b) in ordered.iter().enumerate() {
                assert_eq!(compare(a, b), i.cmp(&j), "{a} and {b}");
            }
        }
        assert_eq!(compare("1.01", "1.1"), Ordering::Equal);
    }

    #[test]
    fn a_series_is_two_numbers() {
        let all = ["6.1.0-50-cloud-amd64", "6.12.107+deb13", "6.12", "7.2-cloud", "cloud"];
        assert_eq!(all.map(series), ["6.1", "6.12", "6.12", "7.2", ""]);
    }

    #[test]
    fn a_release_file_vouches_for_its_own_suite_only() {
        let text = "Suite: testing\nCodename: forky\nMD5Sum:\n 00 7 main/x\nSHA256:\n aa 5 main/y\n bb 6 main/x\nSHA512:\n cc 8 main/z\n";
        assert_eq!(checksum(text, "forky", "main/x").unwrap(), (6, "bb".to_owned()));
        assert_eq!(checksum(text, "testing", "main/y").unwrap(), (5, "aa".to_owned()));
        assert!(checksum(text, "bookworm", "main/x").unwrap_err().to_string().contains("another suite"));
        assert!(checksum(text, "forky", "main/z").unwrap_err().to_string().contains("does not name main/z"));
    }
}
