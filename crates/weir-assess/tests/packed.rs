//! Captures that are packed, and packets that are: in tags, labels and tunnels.

use std::io::{Cursor, Write};

use weir_assess::capture::CaptureError;
use weir_assess::{CaptureCounters, Options, Report, assess};
use weir_law::{Params, Preset, Verdict};
use weir_testkit::captures::*;

fn judge(file: Vec<u8>) -> Report {
    assess(Cursor::new(file), &Options::default())
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(bytes).unwrap();
    packer.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    ::zstd::stream::encode_all(bytes, 1).unwrap()
}

fn flows(report: &Report) -> serde_json::Value {
    serde_json::to_value(&report.flows).unwrap()
}

#[test]
fn packed_captures_are_known_by_their_content() {
    let file = pcapng(&Sender { rounds: 40, ..Sender::default() }.tcp(), false, 1);
    let plain = judge(file.clone());
    let (front, back) = file.split_at(file.len() / 3);
    // What tools that divide the work begin with: a frame to be skipped.
    let skipped = [&[0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3][..], &zstd(&file)].concat();
    for packed in [
        gzip(&file),
        [gzip(front), gzip(back)].concat(),
        zstd(&file),
        [zstd(front), zstd(back)].concat(),
        skipped,
    ] {
        let report = judge(packed);
        assert!(report.error.is_none(), "{:?}", report.error);
        assert_eq!((flows(&report), report.counters), (flows(&plain), plain.counters));
    }
}

#[test]
fn a_packed_capture_cut_anywhere_keeps_what_came_before() {
    let frames = Sender { rounds: 4, window: 4, ..Sender::default() }.tcp();
    let file = pcap(&frames, false, true, 1);
    // What zstd packs as a block comes out as a whole or not at all.
    let blocks = file.chunks(512).map(zstd).collect::<Vec<_>>().concat();
    for (format, packed) in [("gzip", gzip(&file)), ("zstd", blocks)] {
        let mut most = 0;
        for cut in 5..packed.len() {
            let report = judge(packed[..cut].to_vec());
            // Between two frames there is nothing amiss but the rest of a packet.
            if let Some(error) = report.error {
                let said = error.to_string();
                let packed = matches!(error, CaptureError::Packed { .. }) && said.contains(format);
                let between = format == "zstd" && matches!(error, CaptureError::Truncated { .. });
                assert!(packed || between, "{cut}: {said}");
                assert!(error.offset() <= file.len() as u64);
            } else {
                assert_eq!(format, "zstd", "cut at {cut} is read to its end");
            }
            assert_eq!(report.flows.is_empty(), report.counters.packets == 0);
            most = most.max(report.counters.packets);
        }
        // What is missing of gzip's is a checksum at the least.
        let expected = if format == "gzip" { frames.len() as u64 } else { 30 };
        assert!(most >= expected, "{format}: {most}");
    }
    // One that is damaged gives rubbish, or an end; either is found out.
    let mut damaged = gzip(&file);
    let middle = damaged.len() / 2;
    damaged[middle..middle + 8].fill(0xff);
    assert!(judge(damaged).error.is_some());
}

#[test]
fn what_is_packed_twice_or_wants_too_large_a_window_is_refused() {
    let said = |file: Vec<u8>| judge(file).error.unwrap().to_string();
    let file = pcap(&[], false, true, 1);
    assert!(said(gzip(&zstd(&file))).contains("zstdcat FILE | weir assess -"));
    // A frame with a window of 256 MB and an empty last block (RFC 8878 section 3.1.1).
    let huge = said(vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 18 << 3, 1, 0, 0]);
    assert!(huge.contains("zstd") && huge.contains("memory"), "{huge}");
    assert_eq!(said(gzip(b"")), "the file is empty: there is no capture in it");
    assert!(said(gzip(b"hello, world")).contains("68656c6c"));
}

/// Puts frames into others: `around` gets what comes from the IP header on, and whether it is IPv4, and gives a frame.
fn wrapped(frames: &[Frame], around: impl Fn(&[u8]) -> Vec<u8>) -> Vec<Frame> {
    let wrap = |frame: &Frame| {
        let bytes = around(&frame.bytes[14..]);
        let added = bytes.len() - frame.bytes.len();
        Frame { time: frame.time, wire: frame.wire + added as u32, bytes }
    };
    frames.iter().map(wrap).collect()
}

