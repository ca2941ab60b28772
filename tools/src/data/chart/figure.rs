//! Data of a chart: rows turned into series over positions. Ambiguous input is refused with a message that teaches.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::scale::{LARGEST, days_of};

/// The kinds of charts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChartKind {
    /// Values over something continuous, mostly time.
    Line,
    /// One value per category.
    Bar,
    /// Several values per category, side by side.
    GroupedBar,
    /// Shares of a whole.
    Pie,
}

/// The most rows that are drawn.
const MAX_ROWS: usize = 100_000;
/// The most series that a reader can tell apart.
const MAX_SERIES: usize = 20;
/// The most bars' categories that a reader can find.
const MAX_CATEGORIES: usize = 200;
/// The most categories that a message lists.
const MAX_LISTED: usize = 30;

/// Series over common positions.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Figure {
    pub(super) positions: Positions,
    pub(super) series: Vec<Series>,
}

/// Positions of values along the x axis.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Positions {
    /// Numbers, ascending; `years` are written without thousands separators.
    Numbers { values: Vec<f64>, years: bool },
    /// Days since 1970, ascending.
    Days(Vec<f64>),
    /// Names, in the order of the rows.
    Names(Vec<String>),
}

/// Values of one colour, one per position; `None` is a gap.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Series {
    pub(super) name: String,
    pub(super) values: Vec<Option<f64>>,
}

/// Which columns of the rows mean what.
pub(super) struct Columns<'a> {
    pub(super) x: &'a str,
    pub(super) y: &'a [String],
    pub(super) series: Option<&'a str>,
}

impl Figure {
    /// Turns rows into series.
    pub(super) fn of(kind: ChartKind, rows: &[Map<String, Value>], columns: &Columns<'_>) -> Result<Self, String> {
        check_shape(rows, columns)?;
        let mut names: Vec<String> = if columns.series.is_some() { Vec::new() } else { columns.y.to_vec() };
        let mut places: HashMap<String, usize> = HashMap::new();
        let mut labels: Vec<String> = Vec::new();
        let mut cells: BTreeMap<(usize, usize), Option<f64>> = BTreeMap::new();
        for (index, row) in rows.iter().enumerate() {
            let label = label_of(row.get(columns.x));
            let place = *places.entry(label.clone()).or_insert_with(|| {
                labels.push(label.clone());
                labels.len() - 1
            });
            for (offset, column) in columns.y.iter().enumerate() {
                let series = match columns.series {
                    None => offset,
                    Some(by) => position_of(&mut names, label_of(row.get(by))),
                };
                let value = value_of(row.get(column.as_str())).map_err(|found| {
                    format!("row {} has {found} in column {column}; values of y must be numbers or null", index + 1)
                })?;
                if cells.insert((series, place), value).is_some() {
                    let of = columns.series.map(|by| format!(" and {by} = {}", names[series])).unwrap_or_default();
                    let x = columns.x;
                    return Err(format!(
                        "several rows have {x} = {label}{of}; aggregate first, for instance with GROUP BY in sql"
                    ));
                }
            }
        }
        if names.len() > MAX_SERIES {
            return Err(format!("there are {} series; at most {MAX_SERIES} can be distinguished. Keep the largest", names.len()));
        }
        if let Some(value) = cells.values().flatten().find(|value| value.abs() > LARGEST) {
            return Err(format!("the value {value:e} is too large to draw"));
        }
        if cells.values().all(Option::is_none) {
            return Err(format!("every value of {} is null; there is nothing to draw", columns.y.join(", ")));
        }
        let (positions, order) = arrange(kind, labels)?;
        let value_at = |series: usize, place: &usize| cells.get(&(series, *place)).copied().flatten();
        let series = names
            .into_iter()
            .enumerate()
            .map(|(index, name)| Series { name, values: order.iter().map(|place| value_at(index, place)).collect() })
            .collect();
        Ok(Self { positions, series })
    }

    /// Returns the number of values.
    pub(super) fn points(&self) -> usize {
        self.series.iter().flat_map(|series| &series.values).flatten().count()
    }

    /// Returns the smallest and the largest value.
    pub(super) fn extent(&self) -> (f64, f64) {
        let values = self.series.iter().flat_map(|series| &series.values).flatten();
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(*value), high.max(*value)))
    }
}

