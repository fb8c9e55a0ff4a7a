//! What `weir top` shows at a moment: the last two looks, and how its user wants to see them. No terminal here.

use std::collections::HashMap;

use super::columns::Column;
use super::filter::Filter;
use super::sample::{QueueRates, Row, Sample, queue_rates, rows};
use weir_core::QueueChoice;
use weir_kernel::Direction;
use weir_kernel::model::Bottleneck;

/// How many looks the small charts show at most.
pub(crate) const HISTORY: usize = 60;

/// What the user may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Quit,
    /// Gives the terminal back to the shell until `fg`.
    Suspend,
    Redraw,
    Sort(bool),
    Reverse,
    EditFilter,
    /// Out of the help, or else to no filter.
    Back,
    Type(char),
    Erase,
    Accept,
    Cancel,
    Pause,
    Help,
    /// The next bottleneck.
    Next,
    /// Moves by rows; saturates.
    Rows(isize),
    /// Moves by columns.
    Columns(isize),
}

/// The state of the screen.
#[derive(Debug)]
pub(crate) struct View {
    current: Option<Sample>,
    before: Option<Sample>,
    /// Throughput of each queue, bit/s, oldest first.
    history: HashMap<(String, Direction, QueueChoice), Vec<f64>>,
    /// Which bottleneck, by what it is and not by its place, which changes as others come and go.
    selected: Option<(String, Direction)>,
    /// What went wrong with the last look.
    pub(crate) trouble: Option<String>,
    pub(crate) sort: Column,
    pub(crate) reversed: bool,
    pub(crate) filter: Filter,
    /// The filter while it is typed.
    pub(crate) editing: Option<String>,
    pub(crate) paused: bool,
    pub(crate) help: bool,
    pub(crate) first_row: usize,
    pub(crate) skipped_columns: usize,
}

impl View {
    pub(crate) fn new() -> Self {
        Self {
            current: None,
            before: None,
            history: HashMap::new(),
            selected: None,
            trouble: None,
            sort: Column::Rate,
            reversed: false,
            filter: Filter::default(),
            editing: None,
            paused: false,
            help: false,
            first_row: 0,
            skipped_columns: 0,
        }
    }

    /// Takes in a look.
    pub(crate) fn look(&mut self, sample: Sample) {
        self.trouble = None;
        self.before = self.current.replace(sample);
        let Some(current) = &self.current else { return };
        for shown in &current.bottlenecks {
            for rates in self.rates_of(shown) {
                let key = (shown.device.clone(), shown.direction, rates.queue);
                let history = self.history.entry(key).or_default();
                history.extend(rates.bits_per_second);
                let surplus = history.len().saturating_sub(HISTORY);
                history.drain(..surplus);
            }
        }
        if self.selected.is_none() {
            self.selected = current.bottlenecks.first().map(|shown| (shown.device.clone(), shown.direction));
        }
    }

    /// Takes note of a look that failed.
    pub(crate) fn fail(&mut self, trouble: String) {
        self.trouble = Some(trouble);
    }

    fn rates_of(&self, shown: &Bottleneck) -> Vec<QueueRates> {
        queue_rates(shown, self.earlier(shown), self.elapsed_s())
    }

    fn earlier(&self, shown: &Bottleneck) -> Option<&Bottleneck> {
        self.before.as_ref()?.find(&shown.device, shown.direction)
    }

    fn elapsed_s(&self) -> f64 {
        match (&self.current, &self.before) {
            (Some(current), Some(before)) => current.at_s - before.at_s,
            _ => 0.0,
        }
    }

    /// What the user has chosen to see, present or not.
    pub(crate) fn selected(&self) -> Option<(&str, Direction)> {
        self.selected.as_ref().map(|(device, direction)| (device.as_str(), *direction))
    }

    /// The bottleneck that is shown; `None` if it is gone.
    pub(crate) fn shown(&self) -> Option<&Bottleneck> {
        let (device, direction) = self.selected()?;
        self.current.as_ref()?.find(device, direction)
    }

    /// Its place among all, from 1, and how many there are.
    pub(crate) fn place(&self) -> (usize, usize) {
        let all = self.current.as_ref().map_or(&[][..], |sample| &sample.bottlenecks);
        let at = all.iter().position(|one| Some((one.device.as_str(), one.direction)) == self.selected());
        (at.map_or(0, |at| at + 1), all.len())
    }

