//! Screens as they look, drawn on a terminal in memory.

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::Color;
use serde_json::json;

use super::keys::FOOTER;
use super::palette::Palette;
use super::render::draw;
use super::sample::Sample;
use super::view::{Action, View};
use crate::show::testing::{NOW, bottleneck};
use weir_kernel::Fault;
use weir_kernel::model::{Bottleneck, State};

fn watching() -> View {
    let mut view = View::new();
    view.look(Sample { at_s: 0.0, bottlenecks: vec![bottleneck()] });
    for at in 1..=4u32 {
        let mut later = bottleneck();
        for (queue, bytes) in [(0, 2_375_000), (1, 125_000)] {
            let discipline = &mut later.queues[queue].discipline.as_mut().unwrap().0;
            let before = discipline["bytes"].as_u64().unwrap();
            discipline.insert("bytes".to_owned(), json!(before + u64::from(at) * bytes));
        }
        let drops = &mut later.queues[0].discipline.as_mut().unwrap().0;
        drops.insert("drops".to_owned(), json!(12 + 3 * at));
        later.flows[0].bytes += u64::from(at) * 2_300_000;
        later.flows[1].bytes += u64::from(at) * 120_000;
        view.look(Sample { at_s: f64::from(at), bottlenecks: vec![later] });
    }
    view
}

fn terminal(view: &View, width: u16, height: u16, palette: Palette) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, view, palette, NOW)).unwrap();
    terminal
}

fn lines(view: &View, width: u16, height: u16) -> Vec<String> {
    let terminal = terminal(view, width, height, Palette::PLAIN);
    let buffer = terminal.backend().buffer();
    let row = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
    (0..height).map(row).collect()
}

#[test]
fn the_screen_fits_into_80_by_24() {
    let rows = "\
eth0 egress  up for 3h12m  rate 20mbit  sharing equal hard  law paper by loss
QUEUE          RATE                            BACKLOG  PKTS DROP/s   CE/s
responsive 19.0mbit ██████████████▎       ████  29.6kb    20    3.0      -
standard   1.00mbit ▊··············       ▁▁▁▁      0b     0      0      0
flows 3 of 65536: 1 responsive, 1 unresponsive, 1 unclassified
SOURCE           DESTINATION      PROTO CLASS QUEUE RATE▼ RTTms    LOST      CE
10.0.0.1:40000   10.0.1.1:443     tcp   R/-   resp  18.4M  21.4   0/2/0   0/0/0
10.0.0.2:40000   10.0.1.1:443     tcp   U/-   stand  960k  20.1   4/6/0   0/0/0
[fd00::1]:4433   …00::2:10]:50000 quic  -/R   stand     0     -   0/0/0   0/1/0
";
    let shown = lines(&watching(), 80, 24).join("\n");
    // Flows have the room between.
    let expected = format!("{}{}{}", rows, "\n".repeat(14), FOOTER);
    assert_eq!(shown, expected, "\n{shown}");
}

#[test]
fn a_wide_terminal_has_all_columns() {
    let shown = lines(&watching(), 140, 10);
    let expected = "\
eth0 egress  up for 3h12m  rate 20mbit  sharing equal hard  law paper by loss
QUEUE          RATE                                                                                        BACKLOG  PKTS DROP/s   CE/s
responsive 19.0mbit ████████████████████████████████████████████████▌··                               ████  29.6kb    20    3.0      -
standard   1.00mbit ██▌················································                               ▁▁▁▁      0b     0      0      0
flows 3 of 65536: 1 responsive, 1 unresponsive, 1 unclassified
SOURCE             DESTINATION        PROTO CLASS QUEUE RATE▼ RTTms    LOST      CE   VOTES LOST/s   CE/s CYCLES IDLE s
10.0.0.1:40000     10.0.1.1:443       tcp   R/-   resp  18.4M  21.4   0/2/0   0/0/0     9:1     46      0    120    0.0
10.0.0.2:40000     10.0.1.1:443       tcp   U/-   stand  960k  20.1   4/6/0   0/0/0     0:7     43      0     88    0.1
[fd00::1]:4433     [fd00::2:10]:50000 quic  -/R   stand     0     -   0/0/0   0/1/0     0:0      -      -      4    9.0
q quit  s sort  r reverse  / filter  p pause  ←→ columns  ↑↓ rows  h help";
    assert_eq!(shown.join("\n"), expected, "\n{}", shown.join("\n"));
}

#[test]
fn no_size_is_too_small() {
    let mut view = watching();
    for help in [false, true] {
        view.help = help;
        for (width, height) in [(1, 1), (10, 3), (30, 5), (79, 2)] {
            lines(&view, width, height);
        }
    }
}

#[test]
fn typing_and_help_are_seen() {
    let mut view = watching();
    view.act(Action::EditFilter);
    view.act(Action::Type('x'));
    assert!(lines(&view, 80, 24)[23].starts_with("/x"), "{:?}", lines(&view, 80, 24));
    view.act(Action::Accept);
    let shown = lines(&view, 80, 24).join("\n");
    assert!(shown.contains("filter \"x\"") && shown.contains("No flow passes the filter."), "{shown}");
    view.act(Action::Help);
    let shown = lines(&view, 80, 24).join("\n");
    // All of it, down to the last column.
    assert!(shown.contains("IDLE s time since") && shown.contains("quit"), "{shown}");
    view.act(Action::Pause);
    view.act(Action::Help);
    assert!(lines(&view, 80, 24)[0].contains("PAUSED"));
}

#[test]
fn what_is_wrong_is_said() {
    let mut broken: Bottleneck = bottleneck();
    broken.state = State::Damaged;
    broken.faults = vec![Fault { what: "the root is fq".to_owned(), remedy: "weir down eth0".to_owned() }];
    let mut view = View::new();
    view.look(Sample { at_s: 0.0, bottlenecks: vec![broken] });
    let shown = lines(&view, 80, 24).join("\n");
    assert!(shown.contains("damaged: the root is fq; to mend it: weir down eth0"), "{shown}");
    view.fail("tc: no".to_owned());
    assert!(lines(&view, 80, 24).join("\n").contains("tc: no"));
    view.look(Sample { at_s: 1.0, bottlenecks: Vec::new() });
    let shown = lines(&view, 80, 24).join("\n");
    assert!(shown.contains("The egress bottleneck on eth0 is gone"), "{shown}");
    assert!(!shown.contains("SOURCE"), "{shown}");
}

#[test]
fn without_colours_nothing_is_coloured() {
    let coloured = |palette| {
        let terminal = terminal(&watching(), 80, 24, palette);
        terminal.backend().buffer().content().iter().any(|cell| cell.fg != Color::Reset)
    };
    assert!(!coloured(Palette::PLAIN));
    assert!(coloured(Palette::COLOURED));
}
