//! Answers of a person: the choices that a question offers, and the conversion of a typed line into a valid value.

use baton_types::json::{self, Json};
use serde_json::{Value, json};

use crate::{shell, words};

/// The largest number of choices in a message, and the largest width of each, since an agent writes them.
pub(crate) const CHOICES_SHOWN: usize = 24;
const LABEL_WIDTH: usize = 120;

/// One of the choices that a question offers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Choice {
    /// The text that the person reads and may type.
    pub(crate) label: String,
    /// The value that the asker receives.
    pub(crate) value: Value,
}

/// Returns the choices that `schema` offers; none if it accepts free answers.
///
/// An object with exactly one required key, whose value is a choice, is answered by that choice. An approval is thus answered by
/// `yes` or `no`.
pub(crate) fn choices(schema: &Json) -> Vec<Choice> {
    let schema = schema.value();
    match decisive(&schema) {
        Some((key, inner)) => {
            let wrap = |choice: Choice| Choice { value: json!({key: choice.value}), ..choice };
            choices_of(inner).into_iter().map(wrap).collect()
        }
        None => choices_of(&schema),
    }
}

/// Returns the only required key of an answer, with its schema; `None` if there is not exactly one.
fn decisive(schema: &Value) -> Option<(&str, &Value)> {
    match schema["required"].as_array()?.as_slice() {
        [Value::String(key)] if schema["type"] == "object" => Some((key, schema["properties"].get(key)?)),
        _ => None,
    }
}

/// Returns the key of `schema` for a remark after the choice: its only other field that is a text.
fn remark(schema: &Value) -> Option<&str> {
    let (decisive, _) = decisive(schema)?;
    let mut texts = schema["properties"].as_object()?.iter().filter(|(key, part)| *key != decisive && part["type"] == "string");
    match (texts.next(), texts.next()) {
        (Some((key, _)), None) => Some(key),
        _ => None,
    }
}

fn choices_of(schema: &Value) -> Vec<Choice> {
    let readable = |label: &str| words::preview(label, LABEL_WIDTH).as_str().to_owned();
    let label = |value: &Value| value.as_str().map_or_else(|| readable(&value.to_string()), readable);
    if let Some(values) = schema["enum"].as_array() {
        return values.iter().map(|value| Choice { label: label(value), value: value.clone() }).collect();
    }
    if schema["type"] == "boolean" {
        return vec![
            Choice { label: "yes".to_owned(), value: json!(true) },
            Choice { label: "no".to_owned(), value: json!(false) },
        ];
    }
    let options = schema["oneOf"].as_array().or_else(|| schema["anyOf"].as_array());
    options
        .into_iter()
        .flatten()
        .filter_map(|option| {
            let value = option.get("const")?;
            let title = option.get("title").and_then(Value::as_str).map(readable);
            Some(Choice { label: title.unwrap_or_else(|| label(value)), value: value.clone() })
        })
        .collect()
}

/// Returns an example of an answer to type after `baton answer RUN Q1`, for a question with `schema`.
pub(crate) fn example(schema: Option<&Json>) -> String {
    let offered = schema.map(choices).unwrap_or_default();
    match offered.first() {
        // An agent's label may have a special meaning for a shell, so the example uses its number.
        Some(choice) if !shell::is_plain_word(&choice.label) => "1".to_owned(),
        Some(choice) => choice.label.clone(),
        None => "\"…\"".to_owned(),
    }
}

/// Reads `typed` as an answer to a question with `schema`: a choice's number or label, text, or JSON.
///
/// Text that the schema accepts is taken as text; other text is parsed as JSON. The error describes the accepted answers.
pub(crate) fn read_answer(schema: &Json, typed: &str) -> Result<Value, String> {
    let typed = typed.trim();
    if typed.is_empty() {
        return Err("an answer cannot be empty".to_owned());
    }
    let offered = choices(schema);
    let numbered = typed.parse::<usize>().ok().and_then(|number| offered.get(number.checked_sub(1)?));
    let labelled = offered.iter().find(|choice| choice.label.eq_ignore_ascii_case(typed));
    if let Some(choice) = labelled.or(numbered) {
        return Ok(choice.value.clone());
    }
    if let Some(answer) = with_remark(&schema.value(), &offered, typed) {
        return Ok(answer);
    }
    let text = Value::String(typed.to_owned());
    let Err(reason) = check(schema, &text) else { return Ok(text) };
    let parsed = json::read::<Value>(typed);
    // An object is an answer in JSON, and never the label of a choice: its own fault is reported.
    let is_whole = offered.is_empty() || (typed.starts_with('{') && schema.value()["type"] == "object");
    match parsed.map(|value| check(schema, &value).map(|()| value)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(reason)) if is_whole => Err(reason),
        Err(_) if offered.is_empty() => Err(reason),
        Err(error) if is_whole => Err(format!("it is not JSON: {error}")),
        Ok(Err(_)) | Err(_) => {
            let labels: Vec<&str> = offered.iter().take(CHOICES_SHOWN).map(|choice| choice.label.as_str()).collect();
            let more = if offered.len() > labels.len() { ", …" } else { "" };
            Err(format!("\"{}\" is not one of {}{more}", words::preview(typed, LABEL_WIDTH).as_str(), labels.join(", ")))
        }
    }
}

