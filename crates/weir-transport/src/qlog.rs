//! What a sender's detections do, as qlog (draft-ietf-quic-qlog-main-schema-13): a trace in a sequence of JSON texts (RFC
//! 7464) that tools for qlog read. The events are Weir's own; `docs/reference/probe.md` lists them.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use serde_json::{Value, json};
use weir_core::Time;
use weir_fq::{Connection, SubFlow};

use crate::Error;
use crate::clock::{Clock, now};

/// The events' schema. It is a name, and nothing is there to be fetched.
const SCHEMA: &str = "urn:weir:qlog:detection";
/// What precedes each text of a sequence.
const RECORD: u8 = 0x1e;
/// More in memory than all events of a detection: the file is written between detections.
const BUFFER: usize = 256 << 10;

/// A file of events, for all connections of a sender.
#[derive(Clone, Debug)]
pub struct Qlog(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    out: BufWriter<File>,
    began: Instant,
    connections: u32,
}

impl Qlog {
    /// Makes the file, or empties it.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn create(path: &Path) -> Result<Self, Error> {
        let failed = |error: std::io::Error| Error::File(format!("cannot write {}: {error}", path.display()));
        let mut out = BufWriter::with_capacity(BUFFER, File::create(path).map_err(failed)?);
        let head = json!({
            "file_schema": "urn:ietf:params:qlog:file:sequential",
            "serialization_format": "application/qlog+json-seq",
            "title": "weir",
            "trace": {
                "vantage_point": { "type": "client" },
                "event_schemas": [SCHEMA],
                "common_fields": { "reference_time": { "clock_type": "monotonic", "epoch": "unknown" } },
            },
        });
        write(&mut out, &head).and_then(|()| out.flush()).map_err(failed)?;
        Ok(Self(Arc::new(Mutex::new(State { out, began: now(), connections: 0 }))))
    }

    /// The log of another connection, whose times are by this clock.
    pub(crate) fn begin(&self, clock: Clock) -> ConnectionLog {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.connections += 1;
        let group = state.connections.to_string();
        drop(state);
        ConnectionLog { qlog: self.clone(), clock, group, told: Told::default() }
    }
}

fn write(out: &mut impl Write, text: &Value) -> std::io::Result<()> {
    out.write_all(&[RECORD])?;
    serde_json::to_writer(&mut *out, text)?;
    out.write_all(b"\n")
}

/// What of a connection is in the log.
#[derive(Debug, Default)]
struct Told {
    is_detecting: bool,
    detections: u64,
    alarms: u64,
    controller: Option<&'static str>,
}

/// The events of one connection.
#[derive(Debug)]
pub(crate) struct ConnectionLog {
    qlog: Qlog,
    clock: Clock,
    group: String,
    told: Told,
}

impl ConnectionLog {
    /// An event of this connection. A full disk is no reason to stop sending.
    fn event(&self, at: Time, name: &str, data: &Value) {
        let mut state = self.qlog.0.lock().unwrap_or_else(PoisonError::into_inner);
        let since = self.clock.instant(at).saturating_duration_since(state.began);
        let time = since.as_nanos() as f64 / 1e6;
        let event =
            json!({ "time": time, "name": format!("weir:{name}"), "group_id": self.group, "data": data });
        let _ = write(&mut state.out, &event);
    }

    /// A packet was sent during a detection: one that the detector has asked for, or one that QUIC sends at once,
    /// whatever a gate says.
    pub(crate) fn sent(&self, sub_flow: SubFlow, number: u64, at: Time, bytes: u32, forced: bool) {
        let data = json!({ "sub_flow": word(sub_flow), "number": number, "bytes": bytes, "forced": forced });
        self.event(at, "packet_sent", &data);
    }

    /// It was reported that a packet has arrived.
    pub(crate) fn arrived(&self, now: Time, sub_flow: SubFlow, number: u64, at: Time) {
        let data = json!({ "sub_flow": word(sub_flow), "number": number, "receiver_ms": at.as_nanos() as f64 / 1e6 });
        self.event(now, "packet_arrived", &data);
    }

    /// Something may have changed.
    pub(crate) fn look(&mut self, now: Time, connection: &Connection) {
        let findings = connection.findings();
        if findings.alarms > self.told.alarms {
            self.told.alarms = findings.alarms;
            self.event(now, "queue_found_shared", &json!({ "alarms": findings.alarms }));
        }
        let has_ended = findings.detections > self.told.detections;
        if has_ended {
            self.told.detections = findings.detections;
            for (index, train) in connection.testimony().iter().enumerate() {
                let data = json!({
                    "train": index, "packets": train.packets, "arrived": train.arrived,
                    "light_arrived": train.light_arrived, "order_nats": train.order,
                    "loss_nats": train.loss, "delay_nats": train.delay,
                });
                self.event(now, "train_weighed", &data);
            }
            let data = json!({
                "finding": findings.verdict.finding.word(),
                "confidence": findings.verdict.confidence,
                "why": findings.verdict.why,
                "rate_bits_per_second": findings.rate.map(weir_core::Rate::bits_per_sec),
                "min_rtt_ms": findings.min_rtt.map(weir_core::Duration::as_millis_f64),
            });
            self.event(now, "detection_ended", &data);
        }
        let controller = connection.controller();
        if controller != self.told.controller {
            self.told.controller = controller;
            self.event(now, "controller_chosen", &json!({ "controller": controller }));
        }
        if connection.is_detecting() != self.told.is_detecting {
            self.told.is_detecting = connection.is_detecting();
            if self.told.is_detecting {
                self.event(now, "detection_began", &json!({ "detector": connection.detector() }));
            }
        }
        if has_ended {
            let mut state = self.qlog.0.lock().unwrap_or_else(PoisonError::into_inner);
            let _ = state.out.flush();
        }
    }
}

const fn word(sub_flow: SubFlow) -> &'static str {
    match sub_flow {
        SubFlow::Light => "light",
        SubFlow::Heavy => "heavy",
    }
}
