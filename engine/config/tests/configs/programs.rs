//! Agents that are programs.

use baton_config::{PriceTable, Role, Unconfigured, load, prices};
use baton_tool::{BoxFuture, ToolContext, ToolError, ToolFunction};
use baton_types::config::{OnText, PROGRAM_MODEL};
use baton_types::id::ToolId;
use baton_types::json::Json;
use baton_types::money::Price;
use serde_json::{Value, json};

use crate::support::{Files, WORD_COUNT, check, rules, sound};

fn unused<'a>(_: &'a ToolContext, _: &'a Json) -> BoxFuture<'a, Result<Json, ToolError>> {
    Box::pin(async { Ok(Json::null()) })
}

fn parameters() -> Value {
    let text = || json!({"type": "string"});
    let object = || json!({"type": "object"});
    json!({
        "type": "object",
        "properties": {"name": text(), "code": text(), "request": text(), "inputs": object(), "schema": object()},
        "required": ["name", "code", "request", "inputs", "schema"],
        "additionalProperties": false
    })
}

/// The function of a tool that runs programs.
static PERFORM: ToolFunction = ToolFunction {
    id: "perform",
    name: "perform",
    file: "tools/src/perform.rs",
    line: 4,
    parameters,
    blocking: false,
    invoke: unused,
};

const CONFIG: &str = r#"{
  "tool_id": "perform",
  "type": "function_tool",
  "description": "Runs programs of agents",
  "parameters": {
    "name": { "type": "string", "description": "The file", "required": true },
    "code": { "type": "string", "description": "The text", "required": true },
    "request": { "type": "string", "description": "The request", "required": true },
    "inputs": { "type": "object", "description": "The inputs", "required": true },
    "schema": { "type": "object", "description": "The schema", "required": true }
  },
  "effect": "pure",
  "calls": ["*"],
  "runs_programs": true
}"#;

const COUNTER: &str = r#"{
  "agent_id": "counter",
  "description": "Counts",
  "program": "count.py",
  "tools": ["word_count"]
}"#;

/// Returns the job whose counter is this program.
fn counting(program: &str) -> Files {
    let files = sound().functions(&[&WORD_COUNT, &PERFORM]).with(Role::BuiltinTool, "tool-configs/perform.json", CONFIG);
    files.with(Role::Agent, "agents/counter.json", COUNTER).with(Role::Program, "count.py", program)
}

#[test]
fn an_agent_may_be_a_program() {
    let configs = counting("call('word_count', text='a b')").load().expect("it is sound");
    let agent = &configs.agents["counter"];
    let program = agent.program.as_ref().expect("it has a program");
    assert_eq!(
        (program.file.as_str(), &*program.source, program.tool.as_str()),
        ("count.py", "call('word_count', text='a b')", "perform")
    );
    assert_eq!((agent.model.as_str(), agent.on_text), (PROGRAM_MODEL, OnText::Remind));
    assert_eq!(agent.tools.keys().map(ToolId::as_str).collect::<Vec<_>>(), ["perform", "word_count"]);
    assert!(configs.agents["lead"].program.is_none() && !configs.agents["lead"].tools.contains_key("perform"));
    let prices = prices(&configs, Some("acme:m"), |_| true, PriceTable::embedded);
    assert_eq!(prices.get(PROGRAM_MODEL), Some(&Price::scripted()), "a program is free, whatever model the others have");
    let other = counting("call('word_count', text='c')").load().expect("it is sound");
    assert_ne!(other.agents["counter"].settings, agent.settings, "requests of another program are other requests");
}

#[test]
fn faults_of_programs_have_their_place() {
    check(
        counting("x = 1\nwhile x\n    x = 2\n"),
        "
error B0136: SyntaxError: Expected `:`, found newline
   ┌─ demo/count.py:2:8
 2 │ while x
   │        ^
1 error
",
    );
}

