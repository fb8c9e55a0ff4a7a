//! Who lets packets go at their times: the thread of the endpoint, or the kernel's `fq` or `etf` towards the receiver
//! (`SO_TXTIME`, socket(7)), to which they are handed a little ahead of time.

use std::io;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use weir_core::Duration;
use weir_netdev::timed::{Etf, Timed, towards};

use crate::Error;
use crate::clock::now;

/// Who is to let packets go at their times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Departures {
    /// The kernel where it can, else the thread.
    #[default]
    Auto,
    /// The thread.
    Thread,
    /// The kernel, or nobody.
    Kernel,
}

impl FromStr for Departures {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "thread" => Ok(Self::Thread),
            "kernel" => Ok(Self::Kernel),
            _ => Err(format!("'{text}' is none of auto, thread and kernel")),
        }
    }
}

/// Who has let packets go at their times.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Departed {
    /// `thread`, `fq` or `etf`.
    pub by: &'static str,
    /// Packets that `etf` says it has dropped because their times had passed or were wrong; the others left in time.
    pub dropped: u64,
    /// Why it is the thread although the kernel began.
    pub note: Option<String>,
}

/// The choice for one connection, shared by its sending end and its sockets.
#[derive(Debug)]
pub(crate) struct Timing {
    qdisc: Option<Timed>,
    /// The kernel is to let packets go, and has not failed to.
    kernel: AtomicBool,
    dropped: AtomicU64,
    note: Mutex<Option<String>>,
}

/// A packet is handed over so long before it is to leave, besides what the qdisc asks for: longer than the kernel
/// usually takes to wake a thread.
const AHEAD: Duration = Duration::from_micros(300);
/// Of more packets that `etf` drops, the next ones are the thread's.
const MOST_DROPPED: u64 = 8;
/// A packet without a time of its own gets one so much later than the earliest that `etf` takes.
const MARGIN: Duration = Duration::from_micros(100);

impl Timing {
    /// The thread's, towards any receiver.
    pub(crate) fn thread() -> Self {
        Self::new(None, false)
    }

    fn new(qdisc: Option<Timed>, kernel: bool) -> Self {
        Self { qdisc, kernel: AtomicBool::new(kernel), dropped: AtomicU64::new(0), note: Mutex::new(None) }
    }

    /// Looks who can do it, towards a receiver.
    pub(crate) fn find(asked: Departures, remote: IpAddr) -> Result<Self, Error> {
        // Where the kernel tells nothing of its qdiscs, there is the thread.
        let qdisc = towards(remote).unwrap_or(None);
        let can = match qdisc {
            Some(Timed::Fq) => true,
            // By deadlines, packets leave before their times.
            Some(Timed::Etf(etf)) => !etf.deadline,
            None => false,
        };
        if asked == Departures::Kernel && !can {
            let what = "has no fq, and no etf without deadlines, that lets packets go at their times";
            return Err(Error::Local(format!("the interface towards {remote} {what}: tc qdisc")));
        }
        Ok(Self::new(qdisc, can && asked != Departures::Thread))
    }

    /// What `SO_TXTIME` of the sockets is to be: the clock, and flags; none if packets carry no times.
    pub(crate) fn option(&self) -> Option<(libc::clockid_t, u32)> {
        match self.qdisc? {
            Timed::Fq => self.is_kernel().then_some((libc::CLOCK_MONOTONIC, 0)),
            Timed::Etf(Etf { deadline, .. }) => {
                let deadline = if deadline { libc::SOF_TXTIME_DEADLINE_MODE } else { 0 };
                Some((libc::CLOCK_TAI, deadline | libc::SOF_TXTIME_REPORT_ERRORS))
            }
        }
    }

    fn is_kernel(&self) -> bool {
        self.kernel.load(Ordering::Relaxed)
    }

    /// How long before its time a packet is to be handed over; zero where the thread lets it go.
    pub(crate) fn ahead(&self) -> Duration {
        match self.qdisc {
            _ if !self.is_kernel() => Duration::ZERO,
            Some(Timed::Etf(Etf { delta, offload: true, .. })) => AHEAD + delta,
            _ => AHEAD,
        }
    }

