//! What the programs know at this moment, read from their pinned maps without disturbing them.
//!
//! A bucket's version is odd while a program writes to it. A bucket is taken as read when its version was even and the
//! same before and after; otherwise it is read again, and in the end as it is: no count is off by more than the packet
//! at hand.

use std::path::{Path, PathBuf};

use libbpf_rs::{MapCore, MapFlags, MapHandle};
use weir_core::Time;
use weir_law::Params;
use weir_law::live::{BUCKET_BYTES, COUNTER_WORDS, LiveConfig, LiveCounters, LiveFlow, flows_of, version_of};

use super::config;
use super::error::KernelError;
use super::program::{self, Programs};
use weir_netdev::clock;

/// Readings of a bucket before it is taken as it is.
const ATTEMPTS: usize = 16;

/// The maps of one queue, open for reading.
#[derive(Debug)]
pub struct Snapshot {
    directory: PathBuf,
    flows: MapHandle,
    counters: MapHandle,
    table: LiveConfig,
    params: Params,
}

impl Snapshot {
    /// Opens the maps that are pinned in `directory`.
    ///
    /// # Errors
    /// [`KernelError::NotPinned`] where nothing is there, [`KernelError::OtherLayout`] where another version of Weir
    /// pinned it.
    pub fn open(directory: &Path) -> Result<Self, KernelError> {
        let settings = program::read_settings(directory)?;
        let pinned = |name: &str| {
            let path = directory.join(name);
            MapHandle::from_pinned_path(&path).map_err(|_| KernelError::NotPinned(path))
        };
        Self::over(directory.to_owned(), &settings, pinned("flows")?, pinned("counters")?)
    }

    /// The same over programs that are not pinned.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn of(programs: &Programs) -> Result<Self, KernelError> {
        Self::over(PathBuf::new(), programs.settings(), programs.map("flows")?, programs.map("counters")?)
    }

    fn over(
        directory: PathBuf,
        settings: &[u8],
        flows: MapHandle,
        counters: MapHandle,
    ) -> Result<Self, KernelError> {
        let known = config::from_bytes(settings).filter(|_| flows.value_size() as usize == BUCKET_BYTES);
        let (table, params) = known.ok_or_else(|| KernelError::OtherLayout(directory.clone()))?;
        Ok(Self { directory, flows, counters, table, params })
    }

    /// Flows that the table has room for.
    #[must_use]
    pub fn capacity(&self) -> u32 {
        self.table.capacity()
    }

    /// The clock by which the programs judge flows idle (CLOCK_MONOTONIC), for [`LiveFlow::idle`].
    #[must_use]
    pub fn now() -> Time {
        clock::monotonic()
    }

    /// All flows that have an entry, in no order.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn flows(&self) -> Result<Vec<LiveFlow>, KernelError> {
        let mut flows = Vec::new();
        for index in 0..self.table.buckets() {
            flows.extend(flows_of(&self.bucket(index)?, &self.params, self.table.law));
        }
        Ok(flows)
    }

    /// The bytes of a bucket (`struct weir_bucket`), whole.
    ///
    /// # Errors
    /// What the kernel said; there are an eighth as many buckets as flows.
    pub fn bucket(&self, index: u32) -> Result<Vec<u8>, KernelError> {
        let read = || -> Result<Vec<u8>, KernelError> {
            let bytes = self.flows.lookup(&index.to_ne_bytes(), MapFlags::ANY);
            let bytes = bytes.map_err(|error| KernelError::from_libbpf("reading the table", &error))?;
            bytes.ok_or_else(|| KernelError::NotPinned(self.directory.join("flows")))
        };
        // The kernel copies from front to back, and the version stands in front.
        let mut bucket = read()?;
        for _ in 0..ATTEMPTS {
            if flows_of(&bucket, &self.params, self.table.law).is_empty() {
                break;
            }
            let next = read()?;
            let version = version_of(&bucket);
            if version.is_some_and(|version| version.is_multiple_of(2)) && version_of(&next) == version {
                break;
            }
            bucket = next;
        }
        Ok(bucket)
    }

    /// The words of `struct weir_counters`, over all processors.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn counter_words(&self) -> Result<[u64; COUNTER_WORDS], KernelError> {
        let each = self.counters.lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY);
        let each = each
            .map_err(|error| KernelError::from_libbpf("reading the counters", &error))?
            .ok_or_else(|| KernelError::NotPinned(self.directory.join("counters")))?;
        let mut sum = [0; COUNTER_WORDS];
        for words in &each {
            for (sum, word) in sum.iter_mut().zip(words.as_chunks().0) {
                *sum += u64::from_ne_bytes(*word);
            }
        }
        Ok(sum)
    }

    /// The counters, over all processors.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn counters(&self) -> Result<LiveCounters, KernelError> {
        Ok(LiveCounters::from_words(self.counter_words()?))
    }
}
