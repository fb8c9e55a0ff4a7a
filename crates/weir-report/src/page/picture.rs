//! A chart as a file of its own, which says what it shows.

use std::fmt::Write;

use super::palette;
use super::plot::SCALE;
use super::spread::MOST_LINES;
use super::text::escape;

/// A chart as a picture of its own: with its title above, and with what its colours mean if it has lines of several
/// `names`, as [`super::spread_legend`] of a page.
pub fn picture(title: &str, names: &[String], chart: &str) -> String {
    let size = chart.split_once("viewBox=\"0 0 ").and_then(|(_, rest)| rest.split_once('"'));
    let size = size
        .and_then(|(size, _)| size.split_once(' '))
        .map(|(width, height)| (width.parse(), height.parse()));
    let (Some((Ok(width), Ok(height))), Some(("", inside))) = (size, chart.split_once("<svg")) else {
        return chart.to_owned();
    };
    let (width, height): (u32, u32) = (width, height);
    let (side, line) = (SCALE * 12, SCALE * 20);
    let (mut x, mut y, mut words) = (side, 0, String::new());
    // The letters of a title are about half as wide as they are high.
    for title in lines(title, (width.saturating_sub(2 * side) / (SCALE * 8)) as usize) {
        y += line;
        words.push_str(&text(x, y, 15, &title));
    }
    if names.len() > 1 {
        y += line;
        for (index, name) in names.iter().take(MOST_LINES).enumerate() {
            let room = SCALE * (25 + 8 * name.chars().count() as u32);
            if x > side && x + room > width {
                (x, y) = (side, y + line);
            }
            let (colour, box_size) = (palette::line(index).hex(), SCALE * 11);
            let top = y - SCALE * 10;
            let _ = write!(
                words,
                "<rect x=\"{x}\" y=\"{top}\" width=\"{box_size}\" height=\"{box_size}\" fill=\"{colour}\"/>{}",
                text(x + SCALE * 17, y, 13, name)
            );
            x += room;
        }
    }
    let above = y + line / 2;
    let whole = above + height;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {whole}\" font-family=\"sans-serif\">\n\
         <rect width=\"{width}\" height=\"{whole}\" fill=\"#FFFFFF\"/>{words}\n\
         <svg y=\"{above}\" width=\"{width}\" height=\"{height}\"{inside}\n</svg>\n"
    )
}

/// Words in as many lines of `most` letters as they need; a longer word has a line for itself.
fn lines(words: &str, most: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in words.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.is_empty() => word.clone_into(line),
            Some(line) if line.chars().count() + 1 + word.chars().count() <= most => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn text(x: u32, y: u32, size: u32, words: &str) -> String {
    format!("<text x=\"{x}\" y=\"{y}\" font-size=\"{}\">{}</text>", SCALE * size, escape(words))
}

#[cfg(test)]
mod tests {
    use super::picture;
    use crate::page::spread::{Positions, spread_chart};

    #[test]
    fn a_picture_says_what_it_shows_and_which_line_is_which() {
        let places = Positions::Scale(vec![1.0, 2.0], "K".to_owned());
        let chart = spread_chart("t", &places, "%", 100.0, &[]);
        let names = ["a < b".to_owned(), "c".to_owned()];
        let whole = picture("Use & loss", &names, &chart);
        assert!(whole.contains(">Use &amp; loss<") && whole.contains(">a &lt; b<") && whole.contains(">c<"));
        let inside = chart.split_once("<svg").unwrap().1;
        assert!(whole.contains(inside), "the chart is in it as it is");
        assert_eq!((whole.matches("<svg").count(), whole.matches("</svg>").count()), (2, 2));
        assert_eq!(
            picture("t", &names[..1], &chart).matches("<rect").count(),
            chart.matches("<rect").count() + 1
        );
    }

    #[test]
    fn a_long_title_has_several_lines() {
        let chart = spread_chart("t", &Positions::Names(vec!["a".to_owned()]), "%", 100.0, &[]);
        let title = "word ".repeat(40);
        let short = picture("word", &[], &chart);
        let long = picture(&title, &[], &chart);
        assert_eq!(long.matches("word").count() - chart.matches("word").count(), 40);
        let height =
            |svg: &str| svg.split('"').nth(3).unwrap().rsplit(' ').next().unwrap().parse::<u32>().unwrap();
        assert!(height(&long) > height(&short), "{long}");
        let titles: Vec<_> = long.split('<').filter_map(|part| part.split_once(">word")).collect();
        assert!(titles.len() == 4 && titles.iter().all(|(_, rest)| rest.len() < 70), "{titles:?}");
    }
}
