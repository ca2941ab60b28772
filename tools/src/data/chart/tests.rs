//! Promises of charts, tested on scenes and on finished documents.

use baton_tool::testing::block_on;
use baton_tool::{ToolContext, ToolError, from_input, registered_functions};
use baton_types::json::Json;
use serde_json::{Value, json};

use super::*;

/// Draws through the registered function, as an agent does.
fn draw(context: &ToolContext, input: &Value) -> Result<Value, ToolError> {
    let function = registered_functions().into_iter().find(|function| function.id == "draw_chart").unwrap();
    block_on((function.invoke)(context, &Json::from(input))).map(|output| output.value())
}

/// Returns the bytes of the only document that drawing `input` writes.
fn drawn(input: &Value) -> Vec<u8> {
    let context = ToolContext::for_test().build();
    let output = draw(&context, input).unwrap_or_else(|error| panic!("{input}: {error}"));
    let writes = context.take_effects().writes;
    assert_eq!(writes.len(), 1);
    assert_eq!(writes[0].0.content.len(), usize::try_from(output["size_bytes"].as_u64().unwrap()).unwrap());
    writes[0].0.content.to_vec()
}

fn scene(kind: ChartKind, rows: &Value, y: &[&str], series: Option<&str>, size: (u32, u32)) -> Scene {
    let rows: Vec<Map<String, Value>> = from_input(&Json::from(rows)).unwrap();
    let y: Vec<String> = y.iter().map(|column| (*column).to_owned()).collect();
    let figure = Figure::of(kind, &rows, &Columns { x: "x", y: &y, series }).unwrap();
    let words = Words { title: "A title that says what the chart shows".into(), x: "the x axis".into(), y: "the y axis".into() };
    compose(kind, &figure, &words, size).unwrap()
}

/// Fails if two texts overlap or one leaves the picture.
fn check_texts(what: &str, scene: &Scene) {
    let boxes = scene.text_boxes();
    for (index, (text, [left, top, right, bottom])) in boxes.iter().enumerate() {
        let inside = *left >= 0.0 && *top >= 0.0 && *right <= f64::from(scene.width) && *bottom <= f64::from(scene.height);
        assert!(inside, "{what}: {text:?} leaves the picture: {left} {top} {right} {bottom}");
        for (other, [l, t, r, b]) in &boxes[..index] {
            let apart = right <= l || r <= left || bottom <= t || b <= top;
            assert!(apart, "{what}: {text:?} at {left:.0} {top:.0} overlaps {other:?} at {l:.0} {t:.0}");
        }
    }
}

fn categories(count: usize, name: impl Fn(usize) -> String, value: impl Fn(usize) -> f64) -> Value {
    Value::Array((0..count).map(|index| json!({"x": name(index), "y": value(index), "z": value(index + 3)})).collect())
}

#[test]
fn no_two_labels_overlap_whatever_is_drawn() {
    let wave = |index: usize| ((index * 7_919) % 1_000) as f64 * 1_234.5 - 200_000.0;
    for size in [(960, 600), (400, 300), (240, 240), (2_400, 600), (600, 2_000)] {
        for count in [1, 2, 4, 12, 24, 50, 200] {
            for (names, name) in
                [("short", "Q"), ("middling", "Category no "), ("long", "A category whose name never seems to end, no ")]
            {
                let rows = categories(count, |index| format!("{name}{index}"), wave);
                for kind in [ChartKind::Bar, ChartKind::GroupedBar, ChartKind::Line] {
                    check_texts(&format!("{kind:?} {count} {names} {size:?}"), &scene(kind, &rows, &["y", "z"], None, size));
                    check_texts(&format!("{kind:?} {count} {names} {size:?} one"), &scene(kind, &rows, &["y"], None, size));
                }
            }
        }
        for count in [1, 2, 30, 366, 4_000] {
            let days = (0..count).map(
                |day| json!({"x": format!("{}-{:02}-{:02}", 2_000 + day / 336, day / 28 % 12 + 1, day % 28 + 1), "y": wave(day)}),
            );
            check_texts(
                &format!("days {count} {size:?}"),
                &scene(ChartKind::Line, &Value::Array(days.collect()), &["y"], None, size),
            );
            let numbers = (0..count).map(|index| json!({"x": index * 1_003, "y": wave(index) / 1e9}));
            check_texts(
                &format!("numbers {count} {size:?}"),
                &scene(ChartKind::Line, &Value::Array(numbers.collect()), &["y"], None, size),
            );
        }
    }
}

#[test]
fn a_pie_and_a_full_legend_have_room() {
    for size in [(960, 600), (480, 360)] {
        for count in [1, 2, 3, 7, 10, 40] {
            let rows = categories(count, |index| format!("Region with a name {index}"), |index| 1e6 / (index + 1) as f64);
            check_texts(&format!("pie {count} {size:?}"), &scene(ChartKind::Pie, &rows, &["y"], None, size));
        }
    }
    let rows: Vec<Value> =
        (0..20).flat_map(|s| (0..5).map(move |x| json!({"x": x, "y": s * x, "s": format!("series number {s}")}))).collect();
    check_texts("legend", &scene(ChartKind::Line, &json!(rows), &["y"], Some("s"), (960, 600)));
}

#[test]
fn the_same_rows_give_the_same_bytes() {
    let rows = json!([{"q": "Q1", "north": 10, "south": -4.5}, {"q": "Q2", "north": null, "south": 7}]);
    for path in ["same.png", "same.svg"] {
        let input = json!({"kind": "grouped_bar", "title": "Same", "path": path, "rows": rows});
        assert_eq!(drawn(&input), drawn(&input));
    }
}

