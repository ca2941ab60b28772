//! The scripted model: what a script may say, what it refuses, and that text is only ever a value.

use std::sync::Arc;

use baton_models::{Model, ModelError, NoContents, ScriptedModel, check_script, script_of};
use baton_types::call::{CallError, CallResult, CallStatus, ErrorCode, ModelCall};
use baton_types::config::Invocation;
use baton_types::document::{ContentFacts, DocumentVersion};
use baton_types::entry::{Entry, Holder, ModelAnswered, ReminderReason, TaskCreated, TaskKind, TurnKind};
use baton_types::id::{ContentHash, TaskId};
use baton_types::json::Json;
use baton_types::message::{Message, Part, Role};
use baton_types::model::{FinishReason, ModelRequest, ModelTurn};
use baton_types::path::DocumentPath;
use baton_types::time::Timestamp;
use serde_json::{Value, json};

/// A conversation, built part by part as the engine would render it.
struct Conversation {
    agent: &'static str,
    task: TaskId,
    turn: u32,
    messages: Vec<Arc<Message>>,
    is_question: bool,
}

impl Conversation {
    fn new(agent: &'static str, request: &str) -> Self {
        Self { agent, task: TaskId::root(), turn: 1, messages: Vec::new(), is_question: false }
            .say(Role::User, vec![Part::Request(request.to_owned())])
    }

    fn say(mut self, role: Role, parts: Vec<Part>) -> Self {
        self.messages.push(Arc::new(Message { role, parts }));
        self
    }

    /// Lets the task's next turn make `calls` with these results.
    fn turn(mut self, calls: &[(&str, Value, CallResult)]) -> Self {
        let id = |position: usize| self.task.call(self.turn, position as u32 + 1);
        let asked: Vec<_> = calls.iter().map(|(tool, input, _)| Arc::new(ModelCall::new(*tool, input))).collect();
        let made = asked.iter().enumerate().map(|(position, asked)| Part::Call { call: id(position), asked: Arc::clone(asked) });
        let results = calls.iter().zip(&asked).enumerate().map(|(position, ((_, _, result), asked))| Part::Result {
            call: id(position),
            asked: Arc::clone(asked),
            result: Some(Arc::new(result.clone())),
            hint: None,
            said: Vec::new(),
        });
        let (made, results) = (made.collect(), results.collect());
        self.turn += 1;
        self.say(Role::Assistant, made).say(Role::Tool, results)
    }

    fn question(mut self, asker: &str, question: &str) -> Self {
        self.task = self.task.call(self.turn, 1).created_task().call(1, 1).created_task();
        self.turn = 1;
        self.is_question = true;
        self.say(
            Role::User,
            vec![Part::Question { asker: asker.into(), question: question.to_owned(), answer_schema: Json::null() }],
        )
    }

    fn request(&self) -> ModelRequest {
        ModelRequest {
            task: self.task.clone(),
            agent: self.agent.into(),
            call: None,
            turn: self.turn,
            is_question: self.is_question,
            model: "scripted".to_owned(),
            system: "You are an agent.".into(),
            messages: Arc::new(self.messages.clone()),
            tools: Arc::from([]),
            settings: Json::null(),
            own_output_tokens: None,
            invocation: Invocation::Native,
            result_schema: None,
            hash: ContentHash::of(b""),
        }
    }

    fn answer(&self, script: &Value) -> Result<ModelTurn, ModelError> {
        let model = ScriptedModel::parse(&script.to_string()).expect("the script is sound");
        futures_util::FutureExt::now_or_never(model.answer(&self.request(), &NoContents)).expect("a script never waits")
    }
}

fn success(output: Value) -> CallResult {
    CallResult::success(output)
}

