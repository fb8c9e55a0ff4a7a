//! How workloads use the network: connections open, requests travel, responses arrive, users think.
//!
//! A request travels as an acknowledgement does; where the connection is to be opened, a round trip for the handshake
//! comes before. Requests are not queued.

use weir_core::{Duration, Time};

use super::{Network, Next};
use crate::flow::{Flow, Source, SpecError};
use crate::observer::Observer;
use crate::workload::{MOST_ARRIVALS, Pattern, Task, Workload, WorkloadId, WorkloadReport, WorkloadSpec};

impl<O: Observer> Network<O> {
    /// Adds a workload. Its draws are its own: adding one leaves those of flows and of other workloads as they are.
    ///
    /// # Errors
    ///
    /// If its controller is not known, or a crowd comes at a rate that is none or above one request in a nanosecond.
    pub fn add_workload(&mut self, spec: WorkloadSpec) -> Result<WorkloadId, SpecError> {
        if let Pattern::Poisson { rate, .. } = spec.pattern
            && !(rate > 0.0 && rate <= MOST_ARRIVALS)
        {
            return Err(SpecError::Arrivals { rate, most: MOST_ARRIVALS });
        }
        let index = self.workloads.len() as u32;
        let began = (Time::ZERO + spec.start).max(self.now);
        let pattern = spec.pattern;
        let mut workload = Workload::new(spec, began, index as usize, self.seed);
        let first = match pattern {
            Pattern::Poisson { rate, .. } => {
                Some(began + workload.gap(rate)).filter(|at| workload.asks_at(*at))
            }
            _ => None,
        };
        self.unfinished += u32::from(workload.is_limited());
        self.workloads.push(workload);
        match pattern {
            Pattern::Poisson { .. } => {
                if let Some(at) = first {
                    self.workloads[index as usize].asking = 1;
                    self.agenda.add(at, Next::Arrive(index));
                }
                // The first connection exists from the beginning: a controller that is not known is found out now.
                let connection = self.connect(index)?;
                self.rest(connection);
            }
            Pattern::Requests { users, .. } | Pattern::Video { users, .. } | Pattern::OnOff { users, .. } => {
                for _ in 0..users {
                    let connection = self.connect(index)?;
                    self.workloads[index as usize].asking += 1;
                    self.pause(connection, began);
                }
            }
        }
        self.settle(index);
        Ok(WorkloadId(index))
    }

