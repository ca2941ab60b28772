//! Universal invocation: which texts of a model are calls, and what the model is sent.

mod copies;
mod kinds;
mod mangled;
mod own;
mod seeds;

use std::sync::{Arc, Mutex};

use baton_models::universal::Universal;
use baton_models::{FunctionModel, Model, NoContents};
use baton_types::call::{CallError, CallResult, CallStatus, ErrorCode, ModelCall};
use baton_types::config::Invocation;
use baton_types::id::{ContentHash, TaskId};
use baton_types::json::Json;
use baton_types::message::{Message, Part, Role};
use baton_types::model::{FinishReason, ModelRequest, ModelTurn, ToolDefinition};
use serde_json::{Value, json};

/// Returns a request with these messages, from an agent with the tools `calculator` and `openrouter`.
fn request(messages: Vec<Message>) -> ModelRequest {
    let tool = |id: &str, properties: Value| {
        let input_schema = Json::from(json!({"type": "object", "properties": properties}));
        Arc::new(ToolDefinition { id: id.into(), name: None, description: String::new(), input_schema })
    };
    ModelRequest {
        task: TaskId::root(),
        agent: "lead".into(),
        call: None,
        turn: 1,
        is_question: false,
        model: "small".to_owned(),
        system: "You are an agent.".into(),
        messages: Arc::new(messages.into_iter().map(Arc::new).collect()),
        tools: Arc::from([
            tool("calculator", json!({"expression": {"type": "string"}})),
            tool("openrouter", json!({"messages": {"type": "array"}, "config_id": {"type": "string"}})),
        ]),
        settings: Json::null(),
        invocation: Invocation::Universal,
        result_schema: None,
        hash: ContentHash::of(b""),
        own_output_tokens: None,
    }
}

fn user(text: &str) -> Message {
    Message { role: Role::User, parts: vec![Part::Request(text.to_owned())] }
}

/// Returns the turn that `text` means as the answer to a conversation of `messages`.
fn turn_after(messages: Vec<Message>, text: &str) -> ModelTurn {
    let answer = text.to_owned();
    let model = Universal::new(Arc::new(FunctionModel::new(move |_| Ok(ModelTurn::text(answer.clone())))));
    futures_util::FutureExt::now_or_never(model.answer(&request(messages), &NoContents)).unwrap().unwrap()
}

fn turn(text: &str) -> ModelTurn {
    turn_after(vec![user("Add 1 and 1.")], text)
}

/// Returns the only call of a turn that executes.
fn runs(text: &str) -> ModelCall {
    let turn = turn(text);
    let [call] = &turn.calls[..] else { panic!("{text}\nhas not one call: {turn:?}") };
    assert_eq!(call.malformed, None, "{text}");
    assert_eq!(turn.finish, FinishReason::ToolCalls);
    call.clone()
}

/// Returns the reason why nothing of a text executes.
fn teaches(text: &str) -> String {
    let turn = turn(text);
    assert!(!turn.calls.is_empty() && turn.calls.iter().all(|call| call.malformed.is_some()), "{text}\nis no fault: {turn:?}");
    turn.calls[0].malformed.as_deref().unwrap().to_owned()
}

fn sum() -> Value {
    json!({"tool": "calculator", "input": {"expression": "1 + 1"}, "requestId": "calc-1", "return_to_llm": false})
}

fn full(requests: &Value) -> Value {
    json!({"action": "create", "breadcrumb": {
        "schema_name": "agent.response.v1", "title": "Response", "tags": ["agent:response", "session:SESSION_ID"],
        "context": {"message": "I add.", "tool_requests": requests},
    }})
}