/// Returns a script for `lead` with one turn that follows a call of `query_data`, and that calls `use` with `input`.
fn after_query(input: Value) -> Value {
    json!({"agents": {"lead": {"turns": [
        {"calls": [{"tool": "query_data", "as": "by_region", "input": {"sql": "SELECT 1"}}]},
        {"calls": [{"tool": "use", "input": input}]},
    ]}}})
}

fn filled(output: Value, input: Value) -> Result<Value, ModelError> {
    let turn = Conversation::new("lead", "Do it")
        .turn(&[("query_data", json!({"sql": "SELECT 1"}), success(output))])
        .answer(&after_query(input))?;
    Ok(turn.calls[0].input.value())
}

#[test]
fn turns_come_in_order_and_a_request_beyond_the_last_is_an_error() {
    let script = json!({"agents": {"lead": {"turns": [
        {"text": "first", "calls": [{"tool": "echo", "input": {"n": 1}, "return_to_llm": false, "after_execution": "terminate",
            "config_id": "fast"}]},
        {"text": "second", "finish": "length"},
    ]}}});
    let start = Conversation::new("lead", "Do it");
    let first = start.answer(&script).unwrap();
    assert_eq!((first.text.as_str(), first.finish), ("first", FinishReason::ToolCalls));
    assert_eq!((first.calls[0].return_to_llm, first.calls[0].config_id.as_deref()), (Some(false), Some("fast")));
    assert_eq!(first.calls[0].input.value(), json!({"n": 1}));
    assert_eq!(first.usage, None, "the engine estimates");

    let second = start.turn(&[("echo", json!({"n": 1}), success(json!(1)))]);
    let answer = second.answer(&script).unwrap();
    assert_eq!((answer.text.as_str(), answer.finish), ("second", FinishReason::Length));

    let error = second.turn(&[]).answer(&script).unwrap_err();
    assert!(error.fails_run());
    assert_eq!(error.to_string(), "the script has no answer for agent lead at turn 3: it has 2 turns for its own tasks");
    let stranger = Conversation::new("stranger", "Do it").answer(&script).unwrap_err();
    assert_eq!(stranger.to_string(), "the script has no answer for agent stranger at turn 1: it has turns for lead only");
}

#[test]
fn a_string_that_is_one_expression_keeps_its_type() {
    let output = json!({"rows": [{"region": "North", "n": 3, "share": 0.5}, {"region": "South", "n": 4, "share": 0.25}]});
    let input = json!({
        "rows": "{{ results.query_data.rows }}",
        "count": "{{ results.by_region.rows | length }}",
        "share": "{{ results.query_data.rows[1].share }}",
        "yes": "{{ results.query_data.rows[0].n == 3 }}",
        "none": "{{ none }}",
        "object": "{{ {'a': {'b': 1}} }}",
        "names": "{{ results.query_data.rows | map(attribute='region') | list }}",
        "two": "{{ turn }} and {{ turn + 1 }}",
        "trimmed": "{{- turn -}}",
        "plain": "no template",
        "nested": [{"deep": "{{ request }}"}, 7, null, true],
    });
    let expected = json!({
        "rows": output["rows"], "count": 2, "share": 0.25, "yes": true, "none": null, "object": {"a": {"b": 1}},
        "names": ["North", "South"], "two": "2 and 3", "trimmed": "2", "plain": "no template",
        "nested": [{"deep": "Do it"}, 7, null, true],
    });
    assert_eq!(filled(output, input).unwrap(), expected);
}

