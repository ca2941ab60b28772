//! Painting a scene with plotters: as PNG or as SVG. The same scene always gives the same bytes.

use plotters::backend::{BitMapBackend, DrawingBackend, SVGBackend};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, FontTransform, RGBColor, ShapeStyle, TextStyle};

use super::scene::{Align, Label, Point, Rgb, Scene, Shape, font};

/// A PNG is painted this many times larger and averaged down: plotters' polygons have hard edges.
const OVERSAMPLING: u32 = 2;

/// Differences between plotters' backends.
struct Manner {
    scale: f64,
    /// Factor for font sizes.
    font: f64,
    /// By how much of its size a text is moved down to be centred.
    drop: f64,
    /// Whether lines are painted piece by piece.
    pieces: bool,
}

/// plotters turns a wide path into one polygon, which falls apart where the path turns sharply.
const PIXELS: Manner = Manner { scale: OVERSAMPLING as f64, font: 1.0, drop: 0.1, pieces: true };
/// plotters divides a font's size by 1.24 for SVG; the embedded font has 1.362 times its em from ascent to descent.
const VECTORS: Manner = Manner { scale: 1.0, font: 1.24 / 1.362, drop: 0.0, pieces: false };

/// Returns the scene as a PNG.
pub(super) fn png(scene: &Scene) -> Result<Vec<u8>, String> {
    let (width, height) = (scene.width * OVERSAMPLING, scene.height * OVERSAMPLING);
    let mut pixels = vec![255; width as usize * height as usize * 3];
    {
        let mut backend = BitMapBackend::with_buffer(&mut pixels, (width, height));
        paint(scene, &mut backend, &PIXELS)?;
    }
    let averaged = average(&pixels, scene.width as usize, scene.height as usize);
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, scene.width, scene.height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header().map_err(|error| error.to_string())?;
    writer.write_image_data(&averaged).map_err(|error| error.to_string())?;
    writer.finish().map_err(|error| error.to_string())?;
    Ok(bytes)
}

/// Returns the scene as an SVG.
pub(super) fn svg(scene: &Scene) -> Result<Vec<u8>, String> {
    let mut text = String::new();
    {
        let mut backend = SVGBackend::with_string(&mut text, (scene.width, scene.height));
        let style = ShapeStyle::from(&RGBColor(255, 255, 255)).filled();
        let corner = (scene.width as i32, scene.height as i32);
        backend.draw_rect((0, 0), corner, &style, true).map_err(|error| error.to_string())?;
        paint(scene, &mut backend, &VECTORS)?;
    }
    Ok(text.into_bytes())
}

fn paint<B: DrawingBackend>(scene: &Scene, backend: &mut B, manner: &Manner) -> Result<(), String> {
    let scale = manner.scale;
    let place = |(x, y): Point| ((x * scale).round() as i32, (y * scale).round() as i32);
    let filled = |color: Rgb| ShapeStyle::from(&RGBColor(color.0, color.1, color.2)).filled();
    for shape in &scene.shapes {
        match shape {
            Shape::Line { points, color, width } if manner.pieces && points.len() > 2 => {
                let pieces = points.windows(2).filter_map(|ends| quadrangle(ends[0], ends[1], *width));
                for piece in pieces {
                    backend.fill_polygon(piece.map(place), &filled(*color)).map_err(|error| error.to_string())?;
                }
                let radius = (width * scale / 2.0).floor() as u32;
                points.iter().try_for_each(|at| backend.draw_circle(place(*at), radius, &filled(*color), true))
            }
            Shape::Line { points, color, width } => {
                let style = filled(*color).stroke_width((width * scale).round() as u32);
                backend.draw_path(points.iter().copied().map(place), &style)
            }
            Shape::Area { points, color } => backend.fill_polygon(points.iter().copied().map(place), &filled(*color)),
            Shape::Dot { at, radius, color } => {
                backend.draw_circle(place(*at), (radius * scale).round() as u32, &filled(*color), true)
            }
            Shape::Text(label) => {
                let drop = label.size * manner.drop;
                let at = if label.upright { (label.at.0 + drop, label.at.1) } else { (label.at.0, label.at.1 + drop) };
                backend.draw_text(&label.text, &text_style(label, scale * manner.font), place(at))
            }
        }
        .map_err(|error| error.to_string())?;
    }
    backend.present().map_err(|error| error.to_string())
}

/// Returns the corners of a straight line of that width.
fn quadrangle(from: Point, to: Point, width: f64) -> Option<[Point; 4]> {
    let (x, y) = (to.0 - from.0, to.1 - from.1);
    let length = x.hypot(y);
    if length == 0.0 {
        return None;
    }
    let (across, along) = (-y / length * width / 2.0, x / length * width / 2.0);
    Some([
        (from.0 + across, from.1 + along),
        (to.0 + across, to.1 + along),
        (to.0 - across, to.1 - along),
        (from.0 - across, from.1 - along),
    ])
}

fn text_style(label: &Label, scale: f64) -> TextStyle<'static> {
    let along = match label.align {
        Align::Start => HPos::Left,
        Align::Middle => HPos::Center,
        Align::End => HPos::Right,
    };
    let turn = if label.upright { FontTransform::Rotate270 } else { FontTransform::None };
    let color = RGBColor(label.color.0, label.color.1, label.color.2);
    let style = TextStyle::from(font(label.size * scale, label.bold).transform(turn)).pos(Pos::new(along, VPos::Center));
    TextStyle { color: color.to_backend_color(), ..style }
}

/// Averages squares of pixels.
fn average(pixels: &[u8], width: usize, height: usize) -> Vec<u8> {
    let factor = OVERSAMPLING as usize;
    let line = width * factor * 3;
    let mut averaged = Vec::with_capacity(width * height * 3);
    for y in 0..height {
        for x in 0..width {
            for channel in 0..3 {
                let mut sum = 0;
                for row in 0..factor {
                    let begin = (y * factor + row) * line + x * factor * 3 + channel;
                    sum += (0..factor).map(|column| usize::from(pixels[begin + column * 3])).sum::<usize>();
                }
                averaged.push((sum / (factor * factor)) as u8);
            }
        }
    }
    averaged
}
