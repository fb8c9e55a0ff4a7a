//! The event queue.

mod heap;

pub(crate) use heap::Agenda;
