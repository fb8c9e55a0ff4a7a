//! Flows of a scenario.

use serde::{Deserialize, Serialize};
use weir_core::{Bytes, Duration, Ecn, Rate};
use weir_sim::{EndOptions, LARGEST_GSO};
use weir_testbed::traffic::{self, Stack};

use crate::Refusal;
use crate::key::{Table, keys, plain};

keys! {
    /// One flow, or `count` alike.
    pub struct Flow;
    /// An endless flow without a controller and with all defaults.
    pub fn of(stack: Stack);

    /// What tables call it. A second `[[flow]]` of the same name gets ` #2`, a third ` #3`...
    #[serde(default)]
    name: String = String::new() => Key::of("text").usual("stack and controller, such as `TCP cubic`");

    /// The kernel's TCP; QUIC version 1 in user space, which spins (RFC 9000 section 17.4); datagrams at a constant
    /// rate.
    stack: Stack = stack => Key::of("`tcp`, `quic`, `udp`").required();

    /// Congestion control. TCP has `reno`, `cubic`, `bbr`, `dctcp` and `prague`, as far as the kernel has them
    /// (`weir doctor` lists them), and `weir-dctcp`, which is [Weir's by eBPF](cc/dctcp.md#over-the-kernels-tcp); so is
    /// `dctcp` where the kernel has none. QUIC has noq's `newreno` (or `reno`), `cubic` and `bbr3` (or `bbr`), and
    /// [all of Weir's](cc/README.md#over-real-quic), such as `copa` or `weir-cubic`. World `sim` has all of
    /// [cc](cc/README.md) for TCP and QUIC.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    controller: String = String::new() => Key::of("name").usual("required; not for UDP");

    /// The host at the server's end. Flows of the same name are at the same host, others at others, with an IP address
    /// of their own; at most 250. Matters to disciplines that share by host ([cake](qdisc/cake.md)).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    server: String = String::new() => Key::of("text").usual("all flows share one");

    /// The host at the client's end, as `server`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    client: String = String::new() => Key::of("text").usual("all flows share one");

    /// The links that it goes over, in the direction to the client ([paths.md](paths.md)).
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<Vec<String>> = None => Key::of("names of links").usual("`[\"bottleneck\"]`").sim();

    /// `down`: server to client, through the queue. `up`: client to server; only its acknowledgements pass the queue,
    /// and **its data meets no rate limit** but that of a `reverse`.
    #[serde(default)]
    direction: Direction = Direction::default() => Key::of("`down`, `up`").usual("`down`");

    /// `two-way`: the receiver sends back half of what it reads ("(b)" in the CRQ paper). TCP only.
    #[serde(default)]
    pattern: Pattern = Pattern::default() => Key::of("`one-way`, `two-way`").usual("`one-way`");

    /// Payload to transfer. With UDP in whole datagrams of 1472 bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<Bytes> = None => Key::of("size").least(1).because(" byte");

    /// How long it sends. Ignored where `bytes` is given. Such a flow has no completion time.
    #[serde(skip_serializing_if = "Option::is_none")]
    duration: Option<Duration> = None => Key::of("time").above(0);

    /// When it sets out, from the start of the run.
    #[serde(default)]
    start: Duration = Duration::ZERO => Key::of("time").usual("`0`");

    /// It sets out up to so much later than `start`, by a time that it draws evenly, each of `count` for itself. The
    /// draws follow from seed and run ([repeating a run](../model/worlds.md#repeating-a-run)).
    #[serde(skip_serializing_if = "Option::is_none")]
    start_spread: Option<Duration> = None => Key::of("time").above(0);

    /// TCP negotiates ECN; QUIC and UDP send ECT(0). Controllers that need it (`dctcp`, `prague`, `bbr3-ecn` and their
    /// like) use it anyway, `prague` with ECT(1). A TCP flow whose connection does not come out as asked for ends with
    /// an error.
    #[serde(default)]
    ecn: bool = false => Key::of("true or false").usual("false");

    /// The codepoint that a box on the path gives its packets before the first link: bleached ECN, or a sender that
    /// takes the L4S queue without answering to its marks. What its ends have negotiated stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    remark: Option<Remark> = None => Key::of("`not-ect`, `ect0`, `ect1`").sim();

    /// Its own round-trip time without queues.
    #[serde(skip_serializing_if = "Option::is_none")]
    rtt: Option<Duration> = None => Key::of("time").usual("`bottleneck.rtt`").delay();

    /// Of UDP, in wire bits: datagrams of 1514 wire bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<Rate> = None => Key::of("rate above 0").usual("required for UDP, not for others");

    /// Its datagrams do not come evenly: those of each interval of this length go together when it begins, as
    /// `iperf3` sends them (`--pacing-timer`, 1 ms by default). In `sim` they go at the bottleneck's rate, on real packets
    /// as fast as the host sends.
    #[serde(skip_serializing_if = "Option::is_none")]
    bursts: Option<Duration> = None => Key::of("time").above(0).udp();

    /// What the receiver's window lets be in flight at most, of each direction of a two-way flow. On real packets it is
    /// the `SO_RCVBUF` of both ends, of which the kernel allots twice as much and offers about half.
    #[serde(skip_serializing_if = "Option::is_none")]
    receive_window: Option<Bytes> = None
        => Key::of("size").within(SMALLEST_WINDOW, LARGEST_WINDOW).because(" bytes").usual("more than is needed").tcp();

    /// Segments that the sender hands over as one super-packet at most: the queue takes, marks and drops it as one,
    /// and a mark on it is a mark on each segment. Packets in tables are super-packets then.
    #[serde(skip_serializing_if = "Option::is_none")]
    gso: Option<u32> = None
        => Key::of("").within(1, LARGEST_GSO as u64).because(", what an IPv4 packet can hold")
        .usual("`1`").sim().tcp_and_quic();

    /// Bursts are as long as Linux 5.4 makes them of the pacing rate (`tcp_tso_autosize`): 1/1024 s at it, at least 2
    /// segments, at most 64 kB; of who does not pace at 1.2 windows a round trip. With `gso` up to so many segments of a
    /// burst are one super-packet; without it the network card has cut them up, and the queue sees them one by one.
    #[serde(skip_serializing_if = "Option::is_none")]
    tso_autosize: Option<bool> = None => Key::of("true or false").usual("false").sim().tcp();

    /// The congestion window to begin with (RFC 6928).
    #[serde(skip_serializing_if = "Option::is_none")]
    initial_window: Option<u32> = None
        => Key::of("packets").within(1, 1_000_000).usual("`10`").sim().tcp_and_quic();

    /// Packets that a paced sender lets go together at least (`net.ipv4.tcp_min_tso_segs`). Prague below some 30 Mbit/s
    /// takes the second of two for a queue. A flow with `detector` sends each packet at a time of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    min_burst: Option<u32> = None
        => Key::of("packets").least(1).because(" packet").usual("`2`; `1` with `detector`").sim().tcp_and_quic();

    /// Packets that are not paced wait until a millisecond's worth of them, or a third of the window, can go at once, as
    /// in Linux ([bunches](../validation/linux.md#when-tcp-sends-bunches)).
    #[serde(skip_serializing_if = "Option::is_none")]
    defer: Option<bool> = None => Key::of("true or false").usual("true").sim().tcp();

    /// The sender's host has `fq` as its own queue discipline, which paces TCP whose controller has no pacing rate: at two
    /// windows a round trip up to its first loss or mark, at 6/5 of one from then on (`tcp_update_pacing_rate`), in
    /// bursts of a millisecond and at least `min_burst`. Packets do not `defer` then.
    #[serde(skip_serializing_if = "Option::is_none")]
    host_fq: Option<bool> = None => Key::of("true or false").usual("false").sim().tcp();

    /// The sender's host counts TCP's timers in so many ticks a second (`CONFIG_HZ`): its timeouts come a tick or two
    /// late, long ones up to some seventh, and tail probes wait two ticks more. 0 is a host whose timers fire
    /// exactly.
    #[serde(skip_serializing_if = "Option::is_none")]
    host_hz: Option<u32> = None => Key::of("").within(0, 1000).usual("`0`").sim().tcp();

    /// SYN-ACK and FIN pass the queue as packets of their own, which can be lost, and are not ECN-capable unless all
    /// packets of the controller are (`dctcp`, `prague`). A SYN-ACK goes again after 1 s, 2 s, 4 s...
    /// ([connections](../model/sim.md#connections)).
    #[serde(skip_serializing_if = "Option::is_none")]
    syn_fin: Option<bool> = None => Key::of("true or false").usual("false").sim().tcp();

    /// The sender paces its payload at no more than this, whatever its controller asks for (`SO_MAX_PACING_RATE`).
    #[serde(skip_serializing_if = "Option::is_none")]
    max_rate: Option<Rate> = None => Key::of("rate").above(0).because(", such as 40mbit").sim().tcp_and_quic();

    /// A sender whose controller has no pacing rate sends 5/4 of a window per round trip (RFC 9002 section 7.7), in bursts
    /// of 2 ms and at least 10 packets, unless these take more than 10 ms, instead of a packet for each that has
    /// arrived. On real packets QUIC is always so.
    #[serde(skip_serializing_if = "Option::is_none")]
    paced: Option<bool> = None => Key::of("true or false").usual("false").quic();

    /// An acknowledgement for so many packets; more than 2 stretches them. TCP's first sixteen packets, and as many after
    /// a long gap, are acknowledged one by one all the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    ack_every: Option<u32> = None
        => Key::of("packets").least(1).because(" packet").usual("`2`").sim().tcp_and_quic();

    /// The longest that a packet waits for an acknowledgement.
    #[serde(skip_serializing_if = "Option::is_none")]
    ack_delay: Option<Duration> = None => Key::of("time").up_to_time(LONGEST_ACK_DELAY).because(" (RFC 5681)")
        .usual("TCP `40ms`, QUIC `25ms`").sim().tcp_and_quic();

    /// The receiver takes what comes within this time, in order and up to 45 packets, as one (generic receive offload):
    /// one acknowledgement, at the end of that time.
    #[serde(skip_serializing_if = "Option::is_none")]
    gro: Option<Duration> = None => Key::of("time").up_to_time(LONGEST_GRO)
        .because("; real hosts take well under 1ms").sim().tcp_and_quic();

    /// Finds out whether the bottleneck is fair-queued, by a connection of two sub-flows ([fair-queuing detection](fq.md)):
    /// `published`, `paper` or `trains`. `controller` is then the one in a shared queue and where nothing was found; it
    /// is Weir's own in every world. The light sub-flow has a row of its own in tables, called `NAME light`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    detector: String = String::new() => Key::of("name").quic();

    /// The controller behind a fair queue.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    fair: String = String::new() => Key::of("name").usual("the detector's").quic();

    /// The time from a detection to the next.
    #[serde(skip_serializing_if = "Option::is_none")]
    again: Option<Duration> = None
        => Key::of("time").least_time(SHORTEST_REST).usual("the detector's").quic();

    /// So many alike, called `NAME 1`, `NAME 2`... and together `NAME`. 0 is none, for a [sweep](sweep.md) that begins there.
    #[serde(default = "one_flow")]
    count: u32 = one_flow() => Key::of("integer").least(0).usual("`1`");
}

