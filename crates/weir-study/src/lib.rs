//! Many runs at once: a [`sweep`] over a scenario's keys, a [`suite`] of scenarios with what is expected of them, a
//! [`figure`] beside a paper's numbers. All of them run as a [`batch`] or as the cells of a sweep.

pub mod batch;
pub mod figure;
pub mod suite;
pub mod sweep;
