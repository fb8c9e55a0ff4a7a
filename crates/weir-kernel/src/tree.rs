//! The tree of one direction in `tc`'s words: HTB as the root, one class that is the link, under it a class with a queue
//! for responsive flows and one for all else.
//!
//! ```text
//! 57e1: htb default 2
//! └─ 57e1:ffff         the link
//!    ├─ 57e1:1  57e2:  responsive
//!    └─ 57e1:2  57e3:  standard; what nobody classified comes here too
//! ```
//! Classes are chosen by `skb->priority`, which HTB compares with its own handle before it asks any filter
//! (net/sched/sch_htb.c, `htb_classify`). The paper's prototype names a parent `20:FFFF` but never makes it, so that
//! its classes are roots and cannot borrow; here the parent is real.

use weir_core::{Duration, Rate};

use super::leaf::Leaf;
use super::qdisc::{Qdisc, Qdiscs};
use super::setup::{Direction, LinkSplit, Setup, SetupError};
use super::step::{Action, Step};

/// HTB's handle.
pub const HTB_HANDLE: u32 = 0x57e1_0000;
/// Handle of the responsive queue, under class 57e1:1.
pub const RESPONSIVE_HANDLE: u32 = 0x57e2_0000;
/// Handle of the standard queue, under class 57e1:2.
pub const STANDARD_HANDLE: u32 = 0x57e3_0000;

/// How long HTB may send at once what it could not send before: its timer and the interrupts of a busy machine are late
/// by up to that.
const BURST: Duration = Duration::from_millis(1);
/// More bytes in one turn make the other class wait noticeably; HTB warns from 200000 on.
const LARGEST_QUANTUM: u64 = 200_000;

/// Bytes that may leave at once at `rate`: a millisecond, at least two full packets.
fn burst(rate: Rate, full_packet: u64) -> u64 {
    rate.bytes_in(BURST).0.clamp(2 * full_packet, u64::from(u32::MAX))
}

/// Bytes of a turn of the standard and of the responsive class: in proportion to their shares, the smaller at least a
/// full packet, neither so much that HTB warns. (A class with a turn of less sends a packet in each turn all the same, and
/// is never charged for the rest.)
fn quanta(standard: Rate, responsive: Rate, full_packet: u64) -> (u64, u64) {
    let (s, r) = (standard.bits_per_sec().max(1), responsive.bits_per_sec().max(1));
    let (less, more) = (s.min(r), s.max(r));
    let most = (u128::from(LARGEST_QUANTUM) * u128::from(less) / u128::from(more)) as u64;
    let small = Rate::from_bits_per_sec(less).bytes_in(BURST).0.min(most).max(full_packet);
    let large = ((u128::from(small) * u128::from(more) / u128::from(less)) as u64).min(LARGEST_QUANTUM);
    if s < r { (small, large) } else { (large, small) }
}

/// One class with its queue.
struct Branch<'a> {
    title: &'static str,
    class: &'static str,
    handle: u32,
    leaf: &'a Leaf,
    rate: Rate,
    quantum: u64,
    setup: &'a Setup,
    whole: Rate,
}

impl Branch<'_> {
    fn class_words(&self, device: &str) -> String {
        let ceiling = if self.setup.split == LinkSplit::Hard { self.rate } else { self.whole };
        let full_packet = self.setup.full_packet();
        format!(
            "dev {device} parent 57e1:ffff classid {} htb rate {}bit ceil {}bit burst {}b cburst {}b quantum {}",
            self.class,
            self.rate.bits_per_sec(),
            ceiling.bits_per_sec(),
            burst(self.rate, full_packet),
            burst(ceiling, full_packet),
            self.quantum,
        )
    }

    fn handle_text(&self) -> String {
        format!("{:x}:", self.handle >> 16)
    }

    fn leaf_words(&self, device: &str) -> Result<String, SetupError> {
        let (class, handle) = (self.class, self.handle_text());
        let words = self.leaf.words(self.setup.reckoning(self.rate))?;
        Ok(format!("dev {device} parent {class} handle {handle} {words}"))
    }

    /// Whether a queue that was made for this branch goes by the MTU of `next`.
    fn has_mtu_of(&self, next: &Branch<'_>) -> bool {
        !next.leaf.kind.keeps_mtu() || self.setup.mtu == next.setup.mtu
    }
}

/// Responsive first: the default class comes last, and until it is there HTB lets everything pass unshaped.
fn branches(setup: &Setup, direction: Direction) -> [Branch<'_>; 2] {
    let (standard, responsive) = setup.shares(direction);
    let (standard_quantum, responsive_quantum) = quanta(standard, responsive, setup.full_packet());
    let whole = setup.rate_of(direction);
    [
        Branch {
            title: "responsive",
            class: "57e1:1",
            handle: RESPONSIVE_HANDLE,
            leaf: &setup.queues.responsive,
            rate: responsive,
            quantum: responsive_quantum,
            setup,
            whole,
        },
        Branch {
            title: "standard",
            class: "57e1:2",
            handle: STANDARD_HANDLE,
            leaf: &setup.queues.standard,
            rate: standard,
            quantum: standard_quantum,
            setup,
            whole,
        },
    ]
}

