//! Estimated lengths of requests before a provider counts them: everything that is sent counts, and nothing else.

use std::sync::Arc;

use baton_tool::measure::measure;
use baton_types::call::CallResult;
use baton_types::config::{EffectClass, Invocation};
use baton_types::document::{DocumentRef, DocumentVersion};
use baton_types::entry::{Entry, Notice, Said};
use baton_types::event::Outcome;
use baton_types::id::{ContentHash, TaskId};
use baton_types::json::Json;
use baton_types::limits::Limits;
use baton_types::message::{Message, Part, Role, request_tokens};
use baton_types::model::{ModelRequest, ToolDefinition};
use baton_types::path::DocumentPath;
use baton_types::time::Timestamp;
use serde_json::json;

use crate::support::jobs::ToolDraft;
use crate::support::{Sim, agent, call, function, handoff, handoff_with, job, route_with, turn, write, writes};

/// Returns a request of one part, and what it is estimated to take.
fn tokens_with(part: Part) -> u64 {
    tokens_of("", &[], vec![part])
}

fn tokens_of(system: &str, tools: &[ToolDefinition], parts: Vec<Part>) -> u64 {
    let tool = |tool: &ToolDefinition| {
        Arc::new(ToolDefinition {
            id: tool.id.clone(),
            name: tool.name.clone(),
            description: tool.description.clone(),
            input_schema: tool.input_schema.clone(),
        })
    };
    request_tokens(&ModelRequest {
        call: None,
        task: TaskId::root(),
        agent: "root".into(),
        turn: 1,
        is_question: false,
        model: "script".to_owned(),
        system: system.into(),
        messages: Arc::new(vec![Arc::new(Message { role: Role::User, parts })]),
        tools: tools.iter().map(tool).collect(),
        settings: Json::null(),
        own_output_tokens: None,
        invocation: Invocation::Native,
        result_schema: None,
        hash: ContentHash::of(b""),
    })
}

#[test]
fn whatever_is_sent_counts_in_what_a_request_is_estimated_to_take() {
    let asked = |input: String| Arc::new(call("work", &input));
    let result = |output: String, question: String, answer: String| Part::Result {
        call: "0/1.1".into(),
        asked: asked(String::new()),
        result: Some(Arc::new(CallResult::success(json!(output)))),
        hint: None,
        said: vec![Said { asker: "child".into(), question, answer: Json::from(json!(answer)) }],
    };
    let question = |question: String, schema: String| Part::Question {
        asker: "child".into(),
        question,
        answer_schema: Json::from(json!({"description": schema})),
    };
    let tool = |id: String, description: String, schema: String| ToolDefinition {
        id: id.as_str().into(),
        name: None,
        description,
        input_schema: Json::from(json!({"description": schema})),
    };
    let short = || "x".repeat(40);
    let texts: [(&str, &dyn Fn(String) -> u64); 15] = [
        ("prompt", &|text| tokens_of(&text, &[tool(short(), short(), short())], vec![Part::Text(short())])),
        ("tool id", &|text| tokens_of(&short(), &[tool(text, short(), short())], vec![Part::Text(short())])),
        ("tool description", &|text| tokens_of(&short(), &[tool(short(), text, short())], vec![Part::Text(short())])),
        ("tool schema", &|text| tokens_of(&short(), &[tool(short(), short(), text)], vec![Part::Text(short())])),
        ("request", &|text| tokens_with(Part::Request(text))),
        ("text", &|text| tokens_of(&short(), &[tool(short(), short(), short())], vec![Part::Text(text)])),
        ("message", &|text| tokens_with(Part::Notice(Notice::Steer { text }))),
        ("summary", &|text| tokens_with(Part::Summary { through_turn: 1, text })),
        ("question", &|text| tokens_with(question(text, short()))),
        ("answer schema", &|text| tokens_with(question(short(), text))),
        ("items", &|text| tokens_with(Part::Items(Json::from(json!(text))))),
        ("input", &|text| tokens_with(Part::Call { call: "0/1.1".into(), asked: asked(text) })),
        ("output", &|text| tokens_with(result(text, short(), short()))),
        ("question in its name", &|text| tokens_with(result(short(), text, short()))),
        ("answer in its name", &|text| tokens_with(result(short(), short(), text))),
    ];
    for (what, tokens) in texts {
        let grown = tokens("x".repeat(8_000)) - tokens("x".repeat(4_000));
        assert_eq!(grown, 1_000, "4,000 bytes of {what}");
        let little = tokens("x".repeat(40));
        assert!((10..200).contains(&little), "a short {what} takes {little}");
    }
}

