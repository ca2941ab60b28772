//! The question whether a call may begin, as text for people: the tool, its input with texts as lines, and its change of a
//! document.
//!
//! The request of the question is written for agents too. It has the input as JSON, in which a text is one escaped line.

use baton_types::call::ModelCall;
use baton_types::document::DocumentRef;
use baton_types::id::BreadcrumbId;
use baton_types::json::Json;
use serde::Serialize;
use serde_json::Value;

use super::change::Change;
use super::extent::{Extent, block, pretty};
use crate::text::{Text, text};

/// The preview of a pending approval.
#[derive(Clone, Debug, Default)]
pub(crate) struct Preview {
    /// The tool's title.
    pub(crate) title: Option<String>,
    /// The version that the change was computed from.
    pub(crate) base: Option<DocumentRef>,
    /// The change of a document.
    pub(crate) change: Option<Change>,
    /// The version of a breadcrumb that the call approves.
    pub(crate) breadcrumb: Option<BreadcrumbPreview>,
    /// The reason why the change or the title is unknown.
    pub(crate) fault: Option<String>,
}

/// The version of a breadcrumb that a call would approve.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct BreadcrumbPreview {
    pub(crate) id: BreadcrumbId,
    pub(crate) version: u64,
    pub(crate) title: String,
    pub(crate) schema_name: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) context: Json,
    pub(crate) llm_hints: Option<Json>,
}

impl BreadcrumbPreview {
    /// Renders the version as lines of at most `width` characters.
    fn lines(&self, width: usize, extent: Extent<'_>) -> Vec<Text> {
        let Self { id, version, title, schema_name, description, context, llm_hints } = self;
        let mut lines = vec![text!("→ approves version {version} of the breadcrumb {id}:")];
        let mut fields = vec![("title", Value::from(title.as_str()))];
        fields.extend(schema_name.as_deref().map(|name| ("schema", Value::from(name))));
        fields.extend(description.as_deref().map(|text| ("description", Value::from(text))));
        fields.push(("context", context.value()));
        fields.extend(llm_hints.as_ref().map(|hints| ("llm_hints", hints.value())));
        for (name, value) in fields {
            lines.extend(extent.of(block(&format!("{name}: {}", shown_value(&value)), "│ ", width)));
        }
        lines
    }
}

/// A call that waits for an approval, in a report.
#[derive(Debug, Serialize)]
pub(crate) struct CallReport {
    tool: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    input: Json,
    #[serde(skip_serializing_if = "Option::is_none")]
    change: Option<Change>,
    #[serde(skip_serializing_if = "Option::is_none")]
    breadcrumb: Option<BreadcrumbPreview>,
    /// The reason why the change is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    fault: Option<String>,
}

impl CallReport {
    /// Returns the report of `call`.
    pub(crate) fn of(call: &ModelCall, preview: Option<&Preview>) -> Self {
        Self {
            tool: call.tool.clone(),
            title: preview.and_then(|preview| preview.title.clone()),
            input: call.input.clone(),
            change: preview.and_then(|preview| preview.change.clone()),
            breadcrumb: preview.and_then(|preview| preview.breadcrumb.clone()),
            fault: preview.and_then(|preview| preview.fault.clone()),
        }
    }
}

/// Renders a call as lines of at most `width` characters: its input, then its change of a document.
pub(crate) fn call_lines(call: &ModelCall, preview: Option<&Preview>, width: usize, extent: Extent<'_>) -> Vec<Text> {
    let change = preview.and_then(|preview| preview.change.as_ref());
    let mut lines = input_lines(&call.input, change, width, extent);
    lines.extend(change.into_iter().flat_map(|change| change.lines(width, extent)));
    lines.extend(
        preview
            .and_then(|preview| preview.breadcrumb.as_ref())
            .into_iter()
            .flat_map(|breadcrumb| breadcrumb.lines(width, extent)),
    );
    lines.extend(preview.and_then(|preview| preview.fault.as_ref()).map(|fault| text!("→ {}", Text::line(fault))));
    lines
}

/// Renders an input as lines, without the field that `change` shows.
fn input_lines(input: &Json, change: Option<&Change>, width: usize, extent: Extent<'_>) -> Vec<Text> {
    let width = width.max(20);
    match input.value() {
        Value::Object(fields) if !fields.is_empty() => {
            let lines = |(name, value): (&String, &Value)| {
                if change.is_some_and(|change| change.shows(name)) {
                    return vec![text!("{}: as shown below", shown_name(name))];
                }
                field_lines(name, value, width, extent)
            };
            fields.iter().flat_map(lines).collect()
        }
        Value::Object(_) | Value::Null => vec![text!("no input")],
        other => extent.of(block(&pretty(&other), "│ ", width)),
    }
}

/// Renders `name: value`, or the name and below it the lines of the value.
fn field_lines(name: &str, value: &Value, width: usize, extent: Extent<'_>) -> Vec<Text> {
    let shown = shown_value(value);
    let line = text!("{}: {}", shown_name(name), Text::line(&shown));
    if !shown.contains('\n') && line.width() <= width {
        return vec![line];
    }
    let mut lines = vec![text!("{}:", shown_name(name))];
    lines.extend(extent.of(block(&shown, "│ ", width)));
    lines
}

/// Returns a text as it is, and any other value as JSON.
fn shown_value(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => pretty(other),
    }
}

/// Renders the name of an input field. A name that is not a plain word is quoted, so that it cannot imitate a line of a change.
fn shown_name(name: &str) -> Text {
    let is_word = |character: char| character.is_ascii_alphanumeric() || character == '_';
    let is_plain = name.starts_with(is_word) && name.chars().all(|character| is_word(character) || "-.".contains(character));
    if is_plain { text!("{name}") } else { Text::json(&name) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::view::extent::LINES;

    fn shown(input: Value, width: usize) -> String {
        let lines = input_lines(&Json::from(input), None, width, Extent::Bounded("baton show"));
        let lines: Vec<String> = lines.iter().map(|line| line.as_str().to_owned()).collect();
        lines.join("\n")
    }

    #[test]
    fn a_text_of_several_lines_is_shown_as_lines() {
        let input = json!({"path": "a.md", "content": "# One\n\n  indented", "tags": ["x"]});
        let expected = "path: a.md\ncontent:\n│ # One\n│ \n│   indented\ntags:\n│ [\n│   \"x\"\n│ ]";
        assert_eq!(shown(input, 60), expected);
        assert_eq!(shown(json!({}), 60), "no input");
    }

    #[test]
    fn long_lines_are_continued_long_texts_are_counted_and_nothing_commands_a_terminal() {
        assert_eq!(shown(json!({"a": "x".repeat(40)}), 22), format!("a:\n│ {}\n│ {}", "x".repeat(20), "x".repeat(20)));
        let long = shown(json!({"a": "x\n".repeat(LINES + 2)}), 60);
        assert!(long.ends_with("… 2 more lines; show all: baton show"), "{long}");
        let escapes = shown(json!({"a": "\u{1b}".repeat(40)}), 22);
        assert!(
            escapes.lines().all(|line| line.chars().count() <= 22),
            "no end of a line is pushed out of the window: {escapes}"
        );
        assert!(!shown(json!({"a": "\u{1b}]0;title\u{7}"}), 60).contains('\u{1b}'));
    }
}
