//! Which seeds of noq's random numbers make both ends of an endpoint's first connections spin. Tests only.

use std::net::UdpSocket;
use std::sync::Arc;

use noq::congestion::CubicConfig;
use noq::{Connection, VarInt};

use super::endpoint::{self, Identity, NAME, open, run};
use super::{Outgoing, QuicSpec, SPINNING_SEED};
use weir_transport::Marks;

/// Connections of one endpoint that have to spin: the first, and those after handshakes that timed out.
const CONNECTIONS: usize = 4;
/// Fits into the initial window, so that a spinning end sends it with one value of the bit.
const BURST: usize = 10_000;
const BURSTS: usize = 6;

async fn burst(connection: &Connection) {
    for _ in 0..BURSTS {
        let (mut send, mut receive) = connection.open_bi().await.unwrap();
        send.write_all(&[0; BURST]).await.unwrap();
        send.finish().unwrap();
        assert_eq!(receive.read_to_end(BURST).await.unwrap().len(), BURST);
    }
}

async fn echo(connection: Connection) {
    while let Ok((mut send, mut receive)) = connection.accept_bi().await {
        let request = receive.read_to_end(BURST).await.unwrap();
        send.write_all(&request).await.unwrap();
        send.finish().unwrap();
    }
}

/// Whether, with `seed` on both ends, each of the first connections spins at both.
fn spins(seed: [u8; 32]) -> bool {
    let identity = Identity::new().unwrap();
    let transport =
        || endpoint::transport(&QuicSpec::new("cubic"), Arc::new(CubicConfig::default())).unwrap();
    let (server_config, client_config) =
        (identity.server(transport(), Marks::default()).unwrap(), identity.client(transport()).unwrap());
    let outgoing = [(); 2].map(|()| Arc::new(Outgoing::default()));
    let bind = || UdpSocket::bind("127.0.0.1:0").unwrap();
    run(async {
        let server = open(bind(), Some(server_config), seed, None, &outgoing[0]).unwrap();
        let client = open(bind(), None, seed, None, &outgoing[1]).unwrap();
        let address = server.local_addr().unwrap();
        tokio::spawn(async move {
            while let Some(incoming) = server.accept().await {
                tokio::spawn(echo(incoming.await.unwrap()));
            }
        });
        let mut before = [(0, 0); 2];
        for _ in 0..CONNECTIONS {
            let connection =
                client.connect_with(client_config.clone(), address, NAME).unwrap().await.unwrap();
            burst(&connection).await;
            connection.close(VarInt::from_u32(0), b"");
            let after = [0, 1].map(|end: usize| (outgoing[end].spin().packets, outgoing[end].spin().edges));
            for (before, after) in before.iter().zip(after) {
                let (packets, edges) = (after.0 - before.0, after.1 - before.1);
                // Random bits change in every second packet, a burst's do not.
                if edges * 3 > packets {
                    return false;
                }
            }
            before = after;
        }
        true
    })
    .unwrap()
}

#[test]
fn the_seed_spins_and_others_do_not() {
    assert!(spins(SPINNING_SEED), "noq or rand has changed: run find_seeds and choose another");
    // Both ends draw alike from one seed, so four connections all spin with probability (7/8)^4 = 0.59.
    let failing = (0..16).filter(|first| !spins([*first; 32])).count();
    assert!((2..=13).contains(&failing), "{failing} of 16 seeds fail; the test cannot tell");
}

#[test]
#[ignore = "prints seeds to choose from"]
fn find_seeds() {
    let seeds: Vec<u8> = (0..=255).filter(|first| spins([*first; 32])).collect();
    println!("[n; 32] with n of {seeds:?}");
}
