//! A line in words: `write_file(path: a.md)`, `worker ended: completed`.
//!
//! Every entry is taken apart without `..`, so that a new field is not forgotten. A field that the words leave out is bound
//! to `_`.

use std::sync::Arc;

use baton_types::call::{CallError, CallResult, CallStatus, ModelCall, Suspension};
use baton_types::config::PROGRAM_MODEL;
use baton_types::document::{ContentFacts, DocumentVersion};
use baton_types::entry::{
    BudgetSettled, CallApproved, CallAskedModel, CallFinished, CallMade, CallRefused, CallStarted, CallSuspended, Compacted,
    Control, ControlAction, Entry, FellBack, FinalState, Holder, ModelAnswered, ModelRequested, Notice, Output, QuestionClosed,
    QuestionEnd, QuestionOpened, RunEnded, RunStarted, SubtreeClosed, TaskCreated, TaskEnded, TaskKind, TaskReported, Waited,
};
use baton_types::json::Json;
use baton_types::limits::LimitKind;
use baton_types::model::Usage;
use baton_types::tool_type::Then;
use serde_json::Value;

use crate::figures::{self, counted, preview};
use crate::line::{DocumentReference, Line};

/// Number of characters shown of a request, a message or a text.
const TEXT: usize = 160;
/// Number of characters shown of one value of an input.
const VALUE: usize = 60;
/// Number of closed tasks that are named.
const NAMED_TASKS: usize = 8;

/// One line in words: a subject, and what happened. The texts of models, tools and people in it are cut, but not escaped.
#[derive(Clone, Debug, PartialEq)]
pub struct Sentence {
    /// The subject: an agent, a person, the run or a question.
    pub subject: String,
    /// The words after the subject.
    pub parts: Vec<Part>,
    /// Whether it belongs into a short report of the run. Requests, answers and successful calls do not.
    pub is_milestone: bool,
}

/// Words of one tone.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// Their tone.
    pub tone: Tone,
    /// The words.
    pub text: String,
}

/// The weight of words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// As the rest.
    Plain,
    /// The name of a thing.
    Name,
    /// Of less weight.
    Faint,
    /// Something good.
    Good,
    /// Something bad.
    Bad,
}

impl std::fmt::Display for Sentence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ", self.subject)?;
        self.parts.iter().try_for_each(|part| f.write_str(&part.text))
    }
}

impl Sentence {
    fn of(subject: impl ToString) -> Self {
        Self { subject: subject.to_string(), parts: Vec::new(), is_milestone: false }
    }

    fn with(mut self, tone: Tone, text: impl Into<String>) -> Self {
        self.parts.push(Part { tone, text: text.into() });
        self
    }

    fn plain(self, text: impl Into<String>) -> Self {
        self.with(Tone::Plain, text)
    }

    fn name(self, text: impl Into<String>) -> Self {
        self.with(Tone::Name, text)
    }

    fn faint(self, text: impl Into<String>) -> Self {
        self.with(Tone::Faint, text)
    }

    fn good(self, text: impl Into<String>) -> Self {
        self.with(Tone::Good, text)
    }

    fn bad(self, text: impl Into<String>) -> Self {
        self.with(Tone::Bad, text)
    }

    fn milestone(mut self) -> Self {
        self.is_milestone = true;
        self
    }
}

