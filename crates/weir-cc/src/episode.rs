//! The states of the kernel's TCP (`enum tcp_ca_state`) for controllers that do without its window reductions.

use crate::{Ack, Timeout};

/// In the order of the kernel's numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum State {
    #[default]
    Open,
    /// Congestion was signalled by marks.
    Cwr,
    /// Packets were lost.
    Recovery,
    /// The retransmission timer fired.
    Loss,
}

impl State {
    /// Whether a controller is told of a timeout in this state (`tcp_enter_loss`): not while what had been sent when
    /// marks or losses were last answered is missing (it has not all `arrived`), nor of the backoff of another timeout,
    /// unless there was `progress` since.
    pub(crate) const fn timeout_is_news(self, arrived: bool, progress: bool) -> bool {
        match self {
            Self::Open => true,
            Self::Cwr | Self::Recovery => arrived,
            Self::Loss => progress,
        }
    }
}

/// In which state a connection is, and until when.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Episode {
    state: State,
    high: u64,
    una: u64,
    /// Whether data has been acknowledged since the last timeout.
    progress: bool,
    /// Packets delivered when the state began.
    began: u64,
    /// Whether the newest acknowledgement ended a state, though it may have begun another.
    ended: bool,
}

impl Episode {
    pub(crate) const fn state(&self) -> State {
        self.state
    }

    /// What an acknowledgement does to the state; `echo` if a mark that it brings matters. Returns whether a recovery
    /// begins with it, perhaps where another ends (`tcp_try_undo_recovery`, then `tcp_enter_recovery`).
    pub(crate) fn on_ack(&mut self, ack: &Ack, echo: bool) -> bool {
        self.progress |= ack.una > self.una;
        self.una = ack.una;
        let over = match self.state {
            State::Open => false,
            State::Cwr => ack.una > self.high,
            State::Recovery | State::Loss => ack.una >= self.high,
        };
        self.ended = over;
        if over {
            self.state = State::Open;
        }
        match self.state {
            State::Open | State::Cwr if ack.missing > 0 => {
                if self.state == State::Open {
                    self.high = ack.next;
                }
                self.state = State::Recovery;
                return true;
            }
            State::Open if echo => {
                self.high = ack.next;
                self.state = State::Cwr;
                self.began = ack.total_delivered;
            }
            _ => {}
        }
        false
    }

    /// Whether the newest acknowledgement led to Open, if only for a moment.
    pub(crate) const fn ended(&self) -> bool {
        self.ended
    }

    /// Whether Cwr began with this acknowledgement (one may end an episode and begin the next).
    pub(crate) const fn began(&self, ack: &Ack) -> bool {
        self.began == ack.total_delivered
    }

    /// The retransmission timer fires. Returns whether the controller is told of it.
    pub(crate) fn on_timeout(&mut self, timeout: &Timeout) -> bool {
        let news = self.state.timeout_is_news(self.una >= self.high, self.progress);
        self.state = State::Loss;
        self.high = timeout.next;
        self.progress = false;
        news
    }
}

#[cfg(test)]
mod tests {
    use super::{Episode, State};
    use crate::Timeout;
    use weir_core::Time;

    #[test]
    fn a_timeout_is_news_unless_it_falls_into_what_is_being_answered() {
        for (state, una, progress, news) in [
            (State::Open, 5, false, true),
            (State::Cwr, 9, true, false),
            (State::Cwr, 10, true, true),
            (State::Recovery, 9, true, false),
            (State::Recovery, 10, true, true),
            // The backoff of a timeout, and a timeout after something has arrived.
            (State::Loss, 9, false, false),
            (State::Loss, 9, true, true),
        ] {
            let mut episode = Episode { state, una, progress, high: 10, ..Episode::default() };
            let timeout = Timeout { now: Time::ZERO, in_flight: 0, next: 12 };
            assert_eq!(episode.on_timeout(&timeout), news, "{state:?} {una} {progress}");
            assert_eq!((episode.state, episode.high, episode.progress), (State::Loss, 12, false));
        }
    }
}
