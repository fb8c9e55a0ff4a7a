//! The states of the kernel's TCP (`enum tcp_ca_state`) for controllers that do without its window reductions.

use crate::Ack;

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

/// In which state a connection is, and until when.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Episode {
    state: State,
    high: u64,
    next: u64,
    /// Packets delivered when the state began.
    began: u64,
}

impl Episode {
    pub(crate) const fn state(&self) -> State {
        self.state
    }

    /// What an acknowledgement does to the state; `echo` if a mark that it brings matters. Returns whether a recovery
    /// begins with it, perhaps where another ends (`tcp_try_undo_recovery`, then `tcp_enter_recovery`).
    pub(crate) fn on_ack(&mut self, ack: &Ack, echo: bool) -> bool {
        self.next = ack.next;
        let over = match self.state {
            State::Open => false,
            State::Cwr => ack.una > self.high,
            State::Recovery | State::Loss => ack.una >= self.high,
        };
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

    /// Whether Cwr began with this acknowledgement (one may end an episode and begin the next).
    pub(crate) const fn began(&self, ack: &Ack) -> bool {
        self.began == ack.total_delivered
    }

    pub(crate) fn on_timeout(&mut self) {
        self.state = State::Loss;
        self.high = self.next;
    }
}
