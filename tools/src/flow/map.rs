//! `map`: one tool or agent over a list of items.
//!
//! Failures are data: each item has a result, also an item that lacks what the input reads. Faults of
//! all items and exceeded limits are refused before the first call.

use baton_macros::tool;
use baton_tool::{ToolContext, ToolError, ToolErrorKind};
use baton_types::call::{CallResult, CallStatus, ModelCall};
use baton_types::json;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::filling::{FillError, Room, Values, reason_of};
use super::reference::Template;

/// The most items of one call.
const MAX_ITEMS: usize = 10_000;

/// Calls at the same time (default).
const CONCURRENCY: usize = 8;

/// The most calls at the same time.
const MAX_CONCURRENCY: usize = 100;

/// The names that an input may read.
const NAMES: [&str; 2] = ["item", "index"];

/// Output of `map`.
#[derive(Debug, Serialize)]
struct Mapped {
    /// One result for each item, in the order of the items.
    results: Vec<ItemResult>,
    succeeded: usize,
    failed: usize,
}

/// The result of one item.
#[derive(Debug, Serialize)]
struct ItemResult {
    status: CallStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl ItemResult {
    /// Returns the result of an item for which no call can be made.
    fn without_call(reason: &str) -> Self {
        Self { status: CallStatus::Failed, output: None, error: Some(format!("no call was made: {reason}")) }
    }

    fn new(result: &CallResult, template: &Template) -> Self {
        let (status, output) = (result.status, result.output.value());
        // A partial output may still be useful.
        let output = matches!(status, CallStatus::Success | CallStatus::Partial).then_some(output);
        let error = (status != CallStatus::Success).then(|| reason_of(result, template));
        Self { status, output: output.filter(|output| status == CallStatus::Success || !output.is_null()), error }
    }
}

/// Calls `tool` once for each of `items`, or for each value of the list in `document`, with `input` for that item.
#[tool]
async fn map(
    context: &ToolContext,
    tool: String,
    input: Map<String, Value>,
    items: Option<Vec<Value>>,
    document: Option<String>,
    concurrency: Option<usize>,
) -> Result<Mapped, ToolError> {
    let items = match (items, document) {
        (Some(items), None) => items,
        (None, Some(path)) => items_in(&path, &context.read_text(&path).await?)?,
        (Some(_), Some(_)) | (None, None) => return Err(invalid("exactly one of items and document is needed")),
    };
    if items.len() > MAX_ITEMS {
        return Err(invalid(format!("a call takes {MAX_ITEMS} items at most, and these are {}", items.len())));
    }
    let template = template_of(input).map_err(invalid)?;
    let calls = calls_of(&tool, &template, items).map_err(invalid)?;
    context.check_ahead(calls.iter().flatten().cloned().collect()).await?;
    let at_once = concurrency.unwrap_or(CONCURRENCY).clamp(1, MAX_CONCURRENCY);
    let mut results: Vec<Option<ItemResult>> =
        calls.iter().map(|call| call.as_ref().err().map(|reason| ItemResult::without_call(reason))).collect();
    let calls = calls.into_iter().enumerate().filter_map(|(index, call)| Some((index, call.ok()?)));
    let (mut running, mut left) = (FuturesUnordered::new(), calls);
    loop {
        while running.len() < at_once
            && let Some((index, call)) = left.next()
        {
            running.push(async move {
                let name = (index + 1).to_string();
                (index, context.call_tool(Some(&name), &call.tool, call.input).await)
            });
        }
        let Some((index, result)) = running.next().await else { break };
        results[index] = Some(ItemResult::new(&*result?, &template));
    }
    let results: Vec<ItemResult> = results.into_iter().flatten().collect();
    let succeeded = results.iter().filter(|result| result.status == CallStatus::Success).count();
    let failed = results.len() - succeeded;
    Ok(Mapped { results, succeeded, failed })
}

fn invalid(message: impl Into<String>) -> ToolError {
    ToolError::new(message.into()).of_kind(ToolErrorKind::InvalidInput)
}

/// Returns the items in a document: the values of a JSON array, or one JSON value in each line. One line with an array is that array.
fn items_in(path: &str, text: &str) -> Result<Vec<Value>, ToolError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let not_an_array = match json::read(text) {
        Ok(Value::Array(items)) => return Ok(items),
        Ok(_) => None,
        Err(error) => Some(error),
    };
    let mut items = Vec::new();
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        match json::read(line) {
            Ok(item) => items.push(item),
            // The first line of an array in several lines is no value.
            Err(error) => {
                let error = match not_an_array.filter(|_| items.is_empty() && line.trim_start().starts_with('[')) {
                    Some(not_an_array) => format!("{path} is not a JSON array: {not_an_array}"),
                    None => format!("{path} has no JSON array, and line {number} is not a JSON value: {error}"),
                };
                return Err(invalid(error));
            }
        }
    }
    Ok(items)
}

