//! The scripted model: answers from a file, offline and the same every time.
//!
//! It keeps nothing between turns. Which answer is due follows from the request and the job's inputs, so a resumed or
//! replayed run gets the same answers. A script without templates never reads the conversation.
//!
//! It is *not* lenient: an agent that does something the script did not foresee fails the run, loudly.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use async_trait::async_trait;
use baton_types::call::{AfterExecution, ModelCall};
use baton_types::json::Json;
use baton_types::model::{FinishReason, ModelRequest, ModelTurn};
use serde_json::{Map, Value};

use crate::context::{CASE_VARIABLES, CallNames, TurnContext, VARIABLES};
use crate::error::ModelError;
use crate::model::{ContentSource, Model};
use crate::script::{
    AgentScript, CallScript, MalformedScript, ReplyScript, ScriptFault, ScriptFile, ToolScript, TurnScript, suggestion,
};
use crate::template::{Template, Variable, is_global};

/// A model that answers from a script.
#[derive(Debug)]
pub struct ScriptedModel {
    agents: BTreeMap<String, Agent>,
    /// Answers to requests of tools' code.
    tools: BTreeMap<String, Agent>,
    /// The inputs of the job; `null` if it has none.
    inputs: Json,
}

#[derive(Debug)]
struct Agent {
    turns: Turns,
    answers: Turns,
    cases: Vec<(Template, Turns)>,
    tasks: HashMap<String, Turns>,
}

/// A list of turns, and the names that its calls were given.
#[derive(Debug, Default)]
struct Turns {
    turns: Vec<Turn>,
    names: CallNames,
}

#[derive(Debug)]
struct Turn {
    text: Template,
    calls: Vec<Call>,
    finish: FinishReason,
}

#[derive(Debug)]
struct Call {
    tool: String,
    input: Input,
    malformed: Option<String>,
    request_id: Option<String>,
    return_to_llm: Option<bool>,
    after_execution: Option<AfterExecution>,
    config_id: Option<Box<str>>,
}

/// An input, compiled; what has no template is kept as JSON text, ready to be sent.
#[derive(Debug)]
enum Input {
    Fixed(Json, Value),
    Filled(Template),
    List(Vec<Input>),
    Object(Vec<(String, Input)>),
}

impl ScriptedModel {
    /// Compiles the script `text`, or returns all its faults.
    pub fn parse(text: &str) -> Result<Self, Vec<ScriptFault>> {
        let file = ScriptFile::read(text)?;
        let mut compiler = Compiler { faults: Vec::new() };
        let agents = file.agents.iter().map(|(id, script)| (id.clone(), compiler.agent(id, script))).collect();
        let tools = file.tools.iter().map(|(id, script)| (id.clone(), compiler.tool(id, script))).collect();
        if compiler.faults.is_empty() { Ok(Self { agents, tools, inputs: Json::null() }) } else { Err(compiler.faults) }
    }

    /// Returns the model for a run with these inputs of its job.
    #[must_use]
    pub fn with_inputs(self, inputs: Json) -> Self {
        Self { inputs, ..self }
    }

    fn respond(&self, request: &ModelRequest) -> Result<ModelTurn, ModelError> {
        if request.call.is_some() {
            return self.reply(request);
        }
        let unexpected = |reason| ModelError::Unexpected { agent: request.agent.clone(), turn: request.turn, reason };
        let agent = self.agents.get(request.agent.as_str()).ok_or_else(|| {
            let known = self.agents.keys().map(String::as_str).collect::<Vec<_>>();
            unexpected(if known.is_empty() {
                "it has no agents".to_owned()
            } else {
                format!("it has turns for {} only", known.join(", "))
            })
        })?;
        let turns = agent.turns(request, &self.inputs, request.is_question)?;
        let turn = (request.turn as usize).checked_sub(1).and_then(|index| turns.turns.get(index)).ok_or_else(|| {
            let kind = if request.is_question { "answering a question" } else { "its own tasks" };
            unexpected(format!("it has {} turns for {kind}", turns.turns.len()))
        })?;
        let context = if turn.is_fixed() {
            None
        } else {
            let master = if request.is_question {
                Arc::clone(&agent.turns(request, &self.inputs, false)?.names)
            } else {
                CallNames::default()
            };
            Some(TurnContext::new(request, &self.inputs, request.is_question, Arc::clone(&turns.names), master))
        };
        let text = match fill(&turn.text, context.as_ref())? {
            Value::String(text) => text,
            other => other.to_string(),
        };
        let calls = turn.calls.iter().map(|call| model_call(call, context.as_ref())).collect::<Result<Vec<_>, _>>()?;
        // The engine estimates what the turn used: it has added up the conversation already.
        Ok(ModelTurn { calls, finish: turn.finish, ..ModelTurn::text(text) })
    }
}