/// Puts `line` into words.
pub fn sentence(line: &Line) -> Sentence {
    let said = Sentence::of(line.holder.as_ref().map_or_else(|| "run".to_owned(), Holder::to_string));
    let documents = attached(&line.documents);
    match &line.entry {
        Entry::RunStarted(started) => run_started(said, line, started),
        Entry::TaskCreated(created) => task_created(said, line, created),
        Entry::ModelRequested(requested) => model_requested(said, requested),
        Entry::FellBack(fell) => {
            let FellBack { task: _, turn, from, to, error } = &**fell;
            said.plain(format!("asks {to} instead of {from} (turn {turn}): ")).bad(message(error)).milestone()
        }
        Entry::ModelAnswered(answered) => model_answered(said, answered),
        Entry::CallRefused(CallRefused { task: _, call: _, tool, tool_type: _, error }) => {
            said.name(shown(tool.as_str())).plain(arguments(&line.input)).bad(format!(" refused: {}", message(error))).milestone()
        }
        Entry::CallApproved(CallApproved { task: _, call: _, tool, call_hash: _, input, class, by_class }) => {
            let changed = input.as_ref().map(|input| format!(" with {}", preview(input.text(), VALUE))).unwrap_or_default();
            let class: Vec<String> = class.iter().map(ToString::to_string).collect();
            let class =
                if class.is_empty() { String::new() } else { format!(", also later calls where {}", class.join(" and ")) };
            let by_class = by_class.as_ref().map(|call| format!(" with the class of call {call}")).unwrap_or_default();
            said.name(shown(tool.as_str())).plain(format!("{} approved{by_class}{changed}{class}", arguments(&line.input)))
        }
        Entry::CallStarted(CallStarted { task: _, call, tool, tool_type, documents: _, target, input: _, envs: _ }) => {
            match (tool_type.behavior().then, target) {
                (Then::Block, Some(target)) => {
                    let task = call.created_task();
                    said.name(tool.as_str()).plain(format!(" → {target} (task {task}): {}", values(&line.input)))
                }
                _ => said.name(tool.as_str()).plain(arguments(&line.input)),
            }
        }
        Entry::CallAskedModel(asked) => {
            let CallAskedModel { task: _, by, model, input_tokens, reserved_tokens: _, reserved_cost: _ } = &**asked;
            let tokens = figures::count(*input_tokens);
            said.faint(format!("asks {model} from the code of call {} (≈{tokens} tokens)", by.call))
        }
        Entry::CallMade(CallMade { task: _, call, asked }) => {
            let called = said.name(shown(&asked.tool)).plain(arguments(&line.input));
            match call.outer().filter(|_| !call.is_acceptance()) {
                Some((outer, _)) => called.faint(format!(" from the code of call {outer}")),
                None => called.faint(" to accept the result of this turn"),
            }
        }
        Entry::CallSuspended(suspended) => {
            let CallSuspended { task: _, call: _, tool, suspension: Suspension { until, output } } = &**suspended;
            let said = said.name(tool.as_str()).plain(arguments(&line.input));
            match (until, output) {
                (Some(until), Some(_)) => said.plain(format!(" is suspended until {until}")),
                (Some(until), None) => said.plain(format!(" waits for a delivery until {until}")),
                (None, _) => said.plain(" waits for a delivery"),
            }
        }
        Entry::CallFinished(finished) => call_finished(said, line, finished).plain(documents),
        Entry::DocumentWritten(version) => document_written(said, version),
        Entry::QuestionOpened(opened) => question_opened(line, opened).plain(documents).milestone(),
        Entry::QuestionClosed(QuestionClosed { task: _, number, how }) => question_closed(*number, how),
        Entry::Output(Output { task: _, call: _, status: _, output }) => said.plain(format!("output: {}", shown(&output.text()))),
        Entry::BudgetSettled(settled) => budget_settled(said, settled),
        Entry::Compacted(Compacted { task: _, through_turn, summary, summary_tokens: _, context_tokens }) => {
            let what = summary.as_ref().map_or_else(|| "digest".to_owned(), |text| format!("summary ({})", preview(text, VALUE)));
            let tokens = figures::count(*context_tokens);
            said.plain(format!("turns up to {through_turn} are replaced by a {what}: ≈{tokens} tokens next")).milestone()
        }
        Entry::Control(control) => control_words(said, control),
        Entry::SubtreeClosed(SubtreeClosed { task: _, reason, tasks }) => {
            let mut names: Vec<String> = tasks.iter().take(NAMED_TASKS).map(ToString::to_string).collect();
            if tasks.len() > NAMED_TASKS {
                names.push("…".to_owned());
            }
            let (count, names) = (counted(tasks.len(), "task"), names.join(", "));
            said.plain(format!("closes {count} below it ({names}): {}", shown(reason))).milestone()
        }
        Entry::TaskEnded(ended) => task_ended(said, line, ended).plain(documents),
        Entry::TaskReported(reported) => {
            let TaskReported { task: _, call: _, tool: _, ended, result, said: _ } = &**reported;
            let said = said.plain(format!("learns the result of {} (task {ended}): ", other_holder(line)));
            outcome(said, result).plain(documents)
        }
        Entry::RunEnded(RunEnded { state, status, limit }) => {
            said.plain(format!("ended: {}{}", end_word(*state, *status), limit_words(*limit)))
        }
    }
}