    /// The time that a packet carries, in nanoseconds of the qdisc's clock: that of its departure if it has one.
    pub(crate) fn stamp(&self, at: Option<Instant>) -> Option<u64> {
        let at = at.filter(|_| self.is_kernel());
        match self.qdisc? {
            Timed::Fq => Some(read(libc::CLOCK_MONOTONIC) + from_now(at?)),
            Timed::Etf(Etf { delta, deadline, offload }) => {
                let delta = delta.as_nanos();
                // It goes on from there `delta` before its time, which the interface keeps only if it offers to.
                let after = match at {
                    Some(at) if offload => from_now(at).max(delta + MARGIN.as_nanos()),
                    Some(at) => delta + from_now(at),
                    None if deadline => delta + 100 * MARGIN.as_nanos(),
                    None => delta + MARGIN.as_nanos(),
                };
                Some(read(libc::CLOCK_TAI) + after)
            }
        }
    }

    /// The kernel has not taken a packet with a time: whether it can be sent without.
    pub(crate) fn refused(&self, error: &io::Error) -> bool {
        let is_about_times = matches!(error.raw_os_error(), Some(libc::ENOBUFS | libc::EINVAL | libc::EPERM));
        is_about_times && self.fall_back(|| format!("the kernel takes no packets with times: {error}"))
    }

    /// The qdisc says that it has dropped a packet for its time.
    pub(crate) fn dropped(&self) {
        let dropped = self.dropped.fetch_add(1, Ordering::Relaxed) + 1;
        if dropped > MOST_DROPPED {
            self.fall_back(|| format!("etf has dropped {dropped} packets for their times"));
        }
    }

    /// From here on it is the thread; whether it was the kernel.
    fn fall_back(&self, why: impl FnOnce() -> String) -> bool {
        let was_kernel = self.kernel.swap(false, Ordering::Relaxed);
        if was_kernel {
            *self.note.lock().unwrap_or_else(PoisonError::into_inner) = Some(why());
        }
        was_kernel
    }

    /// What is to be told of it.
    pub(crate) fn told(&self) -> Departed {
        let by = match self.qdisc {
            Some(Timed::Fq) if self.is_kernel() => "fq",
            Some(Timed::Etf(_)) if self.is_kernel() => "etf",
            _ => "thread",
        };
        let note = self.note.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Departed { by, dropped: self.dropped.load(Ordering::Relaxed), note }
    }
}

/// Nanoseconds from now to an instant; none back.
fn from_now(at: Instant) -> u64 {
    Duration::from(at.saturating_duration_since(now())).as_nanos()
}

/// What a clock shows, in nanoseconds.
fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: fills the time; fails for clocks that are not there alone.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::{AHEAD, Departures, Etf, MOST_DROPPED, Timed, Timing, read};
    use crate::clock::now;
    use weir_core::Duration;

    #[test]
    fn a_kernel_that_fails_is_let_be() {
        let timing = Timing::new(Some(Timed::Fq), true);
        assert_eq!((timing.ahead(), timing.told().by), (AHEAD, "fq"));
        assert!(timing.stamp(None).is_none(), "what has no time goes as it comes");
        assert!(!timing.refused(&io::Error::from_raw_os_error(libc::ECONNREFUSED)));
        assert!(timing.refused(&io::Error::from_raw_os_error(libc::ENOBUFS)));
        assert!(!timing.refused(&io::Error::from_raw_os_error(libc::ENOBUFS)), "not twice for one packet");
        assert_eq!((timing.ahead(), timing.stamp(Some(now()))), (Duration::ZERO, None));
        assert!(timing.told().by == "thread" && timing.told().note.is_some());
    }

    #[test]
    fn etf_gets_a_time_with_every_packet() {
        let delta = Duration::from_micros(200);
        for offload in [false, true] {
            let timing = Timing::new(Some(Timed::Etf(Etf { delta, deadline: false, offload })), true);
            let at = now() + std::time::Duration::from_millis(50);
            let from = read(libc::CLOCK_TAI);
            let [timed, plain] = [Some(at), None].map(|at| timing.stamp(at).unwrap() - from);
            let due = 50_000_000 + if offload { 0 } else { 200_000 };
            assert!((due - 10_000_000..due + 10_000_000).contains(&timed), "{timed}");
            assert!(plain >= 300_000);
            (0..=MOST_DROPPED).for_each(|_| timing.dropped());
            assert_eq!(timing.told().by, "thread");
            assert!(timing.stamp(Some(at)).is_some());
        }
    }

    #[test]
    fn the_thread_does_it_where_the_kernel_cannot() {
        let home = "127.0.0.1".parse().unwrap();
        assert_eq!(Timing::find(Departures::Auto, home).unwrap().told().by, "thread");
        assert!(Timing::find(Departures::Kernel, home).is_err());
    }
}
