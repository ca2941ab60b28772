//! The request of a delegation and of a question, from the input of the call. Further fields of an input follow as JSON.

use baton_types::config::Tool;
use baton_types::json::Json;
use serde_json::Value;

/// Fields of a question that the engine interprets itself.
const QUESTION_SETTINGS: [&str; 4] = ["answer_schema", "on_deadline", "deadline_seconds", "default_answer"];

/// Returns the text of a delegation's request. The fields that its tool declares in addition follow as JSON.
pub fn delegation(tool: &Tool, input: &Value) -> String {
    let mut further = further_fields(input, &["request", "documents"]);
    for (is_engines, field) in [(tool.background, "wait"), (tool.follow_up, "continues")] {
        if is_engines {
            further.shift_remove(field);
        }
    }
    text_with_fields(input, "request", further)
}

/// Returns the text of a question. The fields that its tool declares in addition follow as JSON.
pub fn question(input: &Value) -> String {
    let mut further = further_fields(input, &["question", "documents"]);
    further.retain(|field, _| !QUESTION_SETTINGS.contains(&field.as_str()));
    text_with_fields(input, "question", further)
}

/// Returns the fields of `input` other than `known`, in their order.
pub fn further_fields(input: &Value, known: &[&str]) -> serde_json::Map<String, Value> {
    let fields = input.as_object().into_iter().flatten();
    fields.filter(|(field, _)| !known.contains(&field.as_str())).map(|(field, value)| (field.clone(), value.clone())).collect()
}

fn text_with_fields(input: &Value, text: &str, further: serde_json::Map<String, Value>) -> String {
    let text = input.get(text).and_then(Value::as_str).unwrap_or_default();
    if further.is_empty() { text.to_owned() } else { format!("{text}\n\n{}", Json::from(Value::Object(further)).text()) }
}
