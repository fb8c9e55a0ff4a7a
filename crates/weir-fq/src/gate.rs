//! A sub-flow's congestion controller, as its host sees it: a door that the connection opens and shuts.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_cc::{Ack, Controller, EcnUse, Sent, Timeout};
use weir_core::{Duration, Rate, Time};

use crate::{Connection, SubFlow};

/// A connection that its two gates and its host share.
#[derive(Clone)]
pub struct Shared(Arc<Mutex<Connection>>);

impl Shared {
    /// The connection, for two gates and a host.
    pub fn new(connection: Connection) -> Self {
        Self(Arc::new(Mutex::new(connection)))
    }

    /// The connection, for as long as the answer lives.
    pub fn lock(&self) -> MutexGuard<'_, Connection> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The controller of one of the sub-flows.
    pub fn gate(&self, sub_flow: SubFlow) -> Gate {
        Gate { connection: self.clone(), sub_flow }
    }
}

/// The controller of a sub-flow. After whatever is told to one gate, the host asks both what they allow.
pub struct Gate {
    connection: Shared,
    sub_flow: SubFlow,
}

impl Controller for Gate {
    fn name(&self) -> &'static str {
        "fq"
    }

    fn on_handshake(&mut self, rtt: Duration) {
        self.connection.lock().on_handshake(rtt);
    }

    fn on_sent(&mut self, sent: &Sent) {
        self.connection.lock().on_sent(self.sub_flow, sent);
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.connection.lock().on_ack(self.sub_flow, ack);
    }

    fn on_timeout(&mut self, timeout: &Timeout) {
        self.connection.lock().on_timeout(self.sub_flow, timeout);
    }

    fn window(&self) -> u64 {
        self.connection.lock().window(self.sub_flow)
    }

    fn pacing(&self) -> Option<Rate> {
        self.connection.lock().pacing(self.sub_flow)
    }

    fn burst(&self) -> Option<Duration> {
        self.connection.lock().burst(self.sub_flow)
    }

    fn ecn(&self) -> EcnUse {
        self.connection.lock().ecn()
    }

    fn timer(&self) -> Option<Time> {
        self.connection.lock().timer(self.sub_flow)
    }

    fn on_timer(&mut self, now: Time) {
        self.connection.lock().on_timer(now);
    }
}
