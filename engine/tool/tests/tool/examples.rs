//! Examples of tools, run against their functions: differing outputs are reported.

use std::sync::Arc;
use std::task::Poll;

use baton_config::{Role, Sources, Unconfigured, load_tools};
use baton_tool::testing::block_on;
use baton_tool::{ExampleFailure, ModelAsk, ToolContext, ToolFunction, compare_output, run_example};
use baton_types::config::Tool;
use baton_types::message::{Message, Part, Role as Speaker};
use baton_types::model::Usage;
use baton_types::money::Money;
use serde_json::{Value, json};

/// Its input, the secrets and documents that it sees, and whether it may write.
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

fn loaded_with(config: &Value, function: &'static ToolFunction) -> Arc<Tool> {
    let mut sources = Sources::default();
    sources.add(Role::BuiltinTool, "tool-configs/tell.json", config.to_string());
    let is_function = config["type"] == "function_tool" && config.get("exec").is_none();
    let functions: &[&ToolFunction] = if is_function { &[function] } else { &[] };
    let tools = load_tools(&sources, functions, Unconfigured::Refused).unwrap_or_else(|faults| panic!("{faults}"));
    Arc::clone(&tools["tell"])
}

fn tell(keys: Value) -> Arc<Tool> {
    loaded_with(&config(keys), &TELL)
}

/// Returns the config of a tool that returns its context, with `keys` of its own.
fn config(keys: Value) -> Value {
    let mut config = json!({
        "tool_id": "tell", "type": "function_tool", "description": "Tells.",
        "parameters": {"text": {"type": "string", "description": "A text.", "required": true}}
    });
    let config_keys = config.as_object_mut().expect("the literal is an object");
    config_keys.extend(keys.as_object().expect("the keys are an object").clone());
    config
}

/// Runs the only example of `tool` with `TELL`.
fn run(tool: &Tool) -> Result<(), String> {
    run_by(&TELL, tool)
}

fn run_by(function: &ToolFunction, tool: &Tool) -> Result<(), String> {
    block_on(run_example(&[function], tool, &tool.examples[0])).map_err(|failure| failure.to_string())
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

/// Asks a model its input and returns the answer.
static ASK: ToolFunction = ToolFunction {
    invoke: |context, input| {
        Box::pin(async move {
            let text = input.value()["text"].as_str().unwrap_or_default().to_owned();
            Ok(json!({"text": context.ask(ModelAsk::of("fast").user(text)).await?.text}).into())
        })
    },
    ..TELL
};

#[test]
fn an_example_says_what_models_answer_to_its_tool() {
    let example = |answers: Value| {
        let example = json!({"explanation": "e", "input": {"text": "a"}, "answers": answers, "output": {"text": "b"}});
        run_by(&ASK, &loaded_with(&config(json!({"examples": [example]})), &ASK))
    };
    assert_eq!(example(json!(["b"])), Ok(()));
    assert_eq!(example(json!(["c"])), Err("output/text should be \"b\", but is \"c\"".to_owned()));
    let unanswered = example(json!([])).expect_err("there is nobody to ask");
    assert!(unanswered.contains("there is no model fast"), "{unanswered}");
}

#[test]
fn an_output_that_breaks_its_schema_fails_the_example() {
    let returns =
        |kind: &str| run(&tell(json!({"examples": [{"explanation": "e", "input": {"text": "a"}}], "returns": {"text": kind}})));
    assert_eq!(returns("string"), Ok(()));
    assert_eq!(returns("integer"), Err("the output breaks the tool's schema at \"/text\": \"a\" is not an integer".to_owned()));
}

#[test]
fn a_tool_that_runs_no_code_has_nothing_to_run_and_one_that_another_program_runs_says_so() {
    let examples = json!([{"explanation": "e", "input": {"text": "a"}}]);
    let note = tell(json!({"type": "non_function_tool", "examples": examples}));
    assert_eq!(run(&note), Ok(()));
    let command = tell(json!({"exec": {"command": ["tell"]}, "examples": examples}));
    let failure = block_on(run_example(&[], &command, &command.examples[0]));
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
fn a_test_gives_a_function_what_people_set() {
    let context = ToolContext::for_test().with_settings(json!({"most": 3})).build();
    assert_eq!(context.settings(), Ok(json!({"most": 3})));
    assert_eq!(ToolContext::for_test().build().settings(), Ok(json!({})), "where nobody set anything");
}

#[test]
fn what_a_tool_asks_of_a_model_is_said_in_the_order_of_the_conversation() {
    let ask = ModelAsk::of("fast").system("Be brief.").user("one").assistant("two").user("three");
    let ask = ask.set("temperature", Some(0.5)).set("top_p", None::<f64>);
    let says = |role, part| Message { role, parts: vec![part] };
    assert_eq!((ask.model.as_str(), ask.system.as_str()), ("fast", "Be brief."));
    assert_eq!(
        ask.messages,
        [
            says(Speaker::User, Part::Request("one".to_owned())),
            says(Speaker::Assistant, Part::Text("two".to_owned())),
            says(Speaker::User, Part::Request("three".to_owned())),
        ]
    );
    assert_eq!(Value::from(ask.settings), json!({"temperature": 0.5}), "what is not set is not sent");
}

#[test]
fn a_test_says_what_models_answer_one_after_the_other_and_tokens_are_counted() {
    let context = ToolContext::for_test().with_answers(["four", "fives"]).build();
    let asked = || ModelAsk::of("fast").system("123456").user("123").assistant("4");
    let first = block_on(context.ask(asked())).expect("there is an answer");
    assert_eq!((first.text.as_str(), first.model.as_str(), first.cost), ("four", "fast", Some(Money::ZERO)));
    let usage = Usage { input_tokens: 3, output_tokens: 1, estimated: true, ..Usage::default() };
    assert_eq!(first.usage, usage, "ten bytes were asked, and four answered");
    let second = block_on(context.ask(asked())).expect("there is another answer");
    assert_eq!((second.text.as_str(), second.usage.output_tokens), ("fives", 2));
    assert!(block_on(context.ask(asked())).is_err(), "there are no more");
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
