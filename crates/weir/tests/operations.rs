//! Whatever happens to a live interface, in whatever order: commands that end, fail or are killed, an interface that
//! flaps, is renamed, goes and comes back or visits another namespace, and others who change qdiscs, filters, programs
//! at TCX and XDP and rules of nftables meanwhile. `weir down --all` leads back to what was there, and packets cross.
//!
//! Steps are drawn from a seed. `WEIR_STEPS` says how many (200 unless set), `WEIR_SEED` which ones; a failure prints
//! all that led to it.

#![allow(clippy::disallowed_methods, reason = "the environment says how long to go on")]

#[path = "operations/programs.rs"]
mod programs;
mod wire;

use std::fmt::Write as _;
use std::os::unix::process::ExitStatusExt;
use std::process::Output;

use weir_testbed::host::Namespace;
use weir_testkit::bpf::{At, TCX_NEXT, Theirs};
use weir_testkit::skip::is_root;
use wire::{FAR, NEAR, Wire, apart, index, stderr};

/// Steps between two looks at whether all is as it was.
const STRIDE: usize = 25;
/// Points at which a command may be killed; those behind its end let it end.
const POINTS: u64 = 48;

/// SplitMix64.
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }

    fn of<T: Copy>(&mut self, words: &[T]) -> T {
        words[self.below(words.len())]
    }
}

/// A wire, what others have on it, and what happened.
struct Scene {
    wire: Wire,
    elsewhere: Namespace,
    draw: Draw,
    device: String,
    /// A root qdisc of somebody else may be there.
    root: bool,
    /// A chain of nftables is there.
    chain: bool,
    has_nft: bool,
    /// Their programs, at most one at each place.
    theirs: Vec<Theirs>,
    /// How often all was up beside some, and how often one of those dropped all.
    beside: [usize; 2],
    has_tcx: bool,
    log: String,
}

/// What the text of `ip` and `tc` says, without numbers that are others when an interface is made again and without the
/// carrier, which the kernel reports some time later.
fn plain(text: &str) -> String {
    let mut lines = Vec::new();
    for line in text.lines() {
        let mut words = line.split_whitespace().peekable();
        let mut kept = Vec::new();
        if words.peek().is_some_and(|word| word.strip_suffix(':').is_some_and(|n| n.parse::<u32>().is_ok())) {
            words.next();
        }
        while let Some(word) = words.next() {
            match word {
                "link-netnsid" | "state" => drop(words.next()),
                _ if word.starts_with('<') => {}
                _ => kept.push(word.split("@if").next().unwrap_or_default()),
            }
        }
        lines.push(kept.join(" "));
    }
    lines.join("\n")
}

impl Scene {
    fn new(seed: u64) -> Self {
        let wire = Wire::new().unwrap();
        let elsewhere = Namespace::create("elsewhere").unwrap();
        let has_nft = !wire.said("command -v nft").is_empty() && wire.said("nft list ruleset").is_empty();
        if !has_nft {
            weir_testkit::skip::skip("nft", "rules of others at the ingress");
        }
        let tcx = At::Tcx { egress: false, first: true };
        let has_tcx = wire.near.enter(|| Theirs::put(index("w0"), tcx, TCX_NEXT)).unwrap().is_ok();
        if !has_tcx {
            weir_testkit::skip::skip("tcx", "programs of others");
        }
        let scene = Self {
            wire,
            elsewhere,
            draw: Draw(seed),
            device: "w0".to_owned(),
            root: false,
            chain: false,
            has_nft,
            theirs: Vec::new(),
            beside: [0; 2],
            has_tcx,
            log: String::new(),
        };
        scene.make_again();
        scene
    }

    fn ip(&self, lines: &[String]) {
        self.wire.near.ip(lines).unwrap_or_else(|error| panic!("{error}\n{}", self.log));
    }

    /// The interface goes; another comes that looks like the first one.
    fn make_again(&self) {
        let far = self.wire.far.path();
        self.ip(&[format!("link del {}", self.device)]);
        self.ip(&[format!(
            "link add {} address 02:00:00:00:77:01 type veth peer name w1 address 02:00:00:00:77:02 netns {far}",
            self.device
        )]);
        let lines = [format!("addr add {FAR}/24 dev w1"), "link set w1 up".to_owned()];
        self.wire.far.ip(&lines).unwrap();
        self.address();
    }

    fn address(&self) {
        self.ip(&[format!("addr add {NEAR}/24 dev {}", self.device), format!("link set {} up", self.device)]);
    }

