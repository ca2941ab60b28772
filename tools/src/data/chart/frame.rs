//! Surroundings of every plot: title, legend, axis labels, colours.

use super::scene::{Align, Label, Rgb, Scene, Shape, cleaned, fitted, text_width};

/// Text and ticks.
pub(super) const INK: Rgb = (45, 50, 56);
/// Axes.
pub(super) const MUTED: Rgb = (125, 132, 140);
/// Gridlines.
pub(super) const GRID: Rgb = (227, 231, 235);
/// The ground.
pub(super) const WHITE: Rgb = (255, 255, 255);
/// The size of the text at ticks and in the legend.
pub(super) const SMALL: f64 = 17.0;
const TITLE: f64 = 25.0;
const LABEL: f64 = 17.0;
const MARGIN: f64 = 22.0;

/// Colours that differ in hue and lightness, so that they can also be distinguished in print and by most colour-blind
/// readers.
const PALETTE: [Rgb; 10] = [
    (38, 99, 168),
    (230, 126, 34),
    (46, 145, 91),
    (192, 57, 43),
    (131, 92, 178),
    (94, 180, 214),
    (150, 106, 71),
    (216, 112, 173),
    (110, 117, 125),
    (183, 168, 45),
];

/// Returns the colour of the series at `index`; after ten, the same colours lighter.
pub(super) fn color_of(index: usize) -> Rgb {
    let (red, green, blue) = PALETTE[index % PALETTE.len()];
    let lighter = |channel: u8| u8::midpoint(channel, 255);
    if index < PALETTE.len() { (red, green, blue) } else { (lighter(red), lighter(green), lighter(blue)) }
}

/// The room that is left for the plot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) top: f64,
    pub(super) bottom: f64,
}

/// Draws the title and returns what is left.
pub(super) fn begin(scene: &mut Scene, title: &str) -> Frame {
    let (width, height) = (f64::from(scene.width), f64::from(scene.height));
    let mut top = MARGIN;
    for line in wrapped(title, width - 2.0 * MARGIN) {
        let at = (width / 2.0, top + TITLE / 2.0 - 2.0);
        scene.text(Label { text: line, at, size: TITLE, bold: true, color: INK, align: Align::Middle, upright: false });
        top += TITLE + 2.0;
    }
    Frame { left: MARGIN, right: width - MARGIN, top: top + 8.0, bottom: height - MARGIN }
}

/// Returns the title on at most two lines.
fn wrapped(title: &str, width: f64) -> Vec<String> {
    let clean = cleaned(title);
    if text_width(&clean, TITLE, true) <= width {
        return vec![clean];
    }
    let mut first = String::new();
    let mut rest = clean.as_str();
    while let Some((word, after)) = rest.split_once(' ') {
        let longer = if first.is_empty() { word.to_owned() } else { format!("{first} {word}") };
        if text_width(&longer, TITLE, true) > width {
            break;
        }
        first = longer;
        rest = after;
    }
    if first.is_empty() { vec![fitted(rest, TITLE, true, width)] } else { vec![first, fitted(rest, TITLE, true, width)] }
}

/// Writes the names of the axes beside the plot and returns what is left.
pub(super) fn axis_labels(scene: &mut Scene, frame: Frame, x: &str, y: &str) -> Frame {
    let mut left = frame;
    let label =
        |text: String, at, upright| Label { text, at, size: LABEL, bold: false, color: MUTED, align: Align::Middle, upright };
    if !x.is_empty() {
        let at = (f64::midpoint(frame.left, frame.right), frame.bottom - LABEL / 2.0 + 4.0);
        scene.text(label(fitted(x, LABEL, false, frame.right - frame.left), at, false));
        left.bottom -= LABEL + 6.0;
    }
    if !y.is_empty() {
        let at = (frame.left + LABEL / 2.0 - 4.0, f64::midpoint(frame.top, left.bottom));
        scene.text(label(fitted(y, LABEL, false, left.bottom - frame.top), at, true));
        left.left += LABEL + 8.0;
    }
    left
}

/// Draws names with their colours in rows above the plot and returns what is left.
pub(super) fn legend(scene: &mut Scene, frame: Frame, names: &[&str]) -> Frame {
    const SWATCH: f64 = 12.0;
    const SPACE: f64 = 22.0;
    let room = frame.right - frame.left;
    let entries: Vec<(String, f64)> = names
        .iter()
        .map(|name| fitted(name, SMALL, false, (room - SWATCH - SPACE).min(260.0)))
        .map(|name| (name.clone(), SWATCH + 6.0 + text_width(&name, SMALL, false)))
        .collect();
    let mut rows: Vec<Vec<usize>> = vec![Vec::new()];
    let mut used = 0.0;
    for (index, (_, width)) in entries.iter().enumerate() {
        if used > 0.0 && used + width > room {
            rows.push(Vec::new());
            used = 0.0;
        }
        used += width + SPACE;
        if let Some(row) = rows.last_mut() {
            row.push(index);
        }
    }
    // Colours without a name are better than no plot; only tiny pictures come to this.
    let room_for = ((frame.bottom - frame.top) * 0.45 / (SMALL + 6.0)).max(1.0) as usize;
    let mut top = frame.top;
    for row in rows.into_iter().take(room_for) {
        let width: f64 = row.iter().map(|index| entries[*index].1 + SPACE).sum::<f64>() - SPACE;
        let mut x = frame.left + (room - width) / 2.0;
        let y = top + SMALL / 2.0;
        for index in row {
            let (name, width) = &entries[index];
            scene.rectangle((x, y - SWATCH / 2.0), (x + SWATCH, y + SWATCH / 2.0), color_of(index));
            let at = (x + SWATCH + 6.0, y);
            let text = name.clone();
            scene.shapes.push(Shape::Text(Label {
                text,
                at,
                size: SMALL,
                bold: false,
                color: INK,
                align: Align::Start,
                upright: false,
            }));
            x += width + SPACE;
        }
        top += SMALL + 6.0;
    }
    Frame { top: top + 8.0, ..frame }
}
