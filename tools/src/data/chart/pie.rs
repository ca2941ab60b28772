//! Pies: shares of a whole, largest first, with a legend that holds the figures.

use std::f64::consts::{FRAC_PI_2, TAU};

use super::figure::{Figure, Positions};
use super::frame::{Frame, INK, SMALL, WHITE, color_of};
use super::scale::{number, number_with};
use super::scene::{Align, Label, Point, Scene, Shape, fitted, text_width};

/// The most slices; what is smaller than the largest of them is drawn as one.
const MAX_SLICES: usize = 10;
/// Distance of a slice's percentage from the centre, if it is wide enough there.
const LABEL_DISTANCE: f64 = 0.7;

/// One slice.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Slice {
    name: String,
    value: f64,
}

/// Returns the slices of a figure's only series, largest first.
pub(super) fn slices(figure: &Figure) -> Result<Vec<Slice>, String> {
    let (Positions::Names(names), [series]) = (&figure.positions, figure.series.as_slice()) else {
        return Err("a pie shows one column of y without series".to_owned());
    };
    let mut slices = Vec::new();
    for (name, value) in names.iter().zip(&series.values) {
        match value {
            Some(value) if *value < 0.0 => {
                return Err(format!("{name} is {value}; a pie cannot show negative values, draw bars"));
            }
            Some(value) if *value > 0.0 => slices.push(Slice { name: name.clone(), value: *value }),
            _ => {}
        }
    }
    if slices.is_empty() {
        return Err("every value is zero or null; a pie needs a whole to share".to_owned());
    }
    slices.sort_by(|left, right| right.value.total_cmp(&left.value));
    if slices.len() > MAX_SLICES {
        let rest = slices.split_off(MAX_SLICES - 1);
        slices.push(Slice { name: format!("{} others", rest.len()), value: rest.iter().map(|slice| slice.value).sum() });
    }
    if slices.iter().map(|slice| slice.value).sum::<f64>().is_infinite() {
        return Err("the values are too large to add".to_owned());
    }
    Ok(slices)
}

/// Draws the slices on the left and the legend on the right.
pub(super) fn draw(scene: &mut Scene, frame: &Frame, slices: &[Slice]) {
    let total: f64 = slices.iter().map(|slice| slice.value).sum();
    let room = (frame.right - frame.left) * 0.45;
    let lines: Vec<(String, String)> = slices
        .iter()
        .map(|slice| (slice.name.as_str(), format!("{} ({}%)", number(slice.value), percent(slice.value / total))))
        .map(|(name, figures)| (fitted(name, SMALL, false, room - text_width(&figures, SMALL, false) - 40.0), figures))
        .collect();
    let width =
        lines.iter().map(|(name, figures)| text_width(&format!("{name}   {figures}"), SMALL, false)).fold(0.0, f64::max) + 30.0;
    let space = frame.right - frame.left - width - 30.0;
    let radius = (space.min(frame.bottom - frame.top) / 2.0 - 6.0).max(20.0);
    let left = frame.left + (space - 2.0 * radius).max(0.0) / 2.0;
    let center = (left + radius, f64::midpoint(frame.top, frame.bottom));
    pie(scene, center, radius, slices, total);

    let spacing = SMALL + 9.0;
    let x = (center.0 + radius + 30.0).min(frame.right - width);
    let mut y = center.1 - spacing * (lines.len() as f64 - 1.0) / 2.0;
    for (index, (name, figures)) in lines.into_iter().enumerate() {
        scene.rectangle((x, y - 7.0), (x + 14.0, y + 7.0), color_of(index));
        let label = |text, at, align| Label { text, at, size: SMALL, bold: false, color: INK, align, upright: false };
        scene.text(label(name, (x + 22.0, y), Align::Start));
        scene.text(label(figures, (x + width, y), Align::End));
        y += spacing;
    }
}

fn pie(scene: &mut Scene, center: Point, radius: f64, slices: &[Slice], total: f64) {
    let at = |angle: f64, distance: f64| (center.0 + angle.cos() * distance, center.1 + angle.sin() * distance);
    let mut begin = -FRAC_PI_2;
    let mut edges = Vec::new();
    let mut labels = Vec::new();
    for (index, slice) in slices.iter().enumerate() {
        let share = slice.value / total;
        let end = begin + share * TAU;
        let steps = (share * 180.0).ceil().max(2.0) as usize;
        let arc = (0..=steps).map(|step| at(begin + (end - begin) * step as f64 / steps as f64, radius));
        scene.shapes.push(Shape::Area { points: std::iter::once(center).chain(arc).collect(), color: color_of(index) });
        edges.push(at(begin, radius));
        let text = format!("{}%", percent(share));
        let arc = share * TAU * radius * LABEL_DISTANCE;
        if arc >= text_width(&text, SMALL, true) + 8.0 {
            let middle = f64::midpoint(begin, end);
            let place = if slices.len() == 1 { center } else { at(middle, radius * LABEL_DISTANCE) };
            labels.push(Label { text, at: place, size: SMALL, bold: true, color: WHITE, align: Align::Middle, upright: false });
        }
        begin = end;
    }
    if slices.len() > 1 {
        for edge in edges {
            scene.line(center, edge, WHITE, 2.0);
        }
    }
    for label in labels {
        scene.text(label);
    }
}

/// Returns a share in percent with one decimal.
fn percent(share: f64) -> String {
    number_with(share * 100.0, 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::chart::figure::Series;

    fn figure(values: &[(&str, Option<f64>)]) -> Figure {
        Figure {
            positions: Positions::Names(values.iter().map(|(name, _)| (*name).to_owned()).collect()),
            series: vec![Series { name: "y".to_owned(), values: values.iter().map(|(_, value)| *value).collect() }],
        }
    }

    #[test]
    fn slices_come_largest_first_without_empty_ones() {
        let made = slices(&figure(&[("a", Some(1.0)), ("b", None), ("c", Some(0.0)), ("d", Some(3.0))])).unwrap();
        assert_eq!(made.iter().map(|slice| slice.name.as_str()).collect::<Vec<_>>(), ["d", "a"]);
    }

    #[test]
    fn many_small_slices_become_one() {
        let names: Vec<String> = (0..50).map(|index| format!("c{index}")).collect();
        let values: Vec<(&str, Option<f64>)> =
            names.iter().enumerate().map(|(index, name)| (name.as_str(), Some(50.0 - index as f64))).collect();
        let made = slices(&figure(&values)).unwrap();
        assert_eq!(made.len(), 10);
        assert_eq!(made[9], Slice { name: "41 others".to_owned(), value: (1..=41).map(f64::from).sum() });
    }

    #[test]
    fn what_is_no_whole_is_refused() {
        assert!(
            slices(&figure(&[("a", Some(1.0)), ("b", Some(-1.0))])).unwrap_err().contains("b is -1; a pie cannot show negative")
        );
        assert!(slices(&figure(&[("a", Some(0.0))])).unwrap_err().contains("zero or null"));
        assert!(slices(&figure(&[("a", Some(f64::MAX)), ("b", Some(f64::MAX))])).unwrap_err().contains("too large"));
    }
}