/// Returns the choice and the remark after it, if the question takes one: `no it is too late`, `no: it is too late`.
fn with_remark(schema: &Value, offered: &[Choice], typed: &str) -> Option<Value> {
    let key = remark(schema)?;
    let (label, words) = typed.split_once([' ', ':', ','])?;
    let choice = offered.iter().find(|choice| choice.label.eq_ignore_ascii_case(label))?;
    let mut answer = choice.value.clone();
    answer[key] = json!(words.trim_start_matches([' ', ':', ',']));
    Some(answer)
}

/// Checks `answer` against `schema`. A question without a schema accepts any answer.
pub(crate) fn check(schema: &Json, answer: &Value) -> Result<(), String> {
    if schema.is_null() {
        return Ok(());
    }
    let schema = baton_schema::compile(&schema.value())?;
    schema.check(answer).map_err(|faults| {
        let texts: Vec<String> = faults
            .iter()
            .map(|fault| {
                if fault.pointer.is_empty() { fault.message.clone() } else { format!("{} (at {})", fault.message, fault.pointer) }
            })
            .collect();
        texts.join("; ")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(value: Value) -> Json {
        Json::from(value)
    }

    #[test]
    fn a_choice_is_taken_by_number_and_by_label() {
        let schema = schema(json!({"type": "string", "enum": ["revenue", "units"]}));
        assert_eq!(read_answer(&schema, "1"), Ok(json!("revenue")));
        assert_eq!(read_answer(&schema, " Units "), Ok(json!("units")));
        assert_eq!(read_answer(&schema, "profit"), Err("\"profit\" is not one of revenue, units".to_owned()));
        assert!(read_answer(&schema, "3").is_err());
    }

    #[test]
    fn no_label_commands_a_terminal_or_a_shell() {
        let labelled = |label: &str| schema(json!({"enum": [label, "no"]}));
        assert_eq!(choices(&labelled("\u{1b}[2Jy\u{202e}es\n"))[0].label, "\\u{1b}[2Jy\\u{202e}es");
        for label in ["$(reboot)", "`reboot`", "a b", "-f", "!!", "~", "a\\", ""] {
            assert_eq!(example(Some(&labelled(label))), "1", "{label}");
            assert_eq!(read_answer(&labelled(label), "1"), Ok(json!(label)));
        }
        assert_eq!(example(Some(&labelled("Q3-2024"))), "Q3-2024");
        let many: Vec<String> = (0..2_000).map(|number| format!("choice {number} {}", "x".repeat(1_000))).collect();
        assert!(read_answer(&schema(json!({"enum": many})), "none").unwrap_err().len() < 8_000);
        assert_eq!(read_answer(&schema(json!({"enum": many})), &many[1_999]), Ok(json!(many[1_999])));
    }

    #[test]
    fn a_label_outranks_a_number() {
        let schema = schema(json!({"enum": [2, 1]}));
        assert_eq!(read_answer(&schema, "2"), Ok(json!(2)));
    }

    #[test]
    fn free_text_stays_text_and_numbers_become_numbers_where_the_schema_says_so() {
        assert_eq!(read_answer(&Json::null(), "15"), Ok(json!("15")));
        assert_eq!(read_answer(&schema(json!({"type": "number"})), "15"), Ok(json!(15)));
        assert!(read_answer(&schema(json!({"type": "number"})), "many").is_err());
        assert_eq!(read_answer(&schema(json!({"type": "boolean"})), "yes"), Ok(json!(true)));
        assert_eq!(read_answer(&schema(json!({"type": "object", "required": ["a"]})), r#"{"a": 1}"#), Ok(json!({"a": 1})));
        assert!(read_answer(&Json::null(), "  ").is_err());
    }

    #[test]
    fn an_approval_is_answered_by_yes_or_no_with_a_reason_if_there_is_one() {
        let approval = schema(json!({
            "type": "object", "required": ["approved"], "additionalProperties": false,
            "properties": {"approved": {"type": "boolean"}, "reason": {"type": "string"}}
        }));
        assert_eq!(example(Some(&approval)), "yes");
        assert_eq!(read_answer(&approval, "yes"), Ok(json!({"approved": true})));
        assert_eq!(read_answer(&approval, "2"), Ok(json!({"approved": false})));
        let denied = json!({"approved": false, "reason": "it is too late"});
        assert_eq!(read_answer(&approval, "no it is too late"), Ok(denied.clone()));
        assert_eq!(read_answer(&approval, "No: it is too late"), Ok(denied.clone()));
        assert_eq!(read_answer(&approval, &denied.to_string()), Ok(denied));
        for (whole, fault) in [(r#"{"approved": true, "foo": 1}"#, "foo"), (r#"{"approved": 1}"#, "/approved"), ("{", "not JSON")]
        {
            let reason = read_answer(&approval, whole).unwrap_err();
            assert!(reason.contains(fault) && !reason.contains("yes, no"), "{reason}");
        }
        assert_eq!(read_answer(&approval, "perhaps"), Err("\"perhaps\" is not one of yes, no".to_owned()));
        // A question with two texts takes no remark, since it would not be clear which of the two is meant.
        let two = schema(json!({
            "type": "object", "required": ["go"],
            "properties": {"go": {"type": "boolean"}, "a": {"type": "string"}, "b": {"type": "string"}}
        }));
        assert!(read_answer(&two, "no never").is_err());
    }

    #[test]
    fn titled_choices_are_shown_by_title() {
        let schema = schema(json!({"oneOf": [{"const": 1, "title": "once"}, {"const": 2}]}));
        let labels: Vec<String> = choices(&schema).into_iter().map(|choice| choice.label).collect();
        assert_eq!(labels, ["once", "2"]);
        assert_eq!(read_answer(&schema, "once"), Ok(json!(1)));
    }
}
