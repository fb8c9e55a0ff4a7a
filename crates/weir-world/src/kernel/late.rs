//! Wake-ups of the kernel's `tbf` that come as late as a scenario's `late` says: `bpf/late.bpf.c`, held by file
//! descriptors of this process alone.

use std::mem::MaybeUninit;

use libbpf_rs::Link;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use weir_core::Duration;
use weir_qdisc::config::{CrqKeys, QdiscConfig, TbfKeys};

use super::KernelWorldError;
use weir_scenario::Scenario;

#[allow(missing_docs, unreachable_pub, dead_code, unsafe_op_in_unsafe_fn, clippy::all)]
#[allow(clippy::undocumented_unsafe_blocks)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/late.skel.rs"));
}

/// The longest: the processor does nothing else meanwhile.
const LONGEST: Duration = Duration::from_micros(100);

/// What makes wake-ups late, until it is dropped.
pub(super) struct Late {
    _link: Link,
}

/// How late the scenario's `tbf` is to be woken, zero if nothing is said.
///
/// # Errors
/// [`KernelWorldError::Cannot`] for times that differ or are too long.
pub(super) fn asked(scenario: &Scenario) -> Result<Duration, KernelWorldError> {
    let cannot = |message: &str| KernelWorldError::Cannot {
        key: "bottleneck.qdisc.late".to_owned(),
        message: message.to_owned(),
    };
    let of = |queue: &QdiscConfig| match queue {
        QdiscConfig::Tbf(keys) => Some(keys.late),
        _ => None,
    };
    let (one, other) = match &scenario.bottleneck.qdisc {
        QdiscConfig::Crq(keys) => (of(&keys.standard), of(&keys.responsive)),
        queue => (of(queue), None),
    };
    let late = one.or(other).unwrap_or_default();
    if other.is_some_and(|other| other != late) {
        return Err(cannot("both queues are woken by one machine; give the same time, or use --on sim"));
    }
    if late > LONGEST {
        let message = format!(
            "the processor does nothing meanwhile, so {LONGEST} is the longest here; or use --on sim"
        );
        return Err(cannot(&message));
    }
    Ok(late)
}

/// The queue without that time, of which the kernel's `tbf` knows nothing.
pub(super) fn without(queue: &QdiscConfig) -> QdiscConfig {
    match queue {
        QdiscConfig::Tbf(keys) => QdiscConfig::Tbf(TbfKeys { late: Duration::ZERO, ..keys.clone() }),
        QdiscConfig::Crq(keys) => QdiscConfig::Crq(Box::new(CrqKeys {
            standard: without(&keys.standard),
            responsive: without(&keys.responsive),
            ..(**keys).clone()
        })),
        other => other.clone(),
    }
}

impl Late {
    /// Begins, for the `tbf` of a device, by its number and the inode of its network namespace; nothing to be done if
    /// `late` is zero.
    pub(super) fn start(
        late: Duration,
        device: u32,
        namespace: u32,
    ) -> Result<Option<Self>, KernelWorldError> {
        if late == Duration::ZERO {
            return Ok(None);
        }
        let failed = |what: &'static str| {
            move |error: libbpf_rs::Error| KernelWorldError::Late { what, message: format!("{error:#}") }
        };
        let mut storage = MaybeUninit::uninit();
        let mut open =
            skeleton::LateSkelBuilder::default().open(&mut storage).map_err(failed("be opened"))?;
        if let Some(constants) = open.maps.rodata_data.as_deref_mut() {
            constants.device = device;
            constants.net_inode = namespace;
            constants.late_ns = late.as_nanos();
        }
        let skeleton = open.load().map_err(failed("be loaded"))?;
        let link = skeleton.progs.expired.attach().map_err(failed("be attached"))?;
        Ok(Some(Self { _link: link }))
    }
}