fn check_shape(rows: &[Map<String, Value>], columns: &Columns<'_>) -> Result<(), String> {
    if rows.is_empty() {
        return Err("there are no rows to draw".to_owned());
    }
    if rows.len() > MAX_ROWS {
        return Err(format!("there are {} rows; at most {MAX_ROWS} can be drawn. Aggregate first", rows.len()));
    }
    if columns.y.is_empty() {
        return Err("y names no column".to_owned());
    }
    if columns.series.is_some() && columns.y.len() > 1 {
        return Err("series splits one column of y; give either several columns of y or series, not both".to_owned());
    }
    let wanted = columns.y.iter().map(String::as_str).chain([columns.x]).chain(columns.series);
    for column in wanted {
        if !rows.iter().any(|row| row.contains_key(column)) {
            let mut known: Vec<&str> = Vec::new();
            for key in rows.iter().take(100).flat_map(Map::keys) {
                if !known.contains(&key.as_str()) && known.len() < MAX_LISTED {
                    known.push(key);
                }
            }
            return Err(format!("the rows have no column {column}; they have {}", known.join(", ")));
        }
    }
    Ok(())
}

/// Returns the index of `name` in `names`, where it is added if it is new.
fn position_of(names: &mut Vec<String>, name: String) -> usize {
    names.iter().position(|known| *known == name).unwrap_or_else(|| {
        names.push(name);
        names.len() - 1
    })
}

/// Returns a value as a name.
fn label_of(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => "(none)".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => match number.as_f64() {
            // `2001.0` and `2001` are one year.
            Some(real) if !number.is_i64() && real.fract() == 0.0 && real.abs() < 1e15 => format!("{real:.0}"),
            _ => number.to_string(),
        },
        Some(other) => other.to_string(),
    }
}

/// Returns a value as a number; an error names the value that was found.
fn value_of(value: Option<&Value>) -> Result<Option<f64>, String> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Number(number)) => Ok(number.as_f64().filter(|value| value.is_finite())),
        Some(Value::String(text)) if text.trim().is_empty() => Ok(None),
        Some(Value::String(text)) => match text.trim().parse::<f64>() {
            Ok(value) => Ok(Some(value).filter(|value| value.is_finite())),
            Err(_) => Err(format!("the text {:?}", text.chars().take(40).collect::<String>())),
        },
        Some(Value::Bool(truth)) => Err(truth.to_string()),
        Some(Value::Array(_)) => Err("an array".to_owned()),
        Some(Value::Object(_)) => Err("an object".to_owned()),
    }
}

/// Returns the positions that `labels` mean, and the labels' indices in the positions' order.
fn arrange(kind: ChartKind, labels: Vec<String>) -> Result<(Positions, Vec<usize>), String> {
    if kind == ChartKind::Line {
        let numbers: Option<Vec<f64>> =
            labels.iter().map(|label| label.trim().parse().ok().filter(|number: &f64| number.abs() <= LARGEST)).collect();
        if let Some(values) = numbers {
            let years = values.iter().all(|value| value.fract() == 0.0 && (1_000.0..3_000.0).contains(value));
            let (values, order) = ascending(values);
            return Ok((Positions::Numbers { values, years }, order));
        }
        let days: Option<Vec<f64>> = labels.iter().map(|label| days_of(label)).collect();
        if let Some(days) = days {
            let (days, order) = ascending(days);
            return Ok((Positions::Days(days), order));
        }
    } else if kind != ChartKind::Pie && labels.len() > MAX_CATEGORIES {
        let count = labels.len();
        return Err(format!(
            "there are {count} categories; at most {MAX_CATEGORIES} bars' names fit. Keep the largest, or draw a line"
        ));
    }
    let order = (0..labels.len()).collect();
    Ok((Positions::Names(shortened(labels)), order))
}

fn ascending(values: Vec<f64>) -> (Vec<f64>, Vec<usize>) {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|left, right| values[*left].total_cmp(&values[*right]));
    (order.iter().map(|index| values[*index]).collect(), order)
}

