//! The path's delay: each packet waits once on its way to the queue, and each answer once before the law sees it.
//!
//! With netem the packets of a side wait in an IFB device that the side's ingress is redirected to. A kernel without
//! netem, or flows of different round-trip times, take the delay lines of the user-space bottleneck instead: packets
//! make a detour through a namespace where a [`weir_link::Link`] without rate, queue or law holds them. Either way a
//! packet comes back to the bottleneck's own routing, so TTL, queue and law see the same as without delay.
//!
//! ```text
//! server0 - toserver =ingress=> indelay0 - delay0 [Link] delay1 - indelay1 =routed=> toclient [HTB] - client0
//! server0 - toserver <=routed= indelay0 - delay0 [Link] delay1 - indelay1 <=ingress= toclient - client0
//! ```

use std::path::Path;
use std::time::Instant;

use weir_core::{Bytes, Duration, Rate};
use weir_link::{LinkConfig, PipelineConfig, Unobserved};
use weir_netdev::offload::{self, OffloadGuard, Role};
use weir_qdisc::Pfifo;

use super::{KernelWorldError, counters};
use crate::link_thread::{RunningLink, frames, step};
use crate::real::delays;
use crate::run::{RunError, RunOptions};
use weir_scenario::Scenario;
use weir_testbed::host::{Namespace, Topology};
use weir_testbed::interfaces::{InterfacesError, WAITING};

/// Ends of the detour in the bottleneck, on the server's and on the client's side.
const INNER: [&str; 2] = ["indelay0", "indelay1"];
/// Their peers, where the delay lines are.
const OUTER: [&str; 2] = ["delay0", "delay1"];
/// Faster than any link here: the delay lines must not shape.
const UNSHAPED: Rate = Rate::from_bits_per_sec(1_000_000_000_000);

/// What delays packets.
pub(super) enum Delays {
    /// Nothing: the round-trip time is that of the hosts.
    None,
    /// netem.
    Netem,
    /// Delay lines in user space.
    User(Box<UserDelays>),
}

/// The detour.
pub(super) struct UserDelays {
    link: RunningLink,
    _namespace: Namespace,
    _offloads: Vec<OffloadGuard>,
}

impl Delays {
    /// Sets up what `scenario` needs.
    pub(super) fn build(
        scenario: &Scenario,
        topology: &Topology,
        options: &RunOptions,
    ) -> Result<Self, RunError> {
        let rtt = scenario.bottleneck.rtt;
        let own: Vec<Duration> = scenario.flows.iter().filter_map(|flow| flow.rtt).collect();
        if rtt == Duration::ZERO && own.iter().all(|own| *own == rtt) {
            return Ok(Self::None);
        }
        if own.iter().all(|own| *own == rtt)
            && counters::missing(&[("netem", "netem".to_owned())])?.is_empty()
        {
            netem(scenario, topology)?;
            return Ok(Self::Netem);
        }
        if scenario.bottleneck.super_packets {
            let message = "its delay lines hold single frames only: give all flows one rtt, and a kernel that has \
                           netem (--on vm), or rtt = 0";
            let key = "bottleneck.super_packets".to_owned();
            return Err(KernelWorldError::Cannot { key, message: message.to_owned() }.into());
        }
        UserDelays::build(scenario, topology, options).map(|user| Self::User(Box::new(user)))
    }

    /// Lets packets through; `start` is time zero.
    pub(super) fn begin_at(&mut self, start: Instant) {
        if let Self::User(user) = self {
            user.link.begin_at(start);
        }
    }

    /// How packets are delayed, in a few words.
    pub(super) fn describe(&self) -> &'static str {
        match self {
            Self::None => "no delay",
            Self::Netem => "delays by netem",
            Self::User(_) => "delays in user space",
        }
    }

    /// Whether the delay lines have failed.
    pub(super) fn is_finished(&self) -> bool {
        matches!(self, Self::User(user) if user.link.is_finished())
    }

    /// Ends the delay lines; what they held is gone. Their report, if there is one.
    pub(super) fn stop(self) -> Result<Option<weir_link::RunReport>, RunError> {
        match self {
            Self::User(user) => Ok(Some(user.link.stop()?.report)),
            Self::None | Self::Netem => Ok(None),
        }
    }
}

