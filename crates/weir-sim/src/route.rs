//! Routes: over which queues a flow's packets go in each direction, for flows that need more than one queue and
//! constant delays. What they meet happens event by event, at the time at which it happens.

use weir_core::{Duration, Seed, Time};

use crate::endpoint::{AckFrame, Note};
use crate::flow::{FlowSpec, SpecError};
use crate::hop::{Hop, HopId};
use crate::impairment::{Dice, Impairment};
use crate::line::Line;
use crate::observer::Way;

/// One side of a link on a route.
pub(crate) struct Stop {
    pub(crate) link: HopId,
    pub(crate) way: Way,
    /// Where packets queue; none where nothing is in the way.
    pub(crate) queue: Option<HopId>,
    /// From the end of the transmission to the stop after it, or to the end of the route.
    pub(crate) onward: Duration,
    pub(crate) dice: Option<Dice>,
}

/// All stops in one direction.
pub(crate) struct Route {
    /// From the end that sends to the first stop.
    pub(crate) first: Duration,
    pub(crate) stops: Vec<Stop>,
}

/// An acknowledgement on its way to the sender.
#[derive(Clone, Copy)]
pub(crate) struct Answer {
    pub(crate) frame: AckFrame,
    pub(crate) note: Note,
}

/// An acknowledgement alone.
#[derive(Clone, Copy)]
pub(crate) struct Alone {
    pub(crate) answer: Answer,
    /// Bytes of its own stream that the end which sends it had sent.
    pub(crate) sent: u64,
}

/// A packet of a two-way flow, and what it acknowledges.
#[derive(Clone, Copy)]
pub(crate) struct Rider {
    /// The stream of the other end has come this far, in packets.
    pub(crate) next: u64,
    /// What its end reports of marks: see [`Receiver::marks`](crate::endpoint::Receiver::marks).
    pub(crate) marks: (bool, u64),
    /// The acknowledgement, if one was due.
    pub(crate) answer: Option<Answer>,
}

/// What a flow knows that goes by routes. Of the two halves of a two-way flow, the first has the routes of both.
pub(crate) struct Routed {
    /// The half with the routes; packets bear its name.
    pub(crate) owner: u32,
    /// The other half of a two-way flow, whose data goes against this one's.
    pub(crate) other: Option<u32>,
    /// Of this half's data: 0 or 1 in `routes`.
    pub(crate) direction: usize,
    pub(crate) routes: [Route; 2],
    /// See [`Flow::rounds`](crate::flow::Flow::rounds).
    pub(crate) rounds: [Duration; 2],
    /// Acknowledgements alone that are on their way to the sender. A later one reports all that an earlier one did, so
    /// one that arrives takes those before it away.
    pub(crate) acks: Line<Alone>,
    /// Those that ride on data, by the packets that carry them.
    pub(crate) riders: Line<Rider>,
    /// What data of this half echoes, [`Flow::heard`](crate::flow::Flow::heard) when it set out; none where nobody
    /// looks.
    pub(crate) echoes: Line<Time>,
    /// Bytes that the receiver of a two-way flow has written back.
    pub(crate) answered: u64,
}

impl Route {
    const EMPTY: Self = Self { first: Duration::ZERO, stops: Vec::new() };

    /// Leaves out stops at which nothing happens, if nobody looks.
    fn shorten(&mut self) {
        let mut kept: Vec<Stop> = Vec::with_capacity(self.stops.len());
        for stop in self.stops.drain(..) {
            match kept.last_mut() {
                _ if stop.queue.is_some() || stop.dice.is_some() => kept.push(stop),
                Some(before) => before.onward = before.onward + stop.onward,
                None => self.first = self.first + stop.onward,
            }
        }
        self.stops = kept;
    }
}