#[test]
fn a_png_is_a_picture_of_the_size_asked_for() {
    let input =
        json!({"kind": "line", "title": "T", "path": "size.png", "rows": [{"x": 1, "y": 2}], "width": 300, "height": 250});
    let bytes = drawn(&input);
    let reader = png::Decoder::new(std::io::Cursor::new(bytes)).read_info().unwrap();
    assert_eq!((reader.info().width, reader.info().height), (300, 250));
}

#[test]
fn an_svg_holds_hostile_texts_as_text() {
    let rows = json!([{"x": "</text><script>alert(1)</script>\u{0}\u{1b}", "y": 1}, {"x": "a & \"b\"", "y": 2}]);
    let input = json!({"kind": "bar", "title": "<b>{{ 7*7 }}</b>\n]]>", "path": "hostile.svg", "rows": rows});
    let text = String::from_utf8(drawn(&input)).unwrap();
    assert!(!text.contains("<script") && !text.contains("<b>") && !text.contains(['\u{0}', '\u{1b}']), "{text}");
    assert!(text.contains("&lt;b&gt;{{ 7*7 }}") && text.contains("a &amp; &quot;b&quot;"));
}

#[test]
fn rows_can_come_from_sql() {
    let context = ToolContext::for_test()
        .with_document("sales.csv", "region,month,amount\nN,2024-01,1\nN,2024-01,2\nS,2024-02,4\n")
        .build();
    let sql = "SELECT month, region, sum(amount) AS total FROM sales GROUP BY 1, 2 ORDER BY 1";
    let input =
        json!({"kind": "line", "title": "T", "path": "charts/a.png", "sql": sql, "x": "month", "y": "total", "series": "region"});
    let output = draw(&context, &input).unwrap();
    assert_eq!(output["series"], json!(["N", "S"]));
    assert_eq!(
        (&output["points"], &output["path"], &output["mime_type"]),
        (&json!(2), &json!("charts/a.png"), &json!("image/png"))
    );
    let wrong = draw(&context, &json!({"kind": "bar", "title": "T", "path": "a.png", "sql": "SELECT x FROM sales"})).unwrap_err();
    assert!(wrong.message.contains("sales has the columns region, month, amount"), "{wrong}");
}

#[test]
fn what_cannot_be_drawn_is_refused_and_nothing_is_written() {
    let row = json!([{"x": "a", "y": 1}]);
    let cases = [
        (json!({"kind": "bar", "title": "T", "path": "a.gif", "rows": row}), "path must end with .png or .svg"),
        (json!({"kind": "bar", "title": "T", "path": "../a.png", "rows": row}), "cannot be a document path"),
        (json!({"kind": "bar", "title": "T", "path": "a.png"}), "give rows, or sql"),
        (json!({"kind": "bar", "title": "T", "path": "a.png", "rows": row, "sql": "SELECT 1"}), "not both"),
        (json!({"kind": "bar", "title": "T", "path": "a.png", "rows": []}), "there are no rows to draw"),
        (json!({"kind": "bar", "title": "T", "path": "a.png", "rows": row, "width": 100_000}), "between 240 and 2400"),
        (json!({"kind": "bar", "title": "T", "path": "a.png", "rows": row, "y": 7}), "y must be a column's name or a list"),
        (
            json!({"kind": "bar", "title": "T", "path": "a.png", "rows": row, "y": ["z"]}),
            "the rows have no column z; they have x, y",
        ),
        (json!({"kind": "bar", "title": "T", "path": "a.png", "rows": [{"x": "a"}]}), "y names no column"),
        (json!({"kind": "pie", "title": "T", "path": "a.png", "rows": [{"x": "a", "y": -1}]}), "negative values"),
        (
            json!({"kind": "bar", "title": "T", "path": "a.png", "sql": "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < 20000) SELECT i, i FROM n"}),
            "more than 10000 rows",
        ),
        (json!({"kind": "bar", "title": "T", "path": "a.png", "rows": [{"x": "a", "y": 1e101}]}), "too large to draw"),
        (json!({"kind": "scatter", "title": "T", "path": "a.png", "rows": row}), "unknown variant"),
    ];
    for (input, expected) in cases {
        let context = ToolContext::for_test().build();
        let error = draw(&context, &input).expect_err(&input.to_string());
        assert!(error.message.contains(expected), "{input}: {error}");
        assert!(context.take_effects().writes.is_empty());
    }
}

#[test]
fn extreme_values_are_drawn() {
    let extremes = json!([{"x": 1, "y": 1e100}, {"x": 2, "y": -1e100}, {"x": 1e100, "y": 5e-324}, {"x": -1e300, "y": null}]);
    for (kind, path) in [("line", "extreme_line.png"), ("bar", "extreme_bar.png")] {
        drawn(&json!({"kind": kind, "title": "", "path": path, "rows": extremes, "x": "x", "y": "y"}));
    }
    drawn(&json!({"kind": "bar", "title": "T", "path": "one.png", "rows": [{"x": "only", "y": 0}]}));
}

#[test]
fn ten_thousand_points_are_drawn() {
    let rows: Vec<Value> = (0..10_000).map(|index| json!({"x": index, "y": f64::from(index * 7_919 % 1_000)})).collect();
    let bytes = drawn(&json!({"kind": "line", "title": "Many", "path": "many.svg", "rows": rows}));
    assert!(bytes.len() < 100_000, "{} bytes", bytes.len());
}
