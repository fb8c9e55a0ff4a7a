//! `weir vm`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

#[derive(Debug, Subcommand)]
pub(crate) enum VmCommand {
    /// Fetch kernels from a Debian mirror; those that are there already are left as they are.
    #[command(after_help = "Example:
  weir vm fetch 6.1 7.2")]
    Fetch(VmFetchArgs),
    /// List the kernels that are there.
    #[command(after_help = "Example:
  weir vm list --json
      prints an array of objects with series, release, packages, signature, modules, built_in, absent, size_bytes, folder")]
    List {
        /// The cache's folder [default: $WEIR_VM_CACHE, else weir/vm in $XDG_CACHE_HOME or ~/.cache].
        #[arg(long, value_name = "DIR")]
        cache: Option<PathBuf>,
        /// Print a JSON array.
        #[arg(long)]
        json: bool,
    },
    /// Run a command as root under another kernel; its exit status is this command's.
    #[command(after_help = "Example:
  weir vm run 6.1 --file demo:/root/demo -- weir run demo/with-crq.toml --out /results")]
    Run(VmRunArgs),
    /// Remove kernels from the cache.
    #[command(after_help = "Example:
  weir vm remove 6.1")]
    Remove {
        /// The kernels, by the first two numbers of their versions.
        #[arg(required = true, value_name = "KERNEL")]
        kernels: Vec<String>,
        /// The cache's folder [default: $WEIR_VM_CACHE, else weir/vm in $XDG_CACHE_HOME or ~/.cache].
        #[arg(long, value_name = "DIR")]
        cache: Option<PathBuf>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct VmFetchArgs {
    /// The kernels, by the first two numbers of their versions, or all: 6.1, 6.12 and 7.2.
    #[arg(value_name = "KERNEL", default_value = "all")]
    pub(crate) kernels: Vec<String>,
    /// The address of a Debian mirror [default: that of this host's apt sources, else https://deb.debian.org/debian].
    #[allow(rustdoc::bare_urls, reason = "a terminal shows the text as it stands")]
    #[arg(long, value_name = "URL")]
    pub(crate) mirror: Option<String>,
    /// The cache's folder [default: $WEIR_VM_CACHE, else weir/vm in $XDG_CACHE_HOME or ~/.cache].
    #[arg(long, value_name = "DIR")]
    pub(crate) cache: Option<PathBuf>,
}

/// What a guest's clock follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum VmClock {
    /// The host's clock.
    Host,
    /// The guest's instructions.
    Counted,
}

#[derive(Debug, Args)]
pub(crate) struct VmRunArgs {
    /// The kernel, by the first two numbers of its version.
    pub(crate) kernel: String,
    /// A file or folder that the guest shall have, a program's libraries included; may be repeated.
    #[arg(long = "file", value_name = "HOST:GUEST")]
    pub(crate) files: Vec<String>,
    /// A program of this host that the guest shall have; may be repeated. The command's own is always there.
    #[arg(long = "program", value_name = "NAME")]
    pub(crate) programs: Vec<String>,
    /// Where the files go that the command leaves in /results.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// The guest's processors.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=255))]
    pub(crate) cpus: u32,
    /// The guest's memory in MiB; its files live there too.
    #[arg(long, default_value_t = 2048, value_name = "MIB")]
    pub(crate) memory: u32,
    /// How long the guest may run, by the host's clock.
    #[arg(long, default_value = "600s", value_name = "TIME")]
    pub(crate) timeout: weir_core::Duration,
    /// The guest's time: the host's, or its own instructions counted, a nanosecond each, so that a slow or busy host
    /// changes nothing (emulated, with one processor).
    #[arg(long, value_enum, default_value = "host")]
    pub(crate) clock: VmClock,
    /// Emulate the processor even where KVM works.
    #[arg(long)]
    pub(crate) emulate: bool,
    /// The cache's folder [default: $WEIR_VM_CACHE, else weir/vm in $XDG_CACHE_HOME or ~/.cache].
    #[arg(long, value_name = "DIR")]
    pub(crate) cache: Option<PathBuf>,
    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}
