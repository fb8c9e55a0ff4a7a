//! What befell the packets of one direction that are not judged yet.

use std::collections::BTreeMap;

use super::infer::Signalled;

/// Signals of one direction by packet number, from the first packet on that is not judged yet.
#[derive(Debug, Default)]
pub(super) struct Signals {
    by_packet: BTreeMap<u64, Signalled>,
    /// Packets that the receiver's echo marks, until it is known whether the capture shows CE itself.
    echoed: Vec<u64>,
    behind: u64,
}

impl Signals {
    /// Notes something about a packet; false if that has been judged.
    pub(super) fn note(&mut self, packet: u64, change: impl FnOnce(&mut Signalled)) -> bool {
        if packet < self.behind {
            return false;
        }
        change(self.by_packet.entry(packet).or_default());
        true
    }

    /// Notes that the receiver's echo marks a packet.
    pub(super) fn echo(&mut self, packet: u64) {
        self.echoed.push(packet);
    }

    /// Takes back losses of a packet that has not been judged yet.
    pub(super) fn take_back(&mut self, packet: u64, losses: u32) {
        if let Some(signalled) = self.by_packet.get_mut(&packet) {
            signalled.losses = signalled.losses.saturating_sub(losses);
        }
    }

    /// Books the marks that the echo reported, unless the capture shows CE itself (`marked`). Packets before `behind`
    /// have been judged; tells how many marks were of such.
    pub(super) fn settle(&mut self, marked: bool, behind: u64) -> u64 {
        self.behind = behind;
        let mut late = 0;
        for packet in std::mem::take(&mut self.echoed) {
            late += u64::from(!marked && !self.note(packet, |signalled| signalled.marks += 1));
        }
        late
    }

    pub(super) fn take(&mut self, packet: u64) -> Signalled {
        self.by_packet.remove(&packet).unwrap_or_default()
    }

    pub(super) fn kept(&self) -> usize {
        self.by_packet.len() + self.echoed.len()
    }
}
