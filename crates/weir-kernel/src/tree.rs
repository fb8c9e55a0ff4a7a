//! The tree of one direction in `tc`'s words: HTB as the root, one class that is the link, under it a class with a
//! queue for responsive flows and one for all else. `weir up`, world `kernel` and the router of the benchmarks all have
//! this tree.
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
//!
//! A single queue, which only scenarios have, is class 57e1:2 right under the root.

mod steps;

use std::fmt;

use thiserror::Error;
use weir_core::{Bytes, Duration, ETHERNET_MTU, QueueChoice, Rate, Seed, full_packet};
use weir_qdisc::Sharing;
use weir_qdisc::config::{BuildContext, SplitKind};

use super::leaf::{LeafError, Queue};
use super::setup::{DEFAULT_RTT, SetupError};

pub(super) use steps::{build, change, is_ours};

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
/// What a class has of its own that lives on borrowing, as with strict priority: as good as nothing.
const TOKEN: Rate = Rate::from_bits_per_sec(8_000);

/// Bytes that may leave at once at `rate`: a millisecond, at least two full packets.
fn burst(rate: Rate, full_packet: u64) -> u64 {
    rate.bytes_in(BURST).0.clamp(2 * full_packet, u64::from(u32::MAX))
}

/// Bytes of a turn of the standard and of the responsive class: in proportion to their shares, the smaller at least a
/// full packet, neither so much that HTB warns. (A class with a turn of less sends a packet in each turn all the same,
/// and is never charged for the rest.)
fn quanta([standard, responsive]: [Rate; 2], full_packet: u64) -> [u64; 2] {
    let (s, r) = (standard.bits_per_sec().max(1), responsive.bits_per_sec().max(1));
    let (less, more) = (s.min(r), s.max(r));
    let most = (u128::from(LARGEST_QUANTUM) * u128::from(less) / u128::from(more)) as u64;
    let small = Rate::from_bits_per_sec(less).bytes_in(BURST).0.min(most).max(full_packet);
    let large = ((u128::from(small) * u128::from(more) / u128::from(less)) as u64).min(LARGEST_QUANTUM);
    if s < r { [small, large] } else { [large, small] }
}

/// The queues of a tree, and how two of them share the link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Branches<'a> {
    /// One, which has the link to itself.
    One(Queue<'a>),
    /// Two.
    Two {
        /// The standard and the responsive queue.
        queues: [Queue<'a>; 2],
        /// How the rate is divided.
        sharing: Sharing,
        /// Whether a queue may use what the other leaves.
        split: SplitKind,
        /// The least burst of a queue that keeps to its share, in wire bytes.
        least_burst: u64,
    },
}

/// What a tree is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape<'a> {
    /// The rate of the link.
    pub rate: Rate,
    /// The round-trip time of limits in BDP.
    pub rtt: Duration,
    /// The MTU of the interface, in bytes.
    pub mtu: u32,
    /// Bytes that the link adds to every packet, beyond what the interface counts.
    pub overhead: u32,
    /// Wire bytes that the link may send at once above its rate; of no class may be more. `None` for a millisecond and
    /// at least two full packets.
    pub burst: Option<Bytes>,
    /// The queues.
    pub branches: Branches<'a>,
}