    /// The two queues of the bottleneck that is shown.
    pub(crate) fn queues(&self) -> Vec<QueueRates> {
        self.shown().map(|shown| self.rates_of(shown)).unwrap_or_default()
    }

    /// A queue's throughput at the last looks, bit/s, oldest first.
    pub(crate) fn history(&self, queue: QueueChoice) -> &[f64] {
        let Some((device, direction)) = &self.selected else { return &[] };
        self.history.get(&(device.clone(), *direction, queue)).map_or(&[], Vec::as_slice)
    }

    /// Whether marks choose the queue, and not losses.
    pub(crate) fn is_by_mark(&self) -> bool {
        self.shown().is_some_and(|shown| shown.law.get("main_signal").is_some_and(|signal| signal == "ecn"))
    }

    /// The flows that pass the filter, sorted.
    pub(crate) fn rows(&self) -> Vec<Row> {
        let Some(shown) = self.shown() else { return Vec::new() };
        let mut rows = rows(shown, self.earlier(shown), self.elapsed_s());
        rows.retain(|row| self.filter.fits(row));
        let by_mark = self.is_by_mark();
        rows.sort_by(|a, b| {
            let order = self.sort.compare(a, b, by_mark);
            let order = if self.reversed { order.reverse() } else { order };
            // Equal ones keep their places from look to look.
            let (a, b) = (&a.flow, &b.flow);
            order.then_with(|| (&a.source, &a.destination).cmp(&(&b.source, &b.destination)))
        });
        rows
    }

    /// Does what the user asks for. `Quit`, `Suspend` and `Redraw` are for the terminal.
    pub(crate) fn act(&mut self, action: Action) {
        match action {
            Action::Quit | Action::Suspend | Action::Redraw => {}
            Action::Sort(forward) => (self.sort, self.first_row) = (self.sort.step(forward), 0),
            Action::Reverse => (self.reversed, self.first_row) = (!self.reversed, 0),
            Action::EditFilter => self.editing = Some(self.filter.0.clone()),
            Action::Back if self.help => self.help = false,
            Action::Back => self.filter = Filter::default(),
            Action::Type(letter) => {
                if let Some(text) = &mut self.editing {
                    text.push(letter);
                }
            }
            Action::Erase => {
                if let Some(text) = &mut self.editing {
                    text.pop();
                }
            }
            Action::Accept => {
                if let Some(text) = self.editing.take() {
                    (self.filter, self.first_row) = (Filter(text), 0);
                }
            }
            Action::Cancel => self.editing = None,
            Action::Pause => self.paused = !self.paused,
            Action::Help => self.help = !self.help,
            Action::Next => self.next(),
            Action::Rows(by) => {
                let last = self.rows().len().saturating_sub(1);
                self.first_row = self.first_row.saturating_add_signed(by).min(last);
            }
            Action::Columns(by) => {
                // The two ends and the last column stay.
                let last = Column::ALL.len() - 3;
                self.skipped_columns = self.skipped_columns.saturating_add_signed(by).min(last);
            }
        }
    }

