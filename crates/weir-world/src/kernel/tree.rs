//! A scenario's queue as the kernel's: HTB at the link's rate, one class per queue, the queue discipline under it.
//!
//! The limits are those that the emulator resolves; what the kernel's disciplines cannot do is refused by name. A hard
//! split is two classes that may not exceed their shares, as in the CRQ prototype; a shared one lets them borrow from
//! their parent; with strict priority both live on borrowing and the responsive class borrows first (HTB's `prio`).

use weir_core::{Duration, QueueChoice, Rate};
use weir_law::MainSignal;
use weir_qdisc::config::{BuildContext, CrqKeys, QdiscConfig, SplitKind};
use weir_qdisc::{Sharing, Switching};

use super::KernelWorldError;
use super::leaf::Leaf;
use weir_scenario::{FULL_PACKET, Scenario};

/// The class that a packet gets is `MAJOR:1` (responsive) or `MAJOR:2` (standard), whoever chooses it.
pub(super) const MAJOR: u16 = 0x57e1;
/// The minor number of the responsive class.
pub(super) const RESPONSIVE: u16 = 1;
/// The minor number of the standard class, also the default.
pub(super) const STANDARD: u16 = 2;

/// A timer wakes HTB a little late; what it may send at once makes up for so long.
const TIMER: Duration = Duration::from_micros(200);
/// What a class that lives on borrowing has of its own: as good as nothing.
const TOKEN: Rate = Rate::from_bits_per_sec(8_000);

/// Queues that share one rate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Domain {
    /// Their rate together.
    pub(super) rate: Rate,
    /// What they may send at once, in wire bytes.
    pub(super) burst: u64,
}

/// The kernel's queues for a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tree {
    /// What follows `tc qdisc add dev DEVICE root`, and further lines, in which `DEVICE` stands for the interface.
    lines: Vec<String>,
    /// The kinds of qdisc that the kernel must have, without repetition, each with options that it takes.
    pub(super) kinds: Vec<(&'static str, String)>,
    /// 1, or 2: standard and responsive.
    pub(super) queues: usize,
    /// One, or one per queue where each keeps to its share.
    pub(super) domains: Vec<Domain>,
    /// What may leave at once above the rate, all queues together, in wire bytes.
    pub(super) burst: u64,
    /// Whether a queue can set CE.
    pub(super) can_mark: bool,
    /// Of each queue: packets leave it in the order in which they came.
    pub(super) in_order: Vec<bool>,
    /// Of each queue: its AQM refuses packets on arrival.
    pub(super) early: Vec<bool>,
}

struct Class<'a> {
    minor: u16,
    rate: Rate,
    ceil: Rate,
    prio: u8,
    burst: u64,
    leaf: &'a QdiscConfig,
    /// What the leaf's limits are reckoned by.
    share: Rate,
}

