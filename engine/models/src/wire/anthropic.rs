//! Anthropic's messages.

use baton_schema::provider::CompiledTool;
use baton_types::message::Role;
use serde_json::{Map, Value, json};

use super::answer::is_cut;
use super::items::without_call;
use super::usage::usage;
use super::value::{Step, count, list, raw_text, text};
use super::{Answer, AnsweredCall, Document, Fault, Features, Piece, Said, WireError, WireRequest, within};

/// Returns the body of a request, without the conversation. Cached prefixes end with the system prompt, with the
/// documents of the task's request, and with the last message: three of the four that the provider allows. All are kept for the
/// same time.
pub(super) fn preamble(request: &WireRequest<'_>) -> Map<String, Value> {
    let mut body = Map::new();
    body.insert("model".to_owned(), Value::from(request.model));
    body.extend(request.output_limit());
    if request.stream {
        body.insert("stream".to_owned(), Value::from(true));
    }
    let mark = request.features.cache.mark();
    if let Some(mark) = mark.clone() {
        body.insert("cache_control".to_owned(), mark);
    }
    body.extend(request.other_settings(&["model", "max_tokens", "stream", "messages", "tools", "system", "cache_control"]));
    if !request.tools.is_empty() {
        body.insert("tools".to_owned(), request.tools.iter().map(|tool| self::tool(tool)).collect());
    }
    if let Some(schema) = request.result {
        within(&mut body, "output_config", "format", json!({"type": "json_schema", "schema": schema}));
    }
    if let Some(prompt) = request.prompt() {
        let mut prompt = json!({"type": "text", "text": prompt});
        if let Some(mark) = mark {
            prompt["cache_control"] = mark;
        }
        body.insert("system".to_owned(), json!([prompt]));
    }
    body
}

/// Encodes `said` as a message.
pub(super) fn word(said: &Said<'_>, vendor: &str, features: Features, messages: &mut Vec<Value>) {
    messages.push(match said.role {
        Role::Assistant => json!({"role": "assistant", "content": assistant(said, vendor)}),
        Role::User | Role::Tool => json!({"role": "user", "content": others(said, features)}),
    });
}

/// Returns a tool.
pub(crate) fn tool(tool: &CompiledTool) -> Value {
    json!({"name": tool.name, "description": tool.description, "input_schema": tool.parameters})
}

/// Encodes a turn of the model: as its vendor's own blocks, or as text and calls.
fn assistant(said: &Said<'_>, vendor: &str) -> Vec<Value> {
    if let Some(mut blocks) = said.own_items(vendor, true) {
        // A text without words is refused, except that signatures of thinking hold only where each block is as it was.
        let is_signed = blocks.iter().any(|block| matches!(text(block, "/type"), Some("thinking" | "redacted_thinking")));
        blocks.retain(|block| is_signed || text(block, "/type") != Some("text") || has_words(block));
        return blocks;
    }
    let mut blocks = Vec::new();
    for piece in &said.pieces {
        match piece {
            Piece::Text(text) if !text.trim().is_empty() => blocks.push(json!({"type": "text", "text": text})),
            Piece::Call { id, tool, input } => {
                let input: Value = serde_json::from_str(input).unwrap_or_else(|_| json!({}));
                blocks.push(json!({"type": "tool_use", "id": &**id, "name": tool, "input": input}));
            }
            Piece::Text(_) | Piece::Result { .. } | Piece::Document(_) | Piece::Items(_) => {}
        }
    }
    blocks
}

fn has_words(block: &Value) -> bool {
    text(block, "/text").is_some_and(|text| !text.trim().is_empty())
}

/// Encodes results first, as the provider demands, then the rest of the message.
fn others(said: &Said<'_>, features: Features) -> Vec<Value> {
    let (mut results, mut rest) = (Vec::new(), Vec::new());
    for piece in &said.pieces {
        match piece {
            Piece::Result { id, body, is_error, .. } => {
                let mut result = json!({"type": "tool_result", "tool_use_id": &**id, "content": body});
                if *is_error {
                    result["is_error"] = Value::from(true);
                }
                results.push(result);
            }
            Piece::Text(text) if !text.trim().is_empty() => rest.push(json!({"type": "text", "text": text})),
            Piece::Document(document) => rest.push(self::document(document, features)),
            Piece::Text(_) | Piece::Call { .. } | Piece::Items(_) => {}
        }
    }
    let shared = said.pieces.iter().take_while(|piece| matches!(piece, Piece::Document(_))).count();
    if let Some((last, mark)) = shared.checked_sub(1).filter(|_| said.opens).zip(features.cache.mark()) {
        rest[last]["cache_control"] = mark;
    }
    results.append(&mut rest);
    results
}

