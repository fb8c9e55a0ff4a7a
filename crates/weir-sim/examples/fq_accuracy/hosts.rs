//! Fair queuing among hosts alone: all flows of a host share a queue, both sub-flows too. As `fq_codel` with a filter
//! by address.

use std::fmt;

use serde::{Deserialize, Serialize};
use weir_core::{Backlog, EventSink, FlowId, Packet, Time};
use weir_qdisc::config::{Keys, Word};
use weir_qdisc::{BuildContext, ConfigError, Drr, DrrConfig, Qdisc};

/// Deficit round robin among source hosts.
struct ByHost(Drr);

impl Qdisc for ByHost {
    fn enqueue(&mut self, packet: Packet, now: Time, events: &mut dyn EventSink) {
        // Nothing else here looks at a packet's value; flows are few.
        let (host, value) = (FlowId(packet.hosts[0].into()), packet.flow.0 as u16);
        self.0.enqueue(Packet { flow: host, value, ..packet }, now, events);
    }

    fn dequeue(&mut self, now: Time, events: &mut dyn EventSink) -> Option<Packet> {
        let packet = self.0.dequeue(now, events)?;
        Some(Packet { flow: FlowId(packet.value.into()), value: 0, ..packet })
    }

    fn backlog(&self) -> Backlog {
        self.0.backlog()
    }
}

/// Keys of `kind = "byhost"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ByHostKeys {
    limit: u32,
}

impl Default for ByHostKeys {
    fn default() -> Self {
        Self { limit: 1000 }
    }
}

impl Keys for ByHostKeys {
    const WORDS: &'static [Word] = &[Word::value("limit", "1000")];

    fn build(&self, context: &BuildContext) -> Result<Box<dyn Qdisc>, ConfigError> {
        let config = DrrConfig { limit: self.limit, ..DrrConfig::default() };
        Ok(Box::new(ByHost(Drr::new(config, context.seed.stream("byhost")))))
    }
}

impl fmt::Display for ByHostKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byhost limit {}", self.limit)
    }
}

/// Makes the discipline known by its name.
pub(crate) fn register() {
    weir_qdisc::config::register::<ByHostKeys>("byhost").expect("the name is free");
}
