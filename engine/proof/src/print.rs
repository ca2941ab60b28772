//! A timeline as text, one line per entry, indented by the depth of its task.
//!
//! Every entry is taken apart without `..`, so that a new field cannot be forgotten here. What is left out on purpose
//! is bound to a name that begins with an underscore: moments, hashes, token counts and the texts of errors.

use std::fmt::Write as _;

use baton_types::call::{AfterExecution, CallError, CallResult, ModelCall, Suspension};
use baton_types::document::{DocumentRef, DocumentVersion};
use baton_types::entry::{
    BudgetSettled, Bundle, CallApproved, CallAskedModel, CallFinished, CallMade, CallRefused, CallStarted, CallSuspended,
    Compacted, Concern, Conflict, Control, ControlAction, Entry, FellBack, KeptResult, Master, ModelAnswered, ModelRequested,
    Notice, OnDeadline, Output, QuestionClosed, QuestionEnd, QuestionOpened, Recorded, RunEnded, RunStarted, Said, SubtreeClosed,
    TaskCreated, TaskEnded, TaskKind, TaskReported, Waited,
};
use baton_types::id::TaskId;
use baton_types::json::Json;
use baton_types::limits::LimitKind;
use baton_types::model::FinishReason;

/// Returns all of `timeline`.
pub fn timeline(timeline: &[Recorded]) -> String {
    let mut text = String::new();
    for Recorded { seq: _seq, decision: _decision, at: _at, entry } in timeline {
        let Some(line) = line(entry) else { continue };
        let depth = entry.task().map_or(0, depth);
        let _ = writeln!(text, "{:indent$}{line}", "", indent = depth * 2);
    }
    text
}

/// Returns the depth of `task`: the number of tasks that wait for it, one for the other.
fn depth(task: &TaskId) -> usize {
    task.as_str().matches('/').count()
}

