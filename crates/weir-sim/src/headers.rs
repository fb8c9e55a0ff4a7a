//! The headers that simulated packets would have on a real link, for parsers and captures. A packet here is numbers
//! ([`Carried`](crate::Carried)); its bytes are made only where an [`Observer`](crate::Observer) asks for them.
//!
//! [`Wire`] has what all packets of a flow have in common and shows them to the law's parser. [`Frames`] writes whole
//! headers, as a capture keeps them, with the handshakes that are not simulated.
//!
//! ```
//! use weir_core::{Ecn, Packet, Seed, Time};
//! use weir_sim::headers::{Frames, Transport, Wire};
//! use weir_sim::{Carried, FlowSpec, HopId, HopSpec, Network, Observer, Opening};
//!
//! /// Parses what comes to the link of a network that has one.
//! struct Capture {
//!     wire: Wire,
//!     frames: Frames,
//!     payload: u64,
//! }
//!
//! impl Observer for Capture {
//!     fn watches_headers(&self) -> bool {
//!         true
//!     }
//!     fn watches_return(&self) -> bool {
//!         true
//!     }
//!     fn opening(&mut self, opening: &Opening) {
//!         self.frames.opens(opening, Default::default(), &self.wire);
//!     }
//!     fn arriving(&mut self, _: HopId, packet: &mut Packet, carried: &Carried) {
//!         let headers = self.frames.packet(carried, packet.ecn, &self.wire);
//!         let parsed = weir_law::parse_cut(headers.bytes(), headers.length(), weir_law::Start::Ethernet);
//!         self.payload += parsed.payload_bytes().0;
//!     }
//! }
//!
//! let wire = Wire::new(Transport::Tcp, false, 20_000, 0);
//! let capture = Capture { wire, frames: Frames::default(), payload: 0 };
//! let mut network = Network::new(Seed::default(), capture);
//! let rtt = "20ms".parse().unwrap();
//! let hop = network.add_hop(HopSpec::new("20mbit".parse().unwrap(), "codel".parse().unwrap(), rtt)?);
//! let flow = network.add_flow(FlowSpec::tcp("cubic", hop, rtt)?)?;
//! network.run_until(Time::ZERO + "1s".parse().unwrap());
//! assert!(network.observer().payload >= network.flow(flow).bytes);
//! # Ok::<(), weir_sim::SpecError>(())
//! ```

mod frame;
mod frames;
mod wire;

pub(crate) use frame::initial;
pub use frame::{Headers, LONGEST};
pub use frames::Frames;
pub use wire::{Transport, Wire};
