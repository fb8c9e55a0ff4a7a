//! Hands received packets to another device without a program: a `matchall` filter of clsact with the action `mirred`.
//!
//! An IFB device takes only packets that carry the kernel's mark of a redirection (`ifb_xmit`, drivers/net/ifb.c). On
//! kernels without TCX, bpf_redirect does not set it (seen on Linux 6.1), so that the device drops every packet that the
//! program `redirect` sends there; `mirred` sets it on all.

use std::io;

use super::attach::FILTER_HANDLE;
use super::netlink::{
    NLM_F_CREATE, NLM_F_EXCL, Netlink, RTM_DELTFILTER, RTM_GETTFILTER, RTM_NEWTFILTER, attributes, put,
    u32_at,
};
use super::program::Role;

/// `TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_INGRESS)`.
const INGRESS: u32 = 0xffff_fff2;
/// `ETH_P_ALL`.
const ALL: u16 = 3;
const TCMSG: usize = 20;
/// Attributes of a filter (linux/rtnetlink.h, linux/pkt_cls.h, linux/tc_act/tc_mirred.h).
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_MATCHALL_ACT: u16 = 2;
const TCA_MATCHALL_FLAGS: u16 = 3;
const TCA_ACT_KIND: u16 = 1;
const TCA_ACT_OPTIONS: u16 = 2;
const TCA_MIRRED_PARMS: u16 = 2;
/// The only action of the filter.
const FIRST: u16 = 1;
/// The IFB device is the kernel's own: a card could not send there.
const TCA_CLS_FLAGS_SKIP_HW: u32 = 1;
const TC_ACT_STOLEN: u32 = 4;
const TCA_EGRESS_REDIR: u32 = 1;
/// `ifindex` in `struct tc_mirred`.
const TARGET: usize = 24;

/// The same as a line of `tc`, without the verb: which filter.
fn place(device: &str) -> String {
    let priority = Role::Redirect.filter_priority();
    format!("dev {device} ingress prio {priority} handle {FILTER_HANDLE:#x} protocol all matchall")
}

/// The line of `tc` that does what [`add`] does.
pub(super) fn add_line(device: &str, to: &str) -> String {
    format!("tc filter add {} skip_hw action mirred egress redirect dev {to}", place(device))
}

/// The line of `tc` that does what [`remove`] does.
pub(super) fn remove_line(device: &str) -> String {
    format!("tc filter del {}", place(device))
}

/// `struct tcmsg` and the filter's kind: what the kernel finds it by.
fn message(index: u32) -> Vec<u8> {
    let info = Role::Redirect.filter_priority() << 16 | u32::from(ALL.to_be());
    let mut message: Vec<u8> =
        [0, index, FILTER_HANDLE, INGRESS, info].into_iter().flat_map(u32::to_ne_bytes).collect();
    put(&mut message, TCA_KIND, b"matchall\0");
    message
}

fn nest(parts: &[(u16, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    parts.iter().for_each(|(kind, value)| put(&mut bytes, *kind, value));
    bytes
}

/// Sends all that interface `index` receives through device `to`. Its clsact is there already.
pub(super) fn add(index: u32, to: u32) -> io::Result<()> {
    // Index, capabilities, what becomes of the packet, two counts, how it is redirected, and where.
    let words = [0, 0, TC_ACT_STOLEN, 0, 0, TCA_EGRESS_REDIR, to];
    let parameters: Vec<u8> = words.into_iter().flat_map(u32::to_ne_bytes).collect();
    let action =
        [(TCA_ACT_KIND, b"mirred\0".to_vec()), (TCA_ACT_OPTIONS, nest(&[(TCA_MIRRED_PARMS, parameters)]))];
    let options = [
        (TCA_MATCHALL_ACT, nest(&[(FIRST, nest(&action))])),
        (TCA_MATCHALL_FLAGS, TCA_CLS_FLAGS_SKIP_HW.to_ne_bytes().to_vec()),
    ];
    let mut message = message(index);
    put(&mut message, TCA_OPTIONS, &nest(&options));
    Netlink::open()?.ask(RTM_NEWTFILTER, NLM_F_CREATE | NLM_F_EXCL, &message).map(drop)
}

/// Where the filter of an interface sends packets, if it has one; zero if that device is gone, where it drops them.
pub(super) fn target(index: u32) -> Option<u32> {
    let answers = Netlink::open().ok()?.ask(RTM_GETTFILTER, 0, &message(index)).ok()?;
    let mut value = answers.first()?.get(TCMSG..)?;
    for kind in [TCA_OPTIONS, TCA_MATCHALL_ACT, FIRST, TCA_ACT_OPTIONS, TCA_MIRRED_PARMS] {
        (_, value) = attributes(value).find(|(found, _)| *found == kind)?;
    }
    (value.len() >= TARGET + 4).then(|| u32_at(value, TARGET))
}

/// Takes the filter off.
pub(super) fn remove(index: u32) -> io::Result<()> {
    Netlink::open()?.ask(RTM_DELTFILTER, 0, &message(index)).map(drop)
}
