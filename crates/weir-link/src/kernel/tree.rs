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

use super::leaf::{FULL_PACKET, Leaf};
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

/// Bytes that may leave at once at `rate`: a millisecond, at least two packets.
fn burst(rate: Rate) -> u64 {
    rate.bytes_in(BURST).0.clamp(2 * FULL_PACKET, u64::from(u32::MAX))
}

/// Bytes of a turn of the standard and of the responsive class: in proportion to their shares, the smaller at least a
/// packet, neither so much that HTB warns.
fn quanta(standard: Rate, responsive: Rate) -> (u64, u64) {
    let (s, r) = (standard.bits_per_sec().max(1), responsive.bits_per_sec().max(1));
    let (less, more) = (s.min(r), s.max(r));
    let most = (u128::from(LARGEST_QUANTUM) * u128::from(less) / u128::from(more)) as u64;
    let small = Rate::from_bits_per_sec(less).bytes_in(BURST).0.min(most).max(FULL_PACKET);
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
}

impl Branch<'_> {
    fn class_words(&self, device: &str, whole: Rate, split: LinkSplit) -> String {
        let ceiling = if split == LinkSplit::Hard { self.rate } else { whole };
        format!(
            "dev {device} parent 57e1:ffff classid {} htb rate {}bit ceil {}bit burst {}b cburst {}b quantum {}",
            self.class,
            self.rate.bits_per_sec(),
            ceiling.bits_per_sec(),
            burst(self.rate),
            burst(ceiling),
            self.quantum,
        )
    }

    fn handle_text(&self) -> String {
        format!("{:x}:", self.handle >> 16)
    }

    fn leaf_words(&self, device: &str, rtt: Duration) -> Result<String, SetupError> {
        let (class, handle) = (self.class, self.handle_text());
        Ok(format!("dev {device} parent {class} handle {handle} {}", self.leaf.words(self.rate, rtt)?))
    }
}

/// Responsive first: the default class comes last, and until it is there HTB lets everything pass unshaped.
fn branches(setup: &Setup, direction: Direction) -> [Branch<'_>; 2] {
    let (standard, responsive) = setup.shares(direction);
    let (standard_quantum, responsive_quantum) = quanta(standard, responsive);
    [
        Branch {
            title: "responsive",
            class: "57e1:1",
            handle: RESPONSIVE_HANDLE,
            leaf: &setup.queues.responsive,
            rate: responsive,
            quantum: responsive_quantum,
        },
        Branch {
            title: "standard",
            class: "57e1:2",
            handle: STANDARD_HANDLE,
            leaf: &setup.queues.standard,
            rate: standard,
            quantum: standard_quantum,
        },
    ]
}

fn link_class(device: &str, rate: Rate) -> String {
    let (bits, burst) = (rate.bits_per_sec(), burst(rate));
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
            Action::Tc(vec![format!("class add {}", link_class(device, setup.rate_of(direction)))]),
        ),
    ];
    for branch in branches(setup, direction) {
        let class =
            format!("class add {}", branch.class_words(device, setup.rate_of(direction), setup.split));
        let leaf = format!("qdisc add {}", branch.leaf_words(device, setup.rtt)?);
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
    let link = link_class(device, rate);
    let mut raise = Vec::new();
    let mut lower = Vec::new();
    if before.is_none_or(|before| link_class(device, before.rate_of(direction)) != link) {
        let step = Step::new("the link", Action::Tc(vec![format!("class replace {link}")]));
        // The link is the widest while its branches change.
        let wider = before.is_none_or(|before| before.rate_of(direction) < rate);
        if wider { raise.push(step) } else { lower.push(step) }
    }
    let old = before.map(|before| branches(before, direction));
    for (at, branch) in branches(setup, direction).into_iter().enumerate() {
        let old = before.zip(old.as_ref().map(|old| &old[at]));
        let class = branch.class_words(device, rate, setup.split);
        let same = old.is_some_and(|(before, old)| {
            old.class_words(device, before.rate_of(direction), before.split) == class
        });
        let mut lines = Vec::new();
        if !same {
            lines.push(format!("class replace {class}"));
        }
        let words = branch.leaf_words(device, setup.rtt)?;
        let (parent, handle) = (branch.class, branch.handle_text());
        match (seen.with_handle(branch.handle), old) {
            (None, _) => lines.push(format!("qdisc add {words}")),
            (Some(leaf), Some((before, old)))
                if leaf.kind == branch.leaf.kind.name() && old.leaf.is_kept_by(branch.leaf) =>
            {
                if old.leaf_words(device, before.rtt)? != words {
                    lines.push(format!("qdisc change {words}"));
                }
            }
            (Some(_), _) => {
                // The kernel does not take another kind under the same handle, and leaves options as they were that a
                // change does not name.
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
    use crate::kernel::qdisc::Qdiscs;
    use crate::kernel::setup::{Direction, Setup};
    use crate::kernel::words;

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
            built("eth0 rate 500mbit queues bfifo/codel:ecn,target=5ms"),
            "\
tc qdisc add dev eth0 root handle 57e1: htb default 2
tc class add dev eth0 parent 57e1: classid 57e1:ffff htb rate 500000000bit ceil 500000000bit burst 62500b cburst 62500b quantum 200000
tc class add dev eth0 parent 57e1:ffff classid 57e1:1 htb rate 250000000bit ceil 250000000bit burst 31250b cburst 31250b quantum 31250
tc qdisc add dev eth0 parent 57e1:1 handle 57e2: codel target 5000us ecn
tc class add dev eth0 parent 57e1:ffff classid 57e1:2 htb rate 250000000bit ceil 250000000bit burst 31250b cburst 31250b quantum 31250
tc qdisc add dev eth0 parent 57e1:2 handle 57e3: bfifo limit 3125000
"
        );
        let borrowing = built("eth0 rate 500mbit split borrow share 1/3");
        assert!(borrowing.contains("classid 57e1:1 htb rate 375000000bit ceil 500000000bit"), "{borrowing}");
        assert!(borrowing.contains("classid 57e1:2 htb rate 125000000bit ceil 500000000bit"), "{borrowing}");
    }

    #[test]
    fn bursts_and_turns_fit_every_rate() {
        for bits in [8_000, 1_000_000, 50_000_000, 1_000_000_000, 10_000_000_000, 400_000_000_000u64] {
            for (s, r) in [(1, 1), (1, 1000), (1000, 1), (30, 70)] {
                let share = |weight: u64| weir_core::Rate::from_bits_per_sec(bits * weight / (s + r));
                let (standard, responsive) = quanta(share(s), share(r));
                for quantum in [standard, responsive] {
                    assert!((1514..=200_000).contains(&quantum), "{bits} {s}/{r}: {quantum}");
                }
                // Up to 1:132 both fit between a packet and HTB's limit, and turns are as the shares.
                if s.max(r) <= 100 {
                    let (a, b) = (standard as f64 / responsive as f64, s as f64 / r as f64);
                    assert!((a / b - 1.0).abs() < 0.01, "{bits} {s}/{r}: {standard}/{responsive}");
                }
            }
            assert!(burst(weir_core::Rate::from_bits_per_sec(bits)) >= 3028);
        }
        assert_eq!(burst(weir_core::Rate::from_bits_per_sec(10_000_000_000)), 1_250_000);
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
