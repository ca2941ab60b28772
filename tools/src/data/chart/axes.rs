//! Charts with two axes: lines and bars.

use super::figure::{ChartKind, Figure, Positions};
use super::frame::{Frame, GRID, INK, MUTED, SMALL, WHITE, color_of};
use super::scale::{Scale, calendar, exact_ends, number, round_ends};
use super::scene::{Align, Label, Point, Scene, Shape, fitted_name, text_width};

/// Pixels between two gridlines, about.
const GRID_SPACING: f64 = 72.0;
/// The widest that a bar's group may be.
const MAX_GROUP: f64 = 150.0;
/// The most bars that carry their values.
const MAX_VALUED_BARS: usize = 40;
/// Up to how many points of a series are marked with dots.
const MAX_DOTS: usize = 40;
/// The height of a value written at a bar's end, with the space round it.
const CAPTION: f64 = 20.0;
/// The longest name under an axis, in pixels.
const MAX_NAME: f64 = 150.0;

/// Draws the axes and the values into what the frame leaves free.
pub(super) fn draw(scene: &mut Scene, frame: &Frame, kind: ChartKind, figure: &Figure) {
    let values = value_scale(kind, figure, frame.bottom - frame.top);
    let widest = values.ticks.iter().map(|(_, label)| text_width(label, SMALL, false)).fold(0.0, f64::max);
    let left = frame.left + widest + 10.0;
    let names = Names::of(&figure.positions, (left, frame.right), (frame.bottom - frame.top) * 0.35);
    let area = Area { left, right: frame.right - names.overhang, top: frame.top + 6.0, bottom: frame.bottom - names.height };
    // The names' height changes the plot's, and with it how many gridlines fit.
    let values = value_scale(kind, figure, area.bottom - area.top);
    gridlines(scene, &area, &values);
    names.draw(scene, &area);
    let zero = if values.from <= 0.0 && values.to >= 0.0 { area.y(&values, 0.0) } else { area.bottom };
    let ends = ((area.left, zero), (area.right, zero));
    // Bars begin at the axis, lines cross it.
    if kind == ChartKind::Line {
        scene.line(ends.0, ends.1, MUTED, 1.0);
        lines(scene, figure, &names, &values, &area);
    } else {
        bars(scene, figure, &names, &values, &area);
        scene.line(ends.0, ends.1, MUTED, 1.0);
    }
}

/// The plot, within its axes.
struct Area {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

impl Area {
    fn y(&self, values: &Scale, value: f64) -> f64 {
        self.bottom - values.share(value) * (self.bottom - self.top)
    }
}

/// Returns the scale of the values: bars start at zero, lines too unless zero is far away.
fn value_scale(kind: ChartKind, figure: &Figure, height: f64) -> Scale {
    let (mut low, mut high) = figure.extent();
    let from_zero =
        kind != ChartKind::Line || low.signum() != high.signum() || low.abs().min(high.abs()) <= 0.6 * low.abs().max(high.abs());
    if from_zero {
        (low, high) = (low.min(0.0), high.max(0.0));
    }
    if kind != ChartKind::Line && figure.points() <= MAX_VALUED_BARS {
        // Room for the values written above the bars, and below those that hang.
        let room = (high - low) * CAPTION / (height - CAPTION).max(CAPTION);
        low -= if low < 0.0 { room } else { 0.0 };
        high += if high > 0.0 { room } else { 0.0 };
    }
    round_ends(low, high, (height / GRID_SPACING).max(2.0))
}

fn gridlines(scene: &mut Scene, area: &Area, values: &Scale) {
    let spacing = (area.bottom - area.top) / (values.ticks.len() as f64 - 1.0).max(1.0);
    let every = (SMALL / spacing.max(1.0)).ceil() as usize;
    for (index, (value, label)) in values.ticks.iter().enumerate() {
        let y = area.y(values, *value);
        scene.line((area.left, y), (area.right, y), GRID, 1.0);
        if index % every == 0 {
            scene.text(small(label.clone(), (area.left - 8.0, y), Align::End));
        }
    }
}

fn small(text: String, at: Point, align: Align) -> Label {
    Label { text, at, size: SMALL, bold: false, color: INK, align, upright: false }
}

/// The x axis: the positions and their labels.
struct Names {
    places: Vec<f64>,
    slot: f64,
    ticks: Vec<(f64, String)>,
    height: f64,
    overhang: f64,
    upright: bool,
    left: f64,
    right: f64,
}

impl Names {
    /// Returns the axis from `left` to `right`; names may be as high as `highest`.
    fn of(positions: &Positions, (left, right): (f64, f64), highest: f64) -> Self {
        match positions {
            Positions::Names(names) => Self::of_categories(names, (left, right), highest),
            Positions::Numbers { values, years } => {
                let (low, high) = ends(values);
                let make = |count| exact_ends(low, high, count, *years);
                Self::of_scale(values, make, left, right)
            }
            Positions::Days(days) => {
                let (low, high) = ends(days);
                Self::of_scale(days, |count| calendar(low, high, count), left, right)
            }
        }
    }