    fn next(&mut self) {
        let (place, count) = self.place();
        if let Some(sample) = self.current.as_ref().filter(|_| count > 0) {
            // Places count from 1, so that of the shown one is the index of the next.
            let next = &sample.bottlenecks[place % count];
            self.selected = Some((next.device.clone(), next.direction));
            self.first_row = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Action, HISTORY, View};
    use crate::show::testing::bottleneck;
    use crate::top::columns::Column;
    use crate::top::sample::Sample;
    use weir_core::QueueChoice;
    use weir_kernel::Direction;
    use weir_kernel::model::Bottleneck;

    fn look(view: &mut View, at_s: f64, bottlenecks: Vec<Bottleneck>) {
        view.look(Sample { at_s, bottlenecks });
    }

    fn later() -> Bottleneck {
        let mut later = bottleneck();
        later.flows[1].bytes += 500_000;
        later.flows[2].bytes += 1000;
        let queue = &mut later.queues[0].discipline.as_mut().unwrap().0;
        queue.insert("bytes".to_owned(), json!(23_625_000 + 125_000));
        later
    }

    fn watching() -> View {
        let mut view = View::new();
        look(&mut view, 1.0, vec![bottleneck()]);
        look(&mut view, 2.0, vec![later()]);
        view
    }

    fn sources(view: &View) -> Vec<String> {
        view.rows().into_iter().map(|row| row.flow.source).collect()
    }

    #[test]
    fn the_fastest_flow_comes_first() {
        let mut view = watching();
        assert_eq!(sources(&view), ["10.0.0.2:40000", "[fd00::1]:4433", "10.0.0.1:40000"]);
        view.act(Action::Reverse);
        assert_eq!(sources(&view), ["10.0.0.1:40000", "[fd00::1]:4433", "10.0.0.2:40000"]);
        view.act(Action::Sort(true));
        assert_eq!(view.sort, Column::Rtt);
        view.act(Action::Reverse);
        assert_eq!(sources(&view), ["10.0.0.1:40000", "10.0.0.2:40000", "[fd00::1]:4433"]);
    }

    #[test]
    fn every_column_sorts_both_ways() {
        let mut view = watching();
        for _ in Column::ALL {
            view.act(Action::Sort(true));
            let keys = |view: &View| -> Vec<String> {
                view.rows().iter().map(|row| view.sort.cell(row, false)).collect()
            };
            let forward = keys(&view);
            view.act(Action::Reverse);
            let mut backward = keys(&view);
            backward.reverse();
            assert_eq!(forward, backward, "{:?}", view.sort);
            view.act(Action::Reverse);
        }
    }

    #[test]
    fn a_filter_counts_when_it_is_accepted() {
        let mut view = watching();
        view.act(Action::EditFilter);
        for letter in "quicx".chars() {
            view.act(Action::Type(letter));
        }
        view.act(Action::Erase);
        assert_eq!((view.editing.as_deref(), view.rows().len()), (Some("quic"), 3));
        view.act(Action::Accept);
        assert_eq!(sources(&view), ["[fd00::1]:4433"]);
        view.act(Action::EditFilter);
        view.act(Action::Erase);
        view.act(Action::Cancel);
        assert_eq!(view.filter.0, "quic");
        view.act(Action::Back);
        assert_eq!(view.rows().len(), 3);
    }

    #[test]
    fn a_bottleneck_that_is_gone_is_not_replaced_by_another() {
        let mut ingress = bottleneck();
        ingress.direction = Direction::Ingress;
        let mut view = View::new();
        look(&mut view, 1.0, vec![bottleneck(), ingress.clone()]);
        assert_eq!((view.selected(), view.place()), (Some(("eth0", Direction::Egress)), (1, 2)));
        view.act(Action::Next);
        assert_eq!((view.selected(), view.place()), (Some(("eth0", Direction::Ingress)), (2, 2)));
        view.act(Action::Next);
        look(&mut view, 2.0, vec![ingress]);
        assert!(view.shown().is_none() && view.rows().is_empty() && view.queues().is_empty());
        assert_eq!(view.place(), (0, 1));
        view.act(Action::Next);
        assert_eq!(view.place(), (1, 1));
        look(&mut view, 3.0, Vec::new());
        view.act(Action::Next);
        assert_eq!(view.selected(), Some(("eth0", Direction::Ingress)));
    }

    #[test]
    fn history_has_the_last_looks() {
        let mut view = watching();
        assert_eq!(view.history(QueueChoice::Responsive), [1e6]);
        for at in 3..200 {
            look(&mut view, f64::from(at), vec![later()]);
        }
        assert_eq!(view.history(QueueChoice::Responsive), [0.0; HISTORY]);
    }

    #[test]
    fn moving_ends_at_the_ends() {
        let mut view = watching();
        view.act(Action::Rows(-1));
        assert_eq!(view.first_row, 0);
        view.act(Action::Rows(isize::MAX));
        assert_eq!(view.first_row, 2);
        view.act(Action::Columns(99));
        assert_eq!(view.skipped_columns, Column::ALL.len() - 3);
        view.act(Action::Columns(isize::MIN));
        assert_eq!(view.skipped_columns, 0);
    }
}
