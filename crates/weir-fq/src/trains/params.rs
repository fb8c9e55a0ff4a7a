//! How the detector by trains works.

use weir_core::Duration;

/// How [`Trains`](super::Trains) works. The defaults are what the documentation's numbers were measured with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrainsParams {
    /// Pairs in the first round; more if their delays scatter. 0 to 10.
    pub pairs: usize,
    /// Time between the heavy packets of a train. Zero where nothing between the host and the bottleneck keeps flows
    /// apart; otherwise twice what the host's own link takes for a packet, so that no train waits in the host's own
    /// queue. The light packet follows the last heavy one at once in any case: a time of its own would give it a fate
    /// of its own where spacing and the bottleneck fall in step.
    pub spacing: Duration,
    /// Heavy packets of the very first train at most: it finds out whether the queue holds more.
    pub first: usize,
    /// Heavy packets of a train at most, if its size is a guess.
    pub most: usize,
    /// Heavy packets of a train at most, if scatter makes it necessary.
    pub longest: usize,
    /// What a train may fill of a shared queue, beyond its first packets.
    pub fill: Duration,
    /// Two packets in order may always seem to be out of order by so much: timestamps and interrupts of receivers.
    pub guard: Duration,
    /// Trains of a first detection at most.
    pub trains: usize,
    /// Trains of a later detection at most, unless what was found has become doubtful.
    pub trains_again: usize,
    /// Time of a detection at most.
    pub deadline: Duration,
    /// Nats at which a finding is certain.
    pub certain: f64,
    /// Nats against fair queuing that end an earlier finding of it.
    pub leave: f64,
    /// How long a bottleneck lasts on average until it changes its kind.
    pub change: Duration,
}

impl Default for TrainsParams {
    fn default() -> Self {
        Self {
            pairs: 5,
            spacing: Duration::ZERO,
            first: 12,
            most: 32,
            longest: 256,
            fill: Duration::from_millis(5),
            guard: Duration::from_micros(100),
            trains: 13,
            trains_again: 2,
            deadline: Duration::from_secs(10),
            certain: 6.9,
            leave: 3.0,
            change: Duration::from_secs(60),
        }
    }
}
