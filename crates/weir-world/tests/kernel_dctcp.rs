//! Weir's DCTCP in the kernel's TCP (`bpf/dctcp.bpf.c`): that it comes and goes with a run, what it makes of a
//! connection without ECN, that it answers marks, and that it fares as the kernel's own.
//!
//! Needs root and a kernel with links of struct_ops (Linux 6.4); without, each test prints why it does nothing. It is
//! compared with the kernel's own where there is one and time is counted: in a guest of `weir vm run --clock counted`,
//! as `tools/test-vm.sh` has it.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::process::Command;
use std::sync::MutexGuard;
use std::sync::atomic::AtomicBool;

use weir_report::result::RunResult;
use weir_scenario::Scenario;
use weir_testkit::skip::{root_and_turn, skip};
use weir_world::{DctcpError, EMU, RunOptions, WeirDctcp, World, run};

/// The variable that says that the clock counts instructions.
const COUNTED: &str = "WEIR_COUNTED";
/// What the kernel calls it.
const NAME: &str = "weir_dctcp";

/// The right to be the only one who registers it in this process; none where it cannot be registered.
fn turn() -> Option<MutexGuard<'static, ()>> {
    let turn = root_and_turn()?;
    match WeirDctcp::register() {
        Ok(_) => Some(turn),
        Err(DctcpError::Lacks { lacks }) => {
            skip("struct_ops", lacks);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn scenario(qdisc: &str, flows: &[String]) -> Scenario {
    let flows: Vec<String> = flows.iter().map(|flow| format!("{{ stack = 'tcp', {flow} }}")).collect();
    let text = format!(
        "flow = [{}]\nbottleneck = {{ rate = '40mbit', rtt = '7ms', qdisc = '{qdisc}' }}\n[measure]\ntimeout = '20s'\n",
        flows.join(", ")
    );
    Scenario::parse(&text, qdisc).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn measure(scenario: &Scenario, world: &'static dyn World) -> Result<RunResult, weir_world::RunError> {
    let stop = AtomicBool::new(false);
    run(scenario, &RunOptions { world, ..RunOptions::new(&stop) })
}

/// What the kernel has registered of Weir's.
fn registered() -> Vec<String> {
    let all = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap();
    all.split_whitespace().filter(|name| name.starts_with(NAME)).map(str::to_owned).collect()
}

#[test]
fn each_has_a_name_of_its_own_and_takes_it_along() {
    let Some(_turn) = turn() else { return };
    let [first, second] = [(); 2].map(|()| WeirDctcp::register().unwrap());
    let names = [&first, &second].map(|one| one.name().to_owned());
    assert!(names[0] != names[1] && names.iter().all(|name| name.starts_with(NAME)), "{names:?}");
    let there = || names.each_ref().map(|name| registered().contains(name));
    assert_eq!(there(), [true, true]);
    drop(first);
    assert_eq!(there(), [false, true]);
    drop(second);
    assert_eq!(there(), [false, false]);
}

/// Where the kernel lacks something, a run says what, and which worlds do without.
#[test]
fn a_kernel_that_cannot_have_it_is_told() {
    let Some(_turn) = root_and_turn() else { return };
    let Err(DctcpError::Lacks { lacks }) = WeirDctcp::register() else {
        return skip("old-kernel", "one without links of struct_ops refuses it");
    };
    let scenario = scenario("step", &["controller = 'weir-dctcp', duration = '1s'".to_owned()]);
    let error = measure(&scenario, EMU).unwrap_err().to_string();
    assert!(error.contains(lacks) && error.contains("--on sim"), "{error}");
}

#[test]
fn it_goes_with_a_run_that_fails() {
    let Some(_turn) = turn() else { return };
    // The second flow finds that the kernel does not have it when the first has its sockets already.
    let flows = ["weir-dctcp", "prague"].map(|name| format!("controller = '{name}', duration = '1s'"));
    match measure(&scenario("step", &flows), EMU) {
        Ok(_) => skip("no-prague", "a kernel with prague fails no flow of it"),
        Err(error) => assert!(error.to_string().contains("'prague'"), "{error}"),
    }
    assert_eq!(registered(), [""; 0]);
}

/// What a connection over the loopback interface of a network of its own comes to that asks for `controller` once it is
/// there: the controller that it has, and the ECN bits of its packets.
fn connection(tcp_ecn: char, controller: &str) -> (String, i32) {
    let controller = controller.to_owned();
    let in_a_network_of_its_own = move || {
        // SAFETY: only this thread changes its namespace, and it ends here.
        assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0);
        let up = Command::new("ip").args(["link", "set", "lo", "up"]).status().unwrap();
        assert!(up.success());
        std::fs::write("/proc/sys/net/ipv4/tcp_ecn", tcp_ecn.to_string()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let option = (libc::IPPROTO_TCP, libc::TCP_CONGESTION);
        let length = controller.len() as libc::socklen_t;
        // SAFETY: pointer and length describe `controller`.
        let set = unsafe {
            libc::setsockopt(client.as_raw_fd(), option.0, option.1, controller.as_ptr().cast(), length)
        };
        assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
        // It still carries what it is given.
        let sent = vec![7; 300_000];
        let sender = std::thread::spawn(move || {
            client.write_all(&sent).unwrap();
            client
        });
        let mut got = vec![0; 300_000];
        server.read_exact(&mut got).unwrap();
        assert!(got.iter().all(|byte| *byte == 7));
        let client = sender.join().unwrap();
        let (mut name, mut length) = ([0u8; 16], 16);
        // SAFETY: pointer and length describe `name`.
        let asked = unsafe {
            libc::getsockopt(client.as_raw_fd(), option.0, option.1, name.as_mut_ptr().cast(), &mut length)
        };
        let (mut tos, mut size) = (0i32, size_of::<i32>() as libc::socklen_t);
        let to = (&raw mut tos).cast();
        // SAFETY: pointer and length describe `tos`.
        let bits =
            unsafe { libc::getsockopt(client.as_raw_fd(), libc::IPPROTO_IP, libc::IP_TOS, to, &mut size) };
        assert_eq!((asked, bits), (0, 0));
        let name = String::from_utf8_lossy(&name);
        (name.trim_end_matches('\0').to_owned(), tos & 3)
    };
    std::thread::spawn(in_a_network_of_its_own).join().unwrap()
}

#[test]
fn a_connection_without_ecn_goes_on_as_reno() {
    let Some(_turn) = turn() else { return };
    let dctcp = WeirDctcp::register().unwrap();
    let ect0 = 2;
    assert_eq!(connection('1', dctcp.name()), (dctcp.name().to_owned(), ect0));
    assert_eq!(connection('0', dctcp.name()), ("reno".to_owned(), 0));
}

/// Nothing but marks signals this queue before it holds 300 ms.
#[test]
fn marks_keep_the_queue_near_the_step() {
    let Some(_turn) = turn() else { return };
    let flow = "name = 'dctcp', controller = 'weir-dctcp', duration = '3s'".to_owned();
    let result = measure(&scenario("step threshold 5ms limit 1000p", &[flow]), EMU).unwrap();
    let (flow, queue) = (&result.flows[0], &result.queues[0]);
    let waits = [0.5, 0.9].map(|share| queue.sojourn_ns.quantile(share).unwrap() as f64 / 1e6);
    println!(
        "{:.1} Mbit/s, {} marked and {} dropped of {}, sojourn {:.1} ms, 90 % below {:.1} ms",
        flow.goodput_bps / 1e6,
        flow.marked,
        flow.dropped,
        flow.packets,
        waits[0],
        waits[1]
    );
    assert_eq!((flow.error.as_deref(), flow.controller.as_str()), (None, "weir-dctcp"));
    assert!(flow.ecn && flow.marked > 20 && flow.dropped == 0, "{flow:?}");
    assert!(waits[1] < 30.0, "{waits:?} ms");
    assert!(flow.goodput_bps > 8e6, "{flow:?}");
    assert_eq!(registered(), [""; 0]);
}

/// Where the kernel has none, `dctcp` is Weir's, and the result says so.
#[test]
fn dctcp_is_weirs_where_the_kernel_has_none() {
    let Some(_turn) = turn() else { return };
    let flow = "controller = 'dctcp', duration = '500ms'".to_owned();
    let result = measure(&scenario("step threshold 5ms limit 1000p", &[flow]), EMU).unwrap();
    let told = (result.flows[0].controller.as_str(), result.meta.io.contains("dctcp by eBPF"));
    let expected = if weir_world::whose_dctcp().unwrap() == "the kernel's" {
        ("dctcp", false)
    } else {
        ("weir-dctcp", true)
    };
    assert_eq!(told, expected);
    assert!(result.flows[0].ecn && result.flows[0].error.is_none(), "{:?}", result.flows[0]);
}

/// Goodput in Mbit/s, the mean wait in ms and marks per 1000 packets, of all flows and queues.
fn numbers(result: &RunResult) -> [f64; 3] {
    let goodput: f64 = result.flows.iter().map(|flow| flow.goodput_bps / 1e6).sum();
    let mean = |queue: &weir_report::result::QueueResult| queue.sojourn_ns.mean().unwrap_or_default();
    let waited: f64 = result.queues.iter().map(|queue| mean(queue) * queue.departed as f64).sum();
    let departed: u64 = result.queues.iter().map(|queue| queue.departed).sum();
    let marked: u64 = result.queues.iter().map(|queue| queue.marked).sum();
    [goodput, waited / departed as f64 / 1e6, 1e3 * marked as f64 / departed as f64]
}

#[test]
fn it_fares_as_the_kernels() {
    let Some(_turn) = turn() else { return };
    if std::env::var_os(COUNTED).is_none() {
        return skip("counted-clock", "the real clock's lateness would be compared");
    }
    if weir_world::whose_dctcp().unwrap() != "the kernel's" {
        return skip("tcp_dctcp", "Weir's is compared with the kernel's");
    }
    println!("{:34} {:>8} {:>8} {:>8}", "", "Mbit/s", "ms", "marks/1000");
    let mut apart = Vec::new();
    for qdisc in ["step threshold 1ms limit 1000p", "dualpi2 scalable any"] {
        for count in [1, 2] {
            let [kernels, weirs] = ["dctcp", "weir-dctcp"].map(|controller| {
                let flow = format!("controller = '{controller}', count = {count}, duration = '4s'");
                let result = measure(&scenario(qdisc, &[flow]), EMU).unwrap();
                assert!(result.flows.iter().all(|flow| flow.error.is_none()), "{:?}", result.flows);
                assert!(result.flows.iter().all(|flow| flow.dropped == 0), "{:?}", result.flows);
                assert!(result.flows.iter().all(|flow| flow.controller == controller), "{:?}", result.flows);
                let numbers = numbers(&result);
                let label = format!("{}, {count} {controller}", &qdisc[..7]);
                println!("{label:34} {:8.2} {:8.3} {:8.1}", numbers[0], numbers[1], numbers[2]);
                numbers
            });
            for (what, bound, at) in [("goodput", 0.05, 0), ("wait", 0.05, 1), ("marks", 0.15, 2)] {
                if (weirs[at] / kernels[at] - 1.0).abs() > bound {
                    apart.push(format!("{qdisc}, {count}: {what} {} and {}", kernels[at], weirs[at]));
                }
            }
        }
    }
    assert!(apart.is_empty(), "{apart:#?}");
}
