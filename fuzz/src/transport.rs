//! Two ends of `weir send`, and what the other end or a stranger may send: frames, reports, messages and names by
//! themselves; or a script of what happens to a receiver and its senders, which are real up to their sockets.

use std::net::SocketAddr;
use std::time::Duration;

use weir_transport::rehearsal::{Datagram, RECEIVER, Rehearsal, Tamper, parse};

/// Below this, the first byte makes the rest something to be read; from it on, a script.
const SCRIPT: u8 = 128;
/// Steps of a script, senders, and datagrams that a stranger remembers.
const STEPS: usize = 96;
const SENDERS: usize = 3;
const HEARD: usize = 256;
/// The receiver's own bound.
const MOST_CONNECTIONS: usize = 32;
/// A host that never sends.
const VICTIM: ([u8; 4], u16) = ([192, 0, 2, 1], 9);

pub(crate) fn run(input: &[u8]) {
    match input {
        [first, rest @ ..] if *first >= SCRIPT => script(rest),
        [_, rest @ ..] => parse(rest),
        [] => {}
    }
}

/// The bytes of a script; zeros behind its end.
struct Script<'a>(&'a [u8]);

impl Script<'_> {
    fn byte(&mut self) -> u8 {
        self.0.split_off_first().copied().unwrap_or(0)
    }

    fn number(&mut self) -> usize {
        usize::from(u16::from_be_bytes([self.byte(), self.byte()]))
    }

    /// Changes one byte of bytes.
    fn change(&mut self, bytes: &mut [u8]) {
        let (place, value) = (self.number(), self.byte());
        if !bytes.is_empty() {
            let place = place % bytes.len();
            bytes[place] ^= value;
        }
    }

    /// Changes a byte of the frames of one packet of several.
    fn tamper(&mut self) -> Tamper {
        let (mut wait, place, value) = (self.byte() % 16, self.number(), self.byte());
        Box::new(move |frames| {
            if wait == 0 && !frames.is_empty() {
                let place = place % frames.len();
                frames[place] = value;
            }
            wait = wait.wrapping_sub(1);
        })
    }
}

fn script(bytes: &[u8]) {
    let mut script = Script(bytes);
    let mut rehearsal = Rehearsal::new(1);
    let mut heard: Vec<Datagram> = Vec::new();
    let victim = SocketAddr::from(VICTIM);
    let (mut in_its_name, mut got) = (0, 0);
    for _ in 0..STEPS {
        if script.0.is_empty() {
            break;
        }
        let step = script.byte();
        let (mut of_receiver, mut of_senders) = (None, None);
        match step % 8 {
            0 if rehearsal.senders()[0] < SENDERS => rehearsal.connect(step & 8 > 0),
            1 => of_receiver = Some(script.tamper()),
            2 => of_senders = Some(script.tamper()),
            3 => rehearsal.wait(Duration::from_millis(u64::from(script.byte()) * 100)),
            4 | 5 => {
                let which = script.byte();
                let mut datagram = match heard.get(usize::from(which) % HEARD.min(heard.len().max(1))) {
                    Some(heard) if step & 8 == 0 => heard.clone(),
                    _ => {
                        let length = usize::from(which).min(script.0.len());
                        let bytes = script.0.split_off(..length).unwrap_or_default().to_vec();
                        Datagram { from: victim, to: RECEIVER, bytes }
                    }
                };
                for _ in 0..step >> 6 {
                    script.change(&mut datagram.bytes);
                }
                if step & 16 > 0 {
                    datagram.bytes.truncate(script.number());
                }
                if step & 32 > 0 {
                    datagram.from = victim;
                }
                if datagram.from == victim && datagram.to == RECEIVER {
                    in_its_name += datagram.bytes.len();
                }
                rehearsal.deliver(&datagram);
            }
            _ => {}
        }
        for datagram in rehearsal.play(of_receiver, of_senders) {
            if datagram.to == victim {
                got += datagram.bytes.len();
                assert!(got <= 3 * in_its_name, "a host got {got} bytes for {in_its_name} in its name");
            }
            rehearsal.deliver(&datagram);
            if heard.len() < HEARD {
                heard.push(datagram);
            }
        }
        rehearsal.wait_for_timer(Duration::from_millis(2));
        assert!(rehearsal.connections() <= MOST_CONNECTIONS);
    }
}
