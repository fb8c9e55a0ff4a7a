//! Hands received packets to another device: a `u32` filter of clsact that matches all, with the action `mirred`.
//!
//! It has the last of all priorities. Whoever else is at the ingress, by TCX or as a filter, sees a packet first,
//! also if he comes later: a program at TCX would be in front of every filter, and behind it no one sees the packet
//! again, since what leaves an IFB device is not classified a second time (`ifb_ri_tasklet`, drivers/net/ifb.c).
//!
//! A program could not do it everywhere. An IFB device takes only packets that carry the kernel's mark of a
//! redirection (`ifb_xmit`), which bpf_redirect does not set before Linux 6.6 (seen on 6.1), and bpf_redirect takes
//! no packet without an Ethernet header to a device that has one. `mirred` does both.

use std::io;

use super::attach::Side;
use super::filters::{Filter, INGRESS, U32_NODE};
use super::program::Role;
use weir_netdev::netlink::{NLM_F_CREATE, NLM_F_EXCL, Netlink, RTM_DELTFILTER, RTM_NEWTFILTER, put};

/// `ETH_P_ALL`.
const ALL: u16 = 3;
/// The last of its priority: filters of a table are asked by their numbers.
const NODE: u32 = U32_NODE;
/// Attributes of a filter (linux/rtnetlink.h, linux/pkt_cls.h, linux/tc_act/tc_mirred.h).
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_U32_SEL: u16 = 5;
const TCA_U32_ACT: u16 = 7;
const TCA_U32_FLAGS: u16 = 11;
const TCA_ACT_KIND: u16 = 1;
const TCA_ACT_OPTIONS: u16 = 2;
const TCA_MIRRED_PARMS: u16 = 2;
/// The only action of the filter.
const FIRST: u16 = 1;
/// The IFB device is the kernel's own: a card could not send there.
const TCA_CLS_FLAGS_SKIP_HW: u32 = 1;
const TC_ACT_STOLEN: u32 = 4;
const TCA_EGRESS_REDIR: u32 = 1;
/// `struct tc_u32_sel` with one key that compares nothing: terminal, and in the third byte the number of keys.
const MATCHES_ALL: [u8; 32] = {
    let mut selector = [0; 32];
    selector[0] = 1;
    selector[2] = 1;
    selector
};

/// The same as a line of `tc`, without the verb: which filter.
fn place(device: &str) -> String {
    format!("dev {device} ingress prio {}", Role::Redirect.filter_priority())
}

/// The line of `tc` that does what [`add`] does.
pub(super) fn add_line(device: &str, to: &str) -> String {
    format!(
        "tc filter add {} handle ::{NODE:x} protocol all u32 match u32 0 0 skip_hw action mirred egress redirect dev {to}",
        place(device)
    )
}

/// The line of `tc` that does what [`remove`] does.
pub(super) fn remove_line(device: &str) -> String {
    format!("tc filter del {} protocol all u32", place(device))
}

/// `struct tcmsg` and the filter's kind: what the kernel finds it by.
fn message(index: u32, priority: u16, kind: &str, handle: u32) -> Vec<u8> {
    let info = u32::from(priority) << 16 | u32::from(ALL.to_be());
    let mut message: Vec<u8> =
        [0, index, handle, INGRESS, info].into_iter().flat_map(u32::to_ne_bytes).collect();
    put(&mut message, TCA_KIND, &[kind.as_bytes(), &[0]].concat());
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
        (TCA_U32_SEL, MATCHES_ALL.to_vec()),
        (TCA_U32_ACT, nest(&[(FIRST, nest(&action))])),
        (TCA_U32_FLAGS, TCA_CLS_FLAGS_SKIP_HW.to_ne_bytes().to_vec()),
    ];
    let mut message = message(index, Role::Redirect.filter_priority() as u16, "u32", NODE);
    put(&mut message, TCA_OPTIONS, &nest(&options));
    Netlink::open()?.ask(RTM_NEWTFILTER, NLM_F_CREATE | NLM_F_EXCL, &message).map(drop)
}

/// The filters of an interface that redirect for Weir.
fn present(index: u32) -> io::Result<Vec<Filter>> {
    let all = Filter::at(index, Side::Ingress)?;
    Ok(all.into_iter().filter(|filter| filter.is_ours() && filter.redirects_to.is_some()).collect())
}

/// Where the filter of an interface sends packets, if it has one; zero if that device is gone, where it drops them.
pub(super) fn target(index: u32) -> Option<u32> {
    present(index).ok()?.first()?.redirects_to
}

/// Takes the filter off.
pub(super) fn remove(index: u32) -> io::Result<()> {
    let all = Filter::at(index, Side::Ingress)?;
    for ours in present(index)? {
        // With the last of its filters a hash table goes only if it is said so: a handle of zero is the whole priority.
        let alone = all.iter().filter(|filter| filter.priority == ours.priority).count() == 1;
        let handle = if alone { 0 } else { ours.handle };
        let message = message(index, ours.priority, &ours.kind, handle);
        Netlink::open()?.ask(RTM_DELTFILTER, 0, &message)?;
    }
    Ok(())
}