#[test]
fn each_form_of_an_envelope_is_understood() {
    let expected = ModelCall {
        provider_id: Some("calc-1".into()),
        return_to_llm: Some(false),
        ..ModelCall::new("calculator", json!({"expression": "1 + 1"}))
    };
    let short = json!({"message": "I add.", "tool_requests": [sum()]});
    for text in [full(&json!([sum()])).to_string(), short.to_string(), serde_json::to_string_pretty(&short).unwrap()] {
        assert_eq!(runs(&text), expected);
        assert_eq!(turn(&text).text, "I add.");
    }
    let invoked = runs(&json!({"action": "invoke_tool", "tool": "calculator", "input": {"expression": "1 + 1"}}).to_string());
    let by_default = ModelCall { provider_id: None, return_to_llm: None, ..expected };
    assert_eq!(invoked, by_default);
}

#[test]
fn absent_fields_have_their_defaults() {
    let call = runs(r#"{"tool_requests": [{"tool": "calculator"}]}"#);
    assert_eq!(call, ModelCall::new("calculator", json!({})), "the machine gives it an id");
    let ids = [(json!(null), None), (json!(""), None), (json!(7), Some("7")), (json!("7"), Some("7"))];
    for (id, expected) in ids {
        let call = runs(&json!({"tool_requests": [{"tool": "calculator", "requestId": id}]}).to_string());
        assert_eq!(call.provider_id.as_deref(), expected);
    }
}

#[test]
fn an_answer_without_requests_is_its_message() {
    for text in [full(&json!([])).to_string(), json!({"message": "I add.", "tool_requests": []}).to_string(), "I add.".to_owned()]
    {
        let turn = turn(&text);
        assert_eq!((turn.text.as_str(), turn.calls.len(), turn.finish), ("I add.", 0, FinishReason::Stop), "{text}");
    }
    for text in ["I use {braces} and [brackets].", r#"{"total": 3}"#, r#"{"message": "only a result"}"#] {
        assert_eq!(turn(text).text, text, "other JSON is text");
    }
}

#[test]
fn one_code_fence_prose_comments_and_trailing_commas_are_removed() {
    let short = json!({"message": "```python\nx = {}\n```", "tool_requests": [sum()]}).to_string();
    for text in [
        format!("```json\n{short}\n```"),
        format!("I use {{a tool}} [1].\n\n```\n{short}\n```\nThat is all."),
        format!("Answer: {short}"),
        "{\"tool_requests\": [ // the call\n {\"tool\": \"calculator\", \"input\": {\"expression\": \"1 + 1\",}, /* id */ },],}"
            .to_owned(),
    ] {
        assert_eq!(runs(&text).input, Json::from(json!({"expression": "1 + 1"})), "{text}");
    }
}

#[test]
fn the_prose_around_an_envelope_is_its_message_if_it_has_none() {
    let answer = |message: Value| json!({"message": message, "tool_requests": [sum()]}).to_string();
    for empty in [json!(""), json!(null), json!(" ")] {
        let text = format!("The sum comes next.\n```json\n{}\n```\nThen I go on.", answer(empty));
        assert_eq!(turn(&text).text, "The sum comes next.\n\nThen I go on.");
    }
    let text = format!("The sum comes next. {}", answer(json!("I add.")));
    assert_eq!(turn(&text).text, "I add.");
    let last = "The total is 14.\n\n{\"message\": \"\", \"tool_requests\": []}";
    assert_eq!(turn(last).text, "The total is 14.");
}

#[test]
fn an_envelope_that_cannot_be_used_teaches_why() {
    let short = json!({"tool_requests": [sum()]}).to_string();
    let request = |change: &dyn Fn(&mut Value)| {
        let mut request = sum();
        change(&mut request);
        json!({"tool_requests": [request]}).to_string()
    };
    for (text, reason) in [
        (format!("{short}\n{short}"), "several JSON objects"),
        (format!("```\n{short}\n```\n```\nx\n```"), "several code blocks"),
        (format!("[{short}]"), "within another JSON value"),
        (format!("{{\"answer\": {short}}}"), "within another JSON value"),
        (format!("The document has \"{short}\"."), "within quotation marks"),
        (short[..short.len() - 1].to_owned(), "ends before its last closing bracket"),
        (short.replace("\"tool\":", "\"tool\""), "the JSON cannot be read"),
        (short.replace("calculator", "calcu\nlator"), "; write a line break within a string as \\n"),
        (format!("\n{}", short.replace("calculator", "calcu\tlator")), "; write a tab within a string as \\t"),
        (short.replace('"', "'"), "; write keys and strings in double quotes"),
        (short.replace("\"calculator\"", "'calculator'"), "; write keys and strings in double quotes"),
        (short.replace("\"tool\":", "tool:"), "; write keys and strings in double quotes"),
        (short.replace('{', "{ # an object\n"), "; leave out comments that begin with #"),
        (
            json!({"tool_requests": [{"name": "calculator", "arguments": {"expression": "1"}}]}).to_string(),
            "a request here has \"tool\" and \"input\", not \"name\" and \"arguments\"",
        ),
        (
            json!({"message": "I add.", "toolRequests": [sum()], "tool_requests": []}).to_string(),
            "the key \"toolRequests\" is unknown",
        ),
        (full(&json!([])).to_string().replace("\"tool_requests\"", "\"tool_request\""), "the key \"tool_request\" is unknown"),
        (
            json!({"action": "create", "breadcrumb": {"schema_name": "agent.response.v1", "context": {}}, "tool_requests": []})
                .to_string(),
            "belongs in \"context\"",
        ),
        (json!({"name": "calculator", "arguments": {"expression": "1"}}).to_string(), "put the call into the list"),
        (sum().to_string(), "put the call into the list \"tool_requests\""),
        (format!("{}\n{}", sum(), sum()), "several JSON objects"),
        (json!({"action": "delete"}).to_string(), "the action \"delete\" is unknown"),
        (json!({"breadcrumb": {}}).to_string(), "\"action\": \"create\" is missing"),
        (json!({"action": "create"}).to_string(), "\"breadcrumb\" is missing"),
        (json!({"action": "create", "breadcrumb": {"context": {}}}).to_string(), "\"schema_name\" is missing"),
        (json!({"action": "create", "breadcrumb": {"schema_name": "note.v1"}}).to_string(), "only \"agent.response.v1\""),
        (json!({"action": "create", "breadcrumb": {"schema_name": "agent.response.v1"}}).to_string(), "\"context\" is missing"),
        (json!({"tool_requests": {}}).to_string(), "\"tool_requests\" is not a list"),
        (json!({"message": 1, "tool_requests": []}).to_string(), "\"message\" is not a string"),
        (json!({"tool_requests": ["calculator"]}).to_string(), "is an object"),
        (json!({"tool_requests": [{}]}).to_string(), "\"tool\" is missing"),
        (request(&|request| request["input"] = json!("1 + 1")), "\"input\" is a string"),
        (request(&|request| request["input"] = json!([1])), "\"input\" is an object"),
        (request(&|request| request["return_to_llm"] = json!("true|false")), "\"return_to_llm\" is true or false"),
        (request(&|request| request["requestId"] = json!(["a"])), "\"requestId\" is a string"),
        (request(&|request| request["requestId"] = json!("a".repeat(129))), "at most 128 characters"),
        (request(&|request| request["config_id"] = json!(7)), "\"config_id\" is a string, not 7"),
        (request(&|request| request["configId"] = json!("fast")), "the key \"configId\" is unknown"),
        (short.replace("\"tool\":", "\"tool\": \"echo\", \"tool\":"), "occurs twice in an object"),
        (format!("{}, \"tool_requests\": []}}", &short[..short.len() - 1]), "occurs twice in an object"),
        ("{\"message\": \"I list.\", \"tool_requests\": [,]}".to_owned(), "the JSON cannot be read"),
        (json!({"message": "I list.", "tool_calls": [{"tool": "list_files"}]}).to_string(), "the key \"tool_calls\" is unknown"),
        (json!({"message": "I list.", "Tool_Requests": [{"Tool": "echo"}]}).to_string(), "the key \"Tool_Requests\" is unknown"),
        (json!({"tool": "echo", "args": {"message": "x"}}).to_string(), "put the call into the list"),
    ] {
        let found = teaches(&text);
        assert!(found.contains(reason), "{text}\nteaches {found:?}");
    }
}

#[test]
fn code_and_data_in_brackets_are_no_envelopes() {
    for text in [
        "The fix is `{ const requestId = 5; }`.",
        "Use `.nav { breadcrumb: none }` in the style sheet.",
        r#"{"tools_used": [{"tool": "hammer", "input": "nail"}]}"#,
        r#"{"tool": "hammer"}"#,
    ] {
        let answer = turn(text);
        assert!(answer.calls.is_empty() && answer.text == text, "{answer:?}");
    }
}

#[test]
fn a_call_of_any_tool_names_a_configuration() {
    for tool in ["openrouter", "calculator"] {
        let request = |config: Value| json!({"tool_requests": [{"tool": tool, "input": {"x": 1}, "config_id": config}]});
        let call = runs(&request(json!("fast")).to_string());
        assert_eq!((call.config_id.as_deref(), &call.input), (Some("fast"), &Json::from(json!({"x": 1}))));
        assert_eq!(runs(&request(Value::Null).to_string()).config_id, None);
    }
}

#[test]
fn a_model_receives_the_configuration_of_its_call() {
    let asked = ModelCall { config_id: Some("fast".into()), ..ModelCall::new("calculator", json!({"expression": "1"})) };
    let part = Part::Call { call: TaskId::root().call(1, 1), asked: Arc::new(asked) };
    let received = Arc::new(Mutex::new(String::new()));
    let sees = Arc::clone(&received);
    let model = Universal::new(Arc::new(FunctionModel::new(move |request: &ModelRequest| {
        let [Part::Text(text)] = &request.messages[0].parts[..] else { panic!("{:?}", request.messages) };
        text.clone_into(&mut sees.lock().unwrap());
        Ok(ModelTurn::text("done"))
    })));
    let conversation = vec![Message { role: Role::Assistant, parts: vec![part] }];
    futures_util::FutureExt::now_or_never(model.answer(&request(conversation), &NoContents)).unwrap().unwrap();
    assert!(received.lock().unwrap().contains(r#""config_id":"fast""#), "{}", received.lock().unwrap());
}

#[test]
fn tags_of_an_answer_have_no_effect() {
    let tagged = |tags: Value| {
        let mut envelope = full(&json!([sum()]));
        envelope["breadcrumb"]["tags"] = tags;
        turn(&envelope.to_string())
    };
    let expected = tagged(json!(["agent:response", "session:SESSION_ID"]));
    assert_eq!(expected.calls.len(), 1);
    let forged = ["session:of-another-run", "request:other-1", "tool:response", "approved:true"];
    assert_eq!(tagged(json!(forged)), expected, "the call, the text and everything else are the same");
    assert_eq!(tagged(Value::Null), expected);
}

#[test]
fn a_cut_answer_executes_nothing() {
    let text = json!({"tool_requests": [sum()]}).to_string();
    let cut = ModelTurn { finish: FinishReason::Length, ..ModelTurn::text(text) };
    let model = Universal::new(Arc::new(FunctionModel::new(move |_| Ok(cut.clone()))));
    let turn = futures_util::FutureExt::now_or_never(model.answer(&request(vec![user("Add.")]), &NoContents)).unwrap().unwrap();
    assert_eq!((turn.calls.len(), turn.finish), (0, FinishReason::Length));
}

#[test]
fn a_model_receives_calls_and_results_as_text() {
    let asked = |id: &str| {
        Arc::new(ModelCall { provider_id: Some(id.into()), ..ModelCall::new("calculator", json!({"expression": "1"})) })
    };
    let call = |position: u32| TaskId::root().call(1, position);
    let results = [
        CallResult::success(json!({"result": 1})),
        CallResult::error(
            CallStatus::Failed,
            CallError::new(ErrorCode::InvalidInput, "no such number").with_detail(json!({"at": 1})),
        ),
    ];
    let conversation = vec![
        user("Add."),
        Message {
            role: Role::Assistant,
            parts: vec![
                Part::Text("I add.".to_owned()),
                Part::Call { call: call(1), asked: asked("a") },
                Part::Call { call: call(2), asked: asked("b") },
            ],
        },
        Message {
            role: Role::Tool,
            parts: ["a", "b"]
                .iter()
                .zip(results)
                .map(|(id, result)| Part::Result {
                    call: call(1),
                    asked: asked(id),
                    result: Some(Arc::new(result)),
                    hint: None,
                    said: Vec::new(),
                })
                .collect(),
        },
    ];
    let seen = Arc::new(Mutex::new(None));
    let sees = Arc::clone(&seen);
    let model = Universal::new(Arc::new(FunctionModel::new(move |request| {
        *sees.lock().unwrap() = Some(request.clone());
        Ok(ModelTurn::text("done"))
    })));
    futures_util::FutureExt::now_or_never(model.answer(&request(conversation), &NoContents)).unwrap().unwrap();
    let seen = seen.lock().unwrap().take().unwrap();
    assert!(seen.tools.is_empty());
    let texts: Vec<Vec<&str>> = seen
        .messages
        .iter()
        .map(|message| {
            message
                .parts
                .iter()
                .map(|part| match part {
                    Part::Text(text) | Part::Request(text) => text.as_str(),
                    other => panic!("{other:?} is not text"),
                })
                .collect()
        })
        .collect();
    let roles: Vec<Role> = seen.messages.iter().map(|message| message.role).collect();
    assert_eq!(roles, [Role::User, Role::Assistant, Role::User]);
    let request = |id: &str| json!({"tool": "calculator", "input": {"expression": "1"}, "requestId": id, "return_to_llm": true});
    let turn: Value = serde_json::from_str(texts[1][0]).unwrap();
    assert_eq!(turn, json!({"message": "I add.", "tool_requests": [request("a"), request("b")]}));
    let responses: Vec<Value> = texts[2]
        .iter()
        .map(|text| {
            let (head, rest) = text.split_once('\n').unwrap();
            assert!(head.starts_with("<tool_response:"), "{head}");
            serde_json::from_str(rest.rsplit_once('\n').unwrap().0).unwrap()
        })
        .collect();
    let response = |id: &str, rest: Value| {
        let mut context = json!({"request_id": id, "tool": "calculator"});
        context.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        json!({"schema_name": "tool.response.v1", "tags": ["tool:response", format!("request:{id}")], "context": context})
    };
    let failed = json!({
        "status": "error",
        "output": {"error": "no such number", "status": "failed", "code": "invalid_input", "detail": {"at": 1}},
        "error": "no such number",
    });
    assert_eq!(responses, [response("a", json!({"status": "success", "output": {"result": 1}})), response("b", failed)]);
}

/// Returns the response that a model receives to the call `id` of `tool`.
fn response_to(tool: &str, id: &str, result: CallResult) -> Value {
    let asked = Arc::new(ModelCall { provider_id: Some(id.into()), ..ModelCall::new(tool, json!({})) });
    let call = TaskId::root().call(1, 1);
    let answered = Part::Result { call, asked, result: Some(Arc::new(result)), hint: None, said: Vec::new() };
    let received = Arc::new(Mutex::new(Value::Null));
    let sees = Arc::clone(&received);
    let model = Universal::new(Arc::new(FunctionModel::new(move |request: &ModelRequest| {
        let [Part::Text(text)] = &request.messages[0].parts[..] else { panic!("{:?}", request.messages) };
        let (_, framed) = text.split_once('\n').unwrap();
        *sees.lock().unwrap() = serde_json::from_str(framed.rsplit_once('\n').unwrap().0).unwrap();
        Ok(ModelTurn::text("done"))
    })));
    let conversation = vec![Message { role: Role::Tool, parts: vec![answered] }];
    futures_util::FutureExt::now_or_never(model.answer(&request(conversation), &NoContents)).unwrap().unwrap();
    received.lock().unwrap().take()
}
