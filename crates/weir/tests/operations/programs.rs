//! Programs of others at TCX and XDP, in front of Weir's and behind them.

use std::fmt::Write as _;

use weir_testkit::bpf::{At, TCX_DROP, TCX_NEXT, TCX_PASS, Theirs, XDP_DROP, XDP_PASS};

use crate::Scene;
use crate::wire::index;

impl Scene {
    /// A program of theirs comes, or the one that is there goes.
    pub(crate) fn programs(&mut self) {
        let (at, answers): (At, &[i32]) = match self.draw.below(3) {
            0 => (At::Xdp { generic: self.draw.below(2) == 0 }, &[XDP_PASS, XDP_PASS, XDP_PASS, XDP_DROP]),
            side => {
                let first = self.draw.below(2) == 0;
                (At::Tcx { egress: side == 1, first }, &[TCX_NEXT, TCX_NEXT, TCX_PASS, TCX_PASS, TCX_DROP])
            }
        };
        let answer = self.draw.of(answers);
        if let Some(there) = self.theirs.iter().position(|program| same_place(program.at, at)) {
            let _ = writeln!(self.log, "off: {:?}", self.theirs.swap_remove(there));
            return;
        }
        if matches!(at, At::Tcx { .. }) && !self.has_tcx {
            return;
        }
        let put = self.wire.near.enter(|| Theirs::put(index(&self.device), at, answer)).unwrap();
        let program = put.unwrap_or_else(|error| panic!("{at:?}: {error}\n{}", self.log));
        let _ = writeln!(self.log, "on: {program:?}");
        self.theirs.push(program);
    }

    /// `up` warns of programs of others that come before Weir's, and of no others.
    pub(crate) fn assert_warned(&self, said: &str, line: &str) {
        let (sends, receives) = (!line.contains("direction ingress"), !line.contains("direction egress"));
        let some = |fits: fn(&At) -> bool| self.theirs.iter().any(|program| fits(&program.at));
        let received = some(|at| matches!(at, At::Tcx { egress: false, .. }));
        let generic = some(|at| matches!(at, At::Xdp { generic: true }));
        assert_eq!(said.contains("before Weir (TCX, program"), receives && received, "{}", self.log);
        assert_eq!(said.contains("generic mode"), receives && generic, "{}", self.log);
        // Those that are put last come behind `forward` if it was there already.
        let first = some(|at| matches!(at, At::Tcx { egress: true, first: true }));
        let sent = some(|at| matches!(at, At::Tcx { egress: true, .. }));
        let told = said.contains("'forward' (TCX, program");
        assert!(if told { sends && sent } else { !(sends && first) }, "{}", self.log);
    }

    /// Nobody has taken them off.
    pub(crate) fn assert_theirs(&self) {
        for program in &self.theirs {
            assert!(program.is_there(), "{program:?} is gone\n{}", self.log);
        }
    }

    /// At TCX there is what others have and nothing else.
    pub(crate) fn assert_no_other_tcx(&self) {
        for egress in [false, true] {
            let theirs =
                self.theirs.iter().filter(|program| same_place(program.at, At::Tcx { egress, first: true }));
            let (there, theirs) = (self.wire.tcx_programs(&self.device, egress), theirs.count() as u32);
            assert_eq!(there, theirs, "TCX, egress {egress}\n{}", self.log);
        }
    }
}

/// Whether both are one place, of which this test uses no more than one at a time.
fn same_place(one: At, other: At) -> bool {
    match (one, other) {
        (At::Tcx { egress, .. }, At::Tcx { egress: also, .. }) => egress == also,
        (At::Xdp { .. }, At::Xdp { .. }) => true,
        _ => false,
    }
}

pub(crate) fn drops(program: &Theirs) -> bool {
    let drop = if matches!(program.at, At::Xdp { .. }) { XDP_DROP } else { TCX_DROP };
    program.answer == drop
}
