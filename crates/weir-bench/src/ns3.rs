//! A scenario of `weir bench sim` in ns-3, where it is installed: a program of this project (`ns3.cc`) is compiled
//! against ns-3's libraries, run, and thrown away. ns-3 is under the GNU GPL; the program that is made with it stays on
//! this machine.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use tempfile::TempDir;
use thiserror::Error;
use weir_core::Duration;

use super::sim::Part;

const SOURCE: &str = include_str!("ns3.cc");
const LIBRARIES: [&str; 6] =
    ["core", "network", "internet", "point-to-point", "applications", "traffic-control"];
/// Virtual time of a part of the run: about as long on the wall as the parts of the simulator's own.
const PART: Duration = Duration::from_millis(100);

/// Why there is no number of ns-3.
#[derive(Debug, Error)]
pub(super) enum Ns3Error {
    #[error("no C++ compiler: install g++ and ns-3 (Debian: g++ libns3-dev)")]
    NoCompiler(#[source] std::io::Error),
    #[error("ns-3 is not installed (Debian: libns3-dev), or not as version 3.37 is: {0}")]
    Compile(String),
    #[error("the program with ns-3 could not run: {0}")]
    Run(#[from] std::io::Error),
    #[error("the program with ns-3 ended with {status} after saying '{line}'")]
    Said { status: String, line: String },
}

/// Where the ends of the flows are.
#[derive(Clone, Copy, Debug)]
pub(super) enum Hosts {
    /// All senders on one node and all receivers on another, with the bottleneck between: the least that ns-3 can do.
    Shared,
    /// Each on a node of its own, behind a fast link and a router, as ns-3's own examples have it.
    Own,
}

/// The program.
pub(super) struct Program {
    _folder: TempDir,
    path: PathBuf,
}

impl Program {
    /// Compiles it.
    pub(super) fn compile() -> Result<Self, Ns3Error> {
        let folder = tempfile::tempdir()?;
        let source = folder.path().join("ns3.cc");
        let path = folder.path().join("ns3");
        std::fs::write(&source, SOURCE)?;
        let output = Command::new("c++")
            .args(["-std=c++17", "-O2", "-o"])
            .args([&path, &source])
            .args(LIBRARIES.map(|library| format!("-lns3-{library}")))
            .output()
            .map_err(Ns3Error::NoCompiler)?;
        if output.status.success() {
            return Ok(Self { _folder: folder, path });
        }
        let errors = String::from_utf8_lossy(&output.stderr);
        let first = errors.lines().find(|line| line.contains("error")).or(errors.lines().next());
        Err(Ns3Error::Compile(first.unwrap_or("the compiler says nothing").to_owned()))
    }

    /// Runs it for `seconds` of the real clock after slow start, or until `stop` is set.
    pub(super) fn run(
        &self,
        hosts: Hosts,
        seconds: Duration,
        stop: &AtomicBool,
    ) -> Result<Vec<Part>, Ns3Error> {
        let mut child = Command::new(&self.path)
            .arg(match hosts {
                Hosts::Shared => "shared",
                Hosts::Own => "own",
            })
            .arg(seconds.as_nanos().to_string())
            .arg(PART.as_nanos().to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut parts = Vec::new();
        let mut said = None;
        for line in child.stdout.take().into_iter().flat_map(|output| BufReader::new(output).lines()) {
            let line = line?;
            match part(&line) {
                Some(part) => parts.push(part),
                None => said = Some(line),
            }
            if stop.load(Ordering::Relaxed) {
                child.kill()?;
                break;
            }
        }
        let status = child.wait()?;
        if said.is_some() || (!status.success() && !stop.load(Ordering::Relaxed)) {
            return Err(Ns3Error::Said { status: status.to_string(), line: said.unwrap_or_default() });
        }
        Ok(parts)
    }
}

/// A line of the program: packets, nanoseconds on the wall, nanoseconds of the processor.
fn part(line: &str) -> Option<Part> {
    let numbers: Vec<f64> = line.split(' ').map(str::parse).collect::<Result<_, _>>().ok()?;
    let [packets, real_ns, processor_ns] = numbers[..] else { return None };
    Some(Part { packets, real_ns, processor_ns })
}

#[cfg(test)]
mod tests {
    use super::{Part, part};

    #[test]
    fn a_line_is_a_part() {
        assert_eq!(
            part("8310 1938020523 153448599"),
            Some(Part { packets: 8310.0, real_ns: 1_938_020_523.0, processor_ns: 153_448_599.0 })
        );
        assert_eq!(part("terminate called without an active exception"), None);
        assert_eq!(part("1 2"), None);
    }
}