plain!(Direction, Pattern, Remark);

/// Two full packets: one acknowledgement is for two.
const SMALLEST_WINDOW: u64 = 2 * 1448;
/// RFC 7323 section 2.3: a window's scale is 14 at most.
const LARGEST_WINDOW: u64 = 1 << 30;
/// RFC 5681 section 4.2: an acknowledgement must come within 500 ms.
const LONGEST_ACK_DELAY: Duration = Duration::from_millis(500);
/// Trains of user data that come more often are a load of their own.
const SHORTEST_REST: Duration = Duration::from_millis(10);
/// Longer than any network card or kernel keeps packets together.
const LONGEST_GRO: Duration = Duration::from_millis(100);

/// A codepoint that packets are given on the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Remark {
    /// ECN is bleached.
    NotEct,
    /// ECT(0).
    Ect0,
    /// ECT(1), which L4S queues take for a scalable sender's.
    Ect1,
}

impl Remark {
    /// The codepoint.
    pub fn codepoint(self) -> Ecn {
        match self {
            Self::NotEct => Ecn::NotEct,
            Self::Ect0 => Ecn::Ect0,
            Self::Ect1 => Ecn::Ect1,
        }
    }
}

/// Which way data goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// From server to client, through the bottleneck's queue.
    #[default]
    Down,
    /// From client to server; its acknowledgements share the queue.
    Up,
}