#[test]
fn numbers_are_written_for_people_and_computed_strictly() {
    let output = json!({"rows": [{"quarter": "Q2", "revenue": 1_000_000.0}, {"quarter": "Q3", "revenue": 1_234_567.891}]});
    let input = json!({
        "thousands": "{{ results.query_data.rows[1].revenue | thousands(1) }}",
        "negative": "{{ -1234 | thousands }}",
        "hundred": "{{ 100 | thousands }}",
        "fixed": "{{ 2 | fixed(2) }}",
        "change": "{{ (results.query_data.rows | find('quarter', 'Q3')).revenue | change_from(1000000) | signed(1) }} %",
        "down": "{{ 90 | change_from(100) | signed(1) }}",
        "nothing": "{{ -0.04 | signed(1) }}",
        "sum": "{{ results.query_data.rows | sum('revenue') | fixed(1) }}",
        "avg": "{{ results.query_data.rows | avg(attribute='revenue') | round }}",
        "best": "{{ (results.query_data.rows | sort(attribute='revenue', reverse=true) | first).quarter }}",
    });
    let expected = json!({
        "thousands": "1,234,567.9", "negative": "-1,234", "hundred": "100", "fixed": "2.00", "change": "+23.5 %", "down": "-10.0",
        "nothing": "0.0", "sum": "2234567.9", "avg": 1_117_284.0, "best": "Q3",
    });
    assert_eq!(filled(output, input).unwrap(), expected);
}

#[test]
fn whatever_is_undefined_or_makes_no_sense_is_an_error() {
    let output = json!({"rows": [{"revenue": 1}]});
    for template in [
        "{{ results.query_data.rows[0].revenu }}",
        "{{ results.query_data.rows[3] }}",
        "sum: {{ results.query_data.rows[0].revenu }}",
        "{{ results.query_data.rows | sum('revenu') }}",
        "{{ results.query_data.rows | find('revenue', 2) }}",
        "{{ [] | avg }}",
        "{{ 1 | change_from(0) }}",
        "{{ 'x' | fixed(1) }}",
        "{{ [results.query_data.rows[0].revenu] }}",
        "{% for a in range(10000) %}{% for b in range(10000) %}{{ a }}{% endfor %}{% endfor %}",
    ] {
        let error = filled(output.clone(), json!({"x": template})).unwrap_err();
        assert!(error.fails_run(), "{template}");
        assert!(
            error.to_string().starts_with("the template at /agents/lead/turns/1/calls/0/input/x cannot be rendered: "),
            "{error}"
        );
    }
}

#[test]
fn text_of_tools_documents_and_people_is_never_a_template() {
    let attack = "{{ 7*7 }}{% for x in range(9) %}{{ x }}{% endfor %}{# gone #}";
    let script = json!({"agents": {"lead": {"turns": [
        {"calls": [{"tool": "query_data"}]},
        {"text": "{{ request }}|{{ results.query_data.note }}|{{ documents[0].summary }}", "calls": [
            {"tool": "use", "input": {"typed": "{{ results.query_data }}", "text": "<{{ calls[0].output.note }}>"}},
        ]},
    ]}}});
    let version = DocumentVersion {
        path: DocumentPath::parse("a.md").unwrap(),
        version: 1,
        base: None,
        content: ContentFacts {
            hash: ContentHash::of(b""),
            size_bytes: 1,
            mime_type: "text/markdown".to_owned(),
            token_count: 1,
            summary: attack.to_owned(),
        },
        description: String::new(),
        tags: Vec::new(),
        task: None,
        call: None,
        created_by: None,
        at: Timestamp::from_micros(0),
    };
    let turn = Conversation::new("lead", attack)
        .say(Role::User, vec![Part::Document(Arc::new(version))])
        .turn(&[("query_data", json!({}), success(json!({"note": attack})))])
        .answer(&script)
        .unwrap();
    assert_eq!(turn.text, [attack, attack, attack].join("|"));
    assert_eq!(turn.calls[0].input.value(), json!({"typed": {"note": attack}, "text": format!("<{attack}>")}));
}

