//! Examples of tools, run against their functions: what agents are shown comes out, or it is told what does not.

use std::sync::Arc;
use std::task::Poll;

use baton_core::config::{Role, Sources, Tool, Unconfigured, load_tools};
use baton_core::function::testing::block_on;
use baton_core::function::{ExampleFailure, ToolContext, ToolFunction, compare_output, run_example};
use serde_json::{Value, json};

/// Tells what it was given, the secrets and documents that it sees, and whether it may write.
static TELL: ToolFunction = ToolFunction {
    id: "tell",
    name: "tell",
    file: "examples.rs",
    line: 1,
    parameters: || json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}),
    blocking: false,
    invoke: |context, input| {
        Box::pin(async move {
            let documents: Vec<&str> = context.documents().iter().map(|(path, _)| path.as_str()).collect();
            Ok(json!({"text": input.value()["text"], "documents": documents, "writes": context.may_write()}).into())
        })
    },
};

fn loaded(config: &Value) -> Arc<Tool> {
    let mut sources = Sources::default();
    sources.add(Role::BuiltinTool, "tool-configs/tell.json", config.to_string());
    let is_function = config["type"] == "function_tool" && config.get("exec").is_none();
    let functions: &[&ToolFunction] = if is_function { &[&TELL] } else { &[] };
    let tools = load_tools(&sources, functions, Unconfigured::Refused).unwrap_or_else(|faults| panic!("{faults}"));
    Arc::clone(&tools["tell"])
}

fn tell(keys: Value) -> Arc<Tool> {
    let mut config = json!({
        "tool_id": "tell", "type": "function_tool", "description": "Tells.",
        "parameters": {"text": {"type": "string", "description": "A text.", "required": true}}
    });
    let config_keys = config.as_object_mut().expect("the literal is an object");
    config_keys.extend(keys.as_object().expect("the keys are an object").clone());
    loaded(&config)
}

/// What comes of the one example of `tool`.
fn run(tool: &Tool) -> Result<(), String> {
    block_on(run_example(tool, &tool.examples[0])).map_err(|failure| failure.to_string())
}

#[test]
fn an_example_holds_when_whatever_it_gives_comes_out() {
    let example = |output: Value| {
        let example =
            json!({"explanation": "e", "input": {"text": "a"}, "documents": {"b.md": "B", "a.md": "A"}, "output": output});
        run(&tell(json!({"examples": [example], "writes": true})))
    };
    assert_eq!(example(json!({"text": "a", "documents": ["a.md", "b.md"], "writes": true})), Ok(()));
    assert_eq!(example(json!({})), Ok(()));
    assert_eq!(
        example(json!({"text": "b", "documents": ["a.md"], "more": 1})),
        Err("output/text should be \"b\", but is \"a\"; \
             output/documents should be [\"a.md\"], but is [\"a.md\",\"b.md\"]; \
             output/more should be 1, but is not there"
            .to_owned())
    );
}

#[test]
fn an_output_that_breaks_its_schema_fails_the_example() {
    let returns =
        |kind: &str| run(&tell(json!({"examples": [{"explanation": "e", "input": {"text": "a"}}], "returns": {"text": kind}})));
    assert_eq!(returns("string"), Ok(()));
    assert_eq!(
        returns("integer"),
        Err("the output breaks the tool's schema at \"/text\": \"a\" is not of type \"integer\"".to_owned())
    );
}

#[test]
fn a_tool_that_runs_no_code_has_nothing_to_run_and_one_that_another_program_runs_says_so() {
    let examples = json!([{"explanation": "e", "input": {"text": "a"}}]);
    let note = tell(json!({"type": "non_function_tool", "examples": examples}));
    assert_eq!(run(&note), Ok(()));
    let command = tell(json!({"exec": {"command": ["tell"]}, "examples": examples}));
    let failure = block_on(run_example(&command, &command.examples[0]));
    assert_eq!(failure, Err(ExampleFailure::NoFunction { tool: "tell".to_owned() }));
}

#[test]
fn equal_values_are_equal_and_numbers_may_differ_in_their_last_digits() {
    let differing = |expected: &Value, found: &Value| compare_output(expected, found).len();
    for same in [json!("a"), json!(true), json!(null), json!([1, "b"]), json!({"a": {"b": [null]}}), json!(1e300)] {
        assert_eq!(differing(&same, &same), 0, "{same}");
    }
    for (expected, near, far) in [(1.0, 1.0 + 1e-10, 1.0 + 1e-8), (1e12, 1e12 + 100.0, 1e12 + 10_000.0), (0.0, 1e-10, 1e-8)] {
        assert_eq!(differing(&json!(expected), &json!(near)), 0, "{expected} and {near}");
        assert_eq!(differing(&json!(expected), &json!(far)), 1, "{expected} and {far}");
    }
}

#[test]
fn a_test_gives_a_function_its_secrets() {
    let context = ToolContext::for_test().with_secret("KEY", "canary").build();
    assert_eq!(context.secret("KEY").as_deref(), Ok("canary"));
    assert!(context.secret("OTHER").is_err());
}

#[test]
fn a_future_that_waits_for_another_thread_is_run_to_its_end() {
    let mut waiting = true;
    let done = block_on(std::future::poll_fn(|context| {
        if std::mem::take(&mut waiting) {
            let waker = context.waker().clone();
            std::thread::spawn(move || waker.wake());
            return Poll::Pending;
        }
        Poll::Ready("done")
    }));
    assert_eq!(done, "done");
}
