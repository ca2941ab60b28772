//! `OpenAI`'s responses. Nothing is kept at the provider: every request brings the whole conversation.

use baton_types::message::Role;
use serde_json::{Map, Value, json};

use super::items::without_call;
use super::value::{count, list, text};
use super::{Answer, AnsweredCall, Document, Fault, Features, Piece, Said, WireError, WireRequest, usage, within};

/// Returns the body of a request, without the conversation.
pub(super) fn preamble(request: &WireRequest<'_>) -> Map<String, Value> {
    let mut body = Map::new();
    body.insert("model".to_owned(), Value::from(request.model));
    if request.stream {
        body.insert("stream".to_owned(), Value::from(true));
    }
    body.insert("store".to_owned(), Value::from(false));
    if request.settings.contains_key("reasoning") || request.features.reasons(request.model) {
        // The answer then contains its reasoning in encrypted form, since the provider stores nothing. Models that do not reason
        // reject this key.
        body.insert("include".to_owned(), json!(["reasoning.encrypted_content"]));
    }
    let own = ["model", "stream", "input", "tools", "instructions", "max_tokens", request.features.output_limit];
    body.extend(request.other_settings(&own));
    body.extend(request.output_limit());
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            json!({
                "type": "function", "name": tool.name, "description": tool.description, "parameters": tool.parameters,
                "strict": tool.is_strict(),
            })
        });
        body.insert("tools".to_owned(), tools.collect());
    }
    if let Some(schema) = request.result {
        let format = json!({"type": "json_schema", "name": "result", "strict": true, "schema": schema});
        within(&mut body, "text", "format", format);
    }
    if let Some(prompt) = request.prompt() {
        body.insert("instructions".to_owned(), Value::from(prompt));
    }
    body
}

/// Encodes `said` as items.
pub(super) fn word(said: &Said<'_>, vendor: &str, features: Features, input: &mut Vec<Value>) {
    match said.role {
        Role::Assistant => assistant(said, vendor, input),
        Role::User | Role::Tool => others(said, features, input),
    }
}

/// Encodes a turn of the model: as its vendor's own items, or as text and calls.
fn assistant(said: &Said<'_>, vendor: &str, input: &mut Vec<Value>) {
    if let Some(mut items) = said.own_items(vendor, false) {
        let whole = items.len();
        items.retain(can_return);
        if items.len() < whole {
            // An item whose id is known there is refused without the reasoning that it followed.
            items.iter_mut().filter_map(Value::as_object_mut).for_each(|item| drop(item.shift_remove("id")));
        }
        input.append(&mut items);
        return;
    }
    for piece in &said.pieces {
        match piece {
            Piece::Text(text) => input.push(json!({"type": "message", "role": "assistant", "content": text})),
            Piece::Call { id, tool, input: arguments } => {
                input.push(json!({"type": "function_call", "call_id": &**id, "name": tool, "arguments": arguments}));
            }
            Piece::Result { .. } | Piece::Document(_) | Piece::Items(_) => {}
        }
    }
}

/// Whether an item can come back: reasoning that has neither a seal nor a content exists only where it was stored.
fn can_return(item: &Value) -> bool {
    item["type"] != "reasoning" || text(item, "/encrypted_content").is_some() || !list(item, "/content").is_empty()
}

/// Encodes results as items, then the rest.
fn others(said: &Said<'_>, features: Features, input: &mut Vec<Value>) {
    let mut content = Vec::new();
    for piece in &said.pieces {
        match piece {
            Piece::Result { id, body, .. } => {
                input.push(json!({"type": "function_call_output", "call_id": &**id, "output": body}));
            }
            Piece::Text(text) => content.push(json!({"type": "input_text", "text": text})),
            Piece::Document(document) => content.push(self::document(document, features)),
            Piece::Call { .. } | Piece::Items(_) => {}
        }
    }
    if !content.is_empty() {
        input.push(json!({"type": "message", "role": "user", "content": content}));
    }
}

fn document(document: &Document<'_>, features: Features) -> Value {
    if let Some(data) = document.image().filter(|_| features.images) {
        return json!({"type": "input_image", "image_url": document.data_url(data)});
    }
    if let Some(data) = document.pdf().filter(|_| features.files) {
        return json!({"type": "input_file", "filename": document.version.path, "file_data": document.data_url(data)});
    }
    json!({"type": "input_text", "text": document.envelope()})
}

/// Decodes a whole body.
pub(super) fn decode(body: &str) -> Result<Answer, WireError> {
    let value: Value = serde_json::from_str(body).map_err(|error| WireError::unreadable(error.to_string()))?;
    if value.get("output").is_none() && value.get("status").is_none() {
        return Err(fault(&value).map_or_else(|| WireError::unreadable("it has neither output nor a status"), WireError::Fault));
    }
    of_response(&value, list(&value, "/output"))
}

