//! Which of the kernel's drop reasons are a queue discipline's doing, by name.
//!
//! The numbers move between versions, the names hardly: they are looked up in the running kernel's own type
//! information. What counts as a loss that the queue gave:
//!
//! | names | since | who says so |
//! |---|---|---|
//! | `SKB_DROP_REASON_QDISC_*` | 5.17 | `qdisc_drop` of any discipline; 6.14 distinguishes limits from AQM; `QDISC_BURST_DROP` of 7.0 is the queue in front of the lock |
//! | `SKB_DROP_REASON_CAKE_FLOOD`, `FQ_BAND_LIMIT`, `FQ_HORIZON_LIMIT`, `FQ_FLOW_LIMIT` | 6.14 | CAKE, FQ |
//! | `SKB_DROP_REASON_DUALPI2_STEP_DROP` | 6.17 | DualPI2 |
//! | `QDISC_DROP_*` of `enum qdisc_drop_reason` | 7.1 | all disciplines, as a subsystem of their own (`include/net/dropreason-qdisc.h`) |
//! | `SKB_DROP_REASON_NOT_SPECIFIED` | before 6.14 | CoDel, FQ-CoDel (`drop_func` in `net/sched/sch_codel.c`) and CAKE on dequeue |
//! | the same, from `__tcf_kfree_skb_list` | 7.0 | `tbf` for segments of super-packets that it has cut up (`bpf/crq_signals.bpf.c`) |
//!
//! `NOT_SPECIFIED` is no reason at all: everything that frees without one has it, such as TCP where a packet meets a
//! connection that this host has ended (`tcp_v6_rcv`), or a driver that ends a transmission by `dev_kfree_skb_any`
//! instead of `dev_consume_skb_any`: the tracepoint hears of the one, not of the other. It counts from that function,
//! and besides only where the kernel has no `QDISC_CONGESTED`, by which these three disciplines drop since they name
//! reasons, and only if one of them is there; and then, as all reasons, only for packets of the queue's device whose
//! priority is a class of Weir's. On such kernels packets that are thrown away with their queue (when it is deleted or
//! the interface goes down) are counted as well; `down` takes the programs off before it deletes queues.

use std::ffi::OsStr;

use libbpf_rs::btf::{Btf, types};

use super::error::KernelError;

/// Core reasons besides those that begin with [`CORE_PREFIX`].
const CORE_NAMES: &[&str] = &[
    "SKB_DROP_REASON_CAKE_FLOOD",
    "SKB_DROP_REASON_FQ_BAND_LIMIT",
    "SKB_DROP_REASON_FQ_HORIZON_LIMIT",
    "SKB_DROP_REASON_FQ_FLOW_LIMIT",
    "SKB_DROP_REASON_DUALPI2_STEP_DROP",
];

const CORE_PREFIX: &str = "SKB_DROP_REASON_QDISC_";

/// Reasons of the queue disciplines' own subsystem.
const SUBSYSTEM_PREFIX: &str = "QDISC_DROP_";

/// Members of that enum that no packet is dropped with.
const SUBSYSTEM_BOUNDS: &[&str] = &["QDISC_DROP_UNSPEC", "QDISC_DROP_MAX"];

const UNSPECIFIED: &str = "SKB_DROP_REASON_NOT_SPECIFIED";
/// Came with the reasons of all disciplines that drop what they dequeue.
const CONGESTED: &str = "SKB_DROP_REASON_QDISC_CONGESTED";

/// A subsystem's number stands in the upper half (`SKB_DROP_REASON_SUBSYS_SHIFT`, `include/net/dropreason.h`).
const SUBSYSTEM_SHIFT: u32 = 16;

/// The drop reasons of the running kernel that count as losses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reasons {
    /// Name and number of each.
    pub names: Vec<(String, u32)>,
    /// Whether drops on dequeue carry no reason in this kernel, so that packets without one count.
    pub unspecified: bool,
}

/// The members of an enum and their values.
pub(super) fn members(btf: &Btf<'_>, name: &str) -> Vec<(String, u32)> {
    let text = |name: &OsStr| name.to_string_lossy().into_owned();
    btf.type_by_name::<types::Enum<'_>>(name).map_or_else(Vec::new, |list| {
        list.iter()
            .filter_map(|member| Some((text(member.name?), u32::try_from(member.value).ok()?)))
            .collect()
    })
}

impl Reasons {
    /// Those of the running kernel.
    ///
    /// # Errors
    /// [`KernelError::NoBtf`] without type information, [`KernelError::NoTracepoint`] where packets are dropped without
    /// reasons (before Linux 5.17).
    pub fn of_this_kernel() -> Result<Self, KernelError> {
        Self::of(&Btf::from_vmlinux().map_err(|_| KernelError::NoBtf)?)
    }