impl<'a> Shape<'a> {
    /// Two queues, the standard and the responsive one, on an Ethernet without overhead, with [`DEFAULT_RTT`] and the
    /// usual bursts.
    #[must_use]
    pub const fn two(rate: Rate, queues: [Queue<'a>; 2], sharing: Sharing, split: SplitKind) -> Self {
        Self {
            rate,
            rtt: DEFAULT_RTT,
            mtu: ETHERNET_MTU,
            overhead: 0,
            burst: None,
            branches: Branches::Two { queues, sharing, split, least_burst: 0 },
        }
    }

    /// What the standard and the responsive queue have when both are busy: with strict priority each the whole rate, as
    /// long as the one before it is silent. A single queue has all.
    #[must_use]
    pub fn shares(&self) -> [Rate; 2] {
        let Branches::Two { sharing, .. } = self.branches else { return [self.rate; 2] };
        if sharing == Sharing::StrictPriority {
            return [self.rate; 2];
        }
        let bits = self.rate.bits_per_sec();
        let (standard, responsive) = match sharing {
            Sharing::Weighted { standard, responsive, .. } => (standard.max(1), responsive.max(1)),
            Sharing::Equal | Sharing::StrictPriority | Sharing::Flows => (1, 1),
        };
        let of_standard =
            u128::from(bits) * u128::from(standard) / (u128::from(standard) + u128::from(responsive));
        let of_standard = (of_standard as u64).max(1);
        [of_standard, bits - of_standard].map(Rate::from_bits_per_sec)
    }

    /// What the classes of the standard and of the responsive queue are sure of: their shares, but with strict priority,
    /// where both live on what they borrow, next to nothing.
    #[must_use]
    pub fn assured(&self) -> [Rate; 2] {
        match self.branches {
            Branches::Two { sharing: Sharing::StrictPriority, .. } => [TOKEN.min(self.rate); 2],
            _ => self.shares(),
        }
    }

    fn full_packet(&self) -> u64 {
        full_packet(self.mtu).into()
    }

    /// What the limits of a queue with this share of the rate are computed by. The kernel draws its own random numbers.
    fn context(&self, rate: Rate) -> BuildContext {
        BuildContext { rate, rtt: self.rtt, mtu: full_packet(self.mtu), seed: Seed::default() }
    }

    /// Of each queue, standard first, how many bytes it may hold, if it counts bytes and the limit is one it can have.
    pub(super) fn limits_in_bytes(&self) -> [Option<u64>; 2] {
        let Branches::Two { queues, .. } = self.branches else { return [None; 2] };
        let [standard, responsive] = self.shares();
        [(queues[0], standard), (queues[1], responsive)]
            .map(|(queue, share)| queue.bytes(&self.context(share)).ok().flatten())
    }

    fn burst_of(&self, rate: Rate) -> u64 {
        let usual = burst(rate, self.full_packet());
        self.burst.map_or(usual, |burst| if rate == self.rate { burst.0 } else { usual.min(burst.0) })
    }
}

/// A queue that the kernel cannot have.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}: {error} (at {rate} and MTU {mtu})", .queue.name())]
pub struct TreeError {
    /// Which.
    pub queue: QueueChoice,
    /// What is wrong with it.
    pub error: LeafError,
    /// Its share of the rate.
    pub rate: Rate,
    /// The MTU of the interface, in bytes.
    pub mtu: u32,
}

impl From<TreeError> for SetupError {
    fn from(TreeError { queue, error, rate, mtu }: TreeError) -> Self {
        Self::Queue { queue: queue.name(), error, rate, mtu }
    }
}

/// A class of HTB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// As `tc` writes it: `57e1:ffff`.
    id: &'static str,
    parent: &'static str,
    /// What it is sure of.
    pub rate: Rate,
    /// What it may have in all.
    pub ceil: Rate,
    /// What it may send at once at its rate and at its ceiling, in wire bytes.
    pub burst: [u64; 2],
    /// Which of the classes that borrow goes first: the smaller. `None` for all alike.
    prio: Option<u8>,
    quantum: u64,
}

impl fmt::Display for Class {
    /// The words behind `dev DEVICE`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, parent, rate, ceil, burst: [burst, cburst], prio, quantum } = self;
        let (rate, ceil) = (rate.bits_per_sec(), ceil.bits_per_sec());
        write!(f, "parent {parent} classid {id} htb")?;
        if let Some(prio) = prio {
            write!(f, " prio {prio}")?;
        }
        write!(f, " rate {rate}bit ceil {ceil}bit burst {burst}b cburst {cburst}b quantum {quantum}")
    }
}

/// A class with its queue.
#[derive(Clone, Debug, PartialEq)]
pub struct Branch<'a> {
    /// Whose packets come here.
    pub choice: QueueChoice,
    /// The class.
    pub class: Class,
    /// The queue under it.
    pub queue: Queue<'a>,
    /// What the queue has when all are busy.
    pub share: Rate,
    handle: u32,
    /// The queue in `tc`'s words, its kind first.
    pub words: String,
}

impl Branch<'_> {
    /// Its queue's handle as `tc` writes it, `57e3:`.
    #[must_use]
    pub fn handle_text(&self) -> String {
        format!("{:x}:", self.handle >> 16)
    }

    fn queue_line(&self, device: &str) -> String {
        format!("dev {device} parent {} handle {} {}", self.class.id, self.handle_text(), self.words)
    }
}

