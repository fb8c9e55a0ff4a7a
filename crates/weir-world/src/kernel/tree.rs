//! A scenario's queue as the kernel's: the tree that `weir up` installs ([`weir_kernel::Tree`]), with the scenario's
//! limits, and what has to be known of it to follow packets through it.
//!
//! The limits are those that the emulator resolves; what the kernel's disciplines cannot do is refused by name. A hard
//! split is two classes that may not exceed their shares, as in the CRQ prototype; a shared one lets them borrow from
//! their parent; with strict priority both live on borrowing and the responsive class borrows first (HTB's `prio`).

use weir_core::{QueueChoice, Rate};
use weir_kernel::{Branches, LeafError, Queue, Shape};
use weir_law::MainSignal;
use weir_qdisc::config::{ConfigError, CrqKeys, QdiscConfig, SplitKind};
use weir_qdisc::{Sharing, Switching};

use super::{KernelWorldError, late};
use weir_scenario::{FULL_PACKET, Scenario};

/// The minor number of the responsive class (`57e1:1`).
pub(super) const RESPONSIVE: u16 = 1;

/// Where a scenario has its queue.
const QDISC: &str = "bottleneck.qdisc";

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
    /// The lines that make it, in which [`DEVICE`] stands for the interface.
    lines: Vec<String>,
    /// The kinds of qdisc that the kernel must have, without repetition, each in words that it takes.
    pub(super) kinds: Vec<(&'static str, String)>,
    /// 1, or 2: standard and responsive.
    pub(super) queues: usize,
    /// One, or one per queue where each keeps to its share.
    pub(super) domains: Vec<Domain>,
    /// What may leave at once above the rate, all queues together, in wire bytes.
    pub(super) burst: u64,
    /// Whether a queue can set CE.
    pub(super) can_mark: bool,
    /// Whether a queue may drop what it dequeues.
    pub(super) drops_on_dequeue: bool,
    /// Of each queue: packets leave it in the order in which they came.
    pub(super) in_order: Vec<bool>,
    /// Of each queue: its AQM refuses packets on arrival.
    pub(super) early: Vec<bool>,
    /// Of each queue: its handle as `tc` writes it.
    pub(super) handles: Vec<String>,
}

/// No interface is named like this.
const DEVICE: &str = "%";

impl Tree {
    /// The tree of a scenario.
    ///
    /// # Errors
    /// [`KernelWorldError::Cannot`] with the key and the remedy, for what the kernel's disciplines have not.
    pub(super) fn of(scenario: &Scenario) -> Result<Self, KernelWorldError> {
        let bottleneck = &scenario.bottleneck;
        let qdisc = late::without(&bottleneck.qdisc);
        if let QdiscConfig::Crq(keys) = &qdisc {
            check_crq(keys)?;
        }
        if scenario.main_signal() == MainSignal::Both {
            let message = "the kernel's classifier knows two queues; give \"loss\" or \"ecn\"";
            return Err(cannot("law.main_signal", message));
        }
        let branches = match &qdisc {
            QdiscConfig::Crq(keys) => {
                let least_burst = keys.resolve_burst(&scenario.build_context(0)).map_err(wrong(QDISC))?;
                // The weights are for as many queues as there are.
                let rate = keys.sharing.rate_of(QueueChoice::Standard, keys.queues(), bottleneck.rate);
                rate.map_err(wrong(QDISC))?;
                Branches::Two {
                    queues: [queue(&keys.standard, "standard")?, queue(&keys.responsive, "responsive")?],
                    sharing: keys.sharing,
                    split: keys.split,
                    least_burst: least_burst.into(),
                }
            }
            single => Branches::One(queue(single, "")?),
        };
        let shape = Shape {
            rate: bottleneck.rate,
            rtt: bottleneck.rtt,
            mtu: weir_core::ETHERNET_MTU,
            overhead: bottleneck.overhead,
            burst: bottleneck.burst,
            branches,
        };
        let tree = weir_kernel::Tree::of(&shape).map_err(|error| {
            let key = match (branches, error.queue) {
                (Branches::One(_), _) => QDISC.to_owned(),
                (_, QueueChoice::Standard) => format!("{QDISC}.standard"),
                _ => format!("{QDISC}.responsive"),
            };
            let LeafError { key: of_queue, message } = error.error;
            cannot(&if of_queue.is_empty() { key } else { format!("{key}.{of_queue}") }, &message)
        })?;
        Ok(Self::followed(&tree, shape))
    }

