//! What Weir's tests share. Only tests depend on it.
//!
//! | module | what it has |
//! |---|---|
//! | [`skip`] | a test that cannot run here says so by name, or fails where nothing may be skipped |
//! | [`world`] | three network namespaces in a row |
//! | [`traffic`] | packets of any flow, and attacks, for the tables of the law |
//! | [`bpf`] | small eBPF programs of somebody else at an interface |
//! | [`relay`] | a host between two ends of UDP, which loses, holds and hears datagrams |
//! | [`captures`] | captures of senders whose congestion control is known |
//! | [`counting`] | an allocator that counts |
#![allow(missing_docs, reason = "helpers of tests; each file opens with what it is")]

pub mod bpf;
pub mod captures;
pub mod counting;
pub mod relay;
pub mod skip;
pub mod traffic;
pub mod world;
