//! `weir assess` as its users meet it: what a capture comes in, how many flows, and what is said of the rest.

use std::ffi::CString;
use std::fs::File;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;

use serde_json::Value;
use weir_testkit::captures::*;

fn weir(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.arg("assess").args(arguments);
    command
}

/// Gives it `input` through a pipe.
fn piped(arguments: &[&str], input: Vec<u8>) -> Output {
    let mut command = weir(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut pipe = child.stdin.take().unwrap();
    // What it does not read breaks the pipe.
    let writer = thread::spawn(move || drop(pipe.write_all(&input)));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    output
}

fn flows(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["error"], Value::Null);
    report["flows"].clone()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(bytes).unwrap();
    packer.finish().unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_capture_may_come_from_a_file_a_pipe_or_a_fifo_packed_or_not() {
    let folder = tempfile::tempdir().unwrap();
    let file = pcapng(&Sender { rounds: 300, ..Sender::default() }.tcp(), false, 1);
    assert!(file.len() > 200_000, "more than pipes and buffers hold");
    // The name of a packed one says nothing.
    let (plain, packed) = (folder.path().join("a.pcap"), folder.path().join("b.pcap"));
    std::fs::write(&plain, &file).unwrap();
    std::fs::write(&packed, gzip(&file)).unwrap();
    let expected = flows(&weir(&[text(&plain), "--json"]).output().unwrap());
    assert_eq!(expected[0]["data"]["loss"]["verdict"], "responsive");
    assert_eq!(flows(&weir(&[text(&packed), "--json"]).output().unwrap()), expected);
    assert_eq!(flows(&piped(&["-", "--json"], file.clone())), expected);
    assert_eq!(flows(&piped(&["/dev/stdin", "--json"], gzip(&file))), expected);
    // Standard input that is a file is read where it is.
    let redirected = weir(&["-", "--json"]).stdin(File::open(&packed).unwrap()).output().unwrap();
    assert_eq!(flows(&redirected), expected);

    let fifo = folder.path().join("fifo");
    let name = CString::new(fifo.as_os_str().as_bytes()).unwrap();
    // SAFETY: the name ends with a zero and outlives the call.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    let place = fifo.clone();
    let writer = thread::spawn(move || File::create(place).unwrap().write_all(&file).unwrap());
    assert_eq!(flows(&weir(&[text(&fifo), "--json"]).output().unwrap()), expected);
    writer.join().unwrap();
}

#[test]
fn a_pipe_that_cannot_be_kept_says_where_there_was_no_room() {
    let ran = weir(&["-"])
        .env("TMPDIR", "/proc/no-such-folder")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .output()
        .unwrap();
    let said = String::from_utf8(ran.stderr).unwrap();
    assert_eq!((ran.status.code(), ran.stdout.is_empty()), (Some(1), true), "{said}");
    assert!(said.contains("TMPDIR") && said.contains("/proc/no-such-folder"), "{said}");
}

#[test]
fn flows_beyond_the_number_are_counted_and_the_flag_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("many.pcap");
    let frames: Vec<Frame> = (0..100)
        .map(|number| {
            let segment = Tcp { flags: ACK, payload: 100, ..Tcp::default() };
            segment.frame(EPOCH + number, (CLIENT.0, 1_000 + number as u16), SERVER)
        })
        .collect();
    std::fs::write(&path, pcap(&frames, false, true, 1)).unwrap();
    let said = |flows: &str| {
        let ran = weir(&[text(&path), "--flows", flows]).output().unwrap();
        assert_eq!(ran.status.code(), Some(0), "{ran:?}");
        String::from_utf8(ran.stdout).unwrap().lines().next().unwrap().to_owned()
    };
    assert_eq!(said("100"), "100 packets, 100 flows");
    assert_eq!(said("60"), "100 packets, 60 flows, 40 of more flows than are kept (--flows N keeps more)");
    for wrong in ["0", "many", "4194305"] {
        let ran = weir(&[text(&path), "--flows", wrong]).output().unwrap();
        assert_eq!((ran.status.code(), ran.stdout.is_empty()), (Some(2), true), "{ran:?}");
        assert!(String::from_utf8(ran.stderr).unwrap().contains("--flows"));
    }
}

#[test]
fn what_is_not_read_is_named() {
    let frame = Tcp { flags: ACK, payload: 100, ..Tcp::default() }.frame(EPOCH, CLIENT, SERVER);
    let first_line = |link: u16, around: &[u8]| {
        let mut file = pcap(&[], false, true, link);
        let bytes = [around, &frame.bytes[14..]].concat();
        for word in [0, 0, bytes.len() as u32, bytes.len() as u32] {
            file.extend(word.to_le_bytes());
        }
        file.extend(bytes);
        let ran = piped(&["-"], file);
        assert_eq!(ran.status.code(), Some(0), "{ran:?}");
        String::from_utf8(ran.stdout).unwrap().lines().next().unwrap().to_owned()
    };
    assert_eq!(first_line(253, &[]), "1 packet, 0 flows, 1 of link type 253 (netlink), which is not read");
    assert_eq!(first_line(105, &[8, 0x41]), "1 packet, 0 flows, 1 of encrypted 802.11, not read");
    assert_eq!(first_line(9, &[0xc0, 0x21]), "1 packet, 0 flows, 1 of PPP without IP, not read");
}
