//! Values that a tool's config adds to the input of each call.

use std::collections::BTreeMap;
use std::time::Duration;

use baton_types::call::{ErrorCode, Suspension};
use baton_types::config::{Approver, Arguments, EffectClass};
use baton_types::entry::{CallStarted, Entry};
use baton_types::event::Effect;
use baton_types::json::Json;
use serde_json::{Value, json};

use crate::support::jobs::JobDraft;
use crate::support::{Sim, agent, function, handoff, job, turn};

fn values(value: Value) -> serde_json::Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

fn arguments() -> Arguments {
    Arguments {
        defaults: values(json!({"limit": 5})),
        fixed: values(json!({"region": "eu of {agent_id}"})),
        envs: BTreeMap::from([("key".to_owned(), "SEARCH_KEY".to_owned())]),
        parameters: Json::null(),
    }
}

fn search() -> JobDraft {
    let schema = json!({
        "type": "object",
        "properties": {"q": {"type": "string"}, "limit": {"type": ["integer", "null"]}, "region": {"type": "string"}},
        "required": ["q", "limit", "region"],
        "additionalProperties": false,
    });
    job([agent("root", "search handoff")])
        .tools([function("search").effect(EffectClass::Keyed).input(schema).arguments(arguments())])
}

/// Begins a run whose root calls `search` with `input`.
fn begun(job: &JobDraft, input: Value) -> Sim {
    let call = baton_types::call::ModelCall::new("search", input);
    Sim::new(job).agent("root", [turn([call]), turn([handoff("done")])]).holding("search").start()
}

/// Returns the entry with which the call began.
fn start_of(sim: &Sim) -> CallStarted {
    let started = sim.timeline.iter().find_map(|recorded| match &recorded.entry {
        Entry::CallStarted(started) if started.tool.as_str() == "search" => Some(started.clone()),
        _ => None,
    });
    started.expect("the call began")
}

#[test]
fn the_timeline_records_the_effective_input_and_only_names_of_variables() {
    for (asked, limit) in [
        (json!({"q": "a"}), json!(5)),
        (json!({"q": "a", "limit": null, "region": "us"}), json!(null)),
        (json!({"q": "a", "limit": 7, "key": "mine"}), json!(7)),
    ] {
        let sim = begun(&search(), asked.clone());
        let started = start_of(&sim);
        let expected = json!({"q": "a", "limit": limit, "region": "eu of root"});
        assert_eq!(started.input.expect("it differs").value(), expected, "{asked}");
        assert_eq!(started.envs, BTreeMap::from([("key".to_owned(), "SEARCH_KEY".to_owned())]));
    }
}

#[test]
fn an_input_that_stays_as_it_is_is_recorded_once() {
    let mut job = search();
    let limit = Arguments { defaults: values(json!({"limit": 5})), ..Arguments::default() };
    job = job.tool(function("search").effect(EffectClass::Keyed).arguments(limit));
    let sim = begun(&job, json!({"limit": 1}));
    assert_eq!((start_of(&sim).input, start_of(&sim).envs), (None, BTreeMap::new()));
}

#[test]
fn the_effective_input_is_checked() {
    let sim = begun(&search(), json!({"limit": 1}));
    let refused = sim.timeline.iter().find_map(|recorded| match &recorded.entry {
        Entry::CallRefused(refused) => Some(refused.error.code),
        _ => None,
    });
    assert_eq!(refused, Some(ErrorCode::InvalidInput), "q is missing");
}

#[test]
fn an_approval_covers_the_values_of_the_config() {
    let tool = |arguments: Arguments| {
        let tool = function("search").approved_by(Approver::Person).arguments(arguments);
        job([agent("root", "search handoff")]).tool(tool).build().tools["search"].call_hash(&Json::null())
    };
    let changed = Arguments { fixed: values(json!({"region": "us"})), ..arguments() };
    assert_ne!(tool(arguments()), tool(changed));
    assert_eq!(tool(arguments()), tool(arguments()));
}

#[test]
fn a_suspended_call_ends_at_the_time_of_its_config() {
    let wait = || function("search").effect(EffectClass::Keyed).suspending().suspended_for(Duration::from_secs(90));
    let job = job([agent("root", "search handoff")]).tool(wait());
    let mut sim = begun(&job, json!({}));
    sim.suspended("0/1.1", Suspension::default());
    let until = sim.timeline.iter().find_map(|recorded| match &recorded.entry {
        Entry::CallSuspended(suspended) => Some(suspended.suspension.until.expect("a moment").since(recorded.at)),
        _ => None,
    });
    assert_eq!(until, Some(Duration::from_secs(90)));
    let own = sim.now.plus(Duration::from_secs(5));
    let mut sim = begun(&job, json!({}));
    sim.suspended("0/1.1", Suspension { until: Some(own), output: None });
    let kept = sim
        .timeline
        .iter()
        .any(|recorded| matches!(&recorded.entry, Entry::CallSuspended(suspended) if suspended.suspension.until == Some(own)));
    assert!(kept, "a moment that the code sets counts");
}

#[test]
fn the_executor_gets_the_effective_input() {
    let job = search();
    let configs = job.build();
    let asked = baton_types::call::ModelCall::new("search", json!({"q": "a", "region": "us"}));
    let (_, input) = configs.executed(&"root".into(), &"0/1.1".into(), &asked).expect("the tool is known");
    assert_eq!(input.value(), json!({"q": "a", "region": "eu of root", "limit": 5}));
    let effect = Effect::Execute { task: "0".into(), agent: "root".into(), call: "0/1.1".into(), tool: "search".into(), input };
    let shown = format!("{effect:?}");
    assert!(shown.contains("eu of root"), "{shown}");
}
