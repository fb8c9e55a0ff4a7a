//! Runs a loaded program on a packet without any interface (BPF_PROG_TEST_RUN): for tests of the programs against the
//! native law, and for measuring what a packet costs.

use std::time::Duration;

use libbpf_rs::{Object, ProgramInput};

use super::error::KernelError;
use super::program::{Programs, Role};

/// Size of `struct __sk_buff` and offsets in it (include/uapi/linux/bpf.h): fields are added at its end only.
const CONTEXT_BYTES: usize = 192;
const MARK: usize = 8;
const PRIORITY: usize = 32;
const TIME: usize = 152;
const SEGMENTS: usize = 164;
const SEGMENT_BYTES: usize = 176;

/// A packet for a test run.
#[derive(Clone, Copy, Debug, Default)]
pub struct TestPacket<'a> {
    /// The frame from its Ethernet header on, at least 14 bytes. The kernel takes what fits into a page beside its own
    /// structures, 3.7 kB of 4 (Linux 6.18).
    pub frame: &'a [u8],
    /// Its time stamp in nanoseconds, which is the time for programs that were loaded with `test_clock`.
    pub time: u64,
    /// `skb->mark`.
    pub mark: u32,
    /// Segments of a super-packet, 0 for one frame.
    pub segments: u32,
    /// Bytes of its segments, 0 for one frame.
    pub segment_bytes: u32,
}

/// What a program did with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TestResult {
    /// Its verdict: -1 hands the packet on.
    pub verdict: i32,
    /// `skb->priority` afterwards: the class for HTB.
    pub priority: u32,
    /// The mean of all repetitions.
    pub duration: Duration,
}

impl Programs {
    /// Runs a traffic program `repeat` times on a packet.
    ///
    /// # Errors
    /// What the kernel said; frames shorter than an Ethernet header are refused.
    pub fn test_run(
        &self,
        role: Role,
        packet: &TestPacket<'_>,
        repeat: u32,
    ) -> Result<TestResult, KernelError> {
        run(self.traffic(), role.name(), packet, repeat)
    }

    /// Books one signal on a packet, as if a queue had dropped (or with `mark` marked) it. The programs have to be
    /// loaded with `test_clock`.
    ///
    /// # Errors
    /// As [`test_run`](Self::test_run).
    pub fn test_signal(
        &self,
        packet: &TestPacket<'_>,
        stamp: u16,
        mark: bool,
    ) -> Result<TestResult, KernelError> {
        let told = TestPacket { mark: u32::from(mark) << 16 | u32::from(stamp), ..*packet };
        run(self.signal_object(), "told", &told, 1)
    }
}

fn run(object: &Object, name: &str, packet: &TestPacket<'_>, repeat: u32) -> Result<TestResult, KernelError> {
    let (mut before, mut after) = ([0; CONTEXT_BYTES], [0; CONTEXT_BYTES]);
    let mut set = |at: usize, bytes: &[u8]| before[at..at + bytes.len()].copy_from_slice(bytes);
    set(MARK, &packet.mark.to_ne_bytes());
    set(TIME, &packet.time.to_ne_bytes());
    set(SEGMENTS, &packet.segments.to_ne_bytes());
    set(SEGMENT_BYTES, &packet.segment_bytes.to_ne_bytes());
    let program = object.progs_mut().find(|program| program.name().to_string_lossy() == name);
    let failed = |error: &libbpf_rs::Error| KernelError::from_libbpf(format!("running {name}"), error);
    let Some(program) = program else {
        return Err(failed(&std::io::Error::from(std::io::ErrorKind::NotFound).into()));
    };
    let input = ProgramInput {
        context_in: Some(&mut before),
        context_out: Some(&mut after),
        data_in: Some(packet.frame),
        repeat,
        ..Default::default()
    };
    let output = program.test_run(input).map_err(|error| failed(&error))?;
    let (verdict, duration) = (output.return_value as i32, output.duration);
    let word = |at: usize| u32::from_ne_bytes([after[at], after[at + 1], after[at + 2], after[at + 3]]);
    Ok(TestResult { verdict, priority: word(PRIORITY), duration })
}