    /// What is to be known of a tree.
    fn followed(tree: &weir_kernel::Tree<'_>, shape: Shape<'_>) -> Self {
        // The standard queue first, as everywhere but in the order of making them.
        let mut branches: Vec<_> = tree.branches().iter().collect();
        branches.sort_by_key(|branch| branch.choice as u8);
        let mut kinds = vec![("htb", "htb".to_owned())];
        for branch in &branches {
            if kinds.iter().all(|(known, _)| *known != branch.queue.kind().name()) {
                kinds.push((branch.queue.kind().name(), branch.words.clone()));
            }
        }
        let largest = |burst: [u64; 2]| burst[0].max(burst[1]);
        let of_classes: u64 = branches.iter().map(|branch| largest(branch.class.burst)).sum();
        let of_link = tree.link().map_or(0, |link| largest(link.burst));
        let whole = |burst| vec![Domain { rate: shape.rate, burst }];
        let (domains, burst) = match shape.branches {
            Branches::One(_) => (whole(of_classes), of_classes),
            Branches::Two { split: SplitKind::Hard, .. } => {
                let domain = |branch: &&weir_kernel::Branch<'_>| Domain {
                    rate: branch.share,
                    burst: largest(branch.class.burst),
                };
                (branches.iter().map(domain).collect(), of_classes + FULL_PACKET)
            }
            // Two classes and their parent: each may have saved up.
            Branches::Two { .. } => (whole(of_link), of_classes + of_link + FULL_PACKET),
        };
        Self {
            lines: tree.lines(DEVICE),
            kinds,
            queues: branches.len(),
            domains,
            burst,
            can_mark: branches.iter().any(|branch| branch.queue.can_mark()),
            drops_on_dequeue: branches.iter().any(|branch| branch.queue.kind().drops_on_dequeue()),
            in_order: branches.iter().map(|branch| branch.queue.kind().is_in_order()).collect(),
            early: branches.iter().map(|branch| branch.queue.kind().refuses_early()).collect(),
            handles: branches.iter().map(|branch| branch.handle_text()).collect(),
        }
    }

    /// The lines for `tc -batch` on `device`.
    pub(super) fn lines(&self, device: &str) -> Vec<String> {
        self.lines
            .iter()
            .map(|line| line.replace(&format!("dev {DEVICE} "), &format!("dev {device} ")))
            .collect()
    }

    /// The domain that a queue belongs to.
    pub(super) fn domain_of(&self, queue: usize) -> usize {
        queue.min(self.domains.len() - 1)
    }
}

/// A queue of a scenario, at `name` in a `crq`.
fn queue<'a>(config: &'a QdiscConfig, name: &str) -> Result<Queue<'a>, KernelWorldError> {
    let key = if name.is_empty() { QDISC.to_owned() } else { format!("{QDISC}.{name}") };
    if matches!(config, QdiscConfig::Crq(_)) {
        return Err(KernelWorldError::Cannot {
            key,
            message: "a crq cannot stand inside another".to_owned(),
        });
    }
    Queue::of(config).map_err(wrong(&key))
}

/// Every world but this one can do it.
fn cannot(key: &str, message: &str) -> KernelWorldError {
    KernelWorldError::Cannot { key: key.to_owned(), message: format!("{message}, or use --on emu") }
}

fn wrong(key: &str) -> impl Fn(ConfigError) -> KernelWorldError {
    move |error| cannot(key, &error.to_string())
}

