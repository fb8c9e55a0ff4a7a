//! What is on an interface: the link itself, its qdiscs, and whether others use its `clsact`. A classless qdisc is kept
//! as the kernel gave it, byte for byte, and put back so; `tc` prints no line from which every option could be set
//! again.

use std::io;

use serde::{Deserialize, Serialize};

use weir_netdev::netlink::{
    NLM_F_CREATE, NLM_F_DUMP, NLM_F_REPLACE, Netlink, RTM_GETLINK, RTM_GETQDISC, RTM_GETTFILTER,
    RTM_NEWQDISC, attributes, put, text_of, u16_at, u32_at,
};

/// `TC_H_ROOT`.
const ROOT: u32 = 0xffff_ffff;
/// `TC_H_CLSACT`, the same as `TC_H_INGRESS`.
const CLSACT: u32 = 0xffff_fff1;
/// Where `clsact` keeps the filters of each direction: `TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_INGRESS)` and `..EGRESS`.
const CLSACT_SIDES: [u32; 2] = [0xffff_fff2, 0xffff_fff3];
/// Attributes of a qdisc (linux/rtnetlink.h).
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_STAB: u16 = 8;
const TCA_INGRESS_BLOCK: u16 = 13;
/// Attributes of a link (linux/if_link.h).
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_MASTER: u16 = 10;
const IFLA_TXQLEN: u16 = 13;
const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_GSO_MAX_SIZE: u16 = 41;
const IFLA_XDP: u16 = 43;
const IFLA_XDP_ATTACHED: u16 = 2;
/// `XDP_ATTACHED_SKB`, `XDP_ATTACHED_MULTI`: in generic mode, and perhaps in others too.
const XDP_GENERIC: [u8; 2] = [2, 4];
const IFLA_GRO_MAX_SIZE: u16 = 58;
/// `target`, `interval` and `ce_threshold` of both (linux/pkt_sched.h).
const TCA_CODEL_TIMES: [u16; 3] = [1, 3, 5];
const TCA_FQ_CODEL_TIMES: [u16; 3] = [1, 3, 7];
const NLA_F_NESTED: u16 = 0x8000;
const TCMSG: usize = 20;
const IFINFOMSG: usize = 16;
/// Of the flags of a link (linux/if.h).
const IFF_UP: u32 = 1;
/// `ARPHRD_ETHER` and `ARPHRD_LOOPBACK` (linux/if_arp.h): links whose packets have an Ethernet header.
const ETHERNET: [u16; 2] = [1, 772];
/// `ARPHRD_PPP`, `RAWIP`, `TUNNEL`, `TUNNEL6`, `SIT`, `IPGRE`, `IP6GRE`, `NONE` (tun, WireGuard): links whose packets
/// begin with an IP header.
const IP: [u16; 8] = [512, 519, 768, 769, 776, 778, 823, 0xfffe];

/// Classless kinds whose dumped options are all that made them. RED and its kin do not give back their table, netem not
/// its distribution.
const RESTORABLE: &[&str] = &[
    "pfifo",
    "bfifo",
    "pfifo_head_drop",
    "pfifo_fast",
    "fq",
    "fq_codel",
    "codel",
    "sfq",
    "cake",
    "pie",
    "fq_pie",
    "hhf",
    "noqueue",
];

/// A qdisc as the kernel reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Qdisc {
    /// Its kind.
    pub kind: String,
    /// Its handle; zero for those that the kernel attaches by itself.
    pub handle: u32,
    /// Where it stands: a class, or the root.
    pub parent: u32,
    /// Whether it has a size table, which the kernel does not give back.
    pub sized: bool,
    /// The block of filters that it has in common with other interfaces for what is received, by its number.
    #[serde(default)]
    pub shared_block: Option<u32>,
    /// Its options, as they came.
    #[serde(with = "hex")]
    pub options: Option<Vec<u8>>,
}

