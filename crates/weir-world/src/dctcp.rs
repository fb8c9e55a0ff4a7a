//! DCTCP in the kernel's TCP: the kernel's own where it has `tcp_dctcp`, and else Weir's (`bpf/dctcp.bpf.c`), which is
//! registered with the kernel while a run lasts.
//!
//! The name is known to the whole host, but only sockets of processes with CAP_NET_ADMIN get it. It goes with the file
//! descriptor of its link, and so when the process is killed; connections that still have it keep it until they end.

use std::io;
use std::mem::MaybeUninit;

use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::Struct;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{ErrorKind, Link};
use thiserror::Error;
use weir_kernel::talk;
use weir_scenario::Flow;
use weir_testbed::traffic::{self, DCTCP, Stack, TcpSpec};

use crate::run::RunError;

#[allow(missing_docs, unreachable_pub, dead_code, unsafe_op_in_unsafe_fn, clippy::all)]
#[allow(clippy::undocumented_unsafe_blocks)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/dctcp.skel.rs"));
}

/// What the kernel calls its own, and scenarios the one that there is.
const KERNELS: &str = "dctcp";
/// What the kernel calls Weir's; hyphens are not allowed. Where another run on this host has it, with a number.
const NAME: &str = "weir_dctcp";
/// TCP_CA_NAME_MAX (include/net/tcp.h).
const NAME_BYTES: usize = 16;
/// How many runs on this host may have one of their own.
const MOST: u32 = 1000;
/// Lines of the verifier's that an error quotes.
const LAST_WORDS: usize = 3;
/// What the kernel's types say of what it can do, and what that is called.
const NEEDED: [(&str, &str); 2] = [
    ("bpf_struct_ops_tcp_congestion_ops", "TCP congestion controls by eBPF (CONFIG_BPF_JIT)"),
    ("bpf_struct_ops_link", "links of struct_ops (Linux 6.4)"),
];

/// Why Weir's DCTCP is not to be had.
#[derive(Debug, Error)]
pub enum DctcpError {
    /// Whether the kernel has its own could not be found out.
    #[error("congestion control 'dctcp' cannot be asked of the kernel: {0}; it takes root")]
    Ask(#[source] io::Error),
    /// The kernel cannot have it.
    #[error("this kernel's TCP cannot get Weir's dctcp: it lacks {lacks}; use --on vm or --on sim")]
    Lacks {
        /// What is missing.
        lacks: &'static str,
    },
    /// It could not be loaded or registered.
    #[error(
        "Weir's dctcp for the kernel's TCP cannot be {what}: {message}; it takes root (CAP_BPF and CAP_NET_ADMIN), or \
         use --on vm or --on sim"
    )]
    Register {
        /// What failed.
        what: &'static str,
        /// What the kernel said.
        message: String,
    },
}

impl From<DctcpError> for RunError {
    fn from(error: DctcpError) -> Self {
        Self::of_world(error)
    }
}

/// What flows of a run get who ask for DCTCP.
pub(crate) struct Dctcp {
    /// Weir's, if it is needed.
    registered: Option<WeirDctcp>,
    /// Whether flows who asked for the kernel's get Weir's.
    instead: bool,
}

impl Dctcp {
    /// Registers Weir's if one of the flows asks for that, or for the kernel's where there is none.
    pub(crate) fn of(flows: &[Flow]) -> Result<Self, DctcpError> {
        let asks = |name: &str| flows.iter().any(|flow| flow.stack == Stack::Tcp && flow.controller == name);
        let instead = asks(KERNELS) && !kernel_has_it()?;
        let registered = (instead || asks(DCTCP)).then(WeirDctcp::register).transpose()?;
        Ok(Self { registered, instead })
    }

    /// Gives a flow the right one, if it asks for one.
    pub(crate) fn name(&self, spec: &mut TcpSpec) {
        let is_weirs = spec.controller == DCTCP || (self.instead && spec.controller == KERNELS);
        if let Some(registered) = self.registered.as_ref().filter(|_| is_weirs) {
            DCTCP.clone_into(&mut spec.controller);
            spec.registered = Some(registered.name.clone());
        }
    }

    /// What is told of it behind how packets moved.
    pub(crate) fn note(&self) -> &'static str {
        if self.instead { ", dctcp by eBPF as this kernel has none" } else { "" }
    }
}

fn kernel_has_it() -> Result<bool, DctcpError> {
    traffic::kernel_gives_controller(KERNELS).map_err(DctcpError::Ask)
}

/// Whose DCTCP flows get that ask for `dctcp` over TCP, in words.
///
/// # Errors
/// Why they get none.
pub fn whose_dctcp() -> Result<&'static str, DctcpError> {
    if kernel_has_it()? {
        return Ok("the kernel's");
    }
    WeirDctcp::register().map(|_| "Weir's, by eBPF")
}

/// Weir's DCTCP, which the kernel's TCP has until this is dropped or the process ends. Connections that have it by then
/// keep it.
#[derive(Debug)]
pub struct WeirDctcp {
    name: String,
    _link: Link,
}

impl WeirDctcp {
    /// Registers it with the kernel, under a name that no other has.
    ///
    /// # Errors
    /// [`DctcpError`] without root, before Linux 6.4, or on a kernel without BTF.
    pub fn register() -> Result<Self, DctcpError> {
        let btf = Btf::from_vmlinux()
            .map_err(|_| DctcpError::Lacks { lacks: "descriptions of its types (CONFIG_DEBUG_INFO_BTF)" })?;
        for (name, lacks) in NEEDED {
            if btf.type_by_name::<Struct<'_>>(name).is_none() {
                return Err(DctcpError::Lacks { lacks });
            }
        }
        let mut number = 1;
        loop {
            let name = if number == 1 { NAME.to_owned() } else { format!("{NAME}{number}") };
            let (loaded, words) = talk::listen(|| load(&name));
            match loaded {
                Ok(link) => return Ok(Self { name, _link: link }),
                Err((_, error)) if error.kind() == ErrorKind::AlreadyExists && number < MOST => number += 1,
                Err((what, error)) => {
                    let message = format!("{error:#}{}", verifiers(&words));
                    return Err(DctcpError::Register { what, message });
                }
            }
        }
    }

    /// What the option `TCP_CONGESTION` calls it.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// The last that the verifier said, if it refused a program.
fn verifiers(words: &str) -> String {
    let Some((log, _)) = words.split_once("-- END PROG LOAD LOG --") else { return String::new() };
    let lines: Vec<_> = log.lines().collect();
    format!(": {}", lines[lines.len().saturating_sub(LAST_WORDS)..].join("; "))
}

/// Loads the programs and registers them under `name`.
fn load(name: &str) -> Result<Link, (&'static str, libbpf_rs::Error)> {
    let failed = |what: &'static str| move |error| (what, error);
    let mut storage = MaybeUninit::uninit();
    let mut open = skeleton::DctcpSkelBuilder::default().open(&mut storage).map_err(failed("opened"))?;
    let place = &mut open.struct_ops.weir_dctcp_mut().name;
    *place = [0; NAME_BYTES];
    for (to, from) in place.iter_mut().zip(name.bytes()) {
        *to = from as _;
    }
    let mut skeleton = open.load().map_err(failed("loaded"))?;
    skeleton.maps.weir_dctcp.attach_struct_ops().map_err(failed("registered"))
}