impl ScriptedModel {
    /// Answers a request of a tool's code. `request.agent` is the tool.
    fn reply(&self, request: &ModelRequest) -> Result<ModelTurn, ModelError> {
        let missing = || ModelError::NoReply { tool: request.agent.to_string(), request: request.turn };
        let tool = self.tools.get(request.agent.as_str()).ok_or_else(missing)?;
        let turns = tool.turns(request, &self.inputs, false)?;
        let turn = (request.turn as usize).checked_sub(1).and_then(|index| turns.turns.get(index)).ok_or_else(missing)?;
        let context = TurnContext::new(request, &self.inputs, false, CallNames::default(), CallNames::default());
        let text = match fill(&turn.text, Some(&context))? {
            Value::String(text) => text,
            other => other.to_string(),
        };
        Ok(ModelTurn { finish: turn.finish, ..ModelTurn::text(text) })
    }
}

fn model_call(call: &Call, context: Option<&TurnContext>) -> Result<ModelCall, ModelError> {
    let input = match &call.input {
        Input::Fixed(json, _) => json.clone(),
        input => Json::from(filled(input, context)?),
    };
    Ok(ModelCall {
        malformed: call.malformed.as_deref().map(Box::from),
        provider_id: call.request_id.as_deref().map(Box::from),
        return_to_llm: call.return_to_llm,
        after_execution: call.after_execution,
        config_id: call.config_id.clone(),
        ..ModelCall::new(call.tool.clone(), input)
    })
}

fn filled(input: &Input, context: Option<&TurnContext>) -> Result<Value, ModelError> {
    Ok(match input {
        Input::Fixed(_, value) => value.clone(),
        Input::Filled(template) => fill(template, context)?,
        Input::List(items) => Value::Array(items.iter().map(|item| filled(item, context)).collect::<Result<_, _>>()?),
        Input::Object(fields) => {
            let fields = fields.iter().map(|(key, field)| Ok((key.clone(), filled(field, context)?)));
            Value::Object(fields.collect::<Result<Map<_, _>, ModelError>>()?)
        }
    })
}

fn fill(template: &Template, context: Option<&TurnContext>) -> Result<Value, ModelError> {
    match (template, context) {
        (Template::Plain(text), _) => Ok(Value::String(text.clone())),
        (template, Some(context)) => template.fill(context).map_err(template_error),
        (template, None) => unreachable!("a turn with the template {template:?} has a context"),
    }
}

#[async_trait]
impl Model for ScriptedModel {
    fn makes_calls_itself(&self) -> bool {
        true
    }

    async fn answer(&self, request: &ModelRequest, _contents: &dyn ContentSource) -> Result<ModelTurn, ModelError> {
        self.respond(request)
    }
}

impl Agent {
    /// Returns the turns that answer `request`: those of a master if `asks` is true, otherwise its own.
    fn turns(&self, request: &ModelRequest, inputs: &Json, asks: bool) -> Result<&Turns, ModelError> {
        if let Some(turns) = self.tasks.get(request.task.as_str()) {
            return Ok(turns);
        }
        if !self.cases.is_empty() {
            let context = TurnContext::new(request, inputs, asks, CallNames::default(), CallNames::default());
            for (condition, turns) in &self.cases {
                if condition.holds(&context).map_err(template_error)? {
                    return Ok(turns);
                }
            }
        }
        Ok(if asks { &self.answers } else { &self.turns })
    }
}

impl Turn {
    fn is_fixed(&self) -> bool {
        matches!(self.text, Template::Plain(_)) && self.calls.iter().all(|call| matches!(call.input, Input::Fixed(..)))
    }
}

fn template_error((place, message): (String, String)) -> ModelError {
    ModelError::Template { place, message }
}

/// Compiles a script, gathering faults.
struct Compiler {
    faults: Vec<ScriptFault>,
}

/// The names that `results` has for a template.
type Known = BTreeSet<String>;

