//! `OpenAI`'s chat completions, as many servers speak it.

use std::sync::Arc;

use baton_schema::provider::CompiledTool;
use baton_types::message::Role;
use serde_json::{Map, Value, json};

use super::answer::{Pieces, is_cut};
use super::message::{Message, add_call};
use super::value::{Step, count, list, raw_text, text};
use super::{Answer, AnsweredCall, Document, Fault, Features, Piece, Said, WireError, WireRequest, usage};

/// Marks the end of a stream.
const DONE: &str = "[DONE]";

/// Returns the body of a request, without the conversation.
pub(super) fn preamble(request: &WireRequest<'_>) -> Map<String, Value> {
    let mut body = Map::new();
    body.insert("model".to_owned(), Value::from(request.model));
    if request.stream {
        body.insert("stream".to_owned(), Value::from(true));
        if request.features.asks_for_usage {
            body.insert("stream_options".to_owned(), json!({"include_usage": true}));
        }
    }
    let own = ["model", "stream", "stream_options", "messages", "tools", "max_tokens", request.features.output_limit];
    body.extend(request.other_settings(&own));
    body.extend(request.output_limit());
    if !request.tools.is_empty() {
        body.insert("tools".to_owned(), tools(request.tools));
    }
    if let Some(schema) = request.result {
        let format = || json!({"type": "json_schema", "json_schema": {"name": "result", "strict": true, "schema": schema}});
        body.entry("response_format").or_insert_with(format);
    }
    body
}

/// Encodes `said` as messages.
pub(super) fn word(said: &Said<'_>, vendor: &str, features: Features, messages: &mut Vec<Value>) {
    match said.role {
        Role::Assistant => messages.push(assistant(said, vendor, features)),
        Role::User | Role::Tool => others(said, features, messages),
    }
}

/// Returns the list of tools in a request.
pub(crate) fn tools(tools: &[Arc<CompiledTool>]) -> Value {
    tools.iter().map(|tool| self::tool(tool)).collect()
}

/// Returns a tool as a function. `strict` is left out for servers that do not know it.
pub(crate) fn tool(tool: &CompiledTool) -> Value {
    let mut function = json!({"name": tool.name, "description": tool.description, "parameters": tool.parameters});
    if tool.is_strict() {
        function["strict"] = Value::from(true);
    }
    json!({"type": "function", "function": function})
}

/// Encodes a turn of the model: as its vendor's own message, or as text and calls.
fn assistant(said: &Said<'_>, vendor: &str, features: Features) -> Value {
    let mut message = match said.own_items(vendor, false).and_then(|mut items| items.pop()) {
        Some(Value::Object(own)) => own,
        _ => plain(said),
    };
    if features.plain_contents {
        message.entry("content").or_insert_with(|| Value::from(""));
    }
    Value::Object(message)
}

/// Encodes the text and the calls of a turn.
fn plain(said: &Said<'_>) -> Map<String, Value> {
    let mut message = Map::new();
    message.insert("role".to_owned(), Value::from("assistant"));
    let (mut content, mut calls) = (String::new(), Vec::new());
    for piece in &said.pieces {
        match piece {
            Piece::Text(text) => content.push_str(text),
            Piece::Call { id, tool, input } => calls.push(json!({
                "id": &**id,
                "type": "function",
                "function": {"name": tool, "arguments": input},
            })),
            Piece::Result { .. } | Piece::Document(_) | Piece::Items(_) => {}
        }
    }
    if !content.is_empty() {
        message.insert("content".to_owned(), Value::from(content));
    }
    if !calls.is_empty() {
        message.insert("tool_calls".to_owned(), Value::Array(calls));
    }
    message
}

/// Encodes each result as a message of its own, then the rest.
fn others(said: &Said<'_>, features: Features, messages: &mut Vec<Value>) {
    let mut content = Vec::new();
    for piece in &said.pieces {
        match piece {
            Piece::Result { id, body, .. } => messages.push(json!({"role": "tool", "tool_call_id": &**id, "content": body})),
            Piece::Text(text) => content.push(json!({"type": "text", "text": text})),
            Piece::Document(document) => content.push(self::document(document, features)),
            Piece::Call { .. } | Piece::Items(_) => {}
        }
    }
    match content.as_mut_slice() {
        [] => {}
        // What every server takes, however old.
        [only] if only["type"] == "text" => messages.push(json!({"role": "user", "content": only["text"].take()})),
        texts if features.plain_contents && texts.iter().all(|part| part["type"] == "text") => {
            let texts: Vec<&str> = texts.iter().filter_map(|part| part["text"].as_str()).collect();
            messages.push(json!({"role": "user", "content": texts.join("\n\n")}));
        }
        _ => messages.push(json!({"role": "user", "content": content})),
    }
}