/// Returns a document as a block of its own kind.
fn document(document: &Document<'_>, features: Features) -> Value {
    let source = |data: &str| json!({"type": "base64", "media_type": document.media_type(), "data": data});
    if let Some(data) = document.image().filter(|_| features.images) {
        return json!({"type": "image", "source": source(data)});
    }
    let source = match (document.pdf().filter(|_| features.files), document.text()) {
        (Some(data), _) => source(data),
        (None, Some(text)) if !text.trim().is_empty() => json!({"type": "text", "media_type": "text/plain", "data": text}),
        _ => return json!({"type": "text", "text": document.envelope()}),
    };
    let version = document.version;
    let record = json!({
        "media_type": document.media_type(),
        "summary": version.content.summary,
        "description": version.description,
    });
    json!({"type": "document", "source": source, "title": document.title(), "context": record.to_string()})
}

/// Decodes a whole body.
pub(super) fn decode(body: &str) -> Result<Answer, WireError> {
    let value: Value = serde_json::from_str(body).map_err(|error| WireError::unreadable(error.to_string()))?;
    if let Some(fault) = Fault::in_envelope(&value) {
        return Err(WireError::Fault(fault));
    }
    if value.get("content").is_none() && value.get("stop_reason").is_none() {
        return Err(WireError::unreadable("it has neither content nor a reason to stop"));
    }
    let mut answer = Answer::default();
    for (index, block) in list(&value, "/content").iter().enumerate() {
        let input = || raw_text(body, &[Step::Key("content"), Step::At(index), Step::Key("input")]);
        take(&mut answer, block.clone(), || input().unwrap_or_default().to_owned());
    }
    head(&value, &mut answer);
    tail(&value, &value, &mut answer);
    Ok(answer)
}

/// Takes a block that is complete.
fn take(answer: &mut Answer, mut block: Value, arguments: impl FnOnce() -> String) {
    match text(&block, "/type") {
        // Some models begin with a text without words, which is none of the agent's.
        Some("text") if !answer.text.is_empty() || has_words(&block) => {
            let begins_anew = answer.items.last().is_some_and(|before| text(before, "/type") != Some("text"));
            let place = answer.say(text(&block, "/text").unwrap_or_default(), begins_anew);
            block["text"] = place;
        }
        Some("tool_use") => {
            answer.calls.push(AnsweredCall {
                id: text(&block, "/id").map(str::to_owned),
                tool: text(&block, "/name").unwrap_or_default().to_owned(),
                arguments: arguments(),
            });
            without_call(&mut block);
        }
        _ => {}
    }
    answer.items.push(block);
}

/// Reads the facts at the head of a message.
fn head(message: &Value, answer: &mut Answer) {
    answer.id = text(message, "/id").map(str::to_owned);
    answer.model = text(message, "/model").map(str::to_owned);
}

/// Reads the finish reason from `delta` and the usage from `value`. The provider counts input without cached tokens;
/// here they are included.
fn tail(delta: &Value, value: &Value, answer: &mut Answer) {
    if let Some(finish) = text(delta, "/stop_reason") {
        answer.finish = Some(finish.to_owned());
    }
    answer.cost_usd = value.pointer("/usage/cost").and_then(Value::as_f64).or(answer.cost_usd);
    let cached = count(value, "/usage/cache_read_input_tokens");
    let input = count(value, "/usage/input_tokens").map(|fresh| {
        let written = count(value, "/usage/cache_creation_input_tokens").unwrap_or(0);
        fresh.saturating_add(written).saturating_add(cached.unwrap_or(0))
    });
    let output = count(value, "/usage/output_tokens");
    let reported = usage(input, output, cached, count(value, "/usage/output_tokens_details/thinking_tokens"));
    // The last events of a stream may count the answer alone.
    answer.usage = match (reported, answer.usage) {
        (Some(mut reported), Some(before)) => {
            if input.is_none() {
                (reported.input_tokens, reported.cached_tokens) = (before.input_tokens, before.cached_tokens);
            }
            Some(reported)
        }
        (reported, before) => reported.or(before),
    };
}

