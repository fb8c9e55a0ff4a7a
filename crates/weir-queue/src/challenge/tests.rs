use super::{CALM, Challenge, DROPPING, Finding, MARKING, ROWS, Treatment, WAYS, WINDOW};
use weir_core::{FlowId, Rate, Time};

/// A link with 125,000 bytes per window of 100 ms, and the rates of its flows in packets of 1000 bytes.
struct Link {
    challenge: Challenge,
    window: u64,
    congested: bool,
    heard: Vec<(u64, FlowId, Finding)>,
}

impl Link {
    fn new() -> Self {
        let challenge = Challenge::new(Rate::from_bits_per_sec(10_000_000));
        Self { challenge, window: 0, congested: true, heard: Vec::new() }
    }

    /// Lets each flow send so many packets in the next window; returns how each of its packets was treated.
    fn window(&mut self, rates: &[(u32, u32)]) -> Vec<(u32, Treatment)> {
        let at = |part: f64| Time::ZERO + WINDOW * self.window + WINDOW.scale(part);
        let mut treated = Vec::new();
        for (flow, packets) in rates {
            for packet in 0..*packets {
                let part = f64::from(packet) / f64::from(*packets);
                let (window, heard) = (self.window, &mut self.heard);
                let treatment =
                    self.challenge.arrives(FlowId(*flow), 1000, at(part), &mut |flow, finding| {
                        heard.push((window, flow, finding));
                    });
                treated.push((*flow, treatment));
                if self.congested {
                    self.challenge.marked();
                }
            }
        }
        self.window += 1;
        treated
    }

    fn windows(&mut self, windows: u32, rates: &[(u32, u32)]) {
        for _ in 0..windows {
            self.window(rates);
        }
    }

    fn heard(&self) -> Vec<(u32, Finding)> {
        self.heard.iter().map(|(_, flow, finding)| (flow.0, *finding)).collect()
    }
}

fn count(treated: &[(u32, Treatment)], flow: u32, which: Treatment) -> usize {
    treated.iter().filter(|one| **one == (flow, which)).count()
}

#[test]
fn a_flow_that_keeps_its_rate_is_marked_then_thinned_and_then_demoted() {
    let mut link = Link::new();
    let rates = [(1, 40), (2, 20)];
    link.windows(2, &rates);
    let tried = link.window(&rates);
    assert_eq!(link.heard(), [(1, Finding::Tried)]);
    assert_eq!((count(&tried, 1, Treatment::Mark), count(&tried, 2, Treatment::Pass)), (40, 20));
    assert!(link.challenge.is_tried(FlowId(1)) && !link.challenge.is_tried(FlowId(2)));
    link.windows(MARKING - 1, &rates);
    let thinned = link.window(&rates);
    assert_eq!((count(&thinned, 1, Treatment::Mark), count(&thinned, 1, Treatment::Drop)), (10, 30));
    link.windows(DROPPING - 1, &rates);
    assert_eq!(link.heard().len(), 1);
    let demoted = link.window(&rates);
    assert_eq!(link.heard(), [(1, Finding::Tried), (1, Finding::Demoted)]);
    assert_eq!((count(&demoted, 1, Treatment::Demote), count(&demoted, 2, Treatment::Pass)), (40, 20));
    assert!(link.challenge.is_demoted(FlowId(1)) && !link.challenge.is_demoted(FlowId(2)));
}

#[test]
fn a_flow_whose_trial_began_in_a_trough_is_acquitted_when_it_falls_back() {
    let heard = |under_losses| {
        let mut link = Link::new();
        link.windows(3, &[(1, 40)]);
        link.windows(MARKING - 1, &[(1, 120)]);
        link.windows(DROPPING + 1, &[(1, under_losses)]);
        link.heard()
    };
    // The mean of the marked second is 112: 70 % of it are 78.
    assert_eq!(heard(76)[..2], [(1, Finding::Tried), (1, Finding::Acquitted)]);
    assert_eq!(heard(80), [(1, Finding::Tried), (1, Finding::Demoted)]);
}