fn run_started(said: Sentence, line: &Line, started: &RunStarted) -> Sentence {
    let RunStarted {
        run: _,
        job,
        configs: _,
        folder: _,
        memory: _,
        request,
        inputs: _,
        model: _,
        prices: _,
        engine: _,
        forked_from: _,
        continues: _,
    } = started;
    said.name(line.run.as_str()).plain(format!(" · job {job} · {}", shown(request))).milestone()
}

fn task_created(said: Sentence, line: &Line, created: &TaskCreated) -> Sentence {
    let TaskCreated {
        task: _,
        kind,
        holder,
        caller: _,
        tool: _,
        master: _,
        answers_for: _,
        begins_from: _,
        background,
        request,
        documents: _,
        depth: _,
        answer_schema: _,
        deadline: _,
        failed_attempts,
        last_failure: _,
        concern: _,
    } = created;
    let request = format!("{}{}", shown(request), attached(&line.documents));
    match kind {
        TaskKind::Root => said.plain(format!("begins: {request}")),
        TaskKind::Delegation => {
            let again = match (background, failed_attempts) {
                (true, _) => " (in the background)".to_owned(),
                (false, 0) => String::new(),
                (false, failed) => format!(" (attempt {})", failed + 1),
            };
            Sentence::of(other_holder(line)).plain(format!("→ {holder}{again}: {request}")).milestone()
        }
        TaskKind::Question => said.plain(format!("is asked: {request}")),
    }
}

fn model_requested(said: Sentence, requested: &ModelRequested) -> Sentence {
    let ModelRequested {
        task: _,
        turn,
        model,
        input_tokens,
        reserved_tokens: _,
        reserved_cost: _,
        says_result_schema: _,
        steers,
        notice,
        limits_left: _,
        pointers,
        conflicts,
        kept,
        bundle,
    } = requested;
    let notice = match notice {
        None | Some(Notice::LimitsLeft(_) | Notice::InputChanged(_) | Notice::NotAccepted { .. }) => String::new(),
        Some(Notice::Reminder { count, reason: _ }) => format!(", reminder {count}"),
        Some(Notice::LastTurn { limit }) => format!(" for a last turn ({limit})"),
        Some(Notice::Summarise { through_turn }) => format!(" for a summary of turns up to {through_turn}"),
        Some(Notice::Steer { text }) => format!(" with the message {}", preview(text, VALUE)),
    };
    let steers = if steers.is_empty() { String::new() } else { format!(", with {}", counted(steers.len(), "message")) };
    let bundled = bundle.as_ref().map_or(0, |bundle| bundle.results.len());
    let without = match pointers.len() + conflicts.len() + kept.len() + bundled {
        0 => String::new(),
        left_out => format!(", without {} for which there is no room", counted(left_out, "content")),
    };
    if model == PROGRAM_MODEL {
        return said.faint(format!("begins its program (turn {turn})"));
    }
    said.faint(format!("asks {model}{notice}{steers}{without} (turn {turn}, ≈{} tokens)", figures::count(*input_tokens)))
}

fn model_answered(said: Sentence, answered: &ModelAnswered) -> Sentence {
    let ModelAnswered { task: _, turn: _, text, calls, finish: _, kind: _, request: _, items: _, answered: _, recorded: _ } =
        answered;
    let mut words = Vec::new();
    if !text.is_empty() {
        words.push(shown(text));
    }
    if !calls.is_empty() {
        let name = |call: &Arc<ModelCall>| match &call.config_id {
            Some(config) => format!("{} ({config})", call.tool),
            None => call.tool.clone(),
        };
        let calls: Vec<String> = calls.iter().map(name).collect();
        words.push(format!("calls {}", shown(&calls.join(", "))));
    }
    said.plain(words.join(" · "))
}