    /// Those of a kernel by its type information.
    ///
    /// # Errors
    /// [`KernelError::NoTracepoint`] where it has no drop reasons.
    pub fn of(btf: &Btf<'_>) -> Result<Self, KernelError> {
        let core = members(btf, "skb_drop_reason");
        if !core.iter().any(|(name, _)| name.starts_with(CORE_PREFIX)) {
            return Err(KernelError::NoTracepoint { name: "skb:kfree_skb", since: "Linux 5.17" });
        }
        let subsystem = members(btf, "qdisc_drop_reason");
        let unspecified = !core.iter().any(|(name, _)| name == CONGESTED) && subsystem.is_empty();
        let counts = |name: &str| {
            name.starts_with(CORE_PREFIX)
                || CORE_NAMES.contains(&name)
                || (unspecified && name == UNSPECIFIED)
        };
        let counts_there =
            |name: &str| name.starts_with(SUBSYSTEM_PREFIX) && !SUBSYSTEM_BOUNDS.contains(&name);
        let names = core
            .into_iter()
            .filter(|(name, _)| counts(name))
            .chain(subsystem.into_iter().filter(|(name, _)| counts_there(name)))
            .collect();
        Ok(Self { names, unspecified })
    }

    /// The same where no queue drops what it dequeues, so that no packet without a reason is a loss.
    #[must_use]
    pub fn without_dequeue(mut self) -> Self {
        self.names.retain(|(name, _)| name != UNSPECIFIED);
        Self { unspecified: false, ..self }
    }

    /// As the programs read it: a flag per core reason, the subsystem's number, a flag per reason of it.
    pub(super) fn tables(&self) -> ([u8; 256], u32, [u8; 64]) {
        let (mut core, mut subsystem, mut own) = ([0; 256], u32::MAX, [0; 64]);
        for &(_, number) in &self.names {
            let (upper, lower) = (number >> SUBSYSTEM_SHIFT, number & 0xffff);
            let slot = if upper == 0 {
                core.get_mut(lower as usize)
            } else {
                subsystem = upper;
                own.get_mut(lower as usize)
            };
            if let Some(slot) = slot {
                *slot = 1;
            }
        }
        (core, subsystem, own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_hold_each_reason_once() {
        let names = [("A", 2), ("B", 255), ("C", 3 << 16 | 1), ("D", 3 << 16 | 63)];
        let names = names.map(|(name, number)| (name.to_owned(), number)).to_vec();
        let (core, subsystem, own) = Reasons { names, unspecified: false }.tables();
        let set = |table: &[u8]| table.iter().enumerate().filter(|(_, flag)| **flag == 1).count();
        assert_eq!((core[2], core[255], set(&core)), (1, 1, 2));
        assert_eq!((subsystem, own[1], own[63], set(&own)), (3, 1, 1, 2));
    }

    /// Reads the type information of other kernels too:
    /// `WEIR_BTF=a,b cargo test -p weirnet-kernel reasons -- --nocapture`.
    #[test]
    fn this_kernel_names_the_drops_of_a_queue() {
        let files = std::env::var("WEIR_BTF").unwrap_or_else(|_| "/sys/kernel/btf/vmlinux".to_owned());
        for file in files.split(',') {
            let Ok(btf) = Btf::from_path(file) else {
                weir_testkit::skip::skip("btf", file);
                continue;
            };
            let reasons = Reasons::of(&btf).expect("drop reasons");
            println!("{file}: {reasons:?}");
            let number =
                |name: &str| reasons.names.iter().find(|(known, _)| known == name).map(|(_, at)| *at);
            let generic = number("SKB_DROP_REASON_QDISC_DROP").expect("the generic reason");
            assert!(generic > 2 && generic < 256);
            assert_eq!(number("SKB_DROP_REASON_NOT_SPECIFIED").is_some(), reasons.unspecified);
            let named = number(CONGESTED).or(number("QDISC_DROP_CONGESTED")).is_some();
            assert_ne!(reasons.unspecified, named, "whoever drops what he dequeues says so, or nobody does");
            let without = reasons.clone().without_dequeue();
            assert!(!without.unspecified && !without.names.iter().any(|(name, _)| name == UNSPECIFIED));
            assert_eq!(without.names.len() + usize::from(reasons.unspecified), reasons.names.len());
            assert_eq!(number("SKB_DROP_REASON_TC_EGRESS"), None);
            assert_eq!(number("QDISC_DROP_MAX"), None);
        }
    }
}