/// Forward and reverse delay of a scenario whose flows have the same.
fn split(scenario: &Scenario) -> [Duration; 2] {
    let behind = scenario.bottleneck.rtt.scale(scenario.bottleneck.position);
    [scenario.bottleneck.rtt - behind, behind]
}

fn redirect(from: &str, to: &str) -> [String; 2] {
    [
        format!("qdisc add dev {from} clsact"),
        format!(
            "filter add dev {from} ingress pref 1 protocol all u32 match u32 0 0 action mirred egress redirect dev {to}"
        ),
    ]
}

fn netem(scenario: &Scenario, topology: &Topology) -> Result<(), RunError> {
    let sides = [&topology.bottleneck_server_iface, &topology.bottleneck_client_iface];
    for ((side, ifb), delay) in sides.into_iter().zip(INNER).zip(split(scenario)) {
        topology.bottleneck.ip(&[
            format!("link add {ifb} numtxqueues 1 numrxqueues 1 type ifb"),
            format!("link set {ifb} up"),
        ])?;
        let micros = delay.as_nanos() as f64 / 1e3;
        let limit = frames(scenario);
        topology
            .bottleneck
            .tc(&[format!("qdisc add dev {ifb} root netem delay {micros}us limit {limit}")])?;
        topology.bottleneck.tc(&redirect(side, ifb))?;
    }
    Ok(())
}

impl UserDelays {
    fn build(scenario: &Scenario, topology: &Topology, options: &RunOptions) -> Result<Self, RunError> {
        let namespace = Namespace::create("delay")?;
        if Path::new("/proc/sys/net/ipv6").exists() {
            // An interface that comes up with IPv6 speaks unasked.
            namespace.sysctl("net.ipv6.conf.default.disable_ipv6", "1")?;
        }
        let far = namespace.path();
        let mtu = topology.spec().mtu;
        let sides = [&topology.bottleneck_server_iface, &topology.bottleneck_client_iface];
        let mut lines = Vec::new();
        for (inner, outer) in INNER.into_iter().zip(OUTER) {
            lines.push(format!(
                "link add {inner} mtu {mtu} numtxqueues 1 numrxqueues 1 type veth peer name {outer} mtu {mtu} \
                 numtxqueues 1 numrxqueues 1 netns {far}"
            ));
        }
        topology.bottleneck.ip(&lines)?;
        // A packet comes back on the other side of the detour, where its Ethernet address must be known as one's own.
        let [server, client] = topology.bottleneck_macs();
        topology.bottleneck.ip(&[
            format!("link set {} address {server} up", INNER[1]),
            format!("link set {} address {client} up", INNER[0]),
        ])?;
        namespace.ip(&OUTER.map(|outer| format!("link set {outer} up")))?;
        let mut offloads = Vec::new();
        for (side, inner) in sides.into_iter().zip(INNER) {
            topology.bottleneck.tc(&redirect(side, inner))?;
            // A veth without a qdisc drops when the ring at its far end is full; with one it waits.
            topology.bottleneck.tc(&[format!("qdisc add dev {inner} root pfifo limit {WAITING}")])?;
            offloads.push(without_merging(&topology.bottleneck, inner)?);
        }
        for outer in OUTER {
            offloads.push(without_merging(&namespace, outer)?);
        }
        let config = LinkConfig {
            io: options.io,
            share: Some(options.share),
            step: step(scenario),
            frames: frames(scenario),
            ..LinkConfig::between(OUTER[0], OUTER[1])
        };
        let pipeline = PipelineConfig {
            rate: UNSHAPED,
            burst: Some(Bytes(1 << 40)),
            overhead: 0,
            law: None,
            delays: delays(scenario, &scenario.expanded_flows()),
            frames: config.frames,
        };
        let queue = Box::new(Pfifo::new(config.frames));
        let link = RunningLink::prepare(&namespace, config, pipeline, queue, Box::new(Unobserved))?;
        Ok(Self { link, _namespace: namespace, _offloads: offloads })
    }
}

fn without_merging(namespace: &Namespace, interface: &str) -> Result<OffloadGuard, RunError> {
    let prepared = namespace.enter(|| offload::prepare(interface, Role::Bottleneck))?;
    Ok(prepared.map_err(InterfacesError::from)?)
}