/// The tree, complete.
#[derive(Clone, Debug, PartialEq)]
pub struct Tree<'a> {
    mtu: u32,
    overhead: u32,
    /// The link's own class; none where a single queue is right under the root.
    link: Option<Class>,
    /// Responsive first: the default class comes last, and until it is there HTB lets everything pass unshaped.
    branches: Vec<Branch<'a>>,
}

impl<'a> Tree<'a> {
    /// The tree of a shape.
    ///
    /// # Errors
    /// Names a queue that the kernel cannot have at its share of the rate and with this MTU.
    pub fn of(shape: &Shape<'a>) -> Result<Self, TreeError> {
        let mut tree = Self { mtu: shape.mtu, overhead: shape.overhead, link: None, branches: Vec::new() };
        let (rate, whole) = (shape.rate, shape.burst_of(shape.rate));
        let class = Class {
            id: "57e1:ffff",
            parent: "57e1:",
            rate,
            ceil: rate,
            burst: [whole; 2],
            prio: None,
            quantum: LARGEST_QUANTUM,
        };
        match shape.branches {
            Branches::One(queue) => {
                let class = Class { id: "57e1:2", ..class };
                tree.branches.push(branch(shape, QueueChoice::Standard, class, queue, rate)?);
            }
            Branches::Two { queues, sharing, split, least_burst } => {
                let strict = sharing == Sharing::StrictPriority;
                let shares = shape.shares();
                let own = shape.assured();
                let turns = quanta(own, shape.full_packet());
                tree.link = Some(class);
                for (at, choice, id) in
                    [(1, QueueChoice::Responsive, "57e1:1"), (0, QueueChoice::Standard, "57e1:2")]
                {
                    let ceil = if split == SplitKind::Hard { own[at] } else { rate };
                    let class = Class {
                        id,
                        parent: "57e1:ffff",
                        rate: own[at],
                        ceil,
                        burst: [own[at], ceil].map(|rate| match split {
                            SplitKind::Hard => shape.burst_of(rate).max(least_burst),
                            SplitKind::Shared => shape.burst_of(rate),
                        }),
                        prio: strict.then_some(u8::from(choice == QueueChoice::Standard)),
                        quantum: turns[at],
                    };
                    tree.branches.push(branch(shape, choice, class, queues[at], shares[at])?);
                }
            }
        }
        Ok(tree)
    }

    /// The queues with their classes, in the order in which they are made.
    #[must_use]
    pub fn branches(&self) -> &[Branch<'a>] {
        &self.branches
    }

    /// The class of the link; none where a single queue has it to itself.
    #[must_use]
    pub const fn link(&self) -> Option<&Class> {
        self.link.as_ref()
    }

    /// The lines for `tc -batch` that make it on a device without a qdisc of its own.
    #[must_use]
    pub fn lines(&self, device: &str) -> Vec<String> {
        let mut lines = vec![self.root_line(device, "add")];
        lines.extend(self.link.iter().map(|link| format!("class add dev {device} {link}")));
        for branch in &self.branches {
            lines.push(format!("class add dev {device} {}", branch.class));
            lines.push(format!("qdisc add {}", branch.queue_line(device)));
        }
        lines
    }

    /// `stab` adds the overhead before HTB and its leaves see a packet's length (net/sched/sch_api.c,
    /// `__qdisc_calculate_pkt_len`); `overhead` of an HTB class would not reach the leaves.
    fn root_line(&self, device: &str, verb: &str) -> String {
        let stab = match self.overhead {
            0 => String::new(),
            overhead => format!("stab overhead {overhead} linklayer ethernet "),
        };
        format!("qdisc {verb} dev {device} root handle 57e1: {stab}htb default 2")
    }
}

fn branch<'a>(
    shape: &Shape<'a>,
    choice: QueueChoice,
    class: Class,
    queue: Queue<'a>,
    share: Rate,
) -> Result<Branch<'a>, TreeError> {
    let failed = |error| TreeError { queue: choice, error, rate: share, mtu: shape.mtu };
    let words = queue.words(&shape.context(share)).map_err(failed)?;
    let handle = if choice == QueueChoice::Standard { STANDARD_HANDLE } else { RESPONSIVE_HANDLE };
    Ok(Branch { choice, class, queue, share, handle, words })
}

#[cfg(test)]
mod tests;