/// Reads the references in the input.
fn template_of(input: Map<String, Value>) -> Result<Template, String> {
    let template = Template::parse(Value::Object(input))?;
    match template.references().into_iter().find(|reference| !NAMES.contains(&reference.name.as_str())) {
        None => Ok(template),
        Some(unknown) => {
            Err(format!("the input reads {unknown}; it may read ${{item}} and ${{index}}; for a text write ${unknown}"))
        }
    }
}

/// Returns the call for each item, or the reason why there is none for it.
///
/// # Errors
/// No item has what the input reads, or the inputs are too large together.
fn calls_of(tool: &str, template: &Template, items: Vec<Value>) -> Result<Vec<Result<ModelCall, String>>, String> {
    let room = Room::new();
    let call = |(index, item): (usize, Value)| {
        let number = json!(index);
        let of = |name: &str| Some(if name == "item" { &item } else { &number });
        match (Values { room: &room, of: &of, noun: &|name| format!("the {name}") }).fill(template, tool) {
            Ok(input) => Ok(Ok(ModelCall::new(tool, input))),
            Err(FillError::Value(reason)) => Ok(Err(reason)),
            Err(error @ FillError::NoRoom) => Err(format!("item {index}: {error}; no call was made")),
        }
    };
    let calls: Vec<Result<ModelCall, String>> = items.into_iter().enumerate().map(call).collect::<Result<_, _>>()?;
    match calls.first() {
        // The fault is then in the input.
        Some(Err(reason)) if calls.iter().all(Result::is_err) => {
            Err(format!("no item has what the input reads, and no call was made: item 0: {reason}"))
        }
        _ => Ok(calls),
    }
}

#[cfg(test)]
mod tests {
    use baton_tool::testing::block_on;
    use baton_types::call::{CallError, ErrorCode};

    use super::*;

    fn run(context: &ToolContext, input: Value, items: Option<Vec<Value>>, document: Option<&str>) -> Result<Value, ToolError> {
        let Value::Object(input) = input else { panic!("an input is an object") };
        let mapped = block_on(map(context, "t".to_owned(), input, items, document.map(str::to_owned), Some(2)))?;
        Ok(serde_json::to_value(mapped).unwrap())
    }

    fn context() -> ToolContext {
        let tool = |asked: &ModelCall| match asked.input.value()["n"].as_i64() {
            Some(3) => CallResult::error(CallStatus::Failed, CallError::new(ErrorCode::ToolFailed, "not three")),
            _ => CallResult::success(asked.input.value()),
        };
        let context = ToolContext::for_test().with_calls(tool).with_document("list.json", "[{\"n\": 1}]");
        let context = context.with_document("lines.jsonl", "{\"n\": 1}\n\n{\"n\": 3}\n").with_document("bad.jsonl", "1\nx\n");
        let context = context.with_document("lists.jsonl", "[1, 2]\r\n[3]\r\n").with_document("bad.json", "[\n1,\n");
        let context = context.with_document("marked.json", "\u{feff}[4, 5]").with_document("marked.jsonl", "\u{feff}\"a\"\n6\n");
        context.with_document("one.json", "{\n\"n\": 1}").build()
    }

    #[test]
    fn results_have_the_order_of_the_items_and_failures_are_data() {
        let items = [1, 3, 5].map(|n| json!({"n": n, "name": format!("n{n}")})).to_vec();
        let mapped = run(&context(), json!({"n": "${item.n}", "text": "${index}: ${item.name}"}), Some(items), None).unwrap();
        let expected = json!({
            "results": [
                {"status": "success", "output": {"n": 1, "text": "0: n1"}},
                {"status": "failed", "error": "not three"},
                {"status": "success", "output": {"n": 5, "text": "2: n5"}}
            ],
            "succeeded": 2,
            "failed": 1
        });
        assert_eq!(mapped, expected);
        assert_eq!(run(&context(), json!({}), Some(Vec::new()), None).unwrap()["results"], json!([]));
    }

