//! The entries of a live table as others see them, from native memory or from the kernel's.

use std::net::SocketAddr;

use serde::Serialize;
use weir_core::{Bytes, CycleId, Duration, QueueChoice, Time};

use super::TICK_SHIFT;
use crate::Params;
use crate::events::{Class, SignalPair, Verdict, Votes, choice_from_raw};
use crate::ffi;
use crate::flow::FlowKey;
use crate::live_ffi::{self, Bucket, WAYS};
use crate::parsed::endpoint;

const ASCENDING: u8 = 0x01;
const CLOSING: u8 = 0x02;
/// `enum weir_kind`.
const QUIC: u8 = 5;

/// IP protocol numbers.
const TCP_PROTOCOL: u8 = 6;
const UDP_PROTOCOL: u8 = 17;

/// What carries a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// TCP.
    Tcp,
    /// UDP that looks like QUIC.
    Quic,
}

/// An entry of a live table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LiveFlow {
    /// Its identity.
    pub key: FlowKey,
    /// The end whose packets go through the queue.
    pub source: SocketAddr,
    /// The end that they go to.
    pub destination: SocketAddr,
    /// What carries it.
    pub transport: Transport,
    /// Verdicts for both kinds of signal.
    pub class: Class,
    /// The queue that it has earned.
    pub choice: QueueChoice,
    /// The cycle it is in.
    pub cycle: CycleId,
    /// Cycles of the present connection that have ended.
    pub cycles: u32,
    /// Length of the last whole cycle, at most 4.29 s.
    pub rtt: Option<Duration>,
    /// Forward payload since the entry was made.
    pub bytes: Bytes,
    /// Forward packets since the entry was made.
    pub packets: u64,
    /// Windows of the cycles n (so far), n-1 and n-2.
    pub windows: [Bytes; 3],
    /// Signals booked to the same cycles; those that wait in the mailbox are not among them yet.
    pub signals: SignalPair<[u32; 3]>,
    /// Votes for both kinds of signal.
    pub votes: SignalPair<Votes>,
    /// Signals that came too late to be judged.
    pub late_signals: u16,
    /// Judgements not made although there was a signal.
    pub withheld: u16,
    /// When it was last seen in either direction, in steps of 2^20 ns modulo 2^32 of the table's clock.
    pub seen: u32,
    /// FIN or RST was seen, and no data since.
    pub closing: bool,
}

impl LiveFlow {
    /// Time since it was last seen, by the table's clock: none if that was after `now`. Wraps after 26 days.
    pub fn idle(&self, now: Time) -> Duration {
        let ticks = ((now.as_nanos() >> TICK_SHIFT) as u32).wrapping_sub(self.seen);
        Duration::from_nanos(if ticks > u32::MAX / 2 { 0 } else { u64::from(ticks) << TICK_SHIFT })
    }
}

/// The version of a bucket as the kernel has it in memory: odd while it is being written, another one afterwards.
/// `None` if it is not as long as a bucket.
pub fn version_of(bucket: &[u8]) -> Option<u32> {
    ffi::from_bytes(bucket).map(|bucket: Bucket| bucket.version)
}

/// The flows of one bucket as the kernel has it in memory, whose present law is number `law` ([`LiveConfig::law`]);
/// none if it is not as long as a bucket.
///
/// [`LiveConfig::law`]: super::LiveConfig::law
pub fn flows_of(bucket: &[u8], params: &Params, law: u8) -> Vec<LiveFlow> {
    ffi::from_bytes(bucket).map_or_else(Vec::new, |bucket| entries(&bucket, &params.to_raw(), law).collect())
}

pub(super) fn entries<'a>(
    bucket: &'a Bucket,
    params: &'a ffi::Params,
    law: u8,
) -> impl Iterator<Item = LiveFlow> + 'a {
    (0..WAYS).filter(|way| bucket.tag[*way] != 0).map(move |way| view(bucket, way, params, law))
}

pub(super) fn view(bucket: &Bucket, way: usize, params: &ffi::Params, law: u8) -> LiveFlow {
    let (entry, flags) = (&bucket.way[way], bucket.flags[way]);
    let (key, raw) = (&entry.key, &mut entry.flow.clone());
    // What another law has counted would be misread.
    live_ffi::take_over(raw, law);
    // Before the first packet that shows the kind, there is only the protocol.
    let quic = raw.kind == QUIC || raw.kind == 0 && key.protocol == UDP_PROTOCOL;
    let (low, high) = (endpoint(key.low, key.low_port), endpoint(key.high, key.high_port));
    let (source, destination) = if flags & ASCENDING != 0 { (low, high) } else { (high, low) };
    let counted = |kind| [0, 1, 2].map(|age| ffi::counted(params, raw, kind, age));
    LiveFlow {
        // The key itself has no protocol where the law does not distinguish them.
        key: FlowKey { protocol: if quic { UDP_PROTOCOL } else { TCP_PROTOCOL }, ..FlowKey::from_raw(key) },
        source,
        destination,
        transport: if quic { Transport::Quic } else { Transport::Tcp },
        class: Class { loss: Verdict::from_raw(raw.verdict[0]), ecn: Verdict::from_raw(raw.verdict[1]) },
        choice: choice_from_raw(ffi::choice(params, raw) as u8),
        cycle: CycleId(raw.cycle),
        cycles: raw.cycle.wrapping_sub(raw.first_cycle),
        rtt: (raw.last_rtt != 0).then(|| Duration::from_nanos(raw.last_rtt.into())),
        bytes: Bytes(raw.bytes),
        packets: raw.packets,
        windows: raw.window.map(|bytes| Bytes(bytes.into())),
        signals: SignalPair { loss: counted(0), mark: counted(1) },
        votes: SignalPair { loss: Votes::kept(raw.votes[0]), mark: Votes::kept(raw.votes[1]) },
        late_signals: raw.late_signals,
        withheld: raw.withheld,
        seen: bucket.seen[way],
        closing: flags & CLOSING != 0,
    }
}