fn check_crq(keys: &CrqKeys) -> Result<(), KernelWorldError> {
    if keys.ecn_responsive.is_some() {
        return Err(cannot(
            "bottleneck.qdisc.ecn_responsive",
            "the kernel's classifier knows two queues; leave the key out",
        ));
    }
    if keys.switching == Switching::Drain {
        return Err(cannot(
            "bottleneck.qdisc.switching",
            "the kernel's queues cannot hold a flow's packets until its others have left; use \"immediate\"",
        ));
    }
    if keys.sharing == Sharing::Flows {
        return Err(cannot(
            "bottleneck.qdisc.sharing",
            "the weights of HTB's classes do not follow flows; use \"equal\" or weights",
        ));
    }
    if keys.challenge.is_some() {
        let message = "the kernel's disciplines drop and mark by their own rules alone; leave the key out";
        return Err(cannot("bottleneck.qdisc.challenge", message));
    }
    if keys.sharing == Sharing::StrictPriority && keys.split == SplitKind::Hard {
        let message = "strict priority needs \"shared\"".to_owned();
        return Err(KernelWorldError::Cannot { key: "bottleneck.qdisc.split".to_owned(), message });
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
                 burst 12500b cburst 12500b quantum 200000",
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
            lines.contains(
                "classid 57e1:1 htb prio 0 rate 8000bit ceil 100000000bit burst 3028b cburst 12500b"
            )
        );
        assert!(
            lines.contains(
                "classid 57e1:2 htb prio 1 rate 8000bit ceil 100000000bit burst 3028b cburst 12500b"
            )
        );
        assert_eq!((strict.domains.len(), strict.domain_of(1)), (1, 0));
    }

    /// `weir up` and a scenario with the same words are one tree.
    #[test]
    fn the_lines_are_those_of_weir_up() {
        for queues in [
            "standard bfifo limit 64kb responsive bfifo limit 100kb split hard",
            "standard bfifo responsive codel ecn target 1ms split hard sharing 30:70",
            "standard fq_codel noecn responsive pie limit 1bdp ecn split shared sharing 1:3",
            "standard pfifo limit 1bdp responsive red limit 100kb ecn split shared sharing equal",
            "standard cake unlimited responsive fq split shared sharing strict",
        ] {
            for rate in ["9mbit", "100mbit", "2500mbit"] {
                let words = format!("eth9 rate {rate} rtt 20ms {queues}");
                let keys = weir_kernel::parse_words(&words.split(' ').collect::<Vec<_>>()).unwrap();
                let setup = weir_kernel::Setup::from_keys(keys).unwrap();
                let up = setup.tree(weir_kernel::Direction::Egress).unwrap().lines("eth9");
                let text = format!(
                    "flow = [{{stack = 'udp', rate = '1mbit', duration = '1s'}}]\n\
                     bottleneck = {{rate = '{rate}', rtt = '20ms', qdisc = 'crq {queues}'}}"
                );
                let world = Tree::of(&Scenario::parse(&text, "x").unwrap()).unwrap();
                assert_eq!(world.lines("eth9"), up, "{words}");
            }
        }
    }

    #[test]
    fn a_burst_that_was_given_stands() {
        let lines = |words: &str| tree(words).unwrap().lines("x").join("\n");
        let single = lines("qdisc = 'bfifo', burst = '4kb'");
        assert!(single.contains("burst 4096b cburst 4096b"), "{single}");
        let hard = lines("qdisc = 'crq responsive bfifo burst 20p', burst = '400kb'");
        assert!(
            hard.contains("classid 57e1:1 htb rate 50000000bit ceil 50000000bit burst 30280b cburst 30280b")
        );
        assert!(
            hard.contains("classid 57e1:ffff htb rate 100000000bit ceil 100000000bit burst 409600b"),
            "{hard}"
        );
    }

    #[test]
    fn what_the_kernel_cannot_do_is_refused_by_name() {
        for (qdisc, key) in [
            ("step", "bottleneck.qdisc: "),
            ("pie alpha 0.1", "bottleneck.qdisc.alpha: "),
            ("cake", "bottleneck.qdisc.unlimited: "),
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