    #[test]
    fn items_come_from_a_document() {
        let input = || json!({"n": "${item.n}"});
        assert_eq!(run(&context(), input(), None, Some("list.json")).unwrap()["succeeded"], 1);
        assert_eq!(run(&context(), input(), None, Some("lines.jsonl")).unwrap()["failed"], 1);
        let bad = run(&context(), input(), None, Some("bad.jsonl")).unwrap_err();
        assert!(bad.message.starts_with("bad.jsonl has no JSON array, and line 2 is not a JSON value"), "{}", bad.message);
        let cut = run(&context(), input(), None, Some("bad.json")).unwrap_err();
        assert!(cut.message.starts_with("bad.json is not a JSON array: EOF"), "{}", cut.message);
        let outputs = |path: &str| {
            let mapped = run(&context(), json!({"v": "${item}"}), None, Some(path)).unwrap();
            let results = mapped["results"].as_array().unwrap().iter();
            results.map(|result| result["output"]["v"].clone()).collect::<Vec<_>>()
        };
        assert_eq!(outputs("lists.jsonl"), [json!([1, 2]), json!([3])], "each line is an item, also if it is a list");
        assert_eq!(outputs("marked.json"), [json!(4), json!(5)], "a byte order mark is no content");
        assert_eq!(outputs("marked.jsonl"), [json!("a"), json!(6)]);
    }

    #[test]
    fn a_bad_input_is_refused_before_the_first_call() {
        let none = ToolContext::for_test().build();
        let refused = |input: Value, items: Option<Vec<Value>>| run(&none, input, items, None).unwrap_err().message;
        assert_eq!(refused(json!({}), None), "exactly one of items and document is needed");
        let unknown = refused(json!({"n": "${it.n}"}), Some(vec![json!(1)]));
        assert_eq!(unknown, "the input reads ${it.n}; it may read ${item} and ${index}; for a text write $${it.n}");
        let missing = refused(json!({"n": "${item.n}"}), Some(vec![json!({}), json!({"m": 1})]));
        let expected = "no item has what the input reads, and no call was made: item 0: ${item.n} is not in the item: it is an object with \
                        no keys";
        assert_eq!(missing, expected);
        let large = refused(json!({"n": "${item}"}), Some(vec![json!("x".repeat(1 << 20)); 65]));
        assert_eq!(large, "item 63: the inputs of all calls have more than 64 MiB together; no call was made");
    }

    #[test]
    fn an_item_that_lacks_a_field_fails_alone() {
        let items = vec![json!({"n": 1}), json!({}), json!({"n": 5})];
        let mapped = run(&context(), json!({"n": "${item.n}"}), Some(items), None).unwrap();
        let error = "no call was made: ${item.n} is not in the item: it is an object with no keys";
        let expected = json!({
            "results": [
                {"status": "success", "output": {"n": 1}},
                {"status": "failed", "error": error},
                {"status": "success", "output": {"n": 5}}
            ],
            "succeeded": 2,
            "failed": 1
        });
        assert_eq!(mapped, expected);
    }

    #[test]
    fn a_number_in_place_of_a_text_is_explained() {
        let tool = |asked: &ModelCall| {
            let is_text = asked.input.value()["t"].is_string();
            let faults = json!({"faults": [{"pointer": "/t", "message": "expected a string, found 5"}]});
            let error =
                CallError::new(ErrorCode::InvalidInput, "the input of t is invalid: expected a string").with_detail(faults);
            if is_text { CallResult::success(json!(1)) } else { CallResult::error(CallStatus::Failed, error) }
        };
        let context = ToolContext::for_test().with_calls(tool).build();
        let mapped = run(&context, json!({"t": "${item}"}), Some(vec![json!("x"), json!(5)]), None).unwrap();
        let expected = "the input of t is invalid: expected a string; \"${item}\" keeps the type of its value, and the tool takes \
                        a text: write \"${text item}\"";
        assert_eq!(mapped["results"][1]["error"], expected);
        let mapped = run(&context, json!({"t": "${text item}"}), Some(vec![json!("x"), json!(5)]), None).unwrap();
        assert_eq!(mapped["succeeded"], 2);
    }
}
