//! Shards and batches.

use std::path::Path;

use proptest::prelude::*;

use super::super::MOST_CELLS;
use super::{Shard, ShardError, Sweep, cut, spread};

/// Cells that cost different amounts, each value of the queue twice by another name.
fn sweep(rates: &[u64], durations: &[u64], repeat: u64) -> Sweep {
    let list = |values: &[u64], unit: &str| {
        values.iter().map(|value| format!("'{value}{unit}'")).collect::<Vec<_>>().join(", ")
    };
    let text = format!(
        "repeat = {repeat}\n[sweep]\n'bottleneck.rate' = [{}]\n'flow.0.duration' = [{}]\n\
         'bottleneck.qdisc' = ['pfifo limit 20p', 'pfifo  limit 20p', 'codel']\n\
         [scenario.bottleneck]\nrate = '1mbit'\nrtt = '10ms'\nqdisc = 'pfifo'\n\
         [[scenario.flow]]\nstack = 'tcp'\ncontroller = 'reno'\nduration = '1s'\n",
        list(rates, "mbit"),
        list(durations, "ms"),
    );
    Sweep::parse(text, Path::new("s.toml"), MOST_CELLS, false).unwrap()
}

#[test]
fn a_shard_is_one_of_those_that_there_are() {
    let shard = |text: &str| text.parse::<Shard>();
    for text in ["1/1", "1/4", "4/4", "37/1000"] {
        assert_eq!(shard(text).unwrap().to_string(), text);
    }
    for text in ["4", "x/y", "", "/", "1/", "/4", "-1/4", "+1/4", "1.0/4", "1/4/4", " 1/4", "1e3/4"] {
        assert_eq!(shard(text), Err(ShardError::Form), "{text}");
    }
    for (text, says) in
        [("0/4", "they are 1/4 to 4/4"), ("5/4", "no shard 5 of 4"), ("1/0", "N is 1 at least")]
    {
        let message = shard(text).unwrap_err().to_string();
        assert!(message.contains(says), "{text}: {message}");
    }
}

#[test]
fn a_file_is_cut_the_same_way_again() {
    let cut = || {
        let sweep = sweep(&[1, 3, 40], &[100, 500], 3);
        (1..=4).map(|part| sweep.shard(Shard { part, of: 4 })).collect::<Vec<_>>()
    };
    assert_eq!(cut(), cut());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn shards_are_all_cells_once_and_cost_the_same(
        rates in prop::collection::btree_set(1u64..100, 1..5),
        durations in prop::collection::btree_set(100u64..3000, 1..5),
        repeat in 1u64..4,
        of in 1usize..12,
    ) {
        let (rates, durations): (Vec<_>, Vec<_>) = (rates.into_iter().collect(), durations.into_iter().collect());
        let sweep = sweep(&rates, &durations, repeat);
        let shards: Vec<Vec<usize>> = (1..=of).map(|part| sweep.shard(Shard { part, of })).collect();
        let mut all = shards.concat();
        all.sort_unstable();
        prop_assert_eq!(all, (0..sweep.cells()).collect::<Vec<_>>());
        // What has the same result is made once.
        let mut costs = Vec::new();
        for shard in &shards {
            let mut own: Vec<_> = shard.iter().map(|cell| (*sweep.address(*cell), sweep.cost(*cell))).collect();
            own.sort_unstable();
            own.dedup();
            costs.push(own);
        }
        let addresses: Vec<_> = costs.concat();
        let mut once = addresses.clone();
        once.sort_unstable();
        once.dedup();
        prop_assert_eq!(addresses.len(), once.len(), "a result is in two shards");
        prop_assert_eq!(once.len() * 3, sweep.cells() * 2, "a third of the cells have another name only");
        let load = |shard: &Vec<([u8; 32], u64)>| shard.iter().map(|(_, cost)| *cost).sum::<u64>();
        let most = costs.iter().map(load).max().unwrap();
        let mean = once.iter().map(|(_, cost)| *cost).sum::<u64>() / of as u64;
        let dearest = once.iter().map(|(_, cost)| *cost).max().unwrap();
        prop_assert!(most <= mean + dearest + 1, "{} {} {}", most, mean, dearest);
    }

    #[test]
    fn batches_are_all_items_once_and_cost_the_same(
        costs in prop::collection::vec(1u64..1_000_000, 1..300),
        mean in 1usize..40,
    ) {
        let items: Vec<(usize, u64)> = costs.iter().copied().enumerate().collect();
        let batches = cut(items.clone(), mean);
        let mut all = batches.concat();
        all.sort_unstable();
        prop_assert_eq!(all, (0..costs.len()).collect::<Vec<_>>());
        let wanted = costs.len().div_ceil(mean);
        let share = costs.iter().sum::<u64>().div_ceil(wanted as u64);
        for batch in &batches {
            let load: u64 = batch.iter().map(|item| costs[*item]).sum();
            let dearest = batch.iter().map(|item| costs[*item]).max().unwrap();
            prop_assert!(batch.len() == 1 || load <= share + dearest, "{:?} {} {}", batch, load, share);
        }
        let parts = spread(items, wanted);
        prop_assert_eq!(parts.len(), wanted);
    }
}

#[test]
fn a_batch_has_so_many_cells_where_all_cost_the_same() {
    for (count, mean, batches) in [(100, 10, 10), (100, 1, 100), (7, 10, 1), (2000, 100, 20)] {
        let made = cut((0..count).map(|item| (item, 17)).collect(), mean);
        assert_eq!(made.len(), batches, "{count} {mean}");
        assert!(made.iter().all(|batch| batch.len() == mean.min(count)), "{made:?}");
    }
    assert!(cut(Vec::new(), 10).is_empty());
}
