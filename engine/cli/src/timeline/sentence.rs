//! A row of the timeline as one readable line: `write_file(path: a.md) → success`, `← result from analyst: …`.

use baton_core::entry::Holder;
use baton_core::money::Money;
use baton_core::principal::Principal;
use serde::Deserialize;
use serde_json::Value;

use super::Row;
use crate::screen::style;
use crate::text::{Text, text};
use crate::words;

/// How much of one value of an input is shown.
const VALUE: usize = 60;

/// What `row` says, in words; its own name stands first where nothing better does.
pub(crate) fn sentence(row: &Row) -> Text {
    let (input, result) = (&row.input, &row.result);
    let tool = style::name(Text::line(row.tool.as_deref().unwrap_or_default()));
    match row.entry {
        "run_started" => text!("run of {} begins: {}", shown(&input["job"]), shown(&input["request"])),
        "task_created" => {
            let request = text!("{}{}", shown(&input["request"]), attached(&input["documents"]));
            match (&input["kind"], &input["attempt"]) {
                (Value::String(kind), _) if kind == "question" => text!("is asked: {}", request),
                (_, Value::Null) => text!("gets: {}", request),
                (_, attempt) => text!("tries again (attempt {attempt}): {}", request),
            }
        }
        "model_requested" => {
            let what = match &input["summarises_through"] {
                Value::Null => String::new(),
                turn => format!(" for a summary of turns up to {turn}"),
            };
            let tokens = words::count(input["input_tokens"].as_u64().unwrap_or_default());
            style::faint(text!("asks {}{what} (turn {}, ≈{tokens} tokens)", shown(&input["model"]), input["turn"]))
        }
        "call_asked_model" => {
            let tokens = words::count(input["input_tokens"].as_u64().unwrap_or_default());
            style::faint(text!("asks {} for a call's code (≈{tokens} tokens)", shown(&input["model"])))
        }
        "compacted" => {
            let what = match &result["summary"] {
                Value::Null => text!("digest"),
                summary => text!("summary ({})", preview(summary)),
            };
            let tokens = words::count(result["context_tokens"].as_u64().unwrap_or_default());
            text!("turns up to {} are replaced by a {}: ≈{tokens} tokens next", result["through_turn"], what)
        }
        "fell_back" => {
            let why = style::bad(shown(&result["error"]["message"]));
            text!("asks {} instead of {} (turn {}): {}", shown(&input["model"]), shown(&input["instead_of"]), input["turn"], why)
        }
        "model_answered" => {
            let calls = Text::joined(result["calls"].as_array().into_iter().flatten().map(shown), ", ");
            let said = shown(&result["text"]);
            let calls = if calls.is_empty() { calls } else { text!("calls {}", calls) };
            let gap = if said.is_empty() || calls.is_empty() { "" } else { " · " };
            text!("{}{gap}{}", said, calls)
        }
        "budget_settled" => {
            let usage = &result["usage"];
            let sign = if usage["estimated"] == true { "≈" } else { "" };
            let count = |key: &str| words::count(usage[key].as_u64().unwrap_or_default());
            let cost = match result["cost_usd"].as_f64() {
                Some(usd) => Money::from_usd(usd).to_string(),
                None => "? (no known price)".to_owned(),
            };
            if result["unknown"] == true {
                let reserved = words::count(result["reserved_tokens"].as_u64().unwrap_or_default());
                return style::faint(text!("may have used up to {} tokens: nobody knows", reserved));
            }
            let who = if row.call.is_some() { "a call's code " } else { "" };
            style::faint(text!("{who}used {sign}{} in, {sign}{} out: {cost}", count("input_tokens"), count("output_tokens")))
        }
        "call_started" => match result {
            Value::String(arrow) => text!("{} {}", tool, Text::line(arrow)),
            _ => text!("{}({})", tool, arguments(input)),
        },
        "call_refused" => {
            let why = style::bad(text!("refused: {}", shown(&result["error"]["message"])));
            text!("{}({}) {}", tool, arguments(input), why)
        }
        "call_approved" => text!("{}({}) approved", tool, arguments(input)),
        "call_finished" => {
            let from = result.get("from").map_or_else(|| text!("→ "), |from| text!("{}: ", shown(from)));
            text!("{} {}{}{}", tool, from, outcome(result), attached(&result["documents"]))
        }
        "document_written" => text!(
            "{} v{} · {} · ≈{} tokens",
            shown(&result["path"]),
            result["version"],
            words::size(result["size_bytes"].as_u64().unwrap_or_default()),
            words::count(result["token_count"].as_u64().unwrap_or_default())
        ),
        "question_opened" => {
            text!("{} from {} to {}", shown(&input["question"]), who(&input["asker"]), who(&input["holder"]))
        }
        "question_closed" => text!("{} {}", shown(&input["question"]), closing(result)),
        "control" => text!("{} by {}", arguments(result), who(&input["by"])),
        "task_ended" => {
            let limit = result.get("limit").map(|limit| text!(" at {}", shown(limit))).unwrap_or_default();
            let again = result.get("retry_at").map(|at| text!(", tried again at {}", shown(at))).unwrap_or_default();
            text!("{}{}{}{}", shown(&result["state"]), limit, again, attached(&result["documents"]))
        }
        "run_ended" => text!("run {} ({})", shown(&result["state"]), shown(&result["status"])),
        _ => text!("{} {} {}", row.entry, arguments(input), arguments(result)),
    }
}

/// Who acted, was asked or holds a task.
fn who(value: &Value) -> Text {
    let holder = || Holder::deserialize(value).ok().map(|holder| holder.to_string());
    let known = Principal::deserialize(value).ok().map(|principal| principal.to_string()).or_else(holder);
    Text::line(&known.unwrap_or_default())
}

/// How a question closed.
fn closing(result: &Value) -> Text {
    if let Some(by) = result.get("answered_by") {
        let from = result.get("recorded").map(|from| text!(", in run {}", shown(&from["run"]))).unwrap_or_default();
        return text!("answered by {}{}: {}", who(by), from, preview(&result["answer"]));
    }
    match result.get("escalated_to") {
        Some(to) => text!("went on to {}", who(to)),
        None => text!("closed: {}", arguments(result)),
    }
}

/// What came of a call.
fn outcome(result: &Value) -> Text {
    if let Some(error) = result.get("error") {
        return style::bad(text!("{}: {}", shown(&result["status"]), shown(&error["message"])));
    }
    match &result["output"] {
        Value::Null => shown(&result["status"]),
        output => arguments(output),
    }
}

fn preview(value: &Value) -> Text {
    match value {
        Value::Null => Text::default(),
        Value::String(text) => words::preview(text, VALUE),
        other => words::preview(&other.to_string(), VALUE),
    }
}

/// `path: a.md, content: # One …`, or a value that is no object.
fn arguments(value: &Value) -> Text {
    match value {
        Value::Object(fields) => {
            let pairs = fields.iter().map(|(name, value)| text!("{}: {}", Text::line(name).cut(VALUE), preview(value)));
            Text::joined(pairs, ", ")
        }
        other => shown(other),
    }
}

/// ` [a.md v1, b.csv v2]`, or nothing.
fn attached(documents: &Value) -> Text {
    let names = Text::joined(documents.as_array().into_iter().flatten().map(shown), ", ");
    if names.is_empty() { names } else { text!(" [{}]", names) }
}

/// A value on one line, without quotes where it is text.
fn shown(value: &Value) -> Text {
    match value {
        Value::Null => Text::default(),
        Value::String(text) => Text::line(text),
        other => Text::line(&other.to_string()),
    }
}
