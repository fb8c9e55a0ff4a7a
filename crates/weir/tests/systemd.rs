//! The shipped unit, for every name that an interface may have: `weir@br-lan` is as good as what systemd-escape(1)
//! makes of it, `weir@br\x2dlan`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

const UNIT: &str = include_str!("../../../tools/systemd/weir@.service");
const RULES: &str = include_str!("../../../tools/systemd/99-weir.rules");

/// Instances and the interfaces that are meant.
const NAMES: [(&str, &str); 8] = [
    ("eth0", "eth0"),
    ("br-lan", "br-lan"),
    ("br\\x2dlan", "br-lan"),
    ("pppoe-wan", "pppoe-wan"),
    ("pppoe\\x2dwan", "pppoe-wan"),
    ("eth0.5", "eth0.5"),
    ("wl-p1-s0", "wl-p1-s0"),
    ("a_b:c", "a_b:c"),
];

/// An instance as systemd.unit(5) unescapes it: `-` is a `/`, `\xNN` the byte NN.
fn unescaped(instance: &str) -> String {
    let mut out = String::new();
    let mut rest = instance;
    while let Some(letter) = rest.chars().next() {
        if let Some(number) = rest.strip_prefix("\\x") {
            out.push(char::from(u8::from_str_radix(&number[..2], 16).unwrap()));
            rest = &number[2..];
        } else {
            out.push(if letter == '-' { '/' } else { letter });
            rest = &rest[letter.len_utf8()..];
        }
    }
    out
}

/// The values of a setting, with the specifiers that the unit uses.
fn values(key: &str, instance: &str) -> Vec<String> {
    let of = |line: &&str| line.split_once('=').is_some_and(|(name, _)| name == key);
    let lines: Vec<&str> = UNIT.lines().filter(of).collect();
    assert!(!lines.is_empty(), "no {key}");
    let expand = |line: &&str| {
        let (_, value) = line.split_once('=').unwrap();
        let mut out = String::new();
        let mut letters = value.chars();
        while let Some(letter) = letters.next() {
            match (letter, (letter == '%').then(|| letters.next()).flatten()) {
                ('%', Some('%')) => out.push('%'),
                ('%', Some('i')) => out += instance,
                ('%', Some('I')) => out += &unescaped(instance),
                ('%', other) => panic!("%{other:?} in {line}"),
                _ => out.push(letter),
            }
        }
        out
    };
    lines.iter().map(expand).collect()
}

/// The words of a command line: quotes keep spaces, and specifiers do not make words.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    for letter in line.chars() {
        match quote {
            None if letter == '\'' => quote = Some(letter),
            Some(open) if letter == open => quote = None,
            None if letter == ' ' => words.push(String::new()),
            _ => words.last_mut().unwrap().push(letter),
        }
    }
    words
}

/// What `weir` is called with by a command of the unit.
fn called(folder: &Path, key: &str, instance: &str) -> String {
    let weir = folder.join("weir");
    fs::write(&weir, "#!/bin/sh\nfor word do printf '<%s>' \"$word\"; done\n").unwrap();
    fs::set_permissions(&weir, fs::Permissions::from_mode(0o755)).unwrap();
    let line = values(key, instance).remove(0).replace("@BINDIR@", folder.to_str().unwrap());
    let line = match line.strip_prefix(':') {
        Some(line) => line.to_owned(),
        // Without it systemd takes `$` for its own.
        None => {
            assert!(!line.contains('$'), "{line}");
            line
        }
    };
    let words = words(&line);
    let output = Command::new(&words[0]).args(&words[1..]).output().unwrap();
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The path that a device unit stands for.
fn device_path(unit: &str) -> String {
    format!("/{}", unescaped(unit.strip_suffix(".device").unwrap()))
}

/// The paths of an interface's device units: the one that systemd's own rule makes, and what ours adds.
fn device_paths(device: &str) -> Vec<String> {
    let folder = "/sys/subsystem/net/devices";
    let mut paths = vec![format!("{folder}/{device}")];
    let rule = RULES.lines().find(|line| line.starts_with("ACTION")).unwrap();
    assert!(rule.contains("SUBSYSTEM==\"net\"") && rule.contains("KERNEL==\"*-*\""), "{rule}");
    assert!(rule.contains(&format!("ENV{{SYSTEMD_ALIAS}}+=\"{folder}/$result\"")), "{rule}");
    if device.contains('-') {
        // udev's: `$$` and `%%` are one of each, and the interface is in the environment, not in the script.
        let program = rule.split("PROGRAM=\"").nth(1).unwrap().split("\", ").next().unwrap();
        let program = program.replace("\\\"", "\"").replace("$$", "$").replace("%%", "%");
        let words = words(&program);
        let output = Command::new(&words[0]).args(&words[1..]).env("INTERFACE", device).output().unwrap();
        paths.push(format!("{folder}/{}", String::from_utf8(output.stdout).unwrap().trim_end()));
    }
    paths
}

#[test]
fn every_name_of_an_interface_is_served() {
    let folder = tempfile::tempdir().unwrap();
    for (instance, device) in NAMES {
        let config = format!("/etc/weir/{device}.toml");
        for (key, verb) in [("ExecStart", "<up>"), ("ExecReload", "<reload>")] {
            let expected = format!("{verb}<--config><{config}><dev><{device}>");
            assert_eq!(called(folder.path(), key, instance), expected, "{instance}");
        }
        assert_eq!(
            called(folder.path(), "ExecStop", instance),
            format!("<down><dev><{device}>"),
            "{instance}"
        );
        let conditions = values("ConditionPathExists", instance);
        // One of them is enough where each begins with a bar.
        let alone = conditions.len() == 1;
        let met = |condition: &String| {
            let path = condition.strip_prefix('|');
            assert!(alone || path.is_some(), "{condition}");
            path.unwrap_or(condition) == config
        };
        assert!(conditions.iter().any(met), "{instance}: {conditions:?}");
        for key in ["BindsTo", "After", "WantedBy"] {
            let units = values(key, instance).remove(0);
            let unit = units.split(' ').find(|unit| unit.ends_with(".device")).unwrap();
            let path = device_path(unit);
            assert!(device_paths(device).contains(&path), "{instance}: {key} {unit} is {path}");
        }
    }
}

#[test]
fn systemd_finds_nothing_wrong_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let weir = Path::new(env!("CARGO_BIN_EXE_weir"));
    let unit = UNIT.replace("@BINDIR@", weir.parent().unwrap().to_str().unwrap());
    for (instance, device) in NAMES {
        let path = folder.path().join(format!("weir@{instance}.service"));
        fs::write(&path, &unit).unwrap();
        let verify = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&path).output();
        let Ok(verified) = verify else {
            weir_testkit::skip::skip("systemd", "systemd-analyze reads the unit");
            return;
        };
        let said = String::from_utf8_lossy(&verified.stderr);
        // Units of the host may have faults of their own.
        let ours: Vec<&str> = said.lines().filter(|line| line.contains("weir@")).collect();
        assert!(verified.status.success() || ours.is_empty(), "{said}");
        assert!(ours.is_empty(), "{device}: {ours:?}");
    }
}