/// A traffic pattern.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// Data one way, acknowledgements the other: "(u)" in the CRQ paper.
    #[default]
    OneWay,
    /// The receiver mirrors half of what it gets: "(b)" in the CRQ paper.
    TwoWay,
}

fn one_flow() -> u32 {
    1
}

impl Flow {
    pub(super) fn default_name(&self) -> String {
        match self.stack {
            Stack::Udp => "UDP".to_owned(),
            Stack::Tcp => format!("TCP {}", self.controller),
            Stack::Quic => format!("QUIC {}", self.controller),
        }
    }

    /// What errors call it.
    pub fn label(&self) -> String {
        if self.name.is_empty() { self.default_name() } else { self.name.clone() }
    }

    /// When it sets out at the latest.
    pub fn latest_start(&self) -> Duration {
        self.start + self.start_spread.unwrap_or_default()
    }

    /// Whether its controller uses ECN though `ecn` does not say so: the kernel's then asks for it by itself.
    pub(super) fn needs_ecn(&self) -> bool {
        let name = traffic::catalogue_name(&self.controller);
        self.stack != Stack::Udp && weir_cc::find(name).is_ok_and(weir_cc::Entry::needs_ecn)
    }

    pub(super) fn check(&self) -> Result<(), Refusal> {
        let fail = |key: &str, message: String| Err(Refusal::new(key, message));
        self.check_ranges()?;
        let refused =
            self.given().find_map(|key| Some(Refusal::new(key.name(), key.refused_by(self.stack)?)));
        if let Some(refused) = refused {
            return Err(refused);
        }
        if self.stack == Stack::Udp {
            if self.rate.is_none_or(|rate| rate.bits_per_sec() == 0) {
                return fail("rate", "a UDP flow needs a rate above 0, such as 50mbit".to_owned());
            }
            if !self.controller.is_empty() {
                return fail("controller", "UDP has none; remove the key or use stack = \"quic\"".to_owned());
            }
            if self.pattern == Pattern::TwoWay {
                return fail("pattern", "only TCP flows can be two-way".to_owned());
            }
            return Ok(());
        }
        let down = self.direction == Direction::Down && self.pattern == Pattern::OneWay;
        if self.syn_fin == Some(true) && !down {
            return fail("syn_fin", "only flows that send down, one way, have it; remove the key".to_owned());
        }
        if self.rate.is_some() {
            return fail(
                "rate",
                "only UDP flows have a rate; TCP and QUIC are governed by their controller".to_owned(),
            );
        }
        if self.stack == Stack::Quic && self.pattern == Pattern::TwoWay {
            return fail("pattern", "only TCP flows can be two-way".to_owned());
        }
        if self.controller.is_empty() {
            return fail("controller", "is missing; give one such as \"cubic\"".to_owned());
        }
        if self.detector.is_empty() && !(self.fair.is_empty() && self.again.is_none()) {
            let key = if self.fair.is_empty() { "again" } else { "fair" };
            return fail(key, "only flows with a detector have it; remove the key".to_owned());
        }
        if !self.detector.is_empty() {
            if let Err(error) = weir_fq::catalog::find(&self.detector) {
                return fail("detector", error.to_string());
            }
            if self.ecn {
                return fail("ecn", "a flow with a detector uses none; remove the key".to_owned());
            }
            if self.direction == Direction::Up {
                return fail("direction", "a flow with a detector sends down; remove the key".to_owned());
            }
            for (key, name) in [("controller", &self.controller), ("fair", &self.fair)] {
                if !name.is_empty()
                    && let Err(error) = weir_cc::find(traffic::catalogue_name(name))
                {
                    return fail(key, error.to_string());
                }
            }
        }
        // World sim has more of them; the others refuse those before anything runs.
        if self.real_controller().is_err()
            && let Err(error) = weir_cc::find(&self.controller)
        {
            if self.controller.trim().contains(char::is_whitespace) {
                return fail("controller", error.to_string());
            }
            let error = traffic::UnknownController::in_any_world(self.stack, &self.controller);
            return fail("controller", error.to_string());
        }
        Ok(())
    }

