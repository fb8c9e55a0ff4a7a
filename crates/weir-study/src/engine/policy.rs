//! How many runs go on at the same time, by the clock of their world.
//!
//! | clock | runs at a time | why |
//! |---|---|---|
//! | virtual | one per processor, or what is asked for | nothing can be late; a busy machine measures the same |
//! | real | as many as fit by rate, or fewer | a processor that is late is a queue that nobody asked for |
//! | a guest's | one, or what is asked for | a guest counts its own time, but takes a processor and 2 GiB of memory |
//!
//! On the real clock more than fit are refused, not only warned of: the results would be the machine's. Each run says
//! by how much it was late all the same, since other programs may keep the processors busy.

use weir_core::Rate;
use weir_world::{Clock, World};

use super::StudyError;

/// Bits per second for which a run on the real clock gets a processor: a bottleneck and its endpoints take about one
/// per 300 Mbit/s when several run at once, and half of the processors stays free for whatever else the machine does.
const RATE_PER_PROCESSOR: u64 = 150_000_000;
/// With more runs than this per processor packets leave late whatever their rate.
const RUNS_PER_PROCESSOR: usize = 3;
/// What all bottlenecks together ask of each processor, in thousandths: the kernel keeps the rest for ordinary threads.
const SHARE_OF_ALL: usize = 850;

/// The processors of this machine.
pub(super) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// How many runs in `world`, of which the fastest has this rate, go on at the same time, if `wanted` is what is asked
/// for.
pub(super) fn side_by_side(
    world: &dyn World,
    fastest: Rate,
    wanted: Option<usize>,
    processors: usize,
) -> Result<usize, StudyError> {
    let refuse = |jobs, why| Err(StudyError::Jobs { jobs, why });
    let fit = fitting(fastest, processors);
    match (world.clock(), wanted) {
        (_, Some(0)) => refuse(0, "at least one run must go on at a time".to_owned()),
        (Clock::Virtual, wanted) => Ok(wanted.unwrap_or(processors)),
        (Clock::Guest, wanted) => Ok(wanted.unwrap_or(1)),
        (Clock::Real, Some(jobs)) if jobs > fit => {
            let runs = if fit == 1 { "1 run".to_owned() } else { format!("{fit} runs") };
            let world = world.name();
            refuse(
                jobs,
                format!(
                    "{runs} of world {world} with {fastest} fit on {processors} processors; more disturb each \
                     other's packets; give at most --jobs {fit}"
                ),
            )
        }
        (Clock::Real, wanted) => Ok(wanted.unwrap_or(fit)),
    }
}

/// How many runs of that rate fit on the real clock.
fn fitting(fastest: Rate, processors: usize) -> usize {
    let by_rate = processors as u64 * RATE_PER_PROCESSOR / fastest.bits_per_sec().max(1);
    by_rate.clamp(1, (RUNS_PER_PROCESSOR * processors) as u64) as usize
}

/// What each of `parallel` bottlenecks asks of the processors, in thousandths of one.
pub(super) fn share(parallel: usize, processors: usize) -> u32 {
    ((SHARE_OF_ALL * processors / parallel) as u32).min(weir_link::DEFAULT_SHARE)
}

#[cfg(test)]
mod tests {
    use weir_core::Rate;
    use weir_world::{EMU, KERNEL, SIM, VM, World};

    use super::side_by_side;

    #[test]
    fn the_clock_decides_what_runs_side_by_side() {
        let of = |world: &dyn World, mbit: u64, wanted| {
            let rate = Rate::from_bits_per_sec(mbit * 1_000_000);
            side_by_side(world, rate, wanted, 4).map_err(|error| error.to_string())
        };
        assert_eq!((of(SIM, 10_000, None), of(SIM, 10_000, Some(9))), (Ok(4), Ok(9)));
        assert_eq!((of(VM, 10_000, None), of(VM, 10_000, Some(9))), (Ok(1), Ok(9)));
        for world in [EMU, KERNEL] {
            assert_eq!([1, 50, 100, 300, 1000].map(|mbit| of(world, mbit, None).unwrap()), [12, 12, 6, 2, 1]);
            assert_eq!(of(world, 100, Some(6)), Ok(6));
            let error = of(world, 100, Some(7)).unwrap_err();
            assert!(error.contains("--jobs 7: 6 runs of world") && error.contains("--jobs 6"), "{error}");
            assert!(of(world, 1000, Some(2)).unwrap_err().contains("1 run of world"));
        }
        for world in [SIM, EMU, VM] {
            assert!(of(world, 1, Some(0)).is_err());
        }
    }
}