    /// Runs `weir`, and returns whether it ended well; killed is not. It neither crashes nor gets stuck.
    fn weir(&mut self, line: &str, kill_at: Option<u64>) -> (bool, Output) {
        let output = self.wire.weir(line, kill_at);
        let said = stderr(&output);
        let killed = output.status.signal() == Some(libc::SIGKILL);
        let _ = writeln!(self.log, "weir {line} (kill {kill_at:?}): {}; {}", output.status, said.trim());
        let ended = killed && kill_at.is_some() || matches!(output.status.code(), Some(0 | 1));
        assert!(ended && !said.contains("panicked") && !said.contains("undoing it failed"), "{}", self.log);
        (output.status.success(), output)
    }

    fn setup(&mut self) -> (String, bool) {
        let direction = self.draw.of(&["egress", "ingress", "both", "both"]);
        let rate = self.draw.of(&["20mbit", "50mbit", "200mbit"]);
        let queues = self.draw.of(&[
            "queues bfifo/bfifo",
            "queues bfifo/pfifo",
            "standard pfifo responsive bfifo limit 300kb",
        ]);
        let split = self.draw.of(&["hard", "shared"]);
        let flows = self.draw.of(&["64", "128"]);
        let replace = self.draw.of(&["", " replace"]);
        let law = self.draw.of(&["", " set min_window_segments=2"]);
        let line =
            format!("rate {rate} {queues} direction {direction} split {split} flows {flows}{law}{replace}");
        (line, direction != "egress")
    }

    /// Something that Weir does.
    fn command(&mut self) {
        let kill_at = (self.draw.below(3) == 0).then(|| self.draw.below(POINTS as usize) as u64);
        let device = self.device.clone();
        match self.draw.below(7) {
            0..=3 => {
                let (words, receives) = self.setup();
                let hindered = self.root || self.chain && receives;
                let (done, output) = self.weir(&format!("up {device} {words}"), kill_at);
                assert!(done || hindered || kill_at.is_some(), "{}", self.log);
                if done {
                    self.assert_warned(&stderr(&output), &words);
                    self.assert_up();
                }
            }
            4 | 5 => {
                let rate = self.draw.of(&["30mbit", "60mbit"]);
                let direction = self.draw.of(&["", " direction egress", " direction both"]);
                self.weir(&format!("reload {device} rate {rate}{direction}"), kill_at);
            }
            _ => {
                let line =
                    if self.draw.below(2) == 0 { "down --all".to_owned() } else { format!("down {device}") };
                let (done, _) = self.weir(&line, kill_at);
                assert!(done || kill_at.is_some(), "{}", self.log);
            }
        }
    }

    /// All is up, packets cross, and nothing is kept of what was there before.
    fn assert_up(&mut self) {
        let ifbs = self.wire.said("ip -o link show type ifb").lines().count();
        let (journals, pins) =
            (self.wire.files("/run/weir").len(), self.wire.files("/sys/fs/bpf/weir").len());
        assert!(
            ifbs <= 1 && journals == 1 && (1..=2).contains(&pins),
            "{ifbs} {journals} {pins}\n{}",
            self.log
        );
        let (whole, output) = self.weir("show", None);
        assert!(whole || self.chain, "{}\n{}", wire::stdout(&output), self.log);
        self.beside[0] += usize::from(!self.theirs.is_empty());
        if self.theirs.iter().any(programs::drops) {
            self.beside[1] += 1;
            assert!(!self.wire.crosses(), "what others drop stays dropped\n{}", self.log);
            return;
        }
        // The kernel lets packets pass some time after an interface has come up.
        assert!((0..5).any(|_| self.wire.crosses()), "{}", self.log);
    }

    /// Something that happens to the interface.
    fn event(&mut self) {
        let device = self.device.clone();
        let what = self.draw.of(&["flap", "rename", "make again", "move", "lose the IFB device"]);
        let _ = writeln!(self.log, "{device}: {what}");
        match what {
            "flap" => self.ip(&[format!("link set {device} down"), format!("link set {device} up")]),
            "rename" => {
                self.device = if device == "w0" { "wan-0" } else { "w0" }.to_owned();
                self.ip(&[
                    format!("link set {device} down"),
                    format!("link set {device} name {}", self.device),
                    format!("link set {} up", self.device),
                ]);
            }
            "make again" => {
                self.make_again();
                self.root = false;
                self.theirs.clear();
                self.forget_chain();
            }
            "move" => {
                self.ip(&[format!("link set {device} netns {}", self.elsewhere.path())]);
                if self.draw.below(2) == 0 {
                    self.weir("down --all", None);
                }
                let near = self.wire.near.path();
                self.elsewhere.ip(&[format!("link set {device} netns {near}")]).unwrap();
                self.root = false;
                self.forget_chain();
                self.address();
            }
            _ => {
                self.wire.said("for d in $(ip -o link show type ifb | cut -d: -f2); do ip link del $d; done");
            }
        }
    }