/// Returns one entry; `None` for what only the accounts need.
pub fn line(entry: &Entry) -> Option<String> {
    Some(match entry {
        Entry::RunStarted(started) => run_started(started),
        Entry::TaskCreated(created) => task_created(created),
        Entry::ModelRequested(ModelRequested {
            task,
            turn,
            model: _model,
            input_tokens: _input_tokens,
            reserved_tokens: _reserved_tokens,
            reserved_cost: _reserved_cost,
            says_result_schema: _says_result_schema,
            steers,
            notice,
            limits_left,
            pointers,
            conflicts,
            kept,
            bundle,
        }) => {
            let steers: Vec<String> = steers.iter().map(|text| format!(" [steer {text:?}]")).collect();
            let pointers: Vec<String> = pointers.iter().map(|document| format!(" [pointer {document}]")).collect();
            let kept = kept.iter().map(|KeptResult { call, output }| format!(" [result {call} in {}]", output.document));
            let (steers, pointers, kept) = (steers.concat(), pointers.concat(), kept.collect::<String>());
            let conflicts: Vec<String> = conflicts.iter().map(|document| format!(" [changes of {document}]")).collect();
            let bundle = bundle.as_deref().map(|Bundle { results, documents, document }| {
                format!(" [{} results and {} records in {document}]", results.len(), documents.len())
            });
            let kept = format!("{}{kept}{}", conflicts.concat(), bundle.unwrap_or_default());
            let left = limits_left.clone().map(|left| notice_text(&Notice::LimitsLeft(left)));
            let notice = notice.as_ref().map(notice_text).into_iter().chain(left).collect::<String>();
            format!("{task} turn {turn} asked{steers}{notice}{pointers}{kept}")
        }
        Entry::FellBack(fell) => {
            let FellBack { task, turn, from, to, error } = &**fell;
            format!("{task} turn {turn} asks {to} instead of {from}: {}", code(error))
        }
        Entry::ModelAnswered(ModelAnswered {
            task,
            turn,
            text,
            calls,
            finish,
            kind: _kind,
            request: _request,
            items: _items,
            answered: _answered,
            recorded: _recorded,
        }) => {
            let calls: Vec<String> = calls.iter().map(|call| model_call(call)).collect();
            let mut line = format!("{task} turn {turn}:");
            if !text.is_empty() {
                let _ = write!(line, " {text:?}");
            }
            if !calls.is_empty() {
                let _ = write!(line, " {}", calls.join(", "));
            }
            if !matches!(finish, FinishReason::Stop | FinishReason::ToolCalls) {
                let _ = write!(line, " [{finish:?}]");
            }
            line
        }
        Entry::CallRefused(CallRefused { task: _task, call, tool, tool_type: _tool_type, error }) => {
            format!("{call} {tool} refused {}", code(error))
        }
        Entry::CallAskedModel(asked) => {
            let CallAskedModel { task: _task, by, model, input_tokens: _input, reserved_tokens: _tokens, reserved_cost: _cost } =
                &**asked;
            format!("{} asks {model} ({})", by.call, by.request)
        }
        Entry::CallApproved(CallApproved { task: _task, call, tool, call_hash: _binds, input, class, by_class }) => {
            let input = input.as_ref().map(|input| format!(" with {}", input.text())).unwrap_or_default();
            let class: Vec<String> = class.iter().map(|condition| format!(" [also where {condition}]")).collect();
            let by_class = by_class.as_ref().map(|call| format!(" by the class of {call}")).unwrap_or_default();
            format!("{call} {tool} approved{by_class}{input}{}", class.concat())
        }
        Entry::CallStarted(CallStarted { task: _task, call, tool, tool_type: _tool_type, documents, target, input, envs }) => {
            let input = input.as_ref().map(|input| format!(" with {}", input.text())).unwrap_or_default();
            let envs: Vec<String> = envs.iter().map(|(name, variable)| format!(" [{name} from {variable}]")).collect();
            let target = target.as_ref().map(|target| format!(" → {target}")).unwrap_or_default();
            format!("{call} {tool} started{target}{input}{}{}", envs.concat(), document_list(documents))
        }
        Entry::CallMade(CallMade { task: _task, call, asked }) => format!("{call} {} made", asked.tool),
        Entry::CallSuspended(suspended) => {
            let CallSuspended { task: _task, call, tool, suspension: Suspension { until, output } } = &**suspended;
            let until = until.map(|until| format!(" until {until}")).unwrap_or_default();
            let output = output.as_ref().map(|output| format!(", then {}", output.text())).unwrap_or_default();
            format!("{call} {tool} suspended{until}{output}")
        }
        Entry::CallFinished(CallFinished {
            task: _task,
            call,
            tool,
            tool_type: _tool_type,
            result,
            after,
            repeat,
            delivered_by,
            result_of,
            said,
            conflicts,
            read,
            printed,
        }) => {
            let mut line = format!("{call} {tool} {}", result_text(result));
            for read in read {
                let _ = write!(line, " (read {read})");
            }
            if *after == AfterExecution::Terminate {
                line.push_str(" [terminate]");
            }
            if let Some(by) = delivered_by {
                let _ = write!(line, " [by {by}]");
            }
            if let Some(earlier) = result_of {
                let _ = write!(line, " [of {earlier}]");
            }
            if *repeat > 1 {
                let _ = write!(line, " ×{repeat}");
            }
            for Conflict { path, base, current } in conflicts {
                let base = base.map_or_else(|| "nothing".to_owned(), |base| format!("v{base}"));
                let _ = write!(line, " (knew {base} of {path}, current is v{current})");
            }
            line.push_str(&said_list(said));
            if let Some(printed) = printed {
                let _ = write!(line, " (printed {printed:?})");
            }
            line
        }
        Entry::DocumentWritten(version) => document_written(version),
        Entry::QuestionOpened(opened) => question_opened(opened),
        Entry::QuestionClosed(QuestionClosed { task: _task, number, how }) => format!("Q{number} closed: {}", question_end(how)),
        Entry::Output(Output { task: _task, call, status, output }) => {
            format!("{call} to the user: {} {}", status.as_str(), output.text())
        }
        Entry::BudgetSettled(BudgetSettled {
            task: _task,
            turn: _turn,
            by: _by,
            reserved_tokens: _reserved,
            usage: _usage,
            unknown: _unknown,
            cost: _cost,
        }) => {
            return None;
        }
        Entry::Compacted(Compacted { task, through_turn, summary, summary_tokens: _bound, context_tokens: _left }) => {
            match summary {
                Some(summary) => format!("{task} compacted through turn {through_turn}: {summary:?}"),
                None => format!("{task} compacted through turn {through_turn}"),
            }
        }
        Entry::Control(Control { task, action, by }) => {
            let whom = task.as_ref().map_or("run", TaskId::as_str);
            format!("{by} → {whom}: {}", control(action))
        }
        Entry::SubtreeClosed(SubtreeClosed { task, reason: _reason, tasks }) => {
            let tasks: Vec<&str> = tasks.iter().map(TaskId::as_str).collect();
            format!("{task} closes [{}]", tasks.join(", "))
        }
        Entry::TaskEnded(TaskEnded { task, state, result, limit, retry_at }) => {
            let retried = if retry_at.is_some() { ", to be tried again" } else { "" };
            format!("{task} {}: {}{}{retried}", state.as_str(), result_text(result), limit_text(*limit))
        }
        Entry::TaskReported(reported) => {
            let TaskReported { task, call, tool: _tool, ended, result, said } = &**reported;
            format!("{task} learns the end of {ended}, begun by {call}: {}{}", result_text(result), said_list(said))
        }
        Entry::RunEnded(RunEnded { state, status, limit }) => {
            format!("run {} ({}){}", state.as_str(), status.as_str(), limit_text(*limit))
        }
    })
}

