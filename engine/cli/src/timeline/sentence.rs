//! A row of the timeline as one readable line: `write_file(path: a.md) → success`, `← result from analyst: …`.

use baton_core::money::Money;
use serde_json::Value;

use super::Row;
use crate::screen::style;
use crate::words;

/// How much of one value of an input is shown.
const VALUE: usize = 60;

/// What `row` says, in words; its own name stands first where nothing better does.
pub(crate) fn sentence(row: &Row) -> String {
    let (input, result) = (&row.input, &row.result);
    let tool = style::name(words::one_line(row.tool.as_deref().unwrap_or_default()));
    match row.entry {
        "run_started" => format!("run of {} begins: {}", text(&input["job"]), text(&input["request"])),
        "task_created" => {
            let documents = attached(&input["documents"]);
            match text(&input["kind"]).as_str() {
                "question" => format!("is asked: {}{documents}", text(&input["request"])),
                _ => match &input["attempt"] {
                    Value::Null => format!("gets: {}{documents}", text(&input["request"])),
                    attempt => format!("tries again (attempt {attempt}): {}{documents}", text(&input["request"])),
                },
            }
        }
        "model_requested" => {
            let what = match &input["summarises_through"] {
                Value::Null => String::new(),
                turn => format!(" for a summary of turns up to {turn}"),
            };
            style::faint(format!(
                "asks {}{what} (turn {}, ≈{} tokens)",
                text(&input["model"]),
                input["turn"],
                words::count(input["input_tokens"].as_u64().unwrap_or_default())
            ))
        }
        "call_asked_model" => style::faint(format!(
            "asks {} for a call's code (≈{} tokens)",
            text(&input["model"]),
            words::count(input["input_tokens"].as_u64().unwrap_or_default())
        )),
        "compacted" => format!(
            "turns up to {} give way to a {}: ≈{} tokens next",
            result["through_turn"],
            if result["summary"].is_null() { "digest".to_owned() } else { format!("summary ({})", preview(&result["summary"])) },
            words::count(result["context_tokens"].as_u64().unwrap_or_default())
        ),
        "fell_back" => {
            let why = style::bad(text(&result["error"]["message"]));
            format!("asks {} instead of {} (turn {}): {why}", text(&input["model"]), text(&input["instead_of"]), input["turn"])
        }
        "model_answered" => {
            let calls: Vec<String> = result["calls"].as_array().into_iter().flatten().map(text).collect();
            let said = text(&result["text"]);
            let arrow = if calls.is_empty() { String::new() } else { format!("calls {}", calls.join(", ")) };
            let gap = if said.is_empty() || arrow.is_empty() { "" } else { " · " };
            format!("{said}{gap}{arrow}")
        }
        "budget_settled" => {
            let usage = &result["usage"];
            let sign = if usage["estimated"] == true { "≈" } else { "" };
            let count = |key: &str| words::count(usage[key].as_u64().unwrap_or_default());
            let cost = match result["cost_usd"].as_f64() {
                Some(usd) => Money::from_usd(usd).to_string(),
                None => "? (no known price)".to_owned(),
            };
            let who = if row.call.is_some() { "a call's code " } else { "" };
            style::faint(format!("{who}used {sign}{} in, {sign}{} out: {cost}", count("input_tokens"), count("output_tokens")))
        }
        "call_started" => match result {
            Value::String(arrow) => format!("{tool} {arrow}"),
            _ => format!("{tool}({})", arguments(input)),
        },
        "call_refused" => {
            format!("{tool}({}) {}", arguments(input), style::bad(format!("refused: {}", text(&result["error"]["message"]))))
        }
        "call_approved" => format!("{tool}({}) approved", arguments(input)),
        "call_finished" => {
            let from = result.get("from").map(|from| format!("{}: ", text(from)));
            format!("{tool} {}{}{}", from.unwrap_or_else(|| "→ ".to_owned()), outcome(result), attached(&result["documents"]))
        }
        "document_written" => format!(
            "{} v{} · {} · ≈{} tokens",
            text(&result["path"]),
            result["version"],
            words::size(result["size_bytes"].as_u64().unwrap_or_default()),
            words::count(result["token_count"].as_u64().unwrap_or_default())
        ),
        "question_opened" => format!("{} from {} to {}", text(&input["question"]), text(&input["asker"]), text(&input["holder"])),
        "question_closed" => format!("{} closed: {}", text(&input["question"]), arguments(result)),
        "task_ended" => {
            let limit = result.get("limit").map(|limit| format!(" at {}", text(limit))).unwrap_or_default();
            let again = result.get("retry_at").map(|at| format!(", tried again at {}", text(at))).unwrap_or_default();
            format!("{}{limit}{again}{}", text(&result["state"]), attached(&result["documents"]))
        }
        "run_ended" => format!("run {} ({})", text(&result["state"]), text(&result["status"])),
        _ => format!("{} {} {}", row.entry, arguments(input), arguments(result)),
    }
}

/// What came of a call.
fn outcome(result: &Value) -> String {
    if let Some(error) = result.get("error") {
        return style::bad(format!("{}: {}", text(&result["status"]), text(&error["message"])));
    }
    match &result["output"] {
        Value::Null => text(&result["status"]),
        output => arguments(output),
    }
}

fn preview(value: &Value) -> String {
    words::preview(&text(value), VALUE)
}

/// `path: a.md, content: # One …`, or a value that is no object.
fn arguments(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let pairs: Vec<String> = fields.iter().map(|(name, value)| format!("{name}: {}", preview(value))).collect();
            pairs.join(", ")
        }
        other => text(other),
    }
}

/// ` [a.md v1, b.csv v2]`, or nothing.
fn attached(documents: &Value) -> String {
    let names: Vec<String> = documents.as_array().into_iter().flatten().map(text).collect();
    if names.is_empty() { String::new() } else { format!(" [{}]", names.join(", ")) }
}

/// A value without quotes where it is text. What a model or a tool says must not reach the terminal as a command to it.
fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => words::one_line(text),
        other => words::one_line(&other.to_string()),
    }
}
