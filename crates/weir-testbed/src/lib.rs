//! A network to measure in: hosts as network namespaces, and real TCP, QUIC and UDP traffic between them.

pub mod host;
pub mod interfaces;
pub mod traffic;