    /// Returns a continuous axis with as many ticks as fit side by side.
    fn of_scale(values: &[f64], make: impl Fn(f64) -> Scale, left: f64, right: f64) -> Self {
        let overhang = 24.0;
        let width = right - overhang - left;
        let crowded = |scale: &Scale| {
            let spots: Vec<(f64, f64)> =
                scale.ticks.iter().map(|(value, label)| (scale.share(*value) * width, text_width(label, SMALL, false))).collect();
            spots.windows(2).any(|pair| pair[1].0 - pair[0].0 < f64::midpoint(pair[0].1, pair[1].1) + 14.0)
        };
        let mut count = (width / 60.0).clamp(1.0, 16.0);
        let mut scale = make(count);
        while crowded(&scale) && count > 1.0 {
            count -= 1.0;
            scale = make(count);
        }
        if crowded(&scale) {
            scale.ticks.truncate(1);
        }
        let at = |value: f64| left + scale.share(value) * width;
        Self {
            places: values.iter().map(|value| at(*value)).collect(),
            slot: width,
            ticks: scale.ticks.iter().map(|(value, label)| (at(*value), label.clone())).collect(),
            height: SMALL + 14.0,
            overhang,
            upright: false,
            left,
            right: right - overhang,
        }
    }

    /// Returns a slot per category. Names are horizontal if they fit, otherwise vertical, and are thinned if even that
    /// is too dense.
    fn of_categories(names: &[String], (left, right): (f64, f64), highest: f64) -> Self {
        let slot = (right - left) / names.len() as f64;
        let at = |index: usize| left + (index as f64 + 0.5) * slot;
        let widest = names.iter().map(|name| text_width(name, SMALL, false)).fold(0.0, f64::max);
        let flat = widest <= slot - 8.0;
        let upright = !flat && widest > 24.0 && names.len() > 1 && (slot < 60.0 || widest > MAX_NAME);
        let room = if upright { MAX_NAME.min(highest) } else { slot.max(40.0) - 8.0 };
        let needed = if upright { SMALL * 0.75 + 3.0 } else { widest.min(room) + 8.0 };
        let every = (needed / slot).ceil().max(1.0) as usize;
        let ticks: Vec<(f64, String)> =
            names.iter().enumerate().step_by(every).map(|(index, name)| (at(index), fitted_name(name, SMALL, room))).collect();
        let longest = ticks.iter().map(|(_, label)| text_width(label, SMALL, false)).fold(0.0, f64::max);
        Self {
            places: (0..names.len()).map(at).collect(),
            slot,
            ticks,
            height: if upright { longest + 16.0 } else { SMALL + 14.0 },
            overhang: 0.0,
            upright,
            left,
            right,
        }
    }