    /// How it finds out whether the bottleneck is fair-queued, if it does.
    pub fn detection(&self) -> Option<weir_fq::catalog::Names> {
        (!self.detector.is_empty()).then(|| weir_fq::catalog::Names {
            detector: self.detector.clone(),
            shared: traffic::catalogue_name(&self.controller).to_owned(),
            fair: (!self.fair.is_empty()).then(|| traffic::catalogue_name(&self.fair).to_owned()),
            again: self.again,
        })
    }

    /// The options of the simulator's ends.
    pub fn end_options(&self) -> EndOptions {
        let usual = EndOptions::default();
        let min_burst = if self.detector.is_empty() { usual.min_burst } else { 1 };
        EndOptions {
            gso: self.gso.map_or(usual.gso, |segments| segments as u16),
            tso_autosize: self.tso_autosize.unwrap_or(usual.tso_autosize),
            syn_fin: self.syn_fin.unwrap_or(usual.syn_fin),
            initial_window: self.initial_window.unwrap_or(usual.initial_window),
            min_burst: self.min_burst.unwrap_or(min_burst),
            defer: self.defer.unwrap_or(usual.defer),
            host_fq: self.host_fq.unwrap_or(usual.host_fq),
            host_hz: self.host_hz.map_or(usual.host_hz, |hz| hz as u16),
            paced: self.paced.unwrap_or(usual.paced),
            max_rate: self.max_rate,
            ack_every: self.ack_every,
            ack_delay: self.ack_delay,
            gro: self.gro.unwrap_or(usual.gro),
        }
    }

    /// Whether this host's stacks have the controller; the error names the nearest that they have.
    pub fn real_controller(&self) -> Result<(), String> {
        if self.stack == Stack::Udp
            || (self.stack == Stack::Tcp && traffic::kernel_has_controller(&self.controller))
        {
            return Ok(());
        }
        traffic::find_controller(self.stack, &self.controller).map(|_| ()).map_err(|error| error.to_string())
    }
}
