//! `draw_chart`: line, bar, grouped bar and pie charts as PNG or SVG documents.
//!
//! Rows become a figure, a figure becomes a scene of shapes, a scene is painted. Only the last step knows the format.

mod axes;
mod figure;
mod frame;
mod paint;
mod pie;
mod scale;
mod scene;

use baton_macros::tool;
use baton_tool::{PendingWrite, ToolContext, ToolError, ToolErrorKind, parse_path};
use baton_types::path::DocumentPath;
use serde::Serialize;
use serde_json::{Map, Value};

pub use figure::ChartKind;
use figure::{Columns, Figure};
use scene::Scene;

use super::query::query;

/// The picture's size in pixels (default).
const DEFAULT_SIZE: (u32, u32) = (960, 600);
/// The sizes that can be painted: smaller has no room for axes, larger costs too much memory.
const SIZES: std::ops::RangeInclusive<u32> = 240..=2_400;
/// The most rows that a query may give to a chart.
const MAX_QUERIED_ROWS: u32 = 10_000;
/// The most bytes of rows that a query may give to a chart.
const MAX_QUERIED_BYTES: usize = 8 * 1024 * 1024;

/// Output of `draw_chart`.
#[derive(Debug, Serialize)]
pub struct ChartOutput {
    /// The document that holds the chart.
    pub path: DocumentPath,
    /// `image/png` or `image/svg+xml`.
    pub mime_type: &'static str,
    /// The kind of chart.
    pub kind: ChartKind,
    /// Its width in pixels.
    pub width: u32,
    /// Its height in pixels.
    pub height: u32,
    /// The document's size.
    pub size_bytes: usize,
    /// Number of values in the chart.
    pub points: usize,
    /// The names of its series.
    pub series: Vec<String>,
}

/// File format of a chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Png,
    Svg,
}

/// Texts of a chart.
struct Words {
    title: String,
    x: String,
    y: String,
}

/// Draws a chart of rows, given or queried, and writes it as a document.
#[tool]
async fn draw_chart(
    context: &ToolContext,
    kind: ChartKind,
    title: String,
    path: String,
    rows: Option<Vec<Map<String, Value>>>,
    sql: Option<String>,
    documents: Option<Vec<String>>,
    x: Option<String>,
    y: Option<Value>,
    series: Option<String>,
    x_label: Option<String>,
    y_label: Option<String>,
    width: Option<u32>,
    height: Option<u32>,
    description: Option<String>,
) -> Result<ChartOutput, ToolError> {
    let path = parse_path(&path)?;
    let format = match path.extension().as_str() {
        "png" => Format::Png,
        "svg" => Format::Svg,
        _ => return Err(invalid(format!("path must end with .png or .svg, received {path}"))),
    };
    let (width, height) = (width.unwrap_or(DEFAULT_SIZE.0), height.unwrap_or(DEFAULT_SIZE.1));
    if !SIZES.contains(&width) || !SIZES.contains(&height) {
        return Err(invalid(format!("width and height must be between {} and {} pixels", SIZES.start(), SIZES.end())));
    }
    let rows = match (rows, sql) {
        (Some(_), Some(_)) => return Err(invalid("give either rows or sql, not both".to_owned())),
        (None, None) => return Err(invalid("give rows, or sql that selects them".to_owned())),
        (Some(rows), None) => rows,
        (None, Some(sql)) => queried(context, sql, documents).await?,
    };
    let (x, y) = (chosen_x(x, &rows)?, y.map(|y| names_of(&y)).transpose()?);
    let y = y.unwrap_or_else(|| numeric_columns(&rows, &x, series.as_deref()));
    let words = Words {
        x: x_label.unwrap_or_else(|| x.clone()),
        y: y_label.unwrap_or_else(|| if let [column] = y.as_slice() { column.clone() } else { String::new() }),
        title,
    };
    let description = description.unwrap_or_else(|| scene::cleaned(&words.title));
    let drawn = context.blocking(move || {
        let figure = Figure::of(kind, &rows, &Columns { x: &x, y: &y, series: series.as_deref() })?;
        let scene = compose(kind, &figure, &words, (width, height))?;
        let bytes = if format == Format::Png { paint::png(&scene)? } else { paint::svg(&scene)? };
        Ok((figure, bytes))
    });
    let (figure, bytes) = drawn.await?.map_err(invalid)?;
    let output = ChartOutput {
        path: path.clone(),
        mime_type: if format == Format::Png { "image/png" } else { "image/svg+xml" },
        kind,
        width,
        height,
        size_bytes: bytes.len(),
        points: figure.points(),
        series: figure.series.into_iter().map(|series| series.name).collect(),
    };
    let mime_type = Some(output.mime_type.to_owned());
    context.write(PendingWrite { mime_type, description: Some(description), ..PendingWrite::new(path, bytes) })?;
    Ok(output)
}

fn invalid(message: String) -> ToolError {
    ToolError::new(message).of_kind(ToolErrorKind::InvalidInput)
}

/// Returns the rows that `sql` selects, all of them.
async fn queried(
    context: &ToolContext,
    sql: String,
    documents: Option<Vec<String>>,
) -> Result<Vec<Map<String, Value>>, ToolError> {
    let answer = query(context, sql, documents, MAX_QUERIED_ROWS, MAX_QUERIED_BYTES).await?;
    if answer.truncated {
        return Err(invalid(format!("the query gives more than {} rows; aggregate them first", answer.row_count)));
    }
    Ok(answer.rows)
}

/// Returns the column of the x axis: the one named, else the first.
fn chosen_x(x: Option<String>, rows: &[Map<String, Value>]) -> Result<String, ToolError> {
    let first = || rows.first().and_then(|row| row.keys().next().cloned());
    x.or_else(first).ok_or_else(|| invalid("there are no rows to draw".to_owned()))
}

/// Returns a column, or a list of columns.
fn names_of(y: &Value) -> Result<Vec<String>, ToolError> {
    let wrong = || invalid(format!("y must be a column's name or a list of names, received {y}"));
    match y {
        Value::String(name) => Ok(vec![name.clone()]),
        Value::Array(names) => names.iter().map(|name| name.as_str().map(str::to_owned).ok_or_else(wrong)).collect(),
        _ => Err(wrong()),
    }
}

/// Returns the columns that hold numbers, without those that mean something else already.
fn numeric_columns(rows: &[Map<String, Value>], x: &str, series: Option<&str>) -> Vec<String> {
    let keys = rows.first().into_iter().flat_map(Map::keys).filter(|key| *key != x && Some(key.as_str()) != series);
    let numeric = keys.filter(|key| rows.iter().any(|row| row.get(key.as_str()).is_some_and(Value::is_number)));
    numeric.take(if series.is_some() { 1 } else { usize::MAX }).cloned().collect()
}

/// Lays the whole picture out.
fn compose(kind: ChartKind, figure: &Figure, words: &Words, (width, height): (u32, u32)) -> Result<Scene, String> {
    let mut scene = Scene::new(width, height);
    let frame = frame::begin(&mut scene, &words.title);
    if kind == ChartKind::Pie {
        let slices = pie::slices(figure)?;
        pie::draw(&mut scene, &frame, &slices);
        return Ok(scene);
    }
    let names: Vec<&str> = figure.series.iter().map(|series| series.name.as_str()).collect();
    let frame = if names.len() > 1 { frame::legend(&mut scene, frame, &names) } else { frame };
    let frame = frame::axis_labels(&mut scene, frame, &words.x, &words.y);
    axes::draw(&mut scene, &frame, kind, figure);
    Ok(scene)
}

#[cfg(test)]
mod tests;
