//! `recall_memory` reads back what the two saving tools logged.

mod support;

use baton_tool::{RecallScope, ToolContext};
use serde_json::{Value, json};
use support::output;

const SHORT: &str = "save_to_short_term_memory";
const LONG: &str = "save_to_long_term_memory";

fn context() -> ToolContext {
    ToolContext::for_test()
        .with_recalled(SHORT, RecallScope::Task, json!({"memory": "Revenue 10", "key": "revenue"}))
        .with_recalled(LONG, RecallScope::Agent, json!({"memory": "Use thousands", "category": "preferences"}))
        .with_recalled(LONG, RecallScope::Task, json!({"memory": "The CSV has a BOM"}))
        .with_recalled(SHORT, RecallScope::Task, json!({"memory": "Revenue 12", "key": "revenue"}))
        .with_recalled(SHORT, RecallScope::Task, json!({"note": "not a memory"}))
        .build()
}

fn recalled(input: Value) -> Vec<String> {
    let answer = output(&context(), "recall_memory", &input);
    answer["memories"].as_array().unwrap().iter().map(|memory| memory["memory"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn notes_come_newest_first_from_both_memories() {
    assert_eq!(recalled(json!({})), ["Revenue 12", "The CSV has a BOM", "Use thousands", "Revenue 10"]);
    assert_eq!(recalled(json!({"scope": "short_term"})), ["Revenue 12", "Revenue 10"]);
    assert_eq!(recalled(json!({"scope": "long_term"})), ["The CSV has a BOM", "Use thousands"]);
}

#[test]
fn notes_are_filtered_by_text_key_and_category() {
    assert_eq!(recalled(json!({"query": "BOM"})), ["The CSV has a BOM"]);
    assert_eq!(recalled(json!({"query": "pref"})), ["Use thousands"]);
    assert_eq!(recalled(json!({"key": "revenue", "limit": 1})), ["Revenue 12"]);
    assert_eq!(recalled(json!({"category": "general"})), ["The CSV has a BOM"]);
    assert_eq!(recalled(json!({"query": "nothing like it"})), Vec::<String>::new());
}

#[test]
fn a_note_says_where_it_comes_from() {
    let answer = output(&context(), "recall_memory", &json!({"category": "preferences"}));
    assert_eq!(
        answer,
        json!({"total": 1, "memories": [{"memory": "Use thousands", "category": "preferences", "scope": "long_term",
               "run": "earlier", "task": "0/1.1", "at": "2026-01-01T00:00:01.000000Z"}]})
    );
}
