//! The laboratory: a scenario names a bottleneck, flows and what to measure; a run sends real packets through it and
//! leaves tables, JSON and a report; a figure is many runs beside a paper's numbers.

pub mod batch;
pub mod bench;
pub mod doctor;
pub mod figure;
pub mod host;
pub mod output;
pub mod pcapng;
pub mod report;
pub mod result;
pub mod run;
pub mod scenario;
pub mod suite;
pub mod summary;
pub mod sweep;
pub mod toml_file;
pub mod traffic;
pub mod vm;

mod capture;
mod edges;
mod emulator;
mod gather;
mod kernel_world;
mod link_thread;
mod record;
mod simulator;
mod toml_place;