#[test]
fn results_are_the_newest_by_tool_and_exact_by_name() {
    let script = json!({"agents": {"lead": {"turns": [
        {"calls": [{"tool": "query_data", "as": "a"}, {"tool": "query_data", "as": "b"}]},
        {"calls": [{"tool": "fail"}]},
        {"text": "{{ results.a }} {{ results.b }} {{ results.query_data }} {{ results.fail }} {{ calls[2].status }} {{ calls[2].error.code }} {{ calls[0].name }}"},
    ]}}});
    let failed = CallResult::error(CallStatus::Failed, CallError::new(ErrorCode::ToolFailed, "no"));
    let turn = Conversation::new("lead", "Do it")
        .turn(&[("query_data", json!({}), success(json!(1))), ("query_data", json!({}), success(json!(2)))])
        .turn(&[("fail", json!({}), failed)])
        .answer(&script)
        .unwrap();
    assert_eq!(turn.text, "1 2 2 None failed tool_failed a");
}

#[test]
fn a_master_answers_questions_from_its_own_list_or_a_case() {
    let script = json!({"agents": {"writer": {
        "turns": [{"calls": [{"tool": "query_data", "as": "facts"}]}, {"calls": [{"tool": "route_to_researcher"}]}],
        "answers": [{"text": "To {{ question.asker }}: {{ question.text }} {{ results.facts.n }}"}],
        "cases": [
            {"when": "question and 'audience' in question.text", "turns": [
                {"calls": [{"tool": "ask_master", "as": "passed", "input": {"question": "{{ question.text }}"}}]},
                {"text": "{{ results.passed.answer }} {{ results.facts.n }}"},
            ]},
            {"when": "'urgent' in request", "turns": [{"text": "at once"}]},
        ],
    }}});
    let own = Conversation::new("writer", "Write").turn(&[("query_data", json!({}), success(json!({"n": 7})))]);
    assert_eq!(own.answer(&script).unwrap().calls[0].tool, "route_to_researcher");
    let plain = own.question("researcher", "How long?");
    assert_eq!(plain.answer(&script).unwrap().text, "To researcher: How long? 7");

    let passed = Conversation::new("writer", "Write")
        .turn(&[("query_data", json!({}), success(json!({"n": 7})))])
        .question("researcher", "Which audience?");
    assert_eq!(passed.answer(&script).unwrap().calls[0].input.value(), json!({"question": "Which audience?"}));
    let passed = passed.turn(&[("ask_master", json!({}), success(json!({"answer": "children"})))]);
    assert_eq!(passed.answer(&script).unwrap().text, "children 7");

    assert_eq!(Conversation::new("writer", "urgent").answer(&script).unwrap().text, "at once");
}

#[test]
fn the_same_request_gets_the_same_answer() {
    let script =
        after_query(json!({"text": "{{ results.query_data.rows | sum }} {{ calls }}", "rows": "{{ results.query_data.rows }}"}));
    let conversation =
        Conversation::new("lead", "Do it").turn(&[("query_data", json!({"sql": "x"}), success(json!({"rows": [1, 2.5, 4]})))]);
    let first = conversation.answer(&script).unwrap();
    for _ in 0..20 {
        assert_eq!(conversation.answer(&script).unwrap(), first);
    }
}

#[test]
fn lines_are_joined_and_blocks_leave_no_empty_line() {
    let lines = json!({"content": {"$lines": ["# Title", "{% for row in results.query_data.rows %}", "- {{ row }}", "{% endfor %}", "end"]}});
    assert_eq!(filled(json!({"rows": ["a", "b"]}), lines).unwrap(), json!({"content": "# Title\n- a\n- b\nend\n"}));
}

#[test]
fn every_fault_of_a_script_is_found_at_once() {
    let script = json!({"agent": {}, "agents": {
        "a": {"turn": [], "turns": [{"txt": "x", "calls": [{"tool": 3, "inputs": {}}]}]},
        "b": {"turns": [{"text": null, "finish": "done", "calls": [{"input": []}]}]},
    }});
    let faults = check_script(&script.to_string());
    let pointers: Vec<_> = faults.iter().map(|(pointer, _)| pointer.as_str()).collect();
    let expected = [
        "/agent",
        "/agents/a/turn",
        "/agents/a/turns/0/calls/0/inputs",
        "/agents/a/turns/0/calls/0/tool",
        "/agents/a/turns/0/txt",
        "/agents/b/turns/0/calls/0",
        "/agents/b/turns/0/calls/0/input",
        "/agents/b/turns/0/finish",
        "/agents/b/turns/0/text",
    ];
    assert_eq!(pointers, expected, "{faults:#?}");
    assert_eq!(faults[1].1, "unknown key \"turn\"; did you mean \"turns\"?");
}

