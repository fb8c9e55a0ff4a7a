//! The chains and flow tables of nftables at the ingress of an interface (linux/netfilter/nf_tables.h).
//!
//! The kernel asks them behind everything of `tc` (`__netif_receive_skb_core`, net/core/dev.c), and what comes out of
//! an IFB device passes them by: the device marks its packets so that neither `tc` nor they see them a second time
//! (`ifb_ri_tasklet`, drivers/net/ifb.c).

use std::fmt;
use std::io;

use weir_netdev::netlink::{NLM_F_DUMP, Netlink, attributes, text_of};

/// `NFNL_SUBSYS_NFTABLES` in the upper byte, `NFT_MSG_GETCHAIN` and `NFT_MSG_GETFLOWTABLE`.
const GET_CHAIN: u16 = 10 << 8 | 4;
const GET_FLOWTABLE: u16 = 10 << 8 | 23;
/// `struct nfgenmsg`: family, version, resource.
const NFGENMSG: usize = 4;
/// `NFPROTO_INET`, `NFPROTO_NETDEV`.
const INET: u8 = 1;
const NETDEV: u8 = 5;
/// `NF_NETDEV_INGRESS`, `NF_INET_INGRESS`.
const NETDEV_INGRESS: u32 = 0;
const INET_INGRESS: u32 = 5;
/// `NFTA_CHAIN_TABLE`, `.._NAME`, `.._HOOK`; those of a flow table.
const CHAIN: [u16; 3] = [1, 3, 4];
const FLOWTABLE: [u16; 3] = [1, 2, 3];
/// `NFTA_HOOK_HOOKNUM`, `NFTA_HOOK_DEV`, and `NFTA_HOOK_DEVS`, which a flow table has in another place.
const HOOK_NUMBER: u16 = 1;
const HOOK_DEVICE: u16 = 3;
const CHAIN_DEVICES: u16 = 4;
const FLOWTABLE_DEVICES: u16 = 3;
/// `NFTA_DEVICE_PREFIX`: the beginning of names (Linux 6.18). Before it they end with an asterisk.
const DEVICE_PREFIX: u16 = 2;

/// Something of nftables that hears what an interface receives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hooked {
    /// `netdev` or `inet`.
    family: &'static str,
    table: String,
    name: String,
}

impl fmt::Display for Hooked {
    /// As `nft list chain` takes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.family, self.table, self.name)
    }
}

/// The chains that see what `device` receives. None where the kernel has no nftables or does not report them.
pub(super) fn chains(device: &str) -> Vec<Hooked> {
    read(GET_CHAIN, CHAIN, device).unwrap_or_default()
}

/// The flow tables, which take packets of known flows by a shorter way.
pub(super) fn flowtables(device: &str) -> Vec<Hooked> {
    read(GET_FLOWTABLE, FLOWTABLE, device).unwrap_or_default()
}

fn read(kind: u16, places: [u16; 3], device: &str) -> io::Result<Vec<Hooked>> {
    let answers = Netlink::open_netfilter()?.ask(kind, NLM_F_DUMP, &[0; NFGENMSG])?;
    let of_chains = kind == GET_CHAIN;
    Ok(answers.iter().filter_map(|message| hooked(message, places, of_chains, device)).collect())
}

fn hooked(message: &[u8], [table, name, hook]: [u16; 3], is_chain: bool, device: &str) -> Option<Hooked> {
    let body = message.get(NFGENMSG..)?;
    let within = |wanted| attributes(body).find(|(kind, _)| *kind == wanted).map(|(_, value)| value);
    let (mut number, mut here) = (None, false);
    for (kind, value) in attributes(within(hook)?) {
        match kind {
            HOOK_NUMBER => number = value.try_into().ok().map(u32::from_be_bytes),
            HOOK_DEVICE if is_chain => here |= text_of(value) == device,
            CHAIN_DEVICES if is_chain => here |= names(value, device),
            FLOWTABLE_DEVICES if !is_chain => here |= names(value, device),
            _ => {}
        }
    }
    // A flow table is at the ingress, whatever its family.
    let family = match (message[0], number) {
        (NETDEV, Some(NETDEV_INGRESS)) => "netdev",
        (INET, Some(INET_INGRESS)) => "inet",
        (INET, _) if !is_chain => "inet",
        (NETDEV, _) | (INET, _) => return None,
        _ if is_chain => return None,
        (2, _) => "ip",
        _ => "ip6",
    };
    here.then_some(Hooked { family, table: text_of(within(table)?), name: text_of(within(name)?) })
}

/// Whether a list of devices has this one.
fn names(list: &[u8], device: &str) -> bool {
    attributes(list).any(|(kind, name)| {
        let name = text_of(name);
        match name.strip_suffix('*') {
            Some(begin) => device.starts_with(begin),
            None if kind == DEVICE_PREFIX => device.starts_with(&name),
            None => device == name,
        }
    })
}
