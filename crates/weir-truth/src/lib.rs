//! Flows of which it is known what they are, and what a run with the responsiveness law made of them.
//!
//! | part | what it is |
//! |---|---|
//! | [`mix`], [`lone`], [`real`] | scenarios: random mixes by their number, of many flows, of few, and for real packets |
//! | [`grid`] | scenarios: each controller at each queue |
//! | [`truth`] | what a controller is by construction |
//! | [`policy`], [`lottery`] | what is asked of a sender, and the queue that asks it |
//! | [`seen`], [`tally`], [`tables`] | the flows of a run that count, how often the verdict is right, tables of that |
//! | [`alike`] | whether flows have the same verdicts in two worlds |

#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

pub mod alike;
pub mod grid;
pub mod lone;
pub mod lottery;
pub mod mix;
pub mod policy;
pub mod real;
pub mod seen;
pub mod tables;
pub mod tally;
pub mod truth;