/// Shortens dates that all begin a year or a month.
fn shortened(labels: Vec<String>) -> Vec<String> {
    for tail in ["-01-01", "-01"] {
        let is_date = |label: &String| label.len() == 10 && label.ends_with(tail) && days_of(label).is_some();
        if labels.iter().all(is_date) {
            return labels.into_iter().map(|label| label[..10 - tail.len()].to_owned()).collect();
        }
    }
    labels
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn figure(kind: ChartKind, rows: Value, y: &[&str], series: Option<&str>) -> Result<Figure, String> {
        let rows: Vec<Map<String, Value>> = serde_json::from_value(rows).unwrap();
        let y: Vec<String> = y.iter().map(|column| (*column).to_owned()).collect();
        Figure::of(kind, &rows, &Columns { x: "x", y: &y, series })
    }

    #[test]
    fn columns_become_series() {
        let rows = json!([{"x": "a", "p": 1, "q": "2.5"}, {"x": "b", "p": null, "q": -1}]);
        let expected = Figure {
            positions: Positions::Names(vec!["a".into(), "b".into()]),
            series: vec![
                Series { name: "p".into(), values: vec![Some(1.0), None] },
                Series { name: "q".into(), values: vec![Some(2.5), Some(-1.0)] },
            ],
        };
        assert_eq!(figure(ChartKind::GroupedBar, rows, &["p", "q"], None).unwrap(), expected);
    }

    #[test]
    fn values_of_a_column_become_series_and_missing_ones_gaps() {
        let rows = json!([{"x": 2002, "y": 3, "s": "B"}, {"x": 2001, "y": 1, "s": "A"}, {"x": 2002.0, "y": 2, "s": "A"}]);
        let expected = Figure {
            positions: Positions::Numbers { values: vec![2001.0, 2002.0], years: true },
            series: vec![
                Series { name: "B".into(), values: vec![None, Some(3.0)] },
                Series { name: "A".into(), values: vec![Some(1.0), Some(2.0)] },
            ],
        };
        assert_eq!(figure(ChartKind::Line, rows, &["y"], Some("s")).unwrap(), expected);
    }

    #[test]
    fn dates_are_days_on_a_line_and_short_names_on_bars() {
        let rows = json!([{"x": "2002-01-01", "y": 1}, {"x": "2001-01-01", "y": 2}]);
        let line = figure(ChartKind::Line, rows.clone(), &["y"], None).unwrap();
        assert_eq!(line.positions, Positions::Days(vec![11_323.0, 11_688.0]));
        assert_eq!(line.series[0].values, [Some(2.0), Some(1.0)]);
        let bar = figure(ChartKind::Bar, rows, &["y"], None).unwrap();
        assert_eq!(bar.positions, Positions::Names(vec!["2002".into(), "2001".into()]));
    }

    #[test]
    fn what_cannot_be_drawn_is_refused_with_the_reason() {
        let refusal = |rows: Value, y: &[&str], series| figure(ChartKind::Bar, rows, y, series).unwrap_err();
        assert_eq!(refusal(json!([]), &["y"], None), "there are no rows to draw");
        assert_eq!(refusal(json!([{"x": 1, "z": 2}]), &["y"], None), "the rows have no column y; they have x, z");
        assert!(refusal(json!([{"x": 1, "y": "many"}]), &["y"], None).starts_with("row 1 has the text \"many\" in column y"));
        assert!(refusal(json!([{"x": 1, "y": true}]), &["y"], None).contains("has true"));
        assert!(refusal(json!([{"x": 1, "y": null}]), &["y"], None).contains("every value of y is null"));
        assert!(
            refusal(json!([{"x": 1, "y": 1}, {"x": 1, "y": 2}]), &["y"], None).contains("several rows have x = 1; aggregate")
        );
        assert!(refusal(json!([{"x": 1, "y": 1, "z": 1}]), &["y", "z"], Some("x")).contains("not both"));
        assert_eq!(refusal(json!([{"x": 1}]), &[], None), "y names no column");
        let many: Vec<Value> = (0..201).map(|index| json!({"x": format!("c{index}"), "y": 1, "s": index})).collect();
        assert!(refusal(json!(many), &["y"], None).contains("201 categories"));
        assert!(refusal(json!(many), &["y"], Some("s")).contains("201 series"));
    }
}