impl Compiler {
    fn agent(&mut self, id: &str, script: &AgentScript) -> Agent {
        let pointer = format!("/agents/{}", id.replace('~', "~0").replace('/', "~1"));
        if script.turns.is_empty() && script.answers.is_empty() && script.cases.is_empty() && script.tasks.is_empty() {
            self.faults.push(ScriptFault::new(&pointer, "an agent needs turns, answers, cases or tasks"));
        }
        // A question is answered on the transcript of the agent's own task: its results are seen as well.
        let all: Known = script.turns.iter().chain(script.cases.iter().flat_map(|case| &case.turns)).flat_map(names_of).collect();
        Agent {
            turns: self.turns(&format!("{pointer}/turns"), &script.turns, Known::new()),
            answers: self.turns(&format!("{pointer}/answers"), &script.answers, all.clone()),
            cases: (script.cases.iter().enumerate())
                .map(|(index, case)| {
                    let pointer = format!("{pointer}/cases/{index}");
                    let condition = self.condition(&format!("{pointer}/when"), &case.when);
                    (condition, self.turns(&format!("{pointer}/turns"), &case.turns, all.clone()))
                })
                .collect(),
            tasks: (script.tasks.iter())
                .map(|(task, turns)| {
                    let pointer = format!("{pointer}/tasks/{}", task.replace('~', "~0").replace('/', "~1"));
                    (task.clone(), self.turns(&pointer, turns, all.clone()))
                })
                .collect(),
        }
    }

    fn tool(&mut self, id: &str, script: &ToolScript) -> Agent {
        let pointer = format!("/tools/{}", id.replace('~', "~0").replace('/', "~1"));
        if script.turns.is_empty() && script.cases.is_empty() {
            self.faults.push(ScriptFault::new(&pointer, "a tool needs turns or cases"));
        }
        Agent {
            turns: self.replies(&format!("{pointer}/turns"), &script.turns),
            answers: Turns::default(),
            cases: (script.cases.iter().enumerate())
                .map(|(index, case)| {
                    let pointer = format!("{pointer}/cases/{index}");
                    let condition = self.condition(&format!("{pointer}/when"), &case.when);
                    (condition, self.replies(&format!("{pointer}/turns"), &case.turns))
                })
                .collect(),
            tasks: HashMap::new(),
        }
    }

    fn replies(&mut self, pointer: &str, script: &[ReplyScript]) -> Turns {
        let turn = |reply: &ReplyScript| TurnScript {
            text: reply.text.clone(),
            calls: Vec::new(),
            finish: reply.finish,
            literal: reply.literal,
        };
        self.turns(pointer, &script.iter().map(turn).collect::<Vec<_>>(), Known::new())
    }

    fn turns(&mut self, pointer: &str, script: &[TurnScript], mut known: Known) -> Turns {
        let mut names = HashMap::new();
        let turns = (script.iter().enumerate())
            .map(|(index, turn)| {
                let pointer = format!("{pointer}/{index}");
                for (position, call) in turn.calls.iter().enumerate() {
                    let Some(name) = &call.name else { continue };
                    if names.values().any(|taken| taken == name) {
                        self.faults.push(ScriptFault::new(
                            format!("{pointer}/calls/{position}/as"),
                            format!("the name {name:?} is already taken"),
                        ));
                    }
                    names.insert((index as u32 + 1, position as u32 + 1), name.clone());
                }
                let turn_compiled = self.turn(&pointer, turn, &known);
                known.extend(names_of(turn));
                turn_compiled
            })
            .collect();
        Turns { turns, names: Arc::new(names) }
    }

    fn turn(&mut self, pointer: &str, script: &TurnScript, known: &Known) -> Turn {
        let finish = script.finish.unwrap_or(if script.calls.is_empty() { FinishReason::Stop } else { FinishReason::ToolCalls });
        let text = if script.literal {
            Template::Plain(script.text.clone())
        } else {
            self.template(&format!("{pointer}/text"), &script.text, known)
        };
        let calls = (script.calls.iter().enumerate())
            .map(|(index, call)| {
                let pointer = format!("{pointer}/calls/{index}");
                let input = match (&call.malformed, script.literal) {
                    (Some(malformed), _) => self.malformed(&pointer, call, malformed),
                    (None, true) => fixed(Value::Object(call.input.clone())),
                    (None, false) => self.object(&format!("{pointer}/input"), &call.input, known),
                };
                Self::call(call, input)
            })
            .collect();
        Turn { text, calls, finish }
    }

    /// Returns a malformed input, which excludes `input`.
    fn malformed(&mut self, pointer: &str, call: &CallScript, malformed: &MalformedScript) -> Input {
        if !call.input.is_empty() {
            self.faults.push(ScriptFault::new(format!("{pointer}/malformed"), "\"malformed\" and \"input\" exclude each other"));
        }
        fixed(malformed.arguments.clone())
    }

    fn call(script: &CallScript, input: Input) -> Call {
        Call {
            tool: script.tool.clone(),
            input,
            malformed: script.malformed.as_ref().and_then(|malformed| malformed.reason.clone()),
            request_id: script.request_id.clone(),
            return_to_llm: script.return_to_llm,
            after_execution: script.after_execution,
            config_id: script.config_id.clone(),
        }
    }

