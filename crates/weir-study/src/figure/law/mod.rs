//! How often the responsiveness law is right: mixes of flows of which it is known what they are, and what the law made
//! of each.

pub mod mix;
pub mod truth;
