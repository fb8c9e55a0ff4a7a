//! Jobs that are all there from the start, in a list: suites, figures, and the candidates of a hunt.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Mutex;

use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;
use weir_core::Rate;
use weir_report::result::RunResult;

use super::work::lock;
use super::{Address, Job, Kept, Made, Options, Origin, Outcome, Store, Study, StudyError, address, run};

/// What is kept of each run of a list, and what is known of it from then on.
pub trait Keeper: Sync {
    /// What is kept of a run in the store.
    type Kept: Serialize + DeserializeOwned;
    /// What is known of a run.
    type Known: Clone + Send;

    /// Takes both from the result of a run that has just ended, and writes what is kept elsewhere. `jobs` are those
    /// that have this result: mostly one, never none.
    ///
    /// # Errors
    /// If it cannot be written.
    fn keep(&self, jobs: &[&Job], result: RunResult) -> Result<(Self::Kept, Self::Known), StudyError>;

    /// What is known of a run that an earlier command has made; none if what was kept elsewhere is not as it was
    /// written.
    fn recall(&self, jobs: &[&Job], kept: Self::Kept) -> Option<Self::Known>;
}

/// Why nothing is known of a run.
#[derive(Clone, Debug, Error)]
pub enum Unknown {
    /// It failed, and why.
    #[error("{0}")]
    Failed(String),
    /// An interrupt came first.
    #[error("interrupted before it ended")]
    Interrupted,
}

/// What is known of each job of a list, or why nothing is.
pub type Each<T> = Vec<Result<T, Unknown>>;

/// Jobs in a list.
pub struct List<'a, K: Keeper> {
    jobs: &'a [Job],
    origin: &'a Origin,
    keeper: K,
    addresses: Vec<Address>,
    /// The jobs of each address, mostly one.
    same: HashMap<Address, Vec<usize>>,
    known: Mutex<Vec<Option<K::Known>>>,
}

/// What the results of jobs are kept under, each a `T`.
pub(crate) fn addresses<T>(jobs: &[Job], origin: &Origin) -> Vec<Address> {
    jobs.iter().map(|job| address::<T>(&origin.describe(&job.scenario), job.run)).collect()
}

impl<'a, K: Keeper> List<'a, K> {
    /// These jobs, of which nothing is known yet.
    pub fn new(jobs: &'a [Job], origin: &'a Origin, keeper: K) -> Self {
        let addresses = addresses::<K::Kept>(jobs, origin);
        let mut same = HashMap::<Address, Vec<usize>>::new();
        for (index, address) in addresses.iter().enumerate() {
            same.entry(*address).or_default().push(index);
        }
        let known = Mutex::new(vec![None; jobs.len()]);
        Self { jobs, origin, keeper, addresses, same, known }
    }

    /// What each job's result is kept under.
    pub(crate) fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Runs the jobs that have no result in `store` yet, as [`run`] does: what is known of each, or why nothing is.
    ///
    /// # Errors
    /// As [`run`].
    pub fn make(self, store: &Store, options: &Options) -> Result<(Each<K::Known>, Made), StudyError> {
        let made = run(&self, store, options)?;
        let known = self.known.into_inner().unwrap_or_else(|poison| poison.into_inner());
        let known = known.into_iter().zip(&self.addresses).map(|(known, address)| {
            known.ok_or_else(|| match store.read::<K::Kept>(address) {
                Kept::Whole(Outcome::Failed(error)) => Unknown::Failed(error),
                _ => Unknown::Interrupted,
            })
        });
        Ok((known.collect(), made))
    }

    /// The jobs whose result is that of this one, itself among them.
    fn same(&self, index: usize) -> Vec<&'a Job> {
        self.same[&self.addresses[index]].iter().map(|index| &self.jobs[*index]).collect()
    }

    fn remember(&self, index: usize, known: K::Known) {
        let same = &self.same[&self.addresses[index]];
        let mut all = lock(&self.known);
        for (index, known) in same.iter().zip(std::iter::repeat_n(known, same.len())) {
            all[*index] = Some(known);
        }
    }
}

impl<K: Keeper> Study for List<'_, K> {
    type Kept = K::Kept;
    type Error = StudyError;

    fn origin(&self) -> &Origin {
        self.origin
    }

    fn count(&self) -> usize {
        self.jobs.len()
    }

    fn address(&self, index: usize) -> &Address {
        &self.addresses[index]
    }

    fn fastest(&self) -> Rate {
        self.jobs.iter().map(|job| job.scenario.bottleneck.rate).max().unwrap_or_default()
    }

    fn job(&self, index: usize) -> Result<Cow<'_, Job>, StudyError> {
        Ok(Cow::Borrowed(&self.jobs[index]))
    }

    fn keep(&self, index: usize, _: &Job, result: RunResult) -> Result<K::Kept, StudyError> {
        let (kept, known) = self.keeper.keep(&self.same(index), result)?;
        self.remember(index, known);
        Ok(kept)
    }

    fn recall(&self, index: usize, kept: K::Kept) -> bool {
        let known = self.keeper.recall(&self.same(index), kept);
        known.map(|known| self.remember(index, known)).is_some()
    }
}
