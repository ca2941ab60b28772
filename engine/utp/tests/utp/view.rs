//! Cards as a view of a timeline.

use std::collections::BTreeMap;
use std::sync::Arc;

use baton_types::call::{AfterExecution, CallError, CallResult, ErrorCode, ModelCall};
use baton_types::entry::{CallFinished, CallRefused, CallStarted, Entry, ModelAnswered, Recorded};
use baton_types::id::{CallId, ContentHash, RunId, TaskId, ToolId};
use baton_types::json::Json;
use baton_types::model::FinishReason;
use baton_types::time::Timestamp;
use baton_types::tool_type::ToolType;
use baton_utp::card::Card;
use baton_utp::id::{AgentTurnId, CardId, Derived, Name, ProjectName, StepId, ToolCallId};
use baton_utp::view::Cards;
use serde_json::{Value, json};

fn entries() -> Vec<Entry> {
    let task = TaskId::from("0/1.1");
    let (search, call) = (ToolId::from("search"), CallId::from("0/1.1/3.1"));
    vec![
        Entry::ModelAnswered(ModelAnswered {
            task: task.clone(),
            turn: 3,
            text: "I search.".to_owned(),
            calls: vec![
                Arc::new(ModelCall::new("search", json!({"q": "a"}))),
                Arc::new(ModelCall::new("nothing", json!({"x": 1}))),
            ],
            finish: FinishReason::ToolCalls,
            kind: baton_types::entry::TurnKind::Work,
            request: ContentHash::of(b""),
            items: Json::null(),
            answered: None,
            recorded: None,
        }),
        Entry::CallRefused(CallRefused {
            task: task.clone(),
            call: CallId::from("0/1.1/3.2"),
            tool: ToolId::from("nothing"),
            tool_type: None,
            error: CallError::new(ErrorCode::UnknownTool, "there is no such tool"),
        }),
        Entry::CallStarted(CallStarted {
            task: task.clone(),
            call: call.clone(),
            tool: search.clone(),
            tool_type: ToolType::FunctionTool,
            documents: Vec::new(),
            target: None,
            input: Some(Json::from(json!({"q": "a", "limit": 5}))),
            envs: BTreeMap::from([("key".to_owned(), "SEARCH_KEY".to_owned())]),
        }),
        Entry::CallFinished(CallFinished {
            task,
            call,
            tool: search,
            tool_type: ToolType::FunctionTool,
            result: Arc::new(CallResult::success(json!({"hits": 2}))),
            after: AfterExecution::Suspend,
            repeat: 1,
            delivered_by: None,
            result_of: None,
            said: Vec::new(),
            conflicts: Vec::new(),
            read: Vec::new(),
            printed: None,
        }),
    ]
}

fn cards() -> Vec<Card> {
    let targets = BTreeMap::from([(ToolId::from("search"), "cg.v1r3.acme.main.cmd.tool.search".to_owned())]);
    let mut cards = Cards::new(RunId::from("7k2f"), ProjectName::parse("acme").expect("a name"), targets);
    let at = Timestamp::parse("2026-11-21T09:30:00Z").expect("a moment");
    let recorded = (1..).zip(entries()).map(|(seq, entry)| Recorded { seq, decision: seq, at, entry });
    recorded.flat_map(|recorded| cards.add(&recorded)).collect()
}

#[test]
fn cards_are_a_view_of_the_timeline() {
    let shown: Vec<Value> = cards().iter().map(|card| serde_json::to_value(card).expect("it serialises")).collect();
    let ids: Vec<&str> = shown.iter().filter_map(|card| card["card_id"].as_str()).collect();
    assert_eq!(
        ids,
        ["7k2f:0/1.1/3:thought", "7k2f:0/1.1/3.2:call", "7k2f:0/1.1/3.2:result", "7k2f:0/1.1/3.1:call", "7k2f:0/1.1/3.1:result"]
    );
    assert_eq!(
        shown[3],
        json!({
            "card_id": "7k2f:0/1.1/3.1:call", "project_id": "acme", "type": "tool.call", "author_id": "baton",
            "content": {
                "tool_name": "search", "arguments": {"q": "a", "limit": 5}, "status": "called",
                "target_subject": "cg.v1r3.acme.main.cmd.tool.search", "envs": {"key": "SEARCH_KEY"}
            },
            "created_at": shown[3]["created_at"],
            "metadata": {
                "role": "assistant", "agent_turn_id": "7k2f/0/1.1", "step_id": "3", "tool_call_id": "0/1.1/3.1",
                "function_name": "search"
            }
        })
    );
    assert_eq!(
        shown[4]["content"],
        json!({"status": "success", "after_execution": "suspend", "result": {"hits": 2}, "error": null})
    );
    assert_eq!(shown[2]["content"]["result"]["error_code"], "unknown_tool");
    assert_eq!(cards(), cards(), "the same entries give the same cards");
}

#[test]
fn a_result_card_of_the_view_is_one_that_a_service_could_have_written() {
    let result = cards().pop().expect("a card");
    let text = serde_json::to_vec(&result).expect("it serialises");
    assert_eq!(Card::read_result(&text).expect("a card"), result);
}

#[test]
fn ids_name_run_task_turn_and_call() {
    let (run, call) = (RunId::from("7k2f"), CallId::from("0/2.1:fetch_all/1.3"));
    assert_eq!(AgentTurnId::of(&run, &call.task()).named(), Some((run.clone(), call.task())));
    assert_eq!(ToolCallId::of(&call).named(), Some(call.clone()));
    assert_eq!(StepId::of_call(&call).expect("a turn").as_str(), "1");
    assert_eq!(StepId::of_call(&CallId::from("0/2.1:fetch")).expect("a turn").as_str(), "2", "the turn of the outer call");
    for kind in [Derived::Call, Derived::Result] {
        assert_eq!(CardId::of_call(&run, &call, kind).named_call(), Some((run.clone(), call.clone(), kind)));
    }
    for foreign in ["", "a", "a:b:call", "7k2f:0/1.1:other", ":0/1.1:call"] {
        assert_eq!(CardId::parse(foreign).and_then(|card| card.named_call()), None, "{foreign}");
    }
}