fn call_finished(said: Sentence, line: &Line, finished: &CallFinished) -> Sentence {
    let CallFinished {
        task: _,
        call: _,
        tool,
        tool_type,
        result,
        after: _,
        repeat: _,
        delivered_by,
        result_of,
        said: _,
        conflicts: _,
        read: _,
        printed,
    } = finished;
    let said = said.name(tool.as_str());
    let said = match (tool_type.behavior().then, &line.with) {
        (Then::Block, Some(_)) => said.plain(format!(" ← {}: ", other_holder(line))),
        _ => said.plain(" → "),
    };
    let said = if result_of.is_some() { said.plain("stored ") } else { said };
    let said = match delivered_by {
        Some(by) => said.plain(format!("delivered by {by}: ")),
        None => said,
    };
    let said = outcome(said, result);
    let said = match printed {
        Some(printed) => said.plain(format!(" · printed {}", shown(printed))),
        None => said,
    };
    if result.status == CallStatus::Success { said } else { said.milestone() }
}

/// Adds the error or the output of a result.
fn outcome(said: Sentence, result: &CallResult) -> Sentence {
    let CallResult { status, output, error, documents: _ } = result;
    match error {
        Some(error) => said.bad(format!("{}: {}", status.as_str(), message(error))),
        None if output.is_null() => said.plain(status.as_str()),
        None => said.plain(values(&output.shown())),
    }
}

fn document_written(said: Sentence, version: &DocumentVersion) -> Sentence {
    let DocumentVersion { path: _, version: _, base: _, content, description: _, tags: _, task, call: _, created_by, at: _ } =
        version;
    let ContentFacts { hash: _, size_bytes, mime_type: _, token_count, summary: _ } = content;
    let said = match (task, created_by) {
        (Some(_), _) => said,
        (None, Some(by)) => Sentence::of(by),
        (None, None) => Sentence::of("job"),
    };
    let (size, tokens) = (figures::size(*size_bytes), figures::count(*token_count));
    said.plain(format!("wrote {} · {size} · ≈{tokens} tokens", version.reference())).milestone()
}

fn question_opened(line: &Line, opened: &QuestionOpened) -> Sentence {
    let QuestionOpened { task: _, number, asker: _, holder, question, documents: _, answer_schema: _, on_deadline: _ } = opened;
    Sentence::of(other_holder(line)).plain(format!("asks {holder} (Q{number}): {}", shown(question)))
}

fn question_closed(number: u32, how: &QuestionEnd) -> Sentence {
    let said = Sentence::of(format_args!("Q{number}")).milestone();
    match how {
        QuestionEnd::Answered { by, answer, recorded } => {
            let from = recorded.as_ref().map(|from| format!(", in run {}", from.run)).unwrap_or_default();
            said.plain(format!("answered by {by}{from}: {}", shown(&value(&answer.value()))))
        }
        QuestionEnd::Expired { default } if default.is_null() => said.plain("expired without an answer"),
        QuestionEnd::Expired { default } => {
            said.plain(format!("expired without an answer; its default is used: {}", shown(&value(&default.value()))))
        }
        QuestionEnd::Escalated { to, task } => said.plain(format!("passed on to {to} (task {task})")),
        QuestionEnd::Failed { reason } => said.plain(format!("closed: {}", shown(reason))),
    }
}

fn budget_settled(said: Sentence, settled: &BudgetSettled) -> Sentence {
    let BudgetSettled { task: _, turn: _, by, reserved_tokens, usage, unknown, cost } = settled;
    if *unknown {
        return said.faint(format!("may have used up to {} tokens; the usage is unknown", figures::count(*reserved_tokens)));
    }
    let Usage { input_tokens, output_tokens, cached_tokens: _, reasoning_tokens: _, estimated } = usage;
    let sign = if *estimated { "≈" } else { "" };
    let (input, output) = (figures::count(*input_tokens), figures::count(*output_tokens));
    let cost = cost.map_or_else(|| "? (no known price)".to_owned(), |cost| cost.to_string());
    let code = if by.is_some() { "used for a call's code" } else { "used" };
    said.faint(format!("{code} {sign}{input} in, {sign}{output} out: {cost}"))
}

