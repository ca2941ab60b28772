//! Seed 004, sections 3.1 and 4.3: who decides the step after a result.

use baton_types::call::AfterExecution::{self, Suspend, Terminate};
use baton_types::json::Json;
use baton_utp::control::{Requested, set_by_result};
use serde_json::{Value, json};

#[test]
fn the_override_counts_only_as_an_object_with_a_known_step() {
    let vectors: [(Value, Option<AfterExecution>); 18] = [
        (json!({"__cg_control": {"after_execution": "suspend"}}), Some(Suspend)),
        (json!({"__cg_control": {"after_execution": "terminate"}}), Some(Terminate)),
        (json!({"__cg_control": {"after_execution": "terminate", "other": 1}}), Some(Terminate)),
        (json!({"__cg_control": {"after_execution": ""}}), None),
        (json!({"__cg_control": {"after_execution": null}}), None),
        (json!({"__cg_control": {"after_execution": "continue"}}), None),
        (json!({"__cg_control": {"after_execution": "Terminate"}}), None),
        (json!({"__cg_control": {"after_execution": true}}), None),
        (json!({"__cg_control": {"after_execution": ["terminate"]}}), None),
        (json!({"__cg_control": {}}), None),
        (json!({"__cg_control": "terminate"}), None),
        (json!({"__cg_control": ["terminate"]}), None),
        (json!({"__cg_control": null}), None),
        (json!({"result": {"__cg_control": {"after_execution": "terminate"}}}), None),
        (json!("__cg_control"), None),
        (json!([{"__cg_control": {"after_execution": "terminate"}}]), None),
        (json!(null), None),
        (json!({}), None),
    ];
    for (result, expected) in vectors {
        assert_eq!(set_by_result(&Json::from(&result)), expected, "{result}");
    }
    let escaped = Json::parse(r#"{"\u005f\u005fcg_control": {"after_execution": "terminate"}}"#).expect("JSON");
    assert_eq!(set_by_result(&escaped), Some(Terminate), "another spelling of the same key");
}

#[test]
fn the_result_goes_before_the_card_the_callback_and_the_command() {
    let steps = [None, Some(Suspend), Some(Terminate)];
    for command in [Suspend, Terminate] {
        for callback in steps {
            for card in steps {
                for control in steps {
                    let result = match control {
                        Some(step) => json!({"__cg_control": {"after_execution": step}}),
                        None => json!({"__cg_control": {"after_execution": "no step"}}),
                    };
                    let result = Json::from(result);
                    let requested = Requested { command, callback, controls_flow: true };
                    assert_eq!(requested.effective(card, &result), control.or(card).or(callback).unwrap_or(command));
                    let bound = Requested { controls_flow: false, ..requested };
                    assert_eq!(bound.effective(card, &result), command, "its config does not let the tool decide");
                }
            }
        }
    }
}
