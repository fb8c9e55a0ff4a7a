//! Ways in which the oracle can be made to go wrong in one place: the mistakes that an implementation of CoDel invites.
//! Each must show in some pattern; one that did not would be a mistake the comparison could not see.

use crate::model::Kernel;

macro_rules! slips {
    ($($(#[$doc:meta])* $slip:ident in $kernel:ident,)*) => {
        /// One deliberate mistake.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Slip {
            $($(#[$doc])* $slip,)*
        }

        /// Every slip, with the kernel version whose rule it breaks.
        pub(crate) const SLIPS: &[(Slip, Kernel)] = &[$((Slip::$slip, Kernel::$kernel),)*];
    };
}

slips! {
    /// Drops from `first_above` on, not only after it.
    AboveFromTheFirstTick in V6_12,
    /// Drops after `drop_next`, not from it on.
    DropNextStrictlyPassed in V6_12,
    /// A sojourn of exactly the target is below it.
    TargetCountsAsBelow in V6_12,
    /// A backlog of exactly one MTU is enough to drop.
    BacklogOfOneMtuCounts in V6_12,
    /// The packet at hand is part of the backlog.
    BacklogWithThePacketAtHand in V6_12,
    /// RFC 8289's least backlog: the largest packet seen.
    BacklogOfLargestPacket in V6_12,
    /// The sojourn is cut to ticks after the subtraction, not before.
    SojournInNanoseconds in V6_12,
    /// Times are compared as plain numbers.
    UnsignedTimes in V6_12,
    /// A `first_above` that falls on tick zero of the clock counts, where the kernel takes it for unset.
    TickZeroIsATime in V6_12,
    /// Settings are rounded to the nearest tick.
    SettingsRounded in V6_12,
    /// RFC 8289's exact root.
    ExactSquareRoot in V6_12,
    /// Two Newton steps for each count.
    NewtonTwice in V6_12,
    /// No Newton step when the old count is taken up again.
    NewtonNotOnReentry in V6_12,
    /// The inverse root keeps 32 bits between steps.
    NewtonKeeps32Bits in V6_12,
    /// The next drop is due an interval over root after now, not after the last one was due.
    LawFromNow in V6_12,
    /// Every dropping state starts from count one.
    NoMemory in V6_12,
    /// A new dropping state takes up the whole count, not its growth.
    MemoryOfWholeCount in V6_12,
    /// A growth of one is taken up too.
    MemoryOfDeltaOne in V6_12,
    /// The count is remembered for 15 intervals.
    MemoryOf15Intervals in V6_12,
    /// The count is still remembered at exactly 16 intervals.
    MemoryToTheLastTick in V6_12,
    /// Growth is measured from zero, not from the count at entry.
    LastCountNotKept in V6_12,
    /// After the drop that enters the dropping state the next packet is not looked at.
    NoRetestAfterFirstDrop in V6_12,
    /// One drop per dequeue, however many are due.
    OneDropPerDequeue in V6_12,
    /// A mark does not raise the count.
    MarkedPacketNotCounted in V6_12,
    /// A mark ends the dropping state.
    MarkLeavesDropping in V6_12,
    /// A packet that is CE already is dropped.
    CeIsNotCapable in V6_12,
    /// ECT(1) is dropped.
    Ect1IsNotCapable in V6_12,
    /// Drops although ECN is on.
    EcnIgnored in V6_12,
    /// The shallow threshold marks from its very value on.
    ThresholdInclusive in V6_12,
    /// The shallow threshold sees the sojourn of the first packet of the dequeue, not of the one that leaves.
    ThresholdOfFirstPacket in V6_12,
    /// The shallow threshold drops what it cannot mark.
    ThresholdDropsOthers in V6_12,
    /// The shallow threshold marks ECT(0) too where it is for ECT(1).
    SelectorIgnored in V6_12,
    /// One packet more than the limit fits.
    LimitOneMore in V6_12,
    /// One packet less than the limit fits.
    LimitOneLess in V6_12,
    /// 255 drops per dequeue.
    CapOneLess in V7_2,
    /// 257 drops per dequeue.
    CapOneMore in V7_2,
    /// At the cap the schedule is not brought up to now.
    CapKeepsDropNext in V7_2,
    /// The schedule is brought up to now after 256 drops even if no other is due.
    CapBeforeItIsExceeded in V7_2,
    /// No cap.
    NoCap in V7_2,
    /// The law may step by no tick at all.
    StepMayBeZero in V7_2,
    /// The law steps by one tick at least.
    StepAtLeastOne in V6_12,
}
