//! The examples of docs/utp.md: each is read as the message that its label names.

use baton_utp::callback::{Callback, Wakeup};
use baton_utp::command::{BuiltinCommand, ToolCommand};
use baton_utp::exchange::{CardGet, CardPut, CardPutReply};
use baton_utp::published::schemas;
use baton_utp::row::Row;
use serde_json::Value;

/// Returns the blocks of the page with JSON: label and text.
fn examples() -> Vec<(String, String)> {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/utp.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let blocks = page.split("```json").skip(1).filter_map(|rest| {
        let (label, rest) = rest.split_once('\n')?;
        let (text, _) = rest.split_once("```")?;
        Some((label.trim().to_owned(), text.to_owned()))
    });
    blocks.collect()
}

#[test]
fn every_example_of_the_page_is_read_as_what_it_shows() {
    let examples = examples();
    for (label, text) in &examples {
        let bytes = text.as_bytes();
        let value: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{label}: {error}"));
        let matches = |name: &str| {
            let schema = jsonschema::validator_for(&schemas()["$defs"][name]).expect(name);
            assert!(schema.is_valid(&value), "{label}: {text}");
        };
        match label.as_str() {
            "tool-command" => drop(ToolCommand::read(bytes).expect(label)),
            "builtin-command" => drop(BuiltinCommand::read(bytes).expect(label)),
            "callback" => drop(Callback::read(bytes).expect(label)),
            "wakeup" => drop(Wakeup::read(bytes).expect(label)),
            "card-get" => drop(CardGet::read(bytes).expect(label)),
            "card-get-error" => matches("CardGetReply"),
            "card-put" => {
                let put = CardPut::read(bytes).expect(label);
                let written = serde_json::to_value(put.card.result().expect("a result")).expect("it serialises");
                assert_eq!(written, value["card"]["content"], "the parts of the card agree");
            }
            "card-put-reply" => drop(CardPutReply::read(bytes).expect(label)),
            "tool-call-card" => matches("ToolCallCard"),
            "dead-letter" => matches("DeadLetter"),
            "row" => {
                let row = Row::read(&value, &|_| Vec::new()).unwrap_or_else(|faults| panic!("{faults:?}"));
                assert_eq!(serde_json::to_value(row).expect("it serialises"), value);
            }
            other => panic!("no reader for the label {other:?}"),
        }
    }
    assert_eq!(examples.len(), 12, "every example has a label");
}