/// Returns the questions and answers on an agent's behalf.
fn said_list(said: &[Said]) -> String {
    let one = |Said { asker, question, answer }: &Said| format!(" (answered {asker}: {question:?} {})", answer.text());
    said.iter().map(one).collect()
}

fn run_started(started: &RunStarted) -> String {
    let RunStarted {
        run: _run,
        job: _job,
        configs: _configs,
        folder: _folder,
        memory: _memory,
        request,
        inputs: _inputs,
        model: _model,
        prices: _prices,
        engine: _engine,
        forked_from: _forked_from,
        continues: _continues,
    } = started;
    format!("run started: {request}")
}

fn question_opened(opened: &QuestionOpened) -> String {
    let QuestionOpened {
        task: _task,
        number,
        asker,
        holder,
        question: _question,
        documents: _documents,
        answer_schema: _answer_schema,
        on_deadline,
    } = opened;
    let on_deadline = match on_deadline {
        OnDeadline::Default(answer) => format!("default {}", answer.text()),
        OnDeadline::Escalate => "escalate".to_owned(),
        OnDeadline::Fail => "fail".to_owned(),
    };
    format!("Q{number} opened: {asker} asks {holder}, on deadline {on_deadline}")
}

fn task_created(created: &TaskCreated) -> String {
    let TaskCreated {
        task,
        kind,
        holder,
        caller: _caller,
        tool: _tool,
        master,
        answers_for,
        begins_from,
        background,
        request,
        documents,
        depth: _depth,
        answer_schema,
        deadline,
        failed_attempts,
        last_failure: _,
        concern,
    } = created;
    let kind = match kind {
        TaskKind::Root => "root",
        TaskKind::Delegation => "task",
        TaskKind::Question => "question",
    };
    let request = if concern.is_some() { "its own words".to_owned() } else { format!("{request:?}") };
    let mut line = format!("{task} created: {kind} for {}, {request}{}", holder, document_list(documents));
    match master {
        Master::Task(task) => {
            let _ = write!(line, " master {task}");
        }
        Master::Person => line.push_str(" master you"),
    }
    if let Some(answered) = answers_for {
        let _ = write!(line, " in the name of {answered}");
    }
    if let Some(earlier) = begins_from {
        let _ = write!(line, " after the conversation of {earlier}");
    }
    if *background {
        line.push_str(" in the background");
    }
    if !answer_schema.is_null() && concern.is_none() {
        let _ = write!(line, " schema {}", answer_schema.text());
    }
    if deadline.is_some() {
        line.push_str(" with a deadline");
    }
    match concern {
        Some(Concern::Approval { call_hash: _binds }) => line.push_str(" [approval]"),
        Some(Concern::Outcome) => line.push_str(" [outcome]"),
        None => {}
    }
    if *failed_attempts > 0 {
        let _ = write!(line, " after {failed_attempts} that failed");
    }
    line
}

