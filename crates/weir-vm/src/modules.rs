//! The kernel modules that a guest needs, and the order they are loaded in.
//!
//! A package has no `modules.dep`, which is made when it is installed. Each module names what it depends on in its own
//! `.modinfo` section (include/linux/moduleinfo.h), and from there the order follows.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use object::{Object, ObjectSection};

use super::VmError;

/// What a guest is given, as far as a kernel has it as a module: what carries the guest's output, links, queue
/// disciplines, classifiers, actions, congestion controls, and what `ss` asks.
pub const WANTED: &[&str] = &[
    "virtio_pci",
    "virtio_console",
    "af_packet",
    "veth",
    "ifb",
    "dummy",
    "tun",
    "bridge",
    "sch_htb",
    "sch_tbf",
    "sch_prio",
    "sch_ingress",
    "sch_codel",
    "sch_fq_codel",
    "sch_fq",
    "sch_pie",
    "sch_fq_pie",
    "sch_red",
    "sch_sfq",
    "sch_cake",
    "sch_dualpi2",
    "sch_netem",
    "sch_etf",
    "sch_ets",
    "sch_drr",
    "sch_hfsc",
    "sch_qfq",
    "sch_choke",
    "sch_sfb",
    "sch_plug",
    "cls_basic",
    "cls_bpf",
    "cls_flower",
    "cls_fw",
    "cls_matchall",
    "cls_u32",
    "act_bpf",
    "act_csum",
    "act_gact",
    "act_mirred",
    "act_pedit",
    "act_police",
    "act_skbedit",
    "inet_diag",
    "tcp_diag",
    "udp_diag",
    "tcp_bbr",
    "tcp_bic",
    "tcp_cdg",
    "tcp_dctcp",
    "tcp_highspeed",
    "tcp_htcp",
    "tcp_hybla",
    "tcp_illinois",
    "tcp_nv",
    "tcp_scalable",
    "tcp_vegas",
    "tcp_veno",
    "tcp_westwood",
    "tcp_yeah",
];

/// The modules under `tree`, by name, with their files. Names have underscores where file names may have dashes.
pub fn found(tree: &Path) -> BTreeMap<String, PathBuf> {
    let mut modules = BTreeMap::new();
    let mut open = vec![tree.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            let path = entry.path();
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                open.push(path);
            } else if let Some((stem, "" | ".xz")) = name.split_once(".ko") {
                modules.insert(stem.replace('-', "_"), path);
            }
        }
    }
    modules
}

/// Says what a module needs; nothing for one that is built in or not there.
pub type Depends<'a> = dyn FnMut(&str) -> Result<Option<Vec<String>>, VmError> + 'a;

/// `wanted` and everything that they need, each after what it needs itself. One that is
/// built in or not there is left out.
///
/// # Errors
/// What `depends` fails with.
pub fn order<'a>(
    wanted: impl IntoIterator<Item = &'a str>,
    depends: &mut Depends<'_>,
) -> Result<Vec<String>, VmError> {
    let (mut ordered, mut seen) = (Vec::new(), BTreeSet::new());
    for name in wanted {
        visit(name, depends, &mut seen, &mut ordered)?;
    }
    Ok(ordered)
}

/// Depth first. The kernel's modules never depend on each other in a ring; if they did, this would still end.
fn visit(
    name: &str,
    depends: &mut Depends<'_>,
    seen: &mut BTreeSet<String>,
    ordered: &mut Vec<String>,
) -> Result<(), VmError> {
    if !seen.insert(name.to_owned()) {
        return Ok(());
    }
    if let Some(needs) = depends(name)? {
        for need in &needs {
            visit(need, depends, seen, ordered)?;
        }
        ordered.push(name.to_owned());
    }
    Ok(())
}

/// The modules that an uncompressed module says it depends on.
///
/// # Errors
/// If it is no ELF file with a `.modinfo` section.
pub fn depends(name: &str, bytes: &[u8]) -> Result<Vec<String>, VmError> {
    let wrong = |detail: String| VmError::Module { name: name.to_owned(), detail };
    let file = object::File::parse(bytes).map_err(|error| wrong(format!("is no ELF file: {error}")))?;
    let section =
        file.section_by_name(".modinfo").ok_or_else(|| wrong("has no .modinfo section".to_owned()))?;
    let info = section.data().map_err(|error| wrong(error.to_string()))?;
    Ok(needs(info))
}

/// The names after `depends=`, among strings that each end with a NUL.
fn needs(info: &[u8]) -> Vec<String> {
    let entries = info.split(|byte| *byte == 0).filter_map(|entry| std::str::from_utf8(entry).ok());
    entries
        .filter_map(|entry| entry.strip_prefix("depends="))
        .flat_map(|names| names.split(','))
        .filter(|name| !name.is_empty())
        .map(|name| name.replace('-', "_"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{depends, found, needs, order};

    #[test]
    fn a_module_comes_after_what_it_needs() {
        let mut needs = |name: &str| {
            Ok(match name {
                "a" => Some(vec!["b".to_owned(), "c".to_owned()]),
                "b" => Some(vec!["d".to_owned()]),
                "c" => Some(vec!["d".to_owned(), "built_in".to_owned()]),
                "d" => Some(Vec::new()),
                "ring" => Some(vec!["ring".to_owned()]),
                _ => None,
            })
        };
        let ordered = order(["a", "missing", "d", "ring", "a"], &mut needs).unwrap();
        assert_eq!(ordered, ["d", "b", "c", "a", "ring"]);
    }

    #[test]
    fn needs_are_read_from_modinfo() {
        let info = b"license=GPL\0depends=virtio-ring,virtio_pci_modern_dev\0retpoline=Y\0\0name=depends=x\0";
        assert_eq!(needs(info), ["virtio_ring", "virtio_pci_modern_dev"]);
        assert!(needs(b"depends=\0").is_empty());
        assert!(depends("x", b"no ELF").unwrap_err().to_string().contains("module x: is no ELF file"));
    }

    #[test]
    fn modules_are_found_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("kernel/net/sched");
        std::fs::create_dir_all(&deep).unwrap();
        for name in ["sch_codel.ko.xz", "virtio-rng.ko", "modules.order", "x.ko.tmp"] {
            std::fs::write(deep.join(name), "").unwrap();
        }
        let modules = found(dir.path());
        assert_eq!(modules.keys().collect::<Vec<_>>(), ["sch_codel", "virtio_rng"]);
    }
}