#[test]
fn templates_are_checked_before_a_run() {
    let script = json!({"agents": {
        "a": {"turns": [
            {"text": "{{ requst }}", "calls": [{"tool": "query_data", "as": "q", "input": {"sql": "{{ results.q.x }}", "n": {"$lines": "x"}}}]},
            {"text": "{% if %}", "calls": [{"tool": "query_data", "as": "q", "input": {"x": ["{{ results.qery_data.rows }}", "{{ 1 + }}"]}}]},
            {"text": "{{ results.q.rows }} {{ range(3) }} {% set x = 1 %}{{ x }}"},
        ], "cases": [{"when": "turn == 2", "turns": [{"text": "x"}]}, {"when": "request ==", "turns": [{"text": "x"}]}]},
        "b": {},
    }});
    let faults = check_script(&script.to_string());
    let text = faults.iter().map(|(pointer, message)| format!("{pointer} {message}")).collect::<Vec<_>>().join("\n");
    let expected = [
        "/agents/a/turns/0/text undefined variable \"requst\"; there are request, inputs, turn, results, calls, documents, question; did you mean \"request\"?",
        "/agents/a/turns/0/calls/0/input/sql undefined variable \"results.q\"; no call was made before this turn",
        "/agents/a/turns/0/calls/0/input/n expected {\"$lines\": […]}",
        "/agents/a/turns/1/calls/0/as the name \"q\" is already taken",
        "/agents/a/turns/1/text syntax error",
        "/agents/a/turns/1/calls/0/input/x/0 undefined variable \"results.qery_data\"; there are q, query_data; did you mean \"query_data\"?",
        "/agents/a/turns/1/calls/0/input/x/1 syntax error",
        "/agents/a/cases/0/when undefined variable \"turn\"; there are request, inputs, question",
        "/agents/a/cases/1/when syntax error",
        "/agents/b an agent needs turns, answers, cases or tasks",
    ];
    assert_eq!(faults.len(), expected.len(), "{text}");
    for line in expected {
        assert!(text.contains(line), "{line}\nis not in\n{text}");
    }
}

#[test]
fn a_sound_script_has_no_faults_and_broken_json_has_one_with_its_place() {
    assert_eq!(check_script(&after_query(json!({"x": "{{ results.by_region }}"})).to_string()), Vec::new());
    let faults = check_script("{\"agents\": {\n  \"a\": }");
    assert!(
        matches!(faults.as_slice(), [(pointer, message)] if pointer.is_empty() && message.contains("line 2 column 8")),
        "{faults:?}"
    );
}

#[test]
fn the_scripts_of_the_examples_have_no_faults() {
    let examples = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut checked = 0;
    for folder in std::fs::read_dir(examples).unwrap() {
        for file in std::fs::read_dir(folder.unwrap().path()).unwrap() {
            let path = file.unwrap().path();
            if path.to_string_lossy().ends_with(".script.json") {
                assert_eq!(check_script(&std::fs::read_to_string(&path).unwrap()), Vec::new(), "{}", path.display());
                checked += 1;
            }
        }
    }
    assert!(checked >= 3, "only {checked} scripts were found");
}