/// Returns the fault in `value`.
fn fault(value: &Value) -> Option<Fault> {
    Fault::in_envelope(value)
}

/// Returns the answer in a response with these output items.
fn of_response(response: &Value, output: &[Value]) -> Result<Answer, WireError> {
    if let Some(fault) = fault(response) {
        return Err(WireError::Fault(fault));
    }
    let status = text(response, "/status").unwrap_or_default();
    if matches!(status, "failed" | "cancelled") {
        return Err(WireError::Fault(Fault::of_words(status, "the provider gave up on its answer")));
    }
    if matches!(status, "queued" | "in_progress") {
        let message = format!("its answer is {status}, and is not waited for: remove the setting background");
        return Err(WireError::Fault(Fault::of_words("invalid_request_error", &message)));
    }
    let mut answer = Answer { finish: finish(response, status), ..Answer::default() };
    let has_final = output.iter().any(is_final);
    for item in output {
        let mut item = item.clone();
        take(&mut answer, &mut item, has_final);
        answer.items.push(item);
    }
    answer.id = text(response, "/id").map(str::to_owned);
    answer.model = text(response, "/model").map(str::to_owned);
    answer.usage = usage::RESPONSES.read(response);
    answer.cost_usd = response.pointer("/usage/cost").and_then(Value::as_f64);
    Ok(answer)
}

/// Returns the finish reason: the reason why the answer is incomplete, or its status.
fn finish(response: &Value, status: &str) -> Option<String> {
    let reason = text(response, "/incomplete_details/reason").filter(|_| status == "incomplete");
    reason.or(Some(status).filter(|status| !status.is_empty())).map(str::to_owned)
}

/// Whether `item` is a message of the final answer, and no commentary on the way there.
fn is_final(item: &Value) -> bool {
    text(item, "/phase") == Some("final_answer")
}

/// Takes an output item that is complete. Where the answer `has_final` messages, they alone are its text.
fn take(answer: &mut Answer, item: &mut Value, has_final: bool) {
    match text(item, "/type") {
        Some("message") if !has_final || is_final(item) => {
            let parts = item.get_mut("content").and_then(Value::as_array_mut).into_iter().flatten();
            for (index, part) in parts.enumerate() {
                if let Some(refusal) = text(part, "/refusal") {
                    answer.refusal.get_or_insert_default().push_str(refusal);
                }
                if let Some(said) = text(part, "/text").map(|text| answer.say(text, index == 0)) {
                    part["text"] = said;
                }
            }
        }
        Some("function_call") => {
            answer.calls.push(AnsweredCall {
                id: text(item, "/call_id").or_else(|| text(item, "/id")).map(str::to_owned),
                tool: text(item, "/name").unwrap_or_default().to_owned(),
                arguments: text(item, "/arguments").unwrap_or_default().to_owned(),
            });
            without_call(item);
        }
        _ => {}
    }
}

/// A stream of events. Only items that are complete count; the last event repeats them all.
#[derive(Clone, Debug, Default)]
pub(super) struct Stream {
    items: Vec<(u64, Value)>,
    last: Option<Value>,
}

impl Stream {
    pub(super) fn event(&mut self, name: Option<&str>, data: &str) -> Result<(), WireError> {
        if self.last.is_some() || data.trim() == "[DONE]" {
            return Ok(());
        }
        let mut event: Value = serde_json::from_str(data).map_err(|error| WireError::unreadable(error.to_string()))?;
        match text(&event, "/type").or(name).unwrap_or_default() {
            "response.output_item.done" => {
                let at = count(&event, "/output_index").unwrap_or(self.items.len() as u64);
                self.items.push((at, event["item"].take()));
            }
            "response.completed" | "response.incomplete" | "response.failed" | "response.cancelled" => {
                self.last = Some(event["response"].take());
            }
            "error" => {
                return Err(WireError::Fault(fault(&event).unwrap_or_else(|| Fault::of_object(&event))));
            }
            _ => {
                if let Some(fault) = fault(&event) {
                    return Err(WireError::Fault(fault));
                }
            }
        }
        Ok(())
    }

    pub(super) fn is_complete(&self) -> bool {
        self.last.is_some()
    }

    pub(super) fn finish(mut self) -> Result<Answer, WireError> {
        let last = self.last.ok_or(WireError::Cut { expected: "response.completed" })?;
        let whole = list(&last, "/output");
        if !whole.is_empty() {
            return of_response(&last, whole);
        }
        self.items.sort_by_key(|(at, _)| *at);
        let items: Vec<Value> = self.items.into_iter().map(|(_, item)| item).collect();
        of_response(&last, &items)
    }
}
