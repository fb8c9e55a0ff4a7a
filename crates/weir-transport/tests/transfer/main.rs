//! Files and probes between two ends on the loopback interface.
#![allow(clippy::disallowed_methods, reason = "runs on the real clock")]

mod breaks;
mod ends;
mod hostile;