    fn draw(&self, scene: &mut Scene, area: &Area) {
        for (x, label) in &self.ticks {
            scene.line((*x, area.bottom), (*x, area.bottom + 4.0), MUTED, 1.0);
            if self.upright {
                let at = (*x, area.bottom + 8.0);
                scene.text(Label { upright: true, ..small(label.clone(), at, Align::End) });
            } else {
                let half = text_width(label, SMALL, false) / 2.0;
                let inside = x.max(self.left.min(half)).min(self.right + 24.0 - half.min(24.0));
                scene.text(small(label.clone(), (inside, area.bottom + 6.0 + SMALL / 2.0), Align::Middle));
            }
        }
    }
}

fn ends(values: &[f64]) -> (f64, f64) {
    (values.first().copied().unwrap_or(0.0), values.last().copied().unwrap_or(1.0))
}

fn lines(scene: &mut Scene, figure: &Figure, names: &Names, values: &Scale, area: &Area) {
    for (index, series) in figure.series.iter().enumerate() {
        let color = color_of(index);
        let points: Vec<Option<Point>> =
            names.places.iter().zip(&series.values).map(|(x, value)| value.map(|value| (*x, area.y(values, value)))).collect();
        let marked = points.iter().flatten().count() <= MAX_DOTS;
        for run in points.split(Option::is_none) {
            let run: Vec<Point> = run.iter().flatten().copied().collect();
            if marked || run.len() == 1 {
                scene.shapes.extend(run.iter().map(|at| Shape::Dot { at: *at, radius: 3.5, color }));
            }
            if run.len() > 1 {
                scene.shapes.push(Shape::Line { points: thinned(run), color, width: 2.0 });
            }
        }
    }
}

/// Returns at most four points per column of pixels: its first, lowest, highest and last. The picture stays the same.
fn thinned(run: Vec<Point>) -> Vec<Point> {
    let mut thin: Vec<Point> = Vec::new();
    for column in run.chunk_by(|left, right| left.0.floor() as i64 == right.0.floor() as i64) {
        let by_height = |left: &&Point, right: &&Point| left.1.total_cmp(&right.1);
        let (Some(first), Some(last)) = (column.first(), column.last()) else { continue };
        let low = column.iter().min_by(by_height).unwrap_or(first);
        let high = column.iter().max_by(by_height).unwrap_or(first);
        for point in [first, low, high, last] {
            if thin.last() != Some(point) {
                thin.push(*point);
            }
        }
    }
    thin
}

fn bars(scene: &mut Scene, figure: &Figure, names: &Names, values: &Scale, area: &Area) {
    let count = figure.series.len() as f64;
    let group = (names.slot * 0.76).min(MAX_GROUP.max(count * 46.0)).min(names.slot * 0.9);
    let bar = group / count;
    let gap = if bar > 8.0 { 1.5 } else { 0.0 };
    let base = area.y(values, 0.0);
    let mut captions = Vec::new();
    for (index, series) in figure.series.iter().enumerate() {
        for (middle, value) in names.places.iter().zip(&series.values) {
            let Some(value) = value else { continue };
            let from = middle - group / 2.0 + index as f64 * bar;
            let top = area.y(values, *value);
            scene.rectangle(
                (from + gap / 2.0, top),
                ((from + bar - gap / 2.0).max(from + gap / 2.0 + 1.0), base),
                color_of(index),
            );
            let below = *value < 0.0;
            let y = if below { top + 10.0 } else { top - 9.0 };
            captions.push(small(number(*value), (from + bar / 2.0, y), Align::Middle));
        }
    }
    let room = if figure.series.len() == 1 { names.slot } else { bar };
    let fit = captions.iter().all(|caption| text_width(&caption.text, SMALL, false) <= room - 4.0);
    if captions.len() <= MAX_VALUED_BARS && fit {
        for caption in captions {
            // A gridline behind a number would strike it through.
            let ((x, y), half) = (caption.at, text_width(&caption.text, SMALL, false) / 2.0 + 1.0);
            scene.rectangle((x - half, y - 6.5), (x + half, y + 7.0), WHITE);
            scene.text(caption);
        }
    }
}