    /// What somebody else does.
    fn others(&mut self) {
        let device = self.device.clone();
        let priority = self.draw.of(&["1", "100", "49152"]);
        let lines = [
            format!("tc qdisc replace dev {device} root handle 12: pfifo limit 77"),
            format!("tc qdisc del dev {device} root"),
            format!("tc qdisc add dev {device} clsact"),
            format!("tc qdisc del dev {device} clsact"),
            format!(
                "tc filter add dev {device} ingress prio {priority} protocol ip u32 match ip dport 9 0xffff classid 1:1"
            ),
            format!("tc filter del dev {device} ingress prio {priority}"),
            "rules".to_owned(),
        ];
        let line = &lines[self.draw.below(lines.len())];
        if line == "rules" {
            return self.rules();
        }
        let said = self.wire.said(line);
        let _ = writeln!(self.log, "{line}: {}", said.trim());
        self.root |= line.contains("root handle");
    }

    fn rules(&mut self) {
        if !self.has_nft {
            return;
        }
        let line = match self.chain {
            true => "nft delete table netdev guard".to_owned(),
            false => format!(
                "nft 'table netdev guard {{ chain door {{ type filter hook ingress device {} priority 0; }}; }}'",
                self.device
            ),
        };
        assert_eq!(self.wire.said(&line), "", "{line}\n{}", self.log);
        let _ = writeln!(self.log, "{line}");
        self.chain = !self.chain;
    }

    /// A chain loses its device with that; its table stays.
    fn forget_chain(&mut self) {
        if self.chain {
            self.wire.said("nft delete table netdev guard");
            self.chain = false;
        }
    }

    /// Takes Weir down, and then what others have. Nothing of Weir's is left, and all is as at first.
    fn look(&mut self, first: &str) {
        let (done, _) = self.weir("down --all", None);
        assert!(done, "{}", self.log);
        let device = self.device.clone();
        let left = self.wire.said(&format!(
            "ip -o link show type ifb; tc qdisc show; tc filter show dev {device} ingress; tc filter show dev {device} egress"
        ));
        for ours in ["weir", "57e1", "57e2:", "57e3:", "mirred", "direct-action"] {
            assert!(!left.contains(ours), "'{ours}' is left: {left}\n{}", self.log);
        }
        self.assert_no_other_tcx();
        self.theirs.clear();
        self.forget_chain();
        self.wire.said(&format!("tc qdisc del dev {device} root; tc qdisc del dev {device} clsact"));
        self.root = false;
        if self.device != "w0" {
            self.ip(&[
                format!("link set {device} down"),
                format!("link set {device} name w0"),
                "link set w0 up".to_owned(),
            ]);
            self.device = "w0".to_owned();
        }
        for _ in 0..200 {
            if plain(&self.wire.everything()) == first {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        assert_eq!(plain(&self.wire.everything()), first, "{}", self.log);
        assert!(self.wire.crosses(), "{}", self.log);
        self.log.clear();
    }
}

fn number(name: &str, unless: u64) -> u64 {
    std::env::var(name).map_or(unless, |value| value.parse().unwrap())
}

#[test]
fn any_order_of_operations_leads_back() {
    if !is_root() {
        return;
    }
    apart(true);
    let (steps, seed) = (number("WEIR_STEPS", 200) as usize, number("WEIR_SEED", 1));
    let mut scene = Scene::new(seed);
    assert!(scene.wire.crosses(), "there is a wire");
    let first = plain(&scene.wire.everything());
    for step in 1..=steps {
        match scene.draw.below(12) {
            0..=4 => scene.command(),
            5..=7 => scene.event(),
            8 | 9 => scene.others(),
            _ => scene.programs(),
        }
        scene.assert_theirs();
        if step % STRIDE == 0 || step == steps {
            scene.look(&first);
        }
    }
    let [beside, dropping] = scene.beside;
    println!(
        "{steps} steps from seed {seed}; {beside} times up beside programs of others, {dropping} where they drop all"
    );
}
