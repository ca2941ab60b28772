//! JSON Schemas of all messages and cards, and an `AsyncAPI` document with their senders and subjects. `generated-docs/` has both.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::VERSION;
use crate::callback::{Callback, Wakeup};
use crate::card::{DeliverableContent, Metadata, ThoughtContent, ToolCallContent};
use crate::command::{BuiltinCommand, ToolCommand};
use crate::exchange::{CardGet, DeadLetter, ExchangeError, Kept};
use crate::id::{AgentName, CardId, ProjectName};
use crate::read::INLINE_FIELDS;
use crate::result::ToolResultContent;
use crate::subject::{Address, Kind, Subject, Suffix, Token};

/// Returns the JSON Schemas (2020-12) of every message and card, by name under `$defs`.
pub fn schemas() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": format!("Messages and cards of UTP {VERSION}"),
        "$defs": definitions(),
    })
}

/// Returns the definitions: each is complete in itself.
fn definitions() -> Map<String, Value> {
    let card = |card_type: &str, content: Value, title: &str| {
        let required = ["card_id", "project_id", "type", "content", "author_id", "metadata"];
        json!({
            "title": title,
            "type": "object",
            "properties": {
                "card_id": schema_of::<CardId>(),
                "project_id": schema_of::<ProjectName>(),
                "type": {"const": card_type},
                "content": content,
                "created_at": {"type": "string", "format": "date-time"},
                "author_id": schema_of::<AgentName>(),
                "metadata": schema_of::<Metadata>(),
            },
            "required": required,
        })
    };
    let result_card = card("tool.result", schema_of::<ToolResultContent>(), "UTP card tool.result");
    let reply = |title: &str, key: &str, value: Value| {
        json!({
            "title": title,
            "type": "object",
            "properties": {key: value, "error": schema_of::<ExchangeError>()},
            "oneOf": [{"required": [key]}, {"required": ["error"]}],
        })
    };
    let put = json!({
        "title": "UTP request to keep a card", "type": "object", "properties": {"card": result_card}, "required": ["card"],
    });
    Map::from_iter([
        ("ToolCommand".to_owned(), without_inline(schema_of::<ToolCommand>())),
        ("BuiltinCommand".to_owned(), without_inline(schema_of::<BuiltinCommand>())),
        ("Callback".to_owned(), without_inline(schema_of::<Callback>())),
        ("Wakeup".to_owned(), without_inline(schema_of::<Wakeup>())),
        ("CardGet".to_owned(), schema_of::<CardGet>()),
        ("CardGetReply".to_owned(), reply("UTP reply with a card", "card", json!({"type": "object"}))),
        ("CardPut".to_owned(), put),
        ("CardPutReply".to_owned(), reply("UTP reply about a card to keep", "kept", schema_of::<Kept>())),
        ("DeadLetter".to_owned(), schema_of::<DeadLetter>()),
        ("ToolCallCard".to_owned(), card("tool.call", schema_of::<ToolCallContent>(), "UTP card tool.call")),
        ("ToolResultCard".to_owned(), result_card),
        ("ThoughtCard".to_owned(), card("agent.thought", schema_of::<ThoughtContent>(), "UTP card agent.thought")),
        ("DeliverableCard".to_owned(), card("task.deliverable", schema_of::<DeliverableContent>(), "UTP card task.deliverable")),
    ])
}

fn schema_of<T: JsonSchema>() -> Value {
    let schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>();
    let mut schema: Value = schema.into();
    if let Some(keys) = schema.as_object_mut() {
        keys.shift_remove("$schema");
    }
    schema
}

/// Forbids the fields that hold inputs or results.
fn without_inline(mut schema: Value) -> Value {
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.extend(INLINE_FIELDS.map(|field| (field.to_owned(), Value::Bool(false))));
    }
    schema
}

/// One message of the `AsyncAPI` document.
struct Channel {
    name: &'static str,
    /// Names of its schema and, for a request, of the schema of its reply.
    message: &'static str,
    reply: Option<&'static str>,
    kind: Kind,
    /// Actions of workers: `send`, `receive` or both.
    actions: &'static [&'static str],
    summary: &'static str,
}

