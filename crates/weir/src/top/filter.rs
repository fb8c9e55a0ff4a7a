//! Which flows are shown: words that must all fit.

use super::sample::Row;
use weir_law::Verdict;

/// A filter as it was typed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filter(pub(crate) String);

impl Filter {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.trim().is_empty()
    }

    /// Whether a flow passes. `class:`, `queue:` and `proto:` look at one thing only, by its beginning; any other word
    /// must stand somewhere in the source, the destination or the protocol. Letters may be of either case.
    pub(crate) fn fits(&self, row: &Row) -> bool {
        let flow = &row.flow;
        self.0.to_lowercase().split_whitespace().all(|word| match word.split_once(':') {
            Some(("class", rest)) => {
                let verdicts = [flow.loss_verdict, flow.ecn_verdict];
                // A flow is unclassified if neither kind of signal has led to a verdict.
                let neither = verdicts.iter().all(|verdict| *verdict == Verdict::Unclassified);
                verdicts.into_iter().any(|verdict| {
                    verdict.name().starts_with(rest) && (neither || verdict != Verdict::Unclassified)
                })
            }
            Some(("queue", rest)) => flow.queue.name().starts_with(rest),
            Some(("proto", rest)) => flow.protocol.starts_with(rest),
            _ => [&flow.source, &flow.destination, flow.protocol].iter().any(|text| text.contains(word)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Filter;
    use crate::show::testing::bottleneck;
    use crate::top::sample::rows;

    fn passing(filter: &str) -> Vec<usize> {
        let rows = rows(&bottleneck(), None, 0.0);
        let filter = Filter(filter.to_owned());
        (0..rows.len()).filter(|index| filter.fits(&rows[*index])).collect()
    }

    #[test]
    fn words_narrow_the_table() {
        assert_eq!(passing(""), [0, 1, 2]);
        assert_eq!(passing("10.0.0.2"), [1]);
        assert_eq!(passing("QUIC"), [2]);
        assert_eq!(passing("fd00::2:10"), [2]);
        assert_eq!(passing(":443 10.0.0"), [0, 1]);
        assert_eq!(passing("nothing"), [0; 0]);
    }

    #[test]
    fn one_thing_is_looked_at_by_its_name() {
        // The third has answered to marks.
        assert_eq!(passing("class:responsive"), [0, 2]);
        assert_eq!(passing("class:unres"), [1]);
        assert_eq!(passing("class:unclassified"), [0; 0]);
        assert_eq!(passing("queue:standard"), [1, 2]);
        assert_eq!(passing("queue:standard proto:tcp"), [1]);
    }
}
