//! The filters at a side of an interface's `clsact`, as the kernel reports them. They see a packet by ascending priority,
//! behind all TCX programs; the first that matches and does not say `continue` ends it (net/sched/cls_api.c,
//! `__tcf_classify`).

use std::fmt;
use std::io;

use super::attach::{FILTER_HANDLE, Side};
use super::program::Role;
use weir_netdev::netlink::{NLM_F_DUMP, Netlink, RTM_GETTFILTER, attributes, text_of, u32_at};

/// `TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_INGRESS)`; the qdisc `ingress` takes it for its only side.
pub(super) const INGRESS: u32 = 0xffff_fff2;
/// `TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_EGRESS)`.
const EGRESS: u32 = 0xffff_fff3;
/// `struct tcmsg` (linux/rtnetlink.h).
const TCMSG: usize = 20;
/// Attributes of a filter (linux/rtnetlink.h) and of an action (linux/pkt_cls.h).
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_ACT_KIND: u16 = 1;
const TCA_ACT_OPTIONS: u16 = 2;
/// `TCA_GACT_PARMS` and `TCA_MIRRED_PARMS`: a `tc_gen`, behind it in `mirred` what is done and where.
const PARAMETERS: u16 = 2;
const CONTROL: usize = 8;
const MIRRED_WHAT: usize = 20;
const MIRRED_TARGET: usize = 24;
/// `TCA_EGRESS_REDIR`, `TCA_INGRESS_REDIR` (linux/tc_act/tc_mirred.h).
const REDIRECTIONS: [u32; 2] = [1, 3];
/// `TC_ACT_UNSPEC` (`continue`), `TC_ACT_SHOT`, `TC_ACT_STOLEN`, `TC_ACT_TRAP`: the next filter sees the packet, or
/// nobody.
const HIDES_NOTHING: [u32; 4] = [u32::MAX, 2, 4, 8];
/// In which attribute each kind has its actions (linux/pkt_cls.h).
const ACTIONS: [(&str, u16); 9] = [
    ("u32", 7),
    ("matchall", 2),
    ("flower", 3),
    ("bpf", 1),
    ("basic", 3),
    ("fw", 4),
    ("route", 6),
    ("flow", 9),
    ("cgroup", 1),
];
/// The part of a u32 filter's handle that distinguishes it from others of its hash table. Tables themselves have zero
/// there.
pub(super) const U32_NODE: u32 = 0xfff;

/// A filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Filter {
    pub(super) priority: u16,
    pub(super) kind: String,
    pub(super) handle: u32,
    /// The interface that it redirects to; zero if that is gone, where it drops.
    pub(super) redirects_to: Option<u32>,
    /// Whether it may let a packet pass and yet keep it from later filters.
    pub(super) may_hide: bool,
}

impl Filter {
    /// Those at a side of an interface, in the order in which they see a packet. The qdisc `ingress` names those of its
    /// only side for either.
    pub(super) fn at(index: u32, side: Side) -> io::Result<Vec<Self>> {
        let parent = if side == Side::Ingress { INGRESS } else { EGRESS };
        let request: Vec<u8> = [0, index, 0, parent, 0].into_iter().flat_map(u32::to_ne_bytes).collect();
        let answers = Netlink::open()?.ask(RTM_GETTFILTER, NLM_F_DUMP, &request)?;
        let mut filters: Vec<Self> = answers.iter().filter_map(|message| Self::parse(message)).collect();
        filters.sort_by_key(|filter| filter.priority);
        Ok(filters)
    }

    /// `None` for what only holds filters together: a priority, a hash table.
    fn parse(message: &[u8]) -> Option<Self> {
        let handle = u32_at(message, 8);
        let mut filter = Self {
            priority: (u32_at(message, 16) >> 16) as u16,
            kind: String::new(),
            handle,
            redirects_to: None,
            may_hide: true,
        };
        let mut options: &[u8] = &[];
        for (kind, value) in attributes(message.get(TCMSG..)?) {
            match kind {
                TCA_KIND => filter.kind = text_of(value),
                TCA_OPTIONS => options = value,
                _ => {}
            }
        }
        if handle == 0 || filter.kind == "u32" && handle & U32_NODE == 0 {
            return None;
        }
        let place = ACTIONS.iter().find(|(kind, _)| *kind == filter.kind).map(|(_, place)| *place);
        let actions = place.and_then(|place| attributes(options).find(|(kind, _)| *kind == place));
        for (_, action) in actions.into_iter().flat_map(|(_, actions)| attributes(actions)) {
            filter.add(action);
        }
        Some(filter)
    }

    /// One of its actions, in their order: what the last one says counts.
    fn add(&mut self, action: &[u8]) {
        let within =
            |bytes, wanted| attributes(bytes).find(|(kind, _)| *kind == wanted).map(|(_, value)| value);
        let kind = within(action, TCA_ACT_KIND).map(text_of).unwrap_or_default();
        let parameters = within(action, TCA_ACT_OPTIONS).and_then(|options| within(options, PARAMETERS));
        self.may_hide = true;
        let Some(parameters) = parameters.filter(|_| kind == "gact" || kind == "mirred") else { return };
        self.may_hide = !HIDES_NOTHING.contains(&u32_at(parameters, CONTROL));
        if kind == "mirred" && REDIRECTIONS.contains(&u32_at(parameters, MIRRED_WHAT)) {
            self.redirects_to = Some(u32_at(parameters, MIRRED_TARGET));
        }
    }

    /// Whether packets that it lets pass go on, but not to later filters.
    pub(super) fn hides(&self) -> bool {
        self.may_hide && self.redirects_to.is_none()
    }

    /// Whether it is one of Weir's.
    pub(super) fn is_ours(&self) -> bool {
        match self.kind.as_str() {
            "u32" => {
                u32::from(self.priority) == Role::Redirect.filter_priority()
                    && self.handle & U32_NODE == U32_NODE
                    && self.redirects_to.is_some()
            }
            _ => self.handle == FILTER_HANDLE,
        }
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} prio {}", self.kind, self.priority)
    }
}
