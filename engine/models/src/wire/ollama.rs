//! Ollama's own `/api/chat`: one JSON object, or one a line while it streams.

use baton_types::message::Role;
use serde_json::{Map, Value, json};

use super::message::{Message, add_call};
use super::value::{Step, list, raw_text, text};
use super::{Answer, AnsweredCall, Fault, Features, Piece, Said, WireError, WireRequest, chat, usage};

/// Settings that are siblings of the `options` of a model instead of parts of them.
const BESIDE: [&str; 4] = ["think", "format", "keep_alive", "options"];

/// Returns the body of a request, without the conversation.
pub(super) fn preamble(request: &WireRequest<'_>) -> Map<String, Value> {
    let mut body = Map::new();
    body.insert("model".to_owned(), Value::from(request.model));
    body.insert("stream".to_owned(), Value::from(request.stream));
    let own = ["model", "stream", "messages", "tools", "max_tokens", request.features.output_limit];
    let (beside, within): (Vec<_>, Vec<_>) =
        request.other_settings(&own).into_iter().partition(|(key, _)| BESIDE.contains(&key.as_str()));
    let mut options = Map::from_iter(within);
    for (key, value) in beside {
        match value {
            Value::Object(more) if key == "options" => options.extend(more),
            value => {
                body.insert(key, value);
            }
        }
    }
    options.extend(request.output_limit());
    body.insert("options".to_owned(), Value::Object(options));
    if let Some(schema) = request.result {
        body.entry("format").or_insert_with(|| schema.clone());
    }
    if !request.tools.is_empty() {
        body.insert("tools".to_owned(), request.tools.iter().map(|tool| chat::tool(tool)).collect());
    }
    body
}

/// Encodes `said` as messages.
pub(super) fn word(said: &Said<'_>, vendor: &str, features: Features, messages: &mut Vec<Value>) {
    match said.role {
        Role::Assistant => messages.push(assistant(said, vendor)),
        Role::User | Role::Tool => others(said, features.images, messages),
    }
}

/// Encodes a turn of the model. Arguments are objects here.
fn assistant(said: &Said<'_>, vendor: &str) -> Value {
    if let Some(mut message) = said.own_items(vendor, true).and_then(|mut items| items.pop()) {
        if message.get("content").is_none() {
            message["content"] = Value::from("");
        }
        return message;
    }
    let mut message = json!({"role": "assistant", "content": ""});
    let (mut content, mut calls) = (String::new(), Vec::new());
    for piece in &said.pieces {
        match piece {
            Piece::Text(text) => content.push_str(text),
            Piece::Call { tool, input, .. } => {
                let input: Value = serde_json::from_str(input).unwrap_or_else(|_| json!({}));
                calls.push(json!({"type": "function", "function": {"name": tool, "arguments": input}}));
            }
            Piece::Result { .. } | Piece::Document(_) | Piece::Items(_) => {}
        }
    }
    message["content"] = Value::from(content);
    if !calls.is_empty() {
        message["tool_calls"] = Value::Array(calls);
    }
    message
}

/// Encodes each result as a message of its own, then the rest as one text with its images.
fn others(said: &Said<'_>, takes_images: bool, messages: &mut Vec<Value>) {
    let (mut texts, mut images): (Vec<String>, Vec<&str>) = (Vec::new(), Vec::new());
    for piece in &said.pieces {
        match piece {
            Piece::Result { tool, body, .. } => messages.push(json!({"role": "tool", "tool_name": tool, "content": body})),
            Piece::Text(text) => texts.push(text.to_string()),
            Piece::Document(document) => match document.image().filter(|_| takes_images) {
                Some(image) => images.push(image),
                None => texts.push(document.envelope()),
            },
            Piece::Call { .. } | Piece::Items(_) => {}
        }
    }
    if texts.is_empty() && images.is_empty() {
        return;
    }
    let mut message = json!({"role": "user", "content": texts.join("\n\n")});
    if !images.is_empty() {
        message["images"] = json!(images);
    }
    messages.push(message);
}

/// Decodes a whole body.
pub(super) fn decode(body: &str) -> Result<Answer, WireError> {
    let mut stream = Stream::default();
    stream.line(body)?;
    if stream.message.is_some() { Ok(stream.answer()) } else { Err(WireError::unreadable("it has no message")) }
}

/// A stream of lines.
#[derive(Clone, Debug, Default)]
pub(super) struct Stream {
    answer: Answer,
    message: Option<Message>,
    calls: Vec<(AnsweredCall, Map<String, Value>)>,
    done: bool,
}

impl Stream {
    pub(super) fn line(&mut self, line: &str) -> Result<(), WireError> {
        let value: Value = serde_json::from_str(line).map_err(|error| WireError::unreadable(error.to_string()))?;
        if let Some(fault) = Fault::in_envelope(&value) {
            return Err(WireError::Fault(fault));
        }
        if let Some(message) = value.get("message") {
            self.message.get_or_insert_default().add(&mut self.answer, message);
        }
        for (index, call) in list(&value, "/message/tool_calls").iter().enumerate() {
            let at =
                [Step::Key("message"), Step::Key("tool_calls"), Step::At(index), Step::Key("function"), Step::Key("arguments")];
            let arguments = match call.pointer("/function/arguments") {
                Some(Value::String(arguments)) => arguments.clone(),
                Some(_) => raw_text(line, &at).unwrap_or_default().to_owned(),
                None => String::new(),
            };
            let answered = AnsweredCall {
                id: text(call, "/id").map(str::to_owned),
                tool: text(call, "/function/name").unwrap_or_default().to_owned(),
                arguments,
            };
            let mut beside = Map::new();
            add_call(&mut beside, call, &[]);
            self.calls.push((answered, beside));
        }
        if let Some(model) = text(&value, "/model") {
            self.answer.model = Some(model.to_owned());
        }
        if let Some(finish) = text(&value, "/done_reason") {
            self.answer.finish = Some(finish.to_owned());
        }
        let reported = usage::OLLAMA.read(&value);
        self.answer.usage = reported.or(self.answer.usage);
        self.done |= value.get("done").and_then(Value::as_bool).unwrap_or(false);
        Ok(())
    }

    pub(super) fn is_complete(&self) -> bool {
        self.done
    }

    pub(super) fn finish(self) -> Result<Answer, WireError> {
        if self.done { Ok(self.answer()) } else { Err(WireError::Cut { expected: "a line that is done" }) }
    }

    fn answer(mut self) -> Answer {
        self.message.unwrap_or_default().finish(&mut self.answer, self.calls.into_iter());
        self.answer
    }
}
