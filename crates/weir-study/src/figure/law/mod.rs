//! How often the responsiveness law is right: mixes of flows of which it is known what they are, and what the law made
//! of each; and what senders do when they get signals, by which a policy says what an answer is.

mod accuracy;
mod asked;

use super::{Figure, built_in};

/// Both figures.
pub(super) fn load() -> [Box<dyn Figure>; 2] {
    weir_truth::lottery::register();
    [
        Box::new(built_in::<accuracy::Accuracy>("law/accuracy")),
        Box::new(built_in::<asked::Asked>("law/policy")),
    ]
}