#[test]
fn an_agent_has_a_model_or_a_program() {
    let faults = counting("1").edited("agents/counter.json", "\"program\"", "\"model\": \"scripted\", \"program\"").faults();
    assert!(faults.contains("B0109: \"model\" is for an agent with a model, and this one has a program"), "{faults}");
    let of_turns = r#""join": "fail_fast", "tell_limits": true, "open_tasks": "cancel", "program""#;
    let faults = counting("1").edited("agents/counter.json", "\"program\"", of_turns).faults();
    for key in ["join", "tell_limits", "open_tasks"] {
        assert!(faults.contains(&format!("B0109: \"{key}\" is for an agent with a model")), "{faults}");
    }
    let faults = counting("1").edited("agents/counter.json", "\"program\": \"count.py\",", "").faults();
    for key in ["model", "system_prompt"] {
        assert!(faults.contains(&format!("B0106: key \"{key}\" is missing")), "{faults}");
    }
    let faults = counting("1").edited("agents/counter.json", "\"program\"", "\"limits\": {\"turns\": 1}, \"program\"").faults();
    assert!(faults.contains("B0107: \"turns\" leaves a program no turn"), "{faults}");
    let faults = counting("1").edited("agents/counter.json", "count.py", "cuont.py").faults();
    assert!(faults.contains("the program file \"cuont.py\" does not exist") && faults.contains("count.py"), "{faults}");
}

#[test]
fn a_tool_that_runs_programs_can_do_so_and_no_selector_grants_it() {
    let tagged = counting("1").edited("tool-configs/perform.json", "\"effect\"", "\"category\": \"flow\", \"effect\"");
    let faults = tagged.edited("agents/lead.json", "\"handoff\"", "\"handoff\", {\"category\": \"flow\"}").faults();
    assert!(faults.contains("no tool has the category \"flow\""), "{faults}");
    let faults = counting("1").edited("tool-configs/perform.json", "\"calls\": [\"*\"],", "").faults();
    assert!(faults.contains("\"runs_programs\" is for a function with \"calls\""), "{faults}");
    let faults = counting("1").edited("tool-configs/perform.json", ",\n  \"runs_programs\": true", "").faults();
    assert!(faults.contains("no tool runs the programs of agents"), "{faults}");
}

#[test]
fn a_program_calls_only_tools_of_its_agent() {
    check(
        counting(
            "a = call('word_cuont', text='a')\nb = later(agent, name='lead', request='x')\nparallel([later(call, 'word_count', text=a)])\nask(a)\n",
        ),
        "
error B0119: the program calls word_cuont, and agent \"counter\" has no tool of this id
   ┌─ demo/count.py:1:10
 1 │ a = call('word_cuont', text='a')
   │          ^^^^^^^^^^^^ did you mean \"word_count\"?
error B0119: the program calls route_to_lead, and agent \"counter\" has no tool of this id
   ┌─ demo/count.py:2:23
 2 │ b = later(agent, name='lead', request='x')
   │                       ^^^^^^ expected \"word_count\"
error B0119: the program calls ask_master, and agent \"counter\" has no tool of this id
   ┌─ demo/count.py:4:1
 4 │ ask(a)
   │ ^^^ expected \"word_count\"
3 errors
",
    );
    for sound in ["def call(tool):\n    return tool\ncall('nothing')\n", "name = 'no' + 'thing'\ncall(name)\n", "agent = 1\n"] {
        counting(sound).load().expect("what is not the function of the host, or not a text, is not checked");
    }
}

#[test]
fn a_program_accepts_no_results() {
    let file = "{ \"tool_id\": \"route_to_lead\",\n  \"accept\": { \"by\": \"agent:counter\" } }";
    let told = counting("1").with(Role::Tool, "tools/route_to_lead.json", file).faults();
    assert!(told.contains("the agent \"counter\" is a program, which answers no questions"), "{told}");
    assert!(told.contains("route_to_lead.json:2:21"), "{told}");
}

#[test]
fn the_tool_that_runs_programs_is_kept_for_a_run_with_a_program_only() {
    let pinned = |files: Files, functions: &[&'static ToolFunction]| {
        load(&files.sources(), functions, Unconfigured::Allowed, &rules()).map(|configs| configs.tools.contains_key("perform"))
    };
    // No agent is granted the tool, which has no function either.
    let idle = r#"{ "tool_id": "idle", "type": "function_tool", "description": "d", "input_schema": { "type": "object" } }"#;
    let files = || counting("call('word_count', text='a b')").with(Role::BuiltinTool, "tool-configs/idle.json", idle);
    assert_eq!(pinned(files(), &[&WORD_COUNT, &PERFORM]), Ok(true));
    let without_program = files().with(Role::Agent, "agents/counter.json", crate::support::COUNTER);
    assert_eq!(pinned(without_program, &[&WORD_COUNT]), Ok(false), "its function may be absent");
}