fn link_class(device: &str, setup: &Setup, direction: Direction) -> String {
    let rate = setup.rate_of(direction);
    let (bits, burst) = (rate.bits_per_sec(), burst(rate, setup.full_packet()));
    format!(
        "dev {device} parent 57e1: classid 57e1:ffff htb rate {bits}bit ceil {bits}bit burst {burst}b cburst {burst}b \
         quantum {LARGEST_QUANTUM}"
    )
}

/// Whether a root is ours.
pub(super) fn is_ours(root: Option<&Qdisc>) -> bool {
    root.is_some_and(|root| root.handle == HTB_HANDLE && root.kind == "htb")
}

/// The steps that make the tree on `device`, where there is none of ours yet. `replacing` a qdisc of somebody else takes
/// another verb, so that one that appeared meanwhile is not thrown away.
pub(super) fn build(
    device: &str,
    setup: &Setup,
    direction: Direction,
    replacing: bool,
) -> Result<Vec<Step>, SetupError> {
    let verb = if replacing { "replace" } else { "add" };
    let mut steps = vec![
        Step::new(
            format!("HTB as the root of {device}"),
            Action::Tc(vec![format!("qdisc {verb} dev {device} root handle 57e1: htb default 2")]),
        ),
        Step::new(
            "the link",
            Action::Tc(vec![format!("class add {}", link_class(device, setup, direction))]),
        ),
    ];
    for branch in branches(setup, direction) {
        let class = format!("class add {}", branch.class_words(device));
        let leaf = format!("qdisc add {}", branch.leaf_words(device)?);
        // In one go: what meets a class without its queue would be queued in another, and lost with that.
        steps.push(Step::new(format!("the {} queue", branch.title), Action::Tc(vec![class, leaf])));
    }
    Ok(steps)
}

/// The steps that turn a tree of ours into that of `setup`. `before` is what it was made from, if that is known for
/// certain; otherwise every line is said again, and queues are made anew.
pub(super) fn change(
    device: &str,
    setup: &Setup,
    before: Option<&Setup>,
    direction: Direction,
    seen: &Qdiscs,
) -> Result<Vec<Step>, SetupError> {
    let rate = setup.rate_of(direction);
    let link = link_class(device, setup, direction);
    let mut raise = Vec::new();
    let mut lower = Vec::new();
    if before.is_none_or(|before| link_class(device, before, direction) != link) {
        let step = Step::new("the link", Action::Tc(vec![format!("class replace {link}")]));
        // The link is the widest while its branches change.
        let wider = before.is_none_or(|before| before.rate_of(direction) < rate);
        if wider { raise.push(step) } else { lower.push(step) }
    }
    let old = before.map(|before| branches(before, direction));
    for (at, branch) in branches(setup, direction).into_iter().enumerate() {
        let old = old.as_ref().map(|old| &old[at]);
        let class = branch.class_words(device);
        let same = old.is_some_and(|old| old.class_words(device) == class);
        let mut lines = Vec::new();
        if !same {
            lines.push(format!("class replace {class}"));
        }
        let words = branch.leaf_words(device)?;
        let (parent, handle) = (branch.class, branch.handle_text());
        match (seen.with_handle(branch.handle), old) {
            (None, _) => lines.push(format!("qdisc add {words}")),
            (Some(leaf), Some(old))
                if leaf.kind == branch.leaf.kind.name()
                    && old.has_mtu_of(&branch)
                    && (old.leaf.is_kept_by(branch.leaf) || old.leaf_words(device)? == words) =>
            {
                if old.leaf_words(device)? != words {
                    lines.push(format!("qdisc change {words}"));
                }
            }
            (Some(_), _) => {
                // The kernel does not take another kind under the same handle, leaves options as they were that a
                // change does not name, and has some kinds keep the first MTU.
                lines.push(format!("qdisc del dev {device} parent {parent} handle {handle}"));
                lines.push(format!("qdisc add {words}"));
            }
        }
        if !lines.is_empty() {
            raise.push(Step::new(format!("the {} queue", branch.title), Action::Tc(lines)));
        }
    }
    raise.append(&mut lower);
    Ok(raise)
}

#[cfg(test)]
mod tests {
    use super::{build, burst, change, quanta};
    use crate::qdisc::{Qdisc, Qdiscs};
    use crate::setup::{Direction, Setup};
    use crate::words;

    fn setup(line: &str) -> Setup {
        Setup::from_keys(words::parse(&line.split(' ').collect::<Vec<_>>()).unwrap()).unwrap()
    }

    fn built(line: &str) -> String {
        let steps = build("eth0", &setup(line), Direction::Egress, false).unwrap();
        steps.iter().map(|step| format!("{step}\n")).collect()
    }

