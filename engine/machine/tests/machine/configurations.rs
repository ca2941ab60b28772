//! Configurations of tools: a call that names one uses the tool with other settings.

use std::sync::Arc;

use baton_types::call::{CallStatus, ErrorCode, ModelCall};
use baton_types::config::{Approver, Configs};
use baton_types::entry::{Adoption, Concern, Entry};
use baton_types::event::{Event, Outcome, Refusal};
use baton_types::id::{AgentId, ContentHash, TaskId};
use baton_types::limits::Limits;
use baton_types::principal::Principal;
use serde_json::json;

use crate::support::jobs::JobDraft;
use crate::support::script::{configured, with_id};
use crate::support::{Sim, agent, call, call_with, function, handoff, job, route, turn};

/// Returns a job whose root has configurations of `work`, and whose child has another one.
fn configuring() -> JobDraft {
    let root = agent("root", "work look route_to_child").universal().configures("work", "fast").configures("work", "deep");
    let child = agent("child", "work").universal().configures("work", "secret_one");
    job([root, child]).tools([function("work"), function("look")])
}

fn handed_off() -> baton_types::model::ModelTurn {
    turn([handoff("done")])
}

/// Returns the settings of the tool that `asked` uses as a call of `agent`.
fn settings(draft: &JobDraft, agent: &str, asked: &ModelCall) -> serde_json::Value {
    draft.build().tool_of(Some(&AgentId::from(agent)), asked).unwrap().settings.value()
}

#[test]
fn a_call_uses_the_configuration_that_it_names() {
    let (fast, plain) = (configured("fast", call("work", "a")), call("work", "a"));
    assert_eq!(settings(&configuring(), "root", &fast), json!({"of": "fast"}));
    assert_eq!(settings(&configuring(), "root", &plain), json!({}));
    let sim = Sim::new(&configuring()).agent("root", [turn([fast, plain]), handed_off()]).start();
    sim.assert_over();
    assert_eq!((sim.executions("0/1.1"), sim.executions("0/1.2"), sim.refusals().len()), (1, 1, 0));
}

#[test]
fn an_unknown_configuration_is_refused_with_those_that_are_granted() {
    // It is of another agent, of another tool, of none, or of a tool without any.
    let calls = ["secret_one", "none"].map(|id| configured(id, call("work", "a")));
    let calls = calls.into_iter().chain([configured("fast", call("look", "a")), configured("fast", handoff("x"))]);
    let sim = Sim::new(&configuring()).agent("root", [turn(calls), handed_off()]).start();
    sim.assert_over();
    assert_eq!(sim.refusals(), ["0/1.1", "0/1.2", "0/1.3", "0/1.4"].map(|call| (call, ErrorCode::InvalidInput)));
    assert_eq!(sim.refusal("0/1.1").message, "you have no configuration \"secret_one\" of tool work");
    assert_eq!(sim.refusal("0/1.1").detail.value(), json!({"granted_configurations": ["deep", "fast"]}));
    assert_eq!(sim.refusal("0/1.3").message, "you have no configuration \"fast\" of tool look; leave \"config_id\" out");
}

#[test]
fn each_agent_has_its_own_configurations() {
    let sim = Sim::new(&configuring())
        .agent("root", [turn([route("child", "go")]), handed_off()])
        .agent(
            "child",
            [turn([configured("secret_one", call("work", "a")), configured("fast", call("work", "a"))]), handed_off()],
        )
        .start();
    sim.assert_over();
    assert_eq!(sim.executions("0/1.1/1.1"), 1);
    assert_eq!(sim.refusals(), [("0/1.1/1.2", ErrorCode::InvalidInput)]);
}

#[test]
fn the_input_of_a_tool_may_name_the_configuration_as_well() {
    let input = json!({"type": "object", "properties": {"config_id": {"type": "string"}}});
    let draft = job([agent("root", "work").configures("work", "fast")]).tool(function("work").input(input));
    let of_input = |id: &str| call_with("work", json!({"config_id": id}));
    assert_eq!(settings(&draft, "root", &of_input("fast")), json!({"of": "fast"}));
    let applied = draft.build().applied(&AgentId::from("root"), &of_input("fast")).unwrap();
    assert_eq!(applied.1.value(), json!({}), "the function does not look for it again");
    let calls = [of_input("fast"), of_input("none"), configured("none", of_input("fast")), configured("fast", of_input("fast"))];
    let sim = Sim::new(&draft).agent("root", [turn(calls), handed_off()]).start();
    sim.assert_over();
    assert_eq!(sim.refusals(), ["0/1.2", "0/1.3"].map(|call| (call, ErrorCode::InvalidInput)));
    assert_eq!(sim.refusal("0/1.3").message, "\"config_id\" of the call and of its input differ; give one of them");
}