fn document(document: &Document<'_>, features: Features) -> Value {
    if let Some(data) = document.image().filter(|_| features.images) {
        return json!({"type": "image_url", "image_url": {"url": document.data_url(data)}});
    }
    if let Some(data) = document.pdf().filter(|_| features.files) {
        return json!({"type": "file", "file": {"filename": document.version.path, "file_data": document.data_url(data)}});
    }
    json!({"type": "text", "text": document.envelope()})
}

/// Decodes a whole body.
pub(super) fn decode(body: &str) -> Result<Answer, WireError> {
    let value: Value = serde_json::from_str(body).map_err(|error| WireError::unreadable(error.to_string()))?;
    if let Some(fault) = Fault::in_envelope(&value) {
        return Err(WireError::Fault(fault));
    }
    let Some((at, choice)) = first_choice(&value) else {
        return Err(WireError::unreadable("it has no choices"));
    };
    fault_of_choice(choice)?;
    let (mut answer, mut message) = (Answer::default(), Message::default());
    let sent = choice.get("message").unwrap_or(&Value::Null);
    message.add(&mut answer, sent);
    answer.refusal = text(sent, "/refusal").map(str::to_owned);
    let calls: Vec<_> = list(sent, "/tool_calls")
        .iter()
        .enumerate()
        .map(|(index, call)| {
            let path = [Step::Key("choices"), Step::At(at), Step::Key("message"), Step::Key("tool_calls"), Step::At(index)];
            let answered = AnsweredCall {
                id: text(call, "/id").map(str::to_owned),
                tool: text(call, "/function/name").unwrap_or_default().to_owned(),
                arguments: arguments(call, || raw_text(body, &path)),
            };
            (answered, beside(call))
        })
        .collect();
    message.finish(&mut answer, calls.into_iter());
    answer.finish = finish(choice);
    envelope(&value, &mut answer);
    Ok(answer)
}

/// A stream of chunks.
#[derive(Clone, Debug, Default)]
pub(super) struct Stream {
    answer: Answer,
    calls: Pieces,
    message: Message,
    refusal: String,
    /// Whether chunks have a place for a reason to stop, and so will tell one.
    tells_finish: bool,
    done: bool,
}

impl Stream {
    pub(super) fn event(&mut self, data: &str) -> Result<(), WireError> {
        if data.trim() == DONE {
            self.done = true;
            return Ok(());
        }
        let chunk: Value = serde_json::from_str(data).map_err(|error| WireError::unreadable(error.to_string()))?;
        if let Some(fault) = Fault::in_envelope(&chunk) {
            return Err(WireError::Fault(fault));
        }
        envelope(&chunk, &mut self.answer);
        let Some((at, choice)) = first_choice(&chunk) else { return Ok(()) };
        fault_of_choice(choice)?;
        self.tells_finish |= choice.get("finish_reason").is_some();
        let delta = choice.get("delta").or_else(|| choice.get("message")).unwrap_or(&Value::Null);
        self.message.add(&mut self.answer, delta);
        self.refusal.push_str(text(delta, "/refusal").unwrap_or_default());
        for (index, call) in list(delta, "/tool_calls").iter().enumerate() {
            let path = [Step::Key("choices"), Step::At(at), Step::Key("delta"), Step::Key("tool_calls"), Step::At(index)];
            let arguments = arguments(call, || raw_text(data, &path));
            let known = self.calls.add(count(call, "/index"), text(call, "/id"), text(call, "/function/name"), &arguments);
            add_call(known, call, &OWN_OF_CALL);
        }
        self.answer.finish = finish(choice).or(self.answer.finish.take());
        Ok(())
    }

    pub(super) fn is_complete(&self) -> bool {
        self.done
    }

    pub(super) fn finish(mut self) -> Result<Answer, WireError> {
        // A finish reason ends the answer: some servers omit the protocol's last event, and some send it after half an
        // answer, when another request preempts the stream.
        if self.answer.finish.is_none() && (self.tells_finish || !self.done) {
            let expected = if self.done { "a finish reason" } else { "[DONE] or a finish reason" };
            return Err(WireError::Cut { expected });
        }
        let typed = |(call, mut beside): (_, Map<_, _>)| {
            beside.entry("type").or_insert_with(|| Value::from("function"));
            (call, beside)
        };
        self.message.finish(&mut self.answer, self.calls.finish().map(typed));
        self.answer.refusal = Some(self.refusal).filter(|refusal| !refusal.is_empty());
        Ok(self.answer)
    }
}

