//! Who else is at the ingress of an interface, and what becomes of him where Weir shapes what it receives.
//!
//! A packet passes XDP, TCX programs, filters of `tc` and chains of nftables, in this order. Weir takes it behind the
//! last filter (see `mirred`) and gives it back, by way of the IFB device, behind all of them. So XDP, TCX and
//! filters keep what they have, unless they take the packet away from Weir; chains of nftables would see nothing any
//! more.

use super::attach::Side;
use super::filters::Filter;
use super::hooks::Hooks;
use super::nft::{self, Hooked};
use super::qdisc::{self, LinkState};
use super::sys;
use super::up::UpError;

/// The others.
#[derive(Clone, Debug, Default)]
pub(super) struct Others {
    device: String,
    filters: Vec<Filter>,
    /// Programs at TCX, by their numbers.
    programs: Vec<u32>,
    chains: Vec<Hooked>,
    flowtables: Vec<Hooked>,
    generic_xdp: bool,
}

impl Others {
    /// Looks for them at an interface; `hooks` are what Weir may have there. Of what the caller may not ask for,
    /// nothing is said.
    pub(super) fn at(link: &LinkState, hooks: &[Hooks]) -> Self {
        let mut filters = Filter::at(link.index, Side::Ingress).unwrap_or_default();
        filters.retain(|filter| !filter.is_ours());
        let ours: Vec<u32> = hooks.iter().flat_map(Hooks::links).map(|(_, number)| number).collect();
        let attached = sys::tcx_programs(link.index, Side::Ingress).unwrap_or_default();
        Self {
            device: link.name.clone(),
            filters,
            programs: attached
                .into_iter()
                .filter(|(_, link)| !ours.contains(link))
                .map(|(id, _)| id)
                .collect(),
            chains: nft::chains(&link.name),
            flowtables: nft::flowtables(&link.name),
            generic_xdp: link.generic_xdp,
        }
    }

    /// Why Weir cannot shape here what is received.
    pub(super) fn refusal(&self) -> Option<UpError> {
        let device = self.device.clone();
        if !self.chains.is_empty() {
            return Some(UpError::Bypassed { device, chains: list(&self.chains) });
        }
        let (shaper, to) = self.shaper()?;
        Some(UpError::Redirected { device, kind: shaper.kind.clone(), priority: shaper.priority, to })
    }

    /// The same of who came after Weir, in words.
    pub(super) fn fault(&self) -> Option<String> {
        let device = &self.device;
        if !self.chains.is_empty() {
            let chains = list(&self.chains);
            return Some(format!(
                "chains of nftables at the ingress of {device} ({chains}) see nothing of what is shaped"
            ));
        }
        let (Filter { kind, priority, .. }, to) = self.shaper()?;
        Some(format!(
            "a filter at the ingress of {device} ({kind} prio {priority}) sends packets to {to} before Weir sees them"
        ))
    }

    /// The first filter that redirects, and the device it redirects to.
    fn shaper(&self) -> Option<(&Filter, String)> {
        let shaper = self.filters.iter().find(|filter| filter.redirects_to.is_some())?;
        let links = qdisc::links().unwrap_or_default();
        let to = links.into_iter().find(|link| Some(link.index) == shaper.redirects_to).map(|link| link.name);
        Some((shaper, to.unwrap_or_else(|| "a device that is gone".to_owned())))
    }

    /// What may surprise.
    pub(super) fn warnings(&self) -> Vec<String> {
        let device = &self.device;
        let mut warnings = Vec::new();
        let hiding: Vec<&Filter> = self.filters.iter().filter(|filter| filter.hides()).collect();
        if !hiding.is_empty() {
            warnings.push(format!(
                "filters at the ingress of {device} see packets before Weir ({}): what they end with ok, pass or pipe is not \
                 shaped; what they end with continue is",
                list(&hiding)
            ));
        }
        if !self.programs.is_empty() {
            warnings.push(format!(
                "programs at the ingress of {device} see packets before Weir (TCX, program {}): what they accept for good, \
                 with TCX_PASS in place of TCX_NEXT, is not shaped",
                list(&self.programs)
            ));
        }
        if !self.flowtables.is_empty() {
            warnings.push(format!(
                "the flow table {} has no part in what {device} receives while Weir shapes it: forwarded packets take the \
                 ordinary way",
                list(&self.flowtables)
            ));
        }
        if self.generic_xdp {
            warnings.push(format!(
                "the XDP program of {device} is attached in generic mode and sees each packet twice while Weir shapes what \
                 {device} receives; attach it in the driver's mode (`ip link set dev {device} xdpdrv ...`)"
            ));
        }
        warnings
    }
}

pub(super) fn list<T: ToString>(all: &[T]) -> String {
    all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