#[test]
fn what_a_run_said_is_said_again_whatever_it_looks_like() {
    let answered = |task: &str, turn: u32, text: &str, calls: Vec<ModelCall>| {
        Entry::ModelAnswered(ModelAnswered {
            task: TaskId::from(task),
            turn,
            text: text.to_owned(),
            calls: calls.into_iter().map(Arc::new).collect(),
            finish: FinishReason::Length,
            kind: TurnKind::Discarded(ReminderReason::Cut),
            request: ContentHash::of(b""),
            items: Json::null(),
            answered: None,
            recorded: None,
        })
    };
    let odd = [
        ModelCall {
            provider_id: Some("save-{{ 1 }}".into()),
            return_to_llm: Some(false),
            config_id: Some("fast".into()),
            ..ModelCall::new("save", json!({"text": "{{ request }}\n", "$lines": ["{% if %}"]}))
        },
        ModelCall { malformed: Some("cut off".into()), ..ModelCall::new("", json!("{\"a\": ")) },
        ModelCall::new("list", json!([1, null])),
    ];
    let created = TaskCreated::new(TaskId::root(), TaskKind::Root, Holder::Agent("lead".into()), "Go.".to_owned());
    let entries = [
        Entry::TaskCreated(Box::new(created)),
        answered("0", 1, "{{ turn }} {# not a comment #}\n", odd.to_vec()),
        answered("0", 2, "", Vec::new()),
    ];
    let script = serde_json::to_value(script_of(&entries, |_| true)).unwrap();
    let said = Conversation::new("lead", "Go.").answer(&script).unwrap();
    assert_eq!((said.text.as_str(), said.finish), ("{{ turn }} {# not a comment #}\n", FinishReason::Length));
    assert_eq!(said.calls, odd);
    let native = serde_json::to_string(&script_of(&entries, |_| false)).unwrap();
    assert!(!native.contains("requestId"), "ids of native calls identify no requests: {native}");
}

#[test]
fn a_request_of_a_tools_code_is_answered_by_the_turns_of_that_tool() {
    let script = json!({"agents": {"ask_gpt": {"turns": [{"text": "an agent of that name"}]}}, "tools": {"ask_gpt": {
        "turns": [{"text": "{{ turn }}: {{ request | upper }}"}, {"text": "{{ as it is }}", "literal": true, "finish": "length"}],
        "cases": [{"when": "\"price\" in request", "turns": [{"text": "12"}]}],
    }}});
    let model = ScriptedModel::parse(&script.to_string()).expect("the script is sound");
    let ask = |tool: &'static str, request: &str, turn: u32| {
        let request = ModelRequest { call: Some(TaskId::root().call(1, 1)), turn, ..Conversation::new(tool, request).request() };
        futures_util::FutureExt::now_or_never(model.answer(&request, &NoContents)).expect("a script never waits")
    };
    assert_eq!(ask("ask_gpt", "why?", 1), Ok(ModelTurn::text("1: WHY?")));
    assert_eq!(ask("ask_gpt", "why?", 2), Ok(ModelTurn { finish: FinishReason::Length, ..ModelTurn::text("{{ as it is }}") }));
    assert_eq!(ask("ask_gpt", "the price?", 1), Ok(ModelTurn::text("12")));
    for (tool, request, turn) in [("ask_gpt", "why?", 3), ("ask_gpt", "the price?", 2), ("ask_data", "why?", 1)] {
        assert_eq!(ask(tool, request, turn), Err(ModelError::NoReply { tool: tool.to_owned(), request: turn }));
    }
    let faults = ScriptedModel::parse(
        &json!({"tools": {"ask_gpt": {}, "ask_data": {"turns": [{"text": "{{ results.x }}"}]}}}).to_string(),
    );
    let faults: Vec<String> = faults.unwrap_err().iter().map(ToString::to_string).collect();
    let expected = [
        "/tools/ask_data/turns/0/text: undefined variable \"results.x\"; no call was made before this turn",
        "/tools/ask_gpt: a tool needs turns or cases",
    ];
    assert_eq!(faults, expected);
}
