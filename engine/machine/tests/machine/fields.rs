//! Every field that a tool declares reaches the receiver of its delegation, question or handoff.

use baton_types::message::Part;
use baton_types::tool_type::ToolType;
use serde_json::json;

use crate::support::jobs::{ToolDraft, tool};
use crate::support::{Sim, agent, call_with, handoff, job, turn};

#[test]
fn every_declared_field_reaches_its_receiver() {
    let hire = ToolDraft::route("child").input(json!({"type": "object", "properties": {"request": {"type": "string"}}}));
    let draft = job([agent("root", "route_to_child"), agent("child", "consult submit")]).tools([
        hire,
        tool("consult", ToolType::AskMaster),
        tool("submit", ToolType::Handoff),
    ]);
    let request = json!({"request": "Review.", "question": "Is it sound?", "audience": "board"});
    let question = json!({"question": "Which year?", "urgency": "high", "deadline_seconds": 60});
    let result = json!({"result": "sound", "confidence": 0.9, "documents": []});
    let sim = Sim::new(&draft)
        .agent("root", [turn([call_with("route_to_child", request)]), turn([handoff("done")])])
        .answers("root", [turn([handoff("2026")])])
        .agent("child", [turn([call_with("consult", question)]), turn([call_with("submit", result)])])
        .start();
    sim.assert_over();
    let first = |task: &str| sim.request(task).messages.last().and_then(|message| message.parts.first().cloned());
    let opening = sim.request("0/1.1").messages[0].parts[0].clone();
    let Part::Request(text) = opening else { panic!("a delegation begins with its request") };
    assert!(text.starts_with("Review.\n\n") && text.contains("Is it sound?") && text.contains("board"), "{text}");
    let Some(Part::Question { question, .. }) = first("0/1.1/1.1") else { panic!("a question ends with its text") };
    assert!(question.starts_with("Which year?\n\n") && question.contains(r#""urgency":"high""#), "{question}");
    assert!(!question.contains("deadline_seconds"), "{question}");
    assert_eq!(sim.result("0/1.1").output.value(), json!({"result": "sound", "confidence": 0.9}));
    assert_eq!(sim.result("0/1.1/1.1").output.value(), json!("2026"), "an answer without further fields is the result alone");
}