fn ethernet(kind: u16, rest: &[u8]) -> Vec<u8> {
    [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2][..], &kind.to_be_bytes(), rest].concat()
}

/// An IPv4 header of a tunnel around `rest`, of which `frame` bytes more were on the wire.
fn ipv4(protocol: u8, ecn: u8, rest: &[u8]) -> Vec<u8> {
    let mut out = vec![0x45, ecn];
    out.extend((1_500u16).to_be_bytes());
    out.extend([0, 0, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    [&out, rest].concat()
}

fn ipv6(next: u8, rest: &[u8]) -> Vec<u8> {
    let mut out = vec![0x60, 0, 0, 0];
    out.extend((1_480u16).to_be_bytes());
    out.extend([next, 64]);
    out.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    out.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    [&out, rest].concat()
}

/// An IEEE 802.11 data frame with SNAP around an IPv4 packet.
fn wifi(subtype: u8, flags: u8, header: usize, rest: &[u8]) -> Vec<u8> {
    let mut out = vec![subtype, flags];
    out.resize(header, 0);
    out.extend([0xaa, 0xaa, 3, 0, 0, 0, 8, 0]);
    [&out, rest].concat()
}

/// The same with padding to whole words, behind a radiotap header that announces it.
fn radiotap(rest: &[u8]) -> Vec<u8> {
    // A time, flags, and a second word of presence bits.
    let mut out = vec![0, 0, 28, 0, 3, 0, 0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0];
    out.extend([1, 2, 3, 4, 5, 6, 7, 8, 0x20, 0, 0, 0]);
    let mut frame = wifi(0x88, 1, 26, rest);
    frame.splice(26..26, [0, 0]);
    [out, frame].concat()
}

/// A frame around what comes from the IP header on.
type Around = fn(&[u8]) -> Vec<u8>;

const TUNNELS: [(&str, Around); 15] = [
    ("MPLS, two labels", |ip| ethernet(0x8847, &[&[0, 1, 0, 64, 0, 2, 1, 64], ip].concat())),
    ("MPLS behind a VLAN tag", |ip| ethernet(0x8100, &[&[0, 5, 0x88, 0x47, 0, 2, 1, 64], ip].concat())),
    ("a pseudowire", |ip| {
        ethernet(0x8847, &[&[0, 2, 1, 64, 0, 0, 0, 0][..], &ethernet(0x0800, ip)].concat())
    }),
    ("GRE", |ip| ethernet(0x0800, &ipv4(47, 0, &[&[0, 0, 8, 0], ip].concat()))),
    ("GRE with sum, key and number", |ip| {
        ethernet(
            0x0800,
            &ipv4(47, 0, &[&[0xb0, 0, 8, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12], ip].concat()),
        )
    }),
    ("GRE over IPv6", |ip| ethernet(0x86dd, &ipv6(47, &[&[0, 0, 8, 0], ip].concat()))),
    ("Ethernet in GRE", |ip| {
        ethernet(0x0800, &ipv4(47, 0, &[&[0, 0, 0x65, 0x58][..], &ethernet(0x0800, ip)].concat()))
    }),
    ("MPLS in GRE", |ip| ethernet(0x0800, &ipv4(47, 0, &[&[0, 0, 0x88, 0x47, 0, 2, 1, 64], ip].concat()))),
    ("PPTP", |ip| {
        let header = [0x30, 0x81, 0x88, 0x0b, 0, 9, 0, 9, 0, 0, 0, 1, 0, 0, 0, 2, 0xff, 3, 0x21];
        ethernet(0x0800, &ipv4(47, 0, &[&header, ip].concat()))
    }),
    ("4in4", |ip| ethernet(0x0800, &ipv4(4, 0, ip))),
    ("4in6", |ip| ethernet(0x86dd, &ipv6(4, ip))),
    ("4in6in4", |ip| ethernet(0x0800, &ipv4(41, 0, &ipv6(4, ip)))),
    ("a third VLAN tag", |ip| ethernet(0x88a8, &[&[0, 5, 0x81, 0, 0, 6, 0x81, 0, 0, 7, 8, 0], ip].concat())),
    ("PPPoE behind three tags", |ip| {
        let tags = [0, 5, 0x81, 0, 0, 6, 0x81, 0, 0, 7, 0x88, 0x64, 0x11, 0, 0, 1, 5, 0, 0, 0x21];
        ethernet(0x88a8, &[&tags, ip].concat())
    }),
    ("PPPoE with MPLS", |ip| ethernet(0x8864, &[&[0x11, 0, 0, 1, 5, 0, 2, 0x81, 0, 2, 1, 64], ip].concat())),
];

#[test]
fn flows_in_tags_labels_and_tunnels_are_judged_as_outside() {
    let frames = Sender { rounds: 40, ..Sender::default() }.tcp();
    let bare = judge(pcap(&frames, false, true, 1));
    for (name, around) in TUNNELS {
        let file = pcap(&wrapped(&frames, around), false, true, 1);
        let report = judge(file.clone());
        assert_eq!(report.counters.packets, frames.len() as u64);
        assert_eq!(flows(&report), flows(&bare), "{name}");
        let tags = name.contains("tag") && !name.contains("MPLS");
        assert_eq!(report.counters.tunnelled, if tags { 0 } else { frames.len() as u64 }, "{name}");
        // The prototype's parser reads none of it.
        let comsys = Options { params: Params::preset(Preset::Comsys), ..Options::default() };
        let remarks = &assess(Cursor::new(file), &comsys).flows[0].data.not_judged;
        assert_eq!(remarks[0].code, "excluded", "{name}");
    }
}

#[test]
fn ppp_and_80211_are_links_like_others() {
    let frames = Sender { rounds: 40, ..Sender::default() }.tcp();
    let bare = judge(pcap(&frames, false, true, 1));
    let links: [(u16, &str, Around); 12] = [
        (9, "PPP", |ip| [&[0, 0x21], ip].concat()),
        (9, "PPP, one octet", |ip| [&[0x21], ip].concat()),
        (9, "PPP with address and control", |ip| [&[0xff, 3, 0, 0x21], ip].concat()),
        (50, "PPP in HDLC", |ip| [&[0xff, 3, 0, 0x21], ip].concat()),
        (50, "Cisco HDLC", |ip| [&[0x0f, 0, 8, 0], ip].concat()),
        (104, "Cisco HDLC", |ip| [&[0x8f, 0, 8, 0], ip].concat()),
        (51, "PPPoE", |ip| [&[0x11, 0, 0, 1, 5, 0, 0, 0x21], ip].concat()),
        (105, "802.11", |ip| wifi(0x08, 1, 24, ip)),
        (105, "802.11 between access points", |ip| wifi(0x08, 3, 30, ip)),
        (105, "802.11 with QoS", |ip| wifi(0x88, 2, 26, ip)),
        (105, "802.11 with QoS and HT control", |ip| wifi(0x88, 0x82, 30, ip)),
        (127, "radiotap", radiotap),
    ];
    for (link, name, around) in links {
        let report = judge(file_of(link, &frames, around));
        assert_eq!(report.counters, bare.counters, "{name}");
        assert_eq!(flows(&report), flows(&bare), "{name}");
    }
}

/// A file with the packets of `frames` as `around` puts them.
fn file_of(link: u16, frames: &[Frame], around: impl Fn(&[u8]) -> Vec<u8>) -> Vec<u8> {
    // What is written as raw IP is the frame from its 14th byte on.
    let wrap = |frame: &Frame| {
        let bytes = [&[0; 14], &around(&frame.bytes[14..])[..]].concat();
        let wire = (frame.wire as usize + bytes.len()).saturating_sub(frame.bytes.len()) as u32;
        Frame { time: frame.time, wire, bytes }
    };
    let mut file = pcap(&frames.iter().map(wrap).collect::<Vec<_>>(), false, true, 101);
    file[20..22].copy_from_slice(&link.to_le_bytes());
    file
}

#[test]
fn ce_on_the_outside_of_a_tunnel_counts() {
    let sender = Sender { congestion: Congestion::Mark, point: Point::AfterBottleneck, ..Sender::default() };
    let frames = sender.tcp();
    let bare = judge(pcap(&frames, false, true, 1));
    // The tunnel's header takes the marks, and those inside keep ECT(0).
    let unmarked = |ip: &[u8]| [&[ip[0], ip[1].min(2)], &ip[2..]].concat();
    let direct = |ip: &[u8]| ethernet(0x0800, &ipv4(4, ip[1], &unmarked(ip)));
    let behind_tags = |ip: &[u8]| {
        let tagged = [&[0, 5, 0x81, 0, 0, 6, 0x81, 0, 0, 7, 8, 0], &unmarked(ip)[..]].concat();
        let header = [0, 0, 0x65, 0x58];
        ethernet(0x0800, &ipv4(47, ip[1], &[&header[..], &ethernet(0x88a8, &tagged)].concat()))
    };
    for file in [wrapped(&frames, direct), wrapped(&frames, behind_tags)] {
        let report = judge(pcap(&file, false, true, 1));
        let (data, expected) = (&report.flows[0].data, &bare.flows[0].data);
        assert_eq!((data.ecn, data.mark), (expected.ecn, expected.mark));
        assert_eq!(data.mark.verdict, Verdict::Responsive);
    }
    // What is not ECN-capable inside would be dropped at the tunnel's end, and is no mark.
    let blind = |ip: &[u8]| ethernet(0x0800, &ipv4(4, 3, &[&[ip[0], 0], &ip[2..]].concat()));
    assert_eq!(judge(pcap(&wrapped(&frames, blind), false, true, 1)).flows[0].data.ecn.ce, 0);
}

#[test]
fn what_is_not_read_is_counted_by_its_name() {
    let frame = &Sender { rounds: 1, ..Sender::default() }.tcp()[..1];
    let seen = |link: u16, around: &dyn Fn(&[u8]) -> Vec<u8>| {
        let report = judge(file_of(link, frame, around));
        assert!(report.flows.is_empty() && report.error.is_none());
        report.counters
    };
    let one = CaptureCounters { packets: 1, ..CaptureCounters::default() };
    assert_eq!(seen(105, &|ip| wifi(0x08, 0x41, 24, ip)), CaptureCounters { wifi_encrypted: 1, ..one });
    for subtype in [0x80, 0xd4, 0x48] {
        assert_eq!(seen(105, &|ip| wifi(subtype, 0, 24, ip)), CaptureCounters { wifi_other: 1, ..one });
    }
    let aggregate = |ip: &[u8]| {
        let mut bytes = wifi(0x88, 1, 26, ip);
        bytes[24] = 0x80;
        bytes
    };
    assert_eq!(seen(105, &aggregate), CaptureCounters { wifi_other: 1, ..one });
    assert_eq!(seen(9, &|ip| [&[0xc0, 0x21], ip].concat()), CaptureCounters { ppp: 1, ..one });
    let odd = |kind: u16, prefix: &'static [u8]| seen(1, &|ip| ethernet(kind, &[prefix, ip].concat()));
    assert_eq!(odd(0x8847, &[0, 2, 1, 64, 0xf0]), CaptureCounters { mpls: 1, ..one });
    assert_eq!(odd(0x8864, &[0x11, 0, 0, 1, 5, 0, 0x80, 0x21]), CaptureCounters { ppp: 1, ..one });
    assert_eq!(odd(0x88cc, &[]), CaptureCounters { not_ip: 1, ..one });
    let gre = |header: &'static [u8]| seen(1, &|ip| ethernet(0x0800, &ipv4(47, 0, &[header, ip].concat())));
    for header in [&[0, 0, 0x12, 0x34][..], &[0x40, 0, 8, 0], &[0, 2, 8, 0]] {
        assert_eq!(gre(header), CaptureCounters { gre: 1, ..one }, "{header:?}");
    }
    assert_eq!(seen(1, &|_| ethernet(0x8847, &[0, 2, 0])), CaptureCounters { truncated: 1, ..one });
    let deep = |ip: &[u8]| ethernet(0x0800, &(0..9).fold(ip.to_vec(), |inside, _| ipv4(4, 0, &inside)));
    assert_eq!(seen(1, &deep), CaptureCounters { too_deep: 1, ..one });
    let labels = |_: &[u8]| ethernet(0x8847, &[0; 400]);
    assert_eq!(seen(1, &labels), CaptureCounters { too_deep: 1, ..one });
}
