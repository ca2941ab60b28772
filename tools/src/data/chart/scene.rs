//! A chart before it is painted: shapes with positions, in pixels of the finished picture.
//!
//! Laying out and painting are apart, so that a test can ask whether two labels overlap.

use std::sync::LazyLock;

use plotters::style::{FontDesc, FontFamily, FontStyle, register_font};

/// Red, green, blue.
pub(super) type Rgb = (u8, u8, u8);

/// A place, from the upper left corner.
pub(super) type Point = (f64, f64);

/// Alignment of a text at its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Align {
    Start,
    Middle,
    End,
}

/// A line of text, centred on its place across its direction.
#[derive(Clone, Debug)]
pub(super) struct Label {
    pub(super) text: String,
    pub(super) at: Point,
    pub(super) size: f64,
    pub(super) bold: bool,
    pub(super) color: Rgb,
    pub(super) align: Align,
    /// Whether it reads from bottom to top.
    pub(super) upright: bool,
}

/// One thing to paint.
#[derive(Clone, Debug)]
pub(super) enum Shape {
    Line { points: Vec<Point>, color: Rgb, width: f64 },
    Area { points: Vec<Point>, color: Rgb },
    Dot { at: Point, radius: f64, color: Rgb },
    Text(Label),
}

/// A whole picture on white.
#[derive(Debug)]
pub(super) struct Scene {
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) shapes: Vec<Shape>,
}

/// The name under which the font is known to plotters, and what viewers of an SVG look for.
pub(super) const FAMILY: FontFamily<'static> = FontFamily::SansSerif;

/// Registers the embedded font once. Noto Sans (SIL Open Font License 1.1) comes with the crate `notosans`, so charts
/// look alike on every machine and need no font of the system.
static FONT: LazyLock<bool> = LazyLock::new(|| {
    register_font("sans-serif", FontStyle::Normal, notosans::REGULAR_TTF).is_ok()
        && register_font("sans-serif", FontStyle::Bold, notosans::BOLD_TTF).is_ok()
});

/// Returns the font at `size` pixels from ascent to descent.
pub(super) fn font(size: f64, bold: bool) -> FontDesc<'static> {
    assert!(*FONT, "the embedded font is a font");
    FontDesc::new(FAMILY, size, if bold { FontStyle::Bold } else { FontStyle::Normal })
}

/// Returns the width of `text` in pixels.
pub(super) fn text_width(text: &str, size: f64, bold: bool) -> f64 {
    // Measured large, because plotters answers in whole pixels.
    const MEASURED: f64 = 200.0;
    font(MEASURED, bold).layout_box(text).map_or(0.0, |(_, (width, _))| f64::from(width) * size / MEASURED)
}

/// `text` on one line without characters that cannot be drawn, its end cut to at most `width` pixels.
pub(super) fn fitted(text: &str, size: f64, bold: bool, width: f64) -> String {
    cut(text, size, bold, width, |shown| shown)
}

/// Returns the text cut in the middle to fit `width`: names of one family differ at their ends.
pub(super) fn fitted_name(text: &str, size: f64, width: f64) -> String {
    cut(text, size, false, width, |shown| shown.div_ceil(2))
}

/// Leaves out as few characters as possible; of `n` that are shown, `before(n)` come before the `…`.
fn cut(text: &str, size: f64, bold: bool, width: f64, before: impl Fn(usize) -> usize) -> String {
    let clean = cleaned(text);
    if text_width(&clean, size, bold) <= width {
        return clean;
    }
    let characters: Vec<char> = clean.chars().collect();
    let shortened = |shown: usize| {
        let head: String = characters[..before(shown)].iter().collect();
        let tail: String = characters[characters.len() - (shown - before(shown))..].iter().collect();
        format!("{}…{}", head.trim_end(), tail.trim_start())
    };
    // A character is at least a tenth of the size wide, or too thin to be read.
    let most = characters.len().min((width / size * 10.0) as usize + 1);
    (1..most).rev().map(shortened).find(|text| text_width(text, size, bold) <= width).unwrap_or_default()
}

/// `text` with white space made plain and control characters dropped: an SVG may not hold them.
pub(super) fn cleaned(text: &str) -> String {
    let plain: String = text
        .chars()
        .take(2_000)
        .map(|character| if character.is_whitespace() { ' ' } else { character })
        .filter(|character| {
            !character.is_control()
                && !matches!(character, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}' | '\u{FFFE}' | '\u{FFFF}')
        })
        .collect();
    plain.trim().to_owned()
}

impl Scene {
    /// Returns an empty picture.
    pub(super) fn new(width: u32, height: u32) -> Self {
        Self { width, height, shapes: Vec::new() }
    }

    /// Adds a straight line.
    pub(super) fn line(&mut self, from: Point, to: Point, color: Rgb, width: f64) {
        self.shapes.push(Shape::Line { points: vec![from, to], color, width });
    }

    /// Adds a filled rectangle.
    pub(super) fn rectangle(&mut self, from: Point, to: Point, color: Rgb) {
        let points = vec![from, (to.0, from.1), to, (from.0, to.1)];
        self.shapes.push(Shape::Area { points, color });
    }

    /// Adds a text, unless it is empty.
    pub(super) fn text(&mut self, label: Label) {
        if !label.text.is_empty() {
            self.shapes.push(Shape::Text(label));
        }
    }

    /// Returns the boxes that texts cover: left, top, right, bottom.
    #[cfg(test)]
    pub(super) fn text_boxes(&self) -> Vec<(String, [f64; 4])> {
        let boxed = |shape: &Shape| match shape {
            Shape::Text(label) => {
                let long = text_width(&label.text, label.size, label.bold);
                let before = match label.align {
                    Align::Start => 0.0,
                    Align::Middle => long / 2.0,
                    Align::End => long,
                };
                // Capitals and descenders fill about three quarters of the line.
                let half = label.size * 0.375;
                let (x, y) = label.at;
                let area = if label.upright {
                    [x - half, y - (long - before), x + half, y + before]
                } else {
                    [x - before, y - half, x - before + long, y + half]
                };
                Some((label.text.clone(), area))
            }
            _ => None,
        };
        self.shapes.iter().filter_map(boxed).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_to_the_width_it_gets() {
        assert_eq!(fitted("short", 12.0, false, 200.0), "short");
        let cut = fitted(&"long ".repeat(1_000), 12.0, false, 100.0);
        assert!(cut.ends_with('…') && text_width(&cut, 12.0, false) <= 100.0, "{cut}");
        assert_eq!(fitted("anything", 12.0, false, 0.0), "");
        let name = fitted_name("A product of the family with number 12", 12.0, 100.0);
        assert!(name.starts_with("A pro") && name.ends_with("ber 12") && text_width(&name, 12.0, false) <= 100.0, "{name}");
    }

    #[test]
    fn characters_that_cannot_be_drawn_are_dropped() {
        assert_eq!(cleaned("a\u{0}b\n\tc \u{202E}d\u{1b}"), "ab  c d");
    }
}