impl Routed {
    /// Of flow `owner`, with draws from streams named after `name`; nothing if it is one that constant delays do for.
    /// What is `watched` has a stop on each side of each link.
    pub(crate) fn of(
        spec: &FlowSpec,
        hops: &[Hop],
        seed: Seed,
        owner: u32,
        name: &str,
        watched: bool,
    ) -> Result<Option<Self>, SpecError> {
        for (place, hop) in spec.path.iter().enumerate() {
            if hops.get(hop.index()).is_none() || spec.path[..place].contains(hop) {
                return Err(SpecError::Path { hop: hop.index() });
            }
        }
        let is_plain = |hop: &HopId| {
            let hop = &hops[hop.index()];
            hop.back.is_none()
                && hop.delay == Duration::ZERO
                && hop.impairment.is_none()
                && hop.back_impairment.is_none()
        };
        if spec.path.len() == 1 && !spec.up && !spec.two_way && is_plain(&spec.path[0]) {
            return Ok(None);
        }
        let behind = spec.rtt.scale(spec.position);
        let before = spec.rtt - behind;
        let stop = |link: HopId, way: Way, rest: Duration| -> Result<Stop, SpecError> {
            let hop = &hops[link.index()];
            let (queue, impairment, side) = match (way, hop.back) {
                (Way::Forward, _) => (Some(link), hop.impairment, "forward"),
                (Way::Back, Some(queue)) => (Some(queue), hops[queue.index()].impairment, "back"),
                (Way::Back, None) => (None, hop.back_impairment, "back"),
            };
            let onward = hop.delay + rest;
            let Impairment { jitter, .. } = impairment;
            if jitter > onward {
                return Err(SpecError::Jitter { hop: link.index(), jitter, delay: onward });
            }
            let name = format!("{name} link {} {side}", link.index());
            let dice = (!impairment.is_none()).then(|| Dice::new(impairment, seed, &name));
            Ok(Stop { link, way, queue, onward, dice })
        };
        let last = spec.path.len() - 1;
        let rest = |is_last: bool, delay: Duration| if is_last { delay } else { Duration::ZERO };
        let forward = Route {
            first: before / 2,
            stops: spec
                .path
                .iter()
                .enumerate()
                .map(|(place, link)| stop(*link, Way::Forward, rest(place == last, behind / 2)))
                .collect::<Result<_, _>>()?,
        };
        let back = Route {
            first: behind - behind / 2,
            stops: spec
                .path
                .iter()
                .enumerate()
                .rev()
                .map(|(place, link)| stop(*link, Way::Back, rest(place == 0, before - before / 2)))
                .collect::<Result<_, _>>()?,
        };
        let mut routes = if spec.up { [back, forward] } else { [forward, back] };
        if !watched {
            routes.iter_mut().for_each(Route::shorten);
        }
        let links = spec.path.iter().fold(Duration::ZERO, |sum, hop| sum + hops[hop.index()].delay * 2);
        let rounds = [before, behind + links];
        Ok(Some(Self { rounds, ..Self::half(owner, spec.two_way.then_some(owner + 1), 0, routes) }))
    }

    /// The half whose data goes back.
    pub(crate) fn answering(owner: u32) -> Self {
        Self::half(owner, Some(owner), 1, [Route::EMPTY, Route::EMPTY])
    }

    fn half(owner: u32, other: Option<u32>, direction: usize, routes: [Route; 2]) -> Self {
        Self {
            owner,
            other,
            direction,
            routes,
            rounds: [Duration::ZERO; 2],
            acks: Line::default(),
            riders: Line::default(),
            echoes: Line::default(),
            answered: 0,
        }
    }

    /// Where on the owner's routes the queue `hop` is: direction and place.
    pub(crate) fn find(&self, hop: HopId) -> Option<(usize, usize)> {
        (0..2).find_map(|direction| {
            let stops = &self.routes[direction].stops;
            Some((direction, stops.iter().position(|stop| stop.queue == Some(hop))?))
        })
    }

    /// What has been overtaken on its way is to be read all the same where it passes.
    pub(crate) fn remember(&mut self) {
        self.acks.remember();
        self.riders.remember();
        self.echoes.remember();
    }

    /// The acknowledgement with this number has arrived.
    pub(crate) fn take_ack(&mut self, number: u32) -> Option<AckFrame> {
        self.acks.take(u64::from(number)).map(|alone| alone.answer.frame)
    }

    /// The data packet with this number has arrived: what rides on it.
    pub(crate) fn take_rider(&mut self, number: u64) -> Option<AckFrame> {
        self.riders.take(number)?.answer.map(|answer| answer.frame)
    }
}