    fn input(&mut self, pointer: &str, value: &Value, known: &Known) -> Input {
        match value {
            Value::String(text) => match self.template(pointer, text, known) {
                Template::Plain(text) => fixed(Value::String(text)),
                template => Input::Filled(template),
            },
            Value::Array(items) => {
                let items: Vec<_> = items
                    .iter()
                    .enumerate()
                    .map(|(index, item)| self.input(&format!("{pointer}/{index}"), item, known))
                    .collect();
                if items.iter().all(is_fixed) {
                    fixed(Value::Array(items.into_iter().map(value_of).collect()))
                } else {
                    Input::List(items)
                }
            }
            Value::Object(fields) if fields.contains_key("$lines") => self.lines(pointer, fields, known),
            Value::Object(fields) => self.object(pointer, fields, known),
            Value::Null | Value::Bool(_) | Value::Number(_) => fixed(value.clone()),
        }
    }

    fn object(&mut self, pointer: &str, fields: &Map<String, Value>, known: &Known) -> Input {
        let fields: Vec<_> = fields
            .iter()
            .map(|(key, field)| {
                let escaped = key.replace('~', "~0").replace('/', "~1");
                (key.clone(), self.input(&format!("{pointer}/{escaped}"), field, known))
            })
            .collect();
        if fields.iter().all(|(_, field)| is_fixed(field)) {
            fixed(Value::Object(fields.into_iter().map(|(key, field)| (key, value_of(field))).collect()))
        } else {
            Input::Object(fields)
        }
    }

    /// `{"$lines": […]}`: a text of several lines, which JSON cannot write otherwise.
    fn lines(&mut self, pointer: &str, fields: &Map<String, Value>, known: &Known) -> Input {
        let lines: Option<Vec<_>> = fields
            .get("$lines")
            .and_then(Value::as_array)
            .map(|lines| lines.iter().map(Value::as_str).collect())
            .unwrap_or_default();
        let Some(lines) = lines.filter(|_| fields.len() == 1) else {
            self.faults.push(ScriptFault::new(pointer, "expected {\"$lines\": […]} with a list of strings and no other key"));
            return fixed(Value::Null);
        };
        let text: String = lines.iter().flat_map(|line| [line, "\n"]).collect();
        match self.template(&format!("{pointer}/$lines"), &text, known) {
            Template::Plain(text) => fixed(Value::String(text)),
            template => Input::Filled(template),
        }
    }

    fn template(&mut self, pointer: &str, source: &str, known: &Known) -> Template {
        match Template::read(pointer, source) {
            Ok((template, variables)) => {
                for variable in variables {
                    self.check(pointer, &variable, &VARIABLES, Some(known));
                }
                template
            }
            Err(message) => self.fault(pointer, message),
        }
    }

    fn condition(&mut self, pointer: &str, source: &str) -> Template {
        match Template::condition(pointer, source) {
            Ok((template, variables)) => {
                for variable in variables {
                    self.check(pointer, &variable, &CASE_VARIABLES, None);
                }
                template
            }
            Err(message) => self.fault(pointer, message),
        }
    }

    fn fault(&mut self, pointer: &str, message: String) -> Template {
        self.faults.push(ScriptFault::new(pointer, message));
        Template::Plain(String::new())
    }

    /// Finds variables that will be undefined whenever the template is filled.
    fn check(&mut self, pointer: &str, variable: &Variable, names: &[&str], known: Option<&Known>) {
        let Some(name) = variable.first().filter(|name| !is_global(name)) else { return };
        if !names.contains(&name.as_str()) {
            let message = format!("undefined variable {name:?}; there are {}{}", names.join(", "), suggestion(name, names));
            self.faults.push(ScriptFault::new(pointer, message));
        } else if let (Some(known), "results", Some(result)) = (known, name.as_str(), variable.get(1))
            && !known.contains(result)
        {
            let known: Vec<_> = known.iter().map(String::as_str).collect();
            let message = if known.is_empty() {
                format!("undefined variable \"results.{result}\"; no call was made before this turn")
            } else {
                format!("undefined variable \"results.{result}\"; there are {}{}", known.join(", "), suggestion(result, &known))
            };
            self.faults.push(ScriptFault::new(pointer, message));
        }
    }
}

fn names_of(turn: &TurnScript) -> impl Iterator<Item = String> + '_ {
    turn.calls.iter().flat_map(|call| [Some(call.tool.clone()), call.name.clone()]).flatten()
}

fn fixed(value: Value) -> Input {
    Input::Fixed(Json::from(&value), value)
}

fn is_fixed(input: &Input) -> bool {
    matches!(input, Input::Fixed(..))
}

fn value_of(input: Input) -> Value {
    match input {
        Input::Fixed(_, value) => value,
        Input::Filled(_) | Input::List(_) | Input::Object(_) => Value::Null,
    }
}