    /// What a workload has done so far.
    pub fn workload(&self, workload: WorkloadId) -> WorkloadReport<'_> {
        let works = |flow: &&Flow| flow.task.as_ref().is_some_and(|task| task.workload == workload.0);
        let received = self.flows.iter().filter(works).map(Flow::received).sum();
        WorkloadReport { received, ..self.workloads[workload.index()].report() }
    }

    /// Makes a connection of a workload.
    fn connect(&mut self, index: u32) -> Result<u32, SpecError> {
        let workload = &mut self.workloads[index as usize];
        let number = workload.connections;
        workload.connections += 1;
        let [own, times] = workload.connection_draws(index as usize, number);
        let spec = workload.spec.connection.again();
        let name = format!("workload {index} connection {number}");
        let connection = self.insert(spec, own, &name)?;
        let flow = &mut self.flows[connection as usize];
        flow.task = Some(Box::new(Task::new(index, times)));
        flow.sample_due = Time::MAX;
        Ok(connection)
    }

    /// One of the crowd comes.
    pub(super) fn arrive(&mut self, index: u32) {
        let now = self.now;
        let workload = &mut self.workloads[index as usize];
        let Pattern::Poisson { rate, connections, .. } = workload.spec.pattern else { return };
        let request = workload.ask(now);
        let next = now + workload.gap(rate);
        workload.asking = u32::from(workload.asks_at(next));
        if workload.asking > 0 {
            self.agenda.add(next, Next::Arrive(index));
        }
        let workload = &mut self.workloads[index as usize];
        match workload.idle.pop() {
            Some(connection) => self.carry(connection, request),
            None if workload.connections >= connections => workload.wait(request),
            None => match self.connect(index) {
                Ok(connection) => self.carry(connection, request),
                // The first one could be made.
                Err(_) => self.workloads[index as usize].wait(request),
            },
        }
    }

    /// A user asks for the next response, or a source begins to send.
    pub(super) fn ask(&mut self, connection: u32) {
        let Some(task) = &self.flows[connection as usize].task else { return };
        let index = task.workload;
        let workload = &mut self.workloads[index as usize];
        if workload.asks_at(self.now) {
            let request = workload.ask(self.now);
            self.carry(connection, request);
        } else {
            workload.asking -= 1;
            self.settle(index);
        }
    }

    /// A connection takes a request on: it opens if it is not open, and the request travels to the sender.
    fn carry(&mut self, connection: u32, request: usize) {
        let now = self.now;
        let flow = &mut self.flows[connection as usize];
        let ([around, behind], request_travels) = (flow.rounds(), flow.request());
        let Some(task) = &mut flow.task else { return };
        task.free = false;
        let workload = &mut self.workloads[task.workload as usize];
        let opens = !task.used || matches!(workload.spec.pattern, Pattern::Poisson { .. });
        let sends_unasked = matches!(workload.spec.pattern, Pattern::OnOff { .. });
        task.control = [false; 2];
        if sends_unasked {
            task.current = Some(request);
        } else {
            task.asked = workload.bytes(request);
            if opens {
                // Only the crowd closes its connections.
                let closes = matches!(workload.spec.pattern, Pattern::Poisson { .. });
                task.control = workload.spec.connection.control(closes.then_some(task.asked));
            }
            let control: u64 = task.control.map(u64::from).iter().sum();
            task.control_bytes += control;
            task.expect(request, task.goal(flow.receiver.bytes) + task.asked + control);
        }
        let queued = task.control[0];
        let again = opens && std::mem::replace(&mut task.used, true);
        let travels = match &mut flow.source {
            Source::Datagrams { .. } => Duration::ZERO,
            Source::Connection(sender) => {
                if again
                    // It could be made before.
                    && let draws = workload.controller_draws()
                    && let Ok(controller) = workload.spec.connection.make_controller(&draws)
                {
                    flow.receiver.reopen();
                    // Until it is read, the report has what connections before the present one came to.
                    flow.report.bytes += sender.delivery.delivered_bytes();
                    flow.report.lost += sender.delivery.lost();
                    sender.reopen(controller);
                }
                match (opens, sends_unasked) {
                    // The SYN; the rest of the handshake is simulated.
                    (true, _) if queued => request_travels,
                    (true, _) => around + behind + request_travels,
                    (false, true) => Duration::ZERO,
                    (false, false) => request_travels,
                }
            }
        };
        if opens {
            self.open(connection, now + travels);
            if !queued {
                self.shake_hands(connection);
            }
        }
        self.agenda.add(now + travels, Next::Serve(connection));
    }

    /// The sender has the request.
    pub(super) fn serve(&mut self, connection: u32) {
        let now = self.now;
        let flow = &mut self.flows[connection as usize];
        let Some(task) = &mut flow.task else { return };
        let pattern = self.workloads[task.workload as usize].spec.pattern;
        flow.report.started.get_or_insert(now);
        if let Pattern::OnOff { on, .. } = pattern {
            let end = now + on.draw(&mut task.times);
            self.agenda.add(end, Next::Off(connection));
            match &mut flow.source {
                Source::Connection(sender) => {
                    task.asked = sender.offset();
                    sender.writes.write(None);
                    self.send(connection);
                }
                Source::Datagrams { until, number, ticks, .. } => {
                    task.asked = *number;
                    *until = end;
                    if !*ticks {
                        self.datagram(connection);
                    }
                }
            }
        } else if let Source::Connection(sender) = &mut flow.source {
            match task.control {
                [true, closes] => sender.open(Some(task.asked), closes),
                [false, _] => sender.writes.write(Some(task.asked)),
            }
            self.send(connection);
        }
    }

    /// A source falls silent.
    pub(super) fn off(&mut self, connection: u32) {
        let now = self.now;
        let flow = &mut self.flows[connection as usize];
        let Some(task) = &mut flow.task else { return };
        let index = task.workload;
        let Some(request) = task.current.take() else { return };
        let workload = &mut self.workloads[index as usize];
        match &mut flow.source {
            Source::Connection(sender) => {
                sender.stop();
                let end = sender.offset();
                workload.sent(request, end - task.asked);
                task.expect(request, end);
            }
            Source::Datagrams { number, .. } => {
                let payload = u64::from(crate::flow::DATAGRAM - flow.header);
                workload.sent(request, (*number - task.asked) * payload);
                workload.finish(request, now);
            }
        }
        self.pause(connection, now);
        self.arrived(connection, now);
        self.settle(index);
    }

    /// The user of a connection pauses from `from` on, and then asks.
    fn pause(&mut self, connection: u32, from: Time) {
        let Some(task) = &mut self.flows[connection as usize].task else { return };
        let pause = match self.workloads[task.workload as usize].spec.pattern {
            Pattern::Requests { think, .. } => think.draw(&mut task.times),
            Pattern::OnOff { off, .. } => off.draw(&mut task.times),
            Pattern::Video { .. } | Pattern::Poisson { .. } => Duration::ZERO,
        };
        self.agenda.add(from + pause, Next::Ask(connection));
    }

    /// The receiver of a connection has taken something, at `at`: is a request done?
    pub(super) fn arrived(&mut self, connection: u32, at: Time) {
        loop {
            let flow = &mut self.flows[connection as usize];
            let Some(task) = &mut flow.task else { return };
            let Some(request) = task.done(flow.receiver.bytes) else { return };
            let index = task.workload;
            let workload = &mut self.workloads[index as usize];
            workload.finish(request, at);
            match workload.spec.pattern {
                Pattern::Requests { .. } => self.pause(connection, at),
                Pattern::Video { .. } => {
                    let next = workload.watch(task, at);
                    self.agenda.add(next, Next::Ask(connection));
                }
                // The crowd waits for nobody, and a source follows its own clock.
                Pattern::Poisson { .. } | Pattern::OnOff { .. } => {}
            }
            self.settle(index);
        }
    }

    /// The sender of a connection has heard from the other end: is it free for another request?
    pub(super) fn release(&mut self, connection: u32) {
        let flow = &self.flows[connection as usize];
        let (Some(task), Source::Connection(sender)) = (&flow.task, &flow.source) else { return };
        let workload = &mut self.workloads[task.workload as usize];
        let busy = task.free || !task.is_idle() || !sender.is_done();
        if busy || !matches!(workload.spec.pattern, Pattern::Poisson { .. }) {
            return;
        }
        match workload.waiting.pop_front() {
            Some(request) => self.carry(connection, request),
            None => self.rest(connection),
        }
    }

    /// A connection waits for work.
    fn rest(&mut self, connection: u32) {
        if let Some(task) = &mut self.flows[connection as usize].task {
            task.free = true;
            self.workloads[task.workload as usize].idle.push(connection);
        }
    }

    /// Notes that a workload is done, once.
    fn settle(&mut self, index: u32) {
        let workload = &mut self.workloads[index as usize];
        if workload.is_limited() && workload.is_done() && !workload.told {
            workload.told = true;
            self.unfinished -= 1;
        }
    }
}