fn control_words(said: Sentence, control: &Control) -> Sentence {
    let Control { task: _, action, by } = control;
    match action {
        ControlAction::Paused => said.plain(format!("paused by {by}")).milestone(),
        ControlAction::Unpaused => said.plain(format!("unpaused by {by}")).milestone(),
        ControlAction::Cancelled { reason } => said.plain(format!("cancelled by {by}: {}", shown(reason))).milestone(),
        ControlAction::Steered { text } => said.plain(format!("steered by {by}: {}", shown(text))).milestone(),
        ControlAction::TakenOver { process, after_death } => {
            let why = if *after_death { ", since its owner died" } else { "" };
            said.plain(format!("continues in {process}{why}")).milestone()
        }
        ControlAction::Quarantined { deaths } => {
            said.plain(format!("quarantined: {deaths} owners died, and no turn or call ended between")).milestone()
        }
        ControlAction::Adopted(adoption) => {
            let what = match (&adoption.follow_up, &adoption.fork) {
                (Some(_), _) => "continued",
                (None, Some(_)) => "forked",
                (None, None) => "migrated",
            };
            let changes = if adoption.changes.is_empty() { "no changes".to_owned() } else { adoption.changes.join(", ") };
            said.plain(format!("{what} by {by}: {}", shown(&changes))).milestone()
        }
        ControlAction::Waited(waited) => {
            let Waited { provider, reason, milliseconds, run_milliseconds: _, stops, uncharged: _ } = &**waited;
            let time = figures::elapsed(std::time::Duration::from_millis(*milliseconds));
            let stops = if *stops { "; the run stops" } else { "" };
            said.plain(format!("waited {time} for {provider}: {}{stops}", shown(reason)))
        }
        ControlAction::Late { what } => said.plain(format!("too late, so nothing changes: {}", shown(what))),
    }
}

fn task_ended(said: Sentence, line: &Line, ended: &TaskEnded) -> Sentence {
    let TaskEnded { task: _, state, result, limit, retry_at } = ended;
    let word = end_word(*state, result.status);
    let said = match &result.error {
        _ if result.status == CallStatus::Success => said.good(word),
        Some(error) => said.bad(format!("{word}: {}", message(error))),
        None => said.bad(word),
    };
    // The message of a reached limit names the limit.
    let limit = limit.filter(|limit| result.error.as_ref().is_none_or(|error| !error.message.contains(limit.as_str())));
    let again = retry_at.map(|at| format!(" · tried again in {}", figures::elapsed(at.since(line.at)))).unwrap_or_default();
    let said = said.plain(format!("{}{again}", limit_words(limit)));
    // The entry of a question describes its end.
    if line.task_kind == Some(TaskKind::Question) { said } else { said.milestone() }
}

/// Returns the end of a task or a run in one word: `completed` for a success only.
fn end_word(state: FinalState, status: CallStatus) -> &'static str {
    match state {
        FinalState::Completed if status != CallStatus::Success => status.as_str(),
        state => state.as_str(),
    }
}

fn limit_words(limit: Option<LimitKind>) -> String {
    limit.map(|limit| format!(" at {limit}")).unwrap_or_default()
}

/// Returns the holder of the task at the other end.
fn other_holder(line: &Line) -> String {
    let other = line.with.as_ref();
    other.map_or_else(String::new, |other| other.holder.as_ref().map_or_else(|| other.task.to_string(), Holder::to_string))
}

/// ` [a.md v1, b.csv v2]`, or nothing.
fn attached(documents: &[DocumentReference]) -> String {
    if documents.is_empty() {
        return String::new();
    }
    let names: Vec<String> = documents.iter().map(ToString::to_string).collect();
    format!(" [{}]", names.join(", "))
}

fn message(error: &CallError) -> String {
    shown(&error.message)
}

fn shown(text: &str) -> String {
    preview(text, TEXT)
}

/// `(path: a.md, content: # One …)`.
fn arguments(input: &Json) -> String {
    format!("({})", values(input))
}

/// `path: a.md, content: # One …`, or a value that is no object.
fn values(payload: &Json) -> String {
    match payload.value() {
        Value::Null => String::new(),
        Value::Object(fields) => {
            let pair = |(name, field): (&String, &Value)| format!("{}: {}", preview(name, VALUE), preview(&value(field), VALUE));
            fields.iter().map(pair).collect::<Vec<_>>().join(", ")
        }
        other => shown(&value(&other)),
    }
}

/// Returns a value without quotes where it is text.
fn value(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