fn version(path: &str, content: &[u8]) -> Arc<DocumentVersion> {
    let path = DocumentPath::parse(path).unwrap();
    let (content, at) = (measure(&path, content, None), Timestamp::from_micros(0));
    let (description, tags) = (String::new(), Vec::new());
    Arc::new(DocumentVersion {
        path,
        version: 1,
        base: None,
        content,
        description,
        tags,
        task: None,
        call: None,
        created_by: None,
        at,
    })
}

#[test]
fn documents_that_are_sent_count_whole_and_pointers_and_former_versions_do_not() {
    let long = version("a.md", "x".repeat(40_000).as_bytes());
    let short = version("a.md", b"x");
    let tokens = |part: Part| tokens_of("You are root.", &[], vec![Part::Request("read".to_owned()), part]);
    let frame = tokens(Part::Pointer(Arc::clone(&long)));
    assert!((10..200).contains(&frame), "{frame}");
    assert_eq!(tokens(Part::Document(Arc::clone(&long))), frame + 10_000);
    let conflict = |base: Option<&Arc<DocumentVersion>>, current: &Arc<DocumentVersion>| {
        tokens(Part::Conflict { base: base.cloned(), current: Arc::clone(current), with_changes: true })
    };
    assert_eq!(conflict(None, &long), frame + 10_000);
    assert_eq!(conflict(Some(&long), &short), conflict(None, &short));
}

/// Returns a root that is shown 20 documents of 10,000 tokens each, which exceed the budget of its edge.
fn shown_many(sim: impl FnOnce(Sim) -> Sim, shown: ToolDraft) -> Sim {
    let limits = Limits { inject_tokens: Some(100), ..Limits::default() };
    let draft = job([agent("root", "look route_to_child").limits(limits), agent("child", "")]).tool(shown);
    let documents = (0..20).map(|number| write(&format!("a/quite/long/path/of/number/{number}.md"), &"word ".repeat(8_000)));
    let sim = sim(Sim::new(&draft)).start_with(documents.collect());
    sim.assert_over();
    sim
}

fn paths() -> Vec<String> {
    (0..20).map(|number| format!("a/quite/long/path/of/number/{number}.md")).collect()
}

#[test]
fn what_a_tool_loads_is_sent_whole_and_counts_so_and_what_others_attach_is_held_to_the_budget() {
    let look = function("look").effect(EffectClass::Pure);
    let loaded = shown_many(
        |sim| {
            sim.agent("root", [turn([call("look", "a")]), turn([handoff("done")])]).tool("look", |_| {
                let loads = paths().into_iter().map(|path| DocumentRef { path: DocumentPath::parse(&path).unwrap(), version: 1 });
                Outcome { loads: loads.collect(), ..Outcome::success(json!("loaded")) }
            })
        },
        look.clone(),
    );
    let paths = paths();
    let names: Vec<&str> = paths.iter().map(String::as_str).collect();
    let handed = shown_many(
        |sim| {
            let back = turn([handoff_with("all", &names)]);
            sim.agent("root", [turn([route_with("child", "read", &names)]), turn([handoff("done")])]).agent("child", [back])
        },
        look,
    );
    let newest = |sim: &Sim| {
        let asked = sim.entries().filter_map(|entry| match entry {
            Entry::ModelRequested(asked) if asked.task == TaskId::root() => Some(asked.input_tokens),
            _ => None,
        });
        (asked.last().expect("it was asked"), request_tokens(&sim.request("0")))
    };
    let (counted, sent) = newest(&loaded);
    assert!(sent > 200_000 && counted >= 200_000, "{counted} counted of {sent}");
    let (counted, sent) = newest(&handed);
    assert!(sent < 5_000 && counted < 3 * sent && sent < 3 * counted, "{counted} counted of {sent}");
}

#[test]
fn the_current_version_after_a_refused_write_is_shown_and_counted() {
    let draft = job([agent("root", "route_to_child"), agent("child", "save")]).tool(function("save").writing());
    let sim = Sim::new(&draft)
        .agent("root", [turn([route_with("child", "x", &[])]), turn([handoff("done")])])
        .agent("child", [turn([call("save", "a")]), turn([handoff("child")])])
        .tool("save", |_| writes(json!("saved"), vec![write("a.md", "mine")]))
        .start_with(vec![write("a.md", &"word ".repeat(8_000))]);
    sim.assert_over();
    let counted = sim.entries().filter_map(|entry| match entry {
        Entry::ModelRequested(asked) if asked.task.as_str() == "0/1.1" => Some(asked.input_tokens),
        _ => None,
    });
    let (counted, sent) = (counted.last().unwrap(), request_tokens(&sim.request("0/1.1")));
    assert!(sent > 10_000 && counted.abs_diff(sent) < 200, "{counted} counted of {sent}");
}
