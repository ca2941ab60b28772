//! The published schemas and the `AsyncAPI` document.

use baton_utp::exchange::{CardGetReply, CardPutReply, DeadLetter, ExchangeError, Kept};
use baton_utp::published::{asyncapi, schemas};
use baton_utp::subject::Subject;
use serde_json::{Value, json};

use crate::payloads::messages;
use crate::support::{bytes, result_card, with, without};

fn schema(name: &str) -> jsonschema::Validator {
    let schemas = schemas();
    jsonschema::validator_for(&schemas["$defs"][name]).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The schema of each message, in the order of `messages`.
const NAMES: [&str; 7] = ["ToolCommand", "BuiltinCommand", "Callback", "Wakeup", "CardGet", "CardPut", "ToolResultCard"];

#[test]
fn every_message_matches_its_published_schema() {
    for ((name, message, ..), schema_name) in messages().into_iter().zip(NAMES) {
        let schema = schema(schema_name);
        assert!(schema.is_valid(&message), "{name}");
        assert!(schema.is_valid(&with(message, json!({"x-unknown": 1}))), "{name}: unknown fields are allowed");
    }
}

#[test]
fn published_schemas_and_readers_refuse_the_same() {
    let values = [
        json!(null),
        json!(true),
        json!(0),
        json!(-1),
        json!(1.5),
        json!(u64::MAX),
        json!(""),
        json!("a\u{7}"),
        json!("x".repeat(513)),
        json!("é".repeat(512)),
        json!("suspend"),
        json!("failed"),
        json!([]),
        json!({}),
    ];
    for ((name, message, read, _), schema_name) in messages().into_iter().zip(NAMES).take(5) {
        let schema = schema(schema_name);
        let fields: Vec<String> =
            message.as_object().into_iter().flatten().map(|(field, _)| field.clone()).chain(["result".to_owned()]).collect();
        for field in fields {
            let mut mutated: Vec<Value> = values.iter().map(|value| with(message.clone(), json!({&*field: value}))).collect();
            if message.get(&field).is_some() {
                mutated.push(without(message.clone(), &field));
            }
            // Only payloads without cards refuse inline results; a request for a card has none.
            for mutated in mutated.into_iter().filter(|_| name != "card request" || field != "result") {
                assert_eq!(read(&bytes(&mutated)).is_ok(), schema.is_valid(&mutated), "{name}: {mutated}");
            }
        }
    }
}

#[test]
fn replies_and_dead_letters_match_their_published_schemas() {
    let value = |reply: &dyn erased::Json| reply.value();
    let card = baton_utp::card::Card::read_result(&bytes(&result_card())).expect("a card");
    let refused = || ExchangeError { code: baton_utp::error_code::ErrorCode::BAD_REQUEST, message: "no".to_owned() };
    let kept = CardPutReply::Kept(Kept { card_id: card.card_id.clone(), created: true });
    for reply in [&kept, &CardPutReply::Error(refused())] {
        let written = value(reply);
        assert!(schema("CardPutReply").is_valid(&written), "{written}");
        assert_eq!(CardPutReply::read(&bytes(&written)).as_ref(), Ok(reply));
    }
    for reply in [CardGetReply::Card(Box::new(card)), CardGetReply::Error(refused())] {
        assert!(schema("CardGetReply").is_valid(&value(&reply)));
    }
    assert!(schema("DeadLetter").is_valid(&value(&DeadLetter::of("s", "c", "r", b"{"))));
}

/// Writing values of several types as JSON.
mod erased {
    use serde_json::Value;

    pub(super) trait Json {
        fn value(&self) -> Value;
    }

    impl<T: serde::Serialize> Json for T {
        fn value(&self) -> Value {
            serde_json::to_value(self).expect("it serialises")
        }
    }
}

#[test]
fn the_asyncapi_document_names_every_message_and_subject() {
    let document = asyncapi();
    assert_eq!(document["asyncapi"], "3.0.0");
    let text = document.to_string();
    for place in text.split("\"$ref\":\"#").skip(1).filter_map(|rest| rest.split_once('"').map(|(place, _)| place)) {
        assert!(document.pointer(place).is_some(), "{place}");
    }
    let channels = document["channels"].as_object().expect("channels");
    assert_eq!(channels.len(), 7);
    for (name, channel) in channels {
        let address = channel["address"].as_str().expect("an address");
        Subject::parse(address).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    assert_eq!(channels["toolCommand"]["address"], "cg.v1r3.{project}.{channel}.cmd.tool.{target}");
}
