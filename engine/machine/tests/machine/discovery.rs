//! Agents that discover their tools: what requests offer, and how their lengths are counted.

use baton_machine::Run;
use baton_types::call::ModelCall;
use baton_types::entry::{Adoption, Entry};
use baton_types::event::{Event, Outcome};
use baton_types::id::{ContentHash, TaskId};
use baton_types::limits::Limits;
use baton_types::model::{ModelRequest, ModelTurn};
use baton_types::principal::Principal;
use serde_json::json;

use crate::support::jobs::{AgentDraft, JobDraft, ToolDraft};
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

#[test]
fn a_fork_of_the_conversation_to_another_agent_has_no_described_tools() {
    let schema = json!({"type": "object", "properties": {"x": {"type": "string", "description": "x".repeat(SCHEMA)}}});
    let agents = [agent("root", "work describe route_to_child").discovers(), agent("child", "")];
    let draft = job(agents).tools([
        function("work").input(schema),
        note("describe").describing(),
        ToolDraft::route("child").forks_context(),
    ]);
    let sim = Sim::new(&draft)
        .agent("root", [describe("work"), turn([route("child", "Go on.")]), turn([handoff("done")])])
        .agent("child", [turn([handoff("child")])])
        .start();
    sim.assert_over();
    assert_eq!(offered(&sim.request("0/2.1")), ["handoff"]);
    let length = sim.run.task(&"0/2.1".into()).unwrap().context_tokens;
    assert!(length < (SCHEMA / 4) as u64, "{length}");
}

#[test]
fn an_adoption_counts_what_described_tools_are_now() {
    let draft = |bytes: usize| {
        let schema = json!({"type": "object", "properties": {"x": {"type": "string", "description": "x".repeat(bytes)}}});
        job([agent("root", "work hold describe").discovers()]).tools([
            function("work").input(schema),
            function("hold"),
            note("describe").describing(),
        ])
    };
    let turns = [describe("work"), turn([call("hold", "a")])];
    let sim = Sim::new(&draft(400)).agent("root", turns).holding("hold").start();
    let mut run = sim.fold();
    let adoption = Adoption::of(ContentHash::of(b"other configs"));
    run.know_configs(adoption.configs, draft(800).build());
    let by = Principal::person("ada");
    run.handle(sim.now, Event::Adopted { adoption, documents: Vec::new(), by }).unwrap();
    let length = |run: &Run| run.task(&TaskId::root()).unwrap().context_tokens;
    assert_eq!(length(&run), length(&sim.run) + 100);
}

#[test]
fn an_invalid_input_is_answered_with_the_schema_only_where_the_tool_may_be_unknown() {
    let schema_of = |root: AgentDraft, tool: &str| {
        let draft = job([root]).tools([function("work").input(json!({"type": "array"})), note("describe").describing()]);
        let wrong = if tool == "handoff" { json!({}) } else { json!({"x": 1, "tools": 1}) };
        let sim = Sim::new(&draft).agent("root", [turn([ModelCall::new(tool, wrong)]), turn([handoff("done")])]).start();
        sim.assert_over();
        sim.refusal("0/1.1").detail.value().get("input_schema").is_some()
    };
    let root = || agent("root", "work describe");
    assert!(schema_of(root().discovers(), "work"));
    assert!(!schema_of(root().discovers(), "handoff"), "every request offers it");
    assert!(!schema_of(root().discovers(), "describe"), "every request offers it");
    assert!(!schema_of(root(), "work"), "every request offers all tools");
}

#[test]
fn a_description_has_the_definitions_that_requests_do_not_offer() {
    let described = |root: AgentDraft, tools: &[&str]| {
        let draft = job([root]).tools([function("work"), note("describe").describing()]);
        let asked = ModelCall::new("describe", json!({"tools": tools}));
        let sim = Sim::new(&draft).agent("root", [turn([asked]), turn([handoff("done")])]).start();
        sim.assert_over();
        sim.result("0/1.1").output.value()
    };
    let root = || agent("root", "work describe").discovers();
    assert_eq!(described(root(), &["work"]), json!({"tools": [{"tool": "work"}]}));
    assert_eq!(described(root(), &["work", "none"]), json!({"tools": [{"tool": "work"}], "unknown": ["none"]}));
    let universal = described(root().universal(), &["work"]);
    assert_eq!(universal["tools"][0]["description"], json!("What work does."));
    assert!(universal["tools"][0]["input_schema"].is_object(), "{universal}");
}