/// A stream of events.
#[derive(Clone, Debug, Default)]
pub(super) struct Stream {
    answer: Answer,
    /// The blocks that have begun, by index, each with the text of its input.
    open: Vec<(u64, Value, String)>,
    done: bool,
}

impl Stream {
    pub(super) fn event(&mut self, name: Option<&str>, data: &str) -> Result<(), WireError> {
        // Routers add the last word of another dialect.
        if self.done || data.trim() == "[DONE]" {
            return Ok(());
        }
        let event: Value = serde_json::from_str(data).map_err(|error| WireError::unreadable(error.to_string()))?;
        let index = count(&event, "/index").unwrap_or(0);
        match text(&event, "/type").or(name).unwrap_or_default() {
            "error" => {
                let fault = Fault::in_envelope(&event).unwrap_or_else(|| Fault::of_object(&event));
                return Err(WireError::Fault(fault));
            }
            "message_start" => {
                let message = event.get("message").unwrap_or(&Value::Null);
                head(message, &mut self.answer);
                tail(message, message, &mut self.answer);
            }
            "content_block_start" => {
                let block = event.get("content_block").cloned().unwrap_or_default();
                self.open.push((index, block, String::new()));
            }
            "content_block_delta" => {
                let Some((_, block, input)) = self.open.iter_mut().rfind(|(open, ..)| *open == index) else {
                    return Err(WireError::unreadable(format!("block {index} continues without a start")));
                };
                grow(block, input, event.get("delta").unwrap_or(&Value::Null));
            }
            "content_block_stop" => {
                if let Some(at) = self.open.iter().position(|(open, ..)| *open == index) {
                    let (_, block, input) = self.open.remove(at);
                    close(&mut self.answer, block, input);
                }
            }
            "message_delta" => {
                let delta = event.get("delta").unwrap_or(&Value::Null);
                tail(delta, &event, &mut self.answer);
            }
            "message_stop" => self.done = true,
            _ => {
                if let Some(fault) = Fault::in_envelope(&event) {
                    return Err(WireError::Fault(fault));
                }
            }
        }
        Ok(())
    }

    pub(super) fn is_complete(&self) -> bool {
        self.done
    }

    pub(super) fn finish(mut self) -> Result<Answer, WireError> {
        if !self.done {
            return Err(WireError::Cut { expected: "message_stop" });
        }
        let is_cut = self.answer.finish.as_deref().is_some_and(is_cut);
        for (index, block, input) in std::mem::take(&mut self.open) {
            // The output limit may cut an answer within a block.
            if !is_cut {
                return Err(WireError::unreadable(format!("block {index} never ended")));
            }
            close(&mut self.answer, block, input);
        }
        Ok(self.answer)
    }
}

/// Continues a block that has begun.
fn grow(block: &mut Value, input: &mut String, delta: &Value) {
    match text(delta, "/type").unwrap_or_default() {
        "input_json_delta" => input.push_str(text(delta, "/partial_json").unwrap_or_default()),
        "citations_delta" => {
            if let (Some(block), Some(citation)) = (block.as_object_mut(), delta.get("citation")) {
                let citations = block.entry("citations").or_insert_with(|| json!([]));
                if !citations.is_array() {
                    *citations = json!([]);
                }
                citations.as_array_mut().expect("it was just made a list").push(citation.clone());
            }
        }
        // Text, thinking, signatures and whatever comes to be: words that belong to the key of their name.
        _ => {
            let words = delta.as_object().into_iter().flatten().filter(|(key, value)| *key != "type" && value.is_string());
            for (key, words) in words {
                let before = block.get(key).and_then(Value::as_str).unwrap_or_default();
                let joined = format!("{before}{}", words.as_str().unwrap_or_default());
                if let Some(block) = block.as_object_mut() {
                    block.insert(key.clone(), Value::from(joined));
                }
            }
        }
    }
}

/// Ends a block. The input of a call is the text that came for it, or its initial value.
fn close(answer: &mut Answer, mut block: Value, input: String) {
    let began = block.get("input").filter(|input| !input.is_null()).map(Value::to_string).unwrap_or_default();
    // The provider's own tools are called in blocks as well, which it wants back whole.
    if !input.is_empty()
        && text(&block, "/type") != Some("tool_use")
        && let Ok(read) = serde_json::from_str::<Value>(&input)
        && let Some(block) = block.as_object_mut()
    {
        block.insert("input".to_owned(), read);
    }
    take(answer, block, || if input.is_empty() { began } else { input });
}
