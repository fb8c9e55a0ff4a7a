//! `reload`: what is up, with some of it said anew. What was said before and was not repeated gives way where it cannot
//! stand beside what is said now: the one who reloads did not name it.

use super::keys::Keys;
use super::leaf::Leaf;
use super::queues::QueueKeys;
use super::setup::{DEFAULT_QUEUE, Directions, SetupError};

impl Keys {
    /// These, as far as `said` does not say otherwise.
    ///
    /// # Errors
    /// Names a word that would change nothing.
    pub fn changed_by(mut self, said: Self) -> Result<Self, SetupError> {
        if said.direction == Some(Directions::Egress) {
            self.ingress_rate = None;
        }
        let (new_limit, new_ecn, new_queues) = (said.limit, said.ecn, said.queues.is_some());
        let mut keys = said.over(self);
        let queues = keys.queues.clone().unwrap_or_default();
        let leaf = |given: Option<Leaf>| given.map_or_else(|| DEFAULT_QUEUE.parse(), Ok);
        let leaves = [leaf(queues.standard)?, leaf(queues.responsive)?];
        if new_limit.is_some() && leaves.iter().all(|leaf| leaf.names("limit")) {
            let problem = "both queues have a limit of their own, which this does not change; say it with the queue, as in \
                           'standard bfifo limit 20ms'";
            return Err(SetupError::value("limit", problem));
        }
        if new_ecn.is_none() && !leaves.iter().any(|leaf| leaf.has("ecn")) {
            keys.ecn = None;
        }
        if let Some(limit) = keys.limit.filter(|_| new_limit.is_none() && new_queues) {
            let limited = leaves.map(|leaf| (leaf.limited(limit), leaf));
            if limited.iter().any(|(limited, _)| limited.is_none()) {
                let [standard, responsive] = limited.map(|(limited, leaf)| Some(limited.unwrap_or(leaf)));
                keys.queues = Some(QueueKeys { standard, responsive });
                keys.limit = None;
            }
        }
        Ok(keys)
    }
}

#[cfg(test)]
mod tests {
    use crate::keys::Keys;
    use crate::setup::{Direction, Setup};
    use crate::words;

    fn said(line: &str) -> Keys {
        words::parse(&line.split_whitespace().collect::<Vec<_>>()).unwrap()
    }

    fn reloaded(up: &str, reload: &str) -> Result<Setup, String> {
        let keys = said(up).changed_by(said(reload)).map_err(|error| error.to_string())?;
        Setup::from_keys(keys).map_err(|error| error.to_string())
    }

    #[test]
    fn a_rate_for_what_is_received_goes_with_its_direction() {
        let up = "eth0 rate 10mbit direction both ingress_rate 5mbit queues bfifo/bfifo";
        let egress = reloaded(up, "eth0 direction egress").unwrap();
        assert_eq!(egress.direction.each(), [Direction::Egress]);
        let both = Setup::from_keys(egress.keys.changed_by(said("eth0 direction both")).unwrap()).unwrap();
        assert_eq!(both.ingress_rate, both.rate, "it is forgotten");
        // What is said in the same breath is contradictory as ever.
        let refused = reloaded(up, "eth0 direction egress ingress_rate 4mbit").unwrap_err();
        assert!(refused.starts_with("ingress_rate: only what is sent is shaped"), "{refused}");
        assert_eq!(reloaded(up, "eth0 rate 9mbit").unwrap().ingress_rate, "5mbit".parse().unwrap());
    }

    #[test]
    fn a_limit_that_a_new_queue_cannot_have_stays_with_the_other() {
        let up = "eth0 rate 10mbit limit 500p";
        for (reload, queues) in [
            ("eth0 standard bfifo", "standard bfifo responsive codel limit 500p"),
            (
                "eth0 standard cake unlimited responsive bfifo limit 20ms",
                "standard cake unlimited responsive bfifo limit 20ms",
            ),
            ("eth0 standard pfifo", "standard pfifo limit 500p responsive codel limit 500p"),
            ("eth0 standard bfifo responsive pfifo limit 9p", "standard bfifo responsive pfifo limit 9p"),
        ] {
            assert_eq!(reloaded(up, reload).unwrap().queues.to_string(), queues, "{reload}");
        }
        // What is said now is not dropped.
        let refused = reloaded(up, "eth0 standard bfifo limit 600p").unwrap_err();
        assert!(refused.contains("cannot be limited to 600p"), "{refused}");
        let same = said(up).changed_by(said("eth0")).unwrap();
        assert_eq!(same, said(up), "a reload without words changes nothing");
    }

    #[test]
    fn a_limit_without_effect_is_refused() {
        let up = "eth0 rate 10mbit standard bfifo limit 64kb responsive bfifo limit 64kb";
        let refused = reloaded(up, "eth0 limit 1000p").unwrap_err();
        assert!(refused.starts_with("limit: both queues have a limit of their own"), "{refused}");
        let queues = reloaded(up, "eth0 limit 20ms standard bfifo").unwrap().queues.to_string();
        assert_eq!(queues, "standard bfifo limit 20ms responsive bfifo limit 64kb");
    }

    #[test]
    fn marking_goes_with_the_last_queue_that_can() {
        let setup = reloaded("eth0 rate 10mbit queues codel/codel ecn", "eth0 queues bfifo/bfifo").unwrap();
        assert!(!setup.can_mark());
        assert!(reloaded("eth0 rate 10mbit queues codel/codel", "eth0 queues bfifo/bfifo ecn").is_err());
    }
}