impl Tree {
    /// The tree of a scenario.
    ///
    /// # Errors
    /// [`KernelWorldError::Cannot`] with the key and the remedy, for what the kernel's disciplines have not.
    pub(super) fn of(scenario: &Scenario) -> Result<Self, KernelWorldError> {
        let bottleneck = &scenario.bottleneck;
        if let QdiscConfig::Crq(keys) = &bottleneck.qdisc {
            check_crq(keys)?;
        }
        if scenario.main_signal() == MainSignal::Both {
            let message =
                "the kernel's classifier knows two queues; give \"loss\" or \"ecn\", or use --on emu";
            return Err(cannot("law.main_signal", message));
        }
        let rate = bottleneck.rate;
        let burst = |rate: Rate, least: u64| least.max(rate.bytes_in(TIMER).0);
        let link = bottleneck.burst.map_or_else(|| burst(rate, 2 * FULL_PACKET), |burst| burst.0);
        // The kernel draws its own random numbers.
        let context = scenario.build_context(0);
        let mut tree = Self {
            lines: vec![root(bottleneck.overhead)],
            kinds: vec![("htb", String::new())],
            queues: 1,
            domains: vec![Domain { rate, burst: link }],
            burst: link,
            can_mark: false,
            in_order: Vec::new(),
            early: Vec::new(),
        };
        let QdiscConfig::Crq(keys) = &bottleneck.qdisc else {
            let leaf = &bottleneck.qdisc;
            let class = Class { minor: STANDARD, rate, ceil: rate, prio: 0, burst: link, leaf, share: rate };
            tree.class(&class, "", &context, "bottleneck.qdisc")?;
            return Ok(tree);
        };
        tree.queues = 2;
        tree.lines.push(format!(
            "class add dev DEVICE parent {MAJOR:x}: classid {MAJOR:x}:ffff htb rate {rate} ceil {rate} \
             burst {link} cburst {link} quantum {FULL_PACKET}",
            rate = bits(rate),
        ));
        let own = keys.resolve_burst(&context).map_err(scenario_error)?;
        let mut domains = Vec::new();
        for (choice, minor, leaf, key) in [
            (QueueChoice::Standard, STANDARD, &keys.standard, "bottleneck.qdisc.standard"),
            (QueueChoice::Responsive, RESPONSIVE, &keys.responsive, "bottleneck.qdisc.responsive"),
        ] {
            let share = keys.sharing.rate_of(choice, keys.queues(), rate).map_err(scenario_error)?;
            let strict = keys.sharing == Sharing::StrictPriority;
            let hard = keys.split == SplitKind::Hard;
            let burst = if hard { burst(share, u64::from(own)) } else { link };
            domains.push(Domain { rate: share, burst });
            let class = Class {
                minor,
                rate: if strict { TOKEN } else { share },
                ceil: if hard { share } else { rate },
                prio: u8::from(strict && choice == QueueChoice::Standard),
                burst,
                leaf,
                share,
            };
            tree.class(&class, "ffff", &context, key)?;
        }
        if keys.split == SplitKind::Hard {
            tree.burst = domains.iter().map(|domain| domain.burst + FULL_PACKET).sum::<u64>() - FULL_PACKET;
            tree.domains = domains;
        } else {
            // Two classes and their parent: each may have saved up.
            tree.burst = 3 * link + FULL_PACKET;
        }
        Ok(tree)
    }

    /// The lines for `tc -batch` on `device`.
    pub(super) fn lines(&self, device: &str) -> Vec<String> {
        self.lines.iter().map(|line| line.replace("DEVICE", device)).collect()
    }

    /// The domain that a queue belongs to.
    pub(super) fn domain_of(&self, queue: usize) -> usize {
        queue.min(self.domains.len() - 1)
    }

    fn class(
        &mut self,
        class: &Class,
        parent: &str,
        context: &BuildContext,
        key: &str,
    ) -> Result<(), KernelWorldError> {
        let Class { minor, rate, ceil, prio, burst, leaf, share } = class;
        let Leaf { kind, words, marks, in_order, early } =
            Leaf::of(leaf, &BuildContext { rate: *share, ..*context }, key)?;
        self.can_mark |= marks;
        self.in_order.push(in_order);
        self.early.push(early);
        if self.kinds.iter().all(|(known, _)| *known != kind) {
            self.kinds.push((kind, words.clone()));
        }
        self.lines.push(format!(
            "class add dev DEVICE parent {MAJOR:x}:{parent} classid {MAJOR:x}:{minor} htb rate {} ceil {} \
             burst {burst} cburst {burst} prio {prio} quantum {FULL_PACKET}",
            bits(*rate),
            bits(*ceil),
        ));
        self.lines.push(format!(
            "qdisc add dev DEVICE parent {MAJOR:x}:{minor} handle {:x}: {kind} {words}",
            MAJOR + minor
        ));
        Ok(())
    }
}

/// `stab` adds the overhead before HTB and its leaves see a packet's length (net/sched/sch_api.c,
/// `__qdisc_calculate_pkt_len`), as the emulator does; `overhead` of an HTB class would not reach the leaves.
fn root(overhead: u32) -> String {
    let stab =
        if overhead > 0 { format!("stab overhead {overhead} linklayer ethernet ") } else { String::new() };
    format!("qdisc add dev DEVICE root handle {MAJOR:x}: {stab}htb default {STANDARD}")
}

fn bits(rate: Rate) -> String {
    format!("{}bit", rate.bits_per_sec())
}

pub(super) fn cannot(key: &str, message: &str) -> KernelWorldError {
    KernelWorldError::Cannot { key: key.to_owned(), message: message.to_owned() }
}

fn scenario_error(error: weir_qdisc::config::ConfigError) -> KernelWorldError {
    cannot("bottleneck.qdisc", &error.to_string())
}