/// Returns all channels.
fn channels() -> Vec<Channel> {
    let suffix = |text: &str| Suffix::parse(text).expect("the text is a suffix");
    let token = |text: &str| Token::parse(text).expect("the text is a token");
    let channel = |name, message, kind, actions, summary| Channel { name, message, reply: None, kind, actions, summary };
    const BOTH: &[&str] = &["send", "receive"];
    vec![
        channel("toolCommand", "ToolCommand", Kind::Tool(suffix("{target}")), &["send"], "A tool service executes a call."),
        channel(
            "builtinCommand",
            "BuiltinCommand",
            Kind::Builtin(suffix("{tool}")),
            BOTH,
            "A worker executes a call of a built-in tool.",
        ),
        channel("callback", "Callback", Kind::ToolResult, BOTH, "The result of a call is in a card."),
        channel("wakeup", "Wakeup", Kind::Wakeup(token("{target}")), BOTH, "An agent has something in its inbox."),
        Channel {
            reply: Some("CardGetReply"),
            ..channel("cardGet", "CardGet", Kind::CardGet, &["receive"], "A service asks for a card.")
        },
        Channel {
            reply: Some("CardPutReply"),
            ..channel("cardPut", "CardPut", Kind::CardPut, &["receive"], "A service has a result card kept.")
        },
        channel("deadLetter", "DeadLetter", Kind::DeadLetter, &["send"], "A message was refused."),
    ]
}

/// Returns the `AsyncAPI` 3.0 document. The described application is a worker.
pub fn asyncapi() -> Value {
    let reference = |place: String| json!({"$ref": place});
    let (mut document, mut operations, mut messages) = (Map::new(), Map::new(), Map::new());
    let parameters = [
        ("project", "The project: the tenant."),
        ("channel", "A channel of the project."),
        ("target", "The target: a tool service or an agent. A service may have several tokens with dots between them."),
        ("tool", "The tool."),
    ];
    for Channel { name, message, reply, kind, actions, summary } in channels() {
        let address = Address::parse("{project}", "{channel}").expect("both are tokens");
        let address = Subject::new(address, kind).to_string();
        let used = parameters.iter().filter(|(parameter, _)| address.contains(&format!("{{{parameter}}}")));
        let used: Map<String, Value> =
            used.map(|(parameter, description)| ((*parameter).to_owned(), json!({"description": description}))).collect();
        let all = [Some(message), reply].into_iter().flatten();
        let of_channel: Map<String, Value> =
            all.clone().map(|message| (message.to_owned(), reference(format!("#/components/messages/{message}")))).collect();
        for message in all {
            let payload = reference(format!("#/components/schemas/{message}"));
            messages.insert(message.to_owned(), json!({"name": message, "payload": payload}));
        }
        document
            .insert(name.to_owned(), json!({"address": address, "summary": summary, "parameters": used, "messages": of_channel}));
        for action in actions {
            let channel = || reference(format!("#/channels/{name}"));
            let of = |message: &str| reference(format!("#/channels/{name}/messages/{message}"));
            let mut operation = json!({"action": action, "channel": channel(), "messages": [of(message)]});
            if let Some(reply) = reply {
                operation["reply"] = json!({"channel": channel(), "messages": [of(reply)]});
            }
            let capital = name[..1].to_uppercase() + &name[1..];
            operations.insert(format!("{action}{capital}"), operation);
        }
    }
    json!({
        "asyncapi": "3.0.0",
        "info": {
            "title": "Baton on a message bus",
            "version": VERSION,
            "description": "The messages between a worker of Baton and tool services. The described application is a worker. Replies to \
                            requests go to the reply subject of the request.",
        },
        "defaultContentType": "application/json",
        "channels": document,
        "operations": operations,
        "components": {"messages": messages, "schemas": definitions()},
    })
}