#[test]
fn a_flow_that_gives_way_is_acquitted_at_once_and_rests_longer_each_time() {
    let mut link = Link::new();
    let mut trials = Vec::new();
    for window in 0..1_000 {
        let is_tried = link.challenge.is_tried(FlowId(7));
        link.window(&[(7, if is_tried { 20 } else { 40 })]);
        if link.heard.last().is_some_and(|last| last.0 == window && last.2 == Finding::Tried) {
            trials.push(window);
        }
    }
    let findings = link.heard();
    assert!(findings.chunks(2).all(|pair| pair[0].1 == Finding::Tried), "{findings:?}");
    assert!(findings.chunks_exact(2).all(|pair| pair[1].1 == Finding::Acquitted), "{findings:?}");
    // Rests of 10, 20 and 40 s, and few windows more for each trial.
    let rests: Vec<u64> = trials.windows(2).map(|pair| (pair[1] - pair[0]) / 100).collect();
    assert_eq!(rests, [1, 2, 4], "{trials:?}");
}

#[test]
fn nobody_is_tried_without_congestion_or_below_the_least_share() {
    let mut link = Link::new();
    link.congested = false;
    link.windows(50, &[(1, 40), (2, 20)]);
    assert_eq!(link.heard(), []);
    link.congested = true;
    // A 32nd of the link is 3906 bytes in a window, five full packets 7570, a quarter of a half of the link 15625.
    let many = |packets| (3..13).map(|flow| (flow, packets)).collect::<Vec<(u32, u32)>>();
    link.windows(50, &many(7));
    link.windows(50, &[(3, 15), (4, 15)]);
    assert_eq!(link.heard(), []);
    let mut busy = Link::new();
    busy.windows(3, &many(8));
    assert_eq!(busy.heard().len(), 1);
    link.windows(3, &[(3, 16), (4, 15)]);
    assert_eq!(link.heard(), [(3, Finding::Tried)]);
}

#[test]
fn a_demoted_flow_comes_back_when_it_has_kept_calm() {
    let mut link = Link::new();
    link.windows(3 + MARKING + DROPPING, &[(1, 40)]);
    assert_eq!(link.heard().last(), Some(&(1, Finding::Demoted)));
    // At half of its rate it is not calm, and a rise puts it back.
    link.windows(2 * CALM, &[(1, 20)]);
    link.windows(CALM - 5, &[(1, 19)]);
    link.window(&[(1, 30)]);
    assert!(link.challenge.is_demoted(FlowId(1)));
    link.windows(CALM, &[(1, 19)]);
    assert!(link.challenge.is_demoted(FlowId(1)));
    link.window(&[(1, 19)]);
    assert_eq!(link.heard().last(), Some(&(1, Finding::Restored)));
    assert!(!link.challenge.is_demoted(FlowId(1)));
    // Silence is calm too.
    let mut link = Link::new();
    link.windows(3 + MARKING + DROPPING, &[(1, 40)]);
    link.windows(CALM + 1, &[(2, 1)]);
    link.window(&[(1, 40)]);
    assert_eq!(link.heard().last(), Some(&(1, Finding::Restored)));
}

#[test]
fn a_full_row_lets_further_flows_pass_unwatched_until_one_falls_silent() {
    let mut link = Link::new();
    let row: Vec<u32> = (0..WAYS as u32 + 1).map(|way| 5 + way * ROWS as u32).collect();
    let places: Vec<_> = row.iter().map(|flow| link.challenge.place(FlowId(*flow)).is_some()).collect();
    assert_eq!(places, [true, true, true, true, false]);
    assert_eq!(link.challenge.place(FlowId::NONE), None);
    link.window = 102;
    link.windows(1, &[(row[4], 1), (row[1], 1)]);
    assert!(link.challenge.place(FlowId(row[4])).is_some());
    assert!(link.challenge.place(FlowId(row[1])).is_some());
    let known = |flow: u32| link.challenge.seen.iter().any(|seen| seen.flow == FlowId(flow));
    assert_eq!(row.iter().map(|flow| known(*flow)).collect::<Vec<_>>(), [false, true, true, true, true]);
}
