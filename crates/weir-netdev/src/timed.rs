//! Whether the interface towards a host can let packets go at times that they carry (`SO_TXTIME`, socket(7)): its qdisc,
//! or every qdisc below its `mq`, is `fq` (`net/sched/sch_fq.c`) or `etf` (`net/sched/sch_etf.c`).

use std::io;
use std::net::IpAddr;

use weir_core::Duration;

use crate::netlink::{NLM_F_DUMP, Netlink, RTM_GETQDISC, RTM_GETROUTE, attributes, put, text_of, u32_at};

/// `TC_H_ROOT` (linux/pkt_sched.h).
const ROOT: u32 = 0xffff_ffff;
/// Attributes of a route and of a qdisc (linux/rtnetlink.h), and of `etf` (linux/pkt_sched.h).
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_ETF_PARMS: u16 = 1;
/// `TC_ETF_DEADLINE_MODE_ON`, `TC_ETF_OFFLOAD_ON`.
const DEADLINE: u32 = 1;
const OFFLOAD: u32 = 2;
const RTMSG: usize = 12;
const TCMSG: usize = 20;

/// A qdisc that heeds times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timed {
    /// `fq`: by `CLOCK_MONOTONIC`; packets without a time go as they come.
    Fq,
    /// `etf`: by `CLOCK_TAI`. It drops packets without a time, and those whose time has passed.
    Etf(Etf),
}

/// How an `etf` is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Etf {
    /// So long before its time a packet goes on to the interface.
    pub delta: Duration,
    /// Times are the latest, and packets go as soon as they can.
    pub deadline: bool,
    /// The interface itself holds packets back until their times.
    pub offload: bool,
}

/// A qdisc of an interface, as far as it counts here.
struct Qdisc {
    handle: u32,
    parent: u32,
    kind: String,
    timed: Option<Timed>,
}

/// What lets packets to `remote` go at their times; none if nothing does. Looks in the network namespace of the calling
/// thread.
///
/// # Errors
/// If the kernel knows no route, or does not answer.
pub fn towards(remote: IpAddr) -> io::Result<Option<Timed>> {
    let mut netlink = Netlink::open()?;
    let Some(index) = interface_towards(&mut netlink, remote)? else { return Ok(None) };
    let mut message = vec![0; TCMSG];
    message[4..8].copy_from_slice(&index.to_ne_bytes());
    let answers = netlink.ask(RTM_GETQDISC, NLM_F_DUMP, &message)?;
    let own = answers.iter().filter(|answer| u32_at(answer, 4) == index).map(|answer| read(answer));
    Ok(choose(&own.collect::<Vec<_>>()))
}

fn interface_towards(netlink: &mut Netlink, remote: IpAddr) -> io::Result<Option<u32>> {
    let (family, bytes) = match remote.to_canonical() {
        IpAddr::V4(v4) => (libc::AF_INET, v4.octets().to_vec()),
        IpAddr::V6(v6) => (libc::AF_INET6, v6.octets().to_vec()),
    };
    let mut message = vec![0; RTMSG];
    (message[0], message[1]) = (family as u8, bytes.len() as u8 * 8);
    put(&mut message, RTA_DST, &bytes);
    let answers = netlink.ask(RTM_GETROUTE, 0, &message)?;
    let mut found = answers.iter().flat_map(|answer| attributes(answer.get(RTMSG..).unwrap_or_default()));
    Ok(found.find(|(kind, _)| *kind == RTA_OIF).map(|(_, value)| u32_at(value, 0)))
}

fn read(answer: &[u8]) -> Qdisc {
    let (mut kind, mut options) = (String::new(), &[][..]);
    for (attribute, value) in attributes(answer.get(TCMSG..).unwrap_or_default()) {
        match attribute {
            TCA_KIND => kind = text_of(value),
            TCA_OPTIONS => options = value,
            _ => {}
        }
    }
    let etf = || {
        let (_, value) = attributes(options).find(|(attribute, _)| *attribute == TCA_ETF_PARMS)?;
        let flags = u32_at(value, 8);
        let delta = Duration::from_nanos(u64::try_from(u32_at(value, 0) as i32).unwrap_or(0));
        Some(Timed::Etf(Etf { delta, deadline: flags & DEADLINE != 0, offload: flags & OFFLOAD != 0 }))
    };
    let timed = match kind.as_str() {
        "fq" => Some(Timed::Fq),
        "etf" => etf(),
        _ => None,
    };
    Qdisc { handle: u32_at(answer, 8), parent: u32_at(answer, 12), kind, timed }
}

/// What the qdiscs of an interface do together: of those below `mq` each packet may come to any.
fn choose(qdiscs: &[Qdisc]) -> Option<Timed> {
    let root = qdiscs.iter().find(|qdisc| qdisc.parent == ROOT)?;
    if root.kind != "mq" {
        return root.timed;
    }
    let is_below = |qdisc: &&Qdisc| qdisc.parent != ROOT && qdisc.parent >> 16 == root.handle >> 16;
    let mut below = qdiscs.iter().filter(is_below).map(|qdisc| qdisc.timed);
    let first = below.next()??;
    below.all(|timed| timed == Some(first)).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::{Etf, Qdisc, ROOT, Timed, choose, put, read, towards};
    use weir_core::Duration;

    fn qdisc(handle: u32, parent: u32, kind: &str, timed: Option<Timed>) -> Qdisc {
        Qdisc { handle, parent, kind: kind.to_owned(), timed }
    }

    #[test]
    fn below_mq_all_must_be_alike() {
        let fq = Some(Timed::Fq);
        assert_eq!(choose(&[qdisc(1 << 16, ROOT, "fq", fq)]), fq);
        assert_eq!(choose(&[]), None);
        let mq = |second| {
            let below = |place: u32, timed| qdisc(0, (1 << 16) | place, "", timed);
            choose(&[below(1, fq), below(2, second), qdisc(1 << 16, ROOT, "mq", None)])
        };
        assert_eq!([mq(fq), mq(None)], [fq, None]);
    }

    #[test]
    fn etf_tells_how_it_is_set() {
        let mut answer = vec![0; super::TCMSG];
        answer[12..16].copy_from_slice(&ROOT.to_ne_bytes());
        put(&mut answer, super::TCA_KIND, b"etf\0");
        let mut options = Vec::new();
        let parameters: Vec<u8> = [300_000_u32, 11, 3].iter().flat_map(|word| word.to_ne_bytes()).collect();
        put(&mut options, super::TCA_ETF_PARMS, &parameters);
        put(&mut answer, super::TCA_OPTIONS, &options);
        let etf = Etf { delta: Duration::from_micros(300), deadline: true, offload: true };
        assert_eq!(choose(&[read(&answer)]), Some(Timed::Etf(etf)));
    }

    #[test]
    fn the_loopback_interface_heeds_no_times() {
        assert_eq!(towards("127.0.0.1".parse().unwrap()).unwrap(), None);
    }
}
