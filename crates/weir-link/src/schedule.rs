//! Makes the calling thread wake up on time, measures what it uses, and sleeps precisely.

use weir_core::{Duration, Time};

use weir_netdev::clock::Clock;

/// How a thread is scheduled, put back when dropped.
#[derive(Debug)]
pub(crate) struct Priority {
    before: Option<(libc::c_int, libc::sched_param)>,
    name: &'static str,
}

/// `struct sched_attr` (include/uapi/linux/sched/types.h), first version.
#[repr(C)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

const SCHED_DEADLINE: u32 = 6;
/// Takes bandwidth that other deadline threads leave unused, rather than be held back at its own.
const SCHED_FLAG_RECLAIM: u64 = 0x02;

/// The thread is promised its share within each period of this length.
const PERIOD: Duration = Duration::from_millis(1);

/// Asks for `share` thousandths of a processor. Whether the kernel grants it: the promises of all threads must fit the
/// machine.
fn ask_for_share(share: u32) -> bool {
    let attributes = SchedAttr {
        size: size_of::<SchedAttr>() as u32,
        policy: SCHED_DEADLINE,
        flags: SCHED_FLAG_RECLAIM,
        nice: 0,
        priority: 0,
        runtime: PERIOD.as_nanos() * u64::from(share) / 1000,
        deadline: PERIOD.as_nanos(),
        period: PERIOD.as_nanos(),
    };
    // SAFETY: concerns the calling thread only; the attributes are of the stated size and live through the call.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) == 0 }
}

impl Priority {
    /// Asks for `share` thousandths of a processor, promised in every millisecond (SCHED_DEADLINE). A fixed real-time
    /// priority is the second choice: since Linux 6.12 it has to stand back for up to 50 ms at a stretch when ordinary
    /// threads have waited (the fair server, kernel/sched/deadline.c). Without the right to either, a nicer nice value.
    pub(crate) fn raise(share: u32) -> Self {
        // SAFETY: plain system calls on the calling thread; `before` and `wanted` are valid through them.
        unsafe {
            let policy = libc::sched_getscheduler(0);
            let mut before: libc::sched_param = std::mem::zeroed();
            libc::sched_getparam(0, &mut before);
            let before = (policy >= 0).then_some((policy, before));
            if ask_for_share(share) {
                return Self { before, name: "deadline" };
            }
            let mut wanted: libc::sched_param = std::mem::zeroed();
            wanted.sched_priority = 1;
            if before.is_some() && libc::sched_setscheduler(0, libc::SCHED_FIFO, &wanted) == 0 {
                return Self { before, name: "fifo" };
            }
            // An ordinary thread's timers may be late by 50 us, to share wake-ups; a nanosecond turns that off.
            libc::prctl(libc::PR_SET_TIMERSLACK, 1u64);
            // On Linux this is the thread's own value, in spite of the name.
            let nice = libc::setpriority(libc::PRIO_PROCESS, 0, -15) == 0;
            Self { before: None, name: if nice { "nice" } else { "normal" } }
        }
    }

    /// `deadline`, `fifo`, `nice` or `normal`.
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }
}

impl Drop for Priority {
    fn drop(&mut self) {
        if let Some((policy, parameters)) = &self.before {
            // SAFETY: gives back to the calling thread what it had.
            unsafe { libc::sched_setscheduler(0, *policy, parameters) };
        }
    }
}

/// CPU time that the calling thread has used, in user and in kernel mode.
pub(crate) fn cpu_used() -> (Duration, Duration) {
    // SAFETY: rusage is plain data, valid for the call to fill.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &mut usage);
        usage
    };
    let nanos = |time: libc::timeval| {
        Duration::from_nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000)
    };
    (nanos(usage.ru_utime), nanos(usage.ru_stime))
}

/// Sleeps until `until` of `clock`.
pub(crate) fn sleep_until(clock: &Clock, until: Time) {
    let nanos = clock.to_monotonic(until);
    let time = libc::timespec {
        tv_sec: (nanos / 1_000_000_000) as libc::time_t,
        tv_nsec: (nanos % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: `time` outlives the call; the remaining time is not asked for. A signal only ends the sleep early.
    unsafe { libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &time, std::ptr::null_mut()) };
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::{Priority, cpu_used, sleep_until};
    use std::time::Instant;
    use weir_core::Duration;
    use weir_netdev::clock::Clock;

    #[test]
    fn sleeps_are_not_short_and_cost_no_cpu() {
        let clock = Clock::starting(Instant::now());
        let _priority = Priority::raise(200);
        let (user, system) = cpu_used();
        let until = clock.now() + Duration::from_millis(20);
        sleep_until(&clock, until);
        assert!(clock.now() >= until);
        let (user_after, system_after) = cpu_used();
        assert!((user_after + system_after) - (user + system) < Duration::from_millis(10));
    }
}
