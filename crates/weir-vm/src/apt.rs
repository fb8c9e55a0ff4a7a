//! The Debian mirror that this host uses, from apt's own sources (sources.list(5)): one-line `.list` files and deb822
//! `.sources` files.

use std::fs;
use std::path::Path;

/// The mirror of hosts that name none of their own: Debian's content delivery network.
pub const DEFAULT_MIRROR: &str = "https://deb.debian.org/debian";

/// Suites of Debian's main archive; others, such as Ubuntu's, have other names.
const SUITES: [&str; 9] =
    ["oldstable", "stable", "testing", "unstable", "sid", "bullseye", "bookworm", "trixie", "forky"];

/// One place that packages come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The archive's address, without a slash at its end.
    pub uri: String,
    /// The suite, such as `bookworm`.
    pub suite: String,
    /// The components, such as `main`.
    pub components: Vec<String>,
}

/// The mirror of this host's apt sources if they name Debian's main archive, else [`DEFAULT_MIRROR`].
pub fn mirror() -> String {
    mirror_of(Path::new("/etc/apt"))
}

/// The same for apt's configuration in `dir`.
pub fn mirror_of(dir: &Path) -> String {
    let mut files = vec![dir.join("sources.list")];
    let parts = fs::read_dir(dir.join("sources.list.d")).into_iter().flatten().flatten();
    let mut parts: Vec<_> = parts.map(|entry| entry.path()).collect();
    parts.sort();
    files.extend(parts);
    let sources = files.iter().flat_map(|file| {
        // A host without apt has no such files, and one that cannot be read names no mirror.
        let text = fs::read_to_string(file).unwrap_or_default();
        match file.extension().and_then(|extension| extension.to_str()) {
            Some("list") => one_line(&text),
            Some("sources") => deb822(&text),
            _ => Vec::new(),
        }
    });
    let found = sources.into_iter().find(is_main_archive).map(|source| source.uri);
    found.unwrap_or_else(|| DEFAULT_MIRROR.to_owned())
}

/// Whether the other suites lie beside this one: an address that ends in `/debian`, one of Debian's suites, `main`.
fn is_main_archive(source: &Source) -> bool {
    let reachable = ["http://", "https://", "file:/"].iter().any(|scheme| source.uri.starts_with(scheme));
    reachable
        && source.uri.ends_with("/debian")
        && SUITES.contains(&source.suite.as_str())
        && source.components.iter().any(|component| component == "main")
}

/// The sources of a one-line file: `deb [options] uri suite component...`.
pub fn one_line(text: &str) -> Vec<Source> {
    let mut sources = Vec::new();
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default().trim();
        let Some(rest) = line.strip_prefix("deb").filter(|rest| rest.starts_with([' ', '\t', '['])) else {
            continue;
        };
        let rest = rest.trim_start();
        let rest = match rest.strip_prefix('[') {
            Some(options) => options.split_once(']').map_or("", |(_, rest)| rest),
            None => rest,
        };
        let mut words = rest.split_whitespace().map(str::to_owned);
        if let (Some(uri), Some(suite)) = (words.next(), words.next()) {
            sources.push(Source { uri: address(&uri), suite, components: words.collect() });
        }
    }
    sources
}

/// The sources of a deb822 file: paragraphs of `Key: value` lines, where each value may be a list.
pub fn deb822(text: &str) -> Vec<Source> {
    let mut sources = Vec::new();
    let lines: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
    for paragraph in lines.split(|line| line.trim().is_empty()) {
        let mut fields: Vec<(String, String)> = Vec::new();
        for line in paragraph {
            if line.starts_with([' ', '\t']) {
                if let Some((_, value)) = fields.last_mut() {
                    value.push(' ');
                    value.push_str(line.trim());
                }
            } else if let Some((key, value)) = line.split_once(':') {
                fields.push((key.trim().to_ascii_lowercase(), value.trim().to_owned()));
            }
        }
        let words = |key: &str| -> Vec<String> {
            let value = fields.iter().find(|(name, _)| name == key).map_or("", |(_, value)| value);
            value.split_whitespace().map(str::to_owned).collect()
        };
        let off = words("enabled").iter().any(|word| ["no", "false", "0", "off"].contains(&word.as_str()));
        if off || !words("types").iter().any(|kind| kind == "deb") {
            continue;
        }
        for uri in words("uris") {
            for suite in words("suites") {
                sources.push(Source { uri: address(&uri), suite, components: words("components") });
            }
        }
    }
    sources
}

fn address(uri: &str) -> String {
    uri.trim_end_matches('/').to_owned()
}

#[cfg(test)]
mod tests {
    use super::{DEFAULT_MIRROR, deb822, mirror_of, one_line};

    #[test]
    fn one_line_files_are_read() {
        let text = "# deb http://old.example/debian bookworm main\n\
                    deb [arch=amd64 signed-by=/usr/share/keyrings/a.gpg] http://a.example/debian/ bookworm main contrib # note\n\
                    deb-src http://a.example/debian bookworm main\n\
                    deb http://b.example/debian-security bookworm-security main\n\
                    deb\n";
        let found = one_line(text);
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].uri.as_str(), found[0].suite.as_str()), ("http://a.example/debian", "bookworm"));
        assert_eq!(found[0].components, ["main", "contrib"]);
    }

    #[test]
    fn deb822_files_are_read() {
        let text = "Types: deb deb-src\n# a comment\nURIs: http://a.example/debian\n http://b.example/debian/\n\
                    Suites: bookworm bookworm-updates\nComponents: main\n\n\n\
                    Enabled: no\nTypes: deb\nURIs: http://c.example/debian\nSuites: sid\nComponents: main\n\n\
                    types: deb-src\nuris: http://d.example/debian\nsuites: sid\ncomponents: main\n";
        let found = deb822(text);
        let pairs: Vec<_> = found.iter().map(|source| (source.uri.as_str(), source.suite.as_str())).collect();
        assert_eq!(
            pairs,
            [
                ("http://a.example/debian", "bookworm"),
                ("http://a.example/debian", "bookworm-updates"),
                ("http://b.example/debian", "bookworm"),
                ("http://b.example/debian", "bookworm-updates"),
            ]
        );
    }

    #[test]
    fn only_the_main_archive_is_a_mirror() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(mirror_of(dir.path()), DEFAULT_MIRROR);
        let parts = dir.path().join("sources.list.d");
        std::fs::create_dir(&parts).unwrap();
        let other = "deb http://u.example/ubuntu noble main\ndeb http://s.example/debian-security bookworm-security main\n\
                     deb cdrom:[Debian]/debian bookworm main\ndeb http://t.example/debian noble main\n";
        std::fs::write(dir.path().join("sources.list"), other).unwrap();
        assert_eq!(mirror_of(dir.path()), DEFAULT_MIRROR);
        let ours = "Types: deb\nURIs: http://m.example/debian/\nSuites: trixie\nComponents: main\n";
        std::fs::write(parts.join("debian.sources"), ours).unwrap();
        std::fs::write(parts.join("a.disabled"), "deb http://x.example/debian trixie main\n").unwrap();
        assert_eq!(mirror_of(dir.path()), "http://m.example/debian");
    }
}