impl Qdisc {
    /// The handle as `tc` writes it.
    pub fn handle_text(&self) -> String {
        format!("{:x}:", self.handle >> 16)
    }

    /// Whether the kernel attached it by itself, and will again.
    pub fn is_default(&self) -> bool {
        self.handle == 0
    }

    /// Whether it can be put back as it was.
    pub fn is_restorable(&self) -> bool {
        RESTORABLE.contains(&self.kind.as_str()) && !self.sized
    }

    fn parse(message: &[u8]) -> Option<(u32, Self)> {
        let body = message.get(TCMSG..)?;
        let mut qdisc = Self {
            kind: String::new(),
            handle: u32_at(message, 8),
            parent: u32_at(message, 12),
            sized: false,
            shared_block: None,
            options: None,
        };
        for (kind, value) in attributes(body) {
            match kind {
                TCA_KIND => qdisc.kind = text_of(value),
                TCA_OPTIONS => qdisc.options = Some(value.to_vec()),
                TCA_STAB => qdisc.sized = true,
                TCA_INGRESS_BLOCK => qdisc.shared_block = Some(u32_at(value, 0)),
                _ => {}
            }
        }
        Some((u32_at(message, 4), qdisc))
    }
}

/// What stands on one interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Qdiscs(Vec<Qdisc>);

impl Qdiscs {
    /// Reads them.
    pub(super) fn read(index: u32) -> io::Result<Self> {
        let answers = Netlink::open()?.ask(RTM_GETQDISC, NLM_F_DUMP, &tcmsg(index, 0, 0))?;
        let all = answers.iter().filter_map(|message| Qdisc::parse(message));
        Ok(Self(all.filter(|(of, _)| *of == index).map(|(_, qdisc)| qdisc).collect()))
    }

    /// The root qdiscs of all interfaces of the calling thread's namespace, by interface.
    pub(super) fn roots() -> io::Result<Vec<(u32, Qdisc)>> {
        let answers = Netlink::open()?.ask(RTM_GETQDISC, NLM_F_DUMP, &tcmsg(0, 0, 0))?;
        let all = answers.iter().filter_map(|message| Qdisc::parse(message));
        Ok(all.filter(|(_, qdisc)| qdisc.parent == ROOT).collect())
    }

    /// The one that everything sent goes through.
    pub(super) fn root(&self) -> Option<&Qdisc> {
        self.0.iter().find(|qdisc| qdisc.parent == ROOT)
    }

    /// The one with a handle.
    pub(super) fn with_handle(&self, handle: u32) -> Option<&Qdisc> {
        self.0.iter().find(|qdisc| qdisc.handle == handle)
    }

    /// Whether one stands under a class of `handle`.
    pub(super) fn has_children(&self, handle: u32) -> bool {
        self.0.iter().any(|qdisc| qdisc.parent != ROOT && qdisc.parent & 0xffff_0000 == handle)
    }

    /// `clsact` or `ingress`.
    pub(super) fn ingress(&self) -> Option<&Qdisc> {
        self.0.iter().find(|qdisc| qdisc.parent == CLSACT)
    }
}

#[cfg(test)]
impl FromIterator<Qdisc> for Qdiscs {
    fn from_iter<T: IntoIterator<Item = Qdisc>>(qdiscs: T) -> Self {
        Self(qdiscs.into_iter().collect())
    }
}

