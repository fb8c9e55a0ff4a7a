//! Parts of a sweep that cost about the same: shards for machines that know nothing of each other, and batches for
//! workers that ask for more when they are done.
//!
//! Both follow from the file alone, by what each cell is [expected to cost](weir_world::Cost), so that every machine
//! cuts the sweep the same way.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use super::Sweep;

/// One of several parts, written `I/N`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// From 1 to `of`.
    part: usize,
    of: usize,
}

/// What is no [`Shard`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ShardError {
    /// It has no two numbers.
    #[error("write I/N, shard I of N, such as 1/4")]
    Form,
    /// There are no such parts.
    #[error("there is no shard {part} of {of}; {}", range(*.of))]
    Range {
        /// I.
        part: usize,
        /// N.
        of: usize,
    },
}

fn range(of: usize) -> String {
    if of == 0 { "N is 1 at least".to_owned() } else { format!("they are 1/{of} to {of}/{of}") }
}

impl FromStr for Shard {
    type Err = ShardError;

    fn from_str(text: &str) -> Result<Self, ShardError> {
        let number = |digits: &str| {
            let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
            digits.parse::<usize>().ok().filter(|_| plain)
        };
        let (part, of) = text.split_once('/').ok_or(ShardError::Form)?;
        let (part, of) = number(part).zip(number(of)).ok_or(ShardError::Form)?;
        if (1..=of).contains(&part) { Ok(Self { part, of }) } else { Err(ShardError::Range { part, of }) }
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.part, self.of)
    }
}

impl Sweep {
    /// The cells of a shard, in order. Cells that have the same result are in one.
    pub fn shard(&self, shard: Shard) -> Vec<usize> {
        // By the first cell of each result: what it costs, and all its cells.
        let mut first = HashMap::new();
        let mut cells = BTreeMap::<usize, Vec<usize>>::new();
        for cell in 0..self.cells() {
            cells.entry(*first.entry(self.address(cell)).or_insert(cell)).or_default().push(cell);
        }
        let costs: Vec<(usize, u64)> = cells.keys().map(|first| (*first, self.cost(*first))).collect();
        let own = spread(costs, shard.of).swap_remove(shard.part - 1);
        let mut own: Vec<usize> = own.into_iter().flat_map(|first| cells[&first].iter().copied()).collect();
        own.sort_unstable();
        own
    }

    /// These cells in batches of about the same cost, the dearest cells first: a batch has `mean` cells in the mean.
    pub fn batches(&self, cells: &[usize], mean: usize) -> Vec<Vec<usize>> {
        let costs = cells.iter().map(|cell| (*cell, self.cost(*cell))).collect();
        cut(costs, mean)
    }

    /// What these cells are expected to cost together: packets, or nanoseconds where packets are real.
    pub fn expected(&self, cells: &[usize]) -> f64 {
        cells.iter().map(|cell| self.cost(*cell) as f64).sum()
    }
}

fn dearest_first(items: &mut [(usize, u64)]) {
    items.sort_unstable_by_key(|(item, cost)| (Reverse(*cost), *item));
}

/// Spreads items over parts: the dearest first, each to the part that has least. No part then has more than the mean
/// and one item.
fn spread(mut items: Vec<(usize, u64)>, parts: usize) -> Vec<Vec<usize>> {
    dearest_first(&mut items);
    let mut out = vec![Vec::new(); parts];
    let mut loads: BinaryHeap<Reverse<(u128, usize)>> = (0..parts).map(|part| Reverse((0, part))).collect();
    for (item, cost) in items {
        let Some(mut least) = loads.peek_mut() else { break };
        let Reverse((load, part)) = &mut *least;
        *load += u128::from(cost);
        out[*part].push(item);
    }
    out
}

/// Cuts items, the dearest first, into batches that each have the same share of the cost, or one item.
fn cut(mut items: Vec<(usize, u64)>, mean: usize) -> Vec<Vec<usize>> {
    dearest_first(&mut items);
    let total: u128 = items.iter().map(|(_, cost)| u128::from(*cost)).sum();
    let share = total.div_ceil(items.len().div_ceil(mean.max(1)).max(1) as u128);
    let mut batches: Vec<Vec<usize>> = Vec::new();
    let mut load = share;
    for (item, cost) in items {
        // Half of it beyond the share is as near as half of it below.
        match batches.last_mut().filter(|_| load + u128::from(cost) / 2 < share) {
            Some(batch) => batch.push(item),
            None => {
                batches.push(vec![item]);
                load = 0;
            }
        }
        load += u128::from(cost);
    }
    batches
}

#[cfg(test)]
#[path = "shard_tests.rs"]
mod tests;