/// Keys of a call that a view shows, or that only a stream has.
const OWN_OF_CALL: [&str; 2] = ["id", "index"];

/// Returns what a whole call has besides its id, name and arguments.
fn beside(call: &Value) -> Map<String, Value> {
    let mut beside = Map::from_iter([("type".to_owned(), Value::from("function"))]);
    add_call(&mut beside, call, &OWN_OF_CALL);
    beside
}

/// Returns the choice of index 0, and its place in the list. Other choices were not requested.
fn first_choice(value: &Value) -> Option<(usize, &Value)> {
    list(value, "/choices").iter().enumerate().find(|(_, choice)| count(choice, "/index").unwrap_or(0) == 0)
}

/// Fails with the fault of a choice: the upstream of a router failed in the middle.
fn fault_of_choice(choice: &Value) -> Result<(), WireError> {
    if let Some(fault) = Fault::in_envelope(choice) {
        return Err(WireError::Fault(fault));
    }
    match text(choice, "/finish_reason") {
        Some("error") => Err(WireError::Fault(Fault::of_words("error", "the provider stopped in the middle of its answer"))),
        _ => Ok(()),
    }
}

/// Returns the finish reason of a choice. A router reports `tool_calls` for a call that was cut in the middle, but
/// passes on the upstream's reason.
fn finish(choice: &Value) -> Option<String> {
    let upstream = text(choice, "/native_finish_reason").map(str::to_lowercase).filter(|word| is_cut(word));
    let word = text(choice, "/finish_reason").filter(|word| !is_cut(word));
    match (upstream, word) {
        (Some(upstream), Some(_)) => Some(upstream),
        _ => text(choice, "/finish_reason").map(str::to_owned),
    }
}

/// Reads the values beside the choices: ids, usage, costs. The newest value counts.
fn envelope(value: &Value, answer: &mut Answer) {
    if let Some(id) = text(value, "/id") {
        answer.id = Some(id.to_owned());
    }
    if let Some(model) = text(value, "/model") {
        answer.model = Some(model.to_owned());
    }
    answer.usage = usage::CHAT.read(value).or(answer.usage);
    answer.cost_usd = value.pointer("/usage/cost").and_then(Value::as_f64).or(answer.cost_usd);
}

/// Returns the arguments of a call: a string or, from servers that misread the protocol, the JSON of the object.
fn arguments<'b>(call: &Value, raw: impl FnOnce() -> Option<&'b str>) -> String {
    match call.pointer("/function/arguments") {
        Some(Value::String(arguments)) => arguments.clone(),
        None | Some(Value::Null) => String::new(),
        Some(other) => {
            let path = [Step::Key("function"), Step::Key("arguments")];
            raw().and_then(|call| raw_text(call, &path)).map_or_else(|| other.to_string(), str::to_owned)
        }
    }
}

impl WireRequest<'_> {
    /// Returns the key and the value of the output limit, if the request has one.
    pub(super) fn output_limit(&self) -> Option<(String, Value)> {
        Some((self.features.output_limit.to_owned(), Value::from(self.max_output_tokens?)))
    }

    /// Returns the settings whose keys are not the engine's `own`.
    pub(super) fn other_settings(&self, own: &[&str]) -> Vec<(String, Value)> {
        let others = self.settings.iter().filter(|(key, _)| !own.contains(&key.as_str()));
        others.map(|(key, value)| (key.clone(), value.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn streamed(events: &[&str]) -> Result<Answer, WireError> {
        let mut stream = Stream::default();
        events.iter().try_for_each(|event| stream.event(event))?;
        stream.finish()
    }

    #[test]
    fn a_stream_that_ends_before_its_reason_to_stop_is_no_answer() {
        let half = r#"{"choices":[{"index":0,"delta":{"content":"hel"},"finish_reason":null}]}"#;
        let rest = r#"{"choices":[{"index":0,"delta":{"content":"lo"},"finish_reason":"stop"}]}"#;
        let cut = |expected| Err(WireError::Cut { expected });
        assert_eq!(streamed(&[half, DONE]), cut("a finish reason"));
        assert_eq!(streamed(&[half]), cut("[DONE] or a finish reason"));
        for whole in [&[half, rest, DONE][..], &[half, rest]] {
            assert_eq!(streamed(whole).unwrap().text, "hello");
        }
        // A server without finish reasons marks the end by the last event alone.
        let silent = r#"{"choices":[{"delta":{"content":"hello"}}]}"#;
        assert_eq!(streamed(&[silent, DONE]).unwrap().text, "hello");
        assert_eq!(streamed(&[silent]), cut("[DONE] or a finish reason"));
    }
}