/// Whether `clsact` holds a filter of anybody.
pub(super) fn has_filters(index: u32) -> io::Result<bool> {
    for side in CLSACT_SIDES {
        let mut netlink = Netlink::open()?;
        if !netlink.ask(RTM_GETTFILTER, NLM_F_DUMP, &tcmsg(index, 0, side))?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Puts a qdisc back as the root, as it was, in one step.
pub(super) fn restore_root(index: u32, qdisc: &Qdisc) -> io::Result<()> {
    let mut message = tcmsg(index, qdisc.handle, ROOT);
    let kind: Vec<u8> = qdisc.kind.bytes().chain([0]).collect();
    put(&mut message, TCA_KIND, &kind);
    if let Some(options) = &qdisc.options {
        let is_struct =
            ["pfifo", "bfifo", "pfifo_head_drop", "pfifo_fast", "sfq"].contains(&qdisc.kind.as_str());
        match is_struct {
            true => put(&mut message, TCA_OPTIONS, options),
            // Some kinds insist on the flag, none minds it.
            false => put(&mut message, TCA_OPTIONS | NLA_F_NESTED, &settable(&qdisc.kind, options)),
        }
    }
    Netlink::open()?.ask(RTM_NEWQDISC, NLM_F_CREATE | NLM_F_REPLACE, &message).map(drop)
}

/// Options as they have to be set so that the kernel reports them as it did. CoDel keeps times in units of 1024 ns and
/// rounds down both when it is given microseconds and when it reports them (include/net/codel.h): set to what it
/// reports, its times get shorter.
fn settable(kind: &str, options: &[u8]) -> Vec<u8> {
    let times: &[u16] = match kind {
        "codel" => &TCA_CODEL_TIMES,
        "fq_codel" => &TCA_FQ_CODEL_TIMES,
        _ => return options.to_vec(),
    };
    let mut out = Vec::with_capacity(options.len());
    for (option, value) in attributes(options) {
        match times.contains(&option) && value.len() == 4 {
            true => put(&mut out, option, &settable_time(u32_at(value, 0)).to_ne_bytes()),
            false => put(&mut out, option, value),
        }
    }
    out
}

/// The fewest microseconds that CoDel, once set to them, reports as `told`.
fn settable_time(told: u32) -> u32 {
    let ticks = (u64::from(told) * 1000).div_ceil(1024);
    u32::try_from((ticks * 1024).div_ceil(1000)).unwrap_or(told)
}

/// `struct tcmsg` (linux/rtnetlink.h).
fn tcmsg(index: u32, handle: u32, parent: u32) -> Vec<u8> {
    [0, index, handle, parent, 0].into_iter().flat_map(u32::to_ne_bytes).collect()
}

/// An interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LinkState {
    pub(super) name: String,
    pub(super) index: u32,
    /// Whether it is set up (`IFF_UP`), whatever its peer is.
    pub(super) is_up: bool,
    /// Whether its packets begin with an Ethernet header.
    pub(super) ethernet: bool,
    /// Whether they begin with an IP header.
    pub(super) ip: bool,
    /// The bridge, or another device, that it is a port of; zero if it is of none.
    pub(super) master: u32,
    /// Whether an XDP program is attached to it in generic mode.
    pub(super) generic_xdp: bool,
    pub(super) mtu: u32,
    /// Packets that its default qdisc would hold.
    pub(super) txqueuelen: u32,
    /// Its kind if it is a virtual one: `ifb`, `veth` ...
    pub(super) kind: String,
    /// Bytes of the largest packet that GSO may hand to it, segmented only behind its queue.
    pub(super) gso_max: u32,
    /// Bytes of the largest packet that GRO may make of what it receives.
    pub(super) gro_max: u32,
}

/// What GSO and GRO make at most where the kernel does not report it (GSO_LEGACY_MAX_SIZE).
const LEGACY_MAX: u32 = 65_536;

/// All interfaces of the namespace of the calling thread.
pub(super) fn links() -> io::Result<Vec<LinkState>> {
    let answers = Netlink::open()?.ask(RTM_GETLINK, NLM_F_DUMP, &[0; IFINFOMSG])?;
    Ok(answers.iter().filter_map(|message| link(message)).collect())
}

fn link(message: &[u8]) -> Option<LinkState> {
    let body = message.get(IFINFOMSG..)?;
    let mut state = LinkState {
        name: String::new(),
        index: u32_at(message, 4),
        is_up: u32_at(message, 8) & IFF_UP != 0,
        ethernet: ETHERNET.contains(&u16_at(message, 2)),
        ip: IP.contains(&u16_at(message, 2)),
        master: 0,
        generic_xdp: false,
        mtu: 0,
        txqueuelen: 0,
        kind: String::new(),
        gso_max: LEGACY_MAX,
        gro_max: LEGACY_MAX,
    };
    for (kind, value) in attributes(body) {
        match kind {
            IFLA_IFNAME => state.name = text_of(value),
            IFLA_MASTER => state.master = u32_at(value, 0),
            IFLA_XDP => {
                let mode = attributes(value).find(|(kind, _)| *kind == IFLA_XDP_ATTACHED);
                state.generic_xdp =
                    mode.is_some_and(|(_, mode)| mode.first().is_some_and(|mode| XDP_GENERIC.contains(mode)));
            }
            IFLA_MTU => state.mtu = u32_at(value, 0),
            IFLA_TXQLEN => state.txqueuelen = u32_at(value, 0),
            IFLA_GSO_MAX_SIZE => state.gso_max = u32_at(value, 0),
            IFLA_GRO_MAX_SIZE => state.gro_max = u32_at(value, 0),
            IFLA_LINKINFO => {
                let name = attributes(value).find(|(kind, _)| *kind == IFLA_INFO_KIND);
                state.kind = name.map(|(_, name)| text_of(name)).unwrap_or_default();
            }
            _ => {}
        }
    }
    Some(state)
}

/// Bytes as text in the journal.
mod hex {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &Option<Vec<u8>>, to: S) -> Result<S::Ok, S::Error> {
        match bytes {
            Some(bytes) => {
                to.serialize_some(&bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
            }
            None => to.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<u8>>, D::Error> {
        let Some(text) = Option::<String>::deserialize(from)? else { return Ok(None) };
        let pair = |at: usize| text.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
        let bytes: Option<Vec<u8>> = (0..text.len()).step_by(2).map(pair).collect();
        bytes.map(Some).ok_or_else(|| serde::de::Error::custom("not bytes as hexadecimal digits"))
    }
}

#[cfg(test)]
mod tests {
    use super::{Qdisc, links, settable_time};

    #[test]
    fn loopback_is_read() {
        let links = links().unwrap();
        let lo = links.iter().find(|link| link.index == 1).unwrap();
        assert_eq!((lo.name.as_str(), lo.ethernet, lo.mtu), ("lo", true, 65536));
        // As `ip -d link` prints them.
        assert_eq!((lo.gso_max, lo.gro_max), (65536, 65536));
    }

    #[test]
    fn codel_is_told_what_it_will_tell() {
        // As the kernel rounds: MS2TIME and codel_time_to_us.
        let keeps = |told: u32| (u64::from(told) * 1000) >> 10;
        let tells = |ticks: u64| ((ticks << 10) / 1000) as u32;
        for asked in [1, 2, 100, 999, 1000, 3000, 4999, 5000, 20_000, 99_999, 100_000, 10_000_000] {
            let told = tells(keeps(asked));
            assert_eq!(tells(keeps(settable_time(told))), told, "{asked}");
        }
    }

    #[test]
    fn a_qdisc_survives_the_journal() {
        for options in [None, Some(vec![]), Some(vec![0, 1, 0xab, 0xff])] {
            let qdisc = Qdisc {
                kind: "pfifo".into(),
                handle: 0x8001_0000,
                parent: u32::MAX,
                sized: false,
                shared_block: None,
                options,
            };
            let text = serde_json::to_string(&qdisc).unwrap();
            assert_eq!(serde_json::from_str::<Qdisc>(&text).unwrap(), qdisc, "{text}");
        }
        assert!(
            serde_json::from_str::<Qdisc>(
                r#"{"kind":"x","handle":1,"parent":2,"sized":false,"options":"0g"}"#
            )
            .is_err()
        );
    }
}
