//! Queue disciplines written in Python: a class whose `enqueue` keeps or drops a packet and whose `dequeue` says which
//! goes next. What becomes of each packet is said and counted here, so that a class cannot lose one.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use weir_core::{
    Backlog, DropReason, Duration, Ecn, Event, EventKind, EventSink, MarkReason, QueueId, Rate, Time,
};
use weir_qdisc::config::{self, Keys, Word};
use weir_qdisc::{BuildContext, ConfigError, Qdisc};

use crate::ack::seconds;
use crate::slots::{DISCIPLINES, numbered};
use crate::watch::throw;

macro_rules! of_number {
    ($number:literal) => {
        config::register::<OwnKeys<$number>>
    };
}

type Register = fn(&'static str) -> Result<(), config::RegisterError>;

const REGISTER: [Register; crate::slots::MOST] = numbered!(of_number);

/// Makes a class known as a queue discipline.
#[pyfunction]
pub(crate) fn register_discipline(
    py: Python<'_>,
    name: &str,
    class: Py<PyAny>,
    code: String,
) -> PyResult<()> {
    DISCIPLINES
        .put(py, name, class, code, |number, name| REGISTER[number](name).map_err(|error| error.to_string()))
}

/// The names of all queue disciplines.
#[pyfunction]
pub(crate) fn disciplines() -> Vec<&'static str> {
    config::QdiscConfig::kinds()
}

/// A packet, as a Python discipline sees it.
#[pyclass(frozen, module = "weirnet", name = "Packet")]
pub(crate) struct Packet {
    packet: weir_core::Packet,
    /// Its place among all that have come.
    number: u64,
    dropped: AtomicBool,
    marked: AtomicBool,
    /// Where the queue learns of those that are dropped.
    gone: Gone,
}

/// The numbers of packets that were dropped and that the queue has not taken note of.
type Gone = Arc<Mutex<Vec<u64>>>;

#[pymethods]
impl Packet {
    /// The flow that it belongs to: its place in the scenario.
    #[getter]
    fn flow(&self) -> u32 {
        self.packet.flow.0
    }

    /// Bytes on the wire.
    #[getter]
    fn bytes(&self) -> u32 {
        self.packet.wire_bytes
    }

    /// When it arrived, in seconds.
    #[getter]
    fn arrived_s(&self) -> f64 {
        self.packet.arrived.as_nanos() as f64 / 1e9
    }

    /// Whether its ends understand marks.
    #[getter]
    fn is_ect(&self) -> bool {
        self.packet.ecn != Ecn::NotEct
    }

    /// Drops it: it is gone from the queue, or does not enter it.
    fn drop(&self) {
        if !self.dropped.swap(true, Ordering::Relaxed) {
            self.gone.lock().unwrap_or_else(PoisonError::into_inner).push(self.number);
        }
    }

    /// Marks it CE. False, and nothing done, if its ends do not understand marks.
    fn mark(&self) -> bool {
        let can = self.is_ect();
        if can {
            self.marked.store(true, Ordering::Relaxed);
        }
        can
    }

    fn __repr__(&self) -> String {
        format!("<weirnet.Packet of flow {}, {} bytes>", self.flow(), self.bytes())
    }
}

/// Keys of a Python discipline, which are few: what else it needs it has in its class.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Words {
    /// In packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<u32>,
    /// A delay to aim at.
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<Duration>,
}

/// The same of the discipline of a number: a type for each.
#[derive(Clone, Debug, Default, PartialEq)]
struct OwnKeys<const NUMBER: usize>(Words);

impl<'de, const NUMBER: usize> Deserialize<'de> for OwnKeys<NUMBER> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Words::deserialize(deserializer).map(Self)
    }
}

impl<const NUMBER: usize> Serialize for OwnKeys<NUMBER> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<const NUMBER: usize> Keys for OwnKeys<NUMBER> {
    const WORDS: &'static [Word] = &[Word::value("limit", "1000"), Word::value("target", "5ms")];

    fn build(&self, context: &BuildContext) -> Result<Box<dyn Qdisc>, ConfigError> {
        Python::attach(|py| {
            let (name, class) = DISCIPLINES.get(py, NUMBER);
            let object = begin(class.bind(py), context, &self.0);
            let object = object.map_err(|error| ConfigError::Refused {
                key: "kind",
                reason: format!("the class of '{name}' cannot begin: {error}"),
            })?;
            Ok(Box::new(Own { name, object, held: HashMap::new(), bytes: 0, next: 0, gone: Gone::default() })
                as _)
        })
    }

    fn target(&self, _: Duration) -> Option<Duration> {
        self.0.target
    }
}

impl<const NUMBER: usize> fmt::Display for OwnKeys<NUMBER> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Python::attach(|py| DISCIPLINES.get(py, NUMBER).0);
        f.write_str(name)?;
        if let Some(limit) = self.0.limit {
            write!(f, " limit {limit}")?;
        }
        self.0.target.map_or(Ok(()), |target| write!(f, " target {target}"))
    }
}