fn document_written(version: &DocumentVersion) -> String {
    let DocumentVersion {
        path,
        version,
        base,
        content: _content,
        description: _description,
        tags: _tags,
        task,
        call,
        created_by,
        at: _at,
    } = version;
    let author = match (task, call, created_by) {
        (_, Some(call), _) => call.to_string(),
        (Some(task), None, _) => task.to_string(),
        (None, None, Some(person)) => person.to_string(),
        (None, None, None) => "job".to_owned(),
    };
    let base = base.map(|base| format!(" from v{base}")).unwrap_or_default();
    format!("{path} v{version}{base} by {author}")
}

fn model_call(call: &ModelCall) -> String {
    let ModelCall { tool, name: _name, input, malformed, provider_id: _provider_id, return_to_llm, after_execution, config_id } =
        call;
    let mut text = tool.clone();
    if malformed.is_some() {
        let _ = write!(text, " malformed {}", input.text());
    }
    if let Some(back) = return_to_llm {
        let _ = write!(text, " return_to_llm={back}");
    }
    if let Some(after) = after_execution {
        let _ = write!(text, " {after:?}");
    }
    if let Some(config) = config_id {
        let _ = write!(text, " config_id={config}");
    }
    text
}

fn notice_text(notice: &Notice) -> String {
    match notice {
        Notice::Reminder { count, reason } => format!(" [reminder {count}: {reason:?}]"),
        Notice::Summarise { through_turn } => format!(" [summarise through turn {through_turn}]"),
        Notice::LastTurn { limit } => format!(" [last turn: {}]", limit.as_str()),
        Notice::Steer { text } => format!(" [steer {text:?}]"),
        Notice::LimitsLeft(_) | Notice::InputChanged(_) | Notice::NotAccepted { .. } => format!(" [{}]", notice.text()),
    }
}

fn result_text(result: &CallResult) -> String {
    let CallResult { status, output, error, documents } = result;
    let mut text = status.as_str().to_owned();
    if let Some(error) = error {
        let _ = write!(text, " {}", code(error));
    }
    if !output.is_null() {
        let _ = write!(text, " {}", output.text());
    }
    text + &document_list(documents)
}

fn code(error: &CallError) -> &'static str {
    let CallError { code, message: _message, detail: _detail } = error;
    code.as_str()
}

fn document_list(documents: &[DocumentRef]) -> String {
    if documents.is_empty() {
        return String::new();
    }
    let names: Vec<String> = documents.iter().map(DocumentRef::to_string).collect();
    format!(" [{}]", names.join(", "))
}

fn question_end(how: &QuestionEnd) -> String {
    match how {
        QuestionEnd::Answered { by, answer, recorded: _recorded } => format!("{by} answers {}", answer.text()),
        QuestionEnd::Expired { default } if default.is_null() => "expired".to_owned(),
        QuestionEnd::Expired { default } => format!("expired, so {}", Json::text(default)),
        QuestionEnd::Escalated { to, task } => format!("escalated to {to} as {task}"),
        QuestionEnd::Failed { reason: _reason } => "failed".to_owned(),
    }
}

fn control(action: &ControlAction) -> String {
    match action {
        ControlAction::Paused => "paused".to_owned(),
        ControlAction::Unpaused => "unpaused".to_owned(),
        ControlAction::Cancelled { reason } => format!("cancelled: {reason}"),
        ControlAction::Steered { text } => format!("steered: {text:?}"),
        ControlAction::TakenOver { process: _process, after_death: false } => "taken over".to_owned(),
        ControlAction::TakenOver { process: _process, after_death: true } => "taken over after a death".to_owned(),
        ControlAction::Quarantined { deaths } => format!("quarantined after {deaths} deaths"),
        ControlAction::Adopted(adoption) => format!("other configs: {}", adoption.changes.join(", ")),
        ControlAction::Waited(waited) => {
            let Waited { provider, reason: _reason, milliseconds, run_milliseconds, stops, uncharged } = &**waited;
            let stops = if *stops { ", and the run stops" } else { "" };
            let uncharged = if *uncharged { ", uncharged" } else { "" };
            format!("waited {milliseconds} ms ({run_milliseconds} ms of the run) for {provider}{stops}{uncharged}")
        }
        ControlAction::Late { what: _what } => "late".to_owned(),
    }
}

fn limit_text(limit: Option<LimitKind>) -> String {
    limit.map(|limit| format!(" by {limit}")).unwrap_or_default()
}
