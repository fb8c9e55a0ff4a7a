//! How often the responsiveness law is right: mixes of flows of which it is known what they are, and what the law made
//! of each; and what senders do when they get signals, by which a policy says what an answer is.

mod accuracy;
mod asked;

use super::Figure;

/// Both figures.
///
/// # Panics
/// If a file that is built in is wrong; the tests load them.
pub(super) fn load() -> [Box<dyn Figure>; 2] {
    [Box::new(accuracy::Accuracy::load()), Box::new(asked::Asked::load())]
}