    #[test]
    fn the_lines_are_those_of_the_contract() {
        assert_eq!(
            built("eth0 rate 500mbit queues bfifo/codel:ecn,target=5ms split hard"),
            "\
tc qdisc add dev eth0 root handle 57e1: htb default 2
tc class add dev eth0 parent 57e1: classid 57e1:ffff htb rate 500000000bit ceil 500000000bit burst 62500b cburst 62500b quantum 200000
tc class add dev eth0 parent 57e1:ffff classid 57e1:1 htb rate 250000000bit ceil 250000000bit burst 31250b cburst 31250b quantum 31250
tc qdisc add dev eth0 parent 57e1:1 handle 57e2: codel target 5000us ecn
tc class add dev eth0 parent 57e1:ffff classid 57e1:2 htb rate 250000000bit ceil 250000000bit burst 31250b cburst 31250b quantum 31250
tc qdisc add dev eth0 parent 57e1:2 handle 57e3: bfifo limit 3125000
"
        );
        let borrowing = built("eth0 rate 500mbit share 1/3");
        assert!(borrowing.contains("classid 57e1:1 htb rate 375000000bit ceil 500000000bit"), "{borrowing}");
        assert!(borrowing.contains("classid 57e1:2 htb rate 125000000bit ceil 500000000bit"), "{borrowing}");
    }

    #[test]
    fn bursts_and_turns_fit_every_rate_and_packet() {
        for (mtu, proportional) in [(68, 2400), (576, 330), (1280, 150), (1500, 132), (9000, 22), (65_536, 3)]
        {
            let full = u64::from(weir_core::full_packet(mtu));
            for bits in [8_000, 1_000_000, 50_000_000, 1_000_000_000, 10_000_000_000, 400_000_000_000u64] {
                for (s, r) in [(1, 1), (1, 3), (1, 1000), (1000, 1), (30, 70)] {
                    let share = |weight: u64| weir_core::Rate::from_bits_per_sec(bits * weight / (s + r));
                    let (standard, responsive) = quanta(share(s), share(r), full);
                    for quantum in [standard, responsive] {
                        assert!((full..=200_000).contains(&quantum), "{mtu} {bits} {s}/{r}: {quantum}");
                    }
                    // Both fit between a packet and HTB's limit, and turns are as the shares.
                    if s.max(r) <= proportional * s.min(r) && bits > 8_000 {
                        let (a, b) = (standard as f64 / responsive as f64, s as f64 / r as f64);
                        assert!((a / b - 1.0).abs() < 0.02, "{mtu} {bits} {s}/{r}: {standard}/{responsive}");
                    }
                }
                assert!(burst(weir_core::Rate::from_bits_per_sec(bits), full) >= 2 * full);
            }
        }
        assert_eq!(burst(weir_core::Rate::from_bits_per_sec(10_000_000_000), 1514), 1_250_000);
    }

    /// The steps from a setup with MTU 1500 to one with 9000, all queues being there.
    fn followed(line: &str) -> String {
        let before = setup(line);
        let after = before.clone().with_mtu(9000).unwrap();
        let leaf = |kind: crate::LeafKind, handle| Qdisc {
            kind: kind.name().to_owned(),
            handle,
            parent: 0,
            sized: false,
            options: None,
        };
        let seen = [
            leaf(before.queues.responsive.kind, super::RESPONSIVE_HANDLE),
            leaf(before.queues.standard.kind, super::STANDARD_HANDLE),
        ];
        let seen = seen.into_iter().collect();
        for same in [&before, &after] {
            assert_eq!(change("eth0", same, Some(same), Direction::Egress, &seen).unwrap(), []);
        }
        let steps = change("eth0", &after, Some(&before), Direction::Egress, &seen).unwrap();
        steps.iter().map(|step| format!("{step}\n")).collect()
    }

    #[test]
    fn an_mtu_is_followed() {
        assert_eq!(
            followed("eth0 rate 1mbit queues bfifo/pie"),
            "\
tc class replace dev eth0 parent 57e1:ffff classid 57e1:1 htb rate 500000bit ceil 1000000bit burst 18028b cburst 18028b quantum 9014
tc class replace dev eth0 parent 57e1:ffff classid 57e1:2 htb rate 500000bit ceil 1000000bit burst 18028b cburst 18028b quantum 9014
tc qdisc change dev eth0 parent 57e1:2 handle 57e3: bfifo limit 18028
tc class replace dev eth0 parent 57e1: classid 57e1:ffff htb rate 1000000bit ceil 1000000bit burst 18028b cburst 18028b quantum 200000
"
        );
        // Where a millisecond is more than two packets, only what keeps the MTU is made anew.
        for kind in ["codel", "fq_codel", "fq", "fq_pie"] {
            let lines = followed(&format!("eth0 rate 500mbit queues {kind}/pfifo"));
            assert!(lines.starts_with("tc qdisc del dev eth0 parent 57e1:2 handle 57e3:\n"), "{lines}");
            assert_eq!(lines.lines().count(), 2, "{lines}");
        }
        assert_eq!(followed("eth0 rate 500mbit queues red/cake"), "");
    }

    #[test]
    fn nothing_new_changes_nothing() {
        let same = setup("eth0 rate 500mbit");
        let steps = change("eth0", &same, Some(&same), Direction::Egress, &Qdiscs::default()).unwrap();
        // Only the queues, which are not there.
        assert_eq!(steps.len(), 2);
        assert!(steps.iter().all(|step| step.to_string().starts_with("tc qdisc add")));
    }
}