fn begin(class: &Bound<'_, PyAny>, context: &BuildContext, words: &Words) -> PyResult<Py<PyAny>> {
    let object = class.call0()?;
    object.setattr("rate_bps", Rate::bits_per_sec(context.rate))?;
    object.setattr("rtt_s", seconds(context.rtt))?;
    if let Some(limit) = words.limit {
        object.setattr("limit", limit)?;
    }
    if let Some(target) = words.target {
        object.setattr("target_s", seconds(target))?;
    }
    object.call_method0("start")?;
    Ok(object.unbind())
}

/// A discipline of a Python class.
struct Own {
    name: &'static str,
    object: Py<PyAny>,
    /// Packets that are queued, by their numbers.
    held: HashMap<u64, Py<Packet>>,
    bytes: u64,
    next: u64,
    gone: Gone,
}

impl Own {
    fn say(&self, kind: EventKind, packet: weir_core::Packet, now: Time, events: &mut dyn EventSink) {
        let sojourn = now.since(packet.arrived);
        events.event(&Event { time: now, kind, packet, queue: QueueId(0), sojourn, backlog: self.backlog() });
    }

    /// Takes note of packets in the queue that have been dropped.
    fn settle(&mut self, now: Time, events: &mut dyn EventSink) {
        let gone = std::mem::take(&mut *self.gone.lock().unwrap_or_else(PoisonError::into_inner));
        for number in gone {
            if let Some(packet) = self.held.remove(&number) {
                let packet = packet.get().packet;
                self.bytes -= u64::from(packet.wire_bytes);
                self.say(EventKind::Drop(DropReason::Aqm), packet, now, events);
            }
        }
    }

    /// The packet with its mark, if it got one, which is said.
    fn marked(&self, packet: &Packet, now: Time, events: &mut dyn EventSink) -> weir_core::Packet {
        let mut out = packet.packet;
        if packet.marked.load(Ordering::Relaxed) && out.ecn != Ecn::Ce {
            out.ecn = Ecn::Ce;
            self.say(EventKind::Mark(MarkReason::Aqm), out, now, events);
        }
        out
    }

    fn arrive(
        &mut self,
        py: Python<'_>,
        packet: weir_core::Packet,
        now: Time,
        events: &mut dyn EventSink,
    ) -> PyResult<()> {
        let (dropped, marked) = (AtomicBool::new(false), AtomicBool::new(false));
        let seen = Packet { packet, number: self.next, dropped, marked, gone: Arc::clone(&self.gone) };
        let seen = Py::new(py, seen)?;
        let now_s = now.as_nanos() as f64 / 1e9;
        self.object.call_method1(py, intern!(py, "enqueue"), (seen.clone_ref(py), now_s))?;
        if seen.get().dropped.load(Ordering::Relaxed) {
            self.say(EventKind::Drop(DropReason::Overflow), packet, now, events);
        } else {
            self.bytes += u64::from(packet.wire_bytes);
            self.held.insert(self.next, seen);
            self.next += 1;
            self.say(EventKind::Enqueue, packet, now, events);
        }
        self.settle(now, events);
        Ok(())
    }

    fn depart(
        &mut self,
        py: Python<'_>,
        now: Time,
        events: &mut dyn EventSink,
    ) -> PyResult<Option<weir_core::Packet>> {
        let now_s = now.as_nanos() as f64 / 1e9;
        let out = self.object.call_method1(py, intern!(py, "dequeue"), (now_s,))?;
        self.settle(now, events);
        if out.is_none(py) {
            return match self.held.len() {
                0 => Ok(None),
                held => Err(PyValueError::new_err(format!(
                    "discipline '{}': dequeue returned None, but {held} packets are queued; return or drop one",
                    self.name
                ))),
            };
        }
        let out = out.bind(py).cast::<Packet>().map_err(|_| {
            PyTypeError::new_err(format!("discipline '{}': dequeue must return a packet or None", self.name))
        })?;
        // Another queue's packets have numbers, too.
        let number = out.get().number;
        if !self.held.get(&number).is_some_and(|held| held.is(out)) {
            return Err(PyValueError::new_err(format!(
                "discipline '{}': dequeue returned a packet that is not queued: it went or was dropped before",
                self.name
            )));
        }
        self.held.remove(&number);
        let packet = out.get();
        self.bytes -= u64::from(packet.packet.wire_bytes);
        let packet = self.marked(packet, now, events);
        self.say(EventKind::Dequeue, packet, now, events);
        Ok(Some(packet))
    }
}

impl Qdisc for Own {
    fn enqueue(&mut self, packet: weir_core::Packet, now: Time, events: &mut dyn EventSink) {
        if let Err(error) = Python::attach(|py| self.arrive(py, packet, now, events)) {
            throw(error);
        }
    }

    fn dequeue(&mut self, now: Time, events: &mut dyn EventSink) -> Option<weir_core::Packet> {
        if self.held.is_empty() {
            return None;
        }
        Python::attach(|py| self.depart(py, now, events)).unwrap_or_else(|error| throw(error))
    }

    fn backlog(&self) -> Backlog {
        Backlog { packets: self.held.len() as u32, bytes: self.bytes }
    }
}
