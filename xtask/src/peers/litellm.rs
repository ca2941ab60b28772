//! LiteLLM's proxy: its mock answers and errors, and whole conversations from a script provider.
//!
//! The proxy speaks three dialects to its clients and translates between them and its providers, so both directions
//! pass through code that was written without knowledge of Baton. `script_provider.py` compares the received requests
//! with its answers.

use std::path::Path;

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::environment::Installer;
use super::program::{Access, FinishedRun, KEY, KEY_VALUE, Program, WRONG_KEY, write_json};
use super::server::Server;
use super::{Checked, Row};
use crate::project::root;

/// Name of the server.
pub(crate) const NAME: &str = "litellm";

const REQUIREMENTS: &str = include_str!("../../peers/litellm.txt");
const SCRIPT_PROVIDER: &str = include_str!("../../peers/script_provider.py");

/// The job that is run by script, and then by the proxy.
const Q3: &str = "examples/q3-sales";

/// The prompt of the agent that most cases ask.
const PROMPT: &str = "You repeat what you are finished, and say when you are done.";

/// Text of the mocks.
const MOCKED: &str = "All is well.";

/// One thing that the proxy is asked for, and what must come of it.
struct Case {
    name: &'static str,
    /// Under which the proxy has the model, if it has it.
    parameters: Option<Value>,
    /// The provider that it is asked like.
    like: &'static str,
    stream: bool,
    key: &'static str,
    expected: Expected,
}

/// Expected outcome of a run.
struct Expected {
    exit: i32,
    /// The code of the error; none, if it succeeds.
    error: Option<&'static str>,
    /// Words that the result or the error has.
    contains: &'static str,
    executed: &'static [&'static str],
}

/// Tries every case.
pub(crate) fn check(installer: &Installer<'_>, program: &Program) -> anyhow::Result<Checked> {
    let environment = installer.environment(NAME, REQUIREMENTS)?;
    let scripts = program.folder().join("scripts");
    let baseline = program.run("q3-by-script", Path::new(Q3), &[])?;
    ensure!(baseline.exit == Some(0), "{Q3} does not succeed by its own script: {}", baseline.stderr);
    let exported = program.asked("q3-by-script", &["export", "@last", "--script"])?;
    write_json(&scripts.join("q3.json"), &json!({ "agents": agents_of(&exported)? }))?;
    for (name, refuses, breaks, turns) in [
        ("plain", 0, 0, json!([{ "text": MOCKED }])),
        ("parallel", 0, 0, parallel()),
        ("busy", 2, 0, parallel()),
        ("breaks", 0, 2, parallel()),
    ] {
        let agent = json!({"agent": "parrot", "system_prompt": PROMPT, "turns": turns});
        write_json(&scripts.join(format!("{name}.json")), &json!({"refuses": refuses, "breaks": breaks, "agents": [agent]}))?;
    }

    let cases = cases();
    let config = program.folder().join("config.yaml");
    write_json(&config, &configured(&cases))?;
    std::fs::write(program.folder().join("script_provider.py"), SCRIPT_PROVIDER)?;
    let server = Server::start(
        |port| {
            let mut litellm = environment.program("litellm");
            litellm.args(["--host", "127.0.0.1", "--port", &port.to_string(), "--telemetry", "False", "--config"]).arg(&config);
            litellm.env("BATON_PEERS_KEY", KEY_VALUE).env("BATON_PEERS_SCRIPTS", &scripts);
            // It neither asks the web for prices nor insists on a key of its own: who may ask is the script provider's to say.
            litellm
                .env("LITELLM_LOCAL_MODEL_COST_MAP", "True")
                .env("LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY", "true");
            litellm
        },
        "/health/liveliness",
        &environment.folder.join("server.log"),
    )?;

    let access = |case: &Case| {
        let (name, settings) = (case.name, json!({ "stream": case.stream }));
        Access { name, model: name, like: case.like, address: server.address("/v1"), key: case.key, settings }
    };
    program.write_models(&cases.iter().map(access).collect::<Vec<_>>())?;
    let talk = program.folder().join("talk");
    write_job(&talk)?;
    let mut rows = Vec::new();
    for case in &cases {
        let job = if case.is_q3() { Path::new(Q3) } else { &talk };
        let finished = program.run(case.name, job, &["--model", case.name])?;
        rows.push(case.row(&finished, &baseline));
    }
    let installed = REQUIREMENTS.lines().next().unwrap_or_default();
    Ok(Checked { summary: format!("{installed}: {} cases", rows.len()), rows })
}

