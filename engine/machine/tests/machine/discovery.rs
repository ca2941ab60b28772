//! Agents that discover their tools: what requests offer, and how their lengths are counted.

use baton_types::call::ModelCall;
use baton_types::entry::Entry;
use baton_types::event::Outcome;
use baton_types::limits::Limits;
use baton_types::model::{ModelRequest, ModelTurn};
use serde_json::json;

use crate::support::jobs::JobDraft;
use crate::support::script::{Answer, Prompted};
use crate::support::{Sim, agent, ask, call, function, handoff, job, note, route, says, turn};

/// Bytes of the schema of `work`, about.
const SCHEMA: usize = 8_000;

fn describe(tool: &str) -> ModelTurn {
    turn([ModelCall::new("describe", json!({"tools": [tool]}))])
}

fn offered(request: &ModelRequest) -> Vec<&str> {
    request.tools.iter().map(|tool| tool.id.as_str()).collect()
}

fn worker(limits: Limits) -> JobDraft {
    let schema = json!({"type": "object", "properties": {"x": {"type": "string", "description": "x".repeat(SCHEMA)}}});
    let root = agent("root", "work describe").discovers().limits(limits).settings(json!({"max_tokens": 500}));
    job([root]).tool(function("work").input(schema)).tool(note("describe").describing())
}

#[test]
fn described_tools_count_and_survive_a_compaction() {
    let limits = Limits { context_tokens: Some(10_000), turns: Some(40), ..Limits::default() };
    let draft = worker(limits);
    let model = |prompted: &Prompted<'_>| -> Answer {
        assert_eq!(offered(prompted.request).contains(&"work"), prompted.turn > 1, "turn {}", prompted.turn);
        Ok(match prompted.turn {
            // Describing it again changes nothing.
            1 | 2 => describe("work"),
            3..=20 => turn([call("work", &format!("{} {}", prompted.turn, "y".repeat(2_000)))]),
            _ => turn([handoff("done")]),
        })
    };
    let sim = Sim::new(&draft).agent_with("root", model).tool("work", |_| Outcome::success(json!("ok"))).start();
    assert_eq!(sim.timeline.iter().filter(|recorded| matches!(recorded.entry, Entry::TaskEnded(_))).count(), 1);
    assert!(sim.timeline.iter().any(|recorded| matches!(recorded.entry, Entry::Compacted(_))), "turns were replaced");
    let lengths = sim.timeline.iter().filter_map(|recorded| match &recorded.entry {
        Entry::ModelRequested(entry) => Some(entry.input_tokens),
        _ => None,
    });
    let lengths: Vec<u64> = lengths.collect();
    let definition = (SCHEMA / 4) as u64;
    assert!(lengths[0] < definition, "{lengths:?}");
    assert!((definition..definition + 500).contains(&(lengths[1] - lengths[0])), "{lengths:?}");
    assert!(lengths[2] - lengths[1] < 200, "{lengths:?}");
    assert!(lengths.iter().skip(1).all(|length| *length > definition), "a compaction removes no definition: {lengths:?}");
}

#[test]
fn a_question_begins_with_what_its_master_was_described() {
    let root = agent("root", "route_to_child look describe").discovers();
    let draft = job([root, agent("child", "ask_master")])
        .tool(function("look").effect(baton_types::config::EffectClass::Pure))
        .tool(note("describe").describing());
    let sim = Sim::new(&draft)
        .agent("root", [describe("look"), turn([route("child", "do it")]), turn([handoff("done")])])
        .agent("child", [turn([ask("which quarter?")]), turn([handoff("child done")])])
        .answers("root", [says("the third")])
        .start();
    let question = sim.request("0/2.1/1.1");
    assert!(question.is_question);
    assert_eq!(offered(&question), ["describe", "handoff", "look"], "no delegation in a question");
    assert_eq!(offered(&sim.request("0")), ["describe", "handoff", "look"]);
}