#[test]
fn the_configuration_is_a_part_of_a_request() {
    let work = |config: &str| with_id("a", configured(config, call("work", "x")));
    let turns = [turn([work("fast")]), turn([work("fast")]), turn([work("deep")]), handed_off()];
    let sim = Sim::new(&configuring()).agent("root", turns).start();
    sim.assert_over();
    assert_eq!(["0/1.1", "0/2.1", "0/3.1"].map(|call| sim.executions(call)), [1, 0, 0]);
    assert_eq!(sim.refusals(), [("0/3.1", ErrorCode::Conflict)]);
    assert!(sim.refusal("0/3.1").message.contains("an earlier call with another configuration"));
}

#[test]
fn the_same_input_with_another_configuration_is_no_repetition() {
    let limits = Limits { repeats: Some(2), ..Limits::default() };
    let root = agent("root", "work").universal().configures("work", "fast").configures("work", "deep");
    let draft = job([root.limits(limits)]).tool(function("work"));
    let work = |config: &str| turn([configured(config, call("work", "x"))]);
    let turns = [work("fast"), work("deep"), work("fast"), work("fast"), work("fast"), handed_off()];
    let sim = Sim::new(&draft).agent("root", turns).tool("work", |_| Outcome::success(json!("same"))).start();
    sim.assert_over();
    assert_eq!(sim.refusals(), [("0/5.1", ErrorCode::Repeated)]);
}

/// Returns the hashes that approval questions ask about.
fn asked_about(sim: &Sim) -> Vec<ContentHash> {
    let concern = |entry: &Entry| match entry {
        Entry::TaskCreated(created) => created.concern,
        _ => None,
    };
    let hash = |concern| if let Concern::Approval { call_hash } = concern { Some(call_hash) } else { None };
    sim.entries().filter_map(concern).filter_map(hash).collect()
}

#[test]
fn an_approval_is_of_one_configuration() {
    let draft = job([agent("root", "work").universal().configures("work", "fast").configures("work", "deep")])
        .tool(function("work").approved_by(Approver::Person));
    let calls = [configured("fast", call("work", "a")), configured("deep", call("work", "a")), call("work", "a")];
    let mut sim = Sim::new(&draft).agent("root", [turn(calls), handed_off()]).start();
    let asked = asked_about(&sim);
    let question = |call: u32| sim.run.task(&TaskId::from(format!("0/1.{call}/approval").as_str())).unwrap().question.as_ref();
    let request = |call: u32| question(call).unwrap().text.clone();
    assert!(request(1).starts_with("May I call work with the configuration fast? "), "{}", request(1));
    assert!(request(3).starts_with("May I call work? "), "{}", request(3));
    assert!(asked.len() == 3 && asked[0] != asked[1] && asked[1] != asked[2] && asked[0] != asked[2], "{asked:?}");
    for call in 1..=3 {
        sim.person_answers(&format!("0/1.{call}/approval"), json!({"approved": true})).unwrap();
    }
    sim.assert_over();
    assert_eq!(sim.task("0").result.as_ref().unwrap().status, CallStatus::Success);
}

#[test]
fn configs_without_the_configuration_of_an_open_call_are_not_adopted() {
    let draft = |id: &str| job([agent("root", "work").universal().configures("work", id)]).tool(function("work"));
    let fast = configured("fast", call("work", "a"));
    let sim = Sim::new(&draft("fast")).holding("work").agent("root", [turn([fast.clone()])]).start();
    let adopt = |configs: Arc<Configs>| {
        let (mut run, hash) = (sim.fold(), ContentHash::of(b"other configs"));
        run.know_configs(hash, configs);
        let adoption = Adoption::of(hash);
        run.handle(sim.now, Event::Adopted { adoption, documents: Vec::new(), by: Principal::person("ada") })
    };
    let Err(Refusal::CannotAdopt { reasons }) = adopt(draft("deep").build()) else { panic!("adopted") };
    assert_eq!(reasons, ["the configs do not grant configuration fast of work, for which call 0/1.1 waits"]);
    assert!(adopt(draft("fast").build()).is_ok());
    let (root, was, now) = (AgentId::from("root"), draft("fast").build(), draft("deep").build());
    let hash = |configs: &Configs| configs.tool_of(Some(&root), &fast).unwrap().call_hash(&fast.input);
    assert_ne!(hash(&was), hash(&now), "an approval of the one is none of the other");
}
