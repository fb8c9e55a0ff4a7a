//! Which host each flow of a scenario is at: names, numbered in order of first sight.

use crate::Flow;

/// The hosts of some flows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hosts {
    /// The server's and the client's number of each flow, from 0.
    of: Vec<[usize; 2]>,
}

impl Hosts {
    /// Of these flows, in their order.
    pub fn of(flows: &[Flow]) -> Self {
        let mut names: [Vec<&str>; 2] = Default::default();
        let mut number = |side: usize, name| {
            names[side].iter().position(|known| *known == name).unwrap_or_else(|| {
                names[side].push(name);
                names[side].len() - 1
            })
        };
        Self { of: flows.iter().map(|flow| [number(0, &flow.server), number(1, &flow.client)]).collect() }
    }

    /// The server's and the client's number of a flow.
    pub fn at(&self, flow: usize) -> [usize; 2] {
        self.of[flow]
    }

    /// How many servers and clients there are.
    pub fn counts(&self) -> [usize; 2] {
        [0, 1].map(|side| self.of.iter().map(|hosts| hosts[side] + 1).max().unwrap_or(1))
    }
}
