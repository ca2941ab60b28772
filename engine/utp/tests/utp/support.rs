//! Valid messages, to be changed by tests.

use serde_json::{Map, Value, json};

pub(crate) fn tool_command() -> Value {
    json!({
        "agent_id": "lead", "agent_turn_id": "7k2f/0/1.1", "turn_epoch": 3, "tool_call_id": "0/1.1/3.1",
        "after_execution": "suspend", "tool_call_card_id": "7k2f:0/1.1/3.1:call",
        "step_id": "3", "tool_name": "search", "context_box_id": "box-1"
    })
}

pub(crate) fn builtin_command() -> Value {
    json!({
        "agent_id": "lead", "agent_turn_id": "7k2f/0/1.1", "turn_epoch": 3, "step_id": "3", "tool_call_id": "0/1.1/3.1",
        "after_execution": "suspend", "tool_call_card_id": "7k2f:0/1.1/3.1:call", "tool_name": "fork_join", "context_box_id": "box-1"
    })
}

pub(crate) fn callback() -> Value {
    json!({
        "tool_call_id": "0/1.1/3.1", "agent_turn_id": "7k2f/0/1.1", "turn_epoch": 3, "agent_id": "lead",
        "tool_result_card_id": "result-1", "status": "success", "after_execution": "suspend", "step_id": "3"
    })
}

pub(crate) fn wakeup() -> Value {
    json!({"agent_id": "lead", "agent_turn_id": "7k2f/0/1.1"})
}

pub(crate) fn card_get() -> Value {
    json!({"card_id": "7k2f:0/1.1/3.1:call"})
}

pub(crate) fn result_card() -> Value {
    json!({
        "card_id": "result-1", "project_id": "acme", "type": "tool.result", "author_id": "tool.search",
        "created_at": "2026-11-21T09:30:00.000000Z",
        "metadata": {
            "role": "tool", "agent_turn_id": "7k2f/0/1.1", "step_id": "3", "tool_call_id": "0/1.1/3.1", "function_name": "search"
        },
        "content": {"status": "success", "after_execution": "suspend", "result": {"hits": 2}, "error": null}
    })
}

pub(crate) fn card_put() -> Value {
    json!({"card": result_card()})
}

pub(crate) fn bytes(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

/// Returns `message` with `changes` on top.
pub(crate) fn with(mut message: Value, changes: Value) -> Value {
    let (Value::Object(message_keys), Value::Object(changes)) = (&mut message, changes) else { panic!("both are objects") };
    message_keys.extend::<Map<String, Value>>(changes);
    message
}

/// Returns `message` without `field`.
pub(crate) fn without(mut message: Value, field: &str) -> Value {
    message.as_object_mut().expect("an object").shift_remove(field).expect("the field is there");
    message
}