/// Returns all cases. What the proxy's mocks can say comes from them, the rest from the script provider: mocks stream no calls, and no
/// text in the dialect of responses.
fn cases() -> Vec<Case> {
    let mock = |response: &str| Some(json!({"model": "openai/mock", "api_key": "none", "mock_response": response}));
    let calls = Some(json!({
        "model": "openai/mock", "api_key": "none", "mock_response": "Now.",
        "mock_tool_calls": [mocked_call(1, "echo"), mocked_call(2, "echo"), mocked_call(3, "handoff")],
    }));
    let script = |name: &str| Some(json!({ "model": format!("script/{name}") }));
    let done = |contains, executed| Expected { exit: 0, error: None, contains, executed };
    let unavailable = |contains| Expected { exit: 5, error: Some("model_unavailable"), contains, executed: &[] };
    let rejected = |contains| Expected { exit: 1, error: Some("model_failed"), contains, executed: &[] };
    let too_long = |contains| Expected { error: Some("context_exceeded"), ..rejected(contains) };
    let case = |name, parameters, like, stream, expected| Case { name, parameters, like, stream, key: KEY, expected };
    const ECHOED: &[&str] = &["echo", "echo", "handoff"];
    const TALKED: &[&str] = &["echo", "echo", "echo", "handoff"];
    const CHAT: &str = "llamacpp";
    let mut cases = vec![
        case("plain", mock(MOCKED), CHAT, false, done(MOCKED, &[])),
        case("plain-streamed", mock(MOCKED), CHAT, true, done(MOCKED, &[])),
        case("plain-anthropic", mock(MOCKED), "anthropic", true, done(MOCKED, &[])),
        case("plain-responses", script("plain"), "openai-responses", true, done(MOCKED, &[])),
        case("calls", calls, CHAT, false, done(MOCKED, ECHOED)),
        case("parallel", script("parallel"), CHAT, false, done("three", TALKED)),
        case("parallel-streamed", script("parallel"), CHAT, true, done("three", TALKED)),
        case("busy-at-first", script("busy"), CHAT, true, done("three", TALKED)),
        case("breaks-in-stream", script("breaks"), CHAT, true, done("three", TALKED)),
        case("server-error", mock("litellm.InternalServerError"), CHAT, false, unavailable("500")),
        case("overloaded", mock("Exception: mock_streaming_error"), CHAT, true, unavailable("mid-stream")),
        case("too-long", mock("litellm.ContextWindowExceededError"), CHAT, true, too_long("context window")),
        case("filtered", mock("Exception: content_filter_policy"), CHAT, true, rejected("content_filter_policy")),
        case("unknown-model", None, CHAT, true, rejected("unknown-model")),
    ];
    cases.push(Case { key: WRONG_KEY, ..case("wrong-key", mock(MOCKED), CHAT, true, unavailable(WRONG_KEY)) });
    for (name, like, stream) in [
        ("q3-whole", CHAT, false),
        ("q3-streamed", CHAT, true),
        ("q3-strict", "openai", true),
        ("q3-responses", "openai-responses", true),
        ("q3-anthropic", "anthropic", true),
    ] {
        cases.push(case(name, script("q3"), like, stream, done("North", &[])));
    }
    cases
}

impl Case {
    /// Whether it runs the whole example, and not one agent.
    fn is_q3(&self) -> bool {
        self.name.starts_with("q3-")
    }