fn check_crq(keys: &CrqKeys) -> Result<(), KernelWorldError> {
    if keys.ecn_responsive.is_some() {
        return Err(cannot(
            "bottleneck.qdisc.ecn_responsive",
            "the kernel's classifier knows two queues; leave the key out, or use --on emu",
        ));
    }
    if keys.switching == Switching::Drain {
        return Err(cannot(
            "bottleneck.qdisc.switching",
            "the kernel's queues cannot hold a flow's packets until its others have left; use \"immediate\", or --on emu",
        ));
    }
    if keys.sharing == Sharing::StrictPriority && keys.split == SplitKind::Hard {
        return Err(cannot("bottleneck.qdisc.split", "strict priority needs \"shared\""));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::Tree;
    use weir_scenario::Scenario;

    fn tree(bottleneck: &str) -> Result<Tree, String> {
        let text = format!(
            "flow = [{{stack = 'udp', rate = '1mbit', duration = '1s'}}]\n\
             bottleneck = {{rate = '100mbit', rtt = '20ms', {bottleneck}}}"
        );
        Tree::of(&Scenario::parse(&text, "x").unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn one_queue_is_one_class() {
        let tree = tree("qdisc = 'bfifo limit 1bdp', overhead = 24").unwrap();
        assert_eq!(
            tree.lines("eth9"),
            [
                "qdisc add dev eth9 root handle 57e1: stab overhead 24 linklayer ethernet htb default 2",
                "class add dev eth9 parent 57e1: classid 57e1:2 htb rate 100000000bit ceil 100000000bit \
                 burst 3028 cburst 3028 prio 0 quantum 1514",
                "qdisc add dev eth9 parent 57e1:2 handle 57e3: bfifo limit 250000",
            ]
        );
        assert_eq!((tree.queues, tree.domains.len(), tree.can_mark), (1, 1, false));
        let kinds: Vec<_> = tree.kinds.iter().map(|(kind, _)| *kind).collect();
        assert_eq!((kinds, tree.in_order), (vec!["htb", "bfifo"], vec![true]));
    }

    #[test]
    fn a_hard_split_keeps_each_class_to_its_share() {
        let tree = tree(
            "qdisc = 'crq standard bfifo responsive codel ecn target 100us interval 10us limit 1bdp sharing 30:70'",
        )
        .unwrap();
        let lines = tree.lines("x").join("\n");
        for part in [
            "classid 57e1:2 htb rate 30000000bit ceil 30000000bit",
            "classid 57e1:1 htb rate 70000000bit ceil 70000000bit",
            "handle 57e3: bfifo limit 75000",
            "handle 57e2: codel limit 116 target 100us interval 10us ecn",
        ] {
            assert!(lines.contains(part), "{part} in\n{lines}");
        }
        assert_eq!((tree.domains.len(), tree.domain_of(1), tree.can_mark), (2, 1, true));
    }

    #[test]
    fn sharing_borrows_and_priority_goes_first() {
        let shared = tree("qdisc = 'crq responsive bfifo split shared'").unwrap().lines("x").join("\n");
        assert!(shared.contains("classid 57e1:2 htb rate 50000000bit ceil 100000000bit"), "{shared}");
        let strict = tree("qdisc = 'crq responsive bfifo split shared sharing strict'").unwrap();
        let lines = strict.lines("x").join("\n");
        assert!(
            lines.contains("classid 57e1:1 htb rate 8000bit ceil 100000000bit burst 3028 cburst 3028 prio 0")
        );
        assert!(
            lines.contains("classid 57e1:2 htb rate 8000bit ceil 100000000bit burst 3028 cburst 3028 prio 1")
        );
        assert_eq!((strict.domains.len(), strict.domain_of(1)), (1, 0));
    }

    #[test]
    fn what_the_kernel_cannot_do_is_refused_by_name() {
        for (qdisc, key) in [
            ("crq switching drain", "bottleneck.qdisc.switching: "),
            ("crq standard codel ecn ecn_responsive codel ecn", "bottleneck.qdisc.ecn_responsive: "),
            (
                "crq responsive codel ce_threshold 1ms ce_threshold_ect1",
                "bottleneck.qdisc.responsive.ce_threshold_ect1: ",
            ),
        ] {
            let error = tree(&format!("qdisc = '{qdisc}'")).unwrap_err();
            assert!(error.starts_with(key) && error.contains("--on emu"), "{error}");
        }
    }
}