    /// Returns the row of `finished`, with its faults.
    fn row(&self, finished: &FinishedRun, baseline: &FinishedRun) -> Row {
        let Expected { exit, error, contains, executed } = &self.expected;
        let code = finished.report["error"]["code"].as_str();
        let mut row = Row { case: self.name.to_owned(), saw: finished.seen(), faults: finished.faults() };
        row.expect("exit code", &finished.exit, &Some(*exit));
        row.expect("error", &code, error);
        let words = if error.is_some() { &finished.report["error"]["message"] } else { &finished.report["result"] };
        if !words.to_string().contains(contains) {
            row.faults.push(format!("{words} does not contain {contains:?}"));
        }
        let (calls, documents) = if self.is_q3() {
            (baseline.executed(), &baseline.documents)
        } else {
            (executed.to_vec(), &std::collections::BTreeMap::new())
        };
        row.expect("calls", &finished.executed(), &calls);
        // Their bytes would not help the reader of a fault.
        row.expect("documents are those of the script", &(finished.documents == *documents), &true);
        if self.is_q3() {
            row.expect("result", &finished.report["result"], &baseline.report["result"]);
        }
        if error.is_none() {
            row.expect("usage is reported by the server", &finished.usage_is_reported(), &true);
        }
        row
    }
}

/// Returns the proxy's config. JSON is YAML.
fn configured(cases: &[Case]) -> Value {
    let listed = |case: &Case| case.parameters.as_ref().map(|said| json!({"model_name": case.name, "litellm_params": said}));
    json!({
        "model_list": cases.iter().filter_map(listed).collect::<Vec<_>>(),
        // What fails is for its client to try again.
        "router_settings": {"num_retries": 0},
        "litellm_settings": {
            "num_retries": 0,
            "custom_provider_map": [{"provider": "script", "custom_handler": "script_provider.script_provider"}],
        },
        "general_settings": {"custom_auth": "script_provider.authenticate"},
    })
}

/// Writes a job of one agent, with tools that the mocks know.
fn write_job(folder: &Path) -> anyhow::Result<()> {
    let job = json!({"job_id": "talk", "description": "One agent, asked.", "root": "parrot", "request": "Say it.",
        "outage_seconds": 5});
    write_json(&folder.join("job.json"), &job)?;
    let agent = json!({
        "agent_id": "parrot", "description": "Repeats.", "model": "plain", "system_prompt": PROMPT, "tools": ["echo", "handoff"],
    });
    write_json(&folder.join("agents/parrot.json"), &agent)
}

/// Returns a call as LiteLLM's mocks have it.
fn mocked_call(number: u32, tool: &str) -> Value {
    let input = if tool == "echo" { json!({"message": MOCKED}) } else { json!({"result": {"said": MOCKED}}) };
    json!({"id": format!("call_{number}"), "type": "function", "function": {"name": tool, "arguments": input.to_string()}})
}

/// Turns of two calls each, with what escapes are for.
fn parallel() -> Value {
    let echo = |message: &str| json!({"tool": "echo", "input": {"message": message}});
    let handoff = json!({"tool": "handoff", "input": {"result": {"echoed": "three"}}});
    json!([
        {"text": "Two at once: é, 𝄞 and \"quotes\".", "calls": [echo("one"), echo("zwei \\ \"deux\"\n𝄞")]},
        {"text": "", "calls": [echo("three"), handoff]},
    ])
}

/// Returns the agents of an exported script, as the script provider reads them. Each has one task.
fn agents_of(exported: &Value) -> anyhow::Result<Vec<Value>> {
    let agents = exported["agents"].as_object().context("a script has agents")?;
    let agents = agents.iter().map(|(agent, script)| {
        let config = std::fs::read(root().join(Q3).join("agents").join(format!("{agent}.json")))?;
        let config: Value = serde_json::from_slice(&config)?;
        let turns = script["tasks"].as_object().and_then(|tasks| tasks.values().next()).context("an agent has a task")?;
        Ok(json!({"agent": agent, "system_prompt": config["system_prompt"], "turns": turns}))
    });
    agents.collect()
}
